"""Whether the replay of a window can be trusted: what its rows do not contain, and how much of its path is fixed.

Of a job also how much of a prediction may be waiting for other ranks.

After changes, driver calls of several threads may wait for each other that did not, and the other way round
(:mod:`hta_graph.what_if.driver_lock`). Who comes first is a matter of microseconds: where a prediction depends on it,
it is doubtful.

So it is where a change brings times onto the path that something may have made longer which the trace does not show:

gaps between kernels    where none was launched before its predecessor ended, nothing shows how short they can be
long launching calls    the call waited: for a full queue, a lock, code that was loaded
order inside a graph    no record shows which nodes a node of a CUDA graph waits for on other streams
waits for nothing       a wait, of a host or a stream, that found its work done does not show which stream's it was
calls that may wait     a single ``cudaFree`` that returned after the work may have waited for it, or not
default streams         work that began right after theirs may have waited for it, or they for other streams

A GPU that is idle although the launch of its next work returned long before waits for nothing that its trace shows: a
time slice of another process, or other ranks.

host     [launch][launch][launch]......
stream                    |--- idle, 2.4 ms ---|[ker][ker][ker]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hta_graph.base.arrays import distinct, is_among, percentiles_by, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.significance import is_improbable
from hta_graph.model import CPU_KINDS, RETURNS, Bools, BoundBy, EdgeKind, EdgeRule, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath, critical_path, has_partial_rows
from hta_graph.paths.host_pauses import PAUSE_NS
from hta_graph.paths.intervals import union
from hta_graph.paths.unrecorded_work import rows_of_gpu_use, unrecorded_times
from hta_graph.paths.windows import LATEST_NS, Window, resolved_window
from hta_graph.what_if.modified_window import (
    ModifiedWindow,
    PathTotals,
    earlier_share,
    frozen_share,
    recorded_path_totals,
    time_without_partner,
)
from hta_graph.what_if.replay import Replayed
from hta_graph.what_if.replay_graph import FEWEST_LAUNCHED_AHEAD, ReplayGraph, edge_weights, launched_ahead

UNRELIABLE_SHARE = 0.5
"""Where most of a path stays as it is whatever changes, a prediction is about the smaller part."""

DOUBTFUL_SHARE = 0.25
"""From this fixed share on, the path of the replay is compared with the critical path, and predictions are hedged."""

ANOTHER_PATH_SHARE = 0.1
"""Of classes that differ by less than this share of a window, replay only prefers other causes of equal times."""

CONTENDED_SHARE = 0.03
"""A prediction that the driver's lock changes by less than this share of its window does not depend on it."""

UNUSUAL_SHARE = 0.02
"""Where a prediction rests on less of what the trace does not explain, it is off by less than 3% of its window."""

POSSIBLE_WAITING_SHARE = 0.2
"""Where a fifth of a prediction may be waiting that looks like work, it may be too long by a quarter."""

STARTS_WITHIN_NS = 50_000
"""Work starts this soon after its launch and after the work before it."""

MISSING_SHARE = 0.5
"""From this share of the GPU's idle time on launched work is what it mostly waits for."""

BACK_TO_BACK_NS = 1_000
"""Between kernels of one stream that were launched ahead pass about 1 µs, where a trace does not show how much."""

FOLLOWS_AT_ONCE_NS = 3_000
"""Between nodes of a graph that follow each other across streams pass 1 to 2 µs."""

UNRECORDED_SHARE = 0.1
"""Where more of a window may be work that has no row, nothing is known of what changes would save."""

QUICK_SYNC_NS = 10_000
"""A synchronization that finds nothing to wait for takes about as long (public traces: 3 to 30 µs)."""

DEFAULT_STREAMS, FEWEST_BARRIERS, ONCE = (0, 7), 3, 20
"""What recorders call CUDA's default stream; how many must look like barriers, as one in 20 does by chance."""

DOES_NOT_WAIT_SHARE = 0.2
"""A name does not wait for work if this share of its calls returns while work is outstanding."""

SLOW_CALL = 5
"""A launching call of this many times its usual length waited for something."""

Missing = Literal["gpu_not_recorded", "kernels_not_recorded", "nothing_recorded", "not_started"]
"""What rows do not show: what launched work did, what most of a window was, what launched work waited for."""

