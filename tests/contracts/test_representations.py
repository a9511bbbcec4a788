"""One suite for every way to store records and every kernel: the same numbers to rounding."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_array

from ppadmm.agent import Agent
from ppadmm.algorithms import Site, build
from ppadmm.data import Categorical, Label, Numeric, Schema, Shard, normalise_rows
from ppadmm.data.coded import Coded
from ppadmm.data.shard import stack_rows
from ppadmm.engines import local
from ppadmm.errors import DataError, InputError
from ppadmm.ledger import MemoryLedger
from ppadmm.noise import SeededNoise
from ppadmm.problem import (
    HuberHinge,
    Logistic,
    Multinomial,
    OneVsRest,
    Subproblem,
    kernels,
    make_graph,
    packed,
    risk_of,
)
from ppadmm.solvers import SOLVERS, cold_start, solver_named
from tests.small_problems import make_settings

LOSSES = [Logistic(), HuberHinge(0.5)]
SCORES = [Multinomial(3), OneVsRest(HuberHinge(0.5), 3)]
losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@pytest.fixture(params=["numba", "numpy"])
def kernel(request, monkeypatch):
    """Each kernel in turn."""
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv(kernels.VARIABLE, request.param)
    return request.param


def coded(n=150, seed=0, sizes=(4, 3, 40), groups=True, curves=True):
    """Records with numbers of every kind, curves, one-hot groups and missing values."""
    rng = np.random.default_rng(seed)
    numeric = np.column_stack(
        [rng.random((n, 2)), rng.random((n, 3)) < 0.3, rng.integers(0, 6, n) / 5, np.zeros(n)]
    )
    knots, weights, first = bends(rng, n) if curves else (None, None, 7)
    starts = first + np.cumsum([0, *sizes])
    d = int(starts[-1]) + 1
    codes = [start + rng.integers(0, size, n) for start, size in zip(starts, sizes, strict=False)]
    codes = np.column_stack(codes)
    codes[rng.random(codes.shape) < 0.1] = d
    codes = codes if groups else np.empty((n, 0), int)
    return Coded.of(numeric, codes, d, 1 - 1e-12, knots, weights)


def bends(rng, n):
    """Three curves of six knots and a place for what is missing: any value, few values, one."""
    t = np.column_stack([rng.random(n), rng.integers(0, 4, n) / 4, np.zeros(n)])
    knots = 7 + np.array([0, 7, 14]) + np.column_stack([rng.integers(0, 6, (n, 2)), np.zeros(n)])
    t[:, :2] = np.where(knots[:, :2] % 7 == 5, 1.0, t[:, :2])  # the sixth knot and what is missing
    return knots.astype(int), np.stack([1.0 - t, t], axis=2), 28


def labels(n, classes=2, seed=1):
    rng = np.random.default_rng(seed)
    if classes == 2:
        return np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return rng.integers(0, classes, n).astype(float)


def test_coded_rows_are_the_dense_ones():
    X = coded()
    dense = X.toarray()
    np.testing.assert_allclose(dense, normalise_rows(dense * 7.0), rtol=1e-14)
    np.testing.assert_array_equal(X.tocsr().toarray(), dense)
    np.testing.assert_array_equal(np.asarray(X), dense)
    np.testing.assert_array_equal(X[[5, 2, 5]].toarray(), dense[[5, 2, 5]])
    np.testing.assert_array_equal(stack_rows([X[:9], X[9:]]).toarray(), dense)
    np.testing.assert_allclose(X.norms(), np.linalg.norm(dense, axis=1), rtol=1e-14)
    rng = np.random.default_rng(2)
    for right in (rng.standard_normal(X.d), rng.standard_normal((X.d, 3))):
        np.testing.assert_allclose(X @ right, dense @ right, atol=1e-14)
    for right in (rng.standard_normal(len(X)), rng.standard_normal((len(X), 3))):
        np.testing.assert_allclose(X.T @ right, dense.T @ right, atol=1e-13)


def test_coded_rows_longer_than_one_are_refused():
    X = coded()
    with pytest.raises(DataError, match="norm ≤ 1"):
        Shard(X.scaled(np.full(len(X), 1.001)), labels(len(X)))
    with pytest.raises(DataError, match="NaN or infinity"):
        Shard(X.scaled(np.where(np.arange(len(X)) == 3, np.nan, 1.0)), labels(len(X)))
    shard = Shard(X, labels(len(X)))
    with pytest.raises(ValueError, match="read-only"):
        shard.X.numeric[0, 0] = 0.5


def test_a_schema_encodes_the_same_records_either_way():
    schema = Schema(
        (
            Categorical("colour", ("red", "blue")),
            Numeric("age", 0, 90),
            Categorical("k", ("a",)),
            Numeric("dose", 0, 5, "log", "curve", 4),
            Numeric("age again", -9, 90, "signed", "steps"),
            Numeric("weight", 0, 9, shape="curve", knots=(1, 2, 5)),
        ),
        Label("class", ("yes",), ("no",)),
    )
    table = {
        "colour": ["red", None, "blue"],
        "age": [10, 100, None],
        "k": ["a", "?", None],
        "dose": [None, 5.0, 1.3],
        "age again": [10, 100, None],
        "weight": [0.5, None, 4.0],
        "class": ["yes", "no", "no"],
    }
    X = schema.encode_coded(table)
    np.testing.assert_allclose(X.toarray(), schema.encode_features(table), rtol=1e-15)
    only = Schema((Categorical("k", ("a",)),), Label("class", ("yes",), ("no",)))
    np.testing.assert_allclose(only.encode_coded(table), only.encode_features(table), rtol=1e-15)


@pytest.mark.parametrize("groups", [True, False])
@losses
def test_all_kernels_and_storages_agree(kernel, loss, groups, monkeypatch):
    for n in (1, 31, 32, 33, 1000, 1536, 1537):  # blocks, two of them, and a record more
        monkeypatch.setattr(packed, "CACHED", 0 if n == 1536 else 2**20)
        X = coded(n, groups=groups)
        y = labels(n)
        risk = risk_of(Shard(X, y), loss)
        assert (risk.packed is not None) == (kernel == "numba")
        plain = risk_of(Shard(X.toarray(), y), loss)
        for scale in (0.0, 3.0, 1000.0):
            theta = scale * np.random.default_rng(3).standard_normal((1, X.d))
            exact = plain.gradient(theta)
            np.testing.assert_allclose(risk.gradient(theta), exact, atol=2e-15 * max(1, scale))
            near = risk.gradient(theta, single=True)
            np.testing.assert_allclose(near, exact, atol=1e-6 * max(1, scale))
            np.testing.assert_allclose(
                risk.hessian(theta[0]), plain.hessian(theta[0]), atol=1e-14 * max(1, scale)
            )
            np.testing.assert_allclose(risk.value(theta), plain.value(theta), rtol=1e-13)
        np.testing.assert_allclose(risk.gram, plain.gram, atol=1e-15)
        assert risk.passes == plain.passes + 3


@pytest.mark.parametrize("lines", [0, 2])
@losses
def test_curves_of_any_value_alone_agree(kernel, loss, lines):
    """Nothing is looked up: the constant is one more number, behind features that are none."""
    rng, n = np.random.default_rng(6), 1000
    columns = [Numeric(f"line {j}", 0, 1, shape="line") for j in range(lines)]
    columns += [Numeric(f"curve {j}", 0, 1, shape="curve", knots=4) for j in range(3)]
    schema = Schema(tuple(columns), Label("class", ("yes",), ("no",)))
    X, y = schema.encode_coded({c.name: rng.random(n) for c in columns}), labels(n)
    risk, plain = risk_of(Shard(X, y), loss), risk_of(Shard(X.toarray(), y), loss)
    theta = 3.0 * rng.standard_normal((1, X.d))
    np.testing.assert_allclose(risk.gradient(theta), plain.gradient(theta), atol=1e-14)
    near = risk.gradient(theta, single=True)
    np.testing.assert_allclose(near, plain.gradient(theta), atol=3e-6)
    np.testing.assert_allclose(risk.hessian(theta[0]), plain.hessian(theta[0]), atol=1e-14)


@pytest.mark.parametrize("loss", [*LOSSES, *SCORES], ids=lambda loss: loss.name)
def test_wide_coded_records_are_never_written_out(kernel, loss, monkeypatch):
    X = coded(200, sizes=(150, 90, 40))
    shard = Shard(X, labels(200, max(2, loss.outputs)), max(2, loss.outputs))
    plain = risk_of(Shard(csr_array(X.toarray()), shard.y, shard.classes), loss)
    monkeypatch.setattr(Coded, "toarray", None)
    risk = risk_of(shard, loss)
    theta = np.random.default_rng(4).standard_normal((3, risk.d))
    np.testing.assert_allclose(risk.gradient(theta), plain.gradient(theta), atol=1e-14)
    np.testing.assert_allclose(risk.hessian(theta[0]), plain.hessian(theta[0]), atol=1e-14)
    np.testing.assert_allclose(risk.gram, plain.gram, atol=1e-14)


@losses
def test_the_rounding_bound_holds_against_fifty_digits(kernel, loss):
    """Whatever the order of summation: tables, blocks and categories add up in their own."""
    X, y = coded(300), labels(300)
    risk = risk_of(Shard(X, y), loss)
    for scale in (1.0, 1e3, 1e6):
        theta = scale * np.random.default_rng(5).standard_normal(X.d)
        found = risk.gradient(theta[None])[0]
        with mpmath.workdps(50):
            exact = exact_gradient(X, y, theta, loss)
            error = float(
                mpmath.norm([mpmath.mpf(a) - b for a, b in zip(found, exact, strict=True)])
            )
        fixed, growing = risk.rounding_terms
        bound = fixed + growing * np.linalg.norm(theta)
        assert error <= bound < 1e-12 * scale


def exact_gradient(X, y, theta, loss):
    """(1/n) Σ ℓ'(θᵀv)·v over v = y·scale·(numeric, one-hot, 1), the records as they are stored."""
    total = [mpmath.mpf(0)] * X.d
    for numbers, codes, scale, knots, both, sign in zip(*X.arrays, y, strict=True):
        row = {j: mpmath.mpf(float(x)) for j, x in enumerate(numbers) if x}
        for first, weights in zip(knots, both, strict=True):
            row |= {int(first) + k: mpmath.mpf(float(w)) for k, w in enumerate(weights) if w}
        row |= {int(c): mpmath.mpf(1) for c in codes if c < X.d} | {X.d - 1: mpmath.mpf(1)}
        factor = mpmath.mpf(float(scale)) * int(sign)
        margin = factor * mpmath.fsum(mpmath.mpf(float(theta[j])) * x for j, x in row.items())
        for j, x in row.items():
            total[j] += factor * exact_slope(loss, margin) * x
    return [t / len(X) for t in total]


