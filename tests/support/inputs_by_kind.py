"""Inputs of the kinds that people pass, each with the right answer, which was written before the product was asked.

They follow what other programs write: mergers of ranks, profilers of other frameworks and vendors, archives, damaged
files, kernels and calls of many libraries. Times are in µs. Controls are inputs that only look like such a kind.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Document = dict[str, Any]
Made = bytes | Mapping[str, bytes]

STEP, BASE_NS = 1000, 1_700_000_000_000_000_000
THREAD, STREAM = 1000, 7
PARTS = ("mm", "add", "mul")


@dataclass
class Recording:
    """Rows of one process and its GPU, as Kineto writes them."""

    pid: int = THREAD
    gpu: int = 0
    header: Row = field(default_factory=lambda: {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS})
    calls: str = "cuda_runtime"
    rows: list[Row] = field(default_factory=list)
    correlation: int = 100
    external: int = 0

    def row(self, cat: str, name: str, ts: float, dur: float, **args: Any) -> Row:
        """Add a row of the process."""
        place = {"pid": self.pid, "tid": self.pid}
        self.rows.append({"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args})
        return self.rows[-1]

    def annotate(self, name: str, ts: float, dur: float) -> None:
        """Add an annotation."""
        self.row("user_annotation", name, ts, dur)

    def operator(self, name: str, ts: float, dur: float = 14, **args: Any) -> Row:
        """Add an operator with an external id of its own."""
        self.external += 1
        return self.row("cpu_op", name, ts, dur, **{"External id": self.external, **args})

    def call(self, name: str, ts: float, dur: float = 6) -> Row:
        """Add a call of the operator before it, with a correlation of its own."""
        self.correlation += 1
        return self.row(self.calls, name, ts, dur, correlation=self.correlation, **{"External id": self.external})

    def activity(self, name: str, ts: float, dur: float, cat: str = "kernel", **args: Any) -> Row:
        """Add work that the last call launched."""
        ids = {"device": self.gpu, "context": 1, "stream": STREAM, "correlation": self.correlation, **args}
        found = self.row(cat, name, ts, dur, **ids, **{"External id": self.external})
        found |= {"pid": self.gpu, "tid": STREAM}
        return found

    def launch(
        self, name: str, kernel: str, ts: float, start: float, dur: float, call: str = "cudaLaunchKernel", **args: Any
    ) -> Row:
        """Add an operator, its call and its kernel."""
        self.operator(name, ts)
        self.call(call, ts + 3)
        return self.activity(kernel, start, dur, **args)

    @property
    def document(self) -> Document:
        """The document of the trace."""
        return {**self.header, "traceEvents": self.rows}

    @property
    def kernels(self) -> list[Row]:
        """The rows of kernels."""
        return [row for row in self.rows if row["cat"] == "kernel"]


def text(document: object) -> bytes:
    """Write JSON."""
    return json.dumps(document).encode()


def steps(count: int = 3, length: int = 100) -> Recording:
    """Make steps that run mm, add and mul, each a kernel of one length."""
    made = Recording()
    for step in range(1, count + 1):
        _add_step(made, step, STEP * step, length)
    return made


def _add_step(made: Recording, number: int, at: int, length: int) -> None:
    made.annotate(f"ProfilerStep#{number}", at, 900)
    for place, name in enumerate(PARTS):
        made.launch(f"aten::{name}", f"k_{name}", at + 10 + 40 * place, at + 40 + (length + 10) * place, length)


PLAIN = text(steps().document)
EACH = dict.fromkeys((f"aten::{name}" for name in PARTS), 300)
"""What each operator of the plain steps takes on the GPU."""


def rank_of_job(rank: int, size: int = 2, late: int = 1, pid: int | None = None, gpu: int | None = None) -> Recording:
    """Make a rank of three steps with one all-reduce each, for which one rank is 100 µs late."""
    made = Recording(THREAD + rank if pid is None else pid, rank if gpu is None else gpu)
    made.header["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": size}
    for step in range(1, 4):
        at, slow = 2000 * step, 100 if rank == late else 0
        said = {
            "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": size,
            "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": str(list(range(size))), "Seq": step,
        }  # fmt: skip
        made.annotate(f"ProfilerStep#{step}", at, 1000)
        made.launch("aten::mm", "k_mm", at + 10, at + 30, 200 + slow)
        made.operator("record_param_comms", at + 40, **said)
        made.call("cudaLaunchKernelExC", at + 43)
        reduce = made.activity("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 232 + slow, 150 - slow, **said)
        reduce["args"]["stream"] = reduce["tid"] = 20
        made.launch("aten::add", "k_add", at + 60, at + 390, 50)
    return made


def merged(change: Callable[[Row, int], None], ranks: Sequence[Recording]) -> bytes:
    """Append the rows of ranks, each changed as a merger does."""
    rows = []
    for rank, made in enumerate(ranks):
        for row in deepcopy(made.rows):
            change(row, rank)
            rows.append(row)
    return text({**ranks[0].header, "traceEvents": rows})


def _two_ranks(**fixed: int) -> list[Recording]:
    return [rank_of_job(rank, **fixed) for rank in range(2)]


def _sglang(row: Row, rank: int) -> None:
    row["pid"] = f"[TP{rank:02d}] {row['pid']}"


def _sglang_of_groups(row: Row, rank: int) -> None:
    row["pid"] = f"[TP{rank % 2:02d}-DP{rank // 2:02d}] {row['pid']}"


def _offsets(row: Row, rank: int) -> None:
    row["pid"] += rank * 10_000_000
    if "correlation" in row["args"]:
        row["args"]["correlation"] += rank * 10_000_000


def _offset_of_process(row: Row, rank: int) -> None:
    row["pid"] += rank * 100_000_000


def _words(row: Row, rank: int) -> None:
    row["pid"] = f"rank{rank}:{'gpu' if row['cat'] == 'kernel' else ''}{row['pid']}"


def _unchanged(row: Row, rank: int) -> None:
    del row, rank


def two_gpus() -> Recording:
    """Make one process that launches on two GPUs."""
    made = Recording()
    for step in range(1, 4):
        for gpu in range(2):
            made.gpu = gpu
            made.launch("aten::mm", "k_mm", STEP * step + 40 * gpu, STEP * step + 60 + 40 * gpu, 100)
    return made


def beside_a_worker() -> Recording:
    """Make steps with operators of a process that loads data."""
    made = steps()
    for step in range(1, 4):
        row = made.operator("aten::stack", STEP * step + 100, 200)
        row |= {"pid": 1100, "tid": 1100}
    return made


# -- other writers ----------------------------------------------------------------------------------------------------


def _named(pid: int, name: str) -> Row:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _bar(name: str, cat: str) -> Row:
    return {"ph": "X", "cat": cat, "name": name, "pid": "node:1", "tid": "worker:a", "ts": 1, "dur": 8}


def old_autograd() -> bytes:
    """Make what ``torch.autograd.profiler`` wrote before Kineto."""
    rows: list[Row] = []
    for place, name in enumerate(PARTS):
        start, cpu, gpu = 1000.5 + 100 * place, {"pid": "CPU functions", "tid": 1}, {"pid": "CUDA functions", "tid": 0}
        arrow = {"id": place, "cat": "cpu_to_cuda", "args": {}}
        rows += [
            {"name": f"aten::{name}", "ph": "X", "ts": start, "dur": 20.25, **cpu, "args": {}},
            {"name": f"aten::{name}", "ph": "s", "ts": start, **cpu, **arrow},
            {"name": f"k_{name}", "ph": "f", "ts": start + 40, **gpu, **arrow},
            {"name": f"k_{name}", "ph": "X", "ts": start + 40, "dur": 50.0, **gpu, "args": {}},
        ]
    return text(rows)


def paddle() -> bytes:
    """Make a trace of PaddlePaddle: categories of old Kineto, other names of ids, an empty row."""
    rows: list[Row] = []
    for place in range(3):
        start, host = 1000 + 200 * place, {"pid": 41, "tid": "41(C++)", "ph": "X"}
        ids = {"correlation id": place}
        rows += [
            {"name": "matmul[0.020 ms]", **host, "ts": start, "dur": 20.5, "cat": "Operator"},
            {"name": "cudaLaunchKernel", **host, "ts": start + 5, "dur": 7.0, "cat": "CudaRuntime", "args": ids},
            {"name": "k", "ph": "X", "pid": 0, "tid": 7, "ts": start + 30, "dur": 100.0, "cat": "Kernel", "args": ids},
        ]
    return text({"schemaVersion": "1.0.1", "span_indx": "0", "deviceProperties": [], "traceEvents": [*rows, {}]})


def unitrace() -> bytes:
    """Make a trace of Intel's unitrace: calls of Level Zero are its ``cpu_op``."""
    rows = [_named(8000, "RANK 0 DEVICE<HOST>[0]")]
    for place in range(3):
        start = 1000 + 200 * place
        call, kernel = "zeCommandListAppendLaunchKernel", "gemm[SIMD32 {64; 1; 1}]"
        rows += [
            {"ph": "X", "pid": 8000, "tid": 11, "name": call, "cat": "cpu_op", "ts": start, "dur": 9, "id": place},
            {"ph": "X", "pid": 8001, "tid": 1, "name": kernel, "cat": "gpu_op", "ts": start + 20, "dur": 100},
        ]
    return text({"traceEvents": rows})


