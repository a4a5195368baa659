"""Recorded edges inside CUDA graphs: they win over streams and over what is inferred; host nodes are host time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EventKind, GapCause
from hta_graph.paths.gpu_activity import activities
from hta_graph.paths.idle_gap_causes import GapExplainer, Gaps
from tests.support.cuspy_rows import NodeBuilder, forked_graph
from tests.support.shared_traces import SHARED

MADE = SHARED / "formats" / "cuspy_json"


def named_edges(graph: DependencyGraph, *kinds: str, evidence: str | None = None) -> list[tuple[str, str]]:
    frame = graph.edges
    frame = frame[frame.kind.isin(kinds)]
    if evidence:
        frame = frame[frame.evidence == evidence]
    name = dict(zip(graph.events.event_index, graph.events.name, strict=True))
    return sorted(zip(frame.source_index.map(name), frame.target_index.map(name), strict=True))


def path_of(graph: DependencyGraph) -> pd.DataFrame:
    return hg.critical_path(graph, hg.whole()).segments[["start_ns", "end_ns", "name", "lane", "bound_by"]]


@pytest.mark.parametrize("lanes", [False, True])
def test_arrows_are_edges_and_streams_say_nothing_between_nodes(tmp_path: Path, lanes: bool) -> None:
    graph = forked_graph(lanes=lanes, replays=1).graph(tmp_path)
    assert named_edges(graph, "graph_order", evidence="recorded") == [("A", "C"), ("B", "D"), ("C", "D")]
    assert named_edges(graph, "stream_order") == []
    own = path_of(graph)
    assert own[own.bound_by == "gpu_compute_bound"].name.tolist() == ["B", "D"]
    assert not (own.bound_by == "unexplained").any()


def test_lanes_do_not_change_a_path(tmp_path: Path) -> None:
    for arrows in (False, True):
        shown, lanes = (path_of(forked_graph(lanes=lanes, arrows=arrows).graph(tmp_path)) for lanes in (False, True))
        pd.testing.assert_frame_equal(shown, lanes)


def test_roots_wait_for_earlier_work_and_later_work_for_every_last_node(tmp_path: Path) -> None:
    trace = NodeBuilder()
    trace.launch("before", (0, 5), (10, 100), 1)
    trace.call("cudaGraphLaunch", 10, 20, 2)
    first = trace.node("root", 101, 110, 2)
    trace.node("other root", 112, 130, 2)
    trace.node("last", 112, 140, 2, [first], stream=20)
    trace.launch("after", (30, 35), (141, 150), 3)
    graph = trace.graph(tmp_path)
    found = named_edges(graph, "graph_order", "stream_order")
    assert found == [
        ("before", "other root"), ("before", "root"), ("last", "after"), ("other root", "after"), ("root", "last"),
    ]  # fmt: skip


def test_what_is_inferred_for_a_node_with_an_arrow_is_left_out(tmp_path: Path) -> None:
    def rule(context: RuleContext) -> EdgeTable:
        events = context.trace.events
        rows = {context.trace.name_of(at): at for at in range(len(events))}
        return context.custom_edges("guess", np.array([rows["A"], rows["A"]]), np.array([rows["D"], rows["B"]]))

    path = forked_graph(replays=1).write(tmp_path / "trace.json")
    graph = hg.build_graph(hg.read_trace(path), [*hg.DEFAULT_RULES, rule])
    assert named_edges(graph, "custom_gpu_to_gpu") == [("A", "B")]


def test_an_arrow_back_in_time_is_a_clock_fault_and_counted(tmp_path: Path) -> None:
    trace = NodeBuilder()
    trace.call("cudaGraphLaunch", 0, 5, 1)
    late = trace.node("late", 10, 30, 1, stream=20)
    trace.node("early", 25, 40, 1, [late])
    later = trace.node("far later", 50, 3_000, 1, stream=21)
    trace.node("far too early", 60, 3_100, 1, [later])
    graph = trace.graph(tmp_path)
    kept = graph.edges[graph.edges.clamped & (graph.edges.kind == "graph_order")]
    assert kept.lag_ns.tolist() == [0]
    counts = graph.diagnostics
    assert (counts["graph_arrows_backward"], counts["edges_dropped_back_in_time"]) == (2, 1)


@pytest.mark.parametrize("arrows", [False, True])
def test_a_host_node_is_host_time_for_which_kernels_wait(tmp_path: Path, arrows: bool) -> None:
    trace = NodeBuilder(arrows=arrows)
    trace.call("cudaGraphLaunch", 0, 20, 1)
    first = trace.node("A", 30, 130, 1)
    callback = trace.node("HostNode: my_callback", 131, 431, 1, [first], cat="graph_host_node")
    trace.node("D", 432, 482, 1, [callback])
    trace.call("cudaDeviceSynchronize", 60, 485, 2)
    graph = trace.graph(tmp_path)
    own = path_of(graph).set_index("name")
    assert own.bound_by["HostNode: my_callback"].tolist() == ["gpu_kernel_kernel_overhead", "cpu_bound"]
    work = activities(graph)
    assert [graph.name_of(at) for at in work.row.tolist()] == ["A", "D"]
    gap = Gaps(*(work.end[:1], work.start[1:], work.row[1:]))
    causes = GapExplainer(graph).explain(gap)
    longest = int(causes.length.argmax())
    assert causes.cause[longest] == GapCause.OTHER_THREAD
    assert graph.name_of(int(causes.event[longest])) == "HostNode: my_callback"


def test_an_event_node_passes_on_what_it_waited_for(tmp_path: Path) -> None:
    trace = NodeBuilder()
    trace.call("cudaGraphLaunch", 0, 20, 1)
    first = trace.node("A", 30, 130, 1)
    mark = trace.node("EventRecord", 130, 130, 1, [first], cat="graph_event_node")
    trace.node("B", 131, 200, 1, [mark], stream=20)
    graph = trace.graph(tmp_path)
    assert EventKind.GRAPH_EVENT_NODE in graph.event_table.kind
    assert named_edges(graph, "graph_order", evidence="recorded") == [("A", "EventRecord"), ("EventRecord", "B")]
    own = path_of(graph)
    assert own[own.bound_by == "gpu_compute_bound"].name.tolist() == ["A", "B"]


@pytest.mark.shared
@pytest.mark.parametrize("arrows", ["", "_arrows"])
def test_made_files_have_one_path_with_lanes_and_without(arrows: str) -> None:
    shown = hg.build_graph(MADE / f"g{arrows or '_'}.json")
    lanes = hg.build_graph(MADE / f"g_lanes{arrows}.json")
    pd.testing.assert_frame_equal(path_of(shown), path_of(lanes))
    assert lanes.diagnostics["graph_arrows"] == (12 if arrows else 0)


def test_launches_of_many_loose_nodes_have_few_edges(tmp_path: Path) -> None:
    """Each pair of a first and a last node would be an edge: a million for each launch."""
    trace, at, longest = NodeBuilder(), 100.0, ""
    for number in range(1, 4):
        trace.call("cudaGraphLaunch", 10.0 * number, 10.0 * number + 8, number)
        nodes = [
            trace.node(f"n{number}.{place}", at, at + 1 + place % 97 / 97, number, stream=7 + place)
            for place in range(1_000)
        ]
        trace.node(longest := f"last {number}", at + 2.5, at + 4, number, [nodes[96]])
        at += 5
    graph = trace.graph(tmp_path)
    around = named_edges(graph, "graph_order", evidence="inferred")
    assert len(around) < 2 * 5_200
    # Nothing is left without an edge: the last to end holds all back, and all others end before the first one starts.
    assert {source for source, _ in around} >= {"last 1", "last 2", "n1.0", "n2.998"}
    assert {target for _, target in around} >= {"n2.0", "n3.999"}
    assert longest in path_of(graph).name.tolist()
    assert not (path_of(graph).bound_by == "unexplained").any()
