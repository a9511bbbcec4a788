"""Masks cancel in the sum of all members and nowhere else."""

import hashlib
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ppadmm.errors import ProtocolError
from ppadmm.records import moving_records
from ppadmm.summing.fixed_point import as_words
from ppadmm.summing.masks import Masks, new_key, public_key
from tests.summing.small_sums import keyed

WORDS = 4096
LEAST_P = 1e-6
member_sets = st.sets(st.integers(0, 2**40), min_size=1, max_size=7)
P = 2**255 - 19
LOW_ORDER = (0, 1, P - 1, P, P + 1)
"""Points of small order, two of them in another spelling: their secret is zero with any key."""


@given(member_sets, st.integers(0, 2**40), st.integers(1, 33))
def test_masks_cancel_for_every_set_of_members(members, exchange, size):
    masks = keyed(sorted(members))
    total = np.add.reduce([masks[i].mask(members, exchange, size) for i in members], axis=0)
    assert not total.any()


@given(st.integers(3, 7), st.integers(0, 99))
def test_masks_cancel_in_no_part_of_the_members(sites, exchange):
    """The sum of any that lack one is not zero anywhere: 64 bits would have to be."""
    masks = keyed(range(sites))
    every = [masks[i].mask(range(sites), exchange, 8) for i in range(sites)]
    for gone in range(sites):
        rest = np.add.reduce([m for i, m in enumerate(every) if i != gone], axis=0)
        assert (rest != 0).all()


def test_every_part_of_the_name_of_a_sum_changes_the_mask():
    private = {i: new_key() for i in range(4)}
    one = keyed(range(4), b"run", private)[0]
    other_run = keyed(range(4), b"another", private)[0]
    other_keys = keyed(range(4), b"run", {**private, 1: new_key()})[0]
    found = [
        one.mask(range(4), 1, 64),
        one.mask(range(4), 2, 64),
        one.mask((0, 1, 2), 1, 64),
        one.mask((0, 1, 3), 1, 64),
        one.mask((0, 1), 1, 64),
        other_run.mask(range(4), 1, 64),
        other_keys.mask(range(4), 1, 64),
    ]
    for i, a in enumerate(found):
        for b in found[:i]:
            assert (a != b).all()


def test_the_key_of_a_pair_depends_on_all_members_and_the_exchange():
    """Each stream by itself, not only their sum: a pair's key is never used for two sums."""
    masks = keyed(range(4))[0]
    sums = [([0, 1, 2, 3], 1), ([0, 1, 2, 3], 2), ([0, 1, 2], 1), ([0, 1, 3], 1), ([0, 1], 1)]
    keys = {masks._key(1, members, exchange) for members, exchange in sums}
    assert len(keys) == len(sums)


def test_a_pair_has_one_stream_and_two_pairs_have_two():
    masks = keyed(range(3))
    assert masks[0]._key(1, [0, 1, 2], 5) == masks[1]._key(0, [0, 1, 2], 5)
    assert masks[0]._key(1, [0, 1, 2], 5) != masks[0]._key(2, [0, 1, 2], 5)


def test_the_order_of_members_does_not_matter():
    masks = keyed(range(4))[2]
    assert (masks.mask((3, 1, 0, 2), 7, 9) == masks.mask(range(4), 7, 9)).all()


# What an outsider sees


def bits_of(message):
    return np.unpackbits(np.ascontiguousarray(message).view(np.uint8))


def frequency(bits):
    """NIST SP 800-22, 2.1."""
    return 2 * stats.norm.sf(abs(2.0 * bits.sum() - len(bits)) / np.sqrt(len(bits)))


def runs(bits):
    """2.3: how often neighbouring bits differ."""
    share = bits.mean()
    if share in (0.0, 1.0):
        return 0.0
    changes = np.count_nonzero(np.diff(bits)) + 1
    far = abs(changes - 2 * len(bits) * share * (1 - share))
    return 2 * stats.norm.sf(far / (2 * np.sqrt(len(bits)) * share * (1 - share)))