DIFFERS_SHARE = 0.25
"""Where another run may differ by more than this share of a prediction, this one step says little about it."""

DoubtReason = Literal[Missing, "fixed", "another_path", "contended", "unusual", "waiting", "steps_differ"]


@dataclass(frozen=True)
class Reliability:
    """Of a window's path what no change moves, and how much of it is in other classes in replay, as shares (0–1).

    Work without a recorded cause hangs on the thread that does most: then replay follows that thread, and not the work.
    """

    fixed_share: float
    alone_share: float = 0.0
    """Of the fixed share what is communication without a known partner: it is fixed only while other things change."""
    another_path_share: float = 0.0
    contended_share: float = 0.0
    """By which share of the window calls that wait anew for the driver's lock change a prediction."""
    unusual_share: float = 0.0
    """The share of the window that rests, after a change, on times that the trace does not explain."""
    missing: Missing | None = None
    missing_share: float = 0.0
    """What the rows do not show, and for which share of the window."""
    waiting_share: float = 0.0
    """Which share of a job's prediction may be waiting for other ranks that looks like work."""
    differs_share: float = 0.0
    """By which share of a job's prediction another run may differ from it, as its steps differ (90% probability)."""

    @property
    def of_communication(self) -> Reliability:
        """The same where communication is what changes."""
        return self.where_moved(self.alone_share)

    def where_moved(self, share: float) -> Reliability:
        """Return the same where communication without a known partner changes that is this share of the path."""
        share = min(share, self.alone_share)
        return replace(self, fixed_share=self.fixed_share - share, alone_share=self.alone_share - share)

    @property
    def reason(self) -> DoubtReason | None:
        """Why predictions cannot be trusted; None: they can."""
        if self.missing:
            return self.missing
        if self.another_path_share >= ANOTHER_PATH_SHARE:
            return "another_path"
        if self.fixed_share >= UNRELIABLE_SHARE:
            return "fixed"
        if self.waiting_share >= POSSIBLE_WAITING_SHARE:
            return "waiting"
        if self.differs_share > DIFFERS_SHARE:
            return "steps_differ"
        if self.contended_share:
            return "contended"
        return "unusual" if self.unusual_share else None

    @property
    def share(self) -> float:
        """The share that the reason is about."""
        if self.missing:
            return self.missing_share
        shares = {
            "another_path": self.another_path_share,
            "contended": self.contended_share,
            "unusual": self.unusual_share,
            "waiting": self.waiting_share,
            "steps_differ": self.differs_share,
        }
        return shares.get(self.reason or "fixed", self.fixed_share)


@memoized
def reliability(base: ReplayGraph) -> Reliability:
    """Return how far predictions about a window can be trusted."""
    fixed = frozen_share(base) + earlier_share(base)
    if (found := with_missing_rows(Reliability(fixed), base)).missing:
        return found
    if fixed < DOUBTFUL_SHARE:
        return Reliability(fixed)
    path = recorded_path_totals(base)[0]
    alone = time_without_partner(path) / max(base.length_ns, 1)
    measured = critical_path(base.graph, resolved_window(base.window)).by_bound_ns
    replayed = path.by_bound_ns
    differs = sum(max(ns - replayed[bound], 0) for bound, ns in measured.items())
    return Reliability(fixed, alone, differs / max(base.length_ns, 1))


def with_unrecorded_work(found: Reliability, graph: DependencyGraph, window: Window) -> Reliability:
    """Return the same where launched work that was not recorded takes much of a window; summaries know that, too."""
    every = (unrecorded_times(part.graph) for part in graph.rank_graphs)
    unknown_ns = max(times.clip(window.start_ns, window.end_ns).total for times in every)
    if unknown_ns < UNRECORDED_SHARE * (window.end_ns - window.start_ns) or not unknown_ns:
        return found
    share = unknown_ns / (window.end_ns - window.start_ns)
    return replace(found, missing="kernels_not_recorded", missing_share=share)


def with_missing_rows(found: Reliability, base: ReplayGraph) -> Reliability:
    """Return the same with what the rows of the window do not show."""
    if (lost := with_unrecorded_work(found, base.graph, base.window)).missing:
        return lost
    missing = _missing_rows(base)
    return found if missing is None else replace(found, missing=missing[0], missing_share=missing[1])


