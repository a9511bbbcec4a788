"""Compare several certificates of one run where all must say the same.

Each signer speaks for its own records, so ε and events differ. The terms, the parties and, at
everyone who reached the end of the run, the model do not. Nothing is recomputed here.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import chain
from typing import Any

from ppadmm import canonical
from ppadmm.algorithms import ALGORITHMS
from ppadmm.errors import CertificateError
from ppadmm.statements.recheck import WEIGHT_TOLERANCE, weight_share
from ppadmm.summing.trust import SUM

ENDED = "the run ended before its time: "
"""How the warning of a run begins that has no common model."""
SHOWN = 3
Plain = dict[str, Any]
Look = Callable[[Plain], Any]
TERMS = (
    "settings_digest", "schema_digest", "delta", "adjacency", "unit", "claim.calibration",
    "run.algorithm", "run.loss", "run.rounds", "run.eta", "run.regularisation", "run.beta",
    "run.weights", "run.features", "run.parameters", "run.edges", "trust.kind", "trust.sites",
    "trust.colluding", "trust.repeats", "trust.records",
)  # fmt: skip
"""Entries of the statement that every certificate of a run must have alike."""


def require_together(bodies: Sequence[Plain]) -> None:
    """Check that certificates are of one run, or name who differs in which entry."""
    if found := differences(bodies):
        raise CertificateError("They do not agree: " + "; ".join(found) + ".")


def differences(bodies: Sequence[Plain]) -> list[str]:
    """Return every entry in which certificates that should agree do not, and who differs."""
    if len(bodies) < 2:
        return []
    return list(chain(_signers(bodies), _terms(bodies), _keys(bodies), _sites(bodies)))


def absent(bodies: Sequence[Plain]) -> list[str]:
    """Return the keys of parties whose certificates are not among these."""
    return sorted(set(chain(*map(parties, bodies))) - {_key(body) for body in bodies})


def parties(body: Plain) -> list[str]:
    """Return the keys of all parties, the signer's own among them."""
    return sorted({_key(body), *body["peers"]})


def has_common_model(body: Plain) -> bool:
    """Say whether its signer reached the end of the run, where all have the same model."""
    return not any(warning.startswith(ENDED) for warning in body["statement"]["warnings"])


def _signers(bodies: Sequence[Plain]) -> Iterator[str]:
    for same in _groups(bodies, _key).values():
        if len(same) > 1:
            names = ", ".join(repr(body["signer"]["name"]) for body in same)
            yield f"{len(same)} of them are signed with the same key {_key(same[0])} ({names})"


def _terms(bodies: Sequence[Plain]) -> Iterator[str]:
    for name in TERMS:
        yield from _compared(name, bodies, bodies, partial(_entry, name))
    finished = [body for body in bodies if has_common_model(body)]
    yield from _compared("model", finished, bodies, lambda body: body["model"])


def _compared(
    name: str, bodies: Sequence[Plain], all_of_them: Sequence[Plain], look: Look
) -> Iterator[str]:
    """Yield one line if the entry differs: the values, rarest first, and who has each."""
    groups = sorted(_groups(bodies, look).values(), key=len)
    if len(groups) > 1:
        said = [f"{_who(same, all_of_them)}: {_short(look(same[0]))}" for same in groups]
        yield f"{name} differs ({'; '.join(said)})"


def _keys(bodies: Sequence[Plain]) -> Iterator[str]:
    """Yield who leaves out a party that others name or signed as, and whom."""
    owners = {_key(body): f" of {_who([body], bodies)}" for body in bodies}
    for body in bodies:
        strangers = set(chain(*map(parties, bodies))) - set(parties(body))
        for key in sorted(strangers):
            who = _who([body], bodies)
            yield f"{who} does not name {key}{owners.get(key, '')} among its peers"


