"""A path as pieces of time: each owned by one event and of one class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.model import Bools, BoundBy, Codes, Ids, Ints

__all__ = ["Pieces"]


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
        low = np.searchsorted(cuts, self.start, side="right")
        count = np.maximum(np.searchsorted(cuts, self.end, side="left") - low, 0) + 1
        if (count == 1).all():
            return self
        row = np.repeat(np.arange(len(self)), count)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        cut = np.append(cuts, 0)
        start = np.where(nth == 0, self.start[row], cut[(low[row] + nth - 1).clip(max=len(cuts))])
        end = np.where(nth == count[row] - 1, self.end[row], cut[(low[row] + nth).clip(max=len(cuts))])
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
