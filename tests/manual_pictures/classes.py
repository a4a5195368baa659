"""A program for each class of a path, and for each reason of what is unexplained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import hta_graph as hg
from hta_graph.model import BoundBy, Reason
from tests.manual_pictures.programs import FORWARD, GEMM, Drawing, job_path, path_of
from tests.support.rank_builder import ALL_REDUCE, RankBuilder
from tests.support.trace_builder import TraceBuilder

__all__ = ["CLASSES", "REASONS"]

LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def cpu_bound(folder: Path) -> hg.CriticalPath:
    """Operators that take longer than their kernels."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 55)
    trace.launch(GEMM, (40, 50), (56, 70), 1)
    trace.op("aten::relu", 56, 100)
    trace.launch("relu", (86, 96), (102, 115), 2)
    return path_of(trace, folder)


def data_loading(folder: Path) -> hg.CriticalPath:
    """A batch that is made in the training process."""
    trace = TraceBuilder()
    trace.annotation(LOADING, 0, 70)
    trace.op("aten::stack", 20, 60)
    trace.op(FORWARD, 72, 92)
    trace.launch(GEMM, (78, 86), (92, 120), 1)
    return path_of(trace, folder)


def gpu_compute_bound(folder: Path) -> hg.CriticalPath:
    """Kernels that take longer than the operators that launch them."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 16)
    trace.launch(GEMM, (4, 12), (18, 70), 1)
    trace.op("aten::relu", 18, 34)
    trace.launch("relu", (22, 30), (71, 120), 2)
    return path_of(trace, folder)


def gpu_communication_bound(folder: Path) -> hg.CriticalPath:
    """An all-reduce that nothing runs beside."""
    trace = RankBuilder()
    trace.op(FORWARD, 0, 16)
    trace.launch(GEMM, (4, 12), (18, 40), 1)
    trace.collective(20, (42, 120), 2)
    return path_of(trace, folder)


def gpu_memory_bound(folder: Path) -> hg.CriticalPath:
    """A copy of the batch before the first kernel."""
    trace = TraceBuilder()
    trace.op("aten::copy_", 0, 16)
    trace.call("cudaMemcpyAsync", 4, 12, 1)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 18, 90, 1)
    trace.op(FORWARD, 18, 34)
    trace.launch(GEMM, (22, 30), (92, 120), 2)
    return path_of(trace, folder)


def gpu_kernel_kernel_overhead(folder: Path) -> hg.CriticalPath:
    """Kernels that were launched in time, with gaps between them."""
    trace = TraceBuilder()
    trace.op("aten::foreach_add_", 0, 40)
    for at in range(4):
        trace.launch("add", (2 + 9 * at, 8 + 9 * at), (14 + 27 * at, 28 + 27 * at), at + 1)
    return path_of(trace, folder)


def gpu_kernel_launch_overhead(folder: Path) -> hg.CriticalPath:
    """A kernel that starts long after its launch, on an idle GPU."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 24)
    trace.launch(GEMM, (6, 18), (64, 100), 1)
    return path_of(trace, folder)


def cpu_gap(folder: Path) -> hg.CriticalPath:
    """Python between two operators, and nothing for the GPU to do."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 16)
    trace.launch(GEMM, (4, 12), (18, 30), 1)
    trace.frame("train.py(61): log_loss", 18, 88)
    trace.op("aten::relu", 90, 104)
    trace.launch("relu", (94, 100), (106, 120), 2)
    return path_of(trace, folder)


def sync_overhead(folder: Path) -> hg.CriticalPath:
    """A synchronisation that returns late."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 46), 1)
    trace.call("cudaDeviceSynchronize", 12, 90, 2)
    trace.op("aten::item", 92, 110)
    return path_of(trace, folder)


