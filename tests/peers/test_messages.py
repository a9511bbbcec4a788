"""Bytes between agents: what goes out comes in, and nothing else does."""

import hashlib
import tracemalloc

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppadmm.agent import Message
from ppadmm.algorithms import SharedState
from ppadmm.errors import ForeignError
from ppadmm.peers.messages import DOMAIN, HEAD, MOST_PARAMETERS, SIGNATURE, Codec, sign

RUN, D = b"0123456789abcdef", 7
PRIVATE = {i: Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(3)}
CODEC = Codec(RUN, D, {i: key.public_key() for i, key in PRIVATE.items()})
numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=D, max_size=D)


def message(agent=1, round_=5, value=None, total=None):
    rng = np.random.default_rng(0)
    value = rng.standard_normal(D) if value is None else np.array(value)
    total = rng.standard_normal(D) if total is None else np.array(total)
    return Message(agent, round_, SharedState(value[None], total[None]))


@given(st.integers(0, 2), st.integers(0, 2**32 - 1), numbers, numbers)
def test_what_goes_out_comes_in_bit_for_bit(agent, round_, value, total):
    sent = message(agent, round_, value, total)
    data = CODEC.encode(sent, PRIVATE[agent])
    got = CODEC.decode(data)
    assert (got.agent, got.round) == (agent, round_)
    assert got.heard.value.tobytes() == sent.heard.value.tobytes()
    assert got.heard.total.tobytes() == sent.heard.total.tobytes()
    assert CODEC.encode(got, PRIVATE[agent]) == data


def test_every_changed_byte_is_refused():
    data = CODEC.encode(message(), PRIVATE[1])
    for k in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[k] ^= flip
            with pytest.raises(ForeignError, match="A message was refused"):
                CODEC.decode(bytes(changed))


def test_the_signature_is_over_the_digest_of_all_before_it():
    """As the format says it, without the code that is tested; the bytes themselves are not."""
    data = CODEC.encode(message(), PRIVATE[1])
    body, signature = data[:-SIGNATURE], data[-SIGNATURE:]
    public = PRIVATE[1].public_key()
    public.verify(signature, b"ppadmm message 2\0" + hashlib.sha256(body).digest())
    for other in (body, hashlib.sha256(body).digest(), DOMAIN + body):
        with pytest.raises(InvalidSignature):
            public.verify(signature, other)


@pytest.mark.parametrize("change", [-1, 1, 64, -64])
def test_every_other_length_is_refused(change):
    data = CODEC.encode(message(), PRIVATE[1])
    other = data[:change] if change < 0 else data + bytes(change)
    with pytest.raises(ForeignError, match=f"{len(other)} bytes, not {len(data)}"):
        CODEC.decode(other)


def signed(agent=1, signer=1, run=RUN, version=2, kind=1, magic=b"PPAD", d=D, numbers=None):
    """A message made by someone who has a key and means mischief."""
    head = HEAD.pack(magic, version, kind, run, agent, 5, d)
    body = head + (np.zeros(2 * D) if numbers is None else np.asarray(numbers)).tobytes()
    return sign(body, PRIVATE[signer])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (signed(agent=2, signer=1), "not signed by agent 2"),
        (signed(agent=9), "agent 9 is not in the agreement"),
        (signed(run=b"another run 1234"), "belongs to another run"),
        (signed(version=1), "speaks version 1, not 2"),
        (signed(kind=7), "kind 7 is unknown"),
        (signed(magic=b"HTTP"), "not a message of ppadmm"),
        (signed(d=MOST_PARAMETERS), "announces 16777216 parameters, not 7"),
        (signed(numbers=[np.nan] + [0.0] * 13), "NaN or infinity"),
        (signed(numbers=[0.0] * 13 + [-np.inf]), "NaN or infinity"),
    ],
)
def test_mischief_is_named(data, reason):
    with pytest.raises(ForeignError, match=reason):
        CODEC.decode(data)


@settings(max_examples=3000, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=2 * HEAD.size) | st.binary(min_size=CODEC.length, max_size=CODEC.length))
def test_random_bytes_are_refused_and_nothing_else_happens(data):
    with pytest.raises(ForeignError):
        CODEC.decode(data)


def test_a_hundred_thousand_mangled_messages_take_no_memory():
    """Random edits of a true message: cut, lengthened, flipped; quick because no hypothesis."""
    rng = np.random.default_rng(1)
    true = CODEC.encode(message(), PRIVATE[1])
    kinds = rng.integers(0, 4, 100_000)
    places = rng.integers(0, len(true), 100_000)
    values = rng.integers(1, 256, 100_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for kind, place, value in zip(kinds.tolist(), places.tolist(), values.tolist(), strict=True):
        data = bytearray(true)
        if kind == 0:
            data = data[:place]
        elif kind == 1:
            data += bytes(value)
        elif kind == 2:
            data[place : place + 4] = bytes([value]) * 4
        else:
            data[place] ^= value
        if bytes(data) == true:
            continue
        try:
            CODEC.decode(bytes(data))
        except ForeignError:
            continue
        raise AssertionError("A mangled message was taken for a true one.")
    assert tracemalloc.get_traced_memory()[0] - before < 100_000
    tracemalloc.stop()


def test_only_whole_messages_of_one_run_can_be_encoded():
    with pytest.raises(ValueError, match=r"shape \(1, 7\), got \(1, 3\)"):
        CODEC.encode(Message(1, 0, SharedState(np.zeros((1, 3)), np.zeros((1, 3)))), PRIVATE[1])
    with pytest.raises(ValueError, match="16 bytes, got 3"):
        Codec(b"abc", D, {})
    with pytest.raises(ValueError, match="parameters, got 0"):
        Codec(RUN, 0, {})
