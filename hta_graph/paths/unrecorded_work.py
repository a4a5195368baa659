"""When a GPU may have worked on what a recording does not hold: such time is unknown, never idle.

A call that launches leaves a row of the GPU in every whole recording (46 public recordings: all of 115,106 calls that
launch kernels, graphs or copies; a set of memory may leave none). Recorders drop such rows: of a session's first steps,
when a buffer is full, of graphs, of all kernels. What was launched runs at the earliest from its call on, and is over
when later work of its stream starts, or a call returns that waited for the stream or the device:

host       [launch] [launch, no row]        [launch]      [launch, no row]   [synchronize ~~~~~~~~]
stream           [===]                           [=====]
unknown               |~~~~~~~~~~~~~~~~~~~~~~~~~~|                         |~~~~~~~~~~~~~~~~~~~~~~~|

Inside one launch of a graph the host has no say: its nodes follow each other within microseconds (at most 6 µs in
public traces). Where a replay lacks nodes of another one that is much alike, longer holes are nodes that ran and were
not recorded; so are holes that every replay has at one place:

replay 1   [node][node]........[last]        [first][last] are recorded rows; what stands between them
replay 2   [node][node].........[last]       in every replay was not
replay 3   [node][node].......[last]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, distinct, first_of_runs, freeze, hash_rows, run_numbers, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.graph.timeline import launched_before_recording
from hta_graph.model import Bools, EdgeKind, Evidence, Ids, Ints
from hta_graph.paths.binding_edges import binding_edges
from hta_graph.paths.intervals import Intervals, union

NEVER = np.iinfo(np.int64).max

NODE_HOLE_NS = 10_000
"""A longer hole inside a replay that lacks nodes of another one is what they took."""

RECURRING_HOLE_NS = 50_000
"""A longer hole at one place of every replay of a graph is a node that none of them shows."""

ALIKE_SHARE = 0.5
"""Replays that share this part of the smaller one's nodes are of one graph, where the larger one has others, too."""

FULLEST_REPLAYS = 32
"""With how many kinds of replays one is compared: those with the most nodes."""


@dataclass(frozen=True, eq=False)
class UnrecordedWork(Columns):
    """Times [start, end) (ns) in which work may have run that has no row, with the call that launched it.

    Calls are places in the :class:`LaunchCalls` of their rank. ``is_node``: the call is that of a graph some of whose
    nodes were recorded.
    """

    call: Ids
    start: Ints
    end: Ints
    is_node: Bools

    @property
    def times(self) -> Intervals:
        """The times of all together."""
        return union(self.start, self.end)


@dataclass(frozen=True, eq=False)
class LaunchCalls(Columns):
    """The calls of a rank that launch work, by canonical row: their starts (ns), and whether each launches a graph."""

    start: Ints
    is_graph: Bools


@dataclass(frozen=True)
class KnownUnrecordedWork:
    """What a graph of few rows knows of its rank: work that was not recorded, when that may have run, and the calls."""

    work: UnrecordedWork
    times: Intervals
    calls: LaunchCalls

    @classmethod
    def of(cls, graph: DependencyGraph) -> KnownUnrecordedWork:
        """Return it of a rank's whole graph."""
        found = unrecorded_work(graph)
        return cls(found, unrecorded_times(graph), launch_calls(graph) if len(found) else LaunchCalls.empty())

    def moved(self, to_job: Callable[[Ints], Ints]) -> KnownUnrecordedWork:
        """Return the same in the time of a job."""
        work = replace(self.work, start=to_job(self.work.start), end=to_job(self.work.end))
        times = Intervals(to_job(self.times.start), to_job(self.times.end))
        return KnownUnrecordedWork(work, times, replace(self.calls, start=to_job(self.calls.start)))


def launch_calls(graph: DependencyGraph) -> LaunchCalls:
    """Return the calls of a rank that launch work; of a summary whose work was all recorded none."""
    if (known := graph.attached(KnownUnrecordedWork)) is not None:
        return known.calls
    rows = np.flatnonzero(graph.event_flags.work_call)
    return LaunchCalls(graph.event_table.start[rows], graph.event_flags.graph_launch_call[rows])


@memoized
def unrecorded_work(graph: DependencyGraph) -> UnrecordedWork:
    """Return when work may have run that is not in the file, of all ranks of a graph."""
    if (known := graph.attached(KnownUnrecordedWork)) is not None:
        return known.work
    if graph.is_job:
        return UnrecordedWork.join(
            [UnrecordedWork.empty(), *(unrecorded_work(part.graph) for part in graph.rank_graphs)]
        )
    # A summary holds few rows of its rank, and launches without theirs.
    if not graph.is_gpu.any() or graph.attached(RankSummary) is not None:
        return UnrecordedWork.empty()
    found = UnrecordedWork.join([_after_lost_launches(graph), _lost_nodes(graph)])
    place = np.cumsum(graph.event_flags.work_call, dtype=np.int32) - 1
    return replace(found, call=place[found.call])


