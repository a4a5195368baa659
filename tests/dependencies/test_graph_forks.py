"""Forks and joins inside launches of CUDA graphs, by the times of all replays; what is recorded needs no inference."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.graph_forks_accuracy import Case
from tests.support.cuspy_rows import NodeBuilder, forked_graph
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

Row = tuple[str, int, float, float]
"""Name, stream, start and end (µs after the first node)."""


def replays(*every: list[Row]) -> TraceBuilder:
    """Launch each replay of a graph while the one before runs."""
    trace, at = TraceBuilder(), 20.0
    for number, rows in enumerate(every, 1):
        trace.call("cudaGraphLaunch", 10.0 * number - 10, 10.0 * number - 2, number)
        for name, stream, start, end in rows:
            trace.kernel(name, at + start, at + end, number, stream=stream)
        at += max(end for *_, end in rows) + 2
    trace.call("cudaDeviceSynchronize", 10.0 * len(every), at + 5, 999)
    return trace


def inferred(graph: hg.DependencyGraph) -> list[tuple[str, str]]:
    """Return source and target (name) of the inferred edges, replay by replay."""
    edges = graph.edges[graph.edges.rule == "same_in_all_replays"].sort_values(["target_index", "source_index"])
    assert set(edges.kind) <= {"graph_order"}
    names = {
        int(row): graph.names[name] for row, name in zip(graph.event_table.index, graph.event_table.name, strict=True)
    }
    return [
        (names[source], names[target]) for source, target in zip(edges.source_index, edges.target_index, strict=True)
    ]


def on_path(path: hg.CriticalPath, name: str) -> int:
    """Return for how long (ns) work of a name runs on a path."""
    found = path.segments
    return int(found[(found["name"] == name) & (found.edge == "execution")].duration_ns.sum())


def forked(a: float, b: float, c: float = 5.0) -> list[Row]:
    """A root, branches of a and of b (and behind it c), and a join of a and b."""
    joined = 11.2 + max(a, b) + 1.2
    return [
        ("root", 7, 0, 10), ("a", 7, 11.2, 11.2 + a), ("b", 9, 11.2, 11.2 + b), ("c", 9, 12.4 + b, 12.4 + b + c),
        ("join", 7, joined, joined + 30),
    ]  # fmt: skip


FORK, JOIN = ("root", "b"), ("b", "join")


def test_a_fork_and_a_join_are_found_in_every_replay(tmp_path: Path) -> None:
    graph = replays(forked(50, 300), forked(310, 280), forked(52, 290)).graph(tmp_path)
    assert inferred(graph) == [FORK, JOIN] * 3
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["unexplained"] == 0
    assert on_path(path, "b") == 590_000


def test_replays_in_which_a_node_runs_on_contradict_an_edge(tmp_path: Path) -> None:
    """The join starts right after c in one replay; in the others c still runs then."""
    graph = replays(forked(100, 90, 9.5), forked(100, 90, 40), forked(100, 60, 70)).graph(tmp_path)
    assert inferred(graph) == [FORK] * 3


def test_one_replay_shows_what_leaves_no_choice(tmp_path: Path) -> None:
    assert inferred(replays(forked(50, 300)).graph(tmp_path)) == [FORK, JOIN]


def with_rival(a: float, b: float, rival: float) -> list[Row]:
    """The same with another branch from the root on."""
    return [*forked(a, b), ("rival", 11, 11.2, 11.2 + rival)]


def test_of_several_possible_causes_replays_that_vary_decide(tmp_path: Path) -> None:
    """In two replays the rival ends a little before the join starts, as b does; in the third b is later."""
    alike, varied = [with_rival(50, 300, 299)] * 3, [with_rival(50, 300 + i, 299 + i - 40 * (i > 1)) for i in range(3)]
    assert JOIN not in inferred(replays(*alike).graph(tmp_path))
    assert inferred(replays(*varied).graph(tmp_path)).count(JOIN) == 3


def test_a_stream_may_have_another_number_in_the_next_replay(tmp_path: Path) -> None:
    moved = [(name, 30 if stream == 9 else stream, *times) for name, stream, *times in forked(310, 280)]
    graph = replays(forked(50, 300), moved, forked(52, 290)).graph(tmp_path)  # type: ignore[arg-type]
    assert inferred(graph) == [FORK, JOIN] * 3


def test_nodes_that_follow_their_own_stream_wait_for_no_other(tmp_path: Path) -> None:
    """Two branches run side by side from the root on; each node starts right after its own stream's."""
    rows: list[Row] = [("root", 7, 0, 10)]
    for stream, length in ((7, 20.0), (9, 21.0)):
        at = 11.2
        for _ in range(10):
            rows.append((f"k{stream}", stream, at, at + length))
            at += length + 1.2
    assert inferred(replays(rows, rows).graph(tmp_path)) == [("root", "k9")] * 2


