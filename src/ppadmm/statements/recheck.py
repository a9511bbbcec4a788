"""Whether a statement is true as far as it can be seen from itself.

Every figure that follows from the events is worked out again with `ppadmm.accounting.recompute`,
and what the statement says in words must fit the events: whom they protect, that each round in
which an agent spoke was paid for, and that noise which protects was not drawn from a seed.

A figure that bounds what can be learnt may be larger than the least that the events prove: every
order and every theorem gives a true bound, and another accountant may have tried others. Only one
that is too small is false. What is larger is told.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ppadmm import canonical
from ppadmm.accounting import recompute
from ppadmm.accounting.calibration import Budget
from ppadmm.algorithms import ALGORITHMS
from ppadmm.algorithms.weights import share
from ppadmm.errors import CertificateError
from ppadmm.statements.claims import SEEDED
from ppadmm.statements.noise_check import require_noise
from ppadmm.statements.trust_claim import TrustClaim

TOLERANCE = 1e-6
"""Relative difference of the two accountants that is put down to rounding and their searches."""
WEIGHT_TOLERANCE = 1e-8
"""That of weights: those by noise rest on a ratio that is known to 1e-9."""
LARGEST_EPSILON = 1e6
"""Beyond it weights by noise are not worked out."""
Plain = dict[str, Any]


def require_true(statement: Plain) -> list[str]:
    """Check all of a statement that follows from its events, or raise `CertificateError`.

    Return every figure that is larger than the events need, in words.
    """
    _require_trust(statement)
    _require_protected(statement)
    delta = statement["delta"]
    found = [_epsilons(agent["reserved"], [delta])[0] for agent in statement["agents"]]
    more = []
    for agent, epsilon in zip(statement["agents"], found, strict=True):
        more += _require_epsilon(f"Agent {agent['agent']}", agent["epsilon"], epsilon, delta)
        _require_within(agent)
        _require_paid(agent, statement["run"]["algorithm"])
    more += _require_epsilon("The run", statement["epsilon"], max(found), delta)
    _require_largest(statement)
    _require_weights(statement)
    _require_curvature(statement)
    require_noise(statement)
    _require_verdict(statement)
    _require_tuned(statement)
    more += _require_curves(statement)
    if statement["released"] != _released(statement):
        raise CertificateError("Its counts of what was released are not those of the agents.")
    return more


def counted(events: Sequence[Plain]) -> Counter[bytes]:
    """Return how often each event happens."""
    counts: Counter[bytes] = Counter()
    for event in events:
        rest = {name: value for name, value in event.items() if name != "times"}
        counts[canonical.dumps(rest)] += event["times"]
    return counts


# -- every agent ------------------------------------------------------------------------------


def _epsilons(events: Sequence[Plain], deltas: Sequence[float]) -> list[float]:
    try:
        return recompute.epsilons(events, deltas)
    except ValueError as error:
        raise CertificateError(f"Its events have no ε: {error}.") from None


def _require_epsilon(what: str, stated: float | None, found: float, delta: float) -> list[str]:
    """Refuse an ε below what the events give, which is false; return one that is above, in words.

    None states no ε, so it cannot be too small.
    """
    if not _is_at_least(_number(stated), found, 1e-9):
        raise CertificateError(
            f"{what}: it states ε = {_spelt(stated)} at δ = {delta:g}, but the events give "
            f"{found:.8g}."
        )
    if _is_at_least(found, _number(stated), 1e-9):
        return []
    return [f"{what}: ε = {_spelt(stated)} at δ = {delta:g}, where the events give {found:.8g}"]


def _require_largest(statement: Plain) -> None:
    """Refuse a run whose ε is not the largest of its agents'."""
    largest = max(_number(agent["epsilon"]) for agent in statement["agents"])
    if _number(statement["epsilon"]) != largest:
        raise CertificateError(
            f"The run: it states ε = {_spelt(statement['epsilon'])}, but {largest:.8g} is the "
            "largest of its agents."
        )


def _is_at_least(larger: float, smaller: float, absolute: float) -> bool:
    """Say whether one number is as large as another, but for rounding."""
    near = math.isclose(larger, smaller, rel_tol=TOLERANCE, abs_tol=absolute)
    return larger > smaller or near


def _spelt(stated: float | None) -> str:
    return "none" if stated is None else f"{stated:.8g}"


