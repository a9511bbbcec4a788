"""CSV files as columns of text: a record is read by itself, and nothing is inferred.

A cell stands in quotation marks as a whole or not at all, and inside them a mark is written twice
(RFC 4180). Arrow is more lenient: it takes a stray mark for the beginning of a cell that ends some
records later. Here such a file is refused. So whatever stands in place of one record, the others
are read as before, or none is: an odd number of marks leaves the last one open at the end of the
file, and with an even number the next record begins where it did.

Messages name the row, counted from 1 without the header, and quote nothing of it.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from ppadmm.errors import DataError

BLOCK = 2**20
"""Bytes that Arrow parses at once; a record must fit into two blocks."""
PIECE = 2**24
"""Bytes whose quotation marks are looked at together."""
QUOTE, COMMA, LINE_FEED, RETURN = b'",\n\r'
MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs put before UTF-8."""
_NOT_UTF8 = "not UTF-8; save it as such (in a spreadsheet: CSV UTF-8)"
_BESIDE = np.isin(np.arange(256), [QUOTE, COMMA, LINE_FEED, RETURN])
"""Which bytes may stand before a mark that opens a cell and after one that closes it."""
Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def read_csv(path: Path, missing: Iterable[str] = ()) -> Any:
    """Read a plain or zipped file as a table of texts, null where a cell is a marker in `missing`.

    Guarantee: replacing one record of a file that can be read changes one row of the table, or the
    file can no longer be read.
    """
    try:
        data = _content(path).removeprefix(MARK)
        quoted = b'"' in data
        several_lines = quoted and _check_quotes(data)
        names, body = _header(data)
        return _arrow(names, body, missing, quoted, several_lines)
    except DataError as error:
        raise DataError(f"Cannot read {str(path)!r} as csv: {error}.") from None


def parse_rows(lines: bytes, names: Sequence[str], missing: Iterable[str]) -> Any:
    """Read lines without a header and without quotation marks as a table of texts."""
    return _arrow(names, memoryview(lines), missing, quoted=False, several_lines=False)


