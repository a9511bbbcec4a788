"""PP-ADMM: each agent releases an approximate minimiser of a randomly perturbed subproblem.

    θ̂ = argmin F(θ) + b₁ᵀθ to gradient norm ≤ β, b₁ ~ N(0, σ₁²I);   release θ̂ + N(0, σ₂²I).

Guarantee (`proven`): after T rounds the agent's records are protected with the (ε, δ) of its
budget under the chosen adjacency; docs/privacy.md has the proof. `paper` reproduces the noise
of Ding et al. (2020), whose analysis has gaps: what it claims is not a guarantee.
"""

import math
from dataclasses import replace

import numpy as np

from ppadmm.accounting.calibration import (
    NOTHING,
    Budget,
    Noise,
    StepConstants,
    calibrate,
    largest_kappa,
    with_noise,
)
from ppadmm.accounting.events import Tally
from ppadmm.accounting.sensitivity import perturbed_step
from ppadmm.algorithms.admm import ADMM, bind
from ppadmm.algorithms.base import Recipe, Site
from ppadmm.algorithms.defaults import gaussian_plan
from ppadmm.algorithms.settings import Settings
from ppadmm.arrays import Array
from ppadmm.errors import InfeasibleError, InputError
from ppadmm.mechanisms import FreeMinimiser, Mechanism, PerturbedMinimiser
from ppadmm.mechanisms.limits import Reach, public_radius


def build_pp(site: Site, settings: Settings) -> ADMM:
    """Return PP-ADMM at one site, calibrated for every replicate's budget."""
    if settings.calibration == "paper" and site.risk.n:
        settings = paper_settings(site, settings)
    return bind(ADMM, "pp", site, settings, pp_mechanism(site, settings))


def pp_mechanism(site: Site, settings: Settings) -> Mechanism:
    """Return T perturbed releases, or free ones for an agent without records."""
    if not site.risk.n:
        return FreeMinimiser(settings.replicates, radius(site, settings, steepest(site, settings)))
    return perturbed_minimiser(site, settings, convexity(site, settings), settings.rounds)


def radius(site: Site, settings: Settings, most: Array) -> Array:
    """Return R (R,) where every agent's wᵢμᵢ ≤ `most` (R,): all agents find the same.

    It is that of the heaviest agent: rounding at norm R takes the least of β/wᵢ at any other. There
    is none in the paper's calibration, which is not private anyway.
    """
    if settings.calibration == "paper":
        return np.full(settings.replicates, np.inf)
    loss, d, heaviest = site.risk.loss, site.risk.d, site.heaviest
    return public_radius(loss, d, settings.beta / heaviest, most / heaviest)


def steepest(site: Site, settings: Settings) -> Array:
    """Return the wμ (R,) of an agent whose neighbours are all the others."""
    return settings.ridge(site.agents) + 2.0 * settings.etas * max(site.agents - 1, 1)


def convexity(site: Site, settings: Settings) -> Array:
    """μ = (λ̂/N + 2η|B|)/wᵢ, (R,): of the subproblem in units of the mean loss."""
    return (settings.ridge(site.agents) + 2.0 * settings.etas * site.degree) / site.weight


def residual(site: Site, settings: Settings) -> float:
    """β/wᵢ, in the same units: two minimisers are then 2β/(λ̂/N + 2η|B|) apart, whatever wᵢ is."""
    return settings.beta / site.weight


def perturbed_minimiser(
    site: Site,
    settings: Settings,
    mu: Array,
    releases: int,
    besides: tuple[Tally, ...] | None = None,
    most: Array | None = None,
) -> PerturbedMinimiser:
    """Return the mechanism whose `releases`, with what is released `besides`, cost the budget.

    `most` (R,) is the largest wμ of any agent [that of one whose neighbours are all the others].
    """
    if settings.calibration == "paper":
        noises = [_paper_noise(site, settings, k, float(mu[k]), releases) for k in range(len(mu))]
    else:
        extra = besides or (NOTHING,) * len(mu)
        noises = [
            _proven_noise(site, settings, k, float(m), releases, extra[k]) for k, m in enumerate(mu)
        ]
    return PerturbedMinimiser(tuple(noises), reach(site, settings, mu, most))


def reach(site: Site, settings: Settings, mu: Array, most: Array | None = None) -> Reach:
    """Return how far an agent's numbers may go."""
    risk, most = site.risk, steepest(site, settings) if most is None else most
    beta, most_allowed = residual(site, settings), radius(site, settings, most)
    return Reach(risk.loss, risk.d, risk.n, mu, beta, most_allowed, site.weight)


