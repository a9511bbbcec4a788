"""Bytes and digests that organisations compare: literals, so that none of them moves unnoticed."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm import canonical
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.pki.revocations import Revocations
from ppadmm.runs.ledger_session import spec_digest
from ppadmm.runs.specification import RunSpec, Search
from ppadmm.studies.cell import Cell, json_digest

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(2)]
SCHEMA = Schema(
    columns=(Numeric("Größe", 0, 200.5), Categorical("Ort", ("Köln", "l'Aquila"))),
    label=Label("krank", ("ja",), ("nein",)),
    confirmed=True,
)
AGREED = Agreement(
    parties=tuple(
        Party(name, key.public_key().public_bytes_raw().hex(), 100, 0.1)
        for name, key in zip(("Klinik Süd", "banca"), KEYS, strict=True)
    ),
    edges=((0, 1),),
    schema=SCHEMA.digest(),
    parameters=12,
    rounds=30,
    eta=1e-3,
    delta=1e-6,
    weights="records",
    knots=0,
    nonce="2026-11-16 ä",
)


def test_the_digest_of_a_schema():
    assert SCHEMA.digest() == ("8f5168d9791e35a43a1e77a1dcf35f2a9e6017bec1aa4027d65469438c61d806")


def test_the_digest_of_an_agreement():
    assert AGREED.digest == ("c9a713305d737c6ca4755a4c6312124d11ad9b6da2996ca391dc137e16e64c81")
    assert AGREED.canonical().startswith(
        b'{"adjacency":"replace-one","algorithm":"pp","beta":1e-08,'
    )
    assert rb"Klinik S\u00fcd" in AGREED.canonical()


def test_the_bytes_of_a_control_message():
    note = ControlMessage(1, "0.1.0", 1.5, AGREED.digest, "rounds", 3, {0: "ab" * 64}, (0,),
                          reason="Größe", agreement={"nonce": "ä"})  # fmt: skip
    assert canonical.digest(note.encode(KEYS[1])) == (
        "2bcd09a3259e1958f685a59585af1995031f226dd7ab5cf075f3eb53f52b3e3c"
    )


def test_the_bytes_of_a_revocation_list():
    entry = {"name": "Klinik Süd", "serials": ["1f"], "when": "2026-11-16", "reason": "Verlust"}
    assert canonical.digest(Revocations(2, {"Klinik Süd": entry}).body()) == (
        "7fe837e1ef0b95c9877cc57729bf5bd12182f65874b215b2f91f75155a4f5f0b"
    )


def test_the_digest_of_settings_and_of_a_search():
    spec = RunSpec(data="x.csv", epsilon=0.5, rounds=7)
    assert spec_digest(spec, SCHEMA) == (
        "40709d8db37d0bbd803063390796b3b77621986b18608dd5a01dc5691502a2b6"
    )
    search = Search(spec, ((0.1, 0.0), (None, 0.5)), "split", None, 0.25)
    assert spec_digest(spec, SCHEMA, search) == (
        "6bf616edf5fa64ae4f51ffea4845e5436bcc9e767cc6c9e9f81a796f95766bec"
    )


def test_the_digest_of_a_cell(monkeypatch):
    monkeypatch.setattr("ppadmm.studies.cell.__version__", "0.1.0")
    monkeypatch.setattr("ppadmm.studies.cell.accountant.VERSION", "5")
    cell = Cell(data="Köln", data_digest="ab" * 32, split=0, seeds=(0, 1), epsilons=(0.5, 1.0))
    assert cell.digest() == ("ae0ecb41318122cd56d17f6c41c92d603ed9d1377972110641480ffba279bda5")
    assert json_digest({"ä": [1.0, 1e-9]}) == (
        "9eab8615e2711d61cf926266bbc87381312f2151fb69bbc9492c943ef253b524"
    )


def test_canonical_bytes():
    value = {"b": [1, 1.0, 1e-9, True, None], "ä": "ü/\n"}
    text = '{"b":[1,1.0,1e-09,true,null],"ä":"ü/\\n"}'
    assert canonical.dumps(value) == text.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_that_is_none(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical.dumps([value])
    with pytest.raises(ValueError, match="JSON"):
        json_digest([value])
