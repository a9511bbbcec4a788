"""The seven figures of Ding et al. (2020), each at the paper's calibration and at the proven one.

A figure is panels to draw and blocks of cells to run; its numbers are points, one per mark. The
paper prints no numbers, so the ranges of figures 1 to 4 are ours, around its settings.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm import checks
from ppadmm.algorithms import recipe_named
from ppadmm.algorithms.settings import HALF_THE_ROUNDS, Speaking
from ppadmm.arrays import Array
from ppadmm.datasets import NAMES, load
from ppadmm.errors import DataError, InputError
from ppadmm.runs.specification import PRESETS
from ppadmm.studies.cell import Cell, CellResult, deal_seeds, fingerprint
from ppadmm.studies.compare import worst_proven
from ppadmm.studies.sweep import Sweep

PAPER = PRESETS["paper"]
ALGORITHMS = ("pp", "ipp", "dvp", "m-admm", "r-admm", "non-private")
CALIBRATIONS = ("paper", "proven")
BUDGETS = (0.5, 1.0, 1.5, 2.0, 10.0)
LINES = (0.5, 1.0, 2.0, 10.0)
"""The ε that figures 1 to 4 draw a line for."""
SHOWN = (1.0, 2.0, 10.0)
"""The ε of figure 6."""

SHARES = (1e-4, 1e-3, 1e-2, 1e-1, 0.5)
BETAS = (1e-2, 1e-3, 10**-3.5, 1e-4, 1e-5, 1e-6, 1e-8)
CLIPS = (0.5, 1.0, 2.0, 4.0, 8.0)
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
LEVELS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)

ERROR, MESSAGES, LOSS, FINAL = "test error", "messages per agent", "average loss", "final loss"
SIMULATION = "figures are simulations with known seeds"


@dataclass(frozen=True)
class FigureSource:
    """A data set, pinned by its digest, or why it is absent."""

    name: str
    digest: str = ""
    label: str | None = None
    absent: str = ""


@dataclass(frozen=True)
class FigureSetting:
    """What all figures share: where the records are and how many replicates to run.

    `data`, with `label` where it is a file, is for figures 1 to 6.
    """

    data: str = "adult"
    seeds: int = 20
    splits: int = 5
    data_dir: str | None = None
    label: str | None = None
    _seen: dict[str, FigureSource] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        checks.count("seeds", self.seeds)
        checks.count("splits", self.splits)

    def source(self, name: str) -> FigureSource:
        """Load a data set, once, to pin it; one that cannot be had is absent, with the reason."""
        if name not in self._seen:
            label = self.label if name == self.data else None
            try:
                found = load(name, label=label, data_dir=self.data_dir)
                self._seen[name] = FigureSource(name, fingerprint(found), label)
            except DataError as error:
                self._seen[name] = FigureSource(name, absent=str(error))
        return self._seen[name]

    @property
    def main(self) -> FigureSource:
        """The data set of figures 1 to 6, which must be there."""
        found = self.source(self.data)
        if found.absent:
            raise DataError(found.absent)
        return found


@dataclass(frozen=True)
class Block:
    """The cells of one algorithm in one setting, one cell per split.

    `x` is the value of what the figure varies, and every ε a line; None where it varies ε.
    """

    x: float | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the points of one calibration, data set and measure, and at one ε."""

    calibration: str
    data: str
    measure: str
    x_name: str
    epsilon: float | None = None
    absent: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: rows of panels, and what to run for them."""

    number: int
    title: str
    caption: str
    panels: tuple[tuple[Panel, ...], ...]
    blocks: tuple[Block, ...]
    absent: tuple[str, ...] = ()

    @property
    def cells(self) -> list[Cell]:
        """All cells, split by split: their mix is the same early and late, and so is the speed."""
        every = [cell for block in self.blocks for cell in block.cells]
        return sorted(every, key=lambda cell: cell.split)


@dataclass(frozen=True)
class CurvePoint:
    """One mark: mean and standard deviation of a measure over all replicates.

    `series` names the line; `x` is None for a level line. `epsilon` is the ε that was asked for and
    `epsilon_proven` what the accountant proves for this noise (None: nothing).
    """

    calibration: str
    data: str
    algorithm: str
    series: str
    measure: str
    x_name: str
    x: float | None
    mean: float
    std: float
    replicates: int
    epsilon: float | None
    epsilon_proven: float | None
    rounds: int
    eta: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return asdict(self)


def figure(number: int, setting: FigureSetting) -> Figure:
    """Return figure `number`, planned; reads the records to pin them."""
    if number not in MAKERS:
        raise InputError(f"Expected a figure from 1 to {len(MAKERS)} or all, got {number!r}.")
    return MAKERS[number](setting)


def points(drawn: Figure, sweep: Sweep) -> list[CurvePoint]:
    """Return every mark of a figure."""
    names = {(p.calibration, p.data): p.x_name for row in drawn.panels for p in row}
    return [
        point
        for block in drawn.blocks
        for epsilon in _epsilons(drawn, block.cells[0])
        for point in _points(block, names, sweep.outcomes(block.cells, epsilon))
    ]


def _epsilons(drawn: Figure, cell: Cell) -> Sequence[float | None]:
    if cell.recipe.noiseless:
        return (None,)
    return SHOWN if drawn.number == 6 else cell.epsilons


def _points(
    block: Block, names: dict[tuple[str, str], str], outcomes: Sequence[CellResult]
) -> Iterator[CurvePoint]:
    epsilon, cell = outcomes[0].epsilon, block.cells[0]
    x_name = names[cell.calibration, str(cell.data)]
    common: dict[str, Any] = {
        "calibration": cell.calibration,
        "data": cell.data,
        "algorithm": cell.algorithm,
        "series": cell.algorithm if block.x is None else f"ε = {epsilon:g}",
        "x_name": x_name,
        "epsilon": epsilon,
        "epsilon_proven": worst_proven(outcomes),
        "rounds": max(outcome.rounds for outcome in outcomes),
        "eta": float(np.median([outcome.eta for outcome in outcomes])),
    }
    x = epsilon if block.x is None else block.x
    losses = _every(outcomes, "train_loss")
    if x_name == "round":
        curve = held(_every(outcomes, "curve"))
        for t, values in enumerate(curve.T):
            yield _point(common, LOSS, t + 1.0, values)
        yield _point(common, FINAL, float(curve.shape[1]), losses)
        return
    yield _point(common, ERROR, x, _every(outcomes, "test_error"))
    yield _point(common, FINAL, x, losses)
    yield _point(common, MESSAGES, x, _every(outcomes, "messages"))


def _every(outcomes: Sequence[CellResult], name: str) -> list[Any]:
    return [value for outcome in outcomes for value in getattr(outcome, name)]


def held(curves: Sequence[Sequence[float]]) -> Array:
    """Return curves as rows of one length: a run that is over holds its last value.

    T may differ between splits, as it is chosen by the degrees in their networks.
    """
    longest = max(len(curve) for curve in curves)
    return np.array([[*curve, *[curve[-1]] * (longest - len(curve))] for curve in curves])


def _point(
    common: dict[str, Any], measure: str, x: float | None, values: Array | list[float]
) -> CurvePoint:
    mean, std = float(np.mean(values)), float(np.std(values))
    return CurvePoint(**common, measure=measure, x=x, mean=mean, std=std, replicates=len(values))


def _block(
    setting: FigureSetting,
    origin: FigureSource,
    algorithm: str,
    calibration: str,
    x: float | None = None,
    epsilons: tuple[float, ...] | None = None,
    **changes: Any,
) -> Block:
    """Return one block: the paper's T, η and β, or our defaults, with `changes`."""
    paper = {name: PAPER[name] for name in ("rounds", "eta", "beta")}
    values = {**(paper if calibration == "paper" else {}), **changes}
    cells = tuple(
        Cell(
            data=origin.name,
            data_digest=origin.digest,
            split=split,
            seeds=seeds,
            algorithm=algorithm,
            epsilons=epsilons or LINES,
            delta=PAPER["delta"],
            calibration=calibration,
            weights="equal",
            knots=PAPER["knots"],
            label=origin.label,
            data_dir=setting.data_dir,
            **values,
        )
        for split, seeds in deal_seeds(setting.seeds, setting.splits)
    )
    return Block(x, cells)