def mxnet() -> bytes:
    """Make a trace of MXNet: GPU work is its ``operator``."""
    place = {"name": "[gpu/0] FullyConnected", "cat": "operator", "pid": 1, "tid": 7}
    rows = [{**place, "ph": side, "ts": at + (side == "E")} for at in range(1000, 1012, 2) for side in "BE"]
    return text({"traceEvents": [_named(1, "gpu/0"), *rows]})


def msprof() -> bytes:
    """Make a trace of Ascend's msprof: no categories, times as text."""
    rows = [_named(310, "CANN"), _named(410, "Ascend Hardware")]
    for place in range(3):
        at, ids = 1704161511420306.491 + 200 * place, {"connection_id": place}
        call = {"name": "AscendCL@aclnnMatmul", "pid": 310, "tid": 501, "ts": f"{at:.3f}", "dur": 12.5}
        task = {"name": "MatMulV2", "pid": 410, "tid": 2, "ts": f"{at + 30:.3f}", "dur": 100.0}
        rows += [{"ph": "X", **call, "args": ids}, {"ph": "X", **task, "args": ids}]
    return text(rows)


def tensorflow() -> bytes:
    """Make a trace of TensorFlow's profiler, which names devices as XLA does."""
    args = {"tf_op": "model/dense/MatMul:MatMul"}
    rows = [{"ph": "X", "pid": 1, "tid": 13, "ts": at, "dur": 40.0, "name": "sgemm", "args": args} for at in (1, 50)]
    return text({"displayTimeUnit": "ns", "traceEvents": [_named(1, "/device:GPU:0 (pid 1)"), *rows, {}]})


