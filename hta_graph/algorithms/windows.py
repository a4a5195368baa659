"""Which stretch of time is asked about, and at which point its path ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hta_graph.errors import QueryError, UsageError
from hta_graph.graph import DependencyGraph
from hta_graph.model import CPU_KINDS, EdgeKind, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import Step
from hta_graph.trace.vocabulary import BLOCKING_CALL

__all__ = [
    "WHOLE_TRACE",
    "ResolvedWindow",
    "Sink",
    "Window",
    "annotation",
    "between",
    "first_busy_step",
    "step",
    "whole",
]

WHOLE_TRACE = "whole trace"


@dataclass(frozen=True)
class Sink:
    """Where the walk begins: a point (-1: none) no later than ``time_ns``.

    What lies between the point and the window's end belongs to ``lane`` (its open row, else a gap) or, without a lane,
    is unexplained.
    """

    point: int
    time_ns: int
    lane: int = -1


@dataclass(frozen=True)
class ResolvedWindow:
    """A stretch of time [start_ns, end_ns], what it is called, the lengths of its CPU and GPU forms, and its sink.

    ``cpu_start_ns`` is where the CPU form starts, if not with the window; ``is_named`` is false for explicit times
    and the whole trace.
    """

    start_ns: int
    end_ns: int
    label: str
    cpu_ns: int
    gpu_ns: int
    sink: Sink
    cpu_start_ns: int | None = None
    is_named: bool = True

    @property
    def cpu_span(self) -> tuple[int, int]:
        """The CPU form of the window (ns): the step or annotation itself, else the window."""
        start = self.start_ns if self.cpu_start_ns is None else self.cpu_start_ns
        return start, start + self.cpu_ns


Window = Callable[[DependencyGraph], ResolvedWindow]
"""A question about time: give it a graph and it answers with a resolved window, or raises ``QueryError``."""


def step(number: int, *, cpu_window: bool = False, gpu_window: bool = False) -> Window:
    """Ask about ``ProfilerStep#number``: from its start to the later of its end and its last GPU activity.

    Args:
        number: the N of ``ProfilerStep#N``.
        cpu_window: stop at the annotation's end.
        gpu_window: run from the previous step's sink to this one's; these windows tile the run.
    """
    _one_of(cpu_window=cpu_window, gpu_window=gpu_window)

    def resolve(graph: DependencyGraph) -> ResolvedWindow:
        steps = graph.trace.steps()
        found = [at for at, item in enumerate(steps) if item.number == number]
        if not found:
            known = _shortened([str(item.number) for item in steps])
            raise QueryError(
                f"{graph.trace.path}: there is no step {number}; "
                + (f"there are: {known}" if steps else "it has no steps")
            )
        return _step_window(graph, steps, found[0], cpu_window=cpu_window, gpu_window=gpu_window)

    return resolve


def annotation(
    name: str, *, regex: bool = False, first: int = 0, last: int | None = None, cpu_window: bool = False
) -> Window:
    """Ask about instances of a CPU annotation, counted from 0 in order of time.

    Args:
        name: the exact name, or an expression that must match all of it.
        regex: take ``name`` as a regular expression.
        first: the first instance.
        last: the last instance, included; the first one if not given.
        cpu_window: stop at the annotation's end.
    """

    def resolve(graph: DependencyGraph) -> ResolvedWindow:
        instances = _instances(graph, name, regex=regex)
        until = first if last is None else last
        if not 0 <= first <= until < len(instances):
            asked = str(first) if until == first else f"{first}:{until}"
            raise QueryError(
                f"{graph.trace.path}: there is no instance {asked} of {name!r}; they are 0 to {len(instances) - 1}"
            )
        events = graph.trace.events
        span = (int(events.start[instances[first]]), int(events.end[instances[first : until + 1]].max()))
        lane = int(events.lane[instances[until]])
        sink = _later(_cpu_sink(graph, lane, span[1]), _gpu_sink(graph, _launched_from(graph, lane, span)))
        label = graph.trace.name_of(int(instances[first])) + (f"[{first}:{until}]" if until > first else f"[{first}]")
        return _with_sink(graph, span, label, lane, sink, cpu_window=cpu_window)

    return resolve


def between(start_ns: int, end_ns: int) -> Window:
    """Ask about explicit times (absolute ns).

    Raises:
        UsageError: the end is not after the start.
    """
    if end_ns <= start_ns:
        raise UsageError(f"the window {start_ns}:{end_ns} ends before it starts")

    def resolve(graph: DependencyGraph) -> ResolvedWindow:
        length = end_ns - start_ns
        events = graph.trace.events
        first, last = int(events.start.min(initial=end_ns)), int(events.end.max(initial=start_ns))
        if not len(events) or start_ns >= last or end_ns <= first:
            raise QueryError(f"{graph.trace.path}: holds nothing in {start_ns}:{end_ns}; it spans {_span(graph)}")
        sink = _sink_at(graph, end_ns)
        return ResolvedWindow(start_ns, end_ns, f"{start_ns}:{end_ns}", length, length, sink, is_named=False)

    return resolve


def whole() -> Window:
    """Ask about the whole trace, from the first event's start to the last one's end."""

    def resolve(graph: DependencyGraph) -> ResolvedWindow:
        events = graph.trace.events
        if not len(events):
            raise QueryError(
                f"{graph.trace.path}: holds no events, nothing was captured; record the trace again around the work"
            )
        start, end = int(events.start.min()), int(events.end.max())
        length = end - start
        return ResolvedWindow(start, end, WHOLE_TRACE, length, length, _program_end(graph), is_named=False)

    return resolve


def first_busy_step(*, cpu_window: bool = False, gpu_window: bool = False) -> Window:
    """Ask about the first step that launched GPU work, else the first step, else the whole trace: the default.

    Args:
        cpu_window: stop at the annotation's end; needs steps.
        gpu_window: run from the previous step's sink to this one's; needs steps.
    """
    _one_of(cpu_window=cpu_window, gpu_window=gpu_window)

    def resolve(graph: DependencyGraph) -> ResolvedWindow:
        steps = graph.trace.steps()
        if not steps and (cpu_window or gpu_window):
            raise QueryError(f"{graph.trace.path}: it has no steps; ask for the whole trace, an annotation or times")
        if not steps:
            return whole()(graph)
        busy = [at for at, item in enumerate(steps) if len(_launched_in(graph, item.start_ns, item.end_ns))]
        return _step_window(graph, steps, busy[0] if busy else 0, cpu_window=cpu_window, gpu_window=gpu_window)

    return resolve


def _one_of(*, cpu_window: bool, gpu_window: bool) -> None:
    if cpu_window and gpu_window:
        raise UsageError("choose one of the CPU window and the GPU window")


def _step_window(
    graph: DependencyGraph, steps: list[Step], at: int, *, cpu_window: bool = False, gpu_window: bool = False
) -> ResolvedWindow:
    item = steps[at]
    lane = int(graph.trace.events.lane[item.event])
    span = (item.start_ns, item.end_ns)
    resolved = _with_sink(
        graph, span, f"ProfilerStep#{item.number}", lane, _step_sink(graph, item), cpu_window=cpu_window
    )
    before = max((_step_sink(graph, earlier).time_ns for earlier in steps[:at]), default=item.start_ns)
    gpu_span = min(before, resolved.sink.time_ns), resolved.sink.time_ns
    if not gpu_window:
        gpu_end = max(before, _step_sink(graph, item).time_ns)
        return ResolvedWindow(
            resolved.start_ns, resolved.end_ns, resolved.label, resolved.cpu_ns, gpu_end - before, resolved.sink
        )
    if before >= resolved.sink.time_ns:
        raise QueryError(
            f"{graph.trace.path}: the GPU window of {resolved.label} is empty: an earlier step's work ends after it"
        )
    length = gpu_span[1] - gpu_span[0]
    label = f"{resolved.label} (GPU window)"
    return ResolvedWindow(*gpu_span, label, resolved.cpu_ns, length, resolved.sink, item.start_ns)


def _span(graph: DependencyGraph) -> str:
    events = graph.trace.events
    return f"{int(events.start.min())}:{int(events.end.max())}" if len(events) else "nothing"


def _step_sink(graph: DependencyGraph, item: Step) -> Sink:
    lane = int(graph.trace.events.lane[item.event])
    launched = _launched_in(graph, item.start_ns, item.end_ns)
    return _later(_cpu_sink(graph, lane, item.end_ns), _gpu_sink(graph, launched))


def _with_sink(
    graph: DependencyGraph, span: tuple[int, int], label: str, lane: int, sink: Sink, *, cpu_window: bool
) -> ResolvedWindow:
    cpu_ns, gpu_ns = span[1] - span[0], max(sink.time_ns - span[0], 0)
    if cpu_window:
        return ResolvedWindow(*span, f"{label} (CPU window)", cpu_ns, gpu_ns, _cpu_sink(graph, lane, span[1]))
    return ResolvedWindow(span[0], sink.time_ns, label, cpu_ns, gpu_ns, sink)


def _later(cpu: Sink, gpu: Sink | None) -> Sink:
    return gpu if gpu is not None and gpu.time_ns > cpu.time_ns else cpu


def _cpu_sink(graph: DependencyGraph, lane: int, time_ns: int) -> Sink:
    """End at an instant on a thread: the last point there no later than that."""
    points = graph.timeline.calls.points[graph.timeline.calls.lane_slice(lane)]
    before = np.searchsorted(graph.timeline.times[points], time_ns, side="right")
    return Sink(int(points[before - 1]) if before else -1, time_ns, lane)


def _gpu_sink(graph: DependencyGraph, activities: Ids) -> Sink | None:
    """End with the activity that ends last; of equal ends the last in canonical order."""
    if not len(activities):
        return None
    ends = graph.trace.events.end[activities]
    last = int(activities[len(ends) - 1 - int(np.argmax(ends[::-1]))])
    return Sink(2 * last + 1, int(graph.trace.events.end[last]))


def _launches(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return the launching calls and their activities."""
    edges = graph.edge_table
    launch = edges.kind == EdgeKind.LAUNCH
    return edges.source[launch] >> 1, edges.target[launch] >> 1


