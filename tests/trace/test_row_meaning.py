"""Rows that do not mean what they say: copies among kernels, late ends, early calls (times in µs).

The inputs stand for kinds of recorders: AMD's two profilers, late ends of an MI355X, NVIDIA's CUPTI monitor.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

import hta_graph as hg
from analyses.declare.scope import whole
from analyses.questions.kernel_breakdown import kernel_breakdown
from analyses.questions.memory_bandwidth import memory_bandwidth
from hta_graph.attribution.owners import owners
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.trace_builder import TraceBuilder


def hip(trace: TraceBuilder, call: str, kernel: str, at: float, length: float, corr: int, **args: Any) -> int:
    """Add a call of HIP and what it left on stream 0, all recorded as a kernel."""
    trace.call(call, at, at + 2, corr)
    return trace.kernel(kernel, at + 10, at + 10 + length, corr, stream=0, **args)


def kinds(trace: hg.Trace) -> dict[str, str]:
    names = (trace.names[code] for code in trace.events.name.tolist())
    return dict(zip(names, (hg.model.EventKind(kind).label for kind in trace.events.kind.tolist()), strict=True))


def read(trace: TraceBuilder, tmp_path: Path) -> hg.Trace:
    return hg.read_trace(trace.write(tmp_path / "trace.json"))


def test_the_call_decides_what_an_amd_row_is(tmp_path: Path) -> None:
    trace = TraceBuilder()
    hip(trace, "hipMemcpyAsync", "__amd_rocclr_copyBuffer", 0, 5, 1, bytes=1_000_000)
    hip(trace, "hipMemsetAsync", "some_fill_kernel", 20, 5, 2)
    hip(trace, "hipEventRecord", "Marker", 40, 0, 3)
    hip(trace, "hipLaunchKernel", "CatArrayBatchedCopy", 60, 5, 4)
    hip(trace, "hipMemcpyWithStream", "CopyDeviceToHost", 80, 5, 5)
    found = read(trace, tmp_path)
    assert {name: kind for name, kind in kinds(found).items() if not name.startswith("hip")} == {
        "__amd_rocclr_copyBuffer": "memcpy",
        "some_fill_kernel": "memset",
        "Marker": "other",
        "CatArrayBatchedCopy": "kernel",
        "CopyDeviceToHost": "memcpy",
    }
    assert found.diagnostics["copies_among_kernels"] == 4


def test_a_kernel_that_is_launched_as_one_computes_whatever_its_name(tmp_path: Path) -> None:
    trace = TraceBuilder()
    hip(trace, "hipLaunchKernel", "__amd_rocclr_copyBuffer", 0, 5, 1)
    assert kinds(read(trace, tmp_path))["__amd_rocclr_copyBuffer"] == "kernel"


def test_in_a_graph_and_without_a_call_the_name_tells(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("hipGraphLaunch", 0, 5, 1)
    trace.kernel("__amd_rocclr_fillBufferAligned", 10, 15, 1, stream=0)
    trace.kernel("triton_poi_fused_copy_0", 16, 20, 1, stream=0)
    trace.kernel("CopyHostToDevice", 30, 40, 99, stream=0)
    found = kinds(read(trace, tmp_path))
    assert found["__amd_rocclr_fillBufferAligned"] == "memset"
    assert found["triton_poi_fused_copy_0"] == "kernel"
    assert found["CopyHostToDevice"] == "memcpy"


def test_bytes_of_a_copy_among_the_kernels_count(tmp_path: Path) -> None:
    trace = TraceBuilder()
    hip(trace, "hipMemcpyAsync", "CopyHostToDevice", 0, 100, 1, bytes=2_000_000)
    (row,) = memory_bandwidth([whole(0, trace.graph(tmp_path))]).to_dict("records")
    assert (row["kind"], row["bytes"], row["duration_ns"]) == ("Memcpy HtoD", 2_000_000, 100_000)


def test_a_copying_call_returns_after_its_copy(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("hipMemcpyWithStream", 0, 520, 1)
    trace.kernel("__amd_rocclr_copyBuffer", 10, 500, 1, stream=0)
    graph = trace.graph(tmp_path)
    assert graph.edge_counts()["blocking_copy"] == {"recorded": 0, "inferred": 1}


def stream_of_kernels(trace: TraceBuilder, *rows: tuple[str, float, float], stream: int = 7) -> list[int]:
    """Launch kernels one after the other; each has a call of its own."""
    corr = len(trace.rows) + 1
    return [
        trace.launch(name, (at * 4, at * 4 + 2), (start, end), corr + at, stream=stream)[1]
        for at, (name, start, end) in enumerate(rows)
    ]


TWENTY = [("gemm", 100 + 20 * at, 110 + 20 * at) for at in range(20)]


def test_a_late_end_is_that_of_its_name(tmp_path: Path) -> None:
    trace = TraceBuilder()
    stream_of_kernels(trace, *TWENTY[:5], ("gemm", 200, 900), *TWENTY[6:])
    found = read(trace, tmp_path)
    assert found.diagnostics["late_ends"] == 1
    (note,) = found.repairs
    assert "gemm (event 11) is recorded with 0.700 ms, over 14 later activities of its stream" in note
    assert "0.010 ms are used" in note
    (row,) = kernel_breakdown([whole(0, hg.build_graph(found))]).to_dict("records")
    assert (row["sum_ns"], row["max_ns"]) == (200_000, 10_000)


def test_without_others_of_its_name_it_ends_when_the_next_one_starts(tmp_path: Path) -> None:
    trace = TraceBuilder()
    stream_of_kernels(trace, *TWENTY[:5], ("once", 200, 900), *TWENTY[6:])
    graph = hg.build_graph(read(trace, tmp_path))
    assert graph.events.query("name == 'once'").eval("end_ns - start_ns").tolist() == [20_000]


def test_a_late_copy_is_as_fast_as_its_time_says(tmp_path: Path) -> None:
    trace = TraceBuilder()
    stream_of_kernels(trace, *TWENTY)
    trace.call("cudaMemcpyAsync", 82, 84, 90)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 112, 420, 90, bytes=200_000, **{"memory bandwidth (GB/s)": 0.6})
    (row,) = memory_bandwidth([whole(0, trace.graph(tmp_path))]).to_dict("records")
    assert (row["bytes"], row["duration_ns"]) == (200_000, 8_000)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([*TWENTY[:5], ("pdl", 200, 223), *TWENTY[6:]], id="programmatic launch"),
        pytest.param([*TWENTY[:5], ("ncclDevKernel_AllReduce", 200, 900), *TWENTY[6:]], id="communication waits"),
        pytest.param([(name, start, start + 300) for name, start, _ in TWENTY[::2]] + TWENTY[1::2], id="queues"),
        pytest.param([*TWENTY[:5], ("last", 500, 900)], id="nothing later"),
    ],
)
def test_overlaps_that_may_be_stay(rows: list[tuple[str, float, float]], tmp_path: Path) -> None:
    trace = TraceBuilder()
    stream_of_kernels(trace, *rows)
    assert read(trace, tmp_path).diagnostics["late_ends"] == 0


def test_branches_of_one_graph_may_outlive_each_other(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaGraphLaunch", 0, 5, 1)
    trace.kernel("long", 10, 500, 1)
    for at in range(20):
        trace.kernel("short", 20 + 10 * at, 25 + 10 * at, 1)
    assert read(trace, tmp_path).diagnostics["late_ends"] == 0


def test_in_a_graph_what_takes_many_times_as_long_as_usual_is_late(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("hipGraphLaunch", 0, 5, 1)
    for name, start, end in [*TWENTY[:5], ("gemm", 200, 900), *TWENTY[6:]]:
        trace.kernel(name, start, end, 1)
    graph = hg.build_graph(read(trace, tmp_path))
    assert graph.diagnostics["late_ends"] == 1
    assert graph.events.query("kind == 'kernel'").eval("end_ns - start_ns").unique().tolist() == [10_000]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_late_ends_of_simulated_programs_are_found_and_nothing_else_changes(seed: int, tmp_path: Path) -> None:
    rows = orjson.loads(to_bytes(write(simulate(random_program(seed, "pytorch", 60)), Dialect()).document))
    path = tmp_path / "t.json"
    path.write_bytes(orjson.dumps(rows))
    before = hg.read_trace(path)
    kernels = [at for at, row in enumerate(rows["traceEvents"]) if row.get("cat") == "kernel"]
    chosen = kernels[len(kernels) // 2]
    rows["traceEvents"][chosen]["dur"] = float(rows["traceEvents"][chosen]["dur"]) + 20_000
    path.write_bytes(orjson.dumps(rows))
    after = hg.read_trace(path)
    assert before.diagnostics["late_ends"] == 0
    length = dict(zip(after.events.index.tolist(), (after.events.end - after.events.start).tolist(), strict=True))
    known = dict(zip(before.events.index.tolist(), (before.events.end - before.events.start).tolist(), strict=True))
    changed = {index for index, ns in known.items() if length[index] != ns}
    assert changed <= {chosen}


def launch_in(trace: TraceBuilder, name: str, start: float, number: int, early: float, *, length: float = 5) -> None:
    """Add an operator and its launch, whose call is stamped early."""
    trace.op(name, start, start + 14, **{"External id": number})
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 1}
    args = {"External id": number, "correlation": 100 + number}
    trace.row(**call, ts=start - early, dur=length, args=args)
    trace.kernel(f"k{number}", start + 50, start + 60, 100 + number, **{"External id": number})


def operators(graph: hg.DependencyGraph) -> dict[str, str | None]:
    kernels = [row for row in range(len(graph.event_table)) if graph.is_gpu[row]]
    around = owners(graph, "operator").innermost(graph.launching_call[kernels])
    return {
        graph.name_of(row): graph.name_of(owner) if owner >= 0 else None
        for row, owner in zip(kernels, around.tolist(), strict=True)
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("early", "length"), [(0.3, 5), (2.5, 5), (2.5, 1.5), (9, 4)])
def test_a_call_stamped_before_its_operator_is_in_it(early: float, length: float, tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch_in(trace, "aten::mm", 100, 2, early, length=length)
    launch_in(trace, "aten::add", 200, 3, early, length=length)
    graph = trace.graph(tmp_path)
    assert operators(graph) == {"k2": "aten::mm", "k3": "aten::add"}
    assert graph.diagnostics["calls_moved_into_operators"] == 2
    assert graph.diagnostics["nesting_violations"] == 0


def test_a_call_stamped_into_the_operator_before_belongs_to_its_own(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch_in(trace, "aten::mm", 100, 2, 0)
    launch_in(trace, "aten::add", 114.2, 3, 0.5)
    assert operators(trace.graph(tmp_path)) == {"k2": "aten::mm", "k3": "aten::add"}


def test_an_id_that_is_the_calls_own_correlation_moves_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 100, 114, **{"External id": 7})
    trace.row(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=100, tid=1, ts=98, dur=1,
              args={"External id": 7, "correlation": 7})  # fmt: skip
    trace.kernel("k", 150, 160, 7)
    graph = trace.graph(tmp_path)
    assert operators(graph) == {"k": None}
    assert graph.diagnostics["calls_moved_into_operators"] == 0


def test_anonymized_traces_mean_the_same(tmp_path: Path) -> None:
    trace = TraceBuilder()
    hip(trace, "hipMemcpyAsync", "CopyHostToDevice", 0, 5, 1)
    hip(trace, "hipEventRecord", "Marker", 40, 0, 3)
    trace.kernel("__amd_rocclr_fillBufferAligned", 60, 65, 99, stream=0)
    launch_in(trace, "aten::mm", 100, 12, 0.3)
    before = hg.build_graph(read(trace, tmp_path))
    TraceAnonymizer().write(before.trace, tmp_path / "stripped.json")
    after = hg.build_graph(hg.read_trace(tmp_path / "stripped.json"))
    assert after.event_table.kind.tolist() == before.event_table.kind.tolist()
    assert after.edge_counts() == before.edge_counts()


def test_a_saved_graph_keeps_the_note(tmp_path: Path) -> None:
    trace = TraceBuilder()
    stream_of_kernels(trace, *TWENTY[:5], ("gemm", 200, 900), *TWENTY[6:])
    graph = hg.build_graph(read(trace, tmp_path))
    hg.save_graph(graph, tmp_path / "saved")
    assert hg.load_graph(tmp_path / "saved").trace.notes == graph.trace.notes


# -- streams that stand for several queues, and short ones ------------------------------------------------------------


def two_queues(seed: int, count: int = 30) -> TraceBuilder:
    """Show two queues that run at once as one stream."""
    random, trace, free = Random(seed), TraceBuilder(), [0.0, 0.0]
    for number in range(count):
        queue, name = random.randrange(2), random.randrange(3)
        start = max(free[queue], min(free)) + random.uniform(1, 10)
        free[queue] = start + 30 * (1 + name) * random.lognormvariate(0, 0.2)
        trace.kernel(f"kernel_{name}", start, free[queue], number + 1)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(8))
def test_queues_that_run_at_once_keep_their_ends(tmp_path: Path, seed: int) -> None:
    assert read(two_queues(seed), tmp_path).diagnostics["late_ends"] == 0


def in_a_row(*late: tuple[int, float]) -> TraceBuilder:
    """Make twelve kernels of 100 µs and three names, some of which end late by so much."""
    trace, put_off = TraceBuilder(), dict(late)
    for number in range(12):
        trace.launch(
            f"kernel_{number % 3}", (number, number + 0.5),
            (100 + 110 * number, 200 + 110 * number + put_off.get(number, 0)), number + 1,
        )  # fmt: skip
    return trace


def test_two_ends_of_a_short_stream_may_be_late(tmp_path: Path) -> None:
    found = read(in_a_row((1, 800), (5, 600)), tmp_path)
    assert found.diagnostics["late_ends"] == 2
    length = (found.events.end - found.events.start)[found.is_gpu]
    assert set(length.tolist()) == {100_000}


def test_three_ends_of_a_short_stream_are_not_told_from_queues(tmp_path: Path) -> None:
    assert read(in_a_row((1, 800), (4, 700), (8, 600)), tmp_path).diagnostics["late_ends"] == 0


def test_a_last_end_that_nothing_follows_is_named_and_stays(tmp_path: Path) -> None:
    found = read(in_a_row((11, 1_000_000)), tmp_path)
    assert found.diagnostics["late_ends"] == 0
    assert any("so its end may be stamped late" in line for line in found.repairs)
    assert not read(in_a_row((11, 1_000)), tmp_path).repairs


def test_where_a_stream_reached_an_event_is_no_work(tmp_path: Path) -> None:
    """CUDA 12.8 leaves a row of 1 ns on the stream for each recorded event (kineto#1163): no copy, no kernel."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 40), 1)
    trace.call("cudaEventRecordWithFlags", 6, 8, 2)
    trace.row(
        ph="X", cat="cuda_event", name="CUDA Event Record", pid=0, tid=7, ts=40.5, dur=0.001,
        args={"event_id": 4, "device": 0, "context": 1, "stream": 7, "correlation": 2},
    )  # fmt: skip
    trace.launch("add", (9, 12), (41, 50), 3)
    found = read(trace, tmp_path)
    assert kinds(found)["CUDA Event Record"] == "sync_record"
    assert found.diagnostics["copies_among_kernels"] == 0
    graph = hg.build_graph(found)
    assert graph.is_gpu.sum() == 2
    assert graph.diagnostics["activities_without_launch"] == 0
