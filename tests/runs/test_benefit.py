"""What a run did for each site: its own test error together, alone, and by the commonest class."""

from dataclasses import replace

import numpy as np
import pytest

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.algorithms.method import MethodSpec
from ppadmm.noise import SeededNoise
from ppadmm.problem import risk_over
from ppadmm.runs.benefit import alone_model
from ppadmm.runs.evaluation import judge
from ppadmm.runs.hints import hints
from ppadmm.runs.run import prepare, run
from ppadmm.runs.text import summary

UNEQUAL = RunSpec(records=(20_000, 3_000, 50), agents=3, graph="ring", rounds=20, seed=1)


@pytest.fixture(scope="module")
def unequal():
    return train(UNEQUAL)


def test_together_and_the_commonest_class_are_what_the_run_says(unequal):
    assert [site.records for site in unequal.sites] == [20_000, 3_000, 50]
    for site in unequal.sites:
        assert site.together == pytest.approx(float(unequal.metrics.error[0]))
        assert site.commonest == pytest.approx(1.0 - unequal.test_majority)
        assert site.test_records == unequal.test_records


def test_alone_is_a_training_of_one_site_with_its_own_records():
    """The same as `centralised` with the records of that site alone."""
    prepared = prepare(UNEQUAL)
    risk = risk_over(prepared.federation.parts[1], prepared.federation.loss)
    model = alone_model(risk, UNEQUAL, Budget(1.0, 1e-6), SeededNoise((1,)))
    alone = prepare(replace(UNEQUAL, records=(3_000,), agents=1, algorithm="centralised"))
    own = replace(alone, federation=replace(alone.federation, parts=prepared.federation.parts[1:2]))
    np.testing.assert_allclose(run(own).model, model, rtol=1e-9)


def test_a_small_site_gains_by_joining(unequal):
    small = unequal.sites[-1]
    assert small.together < small.alone


def test_the_terminal_shows_it_and_the_public_part_does_not(unequal):
    told = summary(unequal)
    assert "own test accuracy" in told
    assert f"agent 2        50     {1 - unequal.sites[2].together:.4f}" in told
    assert "sites" in unequal.to_dict()


@pytest.mark.parametrize(
    "changes",
    [{"algorithm": "centralised"}, {"algorithm": "non-private"}, {"agents": 1, "records": (900,)}],
    ids=["pooled", "no noise", "one site"],
)
def test_where_there_is_nothing_to_compare_nothing_is_shown(changes):
    result = train(replace(UNEQUAL, **changes))
    assert all(site.alone is None for site in result.sites)
    assert "own test accuracy" not in summary(result)


def test_sites_that_differ_are_judged_on_records_like_their_own():
    result = train(replace(UNEQUAL, records=None, partition="dirichlet:0.2"))
    shares = np.array([site.test_records for site in result.sites])
    assert abs(shares.sum() - result.test_records) == 0
    records = np.array([site.records for site in result.sites])
    np.testing.assert_allclose(shares / shares.sum(), records / records.sum(), atol=0.02)
    assert len({site.commonest for site in result.sites}) == 3


def test_held_out_records_by_a_column():
    result = train(RunSpec(partition="column:sex", rounds=3, seed=1))
    assert sum(site.test_records for site in result.sites) == result.test_records


def test_the_error_of_a_site_is_that_of_its_own_records():
    prepared = prepare(replace(UNEQUAL, records=None, partition="dirichlet:0.2"))
    result = run(prepared)
    for i, site in enumerate(result.sites):
        error = judge(prepared.federation.test_of(i), result.model[None]).error[0]
        assert site.together == pytest.approx(float(error))


class TestHints:
    def test_noise_that_drowns_everything_is_foretold(self):
        found = hints(*_setup(records=(20, 20, 20)))
        assert found[0].startswith("Expect a model no better than always naming the commonest")

    def test_little_is_foretold_where_little_is_learnt(self):
        found = hints(*_setup(records=(150, 150, 150)))
        assert found[0].startswith("Expect a model little better than")

    def test_nothing_is_said_where_much_is_learnt(self):
        assert hints(*_setup(records=(5_000, 4_000, 3))) == ()

    def test_a_small_budget_may_drown_the_others(self):
        (found,) = hints(*_setup(records=(5_000, 5_000, 5_000), epsilons=(1.0, 1.0, 0.05)))
        assert "The noise of agent 2 (5,000 records) drowns what the others learn" in found

    def test_they_come_before_anything_is_spent(self, tmp_path):
        from ppadmm.ledger.owner import OwnerLedger
        from ppadmm.runs.ledger_session import LedgerOptions

        place, told = tmp_path / "a.ledger", []
        OwnerLedger.create(place, "me").grant("synthetic", Budget(2.0, 1e-6))
        spec = RunSpec(records=(20, 20, 20), agents=3, rounds=2)

        def advise(hint):
            told.append((hint, len(OwnerLedger.open(place).books.runs)))

        train(spec, booking=LedgerOptions(place), advise=advise)
        assert [runs for _, runs in told] == [0]
        assert len(OwnerLedger.open(place).books.runs) == 1


def _setup(**changes):
    prepared = prepare(RunSpec(agents=3, graph="ring", **changes))
    return prepared.spec, prepared.federation.setup


def test_a_site_without_a_private_model_of_its_own_has_none():
    """Nobody's ε can be reached at so small a δ: there is no such model, and no traceback."""
    risk = risk_over(prepare(UNEQUAL).federation.parts[2], prepare(UNEQUAL).federation.loss)
    from ppadmm.runs.benefit import alone_error

    test = prepare(UNEQUAL).federation.held_out
    tiny = MethodSpec(delta=1e-30)
    assert alone_error(risk, tiny, Budget(0.01, 1e-30), test) is None
