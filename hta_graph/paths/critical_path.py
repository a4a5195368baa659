"""The critical path: the chain of last-finishing predecessors, which tiles its window to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from hta_graph.base.arrays import first_of_runs, summed_by, take_or, unique_rows
from hta_graph.base.errors import DefectError, QueryError, Remedy, UsageError
from hta_graph.base.text.formatting import html_table, milliseconds
from hta_graph.graph.conversion import labels, none_where, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph, RankSource
from hta_graph.graph.event_names import row_labels
from hta_graph.model import ROLE, Bools, BoundBy, EdgeKind, EdgeRole, Evidence, Ids, Ints, Reason
from hta_graph.paths.binding_edges import Chain, walk_back
from hta_graph.paths.segments import SegmentRuns, SegmentTable, merge_runs, segments_of_paths
from hta_graph.paths.time_accounting import TimeAccounting
from hta_graph.paths.unrecorded_work import replays_with_hole
from hta_graph.paths.window_ends import issue_times
from hta_graph.paths.windows import Window, WindowQuery, median_step, precomputed_windows

if TYPE_CHECKING:
    import pandas as pd


WHOLE_GRAPHS_REMEDY = Remedy(
    "read fewer ranks, or pass summaries=False", "choose a rank with --rank N, or pass --summaries never"
)
"""What helps where a question needs the whole graphs of all ranks."""

TOP_EVENTS = 10
"""How many items a notebook shows of a path."""


class CriticalPath:
    """The critical path of one window: contiguous segments, each with one owner and one class."""

    def __init__(
        self,
        graph: DependencyGraph,
        window: Window,
        chain: Chain,
        segment_table: SegmentTable,
        data_load: Sequence[str] = (),
    ) -> None:
        self.graph = graph
        self.window = window
        self.data_load = data_load
        """Expressions of what loads data; PyTorch's loaders if there are none."""
        self.chain = chain
        """The walk back from the window's sink."""
        self.segment_table = segment_table
        self.answers: dict[Callable[[Any], Any], Any] = {}
        """What was found out about it."""
        self.self_check()

    def __repr__(self) -> str:
        said = f"{milliseconds(self.length_ns)} ms, {len(self.segment_table):,} segments, {self.coverage:.1%} explained"
        return f"<CriticalPath {self.window.label}: {said}>"

    def _repr_html_(self) -> str:
        """Show in a notebook what bounds the window, and the largest items on its path."""
        bounds = sorted(self.by_bound_ns.items(), key=lambda item: -item[1])
        total = max(self.length_ns, 1)
        classes = [(bound, milliseconds(ns), f"{ns / total:.1%}") for bound, ns in bounds if ns]
        events = self.event_totals()
        columns = (events[name][:TOP_EVENTS].tolist() for name in ("name", "bound_by", "time_ns", "calls"))
        longest = [
            (name or "", bound, milliseconds(ns), calls) for name, bound, ns, calls in zip(*columns, strict=True)
        ]
        return html_table(repr(self), ["bound by", "ms", "share"], classes) + html_table(
            "largest items on the path", ["name", "bound by", "ms", "events"], longest
        )

    @property
    def length_ns(self) -> int:
        """The window's length (ns)."""
        return self.window.end_ns - self.window.start_ns

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class, with all ten keys; the values sum to the window."""
        sums = summed_by(self.segment_table.bound, self.segment_table.length, len(BoundBy))
        return {bound.label: int(sums[bound]) for bound in BoundBy}

    @property
    def coverage(self) -> float:
        """The explained share of the window, from 0 to 1; 1 for an empty window."""
        unexplained = self.by_bound_ns[BoundBy.UNEXPLAINED.label]
        return 1.0 - unexplained / self.length_ns if self.length_ns else 1.0

    @cached_property
    def by_rank_ns(self) -> dict[int, int]:
        """Time (ns) on each rank, in order of rank; the values sum to the window."""
        parts = self.graph.rank_graphs
        sums = summed_by(self.segment_table.part, self.segment_table.length, len(parts))
        return {part.rank: int(sums[part.index]) for part in parts}

    @cached_property
    def by_reason_ns(self) -> dict[str, int]:
        """Unexplained time (ns) per reason, longest first; only the reasons that occur."""
        lost = self.segment_table.take(self.segment_table.reason >= 0)
        sums = summed_by(lost.reason, lost.length, len(Reason))
        return {reason.label: int(sums[reason]) for reason in sorted(Reason, key=lambda r: -sums[r]) if sums[reason]}

    @cached_property
    def before_rank_began(self) -> Bools:
        """Mark the segments of a job's path on a rank whose trace had not begun."""
        begins = [int(part.graph.event_table.start.min(initial=self.window.end_ns)) for part in self.graph.rank_graphs]
        is_early = self.segment_table.start < np.array(begins, np.int64)[self.segment_table.part]
        found: Bools = is_early & (self.segment_table.reason == Reason.BEFORE_RECORDING) & (len(begins) > 1)
        return found

    def _carried_over(self, segment_table: SegmentTable) -> Bools:
        """Mark the segments whose event, or the call that launched it, started before the window."""
        # A step's annotation opens before the first row with points; still nothing comes before a whole trace.
        if self.window.is_whole:
            return np.zeros(len(segment_table), np.bool_)
        issued = take_or(issue_times(self.graph), segment_table.event, otherwise=self.window.start_ns)
        early: Bools = issued < self.window.start_ns
        return early

    @cached_property
    def runs(self) -> SegmentRuns:
        """The segments, with long runs of equal class and stack merged; they cover the same window."""
        return merge_runs(self.graph, self.segment_table, self.length_ns)

    def run_columns(self) -> dict[str, Any]:
        """Return the columns of :attr:`runs` as :meth:`segment_columns` does, and two more: segments and inside.

        ``segments`` counts what was merged, ``inside`` names the call around it; ``edge`` is ``None`` where edges
        differ; event, name and carried_over are those of the event that most of the time belongs to.
        """
        runs = self.runs
        columns = self._columns_of(runs)
        columns["edge"] = none_where(columns["edge"], runs.is_mixed)
        inside = texts_of_codes(self.graph.names, take_or(self.graph.event_table.name, runs.inside))
        return {**columns, "segments": runs.segments, "inside": inside}

    def segment_columns(self) -> dict[str, Any]:
        """Return the segments' columns as object or integer arrays; ``None`` where there is no event, edge or lane."""
        return self._columns_of(self.segment_table)

    def _columns_of(self, segment_table: SegmentTable) -> dict[str, Any]:
        events, no_edge = self.graph.event_table, segment_table.edge_kind < 0
        # Nearly all are none: it would be dear to name every one.
        reasons, unknown = np.full(len(segment_table), None, object), np.flatnonzero(segment_table.reason >= 0)
        reasons[unknown] = labels(Reason, segment_table.reason[unknown])
        return {
            "start_ns": segment_table.start,
            "end_ns": segment_table.end,
            "edge": none_where(labels(EdgeKind, segment_table.edge_kind), no_edge),
            "evidence": none_where(labels(Evidence, segment_table.inferred.astype(np.int8)), no_edge),
            "bound_by": labels(BoundBy, segment_table.bound),
            "event_index": none_where(take_or(events.index, segment_table.event), segment_table.event < 0),
            "name": texts_of_codes(self.graph.names, take_or(events.name, segment_table.event)),
            "lane": texts_of_codes(self.graph.lanes.labels, segment_table.lane),
            "carried_over": self._carried_over(segment_table),
            "rank": np.array(self._rank_names(), object)[segment_table.part],
            "reason": reasons,
        }

    def rank_of_segment(self, segment: int) -> int | None:
        """Return the rank that a segment is on."""
        return self._rank_names()[int(self.segment_table.part[segment])]

    def _rank_names(self) -> list[int | None]:
        """Return the number of each rank; of one alone it may not be known."""
        parts = self.graph.rank_graphs
        return [self.graph.rank] if len(parts) == 1 else [part.rank for part in parts]

    def unexplained_columns(self) -> dict[str, Any]:
        """Return the columns of :attr:`unexplained` as arrays."""
        segment_table, events = self.segment_table, self.graph.event_table
        rows = np.flatnonzero(segment_table.reason >= 0)
        # What waited: the owner of a lag that ends in its own start, else whatever the path comes to next.
        waits_itself = np.isin(ROLE[segment_table.edge_kind[rows]], (EdgeRole.STREAM, EdgeRole.RESUMPTION))
        next_owner = np.append(np.flatnonzero(first_of_runs(segment_table.event)), len(segment_table))[
            np.cumsum(first_of_runs(segment_table.event))[rows]
        ]
        waiter = np.where(waits_itself, segment_table.event[rows], np.append(segment_table.event, -1)[next_owner])
        names = self.graph.names
        return {
            "segment": rows,
            "start_ns": segment_table.start[rows],
            "end_ns": segment_table.end[rows],
            "reason": labels(Reason, segment_table.reason[rows]),
            "while_in": texts_of_codes(names, take_or(events.name, segment_table.open_call[rows])),
            "before": texts_of_codes(names, take_or(events.name, waiter)),
            **self._replays_with_hole(rows),
        }

    def _replays_with_hole(self, rows: Ints) -> dict[str, Any]:
        """Count, of each hole in a graph's launch, the replays and those that show it; None for all other rows."""
        in_graph = self.segment_table.reason[rows] == Reason.MISSING_GRAPH_NODE
        own = rows[in_graph]
        counts = (
            replays_with_hole(self.graph, self.segment_table.event[own], self.segment_table.length[own])
            if len(own)
            else ()
        )
        columns = {name: np.full(len(rows), None, object) for name in ("replays", "replays_with_hole")}
        for column, count in zip(columns.values(), counts, strict=False):
            column[in_graph] = count
        return columns

    @cached_property
    def unexplained(self) -> pd.DataFrame:
        """The unexplained segments in order of time, and what was open meanwhile.

        Columns: segment (its row in :attr:`segments`), start_ns, end_ns, reason, while_in (the operator or call that
        the host was in), before (what comes next on the path), replays and replays_with_hole (of a node that
        was not recorded: how many replays of its graph there are, and in how many it is missing); None where nothing
        is known.
        """
        import pandas as pd

        return pd.DataFrame(self.unexplained_columns())

    @cached_property
    def segments(self) -> pd.DataFrame:
        """The segments in order of time, as a DataFrame.

        Columns: start_ns, end_ns, duration_ns, edge, evidence, bound_by, event_index, name, lane, carried_over, rank,
        reason (why it is unexplained; None for all others).
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
        """Return the largest items on the path: name, bound_by, time_ns, calls (events), share; longest first.

        Of a rank, many annotations whose names differ only in numbers are one item, with ``#`` for these.

        In a job one row per rank, with its ``rank``.
        """
        return self._with_shares(self.event_totals())

    def by_lane(self) -> pd.DataFrame:
        """Return time on the path per lane: lane, time_ns, segments, share; longest first; no lane: unexplained.

        In a job one row per rank, with its ``rank``.
        """
        columns = self._totals_by([self.segment_table.lane, self.segment_table.part])
        lane, part = columns["key"]
        return self._with_shares(
            {
                "lane": texts_of_codes(self.graph.lanes.labels, lane),
                "time_ns": columns["time_ns"],
                "segments": columns["segments"],
                **self._ranks_of(part),
            }
        )

    def event_totals(self, owner_of: Ids | None = None) -> dict[str, Any]:
        """Return the columns of :meth:`by_event` without pandas.

        With a code per event, such as that of its operator, items are divided by it; its column is ``owner``.
        """
        codes, texts = row_labels(self.graph)
        events = self.segment_table.event
        further = [] if owner_of is None else [take_or(owner_of, events)]
        columns = self._totals_by([take_or(codes, events), self.segment_table.bound, self.segment_table.part, *further])
        name, bound, part, *owner = columns["key"]
        return {
            "name": texts_of_codes(texts, name),
            "bound_by": labels(BoundBy, bound),
            "time_ns": columns["time_ns"],
            "calls": columns["calls"],
            **self._ranks_of(part),
            **({"owner": owner[0]} if owner else {}),
        }

    def _ranks_of(self, part: Ids) -> dict[str, Any]:
        """Return of a job the ranks at some places, as the column ``rank``."""
        return {"rank": np.array(self._rank_names(), object)[part]} if self.graph.is_job else {}

    def _totals_by(self, keys: list[Any]) -> dict[str, Any]:
        """Sum durations over equal keys, longest first."""
        first, group = unique_rows(*keys)
        unique = np.stack(keys).astype(np.int64)[:, first]
        time = summed_by(group, self.segment_table.length, len(first))
        # An event may own several segments of a group; it is one call.
        calls = np.bincount(group[unique_rows(group, self.segment_table.event)[0]], minlength=len(time))
        order = np.argsort(-time, kind="stable")
        segments = np.bincount(group, minlength=len(time))
        return {"key": unique[:, order], "time_ns": time[order], "calls": calls[order], "segments": segments[order]}

    def _with_shares(self, columns: dict[str, Any]) -> pd.DataFrame:
        import pandas as pd

        frame = pd.DataFrame(columns)
        frame["share"] = frame["time_ns"] / max(self.length_ns, 1)
        return frame

    def summary(self) -> pd.DataFrame:
        """Return one row: label, start_ns, end_ns, cpu_ns, gpu_ns, coverage, and the time of each class (ns).

        A terminal shows it as one line per column.
        """
        from hta_graph.paths.summary_frame import SummaryFrame

        window = self.window
        head = {"label": window.label, "start_ns": window.start_ns, "end_ns": window.end_ns}
        lengths = {"cpu_ns": window.cpu_ns, "gpu_ns": window.gpu_ns, "coverage": self.coverage}
        return SummaryFrame([{**head, **lengths, **self.by_bound_ns}])

    def self_check(self) -> None:
        """Check the invariant: segments are contiguous and sum to the window.

        Raises:
            DefectError: they do not.
        """
        ends = np.concatenate([[self.window.start_ns], self.segment_table.end])
        starts = np.concatenate([self.segment_table.start, [self.window.end_ns]])
        if not np.array_equal(ends, starts):
            at = int(starts[ends != starts][0])
            raise DefectError(f"{self.graph.path}: the segments of {self.window.label} do not tile it at {at}")


@runtime_checkable
class PathSource(RankSource, Protocol):
    """Finds the paths of a graph of rank summaries."""

    def paths(
        self, graph: DependencyGraph, windows: Sequence[WindowQuery], data_load: Sequence[str]
    ) -> list[CriticalPath]:
        """Return the paths of windows of the graph; ``data_load`` are regular expressions of what loads data.

        Raises:
            QueryError: there is no such window.
            HtaGraphError: a file cannot be read again.
        """


def has_partial_rows(graph: DependencyGraph) -> bool:
    """Return whether a graph holds rank summaries, so that paths need the ranks' files."""
    return isinstance(graph.source, PathSource)


