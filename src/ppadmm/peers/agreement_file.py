"""The agreement and a site's signature on it as files."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppadmm.data import Schema
from ppadmm.errors import DataError, InputError
from ppadmm.files import read_small, require_format, write_new, write_whole
from ppadmm.peers.agreement import Agreement, Party

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CARD_FORMAT, SIGNATURE_FORMAT = 2, 1


@dataclass(frozen=True)
class Card:
    """What a site tells whoever drafts the agreement; all of it is public among the parties.

    `schema` is the site's schema as plain data: how many knots its curves get is agreed on later.
    """

    agent: int
    party: Party
    schema: dict[str, Any]

    @property
    def public_schema(self) -> Schema:
        """The schema."""
        return Schema.from_dict(self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return {"format": CARD_FORMAT, **asdict(self)}

    def save(self, path: Path) -> None:
        """Write a card into a new file."""
        write_new(path, json.dumps(self.to_dict(), indent=2, allow_nan=False).encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> "Card":
        """Read a card that came by mail."""
        content = read_json(path)
        way = "ask for one that the same version wrote (ppadmm peer card)"
        require_format(f"The card {path}", content.pop("format", None), CARD_FORMAT, way)
        try:
            found = cls(**{**content, "party": Party(**content["party"])})
            _ = found.public_schema
            return found
        except (KeyError, TypeError, DataError) as error:
            why = str(error).removesuffix(".")
            raise InputError(f"{path} is no card of a site: {why}.") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object, or say in one sentence why not."""
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}.")
    data = read_small(path)
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no valid JSON: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object.")
    return content


def load_agreement(path: Path) -> Agreement:
    """Read the terms; what is missing or unknown is named."""
    return Agreement.from_dict(read_json(path))


def save_agreement(agreement: Agreement, path: Path, new: bool = False) -> None:
    """Write the terms for people and machines to read; a `new` file takes the place of none."""
    text = json.dumps(asdict(agreement), indent=1, ensure_ascii=False) + "\n"
    (write_new if new else write_whole)(path, text.encode())


def save_signature(path: Path, agreement: Agreement, agent: int, key: "Ed25519PrivateKey") -> None:
    """Sign the terms and write the signature down."""
    signature = agreement.sign(key)
    if not agreement.is_signed(agent, signature):
        raise InputError(
            f"The agreement lists another message key for {agreement.parties[agent].name!r} than "
            "this site has; have it drafted anew."
        )
    content = {
        "format": SIGNATURE_FORMAT,
        "agent": agent,
        "digest": agreement.digest,
        "signature": signature.hex(),
    }
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")


def load_signature(path: Path, agreement: Agreement, agent: int) -> bytes:
    """Read this site's signature; it must be on these very terms."""
    if not path.is_file():
        raise InputError(f"{path} is missing: read the agreement and sign it (ppadmm peer sign).")
    content = read_json(path)
    require_format(
        str(path), content.get("format"), SIGNATURE_FORMAT, "sign anew (ppadmm peer sign)"
    )
    try:
        signature = bytes.fromhex(content["signature"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} holds no signature; sign anew (ppadmm peer sign).") from None
    if content.get("digest") != agreement.digest:
        raise InputError(
            f"{path} signs another agreement ({str(content.get('digest'))[:12]}…) than the one "
            f"here ({agreement.digest[:12]}…); read it and sign it (ppadmm peer sign)."
        )
    if not agreement.is_signed(agent, signature):
        raise InputError(f"{path} does not hold the signature of agent {agent}; sign anew.")
    return signature
