"""Agents that add up: honest runs in memory, and messages that are late, doubled or wrong."""

import logging
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting import Budget, accountant
from ppadmm.agent import Done, Message, Send, Wait
from ppadmm.algorithms import SharedState
from ppadmm.algorithms.newton import MOMENTS, SLOPES, moments
from ppadmm.algorithms.sums import KEYS
from ppadmm.engines import local
from ppadmm.errors import InputError, ProtocolError
from ppadmm.ledger import MemoryLedger
from ppadmm.mechanisms import ChargedNoise
from ppadmm.noise import SecureNoise, SeededNoise
from ppadmm.runs.federation import make_agents
from ppadmm.summing.masks import Masks, public_key
from ppadmm.summing.trust import Trust
from tests.summing.small_sums import (
    BUDGET,
    SUM,
    make_rules,
    make_settings,
    make_sum_agents,
    words,
)


class NoNoise(SeededNoise):
    """Adds nothing, to see what is under the noise."""

    def gaussian(self, values, scale, grid, key):
        return values.copy()


def spoken(agents):
    """Let everybody speak; return what was said."""
    actions = [agent.next() for agent in agents]
    assert all(isinstance(action, Send) for action in actions)
    return [action.message for action in actions]


def deliver(agents, messages):
    for agent in agents:
        for message in messages:
            if message.agent != agent.number:
                agent.receive(message)


def rounds_of(agents, rounds):
    """Make so many rounds; return the messages of each."""
    said = []
    for _ in range(rounds):
        said.append(spoken(agents))
        deliver(agents, said[-1])
    return said


@pytest.mark.parametrize("sites", [2, 3, 5, 50])
def test_all_sites_have_the_same_model_and_the_books_are_right(sites):
    rules = make_rules(sites)
    agents = make_sum_agents(rules)
    models = local.run(agents).agent_models()
    assert (models == models[0]).all()
    for agent, rule in zip(agents, rules, strict=True):
        ledger = agent.ledgers[0]
        assert accountant.epsilon(ledger.reserved, BUDGET.delta).epsilon <= BUDGET.epsilon
        (moment, _), (slope, _) = (rule.price(stage, 0) for stage in (MOMENTS, SLOPES))
        spent = {e.ratio: times for e, times in ledger.spent.counts if hasattr(e, "ratio")}
        assert spent == {moment: 1, slope: rule.steps}


@pytest.mark.parametrize("sites", [2, 3, 5])
@pytest.mark.parametrize("d", [1, 4])
def test_without_noise_the_sum_is_that_of_all_records(sites, d):
    """What is opened is the mean over all records, to half a grid for each site."""
    rules = make_rules(sites, d=d)
    agents = make_sum_agents(rules, NoNoise((0,)))
    rounds_of(agents, 1)
    said = spoken(agents)
    parts = {message.agent: message.heard for message in said if message.agent}
    total = rules[0].total(agents[0]._state, parts)[0]
    whole = sum(rule.site.risk.n * moments(rule.site.risk) for rule in rules)
    grid = rules[0].adders(MOMENTS, sites)[0].grid
    assert np.abs(total - whole / rules[0].site.records).max() <= sites * grid


def test_the_noise_of_the_sum_less_a_coalitions_is_what_was_paid_for():
    """c sites subtract their own: what is left has the standard deviation Δ/ratio."""
    sites, trust = 5, Trust("sum", 2)
    rules = make_rules(sites, make_settings(trust, rounds=3), d=40)
    ratio, _ = rules[0].price(MOMENTS, 0)
    noisy = []
    for seed in range(4):
        quiet, loud = (make_sum_agents(rules, source((seed,))) for source in (NoNoise, SeededNoise))
        for agents in (quiet, loud):
            rounds_of(agents, 1)
        sums = []
        for agents in (quiet, loud):
            said = spoken(agents)
            # The three honest ones, opened by what the other two know of their masks.
            opened = np.add.reduce([words(message) for message in said[:3]], axis=0)
            for agent in agents[3:]:
                opened = opened + agent._state.masks.mask(range(sites), 1, opened.size)
            sums.append(opened.view(np.int64)[0].astype(float))
        noisy.append(sums[1] - sums[0])
    adder = rules[0].adders(MOMENTS, sites)[0]
    wanted = rules[0].sensitivity(MOMENTS) / adder.grid / ratio
    found = np.concatenate(noisy)
    spread = found.std() / wanted
    assert abs(spread - 1.0) < 5.0 / math.sqrt(2 * found.size)


