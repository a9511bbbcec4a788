"""Every exception that ppadmm raises on purpose.

    PpadmmError
    ├── InputError          what the caller gave cannot be used
    │   ├── DataError       ... a table, a schema, a shard
    │   └── GraphError      ... a network
    ├── BudgetError         the privacy budget does not allow it
    │   └── InfeasibleError no amount of noise reaches the target with these settings
    ├── SolverError         a residual cannot be certified; nothing is released
    ├── ProtocolError       an agent was driven out of turn, or by a malformed message
    │   ├── ForeignError    ... bytes from a network that are not a message of this run
    │   ├── OutOfBoundsError    ... a message of this run with numbers that its terms exclude
    │   └── DisagreementError   ... neighbours hold other terms than this site
    ├── EntropyError        the random generator is broken; nothing is released
    ├── WorkerError         a process that did part of the work is gone
    ├── LedgerError         a ledger is damaged, in use elsewhere, or none at all
    ├── CertificateError    a certificate does not hold
    └── UnfinishedError     results are there, but not all that belongs to them

A `PrivacyWarning` says that what was asked for was done and may not be called private, an
`OverlapWarning` that records seem to be charged under two names. The latter follows from the
records and is for their owner's eyes only.

Messages are one sentence that names the value and the way out.
"""

from collections.abc import Mapping, Sequence


class PpadmmError(Exception):
    """Base of all errors raised by ppadmm; the CLI exits with `exit_code`."""

    exit_code = 1


class InputError(PpadmmError, ValueError):
    """What the caller gave cannot be used."""

    exit_code = 2


class DataError(InputError):
    """A table, a schema or a shard cannot be used."""

    exit_code = 3


class GraphError(InputError):
    """A network cannot be used."""


class BudgetError(PpadmmError):
    """The privacy budget does not allow it."""

    exit_code = 4


class InfeasibleError(BudgetError):
    """No amount of noise reaches the target with these settings."""


class SolverError(PpadmmError):
    """A residual cannot be certified; nothing is released.

    Raised before anything is paid for, from public numbers, or where no record is protected anyway.
    """

    exit_code = 5


class ProtocolError(PpadmmError):
    """An agent was driven out of turn, or by a malformed message."""

    exit_code = 6


class ForeignError(ProtocolError):
    """Bytes that arrived from elsewhere are not a message of this run; they change nothing."""


class OutOfBoundsError(ProtocolError):
    """A neighbour sent numbers that the terms of the run exclude; it does not keep to them."""


class DisagreementError(ProtocolError):
    """Neighbours hold other terms: `found` names the entries that differ, by neighbour."""

    def __init__(self, found: Mapping[str, Sequence[str]]) -> None:
        self.found = found
        each = "; ".join(f"{name} has {', '.join(entries)}" for name, entries in found.items())
        super().__init__(
            f"The agreements differ: {each}. Nothing was spent; take the same agreement.json at "
            "every site, and sign that one."
        )


class WorkerError(PpadmmError):
    """A process that did part of the work is gone."""

    exit_code = 7


class LedgerError(PpadmmError):
    """A ledger is damaged, in use elsewhere, or none at all."""

    exit_code = 8


class CertificateError(PpadmmError):
    """A certificate does not hold."""

    exit_code = 9


class UnfinishedError(PpadmmError):
    """The results of a run are written down; a certificate or a report of them is not."""

    exit_code = 12


class EntropyError(PpadmmError):
    """The random generator of the system or its expansion is broken; nothing is released."""

    exit_code = 13


class PrivacyWarning(UserWarning):
    """A result may not be called private, though nobody asked for that."""


class OverlapWarning(UserWarning):
    """Records that are charged under one name seem to be charged under another, too."""
