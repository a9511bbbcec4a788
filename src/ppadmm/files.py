"""Files that are there whole or not at all, and files that came by mail.

What is written here is on the disk when the call returns, its name too: a crash loses none of it.
"""

import os
import secrets
from pathlib import Path

from ppadmm.errors import InputError, PpadmmError

LONGEST_FILE = 1 << 20
PUBLIC, PRIVATE = 0o666, 0o600
"""Modes of a new file: as the umask allows, or for its owner alone."""


def write_whole(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Write a file so that readers see all of it or what was there before."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_new(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Write a file that must not exist yet; of one that cannot be written nothing stays.

    The name is taken first, so that of two writers one is refused.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except FileExistsError:
        raise InputError(
            f"{str(path)!r} exists already and is not overwritten; choose another name, or move it "
            "away first."
        ) from None
    except OSError as error:
        raise _cannot(path, error) from None
    try:
        write_whole(path, content, mode)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot(path, error) from None
        raise


def write_private(path: Path, content: bytes) -> None:
    """Write a new secret that only its owner can read, into a folder that is made if need be."""
    if not path.parent.exists():  # where a file is in the way, the system names it better
        path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, content, PRIVATE)


def sync_files(folder: Path) -> None:
    """Bring the files of a folder to the disk before it takes its name."""
    for path in folder.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; where a folder cannot be opened, the system does."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_format(
    what: str, found: object, known: int, way: str, error: type[PpadmmError] = InputError
) -> None:
    """Refuse a file of another version, in one sentence that says the way out."""
    if type(found) is not int or found != known:
        said = "no format" if found is None else f"format {str(found)[:20]}"
        raise error(f"{what} has {said}, and this version reads format {known}; {way}.")


def read_small(path: Path) -> bytes:
    """Read a file that came by mail, if it has a reasonable size."""
    if path.stat().st_size > LONGEST_FILE:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; expected 1 MiB at most.")
    return path.read_bytes()


def _cannot(path: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"Cannot write {str(path)!r}: {reason}; choose another place.")