def _missing_rows(base: ReplayGraph) -> tuple[Missing, float] | None:
    """Return what the rows of a window do not show, and for which share of it; None if they show all.

    Of a job only the GPU of the rank that most of the path is on is asked: what does not start there delays it.
    """
    graph, window, length_ns = base.graph, base.window, base.length_ns
    if not length_ns or has_partial_rows(graph):
        return None
    if graph.is_gpu.any():
        if graph.is_job:
            idle_ns, late_ns = _idle_on_path(critical_path(graph, resolved_window(window)))
        else:
            idle_ns, late_ns = _idle_with_launched_work(graph, window.start_ns, window.end_ns)
        # What has no cause on the path is called unexplained, with its reason.
        known_ns = late_ns - recorded_path_totals(base)[0].by_bound_ns[BoundBy.UNEXPLAINED.label]
        is_most = late_ns > MISSING_SHARE * idle_ns and known_ns >= DOUBTFUL_SHARE * length_ns
        return ("not_started", late_ns / length_ns) if is_most else None
    if graph.is_job:
        return None
    if any(rows.any() for rows in rows_of_gpu_use(graph)):
        return "gpu_not_recorded", 1.0
    silent_ns = _silent_ns(graph, window)
    return ("nothing_recorded", silent_ns / length_ns) if silent_ns else None


def _silent_ns(graph: DependencyGraph, window: Window) -> int:
    """Return for how much of a window (ns) no thread has anything but annotations open; 0 if other parts are larger.

    These are operators, calls, frames and loading; and collectives of Gloo while none of them is open. Between two
    operators is Python, which needs no row of its own: only what is as long as a pause of a launching host is silence.
    """
    events, flags = graph.event_table, graph.event_flags
    does = kind_mask(events.kind, (*CPU_KINDS, EventKind.PYTHON_FUNCTION)) | flags.loads_data()
    works, known = (
        union(events.start[rows], events.end[rows]).clip(window.start_ns, window.end_ns)
        for rows in (does, does | flags.gloo_collective)
    )
    gaps = known.gaps(window.start_ns, window.end_ns)
    lengths = gaps.end - gaps.start
    silent_ns, communicates_ns = int(lengths[lengths > PAUSE_NS].sum()), known.total - works.total
    works_ns = window.end_ns - window.start_ns - silent_ns - communicates_ns
    return silent_ns if silent_ns > max(works_ns, communicates_ns) else 0


def path_waits_on_launched_work(path: CriticalPath) -> bool:
    """Return whether launched work does not start for most of the time in which the GPU of a path's rank is idle."""
    idle_ns, late_ns = _idle_on_path(path)
    return late_ns > MISSING_SHARE * idle_ns


def work_waits_most_of_idle(graph: DependencyGraph, start_ns: int, end_ns: int) -> bool:
    """Return whether launched work does not start for most of the time in which the GPU of a rank is idle."""
    idle_ns, late_ns = _idle_with_launched_work(graph, start_ns, end_ns)
    return late_ns > MISSING_SHARE * idle_ns


def _idle_on_path(path: CriticalPath) -> tuple[int, int]:
    """Return idle times, as below, of the rank that most of a path is on; 0 if it is on several."""
    of_rank = [*path.by_rank_ns.values()]
    if 2 * max(of_rank) < path.length_ns:
        return 0, 0
    window = path.window
    return _idle_with_launched_work(path.graph, window.start_ns, window.end_ns, int(np.argmax(of_rank)))


