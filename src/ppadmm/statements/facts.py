"""What is public of a run, and what each agent paid and released: all that a statement says.

Simulations and sites of a network fill in the same value; `statement_of` turns it into what may be
claimed and `disclosure_of` into statement.json.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ppadmm import __version__
from ppadmm.accounting import Tally, accountant
from ppadmm.accounting.accountant import Bound
from ppadmm.accounting.curves import curves
from ppadmm.accounting.event_data import to_plain
from ppadmm.algorithms import ALGORITHMS, STATISTICS
from ppadmm.algorithms.method import MethodSpec
from ppadmm.problem import LOSSES
from ppadmm.registry import Registry
from ppadmm.sampling.choice import in_words
from ppadmm.statements.certificate import STATEMENT_FORMAT
from ppadmm.statements.claims import (
    SEEDED,
    UNCONFIRMED,
    Statement,
    caveats_of,
    delta_warnings,
    finite_or_none,
)
from ppadmm.statements.trust_claim import TrustClaim

FORMAT, KIND = STATEMENT_FORMAT, "ppadmm privacy statement"
UNTRIED = (
    "This run tried nothing on the records to choose its settings. Settings that a person gave "
    "must not come from looking at them, or from runs that are not in the ledger: each private "
    "trial costs an ε of its own."
)


@dataclass(frozen=True)
class AgentFacts:
    """One agent: what its noise was calibrated for, how often it spoke, and its events.

    `weight` is how much it counts in the objective. `noise` has the sizes of the noise it adds: of
    its own, or of its share of a sum's.
    """

    number: int
    name: str
    records: int
    weight: float
    claimed: float | None
    releases: int
    reserved: Tally
    spent: Tally
    noise: dict[str, float]


@dataclass(frozen=True)
class Tuning:
    """Where T, η and λ̂ come from: given, by rule, or chosen on the records by a search."""

    rounds: str = "given"
    eta: str = "given"
    regularisation: str = "given"
    note: str = UNTRIED
    search: dict[str, Any] | None = None

    def to_dict(self, epsilon: float | None) -> dict[str, Any]:
        """Return plain data; a search is part of the run's `epsilon`."""
        return {
            "rounds": self.rounds,
            "eta": self.eta,
            "regularisation": self.regularisation,
            "on_the_records": self.search is not None,
            "epsilon": 0.0 if self.search is None else epsilon,
            "note": self.note,
            "search": self.search,
        }


@dataclass(frozen=True)
class RunFacts:
    """The public terms of a run, with tallies and numbers of releases for each agent.

    `method` has nothing left open; `loss` is the one that it comes to with these classes. `total`
    counts the records of all sites, of whom `agents` may be one. `schema` and `settings` are
    digests. `warnings` and `caveats` are this run's own; the usual ones follow.
    """

    method: MethodSpec
    loss: str
    rounds: int
    features: int
    parameters: int
    edges: tuple[tuple[int, int], ...]
    agents: tuple[AgentFacts, ...]
    total: int
    schema: str
    settings: str
    public: tuple[str, ...]
    started: str
    noise_source: str
    not_private_because: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    tuning: Tuning = Tuning()
    booked: dict[str, Any] | None = None

    @property
    def trust(self) -> TrustClaim:
        """What the claim rests on."""
        sites = 1 + max((max(edge) for edge in self.edges), default=0)
        return TrustClaim.of(self.method, sites, self.total)

    @property
    def bounds(self) -> list[Bound]:
        """What is proven for every agent."""
        return [accountant.epsilon(agent.reserved, self.method.delta) for agent in self.agents]


def reasons_against(method: MethodSpec, seed: int | None, confirmed: bool) -> list[str]:
    """Return why no run of this may be called private, as far as these say; empty if it may."""
    reasons = []
    if why := method.recipe.not_private_because:
        reasons.append(why)
    if seed is not None:
        reasons.append(f"the noise follows from the seed {seed}, so anyone can remove it")
    if method.calibration == "paper":
        reasons.append("the paper's calibration is not proven")
    if not confirmed:
        reasons.append(UNCONFIRMED)
    return reasons


def noise_source(method: MethodSpec, seed: int | None) -> str:
    """Return where the noise comes from, in words."""
    return (method.recipe.noise_source or in_words()) if seed is None else SEEDED


# -- what may be claimed ----------------------------------------------------------------------


def statement_of(facts: RunFacts) -> Statement:
    """Return what may be claimed about a run, and what may not."""
    method, bounds = facts.method, facts.bounds
    worst = max(bounds, key=lambda bound: bound.epsilon)
    proven = finite_or_none(worst.epsilon)
    each = tuple(finite_or_none(bound.epsilon) for bound in bounds)
    return Statement(
        trust=facts.trust,
        private=not facts.not_private_because,
        not_private_because=facts.not_private_because,
        unit=facts.trust.unit(method.adjacency),
        adjacency=method.adjacency,
        epsilon=proven,
        delta=method.delta,
        theorem=None if proven is None else worst.theorem,
        accountant=accountant.VERSION,
        calibration=method.calibration,
        claims=tuple(agent.claimed for agent in facts.agents),
        epsilons=each,
        releases=tuple(agent.releases for agent in facts.agents),
        noise_source=facts.noise_source,
        warnings=(*facts.warnings, *_usual_warnings(facts, each)),
        caveats=(*facts.caveats, *caveats_of(facts.trust.by_sum)),
    )


