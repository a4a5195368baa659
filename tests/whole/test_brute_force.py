"""Vectorised code against slow, obvious code: brute force, networkx, ``sorted`` and ``Decimal``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.base.errors import QueryError
from hta_graph.dependencies.stream_queues import rows_with_latest_end
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.timeline import Nesting
from hta_graph.graph.validate import edges_that_close_cycles
from hta_graph.model import CPU_KINDS, GPU_KINDS, WALKABLE, EdgeKind, EventKind
from hta_graph.paths.binding_edges import binding_edges, walk_back
from hta_graph.trace.table import EventTable, canonical_order, refined_order
from hta_graph.trace.timestamps import INVALID, nanoseconds
from tests.edge_accuracy import graph_edges, true_edges
from tests.simulator import Dialect, Program, Stream, random_program, simulate, to_bytes, write
from tests.simulator.program import Launch
from tests.support.deep_tests import for_all
from tests.support.graph_strategies import FILLED, GRAPHS, SIMULATED
from tests.support.random_rows import graph_of
from tests.support.trace_builder import TraceBuilder, edges

pytestmark = pytest.mark.sampled(2)

# --- binding edges and the walk ---------------------------------------------------------------------------------------


def last_finishing(graph: DependencyGraph, point: int) -> int:
    """Return the edge into a point whose source finished last; ties: the kind's place, then the later source."""
    edges, times, place = graph.edge_table, graph.timeline.times.tolist(), graph.timeline.position.tolist()
    best: tuple[tuple[int, int, int], int] | None = None
    for row in range(len(edges)):
        if edges.target[row] == point:
            source = int(edges.source[row])
            key = min(times[source], times[point]), -int(edges.kind[row]), place[source]
            best = max(best, (key, row)) if best else (key, row)
    return best[1] if best else -1


def same_edge(edges: EdgeTable, one: int, two: int) -> bool:
    ends = [(int(edges.source[at]), int(edges.kind[at])) if at >= 0 else None for at in (one, two)]
    return ends[0] == ends[1]


@for_all(GRAPHS, examples=150)
def test_the_binding_edge_is_the_one_whose_source_finished_last(graph: DependencyGraph) -> None:
    """Each point binds to the incoming edge that finished last, found by looking at every edge for every point."""
    binding = binding_edges(graph)
    for point in range(2 * len(graph.trace.events)):
        assert same_edge(graph.edge_table, int(binding[point]), last_finishing(graph, point))


def walk_by_brute_force(graph: DependencyGraph, sink: int) -> list[int]:
    """Return the points of the whole walk back from a sink."""
    points = [sink]
    while (edge := last_finishing(graph, points[-1])) >= 0:
        points.append(int(graph.edge_table.source[edge]))
    return points


@for_all(GRAPHS, st.data(), examples=150)
def test_the_walk_follows_last_finishing_sources(graph: DependencyGraph, data: st.DataObject) -> None:
    """The walk from any sink to any moment is what a loop over :func:`last_finishing` gives.

    Behind that moment it may go on, but only along one lane.
    """
    assume(len(graph.timeline.order))
    times = graph.timeline.times.tolist()
    points = walk_by_brute_force(graph, data.draw(st.sampled_from(graph.timeline.order.tolist())))
    for until in sorted({times[point] - early for point in points for early in (0, 1)}):
        chain = walk_back(graph, points[0], until)
        needed = next((at for at, point in enumerate(points) if times[point] <= until), len(points) - 1)
        assert len(chain.points) == len(chain.edges) + 1 > needed
        assert chain.points.tolist() == points[: len(chain.points)]
        assert len(set(graph.trace.events.lane[chain.points[needed:] >> 1].tolist())) == 1
        assert chain.times.tolist() == [min(times[p] for p in points[: at + 1]) for at in range(len(chain.points))]


