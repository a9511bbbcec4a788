"""Exchanges that are made again without a site: in memory, and with ledgers on disk."""

from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD
from ppadmm.agent import Done, Send, Wait
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError, InputError, ProtocolError
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.noise import SecureNoise
from ppadmm.sum_agent import RepeatsSpentError
from tests.peers.in_memory import agreed, graph_of, sum_agents_of

SIZES = (60, 20, 400, 35, 150)
TRUSTS = ["local", "sum"]


def terms_of(trust="sum", **terms):
    return agreed(graph_of(5), SIZES, algorithm="newton", rounds=4, trust=trust,
                  **{"repeats": 1, **terms})  # fmt: skip


def speak(agents):
    """Let all speak; return what they said by number."""
    sends = {}
    for agent in agents:
        action = agent.next()
        assert isinstance(action, Send)
        sends[agent.number] = action.message
    return sends


def deliver(agents, messages):
    for agent in agents:
        for j, message in messages.items():
            if j != agent.number:
                agent.receive(message)


def leave_out(agents, gone):
    """All but `gone` give the exchange up and make it again."""
    rest = [a for a in agents if a.number not in gone]
    members = [a.number for a in rest]
    for agent in rest:
        agent.give_up(members)
    for agent in rest:
        agent.repeat(members)
    return rest


def finish(agents):
    """Go on from a complete exchange to the end."""
    while not isinstance((actions := [agent.next() for agent in agents])[0], Done):
        deliver(agents, {a.number: s.message for a, s in zip(agents, actions, strict=True)})
    assert all(isinstance(action, Done) for action in actions)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("after", range(4))
def test_the_rest_go_on_with_fresh_noise_and_pay_once_more(trust, after):
    agents = sum_agents_of(terms_of(trust))
    for _ in range(after):
        deliver(agents, speak(agents))
    first = speak(agents)
    gone = first.pop(1)
    deliver(agents, first)
    assert [a.missing for a in agents if a.number != 1] == [(1,)] * 4
    rest = leave_out(agents, {1})
    again = speak(rest)
    keys = trust == "sum" and after == 0
    for j, message in again.items():
        assert message.round == first[j].round + 1
        alike = np.array_equal(message.heard.value, first[j].heard.value, equal_nan=True)
        same = message.heard.value.tobytes() == first[j].heard.value.tobytes()
        assert (same or alike) == keys  # a key is that of the run
    deliver(rest, again)
    for agent in rest:
        agent.receive(gone)  # comes late, and changes nothing
    finish(rest)
    models = np.stack([a.model for a in rest])
    assert np.isfinite(models).all()
    assert (models == models[0]).all()
    for agent in rest:
        paid = sum(times for event, times in agent.ledgers[0].spent.counts
                   if type(event).__name__ == "Gaussian")  # fmt: skip
        assert paid == 4 + (not keys)


def test_the_sum_of_fewer_sites_is_their_sum_with_more_noise_each():
    agents = sum_agents_of(terms_of(delta=1e-4))
    deliver(agents, speak(agents))
    messages = speak(agents)
    messages.pop(1)
    deliver(agents, messages)
    rest = leave_out(agents, {1})
    said = speak(rest)
    rule, state = rest[0].algorithm, rest[0]._state
    total = rule.total(state, {j: m.heard for j, m in said.items() if j != 0})
    shares = np.array([rule.site.shares[a.number] for a in rest])
    exact = sum(
        s * a.algorithm.values(a._state.held, "moments") for s, a in zip(shares, rest, strict=True)
    ) / sum(shares)
    before, after = (rule.adders("moments", n)[0].sigma for n in (5, 4))
    assert after / before == pytest.approx(np.sqrt(4 / 3), rel=1e-3)
    spread = np.std(total - exact) * sum(shares)
    assert spread == pytest.approx(after * 2.0, rel=0.45)  # √4 shares


def stuck(trust="sum", after=1, **terms):
    """Agents that all lack the part of site 1."""
    agents = sum_agents_of(terms_of(trust, **terms))
    for _ in range(after):
        deliver(agents, speak(agents))
    messages = speak(agents)
    last = messages.pop(1)
    deliver(agents, messages)
    return agents, last


def test_who_gave_up_never_completes_the_old_exchange():
    agents, late = stuck()
    agents[0].give_up([0, 2, 3, 4])
    agents[0].receive(late)
    assert agents[0].missing == ()
    assert isinstance(agents[0].next(), Wait)
    with pytest.raises(ProtocolError, match="cannot give up exchange 1 now"):
        agents[0].give_up([0, 2, 3])
    with pytest.raises(ProtocolError, match="did not propose"):
        agents[0].repeat([0, 2, 3])


def test_who_has_completed_it_gives_nothing_up():
    agents, late = stuck()
    agents[0].receive(late)
    with pytest.raises(ProtocolError, match="cannot give up exchange 1 now"):
        agents[0].give_up([0, 2, 3, 4])
    with pytest.raises(ProtocolError, match="did not propose"):
        agents[0].repeat([0, 2, 3, 4])
    assert isinstance(agents[0].next(), Send)


