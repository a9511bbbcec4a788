"""A site's part in a run, in memory: what its statement, its log and its public report say."""

import json
import threading

import pytest
from peers import QUICK
from sites import make_sites

from ppadmm.engines.peer_file import PeerFile
from ppadmm.engines.peer_view import Teller
from ppadmm.engines.pki.key_files import read_signing_key
from ppadmm.engines.transport import Hub
from ppadmm.experiments.peering import Setting, take_part
from ppadmm.problem import LOSSES
from ppadmm.problem.losses import Logistic
from ppadmm.reports.html import write_report
from ppadmm.reports.peer import write_site_run


def run_parts(sites, seed=None):
    """Run all sites in threads; return each one's result and what it told."""
    hub, found = Hub(sites.agreement.edges, cap=1 << 20), {}

    def go(part, file):
        told, key = [], read_signing_key(PeerFile.load(file).keys.signing)
        ledger = file.parent / "site.ledger" if seed is None else None
        setting = Setting(part, key, sites.agreement.sign(key), file.parent / "state", ledger,
                          "records")  # fmt: skip
        tell = Teller(lambda event, fields: told.append((event, fields)))
        result = take_part(setting, hub.end(part.number), QUICK, tell)
        write_site_run(result, file.parent / "results", setting.state, key)
        found[part.number] = (result, told)

    pairs = zip(sites.parts(seed), sites.files, strict=True)
    threads = [threading.Thread(target=go, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[i] for i in range(sites.count)]


@pytest.fixture
def own_loss():
    yield LOSSES.add(type("Mine", (Logistic,), {"name": "mine"}))
    del LOSSES["mine"]
    LOSSES.own.remove("mine")


def test_the_public_report_of_a_private_part_still_speaks_of_one_site(tmp_path):
    """In a ring of five a site does not hear two of the others: it can speak for itself alone."""
    sites = make_sites(tmp_path, n=5, rounds=3)
    for result, told in run_parts(sites):
        assert result.statement.private
        assert "not private" not in dict(told)
    folder = sites.files[1].parent / "results"
    page = write_report(folder, public=True).read_text()
    assert "public edition" in page
    assert "This site made 3 rounds and spoke in 3 of them." in page
    assert "ppadmm peer run peer.toml" in page
    assert "ppadmm train" not in page


def test_the_log_of_a_simulation_begins_with_that_it_is_not_private(tmp_path):
    for result, told in run_parts(make_sites(tmp_path, n=3, rounds=2), seed=3):
        assert told[0] == ("not private", {"because": list(result.statement.not_private_because)})
        assert "the seed 3" in json.dumps(told[0])


def test_a_statement_names_what_did_not_come_with_ppadmm(tmp_path, own_loss):
    sites = make_sites(tmp_path, n=3, rounds=2, loss="mine")
    for result, _ in run_parts(sites):
        assert "the loss 'mine' is not part of ppadmm" in result.statement.warnings[0]
        assert result.disclosure["warnings"] == list(result.statement.warnings)