def _idle_with_launched_work(graph: DependencyGraph, start_ns: int, end_ns: int, rank: int = 0) -> tuple[int, int]:
    """Return how long (ns) a rank's GPU is idle in [start, end), and for how much of it launched work does not start.

    The call that launched what runs next returned more than 50 µs before, and the work before ended as long ago.
    """
    events = graph.event_table
    rows = np.flatnonzero(graph.event_flags.gpu_work)
    rows = rows[graph.rank_index_of(rows) == rank]
    rows = rows[(events.end[rows] > start_ns) & (events.start[rows] < end_ns)]
    start, end = events.start[rows].clip(min=start_ns), events.end[rows].clip(max=end_ns)
    call = graph.launching_call[rows]
    # What may run and has no row is no launched work that does not start.
    unknown = unrecorded_times(graph.rank_graphs[rank].graph).clip(start_ns, end_ns)
    call = np.append(call, np.full(len(unknown.start), -1))
    start, end = np.append(start, unknown.start), np.append(end, unknown.end)
    order = np.argsort(start, kind="stable")
    start, end, call = start[order], end[order], call[order]
    ended = np.maximum.accumulate(np.append(start_ns, end))
    returned = np.where(call >= 0, events.end[call], start)
    idle = np.maximum(start - ended[:-1], 0)
    late = (start - np.maximum(ended[:-1], returned) - STARTS_WITHIN_NS).clip(min=0)
    return int(idle.sum()) + int(end_ns) - int(ended[-1]), int(late.sum())


def reliability_after(replayed: Replayed) -> Reliability:
    """Return how far the prediction about a window after some changes can be trusted.

    Communication without a known partner is fixed unless it is what changes.
    """
    base = replayed.draft.base
    moved_ns = time_without_partner(recorded_path_totals(base)[0], _changed_parts(replayed.draft))
    found = reliability(base).where_moved(moved_ns / max(base.length_ns, 1))
    share = abs(replayed.saved_ns - replayed.saved_without_lock_ns) / max(replayed.measured_ns, 1)
    grown_ns = _unusual_time(replayed.path_after) - _recorded_unusual_time(base)
    doubted = _lost_graph_order(replayed), _unknown_waits(replayed), _possible_waits(replayed)
    unusual = max(grown_ns, *doubted) / max(base.length_ns, 1)
    return replace(
        found,
        contended_share=share if share >= CONTENDED_SHARE else 0.0,
        unusual_share=unusual if unusual >= UNUSUAL_SHARE else 0.0,
    )


@memoized
def _recorded_unusual_time(base: ReplayGraph) -> int:
    return _unusual_time(recorded_path_totals(base)[0])


def _unusual_time(path: PathTotals) -> int:
    """Return by how much (ns) gaps between kernels and launching calls on a path are longer than they need to be."""
    graph, parts = path.base.graph, path.base.parts.take(path.rows)
    gaps = parts.bound == BoundBy.GPU_KERNEL_KERNEL_OVERHEAD
    calls = take_or(graph.event_flags.enqueueing_call, parts.owner, otherwise=False) & (
        parts.bound == BoundBy.CPU_BOUND
    )
    usual = np.where(gaps, _back_to_back_ns(graph), SLOW_CALL * take_or(_usual_calls(graph), parts.owner, otherwise=0))
    chosen = gaps | calls
    return int((path.length - usual)[chosen].clip(min=0).sum())


def _lost_graph_order(replayed: Replayed) -> int:
    """Return by how much (ns) nodes of CUDA graphs no more follow others that they directly followed.

    Of each launch the node that moves most counts.

    launch    |~~~~~~~~~~~~~~~~~~~~~~~~~▶              after a change   |~~~~~~~~~~~~~~~~~~~~~~~~~▶
    stream 1     [=====node 1=====]                            [=====node 1=====]
    stream 2                       [=====node 2=====]                              [=====node 2=====]
    """
    base, graph = replayed.draft.base, replayed.graph
    before, after = _followers_inside_graphs(graph)
    inside = base.is_inside[end_point(before)] & base.is_inside[start_point(after)]
    before, after = before[inside], after[inside]
    gap = replayed.times[start_point(after)] - replayed.times[end_point(before)]
    was = graph.event_table.start[after] - graph.event_table.end[before]
    launch, moved = graph.launching_call[after], np.zeros(len(graph.event_table), np.int64)
    np.maximum.at(moved, launch, np.abs(gap - was))
    return int(moved.sum())


