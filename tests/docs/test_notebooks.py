"""Every notebook runs from top to bottom in a fresh kernel, and is kept without outputs."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.blocks import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PLOTS = {"quickstart": 1, "five-sites": 3}


@pytest.fixture
def executed(request, monkeypatch, tmp_path):
    """The notebook after a run in an empty folder, one BLAS thread."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTHONWARNINGS", "error::DeprecationWarning:ppadmm")
    book = nbformat.read(request.param, as_version=4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") for cell in book.cells), "clear its outputs"
    client = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    return request.param.stem, client.execute()


def outputs(book, kind):
    found = (output for cell in book.cells for output in cell.get("outputs", ()))
    return [o["data"][kind] for o in found if kind in o.get("data", ())]


@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.parametrize("executed", NOTEBOOKS, indirect=True, ids=lambda path: path.stem)
def test_a_notebook_runs(executed):
    name, book = executed
    assert len(outputs(book, "image/png")) == PLOTS[name]
    printed = [o for c in book.cells for o in c.get("outputs", ()) if o["output_type"] == "stream"]
    assert {o["name"] for o in printed} == {"stdout"}, "nothing is said on standard error"
    text = "".join(output["text"] for output in printed)
    assert ("NOT PRIVATE" in text) == (name == "five-sites")
    assert "PRIVATE" in text
