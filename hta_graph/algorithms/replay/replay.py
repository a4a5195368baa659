"""Replay: every point of a window at the earliest time that its edges allow, after changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.algorithms.replay.changes import Change
from hta_graph.algorithms.replay.draft import Draft
from hta_graph.algorithms.replay.replayable import Replayable
from hta_graph.algorithms.time.median_step import median_step
from hta_graph.algorithms.time.windows import Window
from hta_graph.columns import distinct, freeze, picked, summed_by
from hta_graph.graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.remembered import remembered
from hta_graph.graph.views import labels, texts_of_codes
from hta_graph.model import Bools, BoundBy, Floats, Ints
from hta_graph.shown import milliseconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PathTotals", "Replayed", "path_of_draft", "recorded_path", "replay", "replayable"]


@dataclass(frozen=True)
class PathTotals:
    """What a path through a window consists of, after changes or without.

    ``rows`` are the parts (rows of ``base.parts``) on the path and ``length`` how long (ns) each is.
    """

    base: Replayable
    rows: Ints
    length: Ints

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class, all ten; they sum to the window, but for what was inserted."""
        sums = summed_by(self.base.parts.bound[self.rows], self.length, len(BoundBy))
        return {bound.label: int(sums[bound]) for bound in BoundBy}

    @cached_property
    def by_rank_ns(self) -> dict[int, int]:
        """Time (ns) on each rank."""
        parts = self.base.graph.parts
        sums = summed_by(self.base.part_rank[self.rows], self.length, len(parts))
        return {part.rank: int(sums[part.place]) for part in parts}

    def by_name(self, meant: Bools | None = None) -> dict[str, Any]:
        """Return the columns name (whose the time is), bound_by, rank, time_ns, longest first; of some parts or all."""
        base, graph = self.base, self.base.graph
        chosen = slice(None) if meant is None else meant[self.rows]
        rows, length = self.rows[chosen], self.length[chosen]
        names = picked(graph.event_table.name, base.parts.owner[rows]).astype(np.int64)
        # Numbers sort many times faster than rows of three.
        shape = (len(graph.names) + 1, len(BoundBy), len(graph.parts))
        key = np.ravel_multi_index((names + 1, base.parts.bound[rows], base.part_rank[rows]), shape)
        unique = distinct(key)
        time = summed_by(np.searchsorted(unique, key), length, len(unique))
        order = np.argsort(-time, kind="stable")[: np.count_nonzero(time)]
        name, bound, rank = np.unravel_index(unique[order], shape)
        return {
            "name": texts_of_codes(graph.names, name - 1),
            "bound_by": labels(BoundBy, bound.astype(np.int8)),
            "rank": np.array([part.rank for part in graph.parts], object)[rank],
            "time_ns": time[order],
        }


class Replayed:
    """A window after changes: when every point would have been, how long the window would be, and its new path."""

    def __init__(self, draft: Draft, changes: Sequence[Change]) -> None:
        self.draft = draft
        self.changes = tuple(changes)
        self.window = draft.base.window
        self._paths = draft.shape()[1]

    def __repr__(self) -> str:
        said = f"{milliseconds(self.measured_ns)} → {milliseconds(self.predicted_ns)} ms"
        return f"<Replayed {self.window.label}: {said}, {self.frozen_share:.1%} frozen>"

    @property
    def graph(self) -> DependencyGraph:
        """The graph that is replayed."""
        return self.draft.base.graph

    @cached_property
    def times(self) -> Ints:
        """The time (ns) of every point: that of a start at 2 × row of ``graph.events``, of its end one further."""
        return freeze(self._values[:-1])

    @cached_property
    def _values(self) -> Ints:
        values: Ints = self._paths.values(self._weight, self.draft.base.times)
        return values

    @cached_property
    def _weight(self) -> Ints:
        return self.draft.weight

    @property
    def measured_ns(self) -> int:
        """The window's length as recorded."""
        return self.draft.base.length_ns

    @cached_property
    def predicted_ns(self) -> int:
        """The window's length after the changes."""
        return self.draft.base.end_of(self._values, self.draft.tails) - self.window.start_ns

    @property
    def identity_ns(self) -> int:
        """The window's length in replay without any change; it is the recorded one."""
        return recorded_path(self.draft.base)[1] - self.window.start_ns

    @property
    def saved_ns(self) -> int:
        """By how much the window becomes shorter; below 0 it becomes longer."""
        return self.measured_ns - self.predicted_ns

    @cached_property
    def path_after(self) -> PathTotals:
        """What the window's path consists of after the changes."""
        return path_of_draft(self.draft, self._values, self._weight, self.draft.tails)

    @property
    def frozen_share(self) -> float:
        """The share of the recorded path that no change moves: unexplained, or communication without a partner."""
        return _frozen_share(self.draft.base)

    @property
    def inferred_share(self) -> float:
        """The share of the recorded path's time on edges that a rule deduced."""
        return _inferred_share(self.draft.base)

    @property
    def events(self) -> pd.DataFrame:
        """The events of the window that have points, with their predicted times.

        Columns: those of ``graph.events``, predicted_start_ns, predicted_end_ns.
        """
        inside = self.draft.base.is_inside
        rows = np.flatnonzero((inside[:-1:2] | inside[1::2]) & (self.graph.timeline.position[0::2] >= 0))
        frame = self.graph.events_of(rows)
        frame["predicted_start_ns"], frame["predicted_end_ns"] = self.times[2 * rows], self.times[2 * rows + 1]
        return frame


