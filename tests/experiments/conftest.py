import csv
from dataclasses import replace

import numpy as np
import pytest

from ppadmm.datasets import load
from ppadmm.studies.cell import Cell, fingerprint


def write_people(path, seed=0, records=400):
    """A small file of made-up people; who is ill depends on age and dose."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(0, 100, records), rng.uniform(0, 5, records)
    ill = rng.random(records) < 1 / (1 + np.exp(3 - 0.04 * age - 0.5 * dose))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "ill"])
        rows = zip(age, dose, ill, strict=True)
        writer.writerows([f"{a:.1f}", f"{b:.2f}", "yes" if i else "no"] for a, b, i in rows)
    return path


@pytest.fixture
def people(tmp_path):
    return write_people(tmp_path / "people.csv")


@pytest.fixture
def cell(people):
    """One small cell; its file lies in the test's own folder."""
    digest = fingerprint(load(people, label="ill"))
    return Cell(
        data=str(people),
        data_digest=digest,
        split=0,
        seeds=(0, 1),
        algorithm="pp",
        epsilons=(4.0, 8.0),
        agents=3,
        graph="ring",
        label="ill",
        rounds=4,
    )


@pytest.fixture
def cells(cell):
    """Eight small cells of several kinds."""
    return [
        replace(cell, split=split, algorithm=algorithm, curve=algorithm == "pp")
        for split in (0, 1)
        for algorithm in ("pp", "ipp", "dvp", "non-private")
    ]
