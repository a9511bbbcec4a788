"""A running peer on a terminal."""

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ppadmm.peers.status import NeighbourStatus, PeerStatus
from ppadmm.runs.text import PHASES_IN_WORDS


def screen(view: PeerStatus, private: bool, url: str | None = None) -> RenderableType:
    """Return what a person sees of a moment."""
    title = Text(f"{view.name} (agent {view.agent}), run {view.run}: {PHASES_IN_WORDS[view.phase]}")
    title.stylize("bold")
    parts: list[RenderableType] = [title, _facts(view, private), _neighbours(view)]
    if view.waiting_for and view.waiting > 2.0:
        names = ", ".join(view.waiting_for)
        parts.append(Text(f"Waiting for {names} for {view.waiting:.0f} s.", "yellow"))
    if url:
        parts.append(Text(f"Status page: {url}", "dim"))
    return Group(*parts)


def _facts(view: PeerStatus, private: bool) -> Table:
    table, seconds = Table.grid(padding=(0, 2)), view.seconds_left
    left = "" if seconds is None else f", about {spelt(seconds)} left"
    table.add_row("rounds", ProgressBar(total=view.rounds, completed=view.round, width=30),
                  f"{view.round} of {view.rounds}{left}")  # fmt: skip
    words = f"{view.charged} of {view.reserved} releases paid; ε ≤ {view.epsilon:g} in all"
    table.add_row("budget", ProgressBar(total=max(view.reserved, 1), completed=view.charged,
                  width=30), words if private else f"NOT PRIVATE; {words}")  # fmt: skip
    table.add_row("messages", "", f"{view.sent:,} sent ({view.repeated:,} again), "
                  f"{view.received:,} received, {view.refused:,} refused")  # fmt: skip
    return table


def spelt(seconds: float) -> str:
    """Spell a duration."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _neighbours(view: PeerStatus) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("neighbour", "link", "round", "heard", "doing"):
        table.add_column(head, justify="left")
    for other in view.neighbours:
        table.add_row(*_row(other))
    for name in view.strangers:
        table.add_row(Text(f"{name}: no neighbour, refused", "red"), "", "", "", "")
    return table


def _row(other: NeighbourStatus) -> tuple[RenderableType, ...]:
    link = Text("up", "green") if other.connected else Text("away", "red")
    heard = "never" if other.heard is None else f"{other.heard:.0f} s ago"
    number = "–" if other.round is None else str(other.round + 1)
    return (f"{other.name} (agent {other.agent})", link, number, heard, other.phase)
