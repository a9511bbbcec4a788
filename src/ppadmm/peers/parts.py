"""What sites of a run by sums say, as bytes: parts of a sum, and proposals to go on without a site.

Both are signed by whom they come from and handed on by others as they are:

    magic 4 | version 1 | kind 1 | run 16 | agent 4 | exchange 4 | L 4 | members 8 | payload
    | signature 64

`members` is a digest of who takes part in the exchange, as its sender knows: a site that was left
out and does not know it must not add up what the others said under other masks.

A part (PART) has a payload of L doubles, which may be any bits if sums are masked. A proposal
(PROPOSAL) has the numbers of the L sites that are to make the exchange again, four bytes each. The
terms say how long each may be, so that nobody else chooses how much memory it takes.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ppadmm.algorithms.newton import longest_part
from ppadmm.arrays import Array
from ppadmm.errors import ForeignError
from ppadmm.peers.messages import HEAD, MAGIC, SIGNATURE, VERSION, is_signed, sign
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.problem import Graph

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PART = 4
PROPOSAL = 5
WIDTH = {PART: 8, PROPOSAL: 4}
"""Bytes of one entry of the payload."""
SLOWEST = 1 << 20
"""Bytes a second: a long word that may still be on its way is not said again."""
START = HEAD.size + 8
"""Where the payload begins."""


def members_digest(members: Iterable[int]) -> bytes:
    """Return eight bytes that stand for who takes part."""
    return hashlib.sha256(np.array(sorted(members), dtype="<u4").tobytes()).digest()[:8]


def part_length(parameters: int) -> int:
    """Return how long a part of a run with so many parameters is at most."""
    return START + WIDTH[PART] * longest_part(parameters) + SIGNATURE


@dataclass(frozen=True)
class SignedWord:
    """A part or a proposal whose form holds: what it says of itself, and its bytes."""

    kind: int
    agent: int
    exchange: int
    length: int
    data: bytes

    @property
    def among(self) -> bytes:
        """The digest of who takes part."""
        return self.data[HEAD.size : START]

    @property
    def values(self) -> Array:
        """The numbers of a part: (1, L)."""
        return np.frombuffer(self.data, "<f8", self.length, START).astype(np.float64)[None]

    @property
    def members(self) -> tuple[int, ...]:
        """The sites that a proposal names."""
        return tuple(map(int, np.frombuffer(self.data, "<u4", self.length, START)))


Place = tuple[int, int, Sequence[int]]
"""Who says something, in which exchange, and who takes part in it."""


@dataclass(frozen=True)
class PartCodec:
    """Encodes and decodes the words of one run; `keys` holds every agent's public key."""

    run: bytes
    keys: "Mapping[int, Ed25519PublicKey]"

    def part(self, place: Place, values: Array, key: "Ed25519PrivateKey") -> bytes:
        """Return the signed bytes of a part (1, L)."""
        return self._signed(PART, place, values.astype("<f8", copy=False).tobytes(), key)

    def proposal(self, place: Place, members: Sequence[int], key: "Ed25519PrivateKey") -> bytes:
        """Return the signed bytes of a proposal."""
        return self._signed(PROPOSAL, place, np.array(members, dtype="<u4").tobytes(), key)

    def _signed(self, kind: int, place: Place, payload: bytes, key: "Ed25519PrivateKey") -> bytes:
        agent, exchange, members = place
        length = len(payload) // WIDTH[kind]
        head = HEAD.pack(MAGIC, VERSION, kind, self.run, agent, exchange, length)
        return sign(head + members_digest(members) + payload, key)

    def decode(self, data: bytes) -> SignedWord:
        """Return what the bytes say of themselves, or raise `ForeignError`.

        The signature is not looked at: that is for `require_signed`, once the word is news.
        """
        if len(data) < START + SIGNATURE:
            raise ForeignError(f"A part was refused: it has {len(data)} bytes.")
        magic, version, kind, run, agent, exchange, length = HEAD.unpack_from(data)
        if magic != MAGIC or version != VERSION or kind not in WIDTH:
            raise ForeignError("A part was refused: it is none of this version of ppadmm.")
        if run != self.run:
            raise ForeignError("A part was refused: it belongs to another run.")
        if agent not in self.keys:
            raise ForeignError(f"A part was refused: agent {agent} is not in the agreement.")
        if len(data) != START + WIDTH[kind] * length + SIGNATURE:
            raise ForeignError(f"A part was refused: it announces {length} numbers.")
        return SignedWord(kind, agent, exchange, length, data)

    def require_signed(self, word: SignedWord) -> None:
        """Refuse what the agent that it names did not sign."""
        if not is_signed(word.data, self.keys[word.agent]):
            raise ForeignError(f"A part was refused: it is not signed by agent {word.agent}.")


