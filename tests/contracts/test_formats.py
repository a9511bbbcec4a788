"""Every file carries the version of its format, and one of another version is refused by name."""

import json
import pickle
import re
import sqlite3
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm import canonical
from ppadmm.agent import Send
from ppadmm.data import Categorical, Label, Numeric, Schema
from ppadmm.data.suggest import suggest_schema
from ppadmm.engines.ray import actors
from ppadmm.errors import CertificateError, DataError, ForeignError, InputError, LedgerError
from ppadmm.ledger.chain import read_rows
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.agreement_file import (
    Card,
    load_agreement,
    load_signature,
    save_agreement,
    save_signature,
)
from ppadmm.peers.control import ControlMessage, decode
from ppadmm.peers.messages import HEAD, MAGIC, VERSION
from ppadmm.peers.pki.authority import Authority
from ppadmm.peers.pki.revocations import Revocations, read_revocations
from ppadmm.peers.settings import PeerFile, template
from ppadmm.peers.store import PeerStore
from ppadmm.planning.result import FORMAT as PLAN_FORMAT
from ppadmm.runs.certificates import certify_run, read_statement
from ppadmm.runs.saved import load_run
from ppadmm.statements import certificate as certificates
from ppadmm.statements.json_schema import schema as json_schema
from ppadmm.statements.keys import read_any_key
from ppadmm.studies.cell import Cell, CellResult
from ppadmm.studies.sweep import CellStore
from tests.small_runs import folder_of

OTHER = [7, None, "1", True, 1.0]
"""Versions that are not ours; None stands for a file that says none."""
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(2)]
COLUMNS = (Numeric("age", 0, 100), Categorical("sex", ("f", "m")))
SCHEMA = Schema(COLUMNS, Label("y", ("1",), ("0",)))


def agreed():
    publics = [key.public_key().public_bytes_raw().hex() for key in KEYS]
    parties = tuple(Party(f"site-{i}", public, 100, 1.0) for i, public in enumerate(publics))
    return Agreement(
        parties=parties, edges=((0, 1),), schema=SCHEMA.digest(), parameters=4, rounds=3, eta=0.1,
        delta=1e-6, weights="records", nonce="n",
    )  # fmt: skip


def said(found):
    """What the sentence says of a version."""
    return "has no format, and this" if found is None else f"has format {found}, and this version"


def change(path, found):
    """Give a JSON file another version, or none."""
    content = json.loads(path.read_text())
    assert isinstance(content["format"], int), path
    content.pop("format")
    path.write_text(json.dumps(content if found is None else {"format": found, **content}))


def change_toml(path, found):
    text = path.read_text()
    assert tomllib.loads(text)["format"] == 1
    line = "" if found is None else f"format = {json.dumps(found)}"
    path.write_text(re.sub(r"(?m)^format = 1$", line, text, count=1))