def proton() -> bytes:
    """Make a trace of Triton's Proton: kernels without launches."""
    place = {"cat": "kernel", "ph": "X", "pid": 0, "tid": "Stream 7", "args": {"call_stack": ["ROOT"]}}
    rows = [{"name": "matmul_kernel", **place, "ts": 100.0 + 60 * at, "dur": 50.0} for at in range(8)]
    return text({"displayTimeUnit": "us", "baseTimeNanoseconds": BASE_NS, "traceEvents": [_named(0, "Trace"), *rows]})


# -- archives and texts -----------------------------------------------------------------------------------------------

HOST_TRACE = text({"schema": "1.1.1-chakra.0.0.4", "pid": 12, "nodes": [{"id": 1, "name": "process", "inputs": {}}]})
TIMELINE = text([[at, "create", 512, 3] for at in range(9000)])
BESIDE = {
    "run/timeline.json": TIMELINE,
    "run/config.json": b'{"lr": 0.1}',
    "run/README.md": b"# run\n",
    "run/et.json": HOST_TRACE,
}


def in_zip(members: Mapping[str, bytes]) -> bytes:
    """Pack members into a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def in_tar(members: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """Pack members into a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


# -- rows that do not mean what they say ------------------------------------------------------------------------------


def amd(*work: tuple[str, str, float]) -> Recording:
    """Make steps of calls of HIP, each of which leaves a row among the kernels."""
    made = Recording()
    for step in range(1, 4):
        at = start = 2000 * step
        for call, name, length in work:
            start += 10
            made.launch("aten::copy_", name, at, start + 60, length, call)
            at, start = at + 20, start + int(length)
    return made


def amd_graph() -> Recording:
    """Make a graph of HIP that fills, computes and copies."""
    made = Recording()
    made.operator("graph", 1000, 40)
    made.call("hipGraphLaunch", 1005, 20)
    for place, name in enumerate(("__amd_rocclr_fillBufferAligned", "Cijk_Ailk", "__amd_rocclr_copyBufferAligned")):
        made.activity(name, 1050 + 110 * place, 100)
    return made


def late_ends(*lengths: tuple[int, float], count: int = 5) -> Recording:
    """Make steps in which some kernels, by number, have ends that are stamped late."""
    made = steps(count)
    for number, length in lengths:
        made.kernels[number]["dur"] = length
    return made


def late_copy() -> Recording:
    """Make steps and a copy of 2.5 MB whose end is stamped late: 100 µs later other work of the stream begins."""
    made = steps()
    made.operator("aten::copy_", 1300, 20)
    made.call("cudaMemcpyAsync", 1303, 8)
    made.activity("Memcpy HtoD (Pinned -> Device)", 1400, 1500, "gpu_memcpy", bytes=2_500_000)
    made.launch("aten::relu", "k_relu", 1330, 1500, 100)
    return made


def overlapping() -> Recording:
    """Make kernels that begin before the ones before them end, as with programmatic launch."""
    made = Recording()
    made.operator("graph", 1000, 40)
    made.call("cudaGraphLaunch", 1005, 20)
    for place in range(20):
        made.activity(f"triton_{place % 4}", 1050 + 40 * place, 44)
    return made


def exchanged(parts: Sequence[Sequence[int]], length: float, dtype: str = "BFloat16") -> dict[str, bytes]:
    """Make ranks that send each other these numbers of elements."""
    ranks, found = range(len(parts)), {}
    for rank in ranks:
        made = Recording(THREAD + rank, rank)
        made.header["distributedInfo"] = {"rank": rank, "world_size": len(parts)}
        received = [parts[other][rank] for other in ranks]
        for step in range(1, 4):
            said = {
                "Collective name": "all_to_allv", "In msg nelems": sum(parts[rank]), "Out msg nelems": sum(received),
                "Group size": len(parts), "dtype": dtype, "Process Group Name": "0", "Seq": step,
                "Process Group Ranks": str(list(ranks)), "In split size": str(list(parts[rank])),
                "Out split size": str(received),
            }  # fmt: skip
            made.annotate(f"ProfilerStep#{step}", 3000 * step, 2900)
            made.operator("record_param_comms", 3000 * step + 40, **said)
            made.call("cudaLaunchKernel", 3000 * step + 43)
            made.activity("ncclDevKernel_SendRecv", 3000 * step + 300, length, **said)
        found[f"rank{rank}.json"] = text(made.document)
    return found


