"""Tasks run by Dask: workers that are started on this machine, or those of a scheduler that runs already."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from hta_graph.base.errors import ClusterError, MissingExtraError, Remedy, TooLargeError, TraceError
from hta_graph.multi_rank.workers.tasks import READ_FEWER_HINT, READ_HERE_HINT, Task, encode_error, run_task

if TYPE_CHECKING:
    from distributed import Client


LOCAL_CLUSTER = "local"
"""The cluster that is started on this machine and ends with the work."""
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://(?:\[([^\]/]+)\]|([^:/\[\]]+)):(\d{1,5})")
CONNECT_S = 4
"""How long each of the steps to a running cluster may take: the port, the scheduler, its workers, their versions."""
RETRIES = 2
"""How often a task is tried again whose worker is lost."""
TASKS_PER_WORKER = 4
"""How many tasks are submitted at once for each worker: none waits for work, and answers do not heap up."""
NOISY_LOGGERS = ("asyncio", "bokeh", "distributed", "distributed.client", "tornado", "tornado.application")

START_HINT = "start one with: dask scheduler; and its workers with: dask worker ADDRESS"
VERSION_HINT = "install the same version of hta-graph there"
MAIN_GUARD_HINT = Remedy("guard the script with: if __name__ == '__main__'", "use --jobs to read without Dask")


def is_scheduler_address(text: str) -> bool:
    """Return whether a text is an address that a scheduler can have.

    >>> addresses = ("tcp://10.0.0.7:8786", "tls://[::1]:8786", "10.0.0.7:8786")
    >>> tuple(map(is_scheduler_address, addresses))
    (True, True, False)
    """
    return ADDRESS.fullmatch(text) is not None


class DaskWorkers:
    """Tasks run by Dask's workers, which are tried again where a worker is lost.

    Args:
        cluster: ``local``, or the address of a scheduler.
        jobs: how many workers to start; of a running cluster, how many tasks it is given at once.
        count: how many tasks there are, so that no worker is started for nothing.
        processors: how many workers to start if ``jobs`` does not say.
        say: is called with a line that says where the dashboard is.

    Raises:
        ClusterError: the cluster cannot be reached, or cannot run these tasks.
        MissingExtraError: Dask is not installed.
    """

    def __init__(self, cluster: str, jobs: int | None, count: int, processors: int, say: Callable[[str], None]) -> None:
        self._asked: set[Any] = set()
        with ExitStack() as started:
            started.enter_context(_silenced_loggers())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if cluster == LOCAL_CLUSTER:
                    self._client = _local_client(started, max(1, min(jobs or processors, count)))
                else:
                    self._client = _connected_client(started, cluster)
            workers = sum(self._client.nthreads().values())
            self._ending = started.pop_all()
        self.at_once = jobs if jobs and cluster != LOCAL_CLUSTER else TASKS_PER_WORKER * workers
        """How many tasks to submit before the first is answered."""
        if link := self._client.dashboard_link:
            say(f"Dask's dashboard: {link}")

    def submit(self, task: Task) -> Future[bytes]:
        """Let a worker run a task; the result is its answer or error as bytes (:func:`decode_answer`)."""
        future: Future[bytes] = Future()
        future.set_running_or_notify_cancel()
        # The dashboard shows the key up to its last hyphen.
        key = f"{task.function.partition(':')[2]}-{uuid4().hex}"
        asked = self._client.submit(run_on_worker, task, key=key, pure=False, retries=RETRIES)
        self._asked.add(asked)
        asked.add_done_callback(partial(self._hand_over, task=task, future=future))
        return future

    def _hand_over(self, asked: Any, *, task: Task, future: Future[bytes]) -> None:
        """Pass on what a worker answered, or what became of it; Dask calls this in a thread of its own."""
        try:
            answer = asked.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whoever waits must hear of it
            answer = encode_error(_lost_task_error(task, error))
        self._asked.discard(asked)
        with suppress(Exception):  # the cluster may be gone by now
            asked.release()
        future.set_result(answer)

    def shutdown(self) -> None:
        """Leave the cluster, and end it if it was started here; what still runs is given up."""
        with suppress(Exception):  # one that is gone has nothing left to be given up
            self._client.cancel(list(self._asked), force=True)
        self._ending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def run_on_worker(task: Task) -> bytes:
    """Run a task on a worker, which has its own limit of memory if nothing else is said."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if task.memory is None and limit:
        task = replace(task, memory=int(limit / worker.state.nthreads))
    return run_task(task)


def version_on_worker() -> str:
    """Return which version of this package a worker has, or this process."""
    version: str = sys.modules["hta_graph"].__version__
    return version


