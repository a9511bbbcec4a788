"""ε from events, a second time: written from docs/privacy.md, sharing no code with the accountant.

Nothing is imported from ppadmm, and where there is a choice the other way is taken: quadrature for
the moment of χ and for the Gaussian profile, the closed sum for the tail of χ², bisection for
roots, another search over orders. Events are plain data as a statement or a certificate holds them.
A certificate is checked with this; a mistake in either shows as a difference.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Events = Sequence[Mapping[str, Any]]
ByB = Mapping[tuple[Any, ...], NDArray[np.bool_]]
"""Whether Theorem B is taken, by the constants of a release and for each λ."""

CONSTANTS = ("ratio", "kappa", "records", "span", "trace", "square")
FIELDS = {
    "Gaussian": {"ratio"},
    "ObjectivePerturbation": set(CONSTANTS),
    "Pure": {"epsilon"},
    "Approximate": {"distance"},
    "NonPrivate": set[str](),
    "RepeatAndSelect": {"runs", "mean", "shape"},
}
CHANGED = {"replace-one": 2, "zero-out": 1}
"""Records whose loss differs between neighbours (section 1)."""
SAMPLER_SHARE, TAIL_SHARE = 1e-3, 1e-2
"""Parts of δ for the sampler (section 6) and for the event outside of Theorem C (section 4)."""
LOWEST, HIGHEST = 1e-4, 1e7
"""α − 1 of the orders that are tried."""
SECOND_ORDERS = [10.0 ** (-4.0 + 11.0 * k / 95.0) for k in range(96)]
"""α̂ − 1 of the second order in section 15: these are part of the bound's definition."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def epsilon(events: Events, delta: float) -> float:
    """Return the least ε at `delta` that docs/privacy.md proves for events, or infinity."""
    return epsilons(events, [delta])[0]


def epsilons(events: Events, deltas: Sequence[float]) -> list[float]:
    """Return the same at each of several δ."""
    for event in events:
        _require_known(event)
    for delta in deltas:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"δ = {delta!r} is not between 0 and 1")
    events = [event for event in events if event["times"]]
    apart = distance(events)
    inner = [delta * (1.0 - SAMPLER_SHARE) if apart else delta for delta in deltas]
    found = zip(_by_orders(events, np.array(inner)), inner, deltas, strict=True)
    return [_least_of_all(events, float(one), part, delta) for one, part, delta in found]


def _least_of_all(events: Events, found: float, inner: float, delta: float) -> float:
    if not (_some(events, "NonPrivate") or _some(events, "RepeatAndSelect")):
        found = min(found, _all_pure(events, inner))
        found = min(found, _as_one_gaussian(events, inner, found))
    apart = distance(events)
    if apart and (1.0 + math.exp(min(found, 700.0))) * apart > SAMPLER_SHARE * delta:
        return math.inf
    return found


def renyi(events: Events, order: float) -> float:
    """Return the Rényi divergence of all events together, by Theorems A and B."""
    return float(_divergence(events, np.array([order - 1.0]))[0])


def distance(events: Events) -> float:
    """Return how far all samplers together may be from the proofs' (section 6)."""
    each = [e["distance"] * e["times"] for e in _some(events, "Approximate")]
    searches = _some(events, "RepeatAndSelect")
    each += [e["times"] * e["mean"] * max(distance(run) for run in e["runs"]) for e in searches]
    return math.fsum(each)


def require_adjacency(events: Events, adjacency: str) -> None:
    """Refuse events of other neighbours: what they cost does not add up with the rest."""
    for event in events:
        for run in event.get("runs", ()):
            require_adjacency(run, adjacency)
        if event.get("records", CHANGED[adjacency]) != CHANGED[adjacency]:
            raise ValueError(
                f"an event changes {event['records']} records at once, by {adjacency} it would be "
                f"{CHANGED[adjacency]}"
            )


def smoothness(loss: str) -> float | None:
    """Return c₁ of a loss by its name (sections 1 and 13), None for one that is not known here."""
    known = {"logistic": 0.25, "huber-hinge": 1.0, "multinomial": 0.5}
    return known.get(loss.removeprefix("one-vs-rest "))


