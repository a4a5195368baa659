"""Why a part of a path is unexplained, as far as the trace gives evidence, and what the host stood in meanwhile.

source              |<------------ hole ------------>|  target
stream 7   ...work] .................................. [work     no known predecessor ended later
stream 20       [~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~] ^            one end here by chance is improbable: a wait
thread       [cudaStreamSynchronize~~~~~~~~~~~~~~~~~~~~]          what the host stood in

A node that was not recorded shows as the same hole in replay after replay of its graph
(:mod:`hta_graph.paths.unrecorded_work`), also before the first recorded node, though its launch had returned and its
stream was free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, distinct, first_of_runs, last_at_most, take_or
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.points import event_of
from hta_graph.graph.significance import RELEASED_WITHIN_NS, is_improbable
from hta_graph.graph.timeline import launched_before_recording
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, ROLE, Bools, Codes, EdgeRole, Ids, Ints, Reason
from hta_graph.paths.time_accounting import ALWAYS_EXPLAINED_NS
from hta_graph.paths.unrecorded_work import MIN_REPLAYS, is_graph_node, replays_with_hole, unrecorded_times

CHANCE = 20
"""A coincidence is believed where at most one hole in this many would show it by chance."""


@dataclass(frozen=True, eq=False)
class UnexplainedTimes(Columns):
    """Unexplained times [start, end), each to its target's time whatever the window is.

    ``kind`` is that of the edge that binds the target, ``source`` and ``target`` are its points, ``caller`` is the
    blocking call that the hole is the inside of, ``lane`` is where the walk was; -1 where there is none.
    """

    start: Ints
    end: Ints
    kind: Codes
    source: Ids
    target: Ids
    caller: Ids
    lane: Ids

    @property
    def work(self) -> Ids:
        """The event that each hole ends with; -1 for the inside of a call, and where nothing follows."""
        found: Ids = np.where((self.target >= 0) & (self.caller < 0), event_of(self.target), -1)
        return found

    def of_rank(self, part: RankGraph) -> UnexplainedTimes:
        """Name the rows and lanes of a job's holes as one rank's graph does; what is of other ranks is none."""
        lane = self.lane - np.int32(part.first_lane)
        known = (self.lane >= 0) & (lane < len(part.graph.lanes.labels))
        rows = len(part.graph.event_table)
        source, target, caller = (
            np.where((column >= 0) & (own >= 0) & (own < size), own, -1).astype(np.int32)
            for column, own, size in (
                (self.source, self.source - 2 * part.first_row, 2 * rows),
                (self.target, self.target - 2 * part.first_row, 2 * rows),
                (self.caller, self.caller - part.first_row, rows),
            )
        )
        return replace(
            self, source=source, target=target, caller=caller, lane=np.where(known, lane, -1).astype(np.int32)
        )


def unexplained_reasons(graph: DependencyGraph, holes: UnexplainedTimes) -> Codes:
    """Return the :class:`Reason` of each hole; ``UNKNOWN`` wherever the trace gives no evidence for another one."""
    reasons = np.full(len(holes), Reason.UNKNOWN, np.int8)
    # A shorter call may have found nothing to wait for.
    events = graph.event_table
    # Of a job's rank nothing is known before its own recording begins.
    reasons[(holes.kind < 0) & (holes.start < events.start.min(initial=holes.end.max(initial=0)))] = (
        Reason.BEFORE_RECORDING
    )
    waits = np.flatnonzero(take_or(events.end - events.start, holes.caller) > ALWAYS_EXPLAINED_NS)
    if len(waits):
        early = _before_any_launch(graph, holes.caller[waits])
        reasons[waits] = np.where(early, Reason.BEFORE_RECORDING, Reason.WAIT_WITHOUT_RECORD)
        reasons[waits[~early & _returns_before_work_ends(graph, holes.caller[waits])]] = Reason.CLOCK_FAULT
    is_long = holes.end - holes.start > ALWAYS_EXPLAINED_NS
    reasons[is_long & _may_run_unrecorded(graph, holes)] = Reason.NOT_RECORDED
    returns = np.where(ROLE[holes.kind] == EdgeRole.RETURN, event_of(holes.target), holes.caller)
    waits = np.flatnonzero(returns >= 0)
    reasons[waits[holding_calls(graph, returns[waits]) >= 0]] = Reason.STREAM_HELD
    on_gpu = np.flatnonzero(take_or(graph.is_gpu, holes.work, otherwise=False))
    # The strongest evidence last: it overrules.
    for find, reason in EVIDENCE if len(on_gpu) else ():
        reasons[on_gpu[find(graph, holes.take(on_gpu))]] = reason
    return reasons


def holding_calls(graph: DependencyGraph, rows: Ids | Ints) -> Ids:
    """Return for work that came late, or a call that returned late, the call that may have held its stream; -1: none.

    It stands on the thread of the row's call behind the launch before it: of work that of the stream's activity before,
    of a waiting call its thread's last one.

        thread     [launch a][cudaLaunchHostFunc][launch b]
        stream 7      [a]        (runs, no row)           [b]
    """
    events, launching = graph.event_table, graph.launching_call
    holds = np.flatnonzero(graph.event_flags.stream_holding_call).astype(np.int32)
    if not len(holds):
        return np.full(len(rows), -1, np.int32)
    on_gpu = graph.is_gpu[rows]
    own = np.where(on_gpu, launching[rows], rows)
    work = np.flatnonzero(graph.is_gpu)
    order = work[np.argsort(events.lane[work], kind="stable")]  # rows are in order of time
    before = np.full(len(events), -1, np.int32)
    follows = ~first_of_runs(events.lane[order])
    before[order[follows]] = order[np.flatnonzero(follows) - 1]
    launches = distinct(launching[launching >= 0]).astype(np.int32)
    since = np.where(on_gpu, take_or(launching, before[rows]), _last_before(graph, launches, own))
    found = _last_before(graph, holds, own)
    earliest = np.iinfo(np.int64).min
    is_between = take_or(events.start, found, otherwise=earliest) > take_or(events.start, since, otherwise=earliest)
    return np.where(is_between, found, -1).astype(np.int32)


def _last_before(graph: DependencyGraph, among: Ids, calls: Ids | Ints) -> Ids:
    """Return the last of some calls that starts before each call on its thread; -1 where there is none."""
    events = graph.event_table
    among = among[np.lexsort((events.start[among], events.lane[among]))]
    if not len(among):
        return np.full(len(calls), -1, np.int32)
    lane, start = take_or(events.lane, calls), take_or(events.start, calls)
    first, past = (np.searchsorted(events.lane[among], lane, side=side) for side in ("left", "right"))
    at = last_at_most(events.start[among], first, past, start - 1)
    return np.where((at >= first) & (calls >= 0), take_or(among, at), -1).astype(np.int32)


def _is_held(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark work before whose launch something was enqueued that may have held its stream."""
    held: Bools = holding_calls(graph, holes.work) >= 0
    return held


