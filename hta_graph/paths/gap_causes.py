"""Why nothing ran: the accounting of gaps between GPU activities in the words of their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of, start_point
from hta_graph.model import EDGE_MEANING, Codes, EdgeEnd, EdgeKind, EventKind, GapCause, Ids, Ints
from hta_graph.paths.binding_edges import Stretches, binding_edges
from hta_graph.paths.gaps import Gaps, walk_gaps
from hta_graph.paths.time_accounting import AccountedTime, TimeAccounting, TimePart

__all__ = ["GapExplainer", "GapSegments"]

CAUSE_OF_EDGE = np.array(
    [GapCause.UNKNOWN if (cause := EDGE_MEANING[kind].gap) is None else cause for kind in EdgeKind], np.int8
)
NAMED_BY_SOURCE = np.array([EDGE_MEANING[kind].gap_owner == EdgeEnd.SOURCE for kind in EdgeKind])

SILENT = (GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER, GapCause.UNKNOWN)
"""Causes that would hide a late host, where the next activity's launch is not in the file."""


@dataclass(frozen=True, eq=False)
class GapSegments(Columns):
    """Parts of gaps, each with one cause; those of a gap tile it, to the nanosecond.

    ``event`` is the row behind it (canonical; -1: none): the operator, call, frame, or the activity waited for.
    ``edge`` is the one that explains it (-1: none).
    """

    gap: Ints
    start: Ints
    end: Ints
    cause: Codes
    event: Ids
    edge: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start


class GapExplainer:
    """Explains gaps of one graph by the edges that bound the start of what came next.

    The same rules as for the critical path hold: of two causes the one that finished last binds, and a lag counts as
    explained up to max(50 µs, 5 × the trace's median for its kind), next to its target. ``data_load`` are expressions
    of operators and annotations that mean data loading, PyTorch's if none are given.
    """

    def __init__(self, graph: DependencyGraph, data_load: Sequence[str] = ()) -> None:
        self._graph = graph
        self._accounting = TimeAccounting(graph, data_load)

    def binding_edge(self, activities: Ids) -> Ids:
        """Return the edge that bound the start of each activity (canonical row); -1 for none, and for row -1."""
        found: Ids = take_or(binding_edges(self._graph), np.where(activities >= 0, start_point(activities), -1))
        return found

    def explain(self, gaps: Gaps) -> GapSegments:
        """Return the parts of gaps with their causes, in order of gap and time."""
        stretches = walk_gaps(self._graph, gaps)
        accounts = self._accounting.divide(stretches, gaps.start, gaps.end)
        of = stretches.take(accounts.stretch)
        cause, event = self._cause_of_pieces(accounts, of), self._events_behind(accounts, of)
        # Before an activity whose launch is not in the file, stream order may hide that the host was late.
        after = gaps.after[of.walk]
        hidden = (self._graph.launching_call[after] < 0) & np.isin(cause, SILENT)
        known = GapSegments.of(
            gap=of.walk, start=accounts.start, end=accounts.end, edge=of.edge,
            cause=np.where(hidden, GapCause.LAUNCH_UNKNOWN, cause), event=np.where(hidden, after, event),
        )  # fmt: skip
        pieces = GapSegments.join([_gaps_without_successor(gaps), known])
        return pieces.take(np.lexsort((pieces.start, pieces.gap)))

    def _cause_of_pieces(self, accounts: AccountedTime, of: Stretches) -> Codes:
        part, owner = accounts.part, accounts.owner
        # What the edge says holds, unless what the part is says more, and then who owns it.
        cause = np.append(CAUSE_OF_EDGE, np.int8(GapCause.UNKNOWN))[of.kind]
        waits = (part == TimePart.PENDING) & self._graph.marks.waits_on_device[event_of(of.source)]
        cause[waits] = GapCause.EVENT_WAIT
        cause[part == TimePart.EXCESS] = GapCause.UNKNOWN
        cause[(part == TimePart.START) & (owner >= 0)] = GapCause.HOST_NO_OPERATOR
        works, idle = part == TimePart.WORK, part == TimePart.IDLE
        cause[idle] = GapCause.HOST_NO_OPERATOR
        cause[works] = self._cause_of_work(owner[works])
        cause[(works | idle) & accounts.is_loading] = GapCause.DATA_LOADING
        return cause

    def _cause_of_work(self, owner: Ids) -> Codes:
        in_call = self._graph.event_table.kind[owner] == EventKind.RUNTIME
        cause = np.where(in_call, GapCause.HOST_CALL, GapCause.HOST_OPERATOR)
        return np.where(self._graph.marks.blocking_call[owner], GapCause.HOST_BLOCKED, cause).astype(np.int8)

    def _events_behind(self, accounts: AccountedTime, of: Stretches) -> Ids:
        """Return after whom each part is named: its owner, or one side of the edge; of an excess what came late."""
        by_source = np.append(NAMED_BY_SOURCE, False)[of.kind] & (accounts.part != TimePart.EXCESS)
        side = event_of(np.where(by_source, of.source, of.target))
        on_thread = ~self._graph.lanes.is_stream[of.lane]
        owned = np.isin(accounts.part, (TimePart.WORK, TimePart.IDLE)) | (on_thread & (accounts.part == TimePart.START))
        return np.where(owned, accounts.owner, side).astype(np.int32)


def _gaps_without_successor(gaps: Gaps) -> GapSegments:
    """Gaps after which no activity follows."""
    gap = np.flatnonzero(gaps.after < 0)
    start, end = gaps.start[gap], gaps.end[gap]
    return GapSegments.of(gap=gap, start=start, end=end, cause=GapCause.NO_MORE_WORK, event=-1, edge=-1)
