"""Sums that nobody sees the parts of: integers, shares of noise, masks that cancel."""
