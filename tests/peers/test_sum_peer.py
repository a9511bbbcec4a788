"""Peers of a run by sums, in memory: the local engine's model over any graph, and missing sites."""

import struct
import time
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.agent import Send
from ppadmm.algorithms import SharedState
from ppadmm.engines import local
from ppadmm.errors import ForeignError, InputError
from ppadmm.peers.messages import HEAD, SIGNATURE
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.parts import PART, PROPOSAL, PartCodec, Shelf, relayed
from ppadmm.peers.peer import Ended
from ppadmm.problem import make_graph
from tests.peers.hub import Faults, Hub
from tests.peers.in_memory import agents_of, agreed, graph_of, join, key_of, peer_of, run_all

UNEQUAL = (60, 20, 400, 35, 150)
TRUSTS = [{"trust": "local"}, {"trust": "sum"}]
FAULTS = Faults(loss=0.3, repeat=0.3, delay=0.5, longest=6)


def by_sums(graph, records=UNEQUAL, **terms):
    return agreed(graph, records, **{"algorithm": "newton", "rounds": 5, **terms})


def model_of(agreement):
    return local.run(agents_of(agreement)).model(agreement.site_weights)[0]


@pytest.mark.parametrize("kind", ["ring", "star", "small-world", "complete"])
@pytest.mark.parametrize("trust", TRUSTS)
def test_peers_end_with_the_model_of_the_local_engine(kind, trust, tmp_path):
    agreement = by_sums(graph_of(5, kind), **trust)
    expected = model_of(agreement)
    peers, ends = join(agreement, agents_of(agreement), tmp_path)
    assert [end.reason for end in ends] == [""] * 5
    assert all(np.array_equal(end.model, expected) for end in ends)
    assert all(len(end.releases) == peers[0].rounds for end in ends)
    assert sum(peer.tally.refused for peer in peers) == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("trust", TRUSTS)
def test_loss_repetition_and_reordering_change_nothing(seed, trust, tmp_path):
    agreement = by_sums(graph_of(5), **trust)
    faults = replace(FAULTS, seed=seed)
    peers, ends = join(agreement, agents_of(agreement), tmp_path, faults)
    assert all(np.array_equal(end.model, model_of(agreement)) for end in ends)
    assert sum(peer.tally.repeated for peer in peers) > 0


QUICKLY = RetrySchedule(first=0.02, longest=0.1, grace=0.5, wait=30)


class Dies:
    """A transport whose site goes away before it has said its part of an exchange."""

    def __init__(self, end, agent, exchange):
        self._end, self._agent, self._exchange = end, agent, exchange
        for name in ("start", "receive", "status", "close"):
            setattr(self, name, getattr(end, name))

    def publish(self, data):
        if self._agent.exchange >= self._exchange and self._agent.spoken:
            raise InputError("gone")
        self._end.publish(data)


def lose(agreement, folder, gone):
    """Run an agreement in which sites go away before an exchange; return peers and ends."""
    hub, agents = Hub(agreement.edges), agents_of(agreement)
    ends = [hub.end(i) for i in range(len(agents))]
    for i, exchange in gone.items():
        ends[i] = Dies(ends[i], agents[i], exchange)
    peers = [peer_of(a, agreement, ends[a.number], folder, QUICKLY) for a in agents]
    return peers, run_all(peers), hub


@pytest.mark.parametrize("exchange", [0, 1, 2, 5])
@pytest.mark.parametrize("trust", TRUSTS)
def test_who_stays_away_is_left_out_by_all(trust, exchange, tmp_path):
    agreement = by_sums(graph_of(5), repeats=1, patience=1.0, **trust)
    last = 4 if trust["trust"] == "local" else 5
    peers, ends, _ = lose(agreement, tmp_path, {2: min(exchange, last)})
    rest = [end for i, end in enumerate(ends) if i != 2]
    assert [end.reason for end in rest] == [""] * 4
    assert len({end.model.tobytes() for end in rest}) == 1
    assert all(end.left_out == (2,) and len(end.averages) == 4 for end in rest)
    assert all(len(end.releases) == peers[0].rounds for end in rest)


@pytest.mark.parametrize(
    ("gone", "terms", "words"),
    [
        ({2: 2}, {"repeats": 0}, "it cannot go on without: the agreement has 0 repetitions"),
        ({2: 2, 3: 2, 4: 2}, {}, "2 of 5 sites are not the greater part"),
        ({2: 2, 3: 2}, {"colluding": 3}, "3 sites are left, of which 3 may collude"),
        ({2: 2, 3: 4}, {}, "the agreement has 1 repetitions of an exchange, and none is left"),
    ],
)
def test_a_run_that_cannot_go_on_ends_with_a_clear_reason(gone, terms, words, tmp_path):
    terms = {"repeats": 1, "patience": 1.0, **terms}
    agreement = by_sums(graph_of(5, "complete"), trust="sum", **terms)
    _, ends, _ = lose(agreement, tmp_path, gone)
    reasons = [end.reason for i, end in enumerate(ends) if i not in gone]
    assert all(words in reason for reason in reasons), reasons
    assert all("nothing new from 'site 2'" in r or "'site 3'" in r for r in reasons)