@memoized
def unrecorded_times(graph: DependencyGraph) -> Intervals:
    """Return when no GPU runs anything that is recorded, and work may have run that is not; of one rank."""
    if (known := graph.attached(KnownUnrecordedWork)) is not None:
        return known.times
    found, works, events = unrecorded_work(graph), graph.event_flags.gpu_work, graph.event_table
    return found.times.subtract(union(events.start[works], events.end[works])) if len(found) else found.times


@memoized
def lost_launches(graph: DependencyGraph) -> Ids:
    """Return the launching calls of one rank's graph whose work is not in the file.

    Not those that are captured into a graph, nor a call around or inside the one that the row belongs to; and none
    where as many rows name no call: these may be theirs.
    """
    flags, call, events = graph.event_flags, graph.launching_call, graph.event_table
    has_row = np.zeros(len(events), np.bool_)
    has_row[call[call >= 0]] = True
    calls = np.flatnonzero(flags.work_call & ~has_row)
    if not len(calls):
        return freeze(calls.astype(np.int32))
    parent, around = graph.calls.parent, has_row.copy()
    around[parent[np.flatnonzero(has_row & (parent >= 0))]] = True
    calls = calls[~around[calls] & ~take_or(has_row, parent[calls], otherwise=False)]
    inside = take_or(flags.work_call, parent[calls], otherwise=False)
    calls = calls[~inside & ~_is_captured(graph, calls)]
    orphans = np.flatnonzero(flags.gpu_work & (call < 0)).astype(np.int32)
    orphans = orphans[~launched_before_recording(events, orphans)]
    return freeze((calls if len(orphans) < len(calls) else calls[:0]).astype(np.int32))


@memoized
def rows_of_gpu_use(graph: DependencyGraph) -> tuple[Bools, Bools, Bools]:
    """Mark what shows that a GPU worked: calls that launch, calls that wait, operators that only a GPU runs.

    What is captured into a graph runs with it: the recording of a capture alone lacks nothing.
    """
    flags, marked = graph.event_flags, []
    for rows in (flags.enqueueing_call, flags.blocking_call, flags.gpu_operator):
        found = np.flatnonzero(rows)
        marked.append(np.zeros(len(rows), np.bool_))
        marked[-1][found[~_is_captured(graph, found)]] = True
    return marked[0], marked[1], marked[2]


def captures(graph: DependencyGraph) -> list[tuple[Ids, Intervals]]:
    """Return when a graph is captured, with the lanes of its rank: what is launched then on any does not run."""
    events, flags, found = graph.event_table, graph.event_flags, []
    begins, ends = np.flatnonzero(flags.capture_call), np.flatnonzero(flags.capture_end_call)
    for part in graph.rank_graphs if len(begins) else ():
        lanes = np.flatnonzero(graph.rank_index_of_lane == part.index).astype(np.int32)
        start = events.start[begins[graph.rank_index_of(begins) == part.index]]
        if len(start):
            end = np.append(np.sort(events.end[ends[graph.rank_index_of(ends) == part.index]]), events.end.max())
            found.append((lanes, union(start, end[np.searchsorted(end[:-1], start)])))
    return found


def _is_captured(graph: DependencyGraph, calls: Ids | Ints) -> Bools:
    """Mark the calls of captures: what they launch runs with the graph."""
    at, lane, found = graph.event_table.start[calls], graph.event_table.lane[calls], np.zeros(len(calls), np.bool_)
    for lanes, when in captures(graph):
        inside = np.searchsorted(when.start, at, side="right") > np.searchsorted(when.end, at, side="right")
        found |= inside & np.isin(lane, lanes)
    return found


def _after_lost_launches(graph: DependencyGraph) -> UnrecordedWork:
    calls, events = lost_launches(graph), graph.event_table
    if not len(calls):
        return UnrecordedWork.empty()
    stream = _streams_of(graph, calls)
    end = np.minimum(_later_work_starts(graph, calls, stream), _next_return(graph, calls, stream))
    end = np.minimum(end, events.end.max())
    return UnrecordedWork.of(call=calls, start=events.start[calls], end=end, is_node=False)


