"""Windows: which time range is analyzed, at which point its path ends, and which step represents a run.

Of a job a window is made of those of its ranks:

```
rank 0   |---step 1---|---step 2---|==|
rank 1     |---step 1---|---step 2---|====|
job                        ^ 1 ends       ^ 2 ends     iterations, from latest end to latest end: they tile
```
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from hta_graph.base.errors import QueryError, Remedy, UsageError
from hta_graph.base.safe_regex import names_matching
from hta_graph.base.text.formatting import milliseconds
from hta_graph.base.text.shorten import closest_names, shorten_middle, suggest_number
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph, require_graph
from hta_graph.graph.edges import Members
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point
from hta_graph.graph.rank_summary import JobLimits, RankSummary, StepColumns, WindowRecord
from hta_graph.model import WALKABLE, EdgeKind, EventKind, Ints, kind_mask
from hta_graph.paths.window_ends import (
    Sink,
    earlier_work_ends,
    later_sink,
    latest_sink,
    launched_from,
    program_end,
    sink_at,
    sink_on_gpu,
    sink_on_thread,
    sink_without_tails,
    step_sink,
    step_work_ends,
    steps_by_number,
)
from hta_graph.trace.table import Step

WHOLE_TRACE = "whole trace"
WITHOUT_STEPS = Remedy(
    "name an annotation, a time range or the whole trace: annotation(NAME), between(START_NS, END_NS), whole()",
    "name an annotation, a time range or the whole trace: --annotation NAME, --window START_NS:END_NS, --whole",
)
WITHOUT_ANNOTATIONS = Remedy(
    "name a step, a time range or the whole trace: step(N), between(START_NS, END_NS), whole()",
    "name a step, a time range or the whole trace: --step N, --window START_NS:END_NS, --whole",
)
LATEST_NS = 2**63 - 1
LONGEST_SHOWN = 60
"""Characters of a name in an error."""

WindowForm = Literal["usual", "cpu", "gpu"]
"""To the end of the last work, to the end on the CPU, or from the end of the previous work to the end of its own."""


@dataclass(frozen=True, repr=False)
class Window:
    """A time range [start_ns, end_ns], its label, the lengths of its CPU and GPU windows, and its sink.

    The GPU window of a step is its iteration. ``cpu_start_ns`` is where the CPU form starts, if not with the window;
    ``is_named`` is false for explicit times and the whole trace. ``rows_after`` counts the events that begin once the
    whole trace's work has ended, and ``after_ns`` is how long they go on. ``step`` is the number of a profiler step. Of
    a job ``missing`` are the ranks that have no such window. ``is_default``: no window was named. ``is_iteration``: a
    latency stands for the iteration, which is as long. ``until_ns`` is until when launches are the step's, if not until
    its end on the CPU.
    """

    start_ns: int
    end_ns: int
    label: str
    cpu_ns: int
    gpu_ns: int
    sink: Sink
    cpu_start_ns: int | None = None
    is_named: bool = True
    rows_after: int = 0
    after_ns: int = 0
    step: int | None = None
    missing: tuple[int, ...] = ()
    form: WindowForm = "usual"
    is_default: bool = False
    is_iteration: bool = field(default=False, compare=False)
    until_ns: int | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<window {self.label}: {milliseconds(self.end_ns - self.start_ns)} ms from {self.start_ns} ns>"

    @property
    def cpu_span(self) -> tuple[int, int]:
        """Start and end (ns) of the CPU window: the step or annotation itself, else the window."""
        start = self.start_ns if self.cpu_start_ns is None else self.cpu_start_ns
        return start, start + self.cpu_ns

    @property
    def launch_span(self) -> tuple[int, int]:
        """From when until when (ns) launches are the window's own."""
        return self.cpu_span[0], self.cpu_span[1] if self.until_ns is None else self.until_ns

    @property
    def is_whole(self) -> bool:
        """Whether the window is the whole trace."""
        return self.label == WHOLE_TRACE and not self.is_named


