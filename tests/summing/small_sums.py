"""Small runs of sums, in memory or on a ledger, and what a coalition can do with its own keys."""

import numpy as np

from ppadmm.accounting import Budget
from ppadmm.algorithms import Settings, build
from ppadmm.algorithms.base import site_in
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import Logistic, make_graph, risk_of
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.masks import Masks, new_key, public_key
from ppadmm.summing.trust import Trust
from tests.small_problems import random_shard

BUDGET = Budget(1.0, 1e-6)
SUM = Trust("sum", 1, 2)


def keyed(members, name=b"run", private=None):
    """The masks of every member: (number → Masks)."""
    private = private or {i: new_key() for i in members}
    public = {i: public_key(key) for i, key in private.items()}
    return {
        i: Masks.between(i, private[i], {j: public[j] for j in members if j != i}, name)
        for i in members
    }


def make_settings(trust=SUM, rounds=4, **changes):
    values = {"eta": (0.1,), "regularisation": (0.0,), "budgets": (BUDGET,), "run": b"run"}
    return Settings(rounds=rounds, trust=trust, **{**values, **changes})


def make_rules(sites, settings=None, n=40, d=3):
    """One rule per site; an `n` of 0 makes no sense here."""
    graph, settings = make_graph("complete", sites), settings or make_settings()
    sizes = [n + i for i in range(sites)]
    shards = [random_shard(size, d, seed=i) for i, size in enumerate(sizes)]
    return [
        build("newton", site_in(graph, i, risk_of(s, Logistic()), sizes, sum(sizes)), settings)
        for i, s in enumerate(shards)
    ]


def make_sum_agents(rules, noise=None, books=None):
    noise = noise or SeededNoise((0,))
    books = books or [MemoryLedger(BUDGET) for _ in rules]
    return [
        SumAgent(rule, i, rule.site.neighbours, [book], noise)
        for i, (rule, book) in enumerate(zip(rules, books, strict=True))
    ]


def words(message):
    """What a masked message is: (R, size) numbers modulo 2⁶⁴."""
    return np.ascontiguousarray(message.heard.value).view(np.uint64)