# -- section 14: runs that were chosen one after the other ------------------------------------


def filtered(
    divergences: Sequence[float],
    distances: Sequence[float],
    epsilon_: float,
    delta: float,
    order: float,
) -> float:
    """Return what the filter of a grant (ε, δ) compares with ε, from each run's worst agent."""
    if math.fsum(distances) * (1.0 + math.exp(min(epsilon_, 700.0))) > SAMPLER_SHARE * delta:
        return math.inf
    inner = math.log(delta) + math.log1p(-SAMPLER_SHARE)
    lam = order - 1.0
    return max(
        math.fsum(divergences) + math.log(lam) - math.log(order) * (1.0 + 1.0 / lam) - inner / lam,
        0.0,
    )


# -- sections 2, 3 and 7: order by order ------------------------------------------------------


def _by_orders(events: Events, deltas: Vector) -> Vector:
    """Minimise over orders: once for every way to choose between Theorems A and B that can be best.

    With one theorem fixed for each kind of release ε has a single valley (section 7), which the
    golden section finds. As the order grows each kind goes over from A to B once: with the kinds
    sorted by where they do, the first k go by B and the others by A, for k = 0, 1, ….
    """
    turns = {kind: _turn(*kind) for kind in map(_constants, _perturbed(events))}
    kinds = sorted(turns, key=lambda kind: turns[kind])
    best, which, ways = _promising(events, deltas, np.array([turns[kind] for kind in kinds]))
    by_b = {kind: ways > rank for rank, kind in enumerate(kinds)}
    high = np.full(len(ways), math.log(HIGHEST))
    for kind, choice in by_b.items():
        high = np.where(choice, high, np.minimum(high, _end_of_a(kind[1])))

    def value(x: Vector) -> Vector:
        lam = np.exp(x)
        return np.asarray(_divergence(events, lam, by_b) + _added(lam, deltas[which]))

    np.minimum.at(best, which, _golden(value, high))
    return np.maximum(best, 0.0)


def _promising(
    events: Events, deltas: Vector, turns: Vector
) -> tuple[Vector, NDArray[np.int_], NDArray[np.int_]]:
    """Return the least ε at some orders, and where it may be less: pairs of a δ and a way.

    Divergence grows with the order, but for the log E[K]/λ of searches: between two orders ε is at
    least the first one's divergence and the least that the conversion adds.
    """
    low, high = math.log(LOWEST), math.log(HIGHEST)
    x = np.unique(np.append(np.linspace(low, high, 64), turns[(turns > low) & (turns < high)]))
    lam, delta = np.exp(x), deltas[:, None]
    divergence = _divergence(events, lam)
    falling = math.fsum(e["times"] * math.log(e["mean"]) for e in _some(events, "RepeatAndSelect"))
    bottom = np.clip(1.0 / delta - 1.0, lam[:-1], lam[1:])
    least = (divergence - falling / lam)[:-1] + falling / lam[1:] + _added(bottom, delta)
    best = (divergence + _added(lam, delta)).min(axis=1)
    which, cells = np.nonzero((least < best[:, None]) & (best[:, None] > 0.0))
    ways = np.searchsorted(turns, (x[:-1] + x[1:]) / 2.0)[cells]
    pairs = np.unique(np.stack([which, ways]), axis=1)
    return best, pairs[0], pairs[1]


def _golden(value: Callable[[Vector], Vector], high: Vector) -> Vector:
    """Return the least values, each entry of x searched for itself from the lowest order up."""
    low, high, ratio = np.full_like(high, math.log(LOWEST)), high.copy(), (math.sqrt(5.0) - 1.0) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    best = np.minimum(at_left, at_right)
    while float((high - low).max(initial=0.0)) > 1e-8:
        down = at_left < at_right
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - ratio * (high - low), low + ratio * (high - low))
        at_new = value(new)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
        best = np.minimum(best, at_new)
    return best


