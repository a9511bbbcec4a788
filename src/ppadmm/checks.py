"""Validators that name the value. NaN and infinity are never "a number"."""

import math
import re
from collections.abc import Collection

from ppadmm.errors import InputError


def finite(name: str, value: float) -> float:
    """Return `value` as a float, or refuse what is not a finite number; a text is none."""
    try:
        number = float(value + 0)
    except (TypeError, ValueError):
        raise InputError(f"Expected {name} to be a number, got {value!r}.") from None
    if not math.isfinite(number):
        raise InputError(f"Expected {name} to be a finite number, got {value!r}.")
    return number


def parsed(name: str, text: str) -> float:
    """Return the finite number that a text spells."""
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"Expected {name} to be a number, got {text!r}.") from None
    return finite(name, number)


def positive(name: str, value: float) -> float:
    """Return `value` if it is finite and > 0."""
    number = finite(name, value)
    if number <= 0:
        raise InputError(f"Expected {name} > 0, got {value!r}.")
    return number


def non_negative(name: str, value: float) -> float:
    """Return `value` if it is finite and ≥ 0."""
    number = finite(name, value)
    if number < 0:
        raise InputError(f"Expected {name} ≥ 0, got {value!r}.")
    return number


def probability(name: str, value: float) -> float:
    """Return `value` if it lies strictly between 0 and 1."""
    number = finite(name, value)
    if not 0 < number < 1:
        raise InputError(f"Expected 0 < {name} < 1, got {value!r}.")
    return number


def count(name: str, value: float, at_least: int = 1, at_most: int | None = None) -> int:
    """Return `value` if it is a whole number ≥ `at_least`, and ≤ `at_most` if that is given."""
    number = finite(name, value)
    if number != int(number) or number < at_least:
        raise InputError(f"Expected {name} to be a whole number ≥ {at_least}, got {value!r}.")
    if at_most is not None and number > at_most:
        raise InputError(f"Expected {name} ≤ {at_most}, got {value!r}.")
    return int(value)


def one_of(name: str, value: str, allowed: Collection[str]) -> str:
    """Return `value` if it is among `allowed`."""
    if value not in allowed:
        raise InputError(f"Unknown {name} {value!r}; choose one of: {', '.join(allowed)}.")
    return value


def byte_size(name: str, text: str) -> int:
    """Read a number of bytes such as 512MB, 2GB, 64MiB or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", text.strip().upper())
    if found is None:
        raise InputError(f"Expected {name} such as 512MB or 2GB, got {text!r}.")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix or " "))
