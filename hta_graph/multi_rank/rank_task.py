"""The task of one rank's file, for workers: its graph as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hta_graph.base.storage.location import name_with_secrets, resolve_location
from hta_graph.multi_rank.read_engine import RankRequest, read_rank_graph
from hta_graph.multi_rank.wire_format import answer_pieces
from hta_graph.multi_rank.workers.tasks import Task
from hta_graph.trace.rank_files import RankFile


def rank_task(file: RankFile, asked: RankRequest, *, memory: int | None) -> Task:
    """Ask for the graph of a file, or as much of it as is wanted, with so much memory (bytes)."""
    arguments = {
        "path": name_with_secrets(file.path),
        "rank": file.rank,
        "process": file.process,
        "asked": asked.as_record(),
    }
    return Task(f"{__name__}:file_pieces", arguments, memory)


def file_pieces(path: str, rank: int, process: str | None, asked: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """Read a file whose rank is known and return its graph's bytes.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    file = RankFile(resolve_location(path), rank, "header", process=process)
    return answer_pieces(read_rank_graph(file, RankRequest.of_record(asked)))
