"""The numbers of a report, worked out from a saved run. Words and pictures are made elsewhere."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ppadmm.accounting import accountant
from ppadmm.accounting.event_data import from_plain
from ppadmm.accounting.events import Tally
from ppadmm.algorithms import ALGORITHMS
from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.runs.curves import FittedCurves, fitted_curves
from ppadmm.runs.evaluation import rounds_shown, running_models
from ppadmm.runs.saved import SavedRun
from ppadmm.statements.claims import finite_or_none, worst

DELTAS: Array = np.geomspace(1e-12, 1e-2, 41)
RASTER_COLUMNS = 180
"""With more rounds than that a column stands for several."""


@dataclass(frozen=True)
class AgentRow:
    """One agent; None where a figure does not exist or is not covered."""

    number: int
    name: str
    records: int
    degree: int
    budget: float | None
    epsilon: float | None
    releases: int | None
    messages: int | None
    noise: dict[str, float]
    accuracy: float | None
    log_loss: float | None


@dataclass(frozen=True)
class Entry:
    """One kind of event in the ledger of `agents`: how often it was set aside and booked.

    How often is known to the agent alone: None on another's page.
    """

    agents: tuple[int, ...]
    event: str
    constants: dict[str, float]
    reserved: int
    spent: int | None


@dataclass(frozen=True)
class Coefficient:
    """One feature and its coefficient for each class."""

    feature: str
    values: tuple[float, ...]

    @property
    def size(self) -> float:
        """The largest of its absolute values."""
        return max(map(abs, self.values))


class Figures:
    """All that a report shows, computed from the run folder alone."""

    def __init__(self, run: SavedRun) -> None:
        self.run, self.result, self.model = run, run.result, run.model
        self.spec: dict[str, Any] = run.result["spec"]
        self.statement: dict[str, Any] = run.result["statement"]
        self.search: dict[str, Any] | None = run.result.get("search")

        self.recipe = ALGORITHMS.get(run.result["algorithm"])  # None of another version's
        self.accountant = accountant.VERSION

    @property
    def pooled(self) -> bool:
        """Whether all records were at one place, so that there is one site and no network."""
        pooled = self.recipe is not None and self.recipe.pooled
        return pooled or self.result["agents"] == 1

    @property
    def everyone(self) -> bool:
        """Whether all sites hear all others, so that they have one model in common."""
        return self.recipe is not None and self.recipe.everyone

    @property
    def shared(self) -> bool:
        """Whether agents listen to one another, so that the noise of one is in all models."""
        return self.recipe is None or (self.recipe.listens and not self.recipe.pooled)

    @cached_property
    def degrees(self) -> list[int]:
        """Every agent's number of neighbours."""
        ends = [end for edge in self.result["graph"]["edges"] for end in edge]
        return [ends.count(i) for i in range(self.result["agents"])]

    @property
    def hearers(self) -> list[int]:
        """To how many others every agent speaks: neighbours, or everybody."""
        others = self.result["agents"] - 1
        return [others] * (others + 1) if self.everyone else self.degrees

    @cached_property
    def agents(self) -> list[AgentRow]:
        """One row per agent."""
        return [self._agent(i) for i in range(self.result["agents"])]

    def _agent(self, i: int) -> AgentRow:
        site = 0 if self.pooled else i
        releases = self.result["releases"][site]
        error = self._at("test_error_per_agent", site)
        return AgentRow(
            number=i,
            name=self.result["agent_names"][i],
            records=self.result["records"][i],
            degree=self.degrees[i],
            budget=self._budget(i),
            epsilon=self.statement["epsilons"][site],
            releases=None if self.pooled else releases,
            messages=None if self.pooled or releases is None else releases * self.hearers[i],
            noise=self.result["noise"][site],
            accuracy=None if error is None or self.pooled else 1.0 - error,
            log_loss=None if self.pooled else self._at("test_log_loss_per_agent", i),
        )

    def _budget(self, i: int) -> float | None:
        if self.statement["claimed_epsilon"] is None:
            return None
        if claims := self.statement.get("claims"):  # earlier versions wrote none
            return float(claims[i if len(claims) > 1 else 0])
        each = self.spec["epsilons"]
        return float(self.spec["epsilon"] if each is None else each[i])

    def _at(self, name: str, i: int) -> float | None:
        return float(self.result[name][i]) if name in self.result else None

    @property
    def equal(self) -> bool:
        """Whether all agents have the same ε, as far as it is spelt out."""
        return len({f"{e:.4g}" for e in self.statement["epsilons"] if e is not None}) <= 1

    @property
    def messages(self) -> tuple[int, int]:
        """How many messages were sent, and how many speaking in every round would have taken."""
        sent = sum(row.messages or 0 for row in self.agents)
        return sent, 0 if self.pooled else self.result["rounds"] * sum(self.hearers)

    @property
    def raster(self) -> list[list[float]]:
        """Return the share of rounds spoken in, by column and agent; a column a round if few."""
        columns = min(len(self.run.spoke), RASTER_COLUMNS)
        parts = np.array_split(self.run.spoke, columns)
        return [part.mean(axis=0).tolist() for part in parts]

    @cached_property
    def distances(self) -> dict[str, list[float]]:
        """Root mean square distance of agents from their mean, by round.

        Of single releases, and of the running averages that models are made of.
        """
        rounds = rounds_shown(len(self.run.releases))
        if not len(rounds):
            return {"rounds": [], "releases": [], "averages": []}
        return {
            "rounds": rounds.tolist(),
            "releases": _spread(self.run.releases[rounds - 1]),
            "averages": _spread(running_models(self.run.trace, rounds)),
        }

    @property
    def sampling_error(self) -> float:
        """Half of a 95 % interval for the test accuracy, 1.96·√(p(1−p)/n)."""
        error, n = self.result["test_error"], self.result["test_records"]
        return 1.96 * math.sqrt(error * (1.0 - error) / n)

    @cached_property
    def tallies(self) -> list[Tally]:
        """What the sites' ledgers reserved, each sum once; on a peer's page, its own."""
        books = self.result["ledger"]
        own = self.result.get("own")
        found = (from_plain(book["reserved"]) for book in (books if own is None else [books[own]]))
        return list(dict.fromkeys(found))

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """(δ, ε) of the worst agent wherever the accountant has an ε."""
        points = [(d, worst(self.tallies, d).epsilon) for d in DELTAS.tolist()]
        return [(d, e) for d, e in points if math.isfinite(e)]

    @cached_property
    def recomputed(self) -> float | None:
        """ε worked out again from the ledger, by the accountant of this version."""
        return finite_or_none(worst(self.tallies, self.result["delta"]).epsilon)

    @property
    def confirms(self) -> bool:
        """Whether the ε in the statement is the one that the ledger gives now."""
        stated, found = self.statement["epsilon"], self.recomputed
        if stated is None or found is None:
            return stated is found
        return math.isclose(stated, found, rel_tol=1e-6)

    @cached_property
    def ledger(self) -> list[Entry]:
        """Events by agents that share them."""
        shared: dict[str, tuple[list[int], dict[str, Any]]] = {}
        for i, book in enumerate(self.result["ledger"]):
            shared.setdefault(repr(book), ([], book))[0].append(i)
        return [
            entry for agents, book in shared.values() for entry in _entries(tuple(agents), book)
        ]

    @cached_property
    def coefficients(self) -> list[Coefficient]:
        """Features, the largest coefficient first."""
        rows = [
            Coefficient(name, tuple(value.values()) if isinstance(value, dict) else (value,))
            for name, value in self.model["coefficients"].items()
        ]
        return sorted(rows, key=lambda row: -row.size)

    @cached_property
    def curves(self) -> FittedCurves:
        """What the model says of every column, with bands where there are any."""
        schema = Schema.from_dict(self.model["schema"])
        rows = self.model["coefficients"].values()
        values = [list(row.values()) if isinstance(row, dict) else [row] for row in rows]
        return fitted_curves(self.result, schema, np.array(values).T, self.run.trace)

    @property
    def classes(self) -> list[str]:
        """The classes of the label, the one that positive coefficients speak for last."""
        return [str(name) for name in self.model["classes"]]

    @property
    def headings(self) -> list[str]:
        """What the columns of coefficients are called: one, or one per class."""
        first = next(iter(self.model["coefficients"].values()))
        return self.classes if isinstance(first, dict) else ["coefficient"]

    def plain(self) -> dict[str, Any]:
        """Return what the page embeds for other programs."""
        return {
            "result": self.result,
            "model": self.model,
            "distance_between_agents": self.distances,
            "epsilon_by_delta": self.curve,
        }


def _spread(models: Array) -> list[float]:
    """(P, N, d) → (P,): root mean square distance from the mean over N."""
    apart = models - models.mean(axis=1, keepdims=True)
    found: list[float] = np.sqrt((apart**2).sum(axis=-1).mean(axis=1)).tolist()
    return found


def _entries(agents: tuple[int, ...], book: dict[str, Any]) -> list[Entry]:
    known = book["spent"] is not None
    booked = {_key(entry): entry["times"] for entry in book["spent"] or ()}
    return [
        Entry(
            agents=agents,
            event=entry["event"],
            constants={
                k: len(v) if isinstance(v, list) else v
                for k, v in entry.items()
                if k not in ("event", "times")
            },
            reserved=entry["times"],
            spent=booked.get(_key(entry), 0) if known else None,
        )
        for entry in book["reserved"]
    ]


def _key(entry: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in entry.items() if k != "times"}, sort_keys=True)