def test_among_sources_stamped_after_their_target_the_first_kind_binds(tmp_path: Path) -> None:
    """By clock faults of 5 and 10 µs both sources count as finished when D starts: a tie, which the launch wins."""
    t = TraceBuilder()
    t.launch("S", (0, 4), (10, 40), 1, stream=20)
    t.call("cudaEventRecord", 5, 6, 2)
    t.call("cudaStreamWaitEvent", 8, 9, 3)
    t.sync_row("Stream Wait Event", 8, 9, 3, stream=7, wait_on_stream=20, record=2)
    call, kernel = t.launch("D", (35, 37), (30, 50), 4)
    t.agree(100)
    graph = t.graph(tmp_path)
    into = edges(graph, "launch", "event_wait")
    assert len([edge for edge in into if edge[3] == kernel]) == 2
    row = int(np.flatnonzero(graph.trace.events.index == kernel)[0])
    binding = int(binding_edges(graph)[2 * row])
    assert graph.edge_table.kind[binding] == EdgeKind.LAUNCH
    assert graph.trace.events.index[graph.edge_table.source[binding] >> 1] == call
    assert graph.diagnostics["edges_clamped"] == 2


# --- reachability -----------------------------------------------------------------------------------------------------


@for_all(FILLED, st.data(), examples=40)
def test_reachability_is_that_of_networkx(graph: DependencyGraph, data: st.DataObject) -> None:
    """Ancestors of an event's end, descendants of its start and shortest paths between the two."""
    indices = sorted(graph.events.event_index.tolist())
    one, two = data.draw(st.sampled_from(indices)), data.draw(st.sampled_from(indices))
    oracle = graph.to_networkx()
    before, after = ((oracle.add_node(node) or walk(oracle, node)) - {node} for walk, node in
                     ((networkx.ancestors, (one, "end")), (networkx.descendants, (one, "start"))))  # fmt: skip
    assert set(graph.ancestors(one).event_index) == {index for index, _ in before} - {one}
    assert set(graph.descendants(one).event_index) == {index for index, _ in after} - {one}
    assert_shortest(graph, oracle, one, two)


def assert_shortest(graph: DependencyGraph, oracle: networkx.MultiDiGraph, one: int, two: int) -> None:
    oracle.add_nodes_from([(one, "start"), (two, "end")])
    if not networkx.has_path(oracle, (one, "start"), (two, "end")):
        with pytest.raises(QueryError, match="no path"):
            graph.path_between(one, two)
        return
    path = graph.path_between(one, two)
    steps = list(zip(path.source_index, path.source_point, path.target_index, path.target_point, strict=True))
    assert len(steps) == networkx.shortest_path_length(oracle, (one, "start"), (two, "end"))
    assert all(left[2:] == right[:2] for left, right in pairwise(steps))
    assert (steps[0][:2], steps[-1][2:]) == ((one, "start"), (two, "end"))
    assert all(oracle.has_edge(step[:2], step[2:]) for step in steps)


def events_of_edges(graph: DependencyGraph) -> networkx.Graph:
    joined = networkx.Graph()
    joined.add_nodes_from(graph.events.event_index.tolist())
    joined.add_edges_from(zip(graph.edges.source_index.tolist(), graph.edges.target_index.tolist(), strict=True))
    return joined


def edge_set(graph: DependencyGraph) -> set[tuple[Any, ...]]:
    return set(graph.edges.itertuples(index=False, name=None))


@for_all(FILLED, st.data(), st.integers(0, 3), examples=60)
def test_neighbourhoods_are_those_of_networkx(graph: DependencyGraph, data: st.DataObject, depth: int) -> None:
    """The events at most so many edges away, whichever way the edges point, and all edges between them."""
    index = data.draw(st.sampled_from(sorted(graph.events.event_index.tolist())))
    near = networkx.single_source_shortest_path_length(events_of_edges(graph), index, cutoff=depth)
    found = graph.neighbourhood(index, depth)
    assert set(found.events.event_index) == set(near)
    assert edge_set(found) == {row for row in edge_set(graph) if {row[4], row[6]} <= set(near)}


