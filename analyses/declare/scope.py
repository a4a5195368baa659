"""What an analysis looks at: a window of one rank's trace and the GPU activities in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from analyses.display.sentence_format import brief_duration, brief_share, quoted
from hta_graph.base.arrays import freeze
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Ids, Ints
from hta_graph.paths.gpu_activity import Activities, activities
from hta_graph.paths.unrecorded_work import unrecorded_times
from hta_graph.paths.windows import WHOLE_TRACE, Window, WindowQuery, resolved_window, step
from hta_graph.paths.windows import whole as whole_trace
from hta_graph.what_if.reliability import work_waits_most_of_idle

if TYPE_CHECKING:
    from hta_graph.paths.critical_path import CriticalPath


@dataclass(frozen=True)
class Scope:
    """A window of one rank's trace: the time range [start_ns, end_ns) and what belongs to it.

    CPU events belong if they start in [cpu_start_ns, cpu_end_ns). ``work`` are the activities that these launch (of
    explicit times and whole traces: that start there), with their full lengths, for tables of activities; ``running``
    are those that run in the window, cut to it, for accounts of time. ``window`` selects the same for a path,
    which is ``known_path`` where it was found before.
    """

    rank: int
    graph: DependencyGraph
    label: str
    start_ns: int
    end_ns: int
    cpu_start_ns: int
    cpu_end_ns: int
    work: Activities
    running: Activities
    window: WindowQuery = field(default_factory=whole_trace)
    known_path: CriticalPath | None = field(default=None, compare=False, repr=False)

    @property
    def window_ns(self) -> int:
        """The length of the window."""
        return self.end_ns - self.start_ns

    @property
    def name(self) -> str:
        """The label as part of a sentence: "the whole trace", "ProfilerStep#2"."""
        return f"the {self.label}" if self.label == WHOLE_TRACE else self.label

    @property
    def is_open(self) -> bool:
        """Whether the scope includes everything before it: true for the whole trace and HTA windows, not for a step."""
        return self.cpu_start_ns == np.iinfo(np.int64).min

    @property
    def whole_ns(self) -> int:
        """The length of the whole trace where that is the scope, as paths have it; else that of the window."""
        if not (self.is_open and self.label == WHOLE_TRACE):
            return self.window_ns
        if not len(self.graph.event_table):
            return 0
        found = whole_trace()(self.graph)
        return found.end_ns - found.start_ns

    @property
    def not_recorded_ns(self) -> int:
        """How long nothing that is recorded runs, and launched work may run that has no row."""
        unknown = unrecorded_times(self.graph).clip(self.start_ns, self.end_ns)
        return unknown.subtract(self.running.busy()).total if len(unknown.start) else 0

    @property
    def work_does_not_start(self) -> bool:
        """Whether launched work does not start for most of the time in which the GPU is idle."""
        return work_waits_most_of_idle(self.graph, self.start_ns, self.end_ns)

    def __getitem__(self, place: object) -> NoReturn:
        """Explain to a caller of an analysis of several scopes how to pass one."""
        raise TypeError("expected a list of scopes, got one; pass [scope]")

    def holds(self, rows: Ids | Ints) -> Bools:
        """Mark the CPU events (canonical rows) that belong to the window."""
        start = self.graph.event_table.start[rows]
        inside: Bools = (start >= self.cpu_start_ns) & (start < self.cpu_end_ns)
        return inside

    @property
    def gpus(self) -> list[int]:
        """The numbers of the GPUs that work in the window."""
        return self.gpus_of(self.running)

    def gpus_of(self, every: Activities) -> list[int]:
        """Return the numbers of the GPUs that some activities ran on."""
        return [gpu for gpu in np.unique(self._devices(every)).tolist() if gpu >= 0]

    def on_gpu(self, gpu: int) -> Scope:
        """Return the same window with the activities of one GPU alone."""
        work, running = (every.take(self._devices(every) == gpu) for every in (self.work, self.running))
        return replace(self, work=work, running=running)

    def _devices(self, every: Activities) -> Ints:
        return self.graph.lanes.device[every.lane]

    def missing(self) -> str:
        """Return a note if the window has no GPU activity, or an empty text."""
        if len(self.running):
            return ""
        if len(activities(self.graph)):
            return f"rank {self.rank}: no GPU activity in {self.name}; choose another window"
        return (
            f"rank {self.rank}: the trace has no GPU activity; record with ProfilerActivity.CUDA and profile steps "
            "that launch kernels"
        )

    def missing_start(self) -> str:
        """Return a note if no GPU activity starts in the window, or an empty text."""
        if self.missing() or len(self.work):
            return self.missing()
        return f"rank {self.rank}: no GPU activity starts in {self.name}"


def naming_window(said: Sequence[str], scopes: Sequence[Scope]) -> list[str]:
    """Put the window and its length in front of a headline, where all scopes have the same one.

    The whole trace is what its critical path takes: where the GPU's activities span less of it, by the digits that are
    printed, that is said.
    """
    labels, lengths = {scope.label for scope in scopes}, {scope.window_ns for scope in scopes}
    if not said or len(labels) != 1 or not any(lengths):
        return list(said)
    (label,), is_most = labels, len(lengths) > 1
    whole_ns = max(scope.whole_ns for scope in scopes)
    if brief_duration(whole_ns) != brief_duration(max(lengths)):
        length = f"{'up to ' if is_most else ''}{brief_duration(max(lengths))} of the {brief_duration(whole_ns)} trace"
        return [f"first to last GPU activity, {length}: {said[0]}", *said[1:]]
    return [f"{quoted(label)}, {'up to ' if is_most else ''}{brief_duration(max(lengths))}: {said[0]}", *said[1:]]


MOSTLY_IDLE = 0.5
"""From this share of a window on that the GPU is idle, answers about its work begin with that."""

LEAST_SAID = 0.01
"""What takes, or would save, less than this share of a window is no headline."""


def idle_first(said: Sequence[str], scopes: Sequence[Scope]) -> list[str]:
    """Begin a headline about GPU work with the idle time, where the GPU of the only window is mostly idle."""
    if len(scopes) != 1 or not said or not scopes[0].window_ns:
        return list(said)
    idle = 1 - (scopes[0].running.busy().total + scopes[0].not_recorded_ns) / scopes[0].window_ns
    if idle >= MOSTLY_IDLE:
        return [f"GPU idle {brief_share(idle)} of the time (see idle-time); {said[0]}", *said[1:]]
    return list(said)


def several_gpus(scopes: Iterable[Scope]) -> list[str]:
    """Return a note for each rank that drives several GPUs."""
    working = ((scope.rank, scope.gpus) for scope in scopes)
    return [
        f"rank {rank}: one process drives {gpus}; the GPU counts as busy while any of them is busy"
        for rank, gpus in ranks_with_several_gpus(working)
    ]


def ranks_with_several_gpus(working: Iterable[tuple[int, Iterable[int]]]) -> Iterator[tuple[int, str]]:
    """Name the GPUs of each rank that has several, given those of its windows.

    >>> list(ranks_with_several_gpus([(0, [0]), (1, [0]), (0, [1])]))
    [(0, '2 GPUs (0, 1)')]
    """
    found: dict[int, set[int]] = {}
    for rank, gpus in working:
        found.setdefault(rank, set()).update(gpus)
    several = ((rank, sorted(gpus)) for rank, gpus in found.items() if len(gpus) > 1)
    yield from ((rank, f"{len(gpus)} GPUs ({', '.join(map(str, gpus))})") for rank, gpus in several)


def whole(rank: int, graph: DependencyGraph) -> Scope:
    """Select the whole trace: every CPU event, and the time from the first GPU activity to the end of the last."""
    work = activities(graph)
    return spanning(rank, graph, WHOLE_TRACE, work, np.iinfo(np.int64).max)


def in_window(rank: int, graph: DependencyGraph, window: WindowQuery) -> Scope:
    """Select a window such as a step; for the whole trace, the same scope as :func:`whole`.

    Raises:
        QueryError: the trace has no such window.
    """
    found = window(graph)
    # The whole trace is one and the same window, however it was selected.
    if found.is_whole:
        return whole(rank, graph)
    every, order = activities(graph), _work_in_order(graph)
    # From the first that may still run when the window begins to the last that starts before its end.
    first = int(np.searchsorted(order.latest_end, found.start_ns, side="right"))
    near = np.sort(order.by_start[first : int(np.searchsorted(order.start, found.end_ns))])
    running = every.take(near[every.end[near] > found.start_ns])
    # For accounts of time: cut to the window, so that parts add up to its length.
    running = replace(
        running,
        start=freeze(running.start.clip(min=found.start_ns)),
        end=freeze(running.end.clip(max=found.end_ns)),
    )
    work = every.take(_launched_inside(order, found))
    ends = (found.start_ns, found.end_ns, *found.cpu_span)
    return Scope(rank, graph, found.label, *ends, work, running, resolved_window(found))


def with_known_paths(scopes: Sequence[Scope], paths: Mapping[int, CriticalPath]) -> list[Scope]:
    """Return scopes of ranks with the paths of their windows, as these are found without options."""
    return [replace(scope, known_path=paths.get(scope.rank)) for scope in scopes]


def empty_scope(rank: int, graph: DependencyGraph, label: str) -> Scope:
    """Return a scope without work, for a rank that lacks a window that others have."""
    none = activities(graph).take(np.empty(0, np.int64))
    return Scope(rank, graph, label, 0, 0, 0, 0, none, none)


@dataclass(frozen=True)
class _WorkInOrder:
    """Places of activities by their start and by their call, with these times (ns); what has no call is left out.

    ``latest_end`` is when the last one ends of those that start no later.
    """

    by_start: Ints
    start: Ints
    latest_end: Ints
    by_call: Ints
    called: Ints


@memoized
def _work_in_order(graph: DependencyGraph) -> _WorkInOrder:
    every = activities(graph)
    by_start = np.argsort(every.start, kind="stable")
    launched = np.flatnonzero(every.call >= 0)
    called = graph.event_table.start[every.call[launched]]
    order = np.argsort(called, kind="stable")
    latest_end = np.maximum.accumulate(every.end[by_start])
    return _WorkInOrder(by_start, every.start[by_start], latest_end, launched[order], called[order])


def _launched_inside(order: _WorkInOrder, found: Window) -> Ints:
    """Return the places of what a step or annotation launched; of explicit times of what starts in the window."""
    if not found.is_named:
        return np.sort(order.by_start[slice(*np.searchsorted(order.start, (found.start_ns, found.end_ns)))])
    return np.sort(order.by_call[slice(*np.searchsorted(order.called, found.launch_span))])


def per_step(rank: int, graph: DependencyGraph, *, cpu_window: bool = False, gpu_window: bool = False) -> list[Scope]:
    """Select each profiler step, as ``--step N`` does; or its CPU window, or its GPU window.

    Raises:
        QueryError: the trace has no steps.
    """
    steps = graph.steps()
    if not steps:
        raise QueryError(
            f"{graph.path}: has no profiler steps; call prof.step() in the training loop, or analyze the whole trace"
        )
    windows = [step(item.number, cpu_window=cpu_window, gpu_window=gpu_window) for item in steps]
    return [in_window(rank, graph, window) for window in windows]


def spanning(rank: int, graph: DependencyGraph, label: str, work: Activities, cpu_end_ns: int) -> Scope:
    """Look at all from the start of some work to its end, and at every CPU row up to a time.

    What may have run and has no row belongs to the work.
    """
    unknown = unrecorded_times(graph)
    begins, ends = np.append(work.start, unknown.start), np.append(work.end, unknown.end)
    start, end = (int(begins.min()), int(ends.max())) if len(work) else (0, 0)
    return Scope(rank, graph, label, start, end, np.iinfo(np.int64).min, cpu_end_ns, work, work)
