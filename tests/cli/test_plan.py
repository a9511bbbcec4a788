import json
import sys

import pytest

from ppadmm import cli

SMALL = (
    "--records", "400", "--features", "8", "--agents", "3", "--graph", "ring", "--delta", "1e-5",
    "--seeds", "6", "--rounds", "20",
)  # fmt: skip


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["ppadmm", "plan", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    captured = capsys.readouterr()
    return stop.value.code or 0, captured.out, captured.err


def test_text_json_and_page_tell_the_same(monkeypatch, capsys, tmp_path):
    folder = tmp_path / "new" / "plan"
    code, out, err = run(monkeypatch, capsys, *SMALL, "--out", str(folder))
    assert (code, err) == (0, "")
    plain = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    page = (folder / "plan.html").read_text(encoding="utf-8")
    settings, expected = plain["settings"], plain["expected"]
    assert f"{settings['rounds']}, η = {settings['eta']:g}" in out
    for text in (out, page):
        assert f"{expected['error']:.4f}" in text
        assert f"{expected['low']:.4f} to {expected['high']:.4f}" in " ".join(text.split())
        assert "No private data were read" in text
        for change in plain["changes"]:
            assert change["words"].split("(")[0] in text
    assert 'class="band"' in page
    assert "<script" not in page
    assert out.rstrip().endswith(f"Plan: {folder / 'plan.html'}")
    assert all(len(line) <= 100 for line in out.splitlines() if not line.startswith("Plan: "))


def test_json_and_nothing_else(monkeypatch, capsys):
    code, out, err = run(
        monkeypatch, capsys, *SMALL[2:], "--records-per-agent", "300,400,500", "--no-changes",
        "--epsilons", "1,3", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    plain = json.loads(out)
    assert plain["records"] == [300, 400, 500]
    assert [point["epsilon"] for point in plain["curve"]] == [1.0, 3.0]
    assert plain["changes"] == []


def test_every_site_is_told_whether_joining_helps(monkeypatch, capsys, tmp_path):
    folder = tmp_path / "plan"
    code, out, err = run(
        monkeypatch, capsys, *SMALL[2:], "--records-per-agent", "3000,900,100", "--no-changes",
        "--epsilons", "1", "--epsilons-per-agent", "1,2,0.5", "--out", str(folder),
    )  # fmt: skip
    assert (code, err) == (0, "")
    plain = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    page = (folder / "plan.html").read_text(encoding="utf-8")
    sites = plain["joining"]["sites"]
    assert [site["epsilons"][0] for site in sites] == [1.0, 2.0, 0.5]
    assert plain["epsilon"] == 2.0
    assert "ε = 0.5 to 2 at" in " ".join(out.split())
    for site in sites:
        assert site["sentence"] in " ".join(out.split())
        assert site["sentence"] in page
        for error in (site["alone"]["error"], site["together"]["error"]):
            assert f"{error:.3f}" in out
            assert f"{error:.3f}" in page
    assert 'id="plot-joining"' in page
    assert all(len(line) <= 100 for line in out.splitlines() if not line.startswith("Plan: "))


def test_skewed_labels(monkeypatch, capsys):
    given = (*SMALL, "--no-changes", "--epsilons", "1", "--partition", "dirichlet:0.5")
    code, out, err = run(monkeypatch, capsys, *given)
    assert (code, err) == (0, "")
    assert "alone, own mix" in out
    assert all(len(line) <= 100 for line in out.splitlines())
    _, out, _ = run(monkeypatch, capsys, *given, "--no-joining")
    assert "Does joining help" not in out


def test_one_place_by_itself(monkeypatch, capsys):
    code, out, err = run(
        monkeypatch, capsys, "--records", "400", "--features", "8", "--agents", "1", "--seeds", "6"
    )
    assert (code, err) == (0, "")
    assert out.startswith("Plan for Centralised objective perturbation: one agent, 400 records, 8")
    assert "what would help most" in out
    assert "Does joining help" not in out


def test_an_error_out_of_reach_and_a_budget_out_of_reach(monkeypatch, capsys):
    given = ("--no-changes", "--nonprivate-error", "0.2", "--epsilons", "1")
    _, out, _ = run(monkeypatch, capsys, *SMALL, *given, "--error", "0.1")
    assert "No ε up to 64 brings the median error to 0.1" in out
    code, out, err = run(monkeypatch, capsys, *SMALL, *given, "--eta", "1e-6")
    assert (code, err) == (0, "")
    assert "choose η > " in " ".join(out.split())
    assert "no noise reaches it" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "How many training records"),
        (("--records", "10"), "How many features"),
        ((*SMALL, "--records-per-agent", "1,2,3"), "How many training records"),
        ((*SMALL, "--epsilons", "1,x"), "got 'x'"),
        ((*SMALL, "--graph", "web"), "Unknown graph 'web'"),
        ((*SMALL, "--epsilon", "0"), "> 0"),
        (("--records", "10", "--public", "nothing.csv", "--label", "y"), "nothing.csv"),
        ((*SMALL, "--out", "."), "exists already"),
        ((*SMALL, "--epsilons-per-agent", "1,2"), "for 3 agents, got 2"),
        ((*SMALL, "--partition", "column:x"), "leave --agents out"),
        ((*SMALL, "--partition", "files"), "leave --agents out"),
        ((*SMALL, "--partition", "dirichlet:x"), "got 'x'"),
    ],
)
def test_bad_input_is_one_sentence(monkeypatch, capsys, arguments, message):
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code in (2, 3)
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