def _sites(bodies: Sequence[Plain]) -> Iterator[str]:
    """Yield what is wrong with sites that each speak for one agent of a network."""
    alone = [body for body in bodies if _speaks_for_one(body)]
    for body in alone:
        own = _own(body)["name"]
        if own != body["signer"]["name"]:
            yield f"{_who([body], bodies)} speaks of the records of {own!r}"
        size = 1 + max(chain(*body["statement"]["run"]["edges"]))
        if size != len(parties(body)):
            count = len(parties(body))
            yield f"{_who([body], bodies)} names {count} parties, its network has {size}"
    for same in _groups(alone, lambda body: _own(body)["agent"]).values():
        if len(same) > 1:
            number = _own(same[0])["agent"]
            yield f"{_who(same, bodies)} all speak of agent {number}"
    yield from _weights([body for body in alone if _own(body)["records"]], bodies)
    yield from _shares([body for body in alone if _entry("trust.kind", body) == SUM], bodies)


def _weights(holders: Sequence[Plain], bodies: Sequence[Plain]) -> Iterator[str]:
    """Yield who has another weight for what counts of it than the first, unless all are alike."""
    if not holders or holders[0]["statement"]["run"]["weights"] == "equal":
        return
    first, *others = holders
    for body in others:
        if not math.isclose(_rate(body), _rate(first), rel_tol=WEIGHT_TOLERANCE):
            yield (
                f"each record of {_who([body], bodies)} has a weight of {_rate(body):.6g}, of "
                f"{_who([first], bodies)} {_rate(first):.6g}"
            )
    total = math.fsum(_own(body)["weight"] for body in holders)
    if not absent(bodies) and not math.isclose(total, len(holders), rel_tol=1e-9):
        yield f"the weights of {len(holders)} sites with records add up to {total:.6g}"


def _shares(adding: Sequence[Plain], bodies: Sequence[Plain]) -> Iterator[str]:
    """Yield who adds another share of the noise of a sum than others: all add the same."""
    names = dict.fromkeys(chain(*(_own(body)["noise"] for body in adding)))
    for name in names:
        sizes = [_own(body)["noise"].get(name, 0.0) for body in adding]
        for body, size in zip(adding, sizes, strict=True):
            if size < max(sizes) * (1.0 - WEIGHT_TOLERANCE):
                yield (
                    f"{_who([body], bodies)} adds a share of {size:.6g} to the noise of a sum "
                    f"({name}), others {max(sizes):.6g}"
                )


def _rate(body: Plain) -> float:
    """Return the weight of a record; by noise, of one that is as certain."""
    own = _own(body)
    return float(own["weight"] / weight_share(body["statement"], own))


def _own(body: Plain) -> Plain:
    """Return what a site that speaks for one agent says of it."""
    agent: Plain = body["statement"]["agents"][0]
    return agent


def _speaks_for_one(body: Plain) -> bool:
    agents, run = body["statement"]["agents"], body["statement"]["run"]
    recipe = ALGORITHMS.get(run["algorithm"])
    pooled = recipe is not None and recipe.pooled  # one agent stands for all: it has their records
    return len(agents) == 1 and len(run["edges"]) > 0 and not pooled


def _entry(name: str, body: Plain) -> Any:
    return reduce(lambda part, key: part[key], name.split("."), body["statement"])


def _groups(bodies: Sequence[Plain], look: Look) -> dict[bytes, list[Plain]]:
    found: dict[bytes, list[Plain]] = {}
    for body in bodies:
        found.setdefault(canonical.dumps(look(body)), []).append(body)
    return found


def _key(body: Plain) -> str:
    return str(body["signer"]["key"])


def _who(some: Sequence[Plain], among: Sequence[Plain]) -> str:
    """Name signers; where a name does not tell two apart, with the beginning of the key."""
    names = [body["signer"]["name"] for body in among]
    said = [_name(body, names.count(body["signer"]["name"]) > 1) for body in some]
    if len(said) > SHOWN:
        said = [*said[: SHOWN - 1], f"{len(said) - SHOWN + 1} more"]
    return ", ".join(said[:-1]) + " and " + said[-1] if len(said) > 1 else said[0]


def _name(body: Plain, with_key: bool) -> str:
    name = repr(body["signer"]["name"])
    return f"{name} ({_key(body)[:12]}…)" if with_key else name


def _short(value: Any) -> str:
    text = canonical.dumps(value).decode().strip('"')
    return text if len(text) <= 20 else f"{text[:12]}…"
