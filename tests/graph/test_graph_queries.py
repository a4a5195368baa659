"""Questions to a graph: DataFrames, neighbours, reachability, paths, filters, other libraries; all read-only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.model import EventKind
from tests.support.deep_tests import for_all
from tests.support.trace_builder import TraceBuilder, edges

pytestmark = pytest.mark.sampled(2)

EVENT_COLUMNS = [
    "event_index", "kind", "name", "lane", "start_ns", "end_ns", "duration_ns", "correlation", "external_id",
]  # fmt: skip
EDGE_COLUMNS = [
    "kind", "evidence", "rule", "clamped", "source_index", "source_point", "target_index", "target_point", "lag_ns",
]  # fmt: skip
OUTER, CALL, KERNEL, CALL_2, KERNEL_2, NOTE, OTHER = range(7)


def sample() -> TraceBuilder:
    """One operator with two launches onto one stream, an annotation over it, an operator on another thread."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50, **{"External id": 12})
    trace.launch("gemm", (5, 10), (20, 60), 1)
    trace.launch("relu", (15, 25), (60, 80), 2)
    trace.annotation("forward", 0, 55)
    trace.op("aten::other", 0, 5, tid=2)
    return trace


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    return sample().graph(tmp_path)


def indices(frame: pd.DataFrame) -> set[int]:
    return set(frame["event_index"].tolist())


# -- DataFrames -------------------------------------------------------------------------------------------------------


def test_events_have_documented_columns_and_types(graph: hg.DependencyGraph) -> None:
    assert list(graph.events.columns) == EVENT_COLUMNS
    assert {name: graph.events[name].dtype.kind for name in EVENT_COLUMNS if name.endswith("_ns")} == {
        "start_ns": "i", "end_ns": "i", "duration_ns": "i",
    }  # fmt: skip
    assert all(graph.events[name].dtype.kind == "i" for name in ("event_index", "correlation", "external_id"))
    assert all(graph.events[name].to_numpy().dtype.itemsize == 8 for name in ("start_ns", "end_ns", "correlation"))
    assert all(pd.api.types.is_string_dtype(graph.events[name]) for name in ("kind", "name", "lane"))


def test_edges_have_documented_columns_and_types(graph: hg.DependencyGraph) -> None:
    assert list(graph.edges.columns) == EDGE_COLUMNS
    assert (graph.edges["clamped"].dtype.kind, graph.edges["lag_ns"].dtype.kind) == ("b", "i")
    assert set(graph.edges["source_point"]) | set(graph.edges["target_point"]) == {"start", "end"}
    assert set(graph.edges["evidence"]) <= {"recorded", "inferred"}


def test_columns_exist_even_when_empty(tmp_path: Path) -> None:
    graph = TraceBuilder().graph(tmp_path)
    assert (len(graph.events), list(graph.events.columns)) == (0, EVENT_COLUMNS)
    assert (len(graph.edges), list(graph.edges.columns)) == (0, EDGE_COLUMNS)
    assert (len(graph.to_networkx()), graph.to_rustworkx().num_nodes()) == (0, 0)


def test_events_are_in_order_of_time_with_their_ids(graph: hg.DependencyGraph) -> None:
    row = graph.events.set_index("event_index").loc[OUTER]
    assert (row["kind"], row["name"], row["lane"], row["duration_ns"]) == ("cpu_op", "aten::mm", "thread 100:1", 50_000)
    assert (row["external_id"], row["correlation"]) == (12, -1)
    assert graph.events["start_ns"].is_monotonic_increasing
    assert len(graph.events) == 7


def test_one_event_is_found_by_its_index(graph: hg.DependencyGraph) -> None:
    event = graph.event(KERNEL_2)
    assert (event["event_index"], event["name"], event["start_ns"], event["end_ns"]) == (
        KERNEL_2,
        "relu",
        60_000,
        80_000,
    )
    assert event.name == "relu"


