"""The audit passes on the build as it is and fails on each build that is broken on purpose."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting.calibration import calibrate
from ppadmm.accounting.sensitivity import perturbed_step
from ppadmm.algorithms import ALGORITHMS, gradient, ipp, pp
from ppadmm.algorithms.admm import ADMM
from ppadmm.auditing.audit import audit
from ppadmm.auditing.game import BENT, EDGE, FAR, NEAR, REST, RIM, SIDES, STAR, STIFF, THREE
from ppadmm.auditing.games import GAMES, game_named
from ppadmm.errors import BudgetError
from ppadmm.mechanisms import ChargedNoise, GammaMinimiser, PerturbedMinimiser, minimiser
from ppadmm.mechanisms.threshold_tests import GaussianTest, SparseVector
from ppadmm.noise import FINENESS, BatchNoise, Key
from ppadmm.solvers import Guarded

RUNS = 10_000
WORLDS = (FAR, NEAR, STIFF, STAR, BENT, THREE, REST, RIM, EDGE)


def quieter_linear_term(patch):
    """σ₁/√2 at the price of σ₁."""

    def broken(*arguments):
        noise = calibrate(*arguments)
        return replace(noise, sigma1=noise.sigma1 / math.sqrt(2.0))

    patch.setattr(pp, "calibrate", broken)


def half_the_sensitivity(patch):
    """s = 1/n in place of 2/n."""

    def broken(**constants):
        step = perturbed_step(**constants)
        return replace(step, sensitivity=step.sensitivity / 2.0)

    patch.setattr(pp, "perturbed_step", broken)


def no_linear_term(patch):
    """b = 0."""
    patch.setattr(PerturbedMinimiser, "_draw_linear", lambda self, sub, *_: 0.0 * sub.linear)


def one_residual_only(patch):
    """Δ₂ = β/μ in place of 2β/μ, as in the paper."""

    def broken(**constants):
        step = perturbed_step(**constants)
        return replace(step, spread=step.spread / 2.0)

    patch.setattr(pp, "perturbed_step", broken)


def curvature_of_weight_one(patch):
    """κ as if the site had a weight of 1, and nobody compares μ."""
    honest = pp.convexity
    patch.setattr(pp, "convexity", lambda site, settings: site.weight * honest(site, settings))
    patch.setattr(PerturbedMinimiser, "_require_convex", lambda self, sub: None)


def residual_of_weight_one(patch):
    """A solve ends at β, while Δ₂ is for β/w."""
    honest = pp.reach

    def broken(site, *rest):
        return replace(honest(site, *rest), beta=site.weight * honest(site, *rest).beta)

    patch.setattr(pp, "reach", broken)


def noise_of_weight_one(patch):
    """The gradient is weighed first and gets its noise then."""
    honest = gradient.NoisyGradient._noisy

    def broken(self, state, charged):
        weight = self.site.weight
        quiet = replace(self, sigma=self.sigma / weight)
        return honest(quiet, state, charged)

    patch.setattr(gradient.NoisyGradient, "_noisy", broken)


def no_second_noise(patch):
    """The solution leaves as it is."""
    patch.setattr(PerturbedMinimiser, "_add_noise", lambda self, point, *_: point)


def lenient_certificate(patch):
    """A residual of 10β is called β."""

    honest = Guarded.solve
    patch.setattr(
        Guarded, "solve", lambda self, sub, start, beta: honest(self, sub, start, 10.0 * beta)
    )


def threshold_redrawn(patch):
    """The threshold's noise is drawn anew for every question, as in the paper."""

    def decide(self, values, kept, rows, charged, place):
        scale = (self.sensitivity / self._split[0])[rows]
        key = Key(place.agent, place.round, "threshold")
        fresh = charged.source.laplace(self.threshold[rows, None], scale, FINENESS * scale, key)
        return honest(self, values, fresh[:, 0], rows, charged, place)

    honest = SparseVector.decide
    patch.setattr(SparseVector, "draw_threshold", lambda self, charged, agent: self.threshold)
    patch.setattr(SparseVector, "decide", decide)


def noise_of_round_one(patch):
    """The same noise in every round: the key forgets the round."""
    patch.setattr(minimiser, "Key", lambda agent, round_, purpose: Key(agent, 0, purpose))


def noise_for_some(patch):
    """Only every other replicate gets noise."""
    honest = BatchNoise.gaussian

    def broken(self, values, scale, grid, key):
        noisy = honest(self, values, scale, grid, key)
        return np.where(np.arange(len(values))[:, None] % 4 < 2, noisy, values)

    patch.setattr(BatchNoise, "gaussian", broken)


