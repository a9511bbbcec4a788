"""The privacy statement of a run, in plain words and as data."""

import math
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from ppadmm.accounting import accountant
from ppadmm.accounting.accountant import Bound
from ppadmm.accounting.events import Tally
from ppadmm.statements.trust_claim import TrustClaim

SEEDED = "seeded NumPy (simulation)"
"""The noise source of a run with a seed."""
OTHER_RUNS = (
    "ε is for this run: other runs on the same records, whoever makes them, add up with it, and "
    "only a ledger that all of them are charged to keeps the sum."
)
LOCAL_PERSONS = (
    "A person with records at several agents is protected by the sum of those agents' ε, at the "
    "sum of their δ.",
    "ε is for one record: several records of one person at one agent are protected less.",
)
SUM_PERSONS = (
    "ε is for one record. A person with k records, at one site or at several, is protected less: "
    "they all move the same sums, with k times the ε and more than k times the δ.",
)
UNCOVERED = (
    "Test figures, running time and passes are local diagnostics: they are computed from "
    "records without noise and are not covered; do not publish them as private.",
    "Running time and memory are not protected against an observer of the machine.",
)
WEAKEST = 10.0
"""The largest ε that is called private without a warning."""
WEAK = "a weak guarantee: "
UNCONFIRMED = (
    "the schema (bounds, categories, classes) was inferred from the records, or nobody has "
    "confirmed that it is public"
)


def caveats_of(by_sum: bool) -> tuple[str, ...]:
    """Return what every statement reminds of; what several records cost differs by trust."""
    return (OTHER_RUNS, *(SUM_PERSONS if by_sum else LOCAL_PERSONS), *UNCOVERED)


@dataclass(frozen=True)
class Statement:
    """What may be claimed about a run, and what may not.

    `trust` says what the claim rests on. `claims` are what each agent's noise was calibrated for,
    `epsilons` what is proven for it; the run's are the largest of them.
    """

    trust: TrustClaim
    private: bool
    not_private_because: tuple[str, ...]
    unit: str
    adjacency: str
    epsilon: float | None
    epsilons: tuple[float | None, ...]
    delta: float
    theorem: str | None
    accountant: str
    calibration: str
    claims: tuple[float | None, ...]
    releases: tuple[int, ...]
    noise_source: str
    warnings: tuple[str, ...]
    caveats: tuple[str, ...]

    def __post_init__(self) -> None:
        others = tuple(each for each in self.warnings if not each.startswith(WEAK))
        weak = weakness(self.epsilon) if self.private else []
        object.__setattr__(self, "warnings", (*others, *weak))

    @property
    def claimed_epsilon(self) -> float | None:
        """What the noise was calibrated for; None without noise."""
        return max((claim for claim in self.claims if claim is not None), default=None)

    @property
    def claims_hold(self) -> bool | None:
        """Whether every agent's claim is proven; None without noise."""
        if self.claimed_epsilon is None:
            return None
        pairs = zip(self.claims, self.epsilons, strict=True)
        return all(
            claim is not None and proven is not None and proven <= claim for claim, proven in pairs
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return {
            **asdict(self),
            "trust": self.trust.to_dict(),
            "claimed_epsilon": self.claimed_epsilon,
        }

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Return the statement as a few sentences."""
        return "\n".join([self.headline, *self._trust(), *self._details(), *self._notes()])

    @property
    def headline(self) -> str:
        """The verdict; with sums it says so, before anything else."""
        if self.private:
            how = f"PRIVATE, {self.trust.short}:" if self.trust.by_sum else "PRIVATE:"
            return f"{how} ε = {self._spelt()} at δ = {self.delta:g} for {self.unit}."
        return "NOT PRIVATE: " + "; ".join(self.not_private_because) + "."

    def _spelt(self) -> str:
        """Spell one ε, or each agent's where they differ."""
        each = [rounded_up(e) for e in self.epsilons if e is not None]
        most = rounded_up(self.epsilon or 0.0)
        return most if len(set(each)) <= 1 else f"{most} at most ({', '.join(each)} by agent)"

    def _trust(self) -> list[str]:
        """Say what the claim rests on, where there is one, or noise that would allow one."""
        return self.trust.lines(self.private) if self.private or self.epsilon is not None else []

    def _details(self) -> list[str]:
        lines = []
        if not self.private and self.epsilon is not None:
            lines.append(
                f"For noise of this size, kept secret, and public inputs the accountant proves "
                f"ε = {rounded_up(self.epsilon)} at δ = {self.delta:g} for {self.unit}."
            )
        if self.calibration == "paper" and self.claimed_epsilon is not None:
            lines.append(
                f"ε = {self.claimed_epsilon:g} is the claim of the paper's formulas for this "
                "noise, not a guarantee."
            )
        if self.epsilon is not None:
            many = f"All {max(self.releases)} "
            many += "sums are covered" if self.trust.by_sum else "releases of an agent are covered"
            lines.append(
                f"{many} (bound: {self.theorem}; accountant {self.accountant}); noise: "
                f"{self.noise_source}."
            )
        return lines

    def _notes(self) -> list[str]:
        return [f"Warning: {w}" for w in self.warnings] + [f"Note: {c}" for c in self.caveats]


def worst(tallies: list[Tally], delta: float) -> Bound:
    """Return the run's bound: agents hold different records, so the largest ε counts."""
    return max((accountant.epsilon(t, delta) for t in tallies), key=lambda b: b.epsilon)


def rounded_up(epsilon: float) -> str:
    """Spell an ε with four digits, never less than it is (but for a relative 10⁻⁹)."""
    exact = Decimal(epsilon * (1.0 - 1e-9))
    last = Decimal(1).scaleb(exact.adjusted() - 3)
    return f"{float(exact.quantize(last, ROUND_CEILING)):.4g}"


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON can say."""
    return value if math.isfinite(value) else None


def weakness(epsilon: float | None) -> list[str]:
    """Warn of an ε above `WEAKEST`: between two records the best guess errs 1/(1 + eᵉ) at least."""
    if epsilon is None or epsilon <= WEAKEST:
        return []
    often = f"{int(1.0 + math.exp(epsilon)):,}" if epsilon < 20.0 else "many millions of"
    return [
        f"{WEAK}at ε = {rounded_up(epsilon)} someone who knows two records that an agent may hold "
        f"can find out which one it holds, and be wrong only once in {often} guesses; ε of about 1 "
        "is a strong guarantee, and above 10 there is hardly any."
    ]


def delta_warnings(delta: float, n: int) -> list[str]:
    """Warn of δ > 1/n: publishing each of n records with probability δ is (0, δ)-private."""
    if n * delta <= 1:
        return []
    return [
        f"δ = {delta:g} is above 1/n = {1.0 / n:.2g}: a mechanism with such a δ may "
        "publish a whole record; choose δ well below 1/n."
    ]
