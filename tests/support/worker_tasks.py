"""Tasks for engines: files of ranks, one that takes for ever, and workers that are killed meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from io import BufferedReader
from pathlib import Path
from threading import Thread

from hta_graph.base.errors import HtaGraphError
from hta_graph.multi_rank.rank_task import rank_task
from hta_graph.multi_rank.read_engine import RankRequest
from hta_graph.multi_rank.workers.tasks import Task
from hta_graph.multi_rank.workers.worker_processes import WorkerPool
from hta_graph.trace.rank_files import RankFile
from tests.support.child_processes import child_processes, wait_until
from tests.support.trace_builder import TraceBuilder

BROKEN = '{"traceEvents": [{"ph": "X", "na'


def rank_file(folder: Path, rank: int) -> Path:
    """Write a trace; the rank tells its number of operators."""
    trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 9})
    for at in range(rank + 1):
        trace.op(f"op {at}", 10 * at, 10 * at + 5)
    return trace.write(folder / f"rank{rank}.json")


def reading(path: Path, rank: int = 0, memory: int | None = None) -> Task:
    """Ask for the graph of a file."""
    return rank_task(RankFile(path, rank, "header"), RankRequest(), memory=memory)


def submit_task(engine: WorkerPool, task: Task) -> Future[bytes | HtaGraphError]:
    """Let a process run a task whose answer is taken as it is."""
    return engine.submit(task, _whole_answer)


def answers(engine: WorkerPool, tasks: Sequence[Task]) -> list[bytes | HtaGraphError]:
    """Let processes run tasks; return what each made, or its error, in the order of the tasks."""
    asked = [submit_task(engine, task) for task in tasks]
    return [future.result() for future in asked]


def _whole_answer(size: int, stream: BufferedReader) -> bytes:
    made = stream.read(size)
    if len(made) < size:
        raise EOFError
    return made


def as_text(answer: bytes | HtaGraphError) -> object:
    """Return what can be compared of an answer or an error."""
    return answer if isinstance(answer, bytes) else (type(answer), str(answer), answer.on_command_line)


def slow_file(folder: Path) -> Path:
    """Return a file that whoever reads it waits for, until it is replaced."""
    path = folder / "slow.json"
    os.mkfifo(path)
    return path


def working_children() -> set[int]:
    """Return the processes of this one that run tasks."""
    return {pid for pid in child_processes(os.getpid()) if b"resource_tracker" not in _command(pid)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def kill_next(count: int, then: Callable[[], object] = lambda: None, after: float = 0.1) -> Thread:
    """Kill the next processes that are started, each after some time, and do something before the last of them."""

    def run() -> None:
        killed: set[int] = set()
        for number in range(count):
            wait_until(lambda: bool(working_children() - killed))
            (process,) = working_children() - killed
            time.sleep(after)
            if number == count - 1:
                then()
            killed.add(process)
            os.kill(process, signal.SIGKILL)

    thread = Thread(target=run)
    thread.start()
    return thread
