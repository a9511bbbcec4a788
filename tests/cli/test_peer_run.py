"""`ppadmm peer card, agree, sign, check, run, router` from a shell's point of view."""

import json
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from ppadmm.accounting import Budget
from ppadmm.accounting.protection import Protection
from ppadmm.data import Schema
from ppadmm.data.knots import knots_for
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.peers.agreement_file import load_agreement, save_agreement
from ppadmm.peers.settings import PeerFile
from ppadmm.statements.keys import private_pem, read_key
from tests.peers.sites import SCHEMA, Peer, free_ports, make_sites, until, write_records

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")


@pytest.fixture
def cards(command, tmp_path):
    """Three sites up to their cards."""
    for i in range(3):
        assert command("peer", "new", f"site-{i}", "--agent", i).code == 0
        place = tmp_path / f"site-{i}"
        write_records(place / "data.csv", 300 + i, seed=i)
        (place / "schema.toml").write_text(SCHEMA.to_toml())
        done = command("peer", "card", f"site-{i}/peer.toml", "--epsilon", 1 + i)
        assert done.code == 0, done.err
    return [f"site-{i}.card.json" for i in range(3)]


class TestAgreeing:
    def test_from_cards_to_signatures(self, command, cards, tmp_path):
        done = command("peer", "agree", *reversed(cards), "--delta", 1e-4, "--rounds", 9)
        assert done.code == 0, done.err
        terms = load_agreement(tmp_path / "agreement.json")
        assert [party.records for party in terms.parties] == [300, 301, 302]
        assert [party.epsilon for party in terms.parties] == [1.0, 2.0, 3.0]
        agreed = SCHEMA.with_knots(terms.knots)
        assert (terms.schema, terms.parameters, terms.rounds) == (agreed.digest(), 15, 9)
        assert terms.knots == knots_for(903, 3, 2.0)
        assert f"curves of {terms.knots} knots" in done.out
        for i in range(3):
            save_agreement(terms, tmp_path / f"site-{i}" / "agreement.json")
            done = command("peer", "sign", f"site-{i}/peer.toml", "--yes")
            assert done.code == 0, done.err
            assert "agent 1: site-1, 301 records, ε ≤ 2, dials out only; talks to 0, 2" in done.out
            content = json.loads((tmp_path / f"site-{i}" / "signature.json").read_text())
            assert terms.is_signed(i, bytes.fromhex(content["signature"]))

    def test_both_show_what_the_run_would_bring_each_site(self, command, cards, tmp_path):
        done = command("peer", "agree", *cards, "--delta", 1e-4, "--rounds", 9)
        told = done.out[done.out.index("Forecast, on made-up") : done.out.index("agreement.json:")]
        assert "no private data were read" in told
        for i in range(3):
            assert f"| site-{i} |     30{i} |" in told
        for i in range(2):
            place = tmp_path / f"site-{i}"
            save_agreement(load_agreement(tmp_path / "agreement.json"), place / "agreement.json")
            if i:  # other records of the same number: nothing of them shows
                write_records(place / "data.csv", 300 + i, seed=99)
            done = command("peer", "sign", f"site-{i}/peer.toml", "--yes")
            assert done.code == 0, done.err
            assert told.strip() in done.out
        quiet = command("peer", "sign", "site-0/peer.toml", "--yes", "--no-forecast")
        assert quiet.code == 0
        assert "orecast" not in quiet.out

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (("--rounds", 5000), "3 sites, 5000 rounds and 15 features take long to simulate"),
            (("--algorithm", "dvp", "--rounds", 5), "Unknown algorithm 'dvp'"),
        ],
    )
    def test_a_forecast_that_cannot_be_made_is_one_line(self, command, cards, given, reason):
        done = command("peer", "agree", *cards, "--delta", 1e-4, *given)
        assert done.code == 0, done.err
        (line,) = [line for line in done.out.splitlines() if "orecast" in line]
        assert line.startswith("No forecast: ")
        assert reason in line

    def test_neither_a_card_nor_an_agreement_is_written_over_what_is_there(self, command, cards):
        before = {name: Path(name).read_bytes() for name in cards}
        Path("link.json").symlink_to("elsewhere.json")
        card = ("peer", "card", "site-0/peer.toml", "--epsilon", 1, "--out")
        agree = ("peer", "agree", *cards, "--out")
        for words in (card, agree):
            for place in (cards[0], "link.json"):
                refused = command(*words, place)
                assert refused.code == 2, refused.out
                assert "exists already and is not overwritten" in refused.err
        assert before == {name: Path(name).read_bytes() for name in cards}
        assert not Path("elsewhere.json").exists()

    def test_what_does_not_fit_is_named(self, command, cards, tmp_path):
        assert "Expected the sites 0 to 1, got [0, 2]" in (
            command("peer", "agree", cards[0], cards[2]).err
        )
        card = json.loads(Path(cards[1]).read_text())
        other = Schema.from_dict({**card["schema"], "missing": ["nothing"]})
        Path("other.json").write_text(json.dumps({**card, "schema": other.to_dict()}))
        done = command("peer", "agree", cards[0], "other.json", cards[2])
        assert f"'site-1' has the schema {other.digest()[:12]}…" in done.err
        for schema in ("0" * 64, {}, {**card["schema"], "columns": 7}, None):
            Path("other.json").write_text(json.dumps({**card, "schema": schema}))
            done = command("peer", "agree", cards[0], "other.json", cards[2])
            assert "other.json is no card of a site" in done.err
            assert (done.code, done.err.count("\n")) == (2, 1)
        Path("bad.json").write_text("[")
        for file in ("bad.json", "none.json", "site-0/schema.toml"):
            assert command("peer", "agree", file).code == 2
        assert "pools all records" in (
            command("peer", "agree", *cards, "--algorithm", "centralised").err
        )

    def test_a_site_looks_at_its_own_part_before_it_signs(self, command, cards, tmp_path):
        from dataclasses import replace

        command("peer", "agree", *cards, "--rounds", 5, "--delta", 1e-4)
        terms = load_agreement(tmp_path / "agreement.json")
        first, *rest = terms.parties
        wrong = {
            "This site has 300 records, the agreement says 7": replace(first, records=7),
            "is 'bank', not this site": replace(first, name="bank"),
            "another message key": replace(first, key="ab" * 32),
        }
        for words, party in wrong.items():
            changed = replace(terms, parties=(party, *rest))
            save_agreement(changed, tmp_path / "site-0" / "agreement.json")
            done = command("peer", "sign", "site-0/peer.toml", "--yes")
            assert words in done.err
            assert not (tmp_path / "site-0" / "signature.json").exists()
        save_agreement(terms, tmp_path / "site-0" / "agreement.json")
        done = command("peer", "run", "site-0/peer.toml")
        assert done.code == 2
        assert "read the agreement and sign it" in done.err

    @pytest.mark.parametrize("answer", [True, False])
    def test_a_person_is_asked(self, command, cards, tmp_path, monkeypatch, answer):
        command("peer", "agree", *cards, "--rounds", 5, "--delta", 1e-4)
        save_agreement(load_agreement(tmp_path / "agreement.json"),
                       tmp_path / "site-0" / "agreement.json")  # fmt: skip
        monkeypatch.setattr("typer.confirm", lambda *_, **__: answer)
        assert command("peer", "sign", "site-0/peer.toml").code == (0 if answer else 2)
        assert (tmp_path / "site-0" / "signature.json").exists() == answer


