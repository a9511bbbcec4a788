"""A site on a real ledger that stops after any step and is started again.

Nothing is said twice under one mask, nothing is paid for twice that was kept, and what was paid for
and lost is paid for again. The model is the one of a run that nothing stopped.
"""

from collections import Counter

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import STANDARD
from ppadmm.agent import Done, Send
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError
from ppadmm.ledger import MemoryLedger
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.run import AgentLedger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import SeededNoise
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.trust import Trust
from tests.summing.small_sums import BUDGET, make_rules, make_settings, words

SITES, NOISE = 3, SeededNoise((0,))
RECORDS = Fingerprint(b"records")


class StoppedError(Exception):
    """The process ends here."""


class Site:
    """Site 0 on a ledger of its own, which is opened anew for every process."""

    def __init__(self, folder, rule):
        self.path, self.rule, self.sent = folder / "site.ledger", rule, []
        with OwnerLedger.create(self.path, "owner") as made:
            made.grant("people", Budget(2.0, 1e-5), by="officer", note="")
            run = made.reserve_run("people", RECORDS, "spec", [(0, rule.reserved[0])], STANDARD)
            run.close()

    def live(self, others, stop=None):
        """Be a process: catch up, then go on until the end or `stop` calls of the ledger."""
        with OwnerLedger.open(self.path) as ledger:
            run = ledger.resume_run("people", RECORDS, "spec")
            try:
                book = Watched(run.agent(0), stop)
                agent = SumAgent(self.rule, 0, self.rule.site.neighbours, [book], NOISE)
                said = agent.catch_up()
                self._send(others, said)
                self._go_on(agent, others)
                self.spent = run.agent(0).spent
                return agent
            finally:
                run.close()

    def _go_on(self, agent, others):
        waited = 0
        while not isinstance(action := agent.next(), Done):
            if isinstance(action, Send):
                self._send(others, [action])
            waited = 0 if isinstance(action, Send) else waited + 1
            assert waited < 5, f"Nobody says what round {agent.round} needs: {action}."
            for message in others.said():
                agent.receive(message)

    def _send(self, others, sends):
        for send in sends:
            self.sent.append(send.message)
            others.hear(send.message)


class Watched:
    """A ledger that stops the process before one of its calls, or after."""

    def __init__(self, inner: AgentLedger, stop):
        self._inner, self._left = inner, stop

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in ("charge", "record", "keep"):
            return found

        def watched(*given):
            self._step()
            found(*given)
            self._step()

        return watched

    def _step(self):
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise StoppedError


class Others:
    """The other sites, which keep all that they said and say it again to whoever asks."""

    def __init__(self, rules):
        self.agents = [
            SumAgent(rule, i, rule.site.neighbours, [MemoryLedger(BUDGET)], NOISE)
            for i, rule in enumerate(rules)
            if i
        ]
        self._said = {}

    def hear(self, message):
        for agent in self.agents:
            agent.receive(message)

    def said(self):
        for _ in self.agents:
            for agent in self.agents:
                if isinstance(action := agent.next(), Send):
                    self._said[action.message.agent, action.message.round] = action.message
                    for other in self.agents:
                        if other is not agent:
                            other.receive(action.message)
        return list(self._said.values())


def rules_of(repeats=1):
    return make_rules(SITES, make_settings(Trust("sum", 1, repeats), rounds=3))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    rules = rules_of()
    site = Site(tmp_path_factory.mktemp("whole"), rules[0])
    return site.live(Others(rules)).model, site.spent


STEPS = 2 * (3 + 3 * 3)
"""Before and after: the key, its record and all keys; then three times charge, record, total."""


@pytest.mark.parametrize("stop", range(STEPS))
def test_a_site_that_stops_at_any_step_goes_on_as_if_nothing_had_been(tmp_path, stop, undisturbed):
    model, spent = undisturbed
    rules = rules_of()
    site, others = Site(tmp_path, rules[0]), Others(rules)
    with pytest.raises(StoppedError):
        site.live(others, stop)
    agent = site.live(others)
    said = {}
    for message in site.sent:
        said.setdefault(message.round, set()).add(words(message).tobytes())
    assert all(len(bytes_) == 1 for bytes_ in said.values())
    assert all((other.model == agent.model).all() for other in others.agents)
    (more,) = {more_of(site.spent, spent)}
    assert more in (0, 1)
    assert (agent.model == model).all()  # noise of a seed is that of its exchange, lost or not


def more_of(ours, theirs):
    """How many releases more were paid for."""
    ours, theirs = (Counter(dict(tally.counts)) for tally in (ours, theirs))
    ours.subtract(theirs)
    return max(ours.values())


def test_there_are_no_more_steps_than_were_tried(tmp_path):
    rules = rules_of()
    assert Site(tmp_path, rules[0]).live(Others(rules), STEPS).round == rules[0].rounds


def charge_of_first_sum():
    """Steps up to just after the charge of the first sum."""
    return 2 * 3 + 2


def test_a_round_that_was_paid_for_and_lost_is_paid_for_again(tmp_path, undisturbed):
    rules = rules_of()
    site, others = Site(tmp_path, rules[0]), Others(rules)
    with pytest.raises(StoppedError):
        site.live(others, charge_of_first_sum())
    assert [message.round for message in site.sent] == [0]
    site.live(others)
    assert more_of(site.spent, undisturbed[1]) == 1


def test_a_lost_round_without_a_repetition_ends_the_run_unreleased(tmp_path):
    rules = rules_of(repeats=0)
    site, others = Site(tmp_path, rules[0]), Others(rules)
    with pytest.raises(StoppedError):
        site.live(others, charge_of_first_sum())
    with pytest.raises(BudgetError):
        site.live(others)
    assert {message.round for message in site.sent} == {0}


def test_a_site_has_one_key_however_often_it_is_started(tmp_path):
    rules = rules_of()
    site, others = Site(tmp_path, rules[0]), Others(rules)
    for stop in (1, 2, 3, 4):
        with pytest.raises(StoppedError):
            site.live(others, stop)
    site.live(others)
    keys = {words(message).tobytes() for message in site.sent if message.round == 0}
    assert len(keys) == 1


def test_a_key_is_kept_before_it_is_announced(tmp_path):
    """Whatever was announced can be agreed with: the key of it is in the file."""
    rules = rules_of()
    site = Site(tmp_path, rules[0])
    with pytest.raises(StoppedError):
        site.live(Others(rules), 3)
    with OwnerLedger.open(site.path) as ledger:
        run = ledger.resume_run("people", RECORDS, "spec")
        kept = ChargedNoise((run.agent(0),), NOISE).kept("key")
        run.close()
    assert kept is not None
    assert kept.size == 4


def test_a_total_is_kept_before_the_next_part_is_paid_for(tmp_path):
    """Nobody's old messages are needed: a site goes on with others who have forgotten them."""
    rules = rules_of()
    site, others = Site(tmp_path, rules[0]), Others(rules)
    with pytest.raises(StoppedError):
        site.live(others, 2 * 7)
    others._said = {key: said for key, said in others._said.items() if key[1] >= 2}
    agent = site.live(others)
    assert all(np.array_equal(other.model, agent.model) for other in others.agents)