Word = tuple[int, int, int]
"""Kind, exchange and agent."""


@dataclass
class Shelf:
    """Signed words as they came, to be handed on, and when each may be handed on again.

    A word that a neighbour seems to lack goes to all neighbours. Each is said once when it comes,
    and again after ever longer pauses only: whoever asks without end gets no more than that.
    """

    pace: RetrySchedule
    clock: Callable[[], float] = time.monotonic
    _words: dict[tuple[int, int], dict[int, bytes]] = field(default_factory=dict)
    _due: dict[Word, tuple[float, float]] = field(default_factory=dict)

    def put(self, word: SignedWord) -> None:
        """Keep a word."""
        self._words.setdefault((word.kind, word.exchange), {})[word.agent] = word.data

    def get(self, kind: int, exchange: int, agent: int) -> bytes | None:
        """Return a word, if it is there."""
        return self._words.get((kind, exchange), {}).get(agent)

    def holders(self, kind: int, exchange: int) -> tuple[int, ...]:
        """Return whose words of an exchange are here, in order."""
        return tuple(sorted(self._words.get((kind, exchange), ())))

    def drop_before(self, exchange: int) -> None:
        """Forget parts of old exchanges; proposals are few and short and stay."""
        for name in [name for name in self._words if name[0] == PART and name[1] < exchange]:
            for agent in self._words.pop(name):
                self._due.pop((*name, agent), None)

    def said(self, name: Word) -> None:
        """Note that a word went out just now."""
        _, pause = self._due.get(name, (0.0, self.pace.first / self.pace.factor))
        pause = min(pause * self.pace.factor, self.pace.longest)
        on_its_way = len(self.get(*name) or b"") / SLOWEST
        self._due[name] = self.clock() + pause + on_its_way, pause

    def lacking(self, kind: int, exchange: int, held: Collection[int]) -> list[Word]:
        """Return which words of an exchange may be said to one who holds those of `held`."""
        now, known = self.clock(), set(held)
        names = [(kind, exchange, a) for a in self.holders(kind, exchange) if a not in known]
        return [name for name in names if self._due.get(name, (0.0, 0.0))[0] <= now]


def relayed(graph: Graph, members: Iterable[int], agent: int) -> frozenset[int]:
    """Return whose words `agent` hands on when they come.

    From every site there is a tree of shortest ways to all others. Of two who could be next on the
    way to a site, the one with the lower number hands on; when that fails, notes mend it.
    """
    inside = frozenset(members)
    return frozenset(i for i in inside if i != agent and _has_child(graph, inside, i, agent))


def _has_child(graph: Graph, inside: frozenset[int], source: int, agent: int) -> bool:
    far = _distances(graph, inside, source)
    if agent not in far:
        return False
    after = [j for j in graph.neighbours(agent) if far.get(j, 0) == far[agent] + 1]
    return any(_before(graph, far, j) == agent for j in after)


def _before(graph: Graph, far: Mapping[int, int], agent: int) -> int:
    """Return from whom an agent is to hear."""
    return min(j for j in graph.neighbours(agent) if far.get(j) == far[agent] - 1)


def _distances(graph: Graph, inside: frozenset[int], source: int) -> dict[int, int]:
    far, edge = {source: 0}, [source]
    while edge:
        found = {j for i in edge for j in graph.neighbours(i) if j in inside and j not in far}
        step = far[edge[0]] + 1
        far.update(dict.fromkeys(found, step))
        edge = sorted(found)
    return far