def _launched_in(graph: DependencyGraph, start_ns: int, end_ns: int, lanes: Ids | None = None) -> Ids:
    """Return the activities whose launching call starts in [start, end), on any thread or on some."""
    calls, activities = _launches(graph)
    at = graph.trace.events.start[calls]
    inside = (at >= start_ns) & (at < end_ns)
    if lanes is not None:
        inside &= np.isin(graph.trace.events.lane[calls], lanes)
    return np.sort(activities[inside])


def _launched_from(graph: DependencyGraph, lane: int, span: tuple[int, int]) -> Ids:
    """Return what a thread, and those it handed work to meanwhile, launched in a stretch of time."""
    edges, events = graph.edge_table, graph.trace.events
    times = graph.timeline.times
    handed = (edges.kind == EdgeKind.THREAD_HANDOFF) & (events.lane[edges.source >> 1] == lane)
    handed &= (times[edges.source] >= span[0]) & (times[edges.source] < span[1])
    return _launched_in(graph, *span, np.append(events.lane[edges.target[handed] >> 1], lane))


def _instances(graph: DependencyGraph, name: str, *, regex: bool) -> Ints:
    """Return the instances of an annotation on the CPU, before 2022 written as operators, in order of time."""
    trace = graph.trace
    try:
        expression = re.compile(name if regex else re.escape(name))
    except re.error as error:
        raise QueryError(f"{name!r} is not a regular expression: {error}") from None
    named = np.array([expression.fullmatch(text) is not None for text in trace.names] or [False])[trace.events.name]
    for kind in (EventKind.ANNOTATION, EventKind.CPU_OP):
        found = np.flatnonzero(named & (trace.events.kind == kind))
        if len(found):
            return found
    known = Counter(
        trace.name_of(event) for event in np.flatnonzero(trace.events.kind == EventKind.ANNOTATION).tolist()
    )
    listed = _shortened([f"{text!r} ×{count}" if count > 1 else repr(text) for text, count in known.most_common()])
    raise QueryError(
        f"{trace.path}: there is no annotation {name!r}; " + (f"there are: {listed}" if known else "it has none")
    )