@dataclass(frozen=True, repr=False)
class WindowQuery:
    """A window that is not resolved yet: called with a graph, it returns the :class:`Window`.

    >>> step(5, gpu_window=True), between(0, 2_000_000)
    (<window step(5, gpu_window=True)>, <window between(0, 2000000)>)
    """

    asked: str
    resolve: Callable[[DependencyGraph], Window]
    of_job: Callable[[DependencyGraph, Callable[[DependencyGraph], Window]], Window] | None = None
    """How the windows of a job's ranks combine; without it a job is treated as one rank is."""
    by_rows: bool = True
    """Whether the answer is in a graph's rows, all of them; else it is known, or made of other windows."""
    check: Callable[[DependencyGraph], object] = lambda _: None
    """Refuses what few rows are enough to refuse: a step that is not there."""

    def __call__(self, graph: DependencyGraph) -> Window:
        """Resolve the window in the graph of a rank or a job.

        Raises:
            QueryError: the graph's trace has no such window.
            TypeError: it is not a graph.
        """
        require_graph(graph)
        if self.of_job is not None and graph.is_job:
            return self.of_job(graph, self._of_rank)
        return self._of_rank(graph)

    def _of_rank(self, graph: DependencyGraph) -> Window:
        known = precomputed_windows(graph)
        if known is None or not self.by_rows:
            return self.resolve(graph)
        if self.asked not in known:
            self.check(graph)
            raise QueryError(
                f"{graph.path}: {self.asked} needs all events of all ranks; choose a step or the whole trace"
            )
        answer = known[self.asked]
        if isinstance(answer, QueryError):
            raise answer
        return answer

    def __repr__(self) -> str:
        return f"<window {self.asked}>"


PrecomputedWindows = Mapping[str, Window | QueryError]
"""Windows by their questions, or why there is none."""


@memoized
def precomputed_windows(graph: DependencyGraph) -> PrecomputedWindows | None:
    """Return the windows of a graph that holds few rows of its rank, found in all of them; None of a whole graph.

    A job of such ranks has none of its own: they are made of those of its ranks.
    """
    if (known := graph.attached(RankSummary)) is not None:
        return {record["asked"]: _restored(record) for record in known.windows}
    return None if graph.attached(JobLimits) is None else {}


def _restored(record: WindowRecord) -> Window | QueryError:
    if "error" in record:
        error = QueryError(record["error"][0])
        error.on_command_line = record["error"][1]
        return error
    point, time_ns, lane = record["sink"]
    sink = sink_without_tails(point, time_ns, np.array([point] if point >= 0 else [], np.int32), lane)
    return Window(sink=sink, **{key: value for key, value in record.items() if key not in ("asked", "sink")})


def query_text(question: str, *arguments: object, **options: object) -> str:
    """Print a call without options that are not set."""
    listed = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items() if value)]
    return f"{question}({', '.join(listed)})"


def step(number: int, *, cpu_window: bool = False, gpu_window: bool = False) -> WindowQuery:
    """Analyze ``ProfilerStep#number``, from its start to the later of its end and the end of its last GPU activity.

    A step of an inference engine is analyzed from the end of the GPU work before it to the end of its own.

    Args:
        number: the N of ``ProfilerStep#N``.
        cpu_window: stop at the annotation's end.
        gpu_window: run from the previous step's sink to this one's; these windows tile the run.

    Raises:
        UsageError: the number is not a whole number, or both windows are requested.
    """
    if not isinstance(number, int | np.integer):
        raise UsageError(f"{number!r} is not a step; give the N of ProfilerStep#N as a whole number")
    check_window_form(cpu_window=cpu_window, gpu_window=gpu_window)

    def resolve(graph: DependencyGraph) -> Window:
        return _step_window(graph, *_find_step(graph, number), cpu_window=cpu_window, gpu_window=gpu_window)

    asked = query_text("step", number, cpu_window=cpu_window, gpu_window=gpu_window)
    of_job = partial(job_iteration, number=number, cpu_window=cpu_window)
    return WindowQuery(asked, resolve, of_job, check=partial(_find_step, number=number))


