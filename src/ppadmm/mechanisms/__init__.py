"""Ways to turn a local solve into something that may leave the agent."""

from ppadmm.mechanisms.charged_noise import ChargedNoise
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
    "ChargedNoise",
    "ExactMinimiser",
    "FreeMinimiser",
    "GammaMinimiser",
    "Mechanism",
    "PerturbedMinimiser",
    "Place",
    "Release",
]
