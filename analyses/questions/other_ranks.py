"""Of the parts of gaps those in which what was waited for waited itself for another rank.

rank 0, stream 24       [all-reduce ~~~~~~~~~~~|====]            ~ waiting for rank 1, = transferring
rank 0, stream 7   ──op─|......................|....|[kernel     waits for the event of stream 24
cause                    other_rank             event_wait
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hta_graph.arrays import looked_up, picked
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import GapCause
from hta_graph.multi_rank.matching.rank_waits import RankWaits
from hta_graph.paths.gap_causes import GapPieces

__all__ = ["blamed_on_ranks"]

WAITING = (GapCause.EVENT_WAIT, GapCause.HOST_BLOCKED, GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER)
"""Causes that mean that something waited for GPU work."""


def blamed_on_ranks(graph: DependencyGraph, pieces: GapPieces, waits: RankWaits) -> GapPieces:
    """Give the parts in which the work waited for had itself to wait for another rank that cause; the rest stays."""
    source = np.where(pieces.edge >= 0, graph.edges_at(pieces.edge).source, -1)
    place = looked_up(source, waits.row)
    place[~np.isin(pieces.cause, WAITING)] = -1
    nothing = np.iinfo(np.int64).max
    since = np.maximum(pieces.start, picked(waits.start, place, otherwise=nothing))
    until = np.minimum(pieces.end, picked(waits.end, place, otherwise=0))
    blamed = until > since
    if not blamed.any():
        return pieces
    own, since, until = pieces.take(blamed), since[blamed], until[blamed]
    event = source[blamed].astype(np.int32)
    parts = GapPieces.join([
        pieces.take(~blamed),
        replace(own, end=since),
        replace(own, start=since, end=until, event=event, cause=np.full(len(own), GapCause.OTHER_RANK, np.int8)),
        replace(own, start=until),
    ])  # fmt: skip
    parts = parts.take(parts.end > parts.start)
    return parts.take(np.lexsort((parts.start, parts.gap)))
