"""Files that are there whole or not at all."""

import os
import secrets
from pathlib import Path


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