@for_all(FILLED, st.data(), examples=60)
def test_subgraphs_are_those_of_networkx(graph: DependencyGraph, data: st.DataObject) -> None:
    """Any set of events induces the edges between them, in this graph and in networkx."""
    indices = sorted(graph.events.event_index.tolist())
    chosen = data.draw(st.sets(st.sampled_from(indices)))
    found = graph.subgraph(chosen)
    expected = graph.to_networkx().subgraph([(index, point) for index in chosen for point in ("start", "end")])
    assert set(found.events.event_index) == chosen
    assert set(found.to_networkx().edges(keys=True)) == set(expected.edges(keys=True))
    assert set(found.to_networkx().nodes) == set(expected.nodes)
    kept = graph.events[graph.events.event_index.isin(chosen)]
    assert found.events.to_dict("records") == kept.to_dict("records")


@for_all(SIMULATED, examples=40)
def test_the_longest_path_to_a_point_spans_the_time_to_its_earliest_ancestor(graph: DependencyGraph) -> None:
    """Lags are times between points: the longest path by lag from an ancestor is the time since the earliest one."""
    oracle = graph.to_networkx()
    assume(len(oracle) and not graph.diagnostics["edges_clamped"])
    sink = max(oracle.nodes, key=lambda node: oracle.nodes[node]["time_ns"])
    part = oracle.subgraph(networkx.ancestors(oracle, sink) | {sink})
    earliest = min(part.nodes[node]["time_ns"] for node in part)
    assert networkx.dag_longest_path_length(part, weight="lag_ns") == part.nodes[sink]["time_ns"] - earliest


# --- nesting ----------------------------------------------------------------------------------------------------------


def open_between(events: EventTable, rows: Iterable[int], lane: int, since: int, until: int) -> list[int]:
    """Return the rows of a lane that are open throughout a stretch of time."""
    return [row for row in rows if events.lane[row] == lane and events.start[row] <= since and events.end[row] >= until]


def assert_owners(nesting: Nesting, events: EventTable, rows: list[int]) -> None:
    """Between two instants the open row that started last owns; canonical order says which that is at one instant."""
    times = np.stack([events.start, events.end], axis=1).reshape(-1)
    for lane in np.unique(events.lane[rows]).tolist():
        part = nesting.lane_slice(lane)
        points, owners = nesting.points[part].tolist(), nesting.owner[part].tolist()
        for owner, (point, following) in zip(owners, pairwise(points), strict=False):
            since, until = int(times[point]), int(times[following])
            if until > since:
                assert owner == max(open_between(events, rows, lane, since, until), default=-1)


def parent_by_words(events: EventTable, rows: list[int], row: int) -> int:
    """The innermost row open when this one starts; a zero-length row lies inside the row that ends there."""
    time, lane = int(events.start[row]), int(events.lane[row])
    others = [other for other in rows if other != row and events.lane[other] == lane]
    others = [other for other in others if events.end[other] > events.start[other]]
    at_an_end = events.end[row] == time and any(events.end[other] == time for other in others)
    if at_an_end:
        around = [other for other in others if events.start[other] < time <= events.end[other]]
    elif events.end[row] == time:
        around = [other for other in others if events.start[other] <= time < events.end[other]]
    else:
        around = [other for other in others if events.start[other] <= time < events.end[other] and other < row]
    return max(around, default=-1)


def nestings_of(graph: DependencyGraph) -> list[tuple[Nesting, list[int]]]:
    """Return each nesting that the package uses, with the rows that it nests."""
    timeline, kind = graph.timeline, graph.trace.events.kind
    kinds = [CPU_KINDS, (EventKind.ANNOTATION,), (EventKind.PYTHON_FUNCTION,)]
    made = [timeline.calls, *(timeline.lookups(*each) for each in kinds[1:])]
    return [(nesting, np.flatnonzero(np.isin(kind, each)).tolist()) for nesting, each in zip(made, kinds, strict=True)]


