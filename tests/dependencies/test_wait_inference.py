"""Each rule of inference on a tiny trace, what hidden records lose, and what no trace can tell (times in µs)."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from tests.edge_accuracy import read, recorded_and_inferred
from tests.simulator import Dialect, Program, Stream, simulate, to_bytes, write
from tests.simulator.program import Gap, Launch, Record, Statement, SyncDevice, SyncStream, Wait
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder, edges


def rules(graph: DependencyGraph, kind: str) -> set[str]:
    frame = graph.edges
    return set(frame[frame.kind == kind].rule)


def test_a_device_sync_without_a_record_waits_for_every_stream(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("op", 0, 10)
    _, a = trace.launch("A", (1, 5), (15, 1015), 1)
    _, b = trace.launch("B", (6, 9), (16, 200), 2, stream=20)
    sync = trace.call("cudaDeviceSynchronize", 20, 1020, 3)
    trace.op("next", 1030, 1040)
    graph = trace.graph(tmp_path)
    assert edges(graph, "device_sync") == {
        ("device_sync", a, "end", sync, "end"),
        ("device_sync", b, "end", sync, "end"),
    }
    assert rules(graph, "device_sync") == {"every_stream"}


def test_the_case_without_sync_rows_tiles_as_it_should(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("op", 0, 10)
    trace.launch("A", (1, 5), (15, 1015), 1)
    trace.call("cudaDeviceSynchronize", 20, 1020, 2)
    trace.op("next", 1030, 1040)
    path = hg.critical_path(trace.graph(tmp_path), hg.whole())
    path.self_check()
    found = {bound: ns for bound, ns in path.by_bound_ns.items() if ns}
    assert found == {
        "cpu_bound": 15_000,
        "gpu_kernel_launch_overhead": 10_000,
        "gpu_compute_bound": 1_000_000,
        "sync_overhead": 5_000,
        "cpu_gap": 10_000,
    }
    assert set(path.segments[path.segments.edge == "device_sync"].evidence) == {"inferred"}


def test_a_stream_sync_waits_for_the_stream_that_ended_just_before_its_return(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, a = trace.launch("A", (1, 5), (15, 300), 1, stream=7)
    trace.launch("B", (6, 9), (16, 900), 2, stream=20)
    sync = trace.call("cudaStreamSynchronize", 20, 308, 3)
    graph = trace.graph(tmp_path)
    assert edges(graph, "stream_sync") == {("stream_sync", a, "end", sync, "end")}
    assert rules(graph, "stream_sync") == {"stream_by_timing"}


def test_a_blocking_call_that_nothing_explains_stays_unexplained(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("op", 0, 10)
    trace.call("cudaStreamSynchronize", 20, 1020, 3)
    trace.op("next", 1030, 1040)
    path = hg.critical_path(trace.graph(tmp_path), hg.whole())
    assert path.by_bound_ns["unexplained"] == 1_000_000


def test_a_long_wait_whose_work_was_done_before_stays_unexplained(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("A", (1, 5), (6, 10), 1)
    trace.call("cudaDeviceSynchronize", 20, 1020, 2)
    trace.op("next", 1020, 1030)
    assert hg.critical_path(trace.graph(tmp_path), hg.whole()).by_bound_ns["unexplained"] == 1_000_000


def test_a_graph_on_streams_of_its_own_belongs_to_the_thread_s_stream(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, before = trace.launch("before", (1, 3), (10, 100), 1)
    trace.call("cudaGraphLaunch", 4, 6, 2)
    left, right = trace.kernel("left", 105, 200, 2, stream=164), trace.kernel("right", 106, 150, 2, stream=165)
    _, after = trace.launch("after", (8, 9), (205, 210), 3)
    graph = trace.graph(tmp_path)
    assert edges(graph, "graph_order") == {
        ("graph_order", before, "end", left, "start"),
        ("graph_order", before, "end", right, "start"),
        ("graph_order", left, "end", after, "start"),
        ("graph_order", right, "end", after, "start"),
    }


def test_the_autograd_thread_works_in_the_silence_of_the_launching_thread(tmp_path: Path) -> None:
    trace = TraceBuilder()
    before = trace.op("aten::sum", 0, 10)
    first = trace.op("autograd::engine::evaluate_function: SumBackward0", 15, 30, tid=2)
    last = trace.op("autograd::engine::evaluate_function: MulBackward0", 31, 60, tid=2)
    after = trace.op("aten::add_", 70, 80)
    graph = trace.graph(tmp_path)
    assert edges(graph, "thread_handoff") == {
        ("thread_handoff", before, "end", first, "start"),
        ("thread_handoff", last, "end", after, "start"),
    }
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["cpu_bound"] == 64_000
    assert path.by_bound_ns["cpu_gap"] == 16_000


def test_threads_that_work_side_by_side_hand_nothing_over(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for start in range(0, 100, 10):
        trace.op("aten::sum", start, start + 6)
        trace.op("autograd::engine::evaluate_function: SumBackward0", start + 3, start + 12, tid=2)
    assert edges(trace.graph(tmp_path), "thread_handoff") == set()


@pytest.mark.parametrize("name", ["gloo:all_gather", "a loop"])
def test_workers_of_gloo_hand_no_backward_pass_over(tmp_path: Path, name: str) -> None:
    """Threads of a group copy what they gathered: more operators than the thread whose backward pass they serve."""
    trace = TraceBuilder()
    trace.op("aten::sum", 0, 4)
    trace.op("autograd::engine::evaluate_function: SumBackward0", 40, 60)
    trace.annotation(name, 10, 90, tid=2)
    for start in (11, 15, 70, 80):
        trace.op("aten::copy_", start, start + 2, tid=2)
    assert (edges(trace.graph(tmp_path), "thread_handoff") == set()) == (name == "gloo:all_gather")


def fork(*, pairs: bool, width: int, held: float = 300) -> TraceBuilder:
    """Streams that wait for one, all before anything is launched on them (µs); the last one starts at `held` + 2.

    thread     [launch a] record wait wait .. [launch b][launch c] ..      or: record wait record wait ..
    stream 7   [a ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~] 300
    stream 20                                                        [b
    stream 21                                                        [c
    """
    trace = TraceBuilder()
    trace.launch("a", (0, 4), (10, 300), 1)
    at = 5
    for number in range(width):
        for name in ("cudaEventRecord", "cudaStreamWaitEvent")[not pairs and number > 0 :]:
            trace.call(name, at, at + 1)
            at += 2
    for number in range(width):
        start = held + 2 if number == width - 1 else 302
        trace.launch("bcde"[number], (at, at + 4), (start, start + 50), 2 + number, stream=20 + number)
        at += 5
    return trace


def held_back(graph: DependencyGraph) -> list[tuple[str, str]]:
    name, found = graph.events.set_index("event_index").name, graph.edges[graph.edges.kind == "event_wait"]
    return sorted(zip(name[found.source_index], name[found.target_index], strict=True))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("width", [2, 4])
def test_streams_that_fork_before_anything_is_launched_on_them_all_wait(
    tmp_path: Path, pairs: bool, width: int
) -> None:
    graph = fork(pairs=pairs, width=width).graph(tmp_path)
    assert held_back(graph) == [("a", name) for name in "bcde"[:width]]


@pytest.mark.parametrize("held", [200, 340])
def test_a_stream_that_nothing_holds_back_is_no_branch_of_a_fork(tmp_path: Path, held: float) -> None:
    """It starts before the recorded work has ended, or so long after it that another cause delays it."""
    assert held_back(fork(pairs=False, width=2, held=held).graph(tmp_path)) == [("a", "b")]


def rounds_with_a_join(lengths: list[tuple[int, int, int]]) -> Program:
    """In each round stream 7 waits for stream 20; what it launches before, and what stream 24 does, may end later."""
    body: list[Statement] = []
    for event, (own, awaited, other) in enumerate(lengths):
        body += [Launch(Stream(20), awaited, "awaited"), Launch(Stream(24), other, "other"), Record(event, Stream(20))]
        body += [Launch(Stream(7), own, "own"), Wait(Stream(7), event), Launch(Stream(7), 20_000, "joined")]
        body += [SyncDevice(), Gap(5_000)]
    return Program.of(*body)


@pytest.mark.parametrize(("shown", "found"), [(3, 5), (2, 2)])
def test_a_loop_s_waits_are_for_what_timing_shows_in_most_rounds(shown: int, found: int) -> None:
    """In two rounds the waiting stream's own work ends last, and in one of them other work just after it."""
    lengths = [(50_000, 200_000, 90_000)] * shown + [(200_000, 150_000, 90_000), (200_000, 150_000, 205_500)]
    graph = read(write(simulate(rounds_with_a_join(lengths)), Dialect(sync_rows="none")))
    name = dict(zip(graph.events.event_index, graph.events.name, strict=True))
    frame = graph.edges[(graph.edges.kind == "event_wait") & (graph.edges.target_index.map(name) == "joined")]
    assert (frame.source_index.map(name) == "awaited").sum() == found
    assert (frame.rule == "same_in_other_rounds").sum() == found - shown


def test_a_wait_without_a_row_is_of_the_stream_that_has_no_work_yet() -> None:
    """The thread launches on the recording stream first; Kineto writes no row of the first wait (kineto#904)."""
    first, second = (
        (Launch(Stream(7), 200_000, "ping"), Record(event, Stream(7)), Wait(Stream(20), event),
         Launch(Stream(7), 10_000, "own"), Launch(Stream(20), 50_000, "pong"), SyncDevice())
        for event in (0, 1)
    )  # fmt: skip
    graph = read(write(simulate(Program.of(*first, *second)), Dialect()))
    waits = graph.edges[graph.edges.kind == "event_wait"]
    assert sorted(waits.rule) == ["recorded", "stream_by_timing"]
    assert hg.critical_path(graph, hg.whole()).by_bound_ns["unexplained"] == 0


def test_what_is_launched_behind_a_later_wait_is_of_that_wait(tmp_path: Path) -> None:
    """A stream waits twice, and another one later for other work that ends at about the same time."""
    trace = TraceBuilder()
    trace.launch("a", (0, 2), (10, 300), 1)
    trace.launch("d", (3, 5), (10, 301.5), 2, stream=30)
    for at in (6, 8):
        trace.call("cudaStreamWaitEvent", at, at + 1)
    trace.launch("b", (10, 14), (301, 400), 3, stream=20)
    trace.call("cudaStreamWaitEvent", 15, 16)
    trace.launch("c", (20, 24), (302, 400), 4, stream=21)
    assert held_back(trace.graph(tmp_path)) == [("a", "b"), ("d", "c")]


def test_a_call_that_returns_right_after_another_thread_s_waited_for_the_lock(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(5):
        trace.call("cudaLaunchKernel", 10 * at, 10 * at + 4)
        trace.call("cudaHostAlloc", 10 * at, 10 * at + 5, tid=2)
    holder = trace.call("cudaHostAlloc", 100, 400, tid=2)
    waiter = trace.call("cudaLaunchKernel", 120, 403)
    graph = trace.graph(tmp_path)
    assert edges(graph, "runtime_lock") == {("runtime_lock", holder, "end", waiter, "end")}


@pytest.mark.sampled(6)
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("sync_alexnet_a100", {"stream_sync": (16, 16), "device_sync": (9, 9), "event_wait": (6, 6)}),
        ("sync_simple_add", {"stream_sync": (16, 16), "device_sync": (9, 9)}),
        ("sync_event_cpu", {"stream_sync": (1, 1), "device_sync": (1, 1), "event_sync": (1, 1)}),
        ("sync_event_multistream", {"device_sync": (3, 3), "event_wait": (0, 1)}),
    ],
)
def test_hidden_records_are_inferred(name: str, least: dict[str, tuple[int, int]]) -> None:
    """Compare by (found at least, recorded): what is inferred without the rows with what the rows say."""
    recorded, inferred = recorded_and_inferred(SHARED / "traces" / name / "rank0.json.gz")
    for kind, (found, total) in least.items():
        rows, rules_found = ({edge for edge in edges_ if edge[0] == kind} for edges_ in (recorded, inferred))
        assert len(rows) == total
        assert len(rows & rules_found) >= found
        if kind != "event_wait":
            assert rules_found == rows


A, B, C = Stream(7), Stream(20), Stream(24)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            (Launch(A, 1_000), Launch(B, 1_000), Gap(50_000), SyncStream(A)),
            (Launch(A, 1_000), Launch(B, 1_000), Gap(50_000), SyncStream(B)),
            id="a stream sync with nothing left to wait for",
        ),
        pytest.param(
            (Launch(A, 1_000), Launch(B, 1_000), Gap(50_000), Record(1, A), Wait(C, 1), Launch(C, 1_000)),
            (Launch(A, 1_000), Launch(B, 1_000), Gap(50_000), Record(1, B), Wait(C, 1), Launch(C, 1_000)),
            id="an event wait that did not bind",
        ),
        pytest.param(
            (Launch(A, 1_000), Launch(B, 1_000), Record(1, A), Gap(50_000), Wait(B, 1), Gap(1_000), Launch(B, 1_000)),
            (Launch(A, 1_000), Launch(B, 1_000), Record(1, A), Gap(50_000), Wait(A, 1), Gap(1_000), Launch(B, 1_000)),
            id="the waiting stream of a wait that did not bind",
        ),
    ],
)
def test_what_no_trace_can_tell(one: tuple[Statement, ...], other: tuple[Statement, ...]) -> None:
    """Show two programs with other dependencies that leave the same bytes where synchronisation is not recorded."""
    runs = [simulate(Program.of(*body)) for body in (one, other)]
    texts = [to_bytes(write(run, Dialect(sync_rows="none")).document) for run in runs]
    truths = [{(c.kind, c.source, c.source_point, c.target, c.target_point) for c in run.constraints} for run in runs]
    assert texts[0] == texts[1]
    assert truths[0] != truths[1]
