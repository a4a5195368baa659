"""First sentences of analyses: the largest cause in all, idle time first where the GPU is idle, silence below 1%."""

from __future__ import annotations

from pathlib import Path

from analyses.declare.scope import Scope, whole
from analyses.questions import (
    attribution,
    idle_time,
    kernel_breakdown,
    memory_bandwidth,
    operator_kernels,
    overlap,
    roofline,
    temporal_breakdown,
)
from tests.support.gpu_in_slices import in_slices
from tests.support.trace_builder import TraceBuilder

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def scope_of(trace: TraceBuilder, tmp_path: Path) -> Scope:
    return whole(0, trace.graph(tmp_path))


def mostly_idle() -> TraceBuilder:
    """Ten kernels of 1 µs, one every 100 µs."""
    trace = TraceBuilder()
    for number in range(10):
        at = 100.0 * number
        trace.op("aten::add", at, at + 50)
        trace.launch("add_kernel", (at + 1, at + 5), (at + 10, at + 11), number + 1)
    return trace


def busy(copy_us: float, talk_us: float) -> TraceBuilder:
    """A kernel of 10 ms; a copy and a collective behind it, each of so many µs."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 2), (5, 10_005), 1)
    trace.call("cudaMemcpyAsync", 3, 4, 2)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 10_005, 10_005 + copy_us, 2)
    trace.launch(ALL_REDUCE, (5, 6), (10_005 + copy_us, 10_005 + copy_us + talk_us), 3, stream=20)
    return trace


def test_answers_about_the_work_begin_with_idle_time_where_the_gpu_is_mostly_idle(tmp_path: Path) -> None:
    scope = scope_of(mostly_idle(), tmp_path)
    for analysis in (kernel_breakdown, temporal_breakdown, operator_kernels):
        assert analysis.answer([scope]).conclusion[0].startswith("GPU idle 99% of the time (see idle-time); ")
    assert "GPU idle 99% of the window (mostly CPU" in roofline.answer([scope]).conclusion[0]


def test_idle_time_of_several_causes_is_one_part_of_the_window(tmp_path: Path) -> None:
    scope = scope_of(mostly_idle(), tmp_path)
    found = roofline.answer([scope])
    idle = found.tables["losses"][found.tables["losses"]["part"] == "idle"]
    assert len(idle) > 1
    assert idle["window_share"].sum() > idle["window_share"].max()


def test_what_takes_less_than_a_hundredth_is_no_headline(tmp_path: Path) -> None:
    scope = scope_of(busy(copy_us=20, talk_us=30), tmp_path)
    assert memory_bandwidth.answer([scope]).conclusion == ["copies and memsets take 20.0 µs, less than 1% of the time"]
    assert (
        overlap.answer([scope])
        .conclusion[0]
        .endswith("exposed communication takes 30.0 µs of 30.0 µs of communication, less than 1% of the time")
    )
    assert temporal_breakdown.answer([scope]).conclusion == ["the GPU computes >99% of the time"]
    assert all("largest cause" not in said for said in idle_time.answer([scope]).conclusion)


def test_what_takes_more_is_one(tmp_path: Path) -> None:
    scope = scope_of(busy(copy_us=2_000, talk_us=3_000), tmp_path)
    assert "takes the most copy time" in memory_bandwidth.answer([scope]).conclusion[0]
    assert "exposed communication takes 20% of the time" in overlap.answer([scope]).conclusion[0]


def test_without_communication_that_is_said_with_what_copies_take(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 2), (5, 105), 1)
    trace.call("cudaMemcpyAsync", 3, 4, 2)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 105, 205, 2)
    # The path's window begins with the launch, 5 µs earlier: no two lengths are called the whole trace.
    said = (
        "first to last GPU activity, 200.0 µs of the 205.0 µs trace: no communication; exposed copies take 50% of the "
        "time: 100.0 µs of 100.0 µs of copies"
    )
    assert overlap.answer([scope_of(trace, tmp_path)]).conclusion == [said]


def test_the_time_before_the_first_gpu_activity_is_told_from_the_whole_trace(tmp_path: Path) -> None:
    """Idle time is divided from the first activity to the last; a path begins with the host."""
    for begins, said in ((0, "first to last GPU activity, 10.1 ms of the 15.1 ms trace: "), (4_990, "whole trace, ")):
        trace = busy(copy_us=20, talk_us=30)
        for row in trace.rows:
            row["ts"] += 5_000
        trace.op("prepare", begins, 4_999)
        assert overlap.answer([scope_of(trace, tmp_path)]).conclusion[0].startswith(said)


def test_work_that_does_not_start_is_no_launch_in_progress(tmp_path: Path) -> None:
    """The launches returned 2 ms before: a GPU in time slices, or other ranks."""
    scope = scope_of(in_slices(30, 2_400), tmp_path)
    assert "; largest cause: launched work that does not start (" in idle_time.answer([scope]).conclusion[0]
    assert "(mostly launched work that does not start)" in roofline.answer([scope]).conclusion[0]


def test_gpu_work_without_an_owner_is_said_to_have_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 2), (5, 105), 1)
    assert attribution.answer([scope_of(trace, tmp_path)]).conclusion == ["no GPU work belongs to any operator"]