def _perturbed(events: Events) -> list[Mapping[str, Any]]:
    """Return the perturbed minimisers among events and in the runs of searches."""
    inner = [run for event in events for run in event.get("runs", ())]
    return _some(events, "ObjectivePerturbation") + [e for run in inner for e in _perturbed(run)]


def _constants(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(event[name] for name in CONSTANTS)


@lru_cache(maxsize=1024)
def _turn(*constants: Any) -> float:
    """Return log λ where B becomes the smaller; A − B grows with the order (section 7)."""
    event = dict(zip(CONSTANTS, constants, strict=True))
    low, high = math.log(LOWEST), min(math.log(HIGHEST), _end_of_a(event["kappa"]))
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        lam = np.array([math.exp(middle)])
        is_a = float(_theorem_a(event, lam)[0]) <= float(_theorem_b(event, lam)[0])
        low, high = (middle, high) if is_a else (low, middle)
    return low


def _end_of_a(kappa: float) -> float:
    """Return log λ up to which Theorem A speaks: λκ < 1, and no λ where κ is 1 or more."""
    if kappa >= 1.0:
        return -math.inf
    return -math.log(kappa) if kappa > 0.0 else math.inf


def _added(lam: Vector, delta: Vector) -> Vector:
    """ε − RDP(α) = log(1−1/α) − (log δ + log α)/(α−1), α = 1 + λ."""
    order = 1.0 + lam
    return np.asarray(np.log(lam / order) - (np.log(delta) + np.log(order)) / lam)


def _divergence(events: Events, lam: Vector, by_b: ByB | None = None) -> Vector:
    """Add up at each λ: by the smaller of A and B, or as `by_b` says for each kind and λ."""
    total = np.zeros_like(lam)
    for event in events:
        if event["times"]:
            total = total + event["times"] * _one(event, lam, by_b)
    return total


def _one(event: Mapping[str, Any], lam: Vector, by_b: ByB | None) -> Vector:
    if event["event"] == "Gaussian":
        return np.asarray((1.0 + lam) * event["ratio"] ** 2 / 2.0)
    if event["event"] == "ObjectivePerturbation":
        first, second = _theorem_a(event, lam), _theorem_b(event, lam)
        if by_b is None:
            return np.minimum(first, second)
        return np.where(by_b[_constants(event)], second, first)
    if event["event"] == "Pure":
        return _randomised_response(event["epsilon"], lam)
    if event["event"] == "RepeatAndSelect":
        return _best_of_several(event, lam, by_b)
    return np.full_like(lam, math.inf if event["event"] == "NonPrivate" else 0.0)


def _theorem_a(event: Mapping[str, Any], lam: Vector) -> Vector:
    """α·s²/(2σ²) + (r̄/2)[κ²/(1−κ) + λκ²/(1−λκ)] for κ < 1, λκ < 1; r̄ = mφ."""
    kappa = event["kappa"]
    gaussian = (1.0 + lam) * event["ratio"] ** 2 / 2.0
    if kappa >= 1.0:
        return np.full_like(lam, math.inf)
    room = np.where(lam * kappa < 1.0, 1.0 - lam * kappa, 1.0)
    curved = kappa**2 / (1.0 - kappa) + lam * kappa**2 / room
    bound = gaussian + event["records"] * event["square"] / 2.0 * curved
    return np.asarray(np.where(lam * kappa < 1.0, bound, math.inf))


def _theorem_b(event: Mapping[str, Any], lam: Vector) -> Vector:
    """J + s²/(2σ²) + log E exp(λ(s/σ)χ_q)/λ."""
    ratio = event["ratio"]
    return np.asarray(
        _jacobian(event) + ratio**2 / 2.0 + _log_moment(event["span"], lam * ratio) / lam
    )


def _jacobian(event: Mapping[str, Any]) -> float:
    """J = q·log(1 + ρκ/q)."""
    return float(event["span"] * math.log1p(event["trace"] * event["kappa"] / event["span"]))


def _log_moment(q: int, t: Vector) -> Vector:
    """log E exp(tχ_q) by Gauss–Legendre quadrature around the peak of r^{q−1}·exp(tr − r²/2)."""
    peak = (t + np.sqrt(t**2 + 4.0 * (q - 1.0))) / 2.0
    low, high = np.maximum(peak - 13.0, 0.0), peak + 13.0
    edges = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 14)
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2.0, (edges[:, 1:] - edges[:, :-1]) / 2.0
    r = middle[:, :, None] + half[:, :, None] * NODES
    log_f = -((r - t[:, None, None]) ** 2) / 2.0 + (q - 1.0) * np.log(r)
    top = log_f.max(axis=(1, 2))
    scaled = np.exp(log_f - top[:, None, None]) * WEIGHTS * half[:, :, None]
    constant = (1.0 - q / 2.0) * math.log(2.0) - math.lgamma(q / 2.0)
    return np.asarray(t**2 / 2.0 + top + np.log(scaled.sum(axis=(1, 2))) + constant)