def test_two_go_at_once_and_both_are_left_out(tmp_path):
    agreement = by_sums(graph_of(5, "complete"), trust="sum", repeats=1, patience=1.0)
    _, ends, _ = lose(agreement, tmp_path, {1: 3, 4: 3})
    assert all(ends[i].left_out == (1, 4) and not ends[i].reason for i in (0, 2, 3))


def test_one_who_was_left_out_and_comes_back_is_told_and_ends_nothing(tmp_path):
    """Site 2 stays mute for a while in exchange 2, and hears again when the others are further."""
    agreement = by_sums(graph_of(5), trust="sum", repeats=1, patience=1.0, rounds=12, pace=0.3)
    hub, agents = Hub(agreement.edges), agents_of(agreement)

    class Mute:
        """Says and hears nothing from exchange 2 on, until the others have left it out."""

        def __init__(self, end):
            self._end = end
            for name in ("start", "status", "close"):
                setattr(self, name, getattr(end, name))

        @property
        def mute(self):
            return agents[2].exchange >= 2 and agents[2].spoken and len(agents[0].members) == 5

        def publish(self, data):
            if not self.mute:
                self._end.publish(data)

        def receive(self, timeout):
            found = self._end.receive(timeout)
            return None if self.mute else found

    ends = [hub.end(i) if i != 2 else Mute(hub.end(2)) for i in range(5)]
    # It alone is patient, so that it is still there.
    peers = [peer_of(a, agreement, ends[a.number], tmp_path, QUICKLY) for a in agents]
    late = peers[2]
    late._gather = lambda: late._until(late._is_over, late._say_lack, 60.0)
    found = run_all(peers)
    assert "the others went on without this site" in found[2].reason
    assert all(found[i].reason == "" and found[i].left_out == (2,) for i in (0, 1, 3, 4))


def lying(agent, change):
    """Let an agent say something else than it means to."""
    speak = agent.next

    def next_():
        send = speak()
        if isinstance(send, Send):
            value = change(send.message.round, send.message.heard.value)
            heard = SharedState(value, send.message.heard.total)
            return replace(send, message=replace(send.message, heard=heard))
        return send

    agent.next = next_


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
def test_numbers_that_the_terms_exclude_end_the_run_and_name_who_said_them(bad, tmp_path):
    agreement = by_sums(graph_of(5), trust="local", repeats=1)
    agents = agents_of(agreement)
    lying(agents[1], lambda t, value: np.full_like(value, bad) if t == 2 else value)
    _, ends = join(agreement, agents, tmp_path)
    for i in (0, 2, 3, 4):
        assert "'site 1' (agent 1) broke the terms: Agent 1 sent values of norm" in ends[i].reason


def test_a_key_that_gives_no_secret_ends_the_run_and_names_it(tmp_path):
    agreement = by_sums(graph_of(5), trust="sum", repeats=1)
    agents = agents_of(agreement)
    lying(agents[1], lambda t, value: np.zeros_like(value) if t == 0 else value)
    _, ends = join(agreement, agents, tmp_path)
    for i in (0, 2, 3, 4):
        assert "Site 1 announced a key that gives no secret" in ends[i].reason
        assert not peer_spent(agents[i])


def peer_spent(agent):
    return agent.ledgers[0].spent.counts


# One peer and what others send it


@pytest.fixture
def one(tmp_path):
    """A peer of a ring of five that has said its keys, and the codec of its run."""
    agreement = by_sums(graph_of(5), trust="sum", repeats=1)
    sent = []

    class Keeps:
        def publish(self, data):
            sent.append(data)

    agents = agents_of(agreement)
    peer = peer_of(agents[0], agreement, Keeps(), tmp_path)
    peer._speak()
    keys = {i: key_of(i).public_key() for i in range(5)}
    return peer, PartCodec(agreement.run, keys), sent


def key_part(codec, agent, exchange=0, length=4, key=None, fill=1.5):
    place = (agent, exchange, range(5))
    return codec.part(place, np.full((1, length), fill), key or key_of(agent))


