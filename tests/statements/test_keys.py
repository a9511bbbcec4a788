"""Signing keys, and passphrases from a file, the environment and a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from ppadmm.errors import InputError
from ppadmm.statements import keys
from tests.small_runs import folder_of


def test_a_public_key_is_read_from_a_file_or_from_the_line(tmp_path):
    public = keys.new_key(tmp_path / "k")
    assert keys.public_key_named(str(tmp_path / "k.pub")) == public == keys.public_key_named(public)
    assert keys.public_key(keys.read_key(tmp_path / "k")) == public
    with pytest.raises(InputError, match="is no public key"):
        keys.public_key_named(str(tmp_path / "k"))


TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
PPADMM = [sys.executable, "-c", "from ppadmm.cli import main; main()"]


def typed(answers, *words):
    """Run a command at a terminal and type an answer at every prompt."""
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, *PPADMM, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        said = b""
        for answer in answers:
            while not said.endswith(b": "):
                said += process.stdout.read(1)
            process.stdin.write(answer + b"\n")
            process.stdin.flush()
            said += b"."
        said += process.stdout.read()
    return process.returncode, said.decode()


class TestPassphrases:
    @pytest.fixture(autouse=True)
    def _nothing_told(self, monkeypatch):
        monkeypatch.delenv("PPADMM_PASSPHRASE", raising=False)

    def test_an_encrypted_key_opens_with_its_passphrase_only(self, tmp_path):
        path = tmp_path / "k"
        public = keys.new_key(path, "größer".encode())
        assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
        assert keys.public_key(keys.read_key(path, "größer".encode())) == public
        with pytest.raises(InputError, match="The passphrase does not open"):
            keys.read_key(path, b"other")
        with pytest.raises(InputError, match=r"is encrypted; give its passphrase in PPADMM_PASS"):
            keys.read_key(path)
        with pytest.raises(InputError, match="got an empty one"):
            keys.new_key(tmp_path / "other", b"")
        assert not (tmp_path / "other").exists()

    def test_a_key_without_one_is_read_whatever_is_told(self, tmp_path):
        public = keys.new_key(tmp_path / "k")
        assert keys.public_key(keys.read_key(tmp_path / "k", b"for another key")) == public

    def test_from_the_environment_and_from_a_file(self, command, monkeypatch):
        run = folder_of("pooled")
        Path("secret").write_bytes(b"correct horse\nanother line\n")
        made = command("key", "new", "k", "--passphrase-file", "secret")
        assert "(encrypted; keep it secret)" in made.out
        sign = ("certify", run, "--key", "k", "--out")
        refused = command(*sign, "one")
        assert refused.code == 2
        assert "'k' is encrypted; give its passphrase" in refused.err
        assert command(*sign, "one", "--passphrase-file", "secret").code == 0
        monkeypatch.setenv("PPADMM_PASSPHRASE", "correct horse")
        assert command(*sign, "two").code == 0
        assert command("verify", "two", "--trust", "k.pub").code == 0
        monkeypatch.setenv("PPADMM_PASSPHRASE", "wrong")
        wrong = command(*sign, "three")
        assert wrong.code == 2
        assert "The passphrase does not open 'k'" in wrong.err
        assert not Path("three").exists()
        assert "Cannot read the passphrase" in command(*sign, "x", "--passphrase-file", "no").err
        monkeypatch.setenv("PPADMM_PASSPHRASE", "")
        assert "got an empty one" in command("key", "new", "l").err

    def test_a_key_that_is_not_encrypted_says_so(self, command):
        assert "NOT encrypted" in command("key", "new", "k").out

    def test_asked_for_at_a_terminal(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, said = typed([b"one word", b"one word"], "key", "new", "k", "--passphrase")
        assert code == 0, said
        assert "one word" not in said
        keys.read_key(tmp_path / "k", b"one word")
        run = str(folder_of("pooled"))
        code, said = typed([b"one word"], "certify", run, "--key", "k", "--out", "c")
        assert code == 0, said
        code, said = typed([b"no word"], "certify", run, "--key", "k", "--out", "d")
        assert code == 2
        assert "does not open" in said