def _streams_of(graph: DependencyGraph, calls: Ids) -> Ids:
    """Return the stream (lane) that each call most likely launched to; -1 where nothing shows it.

    It is that of most other work of the same operator and call on the thread: what is never recorded has none.
    """
    events, call = graph.event_table, graph.launching_call
    work = np.flatnonzero(call >= 0)
    both = np.concatenate([call[work], calls])
    names = take_or(events.name, take_or(graph.operator_around, both)), events.name[both], events.lane[both]
    order, site = np.lexsort(names), np.empty(len(both), np.int64)
    site[order] = run_numbers(*(column[order] for column in names))
    found = _usual_stream(site[: len(work)], events.lane[work], int(site.max()) + 1)[site[len(work) :]]
    # A graph is launched to the thread's own stream; that of other work may be one that no row shows.
    threads = _usual_stream(events.lane[call[work]], events.lane[work], len(graph.lanes.labels))
    is_graph = graph.event_flags.graph_launch_call[calls]
    return np.where((found < 0) & is_graph, threads[events.lane[calls]], found).astype(np.int32)


def _later_work_starts(graph: DependencyGraph, calls: Ids, stream: Ids) -> Ints:
    """Return when work starts that was launched later to the stream of each call; never where that is not known."""
    events, call = graph.event_table, graph.launching_call
    found, work = np.full(len(calls), NEVER), np.flatnonzero(call >= 0)
    for lane in distinct(stream[stream >= 0]).tolist():
        own = work[events.lane[work] == lane]
        own = own[np.argsort(events.start[call[own]], kind="stable")]
        # Of all that is launched from a time on, when the first one starts.
        first = np.append(np.minimum.accumulate(events.start[own][::-1])[::-1], NEVER)
        here = stream == lane
        found[here] = first[np.searchsorted(events.start[call[own]], events.start[calls[here]], side="right")]
    return found


def _usual_stream(site: Ids | Ints, lane: Ids, sites: int) -> Ids:
    """Return the lane that most work of each site has; -1 of a site without any."""
    lanes = int(lane.max(initial=0)) + 1
    pairs, count = np.unique(site.astype(np.int64) * lanes + lane, return_counts=True)
    found = np.full(sites, -1, np.int32)
    order = np.argsort(count, kind="stable")
    # The most frequent one is written last.
    found[pairs[order] // lanes] = (pairs[order] % lanes).astype(np.int32)
    return found


def _next_return(graph: DependencyGraph, calls: Ids, stream: Ids) -> Ints:
    """Return when the next call on each call's thread returns that waits for its stream or the device."""
    events, flags, found = graph.event_table, graph.event_flags, np.full(len(calls), NEVER)
    # A copy that may block has waited where its own row had ended by then.
    ended, copies = np.zeros(len(events), np.bool_), np.flatnonzero(graph.launching_call >= 0)
    call = graph.launching_call[copies]
    ended[call[events.end[copies] <= events.end[call]]] = True
    waits = np.flatnonzero(flags.blocking_call & ~flags.event_sync_call & (ended | ~flags.synchronous_copy_call))
    waits = waits[np.argsort(events.start[waits], kind="stable")]
    # Recorded ones only: where the work is missing, other work is inferred to have been waited for.
    edges = graph.edges_of(EdgeKind.STREAM_SYNC)
    edges = edges.take(edges.inferred == Evidence.RECORDED)
    awaited = np.full(len(events), -1, np.int32)
    awaited[edges.target] = events.lane[edges.source]
    for thread, lane in np.unique(np.stack([events.lane[calls], stream]), axis=1).T.tolist():
        of_stream = (awaited[waits] < 0) | (awaited[waits] == lane) | (lane < 0)
        own, here = waits[(events.lane[waits] == thread) & of_stream], (events.lane[calls] == thread) & (stream == lane)
        ends = np.append(events.end[own], NEVER)
        found[here] = ends[np.searchsorted(events.start[own], events.start[calls[here]])]
    return found


def _lost_nodes(graph: DependencyGraph) -> UnrecordedWork:
    """Return the holes inside launches of graphs in which nodes ran that were not recorded."""
    flags, call = graph.event_flags, graph.launching_call
    if not flags.graph_launch_call.any():
        return UnrecordedWork.empty()
    rows = np.flatnonzero(flags.gpu_work)
    start, end = graph.event_table.start[rows], graph.event_table.end[rows]
    reach = np.maximum.accumulate(end)
    # Of all that began before, it is what ends last.
    last = np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0))
    after = np.flatnonzero(start[1:] - reach[:-1] > NODE_HOLE_NS) + 1
    launch = call[rows[after]]
    is_inside = take_or(flags.graph_launch_call, launch, otherwise=False) & (launch == call[rows[last[after - 1]]])
    after, launch = after[is_inside], launch[is_inside]
    length = start[after] - reach[after - 1]
    replays, with_hole = replays_with_hole(graph, rows[after].astype(np.int32), length)
    recurs = (length > RECURRING_HOLE_NS) & (replays >= MIN_REPLAYS) & (with_hole == replays)
    lost = recurs | np.isin(launch, _short_replays(graph, launch))
    found = after[lost]
    return UnrecordedWork.of(call=launch[lost], start=reach[found - 1], end=start[found], is_node=True)


