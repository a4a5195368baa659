"""Why nothing ran: the causes of gaps between GPU activities, with the edge that explains each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from hta_graph.algorithms.activities import waits_on_device
from hta_graph.algorithms.attribution import launching_calls, open_on_thread
from hta_graph.algorithms.classify import RESUMPTIONS, RETURNS, data_loading_patterns, explained_lags
from hta_graph.algorithms.gap_walk import Gaps, Stretches, walk_gaps
from hta_graph.algorithms.intervals import union
from hta_graph.algorithms.pieces import split
from hta_graph.algorithms.walk import binding_edges
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, Codes, EdgeKind, EventKind, Ids, Ints
from hta_graph.timeline import Nesting
from hta_graph.trace.vocabulary import BLOCKING_CALL, DATA_LOADING

__all__ = ["GapCause", "GapExplainer", "GapPieces"]


class GapCause(IntEnum):
    """What kept the next activity from starting."""

    HOST_OPERATOR = 0
    """The launching thread worked in an operator."""
    HOST_CALL = 1
    """The launching thread was in a runtime call: allocation, event, another launch."""
    HOST_BLOCKED = 2
    """The launching thread was in a synchronising call, or in a copy that blocks."""
    HOST_NO_OPERATOR = 3
    """The launching thread had no operator open: Python, the framework."""
    DATA_LOADING = 4
    """The launching thread loaded data."""
    OTHER_THREAD = 5
    """Another thread handed the work over, or held the driver's lock."""
    QUEUE_FULL = 6
    """The launch waited for room in the stream's queue."""
    LAUNCH = 7
    """The launch was under way, from the call's start to the activity's."""
    STREAM_ORDER = 8
    """Launched in time; the stream went from one activity to the next."""
    GRAPH_ORDER = 9
    """The same between the nodes of a graph, or a graph and the work around it."""
    EVENT_WAIT = 10
    """The stream waited for an event of another stream."""
    LAUNCH_UNKNOWN = 11
    """The launching call is not in the file, so the host may have been late or not."""
    UNKNOWN = 12
    """Nothing recorded explains it."""
    NO_MORE_WORK = 13
    """No activity follows in the trace."""

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


CAUSE_OF_EDGE = {
    **dict.fromkeys(RETURNS, GapCause.HOST_BLOCKED),
    **dict.fromkeys(RESUMPTIONS, GapCause.OTHER_THREAD),
    EdgeKind.RUNTIME_LOCK: GapCause.OTHER_THREAD,
    EdgeKind.QUEUE_FULL: GapCause.QUEUE_FULL,
    EdgeKind.LAUNCH: GapCause.LAUNCH,
    EdgeKind.STREAM_ORDER: GapCause.STREAM_ORDER,
    EdgeKind.GRAPH_ORDER: GapCause.GRAPH_ORDER,
    EdgeKind.EVENT_WAIT: GapCause.EVENT_WAIT,
}
"""The cause of the time before an edge's target, for all kinds but thread order, whose time has an owner."""

NAMED_BY_SOURCE = (
    EdgeKind.LAUNCH,
    EdgeKind.QUEUE_FULL,
    EdgeKind.STREAM_ORDER,
    EdgeKind.GRAPH_ORDER,
    EdgeKind.EVENT_WAIT,
)
"""Edges whose time is named after what was waited for; that of the others after what waited."""


@dataclass(frozen=True)
class GapPieces:
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

    def take(self, chosen: Bools | Ints) -> GapPieces:
        """Select pieces."""
        return GapPieces(*(getattr(self, name)[chosen] for name in GapPieces.__annotations__))


