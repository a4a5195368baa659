"""Links between the boxes of a path: the edges through which it crosses from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.critical_path import CriticalPath
from hta_graph.algorithms.walk import Chain, binding_edges, walk_back
from hta_graph.export.picture.boxes import Box
from hta_graph.graph import DependencyGraph
from hta_graph.model import EdgeKind

__all__ = ["Link", "path_links", "walked"]

PLAIN = (EdgeKind.THREAD_ORDER, EdgeKind.EXECUTION)


@dataclass(frozen=True)
class Link:
    """Edges of one kind from one box to another, by their numbers."""

    source: int
    target: int
    kind: EdgeKind | None
    inferred: bool = False
    lag_ns: int = 0
    count: int = 1
    bold: bool = False


def path_links(path: CriticalPath, boxes: Sequence[Box]) -> list[Link]:
    """Link each box to the next by the edge through which the path goes there."""
    crossings = _Crossings(path)
    return [Link(at, at + 1, *crossings.into(box.first), bold=True) for at, box in enumerate(boxes[1:])]


class _Crossings:
    """The edges of a path that lead from one event to another, found by the segment that they lead into."""

    def __init__(self, path: CriticalPath) -> None:
        self._pieces = path.pieces
        self._is_stream = path.graph.trace.lanes.is_stream
        chain, table = walked(path.graph, path.window.sink.point, path.window.start_ns), path.graph.edge_table
        edges = chain.edges[::-1]
        rows = np.flatnonzero(~np.isin(table.kind[edges], PLAIN))
        taken = table.take(edges[rows])
        self._kind, self._inferred = taken.kind, taken.inferred
        lane = path.graph.trace.events.lane
        self._lanes = np.stack([lane[taken.source >> 1], lane[taken.target >> 1]])
        self._from, self._to = chain.times[1:][::-1][rows], chain.times[:-1][::-1][rows]

    def into(self, piece: int) -> tuple[EdgeKind | None, bool]:
        """Return the kind and whether it is inferred; no kind where nothing is known."""
        before, after = int(self._pieces.lane[piece - 1]), int(self._pieces.lane[piece])
        at = int(np.searchsorted(self._to, self._pieces.start[piece]))
        while at < len(self._to) and self._from[at] <= self._pieces.start[piece]:
            if tuple(self._lanes[:, at]) == (before, after):
                return EdgeKind(int(self._kind[at])), bool(self._inferred[at])
            at += 1
        return self._of_segments(piece, before, after)

    def _of_segments(self, piece: int, before: int, after: int) -> tuple[EdgeKind | None, bool]:
        pieces = self._pieces
        waited = [piece - 1] if pieces.event[piece - 1] == pieces.event[piece] else []
        for at in [*waited, piece]:
            if pieces.edge_kind[at] >= 0 and pieces.edge_kind[at] not in PLAIN and before != after:
                return EdgeKind(int(pieces.edge_kind[at])), bool(pieces.inferred[at])
        if before != after or before < 0:
            return None, False
        return (EdgeKind.STREAM_ORDER if self._is_stream[after] else EdgeKind.THREAD_ORDER), False


def walked(graph: DependencyGraph, sink: int, until_ns: int) -> Chain:
    """Walk back from a point through what held it up; an empty chain for a point without a place."""
    if sink < 0 or graph.timeline.position[sink] < 0:
        none = np.empty(0, np.int32)
        return Chain(none, none, np.empty(0, np.int64))
    return walk_back(graph, binding_edges(graph.edge_table, graph), sink, until_ns)
