"""Random words: where they come from, that none comes twice, and what a broken source gives."""

import os
import threading
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy.stats import chisquare

from ppadmm.errors import EntropyError
from ppadmm.noise import FINENESS, Key, SecureNoise
from ppadmm.sampling import grid, keystream, stock
from ppadmm.sampling.keystream import Keystream, expand
from ppadmm.sampling.stock import Store, store


def keys():
    """Return an entropy source that counts: other bytes each time, and known."""
    count = iter(range(1, 10**6))
    return lambda n: next(count).to_bytes(n, "little")


class TestWords:
    def test_they_are_those_of_the_cipher(self):
        key = bytes(range(32))
        whole = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        assert expand(key, 64).astype("<u8").tobytes() == whole.update(bytes(512))

    def test_every_request_has_a_key_of_its_own(self):
        stream = Keystream(keys())
        for k in range(1, 5):
            np.testing.assert_array_equal(stream.words(24), expand(k.to_bytes(32, "little"), 24))

    def test_single_words_are_used_once(self):
        stream = Keystream(keys())
        found = [stream.word() for _ in range(200)]
        expected = np.concatenate([expand(k.to_bytes(32, "little"), 64) for k in range(1, 5)])
        assert found == expected[:200].tolist()

    def test_there_are_as_many_as_asked_for(self):
        for n in (1, 7, 8, 9, 1000):
            assert n <= len(Keystream().words(n)) < n + 8

    def test_they_look_uniform(self):
        words = Keystream().words(1 << 16)
        assert chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6

    def test_two_streams_share_no_word(self):
        a, b = Keystream().words(4096), Keystream().words(4096)
        assert not set(a.tolist()) & set(b.tolist())


class TestBroken:
    """Whatever is wrong, there is a sentence, and no number."""

    @pytest.mark.parametrize("byte", [0, 7, 255])
    def test_a_generator_that_is_stuck(self, byte):
        with pytest.raises(EntropyError, match="same bytes again; do not train"):
            Keystream(lambda n: bytes([byte]) * n).words(8)

    def test_a_generator_that_repeats_itself(self):
        stream = Keystream(lambda n: bytes(range(n)))
        stream.words(8)
        with pytest.raises(EntropyError, match="same bytes again"):
            stream.words(8)

    @pytest.mark.parametrize("n", [0, 31, 33])
    def test_a_generator_that_gives_another_number_of_bytes(self, n):
        with pytest.raises(EntropyError, match=f"gave {n} random bytes in place of 32"):
            Keystream(lambda _: os.urandom(n)).words(8)

    @pytest.mark.parametrize("at", [0, 1, 5])
    def test_a_cipher_that_repeats_a_block(self, at, monkeypatch):
        real, first = expand, []

        def repeating(key, n):
            words = real(key, n)
            if n == 64:
                first.append(words[:8].copy())
                words[8 * at : 8 * at + 8] = words[8 * at - 8 : 8 * at] if at else first[0]
            return words

        stream = Keystream()
        monkeypatch.setattr(keystream, "expand", repeating)
        with pytest.raises(EntropyError, match="same words again"):
            [stream.words(64) for _ in range(2)]

    def test_a_cipher_of_another_law(self, monkeypatch):
        monkeypatch.setattr(keystream, "expand", lambda key, n: np.arange(n, dtype=np.uint64))
        with pytest.raises(EntropyError, match="other words than RFC 8439"):
            Keystream()

    def test_a_cipher_that_writes_less(self, monkeypatch):
        class Short:
            def __init__(self, *_, **__): ...

            def encryptor(self):
                return self

            def update_into(self, data, room):
                return len(data) - 1

        import cryptography.hazmat.primitives.ciphers as module

        monkeypatch.setattr(module, "Cipher", Short)
        with pytest.raises(EntropyError, match="wrote 63 bytes in place of 64"):
            expand(bytes(32), 8)

    def test_equal_words_in_other_blocks_are_chance(self):
        """Only whole blocks count: a test of single words would change the law."""
        stream = Keystream()
        blocks = np.arange(32, dtype=np.uint64).reshape(4, 8)
        blocks[:, 0] = 5
        stream._look_at(blocks)

    def test_nothing_leaves_the_noise_source(self, monkeypatch):
        broken = iter([os.urandom(32)])
        monkeypatch.setattr(stock, "_opened", [Store(Keystream(lambda n: next(broken, bytes(n))))])
        noise = SecureNoise()
        with pytest.raises(EntropyError):
            noise.gaussian(np.zeros((1, 3)), np.ones(1), np.ones(1) * FINENESS, Key(0, 0, "b"))

    def test_it_is_noticed_before_anything_is_paid_for(self, monkeypatch):
        """A noise source is made before the first charge."""
        monkeypatch.setattr(stock, "_opened", [])
        monkeypatch.setattr(stock, "Keystream", lambda: Keystream(lambda n: bytes(n)))
        with pytest.raises(EntropyError, match="do not train"):
            SecureNoise()

    def test_no_key_is_kept(self):
        stream = Keystream(keys())
        words = stream.words(64)
        kept = repr(vars(stream)).encode() + b"".join(stream._seen.values())
        assert (1).to_bytes(32, "little") not in kept
        assert words[:8].tobytes() not in kept


