"""Guards the accuracy that docs/results.md reports, with a generous margin."""

import numpy as np
import pytest

from ppadmm.experiments.spec import RunSpec
from ppadmm.experiments.train import train


def mean_error(data, data_dir=None, preset=None):
    specs = [
        RunSpec.of(preset, data=data, data_dir=data_dir, epsilon=1.0, delta=1e-4, seed=seed)
        for seed in range(3)
    ]
    return np.mean([train(spec).metrics.error[0] for spec in specs])


@pytest.mark.parametrize(
    ("data", "limit", "majority"),
    [("synthetic", 0.185, 0.246), ("adult", 0.172, 0.239), ("brazil", 0.24, 0.49)],
)
def test_the_defaults_are_accurate_at_epsilon_one(data, limit, majority, request):
    folder = None if data == "synthetic" else request.getfixturevalue("data_dir")
    error = mean_error(data, folder)
    assert error < limit < majority


def test_the_paper_settings_have_not_converged_when_they_stop(data_dir):
    assert mean_error("adult", data_dir, "paper") > 0.22
