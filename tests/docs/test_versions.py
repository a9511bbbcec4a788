"""One version, in every place that names it."""

import re

from ppadmm import __version__
from tests.docs.blocks import ROOT

HEADINGS = re.findall(
    r"^## (.+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
)


def test_the_changelog_begins_with_this_version():
    assert HEADINGS[0][0] == __version__


def test_every_older_version_has_a_date():
    for _, date in HEADINGS[1:]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert HEADINGS[0][1] == "unreleased" or HEADINGS[0][1] >= HEADINGS[1][1]


def test_the_citation_names_this_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