@for_all(GRAPHS, examples=300)
def test_owners_and_parents_are_those_of_the_words(graph: DependencyGraph) -> None:
    """DESIGN §3 row by row: who owns each stretch of a thread, who is around each row, how many end too late."""
    events = graph.trace.events
    for nesting, rows in nestings_of(graph):
        assert sorted(nesting.points.tolist()) == sorted([2 * row for row in rows] + [2 * row + 1 for row in rows])
        assert_owners(nesting, events, rows)
        parents = [parent_by_words(events, rows, row) for row in rows]
        assert nesting.parent[rows].tolist() == parents
        late = [row for row, parent in zip(rows, parents, strict=True) if parent >= 0]
        assert nesting.violations == sum(events.end[row] > events.end[nesting.parent[row]] for row in late)


def order_by_words(events: EventTable, rows: list[int]) -> list[int]:
    """GPU ends, CPU ends, CPU starts, GPU starts at one instant; zero-length rows inside the row that ends there."""
    ends = {(int(events.lane[row]), int(events.end[row])) for row in rows if events.end[row] > events.start[row]}
    keyed = []
    for row in rows:
        start, end, gpu = int(events.start[row]), int(events.end[row]), int(events.kind[row]) in GPU_KINDS
        if start == end:
            place = 5 if gpu else 1 if (int(events.lane[row]), start) in ends else 4
            keyed += [((start, place, row, 0), 2 * row), ((start, place, row, 1), 2 * row + 1)]
        else:
            keyed += [((start, 6 if gpu else 3, row, 0), 2 * row), ((end, 0 if gpu else 2, -row, 0), 2 * row + 1)]
    return [point for _, point in sorted(keyed)]


@for_all(GRAPHS, examples=200)
def test_the_order_of_points_is_that_of_the_words(graph: DependencyGraph) -> None:
    """Ends, then starts, outer before inner; zero-length rows on a boundary lie inside the row that ends there."""
    events = graph.trace.events
    rows = np.flatnonzero(np.isin(events.kind, WALKABLE)).tolist()
    assert graph.timeline.order.tolist() == order_by_words(events, rows)
    position = graph.timeline.position
    assert position[graph.timeline.order].tolist() == list(range(len(graph.timeline.order)))


@for_all(GRAPHS, examples=100)
def test_thread_order_joins_neighbours_in_the_order_of_the_words(graph: DependencyGraph) -> None:
    """Each CPU point follows the one before it on its thread, and nothing else does."""
    events = graph.trace.events
    by_lane: dict[int, list[int]] = defaultdict(list)
    for point in order_by_words(events, np.flatnonzero(np.isin(events.kind, CPU_KINDS)).tolist()):
        by_lane[int(events.lane[point >> 1])].append(point)
    edges = graph.edge_table.take(graph.edge_table.kind == EdgeKind.THREAD_ORDER)
    expected = {pair for points in by_lane.values() for pair in pairwise(points)}
    assert set(zip(edges.source.tolist(), edges.target.tolist(), strict=True)) == expected


# --- streams ----------------------------------------------------------------------------------------------------------


@for_all(GRAPHS, examples=150)
def test_stream_order_is_that_of_a_loop_over_each_stream(graph: DependencyGraph) -> None:
    """End → start; start → start of neighbours where they overlap; then from the latest end so far."""
    events, place = graph.trace.events, graph.timeline.position
    expected = set()
    for stream in np.unique(events.lane[graph.trace.is_gpu]).tolist():
        rows = [row for row in np.flatnonzero(graph.trace.is_gpu).tolist() if events.lane[row] == stream]
        rows.sort(key=lambda row: int(place[2 * row]))
        for at, row in enumerate(rows[1:], 1):
            last = max(rows[:at], key=lambda each: (int(events.end[each]), -rows.index(each)))
            overlaps = events.end[last] > events.start[row]
            expected.add((2 * rows[at - 1] if overlaps else 2 * last + 1, 2 * row))
    every = hg.build_graph(graph.trace, [rule for rule in hg.DEFAULT_RULES if rule.__name__ == "stream_order"])
    found = set(zip(every.edge_table.source.tolist(), every.edge_table.target.tolist(), strict=True))
    assert found == expected


