"""Checks plain data against the published schemas: the part of JSON Schema that they use."""

import json
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
    "integer": (int,), "number": (int, float), "null": (type(None),),
}  # fmt: skip
KEYWORDS = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "items",
    "additionalProperties", "const", "enum", "pattern", "minimum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems", "anyOf",
}  # fmt: skip


@lru_cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema `statement` or `certificate`, as it is shipped with the package."""
    text = files("ppadmm.statements").joinpath("schemas", f"{name}.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def require_shape(name: str, value: Any) -> None:
    """Raise `ValueError` with the first place where `value` differs from a schema."""
    whole = schema(name)
    for where, what in _faults(whole, value, whole, name):
        raise ValueError(f"{where} {what}")


def _faults(rule: Any, value: Any, whole: Any, where: str) -> Iterator[tuple[str, str]]:
    if "$ref" in rule:
        rule = whole["$defs"][rule["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in rule:
        if all(any(_faults(each, value, whole, where)) for each in rule["anyOf"]):
            yield where, "is none of what it may be"
        return
    if "type" in rule and not _is(value, rule["type"]):
        yield where, f"is not of type {rule['type']}"
        return
    yield from _value_faults(rule, value, where)
    if isinstance(value, dict):
        yield from _object_faults(rule, value, whole, where)
    if isinstance(value, list):
        yield from _array_faults(rule, value, whole, where)


def _is(value: Any, wanted: str | list[str]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, TYPES[name]) for name in names)


def _value_faults(rule: Any, value: Any, where: str) -> Iterator[tuple[str, str]]:
    if "const" in rule and (value, type(value)) != (rule["const"], type(rule["const"])):
        yield where, f"is not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        yield where, f"is not one of {rule['enum']}"
    if isinstance(value, str) and not re.fullmatch(rule.get("pattern", "(?s:.*)"), value):
        yield where, "is not spelt as it must be"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < rule.get("minimum", value) or value <= rule.get("exclusiveMinimum", value - 1):
            yield where, "is too small"
        if abs(value) > sys.float_info.max:
            yield where, "is too large"
        if value >= rule.get("exclusiveMaximum", value + 1):
            yield where, "is too large"


def _object_faults(rule: Any, value: Any, whole: Any, where: str) -> Iterator[tuple[str, str]]:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name in rule.get("required", []):
        if name not in value:
            yield where, f"has no {name!r}"
    for name, each in value.items():
        if name in known:
            yield from _faults(known[name], each, whole, f"{where}.{name}")
        elif others is False:
            yield where, f"has an unknown entry {name!r}"
        elif others is not True:
            yield from _faults(others, each, whole, f"{where}.{name}")


def _array_faults(rule: Any, value: Any, whole: Any, where: str) -> Iterator[tuple[str, str]]:
    if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
        yield where, f"has {len(value)} entries"
    for k, each in enumerate(value):
        yield from _faults(rule.get("items", {}), each, whole, f"{where}[{k}]")
