"""A streamed risk is the risk of the same records in memory."""

import math

import numpy as np
import pytest

from ppadmm.data import Assignment, Numeric, Schema
from ppadmm.data.schema import Classes, Label
from ppadmm.data.stream.blocks import Writer
from ppadmm.data.stream.store import Spilled
from ppadmm.errors import DataError
from ppadmm.problem import HuberHinge, Logistic, Multinomial, OneVsRest, risk_of, risk_over
from tests.small_problems import random_shard

D = 6
LOSSES = [Logistic(), HuberHinge(), Multinomial(3), OneVsRest(Logistic(), 3)]


def streamed(shard, block, kept=0):
    """Put a shard's records into blocks of so many bytes, `kept` bytes of them in memory."""
    target = Label("y", ("1",), ("0",)) if shard.classes == 2 else Classes("y", ("0", "1", "2"))
    schema = Schema(tuple(Numeric(f"x{i}", 0, 1, shape="line") for i in range(D - 1)), target)
    writer = Writer(schema, 1, 10**6)
    writer._block = block
    writer.store._room = kept
    dealt = np.zeros(shard.n, dtype=np.int32)
    dealt[-1] = 1
    for rows in np.array_split(np.arange(shard.n), 5):
        writer.add(shard.X[rows], shard.y[rows], dealt[rows])
    return writer.streams(Assignment(("one",), [])).parts[0]


def without_last(shard):
    return type(shard)(shard.X[:-1], shard.y[:-1], shard.classes)


@pytest.fixture(params=[(60, 0), (700, 0), (700, 3_000), (10**6, 10**9)])
def cut(request):
    return request.param


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_stream_has_the_values_of_the_whole(loss, sparse, cut):
    shard = random_shard(n=301, d=D, sparse=sparse, classes=max(2, loss.outputs))
    whole, stream = risk_of(without_last(shard), loss), streamed(shard, *cut)
    risk = risk_over(stream, loss)
    assert (risk.n, risk.d, risk.loss) == (300, whole.d, loss)
    theta = 3.0 * np.random.default_rng(1).standard_normal((4, risk.d))
    close = {"rtol": 1e-13, "atol": 1e-15}
    np.testing.assert_allclose(risk.value(theta), whole.value(theta), **close)
    np.testing.assert_allclose(
        risk.clipped_value(theta, 0.7), whole.clipped_value(theta, 0.7), **close
    )
    np.testing.assert_allclose(risk.gradient(theta), whole.gradient(theta), **close)
    np.testing.assert_allclose(risk.gradient(theta, single=True), whole.gradient(theta), **close)
    assert risk.passes == 16
    np.testing.assert_allclose(risk.hessian(theta[0]), whole.hessian(theta[0]), **close)
    assert risk.passes == 17
    np.testing.assert_allclose(risk.gram, whole.gram, **close)
    assert risk.gram is risk.gram
    stream.close()


def test_blocks_are_cut_and_spilled_as_asked():
    shard = random_shard(n=301, d=D)
    stream = streamed(shard, 700)
    assert len(stream.tickets) > 300 * D * 8 / 700
    assert all(isinstance(ticket, Spilled) for ticket in stream.tickets)
    assert max(block.X.nbytes for block in stream.blocks()) <= 700
    assert stream.counts.tolist() == [int((shard.y[:-1] < 0).sum()), int((shard.y[:-1] > 0).sum())]
    stream.close()


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)], ids=lambda loss: loss.name)
def test_the_rounding_bound_covers_the_sum_over_blocks(loss):
    shard = random_shard(n=400, d=D, classes=max(2, loss.outputs))
    stream = streamed(shard, 200)
    risk = risk_over(stream, loss)
    a, b = risk.rounding_terms
    assert 0 < a < 1e-12
    assert 0 < b < 1e-13
    theta = 30.0 * np.random.default_rng(2).standard_normal((3, risk.d))
    exact = np.array([_exact_gradient(without_last(shard), loss, point) for point in theta])
    errors = np.linalg.norm(risk.gradient(theta) - exact, axis=1)
    assert errors.max() > 0
    assert (errors <= a + b * np.linalg.norm(theta, axis=1)).all()
    # It counts every block: a mean of B gradients cannot be more exact than adding them is.
    assert a > loss.lipschitz * len(stream.tickets) * 2.0**-53
    stream.close()


def _exact_gradient(shard, loss, theta):
    """Sum the records' gradients without rounding; each of them in extended precision."""
    X, point = shard.X.astype(np.longdouble), theta.astype(np.longdouble)
    if loss.outputs == 1:
        V = shard.y[:, None] * X
        terms = V * (-1 / (1 + np.exp(V @ point)))[:, None]
    else:
        scores = np.exp(X @ point.reshape(loss.outputs, -1).T)
        p = scores / scores.sum(axis=1, keepdims=True)
        p[np.arange(shard.n), shard.codes()] -= 1
        terms = (p[:, :, None] * X[:, None, :]).reshape(shard.n, -1)
    return np.array([math.fsum(column) for column in terms.T.astype(float)]) / shard.n


def test_rounding_terms_need_no_gradient_first():
    stream = streamed(random_shard(n=50, d=D), 200)
    asked_first = risk_over(stream, Logistic()).rounding_terms
    risk = risk_over(stream, Logistic())
    risk.gradient(np.zeros((1, D)))
    assert asked_first == risk.rounding_terms
    assert asked_first[0] > 0
    stream.close()


def test_a_stream_of_two_classes_refuses_a_loss_of_scores():
    stream = streamed(random_shard(n=50, d=D), 200)
    with pytest.raises(DataError, match="one margin"):
        risk_over(stream, Multinomial(2))
    stream.close()
