"""A program for each cause of an idle GPU or stream, and for each answer to when what ends a gap was launched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import hta_graph as hg
from analyses.questions.idle_time import LaunchGap
from hta_graph.model import GapCause
from tests.manual_pictures.edges import BACKWARD, event_wait, graph_order
from tests.manual_pictures.programs import FORWARD, GEMM, Drawing, job_path, path_of, simulated
from tests.simulator.program import Launch, Program, Stream
from tests.support.rank_builder import RankBuilder
from tests.support.trace_builder import TraceBuilder

__all__ = ["GAPS", "LAUNCH_GAPS"]


def first_kernel() -> TraceBuilder:
    """Begin with a kernel that has run by 40 µs."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 10), (16, 40), 1)
    return trace


def second_kernel(trace: TraceBuilder, call: float, folder: Path) -> hg.CriticalPath:
    """Launch a second one, after which the program ends."""
    trace.launch("relu", (call, call + 8), (call + 14, call + 40), 9)
    return path_of(trace, folder)


def host_operator(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op("aten::nonzero", 14, 92)
    return second_kernel(trace, 82, folder)


def host_call(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op("aten::empty", 14, 78)
    trace.call("cudaMalloc", 18, 76, 5)
    return second_kernel(trace, 80, folder)


def host_blocked(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.call("cudaStreamSynchronize", 14, 76, 5)
    return second_kernel(trace, 80, folder)


def host_no_operator(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.frame("train.py(61): log_loss", 14, 78)
    return second_kernel(trace, 80, folder)


def data_loading(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 14, 78)
    trace.op("aten::stack", 40, 70)
    return second_kernel(trace, 80, folder)


def other_thread(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op("aten::mse_loss", 12, 46)
    trace.op(BACKWARD, 80, 108, tid=2)
    trace.launch("gemm_backward", (84, 92), (98, 120), 2, tid=2)
    trace.op("aten::add_", 116, 124)
    return path_of(trace, folder)


def queue_full(folder: Path) -> hg.CriticalPath:
    """A second stream waits while its thread waits for room in the queue of the first one."""
    loop = [*[Launch(Stream(7), 30_000, "add")] * 4, Launch(Stream(20), 9_000, "copy")]
    graph = simulated(Program.of(*loop * 340))
    idle = graph.events[graph.events.name == "copy"]
    end = int(idle.end_ns.iloc[-1])
    return hg.critical_path(graph, hg.between(end - 190_000, end + 20_000))


def launch(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op(FORWARD, 36, 60)
    trace.launch("relu", (42, 54), (82, 115), 9)
    return path_of(trace, folder)


def stream_order(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.launch("relu", (12, 20), (60, 90), 9)
    return path_of(trace, folder)


def short_gap(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.launch("relu", (12, 20), (40.5, 90), 9)
    return path_of(trace, folder)


def launch_unknown(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op(FORWARD, 14, 50)
    trace.kernel("relu", 70, 110, 9)
    return path_of(trace, folder)


def not_recorded(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op("aten::mm", 14, 30)
    trace.call("cudaLaunchKernel", 16, 26, 5)
    trace.call("cudaStreamSynchronize", 32, 76, 6)
    return second_kernel(trace, 80, folder)


def unknown(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.launch("relu", (12, 20), (360, 400), 9)
    return path_of(trace, folder)


def no_more_work(folder: Path) -> hg.CriticalPath:
    trace = first_kernel()
    trace.op("aten::to", 14, 110)
    return path_of(trace, folder, (0, 110))


def other_rank(folder: Path) -> hg.CriticalPath:
    """Rank 0 waits in an all-reduce for rank 1, and its next kernel for the all-reduce."""
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank)
        late = 50 * rank
        trace.op("aten::mm", 0, 20 + late)
        trace.collective(24 + late, (34 + late, 100), 1)
        trace.call("cudaEventRecord", 27 + late, 28 + late, 2)
        trace.call("cudaStreamWaitEvent", 29 + late, 30 + late, 3)
        trace.sync_row("Stream Wait Event", 29 + late, 30 + late, 3, stream=7, wait_on_stream=24, record=2)
        trace.launch("first", (1, 4), (6, 30), 4)
        trace.launch("adam", (32 + late, 36 + late), (106, 124), 5)
        ranks.append(trace)
    return job_path(ranks, folder)


GAPS: Mapping[GapCause, Drawing] = {
    GapCause.HOST_OPERATOR: host_operator,
    GapCause.HOST_CALL: host_call,
    GapCause.HOST_BLOCKED: host_blocked,
    GapCause.HOST_NO_OPERATOR: host_no_operator,
    GapCause.DATA_LOADING: data_loading,
    GapCause.OTHER_THREAD: other_thread,
    GapCause.QUEUE_FULL: queue_full,
    GapCause.LAUNCH: launch,
    GapCause.STREAM_ORDER: stream_order,
    GapCause.GRAPH_ORDER: graph_order,
    GapCause.EVENT_WAIT: event_wait,
    GapCause.LAUNCH_UNKNOWN: launch_unknown,
    GapCause.UNKNOWN: unknown,
    GapCause.NO_MORE_WORK: no_more_work,
    GapCause.OTHER_RANK: other_rank,
    GapCause.NOT_RECORDED: not_recorded,
}
"""Each cause is one of those that ``idle-time`` finds in its program."""

LAUNCH_GAPS: Mapping[LaunchGap, Drawing] = {
    LaunchGap.HOST_WAIT: host_operator,
    LaunchGap.KERNEL_WAIT: short_gap,
    LaunchGap.OTHER: unknown,
}
"""Each is what ``idle-time`` says of launches there; ``LAUNCH_UNKNOWN`` is that cause's picture."""
