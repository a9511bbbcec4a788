"""The picture of the rooms and the page around it say what the source is."""

import re
import subprocess
import sys
from xml.etree import ElementTree

from tests.docs.blocks import ROOT, spans

PAGE = "docs/architecture.md"
SOURCE = ROOT / "src/ppadmm"
ROOMS = {p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()} | {
    p.stem for p in SOURCE.glob("*.py") if p.stem != "__init__"
}


def test_the_picture_is_that_of_the_layer_test():
    line = [sys.executable, str(ROOT / "scripts/draw-rooms"), "--print"]
    drawn = subprocess.run(line, capture_output=True, encoding="utf-8", check=True).stdout
    kept = (ROOT / "docs/figures/rooms.svg").read_text("utf-8")
    assert kept == drawn, "Draw the picture again: scripts/draw-rooms"
    texts = [e.text for e in ElementTree.fromstring(kept).iter() if e.tag.endswith("text")]
    assert {text.split(" (")[0] for text in texts} >= ROOMS


def test_every_file_that_is_named_exists():
    named = [text for _, text in spans(PAGE) if re.fullmatch(r"[\w/-]+\.py", text)]
    assert len(named) > 25
    elsewhere = {"test_layers.py"}
    assert [n for n in named if n not in elsewhere and not (SOURCE / n).is_file()] == []
    assert len(list((ROOT / "tests").rglob("test_layers.py"))) == 1


def test_every_package_has_a_row_in_the_table():
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \|$", (ROOT / PAGE).read_text("utf-8"), re.MULTILINE)
    packages = {p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()}
    assert set(rows) == packages
