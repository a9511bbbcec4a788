"""What a user can choose by name, and how their own gets in."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ppadmm.errors import InputError

T = TypeVar("T")


class Registry(dict[str, T], Generic[T]):
    """Things of one kind by name. `own` are the names that did not come with ppadmm.

    `check` refuses, with an error, what must not be added.
    """

    def __init__(
        self, kind: str, things: Iterable[T], check: Callable[[T], None] | None = None
    ) -> None:
        super().__init__((_name(kind, thing), thing) for thing in things)
        self.kind = kind
        self.own: set[str] = set()
        self._check = check

    def add(self, thing: T) -> T:
        """Add a thing under its name, and return it: also as a decorator."""
        name = _name(self.kind, thing)
        if name in self and name not in self.own:
            raise InputError(f"There is a {self.kind} {name!r} already; choose another name.")
        if self._check is not None:
            self._check(thing)
        self[name] = thing
        self.own.add(name)
        return thing


def _name(kind: str, thing: Any) -> str:
    name = getattr(thing, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f'Expected a {kind} with a name, got {thing!r}; give it name = "…".')
    return name
