"""Attacks on the real code, each beside the claim that it must stay below."""