def test_a_private_run_needs_a_ledger_with_a_budget(command, tmp_path):
    sites = make_sites(tmp_path, n=2, graph="complete")
    text = sites.files[0].read_text()
    sites.files[0].write_text(text.replace('ledger = "site.ledger"', ""))
    done = command("peer", "run", sites.files[0])
    assert done.code == 4
    assert "make one with `ppadmm ledger new`" in done.err
    sites.files[0].write_text(text.replace('dataset = "records"', 'dataset = "others"'))
    done = command("peer", "run", sites.files[0])
    assert done.code == 4
    assert "No budget is granted for 'others'" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "--wait", "nan"), "Expected wait ≥ 0 seconds, got nan."),
        (("run", "--wait", 1, "--status", 99999), "Expected status ≤ 65535, got 99999."),
        (("check", "--seconds", "nan"), "Expected seconds to be a finite number, got nan."),
    ],
)
def test_a_number_that_is_none_spends_nothing(command, tmp_path, words, sentence):
    file = make_sites(tmp_path, n=2, graph="complete").files[0]
    done = command("peer", words[0], file, *words[1:])
    assert done.code == 2, done.err
    assert sentence in done.err
    with OwnerLedger.open(file.parent / "site.ledger") as ledger:
        assert ledger.spent("records") == 0.0