class TestStore:
    def test_numbers_are_handed_out_once(self):
        """Taken in parts or at once, they are those of the key stream, in order, none twice."""
        whole = Store(Keystream(keys())).take("normal", 30_000)
        parts = Store(Keystream(keys()))
        other = [parts.take("normal", n) for n in (1, 4095, 5, 9000, 16_899)]
        for name in ("negative", "whole", "digit"):
            joined = np.concatenate([getattr(part, name) for part in other])
            np.testing.assert_array_equal(joined, getattr(whole, name))
        assert max(Counter(whole.digit.tolist()).values()) == 1

    def test_what_was_handed_out_is_wiped(self):
        shelf = Store(Keystream(keys()))
        shelf.take("normal", 10)
        kept = shelf._stocks["normal"]._ready
        assert kept.digit[10:300].all()
        grid.release(np.zeros(100), 1.0, -44, "normal", shelf)
        some = slice(10, 110)
        assert not any(part[some].any() for part in (kept.digit, kept.whole, kept.negative))
        assert kept.digit[110:300].all()
        rest = len(kept)
        grid.release(np.zeros(rest), 1.0, -44, "normal", shelf)
        assert not kept.digit[10:].any()

    def test_laws_have_words_of_their_own(self):
        shelf = Store(Keystream(keys()))
        a, b = shelf.take("normal", 1000), shelf.take("exponential", 1000)
        assert not set(a.digit.tolist()) & set(b.digit.tolist())

    def test_digits_beyond_the_first_go_along(self):
        shelf = Store(Keystream(keys()))
        shelf.take("normal", 1)
        shelf._stocks["normal"]._ready.further[7] = (1, 2)
        taken = shelf.take("normal", 10)
        assert taken.further == {6: (1, 2)}
        assert shelf._stocks["normal"]._ready.further == {}

    def test_threads_share_no_number(self):
        found, wait = [], threading.Barrier(8)

        def draw():
            wait.wait()
            found.extend(store().take("normal", 101).digit.tolist() for _ in range(40))

        threads = [threading.Thread(target=draw) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        digits = [digit for part in found for digit in part]
        assert len(digits) == 8 * 40 * 101 == len(set(digits))


def forked(action):
    """Return what `action` returns in a child of this process, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, repr(action()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
class TestForks:
    def test_a_child_draws_other_numbers(self):
        store().take("normal", 1)

        def some():
            return store().take("normal", 50).digit.tolist()

        texts = [forked(some), forked(some), repr(some())]
        numbers = [set(text.strip("[]").split(", ")) for text in texts]
        assert [len(each) for each in numbers] == [50] * 3
        assert not numbers[0] & numbers[1] | numbers[0] & numbers[2] | numbers[1] & numbers[2]

    def test_a_child_is_known_by_its_number_if_nobody_told_it(self, monkeypatch):
        """A fork behind Python's back: the store still has the number of its process."""
        mine = store()
        monkeypatch.setattr(os, "getpid", lambda: mine.process + 1)
        assert store() is not mine

    def test_a_child_with_the_number_of_its_ancestor_starts_anew(self):
        def same_number():
            real, os.getpid = os.getpid, lambda: parent
            try:
                return bool(stock._opened)
            finally:
                os.getpid = real

        store()
        parent = os.getpid()
        assert stock._opened
        assert forked(same_number) == "False"

    def test_a_fork_while_another_thread_draws(self):
        store()
        with stock._opened[0]._turn:
            assert len(forked(lambda: store().take("normal", 3).digit.tolist())) > 20
