"""Does joining help me? What a site may expect alone, with everybody, and without each other one.

All runs of a comparison are on the same populations with the same records and noise seeds, so that
a difference is sharper than the errors. Where labels are skewed, or a column says who holds what, a
site's own error is that on records of its own mix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppadmm.planning.error_ranges import Change, Forecast, is_useless

MOST_GROUPS = 8
"""More sites than so many different ones are forecast by groups of nearly the same size."""
SAME = 0.005
"""Errors that differ by less are called the same."""


@dataclass(frozen=True)
class SiteGroup:
    """Sites of the same, or nearly the same, records and ε; one of them stands for all."""

    sites: tuple[int, ...]
    typical: int


def alike(keys: Sequence[tuple[float, ...]]) -> tuple[SiteGroup, ...]:
    """Return groups of sites with the same key, in order; of many keys, neighbours are joined."""
    different = sorted(set(keys))
    if len(different) > MOST_GROUPS:
        cuts = np.array_split(np.arange(len(different)), MOST_GROUPS)
        rank = {different[k]: g for g, part in enumerate(cuts) for k in part}
    else:
        rank = {key: k for k, key in enumerate(different)}
    members: dict[int, list[int]] = {}
    for site, key in enumerate(keys):
        members.setdefault(rank[key], []).append(site)
    return tuple(SiteGroup(tuple(sites), _middle(sites, keys)) for sites in members.values())


def _middle(sites: Sequence[int], keys: Sequence[tuple[float, ...]]) -> int:
    """Return the first site with the key in the middle."""
    key = sorted(keys[i] for i in sites)[len(sites) // 2]
    return next(i for i in sites if keys[i] == key)


@dataclass(frozen=True)
class SiteForecast:
    """What a site, or a group of alike ones, may expect; errors are run by run.

    `alone` and `together` are on everybody's records, `own_alone` and `own_together` on records of
    its own mix: the same where sites do not differ. `majorities` are the errors of naming the
    commonest class of its own mix. `gain` is how much less its own error is together.
    """

    names: tuple[str, ...]
    records: tuple[int, int]
    epsilons: tuple[float, float]
    alone: Forecast
    together: Forecast
    own_alone: Forecast
    own_together: Forecast
    majorities: tuple[float, ...]
    gain: Change

    @property
    def label(self) -> str:
        """Name the first of them, for a table."""
        return self.names[0] + (f" (+{len(self.names) - 1})" if len(self.names) > 1 else "")

    @property
    def words(self) -> str:
        """Name the sites."""
        first, others = self.names[0], len(self.names) - 1
        if others > 2:
            return f"{first} and {others} others like it"
        return " and ".join(filter(None, [", ".join(self.names[:-1]), self.names[-1]]))

    @property
    def useless(self) -> bool:
        """Whether the model of all is no better for it than naming its commonest class."""
        return is_useless(self.own_together.errors, self.majorities)

    @property
    def useless_alone(self) -> bool:
        """Whether its model alone is not."""
        return is_useless(self.own_alone.errors, self.majorities)

    @property
    def verdict(self) -> str:
        """One word: helps, same, hurts, open, useless, or unknown where no noise is enough."""
        if not self.own_together.errors:
            return "unknown"
        if self.useless:
            return "useless"
        if not self.own_alone.errors:
            return "helps"
        unclear = "same" if self.gain.is_small(SAME) else "open"
        return (unclear, "helps", "hurts")[self.gain.direction(SAME)]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        return {
            "names": list(self.names),
            "records": list(self.records),
            "epsilons": list(self.epsilons),
            "verdict": self.verdict,
            "alone": self.alone.to_dict(),
            "together": self.together.to_dict(),
            "own_alone": self.own_alone.to_dict(),
            "own_together": self.own_together.to_dict(),
            "own_majority_error": float(np.median(self.majorities)),
            "gain": self.gain.to_dict(),
        }


@dataclass(frozen=True)
class Absence:
    """The run without one site: the errors of the others, and what it changes for them.

    `forecast` and `change` are on everybody's records. `own[k]` and `own_changes[k]` are for group
    k on records of its own mix, None where nobody of it is left.
    """

    name: str
    forecast: Forecast
    change: Change
    own: tuple[Forecast | None, ...]
    own_changes: tuple[Change | None, ...]

    def spelt(self, k: int, together: float) -> str:
        """Spell what group k would get, told apart from what it gets with all."""
        own = self.own[k]
        median = None if own is None else own.median
        return "out of reach" if median is None else _apart(median, together)[0]


@dataclass(frozen=True)
class Joining:
    """Every group of sites alone and together, and all without one of each group."""

    sites: tuple[SiteForecast, ...]
    absences: tuple[Absence, ...]
    skewed: bool

    def sentences(self) -> list[str]:
        """Return the verdict, one plain sentence for each group of sites."""
        return [
            "".join([self._verdict(site), self._others(k), self._pooled(site), "."])
            for k, site in enumerate(self.sites)
        ]

    def _verdict(self, site: SiteForecast) -> str:
        alone, together = site.own_alone.median, site.own_together.median
        where = " on records like its own" if self.skewed else ""
        if together is None:
            return f"Together no noise reaches the budget, so {site.words} cannot join"
        if site.verdict == "useless":
            naming = f"always naming the commonest class ({np.median(site.majorities):.2f})"
            better = alone is not None and site.gain.direction(SAME) < 0
            rest = f"; alone it gets {alone:.2f}" if better else ""
            gets = f"Joining gives {site.words} an error of {together:.2f}{where}"
            return f"{gets}, no better than {naming}{rest}"
        if alone is None:
            gets = f"together it gets {together:.2f}{where}"
            return f"Alone no noise reaches the budget of {site.words}; {gets}"
        both = f"{alone:.3f} alone, {together:.3f} together{where}"
        if site.verdict == "same":
            return f"Joining changes little for {site.words}: {both}"
        if site.verdict == "open":
            return f"Whether joining helps {site.words} depends on what the data are like: {both}"
        a, b = _apart(alone, together)
        if site.verdict == "hurts":
            return f"Joining takes {site.words} from {a} up to {b}{where}: it is better off alone"
        poor = ", no better than the commonest class," if site.useless_alone else ""
        return f"Joining takes {site.words} from {a}{poor} to {b}{where}"

    def _others(self, k: int) -> str:
        """Say without whom it would be worse or better: the two who matter most."""
        told = [(each, change) for each in self.absences if (change := each.own_changes[k])]
        matter = [pair for pair in told if pair[1].direction(SAME)]
        same = [pair for pair in told if pair[1].is_small(SAME)]
        if not matter:
            plain = same and same == told and self.sites[k].verdict == "helps"
            return "; without any one of the others it would be the same" if plain else ""
        most = sorted(matter, key=lambda pair: -abs(pair[1].gain))[:2]
        together = self.sites[k].own_together.median or 0.0
        words = [f"without {each.name} it would be {each.spelt(k, together)}" for each, _ in most]
        rest = ", without any other the same" if same and len(same) + len(most) == len(told) else ""
        return "; " + ", ".join(words) + rest

    def _pooled(self, site: SiteForecast) -> str:
        """Add the errors on everybody's records, where they are not the same."""
        alone, together = site.alone.median, site.together.median
        if not self.skewed or alone is None or together is None:
            return ""
        return f" (on everybody's records {alone:.2f} alone, {together:.2f} together)"

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, fit for JSON."""
        return {
            "skewed": self.skewed,
            "sites": [
                {
                    **site.to_dict(),
                    "sentence": sentence,
                    "without": [self._without(absence, k) for absence in self.absences],
                }
                for k, (site, sentence) in enumerate(zip(self.sites, self.sentences(), strict=True))
            ],
        }

    def _without(self, absence: Absence, k: int) -> dict[str, Any]:
        own, change = absence.own[k], absence.own_changes[k]
        return {
            "name": absence.name,
            **absence.forecast.to_dict(),
            "own": None if own is None else own.to_dict(),
            "own_change": None if change is None else change.to_dict(),
        }


def _apart(one: float, other: float) -> tuple[str, str]:
    """Spell two errors with as few digits as tell them apart."""
    for digits in (2, 3):
        spelt = f"{one:.{digits}f}", f"{other:.{digits}f}"
        if spelt[0] != spelt[1]:
            break
    return spelt