def open_calls(graph: DependencyGraph, holes: UnexplainedTimes) -> Ids:
    """Return the operator or call that the host stood in during each hole: in its middle, innermost; -1 where none.

    Of a blocking call's inside it is that call; of GPU work that came late it is what the thread that launched it stood
    in. Where that launch is not in the file the thread that launches most stands for it.
    """
    found = np.where(np.isin(ROLE[holes.kind], (EdgeRole.RETURN, EdgeRole.HOLD)), event_of(holes.target), holes.caller)
    lane, work = graph.event_table.lane, holes.work
    launching = graph.launching_call[graph.launching_call >= 0]
    busiest = int(np.bincount(lane[launching]).argmax()) if len(launching) else -1
    call = take_or(graph.launching_call, work)
    thread = np.where(take_or(graph.is_gpu, work, otherwise=False), take_or(lane, call, otherwise=busiest), holes.lane)
    thread[take_or(graph.lanes.is_stream, thread, otherwise=False)] = -1
    middle = holes.start + (holes.end - holes.start) // 2
    return np.where(found >= 0, found, graph.calls.open_at(thread.astype(np.int32), middle)).astype(np.int32)


def _before_any_launch(graph: DependencyGraph, calls: Ids) -> Bools:
    """Mark calls before the first one in the file that enqueues work: what they waited for is older."""
    # Without any launch in the file the GPU's rows may just not be there.
    enqueues = graph.event_table.start[graph.event_flags.enqueueing_call]
    first = enqueues.min() if len(enqueues) else np.iinfo(np.int64).min
    early: Bools = take_or(graph.event_table.start, calls, otherwise=np.iinfo(np.int64).max) < first
    return early


