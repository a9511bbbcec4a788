"""Where agents or cells run, by the name that a user gives: all is checked before any work."""

from functools import partial
from pathlib import Path
from typing import Any

from ppadmm import checks
from ppadmm.engines.ray import actors, tasks
from ppadmm.errors import InputError


def agents_engine(
    name: str = "local", address: str | None = None, checkpoints: Path | None = None
) -> Any:
    """Return the `engine` that `ppadmm.train` takes: None (local), or an actor per agent (ray).

    Without the `address` of a cluster one is started, which ends with the run. `checkpoints` is a
    folder that all nodes share, where an agent that is lost is taken up from.
    """
    if checks.one_of("engine", name, ("local", "ray")) == "local":
        _refuse_address(address)
        if checkpoints is not None:
            raise InputError(f"--checkpoints {str(checkpoints)!r} needs --engine ray.")
        return None
    tasks.imported(local=address is None)
    if address is not None and checkpoints is None:
        raise InputError(
            f"With --ray-address {address} give --checkpoints, a folder that all nodes share."
        )
    return partial(actors.run, address=address, checkpoints=checkpoints)


def cells_runner(name: str = "pool", jobs: int | None = None, address: str | None = None) -> Any:
    """Return the `runner` that `ppadmm.studies.sweep.sweep` takes: None (pool), or tasks of Ray.

    `jobs` cells run at a time. Without the `address` of a cluster one is started, which ends with
    the sweep.
    """
    checks.one_of("engine", name, ("pool", "ray"))
    if jobs is not None:
        checks.count("jobs", jobs)
    if name == "pool":
        _refuse_address(address)
        return None
    tasks.imported(local=address is None)
    return partial(tasks.run, address=address, jobs=jobs)


def _refuse_address(address: str | None) -> None:
    """Refuse the address of a cluster that would not be used."""
    if address is not None:
        raise InputError(f"--ray-address {address} needs --engine ray.")
