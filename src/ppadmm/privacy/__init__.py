"""Events, accountant, calibration and ledger; knows no models."""

from ppadmm.privacy.accountant import Bound, delta, epsilon
from ppadmm.privacy.calibration import Budget, Noise, Step, calibrate, with_noise
from ppadmm.privacy.events import (
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
from ppadmm.privacy.ledger import Ledger, MemoryLedger
from ppadmm.privacy.sensitivity import ADJACENCIES, perturbed_step

__all__ = [
    "ADJACENCIES",
    "Approximate",
    "Bound",
    "Budget",
    "Charge",
    "Event",
    "Gaussian",
    "Ledger",
    "MemoryLedger",
    "Noise",
    "NonPrivate",
    "ObjectivePerturbation",
    "Pure",
    "RepeatAndSelect",
    "Step",
    "Tally",
    "calibrate",
    "delta",
    "epsilon",
    "perturbed_step",
    "with_noise",
]
