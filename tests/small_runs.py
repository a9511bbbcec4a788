"""Small finished runs for the tests of reports."""

import functools
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ppadmm import canonical
from ppadmm.algorithms.settings import Speaking
from ppadmm.data.features import Categorical, Numeric
from ppadmm.data.schema import Label, Schema
from ppadmm.runs.folder import write_run
from ppadmm.runs.run import train
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.certificate import DOMAIN

EVIL = "</script><script>window.hacked=1</script>"
HOSTILE = Schema(
    columns=(
        Numeric(EVIL, 0, 1, shape="line"),
        Numeric("{{ 98765431 * 98765431 }}", 0, 1, shape="line"),
        Categorical("<!--<script>", ('"><img src=x onerror="window.hacked=1">', "'&amp;")),
        Categorical("long", ("x" * 300, "b")),
    ),
    label=Label("<b>ill</b>", ("</title>",), ("no",)),
)
SMALL = {"rounds": 6, "agents": 4, "epsilon": 3.0}
SPECS = {
    "private": SMALL,
    "ipp": {
        **SMALL,
        "rounds": 12,
        "algorithm": "ipp",
        "epsilons": (0.5, 1.0, 2.0, 4.0),
        "records": (3000, 9000, 7000, 0),
        "speaking": Speaking(releases=5),
    },
    "seeded": {**SMALL, "seed": 3},
    "paper": {**SMALL, "calibration": "paper", "seed": 3, "delta": 1e-3},
    "bare": {**SMALL, "algorithm": "non-private"},
    "pooled": {**SMALL, "algorithm": "centralised", "rounds": 1},
    "one-shot": {**SMALL, "algorithm": "one-shot", "rounds": 1},
    "unequal": {**SMALL, "records": (1000, 3000, 9000, 20000)},
    "by-noise": {
        **SMALL,
        "records": (1000, 3000, 9000, 20000),
        "epsilons": (8.0, 1.0, 4.0, 2.0),
        "weights": "noise",
    },
    "newton": {**SMALL, "algorithm": "newton"},
    "sums": {**SMALL, "algorithm": "newton", "trust": "sum", "colluding": 2},
    "seeded-sums": {**SMALL, "algorithm": "newton", "trust": "sum", "seed": 3},
    "unequal-sums": {
        **SMALL,
        "algorithm": "newton",
        "trust": "sum",
        "records": (1000, 3000, 9000, 0),
        "epsilons": (4.0, 1.0, 2.0, 3.0),
    },
    "thirty": {**SMALL, "agents": 30, "graph": "small-world"},
}


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="ppadmm-test-runs-")


@functools.cache
def finished(name: str):
    """Train once per process."""
    return train(hostile_spec() if name == "hostile" else RunSpec(**SPECS[name]))


@functools.cache
def folder_of(name: str) -> Path:
    """Return the folder of a run; tests read it and do not write to it."""
    return write_run(finished(name), Path(_folder().name) / name)


def copy_of(name: str, to: Path) -> Path:
    """Return a copy of a run folder that a test may change."""
    return Path(shutil.copytree(folder_of(name), to))


def change(folder: Path, file: str, **values) -> None:
    """Overwrite entries of a JSON file in a run folder."""
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def resigned(data: bytes, key, change) -> bytes:
    """Return the certificate of a signer who changed it: a good signature on another content."""
    content = json.loads(data)["certificate"]
    change(content)
    signature = key.sign(DOMAIN + canonical.dumps(content)).hex()
    return canonical.dumps({"certificate": content, "signature": signature}) + b"\n"


def hostile_spec() -> RunSpec:
    """Records whose every name tries to break out of the page."""
    rng = np.random.default_rng(0)
    x = rng.random((400, 2))
    numeric, other, first, second = HOSTILE.columns
    table = {
        numeric.name: x[:, 0],
        other.name: x[:, 1],
        first.name: rng.choice(first.categories, 400),
        second.name: rng.choice(second.categories, 400),
        HOSTILE.label.name: np.where(x.sum(axis=1) > 1, "</title>", "no"),
    }
    data = Path(_folder().name) / "a<b>&'.csv"
    pa.csv.write_csv(pa.table(table), data)
    schema = Path(_folder().name) / "schema.toml"
    schema.write_text(HOSTILE.to_toml())
    return RunSpec(data=str(data), schema=str(schema), **{**SMALL, "delta": 1e-3})