def require_all_rows(graph: DependencyGraph, what: str) -> None:
    """Refuse a question that rank summaries cannot answer.

    Raises:
        QueryError: it does.
    """
    if has_partial_rows(graph):
        raise QueryError(f"{graph.path}: {what} needs all events of all ranks", WHOLE_GRAPHS_REMEDY)


def critical_path(
    graph: DependencyGraph, window: WindowQuery | None = None, *, data_load: Sequence[str] = ()
) -> CriticalPath:
    """Extract the critical path of a window; ``hta_graph.critical_path`` adds files and explains the arguments.

    Raises:
        QueryError: the window is not in the trace, or a pattern is not a regular expression.
        UsageError: the window is not one, such as a number.
    """
    if window is not None and not callable(window):
        raise UsageError(f"{window!r} is not a window; use {_suggest_window(window)}")
    (path,) = critical_paths(graph, [window or median_step()], data_load=data_load)
    return path


def critical_paths(
    graph: DependencyGraph, windows: Sequence[WindowQuery], *, data_load: Sequence[str] = ()
) -> list[CriticalPath]:
    """Extract the critical paths of several windows at once, which is faster than one by one.

    Raises:
        QueryError: as :func:`critical_path`.
    """
    if not windows:
        return []
    if isinstance(graph.source, PathSource):
        return graph.source.paths(graph, windows, data_load)
    if precomputed_windows(graph) is not None:
        raise QueryError(f"{graph.path}: holds only a rank summary; read this rank's file alone")
    resolved = [window(graph) for window in windows]
    accounting = TimeAccounting(graph, data_load)
    chains = [walk_back(graph, window.sink.point, window.start_ns) for window in resolved]
    segment_table = segments_of_paths(graph, chains, resolved, accounting)
    return [CriticalPath(graph, *of, data_load) for of in zip(resolved, chains, segment_table, strict=True)]


def _suggest_window(window: object) -> str:
    """Guess the window that someone meant who gave a number, a name or two times.

    >>> _suggest_window(16), _suggest_window("forward"), _suggest_window((5, 9)), _suggest_window(None)
    ('step(16)', "annotation('forward')", 'between(5, 9)', 'step(N)')
    """
    if isinstance(window, int):
        return f"step({window})"
    if isinstance(window, str):
        return f"annotation({window!r})"
    return f"between{window!r}" if isinstance(window, tuple) and len(window) == 2 else "step(N)"