def exact_slope(loss, m):
    if isinstance(loss, Logistic):
        return -1 / (1 + mpmath.exp(m))
    h = mpmath.mpf(loss.width)
    return -min(max((1 + h - m) / (2 * h), mpmath.mpf(0)), mpmath.mpf(1))


def test_the_compiled_slope_errs_by_a_few_units():
    pytest.importorskip("numba")
    margins = np.concatenate([np.linspace(-750, 100, 4001), np.linspace(-1, 1, 501)])
    found = margins.copy()
    kernels.compiled().logistic(found, np.empty(len(found), np.int64))
    with mpmath.workdps(50):
        for m, slope in zip(margins, found, strict=True):
            exact = -1 / (1 + mpmath.exp(mpmath.mpf(float(m))))
            assert abs(slope - exact) <= 8 * 2.0**-53 * abs(exact) + mpmath.mpf(10) ** -30


@losses
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("mu", [1.0, 1e-2, 1e-4])
def test_the_certificate_is_true(kernel, name, loss, mu):
    X, y = coded(), labels(150)
    rng = np.random.default_rng(6)
    sub = Subproblem(
        risk_of(Shard(X, y), loss), np.array([mu]), 0.05 * rng.standard_normal((1, X.d))
    )
    solution = solver_named(name, X.d).solve(sub, cold_start(sub), 1e-10)
    dense = Subproblem(risk_of(Shard(X.toarray(), y), loss), sub.mu, sub.linear)
    assert np.linalg.norm(dense.gradient(solution.point)) <= solution.residual[0] <= 1e-10
    again = solver_named(name, X.d).solve(sub, solution.warm, 1e-10)
    assert again.passes == 0
    np.testing.assert_array_equal(again.point, solution.point)
    moved = Subproblem(sub.risk, 3.0 * sub.mu, sub.linear)
    third = solver_named(name, X.d).solve(moved, solution.warm, 1e-10)
    assert np.linalg.norm(moved.gradient(third.point)) <= third.residual[0] <= 1e-10


