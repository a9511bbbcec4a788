"""Files that are there whole or not at all, also when the disk is full or two write at once."""

import os
import stat
import threading
from contextlib import suppress

import pytest

from ppadmm.errors import InputError
from ppadmm.files import sync_files, write_new, write_private, write_whole


@pytest.fixture
def full(monkeypatch):
    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    write_whole(tmp_path / "f", b"old")
    write_whole(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert names(tmp_path) == ["f"]


@pytest.mark.usefixtures("full")
def test_what_was_there_stays_where_the_new_cannot_be_written(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_a_new_file_is_never_written_over_another(tmp_path):
    write_new(tmp_path / "f", b"mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("f", "link"):
        with pytest.raises(InputError, match=f"{name}' exists already and is not overwritten"):
            write_new(tmp_path / name, b"yours")
    assert (tmp_path / "f").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("full")
def test_of_a_new_file_that_cannot_be_written_nothing_stays(tmp_path):
    with pytest.raises(InputError, match="No space left on device; choose another place"):
        write_new(tmp_path / "f", b"mine")
    assert names(tmp_path) == []
    with pytest.raises(InputError, match=r"Cannot write '.*no/f': No such file"):
        write_new(tmp_path / "no" / "f", b"mine")


def test_of_two_writers_one_is_refused(tmp_path):
    done, start = [], threading.Barrier(8)

    def write(k):
        start.wait()
        with suppress(InputError):
            write_new(tmp_path / "f", bytes([k]) * 100)
            done.append(k)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert (tmp_path / "f").read_bytes() == bytes(done) * 100


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_a_secret_is_its_owners_alone_at_every_moment(tmp_path, monkeypatch):
    seen = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda d: (seen.append(os.fstat(d).st_mode), fsync(d)))
    write_private(tmp_path / "new" / "k", b"secret")
    files = [mode for mode in seen if stat.S_ISREG(mode)]
    assert [stat.S_IMODE(mode) for mode in files] == [0o600]
    assert stat.S_IMODE((tmp_path / "new" / "k").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no folders to sync")
def test_the_name_and_the_content_reach_the_disk(tmp_path, monkeypatch):
    """A file that was renamed is lost in a power cut unless its folder is synced, too."""
    kinds = []
    monkeypatch.setattr(os, "fsync", lambda d: kinds.append(stat.S_ISDIR(os.fstat(d).st_mode)))
    write_whole(tmp_path / "f", b"x")
    assert kinds == [False, True]
    (tmp_path / "g").write_bytes(b"y")
    kinds.clear()
    sync_files(tmp_path)
    assert kinds == [False, False, True]
