"""What changes make of a window: other lengths of parts, other weights, edges left out and added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hta_graph.arrays import first_of_runs, run_numbers
from hta_graph.errors import QueryError
from hta_graph.graph.points import event_of
from hta_graph.model import LONGEST_NS, Bools, Floats, Ids, Ints
from hta_graph.paths.windows import Window
from hta_graph.storage.location import Location
from hta_graph.what_if.longest_paths import LongestPaths
from hta_graph.what_if.replay_graph import ReplayEdges, ReplayGraph

__all__ = ["ModifiedWindow", "check_added_time"]


@dataclass
class ModifiedWindow:
    """A window on which changes are being made, one after the other; the window itself stays as it is.

    ``factor`` is that of each part (row of ``base.parts``), ``extra`` (ns) what each edge weighs besides,
    ``weighed`` (ns) by how much its parts together are longer than measured, before their factors; ``dropped`` marks
    edges that are left out; ``added`` are edges as (source, target, weight) of points.
    """

    base: ReplayGraph
    factor: Floats = field(init=False)
    extra: Ints = field(init=False)
    weighed: Ints = field(init=False)
    dropped: Bools = field(init=False)
    added: list[tuple[Ids, Ids, Ints]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.factor = np.ones(len(self.base.parts))
        self.extra = np.zeros(len(self.base.edges.row), np.int64)
        self.weighed = np.zeros_like(self.extra)
        self.dropped = np.zeros(len(self.base.edges.row), np.bool_)

    @property
    def lengths(self) -> Ints:
        """The length (ns) of each part after the changes."""
        given = self._given_lengths
        return given - _saved_ns(given, self.factor)

    @property
    def _given_lengths(self) -> Ints:
        """The length (ns) of each part before factors: as measured, or what own weights make of it."""
        parts = self.base.parts
        if not self.weighed.any():
            return parts.length
        change = np.append(self.weighed, np.zeros(len(self.base.window.sink.ends), np.int64))[parts.edge]
        return _lengthened_parts(parts.length, parts.edge, change)

    @property
    def is_reshaped(self) -> bool:
        """Whether edges were left out or added, so that the window has another shape."""
        return bool(self.added) or bool(self.dropped.any())

    @property
    def is_unchanged(self) -> bool:
        """Whether all changes together leave every edge and tail what it weighed."""
        return self.leaves(self.weight, self.tails)

    def leaves(self, weight: Ints, tails: Ints) -> bool:
        """Tell the same where the draft's weights and tails are at hand."""
        same_edges = not self.is_reshaped and np.array_equal(weight, self.base.edges.weight)
        return same_edges and np.array_equal(tails, self.base.window.sink.tails)

    @property
    def added_ns(self) -> float:
        """How much time all changes together may add at most."""
        with np.errstate(over="ignore", invalid="ignore"):
            grows = np.flatnonzero(~(self.factor <= 1.0))
            added = float((self.base.parts.length[grows] * (self.factor[grows] - 1.0)).sum())
            added += sum(float(np.abs(own).sum(dtype=np.float64)) for own in (self.extra, self.weighed))
            return added + sum(float(np.abs(lag).sum(dtype=np.float64)) for _, _, lag in self.added)

    @property
    def weight(self) -> Ints:
        """The weight (ns) of each edge of the window, with added ones behind."""
        changed = np.flatnonzero(self.factor != 1.0)
        saved = _saved_ns(self._given_lengths[changed], self.factor[changed])
        weight: Ints = self._with_saved(changed, saved)[0]
        return weight

    @property
    def tails(self) -> Ints:
        """How long (ns) the window goes on after each of its ends."""
        changed = np.flatnonzero((self.factor != 1.0) & (self.base.parts.edge >= len(self.extra)))
        # No own weight is that of a tail.
        tails: Ints = self._with_saved(changed, _saved_ns(self.base.parts.length[changed], self.factor[changed]))[1]
        return tails

    @property
    def exact_weights(self) -> tuple[Floats, Floats]:
        """The weights (ns) and tails without rounding, for what must be linear in a factor."""
        changed = np.flatnonzero(self.factor != 1.0)
        return self._with_saved(changed, self._given_lengths[changed] * (1.0 - self.factor[changed]))

    def _with_saved(self, changed: Ints, saved: Any) -> tuple[Any, Any]:
        """Take what parts save from the weights of their edges and from the tails of the window's ends."""
        base, sink = self.base, self.base.window.sink
        sums = np.zeros(len(self.extra) + len(sink.ends), saved.dtype)
        np.add.at(sums, base.parts.edge[changed], saved)
        weight = (base.edges.weight + self.extra + self.weighed - sums[: len(self.extra)])[~self.dropped]
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


def check_added_time(added_ns: float, path: Location, window: Window) -> None:
    """Refuse changes that add more time than whole nanoseconds can count on every path.

    Raises:
        QueryError: they add more than a year.
    """
    # Written so that no number at all, infinity times nothing, is refused as well.
    if not added_ns <= LONGEST_NS:
        raise QueryError(
            f"{path}: with these changes {window.label} would have more than a year of further work",
            "give smaller factors",
        )


def _saved_ns(length: Ints, factor: Floats) -> Ints:
    """Return how much shorter (whole ns) lengths become by factors."""
    found: Ints = np.rint(length * (1.0 - factor)).astype(np.int64)
    return found


def _lengthened_parts(length: Ints, edge: Ids, change: Ints) -> Ints:
    """Let the parts of each edge together be longer by a change (ns), in proportion and without rounding anything away.

    >>> _lengthened_parts(np.array([10, 5, 7]), np.array([0, 0, 1]), np.array([-5, -5, 0])).tolist()
    [6, 4, 7]
    """
    rows = np.flatnonzero((change != 0) & (length > 0))
    rows = rows[np.argsort(edge[rows], kind="stable")]
    first = np.flatnonzero(first_of_runs(edge[rows]))
    run = run_numbers(edge[rows])
    reached = np.cumsum(length[rows])
    reached -= np.append(0, reached)[first][run]
    total = reached[np.append(first[1:], len(rows)) - 1][run] if len(rows) else reached
    ends = reached * (total + change[rows]).clip(min=0) // np.maximum(total, 1)
    found = length.copy()
    found[rows] = np.diff(ends, prepend=0)
    found[rows[first]] = ends[first]
    return found
