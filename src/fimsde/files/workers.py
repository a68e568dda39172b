"""Where shards are made: a pool of processes on this machine, or a Dask cluster."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from fimsde.errors import ConfigError


@contextmanager
def process_pool(num_workers: int) -> Iterator[Executor | None]:
    """A pool of processes that end with their parent, however it ends. One worker means no pool at all.

    Processes are spawned, not forked: forking a process that has threads (numba, torch) can hang. The kernels of the
    prior use one thread each, so there is nothing to limit.
    """
    if num_workers < 1:
        raise ConfigError(f"the number of workers is {num_workers}; expected at least 1.")
    if num_workers == 1:
        yield None
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_workers, mp_context=context, initializer=_end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in workers only"

    def watch() -> None:
        parent.join()
        os._exit(1)  # a killed parent cannot tell its workers to stop

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of a running Dask scheduler, e.g. tcp://host:8786. They must see the same folder."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError("Dask is not installed; install it with `pip install fimsde[cluster]`.") from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no Dask scheduler answers at {address}: {error}. Check the address.") from error
    with client, client.get_executor() as executor:
        yield executor
