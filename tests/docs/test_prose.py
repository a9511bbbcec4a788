"""Lines of prose have at most 120 characters: a difference of two versions can be read."""

import re

import pytest

from tests.docs.blocks import PAGES, ROOT, tokens

MOST = 120
FILES = (*PAGES, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def code_lines(page):
    """Return the numbers of lines in code blocks, tables and comments."""
    kinds = ("fence", "code_block", "table_open", "html_block")
    spans = [token.map for token in tokens(page) if token.type in kinds]
    return {line for first, end in spans for line in range(first, end)}


def long_lines(page):
    """Yield (line, text) of prose that is too long; one long word, such as a link, is not."""
    code = code_lines(page)
    for k, line in enumerate((ROOT / page).read_text("utf-8").split("\n")):
        if len(line) > MOST and k not in code and not is_one_word(line):
            yield k + 1, line


def is_one_word(line):
    """Say whether a line cannot be broken: a heading, or a code or link with what it hangs on."""
    whole = re.sub(r"`[^`]*`", "x", line.strip())
    return line.startswith("#") or " " not in re.sub(r"^([-*]|\d+\.|>) ", "", whole)


@pytest.mark.parametrize("page", FILES)
def test_lines_of_prose_are_short(page):
    assert list(long_lines(page)) == []


def test_a_long_line_is_seen(tmp_path, monkeypatch):
    (tmp_path / "x.md").write_text(f"# {'t ' * 80}\n\n{'word ' * 30}\n\n    {'code ' * 30}\n")
    monkeypatch.setattr("tests.docs.blocks.ROOT", tmp_path)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert [line for line, _ in long_lines("x.md")] == [3]