@for_all(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30).map(lambda rows: sorted(rows, key=min)),
    examples=150,
)
def test_the_row_with_the_latest_end_is_a_running_maximum(rows: list[tuple[int, int]]) -> None:
    """Per stream, up to each row; of equal ends the first row."""
    rows = sorted(rows, key=lambda row: row[0])
    lane, end = np.array([r[0] for r in rows], np.int32), np.array([r[1] for r in rows], np.int64)
    naive = [
        max((other for other in range(at + 1) if lane[other] == lane[at]), key=lambda other: (end[other], -other))
        for at in range(len(rows))
    ]
    assert rows_with_latest_end(end, lane).tolist() == naive


# --- cycles -----------------------------------------------------------------------------------------------------------


@for_all(GRAPHS, st.data(), examples=150)
def test_dropping_what_closes_cycles_leaves_none_and_no_order_of_a_thread_is_lost(
    graph: DependencyGraph, data: st.DataObject
) -> None:
    """Random edges among points, also backward ones: what remains has no cycle, and acyclic graphs lose nothing."""
    points = graph.timeline.order.tolist()
    assume(len(points) > 3)
    drawn = data.draw(st.lists(st.tuples(*[st.sampled_from(points)] * 2), max_size=5))
    extra = EdgeTable.of_kind(EdgeKind.EVENT_WAIT, np.array([s for s, _ in drawn]), np.array([t for _, t in drawn]))
    edges = EdgeTable.join([graph.edge_table, extra])
    dropped = edges_that_close_cycles(edges, graph.timeline)
    assert bool(len(dropped)) == (not networkx.is_directed_acyclic_graph(as_networkx(edges)))
    kept = edges.take(np.setdiff1d(np.arange(len(edges)), dropped))
    assert networkx.is_directed_acyclic_graph(as_networkx(kept))
    assert not np.isin(edges.kind[dropped], (EdgeKind.THREAD_ORDER, EdgeKind.EXECUTION)).any()


def test_waits_that_close_a_cycle_through_a_clock_fault_are_dropped(tmp_path: Path) -> None:
    """B before C before A by waits, A before B by its stamp on their stream: one of the waits must give way."""
    t = TraceBuilder()
    t.launch("B", (1, 2), (20, 25), 1)
    wait(t, 3, (7, 20))
    t.launch("C", (7, 8), (26, 30), 4, stream=20)
    wait(t, 9, (20, 7))
    t.launch("A", (13, 14), (16, 17), 7)
    graph = t.graph(tmp_path)
    assert graph.diagnostics["edges_dropped_cycle"] == 1
    assert networkx.is_directed_acyclic_graph(graph.to_networkx())
    assert len(edges(graph, "event_wait")) == 1
    assert len(edges(graph, "stream_order", "launch")) == 4


def wait(t: TraceBuilder, at: int, streams: tuple[int, int]) -> None:
    """Record an event on one stream and let another wait for it."""
    t.call("cudaEventRecord", at, at + 1, 10 * at)
    t.call("cudaStreamWaitEvent", at + 2, at + 3, 10 * at + 1)
    t.sync_row("Stream Wait Event", at + 2, at + 3, 10 * at + 1, stream=streams[1], wait_on_stream=streams[0],
               record=10 * at)  # fmt: skip


def as_networkx(edges: EdgeTable) -> networkx.DiGraph:
    return networkx.DiGraph(list(zip(edges.source.tolist(), edges.target.tolist(), strict=True)))


# --- the simulator as an oracle of whole rules ------------------------------------------------------------------------

AT_LEAST = {
    **dict.fromkeys(
        ("thread_order", "execution", "launch", "stream_order", "forward_backward", "blocking_copy", "thread_handoff",
         "stream_sync", "device_sync", "event_sync"), (0.98, 0.98)
    ),
    "event_wait": (0.8, 0.9), "graph_order": (0.95, 0.6), "runtime_lock": (0.3, 0.9),
}  # fmt: skip
"""Recall and precision of exact edges on twelve programs, without rows of synchronisation."""


