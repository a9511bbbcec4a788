"""Statements of small runs, and certificates of honest and of lying signers."""

import functools
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.statements.certificate import issue
from tests.small_runs import finished, resigned

RUNS = ("private", "ipp", "seeded", "paper", "bare", "pooled", "one-shot", "newton", "sums")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def certificate(name="pooled", key=KEY, **changes):
    options = {"name": "us", "model": b"m", "releases": b"r", "issued": "2026-01-01", **changes}
    return issue(statement(name), key, **options)


def certificate_of(said):
    return issue(said, KEY, name="us", model=b"m", releases=b"r", issued="2026-01-01")


def statement(name):
    """Return a fresh copy of a run's statement."""
    return json.loads(_written(name))


@functools.cache
def _written(name):
    return json.dumps(finished(name).disclosure())


def forged(change, name="pooled"):
    """A certificate that was changed by its own signer: the signature is good, the content not."""
    return resigned(certificate(name), KEY, change)
