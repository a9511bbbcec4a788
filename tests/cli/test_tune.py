import json
import math

import pytest

from ppadmm.data import load
from ppadmm.errors import InputError
from ppadmm.experiments import tune as module
from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.tune import tune
from ppadmm.privacy import RepeatAndSelect, epsilon
from ppadmm.privacy.record import from_plain

SPEC = RunSpec(epsilon=2.0, rounds=4, agents=3, seed=1)


@pytest.fixture(scope="module")
def data():
    return load("synthetic")


def test_split_costs_the_budget_for_all_runs_and_scores(data):
    found = tune(SPEC, (0.001, 0.01, 0.1), data=data)
    result, statement = found.result, found.result.statement
    assert len(found.candidates) == 3
    for tally in result.reserved:
        assert epsilon(tally, SPEC.delta).epsilon <= SPEC.epsilon
        assert sum(times for _, times in tally.counts) >= 3 * (4 * 3 + 2)  # releases and scores
    assert statement.epsilon == pytest.approx(2.0, rel=1e-6)
    assert statement.releases == (15, 15, 15)
    assert 2.0 / 3.0 < found.run_epsilon < 2.0
    assert "Tuned on the private records over 3 settings (split)" in statement.text()
    best = max(found.candidates, key=lambda one: one.score)
    assert result.prepared.settings.eta == (best.eta,)


def test_the_score_is_noisy_accuracy_and_finds_the_worse_setting(data):
    found = tune(SPEC, (0.002, 50.0), data=data)
    good, bad = found.candidates
    assert good.score > bad.score + 0.02
    assert found.result.prepared.settings.eta == (0.002,)
    exact = [
        module._accuracy(part, found.result.model, 2) for part in found.result.prepared.scene.shards
    ]
    assert abs(good.score - sum(exact) / 3) < 0.02
    assert good.score != pytest.approx(sum(exact) / 3, abs=1e-9)


def test_repeat_releases_the_best_only_and_is_charged_as_one_event(data):
    spec = RunSpec(epsilon=2.0, agents=3, seed=1, algorithm="centralised")
    found = tune(spec, regularisations=(0.01, 0.1), how="repeat", data=data)
    assert len(found.candidates) == 1
    (tally,) = found.result.reserved
    ((event, times),) = tally.counts
    assert isinstance(event, RepeatAndSelect)
    assert (times, event.mean, len(event.runs)) == (1, 4.0, 2)
    assert found.result.statement.epsilon == pytest.approx(2.0, rel=1e-6)


def test_the_number_of_runs_is_geometric():
    counts = [len(module._draws(RunSpec(seed=k), 3, 5.0)) for k in range(4000)]
    assert sum(counts) / 4000 == pytest.approx(5.0, abs=0.3)
    assert sum(count == 1 for count in counts) / 4000 == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        (SPEC, {"how": "repeat"}, "neighbours see the messages of every run"),
        (SPEC, {"how": "best"}, "Unknown way of tuning 'best'"),
        (SPEC, {"etas": (0.1,)}, "at least 2 settings"),
        (RunSpec(algorithm="non-private"), {}, "needs a run with a proven budget"),
        (RunSpec(calibration="paper"), {}, "needs a run with a proven budget"),
        (RunSpec(agents=2, epsilons=(1.0, 2.0)), {}, "one ε for all agents"),
    ],
)
def test_a_search_that_nobody_pays_for_is_refused(spec, options, words):
    with pytest.raises(InputError, match=words):
        tune(spec, **{"etas": (0.1, 0.2), **options})


def test_the_command_writes_a_run_whose_ledger_can_be_checked(command, tmp_path):
    found = command(
        "tune", "--etas", "0.002,0.02", "--rounds", 3, "--agents", 3, "--seed", 1, "--out", "best"
    )
    assert found.code == 0, found.err
    assert "noisy accuracy on the training records" in found.out
    assert found.out.count("chosen") == 1
    saved = json.loads((tmp_path / "best" / "result.json").read_text())
    spent = [epsilon(from_plain(one["reserved"]), 1e-6).epsilon for one in saved["ledger"]]
    assert max(spent) == pytest.approx(1.0, rel=1e-6)
    assert math.isclose(saved["epsilon_proven"], max(spent))
    refused = command("tune", "--etas", "0.1,0.2", "--how", "repeat")
    assert refused.code == 2
    assert "centralised" in refused.err