@pytest.mark.parametrize("sync_rows", ["resolved", "none"])
@pytest.mark.slow
def test_each_rule_finds_what_really_happened(sync_rows: Any) -> None:
    """What the PyTorch idiom did is found, and what is found was so, kind by kind; the deep proof is elsewhere."""
    truth, met, found, right = (Counter[str]() for _ in range(4))
    for seed in range(12):
        written = write(simulate(random_program(seed, "pytorch", 500)), Dialect(sync_rows=sync_rows))
        true, shown = true_edges(written, hidden=True), true_edges(written, hidden=False)
        edges = graph_edges(graph_of(to_bytes(written.document)))
        for counter, chosen in ((truth, shown), (met, shown & edges), (found, edges), (right, true & edges)):
            counter.update(edge[0] for edge in chosen)
    for kind, (recall, precision) in AT_LEAST.items():
        assert met[kind] >= max(1, recall * truth[kind]), f"{kind}: {met[kind]} of {truth[kind]} found"
        assert right[kind] >= precision * found[kind], f"{kind}: {right[kind]} of {found[kind]} right"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_nested_calls_with_one_correlation_the_outermost_launches(tmp_path: Path, order: tuple[int, int]) -> None:
    """A runtime call and the driver call inside it share a correlation: the launch begins with the outer one."""
    t = TraceBuilder()
    calls = {name: t.call(name, *span, 5) for name, span in (
        (("cudaLaunchKernel", (0, 10)), ("cuLaunchKernel", (2, 4)))[at] for at in order)}  # fmt: skip
    kernel = t.kernel("gemm", 12, 20, 5)
    assert edges(t.graph(tmp_path), "launch") == {("launch", calls["cudaLaunchKernel"], "start", kernel, "start")}


