"""The only thing that a message can carry."""

from dataclasses import dataclass

from ppadmm.privacy.events import Charge
from ppadmm.typing import Array


@dataclass(frozen=True)
class Release:
    """A value (R, d) that may leave the agent, and what it cost each replicate."""

    value: Array
    charges: tuple[Charge, ...]
