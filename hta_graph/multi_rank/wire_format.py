"""A graph as bytes on its way between processes: a line of JSON, then each column as it lies in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from typing import Any, Protocol

import numpy as np

from hta_graph.base.arrays import freeze, memory_of
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.graph_record import AttachedTables, Column, graph_of_record, graph_record
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.rank_activity import RankActivity
from hta_graph.multi_rank.summary.path_legs import LegSegments
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.host_pauses import RankPauses

ATTACHED_TABLES: AttachedTables = {
    "members": RankCommunications,
    "whole": RankSummary,
    "ways": RankActivity,
    "pieces": LegSegments,
    "replay": ReplayAnswer,
    "pauses": RankPauses,
}
"""The tables that go with a graph where it has them."""


class ByteStream(Protocol):
    """A stream of bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer, or its beginning; return how many bytes came."""


def encode_graph(graph: DependencyGraph) -> Iterator[bytes | memoryview]:
    """Yield a graph's bytes, piece by piece; what else is known of it goes with it."""
    # First what the columns are, then the columns as they lie in memory: nothing is copied, nothing can be executed.
    record, columns = graph_record(graph, ATTACHED_TABLES)
    yield json.dumps(record).encode() + b"\n"
    for column in columns:
        yield memory_of(column)


def decode_graph(head: dict[str, Any], source: ByteStream) -> DependencyGraph:
    """Make a graph of what :func:`encode_graph` gave: its first line, parsed, and a stream of the rest.

    Raises:
        EOFError: the stream ends early.
    """
    return graph_of_record(head, partial(read_column, source), ATTACHED_TABLES)


def read_record(source: BufferedReader) -> Any:
    """Read the line of JSON before the columns.

    Raises:
        EOFError: the stream ends early.
    """
    head = source.readline()
    if not head.endswith(b"\n"):
        raise EOFError("the answer ends early")
    return json.loads(head)


def read_column(source: ByteStream, dtype: str, size: int) -> Column:
    """Read a column that comes as it lies in memory.

    Raises:
        EOFError: the stream ends early.
    """
    column = np.empty(size, dtype)
    rest = memory_of(column)
    while len(rest):
        count = source.readinto(rest)
        if not count:
            raise EOFError("the columns end early")
        rest = rest[count:]
    return freeze(column)