@pytest.mark.parametrize("honest", [1, 2, 3, 4])
def test_every_site_adds_as_much_as_the_honest_ones_need(honest):
    rules = make_rules(5, make_settings(Trust("sum", 5 - honest)))
    for stage in (MOMENTS, SLOPES):
        ratio, _ = rules[0].price(stage, 0)
        adder = rules[0].adders(stage, 5)[0]
        moved = rules[0].sensitivity(stage) / adder.grid + math.sqrt(rules[0].size(stage))
        assert moved / (adder.scale * math.sqrt(honest)) == pytest.approx(ratio, rel=1e-12)


def test_what_no_records_could_say_is_brought_within_bounds():
    """A rule whose values lie: its part is clipped to the norm that records can have."""

    class Loud(type(make_rules(2)[0])):
        def values(self, held, stage):
            return 1e9 * np.ones((1, self.size(stage)))

    rules = make_rules(2, d=3)
    loud = Loud(**{name: getattr(rules[0], name) for name in rules[0].__dataclass_fields__})
    agents = make_sum_agents([loud, rules[1]], NoNoise((0,)))
    rounds_of(agents, 1)
    said = words(spoken(agents)[0])
    mask = agents[0]._state.masks.mask((0, 1), 1, loud.size(MOMENTS))
    part = (said - mask).view(np.int64)[0].astype(float)
    grid = loud.adders(MOMENTS, 2)[0].grid
    assert np.linalg.norm(part * grid) <= loud.site.share * 1.001 + grid * len(part)


# Masks and noise are used once


def part_of(rule, state, noise):
    ledger = MemoryLedger()
    ledger.reserve(rule.reserved[0])
    return rule.propose(state, ChargedNoise((ledger,), noise))[0].own.value.view(np.uint64)[0]


def state_at(agents, rounds):
    rounds_of(agents, rounds)
    for agent in agents:
        agent.next()
    return agents[0]._state


def ready(rules, noise, exchange):
    """The state of site 0 before it speaks in an exchange."""
    agents = make_sum_agents(rules, noise)
    rounds_of(agents, exchange)
    agents[0]._advance(agents[0]._inbox[agents[0].exchange])
    return agents[0]._state


@pytest.mark.parametrize("noise", [SeededNoise((0,)), SecureNoise()])
def test_a_repetition_has_fresh_noise_and_another_mask(noise):
    """The same round again without a site: of what was said before nothing is used again."""
    rules = make_rules(4)
    state = ready(rules, noise, 2)
    again = replace(state, exchange=state.exchange + 1, members=(0, 1, 2))
    kept = replace(state, exchange=state.exchange + 1)
    clear = {}
    for name, one in (("first", state), ("again", again), ("kept", kept)):
        said = part_of(rules[0], one, noise)
        clear[name] = (said - one.masks.mask(one.members, one.exchange, said.size)).view(np.int64)
    assert (clear["first"] != clear["again"]).all()
    assert (clear["first"] != clear["kept"]).all()
    scale = rules[0].adders(SLOPES, 4)[0].scale
    assert np.abs(clear["first"] - clear["kept"]).max() > 0.01 * scale


def test_a_repetition_among_fewer_has_as_much_noise():
    rules = make_rules(5, make_settings(Trust("sum", 2, 2)))
    for members in (5, 4, 3):
        adder = rules[0].adders(SLOPES, members)[0]
        ratio, _ = rules[0].price(SLOPES, 0)
        moved = rules[0].sensitivity(SLOPES) / adder.grid + math.sqrt(3)
        assert moved / (adder.scale * math.sqrt(members - 2)) <= ratio * (1 + 1e-12)


