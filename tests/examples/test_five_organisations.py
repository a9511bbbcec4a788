"""The example that one script starts: five organisations, five equal models, five certificates."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path):
    """A PATH on which `ppadmm` and `python` are those that run the tests."""
    place = tmp_path / "bin"
    place.mkdir()
    words = {"python": "", "ppadmm": "-c 'from ppadmm.cli import main; main()'"}
    for name, rest in words.items():
        (place / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {rest} "$@"\n')
        (place / name).chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


def test_one_script_ends_with_five_equal_models_and_certificates(path, tmp_path):
    settings = {"PATH": path, "PPADMM_RECORDS": "1500", "PPADMM_ROUNDS": "8"}
    start = ROOT / "examples" / "five-organisations" / "start"
    done = subprocess.run(
        [start, tmp_path / "five"], env={**os.environ, **settings}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("certificate.json: holds.") == 5
    assert done.stdout.count("PRIVATE: ε = 1 at δ = 1e-06") == 5
    again = subprocess.run([start, tmp_path / "five"], capture_output=True, text=True)
    assert again.returncode == 2
