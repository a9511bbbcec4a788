"""The samplers once more, slowly: numbers are intervals of fractions that words make narrower.

Written from docs/sampler.md and not from the code. It reads the words in the same order, so that
it must give the same numbers, bit for bit.
"""

from dataclasses import dataclass, field
from fractions import Fraction

BASE = 2**64


@dataclass
class Unit:
    """A number in [0, 1): all that begin with the digits so far."""

    digits: list[int] = field(default_factory=list)

    def more(self, word: int) -> None:
        self.digits.append(word)

    def least(self, depth: int) -> Fraction:
        return sum(
            (Fraction(d, BASE ** (k + 1)) for k, d in enumerate(self.digits[:depth])), Fraction(0)
        )

    def most(self, depth: int) -> Fraction:
        return self.least(depth) + Fraction(1, BASE**depth)

    def flipped(self) -> "Unit":
        return Unit([BASE - 1 - d for d in self.digits])


def new():
    word = yield
    return Unit([word])


def deepened(depth, *numbers):
    for number in numbers:
        if len(number.digits) < depth:
            number.more((yield))


def smaller(a, b):
    """Whether a < b."""
    depth = 0
    while True:
        depth += 1
        yield from deepened(depth, a, b)
        if a.most(depth) <= b.least(depth):
            return True
        if b.most(depth) <= a.least(depth):
            return False


def descent(first, test=None):
    """Return how many steps first > U₁ > U₂ > … goes down; each may have to pass a test."""
    steps, last = 0, first
    while True:
        u = yield from new()
        if not (yield from smaller(u, last)):
            return steps
        if test is not None and not (yield from test()):
            return steps
        steps, last = steps + 1, u


def with_probability_root_e():
    """True with probability e^−½."""
    u = yield from new()
    if u.least(1) >= Fraction(1, 2):
        return True
    return (1 + (yield from descent(u))) % 2 == 0


def thinned(y, j):
    """Whether V < (2j + y)/(2j + 2)."""
    v = yield from new()
    depth = 0
    while True:
        depth += 1
        yield from deepened(depth, v, y)
        if (2 * j + 2) * v.most(depth) <= 2 * j + y.least(depth):
            return True
        if (2 * j + 2) * v.least(depth) >= 2 * j + y.most(depth):
            return False


def exponential_size():
    rejected = 0
    while True:
        x = yield from new()
        if (yield from descent(x)) % 2 == 0:
            return rejected, x
        rejected += 1


def accepted(k, y):
    j = max(k - 1, 0)
    for _ in range(j * j):
        if not (yield from with_probability_root_e()):
            return False
    for _ in range(j + 1):
        if (yield from descent(y, lambda: thinned(y, j))) % 2:
            return False
    return True


def signed(k, x):
    negative = (yield) >= BASE // 2
    return negative, k, x.digits


def exponential():
    return (yield from signed(*(yield from exponential_size())))


def normal():
    while True:
        k, x = yield from exponential_size()
        y = x if k else x.flipped()
        if (yield from accepted(k, y)):
            return (yield from signed(k, y if k else y.flipped()))


LAWS = {"normal": normal, "exponential": exponential}


def drawn(law, n, words):
    """Return (negative, whole, digits) of n numbers, and how many words it took."""
    waiting = [(i, LAWS[law]()) for i in range(n)]
    found, used = {}, 0
    for _, lane in waiting:
        next(lane)
    while waiting:
        still = []
        for i, lane in waiting:
            word, used = int(words[used]), used + 1
            try:
                lane.send(word)
                still.append((i, lane))
            except StopIteration as end:
                found[i] = end.value
        waiting = still
    return [found[i] for i in range(n)], used


def noisy(value, scale, exponent, deviate, further):
    """Return value + noise on the grid 2^exponent as the nearest double."""
    negative, whole, digits = deviate
    x, grid = Unit(list(digits)), Fraction(2) ** exponent
    ratio = Fraction(scale) / grid
    while True:
        depth = len(x.digits)
        low, high = (ratio * (whole + e) + Fraction(1, 2) for e in (x.least(depth), x.most(depth)))
        if low // 1 == high // 1 or (high // 1 == high and high - 1 == low // 1):
            break
        x.more(next(further))
    size = low // 1
    return float((round(Fraction(value) / grid) + (-size if negative else size)) * grid)
