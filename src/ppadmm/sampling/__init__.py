"""Exact samplers: noise that is a continuous law rounded to a grid, with no rounding on the way.

`keystream` has the random words, `lanes` says what is drawn from them, `compiled` and `vectorised`
do it quickly, `stock` keeps numbers ready, `grid` scales them and adds them to values. The proof is
docs/sampler.md.
"""
