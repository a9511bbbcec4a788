"""What is known by its digest: a schema, the settings of a run, a release; and canonical JSON."""

import numpy as np
import pytest

from ppadmm import RunSpec, canonical
from ppadmm.data import Schema
from ppadmm.ledger.protocol import Sent
from ppadmm.ledger.run import decode, encode
from ppadmm.runs.ledger_session import spec_digest
from tests.golden.fixed import SCHEMA


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA, "utf-8")
    return Schema.from_toml(tmp_path / "schema.toml")


def test_a_schema(schema):
    found = "fd0489e677f8b089d964bf151a193efc76925b103a65d21bd1f9b55da486e5d9"
    assert schema.digest() == found


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        ({}, "27a733a32c6aa0ef4bba55a8ae0f54803426887d9079008e4c185e6885c6bc1a"),
        (
            {
                **{"algorithm": "ipp", "epsilon": 0.5, "delta": 1e-6, "rounds": 4, "seed": 1},
                **{"agents": 3, "graph": "ring", "regularisation": 0.1},
            },
            "b3a6f59bc97bfa281431fefad988320cfd1c693c99bc0d93925563c13bb2eb15",
        ),
    ],
    ids=["defaults", "some"],
)
def test_the_settings_of_a_run(settings, digest, schema):
    assert spec_digest(RunSpec(**settings), schema) == digest


def test_a_release():
    data = bytes.fromhex("01000000000000f83f0000000000000080000000000000004059f3f8c21f6ea501")
    sent = Sent(np.array([1.5, -0.0]), np.array([2.0, 1e-300]), True)
    assert encode(sent) == data
    assert encode(decode(data)) == data
    assert encode(Sent(np.zeros(1), np.ones(1), False)).hex() == "00" * 9 + "000000000000f03f"


def test_canonical_json():
    value = {"b": [1, 1.0, 1e-300, True, None], "ä": 'ö\n"', "a": -0.0}
    data = '{"a":-0.0,"b":[1,1.0,1e-300,true,null],"ä":"ö\\n\\""}'.encode()
    assert canonical.dumps(value) == data
    found = "b1610d6470fefb209f6fec76e2444a512bd89efb3f241c16fc246d0188c02ed8"
    assert canonical.digest(data) == found
