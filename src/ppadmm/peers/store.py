"""What a peer must find again after a crash, beside its ledger: signatures and final averages.

Both are public to the parties: signed bytes as they came. Files are there whole or not at all, and
what is read back is checked like a message from the network.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppadmm.errors import InputError
from ppadmm.files import require_format, write_whole

FORMAT = 1


def signatures_dict(signatures: Mapping[int, str]) -> dict[str, Any]:
    """Return the signatures (hex) as plain data, fit for JSON."""
    return {"format": FORMAT, "signatures": {str(i): signatures[i] for i in sorted(signatures)}}


@dataclass(frozen=True)
class PeerStore:
    """A folder of one run at one site."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def _signatures(self) -> Path:
        return self.folder / "signatures.json"

    def signatures(self) -> dict[int, str]:
        """Return the signatures (hex) by agent."""
        try:
            content = json.loads(self._signatures.read_text(encoding="ascii"))
            way = "go on with the ppadmm that began the run"
            require_format(str(self._signatures), content.get("format"), FORMAT, way)
            return {int(i): str(text) for i, text in content["signatures"].items()}
        except InputError:
            raise
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return {}

    def keep_signatures(self, signatures: Mapping[int, str]) -> None:
        """Keep the signatures; they are on disk when this returns."""
        content = signatures_dict(signatures)
        write_whole(self._signatures, json.dumps(content, indent=1).encode() + b"\n")

    def finals(self) -> list[bytes]:
        """Return the bytes of the final averages."""
        return [path.read_bytes() for path in sorted(self.folder.glob("final-*.bin"))]

    def keep_final(self, agent: int, data: bytes) -> None:
        """Keep an agent's final average; it is on disk when this returns."""
        write_whole(self.folder / f"final-{agent:06d}.bin", data)
