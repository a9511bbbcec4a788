"""Whether a file is still the one that was looked at."""

from dataclasses import dataclass
from pathlib import Path

from ppadmm.errors import DataError


@dataclass(frozen=True)
class FileIdentity:
    """A file by its size, its date and its number on the disk."""

    path: Path
    size: int
    date: int
    number: int

    @classmethod
    def of(cls, path: Path) -> "FileIdentity":
        """Look at a file."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

    def require_same(self) -> None:
        """Refuse a file that is not the one it was."""
        try:
            same = FileIdentity.of(self.path) == self
        except OSError:
            same = False
        if not same:
            raise DataError(
                f"The file {str(self.path)!r} changed while it was read; start again when nobody "
                "writes to it."
            )
