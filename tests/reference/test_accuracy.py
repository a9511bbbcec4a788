"""Guards the accuracy that docs/results.md reports, with a generous margin."""

from pathlib import Path

import numpy as np
import pytest

from ppadmm.data import split
from ppadmm.datasets import SOURCES, load
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec


def folder_with(name, folder):
    if not SOURCES[name].present(Path(folder)):
        pytest.skip(f"PPADMM_DATA does not hold {name}")
    return folder


def mean_error(data, data_dir=None, preset=None):
    specs = [
        RunSpec.of(preset, data=data, data_dir=data_dir, epsilon=1.0, delta=1e-4, seed=seed)
        for seed in range(3)
    ]
    return np.mean([train(spec).metrics.error[0] for spec in specs])


@pytest.mark.parametrize(
    ("data", "limit", "majority"),
    [
        ("synthetic", 0.185, 0.246),
        ("adult", 0.172, 0.239),
        ("us", 0.18, 0.41),
        ("brazil", 0.24, 0.49),
    ],
)
def test_the_defaults_are_accurate_at_epsilon_one(data, limit, majority, request):
    folder = None if data == "synthetic" else folder_with(data, request.getfixturevalue("data_dir"))
    error = mean_error(data, folder)
    assert error < limit < majority


def test_the_paper_settings_have_not_converged_when_they_stop(data_dir):
    assert mean_error("adult", data_dir, "paper") > 0.22


def test_without_noise_us_is_learnt_as_well_as_in_one_place(data_dir):
    from sklearn.linear_model import LogisticRegression

    data = load("us", data_dir=folder_with("us", data_dir))
    train_, test = split(data, 0)
    model = LogisticRegression(C=100, max_iter=2000, fit_intercept=False)
    model.fit(data.X[train_], data.y[train_])
    pooled = 1 - model.score(data.X[test], data.y[test])
    spec = RunSpec(data="us", data_dir=data_dir, algorithm="non-private", seed=0)
    assert abs(train(spec).metrics.error[0] - pooled) < 0.01
