"""Fixed values that are written down: terms of a run, messages, a schema.

They are made from plain data where they can be, so that no class has to stay what it is.
"""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.agent import Message
from ppadmm.algorithms import SharedState

RUN = bytes(range(16))
NAMES = ("Klinik Süd", "hospital b", "trust c")
"""One with a letter that JSON may spell in two ways."""


def key(number):
    return Ed25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32)


def public(number):
    return key(number).public_key().public_bytes_raw().hex()


def message():
    value = np.array([[1.5, -0.0, 1e-300, 0.1]])
    return Message(1, 6, SharedState(value, 3.0 * value))


TERMS = {
    "parties": [
        {"name": name, "key": public(i), "records": 100 + i, "epsilon": 0.5 * (1 + i)}
        for i, name in enumerate(NAMES)
    ],
    "edges": [[0, 1], [1, 2]],
    "schema": "5e" * 32,
    "parameters": 4,
    "rounds": 7,
    "eta": 0.25,
    "delta": 1e-5,
    "nonce": "2026-11-18T00:00:00+00:00",
    "regularisation": 0.05,
    "weights": "equal",
    "knots": 0,
    "trust": "local",
    "colluding": 1,
    "repeats": 0,
    "format": 4,
}
"""An agreement that leaves the rest to defaults."""
MORE_TERMS = {
    **TERMS,
    "algorithm": "ipp",
    "loss": "huber-hinge",
    "beta": 1e-7,
    "calibration": "paper",
    "adjacency": "zero-out",
    "patience": 60.0,
    "pace": 0.5,
    "speaking": {"statistic": "loss", "test": "svt", "releases": 3, "share": 0.1},
}
SCHEMA = """
format = 1
confirmed = true

[label]
name = "krank"
positive = ["ja"]
negative = ["nein"]

[[columns]]
name = "Größe"
low = 0
high = 2.5

[[columns]]
name = "dose"
low = 1
high = 1000
scale = "log"

[[columns]]
name = "sex"
categories = ["f", "m"]
"""
