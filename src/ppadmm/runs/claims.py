"""What may be claimed about a run, and what may not."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppadmm.accounting import accountant as accounting
from ppadmm.algorithms import ALGORITHMS, STATISTICS, recipe_named
from ppadmm.peers.agreement import Agreement
from ppadmm.problem import LOSSES
from ppadmm.registry import Registry
from ppadmm.runs.federation import strictest
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import (
    CAVEATS,
    SEEDED,
    UNCONFIRMED,
    UNITS,
    Statement,
    delta_warnings,
    finite_or_none,
    worst,
)

if TYPE_CHECKING:
    from ppadmm.runs.run import EngineOutput, Prepared


def statement_of(prepared: "Prepared", played: "EngineOutput") -> Statement:
    """Return what may be claimed about a run, and what may not."""
    spec, reserved, trace = prepared.spec, played.reserved, played.trace
    reasons = tuple(not_private_because(prepared))
    bound = worst(reserved, spec.delta)
    proven = finite_or_none(bound.epsilon)
    each = tuple(finite_or_none(accounting.epsilon(t, spec.delta).epsilon) for t in reserved)
    return Statement(
        private=not reasons,
        not_private_because=reasons,
        unit=UNITS[spec.adjacency],
        adjacency=spec.adjacency,
        epsilon=proven,
        delta=spec.delta,
        theorem=None if proven is None else bound.theorem,
        accountant=accounting.VERSION,
        calibration=spec.calibration,
        claims=_claims(spec),
        epsilons=each,
        releases=tuple(int(count) for count in trace.messages[:, 0]),
        noise_source=recipe_named(spec.algorithm).noise_source if spec.seed is None else SEEDED,
        warnings=(*_claim_warnings(prepared, each), *_warnings(prepared)),
        caveats=_caveats(prepared),
    )


def not_private_because(prepared: "Prepared") -> list[str]:
    """Return why no run of this may be called private; empty if it may."""
    spec = prepared.spec
    reasons = []
    if why := recipe_named(spec.algorithm).not_private_because:
        reasons.append(why)
    if spec.seed is not None:
        reasons.append(f"the noise follows from the seed {spec.seed}, so anyone can remove it")
    if spec.calibration == "paper":
        reasons.append("the paper's calibration is not proven")
    if not prepared.scene.schema.confirmed:
        reasons.append(UNCONFIRMED)
    if prepared.scene.dealt.not_private_because:
        reasons.append(prepared.scene.dealt.not_private_because)
    return reasons


def _caveats(prepared: "Prepared") -> tuple[str, ...]:
    own = prepared.scene.dealt.caveat
    return CAVEATS if own is None else (own, *CAVEATS)


def _claims(spec: RunSpec) -> tuple[float | None, ...]:
    """Return what each agent's noise is calibrated for."""
    pooled = recipe_named(spec.algorithm).pooled
    budgets = [strictest(spec.budgets)] if pooled else spec.budgets
    bare = spec.algorithm == "non-private"
    return tuple(None if bare else budget.epsilon for budget in budgets)


def _claim_warnings(prepared: "Prepared", proven: Sequence[float | None]) -> list[str]:
    """Flag every agent's claim that the accountant does not prove, the worst first."""
    spec = prepared.spec
    if spec.calibration == "proven":
        return []
    names = prepared.scene.names if len(proven) > 1 else ("all",)
    false = [
        (name, claim, found)
        for name, claim, found in zip(names, _claims(spec), proven, strict=True)
        if claim is not None and (found is None or found > claim)
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


def _warnings(prepared: "Prepared") -> list[str]:
    return [*own_warnings(prepared.spec), *_delta_warnings(prepared)]


def own_warnings(terms: RunSpec | Agreement) -> list[str]:
    """Name what did not come with ppadmm: nobody here has proved anything about it."""
    chosen: list[tuple[Registry[Any], str]] = [(ALGORITHMS, terms.algorithm), (LOSSES, terms.loss)]
    if terms.algorithm == "ipp":
        chosen.append((STATISTICS, terms.speaking.statistic))
    return [
        f"the {registry.kind} {name!r} is not part of ppadmm: the guarantee rests on what its "
        "author declares about it."
        for registry, name in chosen
        if name in registry.own
    ]


def _delta_warnings(prepared: "Prepared") -> list[str]:
    if prepared.spec.algorithm == "non-private":
        return []
    return delta_warnings(prepared.spec.delta, max(part.n for part in prepared.scene.shards))