@pytest.mark.parametrize("found", OTHER)
class TestFiles:
    def test_a_schema(self, tmp_path, found):
        file, csv = tmp_path / "s.toml", tmp_path / "x.csv"
        csv.write_text("age,y\n" + "30,0\n50,1\n" * 30)
        for text in (SCHEMA.to_toml(), suggest_schema(csv, "y")):
            file.write_text(text)
            Schema.from_toml(file)
            change_toml(file, found)
            with pytest.raises(DataError, match=said(found)) as error:
                Schema.from_toml(file)
            assert "write format = 1 in its first line" in str(error.value)

    def test_the_settings_of_a_peer(self, tmp_path, found):
        file = tmp_path / "peer.toml"
        file.write_text(template("a", 0, None))
        PeerFile.load(file)
        change_toml(file, found)
        with pytest.raises(InputError, match=said(found)):
            PeerFile.load(file)

    def test_an_agreement(self, tmp_path, found):
        file = tmp_path / "agreement.json"
        save_agreement(agreed(), file)
        assert load_agreement(file) == agreed()
        change(file, found)
        with pytest.raises(InputError, match=said(found)):
            load_agreement(file)

    def test_a_card(self, tmp_path, found):
        file = tmp_path / "card.json"
        card = Card(0, agreed().parties[0], SCHEMA.to_dict())
        file.write_text(json.dumps(card.to_dict()))
        assert Card.load(file) == card
        change(file, found)
        with pytest.raises(InputError, match=said(found)):
            Card.load(file)

    def test_a_signature(self, tmp_path, found):
        file = tmp_path / "signature.json"
        save_signature(file, agreed(), 0, KEYS[0])
        load_signature(file, agreed(), 0)
        change(file, found)
        with pytest.raises(InputError, match=said(found)):
            load_signature(file, agreed(), 0)

    def test_what_a_peer_finds_again(self, tmp_path, found):
        store = PeerStore(tmp_path)
        store.keep_signatures({0: "ab"})
        assert store.signatures() == {0: "ab"}
        change(tmp_path / "signatures.json", found)
        with pytest.raises(InputError, match=said(found)):
            store.signatures()

    def test_revocations(self, tmp_path, found):
        authority = Authority(tmp_path)
        authority.make("study")
        file, roots = authority.revocations, [authority.certificate]
        file.write_text(Revocations(1).signed(read_any_key(authority.key_file)))
        assert read_revocations(file, roots).number == 1
        change(file, found)
        with pytest.raises(InputError, match=said(found)):
            read_revocations(file, roots)

    def test_the_register_of_an_authority(self, tmp_path, found):
        authority = Authority(tmp_path)
        authority.register.write_text('{"format": 1, "issued": []}')
        assert authority.issued() == []
        change(authority.register, found)
        with pytest.raises(InputError, match=said(found)):
            authority.issued()

    @pytest.mark.parametrize("name", ["result.json", "model.json"])
    def test_a_run(self, tmp_path, found, name):
        folder = copied(tmp_path)
        load_run(folder)
        change(folder / name, found)
        with pytest.raises(InputError, match=said(found)):
            load_run(folder)

    def test_the_releases_of_a_run(self, tmp_path, found):
        folder = copied(tmp_path)
        with np.load(folder / "releases.npz") as file:
            arrays = dict(file)
        del arrays["format"]
        other = {} if found is None else {"format": np.array(found)}
        np.savez_compressed(folder / "releases.npz", **arrays, **other)
        with pytest.raises(InputError, match=said(found)):
            load_run(folder)

    def test_a_statement(self, tmp_path, found):
        folder = copied(tmp_path)
        read_statement(folder)
        change(folder / "statement.json", found)
        with pytest.raises(InputError, match=said(found)):
            read_statement(folder)

    @pytest.mark.parametrize("what", ["certificate", "statement"])
    def test_a_certificate(self, tmp_path, found, what):
        if found is None:
            pytest.skip("one without a version is refused by its form")
        file = certify_run(copied(tmp_path), KEYS[0])
        content = json.loads(file.read_bytes())
        body = content["certificate"]
        (body if what == "certificate" else body["statement"])["format"] = found
        data = canonical.dumps(content) + b"\n"
        with pytest.raises(CertificateError, match=said(found)):
            certificates.check(data)

    def test_a_cell(self, tmp_path, found):
        store, cell = (
            CellStore(tmp_path),
            Cell(data="synthetic", data_digest="ab" * 32, split=0, seeds=(0,), epsilons=(1.0,)),
        )
        outcomes = (CellResult(1.0, 1.0, 3, 0.1, (0,), (0.5,), (0.5,), (3.0,)),)
        store.write(cell, outcomes)
        assert store.read(cell) == outcomes
        change(store.path(cell), found)
        if found is None:  # so does a file that was cut off: its cell runs again
            assert store.read(cell) is None
        else:
            with pytest.raises(InputError, match=said(found)):
                store.read(cell)

    def test_a_checkpoint(self, tmp_path, found):
        file = tmp_path / "agent-0.pickle"
        good = actors.Checkpoint(0, Send(None, None), (), (), 0)
        with actors.moving_records():
            file.write_bytes(pickle.dumps(good))
            assert actors._loaded(file).format == 1
            file.write_bytes(pickle.dumps(replace(good, format=found)))
        with pytest.raises(InputError, match=said(found)):
            actors._loaded(file)


def copied(folder):
    """A run folder of our own."""
    for path in Path(folder_of("pooled")).iterdir():
        if path.name != "certificate.json":
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_a_ledger(tmp_path):
    file = tmp_path / "l"
    OwnerLedger.create(file, "us").close()
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA application_id = {0x7070_4C37}")
    db.close()
    for use in (read_rows, OwnerLedger.open):
        with pytest.raises(LedgerError, match="has format 7, and this version reads 2"):
            use(file)


def test_a_message_and_a_control_message():
    note = ControlMessage(0, "0.2.0", 1.0, "ab" * 32, "rounds").encode(KEYS[0])
    decode(note)
    with pytest.raises(ForeignError, match="it speaks version 7, not 2"):
        decode(note[:4] + bytes([7]) + note[5:])
    assert HEAD.unpack_from(HEAD.pack(MAGIC, VERSION, 1, bytes(16), 0, 0, 0))[1] == 2


def test_the_published_schemas_say_the_versions_that_are_checked():
    outer = json_schema("certificate")["properties"]["certificate"]["properties"]["format"]
    assert outer == {"const": certificates.FORMAT}
    inner = json_schema("statement")["properties"]["format"]
    assert inner == {"const": certificates.STATEMENT_FORMAT}


def test_the_page_of_formats_names_every_version():
    """docs/formats.md against the constants."""
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    rows = dict(re.findall(r"(?m)^\| ([^|]+?) +\| (\d+) +\|", page))
    assert rows["plan.json"] == str(PLAN_FORMAT)
    assert rows["agreement.json"] == str(asdict(agreed())["format"])
    assert rows["statement.json"] == str(certificates.STATEMENT_FORMAT)
    assert rows["certificate.json"] == str(certificates.FORMAT)
    assert rows["messages between peers"] == str(VERSION)
