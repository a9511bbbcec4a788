"""Which parties of a run may no longer speak, by a list that may grow while it goes on."""

from collections.abc import Callable

from ppadmm.errors import ForeignError
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.pki.revocations import Revocations


class Revoked:
    """The revoked parties of an agreement; `read` returns the authority's newest list."""

    def __init__(self, agreement: Agreement, read: Callable[[], Revocations]) -> None:
        self._names, self._read = [party.name for party in agreement.parties], read
        self._why: dict[int, str] = {}

    def news(self) -> dict[int, str]:
        """Return who is on the list since the last look, each with a sentence that says so."""
        found = self._read()
        if not found.entries:
            return {}
        new = {i: found.why(name) for i, name in enumerate(self._names) if name in found.entries}
        new = {i: why for i, why in new.items() if i not in self._why}
        self._why |= new
        return new

    def __contains__(self, agent: object) -> bool:
        return agent in self._why

    def refuse(self, agent: int) -> None:
        """Refuse what a revoked party signed, whoever handed it on."""
        if agent in self._why:
            raise ForeignError(f"A message was refused: {self._why[agent]}.")
