from dataclasses import replace

import pytest

from ppadmm.datasets import load
from ppadmm.studies.cell import Cell, fingerprint
from tests.studies.people import write_people


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
