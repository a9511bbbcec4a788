"""A run read back from the folder that `write_run` made."""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm.arrays import Array
from ppadmm.engines.local import Trace
from ppadmm.errors import InputError
from ppadmm.files import require_format
from ppadmm.runs.run import FORMAT

COVERED = (
    "format", "version", "started", "algorithm", "calibration", "epsilon", "delta",
    "epsilon_proven", "adjacency", "private", "not_private_because", "warnings", "hints", "agents",
    "graph", "records", "weights", "site_weights", "features", "parameters", "classes", "loss",
    "agent_names", "partition", "rounds", "eta", "beta", "releases", "noise", "ledger", "booked",
    "ledger_file", "spec", "search", "statement", "own",
)  # fmt: skip
"""What of result.json is public or follows from releases; all the rest is a local diagnostic."""
COVERED_OF_MODEL = (
    "format", "private", "not_private_because", "trust", "classes", "coefficients", "per_agent",
    "schema", "schema_digest",
)  # fmt: skip
MODEL_FORMAT, RELEASES_FORMAT = 2, 1
AGAIN = "use the ppadmm that wrote it, or train again"
PATHS = ("data", "schema", "graph")


@dataclass(frozen=True)
class SavedRun:
    """What a run folder holds: `releases` (T, N, d) and who `spoke` (T, N)."""

    name: str
    result: dict[str, Any]
    model: dict[str, Any]
    statement: str
    releases: Array
    spoke: NDArray[np.bool_]

    @property
    def trace(self) -> Trace:
        """The releases as the engine left them."""
        return Trace(self.releases[:, :, None], self.spoke[:, :, None])

    def public(self) -> "SavedRun":
        """Return the run without anything that the guarantee does not cover, and without paths.

        A run that is not private has nothing that is covered, and is refused.
        """
        if not self.result["private"]:
            raise InputError(
                f"The run {self.name!r} is not private "
                f"({'; '.join(self.result['not_private_because'])}), so no guarantee covers "
                "anything in it; leave out --public and keep the report to yourself."
            )
        kept = {name: self.result[name] for name in COVERED if name in self.result}
        spec = {**kept["spec"], **_short(kept["spec"], PATHS), "data_dir": None}
        return replace(
            self,
            result={**kept, **_short(kept, ("ledger_file",)), "spec": spec},
            model={name: self.model[name] for name in COVERED_OF_MODEL},
        )


def _short(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the names of files without the folders that they lie in."""
    found = {name: values.get(name) for name in names}
    return {
        name: [PurePath(one).name for one in each]
        if isinstance(each, list)
        else PurePath(each).name
        for name, each in found.items()
        if isinstance(each, str | list)
    }


def load_run(folder: Path) -> SavedRun:
    """Read a run folder, or say in one sentence why it cannot be read."""
    if not (folder / "result.json").is_file():
        raise InputError(
            f"There is no run in {str(folder)!r}: it has no result.json; name a folder that "
            "ppadmm train wrote."
        )
    try:
        result = read_json(folder / "result.json", f"The run in {str(folder)!r}", FORMAT)
        model = read_json(folder / "model.json", f"model.json in {str(folder)!r}", MODEL_FORMAT)
        with np.load(folder / "releases.npz") as file:
            found = file["format"].item() if "format" in file else None
            require_format(f"releases.npz in {str(folder)!r}", found, RELEASES_FORMAT, AGAIN)
            releases, spoke = file["releases"], file["spoke"]
        return SavedRun(
            name=folder.name,
            result=result,
            model=model,
            statement=(folder / "statement.txt").read_text(encoding="utf-8").strip(),
            releases=releases,
            spoke=spoke,
        )
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"The run in {str(folder)!r} cannot be read: {error}.") from None


def read_json(path: Path, what: str, known: int) -> dict[str, Any]:
    """Read a file of a run folder that has the format which is known; `what` names it."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = content.get("format") if isinstance(content, dict) else None
    require_format(what, found, known, AGAIN)
    return content
