"""Whom to plan with: made-up populations of several kinds, or records that are public.

Nothing of the user's private data is read: only what is called public, by name or by path.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ppadmm.arrays import Array, Matrix
from ppadmm.data import Dataset, Schema
from ppadmm.data.partition import split
from ppadmm.datasets import SOURCES, load
from ppadmm.errors import InputError
from ppadmm.planning.forecast import Population, fit, most_telling, stand_ins
from ppadmm.planning.synthetic_records import (
    POPULATIONS,
    SyntheticRecords,
    class_shares,
    draw_population,
)
from ppadmm.problem import Loss
from ppadmm.runs.metrics import evaluate

TEST = 10_000
TRIES, CLOSE = 4, 0.002
"""How often, and how closely, labels are fitted to the error that the user knows."""
RESAMPLES = 3
"""How often public records are dealt anew."""


@dataclass(frozen=True)
class Guess:
    """A kind of features, its majority error m (for two classes), and e/m: how hard it is."""

    kind: str
    ratio: float
    majority: float


GUESSES = (
    Guess("table", 0.35, 0.40),
    Guess("scattered", 0.65, 0.25),
    Guess("power-law", 0.60, 0.30),
    Guess("table", 0.60, 0.24),
    Guess("flat", 0.50, 0.40),
    Guess("scattered", 0.48, 0.48),
)
"""What the data may be like when nothing is known of them."""


@dataclass(frozen=True)
class SampleSizes:
    """How many records a crowd must have: `share` of each agent's, and as many again for changes.

    `features` of a record, the intercept included.
    """

    records: tuple[int, ...]
    features: int
    share: float

    @property
    def train(self) -> int:
        """Records that stand for the declared ones."""
        return sum(stand_ins(n, self.share) for n in self.records)

    @property
    def drawn(self) -> int:
        """Records for twice as many agents, or twice as many records at each, and a few."""
        doubled = sum(stand_ins(2 * n, self.share) for n in self.records)
        return max(2 * self.train, doubled) + len(self.records)

    @property
    def test(self) -> int:
        """Records to judge by."""
        return max(2000, min(TEST, 4_000_000 // self.features))


Errors = tuple[float | None, float | None]
"""What the user knows: the error of a model without privacy, and of naming the commonest class."""


def made_up(
    like: str | None, need: SampleSizes, loss: Loss, classes: int, known: Errors, seed: int
) -> list[Callable[[], Population]]:
    """Return how to draw each of the made-up crowds, all of one kind if `like` names it."""
    guesses = [g if like is None else replace(g, kind=like) for g in GUESSES]
    fitted = known[0] is not None
    return [
        partial(_draw, g.kind, _difficulty(g, classes, known), need, loss, classes, fitted, seed, k)
        for k, g in enumerate(guesses)
    ]


def _difficulty(guess: Guess, classes: int, known: Errors) -> tuple[float, float]:
    """Return (e, m): as known, else by the guess.

    That a problem is hard says that no class is very common; that it is easy says nothing of it.
    """
    most = 1.0 - 1.0 / classes
    error, majority = known
    if majority is None:
        wanted = 2.0 * most * guess.majority
        majority = min(wanted if error is None else max(wanted, error / guess.ratio), most)
    error = guess.ratio * majority if error is None else error
    if not 0.0 < error < majority:
        raise InputError(
            f"Expected an error without privacy between 0 and {majority:.3g}, that of always "
            f"naming the commonest class, got {error:g}."
        )
    return error, majority


def _draw(
    kind: str,
    difficulty: tuple[float, float],
    need: SampleSizes,
    loss: Loss,
    classes: int,
    fitted: bool,
    seed: int,
    k: int,
) -> Population:
    """Draw a crowd; `fitted` labels are as hard for a model without privacy as was asked for."""
    error, majority = difficulty
    rng = np.random.default_rng([seed, k])
    shares = class_shares(majority, classes)
    count = need.drawn + need.test
    population = draw_population(kind, count, need.features, shares, rng)
    aim = error
    for _ in range(TRIES):
        y, model, found = _labelled(population, aim, need, loss)
        if not fitted or abs(found - error) < CLOSE:
            break
        aim = min(max(aim + error - found, error / 4.0), error)
    name = f"{kind} (majority error {majority:.2g})"
    return _crowd(name, (population.X, y), model, need, loss, classes)


def _labelled(
    population: SyntheticRecords, error: float, need: SampleSizes, loss: Loss
) -> tuple[Array, Array, float]:
    """Return labels, a model without privacy and its test error."""
    y = population.with_error(error).labels()
    n, K = need.train, population.classes
    model = fit(population.X[:n], y[:n], loss, K)
    judged = evaluate(population.X[need.drawn :], y[need.drawn :], model[None], K)
    return y, model, float(judged.error[0])


def _crowd(
    name: str,
    records: tuple[Any, Array],
    model: Array,
    need: SampleSizes,
    loss: Loss,
    classes: int,
) -> Population:
    """Cut the test set off the end of the records."""
    (X, y), cut = records, need.drawn
    test = (X[cut:], y[cut:])
    return Population(
        name=name,
        X=X[:cut],
        y=y[:cut],
        test=test,
        classes=classes,
        order=most_telling(model, X[: need.train]),
        share=need.share,
        error=float(evaluate(*test, model[None], classes).error[0]),
        majority_error=majority_error(test[1]),
    )


def majority_error(y: Array) -> float:
    """Return how often always naming the commonest class is wrong."""
    return float(1.0 - np.unique(y, return_counts=True)[1].max() / len(y))


def open_public(data: str, schema: str | None, label: str | None, data_dir: str | None) -> Dataset:
    """Load a named data set, or a file that the user calls public."""
    read = Schema.from_toml(schema) if schema else None
    return load(data, schema=read, label=label, data_dir=data_dir)


def is_named(like: str) -> bool:
    """Whether `like` is a data set rather than a kind of population."""
    return like in SOURCES and like not in POPULATIONS


def resampled(
    data: Dataset, need: SampleSizes, loss: Loss, seed: int
) -> list[Callable[[], Population]]:
    """Return how to deal public records: anew each time, training and test records apart."""
    return [partial(_resample, data, need, loss, RESAMPLES * seed + k) for k in range(RESAMPLES)]


def repeats(data: Dataset, need: SampleSizes) -> bool:
    """Whether there are fewer public records than are to be simulated, so that some repeat."""
    return data.train_records < need.train


def _resample(data: Dataset, need: SampleSizes, loss: Loss, seed: int) -> Population:
    train, test = split(data, seed)
    rng = np.random.default_rng([seed, 1])
    rows = np.concatenate([_enough(train, need.drawn, rng), test[: need.test]])
    X: Any = data.X
    chosen: Matrix = X[rows]
    y, classes = data.y[rows], data.schema.classes
    model = fit(chosen[: need.train], y[: need.train], loss, classes)
    crowd = _crowd(f"{data.name}, resample {seed}", (chosen, y), model, need, loss, classes)
    if need.features == data.d:
        return crowd
    return _refitted(crowd.with_features(need.features), need, loss)


def _refitted(crowd: Population, need: SampleSizes, loss: Loss) -> Population:
    model = fit(crowd.X[: need.train], crowd.y[: need.train], loss, crowd.classes)
    error = float(evaluate(*crowd.test, model[None], crowd.classes).error[0])
    return replace(crowd, error=error)


def _enough(rows: Any, count: int, rng: np.random.Generator) -> Any:
    """Return `count` of the rows, each once as long as there are enough."""
    if count <= len(rows):
        return rows[:count]
    return np.concatenate([rows, rng.choice(rows, count - len(rows))])