def test_edge_counts_add_up(graph: hg.DependencyGraph) -> None:
    counts = graph.edge_counts()
    assert counts["launch"] == {"recorded": 2, "inferred": 0}
    assert counts["stream_order"] == {"recorded": 1, "inferred": 0}
    assert sum(sum(item.values()) for item in counts.values()) == len(graph.edges)


# -- neighbours and reachability --------------------------------------------------------------------------------------


def test_predecessors_are_the_edges_from_other_events(graph: hg.DependencyGraph) -> None:
    found = graph.predecessors(KERNEL_2)
    assert list(found.columns) == EDGE_COLUMNS
    assert {(row.kind, row.source_index, row.lag_ns) for row in found.itertuples()} == {
        ("launch", CALL_2, 45_000), ("stream_order", KERNEL, 0),
    }  # fmt: skip


def test_successors_can_be_asked_by_kind(graph: hg.DependencyGraph) -> None:
    assert graph.successors(CALL)["kind"].tolist().count("launch") == 1
    assert graph.successors(CALL, ["launch"])["target_index"].tolist() == [KERNEL]
    assert graph.predecessors(KERNEL_2, kinds=["launch"])["source_index"].tolist() == [CALL_2]
    assert list(graph.successors(KERNEL_2).columns) == EDGE_COLUMNS
    assert len(graph.successors(KERNEL_2)) == 0


def test_ancestors_are_what_an_end_needs(graph: hg.DependencyGraph) -> None:
    assert indices(graph.ancestors(KERNEL)) == {OUTER, CALL}
    assert indices(graph.ancestors(KERNEL_2)) == {OUTER, CALL, CALL_2, KERNEL}
    assert indices(graph.ancestors(OTHER)) == set()
    assert list(graph.ancestors(OTHER).columns) == EVENT_COLUMNS


def test_descendants_are_what_could_not_have_been_before_a_start(graph: hg.DependencyGraph) -> None:
    assert indices(graph.descendants(KERNEL)) == {KERNEL_2}
    assert indices(graph.descendants(CALL_2)) == {KERNEL_2, OUTER}
    assert indices(graph.descendants(OUTER)) == {CALL, KERNEL, CALL_2, KERNEL_2}


def test_what_is_only_looked_up_has_no_neighbours(graph: hg.DependencyGraph) -> None:
    for question in (graph.predecessors, graph.successors, graph.ancestors, graph.descendants):
        assert len(question(NOTE)) == 0
    for source, target in ((NOTE, KERNEL), (NOTE, NOTE)):
        with pytest.raises(QueryError, match=f"no path touches event {NOTE}: its kind is annotation"):
            graph.path_between(source, target)


def test_a_path_is_a_chain_of_edges(graph: hg.DependencyGraph) -> None:
    path = graph.path_between(KERNEL, KERNEL_2)
    assert list(path.columns) == EDGE_COLUMNS
    assert path["kind"].tolist() == ["execution", "stream_order", "execution"]
    assert path["target_index"].tolist() == [KERNEL, KERNEL_2, KERNEL_2]
    assert graph.path_between(CALL, KERNEL)["kind"].tolist() == ["launch", "execution"]
    assert graph.path_between(KERNEL, KERNEL)["kind"].tolist() == ["execution"]
    with pytest.raises(QueryError, match=f"event {KERNEL_2} depends on event {KERNEL}; swap them"):
        graph.path_between(KERNEL_2, KERNEL)
    with pytest.raises(QueryError, match="neither depends on the other"):
        graph.path_between(OTHER, KERNEL)
    assert len(graph.path_edges_between(KERNEL_2, KERNEL)) == 0


