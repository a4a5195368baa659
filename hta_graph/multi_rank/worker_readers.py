"""Rank files read by worker processes of this machine, or by the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Self

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.storage.location import is_remote, name_with_secrets
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_task import rank_task
from hta_graph.multi_rank.read_engine import (
    RankReading,
    RankRequest,
    memory_share,
    peak_bytes,
    processor_count,
    take_finished,
)
from hta_graph.multi_rank.wire_format import graph_of_answer, read_answer
from hta_graph.multi_rank.workers.tasks import decode_answer, error_with_path
from hta_graph.multi_rank.workers.worker_processes import WorkerPool
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import Say


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


def _decode_arriving_graph(size: int, source: BufferedReader) -> DependencyGraph:
    """Make a graph of its bytes as they come through a pipe: they are in memory once.

    Raises:
        EOFError: the stream ends early.
    """
    return graph_of_answer(read_answer(size, source))


class DaskReader:
    """Files that Dask's workers read.

    Args:
        files: those that will be read.
        cluster: ``local``, or the address of a scheduler.
        jobs: how many workers to start; of a running cluster, how many files it is given at once.
        memory: how much (bytes) each file may take.
        say: is called with a line that says where the dashboard is.

    Raises:
        ClusterError: the cluster cannot be reached, or cannot run these tasks.
        MissingExtraError: Dask is not installed.
    """

    def __init__(self, files: Sequence[RankFile], cluster: str, jobs: int | None, memory: int | None, say: Say) -> None:
        from hta_graph.multi_rank.workers.dask_cluster import DaskWorkers  # only who reads on a cluster needs it

        sound = [file for file in files if not file.error]
        # Graphs wait here for their turn, and take less than reading them does.
        room = (memory_share() if memory is None else memory) // max(
            (peak_bytes(file.path) for file in sound), default=1
        )
        self._cluster = DaskWorkers(cluster, jobs, len(sound), processor_count(), say)
        self.at_once = max(1, min(self._cluster.at_once, room))
        """How many files are asked for and not yet handed out."""

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        """Let a worker read a file, with so much memory (bytes)."""
        return RankReading(
            file, future=self._cluster.submit(rank_task(_with_absolute_path(file), asked, memory=memory))
        )

    def wait(self, readings: Iterable[RankReading]) -> None:
        """Wait until at least one worker has answered, and take the answers."""
        for reading, answer in take_finished(readings):
            reading.answer = _decoded_graph(reading.file, decode_answer(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()


def _with_absolute_path(file: RankFile) -> RankFile:
    """Name a file as one does who stands in another folder."""
    if is_remote(file.path):
        return file
    return replace(file, path=Path(os.path.abspath(file.path)))  # noqa: PTH100 - links stay what they are


def _decoded_graph(file: RankFile, answer: bytes | HtaGraphError) -> DependencyGraph | HtaGraphError:
    """Make a graph of its bytes, and name the file as it was named here."""
    if isinstance(answer, HtaGraphError):
        return error_with_path(answer, str(_with_absolute_path(file).path), str(file.path))
    return graph_of_answer(answer, path=name_with_secrets(file.path))
