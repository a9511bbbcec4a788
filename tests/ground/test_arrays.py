"""Norms of rows: one replicate has a quicker way to the same numbers."""

import numpy as np

from ppadmm.arrays import norms


def test_one_row_has_the_norm_that_it_has_among_others():
    rows = np.random.default_rng(0).standard_normal((40, 101)) * np.logspace(-150, 150, 40)[:, None]
    alone = np.concatenate([norms(row[None]) for row in rows])
    np.testing.assert_array_equal(alone, norms(rows))
    np.testing.assert_allclose(alone, np.linalg.norm(rows, axis=1), rtol=1e-14)


def test_what_is_beyond_doubles_is_infinite_and_nothing_is_not():
    large = np.full((1, 3), 1e200)
    assert norms(large).tolist() == [np.inf]
    assert norms(np.concatenate([large, large])).tolist() == [np.inf, np.inf]
    assert norms(np.zeros((1, 3))).tolist() == [0.0]
