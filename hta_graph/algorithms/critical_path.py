"""The critical path: the chain of last-finishing predecessors, which tiles its window to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.algorithms.classify import PathClassifier, data_loading_patterns, explained_lags
from hta_graph.algorithms.pieces import Pieces
from hta_graph.algorithms.walk import binding_edges, walk_back
from hta_graph.algorithms.windows import ResolvedWindow, Window, first_busy_step
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, EdgeKind, Evidence
from hta_graph.trace.vocabulary import DATA_LOADING
from hta_graph.views import labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CriticalPath", "critical_path"]


class CriticalPath:
    """The segments of one window: contiguous, each with one owner and one class, and their sums."""

    def __init__(self, graph: DependencyGraph, window: ResolvedWindow, pieces: Pieces) -> None:
        self.graph = graph
        self.window = window
        self.pieces = pieces

    def __repr__(self) -> str:
        return f"<CriticalPath {self.window.label}: {len(self.pieces):,} segments, coverage {self.coverage:.1%}>"

    @property
    def length_ns(self) -> int:
        """The window's length."""
        return self.window.end_ns - self.window.start_ns

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class; all ten keys, they sum to the window."""
        sums = np.zeros(len(BoundBy), np.int64)
        np.add.at(sums, self.pieces.bound, self.pieces.end - self.pieces.start)
        return {bound.label: int(sums[bound]) for bound in BoundBy}

    @property
    def coverage(self) -> float:
        """1 − unexplained / window; 1 for an empty window."""
        unexplained = self.by_bound_ns[BoundBy.UNEXPLAINED.label]
        return 1.0 - unexplained / self.length_ns if self.length_ns else 1.0

    @cached_property
    def carried_over(self) -> Bools:
        """Mark the segments whose event, or the call that launched it, started before the window."""
        events, edges = self.graph.trace.events, self.graph.edge_table
        issued = events.start.copy()
        launch = edges.kind == EdgeKind.LAUNCH
        np.minimum.at(issued, edges.target[launch] >> 1, events.start[edges.source[launch] >> 1])
        return (
            (self.pieces.event >= 0) & (issued[self.pieces.event] < self.window.start_ns)
            if len(events)
            else self.pieces.inferred
        )

    def segment_columns(self) -> dict[str, Any]:
        """Return the segments' columns as object or integer arrays; ``None`` where there is no event, edge or lane."""
        pieces, trace = self.pieces, self.graph.trace
        no_event, no_edge = pieces.event < 0, pieces.edge_kind < 0
        return {
            "start_ns": pieces.start,
            "end_ns": pieces.end,
            "edge": _or_none(labels(EdgeKind, pieces.edge_kind), no_edge),
            "evidence": _or_none(labels(Evidence, pieces.inferred.astype(np.int8)), no_edge),
            "bound_by": labels(BoundBy, pieces.bound),
            "event_index": _or_none(_chosen(trace.events.index, pieces.event), no_event),
            "name": _or_none(_chosen(trace.names, _chosen(trace.events.name, pieces.event).astype(int)), no_event),
            "lane": _or_none(_chosen(trace.lanes.labels, pieces.lane), pieces.lane < 0),
            "carried_over": self.carried_over,
        }

    @cached_property
    def segments(self) -> pd.DataFrame:
        """The segments in order of time.

        Columns: start_ns, end_ns, duration_ns, edge, evidence, bound_by, event_index, name, lane, carried_over.
        """
        import pandas as pd

        frame = pd.DataFrame(self.segment_columns())
        frame["event_index"] = frame["event_index"].astype("Int64")
        frame.insert(2, "duration_ns", frame["end_ns"] - frame["start_ns"])
        return frame

    def by_bound(self) -> pd.DataFrame:
        """Return time per class, longest first: bound_by, time_ns, share (of the window)."""
        import pandas as pd

        frame = pd.DataFrame(list(self.by_bound_ns.items()), columns=["bound_by", "time_ns"])
        frame["share"] = frame["time_ns"] / max(self.length_ns, 1)
        return frame.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)

    def by_event(self) -> pd.DataFrame:
        """Return what to optimise first: name, bound_by, time_ns on the path, calls (events), share; longest first."""
        return self._frame(self.event_totals())

    def by_lane(self) -> pd.DataFrame:
        """Return time on the path per lane: lane, time_ns, segments, share; longest first; no lane: unexplained."""
        lanes = np.array([*self.graph.trace.lanes.labels, None], object)
        columns = self._totals([self.pieces.lane])
        return self._frame(
            {"lane": lanes[columns["key"][0]], "time_ns": columns["time_ns"], "segments": columns["segments"]}
        )

    def event_totals(self) -> dict[str, Any]:
        """Return the columns of :meth:`by_event` without pandas."""
        events = self.graph.trace.events
        name = (
            np.where(self.pieces.event >= 0, events.name[self.pieces.event], -1) if len(events) else self.pieces.event
        )
        columns = self._totals([name, self.pieces.bound])
        names = np.array([*self.graph.trace.names, None], object)[columns["key"][0]]
        return {
            "name": names,
            "bound_by": labels(BoundBy, columns["key"][1]),
            "time_ns": columns["time_ns"],
            "calls": columns["calls"],
        }

    def _totals(self, keys: list[Any]) -> dict[str, Any]:
        """Sum durations over equal keys, longest first."""
        unique, group = np.unique(np.stack(keys).astype(np.int64), axis=1, return_inverse=True)
        group = group.reshape(-1)
        time = np.zeros(unique.shape[1], np.int64)
        np.add.at(time, group, self.pieces.end - self.pieces.start)
        pairs = np.unique(np.stack([group, self.pieces.event]), axis=1)
        calls = np.bincount(pairs[0], minlength=len(time))
        order = np.argsort(-time, kind="stable")
        segments = np.bincount(group, minlength=len(time))
        return {"key": unique[:, order], "time_ns": time[order], "calls": calls[order], "segments": segments[order]}

    def _frame(self, columns: dict[str, Any]) -> pd.DataFrame:
        import pandas as pd

        frame = pd.DataFrame(columns)
        frame["share"] = frame["time_ns"] / max(self.length_ns, 1)
        return frame

    def summary(self) -> pd.DataFrame:
        """Return one row: label, start_ns, end_ns, cpu_ns, gpu_ns, coverage, and the time of each class (ns)."""
        import pandas as pd

        window = self.window
        head = {"label": window.label, "start_ns": window.start_ns, "end_ns": window.end_ns}
        lengths = {"cpu_ns": window.cpu_ns, "gpu_ns": window.gpu_ns, "coverage": self.coverage}
        return pd.DataFrame([{**head, **lengths, **self.by_bound_ns}])

    def self_check(self) -> None:
        """Check the invariant: segments are contiguous and sum to the window.

        Raises:
            AssertionError: they do not; a defect of this package.
        """
        edges = np.concatenate([[self.window.start_ns], self.pieces.end])
        starts = np.concatenate([self.pieces.start, [self.window.end_ns]])
        if not np.array_equal(edges, starts):
            raise AssertionError(f"segments do not tile the window at {starts[edges != starts][:3]}")