def serial(bits, width=4):
    """Blocks of `width` bits, side by side, by chi-square."""
    blocks = bits[: len(bits) // width * width].reshape(-1, width) @ (1 << np.arange(width))
    return stats.chisquare(np.bincount(blocks, minlength=1 << width)).pvalue


def bytes_(bits):
    return stats.chisquare(np.bincount(np.packbits(bits), minlength=256)).pvalue


def planes(bits):
    """Each of the 64 bits of a word by itself: the largest are where values would show."""
    ones = bits.reshape(-1, 64).sum(axis=0)
    far = (2.0 * ones - len(bits) / 64) / np.sqrt(len(bits) / 64)
    return stats.chi2.sf((far**2).sum(), 64)


TESTS = (frequency, runs, serial, bytes_, planes)


def looks_random(message):
    return {test.__name__: test(bits_of(message)) for test in TESTS}


CONTRIBUTIONS = {
    "zero": np.zeros(WORDS),
    "all alike": np.full(WORDS, 2.0**40),
    "small": np.arange(WORDS, dtype=float) - WORDS // 2,
    "the end of the range": np.full(WORDS, -(2.0**52)),
}


@pytest.mark.parametrize("name", CONTRIBUTIONS)
def test_a_masked_message_passes_randomness_tests(name):
    said = as_words(CONTRIBUTIONS[name]) + keyed(range(3))[1].mask(range(3), 1, WORDS)
    assert min(looks_random(said).values()) > LEAST_P, looks_random(said)


@pytest.mark.parametrize("name", CONTRIBUTIONS)
def test_the_same_without_a_mask_does_not(name):
    """The tests can fail: what is under the mask is far from random."""
    assert min(looks_random(as_words(CONTRIBUTIONS[name])).values()) < 1e-30


@pytest.mark.parametrize("sites", [2, 3, 5])
def test_all_messages_but_one_are_useless(sites):
    """Each of them, and their sum, is uniform: so are all sums of some of them."""
    masks, parts = keyed(range(sites)), list(CONTRIBUTIONS.values())
    said = [
        as_words(parts[i % len(parts)]) + masks[i].mask(range(sites), 9, WORDS)
        for i in range(sites)
    ]
    for gone in range(sites):
        rest = [message for i, message in enumerate(said) if i != gone]
        for seen in (*rest, np.add.reduce(rest, axis=0)):
            assert min(looks_random(seen).values()) > LEAST_P
    opened = np.add.reduce(said, axis=0)
    assert (opened == np.add.reduce([as_words(parts[i % len(parts)]) for i in range(sites)])).all()


def test_messages_of_two_contributions_look_alike():
    """Two samples of bytes, one under each contribution, by chi-square."""
    counts = []
    for part in (CONTRIBUTIONS["zero"], CONTRIBUTIONS["the end of the range"]):
        said = as_words(part) + keyed(range(4))[0].mask(range(4), 2, WORDS)
        counts.append(np.bincount(said.view(np.uint8), minlength=256))
    assert stats.chi2_contingency(counts).pvalue > LEAST_P


def test_masks_of_two_sums_are_unrelated():
    """If one were used twice the difference of two messages would be that of their parts."""
    masks = keyed(range(3))[0]
    difference = masks.mask(range(3), 1, WORDS) - masks.mask(range(3), 2, WORDS)
    assert min(looks_random(difference).values()) > LEAST_P


# Keys


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_without_a_secret_is_refused(point):
    """`cryptography` refuses the secret that is all zero."""
    theirs = point.to_bytes(32, "little")
    own = X25519PrivateKey.generate()
    with pytest.raises(ValueError, match="shared key"):
        own.exchange(X25519PublicKey.from_public_bytes(theirs))
    with pytest.raises(ProtocolError, match="Site 1 announced a key that gives no secret"):
        Masks.between(0, new_key(), {1: theirs}, b"run")


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length):
    with pytest.raises(ProtocolError, match="gives no secret"):
        Masks.between(0, new_key(), {1: bytes(range(length))}, b"run")


def test_ones_own_key_is_refused():
    private = new_key()
    with pytest.raises(ProtocolError, match="Site 1 announced the key of site 0"):
        Masks.between(0, private, {1: public_key(private)}, b"run")


def test_ones_own_key_in_another_spelling_gives_a_mask_that_nobody_else_knows():
    """The highest bit does not count, so this passes; the secret is one that site 1 lacks."""
    private, theirs = new_key(), new_key()
    reflected = bytearray(public_key(private))
    reflected[31] |= 0x80
    masks = Masks.between(0, private, {1: bytes(reflected), 2: public_key(theirs)}, b"run")
    honest = Masks.between(2, theirs, {0: public_key(private)}, b"run")
    assert masks.secrets[1] != masks.secrets[2]
    assert (masks._stream(2, [0, 1, 2], 1, 8) == honest._stream(0, [0, 1, 2], 1, 8)).all()
    assert masks._key(1, [0, 1, 2], 1) != masks._key(2, [0, 1, 2], 1)


def test_who_announces_the_key_of_another_learns_nothing_and_cancels_nothing():
    """Site 2 says that site 1's key is its own: 0 shares one secret with both, but no key."""
    zero, one = new_key(), new_key()
    copied = {1: public_key(one), 2: public_key(one)}
    masks = Masks.between(0, zero, copied, b"run")
    assert masks.secrets[1] == masks.secrets[2]
    assert masks._key(1, [0, 1, 2], 1) != masks._key(2, [0, 1, 2], 1)
    said = as_words(CONTRIBUTIONS["all alike"]) + masks.mask(range(3), 1, WORDS)
    honest = Masks.between(1, one, {0: public_key(zero)}, b"run")
    left = said - honest._stream(0, [0, 1, 2], 1, WORDS)  # site 1 colludes: still masked
    assert min(looks_random(left).values()) > LEAST_P


def test_a_site_has_no_mask_for_a_sum_without_it_or_with_strangers():
    masks = keyed(range(3))[0]
    for members in ((1, 2), (0, 1, 7), ()):
        with pytest.raises(ProtocolError, match="has no mask for a sum of"):
            masks.mask(members, 1, 4)


def test_secrets_are_not_printed_and_not_pickled():
    private = {i: new_key() for i in range(2)}
    masks = keyed(range(2), b"run", private)[0]
    hidden = [*private.values(), *masks.secrets.values()]
    for shown in (repr(masks), str(masks), f"{[masks]}"):
        assert not any(repr(secret)[2:-1] in shown or secret.hex() in shown for secret in hidden)
    with pytest.raises(TypeError, match="not pickled by the way"):
        pickle.dumps(masks)
    with moving_records():
        assert pickle.loads(pickle.dumps(masks)).secrets == masks.secrets


def test_the_key_is_that_of_rfc_5869_and_the_stream_that_of_rfc_8439():
    """Written down anew with hashlib and hmac, so that two versions of the code agree."""
    import hmac
    import struct

    masks = keyed((2, 5, 9), b"a run")[5]
    info = b"ppadmm mask 1\0" + struct.pack("<3Q3Q", 5, 9, 17, 2, 5, 9)
    extracted = hmac.digest(b"a run", masks.secrets[9], hashlib.sha256)
    assert masks._key(9, [2, 5, 9], 17) == hmac.digest(extracted, info + b"\1", hashlib.sha256)
