"""Peers in memory: the same numbers as the local engine, whatever the network does."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.agent import Message, Send
from ppadmm.algorithms import SharedState
from ppadmm.engines import local
from ppadmm.errors import DisagreementError, InputError, ProtocolError
from ppadmm.peers.messages import VALUE, Codec, kind_of
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.peer import Peer
from ppadmm.peers.store import PeerStore
from tests.peers.hub import Faults, Hub
from tests.peers.in_memory import QUICK, agents_of, agreed, graph_of, join, key_of, peer_of, run_all

UNEQUAL = (60, 20, 400, 35, 150)


@pytest.mark.parametrize("kind", ["ring", "star", "complete"])
@pytest.mark.parametrize("algorithm", ["pp", "ipp", "gradient"])
def test_peers_end_with_the_model_of_the_local_engine(kind, algorithm, tmp_path):
    """To the last bit, though no two sites have as many records and count as much."""
    agreement = agreed(graph_of(5, kind), UNEQUAL, algorithm=algorithm, rounds=6)
    trace = local.run(agents_of(agreement))
    _, ends = join(agreement, agents_of(agreement), tmp_path)
    for i, end in enumerate(ends):
        assert end.reason == ""
        assert np.array_equal(end.model, trace.model(agreement.site_weights)[0])
        assert np.array_equal(end.releases, trace.releases[:, i, 0])
        assert np.array_equal(end.averages, trace.agent_models()[:, 0])


FAULTS = Faults(loss=0.3, repeat=0.3, delay=0.5, longest=6)


@pytest.mark.parametrize("seed", range(5))
def test_loss_repetition_and_reordering_change_nothing(seed, tmp_path):
    agreement = agreed(graph_of(5), rounds=12)
    trace = local.run(agents_of(agreement))
    peers, ends = join(agreement, agents_of(agreement), tmp_path, replace(FAULTS, seed=seed))
    assert all(np.array_equal(end.model, trace.model(agreement.site_weights)[0]) for end in ends)
    assert sum(peer.tally.repeated for peer in peers) > 0
    assert sum(peer.tally.late for peer in peers) > 0
    assert sum(peer.tally.refused for peer in peers) == 0


def test_nobody_starts_before_all_have_signed(tmp_path):
    agreement = agreed(graph_of(4))
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    short = RetrySchedule(first=0.02, longest=0.1, grace=0.1, wait=0.5)
    peers = [peer_of(a, agreement, hub.end(a.number), tmp_path, short) for a in agents[:3]]
    ends = run_all(peers)
    assert [len(agent.ledgers[0].spent.counts) for agent in agents] == [0] * 4
    assert all(
        "'site 3' (agent 3) for 0.5 s, in round 0. Nothing was spent" in str(e) for e in ends
    )


def test_a_signature_of_another_key_does_not_count(tmp_path):
    agreement = agreed(graph_of(3))
    agents = agents_of(agreement)
    first, last = (peer_of(agents[k], agreement, None, tmp_path) for k in (0, 2))
    forged = {**last.note().signatures, 1: agreement.sign(key_of(7)).hex()}
    first._take(2, replace(last.note(), signatures=forged).encode(key_of(2)))
    assert sorted(first.note().signatures) == [0, 2]
    first._take(2, replace(last.note(), signatures=forged).encode(key_of(1)))
    assert first.tally.refused == 1
    with pytest.raises(InputError, match="'site 1' is not on this agreement; sign it"):
        Peer(agents[1], agreement, key_of(1), agreement.sign(key_of(7)), None, PeerStore(tmp_path))


def test_disagreements_are_named_field_by_field(tmp_path):
    agreement = agreed(graph_of(3))
    others = [agreement, agreement, replace(agreement, eta=0.2, rounds=5, nonce="other")]
    hub = Hub(agreement.edges)
    agents = agents_of(agreement)
    peers = [peer_of(a, others[k], hub.end(k), tmp_path) for k, a in enumerate(agents)]
    ends = run_all(peers)
    assert all(isinstance(end, DisagreementError) for end in ends)
    assert ends[0].found == {
        "'site 2' (agent 2)": [
            "eta: mine is 0.1, theirs is 0.2",
            "nonce: mine is 'test', theirs is 'other'",
        ]
    }
    assert "eta: mine is 0.2, theirs is 0.1" in str(ends[2])
    assert all(not agent.ledgers[0].spent.counts for agent in agents)


def test_a_silent_neighbour_ends_the_run_everywhere_with_a_valid_model(tmp_path):
    agreement = agreed(graph_of(5), rounds=8, patience=1.0)
    hub, agents = Hub(agreement.edges), agents_of(agreement)

    class Dies:
        """Goes away after round 3."""

        def __init__(self, end):
            self._end = end
            for name in ("start", "receive", "status", "close"):
                setattr(self, name, getattr(end, name))

        def publish(self, data):
            if agents[2].round > 3:
                raise InputError("gone")
            self._end.publish(data)

    ends = [hub.end(k) for k in range(5)]
    ends[2] = Dies(ends[2])
    peers = [peer_of(a, agreement, ends[k], tmp_path) for k, a in enumerate(agents)]
    started = time.monotonic()
    found = run_all(peers)
    assert isinstance(found[2], InputError)
    trace = local.run(agents_of(agreement))
    for i in (0, 1, 3, 4):
        made = len(found[i].releases)
        assert 4 <= made <= 7
        assert found[i].reason
        assert np.array_equal(found[i].releases, trace.releases[:made, i, 0])
        part = local.Trace(trace.releases[:made, i : i + 1], trace.spoke[:made, i : i + 1])
        assert np.array_equal(found[i].model, part.agent_models()[0, 0])
    reasons = " ".join(found[i].reason for i in (0, 1, 3, 4))
    assert "nothing new from 'site 2' (agent 2) for 1 s" in reasons
    assert time.monotonic() - started < 30


def test_rounds_far_ahead_take_no_memory(tmp_path):
    agreement = agreed(graph_of(3), rounds=5)
    agents = agents_of(agreement)
    hub = Hub(agreement.edges)
    peer = peer_of(agents[0], agreement, hub.end(0), tmp_path)
    codec = Codec(agreement.run, agreement.parameters, {})
    heard = SharedState(np.zeros((1, 5)), np.zeros((1, 5)))
    for round_ in (*range(2, 60), 10**6):
        peer._take(1, codec.encode(Message(1, round_, heard), key_of(1)))
    assert agents[0].snapshot().inbox == {}
    assert peer.tally.late == 59
    peer._take(1, codec.encode(Message(1, 1, heard), key_of(1)))
    assert set(agents[0].snapshot().inbox) == {1}


def test_what_is_not_from_the_neighbour_is_refused_and_counted(tmp_path):
    agreement = agreed(graph_of(4))
    agents = agents_of(agreement)
    peer = peer_of(agents[0], agreement, Hub(agreement.edges).end(0), tmp_path)
    codec = Codec(agreement.run, agreement.parameters, {})
    heard = SharedState(np.zeros((1, 5)), np.zeros((1, 5)))
    forged = codec.encode(Message(1, 0, heard), key_of(3))
    others = codec.encode(Message(3, 0, heard), key_of(3))
    elsewhere = Codec(bytes(16), 5, {}).encode(Message(1, 0, heard), key_of(1))
    for data in (forged, others, elsewhere, b"", b"PPAD\x02\x03", bytes(500)):
        peer._take(1, data)
    assert peer.tally.refused == 6
    assert agents[0].snapshot().inbox == {}


def test_the_view_has_public_counters_only(tmp_path):
    agreement = agreed(graph_of(3))
    peers, ends = join(agreement, agents_of(agreement), tmp_path)
    view = peers[0].view()
    assert (view.phase, view.round, view.signatures, view.averages) == ("ending", 5, 3, 3)
    assert view.charged == view.reserved == 5
    assert all(other.round >= 3 for other in view.neighbours)
    assert not any(end.reason for end in ends)


def test_an_agent_that_is_not_the_agreed_one_is_refused(tmp_path):
    agreement = agreed(graph_of(3))
    agents = agents_of(replace(agreement, rounds=4))
    with pytest.raises(InputError, match="makes 4 rounds, the agreement says 5"):
        peer_of(agents[0], agreement, None, tmp_path)
    agents = agents_of(agreed(graph_of(4)))
    with pytest.raises(InputError, match="other neighbours"):
        peer_of(agents[0], agreed(graph_of(3)), None, tmp_path)


def test_clocks_that_run_backwards_do_no_harm(tmp_path, monkeypatch):
    from ppadmm.peers import peer as module

    class Backwards:
        """A clock that goes back a minute whenever it is looked at."""

        def __init__(self):
            self.now = 2e9

        def __getattr__(self, name):
            return getattr(time, name)

        def time(self):
            self.now -= 60
            return self.now

    monkeypatch.setattr(module, "time", Backwards())
    agreement = agreed(graph_of(4), rounds=6)
    trace = local.run(agents_of(agreement))
    started = time.monotonic()
    _, ends = join(agreement, agents_of(agreement), tmp_path, replace(FAULTS, seed=9))
    assert all(np.array_equal(end.model, trace.model(agreement.site_weights)[0]) for end in ends)
    assert time.monotonic() - started < agreement.patience / 2


def test_one_that_does_not_wait_for_the_start_leaves_the_others_waiting(tmp_path):
    """Site 0 gives up before site 2 comes, and is started again; the run is as if nothing was."""
    agreement = agreed(graph_of(3), rounds=4)
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    found = {}

    def late(k, seconds, pace=QUICK):
        time.sleep(seconds)
        agent = agents_of(agreement)[k]
        try:
            found[k] = peer_of(agent, agreement, hub.end(k), tmp_path, pace).run()
        except ProtocolError as error:
            found["error"] = error

    short = RetrySchedule(first=0.02, longest=0.1, wait=0.3)
    starts = [(0, 0, short), (1, 0), (2, 0.8), (0, 0.8)]
    threads = [threading.Thread(target=late, args=start) for start in starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert "never began" in str(found.pop("error"))
    trace = local.run(agents)
    assert len(found) == 3
    assert all(
        np.array_equal(end.model, trace.model(agreement.site_weights)[0]) for end in found.values()
    )


def test_signatures_go_round_a_long_ring_without_waiting_for_the_clock(tmp_path):
    """Site 0 comes last; its signature has ten hops to go, while the others keep still."""
    agreement = agreed(graph_of(20), rounds=2)
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    slow = RetrySchedule(first=3600.0, longest=3600.0, grace=60.0, wait=300)
    peers = [peer_of(a, agreement, hub.end(a.number), tmp_path, slow) for a in agents]
    found = []
    threads = [threading.Thread(target=lambda p=p: found.append(p.run())) for p in peers[1:]]
    for thread in threads:
        thread.start()
    time.sleep(1)
    found.append(peers[0].run())
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert len({end.model.tobytes() for end in found}) == 1


class Timed:
    """A transport that notes when values left."""

    def __init__(self, end):
        self._end, self.left = end, []
        for name in ("start", "receive", "status", "close"):
            setattr(self, name, getattr(end, name))

    def publish(self, data):
        if kind_of(data) == VALUE:
            self.left.append(time.monotonic())
        self._end.publish(data)


@pytest.mark.parametrize("busy", [0.0, 0.1, 0.3])
def test_a_message_leaves_at_the_agreed_pace_whatever_a_solve_took(busy, tmp_path, monkeypatch):
    pace, never = 0.2, RetrySchedule(first=60.0, longest=60.0, grace=0.1, wait=30)
    agreement = agreed(graph_of(2, "complete"), rounds=4, pace=pace)
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    ends = [Timed(hub.end(k)) for k in range(2)]
    following = agents[1].next

    def slowly():
        time.sleep(busy)
        return following()

    monkeypatch.setattr(agents[1], "next", slowly)
    peers = [peer_of(a, agreement, ends[k], tmp_path, never) for k, a in enumerate(agents)]
    run_all(peers)
    slots = math.ceil(max(busy, 1e-9) / pace)
    assert all(np.diff(ends[1].left[:4]) >= slots * pace * 0.99)


def test_numbers_beyond_the_radius_end_the_run_for_all_with_a_reason(tmp_path):
    agreement = agreed(graph_of(4), rounds=6)
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    liar, speak = agents[1], agents[1].next
    radius = float(liar.algorithm.radius[0])

    def lying():
        send = speak()
        if isinstance(send, Send) and send.message.round == 2:
            heard = send.message.heard
            far = np.full_like(heard.value, radius)  # of norm √d·R
            return replace(send, message=replace(send.message, heard=SharedState(far, heard.total)))
        return send

    liar.next = lying
    peers = [peer_of(a, agreement, hub.end(a.number), tmp_path) for a in agents]
    ends = run_all(peers)
    for i in (0, 2, 3):
        assert "'site 1' (agent 1) broke the terms: Agent 1 sent values of norm" in ends[i].reason
        assert len(ends[i].releases) in (2, 3, 4)
    assert "site 1" in ends[1].reason
