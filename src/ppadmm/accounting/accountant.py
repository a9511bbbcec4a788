"""From events to (ε, δ): three bounds, each valid for a whole run, the smallest is reported.

Statements and proofs: docs/privacy.md. In short, for T releases of one agent,

- Theorem A (κ < 1, 1 < α < 1 + 1/κ)
      RDP(α) ≤ α·s²/(2σ²) + (r̄/2)·[κ²/(1−κ) + (α−1)κ²/(1−(α−1)κ)],
- Theorem B (any κ, α > 1)
      RDP(α) ≤ J + α·s²/(2σ²) + log(2Φ((α−1)s/σ))/(α−1)     (one margin; else a χ moment),
- Theorem C (the run as one Gaussian mechanism, outside an event of probability d')
      δ(ε) ≤ d' + δ_Gauss(ε − ε_κ; m).

A and B are added up over rounds order by order and converted; C speaks of the run at once.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, gammaln, log_ndtr

from ppadmm import checks
from ppadmm.accounting.events import (
    Approximate,
    Event,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
)
from ppadmm.accounting.gaussian import gdp_delta, gdp_epsilon
from ppadmm.accounting.orders import GRID, SHARES, Curve, conversion, least_epsilon
from ppadmm.accounting.roots import root
from ppadmm.arrays import Array

VERSION = "5"
"""Changes whenever the same events could give another ε (docs/privacy.md, section 7)."""

LARGEST_RATIO = 1e6
"""Beyond this Δ/σ the mechanism is called not private rather than given an ε above 10¹¹."""
SLACK = 1e-3
"""Share of δ set aside for events of kind `Approximate`."""


@dataclass(frozen=True)
class Bound:
    """An (ε, δ) claim and the theorem that gives it."""

    epsilon: float
    delta: float
    theorem: str


def rdp(event: Event, orders: Array) -> Array:
    """Return a bound on the Rényi divergence of one event at each order."""
    match event:
        case Gaussian(ratio):
            return orders * ratio * ratio / 2.0
        case ObjectivePerturbation():
            return np.minimum(theorem_a(event, orders), theorem_b(event, orders))
        case Pure(epsilon_):
            return pure_rdp(epsilon_, orders)
        case Approximate():
            return np.zeros_like(orders)
        case NonPrivate():
            return np.full_like(orders, math.inf)
        case RepeatAndSelect():
            return repeated_rdp(event, orders)


def theorem_a(event: ObjectivePerturbation, orders: Array) -> Array:
    """Theorem A at each order; infinite where it does not apply."""
    kappa, lam = event.kappa, orders - 1.0
    bound = np.full_like(orders, math.inf)
    if kappa >= 1.0:
        return bound
    ok = lam * kappa < 1.0
    bound[ok] = orders[ok] * event.ratio * event.ratio / 2.0 + curvature(event, lam[ok])
    return bound


def curvature(event: ObjectivePerturbation, lam: Any) -> Any:
    """(r̄/2)·[κ²/(1−κ) + λκ²/(1−λκ)] for κ < 1 and λκ < 1, r̄ = `records`·`square`."""
    square = event.kappa * event.kappa
    both = square / (1.0 - event.kappa) + lam * square / (1.0 - lam * event.kappa)
    return event.records * event.square / 2.0 * both


def theorem_b(event: ObjectivePerturbation, orders: Array) -> Array:
    """Theorem B at each order."""
    lam = orders - 1.0
    fold = log_chi_moment(event.span, lam * event.ratio) / lam
    determinant = log_determinant(event.kappa, event.span, event.trace)
    return np.asarray(determinant + orders * event.ratio * event.ratio / 2.0 + fold)


def log_determinant(kappa: float, span: int, trace: float) -> float:
    """J = q·log(1 + ρκ/q), the most that one record can add to log det ∇²F.

    Its q = `span` eigenvalues relative to μ add up to at most ρκ, ρ = `trace`.
    """
    return span * math.log1p(trace * kappa / span)


def log_chi_moment(q: int, t: Array) -> Array:
    """log E exp(t·χ_q) − t²/2 for t ≥ 0; log 2Φ(t) for q = 1.

    E exp(tχ_q) = c·e^{t²/2}·I_{q−1}(t) with I_k = ∫₀^∞ rᵏφ(r−t)dr, where
    I_k = t·I_{k−1} + (k−1)·I_{k−2}: all terms are positive, nothing cancels.
    """
    with np.errstate(divide="ignore"):
        log_t = np.log(t)
    here: Array = log_ndtr(t)
    if q > 1:
        peak = -t * t / 2.0 - math.log(2.0 * math.pi) / 2.0
        here, last = np.logaddexp(log_t + here, peak), here
        for k in range(2, q):
            here, last = np.logaddexp(log_t + here, math.log(k - 1.0) + last), here
    scale = (1.0 - q / 2.0) * math.log(2.0) - gammaln(q / 2.0) + math.log(2.0 * math.pi) / 2.0
    return np.asarray(scale + here)


def pure_rdp(epsilon_: float, orders: Array) -> Array:
    """Rényi divergence of randomised response, which dominates every ε-private mechanism.

    log[(sinh αε − sinh (α−1)ε)/sinh ε]/(α−1) = log[(pᵅq^{1−α} + qᵅp^{1−α})]/(α−1), p = 1−q =
    eᵉ/(1+eᵉ) (Bun & Steinke 2016); never above ε or αε²/2.
    """
    if epsilon_ == 0.0:
        return np.zeros_like(orders)
    log_p, log_q = -math.log1p(math.exp(-epsilon_)), -np.logaddexp(0.0, epsilon_)
    forth = orders * log_p + (1.0 - orders) * log_q
    back = orders * log_q + (1.0 - orders) * log_p
    rounded_up = (np.logaddexp(forth, back) + 1e-15) / (orders - 1.0)
    simple = np.minimum(epsilon_, orders * epsilon_ * epsilon_ / 2.0)
    return np.asarray(np.minimum(rounded_up, simple))


def repeated_rdp(event: RepeatAndSelect, orders: Array) -> Array:
    """Bound the best of K runs, K truncated negative binomial with parameters η and γ.

    RDP'(α) ≤ RDP(α) + log E[K]/(α−1) + (1+η)·min over α̂ of [(1−1/α̂)·RDP(α̂) − log γ/α̂]
    (Papernot & Steinke 2022, Theorem 2), with the largest RDP of the runs at every order.
    """
    extra = math.log(event.mean) / (orders - 1.0)
    return np.asarray(dearest_rdp(event, orders) + extra + _of_second_order(event))


def dearest_rdp(event: RepeatAndSelect, orders: Array) -> Array:
    """Return the largest divergence of its runs at each order."""
    return np.asarray(np.max([total_rdp(run, orders) for run in event.runs], axis=0))


@lru_cache(maxsize=256)
def _of_second_order(event: RepeatAndSelect) -> float:
    grid = 1.0 + np.exp(GRID)
    stop = stopping_rate(event.mean, event.shape)
    each = (1.0 - 1.0 / grid) * dearest_rdp(event, grid) - math.log(stop) / grid
    return (1.0 + event.shape) * float(each.min())


def stopping_rate(mean: float, shape: float) -> float:
    """Return γ with E[K] = mean: η(1−γ)/(γ(1−γ^η)), or (1/γ−1)/log(1/γ) for η = 0."""
    if mean == 1.0:
        return 1.0
    if shape == 1.0:
        return 1.0 / mean

    def excess(log_rate: float) -> float:
        rate = math.exp(log_rate)
        each = -log_rate if shape == 0.0 else -math.expm1(shape * log_rate) / shape
        return math.log((1.0 - rate) / (rate * each)) - math.log(mean)

    return math.exp(root(excess, -700.0, -1e-12))


def total_rdp(tally: Tally, orders: Array) -> Array:
    """Add the Rényi divergences of every event, order by order."""
    total = np.zeros_like(orders)
    for event, times in tally.counts:
        total = total + times * rdp(event, orders)
    return total


def rdp_to_epsilon(order: Array, divergence: Array, delta: float) -> Array:
    """ε = RDP(α) + log(1 − 1/α) − (log δ + log α)/(α − 1) (Canonne, Kamath & Steinke 2020)."""
    return np.maximum(divergence + conversion(order - 1.0, delta), 0.0)


def rdp_to_log_delta(order: Array, divergence: Array, epsilon: float) -> Array:
    """log δ = (α−1)(RDP(α) − ε + log(1 − 1/α)) − log α, the same conversion solved for δ."""
    lam = order - 1.0
    return np.asarray(lam * (divergence - epsilon + np.log(lam / order)) - np.log(order))


@lru_cache(maxsize=4096)
def epsilon(tally: Tally, delta: float) -> Bound:
    """Return the smallest ε that the theorems give for `tally` at `delta`.

    With a sampler within total variation τ of the proof's, (ε, δ) for the proof's sampler is
    (ε, δ + (1+eᵉ)τ) for the real one; a share of δ is set aside for it.

    Parameters
    ----------
    tally : Tally
        Events with how often each happened.
    delta : float
        Between 0 and 1.

    Returns
    -------
    Bound
        ε (infinite if nothing is proven), δ and the theorem.

    Examples
    --------
    >>> round(epsilon(Tally(((Gaussian(0.1), 4),)), 1e-6).epsilon, 2)
    0.83
    """
    delta = checks.probability("delta", delta)
    apart = distance(tally)
    inner = delta * (1.0 - SLACK) if apart else delta
    bound = _by_rdp(tally, inner)
    bound = min(bound, _by_theorem_c(tally, inner, bound.epsilon), key=lambda b: b.epsilon)
    bound = min(bound, _by_pure_composition(tally, inner), key=lambda b: b.epsilon)
    if bound.epsilon > ceiling(apart, delta):
        return Bound(math.inf, delta, "none: the sampler's grid is too coarse for this δ")
    return Bound(bound.epsilon, delta, bound.theorem)


def ceiling(apart: float, delta: float) -> float:
    """Return the largest ε that can be stated at δ: that with (1+eᵉ)·apart = SLACK·δ.

    Just below it: a budget may be spent up to here, and who works out ε again rounds otherwise.
    """
    share = SLACK * delta * (1.0 - 1e-6)
    return math.log(max(share / apart - 1.0, 1e-300)) if apart else math.inf


def distance(tally: Tally) -> float:
    """Add up the samplers' distances; K runs are within E[K] times that of one."""
    total = 0.0
    for event, times in tally.counts:
        if isinstance(event, Approximate):
            total += times * event.distance
        elif isinstance(event, RepeatAndSelect):
            total += times * event.mean * max(distance(run) for run in event.runs)
    return total


