"""Zenoh's own words about refused links, turned into the peer's."""

import os

import pytest

from ppadmm.peers.zenoh.log import ZenohLog, in_words

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
HEAD = "2026-11-16T16:04:05.89Z  WARN acc-0 ThreadId(06) "
HINT = ". Hint: increase the system open file limit.\n"
COLOURED = (
    "\x1b[2m2026-11-16T16:04:05Z\x1b[0m \x1b[33m WARN\x1b[0m acc-0 \x1b[2mzenoh_link_tls::unicast"
    "\x1b[0m\x1b[2m:\x1b[0m peer sent no certificates" + HINT
)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("peer sent no certificates", "it showed no certificate"),
        ("invalid peer certificate: certificate expired: verification time 1", "has expired"),
        ("invalid peer certificate: BadSignature", "is not from this site's authority"),
        ("received fatal alert: DecryptError", "it does not take this site's certificate"),
        ("something new", "something new"),
    ],
)
def test_every_kind_of_refusal_has_its_words(said, meant):
    found = in_words(f"{HEAD}zenoh_link_tls::unicast: {said}{HINT}")
    assert meant in found
    assert "Hint" not in found


def test_colours_do_not_matter_and_other_lines_are_left_out():
    assert in_words(COLOURED) == "it showed no certificate"
    assert in_words(f"{HEAD}zenoh::net::routing: Gossip is disabled") is None


def test_a_flood_is_told_ever_less_often(caplog):
    log = ZenohLog()
    for _ in range(1500):
        log.take(COLOURED)
    log.take(f"{HEAD}zenoh_link_tls::unicast: received fatal alert: X{HINT}")
    for k in range(30):
        log.take(f"{HEAD}zenoh_link_tls::unicast: something new, number {k}{HINT}")
    counts = [record.fields["count"] for record in caplog.records]
    assert counts == [1, 10, 100, 1000, 1, 1, 10]
    assert caplog.records[-1].fields["why"] == "something new, number 9"
    assert len(log._counts) == 3


def test_standard_output_is_taken_over_and_given_back(caplog, monkeypatch, capfd):
    monkeypatch.setenv("RUST_LOG", "warn")
    before = os.fstat(1)
    with ZenohLog():
        os.write(1, COLOURED.encode())
        os.write(1, b"another line\n")
    assert os.fstat(1) == before
    assert [record.fields["why"] for record in caplog.records] == ["it showed no certificate"]
    assert capfd.readouterr() == ("", COLOURED + "another line\n")


def test_a_reader_that_is_slow_does_not_hold_zenoh_up():
    """More than a pipe holds, while nobody reads: the rest is lost, and nobody waits."""
    log, pipes = ZenohLog(), []
    log._read = pipes.append
    with log, pytest.raises(BlockingIOError):
        all(os.write(1, bytes(4096)) for _ in range(10_000))
    os.close(pipes[0])
