"""Ways to turn a local solve into something that may leave the agent."""

from ppadmm.mechanisms.desk import Desk
from ppadmm.mechanisms.minimiser import (
    ExactMinimiser,
    FreeMinimiser,
    GammaMinimiser,
    Mechanism,
    PerturbedMinimiser,
    Place,
)
from ppadmm.mechanisms.release import Release

__all__ = [
    "Desk",
    "ExactMinimiser",
    "FreeMinimiser",
    "GammaMinimiser",
    "Mechanism",
    "PerturbedMinimiser",
    "Place",
    "Release",
]
