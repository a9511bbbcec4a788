"""Frozen run specifications and what runs them."""
