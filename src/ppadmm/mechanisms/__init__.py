"""Ways to turn a local solve into something that may leave the agent."""

from ppadmm.mechanisms.minimiser import ExactMinimiser, Mechanism, PerturbedMinimiser, Place
from ppadmm.mechanisms.release import Release

__all__ = ["ExactMinimiser", "Mechanism", "PerturbedMinimiser", "Place", "Release"]
