"""Which operator tells the work of which activity, and which share of it each activity does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hta_graph.paths.gpu_activity import activities
from hta_graph.roofline.activity_groups import activity_groups, operator_activities
from hta_graph.roofline.attainable import AttainableWork, attainable
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.devices import Device, gpu_name
from hta_graph.roofline.recorded_calls import RecordedCall
from tests.roofline.recorded_inputs import recorded
from tests.support.trace_builder import TraceBuilder

DEVICE = Device("mine", {"half": 100.0}, {"float": 10.0}, 1_000.0)
MM = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["c10::Half", "c10::Half"]}


def drawn() -> TraceBuilder:
    """Draw a product with a set and two kernels, the same product again, a copy from outside, communication.

    µs        0           20          40          60
    stream 7  [set][mm ][sum]  [mm     ][HtoD][nccl]
    """
    trace = TraceBuilder(deviceProperties=[{"id": 0, "name": "mine"}])
    trace.op("aten::mm", 0, 9, **MM)
    trace.call("cudaMemsetAsync", 1, 2, 1)
    trace.row(ph="X", cat="gpu_memset", name="Memset (Device)", pid=0, tid=7, ts=10, dur=2,
              args={"device": 0, "context": 1, "stream": 7, "correlation": 1})  # fmt: skip
    trace.launch("gemm", (3, 4), (12, 18), 2)
    trace.launch("splitKreduce", (5, 6), (18, 20), 3)
    trace.op("aten::mm", 10, 15, **MM)
    trace.launch("gemm", (11, 12), (25, 33), 4)
    trace.call("cudaMemcpyAsync", 16, 17, 5)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 33, 37, 5)
    trace.op("c10d::allreduce_", 20, 25, **MM)
    trace.launch("ncclDevKernel_AllReduce_Sum_f16_RING_LL()", (21, 22), (37, 41), 6)
    return trace


def limited(tmp_path: Path) -> AttainableWork:
    graph = drawn().graph(tmp_path)
    return AttainableWork(graph, activities(graph), DEVICE)


def test_all_that_an_operator_launched_shares_its_work_by_time(tmp_path: Path) -> None:
    found = operator_activities(drawn().graph(tmp_path))
    assert found.operator_ns.tolist() == [10_000, 10_000, 10_000, 8_000, 4_000, 4_000]
    assert found.number.tolist() == [0, 0, 0, 0, -1, -1]
    assert found.host_copy.tolist() == [False] * 4 + [True, False]


def test_equal_calls_are_one_group_and_copies_another(tmp_path: Path) -> None:
    graph = drawn().graph(tmp_path)
    groups = activity_groups(graph, activities(graph))
    assert [group.name for group in groups.groups] == ["aten::mm", "Memcpy HtoD (Pinned -> Device)"]
    assert groups.number.tolist() == [0, 0, 0, 0, 1]


def test_a_group_adds_up_the_work_of_its_calls(tmp_path: Path) -> None:
    work = limited(tmp_path)
    assert work.sum_of(work.calls.flops)[0] == 2 * (2 * 64 * 16 * 32)
    assert work.gpu_ns.tolist() == [18_000, 4_000]
    assert work.counted_calls.tolist() == [2, 1]
    moved = 2 * 2 * (64 * 32 + 32 * 16 + 64 * 16)
    np.testing.assert_allclose(work.limit_share[0], moved / 1e12 / 18e-6)


def test_no_kernel_is_taken_below_two_microseconds(tmp_path: Path) -> None:
    factor = limited(tmp_path).near_limit
    np.testing.assert_allclose(factor, [1, 2 / 6, 1, 2 / 8, 1])


def limit_of(device: Device, operator: str, *given: str) -> float:
    call = recorded(operator, *given)
    return float(attainable([RecordedCall(call, demand_of(call))], device).limit_ns[0])


def test_matrix_work_without_its_peak_and_other_work_without_bandwidth_have_no_limit() -> None:
    memory_only, no_memory = Device("a", {}, {}, 1_000.0), Device("b", {"half": 1.0}, {"float": 1.0}, None)
    assert np.isnan(limit_of(memory_only, "aten::mm", "c10::Half[64, 32]", "c10::Half[32, 16]"))
    assert np.isnan(limit_of(no_memory, "aten::add", "float[100]", "float[100]", "1"))
    assert limit_of(memory_only, "aten::add", "float[100]", "float[100]", "1") == 1.2


def test_gpus_of_several_names_are_no_one_device(tmp_path: Path) -> None:
    trace = drawn()
    trace.header["deviceProperties"] = [{"id": 0, "name": "one"}, {"id": 1, "name": "other"}]
    graph = trace.graph(tmp_path)
    assert (gpu_name(graph, [0]), gpu_name(graph, [0, 1]), gpu_name(graph, [7])) == ("one", "", "")
