"""A search on private records: what it costs, what it keeps and what it tells."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting import Budget, RepeatAndSelect, epsilon
from ppadmm.datasets import load
from ppadmm.errors import BudgetError, InfeasibleError, InputError
from ppadmm.ledger import database
from ppadmm.ledger.balance import cost
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.run import decode
from ppadmm.ledger.state import tally_of
from ppadmm.noise import SecureNoise
from ppadmm.runs.ledger_session import LedgerOptions, LedgerSession
from ppadmm.runs.run import prepare
from ppadmm.runs.scoring import accuracy
from ppadmm.runs.specification import RunSpec
from ppadmm.studies import tune as module
from ppadmm.studies.tune import tune
from ppadmm.studies.tune_text import tune_text

SPEC = RunSpec(epsilon=2.0, rounds=4, agents=3, seed=1, knots=0)


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
    assert result.settings.eta == (best.eta,)


def test_the_score_is_noisy_accuracy_and_finds_the_worse_setting(data):
    found = tune(SPEC, (0.002, 50.0), data=data)
    good, bad = found.candidates
    assert good.score > bad.score + 0.02
    assert found.result.settings.eta == (0.002,)
    shards = prepare(SPEC, data).federation.shards
    exact = [accuracy(part, found.result.model, 2) for part in shards]
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


class TestLedger:
    """A search that a data owner's ledger pays for."""

    SPEC = RunSpec(epsilon=2.0, rounds=3, agents=3)
    ETAS = (0.002, 0.02)

    @pytest.fixture
    def ledger(self, tmp_path):
        path = tmp_path / "a.ledger"
        with OwnerLedger.create(path, "owner") as made:
            made.grant("synthetic", Budget(2.0, 1e-6))
        return path

    def state(self, path):
        (run,) = verify(read_rows(path))[0].runs.values()
        return run

    def test_every_release_and_every_score_is_charged_and_kept(self, data, ledger):
        found = tune(self.SPEC, self.ETAS, data=data, booking=LedgerOptions(ledger))
        run = self.state(ledger)
        places = {(agent, round_) for agent in range(3) for round_ in range(2 * (3 + 1))}
        assert run.outcome == "finished"
        assert set(run.releases) == set(run.open_charges) == places
        assert run.tallies == found.result.reserved
        assert [tally_of(run.charged[i]) for i in range(3)] == found.result.spent
        assert cost(verify(read_rows(ledger))[0], "synthetic") == pytest.approx(2.0, rel=1e-6)

    def test_a_search_that_does_not_fit_is_refused_before_anything_is_drawn(self, data, ledger):
        dear = replace(self.SPEC, epsilon=2.5)
        with pytest.raises(BudgetError, match=r"would cost ε = 2\.5"):
            tune(dear, self.ETAS, data=data, booking=LedgerOptions(ledger))
        with pytest.raises(BudgetError, match="is not private"):
            tune(replace(self.SPEC, seed=1), self.ETAS, data=data, booking=LedgerOptions(ledger))
        assert not verify(read_rows(ledger))[0].runs

    def test_a_lost_score_is_not_drawn_again_and_its_setting_not_chosen(
        self, data, ledger, monkeypatch
    ):
        real, died = SecureNoise.gaussian, []

        def gaussian(noise, values, scale, grid, key):
            if key.purpose == "score" and not died:
                died.append(key)
                raise KeyboardInterrupt
            return real(noise, values, scale, grid, key)

        monkeypatch.setattr(SecureNoise, "gaussian", gaussian)
        spec = replace(self.SPEC, algorithm="centralised", rounds=None)
        options = {"regularisations": (0.01, 0.1), "data": data}
        with pytest.raises(KeyboardInterrupt):
            tune(spec, booking=LedgerOptions(ledger), **options)
        found = tune(spec, booking=LedgerOptions(ledger, resume=True), **options)
        assert found.candidates[0].score is None
        assert found.result.spec.regularisation == 0.1
        assert "lost in a crash" in tune_text(found)
        assert self.state(ledger).charges == 4

    REPEAT = RunSpec(epsilon=2.0, agents=3, algorithm="centralised")

    def repeated(self, data, ledger, **options):
        return tune(
            self.REPEAT, regularisations=(0.01, 0.1), how="repeat", data=data,
            booking=LedgerOptions(ledger, **options),
        )  # fmt: skip

    def test_of_a_repeated_search_the_ledger_knows_the_best_only(self, data, ledger):
        found = self.repeated(data, ledger)
        run = self.state(ledger)
        assert (run.charges, len(run.releases), run.outcome) == (1, 1, "finished")
        (event,) = dict(run.tallies[0].counts)
        assert isinstance(event, RepeatAndSelect)
        assert run.tallies == found.result.spent == found.result.reserved

    def test_how_long_a_repeated_search_took_is_not_in_the_ledger(self, data, ledger, monkeypatch):
        """That would tell how many runs there were, which must stay secret."""
        clock = iter(f"2026-01-01T00:00:{k:02d}+00:00" for k in range(60))
        monkeypatch.setattr(database, "now", lambda: next(clock))
        self.repeated(data, ledger)
        bodies = [json.loads(row.body) for row in read_rows(ledger)]
        kinds = ("reserve", "charge", "release", "end")
        assert [b["kind"] for b in bodies[-4:]] == list(kinds)
        assert len({b["time"] for b in bodies[-4:]}) == 1

    def test_a_repeated_search_that_was_kept_is_shown_again(self, data, ledger, monkeypatch):
        first = []
        with monkeypatch.context() as patch:
            patch.setattr(LedgerSession, "finish", lambda _: first.append(1) or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                self.repeated(data, ledger)
        monkeypatch.setattr(SecureNoise, "gaussian", lambda *_: 1 / 0)
        again = self.repeated(data, ledger, resume=True)
        kept = decode(read_rows(ledger)[-2].payload)
        assert again.candidates[0].score == kept.value[1]
        np.testing.assert_array_equal(again.result.model, kept.value[2:])
        assert again.result.statement.releases == (1,)
        assert self.state(ledger).outcome == "finished"

    def test_a_repeated_search_that_was_lost_stays_spent(self, data, ledger, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(SecureNoise, "gaussian", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                self.repeated(data, ledger)
        with pytest.raises(BudgetError, match="nothing was released and its cost stays spent"):
            self.repeated(data, ledger, resume=True)
        assert self.state(ledger).outcome == "abandoned"
        with pytest.raises(BudgetError, match="would cost"):
            self.repeated(data, ledger)


def test_a_setting_that_no_noise_brings_into_the_budget_is_named(data):
    with pytest.raises(InfeasibleError, match=r"η = 1e-06 cannot be tried: 2 settings share") as e:
        tune(SPEC, (1e-6, 0.1), data=data)
    assert float(re.search(r"ε = ([\d.]+) at", str(e.value))[1]) < SPEC.epsilon
    enough = float(re.search(r"η > ([\d.e-]+)", str(e.value))[1])
    assert len(tune(SPEC, (enough, 0.1), data=data).candidates) == 2
