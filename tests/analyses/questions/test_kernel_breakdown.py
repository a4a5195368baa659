"""The kernel breakdown: types partition the busy time, statistics are of runs, names are chosen by share of time."""

from __future__ import annotations

import json
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.answer import answer_lines
from analyses.declare.scope import in_window, per_step, whole
from analyses.display.console import text_of
from analyses.hta.breakdowns import hta_kernel_breakdown
from analyses.hta.frame import hta_scopes
from analyses.questions.kernel_breakdown import answer, figure, kernel_breakdown, kernel_types
from analyses.questions.temporal_breakdown import temporal_breakdown
from hta_graph.base.errors import UsageError
from hta_graph.paths.gpu_activity import activities
from hta_graph.trace.profiler_names import COMMUNICATION_KERNEL
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

GOLDEN = ["ddp_v100", "dlrm_8xv100", "execution_trace_sample", "nanogpt_ab_current", "nanogpt_ab_hook"]
GOLDEN += ["nanogpt_ddp_8xh100", "nccl_args_a100", "ns_resolution_v100", "owlv2_pystack_h100", "sync_alexnet_a100"]

COMMUNICATION = (
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
    "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)",
    "rccl_main_kernel",
    "mscclKernel_Sum_float_LL(ncclDevComm*, mscclAlgo*, mscclWork*)",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*, int*)",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
    "nvshmemi_transfer_barrier",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(int)1>(int)",
    "void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8, false>(c10::BFloat16**)",
    "multimem_all_gather_kernel",
    "_mxfp8_all_to_all_expert_major_kernel",
    "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)",
    "userbuffers_fp16_sum_inplace_gpu_rr_ag_oop",
    "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(MoeA2ADispatchKernelPointers)",
    "mori::moe::EpCombineIntraNodeKernel<hip_bfloat16>",
    "c10d::symmetric_memory::barrier_kernel(unsigned int**)",
    "ag_gemm_persistent_kernel",
    "kernel_gemm_rs_producer_persistent",
    "void aiter::local_cross_device_store<float>(float*)",
    "hcom_allReduce__123",
)
COMPUTATION = (
    "triton_poi_fused_all_reduce_add_mul_0",
    "triton_per_fused__to_copy_all_gather_into_tensor_wait_tensor_3",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)",
    "void LayerNormBlockAllReduce<float>(float*)",
    "void fused_addmax<float>(float*)",
    "SyncBatchNorm_forward",
    "void clear_async_clusters<int>(int*)",
    "asyncClear",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long)",
    "splitKreduce_kernel",
    "void flash_fwd_splitkv_combine_kernel<float>(float*)",
    "multi_step_dispatch",
    "void deep_gemm::fp8_gemm_kernel<7168>(float*)",
    "cutlass_gemm_arch_sm90",
    "memory_efficient_fusion",
)


