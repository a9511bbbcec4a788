"""The samplers as they are defined: exactly, digit by digit, in Python's integers.

A lane makes one number. It asks for a random word of 64 bits whenever it needs one (`yield`), and
compares: it computes no logarithm, no exponential and no rounded number. A number between 0 and 1
is the list of its digits so far, to base 2⁶⁴. Where two numbers tie, both get one digit more, so
every decision is that of the whole numbers (docs/sampler.md).

`compiled` and `vectorised` do the same, much faster, for words in which nothing ties.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Lane: TypeAlias = Generator[None, int, T]

BITS = 64
HALF = 1 << (BITS - 1)
LAST = (1 << BITS) - 1


@dataclass(frozen=True)
class Deviate:
    """± (whole + 0.digits…): all further digits are still to be drawn."""

    negative: bool
    whole: int
    digits: tuple[int, ...]


def exponential() -> Lane[Deviate]:
    """Draw from the law with density e^−|z|/2 (von Neumann)."""
    k, x = yield from _positive()
    return Deviate((yield) >= HALF, k, tuple(x))


def normal() -> Lane[Deviate]:
    """Draw from the standard normal law: z from e^−z, accepted with probability e^−(z−1)²/2.

    |z − 1| = j + y, and (j + y)²/2 = j²/2 + y(2j+y)/2 (Karney).
    """
    while True:
        k, x = yield from _positive()
        j, y = (k - 1, x) if k else (0, _from_one(x))
        if (yield from _all_pass(j * j)) and (yield from _accepted(y, j)):
            return Deviate((yield) >= HALF, k, tuple(y if k else _from_one(y)))


def _positive() -> Lane[tuple[int, list[int]]]:
    """Draw from the law with density e^−z as z = k + x: x is kept with probability e^−x."""
    k = 0
    while True:
        x = [(yield)]
        if (yield from _falls_evenly(x)):
            return k, x
        k += 1


def _from_one(x: list[int]) -> list[int]:
    """Return the digits of 1 − x: whatever digits follow, theirs are the complements, too."""
    return [LAST - digit for digit in x]


def _all_pass(trials: int) -> Lane[bool]:
    """Whether so many trials of probability e^−½ all succeed."""
    for _ in range(trials):
        if not (yield from _half()):
            return False
    return True


def _half() -> Lane[bool]:
    """Succeed with probability e^−½: ½ > U₁ > U₂ > … falls an even number of times."""
    u = [(yield)]
    if u[0] >= HALF:
        return True
    return not (yield from _falls_evenly(u))


def _falls_evenly(u: list[int]) -> Lane[bool]:
    """Whether u > U₁ > U₂ > … falls an even number of times."""
    even = True
    while True:
        v = [(yield)]
        if not (yield from _less(v, u)):
            return even
        u, even = v, not even


def _accepted(y: list[int], j: int) -> Lane[bool]:
    """Succeed with probability e^−y(2j+y)/2, in j + 1 equal parts."""
    for _ in range(j + 1):
        if not (yield from _part(y, j)):
            return False
    return True


def _part(y: list[int], j: int) -> Lane[bool]:
    """Succeed with probability e^−p, p = y·(2j+y)/(2j+2).

    y > U₁ > U₂ > … falls, and each step must pass one more test, V < (2j+y)/(2j+2).
    """
    u, even = y, True
    while True:
        v = [(yield)]
        if not (yield from _less(v, u)) or not (yield from _below(y, j)):
            return even
        u, even = v, not even


def _less(a: list[int], b: list[int]) -> Lane[bool]:
    """Whether a < b."""
    for t in count():
        for number in (a, b):
            if len(number) == t:
                number.append((yield))
        if a[t] != b[t]:
            return a[t] < b[t]
    raise AssertionError


def _below(y: list[int], j: int) -> Lane[bool]:
    """Whether V < (2j+y)/(2j+2) for a new V.

    With t digits of both, (2j+2)·V − 2j − y lies strictly between (gap − 1)/2⁶⁴ᵗ and
    (gap + 2j + 2)/2⁶⁴ᵗ.
    """
    v: list[int] = []
    for t in count(1):
        for number in (v, y):
            if len(number) < t:
                number.append((yield))
        gap = (2 * j + 2) * joined(v[:t]) - (2 * j << BITS * t) - joined(y[:t])
        if gap + 2 * j + 2 <= 0 or gap >= 1:
            return gap < 1
    raise AssertionError


def joined(digits: Sequence[int]) -> int:
    """Return 0.d₁d₂…dₜ · 2⁶⁴ᵗ."""
    whole = 0
    for digit in digits:
        whole = (whole << BITS) + digit
    return whole


def draw(make: Callable[[], Lane[Deviate]], n: int, word: Callable[[], int]) -> list[Deviate]:
    """Run n lanes side by side: each that is not done reads one word, in order, and again."""
    lanes = {i: make() for i in range(n)}
    found: dict[int, Deviate] = {}
    for lane in lanes.values():
        next(lane)
    while lanes:
        for i, lane in list(lanes.items()):
            try:
                lane.send(word())
            except StopIteration as end:
                found[i] = end.value
                del lanes[i]
    return [found[i] for i in range(n)]


LAWS: dict[str, Callable[[], Lane[Deviate]]] = {"normal": normal, "exponential": exponential}