def perturbed(site: Site, settings: Settings, mu: float) -> StepConstants:
    """Return the public constants of one perturbed step."""
    loss = site.risk.loss
    return perturbed_step(
        lipschitz=loss.lipschitz,
        smoothness=loss.smoothness,
        n=site.risk.n,
        d=site.risk.d,
        mu=mu,
        beta=residual(site, settings),
        adjacency=settings.adjacency,
        span=loss.span,
        trace=loss.trace,
        square=loss.square,
    )


def _proven_noise(
    site: Site, settings: Settings, k: int, mu: float, releases: int, besides: Tally
) -> Noise:
    budget, step = settings.budgets[k], perturbed(site, settings, mu)
    try:
        return calibrate(budget, step, releases, settings.share, besides)
    except InfeasibleError:
        kappa = largest_kappa(budget, step, releases, besides)
        raise InfeasibleError(_infeasible(site, settings, k, mu, kappa, releases)) from None


def _infeasible(
    site: Site, settings: Settings, k: int, mu: float, kappa: float, releases: int
) -> str:
    """Say what would do; `kappa` is the largest at which some noise is enough."""
    budget = settings.budgets[k]
    needed = site.risk.loss.smoothness / (site.risk.n * kappa) if kappa else math.inf
    return (
        f"Agent {site.agent} ({site.risk.n} records, {site.degree} neighbours) cannot reach "
        f"ε = {budget.epsilon:g} at δ = {budget.delta:g} in {releases} releases with "
        f"η = {settings.eta[k]:g}, whatever the noise; "
        f"{_way_out(site, settings, k, mu, needed)}, fewer rounds or a larger ε."
    )


def _way_out(site: Site, settings: Settings, k: int, mu: float, needed: float) -> str:
    """Name what raises μ to what is needed: η where it counts, else the regularisation."""
    if not mu < needed < math.inf:
        return "choose a larger δ"
    ridge, least = float(settings.ridge(site.agents)[k]), needed * site.weight
    if mu * site.weight > ridge:
        return f"choose η > {_rounded_up((least - ridge) / (2.0 * site.degree))}"
    return f"choose a regularisation > {_rounded_up(least * site.agents)}"


def _rounded_up(value: float) -> str:
    """Spell three digits of a number that is large enough, given one that may just not be."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{(math.floor(value / unit) + 1) * unit:.3g}"


def paper_epsilon1(
    budget: Budget, settings: Settings, releases: int | None = None
) -> tuple[float, float]:
    """Return the paper's (ε₁, ρ₂) of one release: ρ_total = ε²/(4 ln 1/δ), split evenly."""
    rho = budget.epsilon**2 / (4.0 * math.log(1.0 / budget.delta)) / (releases or settings.rounds)
    rho1 = (1.0 - settings.share) * rho
    return rho1 + 2.0 * math.sqrt(rho1 * math.log(1.0 / budget.delta)), settings.share * rho


def paper_settings(site: Site, settings: Settings, releases: int | None = None) -> Settings:
    """Return the settings with the paper's λ̂ = 2.8·N·c₁/((ε₁−ε₃)n), ε₃ = 0.99 ε₁."""
    if site.risk.loss.outputs > 1:
        raise InputError(
            f"The paper's calibration is for two classes, got {site.risk.loss.outputs}; use the "
            "proven one."
        )
    c1, n = site.risk.loss.smoothness, site.risk.n
    epsilons = [paper_epsilon1(budget, settings, releases)[0] for budget in settings.budgets]
    weights = tuple(2.8 * site.agents * c1 / (0.01 * epsilon1 * n) for epsilon1 in epsilons)
    return replace(settings, regularisation=weights)


def _paper_noise(site: Site, settings: Settings, k: int, mu: float, releases: int) -> Noise:
    """σ₁ = 2√(2 ln 1.25/δ)/(nε₃) and σ₂ = β/(√(2ρ₂)μ), with what they really cost."""
    budget = settings.budgets[k]
    epsilon1, rho2 = paper_epsilon1(budget, settings, releases)
    factor = 2.0 * math.sqrt(2.0 * math.log(1.25 / budget.delta))
    sigma1 = factor / (site.risk.n * 0.99 * epsilon1)
    sigma2 = settings.beta / (math.sqrt(2.0 * rho2) * mu)
    return with_noise(perturbed(site, settings, mu), sigma1, sigma2)


RECIPE = Recipe(
    name="pp",
    title="PP-ADMM",
    summary="PP-ADMM: perturbed subproblems, noise on their solutions",
    build=build_pp,
    defaults=gaussian_plan,
    always_charged=True,
    alone="centralised",
    descends="implicit",
)
