"""The book of a budget: charged before noise is drawn, hash-chained where it is kept on disk."""

from ppadmm.ledger.protocol import Ledger, MemoryLedger

__all__ = ["Ledger", "MemoryLedger"]
