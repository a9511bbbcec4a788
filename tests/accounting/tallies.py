"""Random tallies in which every kind of event meets every other, many of them with two valleys."""

import math
import random

from ppadmm.accounting import Gaussian, ObjectivePerturbation, Pure, RepeatAndSelect, Tally

TIMES = (1, 1, 2, 3, 5, 10, 30, 100, 1000)


def random_tally(seed: int) -> tuple[Tally, float]:
    """Return a tally and a δ; the same for the same seed."""
    rng = random.Random(seed)
    return _tally(rng, searches=True), 10.0 ** rng.uniform(-12.0, -1.0)


def _tally(rng: random.Random, searches: bool) -> Tally:
    events = [_event(rng, searches) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    return Tally(tuple((event, _times(rng, event)) for event in dict.fromkeys(events)))


def _times(rng: random.Random, event) -> int:
    return rng.choice((1, 1, 2) if isinstance(event, RepeatAndSelect) else TIMES)


def _event(rng: random.Random, searches: bool):
    kind = rng.random()
    if kind < 0.6:
        return _perturbation(rng)
    if kind < 0.8:
        return Gaussian(_log_uniform(rng, 1e-5, 3.0))
    if kind < 0.93 or not searches:
        return Pure(_log_uniform(rng, 1e-4, 3.0))
    runs = tuple(_tally(rng, searches=False) for _ in range(rng.choice((1, 2, 3))))
    return RepeatAndSelect(runs, _log_uniform(rng, 1.0001, 100.0), rng.choice((0.0, 0.4, 1.0, 2.5)))


def _perturbation(rng: random.Random) -> ObjectivePerturbation:
    """Few records make κ large; more classes, more dimensions."""
    span = rng.choice((1, 1, 1, 2, 3, 5, 9))
    kappa = _log_uniform(rng, *rng.choice(((1e-7, 3.0), (5e-3, 0.9), (5e-3, 0.9))))
    trace, square = (rng.uniform(0.5, 2.0) * max(1.0, span / part) for part in (2, 3))
    ratio = _log_uniform(rng, *rng.choice(((1e-4, 3.0), (0.02, 1.0))))
    return ObjectivePerturbation(ratio, kappa, rng.choice((1, 2)), span, trace, square)


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))
