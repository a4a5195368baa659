"""Rank files read by processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BufferedReader
from typing import Self

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_request import RankRequest
from hta_graph.multi_rank.rank_task import rank_task
from hta_graph.multi_rank.read_engine import RankReading, take_finished
from hta_graph.multi_rank.wire_format import decode_graph
from hta_graph.multi_rank.workers.worker_processes import WorkerPool
from hta_graph.trace.rank_files import RankFile

__all__ = ["ProcessReader"]


class ProcessReader:
    """Files that processes read; those are started as they are needed and end with the ``with`` block."""

    def __init__(self) -> None:
        self._processes = WorkerPool()

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        """Let a process read a file, with so much memory (bytes)."""
        task = rank_task(file, asked, memory=memory)
        return RankReading(file, future=self._processes.submit(task, _decode_arriving_graph))

    def wait(self, readings: Iterable[RankReading]) -> None:
        """Wait until at least one process has answered, and take the answers."""
        for reading, answer in take_finished(readings):
            reading.answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.shutdown(cancel_futures=True)


def _decode_arriving_graph(_: int, source: BufferedReader) -> DependencyGraph:
    """Make a graph of its bytes as they come through a pipe: they are in memory once.

    Raises:
        EOFError: the stream ends early.
    """
    head = source.readline()
    if not head.endswith(b"\n"):
        raise EOFError("the answer ends early")
    return decode_graph(json.loads(head), source)
