"""Walk → pieces: who owns each stretch of the path, of which class it is, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from hta_graph.algorithms.activities import communicates, copies_on_device, waits_on_device
from hta_graph.algorithms.attribution import open_on_thread
from hta_graph.algorithms.pieces import Pieces
from hta_graph.algorithms.walk import Chain
from hta_graph.algorithms.windows import ResolvedWindow
from hta_graph.errors import QueryError
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Codes, EdgeKind, EventKind, Ids, Ints
from hta_graph.trace.vocabulary import BLOCKING_CALL, SYNCHRONOUS_COPY_CALL

__all__ = ["PathClassifier", "data_loading_patterns", "explained_lags"]

LEAST_EXPLAINED_NS = 50_000
"""A shorter lag is always believed: real launch and return lags reach tens of microseconds."""

MEDIANS = 5
FEWEST_LAGS = 20

RETURNS = (EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC, EdgeKind.BLOCKING_COPY)
STREAM_LAGS = (EdgeKind.STREAM_ORDER, EdgeKind.GRAPH_ORDER, EdgeKind.EVENT_WAIT)
RESUMPTIONS = (EdgeKind.THREAD_HANDOFF, EdgeKind.FORWARD_BACKWARD)
LAG_CLASS = {
    **dict.fromkeys(STREAM_LAGS, BoundBy.GPU_KERNEL_KERNEL_OVERHEAD),
    **dict.fromkeys(RETURNS, BoundBy.SYNC_OVERHEAD),
    **dict.fromkeys(RESUMPTIONS, BoundBy.CPU_GAP),
    EdgeKind.LAUNCH: BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD,
    EdgeKind.QUEUE_FULL: BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD,
    EdgeKind.RUNTIME_LOCK: BoundBy.CPU_BOUND,
}
"""The class of the time between source and target, per edge kind; thread order and execution are work, not lag."""

ACTIVITY_CLASS = {
    EventKind.KERNEL: BoundBy.GPU_COMPUTE_BOUND,
    EventKind.MEMCPY: BoundBy.GPU_MEMORY_BOUND,
    EventKind.MEMSET: BoundBy.GPU_MEMORY_BOUND,
}


@dataclass(frozen=True)
class _Stretches:
    """The intervals between the points of a walk, latest first: time, source and target point, edge."""

    start: Ints
    end: Ints
    source: Ids
    target: Ids
    kind: Codes
    inferred: Bools

    def take(self, rows: Bools) -> _Stretches:
        return _Stretches(*(getattr(self, f.name)[rows] for f in fields(self)))


def explained_lags(graph: DependencyGraph, binding: Ids) -> Ints:
    """Return per edge kind the longest lag (ns) that counts as explained: max(50 µs, 5 × the trace's median).

    Medians are over lags that bound their target, so that its lane was idle; below 20 such lags 50 µs hold.
    """
    edges = graph.edge_table.take(binding[binding >= 0])
    lags = edges.lags(graph.timeline.times)
    launch = edges.kind == EdgeKind.LAUNCH
    returned = graph.trace.events.end[edges.source[launch] >> 1]
    lags[launch] = np.maximum(graph.timeline.times[edges.target[launch]] - returned, 0)
    limits = np.full(len(EdgeKind), LEAST_EXPLAINED_NS)
    for kind in LAG_CLASS:
        own = lags[edges.kind == kind]
        if len(own) >= FEWEST_LAGS:
            limits[kind] = max(LEAST_EXPLAINED_NS, MEDIANS * int(np.median(own)))
    return limits


class PathClassifier:
    """Turns a walk into the pieces of a window."""

    def __init__(self, graph: DependencyGraph, limits: Ints, data_load: Sequence[re.Pattern[str]]) -> None:
        self._graph = graph
        self._trace = graph.trace
        self._events = graph.trace.events
        self._limits = limits
        self._data_load = data_load
        self._activity_class = self._classes_of_activities()

    def pieces(self, chain: Chain | None, window: ResolvedWindow) -> Pieces:
        """Return the pieces that tile the window."""
        parts = [self._tail(chain, window), self._head(chain, window)]
        if chain is not None:
            stretches = self._stretches(chain)
            parts += [
                self._work(stretches.take(stretches.kind == EdgeKind.THREAD_ORDER)),
                self._execution(stretches.take(stretches.kind == EdgeKind.EXECUTION)),
                *(self._lags(stretches.take(stretches.kind == kind), kind) for kind in LAG_CLASS),
            ]
        pieces = Pieces.concatenate(parts).clip(window.start_ns, window.end_ns)
        return self._data_loading(self._owned_gaps(pieces)).merged()

    def _classes_of_activities(self) -> Codes:
        classes = np.full(len(EventKind), BoundBy.GPU_COMPUTE_BOUND, np.int8)
        for kind, bound in ACTIVITY_CLASS.items():
            classes[kind] = bound
        of_event = classes[self._events.kind]
        of_event[communicates(self._trace)] = BoundBy.GPU_COMMUNICATION_BOUND
        of_event[copies_on_device(self._trace)] = BoundBy.GPU_MEMORY_BOUND
        of_event[waits_on_device(self._trace)] = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD
        return of_event

    def _stretches(self, chain: Chain) -> _Stretches:
        edges = self._graph.edge_table
        return _Stretches(
            chain.times[1:],
            chain.times[:-1],
            chain.points[1:],
            chain.points[:-1],
            edges.kind[chain.edges],
            edges.inferred[chain.edges],
        )

    def _work(self, s: _Stretches) -> Pieces:
        """CPU time between two points of a thread: the innermost open row's, else a gap."""
        calls = self._graph.timeline.calls
        place = np.empty(len(self._graph.timeline.times), np.int32)
        place[calls.points] = np.arange(len(calls.points), dtype=np.int32)
        return self._on_cpu(s.start, s.end, calls.owner[place[s.source]], self._events.lane[s.source >> 1])

    def _on_cpu(self, start: Ints, end: Ints, owner: Ids, lane: Ids) -> Pieces:
        waits_for_unknown = (owner >= 0) & self._blocks_without_source[owner]
        bound = np.where(owner >= 0, BoundBy.CPU_BOUND, BoundBy.CPU_GAP)
        bound = np.where(waits_for_unknown, BoundBy.UNEXPLAINED, bound).astype(np.int8)
        return Pieces.of(start, end, bound, edge_kind=EdgeKind.THREAD_ORDER, event=owner, lane=lane)

    @property
    def _blocks_without_source(self) -> Bools:
        """Mark blocking calls of which the graph does not know what they waited for.

        A short one with all its work done before it began had nothing left to wait for.
        """
        names = self._trace.names
        blocks = np.array([BLOCKING_CALL.match(name) is not None for name in names] or [False])
        copies = np.array([SYNCHRONOUS_COPY_CALL.match(name) is not None for name in names] or [False])
        blind: Bools = (self._events.kind == EventKind.RUNTIME) & blocks[self._events.name]
        edges = self._graph.edge_table
        returns = np.isin(edges.kind, RETURNS)
        call, source = edges.target[returns] >> 1, edges.source[returns]
        ended_inside = self._graph.timeline.times[source] >= self._events.start[call]
        short = self._events.end[call] - self._events.start[call] <= LEAST_EXPLAINED_NS
        blind[call[ended_inside | short]] = False
        launching = edges.source[edges.kind == EdgeKind.LAUNCH] >> 1
        blind[launching[copies[self._events.name[launching]]]] = False
        return blind

    def _execution(self, s: _Stretches) -> Pieces:
        event = s.target >> 1
        return self._activity(s.start, s.end, event, EdgeKind.EXECUTION, s.inferred)

    def _activity(self, start: Ints, end: Ints, event: Ids, kind: EdgeKind, inferred: Bools) -> Pieces:
        lane = self._events.lane[event]
        return Pieces.of(
            start, end, self._activity_class[event], edge_kind=kind, inferred=inferred, event=event, lane=lane
        )

    def _lags(self, s: _Stretches, kind: EdgeKind) -> Pieces:
        """Time between source and target: of a long lag only the part next to the target is explained."""
        if kind == EdgeKind.STREAM_ORDER:
            overlap = s.source & 1 == 0
            running = s.take(overlap)
            idle = self._lag_pieces(s.take(~overlap), kind)
            return Pieces.concatenate(
                [idle, self._activity(running.start, running.end, running.source >> 1, kind, running.inferred)]
            )
        if kind == EdgeKind.LAUNCH:
            returned = np.clip(self._events.end[s.source >> 1], s.start, s.end)
            call = s.source >> 1
            own = Pieces.of(
                s.start, returned, BoundBy.CPU_BOUND, edge_kind=kind, event=call, lane=self._events.lane[call]
            )
            after_return = _Stretches(returned, s.end, s.source, s.target, s.kind, s.inferred)
            return Pieces.concatenate([own, self._lag_pieces(after_return, kind)])
        return self._lag_pieces(s, kind)

    def _lag_pieces(self, s: _Stretches, kind: EdgeKind) -> Pieces:
        owner = (s.source if kind == EdgeKind.LAUNCH else s.target) >> 1
        known_from = np.maximum(s.start, s.end - self._limits[kind])
        common = {"edge_kind": kind, "inferred": s.inferred, "event": owner, "lane": self._events.lane[owner]}
        unknown = Pieces.of(s.start, known_from, BoundBy.UNEXPLAINED, **common)
        return Pieces.concatenate([unknown, Pieces.of(known_from, s.end, LAG_CLASS[kind], **common)])

    def _tail(self, chain: Chain | None, window: ResolvedWindow) -> Pieces:
        """What lies between the last point of the path and the window's end."""
        sink = window.sink
        if chain is None:
            return _none()
        start, end = chain.times[:1], np.array([window.end_ns])
        if sink.lane < 0 or end[0] <= start[0]:
            return Pieces.of(start, end, BoundBy.UNEXPLAINED)
        calls = self._graph.timeline.calls
        part = calls.lane_slice(sink.lane)
        at = part.start + int(np.flatnonzero(calls.points[part] == chain.points[0])[0])
        return self._on_cpu(start, end, calls.owner[at : at + 1], np.array([sink.lane], np.int32))

    def _head(self, chain: Chain | None, window: ResolvedWindow) -> Pieces:
        """What lies before the first recorded cause: a gap while rows around it show the thread alive, else unknown."""
        first_ns = int(chain.times[-1]) if chain is not None else window.end_ns
        lane = int(self._events.lane[chain.points[-1] >> 1]) if chain is not None else window.sink.lane
        alive_ns = min(self._alive_since(lane, first_ns), first_ns)
        starts, ends = np.array([window.start_ns, alive_ns]), np.array([alive_ns, first_ns])
        bound = np.array([BoundBy.UNEXPLAINED, BoundBy.CPU_GAP], np.int8)
        kinds = np.array([-1, EdgeKind.THREAD_ORDER], np.int8)
        return Pieces.of(starts, np.maximum(starts, ends), bound, edge_kind=kinds, lane=np.array([-1, lane], np.int32))

    def _alive_since(self, lane: int, time_ns: int) -> int:
        """Return the earliest start of the annotations and Python frames open on a thread at an instant."""
        events = self._events
        kinds = (events.kind == EventKind.ANNOTATION) | (events.kind == EventKind.PYTHON_FUNCTION)
        around = kinds & (events.lane == lane) & (events.start <= time_ns) & (events.end >= time_ns)
        return int(events.start[around].min()) if around.any() else time_ns

    def _owned_gaps(self, pieces: Pieces) -> Pieces:
        """Give each gap to the innermost Python frame over it, else annotation; split where that changes."""
        free = (pieces.bound == BoundBy.CPU_GAP) & (pieces.event < 0) & (pieces.lane >= 0)
        parts = [pieces.take(~free)]
        frames = (
            [self._graph.timeline.lookups(kind) for kind in (EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)]
            if free.any()
            else []
        )
        for lane in np.unique(pieces.lane[free]).tolist():
            gaps = pieces.take(free & (pieces.lane == lane))
            cuts, owner = open_on_thread(self._graph, lane, frames)
            gaps = gaps.split(cuts)
            at = np.searchsorted(cuts, gaps.start, side="right") - 1
            event = np.where(at >= 0, owner[at], -1) if len(cuts) else np.full(len(gaps), -1)
            parts.append(Pieces.of(gaps.start, gaps.end, gaps.bound, edge_kind=gaps.edge_kind, event=event, lane=lane))
        return Pieces.concatenate(parts)

    def _data_loading(self, pieces: Pieces) -> Pieces:
        """Reclassify CPU time inside rows that match a data-loading pattern; what is nested in them inherits."""
        events = self._events
        may_match = (events.kind == EventKind.CPU_OP) | (events.kind == EventKind.ANNOTATION)
        loads = np.flatnonzero(may_match & self._trace.matching_names(*self._data_load)[events.name])
        on_cpu = (pieces.bound == BoundBy.CPU_BOUND) | (pieces.bound == BoundBy.CPU_GAP)
        for lane in np.unique(events.lane[loads]).tolist():
            own = loads[events.lane[loads] == lane]
            latest = np.maximum.accumulate(events.end[own])
            new = np.append(True, events.start[own][1:] > latest[:-1])
            starts, ends = events.start[own][new], latest[np.append(np.flatnonzero(new)[1:] - 1, len(own) - 1)]
            here = on_cpu & (pieces.lane == lane)
            cut = pieces.take(here).split(np.unique(np.concatenate([starts, ends])))
            inside = ends[(np.searchsorted(starts, cut.start, side="right") - 1).clip(min=0)] > cut.start
            inside &= cut.start >= starts[0]
            pieces = Pieces.concatenate([pieces.take(~here), cut.with_class(BoundBy.DATA_LOADING, inside)])
            on_cpu = (pieces.bound == BoundBy.CPU_BOUND) | (pieces.bound == BoundBy.CPU_GAP)
        return pieces


def _none() -> Pieces:
    return Pieces.of(np.empty(0, np.int64), np.empty(0, np.int64), BoundBy.UNEXPLAINED)


def data_loading_patterns(expressions: Sequence[str]) -> list[re.Pattern[str]]:
    """Compile expressions of operators and annotations that mean data loading.

    Raises:
        QueryError: one of them is not a regular expression.
    """
    try:
        return [re.compile(expression) for expression in expressions]
    except re.error as error:
        raise QueryError(f"a data-loading pattern is not a regular expression: {error}") from None
