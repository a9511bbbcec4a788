import pytest

from ppadmm.estimator import reuse_guard
from tests.estimator.fits import records


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Give every test a process that has trained on nothing."""
    monkeypatch.setattr("ppadmm.estimator.training.REGISTER", reuse_guard.Register())


@pytest.fixture
def xy():
    return records()
