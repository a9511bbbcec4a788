"""What a ledger keeps of rows: enough to know many again, not one."""

import itertools
import math
from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest

from ppadmm.data.fingerprint import Fingerprint
from ppadmm.ledger import sketch
from ppadmm.ledger.sketch import CERTAIN, FLIPPED, Places, Sketch

KEY = bytes(32)


def places(numbers, rows=None, key=KEY):
    """Rows known by these numbers."""
    pieces = sorted(blake2b(str(k).encode(), digest_size=16).digest() for k in numbers)
    return Places.of(Fingerprint(b"d", rows or len(pieces), b"".join(pieces)), key)


def shares(known, other, times=20):
    """Estimates from many pictures of the same records."""
    found = [Sketch.of(places(known)).overlap(places(other)) for _ in range(times)]
    return [None if each is None else each.share for each in found]


class TestEstimates:
    @pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
    def test_the_share_of_known_rows_is_estimated(self, share):
        """20 pictures: the mean of the estimates is within 6 of its own standard errors."""
        n = 20_000
        start = round(n * (1.0 - share))
        known, other = places(range(n)), places(range(start, start + n))
        pictures = [Sketch.of(known).overlap(other) for _ in range(20)]
        mean = np.mean([each.share for each in pictures])
        assert abs(mean - share) < 6.0 * (pictures[0].error / 2.0) / math.sqrt(20) * 1.5

    def test_strangers_are_not_known(self):
        assert shares(range(5000), range(10_000, 15_000)) == [None] * 20

    def test_a_small_overlap_is_not_told(self):
        assert shares(range(50_000), range(49_000, 99_000), 3) == [None] * 3

    def test_a_small_part_of_large_records_is_known_again_and_the_other_way_round(self):
        """At a tenth of n = 20,000 rows there are 14·√n in common; about 9·√n would be enough."""
        assert None not in shares(range(50_000), range(1000), 5)
        assert None not in shares(range(2000), range(20_000), 5)

    def test_few_rows_are_not_enough_to_be_certain(self):
        assert shares(range(4), range(4), 50) == [None] * 50
        assert shares([], [], 2) == [None] * 2
        assert shares(range(100), []) == [None] * 20

    def test_another_key_knows_nothing(self):
        picture = Sketch.of(places(range(5000)))
        assert picture.overlap(places(range(5000), key=b"\1" * 32)) is None
        assert picture.overlap(places(range(5000))).share > 0.8

    def test_of_many_rows_a_sample_is_compared(self, monkeypatch):
        """Records of ten times as many rows as are looked at, and a part of them."""
        monkeypatch.setattr("ppadmm.data.fingerprint.SAMPLE", 3000)

        def sampled(numbers):
            n, limit = len(numbers), min(1.0, 3000 / len(numbers)) * 2.0**64
            pieces = sorted(blake2b(str(k).encode(), digest_size=16).digest() for k in numbers)
            kept = [p for p in pieces if int.from_bytes(p[:8], "big") < limit]
            return Places.of(Fingerprint(b"d", n, b"".join(kept)), KEY)

        large, part = sampled(range(30_000)), sampled(range(0, 30_000, 10))
        assert large.rate == 0.1
        assert len(large.keyed) < 3400 < len(sampled(range(4000)).keyed) + 1000
        assert Sketch.of(large).overlap(part).share > 0.5
        half = sampled(range(15_000))
        assert Sketch.of(half).overlap(large) is not None
        assert Sketch.of(large).overlap(sampled(range(40_000, 70_000))) is None

    def test_chance_is_far_below_what_counts_as_certain(self):
        assert math.erfc(CERTAIN / math.sqrt(2.0)) / 2.0 < 1e-9


class TestBytes:
    @pytest.mark.parametrize("n", [0, 1, 3, 1000])
    def test_a_picture_comes_back(self, n):
        picture = Sketch.of(places(range(n)))
        again = Sketch.from_bytes(picture.to_bytes())
        assert (again.rows, again.rate) == (picture.rows, picture.rate)
        np.testing.assert_array_equal(again.cells, picture.cells)
        assert len(picture.cells) >= 4 * n

    def test_its_size_follows_from_the_number_of_rows_alone(self):
        lengths = {len(Sketch.of(places(range(d), rows=1000)).to_bytes()) for d in (0, 10, 1000)}
        assert len(lengths) == 1

    def test_a_picture_of_the_largest_sample_is_small(self):
        picture = Sketch(10**8, 2**18 / 10**8, np.zeros(4 * 2**18, dtype=bool))
        assert len(picture.to_bytes()) < 132_000


class TestThief:
    """Who has the picture, the key and all other records: the likelihood ratio is 9 at most."""

    def test_every_cell_is_flipped_with_probability_a_quarter(self):
        flips = 0
        truth = np.zeros(8, dtype=bool)
        truth[(places(range(2)).keyed & np.uint64(7)).astype(int)] = True
        for _ in range(4000):
            flips += int((Sketch.of(places(range(2))).cells != truth).sum())
        mean, spread = 0.25 * 32_000, math.sqrt(32_000 * 0.25 * 0.75)
        assert abs(flips - mean) < 6.5 * spread

    def test_the_likelihood_ratio_is_bounded_by_that_of_two_cells(self):
        """All pictures of 8 cells, for every pair of neighbours among 5 possible rows, exactly."""
        cell = {k: int(places([k]).keyed[0] & np.uint64(7)) for k in range(5)}

        def law(rows):
            truth = {cell[k] for k in rows}
            chances = [1.0 - FLIPPED if j in truth else FLIPPED for j in range(8)]
            return {
                bits: math.prod(p if b else 1.0 - p for p, b in zip(chances, bits, strict=True))
                for bits in itertools.product((0, 1), repeat=8)
            }

        worst = 0.0
        for others in itertools.combinations_with_replacement(range(5), 1):
            for one, two in itertools.product(range(5), repeat=2):
                p, q = law({*others, one}), law({*others, two})
                worst = max(worst, max(p[bits] / q[bits] for bits in p))
        assert worst == pytest.approx(9.0)

    def test_the_law_is_the_one_that_is_drawn_from(self):
        """Two of the 256 pictures of a record, as often as they must be (6.5 standard errors)."""
        drawn = Counter(tuple(map(int, Sketch.of(places([1])).cells)) for _ in range(6000))
        truth = [int(j == int(places([1]).keyed[0] & np.uint64(7))) for j in range(8)]
        for bits, p in ((tuple(truth), 0.75**8), (tuple([0] * 8), 0.25 * 0.75**7)):
            spread = math.sqrt(6000 * p * (1.0 - p))
            assert abs(drawn[bits] - 6000 * p) < 6.5 * spread


def test_only_secure_random_bits_flip(monkeypatch):
    asked = []
    real = sketch.secrets.token_bytes
    monkeypatch.setattr(sketch.secrets, "token_bytes", lambda n: asked.append(n) or real(n))
    Sketch.of(places(range(100)))
    assert asked == [64, 64]