def _sink_at(graph: DependencyGraph, end_ns: int) -> Sink:
    """End an explicit window: the activity running then that ends last, else the last point of a launching thread."""
    events = graph.trace.events
    running = np.flatnonzero(graph.trace.is_gpu & (events.start < end_ns) & (events.end >= end_ns))
    on_gpu = _gpu_sink(graph, running.astype(np.int32))
    if on_gpu is not None:
        return Sink(on_gpu.point, end_ns)
    calls = graph.timeline.calls
    launching = np.isin(events.lane[calls.points >> 1], events.lane[_launches(graph)[0]])
    candidates = calls.points[launching] if launching.any() else calls.points
    candidates = candidates[graph.timeline.times[candidates] <= end_ns]
    if not len(candidates):
        return Sink(-1, end_ns)
    last = int(candidates[np.argmax(graph.timeline.position[candidates])])
    return Sink(last, end_ns, int(events.lane[last >> 1]))


def _program_end(graph: DependencyGraph) -> Sink:
    """End the whole trace with the last activity or point of a thread that launches, synchronises or runs operators.

    A watchdog's late poll is not the program's end.
    """
    events = graph.trace.events
    on_cpu = kind_mask(events.kind, CPU_KINDS)
    works = (events.kind == EventKind.CPU_OP) | (on_cpu & graph.trace.names_starting_with(BLOCKING_CALL)[events.name])
    works[_launches(graph)[0]] = True
    working_lanes = np.zeros(len(graph.trace.lanes.labels) + 1, np.bool_)
    working_lanes[events.lane[works & on_cpu]] = True
    candidates = np.flatnonzero((on_cpu & working_lanes[events.lane]) | graph.trace.is_gpu)
    if not len(candidates):
        candidates = np.flatnonzero(on_cpu)
    if not len(candidates):
        return Sink(-1, int(events.start.min()))
    last = 2 * candidates[events.end[candidates] == events.end[candidates].max()] + 1
    point = int(last[np.argmax(graph.timeline.position[last])])
    return Sink(point, int(graph.timeline.times[point]))


def _shortened(names: list[str], limit: int = 12) -> str:
    shown = ", ".join(name if len(name) <= 60 else name[:59] + "…" for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