def _row(
    origin: FigureSource, measure: str, names: tuple[str, str] = ("ε", "ε")
) -> tuple[Panel, ...]:
    """Return the panels of both calibrations, in which x has these names."""
    pairs = zip(CALIBRATIONS, names, strict=True)
    return tuple(Panel(c, origin.name, measure, x, absent=origin.absent) for c, x in pairs)


Changes = dict[float, dict[str, Any]]
"""What each value of x changes in a cell."""


def _varied(
    setting: FigureSetting, algorithm: str, names: tuple[str, str], *changes: Changes, **words: Any
) -> Figure:
    """Return a figure over values of a setting, which has a name in the paper and one here."""
    origin = setting.main
    measures = (ERROR, MESSAGES) if recipe_named(algorithm).tests else (ERROR,)
    blocks = [
        _block(setting, origin, algorithm, calibration, x, **own)
        for calibration, values in zip(CALIBRATIONS, changes, strict=True)
        for x, own in values.items()
    ]
    panels = tuple(_row(origin, measure, names) for measure in measures)
    return Figure(panels=panels, blocks=tuple(blocks), **words)


def _speaking(name: str, values: Sequence[float], **fixed: Any) -> Changes:
    return {x: {"speaking": Speaking(**{name: x, **fixed})} for x in values}


