"""The task of one rank's file: its graph as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hta_graph.job.engines.tasks import Task
from hta_graph.job.graph_bytes import graph_pieces
from hta_graph.job.rank_graph import RankQuestion, rank_graph
from hta_graph.places.named_places import full_name, named_place
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_trace

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
    question = RankQuestion.of_record(asked)
    return graph_pieces(
        rank_graph(lambda: replace(read_trace(named_place(path), salvage=question.salvage), rank=rank), question)
    )
