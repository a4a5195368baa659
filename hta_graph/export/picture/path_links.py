"""Links between the boxes of a path: the edges through which it crosses from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.export.picture.boxes import Box
from hta_graph.model import WITHIN_A_LANE, EdgeKind

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


def path_links(path: CriticalPath, boxes: Sequence[Box]) -> list[Link]:
    """Link each box to the next by the edge through which the path goes there."""
    crossings = _Crossings(path)
    return [Link(at, at + 1, *crossings.into(box.first), bold=True) for at, box in enumerate(boxes[1:])]


class _Crossings:
    """The edges of a path that lead from one event to another, found by the segment that they lead into."""

    def __init__(self, path: CriticalPath) -> None:
        self._pieces = path.pieces
        self._is_stream = path.graph.lanes.is_stream
        chain = path.chain
        taken = path.graph.edges_at(chain.edges[::-1])
        crossing = ~np.isin(taken.kind, WITHIN_A_LANE)
        taken = taken.take(crossing)
        self._kind, self._inferred = taken.kind, taken.inferred
        lane = path.graph.event_table.lane
        self._lanes = np.stack([lane[taken.source], lane[taken.target]])
        self._from, self._to = chain.times[1:][::-1][crossing], chain.times[:-1][::-1][crossing]

    def into(self, piece: int) -> tuple[EdgeKind | None, bool]:
        """Return the kind and whether it is inferred; no kind where nothing is known."""
        before, after = int(self._pieces.lane[piece - 1]), int(self._pieces.lane[piece])
        # Several crossings may end at one instant; the one between these two lanes is meant.
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
            if pieces.edge_kind[at] >= 0 and pieces.edge_kind[at] not in WITHIN_A_LANE and before != after:
                return EdgeKind(int(pieces.edge_kind[at])), bool(pieces.inferred[at])
        if before != after or before < 0:
            return None, False
        return (EdgeKind.STREAM_ORDER if self._is_stream[after] else EdgeKind.THREAD_ORDER), False