def annotation(
    name: str, first: int = 0, last: int | None = None, *, regex: bool = False, cpu_window: bool = False
) -> WindowQuery:
    """Analyze instances of a CPU annotation, counted from 0 in order of time.

    The window ends with the later of the annotation and the last GPU activity that its thread launched inside it, or
    that a thread launched on its behalf, such as autograd's in a backward pass. One that names a step of an inference
    engine is analyzed as that step.

    Args:
        name: the exact name, or a regular expression that must match all of it.
        first: the first instance.
        last: the last instance, included; the first one if not given.
        regex: take ``name`` as a regular expression.
        cpu_window: stop at the annotation's end.

    Raises:
        UsageError: the name is not a text.
    """
    if not isinstance(name, str):
        raise UsageError(f"{name!r} is not an annotation; give its name as a text, or step({name!r}) for a step")

    def resolve(graph: DependencyGraph) -> Window:
        instances = _annotation_instances(graph, name, regex=regex)
        until = first if last is None else last
        if not 0 <= first <= until < len(instances):
            asked = str(first) if until == first else f"{first}:{until}"
            raise QueryError(
                f"{graph.path}: there is no instance {asked} of {name!r}; choose from 0 to {len(instances) - 1}"
            )
        item = graph.trace.engine_step_of(int(instances[first])) if until == first and not cpu_window else None
        if item is not None:
            # Until the end of the GPU work of earlier steps it would be these that are analyzed.
            label = f"{graph.name_of(int(instances[first]))}[{first}]"
            return replace(_step_window(graph, *_find_step(graph, item.number)), label=label)
        events = graph.event_table
        span = (int(events.start[instances[first]]), int(events.end[instances[first : until + 1]].max()))
        lane = int(events.lane[instances[until]])
        sink = later_sink(sink_on_thread(graph, lane, span[1]), sink_on_gpu(graph, launched_from(graph, lane, span)))
        label = graph.name_of(int(instances[first])) + (f"[{first}:{until}]" if until > first else f"[{first}]")
        return _with_sink(graph, span, label, lane, sink, cpu_window=cpu_window)

    asked = query_text("annotation", name, regex=regex, first=first, last=last, cpu_window=cpu_window)
    return WindowQuery(asked, resolve, window_over_ranks)


def between(start_ns: int, end_ns: int) -> WindowQuery:
    """Analyze a time range (absolute ns).

    Raises:
        UsageError: the times are not whole numbers, are out of range, or the end is not after the start.
    """
    if not all(isinstance(time, int | np.integer) for time in (start_ns, end_ns)):
        raise UsageError(f"the window {start_ns!r}:{end_ns!r} is not in whole nanoseconds; give integers")
    if not -LATEST_NS <= start_ns <= LATEST_NS >= end_ns >= -LATEST_NS:
        raise UsageError(f"the window {start_ns}:{end_ns} is out of range; give nanoseconds of at most {LATEST_NS}")
    if end_ns <= start_ns:
        wrong = "is empty" if start_ns == end_ns else "ends before it starts"
        raise UsageError(f"the window {start_ns}:{end_ns} {wrong}; give START_NS:END_NS")

    def resolve(graph: DependencyGraph) -> Window:
        length = end_ns - start_ns
        events = graph.event_table
        first, last = int(events.start.min(initial=end_ns)), int(events.end.max(initial=start_ns))
        if not len(events) or start_ns >= last or end_ns <= first:
            raise QueryError(
                f"{graph.path}: there are no events in {start_ns}:{end_ns}; the trace spans {_recorded_span(graph)}"
            )
        sink = sink_at(graph, end_ns)
        return Window(start_ns, end_ns, f"{start_ns}:{end_ns}", length, length, sink, is_named=False)

    return WindowQuery(query_text("between", start_ns, end_ns), resolve)


def resolved_window(window: Window) -> WindowQuery:
    """Return a query for a known window."""
    return WindowQuery(query_text("same_window", window.label), lambda _: window, by_rows=False)