COPIES = {
    ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync"): True,
    ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpy"): True,
    ("Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync"): False,
    ("Memcpy DtoH (Device -> Pinned)", "cudaMemcpy"): True,
    ("Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync"): False,
    ("Memcpy HtoD (Pinned -> Device)", "cudaMemcpy"): True,
    ("Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync"): False,
    ("Memcpy DtoD (Device -> Device)", "cudaMemcpyAsync"): False,
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("returned", [180, 240, 260])
@pytest.mark.parametrize(("copy", "call"), COPIES)
def test_copies_block_by_direction_host_kind_and_timing(tmp_path: Path, copy: str, call: str, returned: float) -> None:
    """A copy that may block holds its call exactly where the call returned no earlier than the copy ended."""
    t = TraceBuilder()
    calling = t.call(call, 0, returned, 5)
    copied = t.copy(copy, 10, 240, 5)
    # A launch without latency: clocks cannot be moved.
    t.launch("at once", (300, 301), (300, 310), 6)
    expected = {("blocking_copy", copied, "end", calling, "end")} if COPIES[copy, call] and returned >= 240 else set()
    assert edges(t.graph(tmp_path), "blocking_copy") == expected


@pytest.mark.parametrize("count", [1_500, 3_000])
@pytest.mark.slow
def test_a_full_queue_holds_launches_back(count: int) -> None:
    """A launch that waits for a slot returns when the stream goes on: found for most such launches, never falsely."""
    launches = tuple(Launch(Stream(7), 20_000, call_ns=1_000) for _ in range(count))
    written = write(simulate(Program.of(*launches)), Dialect())
    both = true_edges(written, hidden=False), graph_edges(graph_of(to_bytes(written.document)))
    true, found = ({edge for edge in each if edge[0] == "queue_full"} for each in both)
    assert len(true) > 400
    assert len(true & found) >= 0.9 * max(len(true), len(found))


# --- order and numbers ------------------------------------------------------------------------------------------------

SORT_KEYS = ("external_id", "name", "lane", "sequence")


def by_content(row: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Start; of CPU rows the longer first, of GPU rows the one launched first; kind, ids, name, lane, place."""
    start, length, kind, correlation, *others = row
    if kind in GPU_KINDS:
        return (start, correlation, kind, length, *others, at)
    return (start, -length, kind, correlation, *others, at)


@for_all(st.lists(st.tuples(*[st.integers(0, 2)] * (len(SORT_KEYS) + 4)), max_size=40), examples=150)
def test_canonical_order_is_a_sort_by_content(rows: list[tuple[int, ...]]) -> None:
    """The place in the file is the last key of all."""
    names = ("start", "length", "kind", "correlation", *SORT_KEYS)
    columns = {key: np.array([row[at] for row in rows], np.int64) for at, key in enumerate(names)}
    columns["end"] = columns["start"] + columns.pop("length")
    columns["index"] = np.arange(len(rows))
    expected = sorted(range(len(rows)), key=lambda at: by_content(rows[at], at))
    assert canonical_order(columns).tolist() == expected


@for_all(st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), max_size=30), examples=150)
def test_refined_order_is_a_stable_sort(rows: list[list[int]]) -> None:
    """Sorting by one key after the other, among ties only, is sorting by all of them at once."""
    keys = [np.array([row[at] for row in rows], np.int64) for at in range(4)]
    assert refined_order(keys).tolist() == sorted(range(len(rows)), key=lambda at: rows[at])


def exact_ns(text: str) -> int:
    """Return printed microseconds in nanoseconds, half to even, by decimal arithmetic."""
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


def printed_microseconds(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


@for_all(st.lists(st.integers(-(8 * 10**15), 8 * 10**15), min_size=1), examples=150)
def test_floats_keep_three_decimals(times: list[int]) -> None:
    """Every nanosecond below 2^43 µs survives a float."""
    assert nanoseconds([float(printed_microseconds(ns)) for ns in times]).tolist() == times


@for_all(st.lists(st.integers(-(10**15), 2 * 10**15), min_size=1), examples=150)
def test_integers_are_whole_microseconds(times: list[int]) -> None:
    """Integers of any size that fits are exact."""
    assert nanoseconds(times).tolist() == [1000 * us for us in times]


@for_all(st.lists(st.decimals(-(10**15), 10**15, places=5), min_size=1), st.booleans(), examples=150)
def test_texts_and_decimals_are_exact(times: list[Decimal], as_text: bool) -> None:
    """Epoch microseconds with a fraction keep it, as text and as decimals; half a nanosecond goes to the even one."""
    values = [format(value, "f") for value in times] if as_text else times
    assert nanoseconds(values).tolist() == [exact_ns(format(value, "f")) for value in times]


ODD = st.sampled_from((None, True, [], {}, "x", "", float("nan"), float("inf"), 2**80, 1e300, "1e999", Decimal("NaN")))


@for_all(st.lists(st.tuples(st.booleans(), ODD, st.integers(-(10**12), 10**12)), min_size=1), examples=150)
def test_what_is_no_time_is_invalid_and_spoils_nothing(rows: list[tuple[bool, Any, int]]) -> None:
    """Odd values are marked one by one; their neighbours are read as if they were alone."""
    values = [odd if is_odd else us for is_odd, odd, us in rows]
    assert nanoseconds(values).tolist() == [INVALID if is_odd else 1000 * us for is_odd, _, us in rows]


@pytest.mark.parametrize("text", ["1e1000000", "-1e1000000", "9e999999999", "1e-999999999", "Infinity", "sNaN"])
def test_a_number_of_any_exponent_is_a_time_or_none(text: str) -> None:
    """No text that decimal arithmetic can hold breaks the reading, however large or small (found by fuzzing)."""
    expected = 0 if "e-" in text else INVALID
    assert nanoseconds([text]).tolist() == [expected]


def test_larger_programs_walk_like_brute_force() -> None:
    """The same oracle on one program of some hundred events, where lists are long."""
    graph = graph_of(to_bytes(write(simulate(random_program(2, "arbitrary", 600)), Dialect()).document))
    binding = binding_edges(graph)
    for point in range(0, 2 * len(graph.trace.events), 7):
        assert same_edge(graph.edge_table, int(binding[point]), last_finishing(graph, point))
