"""The one accounting of time: what a walk passes, divided into parts that each have an owner.

A critical path and the causes of idle gaps ask the same questions of the spans between the points of a walk; they
differ only in the words for the answers (:mod:`hta_graph.paths.segments`, :mod:`hta_graph.paths.idle_gap_causes`).

    edge of role    THREAD    |   LAUNCH                           |  STREAM, RETURN, HOLD, RESUMPTION
    span            |---------|---------------------------|        |--------------------------|
    parts           WORK/IDLE   CALL       | EXCESS | LAG          | CALL | EXCESS    | LAG   |
                                           returns    limit             returns       limit     target

A stream's work that comes late while its launching call still runs had not been sent: the call's time. A graph launch
sends its nodes in turn, and the GPU may run out of them (HIP: 1.6 ms for 544 nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import (
    Columns,
    distinct,
    first_of_runs,
    freeze,
    last_at_most,
    rows_by_value,
    split_at_own_cuts,
    split_intervals,
    take_or,
)
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.overheads import profiler_overheads
from hta_graph.graph.points import event_of, is_end
from hta_graph.graph.rank_summary import JobLimits, RankSummary
from hta_graph.graph.timeline import Innermost, innermost_of
from hta_graph.model import EDGE_MEANING, ROLE, Bools, Codes, EdgeKind, EdgeRole, EventKind, Ids, Ints
from hta_graph.paths.binding_edges import WalkSpans, binding_edges
from hta_graph.paths.intervals import Intervals, union

ALWAYS_EXPLAINED_NS = 50_000
"""A shorter lag is always believed: real launch and return lags reach tens of microseconds."""

HAS_LAG = np.array([EDGE_MEANING[kind].lag is not None for kind in EdgeKind])
EXCESS_FACTOR = 5
MIN_LAGS = 20


class TimePart(IntEnum):
    """What a part of a walk's time is."""

    WORK = 0
    """A thread is in its innermost operator or call, the owner."""
    IDLE = 1
    """A thread has no operator open; the owner is the frame or annotation over it, if any."""
    ACTIVITY = 2
    """An activity runs, the owner."""
    CALL = 3
    """A launching call, the owner, until it returns: the edge's source, or what has yet to send the edge's target."""
    LAG = 4
    """Between an edge's source and target, next to the target: as long as such lags usually are."""
    EXCESS = 5
    """The earlier part of a longer lag, which nothing explains."""
    PENDING = 6
    """What the edge's source stands for had yet to get there."""
    START = 7
    """Before the first known cause; on a thread the owner is the frame or annotation over it, if any."""


@dataclass(frozen=True, eq=False)
class AccountedTime(Columns):
    """Parts of spans [start, end) (ns), in no order.

    ``span`` is the row of the span that a part comes from, ``owner`` the event behind it (canonical row; -1:
    none). ``is_loading`` marks time inside data-loading rows of the part's lane.
    """

    span: Ids
    start: Ints
    end: Ints
    part: Codes
    owner: Ids
    is_loading: Bools

    def cut(self, cuts: Ints) -> AccountedTime:
        """Cut the parts at sorted times."""
        row, start, end = split_intervals(self.start, self.end, cuts)
        return self if len(row) == len(self) else replace(self.take(row), start=start, end=end)

    def clip(self, start: Ints, end: Ints) -> AccountedTime:
        """Keep what lies between two times (ns) for each part."""
        bounded = replace(self, start=np.maximum(self.start, start), end=np.minimum(self.end, end))
        return bounded.take(bounded.end > bounded.start)


@memoized
def explained_lags(graph: DependencyGraph) -> Ints:
    """Return per rank and edge kind the longest lag (ns) that counts as explained: max(50 µs, 5 × the usual one).

    Medians are over a rank's lags that bound their target, so that its lane was idle; below 20 such lags 50 µs hold. Of
    a launch only what follows the call's return is a lag.

    Returns:
        A row per rank (``graph.rank_graphs``), a column per kind.
    """
    if (rank_known := graph.attached(RankSummary)) is not None:
        return rank_known.limits.reshape(1, -1)
    if (job_known := graph.attached(JobLimits)) is not None:
        return job_known.limits
    binding = binding_edges(graph)
    rows = binding[binding >= 0]
    # A kind without a class for its lag has none that could be usual.
    edges, times = graph.edge_table.take(rows[HAS_LAG[graph.edge_table.kind[rows]]]), graph.timeline.times
    lags = edges.lags(times)
    launched = ROLE[edges.kind] == EdgeRole.LAUNCH
    returned = graph.event_table.end[event_of(edges.source[launched])]
    lags[launched] = np.maximum(times[edges.target[launched]] - returned, 0)
    limits = np.full((len(graph.rank_graphs), len(EdgeKind)), ALWAYS_EXPLAINED_NS, np.int64)
    rank = graph.rank_index_of(event_of(edges.target)).astype(np.int64)
    for of, at in rows_by_value(rank * len(EdgeKind) + edges.kind).items():
        if len(at) >= MIN_LAGS:
            usual = int(np.median(lags[at]))
            limits[divmod(of, len(EdgeKind))] = max(ALWAYS_EXPLAINED_NS, EXCESS_FACTOR * usual)
    return limits


