"""Few rows of a graph are bound as the walk back through all of them leads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.graph.job_graph import shift_to_job_time
from hta_graph.graph.points import end_point, event_of
from hta_graph.multi_rank.summary.boundary_events import contract_edges
from hta_graph.paths.binding_edges import binding_edges
from tests.support.deep_tests import for_all
from tests.support.graph_strategies import FILLED
from tests.support.trace_builder import TraceBuilder


@for_all(FILLED, st.integers(1, 9), st.integers(0, 99), st.sampled_from((0, 700, 50_000)), examples=800)
def test_each_kept_point_is_bound_by_the_next_one_kept_on_the_walk_back(
    drawn: hg.DependencyGraph, every: int, seed: int, wrong: int
) -> None:
    """Clocks that go wrong may stamp what is on the way before where it comes from."""
    rng, events = np.random.default_rng(seed), drawn.event_table
    rows = np.flatnonzero(rng.integers(0, every, len(events)) == 0).astype(np.int32)
    shift = rng.integers(-wrong, wrong + 1, len(events))
    graph = shift_to_job_time(drawn, events.start + shift, events.end + shift)
    found = contract_edges(graph, rows)
    kept = set(rows.tolist())
    binding, source, times = binding_edges(graph), graph.edge_table.source, graph.timeline.times
    bound = dict(zip(found.edges.target.tolist(), found.edges.source.tolist(), strict=True))
    for at, row in enumerate(rows.tolist()):
        for end in (0, 1):
            point, passed = 2 * row + end, []
            while (edge := binding[point]) >= 0:
                point = int(source[edge])
                if int(event_of(np.array([point]))[0]) in kept:
                    break
                passed.append(int(times[point]))
            else:
                point = -1
            own = 2 * at + end
            expected = -1 if point < 0 else 2 * int(np.searchsorted(rows, point // 2)) + point % 2
            assert bound.get(own, -1) == expected
            if point >= 0:
                assert found.clock_dip[own] == max(int(times[point]) - min(passed, default=int(times[point])), 0)


def test_a_clock_that_goes_wrong_between_kept_points_is_told(tmp_path: Path) -> None:
    """The GPU's clock is 2 µs behind; the way from the call's start to the synchronisation's end leads by the kernel.

    µs       8   10  12  13              18  20
    thread        [call] [synchronize       ]
    stream   [=== kernel ===============]
    """
    trace = TraceBuilder()
    trace.launch("kernel", (10, 12), (8, 18), 1)
    trace.call("cudaDeviceSynchronize", 13, 20, 2)
    trace.sync_row("Context Sync", 13, 20, 2)
    trace.agree(100)
    graph = trace.graph(tmp_path)
    assert [graph.name_of(row) for row in (1, 2)] == ["cudaLaunchKernel", "cudaDeviceSynchronize"]
    found = contract_edges(graph, np.array([1, 2], np.int32))
    at = int(end_point(np.array([1]))[0])
    assert found.edges.source[found.edges.target == at].tolist() == [0]
    assert found.clock_dip.tolist() == [2_000 * (point == at) for point in range(4)]