def lost_returns(count: int) -> Recording:
    """Make modules of which the first loses the returns of its innermost frames."""
    made, number = Recording(), 0

    def frame(name: str, ts: float, dur: float, parent: int | None) -> int:
        nonlocal number
        number += 1
        made.row("python_function", name, ts, dur, **{"Python id": number, "Python parent id": parent})
        return number

    top = frame("train.py(10): main", 900, 7100, None)
    for place in range(6):
        at, name = 1020 + 1000 * place, ("Attention_0", "MLP_0")[place % 2]
        lost = count if place == 0 else 0
        module = frame(f"nn.Module: {name}", at, 800, top)
        inner = frame("model.py(1): inner", at + 5, 7000 if lost > 1 else 700, module)
        frame("model.py(2): leaf", at + 10, 6990 if lost else 600, inner)
        made.launch("aten::mm", f"k_{name}", at + 20, at + 60, 500)
    return made


def early_calls(early: float, gap: int, *, own_ids: bool = True) -> Recording:
    """Make calls that begin before their operators, which follow each other after a gap."""
    made = Recording()
    for step in range(1, 4):
        for place, name in enumerate(PARTS):
            at = STEP * step + 10 + gap * place
            made.operator(f"aten::{name}", at, min(gap, 14))
            made.call("cudaLaunchKernel", at - early, 10)
            made.activity(f"k_{name}", STEP * step + 100 + 110 * place, 100)
    for row in made.rows:
        if not own_ids:  # External ids of 2023: a call's is its correlation, which another operator may have, too
            ids = row["args"]
            ids["External id"] = ids.get("correlation", ids["External id"] + 99)
    return made


# -- calls, arrows, names ---------------------------------------------------------------------------------------------


def waits(launch: str, wait: str, calls: str, length: float = 705) -> Recording:
    """Make steps in which a call returns 7 µs after a kernel of 700 µs, unless its length differs."""
    made = Recording(calls=calls)
    for step in range(1, 4):
        at = 2000 * step
        made.annotate(f"ProfilerStep#{step}", at, 1800)
        made.launch("aten::mm", "gemm", at + 10, at + 40, 700, launch)
        made.operator("aten::item", at + 40, 740)
        made.call(wait, at + 42, length)
        made.launch("aten::add", "add", at + 800, at + 830, 50, launch)
    return made


def by_arrows(category: str, spell: Callable[[int], object]) -> Recording:
    """Make steps whose launches are recorded as arrows only."""
    made = steps()
    arrows = []
    for row in made.rows:
        correlation = row["args"].pop("correlation", None)
        if correlation is not None:
            side = {"ph": "f", "bp": "e"} if row["cat"] == "kernel" else {"ph": "s"}
            place = {key: row[key] for key in ("pid", "tid", "ts")}
            arrows.append({**side, **place, "id": spell(correlation), "cat": category, "name": category})
            row["args"].pop("External id")
    made.rows += arrows
    return made


def replayed(key: str, *names: str) -> Recording:
    """Make replays of a graph whose kernels were annotated at capture."""
    made = Recording()
    for step in range(1, 4):
        made.operator("replay", STEP * step, 40)
        made.call("cudaGraphLaunch", STEP * step + 5, 30)
        for place, name in enumerate(names):
            ids = {"graph node id": 77 + place, **({key: name} if name else {})}
            made.activity(f"triton_{place}", STEP * step + 100 + 110 * place, 100)["args"] |= ids
    return made


def annotated(*names: str) -> Recording:
    """Make annotations that launch 100 µs each."""
    made = Recording()
    for place, name in enumerate(names):
        made.annotate(name, STEP + 500 * place, 400)
        made.launch("aten::mm", "k_mm", STEP + 10 + 500 * place, STEP + 40 + 500 * place, 100)
    return made


def kernels(*names: str) -> Recording:
    """Make kernels of 100 µs by name."""
    made = Recording()
    for place, name in enumerate(names):
        made.launch("aten::x", name, STEP + 30 * place, STEP + 40 + 110 * place, 100)
    return made


