"""A place for encoded records: memory while there is room, then a file without a name.

The file is deleted by the operating system when it is closed, and closed when the process ends,
however it ends: a run that crashes or is killed leaves no records behind. (The blocks of the disk
are freed, not wiped.) It lies in the folder of temporary files, which TMPDIR names.
"""

import pickle  # our own values, which never left this process
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar, cast
from weakref import finalize

import numpy as np

from ppadmm.errors import DataError
from ppadmm.records import HoldsRecords, moving_records

T = TypeVar("T")
Buffer: TypeAlias = Any
"""A NumPy array of bytes."""
ALIGNED = 64
LEFT_FREE = 64 * 2**20
"""Bytes of the disk that are left to others."""


@dataclass(frozen=True)
class Kept(HoldsRecords, Generic[T]):
    """A value that stayed in memory."""

    value: T


@dataclass(frozen=True)
class Spilled(HoldsRecords, Generic[T]):
    """A value in the file: its arrays from `offset` on, `sizes` bytes each, and all the rest."""

    rest: bytes
    offset: int
    sizes: tuple[int, ...]

    @property
    def length(self) -> int:
        """Bytes in the file, padding included."""
        return sum(map(padded, self.sizes))


Ticket = Kept[T] | Spilled[T]


class BlockStore(HoldsRecords):
    """Values made of arrays, `room` bytes of them in memory and the rest on disk."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._file: Any = None
        self._end = 0
        self._lock = Lock()

    def put(self, value: T, size: int | None = None) -> Ticket[T]:
        """Store a value; its arrays must not change any more.

        `size` is the most bytes that its arrays may take, where that is public and their own size
        is not: which values stay in memory follows from it, hence the order of a stream.
        """
        arrays: list[memoryview] = []
        with moving_records():
            rest = pickle.dumps(value, protocol=5, buffer_callback=lambda a: arrays.append(a.raw()))
        size = sum(array.nbytes for array in arrays) if size is None else size
        if size <= self._room:
            self._room -= size
            return Kept(value)
        ticket: Spilled[T] = Spilled(rest, self._end, tuple(a.nbytes for a in arrays))
        self._write(ticket, arrays)
        return ticket

    def get(self, ticket: Ticket[T], into: Buffer | None = None) -> T:
        """Return a value; one from the file uses the memory of `into`."""
        if isinstance(ticket, Kept):
            return ticket.value
        buffer: Buffer = np.empty(ticket.length, dtype=np.uint8) if into is None else into
        self._read(ticket, memoryview(buffer)[: ticket.length])
        return cast(T, pickle.loads(ticket.rest, buffers=_pieces(buffer, ticket.sizes)))  # noqa: S301

    def stream(self, tickets: Sequence[Ticket[T]]) -> Iterator[T]:
        """Yield values in order, reading one ahead; each is valid until the next is asked for."""
        for ticket in tickets:
            if isinstance(ticket, Kept):
                yield ticket.value
        spilled = [ticket for ticket in tickets if isinstance(ticket, Spilled)]
        if spilled:
            yield from one_ahead(self._loaded(spilled))

    def close(self) -> None:
        """Delete the file; what stayed in memory goes with its tickets."""
        if self._file is not None:
            self._file.close()

    def _loaded(self, tickets: list[Spilled[T]]) -> Iterator[T]:
        """Use two pieces of memory in turn: one that is read into, one that is read from."""
        most = max(ticket.length for ticket in tickets)
        buffers = [np.empty(most, dtype=np.uint8) for _ in range(min(2, len(tickets)))]
        for k, ticket in enumerate(tickets):
            yield self.get(ticket, buffers[k % 2])

    def _write(self, ticket: Spilled[T], arrays: list[memoryview]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0, prefix="ppadmm-")  # noqa: SIM115
            finalize(self, self._file.close)
        if shutil.disk_usage(tempfile.gettempdir()).free < ticket.length + LEFT_FREE:
            raise DataError(
                f"The disk of {tempfile.gettempdir()!r} is full, and the encoded records go "
                "there; make room, name a folder on a larger disk in TMPDIR, or give more memory."
            )
        with self._lock:
            self._file.seek(self._end)
            for array in arrays:
                _write_all(self._file, array)
                _write_all(self._file, memoryview(bytes(padded(array.nbytes) - array.nbytes)))
            self._end += ticket.length

    def _read(self, ticket: Spilled[T], into: memoryview) -> None:
        if self._file is None or self._file.closed:
            raise DataError("The streamed records were closed; open the data set again.")
        done = 0
        with self._lock:
            self._file.seek(ticket.offset)
            while done < len(into) and (got := self._file.readinto(into[done:])):
                done += got
        if done < len(into):
            raise DataError("The file of the streamed records was cut short; start the run again.")


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, the next one being made in a thread meanwhile."""
    done: Any = object()
    with ThreadPoolExecutor(1) as worker:
        ahead = worker.submit(next, items, done)
        while (item := ahead.result()) is not done:
            ahead = worker.submit(next, items, done)
            yield item


def padded(size: int) -> int:
    """Return the size rounded up, so that the next array is aligned."""
    return -(-size // ALIGNED) * ALIGNED


def _pieces(buffer: Buffer, sizes: Sequence[int]) -> list[memoryview]:
    starts = np.cumsum([0, *map(padded, sizes)])
    whole = memoryview(buffer).toreadonly()
    return [whole[at : at + size] for at, size in zip(starts, sizes, strict=False)]


def _write_all(file: Any, array: memoryview) -> None:
    done = 0
    while done < array.nbytes:
        done += file.write(array[done:])