def releases(loss, store):
    """A small private run, with the records stored in one way."""
    graph, settings = make_graph("ring", 4), make_settings(eta=(0.05,), beta=1e-10)
    agents = []
    for i in range(4):
        X = coded(seed=i)
        shard = Shard(store(X), labels(len(X), seed=i))
        degrees = tuple(graph.degree(j) for j in graph.neighbours(i))
        site = Site(i, 4, graph.neighbours(i), risk_of(shard, loss), degrees)
        rule = build("pp", site, settings)
        agents.append(Agent(rule, i, graph.neighbours(i), [MemoryLedger()], SeededNoise((3,))))
    return local.run(agents).releases


@losses
def test_a_run_releases_the_same_however_records_are_stored(kernel, loss):
    reference = releases(loss, Coded.toarray)
    np.testing.assert_allclose(releases(loss, lambda X: X), reference, atol=1e-9)
    np.testing.assert_allclose(releases(loss, Coded.tocsr), reference, atol=1e-9)


def test_the_kernel_is_chosen_by_the_variable(monkeypatch):
    small, large = Shard(coded(50), labels(50)), Shard(coded(2000), labels(2000))
    monkeypatch.setenv(kernels.VARIABLE, "fast")
    with pytest.raises(InputError, match="PPADMM_KERNEL"):
        risk_of(small, Logistic())
    monkeypatch.setenv(kernels.VARIABLE, "auto")
    monkeypatch.setattr(kernels, "WORTHWHILE", 2000 * large.d)
    monkeypatch.setattr(kernels, "has_numba", lambda: True)
    assert not kernels.use_compiled(small.X, Logistic())
    assert kernels.use_compiled(large.X, Logistic())
    assert not kernels.use_compiled(large.X, Multinomial(3))
    monkeypatch.setattr(kernels, "has_numba", lambda: False)
    assert not kernels.use_compiled(large.X, Logistic())
    monkeypatch.setenv(kernels.VARIABLE, "numba")
    with pytest.raises(InputError, match=r"install ppadmm\[fast\]"):
        risk_of(large, Logistic())


def test_numba_is_not_imported_before_it_is_needed():
    code = "import ppadmm, ppadmm.cli, ppadmm.solvers, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@losses
def test_threads_that_share_records_do_not_disturb_one_another(loss, monkeypatch):
    """The kernel runs without Python's lock: a scratch array of the records would be a race."""
    pytest.importorskip("numba")
    monkeypatch.setenv(kernels.VARIABLE, "numba")
    risk = risk_of(Shard(coded(20_000), labels(20_000)), loss)
    points = 3.0 * np.random.default_rng(7).standard_normal((4, 1, risk.d))
    alone = [risk.gradient(point) for point in points]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(40):
            for found, exact in zip(pool.map(risk.gradient, points), alone, strict=True):
                np.testing.assert_array_equal(found, exact)


def test_the_compiled_inverse_is_one():
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    for d in (1, 2, 7, 60):
        Z = rng.standard_normal((d // 2 + 1, d))
        for mu in (1e-6, 1.0):
            found = kernels.compiled().inverse(Z.T @ Z, mu)
            assert np.array_equal(found, found.T)
            error = found @ (Z.T @ Z + mu * np.eye(d)) - np.eye(d)
            assert np.abs(error).max() < 1e-8 / min(mu, 1e-2) * 1e-4
