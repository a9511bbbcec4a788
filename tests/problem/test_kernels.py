"""The first use of the compiled kernels is announced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

LOAD = "from ppadmm.problem import kernels; print(kernels.compiled().advance._cache.cache_path)"


def loaded(folder):
    """(where machine code is kept, what was said) of a process that loads the kernels."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


def test_compiling_is_announced_until_it_is_done(tmp_path):
    kept, said = loaded(tmp_path)
    assert "half a minute, at the first use only" in said
    Path(f"{kept}/compiled.advance-1.py311.nbi").touch()
    assert loaded(tmp_path)[1] == ""