def test_kinds_are_given_by_name_or_as_members(graph: hg.DependencyGraph) -> None:
    assert indices(graph.events_of("kernel")) == indices(graph.events_of(hg.EventKind.KERNEL)) == {KERNEL, KERNEL_2}
    assert indices(graph.events_of("kernel", EventKind.RUNTIME)) == {CALL, KERNEL, CALL_2, KERNEL_2}
    assert indices(graph.events_of(np.array([0]))) == {int(graph.event_table.index[0])}
    assert graph.edges_of("launch").row.tolist() == graph.edges_of(hg.EdgeKind.LAUNCH).row.tolist()
    assert len(graph.edges_of("launch", "execution")) == 4
    assert indices(graph.filter(kind=[hg.EventKind.KERNEL]).events) == {KERNEL, KERNEL_2}
    assert repr(graph.edges_of("launch")) == "<EventEdges: 2 edges (2 launch)>"
    assert repr(graph.edges_of("queue_full")) == "<EventEdges: 0 edges>"


def test_a_neighbourhood_grows_by_one_edge_per_depth(graph: hg.DependencyGraph) -> None:
    sizes = [indices(graph.neighbourhood(KERNEL_2, depth).events) for depth in (0, 1, 2, 9)]
    assert sizes == [
        {KERNEL_2}, {KERNEL_2, KERNEL, CALL_2}, {KERNEL_2, KERNEL, CALL_2, CALL, OUTER},
        {KERNEL_2, KERNEL, CALL_2, CALL, OUTER},
    ]  # fmt: skip
    assert indices(graph.neighbourhood(KERNEL_2).events) == sizes[1]


# -- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({}, {OUTER, CALL, KERNEL, CALL_2, KERNEL_2, NOTE, OTHER}),
        ({"kind": "kernel"}, {KERNEL, KERNEL_2}),
        ({"kind": ["kernel", "runtime"]}, {CALL, KERNEL, CALL_2, KERNEL_2}),
        ({"kind": []}, set()),
        ({"name": "aten"}, {OUTER, OTHER}),
        ({"name": "^mm"}, set()),
        ({"name": "g.mm$"}, {KERNEL}),
        ({"lane": "thread 100:2"}, {OTHER}),
        ({"lane": ["thread 100:2", "stream 0:1:7"]}, {OTHER, KERNEL, KERNEL_2}),
        ({"start_ns": 60_000}, {KERNEL, KERNEL_2}),
        ({"start_ns": 60_001}, {KERNEL_2}),
        ({"end_ns": 4_999}, {OUTER, NOTE, OTHER}),
        ({"end_ns": 5_000}, {OUTER, NOTE, OTHER, CALL}),
        ({"start_ns": 56_000, "end_ns": 59_000}, {KERNEL}),
        ({"kind": "cpu_op", "lane": "thread 100:1", "name": "mm"}, {OUTER}),
        ({"kind": "memset"}, set()),
        ({"start_ns": 10**9}, set()),
    ],
)
def test_a_filter_keeps_the_events_that_match_all_conditions(
    graph: hg.DependencyGraph, conditions: dict[str, Any], kept: set[int]
) -> None:
    found = graph.filter(**conditions)
    assert indices(found.events) == kept
    assert edges(found) == {edge for edge in edges(graph) if {edge[1], edge[3]} <= kept}
    assert edges(graph.subgraph(kept)) == edges(found)


def test_a_subgraph_keeps_the_edges_between_its_events(graph: hg.DependencyGraph) -> None:
    found = graph.subgraph([KERNEL_2, KERNEL, KERNEL])
    assert indices(found.events) == {KERNEL, KERNEL_2}
    assert edges(found) == {
        ("execution", KERNEL, "start", KERNEL, "end"), ("execution", KERNEL_2, "start", KERNEL_2, "end"),
        ("stream_order", KERNEL, "end", KERNEL_2, "start"),
    }  # fmt: skip
    assert found.event(KERNEL)["name"] == "gemm"
    assert found.predecessors(KERNEL_2)["source_index"].tolist() == [KERNEL]


