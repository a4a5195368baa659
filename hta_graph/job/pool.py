"""Rank files on their way through processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from io import BufferedReader
from typing import Self

from hta_graph.errors import HtaGraphError, TooLargeError
from hta_graph.graph import DependencyGraph
from hta_graph.job.engines.processes import ProcessExecutor
from hta_graph.job.engines.waiting import wait_for_one
from hta_graph.job.graph_bytes import read_graph
from hta_graph.job.rank_graph import RankQuestion
from hta_graph.job.rank_task import file_task
from hta_graph.trace.rank_files import RankFile

__all__ = ["GraphOrError", "Pool", "Reading"]

GraphOrError = DependencyGraph | HtaGraphError


@dataclass
class Reading:
    """A file that a process reads; its graph, or why there is none, once that is known."""

    file: RankFile
    answer: GraphOrError | None = None
    future: Future[GraphOrError] | None = None
    memory: int | None = None
    """How much it may take (bytes), if that is less than a file that is read alone may."""

    @property
    def deserves_more(self) -> bool:
        """Whether the file needs more than it was given, and can be given more when it is read alone."""
        return self.memory is not None and isinstance(self.answer, TooLargeError)


class Pool:
    """Files that processes read; those are started as they are needed and end with the ``with`` block."""

    def __init__(self) -> None:
        self._processes = ProcessExecutor()

    def read(self, file: RankFile, asked: RankQuestion, *, memory: int | None) -> Reading:
        """Let a process read a file, with so much memory (bytes)."""
        task = file_task(file, asked, memory=memory)
        return Reading(file, future=self._processes.ask(task, _arriving_graph))

    def wait(self, readings: Iterable[Reading]) -> None:
        """Wait until at least one process has answered, and take the answers."""
        running = {reading.future: reading for reading in readings if reading.future}
        for future in wait_for_one(running):
            running[future].answer, running[future].future = future.result(), None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.shutdown(cancel_futures=True)


def _arriving_graph(_: int, source: BufferedReader) -> DependencyGraph:
    """Make a graph of its bytes as they come through a pipe: they are in memory once.

    Raises:
        EOFError: the stream ends early.
    """
    head = source.readline()
    if not head.endswith(b"\n"):
        raise EOFError("the answer ends early")
    return read_graph(json.loads(head), source)