def delta(tally: Tally, epsilon_: float) -> float:
    """Return the smallest δ at which `epsilon(tally, δ)` is at most `epsilon_`; 1 if none is."""
    target = checks.non_negative("epsilon", epsilon_)
    low, high, cap = math.log(1e-300), math.log1p(-1e-12), 2.0 * target + 1.0

    def excess(log_delta: float) -> float:
        return min(epsilon(tally, math.exp(log_delta)).epsilon, cap) - target

    if excess(high) > 0:
        return 1.0
    if excess(low) <= 0:
        return math.exp(low)
    found = root(excess, low, high, xtol=1e-10)
    return math.exp(found if excess(found) <= 0 else found + 1e-9)


def _by_rdp(tally: Tally, delta: float) -> Bound:
    """Minimise over orders. Any order is valid."""
    drawn = [(e, k) for e, k in tally.counts if isinstance(e, RepeatAndSelect)]
    fading = math.fsum(k * math.log(e.mean) for e, k in drawn)
    curve = Curve(partial(total_rdp, tally), delta, fading)
    best = least_epsilon(curve, partial(_crossings, tally))
    perturbed = any(isinstance(event, ObjectivePerturbation) for event, _ in tally.counts)
    return Bound(best, delta, "A, B" if perturbed else "RDP")