def _unknown_waits(replayed: Replayed) -> int:
    """Return by how much (ns) a window lasts longer if calls wait that found nothing to wait for as recorded.

    main thread   [sync][launch]                    after a change   [sync][launch]
    stream 1      [copy]   [kernel]                                  [copy] [kernel]
    stream 2    [gemm]                                               [gemm ~~~~~~]      which one did it ask about?
    """
    found = _work_before_quick_waits(replayed.graph), _work_before_guessed_waits(replayed.graph)
    base, (source, target) = replayed.draft.base, (np.concatenate(side) for side in zip(*found, strict=True))
    inside = base.is_inside[source] & base.is_inside[target]
    source, target = source[inside], target[inside]
    pending = replayed.times[source] - replayed.times[target]
    if int(pending.clip(min=0).sum()) < UNUSUAL_SHARE * base.length_ns:
        return 0
    source, target = source[pending > 0], target[pending > 0]
    return _difference_with_waits(replayed, replayed.draft.copy(), source, target, np.zeros(len(source), np.int64))


def _possible_waits(replayed: Replayed) -> int:
    """Return by how much (ns) a prediction differs if calls waited for the device that may have, as ``cudaFree`` may.

    main thread   [cudaFree ~~~~~~~~~~~~~~~~~~]     after a change   [cudaFree ~~~~~~~~~~~~~~~~~~]   if it works
    stream           [gemm ================]                         [gemm =====]
    main thread                                                      [cudaFree ~~~~~]                if it waits

    The same is tried for work before and after that of a default stream, which may be a barrier.
    """
    base = replayed.draft.base
    found = _work_before_possible_waits(replayed.graph), _work_before_possible_barriers(replayed.graph)
    source, target = (np.concatenate([one[side] for one in found]) for side in (0, 1))
    lag = np.concatenate([one[2] for one in found])
    inside = base.is_inside[source] & base.is_inside[target]
    source, target, lag = source[inside], target[inside], lag[inside]
    if replayed.is_unchanged or not len(target):
        return 0
    waiting, edges = replayed.draft.copy(), base.edges
    own = np.zeros(len(base.times), np.int64)
    own[target] = lag
    to = is_among(edges.target, distinct(target))
    waiting.extra[to] += np.minimum(own[edges.target[to]] - edges.weight[to], 0)
    return _difference_with_waits(replayed, waiting, source, target, lag)


def _difference_with_waits(replayed: Replayed, waiting: ModifiedWindow, source: Ids, target: Ids, lag: Ints) -> int:
    """Return by how much (ns) a prediction differs if, in a draft, points come such a lag after others at least."""
    base = replayed.draft.base
    waiting.added.append((source, target, lag))
    try:
        values = waiting.paths().values(waiting.weight, base.times)
    except QueryError:  # by clock faults such waits may close a cycle
        return 0
    return abs(base.end_of(values, waiting.tails) - base.window.start_ns - replayed.predicted_ns)


