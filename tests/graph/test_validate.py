"""What is told of edges in a few passes is what the masks and the order of all points say of them."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.validate import all_edges_valid, all_go_forward, edges_on_a_cycle, invalid_edges, without_points
from hta_graph.model import EdgeKind
from tests.support.deep_tests import for_all
from tests.support.random_rows import graph_of
from tests.support.trace_builder import TraceBuilder
from tests.trace_fuzz import seeds


@cache
def graphs() -> list[hg.DependencyGraph]:
    return [graph_of(raw) for _, raw in seeds()[:6]]


def harmed_edges(graph: hg.DependencyGraph, rng: random.Random, harms: int) -> EdgeTable:
    """Change a few sides and kinds, and add a few ways back."""
    edges = graph.edge_table
    columns = {name: getattr(edges, name).copy() for name in ("source", "target", "kind", "rule")}
    for _ in range(harms):
        row, other = rng.randrange(len(edges)), rng.randrange(len(edges))
        match rng.randrange(4):
            case 0:
                columns["kind"][row] = rng.randrange(len(EdgeKind))
            case 1:
                columns["target"][row] = columns["source"][other]
            case 2:
                columns["source"][row], columns["target"][row] = columns["target"][row], columns["source"][row]
            case _:
                columns["source"][row] = rng.randrange(2 * len(graph.event_table))
    return EdgeTable.of(**columns)


@for_all(st.integers(0, 5), st.integers(0, 2**32), st.integers(0, 2), examples=160)
def test_edges_stand_where_they_can_if_no_mask_marks_one(which: int, seed: int, harms: int) -> None:
    graph = graphs()[which]
    edges = harmed_edges(graph, random.Random(seed), harms)
    marked = [without_points(graph.trace, edges.source), without_points(graph.trace, edges.target)]
    marked += [wrong for wrong, _ in invalid_edges(edges, graph.trace)]
    assert all_edges_valid(edges, graph.trace) == (not np.logical_or.reduce(marked).any())


@for_all(st.integers(0, 5), st.integers(0, 2**32), st.integers(0, 2), st.booleans(), examples=160)
def test_edges_that_go_forward_close_no_cycle(which: int, seed: int, harms: int, at_once: bool) -> None:
    graph, rng = graphs()[which], random.Random(seed)
    if at_once:
        # Few instants: nearly all edges are without lag, and only the order at an instant tells.
        events = graph.event_table
        grain = max(int(events.end.max() - events.start.min()) // 8, 1)
        events = replace(events, start=events.start // grain, end=events.end // grain)
        graph = hg.build_graph(replace(graph.trace, events=events))
    edges = harmed_edges(graph, rng, harms)
    edges = edges.take(~(without_points(graph.trace, edges.source) | without_points(graph.trace, edges.target)))
    if all_go_forward(edges, graph.trace, graph.timeline.times):
        assert len(edges_on_a_cycle(edges, graph.timeline)) == 0


def test_most_graphs_are_told_to_be_acyclic_without_sorting_their_points() -> None:
    told = [all_go_forward(graph.edge_table, graph.trace, graph.timeline.times) for graph in graphs()]
    assert told.count(True) >= len(graphs()) // 2


def test_rows_without_length_before_an_end_are_told_by_the_edges_to_it(tmp_path: Path) -> None:
    """A stretch of whole microseconds: several rows without length at the instant at which the row around them ends."""
    trace = TraceBuilder()
    trace.op("outer", 0, 10)
    for name in ("a", "b", "c"):
        trace.op(name, 10, 10)
    trace.op("next", 10, 12)
    trace.op("d", 20, 20)
    graph = trace.graph(tmp_path)
    assert all_go_forward(graph.edge_table, graph.trace, graph.timeline.times)
    turned = replace(graph.edge_table, source=graph.edge_table.target, target=graph.edge_table.source)
    assert not all_go_forward(turned, graph.trace, graph.timeline.times)