@pytest.mark.parametrize("case", ["non-private", "m-admm", "a draft of a schema"])
def test_what_nothing_protects_does_not_leave(case, command, tmp_path, monkeypatch):
    terms = {"algorithm": case}
    if "draft" in case:
        monkeypatch.setattr("tests.peers.sites.SCHEMA", replace(SCHEMA, confirmed=False))
        terms = {}
    sites = make_sites(tmp_path, n=2, graph="complete", **terms)
    done = command("peer", "run", sites.files[0], "--wait", 0.5)
    assert done.code == 4, done.err
    assert "so nothing may leave this site" in done.err
    assert not sites.books(0).runs


def test_a_schema_that_was_not_agreed_on_is_refused(command, tmp_path):
    sites = make_sites(tmp_path, n=2, graph="complete")
    schema = sites.files[0].parent / "schema.toml"
    schema.write_text(replace(SCHEMA, confirmed=False).to_toml())
    done = command("peer", "run", sites.files[0], "--wait", 0.5)
    assert done.code == 3
    assert "take the schema file that all agreed on" in done.err
    assert not sites.books(0).runs


def test_everyone_waited_for_in_vain(command, tmp_path):
    sites = make_sites(tmp_path, n=2, graph="complete")
    done = command("peer", "run", sites.files[0], "--wait", 0.5)
    assert done.code == 6
    assert "never began: nothing new from 'site-1' (agent 1) for 0.5 s" in done.err
    (run,) = sites.books(0).runs.values()
    assert run.given_back


