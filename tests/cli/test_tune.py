"""`ppadmm tune` as a user meets it."""

import json
import math
from pathlib import Path

import pytest

from ppadmm.accounting import epsilon
from ppadmm.accounting.event_data import from_plain
from ppadmm.runs.saved import load_run


def test_the_command_writes_a_run_whose_ledger_can_be_checked(command, tmp_path):
    found = command(
        "tune", "--etas", "0.002,0.02", "--rounds", 3, "--agents", 3, "--seed", 1, "--out", "best"
    )
    assert found.code == 0, found.err
    assert "noisy accuracy on the training records" in found.out
    assert found.out.count("chosen") == 1
    saved = json.loads((tmp_path / "best" / "result.json").read_text())
    spent = [epsilon(from_plain(one["reserved"]), 1e-6).epsilon for one in saved["ledger"]]
    assert max(spent) == pytest.approx(1.0, rel=1e-6)
    assert math.isclose(saved["epsilon_proven"], max(spent))
    refused = command("tune", "--etas", "0.1,0.2", "--how", "repeat")
    assert refused.code == 2
    assert "centralised" in refused.err


@pytest.mark.parametrize("how", ["split", "repeat"])
def test_from_a_search_to_a_verified_certificate(command, how):
    def ok(*words):
        outcome = command(*words)
        assert outcome.code == 0, outcome.err
        return outcome

    ok("ledger", "new", "a.ledger", "--owner", "St Mary")
    ok("ledger", "grant", "a.ledger", "records", "--epsilon", 1.2)
    ok("tune", "--regularisations", "0.01,0.1", "--algorithm", "centralised", "--agents", 3,
       "--how", how, "--ledger", "a.ledger", "--dataset", "records", "--out", "b")  # fmt: skip
    ok("key", "new", "k")
    ok("certify", "b", "--key", "k")
    cert = "b/certificate.json"
    sound = ok("verify", cert, "--trust", "k.pub", "--ledger", "a.ledger", "--run", "b")
    assert "PRIVATE: ε = 1 at δ = 1e-06" in sound.out
    said = json.loads(Path(cert).read_text())["certificate"]["statement"]
    assert said["tuned"]["on_the_records"] is True
    assert said["tuned"]["regularisation"] == "chosen"
    assert said["tuned"]["search"]["how"] == how
    assert said["tuned"]["epsilon"] == said["epsilon"]
    assert ("RepeatAndSelect" in said["released"]) == (how == "repeat")
    page = Path("b/report.html").read_text()
    assert f"2 settings were tried on the records ({how})" in page
    assert "Nothing in this run was tuned" not in page
    (run,) = ok("ledger", "show", "a.ledger", "--json").json["datasets"][0]["runs"]
    assert (run["state"], run["charges"]) == ("finished", 1 if how == "repeat" else 4)


class TestSaved:
    SMALL = ("tune", "--etas", "0.01,0.1", "--rounds", 2, "--agents", 3, "--seed", 1)

    def test_what_was_paid_for_is_saved_as_train_saves_it(self, command):
        said = command(*self.SMALL).out
        (folder,) = Path("runs").iterdir()
        assert f"Results: {folder}\nReport:  {folder / 'report.html'}" in said
        tried = json.loads((folder / "tune.json").read_text())
        assert tried["format"] == 1
        assert [one["eta"] for one in tried["candidates"]] == [0.01, 0.1]
        assert load_run(folder).result["search"]["how"] == tried["how"] == "split"

    def test_only_where_it_is_asked_for(self, command):
        assert command(*self.SMALL, "--no-save").code == 0
        told = command(*self.SMALL, "--json").json
        assert not Path("runs").exists()
        assert command(*self.SMALL, "--json", "--out", "mine").json["how"] == "split"
        tried = json.loads(Path("mine/tune.json").read_text())
        assert tried == {"format": 1, **{name: told[name] for name in tried if name != "format"}}
        refused = command(*self.SMALL, "--no-save", "--out", "other")
        assert refused.code == 2
        assert "--no-save writes nothing" in refused.err
        assert command(*self.SMALL, "--out", "mine").code == 2