def _randomised_response(each: float, lam: Vector) -> Vector:
    """log(pᵅq^{1−α} + qᵅp^{1−α})/λ with p/q = e^ε₀; never above ε₀ or αε₀²/2."""
    if each == 0.0:
        return np.zeros_like(lam)
    log_q = -(each + math.log1p(math.exp(-each)))
    forth, back = log_q + (1.0 + lam) * each, log_q - lam * each
    exact = np.maximum(forth, back) + np.log1p(np.exp(-np.abs(forth - back)))
    return np.asarray(np.minimum(np.minimum(exact / lam, each), (1.0 + lam) * each**2 / 2.0))


# -- section 15: the best of a random number of runs ------------------------------------------


def _best_of_several(event: Mapping[str, Any], lam: Vector, by_b: ByB | None) -> Vector:
    """R(α) + log E[K]/λ + (1+η)·min over α̂ of [(1−1/α̂)·R(α̂) − log γ/α̂], R the dearest run's."""
    second = np.array(SECOND_ORDERS)
    log_rate = _log_stopping_rate(event["mean"], event["shape"])
    runs = event["runs"]
    dearest = np.max([_divergence(run, second) for run in runs], axis=0)
    least = float(((second * dearest - log_rate) / (1.0 + second)).min())
    own = np.max([_divergence(run, lam, by_b) for run in runs], axis=0)
    return np.asarray(own + math.log(event["mean"]) / lam + (1.0 + event["shape"]) * least)


def _log_stopping_rate(mean: float, shape: float) -> float:
    """Return log γ with E[K] = mean, by bisection on x = −log γ: E[K] grows with x."""

    def log_mean(x: float) -> float:
        each = x if shape == 0.0 else -math.expm1(-shape * x) / shape
        return math.log(-math.expm1(-x)) + x - math.log(each)

    return -_least(lambda x: x > 0.0 and log_mean(x) >= math.log(mean)) if mean > 1.0 else 0.0


# -- section 4: the run as one Gaussian mechanism ---------------------------------------------


def _as_one_gaussian(events: Events, delta: float, known: float) -> float:
    """Return Theorem C's ε; infinity if it is not below what is `known` already."""
    steps = _some(events, "ObjectivePerturbation")
    m = math.sqrt(
        math.fsum(e["times"] * e["ratio"] ** 2 for e in [*steps, *_some(events, "Gaussian")])
    )
    shift = math.fsum(e["times"] * e["epsilon"] for e in _some(events, "Pure"))
    kappa = max((e["kappa"] for e in steps), default=0.0)
    if kappa:
        q = _chi_square_quantile(sum(e["times"] * e["records"] * e["span"] for e in steps),
                                 TAIL_SHARE * delta)  # fmt: skip
        cross = math.fsum(e["times"] * (e["kappa"] * e["ratio"]) ** 2 for e in steps)
        shift += math.fsum(e["times"] * _jacobian(e) for e in steps)
        shift += (kappa + kappa**2 / 2.0) * q + math.sqrt(cross * q)
        delta *= 1.0 - TAIL_SHARE
    if shift >= known or m >= 1e6:
        return math.inf
    return shift + _least(lambda e: _gaussian_delta(e, m) <= delta)


