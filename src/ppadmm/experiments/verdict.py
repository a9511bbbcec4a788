"""What may be claimed about a run, and what may not."""

from typing import TYPE_CHECKING, Any

from ppadmm.algorithms import ALGORITHMS, STATISTICS, recipe_named
from ppadmm.experiments.spec import RunSpec
from ppadmm.privacy import accountant as accounting
from ppadmm.privacy.statement import CAVEATS, UNITS, Statement, finite_or_none, worst
from ppadmm.problem import LOSSES
from ppadmm.registry import Registry

if TYPE_CHECKING:
    from ppadmm.experiments.train import Played, Prepared


def statement_of(prepared: "Prepared", played: "Played") -> Statement:
    """Return what may be claimed about a run, and what may not."""
    spec, reserved, trace = prepared.spec, played.reserved, played.trace
    reasons = tuple(not_private_because(prepared))
    bound = worst(reserved, spec.delta)
    proven = finite_or_none(bound.epsilon)
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
        claimed_epsilon=None
        if spec.algorithm == "non-private"
        else max(budget.epsilon for budget in spec.budgets),
        epsilons=tuple(
            finite_or_none(accounting.epsilon(tally, spec.delta).epsilon) for tally in reserved
        ),
        releases=tuple(int(count) for count in trace.messages[:, 0]),
        noise_source=recipe_named(spec.algorithm).noise_source
        if spec.seed is None
        else "seeded NumPy (simulation)",
        warnings=(*_claim_warnings(prepared, proven), *_warnings(prepared)),
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
        reasons.append("the schema (bounds, categories, classes) was inferred from the records")
    if prepared.scene.dealt.not_private_because:
        reasons.append(prepared.scene.dealt.not_private_because)
    return reasons


def _caveats(prepared: "Prepared") -> tuple[str, ...]:
    own = prepared.scene.dealt.caveat
    return CAVEATS if own is None else (own, *CAVEATS)


def _claim_warnings(prepared: "Prepared", proven: float | None) -> list[str]:
    """Flag a claim that the accountant does not prove for the noise that was used."""
    spec = prepared.spec
    claimed = max(budget.epsilon for budget in spec.budgets)
    if spec.calibration == "proven" or (proven is not None and proven <= claimed):
        return []
    found = "no ε at all" if proven is None else f"ε = {proven:.3g} only"
    return [
        f"the paper's formulas claim ε = {claimed:g} for this noise, but the accountant proves "
        f"{found}: do not rely on the claim."
    ]


def _warnings(prepared: "Prepared") -> list[str]:
    return [*_own_warnings(prepared.spec), *_delta_warnings(prepared)]


def _own_warnings(spec: RunSpec) -> list[str]:
    """Name what did not come with ppadmm: nobody here has proved anything about it."""
    chosen: list[tuple[Registry[Any], str]] = [(ALGORITHMS, spec.algorithm), (LOSSES, spec.loss)]
    if spec.algorithm == "ipp":
        chosen.append((STATISTICS, spec.speaking.statistic))
    return [
        f"the {registry.kind} {name!r} is not part of ppadmm: the guarantee rests on what its "
        "author declares about it."
        for registry, name in chosen
        if name in registry.own
    ]


def _delta_warnings(prepared: "Prepared") -> list[str]:
    spec, least = prepared.spec, min(part.n for part in prepared.scene.shards)
    if spec.algorithm == "non-private" or spec.delta <= 1.0 / least:
        return []
    return [
        f"δ = {spec.delta:g} is above 1/n = {1.0 / least:.2g}: a mechanism with such a δ may "
        "publish a whole record; choose δ well below 1/n."
    ]
