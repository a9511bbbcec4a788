"""Records laid out for the compiled kernel and written out for Hessians, compiled by numba.

Imported only through `kernels.layout`. None of these calls another compiled function: see
`ppadmm.problem.compiled`.
"""

from typing import Any

import numpy as np

from ppadmm.problem.compiled import any_order, exact


@exact
def choices_of(column: Any, found: Any, codes: Any) -> int:
    """Return how many different values a column has, or −1 if more than `found` can hold.

    They are numbered as they come: the number of each record → codes (n,), the values → found.
    """
    seen = 0
    for i in range(column.shape[0]):
        k = 0
        while k < seen and found[k] != column[i]:
            k += 1
        if k == seen:
            if seen == found.shape[0]:
                return -1
            found[k] = column[i]
            seen += 1
        codes[i] = k
    return seen


@exact
def join(codes: Any, size: int, chosen: Any, choices: int, most: int, joint: Any) -> int:
    """Give a number to each pair (code, chosen) that occurs, as they come: → joint (n,).

    Returns how many there are, or −1 if more than `most`.
    """
    numbers = np.full(size * choices, -1, np.int64)
    seen = 0
    for i in range(codes.shape[0]):
        pair = codes[i] + size * chosen[i]
        if numbers[pair] < 0:
            if seen == most:
                return -1
            numbers[pair] = seen
            seen += 1
        joint[i] = numbers[pair]
    return seen


@any_order
def margins(rows: Any, factors: Any, point: Any, every: int, m: Any) -> None:
    """m ← diag(factors)·(numeric, curves, one-hot, 1)·θ of every k-th record.

    `rows` are (numeric, codes, knots, weights); `point` is θ and the 0 of what is missing.
    """
    numeric, codes, knots, weights = rows
    p, last = numeric.shape[1], point[point.shape[0] - 2]
    for i in range(m.shape[0]):
        x, chosen = numeric[i * every], codes[i * every]
        first, share = knots[i * every], weights[i * every]
        total = last
        for j in range(p):
            total += x[j] * point[j]
        for c in range(knots.shape[1]):
            total += share[c, 0] * point[first[c]] + share[c, 1] * point[first[c] + 1]
        for g in range(codes.shape[1]):
            total += point[chosen[g]]
        m[i] = factors[i] * total


@exact
def write_out(rows: Any, factors: Any, start: int, every: int, block: Any) -> None:
    """block ← diag(factors)·(numeric, curves, one-hot, 1) of every k-th record; (m, d).

    `rows` are as for `margins`. It begins with number `start` of these. A missing code is d.
    """
    numeric, codes, knots, weights = rows
    m, d = block.shape
    p = numeric.shape[1]
    block[:] = 0
    for i in range(m):
        k = (start + i) * every
        factor, row = factors[start + i], block[i]
        x, chosen = numeric[k], codes[k]
        for j in range(p):
            row[j] = x[j] * factor
        for c in range(knots.shape[1]):
            row[knots[k, c]] += weights[k, c, 0] * factor
            row[knots[k, c] + 1] += weights[k, c, 1] * factor
        for g in range(codes.shape[1]):
            if chosen[g] < d:
                row[chosen[g]] = factor
        row[d - 1] = factor
