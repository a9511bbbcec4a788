"""`ppadmm data` and `ppadmm schema` as a user meets them."""

import http.server
import threading
import tomllib
from pathlib import Path

import pytest

from ppadmm.data import Schema
from ppadmm.datasets import NAMES, SOURCES, download

CSV = "\n".join(["age,sex,ill", *(f"{20 + i},{'fm'[i % 2]},{i % 3 % 2}" for i in range(60))]) + "\n"


def refused(outcome, code, *words):
    assert outcome.code == code
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err


class TestList:
    def test_says_what_is_known_and_what_is_here(self, command):
        for name in ("adult.data", "adult.test.gz", "us_acs.csv.gz"):
            Path(name).write_text("")
        outcome = command("data", "list", "--data-dir", ".")
        lines = outcome.out.splitlines()
        assert lines[0].split() == ["name", "here", "records", "features", "from", "licence"]
        here = {line.split()[0]: line.split()[1] for line in lines[1:6]}
        assert here == {
            "synthetic": "yes", "adult": "yes", "adult-onehot": "yes", "us": "yes", "brazil": "no"
        }  # fmt: skip
        assert "CC BY 4.0" in outcome.out
        assert max(map(len, lines)) <= 100

    def test_as_json(self, command):
        rows = command("data", "list", "--json").json["data"]
        assert [row["name"] for row in rows] == list(NAMES)
        assert [row["features"] for row in rows] == [40, 41, 105, 58, 52]
        assert [row["records"] for row in rows] == [48_842, 48_842, 48_842, 40_000, 38_000]
        assert [row["present"] for row in rows] == [True, False, False, False, False]

    def test_without_a_folder_says_how_to_name_one(self, command):
        assert "--data-dir or PPADMM_DATA" in command("data", "list").out

    def test_half_of_adult_is_not_adult(self, command):
        Path("adult.data").write_text("")
        rows = command("data", "list", "--data-dir", ".", "--json").json["data"]
        assert not rows[1]["present"]


class TestFetch:
    @pytest.fixture
    def mirror(self, monkeypatch):
        """A server on this machine that has no Adult."""
        monkeypatch.setenv("no_proxy", "*")
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "log_message", lambda *_: None)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/adult.zip"
        server.shutdown()
        server.server_close()
        thread.join()

    def test_adult_from_a_mirror_that_does_not_have_it(self, command, mirror):
        outcome = command("data", "fetch", "adult", "--data-dir", "new", "--from", mirror)
        refused(outcome, 3, f"Cannot download Adult from {mirror}: it answered 501", "--from")
        assert outcome.out == ""
        assert list(Path("new").iterdir()) == []

    def test_adult_that_is_here(self, data_dir, command):
        if not SOURCES["adult"].present(Path(data_dir)):
            pytest.skip("PPADMM_DATA does not hold adult.data and adult.test")
        outcome = command("data", "fetch", "adult", "--data-dir", data_dir)
        assert outcome.code == 0
        assert "already, SHA-256 as expected" in outcome.out
        assert "CC BY 4.0" in outcome.out

    def test_the_source_is_uci_over_https(self):
        assert download.ADULT_URL.startswith("https://archive.ics.uci.edu/static/")

    @pytest.mark.parametrize(
        ("name", "step"), [("us", "csv_pct.zip"), ("brazil", "international.ipums.org")]
    )
    def test_what_only_a_person_can_get_is_explained(self, command, name, step):
        outcome = command("data", "fetch", name, "--data-dir", ".")
        assert step in outcome.out
        assert "--data-dir or PPADMM_DATA" in outcome.out
        refused(outcome, 3, f"'{name}'", "cannot be fetched by a program")

    def test_what_is_here_needs_no_steps(self, command):
        Path("us_acs.csv").write_text("")
        outcome = command("data", "fetch", "us", "--data-dir", ".")
        assert (outcome.code, outcome.out) == (0, "us is in . already.\n")

    def test_made_up_records_need_no_file(self, command):
        assert "nothing to fetch" in command("data", "fetch", "synthetic").out

    def test_no_folder_and_no_such_set(self, command):
        refused(command("data", "fetch", "adult"), 2, "Which folder?", "PPADMM_DATA")
        refused(command("data", "fetch", "adlut"), 2, "Unknown data set 'adlut'", "adult")


class TestSchema:
    def test_a_draft_is_printed(self, command):
        Path("people.csv").write_text(CSV)
        outcome = command("schema", "people.csv", "--label", "ill")
        assert outcome.code == 0
        schema = Schema.from_dict(tomllib.loads(outcome.out))
        assert not schema.confirmed
        assert "set confirmed = true" in outcome.out

    def test_a_draft_is_written_once_and_never_over_a_file(self, command):
        Path("people.csv").write_text(CSV)
        arguments = ("schema", "people.csv", "--label", "ill", "--out", "people.toml")
        assert "people.toml: a draft" in command(*arguments).out
        Path("people.toml").write_text("mine")
        refused(command(*arguments), 2, "'people.toml' exists already")
        assert Path("people.toml").read_text() == "mine"
        Path("link.toml").symlink_to("nowhere.toml")
        refused(command(*arguments[:-1], "link.toml"), 2, "'link.toml' exists already")
        refused(command(*arguments[:-1], "no/such/p.toml"), 2, "Cannot write 'no/such/p.toml'")

    def test_a_draft_trains_and_is_private_only_once_confirmed(self, command):
        Path("people.csv").write_text(CSV)
        text = command("schema", "people.csv", "--label", "ill").out
        train = ("train", "people.csv", "--schema", "p.toml", "--agents", 2, "--rounds", 2)
        train += ("--epsilon", 20, "--delta", "1e-2", "--json")
        Path("p.toml").write_text(text)
        assert command(*train).json["private"] is False
        Path("p.toml").write_text(text.replace("confirmed = false", "confirmed = true", 1))
        assert command(*train).json["private"] is True

    @pytest.mark.parametrize("name", NAMES)
    def test_a_named_set_has_its_schema_checked_in(self, command, name):
        outcome = command("schema", name)
        assert Schema.from_dict(tomllib.loads(outcome.out)) == SOURCES[name].schema
        assert SOURCES[name].schema.confirmed

    def test_errors(self, command):
        Path("people.csv").write_text(CSV)
        refused(command("schema", "people.csv"), 2, "Which column", "two-valued are: sex, ill")
        refused(command("schema", "people.csv", "--label", "x"), 3, "no column 'x'")
        refused(command("schema", "none.csv", "--label", "x"), 3, "no file 'none.csv'")
        refused(command("schema", "adult", "--label", "x"), 2, "has a label already")
