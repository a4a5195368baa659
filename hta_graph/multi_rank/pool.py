"""Rank files read by processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BufferedReader
from typing import Self

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_request import RankQuestion
from hta_graph.multi_rank.rank_task import file_task
from hta_graph.multi_rank.read_engine import Reading, take_answers
from hta_graph.multi_rank.wire_format import read_graph
from hta_graph.multi_rank.workers.worker_processes import ProcessEngine
from hta_graph.trace.rank_files import RankFile

__all__ = ["Pool"]


class Pool:
    """Files that processes read; those are started as they are needed and end with the ``with`` block."""

    def __init__(self) -> None:
        self._processes = ProcessEngine()

    def read(self, file: RankFile, asked: RankQuestion, *, memory: int | None) -> Reading:
        """Let a process read a file, with so much memory (bytes)."""
        task = file_task(file, asked, memory=memory)
        return Reading(file, future=self._processes.submit(task, _arriving_graph))

    def wait(self, readings: Iterable[Reading]) -> None:
        """Wait until at least one process has answered, and take the answers."""
        for reading, answer in take_answers(readings):
            reading.answer = answer

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
