"""What peers tell each other beside releases: who signed what, how far they are, what they hold.

    magic 4 | version 1 | kind 1 | agent 4 | length 4 | JSON | signature 64

A note holds nothing that was computed from records. It is signed by its sender with the key in the
agreement, as a message is; its length is capped before it is read, and every entry is checked.
"""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

from ppadmm import canonical
from ppadmm.errors import ForeignError, InputError
from ppadmm.peers.agreement import Agreement, differences
from ppadmm.peers.messages import MAGIC, SIGNATURE, VERSION, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOTE = 3
LONGEST = 1 << 20
"""Bytes of a note: an agreement of a thousand parties fits."""
LONGEST_REASON = 500
HEAD = struct.Struct("<4sBBII")
PHASES = ("checking", "signing", "rounds", "ending", "ended")
LISTS = ("finals", "parts", "proposals")
"""Entries of a note that are numbers of agents."""


@dataclass(frozen=True)
class ControlMessage:
    """One peer at one moment. `time` is its clock (seconds since 1970).

    `signatures` are those on the agreement that it has seen, by agent; `finals` are the agents
    whose final averages it holds. `settled`: it holds all, and knows that its neighbours do.
    `agreement` is its copy of the terms, given until all have signed. In a run by sums `exchange`
    is the sum that it is at; `parts` and `proposals` are the agents whose words on it are there.
    """

    agent: int
    version: str
    time: float
    digest: str
    phase: str
    round: int = 0
    signatures: Mapping[int, str] = field(default_factory=dict)
    finals: tuple[int, ...] = ()
    settled: bool = False
    reason: str = ""
    agreement: Mapping[str, Any] | None = None
    exchange: int = 0
    parts: tuple[int, ...] = ()
    proposals: tuple[int, ...] = ()

    def after(self, before: "ControlMessage | None") -> "ControlMessage":
        """Return what is known after this note and an earlier one, in whatever order they came.

        What a peer held it still holds, and no phase comes twice: clocks and order do not matter.
        """
        if before is None:
            return self
        phase = max(self.phase, before.phase, key=PHASES.index)
        finals = tuple(sorted({*self.finals, *before.finals}))
        settled, round_ = self.settled or before.settled, max(self.round, before.round)
        return replace(self, phase=phase, finals=finals, settled=settled, round=round_)

    def differences(self, mine: Agreement) -> list[str]:
        """Name every entry in which its sender's terms are other than mine."""
        if self.agreement is None:
            return ["other terms, which it did not show"]
        try:
            return differences(mine, Agreement.from_dict(self.agreement))
        except InputError as error:
            return [str(error)]

    def encode(self, key: "Ed25519PrivateKey") -> bytes:
        """Return the signed bytes."""
        content = asdict(self)
        del content["agent"]
        content["signatures"] = {str(i): text for i, text in self.signatures.items()}
        text = canonical.dumps_ascii(content)
        return sign(HEAD.pack(MAGIC, VERSION, NOTE, self.agent, len(text)) + text, key)


def one_line(reason: str) -> str:
    """Return a reason as a note may carry it: short, and without line ends or control codes."""
    return "".join(c if c.isprintable() else " " for c in reason[:LONGEST_REASON])


def decode(data: bytes) -> ControlMessage:
    """Return a note whose form holds; who wrote it is for `messages.is_signed` to say."""
    if not HEAD.size + SIGNATURE < len(data) <= LONGEST:
        _refuse(f"it has {len(data)} bytes")
    magic, version, kind, agent, length = HEAD.unpack_from(data)
    if magic != MAGIC or kind != NOTE:
        _refuse("it is no note of ppadmm")
    if version != VERSION:
        _refuse(f"it speaks version {version}, not {VERSION}; use one version everywhere")
    if length != len(data) - HEAD.size - SIGNATURE:
        _refuse(f"it announces {length} bytes")
    try:
        content = json.loads(data[HEAD.size : -SIGNATURE], parse_constant=_refuse)
    except (ValueError, RecursionError):
        _refuse("it is no JSON")
    return _read(agent, content)


def _read(agent: int, content: Any) -> ControlMessage:
    names = {each.name for each in fields(ControlMessage)} - {"agent"}
    if not isinstance(content, dict) or set(content) != names:
        _refuse("its entries are not those of a note")
    _require_texts(content)
    when = content["time"]
    number = isinstance(when, int | float) and not isinstance(when, bool)
    _require(number and abs(when) < 1e12, "time")
    for name in ("round", "exchange"):
        _require(_is_count(content[name]), name)
    _require(isinstance(content["settled"], bool), "settled")
    _require(isinstance(content["agreement"], dict | None), "agreement")
    for name in LISTS:
        _require(isinstance(content[name], list) and all(map(_is_count, content[name])), name)
    lists = {name: tuple(content[name]) for name in LISTS}
    values = {**content, **lists, "signatures": _signatures(content)}
    return ControlMessage(agent=agent, **values)


def _require_texts(content: dict[str, Any]) -> None:
    for name, pattern in (
        ("version", r"[\w.+-]{1,40}"),
        ("digest", "[0-9a-f]{64}"),
        ("phase", "|".join(PHASES)),
        ("reason", rf"(?s).{{0,{LONGEST_REASON}}}"),
    ):
        text = content[name]
        _require(isinstance(text, str) and re.fullmatch(pattern, text) is not None, name)
        # A reason goes into the statement and onto the terminal of whoever hears it.
        _require(text.isprintable(), name)


def _signatures(content: dict[str, Any]) -> dict[int, str]:
    found = content["signatures"]
    good = isinstance(found, dict) and all(
        re.fullmatch(r"\d{1,6}", i)
        and isinstance(text, str)
        and re.fullmatch("[0-9a-f]{128}", text)
        for i, text in found.items()
    )
    _require(good, "signatures")
    return {int(i): text for i, text in found.items()}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


def _require(holds: bool, name: str) -> None:
    if not holds:
        _refuse(f"its {name} cannot be read")


def _refuse(reason: str) -> NoReturn:
    raise ForeignError(f"A note was refused: {reason}.")