COMMUNICATION = (
    "void (anonymous namespace)::kuserbuffers_pushsend<16>(int*, int4*)", "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
    "void tensorrt_llm::kernels::moeA2ADispatchKernel<8>(int const*)", "moeA2ACombineKernel<__nv_bfloat16>",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecQ4<__half, 4>>(__half const*)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void deep_ep::internode_ll::dispatch<true>(void*)", "void deep_ep::intranode::combine<__nv_bfloat16>(int4*)",
    "void mscclpp::allreduce7<__half>(int)", "allreduce_fusion_kernel_oneshot_lamport<3>",
    "two_shot_all_reduce_kernel", "multimem_all_reduce_kernel<c10::BFloat16, 16>", "barrier_on_stream_kernel_nvshmem",
    "void flux::CommNone_gemm_rs_reduce_scatter_kernel<cutlass::half_t>(int)", "mori::moe::EpDispatchIntraNodeKernel",
    "rcclGenericKernel<1, false>", "onecclDevKernel_allreduce_ring_simple<float>", "kernel_fused_allgather_gemm_bf16",
)  # fmt: skip
COMPUTATION = (
    "at::native::reduce_kernel<512, 1>", "at::native::_scatter_gather_elementwise_kernel<256>", "block_all_reduce_sum",
    "vllm::moe::moe_align_block_size_kernel<int>", "tensorrt_llm::finalizeMoeRoutingKernel", "warpAllReduceMax",
    "permute_tokens_dispatch_sorted_kernel", "cub::DeviceReduceSingleTileKernel", "split_with_sizes_copy_out_kernel",
    "triton_red_fused__to_copy_mean_broadcast_0", "at::native::vectorized_gather_kernel<16>", "fused_moe_combine_local",
)  # fmt: skip


def unnamed_exchange(rank: int) -> Recording:
    """Make a rank that is late in every other step, where ranks meet in a kernel of an unknown name."""
    made = Recording(THREAD + rank, rank)
    made.header["distributedInfo"] = {"rank": rank, "world_size": 2}
    for step in range(1, 31):
        at, slow = STEP * step, 120 * ((step + rank) % 2)
        made.launch("aten::mm", "k_mm", at + 10, at + 30, 100 + slow)
        made.launch("my::exchange", "acme_fast_exchange_v2", at + 40, at + 140 + slow, 150 - slow)
    return made


def cycles(*lengths: int) -> Recording:
    """Make cycles of two steps with equal numbers, each with kernels of its own length."""
    made = Recording()
    for cycle, length in enumerate(lengths):
        for step in (1, 2):
            _add_step(made, step, 5000 * cycle + STEP * step, length)
    return made


def job(**files: bytes) -> dict[str, bytes]:
    """Make a folder of two ranks and other files."""
    named = {f"rank{rank}.json": text(rank_of_job(rank).document) for rank in range(2)}
    return named | {name.replace("__", "/"): data for name, data in files.items()}


def flight_dump(rank: int) -> Document:
    """Make a dump of the flight recorder that knows the numbers of the all-reduces."""
    entries = [
        {
            "record_id": step, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": step,
            "op_id": step, "profiling_name": "nccl:all_reduce", "input_sizes": [[1000]], "input_dtypes": ["Float"],
            "output_sizes": [[1000]], "output_dtypes": ["Float"], "state": "completed", "is_p2p": False,
            "time_created_ns": BASE_NS + 2_000_000 * step, "frames": [], "rank": rank,
        }
        for step in range(1, 4)
    ]  # fmt: skip
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": entries}


# -- damaged text -----------------------------------------------------------------------------------------------------

LINES = json.dumps(steps().document, indent=1)


def damaged(old: str, new: str, number: int = 1) -> bytes:
    """Replace one of the occurrences of a text."""
    at = -1
    for _ in range(number):
        at = LINES.index(old, at + 1)
    return (LINES[:at] + new + LINES[at + len(old) :]).encode()


