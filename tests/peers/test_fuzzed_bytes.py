"""Bytes that nobody should send: into the decoders and on the port.

PPADMM_FULL=1 tries 100,000 of each; without it a few thousand and a few hundred.
"""

import gc
import os
import random
import socket
import ssl
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppadmm.agent import Message
from ppadmm.algorithms import SharedState
from ppadmm.errors import ForeignError
from ppadmm.peers import control
from ppadmm.peers.messages import FINAL, VALUE, VERSION, Codec, sign
from tests.peers.hub import Hub
from tests.peers.in_memory import agents_of, agreed, graph_of, key_of, peer_of
from tests.peers.sites import Peer, make_sites, until

FULL = bool(os.environ.get("PPADMM_FULL"))
INPUTS = 100_000 if FULL else 3_000
CONNECTIONS = 100_000 if FULL else 200
MIB = 1 << 20


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A peer and what a neighbour could truly say to it."""
    agreement = agreed(graph_of(4))
    hub = Hub(agreement.edges)
    agents = agents_of(agreement)
    folder = tmp_path_factory.mktemp("fuzz")
    peer = peer_of(agents[0], agreement, hub.end(0), folder)
    peer._transport.start()
    other = peer_of(agents[1], agreement, hub.end(1), folder)
    codec = Codec(agreement.run, agreement.parameters, {})
    heard = SharedState(np.ones((1, 5)), np.ones((1, 5)))
    true = [
        codec.encode(Message(1, 0, heard), key_of(1), VALUE),
        codec.encode(Message(2, 5, heard), key_of(2), FINAL),
        other.note().encode(key_of(1)),
    ]
    return peer, true


CUTS = st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.binary(max_size=12), st.booleans())


@given(case=CUTS | st.binary(max_size=400))
@settings(max_examples=INPUTS)
def test_whatever_comes_is_refused_or_changes_nothing(target, case):
    """Random bytes, and true messages with some bytes replaced or the rest cut off."""
    peer, true = target
    data = case
    if isinstance(case, tuple):
        which, at, put, cut = case
        at %= len(true[which])
        data = true[which][:at] + put + (b"" if cut else true[which][at + len(put) :])
    if data in true:
        return
    before = peer.agent.snapshot().inbox, peer.finals, peer.signed, peer.tally.received + 1
    peer._take(1, data)
    after = peer.agent.snapshot().inbox, peer.finals, peer.signed, peer.tally.received
    assert after == before


@given(text=st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
))  # fmt: skip
@settings(max_examples=INPUTS // 10)
def test_notes_with_any_content_are_read_or_refused(text, target):
    import json

    body = json.dumps(text).encode()
    head = control.HEAD.pack(b"PPAD", VERSION, control.NOTE, 1, len(body))
    signed = head + body
    with pytest.raises(ForeignError):
        control.decode(sign(signed, key_of(1)))


@given(entry=st.sampled_from(["time", "round", "signatures", "finals", "agreement", "phase"]),
       value=st.none() | st.integers() | st.floats() | st.text(max_size=5)
       | st.lists(st.integers(), max_size=3)
       | st.dictionaries(st.text(max_size=5), st.text(max_size=5)))  # fmt: skip
@settings(max_examples=INPUTS // 10)
def test_a_neighbour_cannot_harm_by_what_it_signs(target, entry, value):
    """Well signed, of the right run or of another, and nonsense in one entry."""
    import json

    peer, true = target
    before = peer.agent.snapshot().inbox, peer.finals, peer.tally.received + 2
    content = json.loads(true[2][control.HEAD.size : -64])
    for change in ({entry: value}, {entry: value, "digest": "0" * 64}):
        body = json.dumps({**content, **change}).encode()
        signed = control.HEAD.pack(b"PPAD", VERSION, control.NOTE, 1, len(body)) + body
        peer._take(1, sign(signed, key_of(1)))
    assert (peer.agent.snapshot().inbox, peer.finals, peer.tally.received) == before


def test_garbage_takes_no_memory(target):
    peer, true = target
    draw = random.Random(0)
    tracemalloc.start()
    before = None
    for k in range(INPUTS):
        data = bytearray(true[k % 3])
        for _ in range(3):
            data[draw.randrange(len(data))] = draw.randrange(256)
        peer._take(1, bytes(data))
        if k == INPUTS // 3:
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < MIB // 16


def send(port, context, data):
    """Connect, in TLS or not, say something and go."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as plain:
            if context is None:
                plain.sendall(data)
                return
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as link:
                link.sendall(data)
    except OSError:
        pass


def shower(port, context, count, threads=16):
    """Send so many inputs over as many links at a time; one in fifty is not even TLS.

    Zenoh pauses for a tenth of a second after each of those, so more of them take hours.
    """

    def work(seed):
        draw = random.Random(seed)
        for k in range(count // threads + 1):
            data = draw.randbytes(draw.randrange(1, 2000))
            framed = len(data).to_bytes(2, "little") + data
            send(port, context if k % 50 else None, framed if k % 2 else data)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def trusted(folder):
    """A neighbour's own certificate: what it sends reaches Zenoh's parser."""
    context = ssl.create_default_context(cafile=folder / "keys" / "authority.pem")
    context.load_cert_chain(folder / "keys" / "certificate.pem", folder / "keys" / "tls.key")
    return context


def test_garbage_on_the_port_does_no_harm(tmp_path):
    """Plain bytes, and bytes in TLS with and without a frame's length, from a neighbour."""
    pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")
    sites = make_sites(tmp_path, n=3, rounds=4)
    peer = Peer(sites.files[0], "--test-seed", 1, "--wait", 10_000)
    port = int(sites.agreement.parties[0].endpoint.rpartition(":")[2])
    try:
        until(lambda: _answers(port))
        context = trusted(sites.files[1].parent)
        shower(port, context, CONNECTIONS // 4)
        before, started = peer.memory, time.monotonic()
        shower(port, context, CONNECTIONS)
        seconds, grown = time.monotonic() - started, peer.memory - before
        print(f"{CONNECTIONS} connections in {seconds:.0f} s, {grown / MIB:.1f} MiB more")
        assert grown < 16 * MIB
        others = [Peer(file, "--test-seed", 1) for file in sites.files[1:]]
        assert [each.wait() for each in (peer, *others)] == [0, 0, 0], peer.words()
    finally:
        peer.kill()


def _answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