def _short_replays(graph: DependencyGraph, launches: Ids) -> Ids:
    """Return those of some launches of graphs that lack nodes of another replay that is much alike."""
    events, call = graph.event_table, graph.launching_call
    nodes = np.flatnonzero(take_or(graph.event_flags.graph_launch_call, call, otherwise=False))
    if not len(launches) or not len(nodes):
        return launches[:0]
    every, place = np.unique(call[nodes], return_inverse=True)
    names, name = np.unique(events.name[nodes], return_inverse=True)
    counts = summed_by(place * len(names) + name, np.ones(len(nodes), np.int64), len(every) * len(names))
    counts = counts.reshape(len(every), len(names))
    kinds = np.unique(counts, axis=0)
    fullest = kinds[np.argsort(-kinds.sum(axis=1), kind="stable")[:FULLEST_REPLAYS]]
    asked = distinct(launches)
    own = counts[np.searchsorted(every, asked)]
    lacks = [
        (full > own).any(axis=1)
        & (np.minimum(full, own).sum(axis=1) >= ALIKE_SHARE * np.minimum(full.sum(), own.sum(axis=1)))
        for full in fullest
    ]
    return asked[np.any(lacks, axis=0)]


# -- holes that recur --------------------------------------------------------------------------------------------------

MIN_REPLAYS = 3
"""Of fewer replays nothing recurs."""

LAG_BITS = 40
"""A lag (ns) of up to 18 minutes and its place fit one number."""


def replays_with_hole(graph: DependencyGraph, work: Ids, hole_ns: Ints) -> tuple[Ints, Ints]:
    """Return how many replays have the place where each work stands, and how many show a hole before it there.

    It shows a hole where that is at least half as long as ``hole_ns``; both numbers are 0 for what is no graph's node.
    """
    nodes, place, lag = _positions_in_launches(graph)
    place_of = np.full(len(graph.event_table), -1, np.int64)
    place_of[nodes] = place
    number = place_of[work]
    key = np.sort((place << LAG_BITS) + lag.clip(0, (1 << LAG_BITS) - 1))
    ends = np.searchsorted(key, (number + 1) << LAG_BITS)
    first, first_long = (np.searchsorted(key, (number << LAG_BITS) + least) for least in (0, (hole_ns + 1) // 2))
    return np.where(number >= 0, ends - first, 0), np.where(number >= 0, ends - first_long, 0)


@memoized
def _positions_in_launches(graph: DependencyGraph) -> tuple[Ids, Ints, Ints]:
    """Return the nodes of graphs, where each stands in its launch and its lag.

    Equal numbers are the same place in replays of one graph. The lag (ns) is how long a node started after what it
    waited for last, of the first one not counting what its launch took; 0 where that is of another launch.
    """
    events, edges, times = graph.event_table, graph.edge_table, graph.timeline.times
    work = np.flatnonzero(graph.launching_call >= 0).astype(np.int32)
    work = work[is_graph_node(graph, work)]
    work = work[np.argsort(graph.launching_call[work], kind="stable")]
    call = graph.launching_call[work]
    new = first_of_runs(call)
    launch, begins = np.cumsum(new) - 1, np.flatnonzero(new)
    ordinal = np.arange(len(work)) - begins[launch]
    source = take_or(edges.source, binding_edges(graph)[start_point(work)])
    inside = take_or(graph.launching_call, np.where(source >= 0, event_of(source), -1)) == call
    free = take_or(times, source)
    since = np.where(inside, free, np.maximum(free, times[end_point(call)]))
    lag = np.where(inside | new, times[start_point(work)] - since, 0)
    # A graph is known by the names of all its nodes; a sum, as branches may begin in another order in each replay.
    names = np.add.reduceat(hash_rows(events.name[work]), begins)[launch]
    columns = events.name[work], ordinal, names
    order = np.lexsort(columns)
    return work[order], run_numbers(*(column[order] for column in columns)), lag[order]


def is_graph_node(graph: DependencyGraph, work: Ids) -> Bools:
    """Mark work that a graph launch, or one call together with other work, launched: nodes wait for each other only."""
    call = graph.launching_call
    together = np.bincount(call[call >= 0], minlength=1)
    node: Bools = take_or(graph.event_flags.graph_launch_call, call[work], otherwise=False)
    several: Bools = take_or(together, call[work], otherwise=0) > 1
    return node | several
