"""The named data sets to look up: what is known of each, its schema, how to get it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppadmm import checks
from ppadmm.data.suggest import suggest_schema
from ppadmm.datasets.download import ADULT_URL, fetch_adult
from ppadmm.datasets.named import SOURCES, DataSource, data_folder
from ppadmm.errors import InputError

CITATION = "Adult (Becker and Kohavi, 1996, doi.org/10.24432/C5XW20), licence CC BY 4.0."


def facts(source: DataSource, folder: Path | None) -> dict[str, Any]:
    """Return what is known of a data set, and whether it is in `folder`; fit for JSON."""
    return {
        "name": source.name,
        "present": source.present(folder),
        "records": source.records,
        "features": source.features,
        "origin": source.origin,
        "licence": source.licence,
    }


def schema_text(source: str, label: str | None = None) -> str:
    """Return the schema of a named data set, or a draft for a CSV or Parquet file, as TOML.

    A draft needs the name of the label column, and a person to correct and confirm it.
    """
    if source not in SOURCES:
        return suggest_schema(source, label)
    if label is not None:
        raise InputError(f"{source!r} has a label already; give --label to files only.")
    known = SOURCES[source]
    head = f"# {known.name}: {known.features} features and the intercept, from {known.origin}.\n"
    return head + known.schema.to_toml()


@dataclass(frozen=True)
class Fetched:
    """What came of fetching a data set: what a person reads, and the files that are new.

    `text` may be steps that only a person can take. `problem` says why the data set is not here.
    """

    name: str
    text: str
    written: tuple[str, ...] = ()
    problem: str = ""


def fetch(name: str, data_dir: str | Path | None = None, url: str | None = None) -> Fetched:
    """Download a data set and check it, or say how a person gets it.

    It goes into `data_dir`, by default the folder that PPADMM_DATA names. `url` is a mirror; the
    checksums must match all the same.
    """
    source = SOURCES[checks.one_of("data set", name, SOURCES)]
    folder = data_folder(data_dir)
    if source.find is None:
        return Fetched(name, f"{name} is made up when it is used: there is nothing to fetch.")
    if folder is None:
        raise InputError("Which folder? Name it with --data-dir or PPADMM_DATA.")
    if not source.steps:
        return _download(name, folder, url)
    if source.present(folder):
        return Fetched(name, f"{name} is in {folder} already.")
    return Fetched(name, source.steps, problem=(
        f"{name!r} ({source.origin}, {source.licence}) cannot be fetched by a program; "
        "follow the steps above."
    ))  # fmt: skip


def _download(name: str, folder: Path, url: str | None) -> Fetched:
    files = tuple(str(file) for file in fetch_adult(folder, url or ADULT_URL))
    said = [f"{file}: written" for file in files] or [f"Adult is in {folder} already"]
    lines = [f"{each}, SHA-256 as expected." for each in said]
    return Fetched(name, "\n".join([*lines, CITATION]), files)
