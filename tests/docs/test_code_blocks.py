"""Code in the documentation runs, and every command in it exists with its options."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command

from ppadmm.cli import app
from tests.docs.blocks import PAGES, ROOT, Block, blocks, masked, spans
from tests.docs.run_page import matches

BLOCKS = [block for page in PAGES for block in blocks(page)]
EXAMPLES = [path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")]
RUN = sorted(
    {b.page for b in BLOCKS if b.is_run and not any(text.endswith(b.text) for text in EXAMPLES)}
)
"""Pages with code of their own; a page that only shows a file of examples/ is run there."""
NOT_RUN = [block for block in BLOCKS if block.note.startswith("not run: ")]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Put `ppadmm` of this source tree and `python` first on the path, and work in a new folder."""
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    for name, rest in (("ppadmm", "-c 'from ppadmm.cli import main; main()' "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {rest}"$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.delenv("PPADMM_DATA", raising=False)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("page", RUN)
def test_a_page_runs_from_top_to_bottom(page, shell):
    line = [sys.executable, "-W", "error", "-m", "tests.docs.run_page", page]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: f"{block.page}:{block.line}")
def test_a_block_that_is_not_run_says_why(block):
    pytest.skip(block.note)


@pytest.mark.parametrize("page", PAGES)
def test_python_is_in_blocks_that_are_run(page):
    """An indented or unmarked block would escape: it may not look like Python."""
    for block in blocks(page):
        if block.language == "" and not block.note:
            code = re.search(r"^(from \S+ import|import) \S+", block.text, re.MULTILINE)
            assert code is None, f"{block.page}:{block.line}: begin the block with ```python"


def lines(text):
    """Yield the words of every ppadmm command in a shell block."""
    for line in text.replace("\\\n", " ").split("\n"):
        words = shlex.split(line, comments=True)
        while "ppadmm" in words:
            words = words[words.index("ppadmm") + 1 :]
            ends = [k for k, word in enumerate(words) if re.fullmatch(r"[|;&>]+", word)]
            yield words[: ends[0]] if ends else words


def resolve(words):
    """Return the command that the first words name, and the rest."""
    command = get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"There is no {words[0]!r} in {command.name!r}."
        command, words = command.commands[words[0]], words[1:]
    return command, words


def parse(words):
    """Parse a whole command as the program would, without running it."""
    command, rest = resolve([re.sub(r"^\$\w+$", "1", word) for word in words])
    if not {"--help", "--install-completion", "--show-completion"} & set(rest):
        command.make_context(command.name, rest)


SHELL = [b for b in BLOCKS if b.language in ("sh", "") and re.search(r"^\s*ppadmm ", b.text, re.M)]


@pytest.mark.parametrize("block", SHELL, ids=lambda block: f"{block.page}:{block.line}")
def test_commands_parse(block):
    for words in lines(block.text):
        parse(words)


@pytest.mark.parametrize("page", PAGES)
def test_options_in_running_text_exist(page):
    for line, text in spans(page):
        if text.startswith("ppadmm ") and not re.match(r"ppadmm [A-Z….]", text):
            command, rest = resolve(text.replace("…", " ").split()[1:])
            known = {"--help", "--debug"}.union(
                *(p.opts + p.secondary_opts for p in command.params)
            )
            unknown = {w.split("=")[0] for w in rest if w.startswith("--")} - known
            assert not unknown, f"{page}:{line}: {text}"


def test_a_wrong_option_is_seen():
    block = Block("x", 1, "sh", "ppadmm train --epsilom 1 --seed $s # --none\n", "")
    with pytest.raises(Exception, match="epsilom"):
        test_commands_parse(block)
    with pytest.raises(AssertionError, match="There is no 'trian'"):
        parse(["trian"])


def test_outputs_are_compared_line_by_line():
    assert matches(["a", "…", "z"], ["a", "b", "c", "z"])
    assert not matches(["a", "z"], ["a", "b", "z"])
    assert masked("ε = 1.5, run 0a1b2c3d4e") == masked("ε = 20, run ffffffff00")
    assert masked("ε = 1.5 PRIVATE") != masked("ε = 1.5 NOT PRIVATE")
