import json
from dataclasses import replace

import numpy as np
import pytest

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.algorithms.defaults import Sizes, default_rounds
from ppadmm.algorithms.method import MethodSpec
from ppadmm.datasets import load
from ppadmm.errors import InputError
from ppadmm.planning import page, populations
from ppadmm.planning.forecast import Scenario, setup
from ppadmm.planning.plan import PlanSpec, most_simulated, plan
from ppadmm.planning.result import Forecast
from ppadmm.planning.synthetic_records import POPULATIONS, class_shares, draw_population
from ppadmm.problem import Logistic, make_graph
from ppadmm.studies.compare import Grid, compare

SMALL = PlanSpec(
    records=(600,), features=10, agents=3, graph="ring", epsilon=1.0, delta=1e-5, seeds=12,
    rounds=20,
)  # fmt: skip
CALIBRATED = replace(SMALL, nonprivate_error=0.15, majority_error=0.3, changes=False)


@pytest.fixture(scope="module")
def small():
    return plan(SMALL)


@pytest.fixture(scope="module")
def calibrated():
    return plan(CALIBRATED)


@pytest.mark.parametrize("kind", POPULATIONS)
@pytest.mark.parametrize("shares", [(0.7, 0.3), (0.5, 0.3, 0.2)])
def test_a_population_has_the_shares_and_the_difficulty_that_were_asked_for(kind, shares):
    drawn = draw_population(kind, 20_000, 15, shares, np.random.default_rng(0))
    error = 0.4 * (1.0 - max(drawn.shares))
    drawn = drawn.with_error(error)
    assert np.linalg.norm(drawn.X, axis=1).max() <= 1.0
    found = np.unique(drawn.labels(), return_counts=True)[1] / 20_000
    assert found == pytest.approx(shares, abs=0.03)
    assert drawn.least_error(drawn.strength) == pytest.approx(error, abs=1e-3)
    assert drawn.least_error(2 * drawn.strength) < error


def test_a_population_cannot_be_harder_than_naming_the_commonest_class():
    drawn = draw_population("flat", 5000, 5, (0.8, 0.2), np.random.default_rng(0))
    with pytest.raises(InputError, match="commonest class"):
        drawn.with_error(0.3)


@pytest.mark.filterwarnings("error")
def test_classes_that_are_told_apart_without_doubt_leave_no_curvature_to_divide_by():
    """At the largest strength a step of Newton's method met a curvature below 1e-308."""
    need = populations.SampleSizes((3000, 900, 100), 8, 1.0)
    rng = np.random.default_rng([0, 1])
    drawn = draw_population("scattered", need.drawn + need.test, 8, (0.75, 0.25), rng)
    assert drawn.with_error(0.1625).least_error(1e3) < 0.05


@pytest.mark.parametrize(("majority", "classes"), [(0.1, 2), (0.5, 2), (0.6, 3), (0.3, 4)])
def test_class_shares(majority, classes):
    shares = class_shares(majority, classes)
    assert sum(shares) == pytest.approx(1.0)
    assert max(shares) == shares[0] == pytest.approx(1.0 - majority)
    assert min(shares) > 0.0


def test_ranges_are_ordered_and_hold_four_of_five(small):
    for point in small.curve:
        low, high = point.range
        assert low <= point.median <= high
        inside = np.mean([low <= e <= high for e in point.errors])
        assert 0.7 <= inside < 1.0
    assert len(small.expected.errors) == SMALL.seeds


def test_error_falls_with_epsilon_and_stays_above_the_error_without_privacy(calibrated):
    medians = [point.median for point in calibrated.curve]
    assert medians == sorted(medians, reverse=True)
    assert medians[0] > medians[-1] + 0.03
    assert medians[-1] > np.median(calibrated.non_private) - 0.01


def test_error_falls_with_records(calibrated):
    more = plan(replace(CALIBRATED, records=(4800,)))
    assert more.expected.median < calibrated.expected.median - 0.02


def test_populations_are_fitted_to_what_is_known(calibrated):
    assert calibrated.non_private == pytest.approx([0.15] * 6, abs=0.02)
    assert calibrated.majority == pytest.approx([0.3] * 6, abs=0.03)


@pytest.mark.parametrize(("classes", "known", "least"), [(10, 0.05, 0.4), (2, 0.02, 0.2)])
def test_an_easy_problem_is_not_taken_for_one_with_a_rare_class(classes, known, least):
    """A small error leaves it open how common the commonest class is; a large one does not."""
    for guess in populations.GUESSES:
        error, majority = populations._difficulty(guess, classes, (known, None))
        assert error == known
        assert least < majority < 1.0
        assert populations._difficulty(guess, 2, (0.4, None))[1] > 0.4


