"""Entries of a ledger, statements and seeded models are what they were.

After a change that is meant: `python -m tests.golden.made` writes the files anew.
"""

import json

import numpy as np
import pytest

from ppadmm import canonical
from ppadmm.algorithms import ALGORITHMS
from ppadmm.ledger.chain import ChainRow, verify
from tests.golden import made
from tests.small_problems import assert_alike

LEDGER = made.kept("ledger")
HEAD = "21e9c680619eddcacbd8ea9785c19255f148c77d649d5c228a583cffd60a971c"


def test_a_ledger_of_old_is_read():
    """Its numbers stand in the file, so its hashes hold on any machine."""
    beside = [
        [each and bytes.fromhex(each) for each in (row["payload"], row["secret"])] for row in LEDGER
    ]
    rows = [
        ChainRow(seq, row["body"].encode(), row["hash"], *both)
        for seq, (row, both) in enumerate(zip(LEDGER, beside, strict=True), 1)
    ]
    books, head = verify(rows)
    assert (head.count, head.hash) == (9, HEAD)
    assert [run.outcome for run in books.runs.values()] == ["finished"]


def test_the_same_actions_write_the_same_ledger(tmp_path):
    found = made.ledger(tmp_path)
    assert [row["hash"] for row in found[:3]] == [row["hash"] for row in LEDGER[:3]]
    for mine, theirs in zip(found, LEDGER, strict=True):
        assert (mine["payload"], mine["secret"]) == (theirs["payload"], theirs["secret"])
        assert canonical.digest(mine["body"].encode()) == mine["hash"]
        bodies = [json.loads(row["body"]) | {"previous": ""} for row in (mine, theirs)]
        assert_alike(*bodies)


@pytest.mark.parametrize("name", made.SPECS)
def test_a_statement(name, tmp_path):
    assert_alike(made.statement(name, tmp_path), made.kept("statements")[name], rel=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seeded_model(algorithm):
    """To six digits: the last ones are those of a solver."""
    wanted = made.kept("models")[algorithm]
    np.testing.assert_allclose(made.model(algorithm), wanted, rtol=1e-6, atol=1e-6)
