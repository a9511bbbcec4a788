"""A party that is revoked in the middle of a run: nothing more of it is taken, and the run ends."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.agent import Message
from ppadmm.algorithms import SharedState
from ppadmm.errors import ProtocolError
from ppadmm.peers import control
from ppadmm.peers.messages import FINAL, Codec
from ppadmm.peers.pki import enrolment
from ppadmm.peers.pki.authority import Authority
from ppadmm.peers.pki.enrolment import Keys
from ppadmm.peers.pki.revocations import EVERY, Revocations, RevocationWatch
from ppadmm.peers.status import EventLog
from tests.peers.hub import Hub
from tests.peers.in_memory import agents_of, agreed, graph_of, key_of, peer_of, run_all

LIST = Revocations(1, {"site 2": {"serials": [], "reason": "laptop stolen"}})
WORDS = "the certificate of 'site 2' was revoked (laptop stolen)"


class LateList:
    """A list that appears when one of the peers tells of an event."""

    def __init__(self, event, **fields):
        self.wanted, self.found, self.told = (event, fields), Revocations(), []

    def __call__(self):
        return self.found

    def listen(self, event, fields):
        self.told.append((event, fields))
        if event == self.wanted[0] and self.wanted[1].items() <= fields.items():
            self.found = LIST


def peers_with(lists, agreement, folder):
    """Peers of which some look at a list."""
    hub, found = Hub(agreement.edges), []
    for agent in agents_of(agreement):
        k, options = agent.number, {}
        if k in lists:
            options = {"revocations": lists[k], "tell": EventLog(lists[k].listen)}
        found.append(peer_of(agent, agreement, hub.end(k), folder, **options))
    return found


def test_a_run_ends_for_all_as_soon_as_one_site_has_the_list(tmp_path):
    """Site 0 is no neighbour of site 2 in this ring, and site 4 has no neighbour with the list."""
    agreement = agreed(graph_of(6), rounds=40)
    charged = LateList("round", round=3)
    ends = run_all(peers_with({0: charged}, agreement, tmp_path))
    assert ends[0].reason == WORDS
    assert len(ends[0].releases) == 4
    assert ("revoked", {"agent": 2, "name": "'site 2' (agent 2)", "why": WORDS}) in charged.told
    for k in range(1, 6):
        assert ends[k].reason == f"'site 0' (agent 0) ended the run: {WORDS}"
        assert 0 < len(ends[k].releases) < 40


def test_who_was_revoked_itself_ends_too(tmp_path):
    agreement = agreed(graph_of(3), rounds=40)
    ends = run_all(peers_with({2: LateList("round", round=3)}, agreement, tmp_path))
    assert ends[2].reason == WORDS
    assert len(ends[2].releases) == 4


def test_a_run_with_a_revoked_party_does_not_begin(tmp_path):
    agreement = agreed(graph_of(4), patience=0.5)
    charged = LateList("never")
    charged.found = LIST
    peers = peers_with({0: charged}, agreement, tmp_path)
    with pytest.raises(ProtocolError, match="The run never began: the certificate of 'site 2'"):
        peers[0].run()
    assert not peers[0].agent.ledgers[0].spent.counts


def messages_of(agent, agreement, peer):
    """All that an agent can sign: a value, a note, a final average."""
    codec = Codec(agreement.run, agreement.parameters, {})
    heard = SharedState(np.ones((1, 5)), np.ones((1, 5)))
    return [
        codec.encode(Message(agent, 0, heard), key_of(agent)),
        replace(peer.note(), agent=agent).encode(key_of(agent)),
        codec.encode(Message(agent, agreement.rounds, heard), key_of(agent), FINAL),
    ]


def test_nothing_that_a_revoked_party_signed_is_taken_whoever_hands_it_on(tmp_path):
    agreement = agreed(graph_of(3))
    charged = LateList("never")
    peer = peers_with({0: charged}, agreement, tmp_path)[0]
    value, note, final = messages_of(2, agreement, peer)
    charged.found = LIST
    peer._revoked.news()
    for sender, data in ((2, value), (2, note), (2, final), (1, final)):
        peer._take(sender, data)
    assert peer.tally.refused == 4
    assert charged.told[-1][1]["why"] == f"A message was refused: {WORDS}."
    assert (peer.agent.snapshot().inbox, peer.finals) == ({}, 0)
    for data in messages_of(1, agreement, peer):
        peer._take(1, data)
    assert (peer.tally.refused, len(peer.agent.snapshot().inbox), peer.finals) == (4, 1, 1)


def test_at_the_end_a_revoked_neighbour_is_not_waited_for(tmp_path):
    """All averages are there; site 2 never confirms that it has them, too."""
    agreement = agreed(graph_of(3), rounds=3, patience=20.0)
    lists = {k: LateList("averages") for k in (0, 1)}
    peers = peers_with(lists, agreement, tmp_path)
    mute, said = peers[2]._transport, peers[2]._transport.publish
    mute.publish = lambda data: None if _holds_all(data) else said(data)
    ends = run_all(peers)
    assert [end.reason for end in ends[:2]] == ["", ""]
    assert np.array_equal(ends[0].model, ends[1].model)


def _holds_all(data):
    """Whether this is a note of one that holds all averages."""
    try:
        return len(control.decode(data).finals) == 3
    except control.ForeignError:
        return False


def test_a_reason_stays_short_however_many_hand_it_on(tmp_path):
    agreement = agreed(graph_of(16), rounds=60)
    charged = LateList("round", round=2)
    long = {"site 2": {"serials": [], "reason": "x" * 600}}
    charged.listen = lambda event, fields: (
        setattr(charged, "found", Revocations(1, long))
        if event == "round" and fields["round"] == 2 else None
    )  # fmt: skip
    ends = run_all(peers_with({0: charged}, agreement, tmp_path))
    assert len(ends[0].reason) > control.LONGEST_REASON
    assert all(end.reason.startswith("'site 0' (agent 0) ended the run: ") for end in ends[1:])


@pytest.mark.parametrize("reason", ["gone.\nPRIVATE: ε = 0.01", "\x1b[2Jgone", "gone\u202e"])
def test_a_neighbours_reason_puts_no_line_into_the_statement_of_another(reason):
    note = control.ControlMessage(1, "1", 0.0, "0" * 64, "ended", reason=reason)
    with pytest.raises(control.ForeignError, match="its reason cannot be read"):
        control.decode(note.encode(key_of(1)))
    sent = replace(note, reason=control.one_line(reason))
    assert control.decode(sent.encode(key_of(1))).reason.isprintable()


class Clock:
    """A clock that stands still."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def authority(tmp_path):
    """An authority with three names to revoke."""
    made = Authority(tmp_path / "ca")
    made.make("study")
    for name in ("a", "b", "c"):
        keys = Keys(tmp_path / name)
        keys.make()
        made.approve(enrolment.request(keys, name, ["127.0.0.1"]))
    return made