def whole(*, all_rows: bool = False) -> WindowQuery:
    """Analyze the whole trace, from the first operator, call or GPU activity to the end of the work.

    The work ends with the last GPU activity or the last event of a thread that launches, synchronizes or runs
    operators: late polls of a watchdog thread are not the program's end. Events that begin later are counted.

    Args:
        all_rows: include every recorded event, as analyses do that are not about a path.
    """

    def resolve(graph: DependencyGraph) -> Window:
        events = graph.event_table
        if not len(events):
            raise QueryError(f"{graph.path}: the trace has no events; record it again while the work runs")
        # main       |--op--|--launch--|
        # stream                  |---kernel---|
        # watchdog      |poll|                     |poll|
        #            ^ start                   ^ end      one row after it
        sink, has_points = program_end(graph), kind_mask(events.kind, WALKABLE)
        start, end, after = int(events.start.min()), int(events.end.max()), np.zeros(len(events), np.bool_)
        if has_points.any() and not all_rows:
            start, end = int(events.start[has_points].min()), sink.time_ns
            after = (events.start >= end) & (events.end > end)
        rows_after, last = int(np.count_nonzero(after)), int(events.end[after].max(initial=end))
        length = end - start
        return Window(
            start, end, WHOLE_TRACE, length, length, sink,
            is_named=False, rows_after=rows_after, after_ns=last - end,
        )  # fmt: skip

    return WindowQuery(query_text("whole", all_rows=all_rows), resolve, window_over_ranks)


def check_window_form(*, cpu_window: bool, gpu_window: bool) -> None:
    """Refuse the CPU window and the GPU window together.

    Raises:
        UsageError: both are requested.
    """
    if cpu_window and gpu_window:
        raise UsageError("the CPU window and the GPU window cannot be combined; choose one")


def _find_step(graph: DependencyGraph, number: int) -> tuple[int, Step]:
    steps = steps_by_number(graph)
    if steps and number not in steps:
        raise QueryError(f"{graph.path}: there is no step {number}; {suggest_number(number, steps)}")
    if not steps:
        raise QueryError(f"{graph.path}: there is no step {number}: the trace has no steps", WITHOUT_STEPS)
    return steps[number]


def _step_window(
    graph: DependencyGraph, at: int, item: Step, *, cpu_window: bool = False, gpu_window: bool = False
) -> Window:
    lane = int(graph.event_table.lane[item.event])
    span = (item.start_ns, item.end_ns)
    sink, before = step_sink(graph, item), int(earlier_work_ends(graph)[at])
    resolved = _with_sink(graph, span, item.label, lane, sink, cpu_window=cpu_window)
    resolved = replace(resolved, step=item.number, until_ns=None if item.engine is None else item.until_ns)
    if not gpu_window and (item.engine is None or cpu_window or before >= sink.time_ns):
        return replace(resolved, gpu_ns=max(before, sink.time_ns) - before)
    if before >= resolved.sink.time_ns:
        raise QueryError(
            f"{graph.path}: the GPU window of {resolved.label} is empty, because an earlier step's work ends later",
            "choose another step",
        )
    return replace(
        resolved, start_ns=before, gpu_ns=resolved.end_ns - before,
        label=f"{resolved.label} (GPU window)" if gpu_window else resolved.label,
        cpu_start_ns=item.start_ns, form="gpu",
    )  # fmt: skip


def earlier_iterations(graph: DependencyGraph, window: Window) -> Window | None:
    """Return all iterations before that of a rank's step as one window; None of the first, other windows and jobs.

    It reaches from the first step's start to the last end of all these steps' work, where the iteration starts.
    """
    if window.step is None or not (window.form == "gpu" or window.is_iteration) or graph.is_job:
        return None
    earlier = graph.steps()[: _find_step(graph, window.step)[0]]
    if not earlier:
        return None
    sink, first = latest_sink([step_sink(graph, item) for item in earlier]), earlier[0].start_ns
    if sink.time_ns != window.start_ns or not len(sink.ends):
        return None
    length = window.start_ns - first
    return Window(first, window.start_ns, f"{len(earlier)} iterations before", length, length, sink, form="gpu")


def _recorded_span(graph: DependencyGraph) -> str:
    events = graph.event_table
    return f"{int(events.start.min())}:{int(events.end.max())}" if len(events) else "nothing"


def _with_sink(
    graph: DependencyGraph, span: tuple[int, int], label: str, lane: int, sink: Sink, *, cpu_window: bool
) -> Window:
    cpu_ns, gpu_ns = span[1] - span[0], max(sink.time_ns - span[0], 0)
    if cpu_window:
        label, sink = f"{label} (CPU window)", sink_on_thread(graph, lane, span[1])
        return Window(*span, label, cpu_ns, gpu_ns, sink, form="cpu")
    return Window(span[0], sink.time_ns, label, cpu_ns, gpu_ns, sink)


