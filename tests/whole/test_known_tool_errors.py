"""The cases in which other tools go wrong, each with its right answer (times in µs)."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph import CriticalPath, DependencyGraph
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder, edges

US = 1000


def path_us(path: CriticalPath) -> list[tuple[float, float, str, str | None]]:
    """Return (start, end, class, name) of all segments in µs, after checking that they tile the window."""
    path.self_check()
    frame = path.segments
    rows = zip(frame.start_ns, frame.end_ns, frame.bound_by, frame.name, strict=True)
    return [(start / US, end / US, bound, name if isinstance(name, str) else None) for start, end, bound, name in rows]


def whole_path(graph: DependencyGraph) -> CriticalPath:
    return hg.critical_path(graph, hg.whole())


def test_a_second_launch_before_the_first_kernel_does_not_hide_the_first(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("a", 0, 5)
    call_a, kernel_a = trace.launch("A", (0, 4), (12, 20), 1)
    trace.op("b", 6, 11)
    call_b, kernel_b = trace.launch("B", (6, 10), (20, 28), 2)
    graph = trace.graph(tmp_path)
    assert edges(graph, "launch", "stream_order") == {
        ("launch", call_a, "start", kernel_a, "start"),
        ("launch", call_b, "start", kernel_b, "start"),
        ("stream_order", kernel_a, "end", kernel_b, "start"),
    }
    assert path_us(whole_path(graph)) == [
        (0, 4, "cpu_bound", "cudaLaunchKernel"),
        (4, 12, "gpu_kernel_launch_overhead", "cudaLaunchKernel"),
        (12, 20, "gpu_compute_bound", "A"),
        (20, 28, "gpu_compute_bound", "B"),
    ]


def test_a_graph_launch_owns_all_its_kernels(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 1, 4, 1)
    trace.kernel("P", 10, 15, 1)
    trace.op("replay", 100, 130)
    call = trace.call("cudaGraphLaunch", 102, 122, 2)
    nodes = [trace.kernel(f"G{i}", 130 + 100 * i, 225 + 100 * i, 2) for i in range(3)]
    sync = trace.call("cudaDeviceSynchronize", 140, 440, 3)
    trace.sync_row("Context Sync", 140, 440, 3)
    graph = trace.graph(tmp_path)
    assert edges(graph, "launch") >= {("launch", call, "start", node, "start") for node in nodes}
    assert edges(graph, "device_sync") == {("device_sync", nodes[2], "end", sync, "end")}
    path = whole_path(graph)
    on_path = {name: end - start for start, end, bound, name in path_us(path) if bound == "gpu_compute_bound"}
    assert on_path == {"G0": 95, "G1": 95, "G2": 95}
    assert path.by_bound_ns["gpu_kernel_kernel_overhead"] == 10 * US
    assert path.by_bound_ns["sync_overhead"] == 15 * US


def test_all_waits_before_a_kernel_are_kept_and_the_last_binds(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, s1 = trace.launch("S1", (1, 3), (10, 100), 1, stream=1)
    _, s2 = trace.launch("S2", (4, 6), (12, 200), 2, stream=2)
    trace.call("cudaEventRecord", 11, 12, 3)
    trace.call("cudaEventRecord", 13, 14, 4)
    trace.call("cudaStreamWaitEvent", 15, 16, 5)
    trace.call("cudaStreamWaitEvent", 17, 18, 6)
    trace.sync_row("Stream Wait Event", 15, 16, 5, stream=3, wait_on_stream=2, record=4)
    trace.sync_row("Stream Wait Event", 17, 18, 6, stream=3, wait_on_stream=1, record=3)
    _, d = trace.launch("D", (20, 23), (203, 213), 7, stream=3)
    graph = trace.graph(tmp_path)
    assert edges(graph, "event_wait") == {
        ("event_wait", s1, "end", d, "start"),
        ("event_wait", s2, "end", d, "start"),
    }
    lags = graph.predecessors(d, ["event_wait"]).set_index("source_index").lag_ns
    assert lags.to_dict() == {s1: 103 * US, s2: 3 * US}
    assert [row for row in path_us(whole_path(graph)) if row[0] >= 12] == [
        (12, 200, "gpu_compute_bound", "S2"),
        (200, 203, "gpu_kernel_kernel_overhead", "D"),
        (203, 213, "gpu_compute_bound", "D"),
    ]


def test_a_blocking_copy_is_on_the_path_instead_of_its_call(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("to_cpu", 0, 520)
    call = trace.call("cudaMemcpy", 5, 505, 1)
    copy = trace.copy("Memcpy DtoH (Device -> Pageable)", 20, 500, 1)
    trace.op("next", 530, 540)
    trace.launch("kz", (531, 535), (545, 550), 2)
    graph = trace.graph(tmp_path)
    assert edges(graph, "blocking_copy") == {("blocking_copy", copy, "end", call, "end")}
    assert path_us(whole_path(graph)) == [
        (0, 5, "cpu_bound", "to_cpu"),
        (5, 20, "cpu_bound", "cudaMemcpy"),
        (20, 500, "gpu_memory_bound", "Memcpy DtoH (Device -> Pageable)"),
        (500, 505, "sync_overhead", "cudaMemcpy"),
        (505, 520, "cpu_bound", "to_cpu"),
        (520, 530, "cpu_gap", None),
        (530, 531, "cpu_bound", "next"),
        (531, 535, "cpu_bound", "cudaLaunchKernel"),
        (535, 545, "gpu_kernel_launch_overhead", "cudaLaunchKernel"),
        (545, 550, "gpu_compute_bound", "kz"),
    ]


def test_gpu_annotations_are_no_instances(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.row(
        ph="X", cat="gpu_user_annotation", name="ProfilerStep#1", pid=0, tid=7, ts=500, dur=100, args={"stream": 7}
    )
    trace.annotation("ProfilerStep#1", 0, 200)
    trace.op("first", 10, 30)
    trace.launch("k", (11, 16), (500, 550), 1)
    trace.op("later", 510, 530)
    graph = trace.graph(tmp_path)
    path = hg.critical_path(graph, hg.annotation("ProfilerStep#1"))
    assert (path.window.start_ns, path.window.end_ns) == (0, 550 * US)
    assert "later" not in set(path.segments.name)
    cpu = hg.critical_path(graph, hg.annotation("ProfilerStep#1", cpu_window=True))
    assert (cpu.window.start_ns, cpu.window.end_ns) == (0, 200 * US)
    assert hg.critical_path(graph, hg.step(1)).window.end_ns == 550 * US
    with pytest.raises(hg.HtaGraphError, match=r"no instance 1 .* 0 to 0"):
        hg.critical_path(graph, hg.annotation("ProfilerStep#1", first=1))


def test_annotations_match_exactly_and_in_order_of_time(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for name, start in (("iter#10", 1000), ("iter#1", 0)):
        trace.annotation(name, start, start + 100)
        trace.op("op", start + 10, start + 30)
        trace.launch("k", (start + 11, start + 16), (start + 40, start + 45), start + 1)
    graph = trace.graph(tmp_path)
    path = hg.critical_path(graph, hg.annotation("iter#1"))
    assert (path.window.start_ns, path.window.end_ns) == (0, 100 * US)
    both = hg.critical_path(graph, hg.annotation(r"iter#\d+", regex=True, first=0, last=1))
    assert (both.window.start_ns, both.window.end_ns) == (0, 1100 * US)
    second = hg.critical_path(graph, hg.annotation(r"iter#\d+", regex=True, first=1))
    assert second.window.start_ns == 1000 * US


def test_a_wait_for_the_same_stream_is_a_legal_no_op(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, s = trace.launch("S", (1, 3), (10, 100), 1)
    trace.call("cudaEventRecord", 11, 12, 2)
    trace.call("cudaStreamWaitEvent", 15, 16, 3)
    trace.sync_row("Stream Wait Event", 15, 16, 3, stream=7, wait_on_stream=7, record=2)
    _, d = trace.launch("D", (20, 23), (103, 113), 4)
    graph = trace.graph(tmp_path)
    assert edges(graph, "event_wait", "stream_order") == {("stream_order", s, "end", d, "start")}
    assert whole_path(graph).by_bound_ns["gpu_kernel_kernel_overhead"] == 3 * US


def test_equal_stream_numbers_of_two_devices_are_two_streams(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, k0 = trace.launch("k0", (1, 4), (10, 60), 1, device=0)
    call1, k1 = trace.launch("k1", (6, 9), (12, 512), 2, device=1)
    sync = trace.call("cudaStreamSynchronize", 50, 65, 3)
    trace.sync_row("Stream Sync", 50, 65, 3, stream=7, device=0)
    graph = trace.graph(tmp_path)
    assert edges(graph, "stream_order", "event_wait") == set()
    assert edges(graph, "stream_sync") == {("stream_sync", k0, "end", sync, "end")}
    assert ("launch", call1, "start", k1, "start") in edges(graph, "launch")
    assert graph.predecessors(k1).kind.tolist() == ["launch"]


def test_a_wait_holds_back_work_that_another_thread_launches(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, s = trace.launch("S", (1, 4), (10, 100), 1, stream=1)
    trace.call("cudaEventRecord", 11, 12, 2)
    trace.call("cudaStreamWaitEvent", 15, 16, 3)
    trace.sync_row("Stream Wait Event", 15, 16, 3, stream=3, wait_on_stream=1, record=2)
    trace.op("other", 18, 38, tid=2)
    call, d = trace.launch("D", (20, 23), (103, 113), 4, stream=3, tid=2)
    graph = trace.graph(tmp_path)
    assert edges(graph, "event_wait") == {("event_wait", s, "end", d, "start")}
    assert ("launch", call, "start", d, "start") in edges(graph, "launch")
    path = whole_path(graph)
    assert (100, 103, "gpu_kernel_kernel_overhead", "D") in path_us(path)
    assert path.by_bound_ns["gpu_compute_bound"] == 100 * US


def test_work_carried_over_from_an_earlier_step_stays_under_its_own_name(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number, start, end in ((1, 0, 100), (2, 100, 1000), (3, 1000, 1010)):
        trace.annotation(f"ProfilerStep#{number}", start, end)
    trace.launch("Big", (11, 16), (40, 940), 1)
    trace.op("op", 110, 120)
    trace.launch("S", (111, 116), (945, 950), 2)
    trace.call("cudaDeviceSynchronize", 130, 960, 3)
    trace.sync_row("Context Sync", 130, 960, 3)
    path = hg.critical_path(trace.graph(tmp_path), hg.step(2))
    assert path_us(path) == [
        (100, 940, "gpu_compute_bound", "Big"),
        (940, 945, "gpu_kernel_kernel_overhead", "S"),
        (945, 950, "gpu_compute_bound", "S"),
        (950, 960, "sync_overhead", "cudaDeviceSynchronize"),
        (960, 1000, "cpu_gap", "ProfilerStep#2"),
    ]
    assert path.segments.carried_over.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("depth", [1200, deep(50_000)])
def test_deep_nesting_needs_no_recursion(tmp_path: Path, depth: int) -> None:
    trace = TraceBuilder()
    for level in range(depth):
        trace.op(f"op{level % 7}", level, 4 * depth - level)
    trace.launch("k", (depth, depth + 1), (4 * depth + 5, 4 * depth + 10), 1)
    graph = trace.graph(tmp_path)
    path = whole_path(graph)
    assert int((graph.timeline.calls.parent >= 0).sum()) == depth  # each but the outermost, and the call
    assert len(path_us(path)) == depth + 4  # the operators, the call, its lag (explained and not), the kernel
    assert path.by_bound_ns["cpu_bound"] == (depth + 1) * US


def test_what_no_longer_overlaps_follows_the_latest_end_and_not_its_neighbour(tmp_path: Path) -> None:
    trace = TraceBuilder()
    _, long = trace.launch("long", (0, 1), (10, 100), 1)
    _, short = trace.launch("short", (2, 3), (50, 70), 2)
    _, inner = trace.launch("inner", (4, 5), (80, 90), 3)
    _, after = trace.launch("after", (6, 7), (110, 120), 4)
    assert edges(trace.graph(tmp_path), "stream_order") == {
        ("stream_order", long, "start", short, "start"),
        ("stream_order", short, "start", inner, "start"),
        ("stream_order", long, "end", after, "start"),
    }
