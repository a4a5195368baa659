"""Edges as columns: source point, target point, kind, rule. Lag, evidence and clamping follow from those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.model import Bools, Codes, EdgeKind, Ids, Ints, Rule
from hta_graph.trace.table import freeze

__all__ = ["EdgeTable"]


@dataclass(frozen=True)
class EdgeTable:
    """Ten bytes an edge: int32 points, int8 kind and rule."""

    source: Ids
    target: Ids
    kind: Codes
    rule: Codes

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def of(
        cls, kind: EdgeKind, source: Ids | Ints, target: Ids | Ints, rule: Rule | Codes = Rule.RECORDED
    ) -> EdgeTable:
        """Make edges of one kind, by one rule or a rule each."""
        size = len(source)
        return cls(
            freeze(np.asarray(source, np.int32)),
            freeze(np.asarray(target, np.int32)),
            freeze(np.full(size, kind, np.int8)),
            freeze(np.broadcast_to(np.asarray(rule, np.int8), size).copy()),
        )

    @classmethod
    def distinct(cls, kind: EdgeKind, source: Ids, target: Ids, rule: Codes) -> EdgeTable:
        """Make edges of one kind, each pair of points once; what is recorded wins over what is inferred."""
        order = np.lexsort((rule, source, target))
        first = np.ones(len(order), np.bool_)
        first[1:] = (np.diff(source[order]) != 0) | (np.diff(target[order]) != 0)
        chosen = order[first]
        return cls.of(kind, source[chosen], target[chosen], rule[chosen])

    @classmethod
    def concatenate(cls, tables: Sequence[EdgeTable]) -> EdgeTable:
        """Join tables, keeping their order."""
        none = cls.of(EdgeKind.THREAD_ORDER, np.empty(0, np.int32), np.empty(0, np.int32))
        parts = [none, *tables]
        return cls(
            freeze(np.concatenate([part.source for part in parts])),
            freeze(np.concatenate([part.target for part in parts])),
            freeze(np.concatenate([part.kind for part in parts])),
            freeze(np.concatenate([part.rule for part in parts])),
        )

    def take(self, chosen: Ids | Ints | Bools) -> EdgeTable:
        """Select edges."""
        return EdgeTable(
            freeze(self.source[chosen]),
            freeze(self.target[chosen]),
            freeze(self.kind[chosen]),
            freeze(self.rule[chosen]),
        )

    @property
    def inferred(self) -> Bools:
        """Mark the edges that a rule deduced."""
        inferred: Bools = self.rule != Rule.RECORDED
        return inferred

    def lags(self, times: Ints) -> Ints:
        """Return target time − source time (ns), never below 0."""
        lags: Ints = np.maximum(times[self.target] - times[self.source], 0)
        return lags

    def clamped(self, times: Ints) -> Bools:
        """Mark the edges whose clocks disagree: the target is stamped before the source."""
        back: Bools = times[self.target] < times[self.source]
        return back
