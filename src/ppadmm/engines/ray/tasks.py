"""Independent pieces of work as tasks of a Ray cluster: by default one that is started here.

Ray keeps nobody on a cluster from anybody else there and moves everything by pickle: it is for one
organisation's own machines. Nothing here imports Ray before it is asked for.

A cluster started here listens on this machine only (127.0.0.1), reports nothing to anyone, and ends
with the process that started it, however that ends.
"""

import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from ppadmm import __version__
from ppadmm.engines.processes import THREADS
from ppadmm.errors import InputError, PpadmmError, WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")

LOG = logging.getLogger(__name__)
RETRIES = 3
"""How often a piece of work may lose its worker before the run gives up."""
STORE_BYTES = 200_000_000
"""Shared memory of a cluster started here; what does not fit goes to disk."""
LONGEST_FOLDER = 40
"""Ray puts sockets below its folder, and the path of a socket has room for 107 bytes."""
HANDSHAKE = 10.0
"""Seconds to wait for a cluster's head to answer."""
PASSED_ON = ("PPADMM_DATA",)


def run(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    address: str | None = None,
    jobs: int | None = None,
    retries: int = RETRIES,
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, function(item)) as they are done, at most `jobs` of them at once.

    Without `jobs`, as many as the cluster has CPUs. Items are taken only when a CPU is about to be
    free. A worker that dies costs the item it was at, which is tried again `retries` times. The
    first error ends everything. `function`, items and results must pickle.
    """
    left = iter(items)
    first = list(islice(left, 1))
    if first:
        with connected(address, jobs) as ray:
            yield from _as_done(ray, function, chain(first, left), jobs, retries)


def _as_done(
    ray: Any,
    function: Callable[[Item], Result],
    items: Iterator[Item],
    jobs: int | None,
    retries: int,
) -> Iterator[tuple[Item, Result]]:
    task = ray.remote(_call).options(num_cpus=1, max_retries=retries, name=function.__name__)
    home, running = Home(), dict[Any, Item]()
    try:
        while True:
            for item in islice(items, max(0, _ahead(ray, jobs) - len(running))):
                running[task.remote(function, item, home)] = item
            if not running:
                return
            for ref in ray.wait(list(running), num_returns=1)[0]:
                yield running.pop(ref), fetched(ray, ref)
    finally:
        for ref in running:
            ray.cancel(ref, force=True)


def _ahead(ray: Any, jobs: int | None) -> int:
    """Return how many items to have under way: few wait, as each is looked up just before."""
    cpus = int(ray.cluster_resources().get("CPU", 1))
    return jobs or cpus + 1 + cpus // 4


def _call(function: Callable[[Item], Result], item: Item, home: "Home") -> Result:
    home.enter()
    return function(item)


@dataclass(frozen=True)
class Home:
    """What a worker must share with the process that sent the work."""

    folder: str = field(default_factory=os.getcwd)
    version: str = __version__

    def enter(self) -> None:
        """Go to the folder that relative paths are meant from, if this machine has it."""
        if self.version != __version__:
            raise InputError(
                f"A node of the cluster has ppadmm {__version__} and this is {self.version}; "
                "install the same version on every node."
            )
        if Path(self.folder).is_dir():
            os.chdir(self.folder)


def fetched(ray: Any, refs: Any) -> Any:
    """Return what was computed, or raise what went wrong there as if it had happened here."""
    errors = ray.exceptions
    try:
        return ray.get(refs)
    except errors.RayTaskError as error:
        cause = getattr(error, "cause", error)
        if isinstance(cause, PpadmmError):
            raise cause from None
        if isinstance(cause, errors.RayError):
            raise _lost(cause) from None
        if isinstance(cause, ModuleNotFoundError) and (cause.name or "").startswith("ppadmm"):
            raise InputError(
                f"A node of the cluster has no ppadmm; install ppadmm {__version__} on every node."
            ) from None
        raise cause from error
    except errors.RayError as error:
        raise _lost(error) from None


def _lost(error: Exception) -> WorkerError:
    return WorkerError(
        "A worker of the cluster was lost more often than is put up with "
        f"({type(error).__name__}: killed, or out of memory); what was finished is kept, so give "
        "the same command again, with fewer jobs if memory is short."
    )


@contextmanager
def connected(address: str | None = None, cpus: int | None = None) -> Iterator[Any]:
    """Give Ray, connected to the cluster at `address` or to one that lasts as long as the block.

    A connection that the caller has already is used and left as it is.
    """
    ray = imported(local=address is None)
    if ray.is_initialized():
        yield ray
    elif address is None:
        with _remarks_logged(), _started(ray, cpus):
            yield ray
    else:
        with _remarks_logged(), _joined(ray, address):
            yield ray


def imported(local: bool = True) -> Any:
    """Import Ray, or say how to get it; a cluster of this process only is not to be seen outside.

    Ray reads its settings from the environment when it is imported.
    """
    if local and "ray" not in sys.modules:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # listen on 127.0.0.1
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning
    try:
        import ray
    except ImportError:
        raise InputError(
            "The engine 'ray' needs Ray; install it with: pip install 'ppadmm[ray]'."
        ) from None
    return ray


@contextmanager
def _started(ray: Any, cpus: int | None) -> Iterator[None]:
    folder = _short_folder()
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            _temp_dir=folder,
            **_quietly(),
        )
        yield
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str | None:
    """Return a folder to remove at the end, or None for Ray's own where this one's name is long."""
    folder = tempfile.mkdtemp(prefix="ray-")
    if len(folder) <= LONGEST_FOLDER:
        return folder
    Path(folder).rmdir()
    return None


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    _require_answer(address)
    try:
        ray.init(address=address, **_quietly())
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise InputError(
            f"Cannot join the Ray cluster at {address!r}: {reason}; if it asks for a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Refuse at once an address where nobody is; Ray itself would try for more than a minute."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"Expected a Ray address HOST:PORT or auto, got {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), HANDSHAKE).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"No Ray cluster answers at {address!r} ({reason}); start one with: "
            "ray start --head --port=6379."
        ) from None


@contextmanager
def _remarks_logged() -> Iterator[None]:
    """Log what Ray has to say about lost workers: it would print it among the results.

    Ray has no setting for that; where the function has another name, its remarks are printed.
    """
    from ray._private import worker

    name = "print_to_stdstream"
    before = getattr(worker, name, None)
    setattr(worker, name, lambda data, *_, **__: LOG.info("\n".join(data["lines"])))
    try:
        yield
    finally:
        setattr(worker, name, before)


def _quietly() -> dict[str, Any]:
    """Return what every connection has in common: no chatter, and one BLAS thread per worker."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {"env_vars": {**dict.fromkeys(THREADS, "1"), **passed_on}},
    }