def _splits(setting: FigureSetting) -> Figure:
    shares = {share: {"share": share} for share in SHARES}
    return _varied(
        setting, "pp", ("splits", "splits"), shares, shares,
        number=1,
        title="PP-ADMM: how the budget is split",
        caption="splits is the share of the budget that goes to the noise on the solution; the "
        "rest goes to the noise in the local problem.",
    )  # fmt: skip


def _tolerance(setting: FigureSetting) -> Figure:
    betas = {beta: {"beta": beta} for beta in BETAS}
    return _varied(
        setting, "pp", ("β", "β"), betas, betas,
        number=2,
        title="PP-ADMM: how exactly local problems are solved",
        caption="β is the gradient norm at which a local solve may stop; the noise on the "
        "solution is proportional to it.",
    )  # fmt: skip


def _clip(setting: FigureSetting) -> Figure:
    paper, ours = (_speaking("clip", CLIPS, statistic=name) for name in ("gradient", "loss"))
    return _varied(
        setting, "ipp", ("C_loss", "C_loss"), paper, ours,
        number=3,
        title="IPP-ADMM: where losses are clipped in the test",
        caption="C_loss clips each record's loss in the test of whether to speak. Our default "
        "test looks at a gradient and clips nothing, so the proven panel uses the loss "
        "statistic, which has a C_loss.",
    )  # fmt: skip


def _threshold(setting: FigureSetting) -> Figure:
    paper, ours = _speaking("alpha", ALPHAS), _speaking("level", LEVELS)
    return _varied(
        setting, "ipp", ("α", "level"), paper, ours,
        number=4,
        title="IPP-ADMM: the threshold of the test",
        caption="α is the decrease of the clipped loss from which an agent speaks. Its "
        "counterpart in our default test is the level: the gradient norm from which an agent "
        "speaks, in units of σ₁√d, what noise alone does to it.",
    )  # fmt: skip


def _all_algorithms(setting: FigureSetting, origin: FigureSource, curve: bool) -> tuple[Block, ...]:
    changes: dict[str, Any] = {"epsilons": BUDGETS, "curve": curve, "speaking": HALF_THE_ROUNDS}
    return tuple(
        _block(setting, origin, algorithm, calibration, **changes)
        for calibration in CALIBRATIONS
        for algorithm in ALGORITHMS
    )


SETTINGS = (
    "At the paper's calibration every algorithm runs with the paper's η = 0.5 and T = 30, at the "
    "proven one with its own defaults. DVP, M-ADMM and R-ADMM have the same Gamma noise mechanism "
    "and accounting in both, which holds for exact minimisers and real-valued noise only."
)


def _budget(setting: FigureSetting) -> Figure:
    origin = setting.main
    return Figure(
        number=5,
        title=f"Test error against ε, {spelt(origin.name)}",
        caption=SETTINGS,
        panels=(_row(origin, ERROR),),
        blocks=_all_algorithms(setting, origin, curve=True),
    )


def _convergence(setting: FigureSetting) -> Figure:
    """Draw the same cells as figure 5, so that they run once."""
    origin = setting.main
    return Figure(
        number=6,
        title=f"Convergence, {spelt(origin.name)}",
        caption="Average over agents of the logistic loss of each agent's last release on its own "
        "records; a run that is over holds its last value. The star at the end of a line is the "
        "model that is delivered, averaged over agents and the last half of the releases, on all "
        "records. " + SETTINGS,
        panels=tuple(
            tuple(Panel(calibration, origin.name, LOSS, "round", epsilon) for epsilon in SHOWN)
            for calibration in CALIBRATIONS
        ),
        blocks=_all_algorithms(setting, origin, curve=True),
    )


def _other_data(setting: FigureSetting) -> Figure:
    origins = [setting.source(name) for name in ("brazil", "us")]
    if all(origin.absent for origin in origins):
        raise DataError(origins[0].absent)
    present = [origin for origin in origins if not origin.absent]
    return Figure(
        number=7,
        title="Test error against ε, Brazil and US",
        caption=SETTINGS,
        panels=tuple(_row(origin, ERROR) for origin in origins),
        blocks=tuple(b for origin in present for b in _all_algorithms(setting, origin, False)),
        absent=tuple(f"{spelt(o.name)}: {o.absent}" for o in origins if o.absent),
    )


def spelt(data: str) -> str:
    """Return a data set's name as it is written, a file without its folder."""
    return "US" if data == "us" else data.capitalize() if data in NAMES else Path(data).name


MAKERS: dict[int, Callable[[FigureSetting], Figure]] = dict(
    enumerate((_splits, _tolerance, _clip, _threshold, _budget, _convergence, _other_data), 1)
)
