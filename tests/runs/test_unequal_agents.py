import pytest

from ppadmm import RunSpec, train
from ppadmm.accounting import epsilon
from ppadmm.errors import InputError


def test_every_agent_is_held_to_its_own_budget():
    spec = RunSpec(agents=3, graph="ring", rounds=4, seed=0, epsilons=(0.5, 1.0, 4.0))
    result = train(spec)
    assert result.statement.epsilons == pytest.approx((0.5, 1.0, 4.0), abs=1e-6)
    assert all(
        proven <= e for proven, e in zip(result.statement.epsilons, spec.epsilons, strict=True)
    )
    noise = [each["sigma1"] for each in result.noise]
    assert noise[0] > noise[1] > noise[2]


def test_the_statement_spells_out_unequal_budgets():
    spec = RunSpec(agents=3, graph="ring", rounds=2, epsilons=(0.5, 1.0, 4.0))
    text = train(spec).statement.text()
    assert text.startswith("PRIVATE: ε = 4 at most (0.5, 1, 4 by agent) at δ = 1e-06")


def test_the_statement_names_the_noise_in_use():
    sources = {
        name: train(
            RunSpec(agents=3, graph="ring", rounds=2, algorithm=name)
        ).statement.noise_source
        for name in ("pp", "dvp", "non-private")
    }
    assert sources["pp"] == "exact sampler, secure"
    assert "floating point" in sources["dvp"]
    assert sources["non-private"] == "none"


def test_fewer_records_need_more_noise():
    spec = RunSpec(agents=3, graph="ring", rounds=4, seed=0, records=(1000, 5000, 20000))
    result = train(spec)
    assert result.setup.records == (1000, 5000, 20000)
    noise = [each["sigma1"] for each in result.noise]
    assert noise[0] > 3 * noise[1] > 9 * noise[2]


def test_pooled_records_are_protected_by_the_strictest_budget():
    spec = RunSpec(agents=3, algorithm="centralised", seed=0, epsilons=(0.5, 1.0, 4.0))
    assert train(spec).statement.epsilon <= 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilons": (1.0, 2.0)}, "epsilons for 3 agents, got 2"),
        ({"records": (1, 2, 3, 4)}, "records for 3 agents, got 4"),
        ({"epsilons": (1.0, -1.0, 2.0)}, "epsilon > 0"),
    ],
)
def test_bad_lists(changes, message):
    with pytest.raises(InputError, match=message):
        RunSpec(agents=3, **changes)


def test_the_spent_budget_is_the_reserved_one_for_pp():
    from ppadmm.engines import local
    from ppadmm.problem import make_graph
    from tests.small_problems import make_agents, make_settings

    agents = make_agents(make_graph("ring", 3), make_settings())
    local.run(agents)
    for agent in agents:
        ledger = agent.ledgers[0]
        assert epsilon(ledger.spent, 1e-5) == epsilon(ledger.reserved, 1e-5)


@pytest.mark.parametrize("algorithm", ["pp", "ipp", "dvp", "m-admm", "r-admm", "gradient"])
def test_an_agent_without_records_listens_and_spends_nothing(algorithm):
    spec = RunSpec(
        agents=4, graph="ring", algorithm=algorithm, rounds=6, seed=0, records=(9000, 0, 9000, 9000)
    )
    result = train(spec)
    assert result.statement.epsilons[1] == 0.0
    assert result.noise[1]["sigma1"] == 0.0
    assert result.setup.records == (9000, 0, 9000, 9000)
    assert min(e for k, e in enumerate(result.statement.epsilons) if k != 1) > 0.5


def test_a_listener_ends_with_the_same_model_as_everyone():
    spec = RunSpec(
        agents=4,
        graph="star",
        algorithm="non-private",
        rounds=800,
        eta=0.02,
        regularisation=0.5,
        seed=0,
        records=(0, 400, 400, 400),
    )
    models = train(spec).trace.releases[-1, :, 0]
    assert abs(models - models.mean(axis=0)).max() < 1e-4
    assert abs(models).max() > 0.1


def test_someone_must_have_records():
    with pytest.raises(InputError, match="at least one agent with records"):
        train(RunSpec(agents=2, graph="ring", records=(0, 0)))
    with pytest.raises(InputError, match="Agent 1 has no records"):
        train(RunSpec(agents=2, graph="ring", algorithm="one-shot", records=(500, 0)))