def _gaussian_delta(e: float, m: float) -> float:
    """E(1 − exp(e − L))₊ for L ~ N(m²/2, m²), by quadrature from where L = e upwards."""
    if m == 0.0:
        return 0.0
    start = e / m - m / 2.0
    reach = math.sqrt(start * start + 90.0) - start if start > 0.0 else 9.5 - start
    edges = np.linspace(0.0, reach, 65)
    half = reach / 128.0
    u = ((edges[1:] + edges[:-1]) / 2.0)[:, None] + half * NODES
    density = np.exp(-((start + u) ** 2) / 2.0) / math.sqrt(2.0 * math.pi)
    return float((density * -np.expm1(-m * u) * WEIGHTS).sum() * half)


def _chi_square_quantile(degrees: int, tail: float) -> float:
    """Return x with P(χ²_k > x) = tail, by the finite sum that the tail has for whole k."""
    odd = degrees % 2
    j = np.arange(1, (degrees - odd) // 2 + 1, dtype=np.float64)
    log_factor = np.cumsum(np.log(j - (0.5 if odd else 1.0) + (j == 1.0) * (not odd)))
    if odd:
        log_factor = log_factor + math.log(math.pi) / 2.0  # Γ(j + ½)
    power = j - (0.5 if odd else 1.0)

    def log_above(x: float) -> float:
        terms = power * math.log(x / 2.0) - x / 2.0 - log_factor
        first = math.erfc(math.sqrt(x / 2.0)) if odd else 0.0
        peak = max(float(terms.max(initial=-math.inf)), -700.0)
        return math.log(first + math.exp(peak) * float(np.exp(terms - peak).sum()) + 1e-320)

    return _least(lambda x: x > 0.0 and log_above(x) <= math.log(tail), start=float(degrees))


# -- section 10: pure releases only -----------------------------------------------------------


def _all_pure(events: Events, delta: float) -> float:
    pure = _some(events, "Pure")
    if not pure or len(pure) + len(_some(events, "Approximate")) < len(events):
        return math.inf
    each, k = max(e["epsilon"] for e in pure), sum(e["times"] for e in pure)
    i = np.arange(k + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, k + 1)))])
    log_choose = log_factorial[k] - log_factorial - log_factorial[::-1]
    weight = np.exp(log_choose - i * each - k * math.log1p(math.exp(-each)))
    loss = (k - 2.0 * i) * each
    return _least(lambda e: float((weight * -np.expm1(np.minimum(e - loss, 0.0))).sum()) <= delta)


# -- helpers ----------------------------------------------------------------------------------


def _least(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """Return the least x ≥ 0 from which `holds` is true, from above."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, start
    while not holds(high):
        low, high = high, 2.0 * high
        if high > 1e13:
            return math.inf
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _some(events: Events, kind: str) -> list[Mapping[str, Any]]:
    return [event for event in events if event["event"] == kind]


def _require_known(event: Mapping[str, Any]) -> None:
    wanted = FIELDS.get(event.get("event", ""))
    if wanted is None or set(event) != wanted | {"event", "times"}:
        raise ValueError(f"an event of no known kind: {dict(event)!r}")
    for name in (wanted | {"times"}) - {"runs"}:
        _require_number(name, event[name])
    if "runs" in wanted:
        _require_runs(event["runs"])


def _require_number(name: str, value: Any) -> None:
    whole = name in ("times", "records", "span")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ValueError(f"{name} = {value!r} of an event is not a number")
    least = 1.0 if name in ("records", "span", "mean") else 0.0
    if not least <= value < math.inf:
        raise ValueError(f"{name} = {value!r} of an event is out of range")


def _require_runs(runs: Any) -> None:
    """Each run of a search is a list of events; a search within a search is none of ours."""
    if not isinstance(runs, Sequence) or not runs:
        raise ValueError("an event that is the best of runs names none")
    for run in runs:
        for event in run:
            if not isinstance(event, Mapping) or event.get("event") == "RepeatAndSelect":
                raise ValueError(f"an event of no known kind in a run: {event!r}")
            _require_known(event)