class GapExplainer:
    """Explains gaps of one graph by the edges that bound the start of what came next.

    The same rules as for the critical path hold: of two causes the one that finished last binds, and a lag counts as
    explained up to max(50 µs, 5 × the trace's median for its kind), next to its target. ``data_load`` are expressions
    of operators and annotations that mean data loading.
    """

    def __init__(self, graph: DependencyGraph, data_load: Sequence[str] = DATA_LOADING) -> None:
        self._graph = graph
        self._data_load = data_loading_patterns(data_load)
        self._events = graph.trace.events
        self._edges = graph.edge_table
        self._binding = binding_edges(graph.edge_table, graph)
        self._limits = explained_lags(graph, self._binding)
        self._calls = launching_calls(graph)
        self._waits = waits_on_device(graph.trace)
        self._blocks = graph.trace.names_starting_with(BLOCKING_CALL)

    def binding_edge(self, activities: Ids) -> Ids:
        """Return the edge that bound the start of each activity (canonical row); -1 for none, and for row -1."""
        found: Ids = np.where(activities >= 0, self._binding[2 * activities], -1).astype(np.int32)
        return found

    def explain(self, gaps: Gaps) -> GapPieces:
        """Return the parts of gaps with their causes, in order of gap and time."""
        found = walk_gaps(self._graph, self._binding, gaps)
        kind = np.where(found.edge >= 0, self._edges.kind[found.edge], -1) if len(self._edges) else found.edge
        on_thread = (kind == EdgeKind.THREAD_ORDER) & ~found.pending
        lag = (kind >= 0) & ~on_thread & ~found.pending
        pieces = _joined([
            _unfollowed(gaps),
            *self._unled(found.take(kind < 0)),
            self._pending(found.take(found.pending)),
            *self._lags(found.take(lag)),
            *self._on_threads(found.take(on_thread)),
        ])  # fmt: skip
        pieces = replace(pieces, end=np.minimum(pieces.end, gaps.end[pieces.gap]))
        return self._without_launch(pieces.take(pieces.end > pieces.start), gaps)

    def _without_launch(self, pieces: GapPieces, gaps: Gaps) -> GapPieces:
        """Before an activity whose launch is not in the file, stream order may hide that the host was late."""
        after = gaps.after[pieces.gap]
        silent = (GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER, GapCause.UNKNOWN)
        orphan = (after >= 0) & (self._calls[after] < 0) & np.isin(pieces.cause, silent)
        cause = np.where(orphan, GapCause.LAUNCH_UNKNOWN, pieces.cause).astype(np.int8)
        event = np.where(orphan, after, pieces.event).astype(np.int32)
        pieces = replace(pieces, cause=cause, event=event)
        return pieces.take(np.lexsort((pieces.start, pieces.gap)))

    def _unled(self, found: Stretches) -> list[GapPieces]:
        """Time before a point to which nothing is known to have led: a gap of its thread where a row shows it alive."""
        lane = self._events.lane[found.target >> 1]
        on_gpu = self._graph.trace.lanes.is_stream[lane]
        parts = [_pieces(found.take(on_gpu), GapCause.UNKNOWN, found.target[on_gpu] >> 1)]
        for thread in np.unique(lane[~on_gpu]).tolist():
            idle = self._without_operator(found.take(~on_gpu & (lane == thread)), thread)
            cause = np.where(idle.event >= 0, GapCause.HOST_NO_OPERATOR, GapCause.UNKNOWN)
            parts.append(replace(idle, cause=cause.astype(np.int8)))
        return parts

    def _pending(self, found: Stretches) -> GapPieces:
        """Time before the source of an edge, while that had yet to get there."""
        cause = _cause_of(self._edges.kind[found.edge])
        waits = self._waits[self._edges.source[found.edge] >> 1]
        return _pieces(found, np.where(waits, GapCause.EVENT_WAIT, cause), self._named(found))

    def _lags(self, found: Stretches) -> list[GapPieces]:
        """Time between source and target: what is next to the target is explained, a launching call is its own."""
        kind = self._edges.kind[found.edge]
        launches = kind == EdgeKind.LAUNCH
        returned = np.where(launches, self._events.end[self._edges.source[found.edge] >> 1], found.start)
        returned = np.clip(returned, found.start, found.end)
        known_from = np.maximum(returned, found.end - self._limits[kind])
        named = self._named(found)
        cause = _cause_of(kind)
        return [
            _pieces(replace(found, end=returned), cause, named),
            _pieces(replace(found, start=returned, end=known_from), GapCause.UNKNOWN, found.target >> 1),
            _pieces(replace(found, start=known_from), cause, named),
        ]

    def _named(self, found: Stretches) -> Ids:
        by_source = np.isin(self._edges.kind[found.edge], NAMED_BY_SOURCE)
        return np.where(by_source, self._edges.source[found.edge] >> 1, found.target >> 1)

    def _on_threads(self, found: Stretches) -> list[GapPieces]:
        """Time on a launching thread: the innermost open row's, else the innermost frame's or annotation's."""
        place = np.full(2 * len(self._events), -1, np.int32)
        calls = self._graph.timeline.calls
        place[calls.points] = np.arange(len(calls.points), dtype=np.int32)
        owner = calls.owner[place[found.target] - 1] if len(found.gap) else found.target
        lane = self._events.lane[found.target >> 1]
        parts = []
        for thread in np.unique(lane).tolist():
            works, waits = (lane == thread) & (owner >= 0), (lane == thread) & (owner < 0)
            busy = _pieces(found.take(works), self._work(owner[works]), owner[works])
            parts += [self._loaded(part, thread) for part in (busy, self._without_operator(found.take(waits), thread))]
        return parts

    def _work(self, owner: Ids) -> Codes:
        in_call = self._events.kind[owner] == EventKind.RUNTIME
        blocked = in_call & self._blocks[self._events.name[owner]]
        cause = np.where(in_call, GapCause.HOST_CALL, GapCause.HOST_OPERATOR)
        return np.where(blocked, GapCause.HOST_BLOCKED, cause).astype(np.int8)

    def _without_operator(self, found: Stretches, lane: int) -> GapPieces:
        pieces = _pieces(found, GapCause.HOST_NO_OPERATOR, np.full(len(found.gap), -1, np.int32))
        cuts, owner = open_on_thread(self._graph, lane, self._frames)
        if not len(cuts):
            return pieces
        cut = _cut(pieces, cuts)
        at = np.searchsorted(cuts, cut.start, side="right") - 1
        return replace(cut, event=np.where(at >= 0, owner[at], -1).astype(np.int32))

    @cached_property
    def _frames(self) -> Sequence[Nesting]:
        """Who may own a gap between operators: Python frames, else annotations."""
        lookups = self._graph.timeline.lookups
        return [lookups(EventKind.PYTHON_FUNCTION), lookups(EventKind.ANNOTATION)]

    def _loaded(self, pieces: GapPieces, lane: int) -> GapPieces:
        """Reclassify what lies inside a data-loading row of the thread."""
        rows = self._loading[self._events.lane[self._loading] == lane]
        loading = union(self._events.start[rows], self._events.end[rows])
        if not len(loading.start):
            return pieces
        cut = _cut(pieces, np.unique(np.concatenate([loading.start, loading.end])))
        inside = loading.covered_until(cut.end) > loading.covered_until(cut.start)
        return replace(cut, cause=np.where(inside, GapCause.DATA_LOADING, cut.cause).astype(np.int8))

    @cached_property
    def _loading(self) -> Ints:
        events = self._events
        may_load = (events.kind == EventKind.CPU_OP) | (events.kind == EventKind.ANNOTATION)
        named = self._graph.trace.matching_names(*self._data_load)[events.name]
        return np.flatnonzero(may_load & named)


