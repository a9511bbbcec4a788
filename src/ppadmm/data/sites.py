"""Which files are whose: a file, or a folder of files, is a site that is named after it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ppadmm.data.tables import SUFFIXES, is_csv
from ppadmm.errors import DataError, InputError

Given: TypeAlias = str | Path | Sequence[str | Path]
"""What a user names as data: a data set, a file, a folder, or several files and folders."""
MOST_NAMED = 3


@dataclass(frozen=True)
class SiteFiles:
    """The files of one site, in the order in which they are read."""

    name: str
    paths: tuple[Path, ...]


def spelt(given: Given) -> str | tuple[str, ...]:
    """Return what was named as one text, or as several of them."""
    if isinstance(given, str | Path):
        return str(given)
    if not isinstance(given, Sequence) or not all(isinstance(one, str | Path) for one in given):
        raise InputError(f"Expected data to be a name, a path or several paths, got {given!r}.")
    if not given:
        raise InputError("Expected data to name a data set or a file, got none.")
    return str(given[0]) if len(given) == 1 else tuple(map(str, given))


def called(given: Given) -> str:
    """Return a short name: that of the file or folder, or those of the sites, a few of them."""
    paths = paths_of(given)
    if len(paths) == 1:
        return paths[0].name
    names = [site_name(path) for path in paths]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def find_sites(given: Given) -> tuple[SiteFiles, ...]:
    """Return every file or folder that was named as a site; of a single folder, what is in it.

    Files in deeper folders count. Within a folder they come in the order of their names; hidden
    ones and those whose name begins with an underscore do not count. No record is read.
    """
    paths = paths_of(given)
    for path in paths:
        if not path.exists():
            what = "file" if path.name.lower().endswith(SUFFIXES) else "file or folder"
            raise DataError(f"There is no {what} {str(path)!r}.")
    entries = _visible(paths[0]) if len(paths) == 1 and paths[0].is_dir() else paths
    found = [(entry, SiteFiles(site_name(entry), tuple(_files(entry)))) for entry in entries]
    for entry, site in found:
        if not site.paths and len(paths) > 1:
            raise DataError(_no_files(entry))
    sites = tuple(site for _, site in found if site.paths)
    if not sites:
        raise DataError(_no_files(paths[0]))
    _check(sites)
    return sites


def is_streamed(given: Given) -> bool:
    """Whether records are read in pieces unless a user says otherwise: Parquet in a folder."""
    if not any(path.is_dir() for path in paths_of(given)):
        return False
    return not is_csv(find_sites(given)[0].paths[0])


def site_name(path: Path) -> str:
    """Return what a site is called: the name of its folder, or of its file without the ending."""
    ending = next((end for end in SUFFIXES[::-1] if path.name.lower().endswith(end)), "")
    return path.name if path.is_dir() or not ending else path.name[: -len(ending)] or path.name


def paths_of(given: Given) -> list[Path]:
    """Return what was named as paths."""
    named = spelt(given)
    return [Path(named)] if isinstance(named, str) else [Path(one) for one in named]


def _check(sites: Sequence[SiteFiles]) -> None:
    files = [path for site in sites for path in site.paths]
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        status = path.stat()
        first = seen.setdefault((status.st_dev, status.st_ino), path)
        if first is not path:
            also = "" if str(first) == str(path) else f", also as {str(first)!r}"
            raise DataError(f"The file {str(path)!r} is given twice{also}; name it once.")
    csv = [path for path in files if is_csv(path)]
    if csv and len(csv) < len(files):
        other = next(path for path in files if not is_csv(path))
        raise DataError(
            f"Expected files of one kind, got CSV ({str(csv[0])!r}) and Parquet ({str(other)!r}); "
            "write them all as one."
        )
    name, times = Counter(site.name for site in sites).most_common(1)[0]
    if times > 1:
        where = " and ".join(repr(str(site.paths[0])) for site in sites if site.name == name)
        raise DataError(
            f"Two agents would be called {name!r} ({where}); rename a file or a folder."
        )


def _no_files(path: Path) -> str:
    kinds = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if path.is_dir():
        return f"The folder {str(path)!r} holds no {kinds} file."
    return f"Cannot tell the format of {str(path)!r}; use {', '.join(SUFFIXES)}."


def _files(entry: Path) -> Iterator[Path]:
    if entry.is_dir():
        for inner in _visible(entry):
            yield from _files(inner)
    elif entry.name.lower().endswith(SUFFIXES):
        yield entry


def _visible(folder: Path) -> list[Path]:
    return [
        entry
        for entry in sorted(folder.iterdir())
        if not entry.name.startswith((".", "_"))
        and (entry.is_dir() or entry.name.lower().endswith(SUFFIXES))
    ]
