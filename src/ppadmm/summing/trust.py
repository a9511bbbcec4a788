"""Whom a site need not trust, and how many sites may tell each other what they know."""

from dataclasses import dataclass

from ppadmm import checks
from ppadmm.errors import InputError
from ppadmm.summing.fixed_point import MOST_SITES

LOCAL, SUM = "local", "sum"
KINDS = (LOCAL, SUM)
MOST_REPEATS = 100


@dataclass(frozen=True)
class Trust:
    """Who is trusted with what.

    `local`: every message is private by itself, whoever reads it. `sum`: sites see sums only, and
    each adds its share of the noise; any `colluding` of them may add up what they know. `repeats`
    is how many sums may be made again because a site is missing: each is paid for.
    """

    kind: str = LOCAL
    colluding: int = 1
    repeats: int = 0

    def __post_init__(self) -> None:
        checks.one_of("trust", self.kind, KINDS)
        checks.count("colluding", self.colluding, 0)
        checks.count("repeats", self.repeats, 0, MOST_REPEATS)

    @property
    def by_sum(self) -> bool:
        """Whether sites see sums only."""
        return self.kind == SUM

    @property
    def announced(self) -> int:
        """How many rounds come before the first release: with sums, one of keys."""
        return int(self.by_sum)

    def honest(self, members: int) -> int:
        """Return how many of so many sites keep their noise to themselves."""
        if not self.by_sum:
            return 1
        if members > MOST_SITES:
            raise InputError(
                f"A sum of {members} sites might not fit into 64 bits; choose {MOST_SITES} sites "
                "or fewer, or trust local."
            )
        if members - self.colluding < 1:
            raise InputError(
                f"Of {members} sites {self.colluding} may collude, so that nobody's noise is "
                f"left; choose colluding below {members}, or trust local."
            )
        if members < 2:
            raise InputError(
                "A sum of one site is what that site says; sums need two sites or more, or choose "
                "trust local."
            )
        return members - self.colluding


LOCAL_TRUST = Trust()
