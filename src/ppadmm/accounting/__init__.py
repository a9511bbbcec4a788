"""Events, accountant, calibration: what releases cost. Knows no models."""

from ppadmm.accounting.accountant import Bound, delta, epsilon
from ppadmm.accounting.calibration import Budget, Noise, StepConstants, calibrate, with_noise
from ppadmm.accounting.events import (
    Approximate,
    Charge,
    Event,
    Gaussian,
    NonPrivate,
    ObjectivePerturbation,
    Pure,
    RepeatAndSelect,
    Tally,
)
from ppadmm.accounting.sensitivity import ADJACENCIES, perturbed_step

__all__ = [
    "ADJACENCIES",
    "Approximate",
    "Bound",
    "Budget",
    "Charge",
    "Event",
    "Gaussian",
    "Noise",
    "NonPrivate",
    "ObjectivePerturbation",
    "Pure",
    "RepeatAndSelect",
    "StepConstants",
    "Tally",
    "calibrate",
    "delta",
    "epsilon",
    "perturbed_step",
    "with_noise",
]
