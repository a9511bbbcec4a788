"""The download of UCI Adult: checked by SHA-256 before a file takes its name.

What is fetched does not have to be trusted, only to have the right checksums; so any mirror will
do. A download that fails leaves nothing behind and can be started again.
"""

import io
import secrets
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ppadmm.canonical import digest
from ppadmm.datasets.adult import plain_or_gz, unzipped
from ppadmm.errors import DataError, InputError
from ppadmm.files import write_whole

ADULT_URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
CHECKSUMS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
"""SHA-256 of the unzipped files."""

MOST_BYTES = 20_000_000
SILENCE, DEADLINE = 30.0, 600.0
"""Seconds without a byte, and in all, before a download is given up."""
_CHUNK = 1 << 16


def fetch_adult(
    folder: Path, url: str = ADULT_URL, *, silence: float = SILENCE, deadline: float = DEADLINE
) -> list[Path]:
    """Download adult.data and adult.test into `folder` and return the new files.

    Files that are there with the right checksum are kept, so that nothing may be left to do; one
    that is there with another content is never overwritten.

    Guarantee: a file with one of these names that this function wrote has the checksum above.
    """
    lacking = [name for name in CHECKSUMS if not _is_there(folder, name)]
    if not lacking:
        return []
    _require_writable(folder)
    archive = _download(url, silence, deadline)
    contents = {folder / name: _member(archive, name, url) for name in lacking}
    with _cannot_write(folder):
        for path, content in contents.items():
            write_whole(path, content)
    return [*contents]


def _is_there(folder: Path, name: str) -> bool:
    file = plain_or_gz(folder, name)
    if file is None:
        return False
    if digest(unzipped(file)) != CHECKSUMS[name]:
        raise DataError(
            f"{str(file)!r} is there already, but it is not the file of the UCI repository (its "
            "SHA-256 differs); move it away first."
        )
    return True


def _require_writable(folder: Path) -> None:
    """Find out before the download that the folder will not take its result."""
    with _cannot_write(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".ppadmm-{secrets.token_hex(4)}"
        probe.touch(exist_ok=False)
        probe.unlink()


def _download(url: str, silence: float, deadline: float) -> bytes:
    """Return what `url` answers: at most `MOST_BYTES`, all of it."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    if urlsplit(url).scheme not in ("https", "http"):
        raise InputError(f"Expected an https:// or http:// address, got {url!r}.")
    try:
        request = Request(url, headers={"User-Agent": "ppadmm"})  # noqa: S310
        with urlopen(request, timeout=silence) as answer:  # noqa: S310
            return _all_of(answer, url, time.monotonic() + deadline)
    except DataError:
        raise
    except HTTPError as error:
        error.close()
        raise _failed(url, f"it answered {error.code} {error.reason}".strip()) from None
    except URLError as error:
        raise _failed(url, f"it cannot be reached, is there a network? ({error.reason})") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _failed(url, f"the connection broke off ({error})") from None


def _all_of(answer: Any, url: str, until: float) -> bytes:
    announced = answer.headers.get("Content-Length")
    content = bytearray()
    while chunk := answer.read1(_CHUNK):
        content += chunk
        if len(content) > MOST_BYTES:
            raise _failed(url, f"it sends more than {MOST_BYTES:,} bytes, too many for Adult")
        if time.monotonic() > until:
            raise _failed(url, "it took too long")
    if announced is not None and len(content) != int(announced):
        raise _failed(url, f"{len(content):,} of {int(announced):,} bytes arrived")
    return bytes(content)


def _member(archive: bytes, name: str, url: str) -> bytes:
    """Return one file of the archive, if its checksum is right."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files, files.open(name) as file:
            content = file.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise _failed(url, "what arrived is not a whole zip archive") from None
    except KeyError:
        raise _failed(url, f"the archive holds no {name}") from None
    if digest(content) != CHECKSUMS[name]:
        raise _failed(
            url, f"the checksum of {name} differs: expected {CHECKSUMS[name]}, got "
            f"{digest(content)}"
        )  # fmt: skip
    return content


def _failed(url: str, reason: str) -> DataError:
    return DataError(
        f"Cannot download Adult from {url}: {reason}; nothing was kept, so try again, name a "
        "mirror with --from, or unpack the archive into the data folder by hand."
    )


@contextmanager
def _cannot_write(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"Cannot write to the folder {str(folder)!r}: {reason}; choose another --data-dir."
        ) from None
