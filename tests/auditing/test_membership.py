"""The attack must work where nothing protects, and stay below the bound where noise does."""

import numpy as np
import pytest

from ppadmm.accounting import Charge, Gaussian, Pure, Tally
from ppadmm.auditing import membership as module
from ppadmm.auditing.membership import largest_auc, likelihood_ratios, membership
from ppadmm.auditing.statistics import Claim
from ppadmm.mechanisms import PerturbedMinimiser

MODELS = 32


@pytest.fixture(scope="module")
def private():
    return membership("pp", epsilon=1.0, models=MODELS)


def test_a_model_without_noise_is_attacked_with_success(private):
    """Far beyond what ε = 1 would allow: the attack is able to find members."""
    loss, ratio = membership("non-private", models=MODELS)
    assert loss.auc - 5 * loss.auc_error > private[0].auc_allowed
    assert ratio.auc - 5 * ratio.auc_error > private[1].auc_allowed
    assert ratio.tpr - 4 * ratio.tpr_error > private[1].tpr_allowed
    assert ratio.auc > loss.auc + 0.05
    assert ratio.auc_allowed == 1.0
    assert not ratio.exceeded


def test_a_private_model_stays_below_the_bound(private):
    for one in private:
        assert not one.exceeded
        assert 0.5 < one.auc_allowed < 0.62
        assert abs(one.auc - 0.5) < 0.05


def test_a_private_model_without_its_noise_is_caught(monkeypatch):
    monkeypatch.setattr(PerturbedMinimiser, "_draw_linear", lambda self, sub, *_: 0.0 * sub.linear)
    monkeypatch.setattr(PerturbedMinimiser, "_add_noise", lambda self, point, *_: point)
    assert any(one.exceeded for one in membership("pp", epsilon=1.0, models=MODELS))


def test_taking_a_member_out_changes_one_record_of_one_agent():
    pool = module._pool(8, 0)
    for m in range(8):
        sizes = [site.risk.n for site in module._sites(pool, m)]
        assert sizes == [30, 30]
    parity = np.arange(module.POOL) % module.AGENTS
    for agent in range(module.AGENTS):
        assert (pool.members[:, parity == agent].sum(axis=1) == 30).all()


def test_the_ratio_is_that_of_the_fitted_normal_laws():
    rng = np.random.default_rng(0)
    members = rng.random((4000, 3)) < 0.5
    shadows = np.where(members, 1.0, 0.0) + rng.standard_normal((4000, 3))
    at = np.array([[0.0, 0.5, 2.0]])
    found = likelihood_ratios(at, shadows, members)[0]
    np.testing.assert_allclose(found, at[0] - 0.5, atol=0.15)


def test_the_largest_area_is_that_of_the_claim():
    gaussian = Claim.of(Tally.of([Charge((Gaussian(1.0),))]))
    assert largest_auc(gaussian) == pytest.approx(0.7602, abs=0.01)  # Φ(1/√2)
    assert largest_auc(gaussian) > 0.7602
    nothing = Claim.of(Tally.of([Charge((Pure(0.0),))]))
    assert largest_auc(nothing) == pytest.approx(0.5, abs=0.001)