def test_parts_of_all_are_taken_from_any_neighbour_and_handed_on_once(one):
    peer, codec, sent = one
    del sent[:]
    part = key_part(codec, 2)
    for neighbour in (1, 4, 1):
        peer._take(neighbour, part)
    assert peer.agent.missing == (1, 3, 4)
    assert (peer.tally.refused, peer.tally.late) == (0, 2)
    assert sent == []  # in a ring of five the ways to 3 and 4 from 2 do not lead by 0
    peer._take(1, key_part(codec, 1))
    assert sent == [key_part(codec, 1)]  # 4 hears 1 by 0


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:50],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],  # payload
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),  # signature
        lambda data: data[:6] + bytes(16) + data[22:],  # another run
        lambda data: data[:22] + struct.pack("<I", 3) + data[26:],  # another agent
        lambda data: data[:22] + struct.pack("<I", 99) + data[26:],
        lambda data: data[:26] + struct.pack("<I", 1) + data[30:],  # another exchange
        lambda data: data[:30] + struct.pack("<I", 2**31) + data[34:],  # another length
        lambda data: data[:5] + bytes([PROPOSAL]) + data[6:],
    ],
)
def test_a_part_that_was_altered_is_refused(change, one):
    peer, codec, sent = one
    del sent[:]
    peer._take(1, change(key_part(codec, 2)))
    assert peer.tally.refused == 1
    assert 2 in peer.agent.missing
    assert sent == []


def test_a_part_of_another_length_or_time_or_key_is_not_taken(one):
    peer, codec, _ = one
    for data in (key_part(codec, 2, length=5), key_part(codec, 2, key=key_of(1))):
        peer._take(1, data)
    assert peer.tally.refused == 2
    for data in (key_part(codec, 2, exchange=2), key_part(codec, 2, exchange=10**6)):
        peer._take(1, data)
    assert peer.tally.late == 2
    assert peer._shelf.holders(PART, 0) == (0,)
    assert len(peer._shelf._words) == 1


def test_parts_that_were_made_for_other_members_are_not_added(one):
    """They are under other masks; one who was left out and goes on would add up rubbish."""
    peer, codec, _ = one
    peer._take(1, codec.part((2, 0, [0, 1, 2, 3]), np.ones((1, 4)), key_of(2)))
    assert peer.tally.refused == 0
    assert 2 in peer.agent.missing


def test_two_different_parts_of_one_exchange_end_the_run(one):
    peer, codec, _ = one
    peer._take(1, key_part(codec, 2))
    with pytest.raises(Ended, match=r"'site 2' .* broke the terms: it said two different things"):
        peer._take(4, key_part(codec, 2, fill=2.5))


def test_a_note_that_shows_what_is_lacking_is_answered_and_not_without_end(one):
    peer, codec, sent = one
    peer._take(1, key_part(codec, 1))
    del sent[:]
    now = [time.monotonic() + 1.0]
    peer._shelf.clock = lambda: now[0]
    note = replace(peer.note(), agent=4, signatures={}, parts=(0, 4), phase="rounds")
    for _ in range(100):
        peer._take(4, note.encode(key_of(4)))
    assert sent == [key_part(codec, 1)]
    for _ in range(100):
        now[0] += 1.0
        peer._take(4, note.encode(key_of(4)))
    assert len(sent) < 110 * 1.0 / peer._retry.longest


def test_a_lonely_proposal_ends_nothing(one):
    """One site cannot make another believe that it was left out, nor a few."""
    peer, codec, _ = one
    for j in (1, 2):
        peer._take(1, codec.proposal((j, 0, range(5)), [1, 2], key_of(j)))
    assert not peer._is_over()
    assert peer.agent.proposed is None


def test_words_of_other_forms_are_none(one):
    _, codec, _ = one
    with pytest.raises(ForeignError, match="it has 10 bytes"):
        codec.decode(bytes(10))
    with pytest.raises(ForeignError, match="none of this version"):
        codec.decode(bytes(HEAD.size + 8 + SIGNATURE))


@pytest.mark.parametrize(
    "graph", [make_graph(kind, n, 0) for kind in ("ring", "star", "small-world", "complete", "grid")
              for n in (5, 12)]
)  # fmt: skip
def test_what_each_hands_on_reaches_everybody(graph):
    """From every site, by those who hand on alone; in a complete network nobody has to."""
    ways = {i: relayed(graph, range(graph.size), i) for i in range(graph.size)}
    for source in range(graph.size):
        reached, edge = {source}, [source]
        while edge:
            edge = [j for i in edge for j in graph.neighbours(i) if j not in reached
                    and (i == source or source in ways[i])]  # fmt: skip
            edge = sorted(set(edge))
            reached |= set(edge)
        assert reached == set(range(graph.size))
    if graph.name == "complete":
        assert not any(ways.values())


def test_a_shelf_keeps_no_old_parts(one):
    _, codec, _ = one
    shelf = Shelf(RetrySchedule())
    for exchange in range(5):
        shelf.put(codec.decode(key_part(codec, 1, exchange)))
    shelf.drop_before(3)
    assert [e for e in range(5) if shelf.holders(PART, e)] == [3, 4]
