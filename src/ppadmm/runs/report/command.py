"""The command that runs a specification again."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ppadmm.data import Partition
from ppadmm.runs.specification import RunSpec

SPELT = {"share": "test-share"}
"""Options whose name is not that of the setting."""
DEFAULTS = asdict(RunSpec())


def command(
    spec: Mapping[str, Any], ledger: str | None = None, dataset: str | None = None
) -> str | None:
    """Return `ppadmm train …` with every setting that is not the default, quoted for a shell.

    A run that was charged to a ledger names it: without it the next one would be charged to none.
    None if a setting can be made from Python only.
    """
    # a Schema, not the path of one; or sums that may be made again
    from_python = isinstance(spec["schema"], Mapping) or spec["repeats"]
    if from_python or spec["speaking"]["clip"] != DEFAULTS["speaking"]["clip"]:
        return None
    data = spec["data"]
    words = ["ppadmm", "train", *([data] if isinstance(data, str) else data)]
    said = {"data"} | ({"agents"} if Partition.parse(spec["partition"]).names_agents else set())
    for name, value in spec.items():
        if name == "speaking":
            words += _options(value, DEFAULTS["speaking"])
        elif name not in said:
            words += _options({name: value}, DEFAULTS)
    words += _options({"ledger": ledger, "dataset": dataset}, {})
    return shlex.join(words)


def _options(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    return [
        word
        for name, value in values.items()
        if value is not None and value != defaults.get(name)
        for word in (f"--{SPELT.get(name, name).replace('_', '-')}", _word(value))
    ]


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
