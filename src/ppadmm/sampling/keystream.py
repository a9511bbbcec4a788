"""Random words: ChaCha20 under keys from the operating system, each key for one request.

A generator that is stuck, repeats itself or returns too little is noticed before a word is used.
"""

import os
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ppadmm.errors import EntropyError

BLOCK = 8
"""Words in a block of ChaCha20."""

KNOWN = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
)
"""The first block of key 0 and nonce 0 (RFC 8439, appendix A.1, test vector 1)."""

_SPARE = 64


class Keystream:
    """Words of 64 bits that nobody can tell from uniform ones; no two requests share a key."""

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        if expand(bytes(32), BLOCK).tobytes() != KNOWN:
            raise EntropyError("ChaCha20 gives other words than RFC 8439; reinstall cryptography.")
        self._entropy = entropy
        self._seen: dict[str, bytes] = {}
        self._spare = np.empty(0, np.uint64)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return at least n words, in whole blocks."""
        found = expand(self._fresh_key(), -(-n // BLOCK) * BLOCK)
        self._look_at(found.reshape(-1, BLOCK))
        return found

    def word(self) -> int:
        """Return one word, for those that need one now and then."""
        if not len(self._spare):
            self._spare = self.words(_SPARE)
        word = int(self._spare[0])
        self._spare[0] = 0
        self._spare = self._spare[1:]
        return word

    def _fresh_key(self) -> bytes:
        key = self._entropy(32)
        if len(key) != 32:
            raise EntropyError(
                f"The system gave {len(key)} random bytes in place of 32; nothing was released."
            )
        if len(set(key)) == 1 or self._was_last("key", key):
            raise EntropyError(
                "The system's random generator gives the same bytes again; do not train on "
                "private records here."
            )
        return key

    def _look_at(self, blocks: NDArray[np.uint64]) -> None:
        """Refuse a block that is the one before: by chance that happens once in 2⁵¹² times."""
        alike = np.flatnonzero(blocks[1:, 0] == blocks[:-1, 0])
        again = any(np.array_equal(blocks[k], blocks[k + 1]) for k in alike)
        if again or self._was_last("block", blocks[0].tobytes()):
            raise EntropyError(
                "The cipher gives the same words again; nothing was released; reinstall "
                "cryptography."
            )

    def _was_last(self, kind: str, secret: bytes) -> bool:
        """Whether this is what came last time; only a hash of it is kept."""
        before, self._seen[kind] = self._seen.get(kind), blake2b(secret, digest_size=32).digest()
        return before == self._seen[kind]


def expand(key: bytes, n: int) -> NDArray[np.uint64]:
    """Return the first n words of ChaCha20 under a key that is used for nothing else."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    words = np.zeros(n, np.dtype("<u8"))
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    written = cipher.update_into(bytes(8 * n), words.data.cast("B"))
    if written != 8 * n:
        raise EntropyError(f"The cipher wrote {written} bytes in place of {8 * n}.")
    return words.astype(np.uint64, copy=False)
