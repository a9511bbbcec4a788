import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ppadmm.data import Shard, normalise_rows
from ppadmm.data.coded import Coded
from ppadmm.errors import DataError
from ppadmm.problem import Multinomial, risk_of

matrices = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(allow_nan=False, allow_infinity=False),
)
small = np.array([[0.6, 0.0, 0.3], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
labels = np.array([1.0, -1.0, -1.0])


@given(matrices)
def test_normalised_rows_make_a_shard(X):
    dense = normalise_rows(X)
    sparse = normalise_rows(sp.csr_array(X))
    shard = Shard(dense, np.ones(len(X)))
    assert Shard(sparse, np.ones(len(X))).n == shard.n == len(X)
    assert np.allclose(sparse.toarray(), dense, atol=1e-15)
    norms = np.linalg.norm(dense, axis=1)
    assert (norms <= 1).all()
    assert np.allclose(norms[np.abs(X).max(axis=1) > 0], 1)


@given(matrices, st.data())
def test_normalising_looks_at_one_row_only(X, data):
    rows = data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1))
    assert np.array_equal(normalise_rows(X)[rows], normalise_rows(X[rows]))


def test_zero_rows_stay_zero():
    assert not normalise_rows(np.zeros((2, 3))).any()
    assert normalise_rows(sp.csr_array((2, 3))).nnz == 0


def test_many_features_still_have_norm_at_most_one():
    X = np.random.default_rng(0).standard_normal((3, 20_000))
    Shard(normalise_rows(X), np.ones(3))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_shape_and_signed_rows(make):
    shard = Shard(make(small), labels)
    V = shard.signed()
    dense = V if isinstance(V, np.ndarray) else V.toarray()
    assert (shard.n, shard.d) == (3, 3)
    assert isinstance(V, type(shard.X))
    assert np.array_equal(dense, labels[:, None] * small)
    assert np.array_equal(V @ np.ones(3), labels * small.sum(axis=1))


def test_dense_rows_are_contiguous_float64():
    shard = Shard(np.asfortranarray(small, dtype=np.float32) / 2, [1, -1, 1])
    assert shard.X.flags.c_contiguous
    assert shard.X.dtype == shard.y.dtype == np.float64


def test_a_shard_is_read_only_and_the_callers_array_is_not():
    mine = small.copy()
    for shard in (Shard(mine, labels), Shard(sp.csr_array(mine), labels)):
        values = shard.X if isinstance(shard.X, np.ndarray) else shard.X.data
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 9.0
    mine[0, 0] = 0.5


def test_sparse_duplicates_cannot_hide_a_norm():
    X = sp.csr_array((np.array([0.9, 0.9]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    with pytest.raises(DataError, match="norm ≤ 1, got a longer one in row 0"):
        Shard(X, [1.0])


def test_norm_has_no_tolerance():
    Shard(np.array([[1.0]]), [1])
    with pytest.raises(DataError, match="a longer one in row 1; pass X through normalise_rows"):
        Shard(np.array([[0.0], [np.nextafter(1, 2)]]), [1, 1])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_refused(make, bad):
    X = small.copy()
    X[2, 1] = bad
    with pytest.raises(DataError, match="Row 2 of X holds NaN or infinity"):
        Shard(make(X), labels)
    with pytest.raises(DataError, match="Row 2 of X"):
        normalise_rows(make(X))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (small[0], labels, r"shape \(records, features\), got shape \(3,\)"),
        (small, labels[:2], "3 rows and 2 labels"),
        (small, labels[:, None], r"labels of shape \(records,\)"),
        (small, [1, 0, 1], "got another in row 1; map"),
        (small, [1, np.nan, 1], "got another in row 1; map"),
        (small, ["a", "b", "c"], "map the classes"),
        ([["a"]], [1], "numbers only"),
        (np.zeros((0, 3)), [], "at least 1 record"),
        (np.zeros((1, 0)), [1], "at least 1 feature"),
        (np.full((1, 1), 1e300), [1], "norm ≤ 1, got a longer one in row 0"),
    ],
)
def test_bad_shards_are_refused_by_name(X, y, message):
    with pytest.raises(DataError, match=message):
        Shard(X, y)


class TestCodes:
    """Records as category codes: what a risk makes of them has the norm that was checked."""

    def rows(self, codes, d=8):
        return Coded.of(np.full((len(codes), 2), 0.5), np.asarray(codes), d, 0.9)

    def test_groups_one_after_the_other_are_taken(self):
        shard = Shard(self.rows([[2, 5], [4, 8], [8, 6]]), labels)
        written = shard.X.tocsr().toarray()
        np.testing.assert_allclose(written, shard.X.toarray())
        assert np.linalg.norm(written, axis=1) == pytest.approx(0.9)

    @pytest.mark.parametrize(
        "codes",
        [
            [[1, 5], [2, 5], [2, 5]],
            [[2, 2], [2, 5], [2, 5]],
            [[4, 5], [2, 3], [2, 5]],
            [[2, 7], [2, 5], [2, 5]],
            [[2, 9], [2, 5], [2, 5]],
            [[-1, 5], [2, 5], [2, 5]],
        ],
    )
    def test_codes_that_meet_a_feature_twice_are_refused(self, codes):
        """The two halves of such an entry would add up to more than was checked."""
        numeric, scale = np.full((3, 2), 0.5), np.full(3, 0.5)
        with pytest.raises(DataError, match="Expected codes of group"):
            Shard(Coded(numeric, np.array(codes), scale, 8), labels)

    @pytest.mark.parametrize(
        ("knots", "words"),
        [
            ([[2, 5], [1, 5], [2, 5]], "curve 0 between 2"),
            ([[2, 3], [2, 5], [3, 5]], "curve 1 between 5"),
            ([[2, 5], [2, 7], [2, 5]], "curve 1 between 4"),
        ],
    )
    def test_curves_that_meet_a_feature_twice_are_refused(self, knots, words):
        numeric, codes, weights = (
            np.full((3, 2), 0.5),
            np.zeros((3, 0), int),
            np.full((3, 2, 2), 0.5),
        )
        rows = Coded(numeric, codes, np.full(3, 0.5), 8, np.array(knots), weights)
        with pytest.raises(DataError, match=f"Expected knots of {words}"):
            Shard(rows, labels)

    def test_a_weight_of_nothing_meets_no_feature(self):
        """The place after a column's last belongs to the next one."""
        weights = np.array([[[0.5, 0.5], [1, 0]], [[1, 0], [0, 1]], [[0, 1], [0, 0]]], dtype=float)
        knots = np.array([[2, 4], [3, 4], [2, 0]])
        rows = Coded.of(np.full((3, 2), 0.5), np.zeros((3, 0), int), 7, 0.9, knots, weights)
        written = Shard(rows, labels).X.toarray()
        np.testing.assert_allclose(np.linalg.norm(written, axis=1), 0.9)
        np.testing.assert_array_equal(rows.tocsr().toarray(), written)

    def test_single_precision_is_made_double(self):
        """A certificate in single precision would be none."""
        single = self.rows([[2, 5], [4, 8], [8, 6]]).astype(np.float32)
        shard = Shard(single, np.array([0.0, 1.0, 2.0]), 3)
        assert shard.X.numeric.dtype == shard.X.scale.dtype == np.float64
        risk = risk_of(shard, Multinomial(3))
        theta = np.random.default_rng(0).standard_normal((1, risk.d)) * 3
        exact = risk_of(Shard(shard.X.toarray(), shard.y, 3), Multinomial(3)).gradient(theta)
        assert np.abs(risk.gradient(theta) - exact).max() < 1e-15
