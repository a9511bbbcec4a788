"""What all commands share: help with an example, --json, exit codes, errors, completion."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ppadmm import doctor, errors
from ppadmm.algorithms import ALGORITHMS
from ppadmm.auditing.suite import AUDITED
from ppadmm.cli import app as cli
from ppadmm.cli.app import InternalError
from ppadmm.cli.common import InterruptedRunError
from ppadmm.noise import SecureNoise
from ppadmm.planning.specification import PLANNED
from ppadmm.problem import LOSSES
from ppadmm.problem.graphs import KINDS
from ppadmm.solvers import SOLVERS

ROOT = Path(__file__).parents[2]


def commands(group, path=("ppadmm",)):
    """Every command with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(cli)))
every = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def options(command):
    return {option for parameter in command.params for option in parameter.opts}


@every
def test_the_help_has_an_example_that_could_be_typed(words):
    command = COMMANDS[words]
    found = re.findall(r"^Example: (.*)$", command.help, re.M)
    assert len(found) == 1, command.help
    typed = shlex.split(found[0])
    assert tuple(typed[: len(words)]) == words
    given = {word for word in typed if word.startswith("--")}
    assert given <= options(command)
    with command.make_context("example", typed[len(words) :], resilient_parsing=False):
        pass


@every
def test_every_command_speaks_json(words):
    assert "--json" in options(COMMANDS[words])


def test_json_is_one_object_and_nothing_else(command, tmp_path):
    data = tmp_path / "people.csv"
    data.write_text("age,ill\n" + "".join(f"{20 + k % 60},{'yn'[k % 2]}\n" for k in range(300)))
    run = ("train", data, "--label", "ill", "--rounds", 2, "--agents", 2, "--delta", 1e-3)
    assert command(*run, "--out", "run").code == 0
    spoken = {
        "doctor": command("doctor", "--json"),
        "schema": command("schema", data, "--label", "ill", "--json"),
        "schema file": command("schema", "adult", "--out", "adult.toml", "--json"),
        "fetch": command("data", "fetch", "synthetic", "--json"),
        "report": command("report", "run", "--json"),
        "key": command("key", "new", "a.key", "--json"),
        "certify": command("certify", "run", "--key", "a.key", "--json"),
        "ledger": command("ledger", "new", "a.ledger", "--owner", "me", "--json"),
        "grant": command("ledger", "grant", "a.ledger", "people", "--epsilon", 1, "--json"),
        "authority": command("peer", "ca", "new", "study", "--json"),
        "site": command("peer", "new", "a", "--agent", 0, "--endpoint", "a.org:1", "--json"),
        "request": command("peer", "request", "a/peer.toml", "--json"),
    }
    told = spoken["request"].json["fingerprint"]
    approve = ("peer", "approve", "a.request.pem", "--json")
    assert "give --fingerprint" in command(*approve).err
    spoken["approve"] = command(*approve, "--fingerprint", told)
    told = spoken["authority"].json["fingerprint"]
    assert spoken["approve"].json["authority_fingerprint"] == told
    join = ("peer", "join", "a/peer.toml", "a.reply.pem", "--fingerprint", told, "--json")
    spoken["join"] = command(*join)
    spoken["revoke"] = command("peer", "ca", "revoke", "a", "--json")
    for name, outcome in spoken.items():
        assert outcome.code == 0, (name, outcome.err)
        assert isinstance(json.loads(outcome.out), dict), name
        assert outcome.err == "", name
    assert spoken["schema"].json["schema"]["label"]["name"] == "ill"
    assert Path(spoken["report"].json["report"]).is_file()
    assert Path(spoken["certify"].json["certificate"]).is_file()
    assert spoken["revoke"].json["revoked"] == ["a"]


def test_names_in_the_help_are_those_that_there_are():
    def text(*words):
        help_ = COMMANDS["ppadmm", *words].get_help(COMMANDS["ppadmm", *words].make_context("", []))
        return " ".join(re.sub(r"-\n\s*", "-", help_).split())

    every = ", ".join(ALGORITHMS)
    assert every in text("train")
    assert every in text("tune")
    assert f"{every}, or all" in text("compare")
    for name in (*LOSSES, *SOLVERS, *KINDS):
        assert name in text("train")
    assert ", ".join(PLANNED) in text("plan")
    assert f"{', '.join(AUDITED)}, or all" in text("audit")


@every
def test_no_help_shows_a_list_that_was_not_filled_in(words):
    command = COMMANDS[words]
    shown = command.get_help(command.context_class(command, info_name=words[-1]))
    assert not re.search(r"\{[a-z_]+\}", shown)


