"""Messages as bytes: versioned, signed, of a length that the receiver knows beforehand.

A message is of one of two kinds: VALUE, what an agent says in a round, and FINAL, the average that
it ends with, which others hand on as it is. Both have the same form:

    magic 4 | version 1 | kind 1 | run 16 | agent 4 | round 4 | d 4 | θ 8·d | S 8·d | signature 64

Numbers are little-endian. The run agreement fixes d, so a receiver knows how long a message must
be before it looks at one, and a peer cannot choose how much memory it takes. The signature
(Ed25519) is over `DOMAIN` and the SHA-256 of everything before it, so a relay can neither alter a
message nor speak for another agent. Ed25519 itself would read a long message twice to sign it, with
a slower hash. Nothing is ever unpickled.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ppadmm.agent import Message
from ppadmm.algorithms import SharedState
from ppadmm.arrays import Array
from ppadmm.errors import ForeignError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MAGIC = b"PPAD"
VERSION = 2
DOMAIN = b"ppadmm message 2\0"
VALUE = 1
FINAL = 2
SIGNATURE = 64
MOST_PARAMETERS = 1 << 24
HEAD = struct.Struct("<4sBB16sIII")


@dataclass(frozen=True)
class Codec:
    """Encodes and decodes the messages of one run with d parameters.

    `run` is the run's 16-byte identifier and `keys` holds every agent's public key.
    """

    run: bytes
    parameters: int
    keys: "Mapping[int, Ed25519PublicKey]"

    def __post_init__(self) -> None:
        if len(self.run) != 16:
            raise ValueError(f"Expected a run identifier of 16 bytes, got {len(self.run)}.")
        if not 0 < self.parameters <= MOST_PARAMETERS:
            raise ValueError(
                f"Expected 1 to {MOST_PARAMETERS:,} parameters, got {self.parameters}."
            )

    @property
    def length(self) -> int:
        """How long every message of this run is."""
        return message_length(self.parameters)

    def encode(self, message: Message, key: "Ed25519PrivateKey", kind: int = VALUE) -> bytes:
        """Return the signed bytes of one replicate's message; the same message, the same bytes."""
        value, total = message.heard.value, message.heard.total
        if value.shape != (1, self.parameters) or total.shape != value.shape:
            raise ValueError(f"Expected values of shape (1, {self.parameters}), got {value.shape}.")
        head = HEAD.pack(
            MAGIC, VERSION, kind, self.run, message.agent, message.round, self.parameters
        )
        return sign(b"".join((head, _bytes(value), _bytes(total))), key)

    def decode(self, data: bytes, kind: int = VALUE) -> Message:
        """Return the message, or raise `ForeignError` for anything that is not one of this run."""
        if len(data) != self.length:
            _refuse(f"it has {len(data)} bytes, not {self.length}")
        magic, version, found, run, agent, round_, parameters = HEAD.unpack_from(data)
        if magic != MAGIC:
            _refuse("it is not a message of ppadmm")
        if version != VERSION:
            _refuse(f"it speaks version {version}, not {VERSION}; use one version everywhere")
        if found != kind:
            _refuse(f"its kind {found} is unknown")
        if run != self.run:
            _refuse("it belongs to another run")
        if parameters != self.parameters:
            _refuse(f"it announces {parameters} parameters, not {self.parameters}")
        if agent not in self.keys:
            _refuse(f"agent {agent} is not in the agreement")
        if not is_signed(data, self.keys[agent]):
            _refuse(f"it is not signed by agent {agent}")
        numbers = np.frombuffer(data, "<f8", 2 * self.parameters, HEAD.size).astype(np.float64)
        if not np.isfinite(numbers).all():
            _refuse("it holds NaN or infinity")
        value, total = numbers.reshape(2, 1, self.parameters)
        return Message(agent, round_, SharedState(value, total))


def message_length(parameters: int) -> int:
    """Return how long a message with so many parameters is."""
    return HEAD.size + 16 * parameters + SIGNATURE


def sign(body: bytes, key: "Ed25519PrivateKey") -> bytes:
    """Return a message or a note with its signature."""
    return body + key.sign(_signed(body))


def is_signed(data: bytes, key: "Ed25519PublicKey") -> bool:
    """Say whether the holder of this key wrote a message or a note."""
    try:
        key.verify(data[-SIGNATURE:], _signed(memoryview(data)[:-SIGNATURE]))
    except _invalid():
        return False
    return True


def _invalid() -> type[Exception]:
    """Return what a wrong signature raises; loaded only where one is met."""
    from cryptography.exceptions import InvalidSignature

    return InvalidSignature


def _signed(body: bytes | memoryview) -> bytes:
    return DOMAIN + hashlib.sha256(body).digest()


def _bytes(values: Array) -> bytes:
    return values.astype("<f8", copy=False).tobytes()


def kind_of(data: bytes) -> int | None:
    """Return what kind of message these bytes claim to be, None if of none; nothing is proven."""
    return data[5] if len(data) > 5 and data.startswith(MAGIC) else None


def _refuse(reason: str) -> NoReturn:
    raise ForeignError(f"A message was refused: {reason}.")
