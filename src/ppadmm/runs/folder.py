"""A run's results on disk: written whole or not at all."""

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.errors import InputError, PpadmmError, UnfinishedError
from ppadmm.files import sync_files, sync_folder
from ppadmm.ledger.text import booked_lines
from ppadmm.runs.report.page import write_report
from ppadmm.runs.run import Result
from ppadmm.runs.saved import MODEL_FORMAT, RELEASES_FORMAT
from ppadmm.runs.specification import RunSpec

MOST_ALIKE = 1000
"""Runs of one name that a folder can hold."""


class ExistsError(InputError):
    """The folder is there already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{str(folder)!r} exists already; choose another --out or remove it.")


def require_new(folder: Path) -> None:
    """Refuse, before any work, a folder that exists or that could not be made."""
    with writing(folder):
        if os.path.lexists(folder):
            raise ExistsError(folder)
        parent = next(p for p in folder.absolute().parents if os.path.lexists(p))
        if not parent.is_dir():
            raise InputError(_cannot(folder, f"{str(parent)!r} is not a folder"))
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(_cannot(folder, f"{str(parent)!r} cannot be written to"))


def require_writable(spec: RunSpec, out: Path | None, save: bool) -> None:
    """Refuse, before any work, results that could not be written, and a folder for none."""
    if save:
        require_new(out or new_folder(spec))
    elif out is not None:
        raise InputError(f"--no-save writes nothing and --out {str(out)!r} asks to; leave out one.")


def new_folder(spec: RunSpec, started: datetime | None = None) -> Path:
    """Return runs/<date>-<time>-<algorithm>-<data>, under the current folder."""
    when = started or datetime.now()
    data = re.sub(r"[^A-Za-z0-9_.]+", "-", Path(spec.data_name).stem).strip("-.")[:40]
    return Path("runs") / f"{when:%Y%m%d-%H%M%S}-{spec.algorithm}-{data or 'data'}"


def write_run(
    result: Result, folder: Path | None = None, more: Mapping[str, dict[str, Any]] | None = None
) -> Path:
    """Write a run into a new folder, by default one named after it; return the folder.

    result.json, model.json, statement.json, statement.txt, releases.npz, curves.csv and report.html
    appear all or none, but for a report that cannot be made.

    Parameters
    ----------
    result : Result
        What `ppadmm.train` returned.
    folder : Path, optional
        A folder that does not exist yet. By default runs/<date>-<time>-<algorithm>-<data>; of two
        runs with the same name the later one gets -2, -3, … after it.
    more : mapping, optional
        Further JSON files, by name.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        The folder exists or cannot be made.
    UnfinishedError
        The results are there, but not the report; it says why.
    """
    files = {
        "result.json": result.to_dict(),
        "model.json": model_dict(result),
        "statement.json": result.disclosure(),
        **(more or {}),
    }
    if folder is not None:
        _write_run(result, folder, files)
        return folder
    plain = new_folder(result.spec, result.started)
    for k in range(1, MOST_ALIKE):
        folder = plain if k == 1 else plain.with_name(f"{plain.name}-{k}")
        with suppress(ExistsError):
            _write_run(result, folder, files)
            return folder
    raise ExistsError(plain)


def _write_run(result: Result, folder: Path, files: Mapping[str, dict[str, Any]]) -> None:
    require_new(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(folder) as draft:
            for name, content in files.items():
                write_json(draft / name, content)
            text = "\n".join([result.statement.text(), *booked_lines(result.entry)]) + "\n"
            (draft / "statement.txt").write_text(text, encoding="utf-8")
            (draft / "curves.csv").write_text(result.curves().to_csv(), encoding="utf-8")
            np.savez_compressed(
                draft / "releases.npz",
                releases=result.trace.releases[:, :, 0],
                spoke=result.trace.spoke[:, :, 0],
                format=np.array(RELEASES_FORMAT),
                private=np.array(result.statement.private),
            )
            missing = try_report(draft)
    require_finished(folder, missing)


@dataclass(frozen=True)
class Missing:
    """What is missing beside results that were written, and the way to it; why it could not be."""

    what: str
    why: Exception
    way: str

    def __str__(self) -> str:
        known = isinstance(self.why, PpadmmError)
        reason = str(self.why) if known else f"{type(self.why).__name__}: {self.why}"
        return f"{self.what} ({reason.rstrip('.')}); {self.way}"


def try_report(folder: Path) -> Missing | None:
    """Write the report into a folder; no run is lost if that fails."""
    try:
        write_report(folder)
    except Exception as error:
        return Missing("report.html could not be made", error, "ppadmm report makes it later")
    return None


def require_finished(folder: Path, *missing: Missing | None) -> None:
    """Say what is missing in a folder of results that were written."""
    found = [each for each in missing if each is not None]
    if found:
        what = ", and ".join(map(str, found))
        said = f"The results are in {str(folder)!r}, all of them, but {what}."
        raise UnfinishedError(said) from found[0].why


def model_dict(result: Result) -> dict[str, Any]:
    """Return the released model by feature name, with the schema that encodes records for it."""
    schema = result.setup.schema
    return {
        "format": MODEL_FORMAT,
        "private": result.statement.private,
        "not_private_because": list(result.statement.not_private_because),
        "trust": result.statement.trust.to_dict(),
        "classes": list(schema.label.names),
        "coefficients": coefficients(schema, result.model),
        "per_agent": result.agent_models.tolist(),
        "schema": schema.to_dict(),
        "schema_digest": schema.digest(),
    }


def coefficients(schema: Schema, model: Array) -> dict[str, Any]:
    """Return {feature: coefficient}, or {feature: {class: coefficient}}."""
    columns = model.reshape(-1, schema.dimension).T.tolist()
    return {
        feature: dict(zip(schema.label.names, each, strict=True)) if len(each) > 1 else each[0]
        for feature, each in zip(schema.feature_names, columns, strict=True)
    }


@contextmanager
def draft_of(folder: Path) -> Iterator[Path]:
    """Give a hidden folder beside `folder` that takes its name at the end, or vanishes."""
    draft = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    draft.mkdir()
    try:
        yield draft
        sync_files(draft)
        _rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _rename(draft: Path, folder: Path) -> None:
    """Give the draft its name; a full folder that has it by now is not replaced."""
    try:
        draft.rename(folder)
    except OSError:
        if os.path.lexists(folder):
            raise ExistsError(folder) from None
        raise
    sync_folder(folder.parent)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(_cannot(folder, error.strerror or str(error))) from None


def _cannot(folder: Path, reason: str) -> str:
    return f"Cannot write the results to {str(folder)!r}: {reason}; choose another --out."


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write plain data for people and machines to read."""
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
