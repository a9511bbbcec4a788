"""The numbers behind the figures."""

import pytest

from ppadmm.errors import InputError
from ppadmm.studies import figures
from ppadmm.studies.cell import CellResult
from ppadmm.studies.figures import FINAL, LOSS, FigureSetting, figure, held, points
from ppadmm.studies.sweep import Sweep


def outcome(epsilon, curves, proven=1.0):
    rounds, seeds = len(curves[0]), tuple(range(len(curves)))
    each = tuple(float(k) for k in seeds)
    return CellResult(epsilon, proven, rounds, 0.5, seeds, each, each, each, curves)


def test_a_run_that_is_over_holds_its_last_value():
    assert held([(3.0, 2.0), (5.0, 4.0, 1.0)]).tolist() == [[3.0, 2.0, 2.0], [5.0, 4.0, 1.0]]


def test_splits_may_have_different_numbers_of_rounds(people):
    drawn = figure(6, FigureSetting(str(people), seeds=4, splits=2, label="ill"))
    results = {}
    for cell in drawn.cells:
        curves = ((4.0, 2.0), (6.0, 4.0)) if cell.split == 0 else ((1.0, 1.0, 1.0), (5.0, 5.0, 3.0))
        epsilons = (None,) if cell.algorithm == "non-private" else cell.epsilons
        results[cell] = tuple(outcome(epsilon, curves, 1.0 + cell.split) for epsilon in epsilons)
    marks = points(drawn, Sweep(results, 0))
    mine = [m for m in marks if (m.calibration, m.algorithm, m.epsilon) == ("proven", "pp", 2.0)]
    assert [(m.x, m.mean) for m in mine if m.measure == LOSS] == [
        (1.0, 4.0),
        (2.0, 3.0),
        (3.0, 2.5),
    ]
    assert [(m.x, m.mean, m.std) for m in mine if m.measure == FINAL] == [(3.0, 0.5, 0.5)]
    assert {m.replicates for m in mine} == {4}
    assert {m.rounds for m in mine} == {3}
    assert {m.epsilon_proven for m in mine} == {2.0}


def test_cells_are_mixed_so_that_the_time_left_can_be_told(people):
    drawn = figure(5, FigureSetting(str(people), seeds=6, splits=3, label="ill"))
    assert [cell.split for cell in drawn.cells] == [0] * 12 + [1] * 12 + [2] * 12


def test_figures_5_and_6_run_the_same_cells(people):
    setting = FigureSetting(str(people), label="ill")
    assert figure(5, setting).cells == figure(6, setting).cells


def test_the_papers_settings_are_the_preset(people):
    setting = FigureSetting(str(people), label="ill")
    for number in (1, 2, 3, 4, 5):
        for cell in figure(number, setting).cells:
            if cell.calibration == "paper":
                assert (cell.rounds, cell.eta, cell.delta, cell.agents) == (30, 0.5, 1e-4, 5)
                assert number == 2 or cell.beta == pytest.approx(10**-3.5)
            else:
                assert (cell.rounds, cell.eta) == (None, None)
                assert number == 2 or cell.beta is None


def test_there_is_no_eighth_figure():
    with pytest.raises(InputError, match="from 1 to 7"):
        figures.figure(8, FigureSetting())