def _crossings(tally: Tally, low: float, high: float) -> list[float]:
    """Return every x = log(α − 1) from `low` to `high` where B becomes less than A for an event."""
    found = {_crossing(event, low, high) for event in set(_perturbations(tally))}
    return [x for x in found if x is not None and low < x < high]


def _perturbations(tally: Tally) -> Iterator[ObjectivePerturbation]:
    """Return the perturbed minimisers of a tally, and of the runs that something is the best of."""
    for event, _ in tally.counts:
        if isinstance(event, ObjectivePerturbation):
            yield event
        elif isinstance(event, RepeatAndSelect):
            for run in event.runs:
                yield from _perturbations(run)


def _crossing(event: ObjectivePerturbation, low: float, high: float) -> float | None:
    """Return where A goes over to B, if it does: A − B grows (docs/privacy.md, section 7)."""
    if event.kappa >= 1.0 or _is_below_b(event, math.exp(high)):
        return None
    below, above = _prefers_b(event, np.array([low, high]))
    if below or not above:
        return None
    while high - low > 1e-9:
        x = low + (high - low) * SHARES
        k = int(np.argmax(_prefers_b(event, x)))
        if k == 0:  # rounding: A and B are the same there
            break
        low, high = float(x[k - 1]), float(x[k])
    return low


