"""Who sees what in a run, what has to hold for its ε, and what nobody would notice: in plain words.

A run with sums is never described in words that fit local noise, and the other way round.
"""

from dataclasses import asdict, dataclass
from typing import Any

from ppadmm.algorithms.method import MethodSpec
from ppadmm.summing.trust import SUM

UNITS = {
    "replace-one": "one record of one agent, replaced by any other record",
    "zero-out": "one record of one agent, whose loss is left out (its place in n is kept)",
}
SUM_UNITS = {
    "replace-one": "one record of one site, seen in sums only, replaced by any other record",
    "zero-out": "one record of one site, seen in sums only, whose loss is left out (its place in "
    "n is kept)",
}
NETWORK, POOLED, ALONE = "network", "pooled", "alone"
SEEN = {
    NETWORK: "Every site sends its messages with noise of its own: each message is private by "
    "itself, whoever reads it.",
    POOLED: "One place holds and sees the records of all sites; what it releases is private by "
    "itself.",
    ALONE: "One site holds all records; what it releases is private by itself.",
}
AGAINST = {
    NETWORK: "anyone who sees all messages, including all other agents together, with any other "
    "knowledge",
    POOLED: "anyone but the place that holds the records, with any other knowledge",
    ALONE: "anyone but the site itself, with any other knowledge",
}
ASSUMED = {
    NETWORK: "each agent draws its noise and keeps it to itself; nobody else is trusted",
    POOLED: "all sites trust the one place with their records",
    ALONE: "the site draws its noise and keeps it to itself",
}
FOLLOWED = (
    "every site follows the protocol: it adds its share of the noise and keeps share and keys to "
    "itself"
)
SECURE = (
    "the cryptography holds (X25519, HKDF, ChaCha20): the claim is against bounded computing power"
)
UNNOTICED = (
    "A site that lies, or adds no noise, cannot be noticed: of a single part of a sum nothing is "
    "known."
)


@dataclass(frozen=True)
class TrustClaim:
    """What a run's ε rests on: `sites` are N, `colluding` is c, `records` those of all sites.

    Without sums there is no c. `place` says where records are: `network`, `pooled` or `alone`.
    """

    kind: str
    sites: int
    colluding: int | None
    repeats: int
    records: int
    place: str = NETWORK

    @classmethod
    def of(cls, method: MethodSpec, sites: int, records: int) -> "TrustClaim":
        """Return what a run by this method of so many sites rests on."""
        by_sum, one = method.trusting.by_sum, ALONE if sites == 1 else NETWORK
        place = POOLED if method.recipe.pooled and sites > 1 else one
        c = method.colluding if by_sum else None
        return cls(method.trust, sites, c, method.repeats, records, place)

    @property
    def by_sum(self) -> bool:
        """Whether sites see sums only."""
        return self.kind == SUM

    @property
    def name(self) -> str:
        """The trust model with its numbers."""
        if self.by_sum:
            return f"sum, N = {self.sites} sites, c = {self.colluding} of them may collude"
        each = {NETWORK: f"local, N = {self.sites} sites", POOLED: "one place for all records"}
        return each.get(self.place, "local, one site")

    @property
    def short(self) -> str:
        """The same in a few words, for a heading."""
        return f"in sums of {self.sites} sites, at most {self.colluding} colluding"

    @property
    def sees(self) -> str:
        """Who sees what."""
        if not self.by_sum:
            return SEEN[self.place]
        return (
            f"The {self.sites} sites see sums over all of them and nothing else: what one site "
            "says is masked, and each adds its share of the noise."
        )

    @property
    def against(self) -> str:
        """Against whom the claim holds."""
        if not self.by_sum:
            return AGAINST[self.place]
        outside = "everybody outside the sites"
        if not self.colluding:
            return f"{outside}, and none of the sites themselves"
        if self.colluding == 1:
            return f"{outside} and any one of the {self.sites} sites, its own noise taken off"
        many = f"any {self.colluding} of the {self.sites} sites that put together what they know"
        return f"{outside} and {many}, their own noise taken off"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What has to hold."""
        if not self.by_sum:
            return (ASSUMED[self.place],)
        most = f"at most c = {self.colluding} of the N = {self.sites} sites put their knowledge "
        alone = "no site takes its own noise off the sums (c = 0)"
        return (most + "together" if self.colluding else alone, FOLLOWED, SECURE)

    @property
    def unnoticed(self) -> str:
        """What nobody would notice; empty where there is nothing to say."""
        return UNNOTICED if self.by_sum else ""

    def unit(self, adjacency: str) -> str:
        """Return what is protected, in words."""
        return (SUM_UNITS if self.by_sum else UNITS)[adjacency]

    def lines(self, private: bool = True) -> list[str]:
        """Return all of it as sentences; of a run that is not private, what one would rest on."""
        who = "It holds" if private else "A private run of this kind holds"
        told = "Trust" if private else "Trust model of a private run of this kind"
        return [
            f"{told}: {self.name}. {self.sees}",
            f"{who} against {self.against}.",
            "It is assumed that " + "; that ".join(self.assumes) + ".",
            *([self.unnoticed] if self.by_sum else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and words, fit for JSON."""
        return {
            **asdict(self),
            "name": self.name,
            "sees": self.sees,
            "against": self.against,
            "assumes": list(self.assumes),
            "unnoticed": self.unnoticed,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TrustClaim":
        """Read the numbers that `to_dict` wrote; the words follow from them."""
        names = ("kind", "sites", "colluding", "repeats", "records", "place")
        return cls(**{name: plain[name] for name in names})
