"""Independent pieces of work over processes of this machine.

A worker has one BLAS thread, ignores Ctrl-C (its parent decides) and ends with its parent, however
that ends: a killed run leaves no process behind.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from ppadmm.errors import WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, function(item)) as they are done; with one job, here and in order.

    Items are taken only when a worker is about to be free. `function`, items and results must
    pickle. The first error ends everything.
    """
    if jobs == 1:
        yield from ((item, function(item)) for item in items)
        return
    with _workers(jobs) as pool:
        yield from _as_done(pool, function, iter(items), ahead=jobs + 1)


def _as_done(
    pool: ProcessPoolExecutor,
    function: Callable[[Item], Result],
    items: Iterator[Item],
    ahead: int,
) -> Iterator[tuple[Item, Result]]:
    running: dict[Future[Result], Item] = {}
    try:
        while True:
            for item in islice(items, ahead - len(running)):
                running[pool.submit(function, item)] = item
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool:
        raise WorkerError(
            "A worker process ended early (killed, or out of memory); what was finished is kept, "
            "so give the same command again, with fewer jobs if memory is short."
        ) from None


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start a pool whose workers end as soon as the writing end of a pipe is closed."""
    context = get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    with _one_thread_each():
        pool = ProcessPoolExecutor(jobs, context, _prepare, (reader,))
        try:
            yield pool
            pool.shutdown()
        finally:
            writer.close()
            pool.shutdown(cancel_futures=True)
            reader.close()


def _prepare(reader: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(reader,), daemon=True).start()


def _end_with_parent(reader: Connection) -> None:
    """Wait for the end of the pipe, which comes when the parent closes it or dies."""
    try:
        reader.recv()
    except (EOFError, OSError):
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Set what a new process reads before it loads BLAS: several threads fight over the cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
