"""Recorded arrows between nodes of CUDA graphs: which rows they mean, on lanes that several streams share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from hta_graph.export.kineto import write_kineto
from hta_graph.trace.table import Trace
from tests.support.cuspy_rows import NodeBuilder, forked_graph
from tests.support.trace_builder import TraceBuilder, edges


def named_arrows(trace: Trace) -> list[tuple[str, str]]:
    nodes = trace.node_order
    return sorted(
        (trace.name_of(a), trace.name_of(b)) for a, b in zip(nodes.source.tolist(), nodes.target.tolist(), strict=True)
    )


def read(trace: TraceBuilder, tmp_path: Path) -> Trace:
    return hg.read_trace(trace.write(tmp_path / "trace.json"))


@pytest.mark.parametrize("lanes", [False, True])
def test_every_arrow_joins_two_nodes_of_its_launch(tmp_path: Path, lanes: bool) -> None:
    trace = read(forked_graph(lanes=lanes), tmp_path)
    assert named_arrows(trace) == 3 * [("A", "C")] + 3 * [("B", "D")] + 3 * [("C", "D")]
    number = trace.events.correlation
    assert number[trace.node_order.source].tolist() == number[trace.node_order.target].tolist()
    assert (trace.diagnostics["graph_arrows"], trace.diagnostics["graph_arrows_unresolved"]) == (9, 0)


def test_nodes_stand_on_the_stream_that_they_ran_on(tmp_path: Path) -> None:
    shown, lanes = (read(forked_graph(lanes=lanes), tmp_path) for lanes in (False, True))
    assert lanes.lanes.labels == shown.lanes.labels
    assert lanes.events.lane.tolist() == shown.events.lane.tolist()


def test_nodes_that_end_together_on_one_lane_are_told_apart_by_their_launch(tmp_path: Path) -> None:
    trace = NodeBuilder(lanes=True)
    first = [trace.node(name, 10, 20, number, stream=20 + number) for number, name in ((1, "one"), (2, "two"))]
    trace.node("after two", 25, 30, 2, [first[1]], stream=22)
    trace.node("after one", 25, 30, 1, [first[0]], stream=21)
    assert named_arrows(read(trace, tmp_path)) == [("one", "after one"), ("two", "after two")]


def test_an_arrow_that_leads_back_in_time_keeps_its_nodes(tmp_path: Path) -> None:
    trace = NodeBuilder()
    late = trace.node("late", 10, 30, 1, stream=20)
    trace.node("early", 25, 40, 1, [late])
    assert named_arrows(read(trace, tmp_path)) == [("late", "early")]


def test_times_since_1970_are_found_as_floats_round_them(tmp_path: Path) -> None:
    since = 1_720_000_000_000_000.0  # µs: a float keeps a quarter of one
    trace = NodeBuilder()
    first = trace.node("first", since + 10.25, since + 20.5, 1)
    trace.node("second", since + 21.25, since + 30, 1, [first])
    trace.rows[-2]["ts"] += 0.25
    assert named_arrows(read(trace, tmp_path)) == [("first", "second")]


def test_arrows_without_two_nodes_of_one_launch_are_counted(tmp_path: Path) -> None:
    trace = NodeBuilder()
    lost = trace.node("host node of a queued replay", 10, 20, 0, cat="graph_host_node")
    other = trace.node("node of another launch", 21, 30, 1, [lost])
    trace.node("next launch", 40, 50, 2, [other])
    found = read(trace, tmp_path)
    assert named_arrows(found) == []
    assert (found.diagnostics["graph_arrows"], found.diagnostics["graph_arrows_unresolved"]) == (2, 2)


def test_a_part_of_a_trace_keeps_the_arrows_whose_nodes_it_has(tmp_path: Path) -> None:
    trace = read(forked_graph(replays=1), tmp_path)
    kept = [at for at in range(len(trace.events)) if trace.name_of(at) != "C"]
    assert named_arrows(trace.select(np.array(kept))) == [("B", "D")]


@pytest.mark.parametrize("lanes", [False, True])
def test_what_is_written_again_has_the_same_graph(tmp_path: Path, lanes: bool) -> None:
    graph = forked_graph(lanes=lanes).graph(tmp_path)
    write_kineto(graph, tmp_path / "again.json")
    again = hg.build_graph(tmp_path / "again.json")
    for column in ("source", "target", "kind", "rule"):
        assert getattr(again.edge_table, column).tolist() == getattr(graph.edge_table, column).tolist()
    TraceAnonymizer().write(graph.trace, tmp_path / "stripped.json")
    stripped = hg.build_graph(tmp_path / "stripped.json")
    assert edges(stripped) == edges(graph)
    assert stripped.lanes.labels[-2:] == graph.lanes.labels[-2:] == ("stream 0:1:7", "stream 0:1:20")
