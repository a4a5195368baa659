"""Where a path ends: the last point of a step, an annotation, a moment, a program; what was issued when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_graph.base.arrays import freeze, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EventEdges
from hta_graph.graph.handoffs import EARLIEST, autograd_bursts
from hta_graph.graph.memo import memoized, memoized_each
from hta_graph.graph.points import end_point, event_of
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import CPU_KINDS, ON_STREAMS, Bools, EdgeKind, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.intervals import union
from hta_graph.trace.table import Step


@memoized
def working_threads(graph: DependencyGraph) -> Bools:
    """Mark the lanes that are threads which run operators, launch, or synchronize; a watchdog's polls are no work."""
    events = graph.event_table
    works = (events.kind == EventKind.CPU_OP) | graph.event_flags.blocking_call
    works[graph.edges_of(EdgeKind.LAUNCH).source] = True
    lanes = np.zeros(len(graph.lanes.labels), np.bool_)
    lanes[events.lane[works & kind_mask(events.kind, CPU_KINDS)]] = True
    return freeze(lanes)


@memoized
def issue_times(graph: DependencyGraph) -> Ints:
    """Return when (ns) each event was issued: when its launching call began, or it itself if that was earlier."""
    issued = graph.event_table.start.copy()
    launches = graph.edges_of(EdgeKind.LAUNCH)
    np.minimum.at(issued, launches.target, launches.source_ns)
    return freeze(issued)


NO_POINTS, NO_TAILS = freeze(np.empty(0, np.int32)), freeze(np.empty(0, np.int64))


@dataclass(frozen=True)
class Sink:
    """Where the walk begins: a point (-1: none) no later than ``time_ns``.

    What lies between the point and the window's end belongs to ``lane`` (its open row, else a gap) or, without a lane,
    is unexplained. ``ends`` are all points that the window waits for, of which this is the last, ``tails`` how long
    (ns) it continues after each, ``lanes`` on which thread (-1: none): after a change another one may be the last.
    """

    point: int
    time_ns: int
    lane: int = -1
    ends: Ids = field(default_factory=lambda: NO_POINTS, compare=False, repr=False)
    tails: Ints = field(default_factory=lambda: NO_TAILS, compare=False, repr=False)
    lanes: Ids = field(default_factory=lambda: NO_POINTS, compare=False, repr=False)


@memoized_each
def step_sink(graph: DependencyGraph, item: Step) -> Sink:
    """End a step with the later of its own end and the last GPU activity that any thread launched inside it.

    An engine's step ends with its GPU work: while that runs, its call may be preparing the next step. Each form of a
    step's window asks for its own.
    """
    lane = int(graph.event_table.lane[item.event])
    on_gpu = sink_on_gpu(graph, launched_in(graph, item.start_ns, item.until_ns))
    if item.engine is not None and on_gpu is not None:
        return on_gpu
    return later_sink(sink_on_thread(graph, lane, item.end_ns), on_gpu)


@memoized
def steps_by_number(graph: DependencyGraph) -> dict[int, tuple[int, Step]]:
    """Return each step and its place in order of time, by its number."""
    return {item.number: (place, item) for place, item in enumerate(graph.steps())}


@memoized
def step_work_ends(graph: DependencyGraph) -> Ints:
    """Return when the work of each step ends (ns), in order of time: that of :func:`step_sink`."""
    if (known := graph.attached(RankSummary)) is not None:
        return known.steps.end
    steps, launches = graph.steps(), _launches_by_time(graph)
    starts, ends, untils = (np.array(times, np.int64) for times in (
        [item.start_ns for item in steps], [item.end_ns for item in steps], [item.until_ns for item in steps],
    ))  # fmt: skip
    ends[[item.engine is not None for item in steps]] = np.iinfo(np.int64).min
    first, past = (np.searchsorted(launches.source_ns, times) for times in (starts, untils))
    busy = np.flatnonzero(past > first)
    # One more behind the last, so that a range may end there; every second result is that of the time between ranges.
    on_gpu = np.append(graph.event_table.end[launches.target], np.iinfo(np.int64).min)
    bounds = np.stack([first[busy], past[busy]], axis=1).ravel()
    ends[busy] = np.maximum(ends[busy], np.maximum.reduceat(on_gpu, bounds)[::2] if len(busy) else 0)
    without = np.flatnonzero(ends == np.iinfo(np.int64).min)
    ends[without] = [steps[at].end_ns for at in without.tolist()]
    return freeze(ends)


