"""The same numbers from the same words: compiled, in NumPy, in integers, and by the reference."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppadmm.sampling import choice, compiled, lanes, vectorised
from ppadmm.sampling.keystream import Keystream
from ppadmm.sampling.stock import Deviates, fill
from tests.sampling import reference

LAWS = ("normal", "exponential")
KERNELS = (compiled, vectorised)
HALF, LAST = 2**63, 2**64 - 1


class Said(Keystream):
    """A key stream of words that a test chose."""

    def __init__(self, words):
        super().__init__()
        self.rest = list(words)

    def words(self, n):
        found, self.rest = self.rest[:n], self.rest[n:]
        return np.array(found, np.uint64)

    def word(self):
        return self.rest.pop(0)


def random_words(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def filled(kernel, law, n, words, first):
    """Return the numbers as the package draws them: `first` words at once, more if need be."""
    stream, room = Said(words), Deviates.blank(n)
    fill(getattr(kernel, law), law, stream.words(first), stream, room)
    return [(bool(room.negative[i]), int(room.whole[i]), room.digits(i)) for i in range(n)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_random_words(law, kernel, n):
    words = random_words(60 * n + 400, seed=n)
    expected, used = reference.drawn(law, n, words)
    assert filled(kernel, law, n, words, len(words)) == expected
    room = Deviates.blank(n)
    assert getattr(kernel, law)(words, room.negative, room.whole, room.digit) == used


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_words_that_run_out_are_followed_by_more(law, kernel):
    words = random_words(20_000, seed=3)
    expected, used = reference.drawn(law, 100, words)
    for first in (1, 100, used - 1, used):
        assert filled(kernel, law, 100, words, first) == expected
    room = Deviates.blank(100)
    run = getattr(kernel, law)
    assert run(words[: used - 1], room.negative, room.whole, room.digit) == vectorised.RAN_OUT


@pytest.mark.parametrize("law", LAWS)
def test_both_kernels_and_the_definition_agree_on_many(law):
    words = random_words(300_000, seed=4)
    a, b = (filled(kernel, law, 20_000, words, len(words)) for kernel in KERNELS)
    following = iter(words.tolist())
    c = lanes.draw(lanes.LAWS[law], 20_000, lambda: next(following))
    assert a == b == [(each.negative, each.whole, list(each.digits)) for each in c]


# -- ties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ties", [1, 2, 3])
@pytest.mark.parametrize("lower", [True, False])
def test_a_tie_is_broken_by_further_digits(kernel, ties, lower):
    """x = 0.5 and U begin with the same digits: U < x sends the exponential to another round."""
    x, same = 2**62, [2**62] * (2 * ties - 1)
    last = [5, 6] if lower else [6, 5]  # the next digits of U and of x
    words = [x, *same, *last, *((LAST, HALF) if lower else (HALF,)), *random_words(60).tolist()]
    expected, _ = reference.drawn("exponential", 1, words)
    assert filled(kernel, "exponential", 1, words, 60) == expected
    negative, whole, digits = expected[0]
    if lower:  # it fell once, an odd number of times
        assert whole == 1
    else:
        assert (negative, whole) == (True, 0)
        assert digits == [x] * ties + [5]


EDGES = (0, 1, 2, 3, HALF - 1, HALF, HALF + 1, LAST - 2, LAST - 1, LAST, 2**62, 3 * 2**62)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=300, deadline=None)
@given(words=st.lists(st.sampled_from(EDGES), max_size=60), n=st.integers(1, 4))
def test_words_that_tie_all_the_time(law, kernel, words, n):
    words = [*words, *random_words(2000).tolist()]
    expected, _ = reference.drawn(law, n, words)
    assert filled(kernel, law, n, words, 500) == expected


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=300, deadline=None)
@given(
    k=st.integers(0, 3), y=st.sampled_from(EDGES), near=st.integers(-9, 9), part=st.integers(0, 8)
)
def test_the_second_test_of_a_part_near_its_edge(kernel, k, y, near, part):
    """V is chosen so that (2j+2)·V is near a whole number, or near one plus y."""
    j = max(k - 1, 0)
    x = y if k else LAST - y
    edge = ((part << 64) + (y if near % 2 else 0)) // (2 * j + 2) + near
    proposal = [w for _ in range(k) for w in (HALF, 1, LAST)] + [x, LAST]  # k rounds fall once
    words = [*proposal, *[LAST] * (j * j), y // 2, edge % 2**64, *random_words(2000).tolist()]
    if not 0 < y < LAST - 1:
        return
    expected, _ = reference.drawn("normal", 1, words)
    assert filled(kernel, "normal", 1, words, 200) == expected


def test_ties_are_seen_by_both_kernels():
    words = np.array([HALF, HALF, *random_words(50).tolist()], np.uint64)
    for kernel in KERNELS:
        for law in LAWS:
            room = Deviates.blank(1)
            run = getattr(kernel, law)
            assert run(words, room.negative, room.whole, room.digit) == vectorised.TIED
    assert (compiled.TIED, compiled.RAN_OUT) == (vectorised.TIED, vectorised.RAN_OUT)


def test_a_numba_that_cannot_be_loaded_is_done_without(monkeypatch):
    """A run that was paid for must not end because of it."""
    monkeypatch.setenv(choice.KERNEL, "numba")
    monkeypatch.setitem(sys.modules, "ppadmm.sampling.compiled", None)
    choice._compiled.cache_clear()
    assert choice.kernels(0) is vectorised
    choice._compiled.cache_clear()
    monkeypatch.undo()


PREPARED = """
import sys
from ppadmm.noise import SecureNoise
from ppadmm.sampling import choice, stock
SecureNoise(int(sys.argv[1]))
ready = len(stock.store()._stocks["normal"]._ready)
print("numba" in sys.modules, choice.kernels(0).__name__.rpartition(".")[2], ready)
"""


@pytest.mark.parametrize(
    ("expected", "said"),
    [(choice.WORTHWHILE - 1, "False vectorised 0"), (choice.WORTHWHILE, "True compiled 4096")],
)
def test_a_run_that_needs_many_numbers_loads_what_draws_them_first(expected, said):
    """In a process of its own, as this one has numba loaded."""
    words = [sys.executable, "-c", PREPARED, str(expected)]
    alone = {name: text for name, text in os.environ.items() if name != choice.KERNEL}
    found = subprocess.run(words, capture_output=True, text=True, check=True, env=alone)
    assert found.stdout.strip() == said


@pytest.mark.parametrize(
    ("kernel", "drawn", "loaded", "expected"),
    [
        ("numba", 0, False, compiled),
        ("numpy", 10**9, True, vectorised),
        ("auto", 0, False, vectorised),
        ("auto", 0, True, compiled),
        ("auto", choice.WORTHWHILE, False, compiled),
    ],
)
def test_which_kernel_draws(kernel, drawn, loaded, expected, monkeypatch):
    monkeypatch.setenv(choice.KERNEL, kernel)
    if not loaded:
        monkeypatch.delitem(sys.modules, "numba")
    assert choice.kernels(drawn) is expected
