"""The task of one rank's file: its graph as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hta_graph.job.engines.tasks import Task
from hta_graph.job.graph_bytes import graph_pieces
from hta_graph.job.rank_graph import rank_graph
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_trace

__all__ = ["file_pieces", "file_task"]


def file_task(file: RankFile, *, memory: int | None, salvage: bool, members: bool) -> Task:
    """Ask for the graph of a file, and for its communications too if they are wanted, with so much memory (bytes)."""
    arguments = {"path": str(file.path), "rank": file.rank, "salvage": salvage, "members": members}
    return Task(f"{__name__}:file_pieces", arguments, memory)


def file_pieces(path: str, rank: int, *, salvage: bool, members: bool) -> Iterator[bytes | memoryview]:
    """Read a file whose rank is known and return its graph's bytes.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    return graph_pieces(rank_graph(lambda: replace(read_trace(path, salvage=salvage), rank=rank), members=members))