@memoized
def earlier_work_ends(graph: DependencyGraph) -> Ints:
    """Return when the work of the steps before each has ended (ns), in order of time; of the first when it starts."""
    starts = np.array([_first_begins(graph, item) for item in graph.steps()[:1]], np.int64)
    return freeze(np.append(starts, np.maximum.accumulate(step_work_ends(graph))[:-1]))


def _first_begins(graph: DependencyGraph, item: Step) -> int:
    """Return where the first step begins: an engine's when earlier GPU work has ended, else with its own.

    What the GPU did before the recording is not in the file, so an engine's step that waits for it begins late.
    """
    own = launched_in(graph, item.start_ns, item.until_ns) if item.engine is not None else NO_POINTS
    if not len(own):
        return item.start_ns
    events, work = graph.event_table, np.flatnonzero(graph.is_gpu)
    called = take_or(events.start, graph.launching_call[work], otherwise=EARLIEST)
    earlier = work[called < item.start_ns]
    begins = max(
        int(events.start[own].min()), int(events.end[earlier].max(initial=EARLIEST)), end_before_recording(graph)
    )
    return begins if begins < int(events.end[own].max()) else item.start_ns


@memoized
def end_before_recording(graph: DependencyGraph) -> int:
    """Return when (ns) the GPU's work from before the recording ends, as far as the first recorded work shows it.

    A stream's first activity waited for it if it was queued for longer than the recording had lasted when its launch
    returned, on an idle GPU: nothing in the file held it back.

        recording  |--launch--|                                  the GPU shows nothing meanwhile
        stream                                      [first activity
    """
    events = graph.event_table
    rows = np.flatnonzero(graph.is_gpu & (graph.launching_call >= 0))
    _, first = np.unique(events.lane[rows], return_index=True)
    if not len(rows):
        return EARLIEST
    begins, busy = int(events.start.min()), union(events.start[rows], events.end[rows])
    for row in rows[first].tolist()[::-1]:
        returned, start = int(events.end[graph.launching_call[row]]), int(events.start[row])
        covered = busy.covered_until(np.array([returned, start]))
        is_idle = covered[1] - covered[0] <= MOST_BUSY * (start - returned)
        if start - returned > max(returned - begins, LEAST_QUEUED_NS) and is_idle:
            return start
    return EARLIEST


LEAST_QUEUED_NS = 1_000_000
"""A shorter wait for a launch is none that matters."""
MOST_BUSY = 0.05
"""An idle GPU may run this share of a time."""


def later_sink(cpu: Sink, gpu: Sink | None) -> Sink:
    """Return the later one; of equals the CPU's."""
    return cpu if gpu is None else latest_sink([cpu, gpu])


def latest_sink(sinks: Sequence[Sink]) -> Sink:
    """Return the latest one, of equals the first; it waits for the ends of all, if for any: else nothing moves it."""
    latest = max(sinks, key=lambda sink: sink.time_ns)
    if not len(latest.ends):
        return latest
    return replace(
        latest,
        ends=np.concatenate([sink.ends for sink in sinks]),
        tails=np.concatenate([sink.tails for sink in sinks]),
        lanes=np.concatenate([sink.lanes for sink in sinks]),
    )


def sink_on_thread(graph: DependencyGraph, lane: int, time_ns: int) -> Sink:
    """End at an instant on a thread: the last point there no later than that, or of threads that worked for it since.

    An instant inside a hand-off waits for what was handed over; where nothing of that is open, the rest of the time
    is the waiting thread's.

        launching thread   [op]_______________________________|____[op]
        autograd thread         [backward op][backward op]
                                                         ^ sink
    """
    times, position = graph.timeline.times, graph.timeline.position
    ends = _last_point(graph, lane, time_ns)
    since = int(times[ends].max(initial=EARLIEST))
    workers = autograd_bursts(graph).workers(lane, since, time_ns).tolist()
    theirs = np.concatenate([ends[:0], *(_last_point(graph, worker, time_ns) for worker in workers)])
    theirs = theirs[position[theirs] > position[ends].max(initial=-1)]
    if len(theirs):
        ends = theirs
    if not len(ends):
        return Sink(-1, time_ns, lane)
    point = int(ends[np.argmax(position[ends])])
    is_open = take_or(graph.calls.owner, graph.timeline.position_on_thread(ends)) >= 0
    lanes = np.where(is_open, graph.event_table.lane[event_of(ends)], lane).astype(np.int32)
    # Whichever ends last, the waiting thread takes as long after it.
    tails = np.full(len(ends), time_ns - times[point])
    return Sink(point, time_ns, int(lanes[ends == point][0]), ends, tails, lanes)