def test_changes_are_sorted_and_a_larger_budget_helps(small):
    gains = {change.name: change for change in small.changes}
    assert set(gains) == {"epsilon", "records", "features", "agents", "adjacency", "trust"}
    assert [c.gain for c in small.changes] == sorted((c.gain for c in small.changes), reverse=True)
    for name in ("epsilon", "records"):
        assert gains[name].gain > 2 * gains[name].uncertainty > 0.0
    assert set(gains["records"].sources) == set(range(6))


def test_the_same_seed_gives_the_same_plan_and_another_another():
    spec = replace(SMALL, records=(100,), seeds=3, epsilons=(1.0,), changes=False)
    found = plan(spec)
    assert plan(spec) == found
    assert plan(replace(spec, seed=1)).expected != found.expected


def test_the_epsilon_found_reaches_the_error_in_another_simulation():
    wanted = 0.2
    found = plan(replace(CALIBRATED, error=wanted))
    epsilon = found.target.epsilon
    assert found.epsilon == epsilon
    assert found.expected.median <= wanted
    below = [p for p in found.curve if p.epsilon < epsilon]
    assert all(p.median > wanted for p in below[-1:])
    again = plan(replace(CALIBRATED, epsilon=epsilon, epsilons=(epsilon / 3,), seed=7))
    assert again.expected.median == pytest.approx(wanted, abs=0.02)
    assert again.curve[0].median > wanted + 0.01


def test_an_error_that_no_epsilon_reaches_is_said_so():
    found = plan(replace(CALIBRATED, error=0.1))
    assert found.target.epsilon is None
    assert found.epsilon == CALIBRATED.epsilon
    assert found.target.largest_tried == 64.0


@pytest.mark.parametrize("algorithm", ["pp", "ipp", "gradient", "one-shot", "centralised"])
def test_noise_and_rounds_are_those_of_a_real_run(algorithm):
    spec = RunSpec(
        algorithm=algorithm, agents=3, graph="ring", records=(400, 500, 600), epsilon=2.0,
        delta=1e-5, rounds=None if algorithm in ("pp", "one-shot", "centralised") else 6,
    )  # fmt: skip
    result = train(spec)
    features = result.setup.features
    case = Scenario(
        (400, 500, 600), features, make_graph("ring", 3), Logistic(), spec.method
    )  # fmt: skip
    used = setup(case, 2.0)
    assert used.rounds == result.trace.rounds
    assert used.eta == result.settings.eta[0]
    assert used.regularisation == result.settings.regularisation[0]
    assert list(used.noise) == result.noise
    assert used.epsilon_proven == result.statement.epsilon
    assert used.theorem == result.statement.theorem


def test_the_quick_simulation_gives_the_errors_of_the_certified_one():
    """The same records in both: `compare` on made-up records, and a plan that resamples them."""
    rows = compare(
        Grid(
            algorithms=("pp",), epsilons=(0.5, 2.0), delta=1e-6, seeds=6, splits=3, graph="ring",
            rounds=20,
        )
    )  # fmt: skip
    spec = PlanSpec(
        records=(7000,), like="synthetic", graph="ring", epsilon=2.0, epsilons=(0.5,), seeds=6,
        changes=False, rounds=20,
    )  # fmt: skip
    found = {point.epsilon: point for point in plan(spec).curve}
    for row in rows:
        forecast = np.array(found[row.epsilon].errors)
        assert forecast.mean() == pytest.approx(np.mean(row.test_error), abs=0.004)


def test_few_records_stand_for_many_with_the_noise_of_the_many():
    spec = replace(CALIBRATED, records=(200_000,), seeds=3, epsilons=(1.0,))
    found = plan(spec)
    assert found.simulated_records == 39_999  # 40,000 over three agents
    assert "stand for 600,000" in found.notes[0]
    twenty = replace(_case().method, rounds=20)
    alone = setup(replace(_case(), records=(200_000,) * 3, method=twenty), 1.0)
    assert found.setup == alone
    assert found.expected.median < 0.17


def _case():
    return Scenario(
        (600,) * 3, 10, make_graph("ring", 3), Logistic(), MethodSpec(delta=1e-5, beta=1e-8)
    )  # fmt: skip


def test_an_infeasible_budget_is_reported_with_the_way_out():
    found = plan(replace(CALIBRATED, eta=1e-3, epsilon=0.1, epsilons=(0.1, 50.0), seeds=3))
    assert found.setup is None
    assert found.expected.errors == ()
    assert found.expected.median is None
    assert "choose η > " in found.expected.infeasible
    assert found.curve[-1].median is not None


