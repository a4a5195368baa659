"""Where tasks run, and their answers in the order of the tasks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager

from hta_graph.errors import HtaGraphError
from hta_graph.job.engines.inline import InlineExecutor
from hta_graph.job.engines.tasks import Task, decoded_answer, run_task
from hta_graph.job.engines.waiting import wait_for_one

__all__ = ["answers", "engine", "processor_count", "tasks_at_once"]

AHEAD = 4
"""How many tasks are submitted at once for each worker: none waits for work, and answers do not heap up."""


@contextmanager
def engine(
    *, cluster: str | None, jobs: int | None, count: int, say: Callable[[str], None] = lambda _: None
) -> Iterator[Executor]:
    """Start what runs so many tasks, and end it with the block, whatever still runs.

    Args:
        cluster: ``local`` for Dask on this machine, or the address of a Dask scheduler; without it this machine's
            processes.
        jobs: how many tasks may run at once; by default one for each processor. With 1, and no cluster, this process
            runs them.
        count: how many tasks there are.
        say: is called with a line about the cluster: where its dashboard is.

    Raises:
        ClusterError: there is no such cluster, or it cannot run these tasks.
        MissingExtraError: Dask is not installed.
    """
    executor = _started(cluster, jobs, count, say)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _started(cluster: str | None, jobs: int | None, count: int, say: Callable[[str], None]) -> Executor:
    # Each is imported where it is wanted: Dask takes a second, and is perhaps not there.
    if cluster is not None:
        from hta_graph.job.engines.dask_cluster import DaskExecutor

        return DaskExecutor(cluster, jobs, count, processor_count(), say)
    from hta_graph.job.engines.own_process import can_start_processes
    from hta_graph.job.engines.processes import ProcessExecutor

    workers = min(jobs or processor_count(), count)
    return ProcessExecutor(workers) if workers > 1 and can_start_processes() else InlineExecutor()


def processor_count() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def answers(
    executor: Executor,
    tasks: Sequence[Task],
    *,
    at_once: int | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Generator[bytes | HtaGraphError, None, None]:
    """Run tasks and yield what each made, or its error, in the order of the tasks.

    Args:
        executor: one of :func:`engine`, or any other.
        tasks: what to do.
        at_once: how many tasks are submitted and not yet answered here, which bounds what is in memory; by default
            four for each worker.
        progress: is called with how many tasks are done, and of how many.
    """
    most = at_once or tasks_at_once(executor)
    waiting, pending = deque(tasks), deque[Future[bytes]]()
    given = 0
    try:
        while waiting or pending:
            while waiting and len(pending) < most:
                pending.append(executor.submit(run_task, waiting.popleft()))
            for done in _while_oldest_runs(pending):
                progress(given + done, len(tasks))
            given += 1
            yield decoded_answer(pending.popleft().result())
    finally:
        for future in pending:
            future.cancel()


def tasks_at_once(executor: Executor) -> int:
    """Return how many tasks to submit before the first is answered."""
    known: int | None = getattr(executor, "at_once", None)
    return known or AHEAD * getattr(executor, "workers", processor_count())


def _while_oldest_runs(pending: Collection[Future[bytes]]) -> Iterator[int]:
    """Yield how many are done, now and whenever one more is, until the oldest is."""
    oldest = next(iter(pending))
    while True:
        running = [future for future in pending if not future.done()]
        yield len(pending) - len(running)
        if oldest.done():
            return
        wait_for_one(running)