def _last_point(graph: DependencyGraph, lane: int, time_ns: int) -> Ids:
    """Return the last point on a thread no later than an instant, if there is one."""
    part = graph.calls.lane_slice(lane)
    before = np.searchsorted(graph.calls.time[part], time_ns, side="right")
    return graph.calls.points[part][before - 1 : before]


def sink_on_gpu(graph: DependencyGraph, activities: Ids) -> Sink | None:
    """End with the activity that ends last; of equal ends the last in canonical order."""
    if not len(activities):
        return None
    ends = graph.event_table.end[activities]
    # argmax finds the first of equals, so it looks from the back.
    last = activities[len(ends) - 1 - int(np.argmax(ends[::-1]))]
    return sink_without_tails(int(end_point(last)), int(graph.event_table.end[last]), end_point(activities))


def sink_without_tails(point: int, time_ns: int, ends: Ids, lane: int = -1) -> Sink:
    """End with a point, the last of some, at once."""
    return Sink(point, time_ns, lane, ends, np.zeros(len(ends), np.int64), np.full(len(ends), lane, np.int32))


def launched_in(graph: DependencyGraph, start_ns: int, end_ns: int, lanes: Ids | None = None) -> Ids:
    """Return the activities whose launching call starts in [start, end), on any thread or on some."""
    launches = _launches_by_time(graph)
    inside = slice(*np.searchsorted(launches.source_ns, (start_ns, max(start_ns, end_ns))))
    target = launches.target[inside]
    if lanes is not None:
        target = target[np.isin(graph.event_table.lane[launches.source[inside]], lanes)]
    return np.sort(target)


@memoized
def _launches_by_time(graph: DependencyGraph) -> EventEdges:
    """Return the launches in order of their calls' starts."""
    launches = graph.edges_of(EdgeKind.LAUNCH)
    return launches.take(np.argsort(launches.source_ns, kind="stable"))


def launched_from(graph: DependencyGraph, lane: int, span: tuple[int, int]) -> Ids:
    """Return what a thread, and those that worked for it meanwhile, launched in a time range."""
    return launched_in(graph, *span, np.append(autograd_bursts(graph).workers(lane, *span), lane))


def sink_at(graph: DependencyGraph, end_ns: int) -> Sink:
    """End an explicit window: the activity running then that ends last, else the last point of a launching thread."""
    events = graph.event_table
    running = np.flatnonzero(graph.is_activity & (events.start < end_ns) & (events.end >= end_ns))
    on_gpu = sink_on_gpu(graph, running.astype(np.int32))
    if on_gpu is not None:
        return _with_single_end(graph, Sink(on_gpu.point, end_ns))
    calls = graph.calls
    # A thread that launches nothing (a watchdog, a data loader) does not decide where the window's work ends.
    launching = np.zeros(len(graph.lanes.labels), np.bool_)
    launching[events.lane[graph.edges_of(EdgeKind.LAUNCH).source]] = True
    on_launching = launching[events.lane[calls.event]]
    allowed = (on_launching if on_launching.any() else True) & (calls.time <= end_ns)
    candidates = calls.points[allowed]
    if not len(candidates):
        return Sink(-1, end_ns)
    last = int(np.argmax(graph.timeline.position[candidates]))
    return _with_single_end(graph, Sink(int(candidates[last]), end_ns, int(events.lane[calls.event[allowed][last]])))


def _with_single_end(graph: DependencyGraph, sink: Sink) -> Sink:
    """Let a window wait for nothing but its sink."""
    point, lane = (np.array([value], np.int32) for value in (sink.point, sink.lane))
    return replace(sink, ends=point, tails=sink.time_ns - graph.timeline.times[point], lanes=lane)


def program_end(graph: DependencyGraph) -> Sink:
    """End the whole trace with the last activity or point of a thread that launches, synchronizes or runs operators.

    A watchdog's late poll is not the program's end.
    """
    events = graph.event_table
    on_cpu = kind_mask(events.kind, CPU_KINDS)
    on_stream = kind_mask(events.kind, ON_STREAMS)
    candidates = np.flatnonzero((on_cpu & working_threads(graph)[events.lane]) | on_stream)
    if not len(candidates):
        candidates = np.flatnonzero(on_cpu)
    if not len(candidates):
        return Sink(-1, int(events.start.min()))
    last = end_point(candidates[events.end[candidates] == events.end[candidates].max()])
    # Of several that end in the same nanosecond the last in the global order depends on all the others.
    point, every = last[np.argmax(graph.timeline.position[last])], end_point(candidates)
    return sink_without_tails(int(point), int(graph.timeline.times[point]), every)
