"""How many records are enough? The bounds of `sample_bound` at the settings that make them small.

They hold for every Λ, η and φ, so those are searched for with an estimate of the noise; what is
reported is the bound with the noise of the exact calibration, which holds however good the search
was.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ppadmm import checks
from ppadmm.accounting import Budget, StepConstants, calibrate, perturbed_step
from ppadmm.accounting.gaussian import gdp_ratio
from ppadmm.algorithms.settings import MAX_ROUNDS
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.planning.sample_bound import (
    QUIET,
    BoundSetting,
    Choice,
    Parts,
    Scales,
    chi_square_tail,
    least_error,
    parts_of,
)

MOST_RECORDS = 10**13
ROUNDS_SHARE = 0.1
"""Share of the error that the default number of rounds leaves to convergence."""


@dataclass(frozen=True)
class ErrorBound:
    """A bound for n records per agent, with the settings that it holds for.

    `sigma1` and `sigma2` are the largest over agents, 0 without noise; `eta` is 0 without rounds.
    """

    n: int
    parts: Parts
    regularisation: float
    eta: float
    rounds: int | None
    sigma1: float
    sigma2: float

    @property
    def total(self) -> float:
        """The bound on the excess expected loss."""
        return self.parts.total

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        return {
            "records_per_agent": self.n,
            "bound": self.total,
            "parts": asdict(self.parts),
            "regularisation": self.regularisation,
            "eta": self.eta or None,
            "rounds": self.rounds,
            "sigma1": self.sigma1,
            "sigma2": self.sigma2,
        }


def error_bound(n: int, setting: BoundSetting) -> ErrorBound:
    """Return the smallest bound found for n records per agent.

    Λ, η and φ are found with an estimate of the noise; the bound is then evaluated with the
    exactly calibrated noise, so it holds however good the search was. Raises `InfeasibleError`
    if no noise reaches the budget.
    """
    checks.count("records per agent", n, at_most=MOST_RECORDS)
    choice = _search(n, setting)
    if setting.budget is None:
        return _bound(n, setting, choice, dict.fromkeys(setting.degrees, QUIET))
    return _feasible(n, setting, choice, setting.budget)


def records_needed(error: float, setting: BoundSetting) -> ErrorBound:
    """Return the bound at the smallest n (records per agent) found for which it is ≤ `error`.

    A bisection over whole n that keeps, and returns, the end that is enough.
    """
    checks.positive("error", error)
    _require_rounds(error, setting)
    low, high = 0, 1
    while (enough := _at_most(high, error, setting)) is None:
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            raise InfeasibleError(
                f"Not even {MOST_RECORDS:.0e} records per agent bring the bound below {error:g}; "
                "choose a larger error, another η or regularisation, or leave them open."
            )
    best = enough
    while high - low > 1:
        middle = (low + high) // 2
        enough = _at_most(middle, error, setting)
        low, high, best = (middle, high, best) if enough is None else (low, middle, enough)
    return best


def default_rounds(error: float, setting: BoundSetting) -> int:
    """Return T at which convergence alone takes a tenth of the error: floor(T)/error = 0.1."""
    wanted = math.ceil(least_error(replace(setting, rounds=1)) / (ROUNDS_SHARE * error))
    return min(max(wanted, 1), MAX_ROUNDS)


def _search(n: int, setting: BoundSetting) -> Choice:
    """Minimise the bound over what is open among (Λ, η, φ), with the noise estimated."""
    given, start = _given(setting), _start(n, setting)
    free = [k for k, value in enumerate(given) if value is None]

    def choice(point: Array) -> Choice:
        values = start.copy()
        values[free] = point
        found = (math.exp(values[0]), math.exp(values[1]), float(expit(values[2])))
        return Choice(*(f if g is None else g for f, g in zip(found, given, strict=True)))

    def cost(point: Array) -> float:
        at = choice(point)
        return parts_of(n, setting, at, _estimated_scales(n, setting, at)).total

    return choice(_minimum(cost, start[free]))


def _given(setting: BoundSetting) -> list[float | None]:
    """Return Λ, η and φ where they are given, and None where they are open."""
    weight = None if setting.regularisation is None else setting.regularisation / setting.agents
    return [weight, *((0.0, 0.0) if setting.rounds is None else (setting.eta, None))]


def _start(n: int, setting: BoundSetting) -> Array:
    """Return (log Λ, log η, logit φ) that balance the largest parts."""
    G, R, M = setting.loss.lipschitz, setting.norm, n * setting.agents
    weight = 2.0 * G * math.sqrt(chi_square_tail((1.0 - setting.confidence) / 2.0) / M) / R
    return np.array([math.log(weight), math.log(_start_eta(n, setting)), -3.0])


def _start_eta(n: int, setting: BoundSetting) -> float:
    G, R, T = setting.loss.lipschitz, setting.norm, setting.rounds or 1
    dual = G * G / (2.0 * setting.connectivity)
    if setting.budget is not None:
        m = whole_ratio(setting.budget)
        variance = T * (2.0 * G / (n * m)) ** 2
        dual += T * setting.features * variance / (2.0 * setting.mean_degree)
    return math.sqrt(dual / setting.mean_degree) / R


def _minimum(cost: Callable[[Array], float], start: Array) -> Array:
    if not len(start):
        return start
    simplex = np.vstack([start, start + 0.5 * np.eye(len(start))])
    options: Any = {"xatol": 1e-5, "fatol": 1e-10, "maxiter": 400, "initial_simplex": simplex}
    found: Any = minimize(cost, start, method="Nelder-Mead", options=options)
    return np.asarray(found.x)


def _estimated_scales(n: int, setting: BoundSetting, choice: Choice) -> Scales:
    """Guess σ₁ and σ₂ by degree: m² = T·(s/σ)² + r·Tκ², to search with."""
    if setting.budget is None or setting.rounds is None:
        return dict.fromkeys(setting.degrees, QUIET)
    m, T = whole_ratio(setting.budget), setting.rounds

    def scales(step: StepConstants) -> tuple[float, float]:
        left = m * m - step.records * step.square * T * step.kappa**2
        ratio = math.sqrt(max(left, 1e-6 * m * m) / T)
        return step.sensitivity / ratio, step.spread / (ratio * math.sqrt(setting.share))

    return {k: scales(_step(n, setting, choice.mu(k))) for k in setting.degrees}


@lru_cache(maxsize=256)
def whole_ratio(budget: Budget) -> float:
    """Return the Δ/σ of a Gaussian mechanism that spends the whole budget."""
    return gdp_ratio(budget.epsilon, budget.delta)


def _step(n: int, setting: BoundSetting, mu: float) -> StepConstants:
    return perturbed_step(
        lipschitz=setting.loss.lipschitz,
        smoothness=setting.loss.smoothness,
        n=n,
        d=setting.features,
        mu=mu,
        beta=setting.beta,
        adjacency=setting.adjacency,
    )


def _feasible(n: int, setting: BoundSetting, choice: Choice, budget: Budget) -> ErrorBound:
    """Calibrate exactly; an η that was chosen and cannot reach the budget is raised."""
    for _ in range(40):
        try:
            return _bound(n, setting, choice, _calibrated_scales(n, setting, choice, budget))
        except InfeasibleError:
            if setting.eta is not None:
                raise
            choice = replace(choice, eta=2.0 * choice.eta)
    raise InfeasibleError(
        f"No η reaches ε = {budget.epsilon:g} at δ = {budget.delta:g} with {n} records per agent; "
        "choose fewer rounds or a larger budget."
    )


def _calibrated_scales(n: int, setting: BoundSetting, choice: Choice, budget: Budget) -> Scales:
    T, mu = setting.rounds or 1, {k: choice.mu(k) for k in setting.degrees}
    found = {k: calibrate(budget, _step(n, setting, mu[k]), T, setting.share) for k in mu}
    return {k: (noise.sigma1, noise.sigma2) for k, noise in found.items()}


def _bound(n: int, setting: BoundSetting, choice: Choice, scales: Scales) -> ErrorBound:
    return ErrorBound(
        n=n,
        parts=parts_of(n, setting, choice, scales),
        regularisation=choice.weight * setting.agents,
        eta=choice.eta,
        rounds=setting.rounds,
        sigma1=max(sigma1 for sigma1, _ in scales.values()),
        sigma2=max(sigma2 for _, sigma2 in scales.values()),
    )


def _at_most(n: int, error: float, setting: BoundSetting) -> ErrorBound | None:
    """Return the bound at n if it is at most `error`."""
    try:
        bound = error_bound(n, setting)
    except InfeasibleError:
        return None
    return bound if bound.total <= error else None


def _require_rounds(error: float, setting: BoundSetting) -> None:
    """Refuse a T that leaves more than the error whatever the number of records."""
    least = least_error(setting)
    if error <= least:
        raise InputError(
            f"Expected an error > {least:.3g}, which {setting.rounds} rounds leave with any number "
            f"of records, got {error:g}; give more rounds or leave them and η open."
        )


@dataclass(frozen=True)
class RecordsNeeded:
    """Records per agent for one error: pooled, in T rounds without noise, and at each ε."""

    error: float
    setting: BoundSetting
    delta: float
    pooled: ErrorBound
    quiet: ErrorBound
    private: dict[float, ErrorBound]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        setting = self.setting
        return {
            "worst_case_bound": True,
            "error": self.error,
            "loss": setting.loss.name,
            "norm": setting.norm,
            "confidence": setting.confidence,
            "features": setting.features,
            "agents": setting.agents,
            "graph": setting.graph.name,
            "delta": self.delta,
            "pooled": self.pooled.to_dict(),
            "without_noise": self.quiet.to_dict(),
            "private": [
                {"epsilon": e, **bound.to_dict(), "records_for_the_noise": bound.n - self.quiet.n}
                for e, bound in self.private.items()
            ],
        }


def answer(
    error: float, setting: BoundSetting, epsilons: Iterable[float], delta: float
) -> RecordsNeeded:
    """Return the records needed pooled, in the setting's rounds without noise, and at each ε.

    Parameters
    ----------
    error : float
        The excess expected loss that is accepted.
    setting : BoundSetting
        What is public about the run; rounds that it leaves open are `default_rounds`.
    epsilons : iterable of float
        The budgets to answer for.
    delta : float
        Their δ.

    Returns
    -------
    RecordsNeeded
        Worst-case bounds, with the settings that they hold for.
    """
    checks.positive("error", error)
    if setting.rounds is None:
        setting = replace(setting, rounds=default_rounds(error, setting))
    budgets = {epsilon: Budget(epsilon, delta) for epsilon in sorted(set(epsilons))}
    return RecordsNeeded(
        error=error,
        setting=setting,
        delta=delta,
        pooled=records_needed(error, replace(setting, rounds=None, eta=None)),
        quiet=records_needed(error, setting),
        private={e: records_needed(error, replace(setting, budget=b)) for e, b in budgets.items()},
    )