def test_nothing_is_paid_where_nobodys_noise_is_left():
    rules = make_rules(3, make_settings(Trust("sum", 2, 1)))
    state = replace(ready(rules, SeededNoise((0,)), 2), members=(0, 1))
    ledger = MemoryLedger()
    ledger.reserve(rules[0].reserved[0])
    with pytest.raises(InputError, match="nobody's noise is left"):
        rules[0].propose(state, ChargedNoise((ledger,), SeededNoise((0,))))
    bare = replace(state, members=(0, 1, 2), masks=None)
    with pytest.raises(ProtocolError, match="No keys were agreed on"):
        rules[0].propose(bare, ChargedNoise((ledger,), SeededNoise((0,))))
    assert not ledger.spent.counts


def test_the_same_seed_gives_other_messages_and_the_same_model():
    """Masks come from the system, whatever the seed is, and leave no trace in the sum."""
    said, models = [], []
    for _ in range(2):
        agents = make_sum_agents(make_rules(3))
        said.append(rounds_of(agents, len(agents[0].algorithm.stages)))
        for agent in agents:
            assert isinstance(agent.next(), Done)
        models.append(agents[1].model)
    assert (models[0] == models[1]).all()
    for ours, theirs in zip(*said, strict=True):
        assert all((words(a) != words(b)).all() for a, b in zip(ours, theirs, strict=True))


def test_masks_or_not_the_model_is_the_same(monkeypatch):
    models = [local.run(make_sum_agents(make_rules(3))).agent_models()]
    monkeypatch.setattr(Masks, "mask", lambda self, members, sum_, size: np.zeros(size, np.uint64))
    models.append(local.run(make_sum_agents(make_rules(3))).agent_models())
    assert (models[0] == models[1]).all()


def test_what_leaves_a_site_is_not_its_part():
    """All bits of a masked message are far from those of the part: no mask is zero."""
    agents = make_sum_agents(make_rules(3))
    rounds_of(agents, 1)
    said = spoken(agents)
    adder = agents[0].algorithm.adders(MOMENTS, 3)[0]
    largest = adder.bound / adder.grid + 40 * adder.scale
    for message in said:
        assert np.abs(words(message).view(np.int64).astype(float)).max() > 8 * largest


# Messages


@pytest.fixture
def three():
    agents = make_sum_agents(make_rules(3))
    rounds_of(agents, 1)
    return agents


def finish(agents, rounds):
    rounds_of(agents, rounds)
    for agent in agents:
        agent.next()
    return [agent.model for agent in agents]


def changed(message, **changes):
    return replace(message, **changes)


def test_a_message_twice_counts_once_and_another_in_its_place_not_at_all(three):
    said = spoken(three)
    deliver(three, said)
    deliver(three, said)
    forged = SharedState(said[1].heard.value * 0.0, said[1].heard.total)
    three[0].receive(changed(said[1], heard=forged))
    models = finish(three, 3)
    assert all((model == models[0]).all() for model in models)