def build(tmp_path: Path) -> hg.DependencyGraph:
    """Gemms of 10 and 20, a reduction of 5 that all-reduce overlaps from 25 to 40, a copy from 38 to 45."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (0, 10), 1)
    trace.launch("gemm", (1, 2), (10, 30), 2)
    trace.launch("sum", (2, 3), (50, 55), 3)
    trace.launch("ncclDevKernel_AllReduce", (3, 4), (25, 40), 4, stream=8)
    trace.call("cudaMemcpyAsync", 4, 5, 5)
    trace.copy("Memcpy DtoD (Device -> Device)", 38, 45, 5, stream=9)
    return trace.graph(tmp_path)


def test_each_combination_of_types_has_the_time_in_which_exactly_these_run(tmp_path: Path) -> None:
    frame = kernel_types([whole(0, build(tmp_path))])
    assert dict(zip(frame["kernel_type"], frame["time_ns"], strict=True)) == {
        "computation": 30_000,
        "communication": 8_000,
        "computation overlapping communication": 5_000,
        "memory": 5_000,
        "communication overlapping memory": 2_000,
    }
    without = kernel_types([whole(0, build(tmp_path))], memory_kernels=False)
    assert dict(zip(without["kernel_type"], without["time_ns"], strict=True)) == {
        "computation": 30_000,
        "communication": 10_000,
        "computation overlapping communication": 5_000,
    }


def test_statistics_are_of_single_runs(tmp_path: Path) -> None:
    frame = kernel_breakdown([whole(2, build(tmp_path))]).set_index("kernel")
    gemm = frame.loc["gemm"]
    assert gemm[["rank", "count", "sum_ns", "min_ns", "max_ns", "mean_ns"]].tolist() == [
        2,
        2,
        30_000,
        10_000,
        20_000,
        15_000,
    ]
    assert gemm["std_ns"] == round(statistics.stdev([10_000, 20_000]))
    assert frame.loc["sum", "std_ns"] == 0
    assert frame["time_share"].sum() == pytest.approx(1)


def many(tmp_path: Path) -> hg.DependencyGraph:
    """Kernels k0 to k11 of 100, 90, 5, 5, … µs, each run twice."""
    trace = TraceBuilder()
    at = 0.0
    for run in range(2):
        for number in range(12):
            length = {0: 100, 1: 90}.get(number, 5)
            trace.launch(f"k{number}", (at, at + 1), (at, at + length), 100 * run + number + 1)
            at += length
    return trace.graph(tmp_path)


def test_names_are_kept_until_they_make_up_the_share_and_others_are_runs(tmp_path: Path) -> None:
    frame = kernel_breakdown([whole(0, many(tmp_path))], duration_ratio=0.7)
    assert frame["kernel"].tolist() == ["k0", "k1", "others"]
    others = frame.iloc[-1]
    assert others[["count", "sum_ns", "min_ns", "max_ns", "mean_ns", "std_ns"]].tolist() == [
        20,
        100_000,
        5_000,
        5_000,
        5_000,
        0,
    ]
    assert len(kernel_breakdown([whole(0, many(tmp_path))], num_kernels=12)) == 12
    assert len(kernel_breakdown([whole(0, many(tmp_path))], num_kernels=1)) == 2
    everything = kernel_breakdown([whole(0, many(tmp_path))], duration_ratio=1)
    assert everything["kernel"].tolist()[-1] == "others"
    assert len(everything) == 11


def test_the_quantile_rule_reads_the_ratio_as_a_share_of_names(tmp_path: Path) -> None:
    frame = kernel_breakdown([whole(0, many(tmp_path))], duration_ratio=0.5, by_quantile=True)
    assert len(frame) == 7
    assert frame["count"].sum() == 24


@pytest.mark.parametrize("wrong", [{"duration_ratio": 0}, {"duration_ratio": 1.5}, {"num_kernels": 0}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not"):
        kernel_breakdown([whole(0, build(tmp_path))], **wrong)


def test_no_gpu_work_is_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    scope = whole(0, trace.graph(tmp_path))
    found = answer([scope])
    assert found.main.empty
    assert found.main.columns.tolist() == ["rank", "scope", "kernel_type", "time_ns", "time_share"]
    assert found.tables["kernels"].columns[:6].tolist() == ["rank", "scope", "kernel_type", "kernel", "count", "sum_ns"]
    assert "no GPU activity" in found.notes[0]
    assert not figure(found).data
    types, kernels = hta_kernel_breakdown([scope], duration_ratio=0.8, num_kernels=10, include_memory_kernels=True)
    assert types.columns.tolist() == ["kernel_type", "sum", "percentage"]
    assert kernels.empty


def test_work_that_runs_behind_its_window_is_named(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(2):
        start, runs = 100 * number, 1_000 + 50 * number
        trace.annotation(f"ProfilerStep#{number}", start, start + 90)
        trace.launch("gemm", (start + 5, start + 9), (runs, runs + 40), number + 1)
    found = answer([in_window(0, trace.graph(tmp_path), hg.step(1, cpu_window=True))])
    named = "gemm takes the most GPU time: 40.0 µs in 1 run, 100% of all GPU work"
    assert list(found.conclusion) == [f"GPU idle 100% of the time (see idle-time); {named}"]
    assert found.main.empty


def test_no_work_but_copies_that_are_left_out_is_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::to", 0, 10)
    trace.copy("Memcpy DtoH (Device -> Pageable)", 12, 20, 5)
    scope = whole(3, hg.build_graph(hg.read_trace(trace.write(tmp_path / "copies.json"))))
    found = answer([scope], no_memory_kernels=True)
    assert found.tables["kernel_types"].empty
    assert found.notes == ["rank 3: the whole trace has only copies and memsets, which are left out"]
    assert not answer([scope]).notes


def test_a_terminal_gets_short_names_and_files_full_ones(tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    trace = TraceBuilder()
    trace.launch(name, (0, 1), (0, 10), 1)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.tables["kernels"]["kernel"].tolist() == [name]
    assert "vectorized_elementwise [CUDAFunctor_add]" in text_of(answer_lines(found), room=160)
    assert name in text_of(answer_lines(found))
    assert len(figure(found).data) == 2


def test_htas_frames(tmp_path: Path) -> None:
    types, kernels = hta_kernel_breakdown(
        [whole(0, build(tmp_path))], num_kernels=1, duration_ratio=0.8, include_memory_kernels=True
    )
    assert types.to_dict("list") == {
        "kernel_type": [
            "COMPUTATION", "COMMUNICATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY",
            "COMMUNICATION overlapping MEMORY",
        ],
        "sum": [30.0, 8.0, 5.0, 5.0, 2.0],
        "percentage": [60.0, 16.0, 10.0, 10.0, 4.0],
    }  # fmt: skip
    assert kernels.columns.tolist() == [
        "name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "kernel_type", "rank",
    ]  # fmt: skip
    assert kernels["name"].tolist() == [
        "ncclDevKernel_AllReduce", "gemm", "others", "Memcpy DtoD (Device -> Device)",
    ]  # fmt: skip
    assert kernels.loc[1, ["sum (us)", "max (us)", "min (us)", "mean (us)"]].tolist() == [30.0, 20.0, 10.0, 15.0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication_is_recognised(name: str) -> None:
    assert COMMUNICATION_KERNEL.search(name)


def test_a_kernel_of_any_name_that_a_recorded_collective_launches_communicates(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("c10d::allreduce_", 0, 30)
    trace.op("record_param_comms", 1, 20, **{"Collective name": "allreduce", "In msg nelems": 8})
    trace.launch("fused_new_kernel", (2, 3), (40, 50), 1)
    trace.op("aten::copy_", 5, 9)
    trace.launch("copy_of_the_bucket", (6, 7), (50, 60), 2)
    trace.op("aten::mm", 21, 25)
    trace.launch("gemm", (22, 23), (60, 70), 3)
    found = kernel_breakdown([whole(0, trace.graph(tmp_path))]).set_index("kernel")["kernel_type"]
    assert found.to_dict() == {
        "fused_new_kernel": "communication",
        "copy_of_the_bucket": "computation",
        "gemm": "computation",
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMPUTATION)
def test_computation_is_not_taken_for_communication(name: str) -> None:
    assert not COMMUNICATION_KERNEL.search(name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(5), *map(deep, range(5, 15))])
def test_types_partition_the_busy_time_of_simulated_programs(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 40)), Dialect()).document))
    check_identities(hg.build_graph(hg.read_trace(path)))


def check_identities(graph: hg.DependencyGraph) -> None:
    scopes = [whole(0, graph), *(per_step(0, graph) if graph.trace.steps() else [])]
    busy = temporal_breakdown(scopes).set_index("scope")
    typed = kernel_types(scopes).groupby("scope")["time_ns"].sum().reindex(busy.index, fill_value=0)
    assert (typed == busy["window_ns"] - busy["idle_ns"]).all()
    kernels = kernel_breakdown(scopes)
    summed = kernels.groupby("scope")["sum_ns"].sum().reindex(busy.index, fill_value=0)
    counted = kernels.groupby("scope")["count"].sum().reindex(busy.index, fill_value=0)
    assert summed.tolist() == [int((scope.work.end - scope.work.start).sum()) for scope in scopes]
    assert counted.tolist() == [len(scope.work) for scope in scopes]
    assert ((kernels["min_ns"] <= kernels["mean_ns"]) & (kernels["mean_ns"] <= kernels["max_ns"])).all()


@pytest.mark.shared
@pytest.mark.slow
def test_every_trace_is_an_identity_and_its_communication_is_known_by_name(real_traces: list[Path]) -> None:
    found = set()
    for path in real_traces:
        graph = graph_of_file(path)
        check_identities(graph)
        codes = graph.event_table.name[graph.event_flags.communicates]
        found |= {graph.names[code].partition("(")[0] for code in codes.tolist()}
        assert len(activities(graph)) == (graph.is_gpu & ~graph.event_flags.waits_on_device).sum()
    known = {
        "_combine_all_to_all_kernel",
        "_mxfp8_all_to_all_expert_major_kernel",
        "ncclDevKernel_AllGather_RING_LL",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
        "ncclDevKernel_SendRecv",
        "ncclKernel_AllReduce_RING_LL_Sum_float",
        "ncclKernel_Broadcast_RING_LL_Sum_int8_t",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
    }
    assert found == known if real_traces == shared_traces() else set() < found < known


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_the_exact_recomputation_is_met(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "independent.json").read_text())["ranks"]
    graphs = graphs_of(name)
    for scope_name, scopes in {
        "all": [whole(rank, graph) for rank, graph in graphs.items()],
        "documented_window": hta_scopes(graphs),
    }.items():
        for scope in scopes:
            check_types(scope, golden[str(scope.rank)]["scopes"][scope_name])


@cache
def graphs_of(name: str) -> dict[int, hg.DependencyGraph]:
    return {trace.rank or 0: hg.build_graph(trace) for trace in hg.read_traces(SHARED / "traces" / name)}


def check_types(scope: Any, exact: dict[str, Any]) -> None:
    types = kernel_types([scope])
    named = {
        label.upper().replace("OVERLAPPING", "overlapping"): time
        for label, time in types[["kernel_type", "time_ns"]].to_numpy()
    }
    assert named == {label: time for label, time in exact["kernel_type"].items() if time}
    kernels = kernel_breakdown([scope], num_kernels=10**9)
    for label, expected in exact["per_type"].items():
        own = kernels[kernels["kernel_type"] == label.lower()]
        assert [len(own), own["count"].sum(), own["sum_ns"].sum()] == [
            expected["names"], expected["events"], expected["sum_ns"],
        ]  # fmt: skip
        check_kernels(own.set_index("kernel"), expected["top10"])


def check_kernels(own: pd.DataFrame, top: list[dict[str, Any]]) -> None:
    for row in top:
        ours = own.loc[row["name"]]
        exactly = [row[key] for key in ("count", "sum_ns", "min_ns", "max_ns")]
        assert ours[["count", "sum_ns", "min_ns", "max_ns"]].tolist() == exactly
        assert ours["mean_ns"] == pytest.approx(row["mean_ns"], abs=1)
        assert ours["std_ns"] == pytest.approx(row["std_ns"] or 0, abs=1)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ddp_v100", "dlrm_8xv100", "execution_trace_sample", "sync_alexnet_a100"])
def test_htas_answer_is_met_where_it_is_right(name: str) -> None:
    graphs = graphs_of(name)
    for method, limit in {"get_gpu_kernel_breakdown": 10, "get_gpu_kernel_breakdown__all_kernels": 10**9}.items():
        types, kernels = hta_kernel_breakdown(
            hta_scopes(graphs), num_kernels=limit, by_quantile=True, duration_ratio=0.8, include_memory_kernels=True
        )
        golden = [frame_of(item) for item in hta_items(name, method)]
        pd.testing.assert_frame_equal(types, golden[0][golden[0]["sum"] > 0], check_dtype=False)
        columns = ["name", "sum (us)", "kernel_type", "rank"] if limit == 10 else golden[1].columns.tolist()
        pd.testing.assert_frame_equal(kernels[columns], golden[1][columns], check_dtype=False)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["nccl_args_a100", "ns_resolution_v100", "owlv2_pystack_h100"])
def test_htas_answer_without_rounding_is_met_but_for_its_float_error(name: str) -> None:
    items = hta_items(f"{name}__ns_rounding_off", "get_gpu_kernel_breakdown__all_kernels")
    _, kernels = hta_kernel_breakdown(
        hta_scopes(graphs_of(name)), num_kernels=10**9, duration_ratio=0.8, include_memory_kernels=True
    )
    pd.testing.assert_frame_equal(kernels, frame_of(items[1]), check_dtype=False, rtol=0, atol=2)


def hta_items(name: str, method: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads((SHARED / "golden" / name / f"{method}.json").read_text())["result"][
        "items"
    ]
    return items


def frame_of(item: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(item["rows"], columns=item["columns"])


def test_it_concludes_which_kernel_takes_most(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 40), 1)
    trace.launch("gemm", (2, 3), (50, 80), 2)
    trace.launch("softmax", (4, 5), (80, 100), 3)
    trace.launch("ncclDevKernel_AllReduce", (6, 7), (100, 120), 4, stream=8)
    first = "gemm takes the most GPU time: 60.0 µs in 2 runs, 60% of all GPU work; "
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.conclusion == [f"{first}80% of GPU busy time is computation"]
    assert answer([]).conclusion == []
