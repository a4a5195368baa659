"""Which step stands for a run: the median one, so that neither a warm-up nor a hiccup is taken for the usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.rank_summary import RankSummary, StepColumns
from hta_graph.model import EdgeKind
from hta_graph.paths.job_windows import job_step_ends
from hta_graph.paths.window_ends import step_work_ends
from hta_graph.paths.windows import Window, WindowQuery, check_window_form, query_text, step, whole

__all__ = ["StepLength", "median_step", "median_step_of_job", "step_lengths"]


@dataclass(frozen=True)
class StepLength:
    """How long a step takes (ns), and whether it may stand for the run.

    The iterations tile the run: from the end of the earlier steps' work to that of this one's, or, where no step
    launches GPU work, the step on the CPU. The latency is from the step's start to the end of its last work.
    """

    number: int
    iteration_ns: int
    latency_ns: int
    is_candidate: bool
    launches_work: bool


@memoized
def step_lengths(graph: DependencyGraph) -> tuple[StepLength, ...]:
    """Measure every step, in order of time.

    Candidates are the steps that launched GPU work, else all; the file's first step is none where there are others.
    """
    if (known := graph.attached(RankSummary)) is not None:
        return _known_lengths(known.steps)
    steps = graph.steps()
    if not steps:
        return ()
    if isinstance(graph, JobGraph):
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
    busy = np.searchsorted(launches, ends) > np.searchsorted(launches, starts)
    before = np.concatenate([starts[:1], np.maximum.accumulate(sinks)[:-1]])
    iteration = np.maximum(sinks - before, 0) if busy.any() else ends - starts
    candidate = busy.copy() if busy.any() else np.ones(len(steps), np.bool_)
    # Allocation, compilation and caches that fill make the first step unlike all others.
    candidate[0] &= not candidate[1:].any()
    columns = (iteration.tolist(), (sinks - starts).tolist(), candidate.tolist(), busy.tolist())
    return tuple(StepLength(item.number, *of) for item, *of in zip(steps, *columns, strict=True))


def _known_lengths(steps: StepColumns) -> tuple[StepLength, ...]:
    columns = (steps.number, steps.iteration, steps.latency, steps.is_candidate, steps.launches_work)
    return tuple(StepLength(*of) for of in zip(*(column.tolist() for column in columns), strict=True))


def _job_step_lengths(job: JobGraph) -> tuple[StepLength, ...]:
    """Measure every iteration of a job; candidates are the steps that most ranks have and propose."""
    of_ranks = [length for part in job.parts for length in step_lengths(part.graph)]
    proposed = Counter(length.number for length in of_ranks if length.is_candidate)
    busy = {length.number for length in of_ranks if length.launches_work}
    ends, found = job_step_ends(job), []
    before = min((item.start_ns for item in job.steps()), default=0)
    for item in sorted(job.steps(), key=lambda item: item.number):
        end = ends[item.number]
        # Where an earlier step's work ends later nothing of this one stands alone.
        if end > before:
            is_candidate, is_busy = proposed[item.number] == max(proposed.values()), item.number in busy
            found.append(StepLength(item.number, end - before, end - item.start_ns, is_candidate, is_busy))
            before = end
    return tuple(found)


def median_step(*, cpu_window: bool = False, gpu_window: bool = False) -> WindowQuery:
    """Ask about the step of median iteration, of two the shorter, of equals the earliest; without steps the whole.

    Args:
        cpu_window: stop at the annotation's end; needs steps.
        gpu_window: run from the previous step's sink to this one's; needs steps.

    Raises:
        UsageError: both windows are asked for.
    """
    return _step_query(None, "median_step", cpu_window=cpu_window, gpu_window=gpu_window)


def median_step_of_job(
    graphs: Sequence[DependencyGraph], *, cpu_window: bool = False, gpu_window: bool = False
) -> WindowQuery:
    """Ask every rank about one step: of those that most ranks have, the median by their median iteration over ranks.

    A rank that lacks this step is asked about its own median step. Arguments and errors are those of
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
        number = chosen_number
        if isinstance(graph, JobGraph):
            number = _median_step_number([part.graph for part in graph.parts])
        lengths = step_lengths(graph)
        if not lengths and (cpu_window or gpu_window):
            raise QueryError(f"{graph.path}: it has no steps; ask for the whole trace, an annotation or times")
        if not lengths:
            return replace(whole()(graph), is_default=True)
        chosen = number
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
