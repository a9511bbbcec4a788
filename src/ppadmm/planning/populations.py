"""Whom to plan with: made-up populations of several kinds, or records that are public.

Nothing of the user's private data is read: only what is called public, by name or by path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data import Dataset, Partition, Schema
from ppadmm.data.knots import settle_knots
from ppadmm.data.partition import deal, split
from ppadmm.datasets import load
from ppadmm.errors import InputError
from ppadmm.planning.dealing import ByLabel, BySite, Dealing, Evenly, Places, whole_parts
from ppadmm.planning.forecast import Population, fit, most_telling, stand_ins
from ppadmm.planning.specification import PlanSpec
from ppadmm.planning.synthetic_records import class_shares, draw_population
from ppadmm.problem import Loss
from ppadmm.runs.metrics import evaluate

TEST = 10_000
TRIES, CLOSE = 4, 0.002
"""How often, and how closely, labels are fitted to the error that the user knows."""
RESAMPLES = 3
"""How often public records are dealt anew."""
MOST_RECORDS, MOST_CELLS = 40_000, 2_400_000
SKEW = 2
"""The stream of draws that says whose labels are skewed how."""


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
    """How many records a group must have: `share` of each agent's, and as many again for changes.

    `features` of a record, the intercept included; `alpha` says how skewed labels are, if at all.
    """

    records: tuple[int, ...]
    features: int
    share: float
    alpha: float | None = None

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

    def dealing(self, y: Array, test: Array, seed: tuple[int, ...]) -> Dealing:
        """Return how records with labels y are dealt: evenly, or by label."""
        if self.alpha is None:
            return Evenly([])
        codes = np.unique(np.concatenate([y, test]), return_inverse=True)[1]
        return ByLabel(codes[: len(y)], codes[len(y) :], self.alpha, seed)


def most_simulated(features: int) -> int:
    """Return how many records are simulated at most: fewer of wide ones, but five per feature."""
    return max(5 * features, min(MOST_RECORDS, MOST_CELLS // features))


def made_up(
    spec: PlanSpec, need: SampleSizes, loss: Loss, classes: int
) -> list[Callable[[], Population]]:
    """Return how to draw each of the made-up populations, all of one kind if `like` names it.

    Where the error of a model without privacy is known, labels are fitted to it.
    """
    known = (spec.nonprivate_error, spec.majority_error)
    return [
        partial(
            _draw, spec.like or guess.kind, _difficulty(guess, classes, known), need, loss, classes,
            known[0] is not None, (spec.seed, k),
        )
        for k, guess in enumerate(GUESSES)
    ]  # fmt: skip


def _difficulty(
    guess: Guess, classes: int, known: tuple[float | None, float | None]
) -> tuple[float, float]:
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
    seed: tuple[int, int],
) -> Population:
    """Draw a group; `fitted` labels are as hard for a model without privacy as was asked for."""
    rng, (error, majority) = np.random.default_rng(seed), difficulty
    shares, aim = class_shares(majority, classes), error
    made = draw_population(kind, need.drawn + need.test, need.features, shares, rng)
    name = f"{kind} (majority error {majority:.2g})"
    for _ in range(TRIES):
        group = _population(name, made.X, made.with_error(aim).labels(), need, loss, classes)
        if not fitted or abs(group.error - error) < CLOSE:
            break
        aim = min(max(aim + error - group.error, error / 4.0), error)
    return replace(group, dealing=need.dealing(group.y, group.test[1], (*seed, SKEW)))


def _population(
    name: str, X: Any, y: Array, need: SampleSizes, loss: Loss, classes: int, cut: int = 0
) -> Population:
    """Cut the test set off the end of the records, and fit a model without privacy."""
    n, cut = need.train, cut or need.drawn
    model, test = fit(X[:n], y[:n], loss, classes), (X[cut:], y[cut:])
    return Population(
        name=name,
        X=X[:cut],
        y=y[:cut],
        test=test,
        classes=classes,
        order=most_telling(model, X[:n]),
        share=need.share,
        error=float(evaluate(*test, model[None], classes).error[0]),
        majority_error=majority_error(test[1]),
    )


def majority_error(y: Array) -> float:
    """Return how often always naming the commonest class is wrong."""
    return float(1.0 - np.unique(y, return_counts=True)[1].max() / len(y))


def open_public(spec: PlanSpec) -> Dataset:
    """Load a named data set, or a file that the user calls public."""
    schema = Schema.from_toml(spec.schema) if spec.schema else None
    data = str(spec.public or spec.like)
    holder = spec.dealing.column
    found = load(data, schema=schema, label=spec.label, data_dir=spec.data_dir, holder=holder)
    records = sum(spec.holdings) or found.train_records
    return found.with_schema(settle_knots(found.schema, records, spec.epsilon, spec.knots))


def sites_of(data: Dataset, spec: PlanSpec) -> PlanSpec:
    """Return the plan for the sites that a column of public records names, if one does."""
    if spec.dealing.column is None:
        return spec
    found = deal(data, spec.dealing, spec.agents, 0)[0]
    names = tuple(f"{spec.dealing.column} {value}" for value in found.names)
    return spec.settled(names, tuple(max(1, len(part)) for part in found.parts))


def is_short(data: Dataset, need: SampleSizes, spec: PlanSpec) -> bool:
    """Say whether public records have to be used more than once, at one site or over all."""
    if spec.dealing.column is None:
        return data.train_records < need.train
    parts = deal(data, spec.dealing, spec.agents, 0)[0].parts
    pairs = zip(parts, need.records, strict=True)
    return any(len(part) < stand_ins(n, need.share) for part, n in pairs)


def resampled(
    data: Dataset, need: SampleSizes, loss: Loss, spec: PlanSpec
) -> list[Callable[[], Population]]:
    """Return how to deal public records: anew each time, training and test records apart."""
    seeds = (RESAMPLES * spec.seed + k for k in range(RESAMPLES))
    return [partial(_resample, data, need, loss, spec.dealing, seed) for seed in seeds]


def _resample(
    data: Dataset, need: SampleSizes, loss: Loss, how: Partition, seed: int
) -> Population:
    rng, dealing = np.random.default_rng([seed, 1]), None
    if how.column is None:
        train, test = split(data, seed)
        own, judged = _enough(train, need.drawn, rng), test[: need.test]
    else:
        own, judged, dealing = _by_site(data, need, how, seed)
    rows = np.concatenate([own, judged])
    X: Any = data.X
    name, classes = f"{data.name}, resample {seed}", data.schema.classes
    group = _population(name, X[rows], data.y[rows], need, loss, classes, cut=len(own))
    dealing = dealing or need.dealing(group.y, group.test[1], (seed, SKEW))
    group = replace(group, dealing=dealing)
    if need.features == data.d:
        return group
    group = group.with_features(need.features)
    model = fit(group.X[: need.train], group.y[: need.train], loss, classes)
    return replace(group, error=float(evaluate(*group.test, model[None], classes).error[0]))


def _by_site(
    data: Dataset, need: SampleSizes, how: Partition, seed: int
) -> tuple[Places, Places, Dealing]:
    """Return rows to train and to judge on, in the sites' declared shares, and who holds them.

    Those that stand for the declared records come first, then as many again for changes.
    """
    rng, (dealt, out) = np.random.default_rng([seed, 1]), deal(data, how, 1, seed)
    train = [rng.permutation(own) for own in dealt.parts]
    test = [rng.permutation(out[own]) for own in dealt.alike or ()]
    _require_some(dealt.names, train, test)
    counts = [stand_ins(n, need.share) for n in need.records]
    judged = [max(1, n) for n in whole_parts(need.test, np.array(need.records, float))]
    first, again = (
        [_enough(own, k * n, rng)[(k - 1) * n :] for own, n in zip(train, counts, strict=True)]
        for k in (1, 2)
    )
    tested = [_enough(own, n, rng) for own, n in zip(test, judged, strict=True)]
    holders = [np.repeat(np.arange(len(counts)), list(map(len, part))) for part in (first, again)]
    whose = np.repeat(np.arange(len(judged)), judged)
    dealing = BySite(np.concatenate(holders), whose)
    return np.concatenate([*first, *again]), np.concatenate(tested), dealing


def _require_some(names: Sequence[str], *each: list[Places]) -> None:
    """Refuse a site with nothing to train on, or nothing to judge by."""
    for name, *parts in zip(names, *each, strict=True):
        if not all(map(len, parts)):
            raise InputError(
                f"The public records have too few of {name!r} to train and to judge on; leave that "
                "site out of the column."
            )


def _enough(rows: Any, count: int, rng: np.random.Generator) -> Any:
    """Return `count` of the rows, each once as long as there are enough."""
    if count <= len(rows):
        return rows[:count]
    return np.concatenate([rows, rng.choice(rows, count - len(rows))])