def test_a_late_message_changes_nothing(three):
    said = spoken(three)
    deliver(three, said)
    later = spoken(three)
    before = three[0].snapshot()
    three[0].receive(said[1])
    assert three[0].snapshot().inbox == before.inbox
    deliver(three, later)
    assert all((a == b).all() for a, b in zip(finish(three, 2), finish(three, 0), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_messages_may_come_in_any_order_and_ahead_of_time(seed):
    """One message at a time, any of those under way: the model is that of lock step."""
    plain, agents = (make_sum_agents(make_rules(3)) for _ in range(2))
    models, rng, waiting = finish(plain, plain[0].algorithm.rounds), np.random.default_rng(seed), []
    while any(agent.round < agent.algorithm.rounds for agent in agents):
        for agent in agents:
            if isinstance(action := agent.next(), Send):
                waiting += [(other, action.message) for other in agents if other is not agent]
        if waiting:
            other, message = waiting.pop(rng.integers(len(waiting)))
            other.receive(message)
    assert all((agent.model == models[0]).all() for agent in agents)


def test_a_site_waits_for_all_others(three):
    said = spoken(three)
    three[0].receive(said[1])
    action = three[0].next()
    assert isinstance(action, Wait)
    assert action.missing == (2,)


@pytest.mark.parametrize("length", [0, 5, 7])
def test_a_message_of_another_length_is_refused(three, length):
    said = spoken(three)
    other = SharedState(np.zeros((1, length)), np.zeros((1, 0)))
    with pytest.raises(ProtocolError, match=r"Site 1 said \(1, \d\) numbers in round 1"):
        three[0].receive(changed(said[1], heard=other))
    deliver(three, said)
    finish(three, 3)


def test_a_stranger_is_refused(three):
    said = spoken(three)
    for stranger in (3, 0, -1):
        with pytest.raises(ProtocolError, match="takes no part"):
            three[0].receive(changed(said[1], agent=stranger))


def test_a_message_beyond_the_last_round_is_dropped(three):
    three[0].receive(Message(1, 99, SharedState(np.zeros((1, 1)), np.zeros((1, 0)))))
    assert 99 not in three[0]._inbox


def test_whatever_a_liar_says_the_others_stay_finite(three):
    """All bits set, NaN as a double: a number modulo 2⁶⁴ like any other."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        said = spoken(three)
        size = said[2].heard.value.shape
        lie = rng.integers(0, 2**64 - 1, size, np.uint64, endpoint=True).view(np.float64)
        lie[:] = np.where(rng.random(size) < 0.5, np.nan, lie)
        said[2] = changed(said[2], heard=SharedState(lie, said[2].heard.total))
        deliver(three[:2], said)
        deliver(three[2:], said[:2])
    models = finish(three, 0)
    assert np.isfinite(models[0]).all()
    assert (models[0] == models[1]).all()


# Secrets


def test_the_key_of_a_site_is_not_printed_logged_or_pickled(caplog):
    agents = make_sum_agents(make_rules(2))
    state = state_at(agents, 2)
    hidden = [state.private, *state.masks.secrets.values()]
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("a user's").warning("%r %s %r", state, agents[0], agents[0].snapshot())
    for secret in hidden:
        shown = caplog.text
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown
        assert str(np.frombuffer(secret, np.float64)[0]) not in shown
    for held in (state, agents[0].snapshot(), agents[0]):
        with pytest.raises(TypeError, match="not pickled by the way"):
            pickle.dumps(held)


def test_the_private_key_is_in_no_message():
    agents = make_sum_agents(make_rules(2))
    said = rounds_of(agents, 3)
    state = agents[0]._state
    assert said[0][0].heard.value.tobytes() == public_key(state.private)
    sent = b"".join(m.heard.value.tobytes() for messages in said for m in messages)
    assert state.private not in sent


# What is refused before a run


def test_sites_of_several_budgets_do_not_add_up():
    """Each relies on the others' noise, so one budget, the strictest, is everybody's."""
    rules = make_rules(2)
    loose = make_settings(budgets=(Budget(8.0, 1e-6),))
    with pytest.raises(InputError, match="strictest budget of all"):
        make_agents("newton", [r.site for r in rules], [make_settings(), loose], SeededNoise((0,)))


def test_a_share_that_is_not_that_of_the_records_is_refused():
    from ppadmm.algorithms import build

    site = make_rules(2)[0].site
    with pytest.raises(InputError, match="weigh sites by their records"):
        build("newton", replace(site, shares=(0.9, 0.1)), make_settings())
    with pytest.raises(InputError, match="weigh sites by their records"):
        build("newton", replace(site, records=2 * site.records), make_settings())


def test_the_first_round_is_of_keys():
    assert make_rules(2)[0].stages == (KEYS, MOMENTS, SLOPES, SLOPES, SLOPES)
    assert SUM.repeats == 2
