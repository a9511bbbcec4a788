"""Numbers that are ready: they are drawn many at a time, and each is handed out once."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppadmm.sampling import choice, lanes
from ppadmm.sampling.keystream import Keystream
from ppadmm.sampling.vectorised import RAN_OUT, TIED

BATCH = {"compiled": 4096, "vectorised": 16384}
"""NumPy has a price per step, so that it needs more lanes side by side."""

NEEDED = {"normal": 10.5, "exponential": 6.0}
"""Words per number that are almost always enough for a batch; if not, more are drawn."""


@dataclass
class Deviates:
    """± (whole + 0.digit…) for each of n lanes; `further` has later digits where there are any."""

    negative: NDArray[np.bool_]
    whole: NDArray[np.int64]
    digit: NDArray[np.uint64]
    further: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def blank(cls, n: int) -> "Deviates":
        """Return room for n numbers."""
        return cls(np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n, np.uint64))

    def __len__(self) -> int:
        return len(self.whole)

    def digits(self, i: int) -> list[int]:
        """Return the digits of one number that are known."""
        return [int(self.digit[i]), *self.further.get(i, ())]

    def part(self, start: int, n: int) -> "Deviates":
        """Return n numbers where they are; they may have one digit each only."""
        mine = slice(start, start + n)
        return Deviates(self.negative[mine], self.whole[mine], self.digit[mine])

    def move(self, start: int, n: int, to: "Deviates", at: int) -> None:
        """Move n numbers into another's room; nothing of them stays here."""
        mine, theirs = slice(start, start + n), slice(at, at + n)
        to.negative[theirs] = self.negative[mine]
        to.whole[theirs] = self.whole[mine]
        to.digit[theirs] = self.digit[mine]
        for i in [i for i in self.further if start <= i < start + n]:
            to.further[at + i - start] = self.further.pop(i)
        self.wipe(mine)

    def wipe(self, part: slice = slice(None)) -> None:
        """Overwrite numbers."""
        self.negative[part], self.whole[part], self.digit[part] = False, 0, 0


class Stock:
    """Deviates of one law."""

    def __init__(self, law: str, stream: Keystream) -> None:
        self.law, self.stream = law, stream
        self._ready, self._next, self._drawn = Deviates.blank(0), 0, 0

    def take(self, n: int) -> Deviates:
        """Return n numbers that nobody had before; who takes them wipes them."""
        self._drawn += n
        start, self._next = self._next, self._next + n
        if self._next <= len(self._ready) and not self._ready.further:
            return self._ready.part(start, n)
        self._next = start
        return self._collected(n)

    def prepare(self) -> None:
        """Draw a batch if none is left, for whatever will be paid for."""
        if self._next == len(self._ready):
            self._ready, self._next = draw(self.law, self.stream, self._drawn), 0

    def _collected(self, n: int) -> Deviates:
        """Return n numbers, of several batches if need be."""
        taken, filled = Deviates.blank(n), 0
        while filled < n:
            self.prepare()
            some = min(n - filled, len(self._ready) - self._next)
            self._ready.move(self._next, some, taken, filled)
            self._next += some
            filled += some
        return taken


def draw(law: str, stream: Keystream, drawn: int) -> Deviates:
    """Draw a batch."""
    module = choice.kernels(drawn)
    n = BATCH[module.__name__.rpartition(".")[2]]
    found = Deviates.blank(n)
    words = stream.words(int(NEEDED[law] * n))
    fill(getattr(module, law), law, words, stream, found)
    words[:] = 0
    return found


def fill(
    run: Callable[..., int], law: str, words: NDArray[np.uint64], stream: Keystream, to: Deviates
) -> None:
    """Fill the room quickly, or as `lanes` does it if two digits tie; then with the same words."""
    used = run(words, to.negative, to.whole, to.digit)
    if used == RAN_OUT:
        more = np.concatenate([words, stream.words(len(words) // 4 + 64)])
        fill(run, law, more, stream, to)
        more[:] = 0
    elif used == TIED:
        _fill_exactly(law, words, stream, to)


def _fill_exactly(law: str, words: NDArray[np.uint64], stream: Keystream, to: Deviates) -> None:
    following = _then(words, stream)
    for i, each in enumerate(lanes.draw(lanes.LAWS[law], len(to), lambda: next(following))):
        to.negative[i], to.whole[i], to.digit[i] = each.negative, each.whole, each.digits[0]
        if each.digits[1:]:
            to.further[i] = each.digits[1:]


def _then(words: NDArray[np.uint64], stream: Keystream) -> Iterator[int]:
    for word in words:
        yield int(word)
    while True:
        yield stream.word()


class Store:
    """The stocks of a process. Threads take turns."""

    def __init__(self, stream: Keystream | None = None) -> None:
        self.process = os.getpid()
        self._stream = stream or Keystream()
        self._stocks = {law: Stock(law, self._stream) for law in lanes.LAWS}
        self._turn = threading.Lock()
        self.word()  # a generator that is broken is noticed before anything is paid for

    def take(self, law: str, n: int) -> Deviates:
        """Return n numbers of a law that nobody had before."""
        with self._turn:
            return self._stocks[law].take(n)

    def expect(self, n: int) -> None:
        """Load and try what is quickest for n numbers, so that the first round is not late."""
        if choice.loads(n):
            choice.kernels(n)
            with self._turn:
                self._stocks["normal"].prepare()

    def word(self) -> int:
        """Return a word that nobody had before."""
        with self._turn:
            return self._stream.word()


_opened: list[Store] = []


def store() -> Store:
    """Return this process's own store: one that was forked off starts anew."""
    if not _opened or _opened[0].process != os.getpid():
        _opened[:] = [Store()]
    return _opened[0]


# A process may get the number of one that is gone, so that the number alone does not tell.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.clear)
