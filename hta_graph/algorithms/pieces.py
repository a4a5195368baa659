"""A path as pieces of time: each owned by one event and of one class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.model import Bools, BoundBy, Codes, Ids, Ints

__all__ = ["Pieces", "split"]


@dataclass(frozen=True)
class Pieces:
    """Stretches of time; ``edge_kind``, ``event`` and ``lane`` are -1 where there is none."""

    start: Ints
    end: Ints
    edge_kind: Codes
    inferred: Bools
    bound: Codes
    event: Ids
    lane: Ids

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def of(
        cls,
        start: Ints,
        end: Ints,
        bound: BoundBy | Codes,
        *,
        edge_kind: int | Codes = -1,
        inferred: Bools | bool = False,
        event: Ids | int = -1,
        lane: Ids | int = -1,
    ) -> Pieces:
        """Make pieces; single values are repeated."""
        size = len(start)
        return cls(
            np.asarray(start, np.int64),
            np.asarray(end, np.int64),
            np.broadcast_to(np.asarray(edge_kind, np.int8), size),
            np.broadcast_to(np.asarray(inferred, np.bool_), size),
            np.broadcast_to(np.asarray(bound, np.int8), size),
            np.broadcast_to(np.asarray(event, np.int32), size),
            np.broadcast_to(np.asarray(lane, np.int32), size),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Pieces]) -> Pieces:
        """Join pieces."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def take(self, rows: Ints | Bools) -> Pieces:
        """Select pieces."""
        return Pieces(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def with_class(self, bound: BoundBy, rows: Bools) -> Pieces:
        """Reclassify some pieces."""
        return replace(self, bound=np.where(rows, bound, self.bound).astype(np.int8))

    def split(self, cuts: Ints) -> Pieces:
        """Cut the pieces at sorted times."""
        row, start, end = split(self.start, self.end, cuts)
        if len(row) == len(self):
            return self
        return replace(self.take(row), start=start, end=end)

    def clip(self, start_ns: int, end_ns: int) -> Pieces:
        """Keep what lies in a window."""
        cut = replace(self, start=self.start.clip(start_ns, end_ns), end=self.end.clip(start_ns, end_ns))
        return cut.take(cut.end > cut.start)

    def merged(self) -> Pieces:
        """Sort by time and merge neighbours of equal event, edge and class."""
        ordered = self.take(np.argsort(self.start, kind="stable"))
        if len(ordered) < 2:
            return ordered
        new = np.ones(len(ordered), np.bool_)
        columns = ("edge_kind", "inferred", "bound", "event", "lane")
        new[1:] = np.logical_or.reduce([getattr(ordered, name)[1:] != getattr(ordered, name)[:-1] for name in columns])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(ordered)) - 1
        return replace(ordered.take(first), end=ordered.end[last])


def split(start: Ints, end: Ints, cuts: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut intervals at sorted times; return for each part the interval that it comes from, its start and its end.

    >>> split(np.array([0, 10]), np.array([5, 20]), np.array([3, 10, 12]))
    (array([0, 0, 1, 1]), array([ 0,  3, 10, 12]), array([ 3,  5, 12, 20]))
    """
    low = np.searchsorted(cuts, start, side="right")
    count = np.maximum(np.searchsorted(cuts, end, side="left") - low, 0) + 1
    row = np.repeat(np.arange(len(start)), count)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    cut = np.append(cuts, 0)
    parts_start = np.where(nth == 0, start[row], cut[(low[row] + nth - 1).clip(max=len(cuts))])
    parts_end = np.where(nth == count[row] - 1, end[row], cut[(low[row] + nth).clip(max=len(cuts))])
    return row, parts_start, parts_end