@pytest.mark.parametrize(
    ("members", "terms", "words"),
    [
        ([0, 2, 3, 4], {"repeats": 0}, "has 0 repetitions of an exchange, and none is left"),
        ([0, 2], {}, "2 of 5 sites are not the greater part"),
        ([0, 2, 3], {"colluding": 3}, "3 sites are left, of which 3 may collude"),
        ([2, 3, 4], {}, "are no part of"),
        ([0, 2, 3, 7], {}, "are no part of"),
        ([0, 1, 2, 3, 4], {}, "are no part of"),
    ],
)
def test_what_cannot_be_made_again_is_refused_with_a_reason(members, terms, words):
    agents, _ = stuck(**terms)
    assert words in agents[0].why_not(members)
    with pytest.raises(ProtocolError, match="cannot be made again"):
        agents[0].give_up(members)
    assert agents[0].proposed is None


def test_repeats_are_used_up():
    agents, _ = stuck(repeats=1, after=2)
    rest = leave_out(agents, {1})
    messages = speak(rest)
    messages.pop(2)
    deliver(rest, messages)
    assert "none is left" in rest[0].why_not([0, 3, 4])


def test_no_site_can_be_alone_with_colluders():
    agents, _ = stuck(colluding=3)
    leave_out(agents, {1})
    with pytest.raises(InputError, match="may collude"):
        agents[0].algorithm.adders("slopes", 3)


# Ledgers on disk: a process that dies is made anew from its ledger at any point.


class Site:
    """One site whose agent can be made anew from its ledger, as a process that is started again."""

    def __init__(self, terms, number, folder):
        self.terms, self.number, self.path = terms, number, folder / f"{number}.ledger"
        self.said = {}
        with OwnerLedger.create(self.path, "owner") as ledger:
            ledger.grant("people", Budget(100.0, 1e-4))
        self.open = None
        self.start()

    def start(self):
        if self.open is not None:
            self.open.close()
        self.open = OwnerLedger.open(self.path)
        self.agent = sum_agents_of(self.terms, self._booked, SecureNoise())[self.number]
        for send in self.agent.catch_up():
            self.note(send.message)

    def _booked(self, i, rule):
        from ppadmm.errors import LedgerError
        from ppadmm.ledger import MemoryLedger

        if i != self.number:
            return MemoryLedger()
        marks = Fingerprint(b"records"), "run"
        if getattr(self, "book", None) is not None:
            self.book.close()
        try:
            self.book = self.open.resume_run("people", *marks)
        except LedgerError:
            asked = [(i, rule.reserved[0])]
            self.book = self.open.reserve_run("people", *marks, asked, STANDARD)
        return self.book.agent(i)

    def note(self, message):
        """Whatever is said in one exchange is the same, before a crash and after it."""
        data = message.heard.value.tobytes()
        assert self.said.setdefault(message.round, data) == data


def test_a_restart_between_any_two_steps_of_a_repetition_changes_nothing(tmp_path):
    terms = terms_of("sum", repeats=2)
    sites = [Site(terms, i, tmp_path) for i in range(5)]

    def all_speak(chosen):
        messages = {}
        for site in chosen:
            site.start()
            action = site.agent.next() if not site.agent.spoken else None
            if action is not None:
                site.note(action.message)
                messages[site.number] = action.message
        for site in chosen:  # after the crash, from the ledger
            site.start()
            heard = site.agent.heard
            messages[site.number] = replace(messages[site.number], heard=heard)
            site.note(messages[site.number])
        return messages

    def all_hear(chosen, messages):
        deliver([site.agent for site in chosen], messages)

    for _ in range(2):  # keys, second moments
        messages = all_speak(sites)
        all_hear(sites, messages)
        for site in sites:
            if not site.agent.missing:
                site.agent._advance(site.agent._inbox[site.agent.exchange])
    assert {site.agent.exchange for site in sites} == {2}
    messages = all_speak(sites)
    messages.pop(1)
    all_hear(sites, messages)
    rest, members = [s for s in sites if s.number != 1], [0, 2, 3, 4]
    for site in rest:
        site.agent.give_up(members)
        site.start()
        assert site.agent.proposed == tuple(members)
        assert isinstance(site.agent.next(), Wait)
    for site in rest:
        site.agent.repeat(members)
        site.start()
        assert (site.agent.exchange, site.agent.members) == (3, tuple(members))
        assert site.agent.proposals == {2: tuple(members)}
    again = all_speak(rest)
    assert all(message.round == 3 for message in again.values())
    all_hear(rest, again)
    thetas = set()
    for site in rest:
        site.agent._advance(site.agent._inbox[3])
        site.start()
        assert site.agent.round == 3
        thetas.add(site.agent.model.tobytes())
    assert len(thetas) == 1


def test_a_part_that_is_lost_twice_with_one_repetition_ends_the_run(tmp_path):
    terms = terms_of("local", repeats=1)
    site = Site(terms, 0, tmp_path)
    record = type(site.agent.ledgers[0]).record

    class Dies(BaseException):
        pass

    def dying(*_):
        raise Dies

    for _ in range(2):
        type(site.agent.ledgers[0]).record = dying
        try:
            with pytest.raises(Dies):
                site.agent.next()
        finally:
            type(site.agent.ledgers[0]).record = record
        site.start()
    with pytest.raises(RepeatsSpentError, match="none of the 1 repetitions"):
        site.agent.next()
    assert issubclass(RepeatsSpentError, BudgetError)
