"""Algorithms that need of all sites no more than sums: every site says its part, all add them up.

A subclass says what its parts are, how far one record moves them, what they cost and what follows
from their sum. How a part leaves the site is said here: with noise that makes it private by itself
(`trust = local`), or as integers with the site's share of the noise under a mask that cancels in
the sum of all members only (`trust = sum`; docs/privacy.md, section 19).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ppadmm.accounting.events import Charge
from ppadmm.accounting.sensitivity import MARGIN
from ppadmm.algorithms.base import Bits, Reserved, SharedState, Site
from ppadmm.arrays import Array
from ppadmm.errors import InputError, OutOfBoundsError, ProtocolError
from ppadmm.mechanisms import ChargedNoise, Release
from ppadmm.mechanisms.limits import within
from ppadmm.noise import FINENESS, Key, NoiseSource
from ppadmm.records import HoldsRecords
from ppadmm.summing.fixed_point import FixedPoint, Words, as_words, fixed_point
from ppadmm.summing.masks import KEY, Masks, new_key, public_key
from ppadmm.summing.trust import Trust

KEYS = "keys"
LOUDEST = 1e6
"""The norm of a part that is refused, in units of the most that records can make it."""


@dataclass(frozen=True)
class SumState(HoldsRecords):
    """A site between rounds: what is printed of it shows no key.

    `own` is what it said last, `members` who takes part, and `exchange` counts all sums that were
    begun, repeats included. With masked sums `private` is the site's key and `masks` what it agreed
    on with the others. `held` is what the algorithm made of the sums so far.
    """

    round: int
    exchange: int
    members: tuple[int, ...]
    own: SharedState
    held: Any
    private: bytes = b""
    masks: Masks | None = None


@dataclass(frozen=True)
class SumAlgorithm(HoldsRecords):
    """One site of an algorithm of sums. A round is one exchange; with masks the first is of keys.

    `stages` names what is exchanged in each round.
    """

    site: Site
    name: str
    stages: tuple[str, ...]
    replicates: int
    trust: Trust
    run: bytes

    # -- what a subclass says ------------------------------------------------------------------

    def size(self, stage: str) -> int:
        """Return how many numbers a part has."""
        raise NotImplementedError

    def bound(self, stage: str) -> float:
        """Return the largest norm of a part, whatever the records are."""
        raise NotImplementedError

    def sensitivity(self, stage: str) -> float:
        """Return how far one record moves a part; of the mean of all sites if they are masked."""
        raise NotImplementedError

    def price(self, stage: str, replicate: int) -> tuple[float, Charge]:
        """Return Δ/σ of a release and what is booked for it."""
        raise NotImplementedError

    def values(self, held: Any, stage: str) -> Array:
        """Return this site's part before noise: (R, size)."""
        raise NotImplementedError

    def first(self) -> Any:
        """Return what is held before the first sum."""
        raise NotImplementedError

    def gained(self, held: Any, stage: str, total: Array, round_: int) -> Any:
        """Return what is held after the mean (R, size) of a stage became known."""
        raise NotImplementedError

    def shown(self, held: Any) -> Array:
        """Return what all sites know and a trace keeps: (R, d)."""
        raise NotImplementedError

    def model(self, state: SumState) -> Array:
        """Return what all sites have made of the sums so far: (R, d)."""
        return self.shown(state.held)

    # -- the protocol `Algorithm` --------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """How many exchanges there are."""
        return len(self.stages)

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """What each stage costs, as often as it comes, and as many repeats of each as agreed."""
        stages = dict.fromkeys(stage for stage in self.stages if stage != KEYS)
        holds, again = bool(self.site.risk.n), self.trust.repeats
        times = {stage: holds * (self.stages.count(stage) + again) for stage in stages}
        return tuple(
            tuple((self.price(stage, k)[1], times[stage]) for stage in stages)
            for k in range(self.replicates)
        )

    @property
    def scales(self) -> dict[str, Array]:
        """The noise that this site adds to its part of each stage."""
        stages = dict.fromkeys(stage for stage in self.stages if stage != KEYS)
        return {f"sigma_{stage}": self.sigma(stage) for stage in stages}

    @property
    def radius(self) -> Array:
        """Of parts: no neighbour's value enters a computation as it is."""
        return np.full(self.replicates, LOUDEST)

    def length(self, round_: int) -> int:
        """Return how many numbers a site says in a round."""
        stage = self.stages[round_]
        return KEY // 8 if stage == KEYS else self.size(stage)

    def require(self, agent: int, round_: int, said: SharedState) -> None:
        """Refuse what no site can have said in a round; a masked part may be anything."""
        part, shape = said.value, (self.replicates, self.length(round_))
        if part.shape != shape:
            raise ProtocolError(
                f"Site {agent} said {part.shape} numbers in round {round_}, not {shape}."
            )
        if self.trust.by_sum:
            return
        most = LOUDEST * self.bound(self.stages[round_])
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.vecdot(part, part))
        if not (norms <= most).all():
            raise OutOfBoundsError(
                f"Agent {agent} sent values of norm {norms.max():.3g} in round {round_}; the terms "
                f"of this run allow {most:.3g}."
            )

    def init(self) -> SumState:
        """Everybody takes part, and nothing was said."""
        everyone, nothing = tuple(range(self.site.agents)), np.zeros((self.replicates, 0))
        return SumState(0, 0, everyone, _said(nothing), self.first())

    def propose(self, state: SumState, charged: ChargedNoise) -> tuple[SumState, Release]:
        """Say this round's part; what is new to the world is what all sites know."""
        stage = self.stages[state.round]
        if stage == KEYS:
            state = self.with_key(state, charged)
            part = self._repeated(np.frombuffer(public_key(state.private), np.float64))
        else:
            part = self._part(state, stage, charged)
        return replace(state, own=_said(part)), Release.everyone(self.shown(state.held))

    def resumed(self, state: SumState, own: SharedState, spoke: Bits, spent: Bits) -> SumState:
        """Take up what was said."""
        return replace(state, own=own)

    def with_key(self, state: SumState, charged: ChargedNoise) -> SumState:
        """Return the state with this site's key of the run, if sums are masked."""
        if not self.trust.by_sum or state.private:
            return state
        return replace(state, private=self._private(charged))

    def absorb(self, state: SumState, inbox: Mapping[int, SharedState]) -> SumState:
        """Add up what all said and move on."""
        return self.advanced(state, self.total(state, inbox))

    def heard(self, state: SumState) -> SharedState:
        """Return what this site said last."""
        return state.own

    # -- sums ----------------------------------------------------------------------------------

    def total(self, state: SumState, inbox: Mapping[int, SharedState]) -> Array:
        """Return what all members said together (R, length): their mean, or everybody's keys."""
        said = {self.site.agent: state.own.value} | {j: heard.value for j, heard in inbox.items()}
        stage, parts = self.stages[state.round], [said[j] for j in state.members]
        if stage == KEYS:
            return np.concatenate(parts, axis=1)
        shares = [self.site.shares[j] for j in state.members]
        if not self.trust.by_sum:
            return np.asarray(np.einsum("j,jrl->rl", np.array(shares), parts) / sum(shares))
        words = np.stack([part.view(np.uint64) for part in parts])
        added = np.add.reduce(words, axis=0)  # modulo 2⁶⁴
        rows = zip(self.adders(stage, len(parts)), added, strict=True)
        return np.stack([adder.decode(row) for adder, row in rows]) / sum(shares)

    def advanced(self, state: SumState, total: Array) -> SumState:
        """Return the state after an exchange, from what all said together."""
        stage = self.stages[state.round]
        after = replace(state, round=state.round + 1, exchange=state.exchange + 1)
        if stage == KEYS:
            return replace(after, masks=self._agreed(state, total[0]))
        return replace(after, held=self.gained(state.held, stage, total, after.round))

    def adders(self, stage: str, members: int) -> list[FixedPoint]:
        """Return grid and noise of each replicate, where so many sites take part."""
        moved, bound = self.sensitivity(stage), self.bound(stage) * (1.0 + MARGIN)
        honest, size = self.trust.honest(members), self.size(stage)
        ratios = [self.price(stage, k)[0] for k in range(self.replicates)]
        return [fixed_point(moved, ratio, bound, size, honest) for ratio in ratios]

    def sigma(self, stage: str) -> Array:
        """Return the noise (R,) that this site adds to its part."""
        if self.trust.by_sum:
            return np.array([adder.sigma for adder in self.adders(stage, self.site.agents)])
        ratios = np.array([self.price(stage, k)[0] for k in range(self.replicates)])
        return self.sensitivity(stage) / ratios if self.site.risk.n else np.zeros_like(ratios)

    # -- one site's part -----------------------------------------------------------------------

    def _part(self, state: SumState, stage: str, charged: ChargedNoise) -> Array:
        values = self.values(state.held, stage)
        values = within(values, np.full(len(values), self.bound(stage) * (1.0 + MARGIN)))
        source, key = charged.source, Key(self.site.agent, state.exchange, stage)
        if self.trust.by_sum:  # what can be refused is, before anything is paid for
            self.trust.honest(len(state.members))
            mask = self._mask(state, stage)
        if self.site.risk.n:
            source = charged.charge([self.price(stage, k)[1] for k in range(self.replicates)])
        if self.trust.by_sum:
            values = values * self.site.share
            return (self._noisy(state, stage, values, source, key) + mask).view(np.float64)
        if not self.site.risk.n:
            return values
        sigma = self.sigma(stage)
        return source.gaussian(values, sigma, self._grid(stage, sigma), key)

    def _grid(self, stage: str, sigma: Array) -> Array:
        """Return grids (R,): fine against σ, and √size·g within a quarter of the margin of Δ."""
        finest = 0.25 * MARGIN * self.sensitivity(stage) / math.sqrt(self.size(stage))
        return np.minimum(FINENESS * sigma, finest)

    def _noisy(
        self, state: SumState, stage: str, values: Array, source: NoiseSource, key: Key
    ) -> Words:
        """Return integers with this site's share of the noise: (R, size)."""
        adders = self.adders(stage, len(state.members))
        rows = zip(adders, values, strict=True)
        whole = np.stack([adder.encode(row) for adder, row in rows])
        scale = np.array([adder.scale for adder in adders])
        return as_words(np.rint(source.gaussian(whole, scale, np.ones_like(scale), key)))

    def _mask(self, state: SumState, stage: str) -> Words:
        """Return this site's mask of this exchange: (R, size)."""
        if state.masks is None:
            raise ProtocolError("No keys were agreed on before the first sum.")
        shape = (self.replicates, self.size(stage))
        return state.masks.mask(state.members, state.exchange, math.prod(shape)).reshape(shape)

    def _private(self, charged: ChargedNoise) -> bytes:
        """Return this site's key of the run, which outlives a process that keeps books."""
        found = charged.kept("key")
        if found is None:
            found = np.frombuffer(new_key(), np.float64)
            charged.keep("key", self._repeated(found))
        return found[: KEY // 8].tobytes()

    def _agreed(self, state: SumState, keys: Array) -> Masks:
        rows = keys.reshape(len(state.members), -1)
        pairs = zip(state.members, rows, strict=True)
        others = {j: row.tobytes() for j, row in pairs if j != self.site.agent}
        return Masks.between(self.site.agent, state.private, others, self.run)

    def _repeated(self, row: Array) -> Array:
        return np.tile(row, (self.replicates, 1))


def require_by_records(site: Site) -> None:
    """Refuse a site whose share of a sum is not its part of all records: Δ would be another."""
    own = site.share * site.records
    if abs(own - site.risk.n) > 0.25 * MARGIN * max(site.risk.n, 1):
        raise InputError(
            f"Site {site.agent} counts as {own:.6g} of {site.records:,} records in a sum and has "
            f"{site.risk.n:,}; weigh sites by their records."
        )


def _said(part: Array) -> SharedState:
    return SharedState(part, part[:, :0])
