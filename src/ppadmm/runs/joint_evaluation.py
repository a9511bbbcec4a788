"""Test figures of all sites together, of which no site shows its own.

Every site counts its held-out records by what the model says of them and by their true class. The
counts of all sites are added up, each with noise of its own (`trust = local`) or under masks
(`trust = sum`), and the figures follow from the noisy counts: they may be published. Held-out
records have a budget of their own, which this spends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ppadmm.accounting import Budget, Tally
from ppadmm.agent import Agent
from ppadmm.algorithms.base import site_in
from ppadmm.algorithms.counting import Counting, build_counting
from ppadmm.arrays import Array, Matrix
from ppadmm.data import Shard
from ppadmm.engines import local
from ppadmm.errors import InputError
from ppadmm.ledger import Ledger, MemoryLedger
from ppadmm.noise import NoiseSource
from ppadmm.problem import Logistic, NoRecords, make_graph, risk_of
from ppadmm.problem.multiclass import Multinomial
from ppadmm.records import HoldsRecords
from ppadmm.sum_agent import SumAgent
from ppadmm.summing.trust import LOCAL_TRUST, Trust

BINS = 20
"""Of the probability of the second class; with more classes there is a cell per pair of them."""


@dataclass(frozen=True)
class HeldOutRecords(HoldsRecords):
    """One site's held-out records with labels as in `Shard`."""

    X: Matrix
    y: Array
    classes: int = 2


@dataclass(frozen=True)
class JointCounts:
    """Noisy counts of held-out records: (BINS, 2) by probability and class, or (K, K) by classes.

    Rows are what the model says, columns the truth. `sigma` is the noise of each count, `records`
    how many there are, `spent` what every site paid.
    """

    counts: Array
    sigma: float
    records: int
    spent: tuple[Tally, ...]

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.counts.shape[1] == 2 and len(self.counts) == BINS

    @property
    def wrong(self) -> Array:
        """Which counts are of records that the model gets wrong, at a probability of one half."""
        if not self.binary:
            return ~np.eye(len(self.counts), dtype=bool)
        likely = np.arange(BINS) >= BINS // 2
        return np.stack([likely, ~likely], axis=1)

    @property
    def error(self) -> float:
        """The share of records that the model gets wrong."""
        return float(np.clip(self.counts[self.wrong].sum() / self.records, 0.0, 1.0))

    @property
    def error_noise(self) -> float:
        """The standard deviation that noise gives it."""
        return self.sigma * math.sqrt(int(self.wrong.sum())) / self.records

    @property
    def auc(self) -> float:
        """The area under the ROC curve from the counts; ties within a bin count one half."""
        if not self.binary:
            return math.nan
        negative, positive = np.maximum(self.counts, 0.0).T
        below = np.cumsum(negative) - negative / 2.0
        pairs = positive.sum() * negative.sum()
        return float((positive * below).sum() / pairs) if pairs else math.nan


def count_cells(test: HeldOutRecords, model: Array) -> Array:
    """Return a site's own counts, which are not to be seen: (BINS, 2) or (K, K)."""
    if test.classes == 2:
        likely = expit(np.asarray(test.X @ model))
        rows = np.minimum((likely * BINS).astype(np.intp), BINS - 1)
        shape, columns = (BINS, 2), (test.y > 0).astype(np.intp)
    else:
        scores = np.asarray(test.X @ model.reshape(test.classes, -1).T)
        rows, columns = scores.argmax(axis=1), test.y.astype(np.intp)
        shape = (test.classes, test.classes)
    counts = np.zeros(shape)
    np.add.at(counts, (rows, columns), 1.0)
    return counts


def evaluate_together(
    tests: Sequence[HeldOutRecords],
    model: Array,
    budget: Budget,
    noise: NoiseSource,
    trust: Trust = LOCAL_TRUST,
    adjacency: str = "replace-one",
    ledgers: Sequence[Ledger] | None = None,
) -> JointCounts:
    """Judge a model (d,) on the held-out records of all sites, at most `budget` for each of them.

    Parameters
    ----------
    tests : sequence of HeldOutRecords
        One for each site.
    model : array (d,) or (K·d,)
        What was released.
    budget : Budget
        Of every site's held-out records.
    noise : NoiseSource
        Where noise comes from.
    trust : Trust
        `local`, or `sum` for counts that nobody sees the parts of.
    adjacency : str
        What is done to one record.
    ledgers : sequence of Ledger, optional
        The book of every site's held-out records; without, one that refuses more than `budget`.

    Returns
    -------
    JointCounts
        Noisy counts, and the figures that follow from them.
    """
    books = [MemoryLedger(budget) for _ in tests] if ledgers is None else ledgers
    rules = _rules(tests, model, budget, trust, adjacency)
    agents: list[Agent] = [
        SumAgent(rule, i, rule.site.neighbours, [book], noise)
        for i, (rule, book) in enumerate(zip(rules, books, strict=True))
    ]
    counts = local.run(agents).agent_models()[0, 0]
    classes = tests[0].classes
    shape = (BINS, 2) if classes == 2 else (classes, classes)
    sigma, spent = rules[0].noise_of_sum, tuple(book.spent for book in books)
    return JointCounts(counts.reshape(shape), sigma, rules[0].site.records, spent)


def _rules(
    tests: Sequence[HeldOutRecords], model: Array, budget: Budget, trust: Trust, adjacency: str
) -> list[Counting]:
    sizes = [len(test.y) for test in tests]
    if not any(sizes):
        raise InputError("No site has held-out records; there is nothing to judge the model on.")
    graph, rules = make_graph("complete", len(tests)), []
    for i, test in enumerate(tests):
        loss = Logistic() if test.classes == 2 else Multinomial(test.classes)
        risk = risk_of(Shard(test.X, test.y, test.classes), loss) if sizes[i] else None
        site = site_in(graph, i, risk or NoRecords(len(model), loss), sizes, sum(sizes))
        counts = count_cells(test, model).ravel()
        rules.append(build_counting(site, counts, budget, trust, adjacency))
    return rules
