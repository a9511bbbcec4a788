"""Roots beside SciPy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from ppadmm.accounting.roots import root
from ppadmm.errors import InputError

FUNCTIONS = [
    (lambda x: x**3 - 2.0, 0.0, 2.0),
    (lambda x: math.exp(-x) - 1e-9, 0.0, 700.0),
    (lambda x: math.atan(x - 3.0), -1e6, 1e6),
    (lambda x: math.copysign(1.0, x - math.pi), 0.0, 10.0),  # a jump
    (lambda x: (x - 1.0) ** 9, -3.0, 8.0),  # flat at its root
    (lambda x: math.log(x) + 20.0, 1e-30, 1.0),
]


@pytest.mark.parametrize(("f", "low", "high"), FUNCTIONS)
@pytest.mark.parametrize("xtol", [1e-4, 1e-12, 1e-15])
def test_where_a_function_changes_its_sign(f, low, high, xtol):
    found = root(f, low, high, xtol)
    near = xtol + 4e-15 * abs(found)
    before, after = max(low, found - near), min(high, found + near)
    assert f(found) == 0.0 or f(before) * f(after) <= 0.0


@given(st.floats(-50.0, 50.0), st.floats(0.1, 5.0))
def test_scipy_finds_the_same(at, steep):
    def f(x):
        return math.tanh(steep * (x - at)) + 0.1 * (x - at)

    assert root(f, -100.0, 100.0) == pytest.approx(brentq(f, -100.0, 100.0), abs=1e-11)


def test_few_values_are_asked_for():
    asked = []
    root(lambda x: asked.append(x) or math.exp(x) - 3.0, 0.0, 10.0)
    assert len(asked) <= 20


def test_no_change_of_sign_is_an_error():
    with pytest.raises(InputError, match="same sign at 1 and 2"):
        root(lambda x: x, 1.0, 2.0)
