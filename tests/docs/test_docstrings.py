"""Docstrings of the main objects name every parameter, and their examples run."""

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass
from importlib import import_module

import pytest

SECTIONS = {
    "ppadmm.RunSpec": ("Parameters", "Raises", "Examples"),
    "ppadmm.Result": ("Attributes",),
    "ppadmm.train": ("Parameters", "Returns", "Raises", "Examples"),
    "ppadmm.PrivateLogisticRegression": ("Parameters", "Attributes"),
    "ppadmm.PrivateAdditiveClassifier": ("Parameters", "Attributes", "Examples"),
    "ppadmm.data.Schema": ("Parameters", "Examples"),
    "ppadmm.data.Dataset": ("Parameters",),
    "ppadmm.datasets.load": ("Parameters", "Returns", "Raises", "Examples"),
    "ppadmm.accounting.epsilon": ("Parameters", "Returns", "Examples"),
    "ppadmm.ledger.owner.OwnerLedger": ("Examples",),
    "ppadmm.ledger.owner.OwnerLedger.grant": ("Parameters",),
    "ppadmm.runs.folder.write_run": ("Parameters", "Returns", "Raises"),
    "ppadmm.planning.specification.PlanSpec": ("Parameters",),
    "ppadmm.planning.plan.plan": ("Parameters", "Returns", "Examples"),
    "ppadmm.studies.compare.Grid": ("Parameters",),
    "ppadmm.studies.compare.compare": ("Parameters", "Returns"),
}


def found(name):
    """Return the object of a dotted name."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            value = import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def section(text, title):
    """Return the lines of one numpydoc section."""
    parts = re.split(r"^(\w+)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title].split("\n")


def documented(lines):
    """Return the names that a section begins an entry with."""
    heads = [line.split(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return {name.strip() for head in heads for name in head.split(",")}


def wanted(value):
    if is_dataclass(value):
        return {field.name for field in fields(value)}
    return set(inspect.signature(value).parameters) - {"self"}


@pytest.mark.parametrize("name", SECTIONS)
def test_every_parameter_is_named(name):
    value = found(name)
    for title in SECTIONS[name]:
        lines = section(value.__doc__, title)
        if title == "Parameters" or (
            title == "Attributes" and is_dataclass(value) and "Parameters" not in SECTIONS[name]
        ):
            assert documented(lines) == wanted(value)


@pytest.mark.parametrize("name", [n for n, titles in SECTIONS.items() if "Examples" in titles])
def test_examples_run(name):
    value = found(name)
    space = dict(vars(import_module(value.__module__)))
    tests = doctest.DocTestFinder(recurse=False).find(value, name, globs=space)
    assert any(test.examples for test in tests)
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
