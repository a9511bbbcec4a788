"""Every example runs, is as short as is said, and is what the how-to pages show."""

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest

from ppadmm.algorithms import ALGORITHMS, STATISTICS
from ppadmm.errors import InputError
from ppadmm.problem import LOSSES, Logistic, OneMargin
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.solvers import SOLVERS, Solution

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HOW_TO = sorted((ROOT / "docs" / "howto").glob("*.md"))
MOST_LINES = {"a_run": 10}


@pytest.fixture(autouse=True)
def _restored():
    """Forget what a test added."""
    registries = (LOSSES, SOLVERS, STATISTICS, ALGORITHMS)
    before = [dict(registry) for registry in registries]
    yield
    for registry, things in zip(registries, before, strict=True):
        registry.own.clear()
        registry.clear()
        registry.update(things)


def code_lines(path):
    """Count the lines that are neither blank nor the docstring at the head."""
    text = path.read_text()
    head = ast.parse(text).body[0].end_lineno
    return sum(bool(line.strip()) for line in text.splitlines()[head:])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(path, capsys):
    assert code_lines(path) <= MOST_LINES.get(path.stem, 30)
    result = runpy.run_path(str(path)).get("result")
    out = capsys.readouterr().out
    if result is None:
        assert out == "the same numbers: True\n"
    else:
        assert result.statement.private
        assert "PRIVATE: ε = 1" in out
        assert result.metrics.error[0] < 0.24


def test_every_how_to_page_shows_an_example():
    pages = "".join(path.read_text() for path in HOW_TO)
    for path in EXAMPLES:
        if path.stem != "a_run":
            assert path.read_text().split('"""\n', 1)[1].strip() in pages, path


class TestWhatIsAdded:
    def test_the_statement_names_it(self):
        LOSSES.add(type("Mine", (Logistic,), {"name": "mine"}))
        warnings = train(RunSpec(loss="mine", rounds=2)).statement.warnings
        assert "the loss 'mine' is not part of ppadmm" in warnings[0]
        assert not train(RunSpec(rounds=2)).statement.warnings

    def test_a_name_is_taken_once(self):
        with pytest.raises(InputError, match="There is a loss 'logistic' already"):
            LOSSES.add(Logistic)
        with pytest.raises(InputError, match="Expected a solver with a name"):
            SOLVERS.add(object)

    def test_ones_own_may_be_replaced(self):
        first, second = (type("Mine", (Logistic,), {"name": "mine"}) for _ in range(2))
        LOSSES.add(first)
        assert LOSSES.add(second) is LOSSES["mine"]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"lipschitz": 0.9}, "slope. ≤ lipschitz = 0.9"),
            ({"smoothness": 0.2}, "curvature ≤ smoothness = 0.2"),
            ({"curvature": lambda _, m: -np.ones_like(m)}, "curvature ≥ 0"),
            ({"value": lambda _, m: np.exp(-m / 100)}, "derivative of value"),
            ({"gradient": lambda _, m: np.full_like(m, np.nan)}, "slope"),
        ],
    )
    def test_a_loss_that_breaks_its_constants_is_refused(self, wrong, message):
        with pytest.raises(InputError, match=message):
            LOSSES.add(type("Wrong", (Logistic,), {"name": "wrong", **wrong}))
        assert "wrong" not in LOSSES

    def test_a_loss_with_a_jump_in_its_slope_is_refused(self):
        class Hinge(OneMargin):
            name, lipschitz, smoothness = "hinge", 1.0, 0.0

            def value(self, margins):
                return np.maximum(1.0 - margins, 0.0)

            def gradient(self, margins):
                return np.where(margins < 1.0, -1.0, 0.0)

            def curvature(self, margins):
                return np.zeros_like(margins)

        with pytest.raises(InputError, match="margin"):
            LOSSES.add(Hinge)

    def test_a_solver_that_lies_changes_nothing_in_the_model(self):
        class Lazy:
            name = "lazy"

            def solve(self, sub, start, tolerance):
                return Solution(start, np.zeros(len(start.point)), 0)

        SOLVERS.add(Lazy)
        lazy = train(RunSpec(solver="lazy", rounds=2, seed=0))
        newton = train(RunSpec(solver="newton", rounds=2, seed=0))
        np.testing.assert_allclose(lazy.model, newton.model, atol=1e-5)
