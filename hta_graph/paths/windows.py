"""Which stretch of time is asked about, and at which point its path ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from hta_graph.errors import QueryError, UsageError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.rank_summary import JobLimits, RankSummary, WindowRecord
from hta_graph.model import WALKABLE, EventKind, Ints, kind_mask
from hta_graph.paths.job_windows import job_iteration, window_over_ranks
from hta_graph.paths.window_ends import (
    Sink,
    earlier_work_ends,
    later_sink,
    launched_from,
    program_end,
    sink_at,
    sink_on_gpu,
    sink_on_thread,
    step_sink,
    steps_by_number,
)
from hta_graph.safe_regex import names_matching
from hta_graph.text.formatting import milliseconds
from hta_graph.trace.table import Step

__all__ = [
    "WHOLE_TRACE",
    "PrecomputedWindows",
    "Window",
    "WindowQuery",
    "WindowForm",
    "annotation",
    "between",
    "precomputed_windows",
    "query_text",
    "check_window_form",
    "resolved_window",
    "step",
    "whole",
]

WHOLE_TRACE = "whole trace"
LATEST_NS = 2**63 - 1

WindowForm = Literal["usual", "cpu", "gpu"]
"""To the end of the last work, to the end on the CPU, or from the end of earlier work to that of this one's."""


@dataclass(frozen=True, repr=False)
class Window:
    """A stretch of time [start_ns, end_ns], what it is called, the lengths of its CPU and GPU forms, and its sink.

    ``cpu_start_ns`` is where the CPU form starts, if not with the window; ``is_named`` is false for explicit times
    and the whole trace. ``rows_after`` counts the events that begin once the whole trace's work has ended, and
    ``after_ns`` is how long they go on. ``step`` is the number of a profiler step. Of a job ``missing`` are the ranks
    that have no such window. ``is_default`` tells that nobody named a window.
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

    def __repr__(self) -> str:
        return f"<window {self.label}: {milliseconds(self.end_ns - self.start_ns)} ms from {self.start_ns} ns>"

    @property
    def cpu_span(self) -> tuple[int, int]:
        """The CPU form of the window (ns): the step or annotation itself, else the window."""
        start = self.start_ns if self.cpu_start_ns is None else self.cpu_start_ns
        return start, start + self.cpu_ns

    @property
    def is_whole(self) -> bool:
        """Whether the whole trace was asked about."""
        return self.label == WHOLE_TRACE and not self.is_named


@dataclass(frozen=True, repr=False)
class WindowQuery:
    """A question about time: give it a graph and it answers with a resolved window, or raises ``QueryError``.

    >>> step(5, gpu_window=True), between(0, 2_000_000)
    (<window step(5, gpu_window=True)>, <window between(0, 2000000)>)
    """

    asked: str
    resolve: Callable[[DependencyGraph], Window]
    of_job: Callable[[JobGraph, Callable[[DependencyGraph], Window]], Window] | None = None
    """What the windows of a job's ranks make together; without it the job is asked as one rank is."""
    by_rows: bool = True
    """Whether the answer is in a graph's rows, all of them; else it is known, or made of other windows."""
    check: Callable[[DependencyGraph], object] = lambda _: None
    """Refuses what few rows are enough to refuse: a step that is not there."""

    def __call__(self, graph: DependencyGraph) -> Window:
        """Answer for a graph, that of a rank or of a job.

        Raises:
            QueryError: the graph's trace has no such window.
        """
        if self.of_job is not None and isinstance(graph, JobGraph):
            return self.of_job(graph, self._of_rank)
        return self._of_rank(graph)

    def _of_rank(self, graph: DependencyGraph) -> Window:
        known = precomputed_windows(graph)
        if known is None or not self.by_rows:
            return self.resolve(graph)
        if self.asked not in known:
            self.check(graph)
            raise QueryError(
                f"{graph.path}: {self.asked} takes all rows of all ranks; ask for a step or the whole trace"
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
    ends = np.array([point] if point >= 0 else [], np.int32)
    sink = Sink(point, time_ns, lane, ends, np.zeros(len(ends), np.int64))
    return Window(sink=sink, **{key: value for key, value in record.items() if key not in ("asked", "sink")})


def query_text(question: str, *arguments: object, **options: object) -> str:
    """Print a question as it was asked, without options that are not set."""
    listed = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items() if value)]
    return f"{question}({', '.join(listed)})"


def step(number: int, *, cpu_window: bool = False, gpu_window: bool = False) -> WindowQuery:
    """Ask about ``ProfilerStep#number``: from its start to the later of its end and its last GPU activity.

    Args:
        number: the N of ``ProfilerStep#N``.
        cpu_window: stop at the annotation's end.
        gpu_window: run from the previous step's sink to this one's; these windows tile the run.
    """
    check_window_form(cpu_window=cpu_window, gpu_window=gpu_window)

    def resolve(graph: DependencyGraph) -> Window:
        return _step_window(graph, *_find_step(graph, number), cpu_window=cpu_window, gpu_window=gpu_window)

    asked = query_text("step", number, cpu_window=cpu_window, gpu_window=gpu_window)
    of_job = partial(job_iteration, number=number, cpu_window=cpu_window)
    return WindowQuery(asked, resolve, of_job, check=partial(_find_step, number=number))