@memoized
def profiler_calls(graph: DependencyGraph) -> Ids:
    """Return for each row of the recorder's own cost the call that it delayed; -1 where none is, and for others."""
    found = np.full(len(graph.event_table), -1, np.int32)
    if graph.event_flags.profiler_overhead.any():
        overheads = profiler_overheads(graph.trace, graph.calls)
        found[overheads.row] = overheads.call
    return freeze(found)


@memoized
def lanes_of_owners(graph: DependencyGraph) -> Ids:
    """Return the lane of each event; of the recorder's own cost, whose row may have no thread, that of its call."""
    call = profiler_calls(graph)
    lane: Ids = np.where(call >= 0, take_or(graph.event_table.lane, call), graph.event_table.lane).astype(np.int32)
    return freeze(lane)


@memoized
def _frames_over_threads(graph: DependencyGraph) -> Innermost:
    """Return who may own time between operators: calls of the system, else Python frames, else annotations."""
    kinds = (EventKind.OS_CALL, EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)
    return innermost_of([graph.nesting(kind) for kind in kinds])


def _under_frames(graph: DependencyGraph, accounts: AccountedTime, thread: Ids) -> AccountedTime:
    """Give parts on threads to the innermost frame over them; none where there is none.

    A part may lie under several frames one after the other: it is cut where the innermost one changes.
    """
    over = _frames_over_threads(graph)
    first, past = over.span_of(thread)
    low = last_at_most(over.time, first, past, accounts.start) + 1
    until = last_at_most(over.time, first, past, accounts.end - 1) + 1
    row, start, end = split_at_own_cuts(accounts.start, accounts.end, over.time, low, until)
    nth = np.arange(len(row)) - np.flatnonzero(first_of_runs(row))[row]
    change = low[row] - 1 + nth
    owner = take_or(over.owner, np.where(change >= first[row], change, -1))
    return replace(accounts.take(row), start=start, end=end, owner=owner)