class TestErrors:
    def codes(self, kind=errors.PpadmmError):
        return {kind.exit_code}.union(*(self.codes(sub) for sub in kind.__subclasses__()))

    def test_one_table_has_all_exit_codes(self):
        assert {InternalError.exit_code, InterruptedRunError.exit_code} == {70, 130}
        table = (ROOT / "docs" / "cli.md").read_text()
        listed = [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)]
        assert listed == sorted({0} | self.codes())

    def test_a_sentence_and_no_traceback(self, command):
        outcome = command("train", "--epsilon", -1)
        assert outcome.code == 2
        assert outcome.out == ""
        assert outcome.err == "Error: Expected epsilon > 0, got -1.0.\n"

    @pytest.mark.parametrize(
        "words", [("--debug", "train", "--epsilon", -1), ("train", "--epsilon", -1, "--debug")]
    )
    def test_debug_shows_where_it_came_from(self, words, command):
        outcome = command(*words)
        assert outcome.code == 2
        assert outcome.err.startswith("Traceback")
        assert outcome.err.endswith("Error: Expected epsilon > 0, got -1.0.\n")

    @pytest.mark.parametrize("debug", [False, True])
    def test_a_fault_of_our_own_is_named_as_such(self, debug, command, monkeypatch):
        monkeypatch.setattr(doctor, "examine", lambda _: {}["nothing"])
        outcome = command("doctor", *(["--debug"] if debug else []))
        assert outcome.code == 70
        assert re.search(
            r"Error: KeyError in ppadmm/cli/doctor\.py, line \d+\. This is a fault of ppadmm",
            outcome.err,
        )
        assert ("Traceback" in outcome.err) is debug

    def test_what_the_system_refuses_has_a_way_out(self, command):
        Path("a").write_text("")
        outcome = command("key", "new", "a/b")
        assert outcome.code == 2
        assert outcome.err == "Error: Cannot write 'a/b': Not a directory; choose another place.\n"

    def test_output_that_cannot_be_written_is_no_file_called_none(self, command, monkeypatch):
        def full(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(doctor, "examine", full)
        outcome = command("doctor")
        assert outcome.code == 2
        assert "No space left on device; see where the output goes" in outcome.err
        assert "None" not in outcome.err

    def test_ctrl_c_is_never_silent(self, command, monkeypatch):
        def interrupt(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(doctor, "examine", interrupt)
        outcome = command("doctor")
        assert outcome.code == 130
        assert outcome.err == "Error: Interrupted; the command did not end, so run it again.\n"

    def test_debug_is_in_the_help(self, command):
        assert "--debug" in command("--help").out


class TestCompletion:
    def ask(self, **variables):
        """Run the command as a shell does that asks for completions."""
        code = "from ppadmm.cli import main; main()"
        environment = {**os.environ, **variables}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def complete(self, line):
        place = len(shlex.split(line)) - 1
        words = {"COMP_WORDS": line, "COMP_CWORD": str(place)}
        return self.ask(_PPADMM_COMPLETE="complete_bash", **words).split()

    def test_commands_options_and_values(self):
        assert self.complete("ppadmm tr") == ["train"]
        assert self.complete("ppadmm train --algo") == ["--algorithm"]
        assert self.complete("ppadmm train --algorithm i") == ["ipp"]

    def test_a_script_can_be_shown(self):
        shown = self.ask(_PPADMM_COMPLETE="source_bash")
        assert "complete -o default -F _ppadmm_completion ppadmm" in shown


class TestDoctor:
    def test_a_healthy_machine(self, command):
        outcome = command("doctor")
        assert outcome.code == 0
        assert "All is well" in outcome.out
        found = command("doctor", "--json").json
        assert found["well"]
        assert found["data"] == dict.fromkeys(found["data"], False) | {"synthetic": True}
        assert all(0.0 <= look["p_value"] <= 1.0 for look in found["noise"])

    def test_the_extras_are_those_of_the_package(self):
        import tomllib

        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = {
            name: re.match(r"[\w-]+", needs[0]).group()
            for name, needs in project["optional-dependencies"].items()
        }
        assert extras == {name: package for name, (package, _) in doctor.EXTRAS.items()}
        assert [re.match(r"[\w-]+", need).group() for need in project["dependencies"]] == list(
            doctor.BASE
        )

    @pytest.mark.parametrize("fault", ["too little", "none", "not centred", "Gaussian for Laplace"])
    def test_a_broken_sampler_is_found(self, fault):
        class Broken:
            def gaussian(self, values, scale, grid, key):
                if fault == "none":
                    return values
                moved = values + 0.5 * (fault == "not centred")
                less = scale * 0.8 if fault == "too little" else scale
                return SecureNoise().gaussian(moved, less, grid, key)

            def laplace(self, values, scale, grid, key):
                law = SecureNoise().gaussian if "Laplace" in fault else SecureNoise().laplace
                return law(values, scale, grid, key)

        found = doctor.examine(noise=Broken())
        assert not found.well
        assert "do not train on private records here" in found.problems[0]

    def test_broken_entropy_is_found(self):
        looks = doctor.look_at_noise(SecureNoise(), lambda n: bytes(k % 128 for k in range(n)))
        assert [look.passed for look in looks] == [True, True, False]

    def test_what_is_wrong_gives_exit_code_1(self, command, monkeypatch):
        monkeypatch.setenv("PPADMM_KERNEL", "magic")
        outcome = command("doctor")
        assert outcome.code == 1
        assert "Problem: PPADMM_KERNEL is 'magic'" in outcome.out
