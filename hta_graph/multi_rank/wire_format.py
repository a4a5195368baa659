"""A graph on its way between processes: an entry of the store, with the tables that were made of it there."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import numpy as np

from hta_graph.base.arrays import memory_of
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.rank_activity import RankActivity
from hta_graph.multi_rank.summary.path_legs import LegSegments
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.host_pauses import RankPauses
from hta_graph.paths.unrecorded_work import KnownUnrecordedWork
from hta_graph.store.entry_file import Stored, entry_pieces, read_entry
from hta_graph.store.record import AttachedTables, decode_graph, encode_graph

NAME = "answer"
ATTACHED_TABLES: AttachedTables = {
    "members": RankCommunications,
    "whole": RankSummary,
    "ways": RankActivity,
    "pieces": LegSegments,
    "replay": ReplayAnswer,
    "pauses": RankPauses,
    "unrecorded": KnownUnrecordedWork,
}
"""The tables that go with a graph where it has them."""


def answer_pieces(graph: DependencyGraph) -> Iterator[bytes | memoryview]:
    """Yield a graph's bytes, piece by piece; what else is known of it goes with it."""
    return entry_pieces(NAME, encode_graph(graph, ATTACHED_TABLES))


def graph_of_answer(data: Stored, **values: Any) -> DependencyGraph:
    """Make a graph of what :func:`answer_pieces` gave; some values of its trace may be given."""
    return decode_graph(read_entry(NAME, data), ATTACHED_TABLES, values)


def read_answer(size: int, source: BufferedReader) -> memoryview:
    """Take a number of bytes from a stream; they are in memory once.

    Raises:
        EOFError: the stream ends early.
    """
    found = memory_of(np.empty(size, np.uint8))
    taken = 0
    while taken < size:
        count = source.readinto(found[taken:])
        if not count:
            raise EOFError("the answer ends early")
        taken += count
    return found