def _cause_of(kind: Codes) -> Codes:
    table = np.full(len(EdgeKind), GapCause.UNKNOWN, np.int8)
    table[list(CAUSE_OF_EDGE)] = list(CAUSE_OF_EDGE.values())
    cause: Codes = table[kind]
    return cause


def _pieces(found: Stretches, cause: GapCause | Codes, event: Ids) -> GapPieces:
    causes = np.broadcast_to(np.asarray(cause, np.int8), len(found.gap))
    return GapPieces(found.gap, found.start, found.end, causes, event.astype(np.int32), found.edge)


def _unfollowed(gaps: Gaps) -> GapPieces:
    """Gaps after which no activity follows."""
    gap = np.flatnonzero(gaps.after < 0)
    nobody = np.full(len(gap), -1, np.int32)
    cause = np.full(len(gap), GapCause.NO_MORE_WORK, np.int8)
    return GapPieces(gap, gaps.start[gap], gaps.end[gap], cause, nobody, nobody)


def _cut(pieces: GapPieces, cuts: Ints) -> GapPieces:
    row, start, end = split(pieces.start, pieces.end, cuts)
    return replace(pieces.take(row), start=start, end=end)


def _joined(parts: Sequence[GapPieces]) -> GapPieces:
    return GapPieces(*(np.concatenate([getattr(part, name) for part in parts]) for name in GapPieces.__annotations__))
