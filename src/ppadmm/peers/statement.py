"""What one site may claim about a run over a network: about its own records, and no others."""

from collections import Counter
from typing import Any

from ppadmm import __version__
from ppadmm.accounting import Tally
from ppadmm.accounting import accountant as accounting
from ppadmm.accounting.curves import curves
from ppadmm.accounting.event_data import to_plain
from ppadmm.peers.site import PublicPart
from ppadmm.runs.claims import own_warnings
from ppadmm.runs.disclosure import FORMAT, KIND, UNTRIED
from ppadmm.statements.claims import CAVEATS, UNITS, Statement, delta_warnings, finite_or_none
from ppadmm.statements.consistency import ENDED

PUBLIC = (
    "the run agreement, with the number of records and the budget of every party",
    "the schema: columns, bounds, categories and classes (a person confirmed)",
    "the size of every party's noise, which follows from the agreement",
    "when this site spoke: times of messages are not protected",
)


def statement_of(part: PublicPart, reserved: Tally, releases: int, ended: str = "") -> Statement:
    """Return what this site may claim about its own records."""
    terms = part.agreement
    bound = accounting.epsilon(reserved, terms.delta)
    proven, own = finite_or_none(bound.epsilon), terms.parties[part.number]
    noiseless = terms.algorithm == "non-private"
    return Statement(
        private=not part.not_private_because,
        not_private_because=part.not_private_because,
        unit=UNITS[terms.adjacency],
        adjacency=terms.adjacency,
        epsilon=proven,
        delta=terms.delta,
        theorem=None if proven is None else bound.theorem,
        accountant=accounting.VERSION,
        calibration=terms.calibration,
        claims=(None if noiseless else own.epsilon,),
        epsilons=(proven,),
        releases=(releases,),
        noise_source=part.noise_source,
        warnings=tuple(_warnings(part, ended)),
        caveats=(f"This is about the records of {own.name!r} alone.", *CAVEATS),
    )


def _warnings(part: PublicPart, ended: str) -> list[str]:
    terms = part.agreement
    found = [*([f"{ENDED}{ended}."] if ended else []), *own_warnings(terms)]
    if terms.algorithm != "non-private":
        found += delta_warnings(terms.delta, part.records)
    return found


def disclosure_of(
    part: PublicPart,
    statement: Statement,
    reserved: Tally,
    spent: Tally,
    started: str,
    entry: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the statement as data: this site's events, under the digest that all signed."""
    terms = part.agreement
    aimed, proven, holds = statement.claimed_epsilon, statement.epsilon, statement.claims_hold
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": __version__,
        "started": started,
        "private": statement.private,
        "not_private_because": list(statement.not_private_because),
        "unit": statement.unit,
        "adjacency": statement.adjacency,
        "epsilon": proven,
        "delta": statement.delta,
        "bound": statement.theorem,
        "claim": {"calibration": statement.calibration, "epsilon": aimed, "proven": holds},
        "accountant": statement.accountant,
        "agents": [_own_events(part, statement, reserved, spent)],
        "released": _counted(spent),
        "curves": curves([reserved]),
        "run": _run_of(part),
        "tuned": {
            "rounds": "given", "eta": "given", "regularisation": "given",
            "on_the_records": False, "epsilon": 0.0, "note": UNTRIED, "search": None,
        },
        "public": list(PUBLIC),
        "schema_digest": terms.schema,
        "settings_digest": terms.digest,
        "noise_source": statement.noise_source,
        "warnings": list(statement.warnings),
        "caveats": list(statement.caveats),
        "booked": entry,
    }  # fmt: skip


def _own_events(
    part: PublicPart, statement: Statement, reserved: Tally, spent: Tally
) -> dict[str, Any]:
    bound = accounting.epsilon(reserved, statement.delta)
    return {
        "agent": part.number,
        "name": part.agreement.parties[part.number].name,
        "records": part.records,
        "claimed": statement.claims[0],
        "epsilon": finite_or_none(bound.epsilon),
        "bound": bound.theorem,
        "releases": statement.releases[0],
        "reserved": to_plain(reserved),
        "booked": to_plain(spent),
    }


def _counted(spent: Tally) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for event, times in spent.counts:
        counts[type(event).__name__] += times
    return dict(counts)


def _run_of(part: PublicPart) -> dict[str, Any]:
    terms = part.agreement
    return {
        "algorithm": terms.algorithm,
        "loss": part.loss.name,
        "rounds": terms.rounds,
        "eta": terms.eta,
        "regularisation": terms.regularisation,
        "beta": terms.beta,
        "features": part.schema.dimension,
        "parameters": part.parameters,
        "edges": [list(edge) for edge in terms.edges],
    }
