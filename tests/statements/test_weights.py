"""Weights in certificates: they follow from public numbers, and κ follows from them."""

import math
from dataclasses import replace

import pytest

from ppadmm.accounting import Budget
from ppadmm.algorithms.weights import site_weights
from ppadmm.errors import CertificateError
from ppadmm.statements.certificate import check
from ppadmm.statements.json_schema import schema
from ppadmm.statements.trust_claim import TrustClaim
from tests.statements.signed import certificate, forged, statement

HEAVY = 3
"""The last of four agents has 20,000 records of 33,000."""


def of_agent(change, number=HEAVY):
    return lambda body: change(body["statement"]["agents"][number])


def with_kappa(factor):
    """Let every event of the heavy agent have another κ, reserved and booked alike."""

    def change(agent):
        for event in (*agent["reserved"], *agent["booked"]):
            if "kappa" in event:
                event["kappa"] *= factor

    return of_agent(change)


def with_weight(weight, number=HEAVY):
    return of_agent(lambda agent: agent.update(weight=weight), number)


def of_run(**changes):
    return lambda body: body["statement"]["run"].update(changes)


def fitting(change):
    """A change after which sites and records are named as the rest of the statement has them."""

    def changed(body):
        change(body)
        said = body["statement"]
        sites = 1 + max((max(edge) for edge in said["run"]["edges"]), default=0)
        records = sum(agent["records"] for agent in said["agents"])
        said["trust"] = replace(
            TrustClaim.from_dict(said["trust"]),
            sites=sites, records=records, place="network" if sites > 1 else "alone",
        ).to_dict()  # fmt: skip

    return changed


def _weight(data):
    return check(data).statement["agents"][3]["weight"]


def test_by_records_weights_add_up_to_the_number_of_sites():
    agents = statement("unequal")["agents"]
    assert [agent["weight"] for agent in agents] == pytest.approx(
        [4 / 33, 12 / 33, 36 / 33, 80 / 33]
    )
    kappas = [agent["reserved"][0]["kappa"] for agent in agents]
    degrees = [sum(i in edge for edge in statement("unequal")["run"]["edges"]) for i in range(4)]
    assert [k * d for k, d in zip(kappas, degrees, strict=True)] == pytest.approx(
        [kappas[0] * degrees[0]] * 4
    ), "κ = c₁/(n(λ̂/N + 2η|B|)/w) is that of all records wherever they are"
    assert check(certificate("unequal")).statement == statement("unequal")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_weight(1.0), "has a weight of 1, by records it is 2.42424"),
        (with_weight(0.0), "has a weight of 0, by records it is 2.42424"),
        (with_weight(80 / 33 * (1 - 1e-6)), "by records it is 2.42424"),
        (with_weight(1.0, number=0), "Agent 0 has a weight of 1, by records it is 0.121212"),
        (of_run(weights="equal"), "by equal it is 1"),
        (of_run(weights="alike"), "is not one of"),
        (with_kappa(33 / 80), "an event has κ = .*, the terms of the run give"),
        (with_kappa(1 - 1e-5), "an event has κ = "),
        (of_run(eta=0.0), "the terms of the run give inf"),
        (of_run(eta=-1.0), "the terms of the run give inf"),
        (of_run(edges=[]), "by records it is|terms of the run give"),
        (of_agent(lambda agent: agent.update(records=5)), "has a weight of"),
        (of_agent(lambda agent: agent.update(records=10**400)), "records is too large"),
        (with_weight(10**400), "weight is too large"),
        (with_weight(-1.0), "weight is too small"),
        (of_run(regularisation=10**400), "regularisation is too large"),
        (
            lambda body: [agent.update(records=0) for agent in body["statement"]["agents"]],
            "by records it is 0",
        ),
    ],
)
def test_a_lie_about_weights_or_what_follows_is_refused(change, reason):
    with pytest.raises(CertificateError, match=reason):
        check(forged(fitting(change), "unequal"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_weight(1.0), "has a weight of 1, by noise it is "),
        (of_run(weights="records"), "by records it is "),
        (of_run(parameters=400_000), "by noise it is "),
        (of_agent(lambda agent: agent.update(claimed=40.0)), "by noise it is "),
        (of_agent(lambda agent: agent.update(claimed=1e7)), "which ε = 1e.07 does not say"),
        (with_kappa(1 - 1e-5), "an event has κ = "),
    ],
)
def test_a_lie_about_weights_by_noise_is_refused(change, reason):
    assert check(certificate("by-noise")).statement == statement("by-noise")
    with pytest.raises(CertificateError, match=reason):
        check(forged(change, "by-noise"))


def test_weights_by_noise_follow_records_and_budgets():
    agents = statement("by-noise")["agents"]
    budgets = [Budget(agent["claimed"], statement("by-noise")["delta"]) for agent in agents]
    records = [agent["records"] for agent in agents]
    true = site_weights("noise", records, budgets, statement("by-noise")["run"]["parameters"])
    assert [agent["weight"] for agent in agents] == pytest.approx(true, rel=1e-9)
    assert agents[0]["weight"] > agents[1]["weight"]  # fewer records, a larger budget


def test_a_larger_kappa_costs_more_and_is_no_lie():
    """Noise may be for a smaller μ than the run has; then ε must be that of the larger κ."""
    with pytest.raises(CertificateError, match="the events give"):
        check(forged(with_kappa(1.5), "unequal"))


def test_a_lie_that_fits_in_itself_is_left_to_the_agreement():
    """Other numbers of records, with the weights that follow: nothing in it says no."""

    def change(body):
        sizes = [1000, 3000, 9000, 40000]
        for agent, n in zip(body["statement"]["agents"], sizes, strict=True):
            agent.update(records=n, weight=4 * n / sum(sizes))

    assert math.isclose(_weight(forged(fitting(change), "unequal")), 160 / 53)


def test_a_loss_that_is_not_known_here_is_told():
    verdict = check(forged(of_run(loss="mine"), "unequal"))
    assert "κ of its events, which does not follow from the terms it names" in verdict.unchecked
    assert not any("κ" in note for note in check(certificate("unequal")).unchecked)


def test_a_neighbour_that_is_named_twice_counts_once():
    def change(body):
        run = body["statement"]["run"]
        run["edges"] = run["edges"] * 3
        with_kappa(1 / 3)(body)

    with pytest.raises(CertificateError, match="an event has κ = "):
        check(forged(change, "unequal"))


def test_a_search_that_is_not_mentioned_is_none():
    def change(body):
        del body["statement"]["tuned"]["search"]

    assert check(forged(change, "unequal")).statement["private"]


def test_the_schema_of_a_certificate_has_that_of_a_statement_in_it():
    inner, outer = schema("statement"), schema("certificate")["$defs"]
    assert {name: inner[name] for name in outer["statement"]} == outer["statement"]
    assert {name: outer[name] for name in inner["$defs"]} == inner["$defs"]