class TimeAccounting:
    """Divides the spans of walks through one graph.

    ``data_load`` are expressions of operators and annotations that mean data loading, PyTorch's if none are given.
    """

    def __init__(self, graph: DependencyGraph, data_load: Sequence[str]) -> None:
        self._graph = graph
        self._events = graph.event_table
        # One kind more for kind -1: where no edge is known nothing counts as an explained lag.
        self._limits = np.pad(explained_lags(graph), ((0, 0), (0, 1)))
        self._loads_data = graph.event_flags.loads_data(data_load)

    def divide(self, spans: WalkSpans, start: Ints, end: Ints) -> AccountedTime:
        """Return the parts of spans that lie between the start and the end (ns) of their walks."""
        part = self._part_by_edge(spans)
        accounts = AccountedTime.of(
            span=np.arange(len(part)),
            start=spans.start,
            end=spans.end,
            part=part,
            owner=self._who_works(spans, part),
            is_loading=False,
        )
        accounts = self._with_long_lags(accounts, spans)
        walk = spans.walk[accounts.span]
        # Only now: how much of a lag is explained depends on its whole length, also beyond the window.
        accounts = accounts.clip(start[walk], end[walk])
        accounts = self._without_waits(self._without_profiler(accounts), spans)
        return self._mark_loading(self._with_frames(accounts, spans), spans)

    @staticmethod
    def _part_by_edge(spans: WalkSpans) -> Codes:
        """Return what each span is, as far as its edge shows; time on threads counts as work."""
        role = ROLE[spans.kind]
        part = np.full(len(role), TimePart.LAG, np.int8)
        part[np.isin(role, (EdgeRole.THREAD, EdgeRole.AWAKENING))] = TimePart.WORK
        # Between activities that overlap an edge leads from the earlier one's start, which still runs.
        overlaps = (role == EdgeRole.STREAM) & ~is_end(spans.source)
        part[np.isin(role, (EdgeRole.ACTIVITY, EdgeRole.RELEASE, EdgeRole.TRANSFER)) | overlaps] = TimePart.ACTIVITY
        part[role < 0] = TimePart.START
        # Whatever the edge means: before its source the work was still on its way.
        part[spans.pending] = TimePart.PENDING
        return part

    def _who_works(self, spans: WalkSpans, part: Codes) -> Ids:
        """Return who works: the activity, or the innermost open row of a thread; where none is the part is idle."""
        owner = np.full(len(part), -1, np.int32)
        runs, on_thread = part == TimePart.ACTIVITY, part == TimePart.WORK
        # From where ranks met on, what takes part runs for itself.
        transfers = ROLE[spans.kind[runs]] == EdgeRole.TRANSFER
        owner[runs] = event_of(np.where(transfers, spans.target[runs], spans.source[runs]))
        # Who is open is noted at each point for the time up to the next: the span that begins there.
        place = self._graph.timeline.position_on_thread(spans.source[on_thread])
        # A thread that was let go is where it was before its next point.
        awakes = ROLE[spans.kind[on_thread]] == EdgeRole.AWAKENING
        place[awakes] = self._graph.timeline.position_on_thread(spans.target[on_thread][awakes]) - 1
        owner[on_thread] = take_or(self._graph.calls.owner, place)
        lane = self._lanes_until_messages(spans)
        beside = lane >= 0
        owner[beside] = self._graph.calls.open_at(lane[beside], spans.start[beside])
        # A thread that stood still before the end of a message without a partner may have waited for that.
        still = np.flatnonzero(beside & (owner < 0))
        message = event_of(spans.target[still])
        alone = self._graph.without_partner[message] if len(still) else np.empty(0, np.bool_)
        owner[still[alone]], part[still[alone]] = message[alone], TimePart.ACTIVITY
        # Nothing is open from this point on: a thread between two operators.
        part[on_thread & (owner < 0)] = TimePart.IDLE
        return owner

    def _lanes_until_messages(self, spans: WalkSpans) -> Ids:
        """Return the lanes of threads that come to the end of a message's row, which has its own lane (-1: others)."""
        found = np.full(len(spans.kind), -1, np.int32)
        beside = self._graph.lanes.is_communication
        if beside.any():
            rows = np.flatnonzero((ROLE[spans.kind] == EdgeRole.THREAD) & (spans.target >= 0) & is_end(spans.target))
            lane = self._events.lane[event_of(spans.target[rows])]
            found[rows[beside[lane]]] = self._graph.calling_lane[lane[beside[lane]]]
        return found

    def _with_long_lags(self, accounts: AccountedTime, spans: WalkSpans) -> AccountedTime:
        """Of a lag explain only the part next to the target; the time of a call that has yet to launch it is no lag."""
        lagging = accounts.part == TimePart.LAG
        lags, of = accounts.take(lagging), spans.take(lagging)
        rank = self._graph.rank_index_of(event_of(of.target))
        limit = of.end - self._limits[rank, of.kind]
        launched, queued = (ROLE[of.kind] == role for role in (EdgeRole.LAUNCH, EdgeRole.STREAM))
        call = np.where(launched, event_of(of.source), -1)
        call[queued] = self._graph.launching_call[event_of(of.target[queued])]
        began = take_or(self._events.start, call, otherwise=np.iinfo(np.int64).max) <= of.start
        returned = np.where(launched | began, take_or(self._events.end, call), of.start).clip(of.start, of.end)
        # Work that an idle stream starts at once may have been there: only what comes late waits for its call.
        returned[queued] = np.minimum(returned[queued], np.maximum(limit[queued], of.start[queued]))
        known_from = np.maximum(returned, limit)
        start = accounts.start.copy()
        start[lagging] = known_from
        in_call, excess = (np.full(len(lags), part, np.int8) for part in (TimePart.CALL, TimePart.EXCESS))
        return AccountedTime.join([
            replace(accounts, start=start),
            replace(lags, end=returned, part=in_call, owner=call.astype(np.int32)).take(returned > of.start),
            replace(lags, start=returned, end=known_from, part=excess).take(known_from > returned),
        ])  # fmt: skip

    def lanes(self, accounts: AccountedTime, spans: WalkSpans) -> Ids:
        """Return the lane of each part: that of its span, of a launching call the call's own."""
        calls = accounts.part == TimePart.CALL
        waiting = self._lanes_until_messages(spans)
        lane = np.where(waiting >= 0, waiting, spans.lane)[accounts.span]
        # The span lies on the stream where the walk was; the call ran on its thread.
        lane[calls] = lanes_of_owners(self._graph)[accounts.owner[calls]]
        return lane

    def _without_profiler(self, accounts: AccountedTime) -> AccountedTime:
        """Take from calls what the recorder itself took inside them: its own row owns that time."""
        calls = profiler_calls(self._graph)
        rows = np.flatnonzero(calls >= 0).astype(np.int32)
        own = np.isin(accounts.owner, calls[rows]) & np.isin(accounts.part, (TimePart.WORK, TimePart.CALL))
        if not own.any():
            return accounts
        rows = rows[np.lexsort((self._events.start[rows], calls[rows]))]
        start, end = self._events.start[rows], self._events.end[rows]
        inside = accounts.take(own).cut(distinct(np.concatenate([start, end])))
        first, past = (np.searchsorted(calls[rows], inside.owner, side=side) for side in ("left", "right"))
        at = last_at_most(start, first, past, inside.start)
        covered = (at >= first) & (take_or(end, at) > inside.start)
        owner = np.where(covered, take_or(rows, at), inside.owner)
        return AccountedTime.join([accounts.take(~own), replace(inside, owner=owner)])

    def _without_waits(self, accounts: AccountedTime, spans: WalkSpans) -> AccountedTime:
        """Take from operators the time in which their thread waited in a call of the operating system.

        A call of a runtime that waits is known by itself; its inside stays its own.
        """
        is_operator = np.append(self._events.kind == EventKind.CPU_OP, False)
        for thread, waiting in self._waiting_times.items():
            here = (self.lanes(accounts, spans) == thread) & is_operator[accounts.owner]
            own = accounts.take(here & (accounts.part == TimePart.WORK))
            own = own.cut(distinct(np.concatenate([waiting.start, waiting.end])))
            waits = waiting.covered_until(own.end) > waiting.covered_until(own.start)
            part = np.where(waits, np.int8(TimePart.IDLE), own.part)
            rest = accounts.take(~(here & (accounts.part == TimePart.WORK)))
            accounts = AccountedTime.join(
                [rest, replace(own, part=part, owner=np.where(waits, np.int32(-1), own.owner))]
            )
        return accounts

    @cached_property
    def _waiting_times(self) -> dict[int, Intervals]:
        """When each thread waits in a call of the operating system."""
        return self._times_by_lane(np.flatnonzero(self._graph.event_flags.waits_in_system))

    def _with_frames(self, accounts: AccountedTime, spans: WalkSpans) -> AccountedTime:
        """Give a thread's time without an operator to the innermost Python frame over it, else annotation."""
        lane = self.lanes(accounts, spans)
        free = (accounts.part == TimePart.IDLE) | (accounts.part == TimePart.START)
        free &= (lane >= 0) & ~self._graph.lanes.is_stream[lane]
        if not free.any():
            return accounts
        rows = np.flatnonzero(free)
        rows = rows[np.argsort(lane[rows], kind="stable")]
        return AccountedTime.join([accounts.take(~free), _under_frames(self._graph, accounts.take(rows), lane[rows])])

    def _mark_loading(self, accounts: AccountedTime, spans: WalkSpans) -> AccountedTime:
        """Mark what lies inside data-loading rows; what is nested in them inherits."""
        for thread, loading in self._loading_times.items():
            here = self.lanes(accounts, spans) == thread
            # Cut at the edges of the loading rows, each part lies inside them or outside.
            own = accounts.take(here).cut(distinct(np.concatenate([loading.start, loading.end])))
            inside = loading.covered_until(own.end) > loading.covered_until(own.start)
            accounts = AccountedTime.join([accounts.take(~here), replace(own, is_loading=inside)])
        return accounts

    @cached_property
    def _loading_times(self) -> dict[int, Intervals]:
        """When each thread is inside a data-loading row."""
        return self._times_by_lane(np.flatnonzero(self._loads_data))

    def _times_by_lane(self, rows: Ints) -> dict[int, Intervals]:
        lanes = self._events.lane[rows]
        return {
            lane: union(self._events.start[rows[lanes == lane]], self._events.end[rows[lanes == lane]])
            for lane in distinct(lanes).tolist()
        }