def unexplained(folder: Path) -> hg.CriticalPath:
    """A kernel that starts 400 µs after its launch though its stream is free."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 24)
    trace.launch(GEMM, (6, 18), (420, 500), 1)
    return path_of(trace, folder)


def before_recording(folder: Path) -> hg.CriticalPath:
    """The first kernel of a recording, held by work that was enqueued before."""
    trace = TraceBuilder()
    trace.op("aten::zeros", 0, 20)
    trace.launch(GEMM, (30, 45), (360, 410), 1)
    trace.call("cudaStreamSynchronize", 50, 413, 2)
    return path_of(trace, folder)


def missing_graph_node(folder: Path) -> hg.CriticalPath:
    """Three replays of a graph with a hole at one place."""
    trace = TraceBuilder()
    for number, (at, hole) in enumerate(((0, 200), (250, 210), (510, 195)), 1):
        trace.call("cudaGraphLaunch", at, at + 5, number)
        trace.kernel("embedding", at + 8, at + 20, number)
        trace.kernel("softmax", at + 20 + hole, at + 32 + hole, number)
        trace.call("cudaDeviceSynchronize", at + 6, at + 36 + hole, 100 + number)
    return path_of(trace, folder)


def wait_without_record(folder: Path) -> hg.CriticalPath:
    """Work that goes on right after another stream's, without a row that says so."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 10), (16, 40), 1)
    trace.launch("add", (12, 22), (600, 640), 2)
    trace.kernel(ALL_REDUCE, 60, 592, stream=20)
    trace.call("cudaDeviceSynchronize", 40, 643, 3)
    return path_of(trace, folder)


def other_rank(folder: Path) -> hg.CriticalPath:
    """Two ranks: the path leads to the late one instead of staying in the wait."""
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank)
        late = 50 * rank
        trace.op("aten::mm", 0, 20 + late)
        trace.collective(24 + late, (34 + late, 110), 1)
        ranks.append(trace)
    return job_path(ranks, folder)


def clock_fault(folder: Path) -> hg.CriticalPath:
    """A kernel that is stamped 3.5 ms before the call that launched it."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 400), (500, 900), 1)
    trace.launch("add", (4_000, 4_400), (1_500, 4_900), 2)
    return path_of(trace, folder)


def not_recorded(folder: Path) -> hg.CriticalPath:
    """A call waits for a kernel that was launched and has no row."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 10), (16, 60), 1)
    trace.call("cudaLaunchKernel", 20, 30, 2)
    trace.call("cudaStreamSynchronize", 40, 400, 3)
    trace.op("aten::add_", 402, 430)
    return path_of(trace, folder)


def stream_held(folder: Path) -> hg.CriticalPath:
    """Two kernels, and a host function that is enqueued between their launches."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 10), (16, 60), 1)
    trace.call("cudaLaunchHostFunc", 14, 24, 2)
    trace.launch("add", (28, 38), (360, 400), 3)
    trace.call("cudaStreamSynchronize", 42, 403, 4)
    return path_of(trace, folder)


def unknown(folder: Path) -> hg.CriticalPath:
    """A kernel that starts late in a long recording, for no visible cause."""
    trace = TraceBuilder()
    trace.op("aten::zeros", 0, 2)
    trace.launch(GEMM, (5_000, 5_015), (5_330, 5_400), 1)
    trace.call("cudaStreamSynchronize", 5_020, 5_403, 2)
    return path_of(trace, folder, (4_980, 5_403))


CLASSES: Mapping[BoundBy, Drawing] = {
    BoundBy.CPU_BOUND: cpu_bound,
    BoundBy.DATA_LOADING: data_loading,
    BoundBy.GPU_COMPUTE_BOUND: gpu_compute_bound,
    BoundBy.GPU_COMMUNICATION_BOUND: gpu_communication_bound,
    BoundBy.GPU_MEMORY_BOUND: gpu_memory_bound,
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD: gpu_kernel_kernel_overhead,
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD: gpu_kernel_launch_overhead,
    BoundBy.CPU_GAP: cpu_gap,
    BoundBy.SYNC_OVERHEAD: sync_overhead,
    BoundBy.UNEXPLAINED: unexplained,
}
"""Each class takes more of its program's path than any other one."""

REASONS: Mapping[Reason, Drawing] = {
    Reason.BEFORE_RECORDING: before_recording,
    Reason.MISSING_GRAPH_NODE: missing_graph_node,
    Reason.WAIT_WITHOUT_RECORD: wait_without_record,
    Reason.OTHER_RANK: other_rank,
    Reason.CLOCK_FAULT: clock_fault,
    Reason.UNKNOWN: unknown,
    Reason.NOT_RECORDED: not_recorded,
    Reason.STREAM_HELD: stream_held,
}
"""Each stands in its program's path, but ``OTHER_RANK``: where ranks are compared a path goes to the late one."""