def _usual_warnings(facts: RunFacts, proven: Sequence[float | None]) -> list[str]:
    found = [*_claim_warnings(facts, proven), *_own_warnings(facts.method)]
    if not facts.method.recipe.noiseless:
        found += delta_warnings(facts.method.delta, max(agent.records for agent in facts.agents))
    return found


def _own_warnings(method: MethodSpec) -> list[str]:
    """Name what did not come with ppadmm: nobody here has proved anything about it."""
    chosen: list[tuple[Registry[Any], str]] = [
        (ALGORITHMS, method.algorithm),
        (LOSSES, method.loss),
    ]
    if method.recipe.tests:
        chosen.append((STATISTICS, method.speaking.statistic))
    return [
        f"the {registry.kind} {name!r} is not part of ppadmm: the guarantee rests on what its "
        "author declares about it."
        for registry, name in chosen
        if name in registry.own
    ]


def _claim_warnings(facts: RunFacts, proven: Sequence[float | None]) -> list[str]:
    """Flag every agent's claim that the accountant does not prove, the worst first."""
    if facts.method.calibration == "proven":
        return []
    false = [
        (agent.name, agent.claimed, found)
        for agent, found in zip(facts.agents, proven, strict=True)
        if agent.claimed is not None and (found is None or found > agent.claimed)
    ]
    worst_first = sorted(false, key=lambda each: -math.inf if each[2] is None else -each[2])
    groups = _alike(worst_first, len(proven))
    return [_false_claim(who, *which) for which, who in groups.items()]


def _alike(
    false: Sequence[tuple[str, float, float | None]], of: int
) -> dict[tuple[float, float | None], str]:
    """Name together the agents whose claims and proofs are the same; none if that is everyone."""
    names: dict[tuple[float, float | None], list[str]] = {}
    for name, claim, found in false:
        names.setdefault((claim, found), []).append(name)
    return {
        which: "" if len(who) == of else f" at {', '.join(who)}" for which, who in names.items()
    }


def _false_claim(who: str, claim: float, proven: float | None) -> str:
    found = "no ε at all" if proven is None else f"ε = {proven:.3g} only"
    return (
        f"the paper's formulas claim ε = {claim:g} for this noise{who}, but the accountant proves "
        f"{found}: do not rely on the claim."
    )


# -- statement.json ---------------------------------------------------------------------------


def disclosure_of(facts: RunFacts, statement: Statement) -> dict[str, Any]:
    """Return the statement as plain data; schemas/statement.schema.json says what entries mean."""
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": __version__,
        "started": facts.started,
        "trust": statement.trust.to_dict(),
        "private": statement.private,
        "not_private_because": list(statement.not_private_because),
        "unit": statement.unit,
        "adjacency": statement.adjacency,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "bound": statement.theorem,
        "claim": {
            "calibration": statement.calibration,
            "epsilon": statement.claimed_epsilon,
            "proven": statement.claims_hold,
        },
        "accountant": statement.accountant,
        "agents": _agents(facts),
        "released": _released(facts),
        "curves": curves([agent.reserved for agent in facts.agents]),
        "run": _run(facts),
        "tuned": facts.tuning.to_dict(statement.epsilon),
        "public": list(facts.public),
        "schema_digest": facts.schema,
        "settings_digest": facts.settings,
        "noise_source": statement.noise_source,
        "warnings": list(statement.warnings),
        "caveats": list(statement.caveats),
        "booked": facts.booked,
    }


def _agents(facts: RunFacts) -> list[dict[str, Any]]:
    return [
        {
            "agent": agent.number,
            "name": agent.name,
            "records": agent.records,
            "weight": agent.weight,
            "claimed": agent.claimed,
            "epsilon": finite_or_none(bound.epsilon),
            "bound": bound.theorem,
            "releases": agent.releases,
            "noise": agent.noise,
            "reserved": to_plain(agent.reserved),
            "booked": to_plain(agent.spent),
        }
        for agent, bound in zip(facts.agents, facts.bounds, strict=True)
    ]


def _released(facts: RunFacts) -> dict[str, int]:
    """Count what was booked, over all agents, by kind of event."""
    counts: Counter[str] = Counter()
    for agent in facts.agents:
        for event, times in agent.spent.counts:
            counts[type(event).__name__] += times
    return dict(counts)


def _run(facts: RunFacts) -> dict[str, Any]:
    method = facts.method
    return {
        "algorithm": method.algorithm,
        "loss": facts.loss,
        "rounds": facts.rounds,
        "eta": method.eta,
        "regularisation": method.regularisation,
        "beta": method.beta,
        "weights": method.weighting,
        "features": facts.features,
        "parameters": facts.parameters,
        "edges": [list(edge) for edge in facts.edges],
    }
