"""The task of one rank's file: its graph as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hta_graph.multi_rank.rank_request import RankQuestion, graph_of_file
from hta_graph.multi_rank.wire_format import graph_pieces
from hta_graph.multi_rank.workers.tasks import Task
from hta_graph.storage.named_places import full_name, named_place
from hta_graph.trace.rank_files import RankFile

__all__ = ["file_pieces", "file_task"]


def file_task(file: RankFile, asked: RankQuestion, *, memory: int | None) -> Task:
    """Ask for the graph of a file, or as much of it as is wanted, with so much memory (bytes)."""
    arguments = {"path": full_name(file.path), "rank": file.rank, "asked": asked.as_record()}
    return Task(f"{__name__}:file_pieces", arguments, memory)


def file_pieces(path: str, rank: int, asked: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """Read a file whose rank is known and return its graph's bytes.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    return graph_pieces(graph_of_file(RankFile(named_place(path), rank, "header"), RankQuestion.of_record(asked)))