def with_a_hole() -> bytes:
    """Lose 1 KB in the middle, as a crashed disk does."""
    whole = LINES.encode()
    return whole[: len(whole) // 2] + bytes(1024) + whole[len(whole) // 2 + 1024 :]


# -- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """An input, what it is asked, and what is right.

    Attributes:
        make: its bytes, or the files of a folder.
        ask: the question, one of the tests' ``QUESTIONS``; nothing if the input has to be refused.
        right: the answer; what the line must say, if it is refused.
        said: what a note, or a line on standard error, must say.
        name: what the file is called.
    """

    make: Callable[[], Made]
    ask: str
    right: Any
    said: str = ""
    name: str = "trace.json"


def _made(recording: Recording) -> Callable[[], Made]:
    return lambda: text(recording.document)


def _bytes(data: Made) -> Callable[[], Made]:
    return lambda: data


LATE = {1: 300}
MERGED = "holds the recordings of 2 ranks; read as ranks 0, 1"
THREE = {"computation": 900}
WAITED = {"gpu_compute_bound": 700, "cpu_bound": 56}


def _wait(launch: str, wait: str, calls: str = "privateuse1_runtime") -> Input:
    return Input(_made(waits(launch, wait, calls)), "host", WAITED)


INPUTS: dict[str, Input] = {
    # several ranks in one file
    "merged: SGLang": Input(lambda: merged(_sglang, _two_ranks()), "late", LATE, MERGED),
    "merged: SGLang, two kinds of groups": Input(
        lambda: merged(_sglang_of_groups, [rank_of_job(rank, 4, 2) for rank in range(4)]), "late", {2: 900}
    ),
    "merged: offsets of all ids": Input(lambda: merged(_offsets, _two_ranks()), "late", LATE, MERGED),
    "merged: offset of the process": Input(lambda: merged(_offset_of_process, _two_ranks()), "late", LATE, MERGED),
    "merged: words": Input(lambda: merged(_words, _two_ranks()), "late", LATE, MERGED),
    "merged: appended": Input(lambda: merged(_unchanged, _two_ranks()), "late", LATE, MERGED),
    "merged: appended, ranks of two hosts": Input(
        lambda: merged(_unchanged, _two_ranks(pid=THREAD, gpu=0)), "", "holds several recordings of one process id"
    ),
    "control: one process, two GPUs": Input(_made(two_gpus()), "operators", {"aten::mm": 600}),
    "control: a worker's operators": Input(_made(beside_a_worker()), "operators", EACH),
    # other writers
    "before Kineto": Input(old_autograd, "operators", dict.fromkeys(EACH, 50)),
    "Proton": Input(proton, "types", {"computation": 400}),
    "PaddlePaddle": Input(paddle, "", "it looks like PaddlePaddle's profiler"),
    "unitrace": Input(unitrace, "", "it looks like Intel's unitrace"),
    "MXNet": Input(mxnet, "", "it looks like MXNet's profiler"),
    "msprof": Input(msprof, "", "it looks like Ascend's msprof"),
    "TensorFlow": Input(tensorflow, "", "it looks like TensorFlow's profiler"),
    "Perfetto's JSON": Input(
        _bytes(text({"systemTraceEvents": "", "traceEvents": [_bar("queue_submit", "gpu")]})),
        "", "no event has a category of PyTorch's profiler (found: gpu)",
    ),
    "ray": Input(
        _bytes(text([_bar("train", "task::train")])),
        "", "no event has a category of PyTorch's profiler (found: task::train)",
    ),
    "control: a runtime that is no vendor's": Input(
        _bytes(text([_bar("load", "app_runtime")])), "", "(found: app_runtime)"
    ),
    "speedscope": Input(_bytes(text({"$schema": "s", "profiles": []})), "", "is JSON without traceEvents"),
    "a host execution trace": Input(_bytes(HOST_TRACE), "", "is a host execution trace without traceEvents"),
    "Moore Threads": Input(_made(waits("musaLaunchKernel", "musaStreamSynchronize", "musa_runtime")), "operators",
                           {"aten::mm": 2100, "aten::add": 150}),
    # archives and texts
    "zip with settings and a host trace": Input(
        lambda: in_zip({"run/trace.json": PLAIN, **BESIDE}), "types", THREE, name="artifacts.zip"
    ),
    "tar.gz with settings": Input(
        lambda: in_tar({**BESIDE, "run/trace.json": PLAIN}), "types", THREE, name="run.tar.gz"
    ),
    "tar.gz under another name": Input(lambda: in_tar({"trace.json": PLAIN}), "types", THREE, name="trace.json.gz"),
    "zip of two ranks": Input(lambda: in_zip(job()), "", "is a zip archive of several traces", name="job.zip"),
    "zip of settings": Input(lambda: in_zip(BESIDE), "", "is a zip archive without a trace", name="run.zip"),
    "tar.xz": Input(lambda: lzma.compress(in_tar({"t.json": PLAIN}, "w")), "", "is an xz file; unpack it"),
    "gzip twice": Input(lambda: gzip.compress(gzip.compress(PLAIN)), "types", THREE, name="trace.json.gz"),
    "zip in gzip": Input(lambda: gzip.compress(in_zip({"t.json": PLAIN})), "", "holds a zip archive inside; unpack it"),
    "UTF-8 with a mark": Input(_bytes(b"\xef\xbb\xbf" + PLAIN), "types", THREE),
    "JSON lines": Input(
        lambda: b"\n".join(map(text, steps().rows)), "", "is JSON lines, one document per line; join the events"
    ),
    "two traces, one per line": Input(
        lambda: PLAIN + b"\n" + PLAIN, "", "is JSON lines, one document per line; split it into files"
    ),
    "git-annex pointer": Input(
        _bytes(b"/annex/objects/SHA256E-s123--abc.json.gz\n"), "", "is a git-annex pointer", name="trace.json.gz"
    ),
    "git-annex link": Input(_bytes(b"../.git/annex/objects/6X/1w/SHA256E-s1--a.json"), "", "is a git-annex pointer"),
    "a table": Input(_bytes(b"Time (%),Name\n50.0,k\n"), "", "is not JSON: Expecting value at byte 0, after 0"),
    "a log": Input(_bytes(b"[2026-01-01 10:00:00] INFO step 1\n" * 20), "", "is not JSON: Expecting ',' delimiter"),
    "a notebook": Input(_bytes(text({"cells": [], "nbformat": 4})), "", "is JSON without traceEvents"),
    "a picture": Input(_bytes(b"\x89PNG\r\n\x1a\n" + bytes(60)), "", "is a picture; pass a Kineto trace"),
    "a memory snapshot": Input(
        _bytes(pickle.dumps({"segments": [], "device_traces": [[]]}, 4)), "", "is a pickle of PyTorch's memory snapshot"
    ),
    # copies, sets and marks among kernels
    "AMD: blits": Input(
        _made(amd(("hipMemcpyAsync", "__amd_rocclr_copyBuffer", 200), ("hipMemsetAsync", "__amd_rocclr_fill", 50),
                  ("hipMemcpy2DAsync", "__amd_rocclr_copyBufferRect", 100), ("hipModuleLaunchKernel", "Cijk_A", 300))),
        "types", {"memory": 1050, "computation": 900},
    ),
    "AMD: copies of unknown names": Input(
        _made(amd(("hipMemcpyDtoHAsync", "xDMA_Engine3_Linear", 200), ("hipMemcpyPeerAsync", "P2PBlit_17", 100),
                  ("hipExtModuleLaunchKernel", "rocprim", 300))),
        "types", {"memory": 900, "computation": 900},
    ),
    "AMD: a graph's copies": Input(_made(amd_graph()), "types", {"memory": 200, "computation": 100}),
    "AMD: marks and barriers": Input(
        _made(amd(("hipEventRecord", "Marker", 30), ("hipStreamWaitEvent", "Barrier", 40),
                  ("hipLaunchKernel", "Cijk_A", 100))),
        "types", {"computation": 300},
    ),
    "control: kernels that copy": Input(
        _made(amd(("hipLaunchKernel", "direct_copy_kernel", 100), ("hipLaunchKernel", "fused_copy_and_set_kv", 100))),
        "types", {"computation": 600},
    ),
    # ends that are stamped late
    "late end": Input(_made(late_ends((3, 3000))), "kernels", dict.fromkeys(("k_mm", "k_add", "k_mul"), 500),
                      "its end is stamped late"),
    "two late ends": Input(_made(late_ends((1, 900), (5, 1500), count=4)), "kernels",
                           dict.fromkeys(("k_mm", "k_add", "k_mul"), 400), "its end is stamped late"),
    "late end of a copy": Input(_made(late_copy()), "bandwidth", {"Memcpy HtoD": 25.0}, "its end is stamped late"),
    "late end of the last row": Input(
        _made(late_ends((8, 5_000_000), count=3)), "kernels", {"k_mm": 300, "k_add": 300, "k_mul": 5_000_200},
        "so its end may be stamped late",
    ),
    "a length of 584 years": Input(
        _made(late_ends((4, 18446744073709546.0), count=3)), "kernels", {"k_mm": 300, "k_add": 200, "k_mul": 300},
        "events without a valid start and duration: 1 (rows_dropped_bad_time)",
    ),
    "control: programmatic launch": Input(
        _made(overlapping()), "kernels", {f"triton_{number}": 220 for number in range(4)}
    ),
    # uneven exchanges
    "exchange of two ranks": Input(
        lambda: exchanged([[10_000_000, 30_000_000], [2_000_000, 10_000_000]], 1000), "bus", [60.0]
    ),
    "exchange with one hot rank": Input(
        lambda: exchanged(
            [[0, 0, 0, 8_000_000], [0, 5_000_000, 0, 8_000_000], [0, 0, 0, 8_000_000],
             [4_000_000, 0, 4_000_000, 1_000_000]],
            500, "Float",
        ),
        "bus", [192.0],
    ),
    # lost returns, early calls
    "a leaf's return is lost": Input(
        _made(lost_returns(1)), "modules", {"nn.Module: Attention_0": 1500, "nn.Module: MLP_0": 1500}, "called them: 1"
    ),
    "two returns are lost": Input(
        _made(lost_returns(2)), "modules", {"nn.Module: Attention_0": 1500, "nn.Module: MLP_0": 1500}, "called them: 2"
    ),
    "calls inside the operator before": Input(_made(early_calls(4, 20)), "operators", EACH),
    "calls just before": Input(_made(early_calls(0.8, 40)), "operators", EACH),
    "control: ids that are correlations": Input(_made(early_calls(-3, 40, own_ids=False)), "operators", EACH),
    # waits of other vendors
    "wait: urQueueFinish": _wait("urEnqueueKernelLaunch", "urQueueFinish", "xpu_runtime"),
    "wait: zeEventHostSynchronize": _wait("zeCommandListAppendLaunchKernel", "zeEventHostSynchronize", "xpu_runtime"),
    "wait: Habana": _wait("synLaunch", "synStreamSynchronize"),
    "wait: Ascend": _wait("aclnnMatmul", "aclrtSynchronizeStreamWithTimeout"),
    "wait: Cambricon": _wait("cnInvokeKernel", "cnrtQueueSync"),
    "wait: Moore Threads": _wait("musaLaunchKernel", "musaDeviceSynchronize", "musa_runtime"),
    "wait: MetaX": _wait("mcLaunchKernel", "mcStreamSynchronize", "maca_runtime"),
    "wait: per-thread stream": _wait("cudaLaunchKernel_ptsz", "cudaStreamSynchronize_ptsz", "cuda_runtime"),
    "wait: an unknown vendor": _wait("fooEnqueue", "fooQueueDrain", "foo_runtime"),
    "control: a long call that is no wait": Input(
        _made(waits("fooEnqueue", "fooCompileGraph", "foo_runtime", 405)), "host", {"cpu_bound": 768}
    ),
    # launches as arrows
    "arrows": Input(_made(by_arrows("ac2g", int)), "operators", EACH),
    "arrows with text ids": Input(_made(by_arrows("async_cpu_to_gpu", "0x{:x}".format)), "operators", EACH),
    # damaged text
    "quotes in the first name": Input(
        _bytes(damaged('"aten::mm"', '"foo.py(3): <lambda "x">"')), "salvaged", THREE, "1 skipped"
    ),
    "quotes in the last name": Input(_bytes(damaged('"aten::mul"', '"f"oo"', 3)), "salvaged", THREE, "1 skipped"),
    "inf": Input(_bytes(damaged('"dur": 100', '"dur": inf', 4)), "types", {"computation": 800}, "without a valid"),
    "-nan": Input(_bytes(damaged('"dur": 100', '"dur": -nan', 2)), "types", {"computation": 800}, "without a valid"),
    "a comma is missing": Input(
        _bytes(damaged("},\n  {", "}\n  {", 9)), "salvaged", THREE, "30 complete events recovered\n"
    ),
    "a hole": Input(with_a_hole, "salvaged", {"computation": 700}, "at least 1 skipped"),
    "no UTF-8": Input(lambda: damaged('"k_add"', '"k??"').replace(b"k??", b"k\xff\xfe"), "types", THREE),
    # names
    "graph: phases": Input(_made(replayed("name", "A", "A", "B")), "annotations", {"A": 600, "B": 300}),
    "graph: phases of the first version": Input(
        _made(replayed("annotation", "A", "B", "B")), "annotations", {"A": 300, "B": 600}
    ),
    "graph: modules": Input(
        _made(replayed("module_fqn", "layers.0.attn", "layers.1.attn")), "modules",
        {"layers.0.attn": 300, "layers.1.attn": 300},
    ),
    "numbers: TensorRT-LLM": Input(
        _made(annotated(*(f"[Executor] _forward_step {at}: {at % 3} ctx reqs" for at in range(40)))), "folded",
        {"[Executor] _forward_step #: # ctx reqs": (40, 4000)},
    ),
    "numbers: a counter": Input(
        _made(annotated(*(f"FSDPStrategy.training_step_{at}" for at in range(30)))), "folded",
        {"FSDPStrategy.training_step_#": (30, 3000)},
    ),
    "numbers: an index": Input(
        _made(annotated(*(f"train batch_idx={at}" for at in range(25)))), "folded", {"train batch_idx=#": (25, 2500)}
    ),
    "numbers: next to a name": Input(
        _made(annotated(*(f"microbatch {at}/32" for at in range(32)), *["optimizer"] * 3)), "folded",
        {"microbatch #/#": (32, 3200), "optimizer": (3, 300)},
    ),
    "control: numbers of layers": Input(
        _made(annotated(*(f"layers.{at % 4}.attention" for at in range(40)))), "folded",
        {f"layers.{at}.attention": (10, 1000) for at in range(4)},
    ),
    "control: one layer each": Input(
        _made(annotated(*(f"layers.{at}.attention" for at in range(30)))), "folded",
        {f"layers.{at}.attention": (1, 100) for at in range(30)},
    ),
    "communication by name": Input(
        _made(kernels(*COMMUNICATION)), "types", {"communication": 100 * len(COMMUNICATION)}
    ),
    "control: local kernels": Input(_made(kernels(*COMPUTATION)), "types", {"computation": 100 * len(COMPUTATION)}),
    "communication by what kernels do": Input(
        lambda: {f"rank{rank}.json": text(unnamed_exchange(rank).document) for rank in range(2)}, "types",
        {"computation": 2 * (4800 + 2700)}, "acme_fast_exchange_v2: counted as computation, but its",
    ),
    # files of a job, cycles
    "a front end's file": Input(
        lambda: job(**{"tokenizer.trace.json": text({"traceEvents": [steps().rows[1]]})}), "late", LATE,
        "no rank of the job is recorded in it",
    ),
    "two cycles": Input(
        _made(cycles(100, 200)), "steps", {1: 300, 2: 300, 3: 600, 4: 600}, "occur again in another cycle"
    ),
    "four cycles": Input(_made(cycles(50, 100, 150, 200)), "steps", {
        step: 3 * 50 * (1 + (step - 1) // 2) for step in range(1, 9)
    }),
    "flight dumps": Input(
        lambda: job(**{f"flight__comm_lib_trace_rank_{rank}": text(flight_dump(rank)) for rank in range(2)}),
        "late", LATE,
    ),
    "flight dumps as pickles": Input(
        lambda: job(**{f"nccl_trace_rank_{rank}": pickle.dumps(flight_dump(rank)) for rank in range(2)}), "late", LATE
    ),
}  # fmt: skip
"""Each input by what it is."""
