import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ppadmm.errors import InputError
from ppadmm.problem import LOSSES, HuberHinge, Logistic, loss_named

ALL = [Logistic(), HuberHinge(0.1), HuberHinge(0.5), HuberHinge(3.0)]
margins = arrays(np.float64, 64, elements=st.floats(-60, 60, allow_subnormal=False))


@pytest.mark.parametrize("loss", ALL, ids=str)
@given(m=margins)
def test_slope_and_curvature_stay_within_the_declared_constants(loss, m):
    assert np.all(np.abs(loss.gradient(m)) <= loss.lipschitz)
    assert np.all(loss.curvature(m) >= 0)
    assert np.all(loss.curvature(m) <= loss.smoothness)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_the_constants_are_not_larger_than_needed(loss):
    m = np.linspace(-60, 60, 200_001)
    assert np.abs(loss.gradient(m)).max() > 0.999 * loss.lipschitz
    assert loss.curvature(m).max() > 0.999 * loss.smoothness


@pytest.mark.parametrize("loss", ALL, ids=str)
@given(m=margins, step=st.floats(1e-4, 50))
def test_the_slope_is_lipschitz_with_the_declared_smoothness(loss, m, step):
    change = loss.gradient(m + step) - loss.gradient(m)
    assert np.all(change >= -1e-12)
    assert np.all(change <= loss.smoothness * step * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_gradient_and_curvature_are_derivatives_of_the_value(loss):
    m = np.random.default_rng(0).uniform(-6, 6, 4001)
    h = 1e-5
    slope = (loss.value(m + h) - loss.value(m - h)) / (2 * h)
    np.testing.assert_allclose(slope, loss.gradient(m), atol=1e-5)
    bend = (loss.gradient(m + h) - loss.gradient(m - h)) / (2 * h)
    away = np.ones_like(m, dtype=bool)
    if isinstance(loss, HuberHinge):
        away = np.abs(np.abs(1 - m) - loss.width) > 2 * h
    np.testing.assert_allclose(bend[away], loss.curvature(m)[away], atol=1e-4)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_extreme_margins_do_not_overflow(loss):
    m = np.array([-1e300, -1e4, 0.0, 1e4, 1e300])
    for values in (loss.value(m), loss.gradient(m), loss.curvature(m)):
        assert np.isfinite(values).all()


def test_losses_by_name():
    for name, kind in LOSSES.items():
        assert isinstance(loss_named(name), kind)
    with pytest.raises(InputError, match=r"Unknown loss 'hinge'.*logistic"):
        loss_named("hinge")


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan")])
def test_a_width_that_is_no_width(width):
    with pytest.raises(InputError, match="width"):
        HuberHinge(width)