def _lost_task_error(task: Task, error: BaseException) -> TraceError:
    """Return what became of a task that a cluster did not answer, as the error of its file."""
    if type(error).__name__ == "KilledWorker":
        cause = "the workers that read it were killed one after the other, possibly for lack of memory"
        return TooLargeError(task.subject, cause, READ_FEWER_HINT)
    if isinstance(error, ImportError):
        return TraceError(task.subject, f"a worker lacks a module to read it: {error}", VERSION_HINT)
    cause = f"the cluster did not answer, {type(error).__name__}: {error}"
    return TraceError(task.subject, cause, READ_HERE_HINT)


def _local_client(started: ExitStack, workers: int) -> Client:
    """Start workers on this machine, which end with what is started.

    Raises:
        ClusterError: they do not start.
        MissingExtraError: Dask is not installed.
    """
    dask, distributed = _import_dask()
    # A worker that is lost is replaced; the last attempt is that of the last retry.
    started.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}))
    try:
        cluster = _local_cluster(distributed, workers)
        started.enter_context(cluster)
        return started.enter_context(closing(distributed.Client(cluster, set_as_default=False)))
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"Dask workers cannot start here: {error}", MAIN_GUARD_HINT) from None


def _local_cluster(distributed: Any, workers: int) -> Any:
    """Start workers; one that is lost before it has started is none that Dask replaces: all are started once more."""
    options = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:8787",
        "silence_logs": logging.CRITICAL,
        "memory_limit": 0,  # a task bounds what it takes itself
    }
    try:
        return distributed.LocalCluster(**options)
    except RuntimeError:
        return distributed.LocalCluster(**options)


def _connected_client(started: ExitStack, address: str) -> Client:
    """Connect to a scheduler that runs, and see that its workers know these tasks.

    Raises:
        ClusterError: it cannot be reached, or has no workers that do.
        MissingExtraError: Dask is not installed.
    """
    _, distributed = _import_dask()
    _check_port(address)
    try:
        client = _new_client(distributed, address)
        started.enter_context(closing(client))
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        cause = str(error) or f"no answer within {CONNECT_S} s"
        raise ClusterError(f"{address}: no Dask scheduler answers there: {cause}", START_HINT) from None
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except (OSError, TimeoutError):
        raise ClusterError(f"{address}: it has no workers", f"start one with: dask worker {address}") from None
    _check_workers(client, address)
    return client


def _new_client(distributed: Any, address: str) -> Client:
    """Connect; what could not is given up at once, not when its memory is collected."""

    class QuietClient(distributed.Client):  # type: ignore[misc]
        def __del__(self) -> None:
            pass

    # Of somebody who listens and says nothing Dask would wait for ever.
    client: Future[Client] = Future()

    def connect() -> None:
        try:
            client.set_result(QuietClient(address, timeout=CONNECT_S, set_as_default=False))
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            client.set_exception(error)

    Thread(target=connect, daemon=True).start()
    return client.result(CONNECT_S + 1)


def _check_port(address: str) -> None:
    """Check that a scheduler listens: Dask would try again and again, and not report why it cannot.

    Raises:
        ClusterError: none does, or the address is not one.
    """
    named = ADDRESS.fullmatch(address)
    if not named:
        raise ClusterError(f"{address!r} is not a cluster", "give local or an address, such as tcp://host:8786")
    try:
        socket.create_connection((named[2] or named[3], int(named[4])), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ClusterError(f"{address}: no Dask scheduler answers there: {cause}", START_HINT) from None


def _check_workers(client: Client, address: str) -> None:
    """Look whether all workers have this version.

    Raises:
        ClusterError: one has not.
    """
    try:
        versions = client.run(version_on_worker, on_error="return")
    except Exception as error:  # noqa: BLE001 - of a worker without this package it may be any
        raise ClusterError(f"{address}: its workers cannot run hta-graph: {error}", VERSION_HINT) from None
    for worker, version in versions.items():
        if isinstance(version, Exception):
            raise ClusterError(f"{address}: worker {worker} cannot run hta-graph: {version}", VERSION_HINT)
        if version != version_on_worker():
            cause = f"worker {worker} has hta-graph {version}, but this process has {version_on_worker()}"
            raise ClusterError(f"{address}: {cause}", VERSION_HINT)


def _import_dask() -> tuple[Any, Any]:
    """Import what is perhaps not there.

    Raises:
        MissingExtraError: it is not.
    """
    try:
        import dask
        import distributed
    except ImportError:
        raise MissingExtraError("a Dask cluster", "cluster") from None
    return dask, distributed


@contextmanager
def _silenced_loggers() -> Iterator[None]:
    """Keep what Dask logs from the terminal: what matters of it becomes an error of its task."""
    with suppress(ImportError):
        import distributed  # noqa: F401 - its import sets these loggers up
    loggers = [logging.getLogger(name) for name in NOISY_LOGGERS]
    noisy: list[logging.Logger | logging.Handler] = [handler for logger in loggers for handler in logger.handlers]
    before = [(item, item.level) for item in noisy + loggers]
    for item, _ in before:
        item.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for item, level in before:
            item.setLevel(level)