def annotation(
    name: str, *, regex: bool = False, first: int = 0, last: int | None = None, cpu_window: bool = False
) -> WindowQuery:
    """Ask about instances of a CPU annotation, counted from 0 in order of time.

    Args:
        name: the exact name, or an expression that must match all of it.
        regex: take ``name`` as a regular expression.
        first: the first instance.
        last: the last instance, included; the first one if not given.
        cpu_window: stop at the annotation's end.
    """

    def resolve(graph: DependencyGraph) -> Window:
        instances = _annotation_instances(graph, name, regex=regex)
        until = first if last is None else last
        if not 0 <= first <= until < len(instances):
            asked = str(first) if until == first else f"{first}:{until}"
            raise QueryError(
                f"{graph.path}: there is no instance {asked} of {name!r}; they are 0 to {len(instances) - 1}"
            )
        events = graph.event_table
        span = (int(events.start[instances[first]]), int(events.end[instances[first : until + 1]].max()))
        lane = int(events.lane[instances[until]])
        sink = later_sink(sink_on_thread(graph, lane, span[1]), sink_on_gpu(graph, launched_from(graph, lane, span)))
        label = graph.name_of(int(instances[first])) + (f"[{first}:{until}]" if until > first else f"[{first}]")
        return _with_sink(graph, span, label, lane, sink, cpu_window=cpu_window)

    asked = query_text("annotation", name, regex=regex, first=first, last=last, cpu_window=cpu_window)
    return WindowQuery(asked, resolve, window_over_ranks)


def between(start_ns: int, end_ns: int) -> WindowQuery:
    """Ask about explicit times (absolute ns).

    Raises:
        UsageError: the end is not after the start, or one of them is beyond any clock.
    """
    if not -LATEST_NS <= start_ns <= LATEST_NS >= end_ns >= -LATEST_NS:
        raise UsageError(f"the window {start_ns}:{end_ns} is beyond what a clock says: {LATEST_NS} ns")
    if end_ns <= start_ns:
        raise UsageError(f"the window {start_ns}:{end_ns} ends before it starts")

    def resolve(graph: DependencyGraph) -> Window:
        length = end_ns - start_ns
        events = graph.event_table
        first, last = int(events.start.min(initial=end_ns)), int(events.end.max(initial=start_ns))
        if not len(events) or start_ns >= last or end_ns <= first:
            raise QueryError(f"{graph.path}: holds nothing in {start_ns}:{end_ns}; it spans {_recorded_span(graph)}")
        sink = sink_at(graph, end_ns)
        return Window(start_ns, end_ns, f"{start_ns}:{end_ns}", length, length, sink, is_named=False)

    return WindowQuery(query_text("between", start_ns, end_ns), resolve)


def resolved_window(window: Window) -> WindowQuery:
    """Ask about a window that is known already."""
    return WindowQuery(query_text("same_window", window.label), lambda _: window, by_rows=False)


def whole(*, all_rows: bool = False) -> WindowQuery:
    """Ask about the whole trace: from the first row that has points to the end of the work.

    The work ends with the last GPU activity or the last row of a thread that launches, synchronises or runs operators:
    a watchdog's late polls are not the program's end. What begins later is counted.

    Args:
        all_rows: take every row that was recorded, as questions do that are not about a path.
    """

    def resolve(graph: DependencyGraph) -> Window:
        events = graph.event_table
        if not len(events):
            raise QueryError(
                f"{graph.path}: holds no events, nothing was captured; record the trace again around the work"
            )
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
    """Refuse to stop at the annotation's end and to run from sink to sink at once.

    Raises:
        UsageError: both are asked for.
    """
    if cpu_window and gpu_window:
        raise UsageError("choose one of the CPU window and the GPU window")


def _find_step(graph: DependencyGraph, number: int) -> tuple[int, Step]:
    steps = steps_by_number(graph)
    if number not in steps:
        known = _list_names(list(map(str, steps)))
        raise QueryError(
            f"{graph.path}: there is no step {number}; " + (f"there are: {known}" if steps else "it has no steps")
        )
    return steps[number]


def _step_window(
    graph: DependencyGraph, at: int, item: Step, *, cpu_window: bool = False, gpu_window: bool = False
) -> Window:
    lane = int(graph.event_table.lane[item.event])
    span = (item.start_ns, item.end_ns)
    sink, before = step_sink(graph, item), int(earlier_work_ends(graph)[at])
    resolved = _with_sink(graph, span, f"ProfilerStep#{item.number}", lane, sink, cpu_window=cpu_window)
    resolved = replace(resolved, step=item.number)
    if not gpu_window:
        return replace(resolved, gpu_ns=max(before, sink.time_ns) - before)
    if before >= resolved.sink.time_ns:
        raise QueryError(
            f"{graph.path}: the GPU window of {resolved.label} is empty: an earlier step's work ends after it"
        )
    return replace(
        resolved, start_ns=before, gpu_ns=resolved.end_ns - before, label=f"{resolved.label} (GPU window)",
        cpu_start_ns=item.start_ns, form="gpu",
    )  # fmt: skip


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
    expression = name if regex else re.escape(name)
    named = names_matching([expression], graph.names, by=re.Pattern[str].fullmatch)[codes]
    for kind in (EventKind.ANNOTATION, EventKind.CPU_OP):
        found = np.flatnonzero(named & (kinds == kind))
        if len(found):
            return found
    known = Counter(graph.names[code] for code in codes[kinds == EventKind.ANNOTATION].tolist())
    listed = _list_names([f"{text!r} ×{count}" if count > 1 else repr(text) for text, count in known.most_common()])
    raise QueryError(
        f"{graph.path}: there is no annotation {name!r}; " + (f"there are: {listed}" if known else "it has none")
    )


def _list_names(names: list[str], limit: int = 12) -> str:
    shown = ", ".join(name if len(name) <= 60 else name[:59] + "…" for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