def _annotation_instances(graph: DependencyGraph, name: str, *, regex: bool) -> Ints:
    """Return the instances of an annotation on the CPU, before 2022 written as operators, in order of time."""
    kinds, codes = graph.event_table.kind, graph.event_table.name
    if regex:
        named = names_matching([name], graph.names, by="fullmatch")[codes]
    else:
        named = np.array([one == name for one in graph.names] or [False])[codes]
    for kind in (EventKind.ANNOTATION, EventKind.CPU_OP):
        found = np.flatnonzero(named & (kinds == kind))
        if len(found):
            return found
    known = Counter(graph.names[code] for code in codes[kinds == EventKind.ANNOTATION].tolist())
    said = f"{graph.path}: there is no annotation {name!r}"
    if not known:
        raise QueryError(f"{said}: the trace has no annotations", WITHOUT_ANNOTATIONS)
    close = [] if regex else _annotations_like(name, known)
    every = dict.fromkeys([*close, *(text for text, _ in known.most_common())])
    listed = _list_names([f"{text!r} ×{known[text]}" if known[text] > 1 else repr(text) for text in every], 5)
    meant = f"did you mean {shorten_middle(close[0], LONGEST_SHOWN)!r}? Available" if close else "available"
    raise QueryError(f"{said}; {meant}: {listed}")


def _annotations_like(name: str, known: Iterable[str]) -> list[str]:
    """Return the annotations that someone who gave another name may have meant, the closest first.

    These contain the name, are similar to it, or begin with something similar.

    >>> _annotations_like("step", ["Optimizer.step#SGD.step", "forward"]), _annotations_like("foward", ["forward"])
    (['Optimizer.step#SGD.step'], ['forward'])
    >>> _annotations_like("Optimzer", ["Optimizer.step#SGD.step", "forward"])
    ['Optimizer.step#SGD.step']
    """
    every, wanted = list(known), name.lower()
    longer = [text for text in every if wanted and wanted in text.lower()]
    beginnings: dict[str, str] = {}
    for text in every:
        beginnings.setdefault(text[: len(name) + 1], text)
    similar = [*closest_names(name, every), *(beginnings[text] for text in closest_names(name, beginnings))]
    return list(dict.fromkeys([*longer, *similar]))


