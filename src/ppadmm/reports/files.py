"""A run's results on disk: written whole or not at all."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm.data import Schema
from ppadmm.errors import InputError
from ppadmm.experiments.train import Result
from ppadmm.typing import Array


def require_new(folder: Path) -> None:
    """Refuse, before any work, a folder that exists or that could not be made."""
    with _named(folder):
        if os.path.lexists(folder):
            raise InputError(f"{str(folder)!r} exists already; choose another --out or remove it.")
        parent = next(p for p in folder.absolute().parents if os.path.lexists(p))
        if not parent.is_dir():
            raise InputError(_cannot(folder, f"{str(parent)!r} is not a folder"))
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(_cannot(folder, f"{str(parent)!r} cannot be written to"))


def write_run(result: Result, folder: Path) -> None:
    """Write result.json, model.json, statement.txt and releases.npz into a new folder."""
    require_new(folder)
    with _named(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _draft(folder) as draft:
            _write(draft / "result.json", result.to_dict())
            _write(draft / "model.json", model_dict(result))
            text = result.statement.text() + "\n"
            (draft / "statement.txt").write_text(text, encoding="utf-8")
            np.savez_compressed(
                draft / "releases.npz",
                releases=result.trace.releases[:, :, 0],
                private=np.array(result.statement.private),
            )


def model_dict(result: Result) -> dict[str, Any]:
    """Return the released model by feature name, with the schema that encodes records for it."""
    schema = result.prepared.scene.schema
    return {
        "private": result.statement.private,
        "not_private_because": list(result.statement.not_private_because),
        "classes": list(schema.label.names),
        "coefficients": _coefficients(schema, result.model),
        "per_agent": result.agent_models.tolist(),
        "schema": schema.to_dict(),
        "schema_digest": schema.digest(),
    }


def _coefficients(schema: Schema, model: Array) -> dict[str, Any]:
    """Return {feature: coefficient}, or that for every class."""
    rows = [
        dict(zip(schema.feature_names, row.tolist(), strict=True))
        for row in model.reshape(-1, schema.dimension)
    ]
    return rows[0] if len(rows) == 1 else dict(zip(schema.label.names, rows, strict=True))


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """Give a hidden folder beside `folder` that takes its name at the end, or vanishes."""
    draft = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    draft.mkdir()
    try:
        yield draft
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(_cannot(folder, error.strerror or str(error))) from None


def _cannot(folder: Path, reason: str) -> str:
    return f"Cannot write the results to {str(folder)!r}: {reason}; choose another --out."


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