def test_a_list_is_read_again_when_it_changes(authority, tmp_path):
    file, clock = tmp_path / "revoked.json", Clock()
    newest = RevocationWatch(file, [authority.certificate], clock)
    assert newest() == Revocations()
    authority.revoke("a", "lost")
    file.write_bytes(authority.revocations.read_bytes())
    assert newest().names == set()
    clock.now += EVERY
    assert newest().names == {"a"}
    assert newest().why("a") == "the certificate of 'a' was revoked (lost)"
    authority.revoke("b")
    file.write_bytes(authority.revocations.read_bytes())
    clock.now += EVERY
    assert newest().names == {"a", "b"}
    assert newest() is newest()


def test_a_list_that_is_not_good_leaves_the_last_one_in_force(authority, tmp_path, caplog):
    file, clock, lists = tmp_path / "revoked.json", Clock(), []
    for name in ("a", "b", "c"):
        authority.revoke(name)
        lists.append(authority.revocations.read_bytes())
    file.write_bytes(lists[1])
    newest = RevocationWatch(file, [authority.certificate], clock)
    assert newest().names == {"a", "b"}
    forged = json.dumps({**json.loads(lists[2]), "revoked": {}}).encode()
    for bad, words in (
        (lists[2][:50], "holds no list of revocations; ask for it anew"),
        (forged, "is not signed by the authority"),
        (lists[0], "is list 1, older than list 2; ask for the newest"),
    ):
        caplog.clear()
        file.write_bytes(bad)
        for _ in range(3):
            clock.now += EVERY
            assert newest().names == {"a", "b"}
        (record,) = caplog.records
        assert words in record.getMessage()
        assert record.getMessage().endswith("The last good list stays in force.")
    file.unlink()
    clock.now += EVERY
    assert newest().names == {"a", "b"}
    file.write_bytes(lists[2])
    clock.now += EVERY
    assert newest().names == {"a", "b", "c"}
