"""One way to write a value down, so that one value has one sequence of bytes and one digest.

Canonical JSON: UTF-8; keys sorted by code point; no space outside of texts; nothing escaped that
need not be; whole numbers without a point; other numbers as the shortest text that gives the same
double back (Python's `repr`, so always with a point or an exponent); no NaN, no infinity.
"""

import hashlib
import json
from typing import Any, NoReturn


def dumps(value: Any) -> bytes:
    """Return the canonical bytes of plain data."""
    return _WRITER.encode(value).encode("utf-8")


def dumps_ascii(value: Any) -> bytes:
    """Return the same, with every character beyond ASCII escaped.

    Schemas, agreements, control messages, lists of revocations and cells are hashed or signed so.
    """
    return _ASCII_WRITER.encode(value).encode("ascii")


def loads(data: bytes) -> Any:
    """Return the value whose canonical bytes are `data`; raise `ValueError` for any other bytes.

    So duplicate keys, other spellings of a number, spaces and trailing bytes are all refused.
    """
    try:
        value = _READER.decode(data.decode("utf-8"))
        again = dumps(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if again != data:
        raise ValueError("its keys, spaces or numbers are written in another way")
    return value


def digest(data: bytes) -> str:
    """Return SHA-256 in lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _writer(ascii_only: bool) -> json.JSONEncoder:
    return json.JSONEncoder(
        sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


_WRITER, _ASCII_WRITER = _writer(ascii_only=False), _writer(ascii_only=True)
_READER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
"""Made once: a ledger writes and reads in every round."""