def test_where_the_recorder_draws_arrows_nothing_is_inferred(tmp_path: Path) -> None:
    drawn, hidden = (forked_graph(arrows=arrows).graph(tmp_path) for arrows in (True, False))
    assert inferred(drawn) == []
    assert inferred(hidden) == [("B", "D")] * 3


@pytest.mark.parametrize(("arrows", "found"), [(True, []), (False, [("A", "B")] * 4)])
def test_a_node_without_an_arrow_in_a_launch_with_some_waits_for_no_node(
    tmp_path: Path, arrows: bool, found: list[tuple[str, str]]
) -> None:
    """B is a root, as no arrow leads there, though it starts right after A has ended in every replay."""
    trace = NodeBuilder(arrows=arrows)
    for number, length in enumerate((50, 60, 45, 55), 1):
        at = 1_000.0 * number
        trace.call("cudaGraphLaunch", at, at + 20, number)
        a = trace.node("A", at + 30, at + 30 + length, number)
        trace.node("C", at + 32 + length, at + 100, number, [a])
        trace.node("B", at + 32 + length, at + 300, number, stream=20)
    assert inferred(trace.graph(tmp_path)) == found


def test_what_was_not_recorded_follows_the_last_recorded_end(tmp_path: Path) -> None:
    """Between b and the join stands a node of 400 µs without a row: b is on the path, only the hole is unexplained."""
    every = [
        [("root", 7, 0, 10), ("a", 7, 11.2, 61.2), ("b", 9, 11.2, b), ("join", 7, b + 400, b + 430)]
        for b in (300.0, 310.0, 290.0)
    ]
    graph = replays(*every).graph(tmp_path)
    assert inferred(graph) == [FORK, JOIN] * 3
    path = hg.critical_path(graph, hg.whole())
    assert on_path(path, "b") == 900_000 - 3 * 11_200
    assert set(path.by_reason_ns) == {"missing_graph_node"}
    assert path.by_bound_ns["unexplained"] == pytest.approx(3 * 350_000, abs=1_000)


def test_a_first_node_that_follows_other_work_of_its_stream_waits_for_no_node(tmp_path: Path) -> None:
    """A kernel of the second stream, of no graph, ends right before b; a node of the graph ends there, too."""
    trace = replays([("root", 7, 0, 100), ("a", 7, 101.2, 150), ("b", 9, 101, 200), ("join", 7, 201.2, 220)])
    assert FORK in inferred(trace.graph(tmp_path))
    trace.launch("other", (1, 3), (30, 120), 77, stream=9, tid=2)
    assert FORK not in inferred(trace.graph(tmp_path))


def test_a_decode_step_waits_for_communication_on_the_graphs_other_stream(tmp_path: Path) -> None:
    """Kernels begin 2 to 5 µs after DeepEP's dispatch and combine have ended on the graph's second stream."""
    every: list[list[Row]] = []
    for number in range(6):
        rows: list[Row] = [("norm", 7, 0, 6)]
        at = 6.0
        for layer in range(8):
            for place, talk in enumerate(("deep_ep::dispatch", "deep_ep::combine")):
                lag, length = 2.0 + (layer + place) % 4, 30.0 + 3 * ((number + layer + place) % 5)
                rows.append((talk, 20, at + 1.5, at + 1.5 + length))
                rows.append(("shared_expert", 7, at + 1.2, at + 11))
                at += 1.5 + length + lag
                rows.append(("gemm", 7, at, at + 12))
                at += 12
        every.append(rows)
    graph = replays(*every).graph(tmp_path)
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["unexplained"] == 0
    assert path.by_bound_ns["gpu_communication_bound"] > 0.65 * path.length_ns


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "what", "share", "saved"),
    [("graph_join", "B1", 0.80, 0.399), ("graph_overlap_chain", "ncclDevKernel_SendRecv", 0.92, 0.462)],
)
def test_paths_go_over_the_branch_that_is_waited_for(name: str, what: str, share: float, saved: float) -> None:
    graph = graph_of_file(SHARED / "one_rank" / f"{name}.json")
    path = hg.critical_path(graph, hg.whole())
    assert on_path(path, what) / path.length_ns == pytest.approx(share, abs=0.005)
    replayed = hg.replay(graph, hg.scale(f"kernel:{what}", 0.5), hg.whole())
    assert 1 - replayed.predicted_ns / replayed.measured_ns == pytest.approx(saved, abs=0.001)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("replays_", [1, 5])
@pytest.mark.parametrize(("streams", "is_series_parallel"), [(2, True), (4, False), (16, True), (61, False)])
def test_waits_of_simulated_graphs(tmp_path: Path, replays_: int, streams: int, *, is_series_parallel: bool) -> None:
    counts = Case(5, streams, is_series_parallel, 0.1, replays_).score(tmp_path)
    assert counts["right"] == counts["inferred"] > 0
    if replays_ > 1:
        assert counts["found"] >= 0.99 * counts["waits"]