NEAR_RETURN_NS = 100_000
"""A blocking call returns within this time after what it waited for, and by a wrong clock as long before it."""


def _returns_before_work_ends(graph: DependencyGraph, calls: Ids) -> Bools:
    """Mark calls right after whose return work ends by a clock that contradicts itself: they may have waited for it."""
    events = graph.event_table
    noisy = [clock.device for clock in graph.trace.gpu_clock if clock.noise_ns]
    if not noisy:
        return np.zeros(len(calls), np.bool_)
    ends = np.sort(events.end[graph.is_gpu & np.isin(graph.lanes.device[events.lane], noisy)])
    after = np.searchsorted(ends, events.end[calls], side="right")
    near: Bools = np.append(ends, np.iinfo(np.int64).max)[after] - events.end[calls] <= NEAR_RETURN_NS
    return near


def _first_work_long_queued(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark a stream's first work that waited longer than the recording had lasted, though its device was idle."""
    events, work = graph.event_table, holes.work
    rows = np.flatnonzero(graph.is_gpu)[::-1]
    first = np.full(len(graph.lanes.labels), -1, np.int32)
    # Rows are in order of time: of each stream the first one is written last.
    first[events.lane[rows]] = rows
    begun = holes.start - events.start.min(initial=np.iinfo(np.int64).max)
    queued = (ROLE[holes.kind] == EdgeRole.LAUNCH) & (begun <= holes.end - holes.start)
    # Of a graph the first node may be what is missing.
    queued &= ~is_graph_node(graph, work)
    # Launched before the recording began: drivers count up, and every call in the file has a later number.
    queued |= (holes.kind < 0) & launched_before_recording(events, work)
    older: Bools = (first[events.lane[work]] == work) & queued & _device_was_idle(graph, work)
    return older


def _device_was_idle(graph: DependencyGraph, work: Ids) -> Bools:
    """Mark work before which its device did nothing that is recorded: no end released it, nothing took its place."""
    events, device_of = graph.event_table, graph.lanes.device
    runs = graph.event_flags.gpu_work
    device = device_of[events.lane[work]]
    idle = np.zeros(len(work), np.bool_)
    for number in distinct(device).tolist():
        rows, here = np.flatnonzero(runs & (device_of[events.lane] == number)), device == number
        start = events.start[work[here]]
        begun = np.searchsorted(np.sort(events.start[rows]), start)
        ended = np.searchsorted(np.sort(events.end[rows]), start - RELEASED_WITHIN_NS)
        idle[here] = begun == ended
    return idle


def _released_by_other_stream(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark work that was enqueued in time and started so soon after another stream's work that chance is improbable."""
    events, lanes = graph.event_table, graph.lanes
    found = np.zeros(len(holes), np.bool_)
    lane, call = events.lane[holes.work], graph.launching_call[holes.work]
    returned = take_or(events.end, call, otherwise=np.iinfo(np.int64).max)
    in_time = (returned <= holes.start) | launched_before_recording(graph.event_table, holes.work)
    in_time &= ~is_graph_node(graph, holes.work)
    here = np.flatnonzero(in_time)
    if not len(here):
        return found
    start, end = holes.start[here], holes.end[here]
    work = np.flatnonzero(graph.event_flags.gpu_work)
    on_device = _WorkEnds(lanes.device[events.lane[work]], events.end[work], events.lane[work])
    on_stream = _WorkEnds(events.lane[work], events.end[work], events.lane[work])
    device = lanes.device[lane[here]]
    count = on_device.between(device, start, end) - on_stream.between(lane[here], start, end)
    lag = end - on_device.last_elsewhere(device, lane[here], end)
    found[here] = is_improbable(count, lag, end - start, CHANCE)
    return found


class _WorkEnds:
    """Ends of work (ns) in order, those of each device or stream together."""

    def __init__(self, group: Ints | Ids, end: Ints, lane: Ids) -> None:
        order = np.lexsort((end, group))
        self._group, self._end, self._lane = group[order], end[order], lane[order]

    def _until(self, group: Ints | Ids, time: Ints) -> tuple[Ints, Ints]:
        """Return where each group begins, and the place of its last end at or before a time."""
        first, past = (np.searchsorted(self._group, group, side=side) for side in ("left", "right"))
        return first, last_at_most(self._end, first, past, time)

    def between(self, group: Ints | Ids, after: Ints, until: Ints) -> Ints:
        """Count the ends of each group after one time, up to another."""
        found: Ints = self._until(group, until)[1] - self._until(group, after)[1]
        return found

    def last_elsewhere(self, group: Ints | Ids, lane: Ids, until: Ints) -> Ints:
        """Return the last end of each group on another lane up to a time; the earliest time where there is none."""
        first, at = self._until(group, until)
        # Before a run of ends on one lane stands an end on another.
        places = np.arange(len(self._end))
        run = np.maximum.accumulate(np.where(first_of_runs(self._group, self._lane), places, 0))
        own = (at >= first) & (take_or(self._lane, at) == lane)
        at = np.where(own, take_or(run, at) - 1, at)
        return np.where(at >= first, take_or(self._end, at), np.iinfo(np.int64).min)


def _recurs_in_graph_replays(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark holes of three or more replays of a graph that are there, at least half as long, again and again.

    Inside a launch each replay must show the hole, for a node runs whenever its graph does, and nothing that another
    lane did may have ended it. Before the first node most must: a replay that another one delays may hide it.
    """
    call = graph.launching_call
    source = take_or(call, np.where(holes.source >= 0, event_of(holes.source), -1))
    on_stream: Bools = (ROLE[holes.kind] == EdgeRole.STREAM) & (call[holes.work] >= 0)
    inside: Bools = on_stream & (call[holes.work] == source)
    before = on_stream & ~inside
    inside[inside] = _device_was_idle(graph, holes.work[inside])
    before[before] = _may_lack_first_node(graph, holes.take(before))
    if not (inside | before).any():
        return inside
    replays, with_hole = replays_with_hole(graph, holes.work, holes.end - holes.start)
    recurs = (inside & (with_hole == replays)) | (before & (2 * with_hole > replays))
    found: Bools = recurs & (replays >= MIN_REPLAYS)
    return found


def _may_lack_first_node(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark holes before a graph's work that nothing else can have filled."""
    events, flags, call = graph.event_table, graph.event_flags, graph.launching_call
    launch = call[holes.work]
    # What left no row may have run in the hole, or have waited for something.
    unseen = flags.enqueueing_call | flags.stream_wait_call
    unseen[call[call >= 0]] = False
    unseen_at = np.sort(events.start[unseen])
    # That of the work before; where it is older than the file, all counts.
    enqueued = take_or(events.start, call[event_of(holes.source)], otherwise=events.start.min())
    nothing_else = np.searchsorted(unseen_at, enqueued) == np.searchsorted(unseen_at, events.start[launch])
    found: Bools = flags.graph_launch_call[launch] & nothing_else & _device_was_idle(graph, holes.work)
    return found


def _may_run_unrecorded(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark holes for most of which work may run that was launched and has no row."""
    unknown = unrecorded_times(graph)
    inside = unknown.covered_until(holes.end) - unknown.covered_until(holes.start)
    found: Bools = 2 * inside > holes.end - holes.start
    return found


def _starts_before_launch(graph: DependencyGraph, holes: UnexplainedTimes) -> Bools:
    """Mark work that is stamped so long before its own launch that the launch cannot be believed."""
    events = graph.event_table
    launched = take_or(events.start, graph.launching_call[holes.work], otherwise=np.iinfo(np.int64).min)
    back: Bools = launched > events.start[holes.work] + CLOCK_FAULT_LIMIT_NS
    return back


EVIDENCE: tuple[tuple[Callable[[DependencyGraph, UnexplainedTimes], Bools], Reason], ...] = (
    (_first_work_long_queued, Reason.BEFORE_RECORDING),
    (_released_by_other_stream, Reason.WAIT_WITHOUT_RECORD),
    (_may_run_unrecorded, Reason.NOT_RECORDED),
    (_is_held, Reason.STREAM_HELD),
    (_recurs_in_graph_replays, Reason.MISSING_GRAPH_NODE),
    (_starts_before_launch, Reason.CLOCK_FAULT),
)
"""Evidence of why GPU work came late."""