def released_on_credit(patch):
    """A refused charge is ignored: half of the rounds are paid for, all are made."""
    honest = ChargedNoise.charge

    def broken(self, charges):
        try:
            return honest(self, charges)
        except BudgetError:
            return self.source

    half = property(lambda self: tuple(((c, self.rounds // 2),) for c in self.mechanism.charges))
    patch.setattr(ChargedNoise, "charge", broken)
    patch.setattr(ADMM, "reserved", half)
    patch.setattr(
        pp, "calibrate", lambda b, s, releases, *rest: calibrate(b, s, releases // 2, *rest)
    )


def quieter_tests(patch):
    """Tests with half of their noise."""
    patch.setattr(GaussianTest, "noise", property(lambda self: self.sensitivity / self.ratio / 2.0))


def one_test_charged(patch):
    """Every test is charged as if there were one."""

    def broken(settings, budgets, delta, releases):
        test = honest(settings, budgets, delta, releases)
        return replace(test, ratio=test.ratio * math.sqrt(settings.rounds), rounds=1)

    honest = ipp._test
    patch.setattr(ipp, "_test", broken)
    patch.setattr(ChargedNoise, "charge", lambda self, charges: self.source)


def gamma_of_half_the_size(patch):
    """Gamma noise for a sensitivity of 1/n."""
    honest = GammaMinimiser.rates
    patch.setattr(GammaMinimiser, "rates", lambda self, mu: 2.0 * honest(self, mu))


def gradients_of_half_the_noise(patch):
    """σ/2 at the price of σ."""
    honest = gradient.build_gradient

    def broken(site, settings):
        rule = honest(site, settings)
        return replace(rule, sigma=rule.sigma / 2.0)

    recipe = replace(gradient.RECIPE, build=broken)
    patch.setitem(ALGORITHMS, "gradient", recipe)


BROKEN = [
    ("pp", quieter_linear_term),
    ("pp", half_the_sensitivity),
    ("pp", no_linear_term),
    ("pp", noise_of_round_one),
    ("pp", noise_for_some),
    ("pp", released_on_credit),
    ("pp, second noise", one_residual_only),
    ("pp, second noise", no_second_noise),
    ("pp, second noise", residual_of_weight_one),
    ("pp, heavy site", curvature_of_weight_one),
    ("pp, second noise", lenient_certificate),
    ("ipp, Gaussian tests", half_the_sensitivity),
    ("ipp, Gaussian tests", quieter_tests),
    ("ipp, Gaussian tests", one_test_charged),
    ("ipp, sparse vector", threshold_redrawn),
    ("dvp", gamma_of_half_the_size),
    ("m-admm", gamma_of_half_the_size),
    ("r-admm", gamma_of_half_the_size),
    ("gradient", gradients_of_half_the_noise),
    ("gradient", noise_of_weight_one),
]


EVENTS = (
    "pp, pushed across",
    "pp, pushed along",
    "pp, secure noise",
    "ipp, pushed across",
    "ipp, far off",
)
"""Games for what must not happen at all: of what may, few runs show next to nothing."""


@pytest.mark.parametrize("game", [game.name for game in GAMES])
def test_the_build_as_it_is_passes(game):
    found = audit(game_named(game), runs=400 if game in EVENTS else RUNS)
    assert found.passed, found
    assert found.finding.epsilon < found.claimed
    assert game in EVENTS or found.finding.epsilon > 0.0


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.loss.name}-{world.n}")
def test_the_opponents_densities_are_those_of_the_records(world):
    """∇f and ∇²f of a world are written down anew: they must be those that agents compute."""
    theta = np.array(world.start) + np.random.default_rng(0).standard_normal((5, world.d))
    for side in SIDES:
        risk = world.site(side).risk
        np.testing.assert_allclose(world.slope(theta, side), risk.gradient(theta), atol=1e-14)
        for row, bend in zip(theta, world.bend(theta, side), strict=True):
            np.testing.assert_allclose(bend, risk.hessian(row), atol=1e-14)


@pytest.mark.parametrize(
    ("game", "breakage"), BROKEN, ids=[f"{game}: {b.__name__}" for game, b in BROKEN]
)
def test_a_broken_build_is_caught(game, breakage, monkeypatch):
    breakage(monkeypatch)
    found = audit(game_named(game), runs=RUNS)
    assert not found.passed, found