@memoized
def _work_before_quick_waits(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return the ends of GPU work and of synchronizing calls, which may have asked for it and found it done.

    The calls are short, and no record says what they ask for: a rule took the stream that their thread launched on
    last, or none. Of each other stream it is what was launched last before the call.
    """
    events, edges = graph.event_table, graph.edge_table
    returns = np.flatnonzero(np.isin(edges.kind, RETURNS))
    called = event_of(edges.target[returns])
    is_known = np.zeros(len(events), np.bool_)
    is_known[called[edges.rule[returns] != EdgeRule.STREAM_OF_LAST_LAUNCH]] = True
    flags = graph.event_flags
    calls = np.flatnonzero(flags.blocking_call & ~flags.synchronous_copy_call & ~is_known)
    works, asked = _last_launched(graph, calls[events.end[calls] - events.start[calls] <= QUICK_SYNC_NS])
    # What still ran at the return was not asked for.
    done = events.end[works] <= events.end[asked]
    return end_point(works[done]), end_point(asked[done])


@memoized
def _work_before_guessed_waits(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return the ends of work, and the starts of what may wait for it, by calls of which no time shows the stream."""
    events, edges, call = graph.event_table, graph.edge_table, graph.launching_call
    guessed = np.isin(edges.rule, (EdgeRule.ONLY_OTHER_STREAM, EdgeRule.STREAM_OF_LAST_LAUNCH))
    known = edges.take((edges.kind == EdgeKind.EVENT_WAIT) & ~guessed)
    answered = graph.wait_calls.of_pairs(event_of(known.source), event_of(known.target))
    calls = np.flatnonzero(graph.event_flags.stream_wait_call & (known.rule != EdgeRule.RECORDED).all())
    works, asked = _last_launched(graph, calls[~is_among(calls, answered)])
    rows = np.flatnonzero(call >= 0).astype(np.int32)
    keys, own = (graph.timeline.lane_key(start_point(of)) for of in (call[rows], asked))
    order = np.append(np.argsort(keys, kind="stable"), -1)
    held = take_or(rows, order[np.searchsorted(np.sort(keys), own)])
    done = (held >= 0) & (events.lane[call[held]] == events.lane[asked]) & (events.end[works] <= events.start[held])
    return end_point(works[done]), start_point(held[done])


@memoized
def _work_before_possible_waits(graph: DependencyGraph) -> tuple[Ids, Ids, Ints]:
    """Return the ends of work and of calls that may have waited for it, and how long after the work they returned (ns).

    No rule decides it: there are few such calls, or chance may be the reason. Names whose calls return while work is
    outstanding are left out.
    """
    events, edges = graph.event_table, graph.edge_table
    is_open = graph.event_flags.implicit_wait_call & (events.end - events.start >= QUICK_SYNC_NS)
    is_open[event_of(edges.target[np.isin(edges.kind, RETURNS)])] = False
    works, calls = _last_launched(graph, np.flatnonzero(is_open))
    latest = np.full(len(events), LATEST_NS) * -1
    np.maximum.at(latest, calls, events.end[works])
    found = np.flatnonzero(latest > events.start)
    returns_early = latest > events.end
    share = np.bincount(events.name[found], returns_early[found]) / np.maximum(np.bincount(events.name[found]), 1)
    is_open[:] = False
    is_open[found] = ~returns_early[found] & (share[events.name[found]] < DOES_NOT_WAIT_SHARE)
    chosen = is_open[calls]
    return end_point(works[chosen]), end_point(calls[chosen]), (events.end - latest)[calls[chosen]]


@memoized
def _work_before_possible_barriers(graph: DependencyGraph) -> tuple[Ids, Ids, Ints]:
    """Return the ends of work, the starts of work that may have waited for it at a barrier, and the times between (ns).

    Work of CUDA's legacy default stream waits for all blocking streams, and they for it; no record says which are
    blocking. Work that was launched long before, and stood still, began right after work on the other side had ended:
    mostly where it could show this, and not by chance.
    """
    events, edges, times, lanes = graph.event_table, graph.edge_table, graph.timeline.times, graph.lanes
    since = np.full(len(events), -LATEST_NS)
    starts = np.flatnonzero(edges.target % 2 == 0)
    np.maximum.at(since, event_of(edges.target[starts]), times[edges.source[starts]])
    rows = np.flatnonzero(graph.event_flags.gpu_work & (graph.launching_call >= 0)).astype(np.int32)
    since[rows] = np.maximum(since[rows], events.end[graph.launching_call[rows]])
    is_default = np.isin(lanes.stream, DEFAULT_STREAMS)[events.lane[rows]]
    place = graph.rank_index_of(rows) * len(lanes.labels) + lanes.device[events.lane[rows]]
    found = [(rows[:0], rows[:0])]
    for number in distinct(place).tolist():
        for side in (True, False):
            waiting = rows[(place == number) & (is_default == side)]
            other = rows[(place == number) & (is_default != side)]
            other = other[np.argsort(events.end[other], kind="stable")]
            start, ends = events.start[waiting], events.end[other]
            at = np.searchsorted(ends, start, side="right")
            count = at - np.searchsorted(ends, since[waiting], side="right")
            hole = start - since[waiting]
            at = at[held := count > 0] - 1
            source, waiting, count, hole = other[at], waiting[held], count[held], hole[held]
            lag = events.start[waiting] - events.end[source]
            shows, is_sure = (is_improbable(count, after, hole, ONCE) for after in (np.zeros_like(lag), lag))
            is_sure &= events.start[graph.launching_call[source]] < events.start[graph.launching_call[waiting]]
            if np.count_nonzero(is_sure) >= max(FEWEST_BARRIERS, MISSING_SHARE * np.count_nonzero(shows)):
                found.append((source[is_sure], waiting[is_sure]))
    sources, targets = (np.concatenate(column).astype(np.int32) for column in zip(*found, strict=True))
    return end_point(sources), start_point(targets), events.start[targets] - events.end[sources]


def _last_launched(graph: DependencyGraph, calls: Ids | Ints) -> tuple[Ids, Ids]:
    """Return pairs of a call and what was launched last before it, of each stream of its rank."""
    events, calls = graph.event_table, calls.astype(np.int32)
    rows = np.flatnonzero(graph.event_flags.gpu_work & (graph.launching_call >= 0)).astype(np.int32)
    launched, found = events.start[graph.launching_call[rows]], [(calls[:0], calls[:0])]
    rank = graph.rank_index_of(calls)
    for lane in distinct(events.lane[rows]).tolist() if len(calls) else ():
        own = np.flatnonzero(events.lane[rows] == lane)
        own = own[np.argsort(launched[own], kind="stable")]
        asked = calls[rank == graph.rank_index_of(rows[own[:1]])]
        at = np.searchsorted(launched[own], events.start[asked]) - 1
        found.append((rows[own[at[at >= 0]]], asked[at >= 0]))
    works, pairs = (np.concatenate(column).astype(np.int32) for column in zip(*found, strict=True))
    return works, pairs


@memoized
def _followers_inside_graphs(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return pairs of nodes of one graph launch on two streams, of which one starts right when the other has ended.

    Not where it is known what the node waited for on another stream.
    """
    events, call = graph.event_table, graph.launching_call
    nodes = np.flatnonzero(call >= 0)
    several = np.bincount(call[nodes], minlength=len(events)) > 1
    nodes = nodes[several[call[nodes]]]
    # The ends and the starts of each launch's nodes in order of time: before a start stands the latest end.
    which, time = np.concatenate([nodes, nodes]), np.concatenate([events.end[nodes], events.start[nodes]])
    is_start = np.repeat([False, True], len(nodes))
    order = np.lexsort((is_start, time, call[which]))
    which, is_start = which[order], is_start[order]
    latest = np.maximum.accumulate(np.where(is_start, -1, np.arange(len(which))))
    place = np.flatnonzero(is_start & (latest >= 0))
    before, after = which[latest[place]], which[place]
    follows = (call[before] == call[after]) & (events.lane[before] != events.lane[after])
    follows &= events.start[after] - events.end[before] <= FOLLOWS_AT_ONCE_NS
    edges = graph.edges_of(EdgeKind.GRAPH_ORDER, EdgeKind.EVENT_WAIT)
    follows &= ~is_among(after, edges.target[call[edges.source] == call[edges.target]])
    return before[follows].astype(np.int32), after[follows].astype(np.int32)


@memoized
def _back_to_back_ns(graph: DependencyGraph) -> int:
    """Return the usual gap between kernels of a stream that waited for nothing but their predecessor."""
    rows = np.flatnonzero(edge_weights(graph).binds & (graph.edge_table.kind == EdgeKind.STREAM_ORDER))
    edges, times = graph.edge_table.take(rows[launched_ahead(graph, rows)]), graph.timeline.times
    lag = times[edges.target] - times[edges.source]
    lag = lag[lag >= 0]
    return int(np.median(lag)) if len(lag) >= FEWEST_LAUNCHED_AHEAD else BACK_TO_BACK_NS


@memoized
def _usual_calls(graph: DependencyGraph) -> Ints:
    """Return for each event the upper median of the times (ns) of launching calls of its name."""
    events = graph.event_table
    calls = np.flatnonzero(graph.event_flags.enqueueing_call)
    usual = -percentiles_by(events.name[calls], (events.start - events.end)[calls], len(graph.names), 50)
    found: Ints = usual[events.name]
    return found


def _changed_parts(draft: ModifiedWindow) -> Bools:
    """Mark the parts of a window that take another time after changes, or whose event waits for others then."""
    edges, changed = draft.base.edges, np.zeros(len(draft.base.graph.event_table), np.bool_)
    if draft.drops:
        for points in (edges.source[draft.dropped], edges.target[draft.dropped]):
            changed[event_of(points[points < draft.base.start_point])] = True
    found: Bools = take_or(changed, draft.base.parts.owner, otherwise=False) | (draft.factor != 1.0)
    return found
