"""Who holds what, in a few hundred random combinations: a run and its statement, or one sentence.

Whatever is refused leaves nothing reserved in the ledger.
"""

import random
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS
from ppadmm.errors import BudgetError, InputError, SolverError
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.runs.ledger_session import LedgerOptions

CASES = 300
SIZES = {"north": 40, "south": 25, "west": 3, "lone": 1, "none": 0}
SCHEMA = """
format = 1
confirmed = true
[label]
name = "ill"
positive = ["yes"]
negative = ["no"]
[[columns]]
name = "age"
low = 0
high = 100
[[agents]]
name = "ward"
categories = ["a", "b", "never"]
"""


def people(name, n):
    draw = random.Random(name)
    ages = [draw.randint(0, 99) for _ in range(n)]
    return {
        "age": ages,
        "ward": ["ab"[i % 2] for i in range(n)],
        "once": ["rare" if i == 0 else "common" for i in range(n)],
        "same": ["all"] * n,
        "ill": ["yes" if age + draw.gauss(0, 30) > 50 else "no" for age in ages],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("combinations")
    (place / "s.toml").write_text(SCHEMA)
    for name, n in SIZES.items():
        columns = people(name, n)
        cells = zip(*columns.values(), strict=True)
        rows = [",".join(columns), *(",".join(map(str, row)) for row in cells)]
        for site in (place / f"{name}.csv", place / "sites" / f"{name}.csv"):
            site.parent.mkdir(exist_ok=True)
            site.write_text("\n".join(rows) + "\n")
        if n:
            (place / "stream").mkdir(exist_ok=True)
            pa.parquet.write_table(pa.table(columns), place / "stream" / f"{name}.parquet")
    return place


def drawn(case):
    """Return settings of a run, as a user might put them together."""
    draw = random.Random(case)
    several = draw.sample(list(SIZES), draw.randint(1, len(SIZES)))
    data = draw.choice(["north.csv", "west.csv", "sites", "stream", [f"{n}.csv" for n in several]])
    partition = draw.choice(
        ["", "even", "files", "column:ward", "column:once", "column:same", "dirichlet:0.5"]
    )
    agents = draw.randint(1, 4)
    sized = draw.random() < 0.4
    own = draw.random() < 0.3
    return {
        "data": data,
        "partition": partition,
        "agents": agents,
        "records": tuple(draw.choice([0, 0, 1, 5, 12]) for _ in range(agents)) if sized else None,
        "epsilons": tuple(draw.choice([0.5, 3.0, 20.0]) for _ in range(agents)) if own else None,
        "epsilon": draw.choice([1.0, 20.0]),
        "algorithm": draw.choice(list(ALGORITHMS)),
        "rounds": draw.choice([2, 2, 2, None]),
        "calibration": draw.choice(["proven"] * 6 + ["paper"]),
        "adjacency": draw.choice(["replace-one", "zero-out"]),
        "delta": 1e-2,
        "graph": draw.choice(["complete", "ring", "star"]),
        "label": "ill" if data != "stream" and draw.random() < 0.15 else None,
        "seed": draw.choice([None, 1]),
    }


def is_one_sentence(text):
    return text.endswith(".") and "\n" not in text and 20 < len(text) < 900


def well_formed(result):
    figures, statement = result.to_dict(), result.statement
    held = figures["records"]
    assert len(figures["agent_names"]) == len(held) == figures["agents"]
    assert sum(held) >= 1
    assert figures["test_records"] >= 1
    assert statement.private == (not statement.not_private_because)
    assert statement.text().startswith("PRIVATE" if statement.private else "NOT PRIVATE")
    assert ("One site has nobody" in statement.text()) == (len(held) == 1)
    if statement.private:
        most = max(result.spec.epsilons or (result.spec.epsilon,))
        assert 0.0 < statement.epsilon <= most
        if len(statement.epsilons) == len(held):
            silent = [e for e, n in zip(statement.epsilons, held, strict=True) if not n]
            assert silent == [0.0] * len(silent)


def attempt(settings, booking):
    """Return what became of a run: its result or what was said."""
    schema = None if settings["label"] else "s.toml"
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        return train(RunSpec(schema=schema, **given), booking=booking), None
    except (InputError, BudgetError, SolverError) as error:
        return None, str(error)


def test_it_runs_or_says_in_one_sentence_why_not(folder, monkeypatch):
    monkeypatch.chdir(folder)
    ran, refusals = [], set()
    for case in range(CASES):
        settings = drawn(case)
        booking = new_ledger(case) if case % 2 else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result, said = attempt(settings, booking)
        if said is not None:
            assert is_one_sentence(said), (settings, said)
            assert reserved(booking) == [], (settings, said)
            refusals.add(said)
            continue
        well_formed(result)
        ran.append(settings)
        assert len(reserved(booking)) == (booking is not None), settings
    assert len(ran) > CASES / 5
    assert {settings["algorithm"] for settings in ran} == set(ALGORITHMS)
    assert len(refusals) > 10


def new_ledger(case):
    path = Path(f"ledger-{case}.db")
    with OwnerLedger.create(path, owner="somebody") as ledger:
        ledger.grant("records", Budget(100.0, 0.1))
    return LedgerOptions(path, "records")


def reserved(booking):
    """Return the runs that a ledger counts: those that reserved something and keep it."""
    if booking is None:
        return []
    with OwnerLedger.open(booking.ledger) as ledger:
        return list(ledger.books.counted("records"))
