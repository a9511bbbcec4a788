"""Files that are there whole or not at all, and files that came by mail."""

import os
import secrets
from pathlib import Path

from ppadmm.errors import InputError

LONGEST_FILE = 1 << 20


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or what was there before."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read_small(path: Path) -> bytes:
    """Read a file that came by mail, if it has a reasonable size."""
    if path.stat().st_size > LONGEST_FILE:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; expected 1 MiB at most.")
    return path.read_bytes()
