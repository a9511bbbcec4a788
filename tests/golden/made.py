"""What is kept in JSON files: a ledger, statements and seeded results, made by the package.

`python -m tests.golden.made` writes the files anew, after a change that is meant. Numbers that come
out of a solver or an accountant are kept to nine digits and compared to six: the last ones are the
machine's.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np

from ppadmm import RunSpec, train
from ppadmm.accounting import Approximate, Budget, Charge, Gaussian
from ppadmm.accounting.protection import STANDARD
from ppadmm.algorithms import ALGORITHMS
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.ledger.chain import read_rows
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.protocol import Sent
from ppadmm.runs.folder import write_run
from tests.golden import table

HERE = Path(__file__).parent
ONE = Charge((Gaussian(0.05), Approximate(1e-20)))
USUAL = {
    "agents": 3, "graph": "ring", "rounds": 3, "epsilon": 2.0, "weights": "equal", "knots": 0,
}  # fmt: skip
SPECS = {
    "private": {},
    "curves": {"knots": None},
    "seeded": {"seed": 1, "epsilons": (0.5, 1.0, 2.0)},
    "ipp": {"algorithm": "ipp", "seed": 1},
    "paper": {"calibration": "paper"},
    "without noise": {"algorithm": "non-private"},
    "pooled": {"algorithm": "centralised"},
    "gamma": {"algorithm": "dvp", "adjacency": "zero-out"},
    "newton": {"algorithm": "newton"},
    "sums": {"algorithm": "newton", "trust": "sum", "colluding": 1, "weights": "records"},
    "seeded sums": {
        "algorithm": "newton",
        "trust": "sum",
        "weights": "records",
        "seed": 1,
        "epsilons": (0.5, 1.0, 2.0),
        "adjacency": "zero-out",
    },
}
MOVING = ("version", "started", "curves")
"""Entries of a statement that are others in every version or run, or are many numbers."""


def kept(name):
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def rounded(value):
    """Plain data with numbers of nine digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def ledger(folder):
    """Entries of every kind, with a clock that stands still and no chance."""
    stops = {
        "ppadmm.ledger.database.now": lambda: "2026-11-18T00:00:00+00:00",
        "ppadmm.ledger.owner.__version__": "0.0",
        "secrets.token_bytes": bytes,
        "secrets.token_hex": lambda n: "0f" * n,
        "getpass.getuser": lambda: "owner",
    }
    with ExitStack() as stack:
        for name, stopped in stops.items():
            stack.enter_context(mock.patch(name, stopped))
        path = _filled(folder / "a.ledger")
    return [
        {
            "body": row.body.decode(),
            "hash": row.hash,
            "payload": row.payload and row.payload.hex(),
            "secret": row.secret and row.secret.hex(),
        }
        for row in read_rows(path)
    ]


def _filled(path):
    with OwnerLedger.create(path, "Klinik Süd") as book:
        book.grant("people", Budget(1.0, 1e-6), by="officer", note="first study", rule="planned")
        run = book.reserve_run("people", Fingerprint(b"r"), "spec", [(0, ((ONE, 2),))], STANDARD)
        agent = run.agent(0)
        for round_ in range(2):
            assert agent.past(round_) is None
            agent.charge(ONE)
            agent.record(Sent(np.array([1.5, -0.0]), np.array([2.0, 1e-300]), True))
        run.end()
        run.close()
    return path


def statement(name, folder):
    """The statement.json of a small run."""
    spec = RunSpec(**{**USUAL, **SPECS[name]})
    place = write_run(train(spec), folder / "run")
    found = json.loads((place / "statement.json").read_text("utf-8"))
    return {each: found[each] for each in found if each not in MOVING}


def model(algorithm):
    """What a seeded run of an algorithm ends with."""
    return train(RunSpec(algorithm=algorithm, seed=5, **USUAL)).model.tolist()


def main():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = {
            "commands": {"commands": table.commands(), "exit codes": table.exit_codes()},
            "ledger": ledger(place),
            "statements": {name: statement(name, Path(tempfile.mkdtemp(dir=place)))
                           for name in SPECS},
            "models": {name: model(name) for name in ALGORITHMS},
        }  # fmt: skip
    for name, value in found.items():
        text = json.dumps(rounded(value), indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
