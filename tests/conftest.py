"""What every test has: a folder of its own, and on request the data, a cluster, the command."""

import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ppadmm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ppadmm")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Run every test in a folder of its own: what it saves by default stays out of the project."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data_dir():
    """The folder with the real data sets, where there is one."""
    folder = os.environ.get("PPADMM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PPADMM_DATA names no folder with the real data sets")
    return folder


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of two CPUs for all tests of this process."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'ppadmm[ray]'")
    from ppadmm.engines.ray.tasks import connected

    with connected(cpus=2) as ray:
        yield ray


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        assert self.code == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Run the command line in this process, in an empty folder, without PPADMM_DATA."""
    from ppadmm.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PPADMM_DATA", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ppadmm", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Outcome(int(end.value.code or 0), captured.out, captured.err)

    return run
