"""Nodes that their graph's launch has yet to send: the GPU's idle time is the call's, and other holes are not."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.paths.time_accounting import ALWAYS_EXPLAINED_NS
from tests.simulator import Dialect, Program, Stream, simulate, to_bytes, write
from tests.simulator.program import Graph, GraphLaunch, GraphNode, SyncStream
from tests.support.trace_builder import TraceBuilder

STREAM = Stream(7)
LAUNCH = "cudaGraphLaunch"


def stalled_graph(seed: int) -> tuple[Graph, int]:
    """Return a graph of one stream whose nodes are sent in turn, with a few pauses, and the length of its call."""
    rng = random.Random(seed)
    sent, nodes = 0, []
    for _ in range(rng.randint(5, 60)):
        sent += rng.randint(300, 2_000) + rng.choice([0] * 12 + [rng.randint(60_000, 900_000)])
        nodes.append(GraphNode(rng.randint(1_000, 30_000), sent_ns=sent))
    return Graph(tuple(nodes)), sent + rng.randint(1_000, 50_000)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 60), marks=pytest.mark.slow)])
def test_a_graph_that_is_sent_in_turn_leaves_nothing_unexplained(tmp_path: Path, seeds: range) -> None:
    found_ns = true_ns = 0
    for seed in seeds:
        graph, call_ns = stalled_graph(seed)
        run = simulate(Program.of(GraphLaunch(0, STREAM, call_ns), SyncStream(STREAM), graphs=(graph,)))
        (tmp_path / "trace.json").write_bytes(to_bytes(write(run, Dialect(sync_rows="none")).document))
        path = hg.critical_path(hg.build_graph(str(tmp_path / "trace.json")), hg.whole())
        assert path.coverage == 1
        late = path.segments.query("edge == 'launch' and evidence == 'inferred'")
        assert set(late["name"]) <= {LAUNCH}
        assert set(late["bound_by"]) <= {"cpu_bound"}
        rows = [event for event in run.events if event.kind == "kernel"]
        if path.by_bound_ns["cpu_bound"] == path.length_ns:
            # Nothing waits for the nodes of a call that returns after the last of them.
            assert rows[-1].end_ns <= rows[0].start_ns + call_ns
            continue
        found_ns += int(late["duration_ns"].sum())
        gaps = [after.start_ns - before.end_ns for before, after in pairwise(rows)]
        true_ns += sum(gap - ALWAYS_EXPLAINED_NS for gap in gaps if gap > ALWAYS_EXPLAINED_NS)
    # The last node may be a launch's latency later than its call's return.
    assert 0 <= true_ns - found_ns <= len(seeds) * 6_000
    assert true_ns > 100_000 * len(seeds)


def hole(returned: float) -> TraceBuilder:
    """A graph launch whose call returns at some time (µs), and an idle GPU from 20 to 420 between two of its nodes."""
    trace = TraceBuilder()
    trace.call(LAUNCH, 0, returned, 1)
    trace.kernel("first", 10, 20, 1)
    trace.kernel("last", 420, 430, 1)
    trace.kernel("end", 430, 900, 1)
    trace.call("cudaDeviceSynchronize", returned + 1, 905, 2)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("returned", "in_call", "unexplained"),
    [(5, 0, 350), (20, 0, 350), (120, 100, 250), (370, 350, 0), (500, 350, 0)],
)
def test_only_until_its_return_a_call_may_have_had_to_send(
    tmp_path: Path, returned: float, in_call: int, unexplained: int
) -> None:
    found = hg.critical_path(hole(returned).graph(tmp_path), hg.whole()).segments
    late = found[(found["edge"] == "launch") & (found["evidence"] == "inferred")]
    assert int(late["duration_ns"].sum()) == in_call * 1_000
    assert int(found.loc[found["bound_by"] == "unexplained", "duration_ns"].sum()) == unexplained * 1_000


def test_work_before_its_own_launch_is_not_the_call_s(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 20), 1)
    trace.launch("add", (4_000, 4_005), (500, 4_100), 2)
    found = hg.critical_path(trace.graph(tmp_path), hg.whole()).segments
    assert not len(found[(found["edge"] == "launch") & (found["evidence"] == "inferred")])


def test_what_was_changed_keeps_the_recorded_times_as_identity(tmp_path: Path) -> None:
    graph = hole(500).graph(tmp_path)
    assert hg.replay(graph, [], hg.whole()).identity_ns == hg.critical_path(graph, hg.whole()).length_ns
    half = hg.replay(graph, [hg.scale(LAUNCH, 0.5)], hg.whole())
    assert half.saved_ns >= 175_000