def _content(path: Path) -> bytes:
    """Return the whole file, unzipped."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError("it is no whole gzip file") from None
    except OSError as error:
        raise DataError(error.strerror or "the disk failed") from None


def _header(data: bytes) -> tuple[list[str], memoryview]:
    """Return the names of the columns and the bytes after them."""
    first = _first_line(data)
    try:
        text = first.decode()
        names = next(csv.reader(io.StringIO(text, newline="")), [])
    except UnicodeDecodeError:
        raise DataError(f"the header is {_NOT_UTF8}") from None
    except csv.Error as error:
        raise DataError(f"the header: {error}") from None
    if not text.strip():
        raise DataError("its first line is empty, and should name the columns")
    if len(names) == 1 and (mark := next((m for m in ";\t|" if m in text), None)):
        raise DataError(
            f"its cells are parted by {mark!r}; save the file with commas between cells and points "
            "in numbers"
        )
    return [name.strip() for name in names], memoryview(data)[len(first) :]


def _first_line(data: bytes) -> bytes:
    """Return the first record with its end."""
    place = 0
    while (place := data.find(b"\n", place) + 1) and data.count(b'"', 0, place) % 2:
        pass
    ends = _ends(data[: place or len(data)])
    return data[: ends[0] + 1] if len(ends) else data


def _arrow(
    names: Sequence[str],
    body: memoryview,
    missing: Iterable[str],
    quoted: bool,
    several_lines: bool,
) -> Any:
    columns = [f"f{j}" for j in range(len(names))]  # names may occur twice
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        null_values=list(missing),
        strings_can_be_null=True,
    )
    # An empty line is a record of empty cells: left out, it would move all that follow.
    parse = pa.csv.ParseOptions(
        quote_char='"' if quoted else False,
        newlines_in_values=several_lines,
        ignore_empty_lines=False,
    )
    if len(body) == 0:
        return pa.table([pa.array([], pa.string())] * len(names), names=list(names))
    try:
        return _in_blocks(columns, body, parse, convert).rename_columns(names)
    except pa.ArrowInvalid:
        # Not in Arrow's words: they quote the record.
        raise DataError(_fault(bytes(body), len(names))) from None


def _in_blocks(columns: list[str], body: memoryview, parse: Any, convert: Any) -> Any:
    """Read with blocks of the usual size, or the whole at once if a record is longer."""
    # Arrow leaves out a byte order mark, and here it would be the first cell's own.
    file = pa.py_buffer(MARK + body if body[: len(MARK)] == MARK else body)
    try:
        read = pa.csv.ReadOptions(column_names=columns, block_size=BLOCK)
        return pa.csv.read_csv(pa.BufferReader(file), read, parse, convert)
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
    read = pa.csv.ReadOptions(column_names=columns, block_size=len(body) + 1)
    return pa.csv.read_csv(pa.BufferReader(file), read, parse, convert)


# -- what is refused ----------------------------------------------------------------------------


def _check_quotes(data: bytes) -> bool:
    """Refuse a mark that does not belong where it is; return whether a cell has several lines."""
    cells, marks, several = _bytes(data), 0, False
    for start in range(0, len(data), PIECE):
        piece = cells[start : start + PIECE]
        places = np.flatnonzero(piece == QUOTE) + start
        ends = np.flatnonzero((piece == LINE_FEED) | (piece == RETURN)) + start
        several |= bool(((np.searchsorted(places, ends) + marks) % 2).any())
        bad = _misplaced(cells, places, marks)
        if bad is not None:
            raise DataError(
                f"{_row_at(data, bad)} has a quotation mark inside a cell; put the whole cell in "
                "quotation marks and write those inside it twice"
            )
        marks += len(places)
    if marks % 2:
        where = _row_at(data, data.rindex(b'"'))
        raise DataError(f"{where} opens a quotation mark that nothing closes; close it")
    return several


def _misplaced(data: Bytes, places: Places, before: int) -> int | None:
    """Return the first of the marks at `places` that is wrong where it is; `before` came earlier.

    Every second one opens a cell or follows a mark; the others close a cell or precede a mark.
    """
    opens, closes = places[before % 2 :: 2], places[1 - before % 2 :: 2]
    opens = opens[np.searchsorted(opens, 1) :]
    closes = closes[: np.searchsorted(closes, len(data) - 1)]
    wrong = [opens[~_BESIDE[data[opens - 1]]], closes[~_BESIDE[data[closes + 1]]]]
    return min((int(some[0]) for some in wrong if len(some)), default=None)


def _fault(body: bytes, columns: int) -> str:
    """Say why Arrow could not read records."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"row {len(_ends(body[: error.start])) + 1} is {_NOT_UTF8}"
    data = _bytes(body)
    starts = np.concatenate([[0], _ends(body) + 1])
    starts = starts[starts < len(body)]
    commas = _outside(body, np.flatnonzero(data == COMMA))
    cells = np.diff(np.searchsorted(commas, [*starts, len(body)])) + 1
    wrong = (cells != columns) & ~np.isin(data[starts], [LINE_FEED, RETURN])
    if not wrong.any():
        return "save it again, as UTF-8 with commas between cells"
    row = int(np.argmax(wrong))
    return f"row {row + 1} has {cells[row]} cells and not {columns}, as many cells as the header"


def _row_at(data: bytes, place: int) -> str:
    """Name the record that a place of the file lies in."""
    row = len(_ends(data[:place]))
    return f"row {row}" if row else "the header"


def _ends(data: bytes) -> Places:
    """Return where records end: a line feed, a return or both, outside quotation marks."""
    cells = _bytes(data)
    ends = np.flatnonzero((cells == LINE_FEED) | (cells == RETURN))
    follows = np.zeros(len(ends), dtype=np.bool_)
    follows[:-1] = (cells[ends[:-1]] == RETURN) & (cells[ends[:-1] + 1] == LINE_FEED)
    return _outside(data, ends[~follows])


def _outside(data: bytes, places: Places) -> Places:
    """Return the places that are not between quotation marks."""
    marks = np.flatnonzero(_bytes(data) == QUOTE)
    outside: Places = places[np.searchsorted(marks, places) % 2 == 0]
    return outside


def _bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