def test_a_subgraph_of_nothing_is_empty(graph: hg.DependencyGraph) -> None:
    found = graph.subgraph([])
    assert (len(found.events), list(found.events.columns), len(found.edges)) == (0, EVENT_COLUMNS, 0)


def test_a_subgraph_of_numpy_numbers(graph: hg.DependencyGraph) -> None:
    kernels = graph.events.query("kind == 'kernel'")["event_index"]
    assert indices(graph.subgraph(kernels).events) == {KERNEL, KERNEL_2}
    assert indices(graph.subgraph(kernels.to_numpy()).events) == {KERNEL, KERNEL_2}


def test_a_filtered_graph_answers_critical_paths(graph: hg.DependencyGraph) -> None:
    path = hg.critical_path(graph.filter(kind=["kernel"]), hg.whole())
    assert path.by_bound_ns["gpu_compute_bound"] == 60_000


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda g: g.event(99), "there is no event 99"),
        (lambda g: g.event(-1), "there is no event -1"),
        (lambda g: g.predecessors(99), "there is no event 99"),
        (lambda g: g.successors(99), "there is no event 99"),
        (lambda g: g.ancestors(99), "there is no event 99"),
        (lambda g: g.descendants(99), "there is no event 99"),
        (lambda g: g.path_between(0, 99), "there is no event 99"),
        (lambda g: g.neighbourhood(99), "there is no event 99"),
        (lambda g: g.subgraph([0, 99]), "there is no event 99"),
        (lambda g: g.subgraph([0]).event(1), "there is no event 1"),
        (lambda g: g.event(2**70), "there is no event"),
        (
            lambda g: g.filter(kind="kernels"),
            "no event kind 'kernels'; did you mean kernel[?] Available: cpu_op",
        ),
        (
            lambda g: g.filter(lane="stream 9"),
            "no lane 'stream 9'; did you mean stream 0:1:7[?] Available: thread 100:1, thread 100:2, stream 0:1:7",
        ),
        (lambda g: g.filter(name="("), r"'\(' is not a regular expression"),
        (
            lambda g: g.successors(0, ["launches"]),
            "no edge kind 'launches'; did you mean launch[?] Available: ",
        ),
        (lambda g: g.edges_of("event_wiat"), "no edge kind 'event_wiat'; did you mean event_wait[?] Available: "),
        (lambda g: g.edges_of(5), "no edge kind 5; available: thread_order"),
        (lambda g: g.events_of("kernels"), "no event kind 'kernels'; did you mean kernel[?] Available: "),
        (lambda g: g.events_of(5), "no event kind 5; available: cpu_op"),
        (lambda g: hg.critical_path(g, hg.step(3)), "there is no step 3"),
        (lambda g: hg.critical_path(g, data_load=["["]), "not a regular expression"),
    ],
)
def test_a_question_that_has_no_answer_says_why(
    graph: hg.DependencyGraph, question: Callable[[hg.DependencyGraph], Any], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        question(graph)


def test_one_edge_kind_may_be_given_as_text(graph: hg.DependencyGraph) -> None:
    assert graph.successors(CALL, "launch")["target_index"].tolist() == [KERNEL]


# -- other libraries ---------------------------------------------------------------------------------------------------


def test_networkx_nodes_and_edges_carry_the_columns(graph: hg.DependencyGraph) -> None:
    found = graph.to_networkx()
    assert found.nodes[KERNEL, "end"] == {
        "time_ns": 60_000, "event_index": KERNEL, "kind": "kernel", "name": "gemm", "lane": "stream 0:1:7",
        "start_ns": 20_000, "end_ns": 60_000,
    }  # fmt: skip
    assert found.edges[(CALL, "start"), (KERNEL, "start"), "launch"] == {
        "kind": "launch", "evidence": "recorded", "clamped": False, "lag_ns": 15_000,
    }  # fmt: skip
    assert (NOTE, "start") not in found
    assert found.number_of_nodes() == 12
    assert found.number_of_edges() == len(graph.edges)


def test_rustworkx_payloads_are_points_and_edge_rows(graph: hg.DependencyGraph) -> None:
    found = graph.to_rustworkx()
    assert (found.num_nodes(), found.num_edges()) == (12, len(graph.edges))
    events = graph.events
    for source, target, row in found.weighted_edge_list():
        edge = graph.edges.iloc[row]
        for node, side in ((source, "source"), (target, "target")):
            point = found[node]
            assert events.iloc[point // 2]["event_index"] == edge[f"{side}_index"]
            assert ("start", "end")[point % 2] == edge[f"{side}_point"]


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Draw operators on two threads and launches onto two streams, with ties, overlaps and orphans."""
    trace = TraceBuilder()
    small = st.integers(0, 12)
    for number in range(draw(st.integers(1, 9))):
        start, length = draw(small), draw(st.integers(0, 6))
        thread = draw(st.integers(1, 2))
        if draw(st.booleans()):
            trace.op(f"op{number}", start, start + length, tid=thread)
        else:
            begin = start + draw(small)
            trace.call("cudaLaunchKernel", start, start + length, number + 1, tid=thread)
            trace.kernel(f"k{number}", begin, begin + draw(small), number + 1, stream=draw(st.integers(7, 8)))
    return trace


def oracle(graph: hg.DependencyGraph) -> networkx.MultiDiGraph[Any]:
    """Build the same graph from the table of edges alone."""
    found: networkx.MultiDiGraph[Any] = networkx.MultiDiGraph()
    for index in graph.events["event_index"]:
        found.add_nodes_from([(index, "start"), (index, "end")])
    for row in graph.edges.itertuples():
        found.add_edge((row.source_index, row.source_point), (row.target_index, row.target_point))
    return found


@for_all(traces(), examples=60)
def test_reachability_and_paths_agree_with_networkx(
    tmp_path_factory: pytest.TempPathFactory, trace: TraceBuilder
) -> None:
    graph = trace.graph(tmp_path_factory.getbasetemp())
    known = oracle(graph)
    assert networkx.is_directed_acyclic_graph(known)
    for index in range(len(trace.rows)):
        above = {node[0] for node in networkx.ancestors(known, (index, "end"))} - {index}
        below = {node[0] for node in networkx.descendants(known, (index, "start"))} - {index}
        assert indices(graph.ancestors(index)) == above
        assert indices(graph.descendants(index)) == below
        near = {node[0] for point in ("start", "end") for node in networkx.all_neighbors(known, (index, point))}
        assert indices(graph.neighbourhood(index).events) == near | {index}
        check_paths(graph, known, index)


def check_paths(graph: hg.DependencyGraph, known: networkx.MultiDiGraph[Any], source: int) -> None:
    """Compare the paths from one event with the shortest ones that networkx finds."""
    lengths = networkx.single_source_shortest_path_length(known, (source, "start"))
    for target in range(len(graph.events)):
        if (target, "end") not in lengths:
            with pytest.raises(QueryError, match="no path"):
                graph.path_between(source, target)
            continue
        path = graph.path_between(source, target)
        assert len(path) == lengths[target, "end"]
        points = list(zip(path["source_index"], path["source_point"], strict=True))
        points += list(zip(path["target_index"], path["target_point"], strict=True))[-1:]
        assert all(known.has_edge(a, b) for a, b in pairwise(points))
        assert (points[0], points[-1]) == ((source, "start"), (target, "end"))


@for_all(traces(), st.data(), examples=40)
def test_conversions_and_subgraphs_agree_with_the_tables(
    tmp_path_factory: pytest.TempPathFactory, trace: TraceBuilder, data: st.DataObject
) -> None:
    graph = trace.graph(tmp_path_factory.getbasetemp())
    known = sorted(oracle(graph).edges())
    assert sorted(graph.to_networkx().edges()) == known
    rust = graph.to_rustworkx()
    numbers = graph.events["event_index"].tolist()
    named = [(numbers[rust[node] // 2], ("start", "end")[rust[node] % 2]) for node in rust.node_indices()]
    assert sorted((named[a], named[b]) for a, b in rust.edge_list()) == known
    chosen = data.draw(st.sets(st.sampled_from(range(len(trace.rows)))))
    part = graph.filter(name="").subgraph(chosen) if chosen else graph.filter(kind=[])
    assert sorted(oracle(part).edges()) == [edge for edge in known if {edge[0][0], edge[1][0]} <= chosen]
    assert sorted(part.to_networkx().edges()) == sorted(oracle(part).edges())


# -- read-only --------------------------------------------------------------------------------------------------------


def arrays(graph: hg.DependencyGraph) -> dict[str, np.ndarray]:
    """Return every array that a graph shows."""
    parts: dict[str, Any] = {"events": graph.trace.events, "lanes": graph.trace.lanes, "syncs": graph.trace.syncs,
             "flows": graph.trace.flows, "edges": graph.edge_table}  # fmt: skip
    found = {
        f"{name}.{field.name}": getattr(part, field.name) for name, part in parts.items()
        for field in dataclasses.fields(part)
    }  # fmt: skip
    timeline = graph.timeline
    found |= {"times": timeline.times, "order": timeline.order, "position": timeline.position}
    found |= {
        f"calls.{field.name}": getattr(timeline.calls, field.name) for field in dataclasses.fields(timeline.calls)
    }
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("which", ["built", "filtered", "empty", "loaded"])
def test_arrays_of_a_graph_are_not_writeable(graph: hg.DependencyGraph, tmp_path: Path, which: str) -> None:
    if which == "loaded":
        hg.save_graph(graph, tmp_path / "g")
        graph = hg.load_graph(tmp_path / "g")
    elif which != "built":
        graph = graph.filter(kind=["kernel"] if which == "filtered" else [])
    assert [name for name, array in arrays(graph).items() if array.flags.writeable] == []


def test_changing_a_result_changes_no_graph(graph: hg.DependencyGraph) -> None:
    known = edges(graph)
    for frame in (graph.events, graph.edges, graph.predecessors(KERNEL_2), graph.ancestors(KERNEL_2)):
        frame["kind"] = "changed"
        frame.loc[:, "lag_ns" if "lag_ns" in frame else "start_ns"] = -7
    graph.to_networkx().clear()
    graph.to_rustworkx().clear()
    assert indices(graph.events) == set(range(7))
    assert edges(graph) == known
    assert "changed" not in set(graph.events["kind"])
    assert graph.events["start_ns"].min() == 0
    assert graph.edges["lag_ns"].min() == 0


def test_places_on_a_lane_sort_by_lane_and_then_by_time(graph: hg.DependencyGraph) -> None:
    rows = np.flatnonzero(graph.event_table.kind <= EventKind.MEMSET)
    both = np.concatenate([rows, rows])
    at_end = np.repeat([False, True], len(rows))
    order = np.argsort(graph.lane_key(both, at_end))
    lane, time = (
        graph.event_table.lane[both],
        np.where(at_end, graph.event_table.end[both], graph.event_table.start[both]),
    )
    assert order.tolist() == np.lexsort((graph.position(both, at_end), lane)).tolist()
    assert all(np.diff(time[order][lane[order] == each]).min() >= 0 for each in np.unique(lane))


def test_filters_leave_the_graph_as_it_was(graph: hg.DependencyGraph) -> None:
    before = {name: array.copy() for name, array in arrays(graph).items()}
    graph.filter(kind="kernel").filter(name="gemm")
    graph.neighbourhood(KERNEL)
    hg.critical_path(graph)
    assert all(np.array_equal(array, before[name]) for name, array in arrays(graph).items())
