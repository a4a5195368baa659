"""Of the parts of gaps those in which what was waited for waited itself for another rank.

rank 0, stream 24       [all-reduce ~~~~~~~~~~~|====]            ~ waiting for rank 1, = transferring
rank 0, stream 7   ──op─|......................|....|[kernel     waits for the event of stream 24
cause                    other_rank             event_wait
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hta_graph.arrays import find_sorted, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import GapCause
from hta_graph.multi_rank.matching.rank_waits import RankWaits
from hta_graph.paths.gap_causes import GapSegments

__all__ = ["blame_ranks"]

WAITING = (GapCause.EVENT_WAIT, GapCause.HOST_BLOCKED, GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER)
"""Causes that mean that something waited for GPU work."""


def blame_ranks(graph: DependencyGraph, pieces: GapSegments, waits: RankWaits) -> GapSegments:
    """Give the parts in which the work waited for had itself to wait for another rank that cause; the rest stays."""
    source = np.where(pieces.edge >= 0, graph.edges_at(pieces.edge).source, -1)
    place = find_sorted(source, waits.row)
    place[~np.isin(pieces.cause, WAITING)] = -1
    nothing = np.iinfo(np.int64).max
    since = np.maximum(pieces.start, take_or(waits.start, place, otherwise=nothing))
    until = np.minimum(pieces.end, take_or(waits.end, place, otherwise=0))
    blamed = until > since
    if not blamed.any():
        return pieces
    own, since, until = pieces.take(blamed), since[blamed], until[blamed]
    event = source[blamed].astype(np.int32)
    parts = GapSegments.join([
        pieces.take(~blamed),
        replace(own, end=since),
        replace(own, start=since, end=until, event=event, cause=np.full(len(own), GapCause.OTHER_RANK, np.int8)),
        replace(own, start=until),
    ])  # fmt: skip
    parts = parts.take(parts.end > parts.start)
    return parts.take(np.lexsort((parts.start, parts.gap)))
