"""Windows of a job: what the ranks' windows make together.

rank 0   |---step 1---|---step 2---|==|
rank 1     |---step 1---|---step 2---|====|
job                        ^ 1 ends       ^ 2 ends     iterations, from latest end to latest end: they tile
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.job_graph import JobGraph, Members
from hta_graph.graph.memo import memoized
from hta_graph.model import EdgeKind, Ints
from hta_graph.paths.window_ends import Sink, later_sink, sink_on_gpu, step_work_ends

if TYPE_CHECKING:
    from hta_graph.paths.windows import Window

__all__ = ["window_over_ranks", "job_iteration", "job_step_ends"]

Resolve = Callable[[DependencyGraph], "Window"]


def window_over_ranks(job: JobGraph, resolve: Resolve) -> Window:
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


def job_iteration(job: JobGraph, resolve: Resolve, *, number: int, cpu_window: bool) -> Window:
    """Return a step of a job: from the latest end of the steps before over all ranks to the latest end of this one.

    Raises:
        QueryError: no rank has the step, or an earlier step's work ends after it.
    """
    window = window_over_ranks(job, resolve)
    if cpu_window:
        return window
    before = max((end for earlier, end in job_step_ends(job).items() if earlier < number), default=window.start_ns)
    if before >= window.end_ns:
        raise QueryError(f"{job.path}: step {number} is empty: the work of an earlier step ends after it")
    return replace(window, start_ns=before, gpu_ns=window.end_ns - before, form="gpu")


def _windows_of_ranks(job: JobGraph, resolve: Resolve) -> list[tuple[RankGraph, Window]]:
    """Ask each rank; one that has no such window contributes nothing."""
    found, errors = [], []
    for part in job.parts:
        try:
            found.append((part, resolve(part.graph)))
        except QueryError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _missing_ranks(job: JobGraph, found: Sequence[tuple[RankGraph, Window]]) -> tuple[int, ...]:
    there = {part.rank for part, _ in found}
    return tuple(part.rank for part in job.parts if part.rank is not None and part.rank not in there)


def _latest_sink(job: JobGraph, found: Sequence[tuple[RankGraph, Window]]) -> Sink:
    """Return where the last rank ends, on a GPU, on a thread or in what it does with others on its CPU."""
    sinks = [_with_host_communication(job, part, _sink_in_job(part, own.sink), own.cpu_span) for part, own in found]
    sinks = [_at_awaited_communication(job, sink) for sink in sinks]
    # Of equal ends the lowest rank's, whatever the order of the files.
    return replace(
        max(sinks, key=lambda sink: sink.time_ns),
        ends=np.concatenate([sink.ends for sink in sinks]),
        tails=np.concatenate([sink.tails for sink in sinks]),
    )


def _at_awaited_communication(job: JobGraph, sink: Sink) -> Sink:
    """Let a window that ends while a thread stands still end with the communication that this thread had waited for.

    thread    [c10d::recv_]                      window's end |  [next step
    message      [== gloo:recv ==================]───────────────▶ collective_wait
    """
    place = job.timeline.position[sink.point] if sink.lane >= 0 and sink.point >= 0 else -1
    part = job.calls.lane_slice(sink.lane) if place >= 0 else slice(0, 0)
    after = np.flatnonzero(job.timeline.position[job.calls.points[part]] > place)
    if not len(after):
        return sink
    goes_on = job.calls.points[part][after[0]]
    edges, times = job.edge_table, job.timeline.times
    woken = _collective_wait_edges(job)
    ended = edges.source[woken[slice(*np.searchsorted(edges.target[woken], (goes_on, goes_on + 1)))]]
    ended = ended[(times[ended] <= sink.time_ns) & (times[ended] > times[sink.point])]
    if not len(ended):
        return sink
    point, others = int(ended[np.argmax(times[ended])]), sink.ends != sink.point
    ends, tails = (
        np.append(sink.ends[others], np.int32(point)),
        np.append(sink.tails[others], sink.time_ns - times[point]),
    )
    return replace(sink, point=point, ends=ends, tails=tails)


def _sink_in_job(part: RankGraph, sink: Sink) -> Sink:
    return Sink(
        sink.point + 2 * part.first_row if sink.point >= 0 else -1,
        sink.time_ns,
        sink.lane + part.first_lane if sink.lane >= 0 else -1,
        sink.ends + np.int32(2 * part.first_row),
        sink.tails,
    )


def _with_host_communication(job: JobGraph, part: RankGraph, sink: Sink, span: tuple[int, int]) -> Sink:
    """Let the sink of a stretch be the end of what was called in it on the CPU, where that ends later."""
    own, start = _host_members_of(job, part), job.event_table.start
    inside = (start[own.call] >= span[0]) & (start[own.call] < span[1])
    return later_sink(sink, sink_on_gpu(job, own.row[inside]))


@memoized
def job_step_ends(job: JobGraph) -> dict[int, int]:
    """Return when the work of each step ends on the last rank (ns), by number: the GPU's, and what ran on CPUs."""
    found: dict[int, int] = {}
    for part in job.parts:
        ends = _ends_on_rank(job, part)
        for item, end in zip(part.graph.steps(), ends.tolist(), strict=True):
            found[item.number] = max(end, found.get(item.number, end))
    return found


def _ends_on_rank(job: JobGraph, part: RankGraph) -> Ints:
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
def _collective_wait_edges(job: JobGraph) -> Ints:
    """Return the edges by which threads go on when their communication ends, by what goes on."""
    rows = np.flatnonzero(job.edge_table.kind == EdgeKind.COLLECTIVE_WAIT)
    return rows[np.argsort(job.edge_table.target[rows], kind="stable")]


def _host_members_of(job: JobGraph, part: RankGraph) -> Members:
    """Select what a rank called for that ran on its CPU."""
    every, first = _host_members(job)
    return every.take(slice(int(first[part.place]), int(first[part.place + 1])))


@memoized
def _host_members(job: JobGraph) -> tuple[Members, Ints]:
    """Return what ranks called for that ran on their CPUs, rank by rank, and where each rank's begin."""
    members = job.members.take((job.members.call >= 0) & ~job.is_gpu[job.members.row])
    members = members.take(np.argsort(members.part, kind="stable"))
    return members, np.searchsorted(members.part, np.arange(len(job.parts) + 1))