def _require_within(agent: Plain) -> None:
    reserved, booked = counted(agent["reserved"]), counted(agent["booked"])
    if booked - reserved:
        raise CertificateError(f"Agent {agent['agent']} booked more than it reserved.")


def _require_paid(agent: Plain, algorithm: str) -> None:
    """Refuse an agent that spoke about its records more often than it paid."""
    if not agent["records"] or not agent["releases"]:
        return
    paid = max(_by_kind(agent["booked"]).values(), default=0)
    if paid < (agent["releases"] if _always_charged(algorithm) else 1):
        raise CertificateError(
            f"Agent {agent['agent']} spoke {agent['releases']} times and paid for {paid}."
        )


def _always_charged(algorithm: str) -> bool:
    """Whether an agent with records speaks only in rounds that it pays for, as far as is known."""
    recipe = ALGORITHMS.get(algorithm)
    return recipe is not None and recipe.always_charged


def _by_kind(events: Sequence[Plain]) -> Counter[str]:
    """Count releases by kind; a sampler's distance is none."""
    counts: Counter[str] = Counter()
    for event in events:
        if event["event"] != "Approximate":
            counts[event["event"]] += event["times"]
    return counts


# -- the public terms -------------------------------------------------------------------------


def _require_weights(statement: Plain) -> None:
    """Refuse weights that do not follow from records and budgets, where all are there."""
    agents, kind = statement["agents"], statement["run"]["weights"]
    if not knows_weights(statement):
        return
    shares = [1.0 if kind == "equal" else weight_share(statement, agent) for agent in agents]
    holders = len(agents) if kind == "equal" else sum(agent["records"] > 0 for agent in agents)
    total = sum(shares) or 1.0
    for agent, part in zip(agents, shares, strict=True):
        true = holders * part / total
        if not math.isclose(agent["weight"], true, rel_tol=WEIGHT_TOLERANCE):
            raise CertificateError(
                f"Agent {agent['agent']} has a weight of {agent['weight']:g}, by {kind} it is "
                f"{true:g}."
            )


def weight_share(statement: Plain, agent: Plain) -> float:
    """Return what an agent's weight is in proportion to, where not all count alike."""
    kind, claimed = statement["run"]["weights"], agent.get("claimed")
    if kind != "noise" or claimed is None:
        return float(agent["records"])
    if not 0.0 < claimed <= LARGEST_EPSILON:
        raise CertificateError(
            f"Agent {agent['agent']} counts by its noise, which ε = {claimed:g} does not say."
        )
    budget = Budget(claimed, statement["delta"])
    return share(kind, agent["records"], budget, statement["run"]["parameters"])


def knows_weights(statement: Plain) -> bool:
    """Whether the weights of a statement follow from itself: it may speak for one site of many.

    The runs of a search have budgets of their own, which weights by noise follow.
    """
    kind, all_there = statement["run"]["weights"], len(statement["agents"]) >= _network(statement)
    searched = kind == "noise" and bool(statement["tuned"].get("search"))
    return kind == "equal" or (all_there and not searched)


def _require_curvature(statement: Plain) -> None:
    """Refuse a κ below that of the public terms, c₁w/(n(λ̂/N + 2η|B|)).

    Of a run that is not private nothing is claimed.
    """
    bend = recompute.smoothness(statement["run"]["loss"])
    if not statement["private"] or not knows_curvature(statement) or bend is None:
        return
    for agent in statement["agents"]:
        kappas = _kappas(agent)
        if not kappas:
            continue
        steep = max(agent["records"], 1) * _steepness(statement, agent["agent"])
        least = bend * agent["weight"] / steep if steep > 0.0 else math.inf
        if min(kappas) < least * (1.0 - TOLERANCE):
            raise CertificateError(
                f"Agent {agent['agent']}: an event has κ = {min(kappas):.6g}, the terms of the run "
                f"give {least:.6g}."
            )


def knows_curvature(statement: Plain) -> bool:
    """Whether every κ follows from the public terms, or there is none.

    Not with an algorithm or a loss that did not come with ppadmm, nor after a search, whose runs
    have terms of their own.
    """
    run = statement["run"]
    shipped = run["algorithm"] in ALGORITHMS and run["algorithm"] not in ALGORITHMS.own
    follows = shipped and recompute.smoothness(run["loss"]) is not None
    searched = statement["tuned"].get("search")
    return (follows and not searched) or not any(map(_kappas, statement["agents"]))


