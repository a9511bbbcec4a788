"""Whatever run was paid for can be certified and verified: its own self-check never refuses it.

PPADMM_FULL=1 makes 2,000 random runs; without it 40. Settings that are refused before anything is
spent do not count.
"""

import json
import math
import os
import random
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from ppadmm import RunSpec, train
from ppadmm.accounting import Budget
from ppadmm.algorithms.settings import Speaking
from ppadmm.data import Classes, Dataset, Label, Numeric, Schema
from ppadmm.errors import BudgetError, InputError, SolverError
from ppadmm.ledger.chain import read_rows, verify
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.runs.certificates import certify_run, verified
from ppadmm.runs.folder import write_run
from ppadmm.runs.ledger_session import LedgerOptions
from ppadmm.statements.certificate import check, require_booked
from ppadmm.studies.tune import tune
from tests.statements.signed import KEY, certificate_of

FULL = bool(os.environ.get("PPADMM_FULL"))
WANTED = 2000 if FULL else 40
PRIVATE = ("pp", "ipp", "gradient", "one-shot", "centralised")
FEW = (3, 5, 8, 13, 20, 40, 77, 150, 299, 300)


@cache
def records_of(classes):
    """Made-up records of 2 features and so many classes, enough for four agents."""
    rng = np.random.default_rng(classes)
    columns = (Numeric("a", 0, 1), Numeric("b", 0, 1))
    names = tuple(f"c{k}" for k in range(classes))
    label = Label("y", names[:1], names[1:]) if classes == 2 else Classes("y", names)
    schema = Schema(columns, label)
    x = rng.random((1400, 2))
    y = [names[k] for k in (x.mean(axis=1) * 0.999 * classes).astype(int)]
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
    return Dataset("made-up", *schema.encode(table), schema, 1200, table)


def random_spec(rng):
    """Few rounds and few records, every algorithm, budgets from tight to more than can be spent."""
    agents = rng.choice((1, 2, 2, 3, 4))
    algorithm, classes = rng.choice(PRIVATE), rng.choice((2, 2, 3, 5))
    records = [rng.choice(FEW) for _ in range(agents)]
    if agents > 2 and rng.random() < 0.2:
        records[rng.randrange(agents)] = 0
    epsilon = _log_uniform(rng, 0.05, 60.0)
    each = tuple(epsilon * rng.choice((1.0, 2.0, 3.7)) for _ in range(agents))
    rounds = rng.choice((1, 2, 3, 4, 5, 5, 12, 30))
    return classes, RunSpec(
        agents=agents,
        graph="complete" if agents > 1 else "ring",
        algorithm=algorithm,
        loss=rng.choice(("logistic", "huber-hinge")),
        epsilon=epsilon,
        epsilons=rng.choice((None, each)),
        records=tuple(records),
        delta=10.0 ** rng.uniform(-9.0, -2.0),
        rounds=rounds if algorithm == "gradient" else rng.choice((None, rounds, rounds, rounds)),
        eta=rng.choice((None, None, _log_uniform(rng, 1e-3, 1.0))),
        regularisation=rng.choice((0.0, 0.0, _log_uniform(rng, 1e-3, 1.0))),
        adjacency=rng.choice(("replace-one", "zero-out")),
        speaking=Speaking(
            statistic=rng.choice(("gradient", "movement", "loss")),
            test=rng.choice(("auto", "gaussian", "svt")),
            releases=rng.choice((None, 1, min(2, rounds))),
            share=rng.choice((0.02, 0.3)),
        ),
    )


def _log_uniform(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def run_or_refusal(classes, spec):
    """Return a finished run; None if it was refused, before the first round."""
    done = []
    try:
        return train(spec, lambda k, _: done.append(k), data=records_of(classes))
    except (BudgetError, InputError, SolverError):
        assert not done, spec
        return None


def test_every_run_can_be_certified_and_verified():
    seen, made, tried = set(), 0, 0
    while made < WANTED:
        rng = random.Random(tried)
        tried += 1
        classes, spec = random_spec(rng)
        if (result := run_or_refusal(classes, spec)) is None:
            continue
        made += 1
        said = json.loads(json.dumps(result.disclosure()))
        verdict = check(certificate_of(said))
        assert verdict.statement == said, spec
        assert not verdict.notes, spec
        assert said["private"], spec
        seen.add((spec.algorithm, spec.adjacency, classes > 2))
    assert made > tried / 10
    assert len(seen) >= (20 if FULL else 12)


def test_the_run_that_could_not_be_certified(tmp_path):
    """Two sites, 299 records each, five rounds: ε = 1.855945 was stated and 1.845233 found."""
    for delta in (1e-3, 1e-4, 1e-5, 1e-6):
        spec = RunSpec(agents=2, graph="complete", records=(299, 299), rounds=5, epsilon=2.0,
                       delta=delta)  # fmt: skip
        run = write_run(train(spec), tmp_path / f"{delta}")
        (verdict,) = verified([certify_run(run, KEY, "us", [], None)], [], None, run)
        assert not verdict.notes


@pytest.mark.parametrize("rule", ["adaptive", "planned"])
def test_runs_of_one_ledger(tmp_path, rule):
    """Sums over runs, too, are the same to whoever works them out again."""
    path = tmp_path / "a.ledger"
    with OwnerLedger.create(path, "owner") as ledger:
        ledger.grant("made-up", Budget(30.0, 1e-4), rule=rule)
    for rounds in (1, 2, 5, 3):
        spec = RunSpec(agents=2, graph="complete", records=(40, 299), rounds=rounds, epsilon=2.0,
                       delta=1e-4)  # fmt: skip
        said = train(spec, data=records_of(2), booking=LedgerOptions(path, "made-up")).disclosure()
        assert not check(certificate_of(said)).notes
        require_booked(said, verify(read_rows(path))[0])


@pytest.mark.parametrize("how", ["split", "repeat"])
def test_searches(how):
    """The best of several runs: several kinds of events, each with a crossing of its own."""
    spec = RunSpec(algorithm="centralised", agents=2, graph="complete", epsilon=4.0, delta=1e-4,
                   records=(150, 150))  # fmt: skip
    found = tune(spec, regularisations=(1.0, 2.0, 4.0), how=how, data=records_of(2))
    assert not check(certificate_of(json.loads(json.dumps(found.result.disclosure())))).notes
