"""The words of a statement: no ε is spelt smaller than it is."""

from dataclasses import replace

import pytest
from small_runs import finished

from ppadmm.privacy.statement import rounded_up


@pytest.mark.parametrize(
    ("epsilon", "spelt"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.9999999995, "1"),
        (1.0004, "1.001"),
        (0.41284, "0.4129"),
        (0.32, "0.32"),
        (11.231, "11.24"),
        (1234.5, "1235"),
        (1e-7 / 3, "3.334e-08"),
    ],
)
def test_an_epsilon_is_rounded_up(epsilon, spelt):
    assert rounded_up(epsilon) == spelt
    assert float(spelt) >= epsilon * (1.0 - 1e-9)


def test_the_headline_says_no_less_than_is_proven():
    said = finished("private").statement
    more = replace(said, epsilon=1.0004, epsilons=(1.0004,))
    assert more.text().startswith("PRIVATE: ε = 1.001 at δ = 1e-06")
    assert "at the sum of their δ" in more.text()