def _kappas(agent: Plain) -> list[float]:
    return [event["kappa"] for event in agent["reserved"] if "kappa" in event]


def _steepness(statement: Plain, agent: int) -> float:
    """λ̂/N + 2η|B|, or λ̂/N for who listens to nobody."""
    run, recipe = statement["run"], ALGORITHMS.get(statement["run"]["algorithm"])
    near = {j for edge in run["edges"] if agent in edge for j in edge} - {agent}
    degree = len(near) if recipe is not None and recipe.listens else 0
    return float(run["regularisation"] / _network(statement) + 2.0 * run["eta"] * degree)


def _network(statement: Plain) -> int:
    """Return the number of agents, or 1 where all records are at one place."""
    recipe, edges = ALGORITHMS.get(statement["run"]["algorithm"]), statement["run"]["edges"]
    if recipe is not None and recipe.pooled:
        return 1
    return 1 + max((max(edge) for edge in edges), default=0)


# -- the run ----------------------------------------------------------------------------------


def _require_verdict(statement: Plain) -> None:
    claim = statement["claim"]
    aimed, proven = claim["epsilon"], statement["epsilon"]
    own = [a["claimed"] for a in statement["agents"] if a.get("claimed") is not None]
    if own and max(own) != aimed:
        raise CertificateError(
            f"It claims ε = {aimed}, while ε = {proven} is proven and an agent claims {max(own)}."
        )
    if statement["private"] != (not statement["not_private_because"]):
        raise CertificateError("It calls the run private and says why it is not, or neither.")
    if statement["private"] and (proven is None or claim["calibration"] != "proven"):
        raise CertificateError("It calls a run private that has no proven ε.")
    holds = None if aimed is None else _are_proven(statement)
    if claim["proven"] != holds or (statement["private"] and not holds):
        raise CertificateError(f"It claims ε = {aimed}, and ε = {proven} is proven.")


def _are_proven(statement: Plain) -> bool:
    """Say whether each agent's claim is proven; earlier versions state one for all."""
    aimed = statement["claim"]["epsilon"]
    pairs = [(agent["epsilon"], agent.get("claimed", aimed)) for agent in statement["agents"]]
    return all(None not in pair and pair[0] <= pair[1] for pair in pairs)


def _require_trust(statement: Plain) -> None:
    """Check that what ε rests on fits the run, is told in its own words, and is one for all."""
    claim, said = TrustClaim.from_dict(statement["trust"]), statement["trust"]
    recipe = ALGORITHMS.get(statement["run"]["algorithm"])
    edges, agents = statement["run"]["edges"], statement["agents"]
    sites = 1 + max((max(edge) for edge in edges), default=0)
    if claim.sites != sites:
        raise CertificateError(f"It names {claim.sites} sites, its network has {sites}.")
    if claim.by_sum != (claim.colluding is not None):
        raise CertificateError("It names how many may collude without sums, or sums without it.")
    if claim.by_sum and not (recipe is None or recipe.sums):
        raise CertificateError(f"{statement['run']['algorithm']!r} has no sums that hide sites.")
    if not 0 <= (claim.colluding or 0) < sites:
        raise CertificateError(f"Of {sites} sites {claim.colluding} cannot collude.")
    if said != claim.to_dict():
        raise CertificateError(f"Its words are not those of trust {claim.name!r}.")
    held, whole = sum(agent["records"] for agent in agents), len(agents) >= _network(statement)
    if claim.records < held or (whole and claim.records != held):
        raise CertificateError(f"It names {claim.records} records, its agents have {held}.")
    if claim.by_sum and len({agent["claimed"] for agent in agents}) > 1:
        raise CertificateError("Sums have one ε for all sites, it claims several.")


