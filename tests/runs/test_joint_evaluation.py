"""Figures of all sites' held-out records, from noisy sums."""

import numpy as np
import pytest

from ppadmm.accounting import Budget, accountant
from ppadmm.errors import BudgetError, InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SecureNoise, SeededNoise
from ppadmm.runs.joint_evaluation import (
    BINS,
    HeldOutRecords,
    count_cells,
    evaluate_together,
)
from ppadmm.runs.metrics import evaluate
from ppadmm.summing.trust import Trust

LOCAL, SUM = Trust(), Trust("sum", 1)
BUDGET = Budget(1.0, 1e-6)


def sites(sizes, classes=2, d=4):
    rng, found = np.random.default_rng(0), []
    model = 3.0 * rng.standard_normal(d * (1 if classes == 2 else classes))
    for n in sizes:
        X = rng.standard_normal((n, d)) / 4.0
        X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
        if classes == 2:
            y = np.where(X @ model + rng.logistic(size=n) > 0.0, 1.0, -1.0)
        else:
            y = (X @ model.reshape(classes, d).T + rng.gumbel(size=(n, classes))).argmax(1) * 1.0
        found.append(HeldOutRecords(X, y, classes))
    return found, model


def pooled(tests, model, classes=2):
    X, y = np.concatenate([t.X for t in tests]), np.concatenate([t.y for t in tests])
    return evaluate(X, y, model[None], classes)


@pytest.mark.parametrize("trust", [LOCAL, SUM], ids=["local", "sum"])
@pytest.mark.parametrize("classes", [2, 4])
def test_without_noise_they_are_those_of_the_pooled_records(trust, classes):
    tests, model = sites((3000, 500, 40), classes)
    found = evaluate_together(tests, model, Budget(1e3, 0.5), SeededNoise((0,)), trust)
    truth = pooled(tests, model, classes)
    assert found.error == pytest.approx(float(truth.error[0]), abs=3e-3)
    if classes == 2:
        assert found.auc == pytest.approx(float(truth.auc[0]), abs=0.02)


@pytest.mark.parametrize("trust", [LOCAL, SUM], ids=["local", "sum"])
def test_noise_is_as_large_as_it_is_said_to_be(trust):
    tests, model = sites((3000, 500, 40, 900))
    truth = sum(count_cells(test, model) for test in tests)
    apart = [
        evaluate_together(tests, model, BUDGET, SeededNoise((seed,)), trust).counts - truth
        for seed in range(25)
    ]
    said = evaluate_together(tests, model, BUDGET, SeededNoise((0,)), trust).sigma
    assert np.std(apart) == pytest.approx(said, rel=0.1)
    assert abs(np.mean(apart)) < 0.2 * said


def test_a_sum_of_many_sites_has_less_noise_than_their_own():
    tests, model = sites((100,) * 20)
    noise = SecureNoise()
    alone = evaluate_together(tests, model, BUDGET, noise, LOCAL)
    together = evaluate_together(tests, model, BUDGET, noise, SUM)
    assert together.sigma == pytest.approx(alone.sigma / np.sqrt(19.0), rel=1e-3)


@pytest.mark.parametrize("trust", [LOCAL, SUM], ids=["local", "sum"])
def test_every_site_pays_what_was_granted_and_no_more(trust):
    tests, model = sites((300, 500))
    found = evaluate_together(tests, model, BUDGET, SecureNoise(), trust)
    for tally in found.spent:
        assert 0.99 < accountant.epsilon(tally, 1e-6).epsilon <= 1.0
    small = [MemoryLedger(Budget(0.5, 1e-6)) for _ in tests]
    with pytest.raises(BudgetError):
        evaluate_together(tests, model, BUDGET, SecureNoise(), trust, ledgers=small)


def test_one_record_moves_the_counts_by_no_more_than_is_paid_for():
    tests, model = sites((200,))
    counts, (test,) = count_cells(tests[0], model), tests
    assert counts.sum() == 200.0
    assert counts.shape == (BINS, 2)
    for i in range(50):
        for y in (-1.0, 1.0):
            X = test.X.copy()
            X[i] = -X[i]
            other = HeldOutRecords(X, np.where(np.arange(200) == i, y, test.y))
            assert np.linalg.norm(count_cells(other, model) - counts) <= np.sqrt(2.0) + 1e-12


def test_nothing_held_out_is_said():
    empty = HeldOutRecords(np.zeros((0, 4)), np.zeros(0))
    with pytest.raises(InputError, match="No site has held-out records"):
        evaluate_together([empty, empty], np.zeros(4), BUDGET, SecureNoise())
