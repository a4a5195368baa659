"""What changes make of a window: other lengths of parts, other weights, edges left out and added."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hta_graph.algorithms.replay.longest_paths import LongestPaths
from hta_graph.algorithms.replay.replayable import Replayable, ReplayEdges
from hta_graph.errors import QueryError
from hta_graph.graph.points import event_of
from hta_graph.model import Bools, Floats, Ids, Ints

__all__ = ["Draft"]


@dataclass
class Draft:
    """A window on which changes are being made, one after the other; the window itself stays as it is.

    ``factor`` is that of each part (row of ``base.parts``), ``extra`` (ns) what each edge weighs besides, ``dropped``
    marks edges that are left out; ``added`` are edges as (source, target, weight) of points.
    """

    base: Replayable
    factor: Floats = field(init=False)
    extra: Ints = field(init=False)
    dropped: Bools = field(init=False)
    added: list[tuple[Ids, Ids, Ints]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.factor = np.ones(len(self.base.parts))
        self.extra = np.zeros(len(self.base.edges.row), np.int64)
        self.dropped = np.zeros(len(self.base.edges.row), np.bool_)

    @property
    def lengths(self) -> Ints:
        """The length (ns) of each part after the changes."""
        parts = self.base.parts
        return parts.length - np.rint(parts.length * (1.0 - self.factor)).astype(np.int64)

    @property
    def is_reshaped(self) -> bool:
        """Whether edges were left out or added, so that the window has another shape."""
        return bool(self.added) or bool(self.dropped.any())

    @property
    def weight(self) -> Ints:
        """The weight (ns) of each edge of the window, with added ones behind."""
        changed = np.flatnonzero(self.factor != 1.0)
        weight: Ints = self._with_saved(changed, self.base.parts.length[changed] - self.lengths[changed])[0]
        return weight

    @property
    def tails(self) -> Ints:
        """How long (ns) the window goes on after each of its ends."""
        changed = np.flatnonzero((self.factor != 1.0) & (self.base.parts.edge >= len(self.extra)))
        tails: Ints = self._with_saved(changed, self.base.parts.length[changed] - self.lengths[changed])[1]
        return tails

    @property
    def exact_weights(self) -> tuple[Floats, Floats]:
        """The weights (ns) and tails without rounding, for what must be linear in a factor."""
        changed = np.flatnonzero(self.factor != 1.0)
        return self._with_saved(changed, self.base.parts.length[changed] * (1.0 - self.factor[changed]))

    def _with_saved(self, changed: Ints, saved: Any) -> tuple[Any, Any]:
        """Take what parts save from the weights of their edges and from the tails of the window's ends."""
        base, sink = self.base, self.base.window.sink
        sums = np.zeros(len(self.extra) + len(sink.ends), saved.dtype)
        np.add.at(sums, base.parts.edge[changed], saved)
        weight = (base.edges.weight + self.extra - sums[: len(self.extra)])[~self.dropped]
        return np.concatenate([weight, *(own for _, _, own in self.added)]), sink.tails - sums[len(self.extra) :]

    def shape(self) -> tuple[ReplayEdges, LongestPaths]:
        """Return the edges and their shape.

        Raises:
            QueryError: edges were added that close a cycle, or something would have no cause left.
        """
        edges = self.base.edges
        if not self.is_reshaped:
            return edges, self.base.paths
        kept = ~self.dropped
        sources, targets = ([np.asarray(column[at], np.int32) for column in self.added] for at in (0, 1))
        count = sum(map(len, sources))
        changed = ReplayEdges(
            np.append(edges.row[kept], np.full(count, -1, np.int32)),
            np.concatenate([edges.source[kept], *sources]),
            np.concatenate([edges.target[kept], *targets]),
            self.weight,
            np.append(edges.preferred[kept], np.zeros(count, np.bool_)),
        )
        self._refuse_orphans(changed)
        return changed, self.base.paths_of(changed)

    def _refuse_orphans(self, changed: ReplayEdges) -> None:
        caused = np.zeros(len(self.base.times), np.bool_)
        caused[changed.target] = True
        lost = self.base.edges.target[~caused[self.base.edges.target]]
        if len(lost):
            name = self.base.graph.name_of(int(event_of(lost[:1])[0]))
            raise QueryError(
                f"{self.base.graph.path}: without these edges nothing would come before {name!r}; leave it another "
                "cause, or add an edge to it"
            )

    def copy(self) -> Draft:
        """Return a draft of its own with the same changes."""
        other = replace(self, added=list(self.added))
        other.factor, other.extra, other.dropped = self.factor.copy(), self.extra.copy(), self.dropped.copy()
        return other
