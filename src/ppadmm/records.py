"""What holds records prints shapes and is pickled on purpose only.

A printed object ends up in logs, notebooks and issues, a pickle in caches and attachments. Neither
is covered by any ε. So whatever holds records, or what follows from them without noise (a gradient,
a metric, an unperturbed minimiser), shows its type and the shapes of its arrays, and refuses to be
pickled unless a piece of code says that the records are meant to move:

    with moving_records():
        pickle.dumps(shard)

Copies within the process are made as usual.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, TypeVar

_MOVING: ContextVar[bool] = ContextVar("ppadmm_moving_records", default=False)
T = TypeVar("T")


@contextmanager
def moving_records() -> Iterator[None]:
    """Let records be pickled in this thread: they go to a place that may hold them."""
    token = _MOVING.set(True)
    try:
        yield
    finally:
        _MOVING.reset(token)


class HoldsRecords:
    """Base of everything that holds records, or what follows from them without noise."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            # In the class itself, or @dataclass would write one that shows every field.
            cls.__repr__ = HoldsRecords.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return described(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return reduced(self, protocol)

    def __copy__(self: T) -> T:
        return _copied(self, vars(self))

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        found = memo[id(self)] = _copied(self, {})
        vars(found).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        return found


def holds_records(kind: type[T]) -> type[T]:
    """Make the same of a class that can have no base of ours: a named tuple."""
    methods = {
        "__repr__": described,
        "__reduce_ex__": reduced,
        "__copy__": lambda self: self,
        "__deepcopy__": lambda self, memo: kind(*(deepcopy(value, memo) for value in self)),
    }
    for name, method in methods.items():
        setattr(kind, name, method)
    return kind


def described(holder: Any) -> str:
    """Return the type and the shapes of the arrays within; nothing else."""
    values = vars(holder) if hasattr(holder, "__dict__") else holder._asdict()
    shown = [_shown(name, value) for name, value in values.items() if not name.startswith("_")]
    inside = ", ".join(text for text in shown if text)
    return f"<{type(holder).__name__}{': ' if inside else ''}{inside}>"


def reduced(holder: Any, protocol: Any) -> Any:
    """Say how to pickle, or refuse."""
    if not _MOVING.get():
        raise TypeError(
            f"This {type(holder).__name__} holds records, or what follows from them without "
            "noise, so it is not pickled by the way; keep what was released (a Result, a run "
            "folder), or write `with ppadmm.records.moving_records():` around it where the "
            "records may go."
        )
    return object.__reduce_ex__(holder, protocol)


def _shown(name: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{name} {shape}"
    return f"{name} {value!r}" if isinstance(value, HoldsRecords) else ""


def _copied(holder: T, values: dict[str, Any]) -> T:
    found: T = object.__new__(type(holder))
    vars(found).update(values)
    return found
