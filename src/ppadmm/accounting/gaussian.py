"""The privacy profile of the Gaussian mechanism (Balle & Wang 2018; Dong, Roth & Su 2022)."""

import math
from functools import lru_cache

from scipy.special import log_ndtr

from ppadmm.accounting.roots import root


def gdp_delta(epsilon: float, m: float) -> float:
    """δ(ε) of a Gaussian mechanism with Δ/σ = m: Φ(m/2 − ε/m) − eᵉ Φ(−m/2 − ε/m)."""
    if m == 0.0:
        return max(0.0, -math.expm1(epsilon))
    above = float(log_ndtr(m / 2 - epsilon / m))
    below = epsilon + float(log_ndtr(-m / 2 - epsilon / m))
    return math.exp(above) * -math.expm1(min(below - above, 0.0))


def gdp_epsilon(delta: float, m: float) -> float:
    """Return the smallest ε ≥ 0 at which a Gaussian mechanism with Δ/σ = m has δ(ε) ≤ δ."""
    if gdp_delta(0.0, m) <= delta:
        return 0.0
    high = m * (m / 2 + math.sqrt(-2.0 * math.log(delta))) + 1e-12
    found = root(lambda e: gdp_delta(e, m) - delta, 0.0, high, xtol=1e-15, rtol=1e-13)
    epsilon, step = found * (1.0 + 1e-12) + 1e-15, 1e-12
    while gdp_delta(epsilon, m) > delta:  # where δ is tiny, rounding moves the root
        epsilon, step = epsilon * (1.0 + step), 2.0 * step
    return epsilon


@lru_cache(maxsize=4096)
def gdp_ratio(epsilon: float, delta: float) -> float:
    """Return the largest m = Δ/σ (to a relative 1e-9) that is (ε, δ)-private."""
    low, high = 1e-12, 1.0
    while gdp_delta(epsilon, high) <= delta:
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gdp_delta(epsilon, middle) <= delta else (low, middle)
    return low