def replayable(graph: DependencyGraph, window: Window | None = None) -> Replayable:
    """Make a window of a graph ready for replay; one window is kept with the graph.

    Raises:
        QueryError: the window is not in the trace.
    """
    resolved = (window or median_step())(graph)
    kept = graph.answers.get(replayable)
    if kept is None or kept.window != resolved:
        kept = graph.answers[replayable] = Replayable(graph, resolved)
    found: Replayable = kept
    return found


def replay(graph: DependencyGraph, changes: Sequence[Change] | Change = (), window: Window | None = None) -> Replayed:
    """Predict a window after changes: every point at the latest of (source + weight) over its edges.

    Args:
        graph: one rank's or a job's; of a job ranks wait for each other anew.
        changes: :func:`scale`, :func:`remove`, :func:`insert`, :func:`reroute`, :func:`weigh`, :func:`scenario`, or
            functions of one's own that edit a :class:`Draft`; they apply in order.
        window: as for :func:`critical_path`.

    Returns:
        times per point, the predicted length and the new path; without changes all that was recorded.

    Raises:
        QueryError: the window is not in the trace, or a change names nothing in it or closes a cycle.
    """
    draft = Draft(replayable(graph, window))
    listed = [changes] if callable(changes) else list(changes)
    for change in listed:
        change(draft)
    return Replayed(draft, listed)


def path_of_draft(draft: Draft, values: Ints | Floats, weight: Ints | Floats, tails: Ints | Floats) -> PathTotals:
    """Trace the path of a draft back from the point with which its window ends, and find the parts that it passes.

    Args:
        draft: a window with changes.
        values: the times of all points with them.
        weight: the weights that led to these.
        tails: how long (ns) the window goes on after each of its ends.
    """
    base, paths = draft.base, draft.shape()[1]
    last = base.last_of(values, tails)
    if last < 0:
        return PathTotals(base, np.empty(0, np.int64), np.empty(0, np.int64))
    passed = paths.trace_back(weight, values, int(base.window.sink.ends[last]))
    kept = np.flatnonzero(~draft.dropped)
    on_path = np.zeros(len(base.edges.row) + len(tails), np.bool_)
    on_path[kept[passed[passed < len(kept)]]] = True
    on_path[len(base.edges.row) + last] = True
    rows = np.flatnonzero(on_path[base.parts.edge])
    return PathTotals(base, rows, draft.lengths[rows])


@remembered
def recorded_path(base: Replayable) -> tuple[PathTotals, int]:
    """Return what the window's path consists of as recorded, and where it ends (ns) in replay."""
    times = base.paths.values(base.edges.weight, base.times)
    tails = base.window.sink.tails
    return path_of_draft(Draft(base), times, base.edges.weight, tails), base.end_of(times, tails)


def _frozen_share(base: Replayable) -> float:
    """Return the share of the recorded path that no change moves.

    That is what nothing explains, and communication whose partners are not known: it may have waited for them.
    """
    path, end = recorded_path(base)
    parts, alone = base.parts.take(path.rows), _without_partner(base.graph)
    frozen = (parts.bound == BoundBy.UNEXPLAINED) | picked(alone, parts.owner, otherwise=False)
    return int(path.length[frozen].sum()) / max(end - base.window.start_ns, 1)


def _without_partner(graph: DependencyGraph) -> Bools:
    """Mark the activities that communicate and were matched with nobody."""
    alone: Bools = graph.marks.communicates | graph.lanes.is_communication[graph.event_table.lane]
    if isinstance(graph, JobGraph):
        alone = alone.copy()
        alone[graph.members.row[graph.members.number >= 0]] = False
    return alone


def _inferred_share(base: Replayable) -> float:
    """Return the share of the recorded path's time that lies on edges which a rule deduced."""
    path, end = recorded_path(base)
    row = picked(base.edges.row, np.where(base.parts.edge < len(base.edges.row), base.parts.edge, -1)[path.rows])
    inferred = picked(base.graph.edge_table.inferred, row, otherwise=False)
    return int(path.length[inferred].sum()) / max(end - base.window.start_ns, 1)
