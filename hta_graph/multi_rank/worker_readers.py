"""Rank files read by the workers of a cluster, which may be other machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Self

from hta_graph.errors import HtaGraphError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.memory import memory_share, peak_bytes, processor_count
from hta_graph.multi_rank.rank_request import RankQuestion
from hta_graph.multi_rank.rank_task import file_task
from hta_graph.multi_rank.read_engine import Reading, take_answers
from hta_graph.multi_rank.wire_format import read_graph
from hta_graph.multi_rank.workers.tasks import decoded_answer, renamed_error
from hta_graph.storage.named_places import full_name, is_remote
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import Say

__all__ = ["ClusterPool"]


class ClusterPool:
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
        from hta_graph.multi_rank.workers.dask_cluster import DaskEngine  # only who reads on a cluster needs it

        sound = [file for file in files if not file.error]
        # Graphs wait here for their turn, and take less than reading them does.
        room = (memory_share() if memory is None else memory) // max(
            (peak_bytes(file.path) for file in sound), default=1
        )
        self._cluster = DaskEngine(cluster, jobs, len(sound), processor_count(), say)
        self.at_once = max(1, min(self._cluster.at_once, room))
        """How many files are asked for and not yet handed out."""

    def read(self, file: RankFile, asked: RankQuestion, *, memory: int | None) -> Reading:
        """Let a worker read a file, with so much memory (bytes)."""
        return Reading(file, future=self._cluster.submit(file_task(_seen_from_afar(file), asked, memory=memory)))

    def wait(self, readings: Iterable[Reading]) -> None:
        """Wait until at least one worker has answered, and take the answers."""
        for reading, answer in take_answers(readings):
            reading.answer = _graph_of(reading.file, decoded_answer(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()


def _seen_from_afar(file: RankFile) -> RankFile:
    """Name a file as one does who stands in another folder."""
    if is_remote(file.path):
        return file
    return replace(file, path=Path(os.path.abspath(file.path)))  # noqa: PTH100 - links stay what they are


def _graph_of(file: RankFile, answer: bytes | HtaGraphError) -> DependencyGraph | HtaGraphError:
    """Make a graph of its bytes, and name the file as it was named here."""
    if isinstance(answer, HtaGraphError):
        return renamed_error(answer, str(_seen_from_afar(file).path), str(file.path))
    source = BytesIO(answer)
    head = json.loads(source.readline())
    head["trace"]["values"]["path"] = full_name(file.path)
    return read_graph(head, source)
