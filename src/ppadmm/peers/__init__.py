"""A site of a run over a network, with no server."""