def _list_names(names: list[str], limit: int = 12) -> str:
    shown = ", ".join(shorten_middle(name, LONGEST_SHOWN) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


Resolve = Callable[[DependencyGraph], "Window"]


def window_over_ranks(job: DependencyGraph, resolve: Resolve) -> Window:
    """Return the window from where the first rank's begins to where the last one's ends.

    Raises:
        QueryError: no rank has such a window.
    """
    found = _windows_of_ranks(job, resolve)
    first = found[0][1]
    start = min(window.start_ns for _, window in found)
    sink = _latest_sink(job, found)
    cpu_start = min(window.cpu_span[0] for _, window in found)
    end = max(sink.time_ns, *(window.end_ns for _, window in found))
    return replace(
        first, start_ns=start, end_ns=end, sink=sink, cpu_start_ns=cpu_start,
        cpu_ns=max(window.cpu_span[1] for _, window in found) - cpu_start, gpu_ns=sink.time_ns - start,
        rows_after=sum(window.rows_after for _, window in found),
        after_ns=max(window.end_ns + window.after_ns for _, window in found) - end,
        missing=_missing_ranks(job, found),
    )  # fmt: skip


def job_iteration(job: DependencyGraph, resolve: Resolve, *, number: int, cpu_window: bool) -> Window:
    """Return a step of a job: from the latest end of the steps before over all ranks to the latest end of this one.

    Raises:
        QueryError: no rank has the step, or an earlier step's work ends after it.
    """
    window = window_over_ranks(job, resolve)
    if cpu_window:
        return window
    before = max((end for earlier, end in job_step_ends(job).items() if earlier < number), default=window.start_ns)
    if before >= window.end_ns:
        raise QueryError(
            f"{job.path}: step {number} is empty, because an earlier step's work ends later; choose another step"
        )
    return replace(window, start_ns=before, gpu_ns=window.end_ns - before, form="gpu")


def _windows_of_ranks(job: DependencyGraph, resolve: Resolve) -> list[tuple[RankGraph, Window]]:
    """Resolve the window on each rank; ranks without it contribute nothing."""
    found, errors = [], []
    for part in job.rank_graphs:
        try:
            found.append((part, resolve(part.graph)))
        except QueryError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _missing_ranks(job: DependencyGraph, found: Sequence[tuple[RankGraph, Window]]) -> tuple[int, ...]:
    there = {part.rank for part, _ in found}
    return tuple(part.rank for part in job.rank_graphs if part.rank is not None and part.rank not in there)


def _latest_sink(job: DependencyGraph, found: Sequence[tuple[RankGraph, Window]]) -> Sink:
    """Return where the last rank ends, on a GPU, on a thread or in what it does with others on its CPU."""
    sinks = [_with_host_communication(job, part, _sink_in_job(part, own.sink), own.cpu_span) for part, own in found]
    sinks = [_at_awaited_communication(job, sink) for sink in sinks]
    # Of equal ends the lowest rank's, whatever the order of the files.
    return latest_sink(sinks)


def _at_awaited_communication(job: DependencyGraph, sink: Sink) -> Sink:
    """Let a window that ends while a thread is blocked end with the communication that this thread waited for.

    thread    [c10d::recv_]                      window's end |  [next step
    message      [== gloo:recv ==================]───────────────▶ collective_wait
    """
    place = job.timeline.position[sink.point] if sink.lane >= 0 and sink.point >= 0 else -1
    if place < 0:
        return sink
    part = job.calls.lane_slice(sink.lane)
    after = np.flatnonzero(job.timeline.position[job.calls.points[part]] > place)
    edges, times = job.edge_table, job.timeline.times
    if len(after):
        goes_on = job.calls.points[part][after[0]]
        woken = _collective_wait_edges(job)
        ended = edges.source[woken[slice(*np.searchsorted(edges.target[woken], (goes_on, goes_on + 1)))]]
    else:
        # The recording ends while it waits, or right after: no point follows that an edge could lead to.
        members, _ = _host_members(job)
        ended = end_point(members.row[job.event_table.lane[members.call] == sink.lane])
    ended = ended[(times[ended] <= sink.time_ns) & (times[ended] > times[sink.point])]
    if not len(ended):
        return sink
    point, others = int(ended[np.argmax(times[ended])]), sink.ends != sink.point
    ends, tails, lanes = (
        np.append(sink.ends[others], np.int32(point)),
        np.append(sink.tails[others], sink.time_ns - times[point]),
        np.append(sink.lanes[others], np.int32(sink.lane)),
    )
    return replace(sink, point=point, ends=ends, tails=tails, lanes=lanes)


def _sink_in_job(part: RankGraph, sink: Sink) -> Sink:
    return Sink(
        sink.point + 2 * part.first_row if sink.point >= 0 else -1,
        sink.time_ns,
        sink.lane + part.first_lane if sink.lane >= 0 else -1,
        sink.ends + np.int32(2 * part.first_row),
        sink.tails,
        np.where(sink.lanes >= 0, sink.lanes + np.int32(part.first_lane), sink.lanes),
    )


def _with_host_communication(job: DependencyGraph, part: RankGraph, sink: Sink, span: tuple[int, int]) -> Sink:
    """Let the sink of a time range be the end of what was called in it on the CPU, where that ends later."""
    own, start = _host_members_of(job, part), job.event_table.start
    inside = (start[own.call] >= span[0]) & (start[own.call] < span[1])
    return later_sink(sink, sink_on_gpu(job, own.row[inside]))


@memoized
def job_step_ends(job: DependencyGraph) -> dict[int, int]:
    """Return when the work of each step ends on the last rank (ns), by number: the GPU's, and what ran on CPUs."""
    found: dict[int, int] = {}
    for of_rank in rank_step_ends(job):
        for number, end in of_rank.items():
            found[number] = max(end, found.get(number, end))
    return found


@memoized
def rank_step_ends(job: DependencyGraph) -> tuple[dict[int, int], ...]:
    """Return when the work of each step ends on each rank (ns, in job time), by number, in order of time."""
    return tuple(
        dict(zip((item.number for item in part.graph.steps()), _ends_on_rank(job, part).tolist(), strict=True))
        for part in job.rank_graphs
    )


def _ends_on_rank(job: DependencyGraph, part: RankGraph) -> Ints:
    """Return when the work of each step of a rank ends (ns), in order of time."""
    steps, start = part.graph.steps(), job.event_table.start
    ends = step_work_ends(part.graph).copy()
    begins, stops = (np.array(list(times), np.int64) for times in (
        (item.start_ns for item in steps), (item.end_ns for item in steps),
    ))  # fmt: skip
    own = _host_members_of(job, part)
    of = np.searchsorted(begins, start[own.call], side="right") - 1
    inside = (of >= 0) & (start[own.call] < np.append(stops, 0)[of])
    np.maximum.at(ends, of[inside], job.event_table.end[own.row[inside]])
    return ends


@memoized
def _collective_wait_edges(job: DependencyGraph) -> Ints:
    """Return the edges by which threads continue when their communication ends, by target."""
    rows = np.flatnonzero(job.edge_table.kind == EdgeKind.COLLECTIVE_WAIT)
    return rows[np.argsort(job.edge_table.target[rows], kind="stable")]


def _host_members_of(job: DependencyGraph, part: RankGraph) -> Members:
    """Select what a rank called for that ran on its CPU."""
    every, first = _host_members(job)
    return every.take(slice(int(first[part.index]), int(first[part.index + 1])))


@memoized
def _host_members(job: DependencyGraph) -> tuple[Members, Ints]:
    """Return what ranks called for that ran on their CPUs, rank by rank, and where each rank's begin."""
    members = job.members.take((job.members.call >= 0) & ~job.is_gpu[job.members.row])
    members = members.take(np.argsort(members.part, kind="stable"))
    return members, np.searchsorted(members.part, np.arange(len(job.rank_graphs) + 1))


@dataclass(frozen=True)
class StepLength:
    """How long a step takes (ns), and whether it can represent the run.

    The iterations tile the run: from the end of the earlier steps' work to that of this one's, or, where no step
    launches GPU work, the step on the CPU. The latency is from the step's start to the end of its last work.
    """

    number: int
    iteration_ns: int
    latency_ns: int
    is_candidate: bool
    launches_work: bool
    phase: str | None = None


def main_phase(phases: Sequence[str | None], lengths: Sequence[int]) -> str | None:
    """Return the phase of an engine's steps that takes most time, of equals the first; None where no step has one.

    >>> main_phase(["prefill", "decode", "decode"], [30, 20, 20])
    'decode'
    """
    total: Counter[str] = Counter()
    for phase, length in zip(phases, lengths, strict=True):
        if phase is not None:
            total[phase] += length
    return max(total, key=lambda phase: total[phase], default=None)


@memoized
def step_lengths(graph: DependencyGraph) -> tuple[StepLength, ...]:
    """Measure every step, in order of time.

    Candidates are the steps that launched GPU work, else all; the file's first step is none where there are others. Of
    an engine's they are the steps of the phase that takes most time.
    """
    if (known := graph.attached(RankSummary)) is not None:
        return _known_lengths(known.steps)
    steps = graph.steps()
    if not steps:
        return ()
    if graph.is_job:
        return _job_step_lengths(graph)
    # step 1    |---CPU---|
    # step 2              |---CPU---|
    # GPU           |=====1=====|=====2=====|
    #                           |-iteration-|
    #                     |-----latency-----|
    starts = np.array([item.start_ns for item in steps])
    ends = np.array([item.end_ns for item in steps])
    sinks = step_work_ends(graph)
    launches = np.sort(graph.edges_of(EdgeKind.LAUNCH).source_ns)
    busy = np.searchsorted(launches, [item.until_ns for item in steps]) > np.searchsorted(launches, starts)
    phases = [item.phase for item in steps]
    follows = busy.any() or any(phases)
    iteration = np.maximum(sinks - earlier_work_ends(graph), 0) if follows else ends - starts
    candidate = busy.copy() if busy.any() else np.ones(len(steps), np.bool_)
    if (phase := main_phase(phases, iteration.tolist())) is not None:
        candidate &= (iteration > 0) & np.array([own == phase for own in phases])
    # Allocation, compilation and caches that fill make the first step unlike all others.
    candidate[0] &= not candidate[1:].any()
    columns = (iteration.tolist(), (sinks - starts).tolist(), candidate.tolist(), busy.tolist(), phases)
    return tuple(StepLength(item.number, *of) for item, *of in zip(steps, *columns, strict=True))


def _known_lengths(steps: StepColumns) -> tuple[StepLength, ...]:
    columns = (steps.number, steps.iteration, steps.latency, steps.is_candidate, steps.launches_work)
    return tuple(StepLength(*of) for of in zip(*(column.tolist() for column in columns), strict=True))


def _job_step_lengths(job: DependencyGraph) -> tuple[StepLength, ...]:
    """Measure every iteration of a job; candidates are the steps that most ranks have and propose."""
    of_ranks = [length for part in job.rank_graphs for length in step_lengths(part.graph)]
    proposed = Counter(length.number for length in of_ranks if length.is_candidate)
    busy = {length.number for length in of_ranks if length.launches_work}
    ends, found = job_step_ends(job), []
    before = min((item.start_ns for item in job.steps()), default=0)
    for item in sorted(job.steps(), key=lambda item: item.number):
        end = ends[item.number]
        # Where an earlier step's work ends later nothing of this one stands alone.
        if end > before:
            is_candidate, is_busy = proposed[item.number] == max(proposed.values()), item.number in busy
            found.append(StepLength(item.number, end - before, end - item.start_ns, is_candidate, is_busy, item.phase))
            before = end
    return tuple(found)


def median_step(*, cpu_window: bool = False, gpu_window: bool = False) -> WindowQuery:
    """Analyze the step of median iteration time (the lower median, the earliest of equals), else the whole trace.

    Args:
        cpu_window: stop at the annotation's end; needs steps.
        gpu_window: run from the previous step's sink to this one's; needs steps.

    Raises:
        UsageError: both windows are requested.
    """
    return _step_query(None, "median_step", cpu_window=cpu_window, gpu_window=gpu_window)


def median_step_of_job(
    graphs: Sequence[DependencyGraph], *, cpu_window: bool = False, gpu_window: bool = False
) -> WindowQuery:
    """Analyze one step on every rank: of those that most ranks have, the one of median iteration time over ranks.

    A rank that lacks this step uses its own median step. Arguments and errors are those of
    :func:`median_step`.
    """
    return _step_query(_median_step_number(graphs), "median_step_of_job", cpu_window=cpu_window, gpu_window=gpu_window)


def _median_step_number(graphs: Sequence[DependencyGraph]) -> int | None:
    """Return the step that most ranks have, of several the median by their median iteration over ranks."""
    lengths: dict[int, list[int]] = {}
    for graph in graphs:
        for length in step_lengths(graph):
            if length.is_candidate:
                lengths.setdefault(length.number, []).append(length.iteration_ns)
    most = max(map(len, lengths.values()), default=0)
    of_job = {number: _lower_median(found) for number, found in lengths.items() if len(found) == most}
    return _key_of_median(of_job) if of_job else None


def _step_query(chosen_number: int | None, question: str, *, cpu_window: bool, gpu_window: bool) -> WindowQuery:
    check_window_form(cpu_window=cpu_window, gpu_window=gpu_window)

    def resolve(graph: DependencyGraph) -> Window:
        of_ranks = [part.graph for part in graph.rank_graphs]
        chosen = _median_step_number(of_ranks) if graph.is_job else chosen_number
        lengths = step_lengths(graph)
        if not lengths and (cpu_window or gpu_window):
            raise QueryError(f"{graph.path}: the trace has no steps", WITHOUT_STEPS)
        if not lengths:
            return replace(whole()(graph), is_default=True)
        if chosen is None or chosen not in {length.number for length in lengths}:
            proposed = [one for one in lengths if one.is_candidate] or lengths
            chosen = _key_of_median({one.number: one.iteration_ns for one in proposed})
        return replace(step(chosen, cpu_window=cpu_window, gpu_window=gpu_window)(graph), is_default=True)

    return WindowQuery(query_text(question, cpu_window=cpu_window, gpu_window=gpu_window), resolve, by_rows=False)


def _lower_median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def _key_of_median(lengths: dict[int, int]) -> int:
    """Return the first key whose value is the lower median.

    >>> _key_of_median({4: 30, 5: 10, 6: 20, 7: 10})
    5
    """
    median = _lower_median(list(lengths.values()))
    return next(number for number, length in lengths.items() if length == median)
