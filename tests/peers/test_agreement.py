"""What peers sign: one spelling, one digest, differences by name."""

import json
from dataclasses import asdict, fields, replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm.algorithms.settings import Speaking
from ppadmm.errors import GraphError, InputError
from ppadmm.peers.agreement import Agreement, Party, differences

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(3)]


def party(i, **changes):
    values = {"name": f"hospital {i}", "key": KEYS[i].public_key().public_bytes_raw().hex(),
              "records": 1000 + i, "epsilon": 1.0}  # fmt: skip
    return Party(**{**values, **changes})


AGREED = Agreement(
    parties=tuple(party(i) for i in range(3)),
    edges=((1, 2), (1, 0)),
    schema="5e" * 32,
    parameters=12,
    rounds=30,
    eta=0.01,
    delta=1e-6,
    weights="equal",
    nonce="2026-11-16 a",
)


def test_it_is_read_back_and_has_one_spelling():
    again = Agreement.from_dict(json.loads(json.dumps(asdict(AGREED))))
    assert again == AGREED
    assert again.canonical() == AGREED.canonical()
    assert replace(AGREED, edges=((2, 1), (0, 1))).digest == AGREED.digest
    assert replace(AGREED, eta=1).digest == replace(AGREED, eta=1.0).digest
    assert len(AGREED.run) == 16
    assert AGREED.graph.neighbours(1) == (0, 2)


BY_SUM = {"algorithm": "newton", "weights": "records", "trust": "sum"}
OTHER = {
    "parties": (party(0), party(1), party(2, records=7)),
    "edges": ((0, 1), (1, 2), (0, 2)),
    "schema": "aa" * 32,
    "parameters": 13,
    "rounds": 31,
    "eta": 0.02,
    "delta": 1e-7,
    "nonce": "b",
    "algorithm": "ipp",
    "loss": "huber-hinge",
    "multiclass": "one-vs-rest",
    "regularisation": 0.5,
    "beta": 1e-9,
    "calibration": "paper",
    "adjacency": "zero-out",
    "speaking": Speaking(releases=3),
    "patience": 5.0,
    "pace": 0.5,
    "weights": "records",
    "knots": 4,
    "trust": "sum",
    "colluding": 0,
    "repeats": 2,
}


@pytest.mark.parametrize("name", [f.name for f in fields(Agreement) if f.name != "format"])
def test_every_term_counts_and_is_named_when_it_differs(name):
    summing = replace(AGREED, algorithm="newton", weights="records")
    agreed = summing if name == "trust" else AGREED
    other = replace(agreed, **{name: OTHER[name]})
    assert other.digest != agreed.digest
    assert other.run != agreed.run
    found = differences(agreed, other)
    assert found
    assert all(line.startswith(name) for line in found)


def test_a_difference_names_the_party_and_both_values():
    other = replace(AGREED, parties=OTHER["parties"])
    assert differences(AGREED, other) == ["parties[2].records: mine is 1002, theirs is 7"]
    assert differences(AGREED, AGREED) == []


def test_a_signature_is_for_these_terms_and_this_party():
    signature = AGREED.sign(KEYS[1])
    assert AGREED.is_signed(1, signature)
    assert not AGREED.is_signed(0, signature)
    assert not AGREED.is_signed(7, signature)
    assert not replace(AGREED, rounds=31).is_signed(1, signature)
    assert not AGREED.is_signed(1, signature[:-1])


def test_each_agent_gets_its_own_budget():
    agreed = replace(AGREED, parties=(party(0, epsilon=0.5), party(1), party(2)))
    assert agreed.settings(0).budgets[0].epsilon == 0.5
    assert agreed.settings(1).budgets[0].epsilon == 1.0
    assert agreed.settings(1).rounds == 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": ((0, 1),)}, "Agent 2 has no neighbour"),
        ({"edges": ((0, 1), (1, 5))}, "5"),
        ({"parties": (party(0), party(0, name="other"), party(2))}, "same key"),
        ({"parties": (party(0), party(1, name="hospital 0"), party(2))}, "same name"),
        ({"eta": float("nan")}, "eta"),
        ({"delta": 2.0}, "delta"),
        ({"rounds": 0}, "rounds"),
        ({"weights": None}, "leaves rounds, eta or weights open"),
        ({"weights": "alike"}, "Unknown weights 'alike'"),
        ({"algorithm": "sgd"}, "Unknown algorithm 'sgd'"),
        ({"format": 1}, "format 1, and this version reads format 4; draft it anew"),
        ({"pace": -1.0}, "pace"),
        ({"trust": "sum"}, "'pp' needs what each site says"),
        ({**BY_SUM, "colluding": 3}, "choose colluding below 3"),
        ({"pace": 300.0}, "A pace of 300 s leaves no room in a patience of 600 s"),
    ],
)
def test_bad_terms_are_one_sentence(changes, message):
    with pytest.raises((InputError, GraphError), match=message):
        replace(AGREED, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "zz"}, "in hexadecimal, got 'zz'"),
        ({"key": "abcd"}, "32 bytes"),
        ({"name": " "}, "name of a party"),
        ({"records": -1}, "records of hospital 0"),
        ({"records": 10**16}, "records of hospital 0 ≤ 1000000000000000"),
        ({"epsilon": 0}, "ε of hospital 0"),
    ],
)
def test_bad_parties_are_one_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        party(0, **changes)


def test_unknown_and_missing_entries_are_named():
    plain = asdict(AGREED)
    with pytest.raises(InputError, match="unknown entry 'round'"):
        Agreement.from_dict({**plain, "round": 3})
    with pytest.raises(InputError, match="lacks 'trust'; take the file that"):
        Agreement.from_dict({name: value for name, value in plain.items() if name != "trust"})
    with pytest.raises(InputError, match="lacks 'eta'; take the file that"):
        Agreement.from_dict({name: value for name, value in plain.items() if name != "eta"})
