"""Whether the noise that sites of Newton name is that of the public terms, worked out again.

One record moves a mean of second moments by √2/n when it is replaced and by 1/n when it is left
out, a mean slope by 2G/n or G/n (docs/privacy.md, section 18). With local trust n counts the site's
own records and the noise is its own. With sums n counts the records of all sites, and of their
noises those of N − c sites protect a record: σ²(N − c) is the noise of the sum. Only what is too
small is false for a site's own noise. A share must be what the terms make it: the claim of all
other sites rests on it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ppadmm.algorithms import ALGORITHMS
from ppadmm.errors import CertificateError
from ppadmm.statements.trust_claim import TrustClaim

Plain = dict[str, Any]
TOLERANCE = 1e-6
ROOM = 1.0 + 2.0**-10
"""By how much noise is larger than it need be, for the rounding of values to a grid."""
UNIT_ROUNDOFF = 2.0**-53
FARTHEST = 1e4
"""‖θ‖, which the rounding of a slope grows with."""
STEEPEST = {"logistic": 1.0, "huber-hinge": 1.0, "multinomial": math.sqrt(2.0)}
MOMENTS, SLOPES = "sigma_moments", "sigma1"
NOISES = {MOMENTS: "σ of second moments", SLOPES: "σ of slopes"}
"""How the noises of Newton are spelt."""
NEWTON = "newton"


def knows_noise(statement: Plain) -> bool:
    """Whether the noise follows from the terms: not after a search, whose runs have their own."""
    run = statement["run"]
    shipped = run["algorithm"] == NEWTON and NEWTON not in ALGORITHMS.own
    return shipped and _steepness(run) is not None and not statement["tuned"].get("search")


def require_noise(statement: Plain) -> None:
    """Refuse noise that is not that of the terms, events for other noise, and too few of them."""
    if not knows_noise(statement):
        return
    claim = TrustClaim.from_dict(statement["trust"])
    for agent in statement["agents"]:
        if claim.by_sum or agent["records"]:
            _require_own(statement, claim, agent)


def _require_own(statement: Plain, claim: TrustClaim, agent: Plain) -> None:
    """Compare what one record may move with the noise, and that with the events."""
    n = claim.records if claim.by_sum else agent["records"]
    needed = []
    for name, moved, slack, times in _releases(statement, claim, n):
        sigma = agent["noise"].get(name, 0.0)
        if not sigma > 0.0:
            raise CertificateError(f"Agent {agent['agent']} names no noise {name}.")
        least = moved / (sigma * _together(claim))
        needed.append((least * (1.0 - TOLERANCE), times))
        if claim.by_sum and agent["records"]:
            _require_share(agent, name, (least, least * (1.0 + slack / moved)))
    if agent["records"]:
        _require_events(agent, needed)


def _releases(
    statement: Plain, claim: TrustClaim, n: int
) -> Iterator[tuple[str, float, float, int]]:
    """Return each kind of release: its noise, what a record moves, room for rounding, how often."""
    run, both = statement["run"], statement["adjacency"] == "replace-one"
    steep, again = float(_steepness(run) or 0.0), claim.repeats
    numbers = run["features"] + run["parameters"]
    rounding = 8.0 * UNIT_ROUNDOFF * (n + 2 * numbers + 64)
    far = 8.0 * UNIT_ROUNDOFF * FARTHEST * (run["features"] + 4)
    moved = (math.sqrt(2.0) if both else 1.0) / n
    yield MOMENTS, moved * ROOM, rounding, 1 + again
    slope = (2.0 if both else 1.0) * steep / n
    yield SLOPES, slope * ROOM, steep * (rounding + far), run["rounds"] - 1 + again


def _steepness(run: Plain) -> float | None:
    """Return G of a loss by its name, None for one that is not known here."""
    name = run["loss"].removeprefix("one-vs-rest ")
    if name not in STEEPEST:
        return None
    classes = run["parameters"] / run["features"] if name != run["loss"] else 1.0
    return STEEPEST[name] * math.sqrt(classes)


def _together(claim: TrustClaim) -> float:
    """Return √(N − c): how much larger the noise of those who keep theirs is than one share."""
    return math.sqrt(claim.sites - (claim.colluding or 0)) if claim.by_sum else 1.0


def _require_share(agent: Plain, name: str, ratios: tuple[float, float]) -> None:
    """Refuse a share of which no event has the ratio that N, c and the records give it."""
    low, high = ratios
    events = [event["ratio"] for event in agent["reserved"] if event["event"] == "Gaussian"]
    near = [r for r in events if low * (1.0 - TOLERANCE) <= r <= high * (1.0 + TOLERANCE)]
    if not near:
        closest = min(events, key=lambda r: abs(r - low), default=math.nan)
        raise CertificateError(
            f"Agent {agent['agent']}: its share of the noise, {name} = {agent['noise'][name]:.6g}, "
            f"with N, c and the records of all sites gives a ratio of {low:.6g}; its events say "
            f"{closest:.6g}."
        )


def _require_events(agent: Plain, needed: Sequence[tuple[float, int]]) -> None:
    """Refuse events that are fewer or of more noise than what the terms release."""
    gaussian = [event for event in agent["reserved"] if event["event"] == "Gaussian"]
    held = sorted(((event["ratio"], event["times"]) for event in gaussian), reverse=True)
    for least, _ in needed:
        wanted = sum(times for ratio, times in needed if ratio >= least)
        there = sum(times for ratio, times in held if ratio >= least)
        if there < wanted:
            raise CertificateError(
                f"Agent {agent['agent']}: the terms release {wanted} times with a ratio of "
                f"{least:.6g} or more, its events have {there}."
            )