class TestChecking:
    def test_all_is_well(self, command, tmp_path):
        sites = make_sites(tmp_path, n=2, graph="complete", rounds=3)
        other = Peer(sites.files[1], "--test-seed", 1)
        try:
            until(lambda: _listens(sites, 1))
            done = command("peer", "check", sites.files[0], "--seconds", 20)
            assert done.code == 0, done.out + done.err
            assert "ok  site-1 (agent 1): reached, signing, round 0" in done.out
            assert not sites.made(1, True)
        finally:
            other.kill()

    def test_nobody_there(self, command, tmp_path):
        sites = make_sites(tmp_path, n=2, graph="complete")
        (sites.files[0].parent / "signature.json").unlink()
        done = command("peer", "check", sites.files[0], "--seconds", 0.5, "--json")
        assert done.code == 11
        found = {row["what"]: row["problem"] for row in json.loads(done.out)["found"]}
        why = found["site-1 (agent 1)"]
        assert why.startswith("nothing listens at 127.0.0.1:")
        assert why.endswith("; start `ppadmm peer run` or `peer check` there, too")
        assert "sign it (ppadmm peer sign)" in found["signature"]
        assert found["ledger"] == found["agreement"] == found["revocations"] == ""
        assert any(k.startswith("certificate and keys (until 20") and not found[k] for k in found)

    def test_two_that_check_each_other_find_no_problem(self, tmp_path):
        sites = make_sites(tmp_path, n=2, graph="complete")
        checks = [Peer(file, "--seconds", 30, check=True) for file in sites.files]
        assert [check.wait() for check in checks] == [0, 0], checks[0].words()
        for k, check in enumerate(checks):
            assert f"site-{1 - k} (agent {1 - k}): reached, checking" in check.words()
            assert check.words().endswith(f"All is well. Next: ppadmm peer run {check.file}\n")

    def test_a_run_that_the_ledger_would_refuse_is_seen_before_it_starts(self, command, tmp_path):
        sites = make_sites(tmp_path, n=2, graph="complete")
        with OwnerLedger.open(sites.files[0].parent / "site.ledger") as ledger:
            ledger.grant("records", Budget(0.5, 1e-4))
        done = command("peer", "check", sites.files[0], "--seconds", 0.1)
        assert done.code == 11
        words = " ".join(done.out.split())
        assert "PROBLEM ledger: With this run 'records' would cost ε = 2 at δ = 0.0001" in words
        assert "but ε = 0.5 is granted" in words

    def test_a_grant_for_another_adjacency_is_seen_before_it_starts(self, command, tmp_path):
        sites = make_sites(tmp_path, n=2, graph="complete")
        with OwnerLedger.open(sites.files[0].parent / "site.ledger") as ledger:
            ledger.grant("records", Budget(9.0, 1e-4), protection=Protection("zero-out"))
        done = command("peer", "check", sites.files[0], "--seconds", 0.1)
        assert done.code == 11
        words = " ".join(done.out.split())
        assert "PROBLEM ledger: This run protects by replace-one" in words
        assert "budget of 'records' is granted for zero-out" in words

    def test_another_agreement_version_and_clock(self, command, tmp_path, monkeypatch):
        """The other side is a check, too, in this process, with terms and a clock of its own."""
        import threading

        from ppadmm.peers import check as peer_check
        from ppadmm.peers.zenoh.transport import ZenohTransport

        sites = make_sites(tmp_path, n=2, graph="complete")
        peer = PeerFile.load(sites.files[1])
        terms = replace(sites.agreement, eta=0.5, patience=7)
        key = read_key(peer.keys.signing)
        visit = peer_check.Check(terms, 1, key, ZenohTransport(peer.link_settings(terms)))
        note = visit._note()
        visit._note = lambda: replace(note, version="9.9", time=note.time - 3600)
        thread = threading.Thread(target=visit, args=(15,))
        thread.start()
        done = command("peer", "check", sites.files[0], "--seconds", 15)
        thread.join()
        assert done.code == 11
        for words in (
            "another agreement: eta: mine is 0.1, theirs is 0.5",
            "another agreement: patience: mine is 60.0, theirs is 7.0",
            "it runs ppadmm 9.9",
            "behind of this one",
        ):
            assert words in done.out

    def test_why_a_link_fails_is_said(self, tmp_path):
        from ppadmm.peers.check import ProbeAnswer, probe

        sites = make_sites(tmp_path / "a", n=2, graph="complete")
        strange = make_sites(tmp_path / "b", n=2, graph="complete")
        other = Peer(sites.files[1], "--test-seed", 1)
        end = sites.agreement.parties[1].endpoint
        ours, theirs = (PeerFile.load(each.files[0]).credentials() for each in (sites, strange))
        try:
            until(lambda: _listens(sites, 1))
            assert probe(end, ours) == ProbeAnswer(reached=True)
            assert "is not from this site's authority" in probe(end, theirs).problem
            name = end.replace("127.0.0.1", "localhost")
            assert "is not for the address localhost" in probe(name, ours).problem
        finally:
            other.kill()
        assert not probe(end, ours).reached


def _listens(sites, i):
    import socket

    host, _, port = sites.agreement.parties[i].endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def test_a_paid_run_is_not_lost_to_its_own_self_check(command, tmp_path):
    """The second accountant of one site errs by 1 %: results first, then the signature."""
    sites = make_sites(tmp_path, n=2, graph="complete", rounds=3)
    doubtful = Peer(sites.files[0], seam={"doubt": 1.01})
    sound = Peer(sites.files[1])
    assert (doubtful.wait(), sound.wait()) == (12, 0), doubtful.words()
    here = sites.files[0].parent
    folder = here / "results"
    names = {path.name for path in (sites.files[1].parent / "results").iterdir()}
    assert {path.name for path in folder.iterdir()} == names - {"certificate.json"}
    told, error = doubtful.words().strip().rsplit("\n", 1)
    assert json.loads(told.splitlines()[-1])["certificate"] is None
    assert error.startswith(f"Error: The results are in '{folder}', all of them, but they are not")
    assert "Agent 0: it states ε = " in error
    assert f"sign them with: ppadmm certify {folder} --key FILE" in error
    (run,) = sites.books(0).runs.values()
    assert run.outcome == "finished"
    assert sites.model(0) == sites.model(1)

    def verify():
        paths = [file.parent / "results" / "certificate.json" for file in sites.files]
        return command("verify", *paths, "--agreement", here / "agreement.json")

    done = command("certify", folder, "--key", here / "keys" / "gone.key")
    assert done.code == 2
    assert "Cannot read the private key" in done.err
    other = sites.files[1].parent / "keys" / "signing.key"
    done = command("certify", folder, "--key", other)
    assert done.code == 2
    assert "for 'site-0', this one is" in done.err
    assert verify().code == 2
    done = command("certify", folder, "--key", here / "keys" / "signing.key")
    assert done.code == 0, done.err
    done = verify()
    assert done.code == 0, done.err
    assert "every signer names the others" in " ".join(done.out.split())
    again = Peer(sites.files[0], "--out", here / "again")
    assert again.wait() == 0, again.words()
    assert (here / "again" / "model.json").read_bytes() == sites.model(1)