def critical_path(
    graph: DependencyGraph, window: Window | None = None, *, data_load: Sequence[str] = DATA_LOADING
) -> CriticalPath:
    """Extract the critical path of a window.

    Args:
        graph: a dependency graph.
        window: :func:`step`, :func:`annotation`, :func:`between` or :func:`whole`; without one the first step that
            launched GPU work, else the first step, else the whole trace.
        data_load: regular expressions over operator and annotation names that mean data loading.

    Returns:
        segments that tile the window; what no edge explains is ``unexplained``.

    Raises:
        QueryError: the window is not in the trace, or a pattern is no regular expression.
    """
    resolved = (window or first_busy_step())(graph)
    binding = binding_edges(graph.edge_table, graph)
    sink = resolved.sink.point
    chain = walk_back(graph, binding, sink, resolved.start_ns) if sink >= 0 else None
    classifier = PathClassifier(graph, explained_lags(graph, binding), data_loading_patterns(data_load))
    return CriticalPath(graph, resolved, classifier.pieces(chain, resolved))


def _chosen(values: Any, rows: Any) -> Any:
    """Pick values as objects; any value where the row is -1, the first or none where there are no values at all."""
    return np.array(values if len(values) else [0], dtype=object)[rows if len(values) else rows * 0]


def _or_none(values: Any, absent: Bools) -> Any:
    values[absent] = None
    return values
