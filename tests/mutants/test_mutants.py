"""Quick mutants are caught, all of them can be made, and the workshop tells the three cases apart.

`scripts/mutants` runs the rest.
"""

import sys

import pytest

from ppadmm.auditing.games import GAMES
from tests.mutants import report
from tests.mutants.catalogue import MUTANTS
from tests.mutants.catcher import BROKEN, CAUGHT, GAME, PASSED
from tests.mutants.mutant import Change, Mutant
from tests.mutants.workshop import PROJECT, Workshop

HOSTILE = "tests/contracts/test_malicious_neighbour.py"
NEAR_BY = f"{HOSTILE}::test_all_agents_of_a_network_find_the_same_radius"
LINE = "    return sigma1 * (math.sqrt(parameters) + STRAY)\n"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"))


def edited(new, caught_by=NEAR_BY):
    return Mutant("one", "of the tests", caught_by, (Change("mechanisms/limits.py", LINE, new),))


def test_every_game_has_a_mutant_and_every_mutant_a_name():
    caught_by = {mutant.caught_by for mutant in MUTANTS}
    assert {GAME + game.name for game in GAMES} <= caught_by
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made(mutant, workshop):
    """Every replacement applies, changes something, and leaves Python that compiles."""
    paths = [workshop.root / "ppadmm" / change.file for change in mutant.changes]
    before = [path.read_text() for path in paths]
    with workshop.mutated(mutant):
        for path, text in zip(paths, before, strict=True):
            assert path.read_text() != text
            compile(path.read_text(), path, "exec")
    assert [path.read_text() for path in paths] == before
    if not mutant.caught_by.startswith(GAME):
        assert (PROJECT / mutant.caught_by.split("::")[0]).is_file()


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.quick], ids=lambda mutant: mutant.name)
def test_a_quick_mutant_is_caught(mutant, workshop):
    found = workshop.try_out(mutant)
    assert found.code == CAUGHT, found


def test_the_copy_as_it_is_passes(workshop):
    found = workshop.run(GAME + "one-shot, second noise", NEAR_BY)
    assert found.code == PASSED, found


def test_what_is_not_caught_is_not_called_caught(workshop):
    """Nor is a mutant that cannot be made, or that is no build."""
    same = "    return (math.sqrt(parameters) + STRAY) * sigma1\n"
    assert workshop.try_out(edited(same)).code == PASSED
    careless = workshop.try_out(edited("    return sigma2\n", HOSTILE))
    assert careless.code == BROKEN
    assert "NameError" in careless.reason
    gone = Mutant("gone", "of the tests", NEAR_BY, (Change("mechanisms/limits.py", "gone", ""),))
    assert workshop.try_out(gone).code == BROKEN
    assert "has 0 places like 'gone', expected 1" in workshop.try_out(gone).reason
    assert workshop.run("tests/nowhere.py").code == BROKEN


def test_one_that_is_not_caught_fails_the_script(monkeypatch, capsys):
    same = "    return (math.sqrt(parameters) + STRAY) * sigma1\n"
    monkeypatch.setattr(report, "MUTANTS", (edited(same),))
    monkeypatch.setattr(sys, "argv", ["scripts/mutants"])
    with pytest.raises(SystemExit) as end:
        report.main()
    assert end.value.code == 1
    said = capsys.readouterr().out
    assert "NOT CAUGHT  one" in said
    assert "0 of 1 mutants are caught" in said


def test_the_page_lists_every_game_and_every_mutant():
    page = (PROJECT / "docs" / "audit.md").read_text()
    for game in GAMES:
        assert f"\n| {game.name} " in page
    for mutant in MUTANTS:
        assert f"\n| {mutant.about}{' (quick)' if mutant.quick else ''} |" in page
    assert f"in {len(MUTANTS)} ways" in page
    assert f"all {len(GAMES)} games" in page
