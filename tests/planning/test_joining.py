"""Does joining help me? Every site alone, with all, and without each of the others."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.accounting import Budget
from ppadmm.algorithms.method import MethodSpec
from ppadmm.datasets import load
from ppadmm.errors import InputError
from ppadmm.planning.dealing import ByLabel, BySite, Evenly, whole_parts
from ppadmm.planning.error_ranges import Change, Forecast, is_useless
from ppadmm.planning.forecast import setup, simulate
from ppadmm.planning.joining import Absence, Joining, SiteForecast, alike
from ppadmm.planning.page import plan_text, render_plan, short_text
from ppadmm.planning.plan import PlanSpec, _Study, plan
from ppadmm.planning.scenario import Scenario
from ppadmm.problem import Graph, Logistic, make_graph

QUICK = PlanSpec(
    records=(3000, 900, 200), features=10, agents=3, graph="ring", epsilon=1.0, delta=1e-5,
    seeds=6, rounds=20, epsilons=(1.0,), changes=False,
)  # fmt: skip
PUBLIC = replace(QUICK, like="synthetic", features=None, seeds=3)


@pytest.fixture(scope="module")
def quick():
    return plan(QUICK)


# -- what it says --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_site_alone_gets_what_a_plan_of_that_site_by_itself_says(first):
    """The same public records and seeds: the site that comes first holds the same ones in both."""
    sizes = [QUICK.records[first], *(n for i, n in enumerate(QUICK.records) if i != first)]
    among = plan(replace(PUBLIC, records=tuple(sizes), absences=False))
    single = plan(replace(PUBLIC, records=(sizes[0],), agents=1))
    assert among.joining.sites[0].alone.errors == single.expected.errors
    assert single.spec.algorithm == "centralised"
    assert single.joining is None


def test_own_budgets_hold_alone_too():
    given = (0.5, 2.0, 1.0)
    among = plan(replace(PUBLIC, epsilons_per_agent=given, absences=False))
    single = plan(
        replace(PUBLIC, records=QUICK.records[:1], agents=1, epsilon=0.5, epsilons=(0.5,))
    )
    assert among.epsilon == 2.0
    assert among.joining.sites[0].epsilons == (0.5, 0.5)
    assert among.joining.sites[0].alone.errors == single.expected.errors


def test_leaving_out_nobody_is_everybody():
    study = _Study(QUICK, None)
    group, seeds = study.populations[0], study.seeds(0)
    assert study.case.without(()) == study.case
    errors = study.errors(study.case, [1.0])[1.0]
    parts = group.dealt(QUICK.records)
    again = simulate(study.case.without([]), group, [1.0], seeds, parts)[1.0].pooled
    assert list(again) == list(errors[: len(seeds)])


def test_of_two_sites_the_one_that_is_left_is_alone():
    case = replace(_Study(QUICK, None).case, records=(500, 70), graph=make_graph("complete", 2))
    assert case.without([0]) == case.alone(1)
    found = plan(replace(QUICK, records=(500, 70), agents=2, graph="complete"))
    assert found.joining.absences == ()


def test_small_sites_gain_and_large_ones_are_missed(quick):
    large, middle, small = quick.joining.sites
    assert small.verdict == "helps"
    assert small.gain.gain > middle.gain.gain > large.gain.gain
    assert small.alone.median > middle.alone.median > large.alone.median
    assert {site.together for site in quick.joining.sites} == {quick.expected}
    missed = {each.name: each.change.gain for each in quick.joining.absences}
    assert missed["agent 0"] < missed["agent 1"] < 0.0
    assert missed["agent 0"] < missed["agent 2"]


def test_a_site_with_a_tiny_budget_is_seen_to_spoil_the_run():
    given = replace(QUICK, records=(500,), epsilons_per_agent=(0.05, 2.0, 2.0))
    spoiler = plan(given).joining.absences[0]
    assert spoiler.name == "agent 0"
    assert spoiler.change.direction(0.005) == 1


def test_equal_sites_are_told_once():
    found = plan(replace(QUICK, records=(300,), agents=5)).joining
    (site,) = found.sites
    assert site.names == tuple(f"agent {i}" for i in range(5))
    assert "agent 0 and 4 others like it" in found.sentences()[0]
    assert [each.name for each in found.absences] == ["one like agent 0"]


def test_many_sites_are_told_by_groups_of_nearly_the_same_size():
    keys = [(float(n),) for n in range(100, 0, -1)]
    groups = alike(keys)
    assert len(groups) == 8
    assert sorted(i for group in groups for i in group.sites) == list(range(100))
    for group in groups:
        values = [keys[i][0] for i in group.sites]
        assert max(values) - min(values) < 14
        assert min(values) < keys[group.typical][0] < max(values)
    assert [group.sites for group in alike([(1.0,), (2.0,), (1.0,)])] == [(0, 2), (1,)]


def test_of_many_sites_a_small_a_middle_and_a_large_one_are_left_out():
    spec = replace(
        QUICK, records=tuple(range(50, 260, 10)), agents=21, rounds=3, seeds=3, like="flat"
    )
    names = [each.name for each in plan(spec).joining.absences]
    assert len(names) == 3
    left = [int(name.removeprefix("one like agent ")) for name in names]
    assert left == sorted(left)
    assert left[0] < 3
    assert left[2] > 17


# -- the words -----------------------------------------------------------------------------------


def made(alone, together, majority=0.4, without=None, skewed=False):
    """Return the sentence for one site among two, of six runs on three populations."""

    def runs(error):
        return Forecast(1.0, tuple(error + 0.001 * np.arange(6)))

    def change(one, other):
        gain = tuple(np.full(6, one - other) + 1e-4 * np.arange(6))
        return Change("joining", "with everybody", gain, (0, 0, 1, 1, 2, 2))

    site = SiteForecast(
        ("hospital 4",), (500, 500), (1.0, 1.0), runs(alone), runs(together), runs(alone),
        runs(together), (majority,) * 6, change(alone, together),
    )  # fmt: skip
    away = [
        Absence(name, runs(error), change(together, error), (runs(error),),
                (change(together, error),))
        for name, error in (without or {}).items()
    ]  # fmt: skip
    return Joining((site,), tuple(away), skewed).sentences()[0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"alone": 0.31, "together": 0.17, "without": {"hospital 5": 0.17}},
            "Joining takes hospital 4 from 0.31 to 0.17; without any one of the others it would be "
            "the same.",
        ),
        (
            {"alone": 0.31, "together": 0.17, "without": {"a": 0.20, "b": 0.17}},
            "Joining takes hospital 4 from 0.31 to 0.17; without a it would be 0.20, without any "
            "other the same.",
        ),
        (
            {"alone": 0.45, "together": 0.17},
            "Joining takes hospital 4 from 0.45, no better than the commonest class, to 0.17.",
        ),
        (
            {"alone": 0.17, "together": 0.17},
            "Joining changes little for hospital 4: 0.173 alone, 0.173 together.",
        ),
        (
            {"alone": 0.17, "together": 0.22, "without": {"b": 0.16}},
            "Joining takes hospital 4 from 0.17 up to 0.22: it is better off alone; without b it "
            "would be 0.16.",
        ),
        (
            {"alone": 0.31, "together": 0.24, "majority": 0.24},
            "Joining gives hospital 4 an error of 0.24, no better than always naming the commonest "
            "class (0.24).",
        ),
        (
            {"alone": 0.17, "together": 0.24, "majority": 0.24},
            "Joining gives hospital 4 an error of 0.24, no better than always naming the commonest "
            "class (0.24); alone it gets 0.17.",
        ),
        (
            {"alone": 0.31, "together": 0.17, "skewed": True},
            "Joining takes hospital 4 from 0.31 to 0.17 on records like its own (on everybody's "
            "records 0.31 alone, 0.17 together).",
        ),
    ],
)
def test_the_verdict_is_one_plain_sentence(given, sentence):
    assert made(**given) == sentence


def test_a_difference_that_hangs_on_the_data_is_not_called_the_same():
    spread = Change("joining", "", (0.3, 0.3, -0.2, -0.2, 0.0, 0.0), (0, 0, 1, 1, 2, 2))
    assert (spread.direction(0.005), spread.is_small(0.005)) == (0, False)


def test_useless_is_judged_population_by_population():
    assert is_useless([0.1, 0.3, 0.5], [0.1, 0.3, 0.5])
    assert not is_useless([0.3, 0.3, 0.3], [0.5, 0.5, 0.2])
    assert not is_useless([], [])


def test_a_forecast_no_better_than_the_commonest_class_says_so_first():
    found = plan(replace(QUICK, records=(40,), epsilon=0.05, epsilons=(0.05,)))
    assert found.useless
    assert found.to_dict()["no_better_than_commonest_class"] is True
    assert plan_text(found).startswith("Not worth running as it is: the expected error, ")
    assert any("Not worth running" in line for line in short_text(found))
    page = render_plan(found)
    assert page.index("Not worth running") < page.index("No run was made")
    assert "no better than always naming the commonest class" in found.joining.sentences()[0]


def test_a_good_forecast_does_not(quick):
    assert not quick.useless
    assert plan_text(quick).startswith("Plan for ")


def test_no_noise_for_one_site_alone_is_said():
    found = plan(replace(QUICK, eta=1e-6))
    assert found.expected.infeasible
    assert all("no noise reaches the budget" in words for words in found.joining.sentences())
    assert {site.verdict for site in found.joining.sites} == {"unknown"}
    json.dumps(found.to_dict(), allow_nan=False)
    assert "no noise reaches it" in plan_text(found)


def test_the_json_has_every_site(quick):
    plain = json.loads(json.dumps(quick.to_dict(), allow_nan=False))["joining"]
    assert [site["records"] for site in plain["sites"]] == [[3000] * 2, [900] * 2, [200] * 2]
    for k, site in enumerate(plain["sites"]):
        assert site["alone"]["low"] <= site["alone"]["error"] <= site["alone"]["high"]
        told = [each["name"] for each in site["without"] if each["own"] is not None]
        assert told == [f"agent {i}" for i in range(3) if i != k]


# -- whose records -------------------------------------------------------------------------------


def test_skew_keeps_sizes_and_class_shares_and_moves_the_mixes():
    rng = np.random.default_rng(0)
    codes = (rng.random(60_000) < 0.25).astype(int)
    sizes = (20_000, 6_000, 500)
    for alpha, least in ((0.3, 0.1), (100.0, 0.0)):
        dealing = ByLabel(codes, codes[:1000], alpha, (0, 1))
        mixes = dealing.mixes(sizes)
        assert mixes.sum(axis=1) == pytest.approx(np.ones(3))
        assert np.average(mixes[:, 1], weights=sizes) == pytest.approx(0.25, abs=0.005)
        assert np.ptp(mixes[:, 1]) > least
        rows = dealing.rows(sizes, mixes)
        assert [len(own) for own in rows] == list(sizes)
        assert len(np.unique(np.concatenate(rows))) == sum(sizes)
        found = [codes[own].mean() for own in rows]
        assert found == pytest.approx(mixes[:, 1], abs=1.0 / 500)
    assert np.ptp(mixes[:, 1]) < 0.1


def test_a_site_that_a_column_names_gets_its_own_records():
    holders = np.repeat([0, 1, 0, 1], [3, 2, 3, 2])
    dealing = BySite(holders, np.array([0, 0, 1]))
    rows = dealing.rows((3, 2, 3, 2), dealing.mixes((3, 2, 3, 2)))
    assert [holders[own].tolist() for own in rows] == [[0] * 3, [1] * 2, [0] * 3, [1] * 2]
    assert len(np.unique(np.concatenate(rows))) == 10
    assert [cell.tolist() for cell in dealing.cells] == [[0, 1], [2]]


def test_even_parts_are_cut_one_after_the_other():
    rows = Evenly([]).rows((2, 3), np.ones((2, 0)))
    assert [own.tolist() for own in rows] == [[0, 1], [2, 3, 4]]


def test_whole_parts_add_up():
    assert whole_parts(10, np.array([1.0, 1.0, 1.0])) == [4, 3, 3]
    assert whole_parts(1, np.array([0.2, 0.8])) == [0, 1]


def test_the_own_error_of_skewed_sites_weighs_the_classes():
    found = plan(replace(QUICK, partition="dirichlet:0.3"))
    assert found.joining.skewed
    sites = found.joining.sites
    assert len({site.own_together for site in sites}) == 3
    assert {site.together for site in sites} == {found.expected}
    text = " ".join(plan_text(found).split())
    assert "skewed labels (Dirichlet, α = 0.3)" in text
    assert "on records like its own" in text
    even = plan(QUICK)
    assert found.non_private == even.non_private


def test_sites_by_a_column_of_public_records(tmp_path):
    import pyarrow as pa
    import pyarrow.csv as csv

    table = load("synthetic").table.slice(0, 3000)
    whose = ["north"] * 1800 + ["south"] * 900 + ["west"] * 300
    rng = np.random.default_rng(0)
    csv.write_csv(
        table.append_column("clinic", pa.array(rng.permutation(whose))), tmp_path / "public.csv"
    )
    spec = PlanSpec.of(
        public=str(tmp_path / "public.csv"), label="income", graph="ring", seeds=3, rounds=10,
        epsilons=(1.0,), changes=False, partition="column:clinic", joining=True,
    )  # fmt: skip
    found = plan(spec)
    assert [site.names for site in found.joining.sites] == [
        ("clinic north",), ("clinic south",), ("clinic west",),
    ]  # fmt: skip
    counts = [site.records[0] for site in found.joining.sites]
    assert sum(counts) == load(str(tmp_path / "public.csv"), label="income").train_records
    assert counts == sorted(counts, reverse=True)
    assert found.notes == ()
    assert plan(found.spec) == found
    declared = plan(replace(spec, records=(400, 900, 100)))
    assert [site.records[0] for site in declared.joining.sites] == [400, 900, 100]
    assert "more than once" in declared.notes[0]  # of 900 in the south a part is for testing


def test_few_stand_for_many_together_but_a_small_site_alone_has_its_own():
    """A site of 500 among millions is simulated alone with 500 records, not with a handful."""
    given = replace(QUICK, records=(2_000_000, 500), agents=2, graph="complete", rounds=5)
    alone = plan(given).joining.sites[1].alone
    beside = plan(replace(given, records=(2000, 500))).joining.sites[1].alone
    assert alone.median == pytest.approx(beside.median, abs=0.05)


def test_private_data_are_never_read(monkeypatch):
    monkeypatch.delenv("PPADMM_DATA", raising=False)

    def refuse(*arguments, **options):
        raise AssertionError(f"opened {arguments}")

    for name in ("builtins.open", "pathlib.Path.open", "ppadmm.planning.populations.load"):
        monkeypatch.setattr(name, refuse)
    spec = replace(QUICK, records=(60, 80, 90), seeds=3, partition="dirichlet:1")
    assert plan(replace(spec, epsilons_per_agent=(1.0, 2.0, 3.0))).joining.sites


def test_what_else_is_forecast_changes_no_forecast():
    """Where β hangs on ε, the budgets of a curve do not share one."""
    one = replace(QUICK, records=(100_000,), agents=1, features=8, seeds=3)
    curve = plan(replace(one, epsilons=(1.0, 4.0))).curve
    assert curve[0].errors == pytest.approx(plan(one).expected.errors, abs=1e-3)


# -- scenarios -----------------------------------------------------------------------------------


def scenario(graph, fractions=()):
    sizes = tuple(100 * (i + 1) for i in range(graph.size))
    return Scenario(sizes, 5, graph, Logistic(), MethodSpec(delta=1e-5), fractions)


@pytest.mark.parametrize("kind", ["ring", "star", "complete"])
def test_without_a_site_the_network_stays_of_its_kind(kind):
    left = scenario(make_graph(kind, 5)).without([0])
    assert left.graph == make_graph(kind, 4)
    assert left.records == (200, 300, 400, 500)


def test_a_network_of_its_own_closes_the_gap():
    hub = Graph(4, ((0, 1), (1, 2), (1, 3)), "agreement")
    left = scenario(hub, (1.0, 0.5, 0.25, 0.125)).without([1])
    assert left.graph.edges == ((0, 1), (1, 2))
    assert left.fractions == (1.0, 0.25, 0.125)


def test_every_site_is_calibrated_for_its_own_budget():
    case = scenario(make_graph("ring", 3), (1.0, 0.5, 1.0))
    assert case.budgets(2.0) == [Budget(2.0, 1e-5), Budget(1.0, 1e-5), Budget(2.0, 1e-5)]
    first, second, _ = setup(case, 2.0).noise
    equal = setup(replace(case, fractions=()), 2.0).noise
    assert second["sigma1"] > 1.5 * equal[1]["sigma1"]
    assert first["sigma1"] < 1.5 * equal[0]["sigma1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilons_per_agent": (1.0, 2.0)}, "epsilons per agent for 3 agents, got 2"),
        ({"epsilons_per_agent": (1.0, 2.0, -1.0)}, "epsilon > 0"),
        ({"partition": "column:clinic"}, "needs public records that have the column"),
        ({"partition": "files"}, "reads no files of agents"),
        ({"partition": "odd"}, "Unknown partition 'odd'"),
        ({"partition": "dirichlet:-1"}, "α"),
        ({"agents": 1, "records": (9,), "algorithm": "dvp"}, "Unknown algorithm 'dvp'"),
        ({"graph": make_graph("ring", 4)}, "network of 3 agents, got one of 4"),
    ],
)
def test_bad_input_is_one_sentence(given, message):
    with pytest.raises(InputError, match=message) as caught:
        plan(replace(QUICK, **given))
    assert "\n" not in str(caught.value)