def _is_below_b(event: ObjectivePerturbation, lam: float) -> bool:
    """Say whether A is below B for a reason that is quickly seen: B has J in it."""
    determinant = log_determinant(event.kappa, event.span, event.trace)
    return lam * event.kappa < 1.0 and bool(curvature(event, lam) <= determinant)


def _prefers_b(event: ObjectivePerturbation, x: Array) -> NDArray[np.bool_]:
    orders = 1.0 + np.exp(x)
    return np.asarray(theorem_b(event, orders) < theorem_a(event, orders))


def _by_theorem_c(tally: Tally, delta: float, unless_above: float = math.inf) -> Bound:
    """Theorem C with d' = δ/100; with no objective perturbation it is exact and needs no d'.

    Not worked out to the end where it would be above `unless_above`.
    """
    if any(isinstance(e, NonPrivate | RepeatAndSelect) for e, _ in tally.counts):
        return Bound(math.inf, delta, "C")
    shift, tail = _curvature_shift(tally, delta / 100.0)
    shift += sum(k * e.epsilon for e, k in tally.counts if isinstance(e, Pure))
    m = math.hypot(*(math.sqrt(k) * e.ratio for e, k in _ratios(tally)))
    if m > LARGEST_RATIO or not shift < unless_above:
        return Bound(math.inf, delta, "C")
    if unless_above < math.inf and gdp_delta(unless_above - shift, m) > delta - tail:
        return Bound(math.inf, delta, "C")
    name = "C" if tail else "exact Gaussian"
    return Bound(shift + gdp_epsilon(delta - tail, m), delta, name)


def _by_pure_composition(tally: Tally, delta: float) -> Bound:
    """Compose k equal ε₀-private releases optimally (Kairouz, Oh & Viswanath 2015).

    The worst case is k-fold randomised response: i of k answers favour the other data set with
    probability C(k,i)·e^{(k−i)ε₀}/(1+e^{ε₀})ᵏ, at a privacy loss of (k−2i)ε₀.
    """
    pure = [(e.epsilon, k) for e, k in tally.counts if isinstance(e, Pure)]
    others = [e for e, _ in tally.counts if not isinstance(e, Pure | Approximate)]
    if others or not pure:
        return Bound(math.inf, delta, "optimal composition")
    each, times = max(e for e, _ in pure), sum(k for _, k in pure)
    highest = each * times
    if _randomised_response_delta(each, times, 0.0) <= delta:
        return Bound(0.0, delta, "optimal composition")
    if not highest < 1e6:
        return Bound(math.inf, delta, "optimal composition")
    found = root(
        lambda e: _randomised_response_delta(each, times, e) - delta,
        0.0,
        highest,
        xtol=1e-14,
        rtol=1e-13,
    )
    return Bound(min(found * (1.0 + 1e-12) + 1e-13, highest), delta, "optimal composition")


def _randomised_response_delta(each: float, times: int, epsilon_: float) -> float:
    """δ(ε) of k-fold ε₀-randomised response."""
    i = np.arange(times + 1)
    loss = (times - 2.0 * i) * each
    above = loss > epsilon_
    log_count = gammaln(times + 1) - gammaln(i + 1) - gammaln(times - i + 1)
    log_weight = log_count + (times - i) * each - times * np.logaddexp(0.0, each)
    gain = -np.expm1(np.minimum(epsilon_ - loss[above], 0.0))
    return float((np.exp(log_weight[above]) * gain).sum())


def _curvature_shift(tally: Tally, tail: float) -> tuple[float, float]:
    """Return ε_κ of Theorem C and the probability d' outside of which it holds."""
    perturbed = [(e, k) for e, k in tally.counts if isinstance(e, ObjectivePerturbation)]
    if all(e.kappa == 0.0 for e, _ in perturbed):
        return 0.0, 0.0
    kappa = max(e.kappa for e, _ in perturbed)
    q = float(chdtri(sum(e.rank * k for e, k in perturbed), tail))
    determinant = sum(k * log_determinant(e.kappa, e.span, e.trace) for e, k in perturbed)
    cross = math.hypot(*(math.sqrt(k) * e.ratio * e.kappa for e, k in perturbed))
    return determinant + (kappa + kappa * kappa / 2) * q + cross * math.sqrt(q), tail


def _ratios(tally: Tally) -> list[tuple[Gaussian | ObjectivePerturbation, int]]:
    return [(e, k) for e, k in tally.counts if isinstance(e, Gaussian | ObjectivePerturbation)]
