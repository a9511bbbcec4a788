"""A site's part in a run, in memory: what its statement, its log and its public report say."""

import json
import resource
import threading
from dataclasses import replace

import pytest

from ppadmm.errors import InputError, UnfinishedError
from ppadmm.peers.agreement_file import load_agreement, save_agreement
from ppadmm.peers.certified import certify_folder
from ppadmm.peers.pki.key_files import read_signing_key
from ppadmm.peers.results import write_site_run
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.status import EventLog
from ppadmm.peers.taking_part import SiteSettings, take_part
from ppadmm.problem import LOSSES
from ppadmm.problem.losses import Logistic
from ppadmm.runs.report.page import write_report
from tests.peers.hub import Hub
from tests.peers.in_memory import QUICK
from tests.peers.sites import make_sites


def run_parts(sites, seed=None):
    """Run all sites in threads; return each one's result and what it told."""
    hub, found = Hub(sites.agreement.edges, cap=1 << 20), {}

    def go(part, file):
        told, key = [], read_signing_key(PeerFile.load(file).keys.signing)
        ledger = file.parent / "site.ledger" if seed is None else None
        setting = SiteSettings(part, key, sites.agreement.sign(key), file.parent / "state", ledger,
                          "records")  # fmt: skip
        tell = EventLog(lambda event, fields: told.append((event, fields)))
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


class TestPaidFor:
    """What comes after the run cannot take its results away."""

    @pytest.fixture
    def part(self, tmp_path):
        """A finished part, the folder of its site and its key."""
        sites = make_sites(tmp_path, n=2, graph="complete", rounds=2)
        here = sites.files[0].parent
        return run_parts(sites)[0][0], here, read_signing_key(here / "keys" / "signing.key")

    def test_a_certificate_that_is_made_later_is_the_same(self, part):
        result, here, key = part
        first = json.loads((here / "results" / "certificate.json").read_text())["certificate"]
        write_site_run(result, here / "again", here / "state", key)
        (here / "again" / "certificate.json").unlink()
        certify_folder(here / "again", key)
        later = json.loads((here / "again" / "certificate.json").read_text())["certificate"]
        # compressed files hold the time they were written
        for body in (first, later):
            del body["issued"], body["releases"]
        assert later == first

    def test_the_agreement_of_another_run_does_not_say_who_signs(self, part):
        _, here, key = part
        (here / "results" / "certificate.json").unlink()
        path = here / "results" / "agreement.json"
        save_agreement(replace(load_agreement(path), nonce="another"), path)
        with pytest.raises(InputError, match="is of another run than the statement"):
            certify_folder(here / "results", key)

    def test_a_page_that_cannot_be_made(self, part, monkeypatch):
        result, here, key = part
        monkeypatch.setattr("ppadmm.runs.report.page.render", lambda *_: 1 / 0)
        with pytest.raises(UnfinishedError, match=r"report\.html could not be made") as error:
            write_site_run(result, here / "again", here / "state", key)
        assert isinstance(error.value.__cause__, ZeroDivisionError)
        missing = {p.name for p in (here / "results").iterdir()} ^ {
            p.name for p in (here / "again").iterdir()
        }
        assert missing == {"report.html"}

    def test_a_disk_that_is_full_before_the_signature(self, part):
        """The system refuses to write more than some bytes, so there is no half certificate."""
        result, here, key = part
        write_site_run(result, here / "again", here / "state", key)
        path = here / "again" / "certificate.json"
        size = len(path.read_bytes())
        path.unlink()
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, usual[1]))
        try:
            with pytest.raises(InputError, match=r"certificate\.json': File too large; "):
                certify_folder(here / "again", key)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        assert not path.exists()
        assert certify_folder(here / "again", key) == path
        with pytest.raises(InputError, match="exists already"):
            certify_folder(here / "again", key)

    def test_a_folder_that_was_taken_meanwhile_is_named_and_nothing_lost(self, part):
        result, here, key = part
        with pytest.raises(InputError, match="exists already"):
            write_site_run(result, here / "results", here / "state", key)
        assert not list(here.glob(".results-*"))
