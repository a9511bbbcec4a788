"""Decentralised training of linear classifiers with proven differential privacy."""

__version__ = "0.1.0"