def _require_protected(statement: Plain) -> None:
    """Check that the words say what the events protect, and that secret noise does."""
    adjacency, unit = statement["adjacency"], statement["unit"]
    protected = TrustClaim.from_dict(statement["trust"]).unit(adjacency)
    if unit != protected:
        raise CertificateError(
            f"It speaks of {unit!r}; what {adjacency} protects is {protected!r}."
        )
    try:
        for agent in statement["agents"]:
            recompute.require_adjacency(agent["reserved"], adjacency)
    except ValueError as error:
        raise CertificateError(
            f"Its events are not those of neighbours by {adjacency}: {error}."
        ) from None
    booked = statement["booked"]
    if booked is not None and booked["adjacency"] != adjacency:
        raise CertificateError(
            f"It protects by {adjacency} and is charged to a grant for {booked['adjacency']}: the "
            "two do not add up."
        )
    if statement["private"] and statement["noise_source"] == SEEDED:
        raise CertificateError("It calls a run private whose noise follows from a seed.")


def _require_tuned(statement: Plain) -> None:
    """Check that a search on the records is part of ε, and that nothing else says it was one."""
    tuned = statement["tuned"]
    price = statement["epsilon"] if tuned["on_the_records"] else 0.0
    if tuned["epsilon"] != price or (tuned.get("search") and not tuned["on_the_records"]):
        raise CertificateError("What it says of a search on the records is not part of its ε.")


def _released(statement: Plain) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for agent in statement["agents"]:
        for event in agent["booked"]:
            counts[event["event"]] += event["times"]
    return dict(counts)


# -- curves -----------------------------------------------------------------------------------


def _require_curves(statement: Plain) -> list[str]:
    """Check every point of every curve; return one that is above what the events need, if any."""
    events = [agent["reserved"] for agent in statement["agents"]]
    distinct = list({canonical.dumps(each): each for each in events}.values())
    curves = statement["curves"]
    more = []
    points = list(_points(curves, "epsilon_by_delta", 0.0, 1.0))
    agents = [_epsilons(each, [delta for delta, _ in points]) for each in distinct]
    for (delta, epsilon), *found in zip(points, *agents, strict=True):
        more += _require_epsilon("The curve", epsilon, max(found), delta)
    for order, divergence in _points(curves, "divergence_by_order", 1.0, math.inf):
        found = max(recompute.renyi(each, order) for each in distinct)
        if not _is_at_least(_number(divergence), found, 1e-12):
            raise CertificateError(
                f"The Rényi curve states {divergence} at order {order}, the events give {found}."
            )
    _require_trade_off(curves)
    _require_gaussian(curves["gaussian"], distinct)
    return more[:1]


def _points(curves: Plain, name: str, low: float, high: float) -> Iterator[list[Any]]:
    """Return the points of a curve; each begins with a number between `low` and `high`."""
    for point in curves[name]:
        if point[0] is None or not low < point[0] < high:
            raise CertificateError(f"Its curve {name} has a point at {point[0]}.")
        yield point


def _require_trade_off(curves: Plain) -> None:
    """Check that no attacker is said to be worse off than ε by δ makes him."""
    for first, second in curves["errors_of_an_attacker"]:
        if first is None or second is None or not (0.0 <= first <= 1.0 and second >= 0.0):
            raise CertificateError("An attacker's errors are no probabilities.")
        best = 0.0
        for delta, epsilon in curves["epsilon_by_delta"]:
            if epsilon is not None and epsilon < 700.0:
                best = max(best, 1.0 - delta - math.exp(epsilon) * first)
                best = max(best, math.exp(-epsilon) * (1.0 - delta - first))
        if not _is_at_least(best, second, 1e-9):
            raise CertificateError(
                f"An attacker's errors ({first}, {second}) do not follow from ε."
            )


def _require_gaussian(stated: Plain | None, distinct: Sequence[Sequence[Plain]]) -> None:
    """Check the Gaussian mechanism that the run is said to be, or to be close to."""
    if stated is None:
        return
    kinds = {event["event"] for events in distinct for event in events}
    ratio = max(math.sqrt(math.fsum(map(_square, events))) for events in distinct)
    exact = "ObjectivePerturbation" not in kinds
    known = kinds <= {"Gaussian", "ObjectivePerturbation", "Approximate"}
    if not known or stated["exact"] != exact or not math.isclose(stated["ratio"], ratio):
        raise CertificateError(f"It is no Gaussian mechanism with a ratio of {stated['ratio']}.")


def _square(event: Plain) -> float:
    return float(event["times"] * event.get("ratio", 0.0) ** 2)


def _number(value: float | None) -> float:
    return math.inf if value is None else value
