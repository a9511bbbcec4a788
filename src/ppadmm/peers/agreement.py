"""What all peers sign before round 0: everything that is public about a run.

An agreement is a frozen value with one canonical spelling. Its digest names the run, so a message
of another run, or of the same run under other terms, is refused by its very name.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ppadmm import canonical, checks
from ppadmm.accounting import Budget
from ppadmm.algorithms import Settings
from ppadmm.algorithms.defaults import BETA
from ppadmm.algorithms.method import MethodSpec, settings_of, weigh
from ppadmm.algorithms.settings import Speaking
from ppadmm.errors import InputError
from ppadmm.files import require_format
from ppadmm.problem import Graph
from ppadmm.statements.keys import is_signed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FORMAT = 4
DOMAIN = b"ppadmm agreement 4\0"
DRAFT_ANEW = "draft it anew with ppadmm peer agree"
REQUIRED = ("rounds", "eta", "delta", "weights", "knots", "trust", "colluding", "repeats")
"""Entries of the method that no rule fills in any more."""
MOST_RECORDS = 10**15
"""Of a party. Whoever says more makes the weights of the others so small that numbers overflow."""


@dataclass(frozen=True)
class Party:
    """One organisation: its name, Ed25519 public key (hex), number of records and largest ε.

    `endpoint` (host:port) is where it can be dialled; a site that can only dial out has none.
    """

    name: str
    key: str
    records: int
    epsilon: float
    endpoint: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"Expected the name of a party, got {self.name!r}.")
        checks.count(f"the records of {self.name}", self.records, 0, MOST_RECORDS)
        object.__setattr__(self, "epsilon", checks.positive(f"ε of {self.name}", self.epsilon))
        if len(_bytes(self.name, self.key)) != 32:
            raise InputError(f"Expected a key of 32 bytes for {self.name}, got {self.key!r}.")

    def public_key(self) -> "Ed25519PublicKey":
        """Return the key that this party's messages must verify with."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(_bytes(self.name, self.key))


@dataclass(frozen=True)
class Agreement(MethodSpec):
    """The terms of one run: a method with nothing left open, and who takes part.

    Party i is agent i; `edges` says who talks to whom. `schema` is the digest of the schema with
    `knots` for curves that name none.

    `nonce` tells runs under the same terms apart. `patience` is how many seconds a peer waits for a
    silent neighbour before it ends the run. With a `pace` > 0 a message leaves that many seconds
    after the last one that it waited for came, so that how long a solve took does not show.
    """

    parties: tuple[Party, ...]
    edges: tuple[tuple[int, int], ...]
    schema: str
    parameters: int
    nonce: str
    patience: float = 600.0
    pace: float = 0.0
    format: int = FORMAT

    def __post_init__(self) -> None:
        require_format("The agreement", self.format, FORMAT, DRAFT_ANEW)
        super().__post_init__()
        if None in (self.rounds, self.eta, self.weights):
            raise InputError(
                "The agreement leaves rounds, eta or weights open; take the file that ppadmm peer "
                "agree wrote."
            )
        object.__setattr__(self, "beta", self.beta or BETA)
        object.__setattr__(self, "parties", tuple(self.parties))
        object.__setattr__(self, "edges", self.graph.edges)
        self.trusting.honest(len(self.parties))
        self._check_parties()
        checks.count("parameters", self.parameters)
        object.__setattr__(self, "patience", checks.positive("patience", self.patience))
        object.__setattr__(self, "pace", checks.non_negative("pace", self.pace))
        if not self.pace < self.patience / 2.0:
            raise InputError(
                f"A pace of {self.pace:g} s leaves no room in a patience of {self.patience:g} s; "
                "choose a patience of more than twice the pace."
            )

    def _check_parties(self) -> None:
        for what in ("name", "key"):
            values = [getattr(party, what) for party in self.parties]
            if len(set(values)) != len(values):
                twice = next(v for v in values if values.count(v) > 1)
                raise InputError(f"Two parties have the same {what}, {twice!r}; give each its own.")

    @property
    def graph(self) -> Graph:
        """The network; refuses edges that leave a party out."""
        return Graph(len(self.parties), self.edges, "agreement")

    @cached_property
    def site_weights(self) -> tuple[float, ...]:
        """How much every party counts, by the records and budgets that all signed."""
        budgets = [Budget(party.epsilon, self.delta) for party in self.parties]
        records = [party.records for party in self.parties]
        return weigh(self, records, budgets, self.parameters)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON."""
        return canonical.digest(self.canonical())

    @property
    def run(self) -> bytes:
        """The 16 bytes that name the run in every message."""
        return bytes.fromhex(self.digest)[:16]

    def canonical(self) -> bytes:
        """Return the one spelling that is hashed and signed."""
        return canonical.dumps_ascii(asdict(self))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Agreement":
        """Read plain data, as `asdict` writes it; what is missing or unknown is named."""
        require_format("The agreement", content.get("format"), FORMAT, DRAFT_ANEW)
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(content) - known):
            raise InputError(f"The agreement has an unknown entry {unknown[0]!r}; remove it.")
        needed = [*REQUIRED, *(field.name for field in fields(cls) if field.default is MISSING)]
        if lacking := [repr(name) for name in needed if name not in content]:
            raise InputError(
                f"The agreement lacks {', '.join(lacking)}; take the file that ppadmm peer agree "
                "wrote."
            )
        try:
            values = dict(content)
            values["parties"] = tuple(Party(**party) for party in values.get("parties", ()))
            values["edges"] = tuple((int(i), int(j)) for i, j in values.get("edges", ()))
            if "speaking" in values:
                values["speaking"] = Speaking(**values["speaking"])
            return cls(**values)
        except InputError:
            raise
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
            raise InputError(f"The agreement cannot be read: {error}.") from None

    def settings(self, agent: int) -> Settings:
        """Return what agent `agent` runs with: the common terms and its ε."""
        return settings_of([self], [Budget(self.epsilon_of(agent), self.delta)], run=self.run)

    def epsilon_of(self, agent: int) -> float:
        """Return the ε of a party's records in this run: its own, or of sums the strictest."""
        if self.trusting.by_sum:
            return min(party.epsilon for party in self.parties)
        return self.parties[agent].epsilon

    def sign(self, key: "Ed25519PrivateKey") -> bytes:
        """Return a signature on these terms and no others."""
        return key.sign(DOMAIN + bytes.fromhex(self.digest))

    def is_signed(self, agent: int, signature: bytes) -> bool:
        """Say whether party `agent` signed these terms."""
        known = 0 <= agent < len(self.parties)
        said = DOMAIN + bytes.fromhex(self.digest)
        return known and is_signed(self.parties[agent].key, signature.hex(), said)


def differences(mine: Agreement, theirs: Agreement) -> list[str]:
    """Name every entry in which two agreements differ, with both values."""
    found: list[str] = []
    _compare("", asdict(mine), asdict(theirs), found)
    return found


def _compare(where: str, mine: Any, theirs: Any, found: list[str]) -> None:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for name in dict.fromkeys((*mine, *theirs)):
            _compare(f"{where}.{name}".lstrip("."), mine.get(name), theirs.get(name), found)
    elif isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            _compare(f"{where}[{k}]", a, b, found)
    elif mine != theirs:
        found.append(f"{where}: mine is {mine!r}, theirs is {theirs!r}")


def _bytes(name: str, text: object) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError:
        raise InputError(f"Expected the key of {name} in hexadecimal, got {text!r}.") from None
