"""CSV files cell by cell: strict about quotation marks, silent about what stands in a record."""

import gzip

import pyarrow as pa
import pytest

from ppadmm.data import Label, Numeric, Schema, csv_file, load, read_table
from ppadmm.errors import DataError

SECRET = "Maria-Muster"


def cells(path, content):
    path.write_bytes(content)
    return read_table(path, missing=()).to_pydict()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'x,y\n"a,b","c""d"\n', {"x": ["a,b"], "y": ['c"d']}),
        (b'x,y\n"a\nb",""\n', {"x": ["a\nb"], "y": [""]}),
        (b'x,y\r\n"a\r\nb",1\r\n2,3\r\n', {"x": ["a\r\nb", "2"], "y": ["1", "3"]}),
        (b'x,y\r1,2\r"3",4', {"x": ["1", "3"], "y": ["2", "4"]}),
        (b'"x","y\nz"\n1,2\n', {"x": ["1"], "y\nz": ["2"]}),
        (b'x,y\n"""",2\n', {"x": ['"'], "y": ["2"]}),
        (b"x,y\n01,1.0\nTRUE,2020-01-01\n", {"x": ["01", "TRUE"], "y": ["1.0", "2020-01-01"]}),
        (b"x,y\n1,2\n\n3,4\n", {"x": ["1", "", "3"], "y": ["2", "", "4"]}),
        ("x,y\n\ufeff1,\x00\n".encode(), {"x": ["\ufeff1"], "y": ["\x00"]}),
    ],
)
def test_what_is_in_a_cell(tmp_path, content, expected):
    assert cells(tmp_path / "a.csv", content) == expected
    assert cells(tmp_path / "b.csv.gz", gzip.compress(content)) == expected
    assert cells(tmp_path / "a.csv", b"\xef\xbb\xbf" + content) == expected


S = SECRET.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x,y\n1,2\n%b,1,2\n", "row 2 has 3 cells and not 2, as many cells as the header"),
        (b"x,y\n1,2\n%b\n", "row 2 has 1 cells and not 2"),
        (b'x,y\n"1\n2",2\n%b,,\n', "row 2 has 3 cells"),
        (b'x,y\n1,2\n3,"%b\n', "row 2 opens a quotation mark that nothing closes; close it"),
        (b'x,y\n1,2\n3,"%b\n"a",1\n', "row 2 has a quotation mark inside a cell|row 1"),
        (b'x,y\n1,2\n3,a"%b\n', "row 2 has a quotation mark inside a cell; put the whole cell"),
        (b'x,y\n1,2\n"%b"a,3\n', "row 2 has a quotation mark inside a cell"),
        (b'x,y\n1,2\n3, "%b"\n', "row 2 has a quotation mark inside a cell"),
        (b'x"%b,y\n1,2\n', "the header has a quotation mark inside a cell"),
        (b"x,y\n1,2\n%b,\xff\n", "row 2 is not UTF-8; save it as such"),
        (b"\nx,y\n1,%b\n", "its first line is empty, and should name the columns"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_its_row_and_not_quoted(
    tmp_path, content, message
):
    with pytest.raises(DataError, match=message) as caught:
        cells(tmp_path / "a.csv", content.replace(b"%b", S))
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(f"Cannot read {str(tmp_path / 'a.csv')!r} as csv: ")
    assert str(caught.value).endswith(".")


def test_an_empty_line_is_a_record_without_a_label(tmp_path):
    schema = Schema((Numeric("x", 0, 1),), Label("y", ("1",), ("0",)))
    for place in (1, 2, 3):
        lines = ["x,y", "0.5,1", "0.5,0"]
        lines.insert(place, "")
        (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
        with pytest.raises(DataError, match=f"Label 'y', row {place} is missing; correct it"):
            load(tmp_path / "a.csv", schema=schema)


@pytest.mark.parametrize("quoted", [False, True])
def test_where_arrow_cuts_the_file_does_not_show(tmp_path, monkeypatch, quoted):
    """Blocks of 64 bytes: cuts fall into cells of several lines, and records are longer."""
    gap = "\n" if quoted else " "
    texts = [f"{k}{gap * (k % 7)}{'x' * (k % 150)}" for k in range(400)]
    lines = [f'"{text}",{k}' if quoted else f"{text},{k}" for k, text in enumerate(texts)]
    content = "\n".join(["x,y", *lines]).encode()
    expected = {"x": texts, "y": [str(k) for k in range(400)]}
    assert cells(tmp_path / "a.csv", content) == expected
    monkeypatch.setattr(csv_file, "BLOCK", 64)
    monkeypatch.setattr(csv_file, "PIECE", 50)
    assert cells(tmp_path / "a.csv", content) == expected


def test_names_may_occur_twice_until_one_is_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("x,x,y\n1,2,3\n")
    table = read_table(tmp_path / "a.csv")
    assert table.column_names == ["x", "x", "y"]
    assert [c.to_pylist() for c in table.columns] == [["1"], ["2"], ["3"]]
    assert table.schema.types == [pa.string()] * 3
