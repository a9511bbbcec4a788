"""PP-ADMM: each agent releases an approximate minimiser of a randomly perturbed subproblem.

    θ̂ = argmin F(θ) + b₁ᵀθ to gradient norm ≤ β, b₁ ~ N(0, σ₁²I);   release θ̂ + N(0, σ₂²I).

Guarantee (`proven`): after T rounds the agent's records are protected with the (ε, δ) of its
budget under the chosen adjacency; docs/privacy.md has the proof. `paper` reproduces the noise
of Ding et al. (2020), whose analysis has gaps: what it claims is not a guarantee.
"""

import math
from dataclasses import replace

from ppadmm.algorithms.admm import ADMM
from ppadmm.algorithms.base import Site
from ppadmm.algorithms.settings import Settings
from ppadmm.errors import InfeasibleError
from ppadmm.mechanisms import PerturbedMinimiser
from ppadmm.privacy.calibration import (
    Budget,
    Noise,
    Step,
    calibrate,
    largest_kappa,
    with_noise,
)
from ppadmm.privacy.sensitivity import perturbed_step
from ppadmm.solvers import solver_named


def build_pp(site: Site, settings: Settings) -> ADMM:
    """Return PP-ADMM at one site, calibrated for every replicate's budget."""
    if settings.calibration == "paper":
        settings = replace(settings, regularisation=_paper_regularisation(site, settings))
    weight = settings.weights(site.agents)
    mu = weight + 2.0 * settings.etas * site.degree
    noise = _paper_noise if settings.calibration == "paper" else _proven_noise
    noises = tuple(noise(site, settings, k, float(mu[k])) for k in range(settings.replicates))
    return ADMM(
        site=site,
        name="pp",
        rounds=settings.rounds,
        eta=settings.etas,
        weight=weight,
        solver=solver_named(settings.solver, site.risk.d),
        mechanism=PerturbedMinimiser(noises, settings.beta),
    )


def _step(site: Site, settings: Settings, mu: float) -> Step:
    loss = site.risk.loss
    return perturbed_step(
        lipschitz=loss.lipschitz,
        smoothness=loss.smoothness,
        n=site.risk.n,
        d=site.risk.d,
        mu=mu,
        beta=settings.beta,
        adjacency=settings.adjacency,
    )


def _proven_noise(site: Site, settings: Settings, k: int, mu: float) -> Noise:
    budget, step = settings.budgets[k], _step(site, settings, mu)
    try:
        return calibrate(budget, step, settings.rounds, settings.share)
    except InfeasibleError:
        raise InfeasibleError(_infeasible(site, settings, k, step.rank)) from None


def _infeasible(site: Site, settings: Settings, k: int, rank: int) -> str:
    budget = settings.budgets[k]
    kappa = largest_kappa(budget, rank, settings.rounds)
    needed = site.risk.loss.smoothness / (site.risk.n * kappa) if kappa else math.inf
    eta = max(0.0, needed - settings.weights(site.agents)[k]) / (2.0 * max(site.degree, 1))
    helps = eta > settings.eta[k] and math.isfinite(eta)
    way_out = f"choose η > {eta:.3g}, " if helps else "choose a larger δ, "
    return (
        f"Agent {site.agent} ({site.risk.n} records, {site.degree} neighbours) cannot reach "
        f"ε = {budget.epsilon:g} at δ = {budget.delta:g} in {settings.rounds} rounds with "
        f"η = {settings.eta[k]:g}, whatever the noise; {way_out}fewer rounds or a larger ε."
    )


def paper_epsilon1(budget: Budget, settings: Settings) -> tuple[float, float]:
    """Return the paper's per-round (ε₁, ρ₂): ρ_total = ε²/(4 ln 1/δ), split over T rounds."""
    rho = budget.epsilon**2 / (4.0 * math.log(1.0 / budget.delta)) / settings.rounds
    rho1 = (1.0 - settings.share) * rho
    return rho1 + 2.0 * math.sqrt(rho1 * math.log(1.0 / budget.delta)), settings.share * rho


def _paper_regularisation(site: Site, settings: Settings) -> tuple[float, ...]:
    """λ̂ = 2.8·N·c₁/((ε₁−ε₃)n) with ε₃ = 0.99 ε₁."""
    c1, n = site.risk.loss.smoothness, site.risk.n
    epsilons = [paper_epsilon1(budget, settings)[0] for budget in settings.budgets]
    return tuple(2.8 * site.agents * c1 / (0.01 * epsilon1 * n) for epsilon1 in epsilons)


def _paper_noise(site: Site, settings: Settings, k: int, mu: float) -> Noise:
    """σ₁ = 2√(2 ln 1.25/δ)/(nε₃) and σ₂ = β/(√(2ρ₂)μ), with what they really cost."""
    budget = settings.budgets[k]
    epsilon1, rho2 = paper_epsilon1(budget, settings)
    factor = 2.0 * math.sqrt(2.0 * math.log(1.25 / budget.delta))
    sigma1 = factor / (site.risk.n * 0.99 * epsilon1)
    sigma2 = settings.beta / (math.sqrt(2.0 * rho2) * mu)
    return with_noise(_step(site, settings, mu), sigma1, sigma2)


def smallest_eta(budget: Budget, n: int, degree: int, smoothness: float, rounds: int) -> float:
    """Return the smallest η at which some noise reaches the budget with λ̂ = 0."""
    return smoothness / (n * largest_kappa(budget, 2, rounds) * 2.0 * degree)


__all__ = ["build_pp", "paper_epsilon1", "smallest_eta"]
