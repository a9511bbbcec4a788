"""Sites whose records are larger than the memory that they may use: Parquet files, streamed."""

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ppadmm.data import StreamedData
from ppadmm.engines import local
from ppadmm.errors import DataError, InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.peers.loading import load_records
from ppadmm.peers.settings import PeerFile
from ppadmm.problem import StreamedRisk
from tests.peers.sites import make_sites, run_sites

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")


def say(file, data, *more):
    """Name other records in a peer.toml."""
    lines = [f'data = "{data}"' if line.startswith("data =") else line for line in
             file.read_text().splitlines()]  # fmt: skip
    file.write_text("\n".join([*more, *lines]) + "\n")


@pytest.fixture
def sites(tmp_path):
    """Three sites: a CSV file, a folder of Parquet files, a Parquet file with a cap."""
    made = make_sites(tmp_path, n=3, rounds=5)
    for i in (1, 2):
        place = made.files[i].parent
        table = pyarrow.csv.read_csv(place / "data.csv")
        (place / "parts").mkdir()
        pq.write_table(table.slice(0, 150), place / "parts" / "a.parquet", row_group_size=70)
        pq.write_table(table.slice(150), place / "parts" / "b.parquet")
        pq.write_table(table, place / "all.parquet")
    say(made.files[1], "parts")
    say(made.files[2], "all.parquet", 'memory = "20MB"')
    return made


def test_a_stream_has_all_records_and_the_same_risk(sites):
    for i, part in enumerate(sites.parts(0)):
        own = load_records(PeerFile.load(sites.files[i]))
        assert isinstance(own.data, StreamedData) == (i > 0)
        assert own.n == part.records.n == 400
        risk = own.risk(part.public.parameters, part.public.loss)
        assert isinstance(risk, StreamedRisk) == (i > 0)
        theta = np.random.default_rng(i).standard_normal((2, part.public.parameters))
        np.testing.assert_allclose(risk.gradient(theta), part.risk.gradient(theta), atol=1e-14)


def test_streamed_sites_train_with_others_and_are_charged(sites):
    codes, peers = run_sites(sites)
    assert codes == [0] * 3, [peer.words() for peer in peers]
    assert len({sites.model(i) for i in range(3)}) == 1
    for i, peer in enumerate(peers):
        assert json.loads(peer.words())["private"] is True
        (run,) = sites.books(i).runs.values()
        assert run.outcome == "finished"
        assert run.charged[i] == run.reserved[i]


def test_the_model_is_that_of_records_in_memory(sites):
    codes, peers = run_sites(sites, "--test-seed", 3)
    assert codes == [0] * 3, [peer.words() for peer in peers]
    trace = local.run([part.agent(part.rule(), MemoryLedger()) for part in sites.parts(3)])
    found = np.array(list(json.loads(sites.model(0))["coefficients"].values()))
    np.testing.assert_allclose(found, trace.model(sites.agreement.site_weights)[0], atol=1e-6)


def test_what_cannot_be_streamed_is_named(sites):
    say(sites.files[0], "data.csv", 'memory = "20MB"')
    with pytest.raises(DataError, match=r"Only Parquet files .* got .*data\.csv"):
        load_records(PeerFile.load(sites.files[0]))
    say(sites.files[1], "nowhere")
    with pytest.raises(DataError, match="There are no records at"):
        load_records(PeerFile.load(sites.files[1]))
    say(sites.files[2], "all.parquet", "")
    text = sites.files[2].read_text()
    for wrong, words in (
        ("5", 'Expected memory such as "512MB", got 5'),
        ('"much"', "512MB or 2GB"),
    ):
        sites.files[2].write_text(text.replace('memory = "20MB"', f"memory = {wrong}"))
        with pytest.raises(InputError, match=words):
            load_records(PeerFile.load(sites.files[2]))
