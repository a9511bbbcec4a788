"""Losses of K scores: the declared constants, derivatives, the two-class case, names."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ppadmm.errors import InputError
from ppadmm.problem import HuberHinge, Logistic, Multinomial, OneVsRest, loss_for

ALL = [Multinomial(2), Multinomial(3), Multinomial(10), OneVsRest(Logistic(), 4),
       OneVsRest(HuberHinge(0.3), 5)]  # fmt: skip
each = pytest.mark.parametrize("loss", ALL, ids=str)


def draws(loss, count=400, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((count, loss.outputs)) * rng.choice([0.1, 1, 10, 100], (count, 1))
    return scores, rng.integers(0, loss.outputs, count)


def within(loss, scores, codes):
    slack = 1 + 1e-12
    gradient, bends = loss.gradient(scores, codes), loss.curvature(scores, codes)
    values = np.linalg.eigvalsh(bends)
    assert np.all(np.linalg.norm(gradient, axis=-1) <= loss.lipschitz * slack)
    assert np.all(values >= -1e-12)
    assert np.all(values <= loss.smoothness * slack)
    assert np.all(values.sum(axis=-1) <= loss.trace * loss.smoothness * slack)
    assert np.all((values**2).sum(axis=-1) <= loss.square * loss.smoothness**2 * slack)
    assert np.linalg.eigvalsh(loss.smoothness * loss.shape - bends).min() > -1e-12
    if len(gradient) > loss.outputs:
        assert np.linalg.matrix_rank(gradient, tol=1e-9) <= loss.span


@each
def test_the_declared_constants_hold(loss):
    within(loss, *draws(loss))


@given(arrays(np.float64, (6, 4), elements=st.floats(-80, 80, allow_subnormal=False)))
def test_the_constants_of_the_multinomial_loss_hold_anywhere(scores):
    within(Multinomial(4), scores, np.arange(6) % 4)


def test_the_constants_of_the_multinomial_loss_are_reached():
    loss, far = Multinomial(3), np.array([[0.0, 60.0, 0.0], [0.0, 0.0, -60.0], [0.0, 0.0, 0.0]])
    codes = np.zeros(3, dtype=int)
    assert np.linalg.norm(loss.gradient(far, codes)[0]) == pytest.approx(loss.lipschitz)
    values = np.linalg.eigvalsh(loss.curvature(far, codes))
    assert values[1].max() == pytest.approx(loss.smoothness)
    assert (values[1] ** 2).sum() == pytest.approx(loss.square * loss.smoothness**2)
    assert values[2].sum() == pytest.approx(loss.trace * loss.smoothness)


@each
def test_gradient_and_curvature_are_derivatives(loss):
    rng = np.random.default_rng(1)
    scores, codes = rng.uniform(-3, 3, (50, loss.outputs)), rng.integers(0, loss.outputs, 50)
    h = 1e-6
    for k in range(loss.outputs):
        e = np.zeros(loss.outputs)
        e[k] = h
        slope = (loss.value(scores + e, codes) - loss.value(scores - e, codes)) / (2 * h)
        np.testing.assert_allclose(slope, loss.gradient(scores, codes)[:, k], atol=1e-7)
        bend = (loss.gradient(scores + e, codes) - loss.gradient(scores - e, codes)) / (2 * h)
        np.testing.assert_allclose(bend, loss.curvature(scores, codes)[:, k], atol=1e-4)


@each
def test_extreme_scores_do_not_overflow(loss):
    scores = np.array([[1e300] + [0.0] * (loss.outputs - 1), [-1e4] * loss.outputs])
    codes = np.array([loss.outputs - 1, 0])
    for values in (loss.value, loss.gradient, loss.curvature):
        assert np.isfinite(values(scores, codes)).all()


def test_two_classes_are_the_logistic_loss_of_the_difference():
    scores, codes = draws(Multinomial(2))
    margins = (scores[:, 1] - scores[:, 0]) * np.where(codes == 1, 1.0, -1.0)
    value = Multinomial(2).value(scores, codes)
    np.testing.assert_allclose(value, Logistic().value(margins), atol=1e-13)


def test_replicates_stand_between_records_and_classes():
    loss, (scores, codes) = Multinomial(3), draws(Multinomial(3), 8)
    both = np.stack([scores, -scores], axis=1)
    together = loss.gradient(both, codes[:, None])
    np.testing.assert_array_equal(together[:, 0], loss.gradient(scores, codes))
    np.testing.assert_array_equal(together[:, 1], loss.gradient(-scores, codes))


def test_losses_for_a_number_of_classes():
    assert loss_for("logistic", 2) == Logistic()
    assert loss_for("logistic", 3) == Multinomial(3)
    assert loss_for("logistic", 3, "one-vs-rest") == OneVsRest(Logistic(), 3)
    assert loss_for("huber-hinge", 3) == OneVsRest(HuberHinge(), 3)
    assert OneVsRest(Logistic(), 9).lipschitz == pytest.approx(3.0)
    assert Multinomial(9).lipschitz == math.sqrt(2.0)
    with pytest.raises(InputError, match=r"The multinomial loss is logistic, got .*huber-hinge"):
        loss_for("huber-hinge", 3, "multinomial")
    with pytest.raises(InputError, match="multiclass auto for two classes"):
        loss_for("logistic", 2, "multinomial")
    with pytest.raises(InputError, match="Unknown multiclass 'ovo'"):
        loss_for("logistic", 3, "ovo")
    with pytest.raises(InputError, match="classes"):
        Multinomial(1)
