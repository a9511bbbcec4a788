"""Masks that cancel in the sum of all members and nowhere else.

Every pair of sites shares a secret: X25519 of two keys that live as long as the run. For each sum a
key of its own is derived from it (HKDF-SHA256, bound to the run, the sum and who takes part), and
ChaCha20 under that key gives the mask. The one with the lower number adds it, the other subtracts
it, modulo 2⁶⁴. All of the cryptography is that of the package `cryptography`.

A key is used for one sum: never for two, nor for the same sum with other members. Whoever asks
for a mask says which sum it is for, and never says two things in one (`ppadmm.sum_agent`).
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ppadmm.errors import ProtocolError
from ppadmm.records import HoldsRecords
from ppadmm.summing.fixed_point import Words

KEY = 32
DOMAIN = b"ppadmm mask 1\0"
NONCE = bytes(16)
"""Of ChaCha20: a key is used once."""


def new_key() -> bytes:
    """Return a private key from the operating system's generator."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """Return what others need of a private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


@dataclass(frozen=True)
class Masks(HoldsRecords):
    """One site's secrets with all others, for one run (`name`): never printed, nor pickled."""

    number: int
    name: bytes
    secrets: Mapping[int, bytes]

    @classmethod
    def between(
        cls, number: int, private: bytes, others: Mapping[int, bytes], name: bytes
    ) -> "Masks":
        """Agree on a secret with each of the others, by their public keys."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import (
            X25519PrivateKey,
            X25519PublicKey,
        )

        own = X25519PrivateKey.from_private_bytes(private)
        mine, secrets = public_key(private), {}
        for j, theirs in others.items():
            if theirs == mine:
                raise ProtocolError(f"Site {j} announced the key of site {number}.")
            try:
                secrets[j] = own.exchange(X25519PublicKey.from_public_bytes(theirs))
            except ValueError:
                raise ProtocolError(f"Site {j} announced a key that gives no secret.") from None
        return cls(number, name, secrets)

    def mask(self, members: Iterable[int], sum_: int, size: int) -> Words:
        """Return what this site adds to its numbers in one sum of `members`."""
        taking_part = sorted(members)
        if not {self.number} <= set(taking_part) <= {self.number, *self.secrets}:
            raise ProtocolError(
                f"Site {self.number} has no mask for a sum of {taking_part}: it shares secrets "
                f"with {sorted(self.secrets)}."
            )
        total = np.zeros(size, np.uint64)
        for j in taking_part:
            if j == self.number:
                continue
            shared = self._stream(j, taking_part, sum_, size)
            total = total + shared if self.number < j else total - shared
        return total

    def _stream(self, other: int, members: list[int], sum_: int, size: int) -> Words:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        cipher = Cipher(ChaCha20(self._key(other, members, sum_), NONCE), mode=None)
        stream = cipher.encryptor().update(bytes(8 * size))
        return np.frombuffer(stream, "<u8").astype(np.uint64)

    def _key(self, other: int, members: list[int], sum_: int) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        pair = sorted((self.number, other))
        info = struct.pack(f"<3Q{len(members)}Q", *pair, sum_, *members)
        derived = HKDF(SHA256(), KEY, salt=self.name, info=DOMAIN + info)
        return derived.derive(self.secrets[other])
