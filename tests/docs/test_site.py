"""The site builds without a warning, loads nothing from elsewhere, and has every command."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from typer.main import get_command

from ppadmm.cli import app
from tests.docs.blocks import PAGES, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; an unknown link or a page in no table of contents fails the build."""
    out = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*line, "-d", str(out / "doctrees"), str(ROOT / "docs"), str(out / "html")],
        capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / "html"


def options(command, name="ppadmm"):
    """Yield (command, option) for all that --help shows."""
    if hasattr(command, "commands"):
        for word, inner in command.commands.items():
            if not inner.hidden:
                yield from options(inner, f"{name} {word}")
    else:
        shown = (param for param in command.params if not getattr(param, "hidden", False))
        yield from ((name, option) for param in shown for option in param.opts if "--" in option)


def test_every_option_of_every_command_is_there(site):
    page = unescape((site / "commands.html").read_text("utf-8"))
    sections = dict(re.findall(r"<h2>(ppadmm [a-z ]+)<(.*?)(?=<h2>|\Z)", page, re.DOTALL))
    wanted = list(options(get_command(app)))
    assert len(wanted) > 100
    for command, option in wanted:
        assert option in sections[command], (command, option)


def test_the_readme_is_there_whole(site):
    page = unescape((site / "readme.html").read_text("utf-8"))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    readme = (ROOT / "README.md").read_text("utf-8")
    plain = [line for line in readme.split("\n") if re.fullmatch(r"\w[\w ,;:.'’≥-]{40,}", line)]
    assert len(plain) > 5
    assert [line for line in plain if " ".join(line.split()) not in text] == []


def test_every_page_is_built(site):
    for page in PAGES:
        if page.startswith("docs/"):
            assert (site / Path(page).relative_to("docs").with_suffix(".html")).exists()


def test_nothing_is_loaded_from_elsewhere(site):
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = file.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"([^\"]*)\"", text)
        loaded += re.findall(r"(?:@import|url\()\s*[\"']?([^\"')]+)", text)
        assert not [url for url in loaded if re.match(r"(https?:)?//", url)], file
