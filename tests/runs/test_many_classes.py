"""Runs with more than two classes, from records to a statement."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ppadmm.algorithms import ALGORITHMS
from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Classes, Dataset, Numeric, Schema
from ppadmm.engines import local
from ppadmm.errors import DataError, InputError
from ppadmm.noise import SeededNoise
from ppadmm.problem import HuberHinge, Multinomial, OneVsRest, make_graph
from ppadmm.runs.federation import build_federation, make_agents
from ppadmm.runs.metrics import evaluate
from tests.small_problems import make_settings, run_small


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    columns = tuple(Numeric(f"p{k}", 0, 16, shape="line") for k in range(64))
    schema = Schema(columns, Classes("digit", tuple("0123456789")))
    table = {c.name: X[:, k] for k, c in enumerate(columns)} | {"digit": [str(v) for v in y]}
    return Dataset("digits", *schema.encode(table), schema, 1437)


@pytest.mark.parametrize("loss", [Multinomial(3), OneVsRest(HuberHinge(), 3)], ids=lambda x: x.name)
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "centralised"])
def test_every_algorithm_runs_on_three_classes(algorithm, loss):
    settings = make_settings(eta=(0.5,), regularisation=(5.0,))
    if ALGORITHMS[algorithm].everyone:
        pytest.skip("hears everybody: tests/algorithms/test_newton.py has its classes")
    trace = run_small(make_graph("ring", 3), algorithm, settings, loss=loss)
    assert trace.releases.shape[3] == 15
    assert np.isfinite(trace.releases).all()
    assert np.ptp(trace.model()) > 0


def test_without_noise_it_reaches_the_pooled_optimum(digits):
    """All agents agree with scikit-learn's multinomial model on the pooled records."""
    federation = build_federation(digits, 3, "complete", Multinomial(10), 0)
    weight = 0.01
    settings = make_settings(rounds=150, eta=(0.004,), regularisation=(3 * weight,), beta=1e-7)
    sites = federation.sites(MethodSpec(algorithm="non-private"), [])
    agents = make_agents("non-private", sites, [settings] * 3, SeededNoise((0,)))
    trace = local.run(agents)
    pooled = federation.pooled()
    reference = LogisticRegression(
        C=1 / (weight * pooled.n), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(pooled.X, pooled.y)
    for model in trace.releases[-1][:, 0]:
        np.testing.assert_allclose(model.reshape(10, -1), reference.coef_, atol=2e-3)


def test_evaluate_agrees_with_scikit_learn(digits):
    from sklearn.metrics import log_loss, roc_auc_score

    rng = np.random.default_rng(0)
    X, y = digits.X[:300], digits.y[:300]
    theta = rng.standard_normal((2, 650)) * 3
    found = evaluate(X, y, theta, 10)
    for r in range(2):
        scores = X @ theta[r].reshape(10, -1).T
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        assert found.error[r] == np.mean(scores.argmax(axis=1) != y)
        assert found.log_loss[r] == pytest.approx(log_loss(y, p))
        area = np.mean([roc_auc_score(y == k, scores[:, k]) for k in range(10)])
        assert found.auc[r] == pytest.approx(area)
    assert evaluate(X, y, np.zeros((1, 650)), 10).error[0] == 1.0


def test_noise_costs_accuracy_and_ten_classes_are_learnt(digits):
    federation = build_federation(digits, 5, "erdos-renyi", Multinomial(10), 0)
    from ppadmm.accounting import Budget

    found = {}
    for epsilon in (1.0, 10.0):
        budgets = [Budget(epsilon, 1e-4)] * 5
        plan = federation.chosen(MethodSpec(rounds=20), budgets)
        settings = make_settings(
            rounds=plan.rounds, eta=(plan.eta,), regularisation=(0.0,), budgets=(budgets[0],),
            beta=1e-7,
        )  # fmt: skip
        agents = make_agents(
            "pp", federation.sites(plan, budgets), [settings] * 5, SeededNoise((0,))
        )
        found[epsilon] = evaluate(*federation.test, local.run(agents).model(), 10).error[0]
    assert found[10.0] < 0.25 < found[1.0] < 0.85


def test_labels_are_read_by_the_schema_and_strays_are_named():
    schema = Schema((Numeric("x", 0, 1, shape="line"),), Classes("y", ("low", "mid", "high")))
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.classes == 3
    np.testing.assert_array_equal(
        schema.encode_label({"x": [0, 1, 0], "y": ["high", "low", "mid"]}), [2.0, 0.0, 1.0]
    )
    with pytest.raises(DataError, match="'y', row 2 is not one of the classes"):
        schema.encode_label({"y": ["low", "odd"]})
    with pytest.raises(DataError, match="expected three or more classes, got 2"):
        Classes("y", ("a", "b"))


def command(*arguments):
    code = "from ppadmm.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


@pytest.fixture
def flowers(tmp_path):
    rng = np.random.default_rng(3)
    kinds = rng.integers(0, 3, 240)
    rows = [f"{rng.normal(k, 0.4):.3f},{rng.normal(-k, 0.4):.3f},{'abc'[k]}" for k in kinds]
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(["width,length,kind", *rows]) + "\n")
    schema = tmp_path / "flowers.toml"
    schema.write_text(
        'format = 1\nconfirmed = true\n[label]\nname = "kind"\nclasses = ["a", "b", "c"]\n'
        '[[columns]]\nname = "width"\nlow = -2\nhigh = 4\nshape = "line"\n'
        '[[columns]]\nname = "length"\nlow = -4\nhigh = 2\nshape = "line"\n'
    )
    return path, schema


def test_a_private_run_of_three_classes_on_the_command_line(flowers, tmp_path):
    path, schema = flowers
    out = tmp_path / "run"
    arguments = ("train", str(path), "--schema", str(schema), "--agents", "3", "--epsilon", "20",
                 "--delta", "1e-3", "--rounds", "10", "--out", str(out))  # fmt: skip
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert "3 classes (multinomial)" in " ".join(done.stdout.split())
    assert "PRIVATE: ε = 20 at δ = 0.001" in done.stdout
    model = json.loads((out / "model.json").read_text())
    assert list(model["coefficients"]) == ["width", "length", "intercept"]
    assert list(model["coefficients"]["width"]) == model["classes"] == ["a", "b", "c"]
    assert "report.html" in done.stdout
    result = json.loads((out / "result.json").read_text())
    assert result["classes"] == ["a", "b", "c"]
    assert result["test_error"] < 0.5


def test_bad_choices_are_one_sentence(flowers):
    path, schema = flowers
    base = ("train", str(path), "--schema", str(schema), "--agents", "3", "--seed", "1")
    paper = command(*base, "--calibration", "paper")
    assert paper.returncode == InputError.exit_code
    assert paper.stderr == (
        "Error: The paper's calibration is for two classes, got 3; use the proven one.\n"
    )
    wrong = command(*base, "--multiclass", "pairs")
    assert wrong.returncode == InputError.exit_code
    assert "Unknown multiclass 'pairs'" in wrong.stderr
