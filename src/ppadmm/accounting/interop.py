"""A run's events in the language of Google's `dp_accounting`."""

import math
from typing import Any

from ppadmm.accounting.accountant import log_determinant
from ppadmm.accounting.events import (
    Approximate,
    Event,
    Gaussian,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
)


def to_dp_event(tally: Tally) -> Any:
    """Return a `dp_accounting.DpEvent` that costs at least as much as `tally`.

    A Gaussian release is said exactly, in units of its sensitivity under the run's adjacency.
    `dp_accounting` has no event for objective perturbation; Theorem B with
    log E exp(tχ_q) ≤ t·E χ_q + t²/2 (χ_q is 1-Lipschitz in Gaussian noise) gives one that it can
    say,

        RDP(α) ≤ ξ + ρα,   ξ = J + E χ_q·s/σ,   ρ = s²/(2σ²),

    which is valid but loose: ε from `dp_accounting` is then an upper bound of ours. A pure ε is
    said as ε²/2-zCDP (its event for randomised response loses count of repetitions). A sampler's
    total variation cannot be said and becomes `UnsupportedDpEvent`; pass a tally without it
    (`without_sampler`) and add (1+eᵉ)τ to δ by hand.
    """
    from dp_accounting import dp_event

    parts = [dp_event.SelfComposedDpEvent(_convert(e), k) for e, k in tally.counts]
    return dp_event.ComposedDpEvent(parts)


def without_sampler(tally: Tally) -> Tally:
    """Return the tally of the ideal samplers."""
    return Tally(tuple((e, k) for e, k in tally.counts if not isinstance(e, Approximate)))


def _convert(event: Event) -> Any:
    from dp_accounting import dp_event

    match event:
        case Gaussian(ratio):
            return dp_event.GaussianDpEvent(1.0 / ratio) if ratio else dp_event.NoOpDpEvent()
        case ObjectivePerturbation(ratio, kappa, _, span, trace):
            mean = math.sqrt(2.0) * math.exp(math.lgamma((span + 1) / 2) - math.lgamma(span / 2))
            xi = log_determinant(kappa, span, trace) + mean * ratio
            return dp_event.ZCDpEvent(rho=ratio**2 / 2.0, xi=xi)
        case Pure(epsilon):
            return dp_event.ZCDpEvent(rho=epsilon**2 / 2.0)
        case RepeatAndSelect((run,), mean, shape):
            return dp_event.RepeatAndSelectDpEvent(to_dp_event(run), mean, shape)
        case RepeatAndSelect():
            return dp_event.UnsupportedDpEvent()
        case Approximate():
            return dp_event.UnsupportedDpEvent()
        case _:
            return dp_event.NonPrivateDpEvent()