def test_the_page_and_the_metrics_of_a_run(tmp_path):
    """What is served names no record: every number of it is public or was released."""
    sites = make_sites(tmp_path, n=3, rounds=200)
    (port,) = free_ports(1)
    peers = [Peer(sites.files[0], "--status", port, seam={"pause": 0.02})]
    peers += [Peer(file, seam={"pause": 0.02}) for file in sites.files[1:]]
    base = f"http://127.0.0.1:{port}"
    try:
        until(lambda: sites.made(0) >= 5)
        page, metrics, view = (get(base + path) for path in ("/", "/metrics", "/view.json"))
        seen = json.loads(view)
        assert (seen["phase"], seen["rounds"], seen["agents"]) == ("rounds", 200, 3)
        assert seen["charged"] >= 5
        assert 'ppadmm_neighbour_connected{run="' in metrics
        assert f'ppadmm_round{{run="{seen["run"]}",agent="0"}} ' in metrics
        assert "This site now: training" in page
        records = (sites.files[0].parent / "data.csv").read_text().splitlines()[1:]
        for text in (page, metrics, view):
            assert not any(value in text for row in records for value in row.split(",")[:2])
        for path, headers, code in (("/x", {}, 404), ("/", {"Host": "evil.example:1"}, 403)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(base + path, headers)
            assert refused.value.code == code
            refused.value.close()
    finally:
        for peer in peers:
            peer.kill()


def get(url, headers=None):
    request = urllib.request.Request(url, headers=headers or {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def test_a_terminal_shows_the_run_as_it_goes(tmp_path):
    """On a real terminal; the view takes itself away at the end and leaves the error."""
    import os
    import pty
    import subprocess

    sites = make_sites(tmp_path, n=2, graph="complete")
    mine, theirs = pty.openpty()
    code = "from ppadmm.cli import main; main()"
    words = [sys.executable, "-c", code, "peer", "run", str(sites.files[0]), "--wait", "1.5"]
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.Popen(words, stderr=theirs, stdout=theirs, stdin=theirs, env=settings)
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(mine, 4096)
        except OSError:
            break
    os.close(mine)
    assert done.wait() == 6
    text = said.decode()
    assert "waiting for signatures on the agreement" in text
    assert "0 of 12" in text
    assert text.rstrip().endswith("Nothing was spent.")


def test_an_encrypted_key_signs_runs_and_checks_with_its_passphrase(tmp_path, command, monkeypatch):
    monkeypatch.delenv("PPADMM_PASSPHRASE", raising=False)
    file = make_sites(tmp_path / "sites", n=2, graph="complete").files[0]
    signing = file.parent / "keys" / "signing.key"
    signing.write_bytes(private_pem(read_key(signing), b"correct horse"))
    Path("secret").write_text("correct horse\n")
    sign, told = ("peer", "sign", file, "--yes", "--json"), ("--passphrase-file", "secret")
    refused = command(*sign)
    assert refused.code == 2
    assert "is encrypted; give its passphrase in PPADMM_PASSPHRASE" in refused.err
    assert command(*sign, *told).code == 0
    run = ("peer", "run", file, "--wait", 0.1, "--json")
    assert "is encrypted" in command(*run).err
    assert "The run never began" in command(*run, *told).err
    check = ("peer", "check", file, "--seconds", 0.1, "--json")
    assert "is encrypted" in json.loads(command(*check).out)["found"][0]["problem"]
    assert not json.loads(command(*check, *told).out)["found"][0]["problem"]
    monkeypatch.setenv("PPADMM_PASSPHRASE", "wrong")
    assert "does not open" in command(*run).err