def test_wide_records_are_simulated_with_fewer():
    assert most_simulated(42) == 40_000
    assert most_simulated(200) == 12_000
    assert most_simulated(2000) == 10_000


def test_public_records_are_dealt_without_overlap_and_fewer_features_can_be_wanted(tmp_path):
    spec = PlanSpec(
        records=(500,), like="synthetic", features=12, agents=3, graph="ring", seeds=3,
        epsilons=(1.0,), changes=False,
    )  # fmt: skip
    found = plan(spec)
    assert found.features == 12
    assert found.majority == pytest.approx([0.247] * 3, abs=0.02)
    with pytest.raises(InputError, match="at most the 41 features"):
        plan(replace(spec, features=60, knots=0))
    with pytest.raises(InputError, match="at most the 71 features"):
        plan(replace(spec, features=100))


def test_a_public_file_that_is_too_small_is_used_more_than_once(tmp_path):
    import pyarrow.csv as csv

    data = load("synthetic")
    csv.write_csv(data.table.slice(0, 800), tmp_path / "public.csv")
    spec = PlanSpec(
        records=(500,), public=str(tmp_path / "public.csv"), label="income", agents=3,
        graph="ring", seeds=3, epsilons=(1.0,), changes=False,
    )  # fmt: skip
    found = plan(spec)
    assert "more than once" in found.notes[-1]
    assert 0.1 < found.expected.median < 0.5


def test_no_file_is_opened_without_public_records(monkeypatch):
    monkeypatch.delenv("PPADMM_DATA", raising=False)

    def refuse(*arguments, **options):
        raise AssertionError(f"opened {arguments}")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    monkeypatch.setattr("ppadmm.planning.populations.load", refuse)
    spec = replace(CALIBRATED, records=(60,), seeds=3, epsilons=(1.0,))
    assert plan(spec).expected.errors


def test_rounds_are_those_of_the_rule():
    sizes = Sizes((600,) * 3, 10, (2, 2, 2), (1.0,) * 3)
    assert setup(_case(), 1.0).rounds == default_rounds(sizes, [Budget(1.0, 1e-5)] * 3, Logistic())


def test_the_json_has_all_of_it(small):
    plain = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert plain["format"] == 3
    assert plain["reads_private_data"] is False
    assert plain["records"] == [600] * 3
    assert plain["settings"]["bytes_per_agent_and_round"] == 2 * 2 * 8 * 10
    assert plain["settings"]["messages_per_agent"] == 2 * plain["settings"]["rounds"]
    assert len(plain["settings"]["noise"]) == 3
    assert plain["expected"]["low"] <= plain["expected"]["error"] <= plain["expected"]["high"]
    assert [p["epsilon"] for p in plain["curve"]] == [0.12, 0.25, 0.5, 1.0, 2.0, 4.0]
    assert {"change", "gain", "standard_error", "low", "high"} <= set(plain["changes"][0])
    assert len(plain["populations"]) == 6
    assert plain["target"] is None


def test_a_plan_is_written_whole_or_not_at_all(calibrated, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "curve_picture", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.write_plan(calibrated, tmp_path / "plan")
    assert not list(tmp_path.iterdir())


def test_share_of_runs_that_reach_an_error():
    point = Forecast(1.0, (0.1, 0.2, 0.3, 0.4))
    assert point.reaching(0.25) == 0.5
    assert Forecast(1.0, (), "why").reaching(0.25) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"records": (5, 6)}, "Expected records for 3 agents"),
        ({"records": (0,)}, "records"),
        ({"features": None}, "How many features"),
        ({"features": 1}, "features"),
        ({"epsilon": -1.0}, "Expected epsilon > 0, got -1.0."),
        ({"delta": 2.0}, "Expected 0 < delta < 1, got 2.0."),
        ({"error": 0.0}, "error"),
        ({"algorithm": "dvp"}, "Unknown algorithm 'dvp'"),
        ({"like": "nobody"}, "Unknown like 'nobody'"),
        ({"like": "adult", "nonprivate_error": 0.1}, "nonprivate error is that of the records"),
        ({"like": "adult", "public": "x.csv"}, "not both"),
        ({"schema": "x.toml"}, "for public records"),
        ({"seeds": 2}, "seeds"),
        ({"nonprivate_error": 0.4, "majority_error": 0.3}, "commonest class"),
        ({"majority_error": 0.6}, "at most 0.5"),
    ],
)
def test_bad_input_is_one_sentence(given, message):
    with pytest.raises(InputError, match=message) as caught:
        plan(replace(SMALL, **given))
    assert "\n" not in str(caught.value)
