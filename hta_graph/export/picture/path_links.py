"""Links between the boxes of a path: the edges through which it crosses from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.export.picture.boxes import Box
from hta_graph.export.picture.short_names import format_duration
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import WITHIN_A_LANE, EdgeKind, EventKind, Ids
from hta_graph.paths.critical_path import CriticalPath

__all__ = ["Link", "path_links"]


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
    note: str = ""


def path_links(path: CriticalPath, boxes: Sequence[Box]) -> list[Link]:
    """Link each box to the next by the edge through which the path goes there."""
    crossings = _LaneCrossings(path)
    return [crossings.link_into(at, box.first) for at, box in enumerate(boxes[1:])]


class _LaneCrossings:
    """The edges of a path that lead from one event to another, found by the segment that they lead into."""

    def __init__(self, path: CriticalPath) -> None:
        self._graph, self._pieces = path.graph, path.pieces
        self._is_stream = path.graph.lanes.is_stream
        edges, back = path.graph.edges_at(path.chain.edges[::-1]), path.chain.times[::-1]
        # To a rendezvous and from it: the way from the rank that came last to one that waited, as one edge.
        meets = path.graph.event_table.kind[edges.source] == EventKind.RENDEZVOUS
        came_last = np.roll(edges.source, 1)
        crossing = ~np.isin(edges.kind, WITHIN_A_LANE)
        crossing[:-1] &= ~meets[1:]
        taken = edges.take(crossing)
        self._kind, self._inferred, self._target = taken.kind, taken.inferred, taken.target
        source = np.where(meets, came_last, edges.source)[crossing]
        lane = path.graph.event_table.lane
        self._lanes = np.stack([lane[source], lane[taken.target]])
        self._parts = np.stack([path.graph.rank_index_of(source), path.graph.rank_index_of(taken.target)])
        self._from, self._to = back[:-1][crossing], back[1:][crossing]
        self._from[meets[crossing]] = np.roll(back[:-1], 1)[crossing][meets[crossing]]

    def link_into(self, box: int, piece: int) -> Link:
        """Return the link from a box to the next, whose first segment is ``piece``; no kind where nothing is known."""
        parts = (int(self._pieces.part[piece - 1]), int(self._pieces.part[piece]))
        lanes = (int(self._pieces.lane[piece - 1]), int(self._pieces.lane[piece]))
        at = self._crossing_at(piece, self._lanes, lanes)
        if at < 0 and parts[0] != parts[1]:
            at = self._crossing_at(piece, self._parts, parts)
        if at < 0:
            return Link(box, box + 1, *self._of_segments(piece, *lanes), bold=True)
        kind, inferred = EdgeKind(int(self._kind[at])), bool(self._inferred[at])
        return Link(box, box + 1, kind, inferred, bold=True, note=self._wait_note(at))

    def _crossing_at(self, piece: int, sides: Ids, wanted: tuple[int, int]) -> int:
        """Return the edge between two lanes, or ranks, that leads into a segment; -1: none does."""
        # Several crossings may end at one instant; the one between these two is meant.
        start = self._pieces.start[piece]
        at = int(np.searchsorted(self._to, start))
        while at < len(self._to) and self._from[at] <= start:
            if tuple(sides[:, at]) == wanted:
                return at
            at += 1
        return -1

    def _wait_note(self, at: int) -> str:
        """Say how long the rank waited that a crossing from another one leads to."""
        if self._parts[0, at] == self._parts[1, at] or not isinstance(self._graph, JobGraph):
            return ""
        came_last, waited = (self._graph.parts[place].rank for place in self._parts[:, at].tolist())
        time_ns = int(self._graph.waited(self._target[at : at + 1])[0])
        return f"rank {waited} waited {format_duration(time_ns)} for rank {came_last}"

    def _of_segments(self, piece: int, before: int, after: int) -> tuple[EdgeKind | None, bool]:
        pieces = self._pieces
        waited = [piece - 1] if pieces.event[piece - 1] == pieces.event[piece] else []
        for at in [*waited, piece]:
            if pieces.edge_kind[at] >= 0 and pieces.edge_kind[at] not in WITHIN_A_LANE and before != after:
                return EdgeKind(int(pieces.edge_kind[at])), bool(pieces.inferred[at])
        if before != after or before < 0:
            return None, False
        return (EdgeKind.STREAM_ORDER if self._is_stream[after] else EdgeKind.THREAD_ORDER), False
