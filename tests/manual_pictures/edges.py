"""A program for each kind of edge, in which it occurs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import hta_graph as hg
from hta_graph.model import CUSTOM_KINDS, EdgeKind
from tests.manual_pictures.programs import FORWARD, GEMM, Drawing, end_of, job_path, path_of, simulated
from tests.simulator.program import Gap, Launch, Op, Poll, Program, Stream
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.rank_builder import RankBuilder
from tests.support.rule_programs import rule_programs
from tests.support.trace_builder import TraceBuilder

__all__ = ["EDGES"]

BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"


def thread_order(folder: Path) -> hg.CriticalPath:
    """An operator with another one inside, and one after it."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 60)
    trace.op("aten::addmm", 15, 45)
    trace.op("aten::relu", 75, 100)
    return path_of(trace, folder)


def execution(folder: Path) -> hg.CriticalPath:
    """A kernel that runs."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 40)
    trace.launch(GEMM, (10, 20), (30, 110), 1)
    return path_of(trace, folder)


def launch(folder: Path) -> hg.CriticalPath:
    """An operator that launches two kernels."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 62)
    trace.launch(GEMM, (8, 24), (34, 80), 1)
    trace.launch("add", (40, 56), (86, 110), 2)
    return path_of(trace, folder)


def stream_order(folder: Path) -> hg.CriticalPath:
    """Two kernels of one stream, both launched early."""
    trace = TraceBuilder()
    trace.op(FORWARD, 0, 30)
    trace.launch(GEMM, (2, 12), (20, 65), 1)
    trace.launch("elementwise_add", (15, 25), (73, 110), 2)
    return path_of(trace, folder)


def graph_order(folder: Path) -> hg.CriticalPath:
    """A graph of two kernels on streams of its own, between two kernels of the launching stream."""
    trace = TraceBuilder()
    trace.launch("copy_inputs", (0, 8), (14, 44), 1)
    trace.call("cudaGraphLaunch", 12, 28, 2)
    trace.kernel("graph_gemm", 50, 88, 2, stream=164)
    trace.kernel("graph_add", 50, 76, 2, stream=165)
    trace.launch("softmax", (32, 40), (94, 120), 3)
    return path_of(trace, folder)


def event_wait(folder: Path) -> hg.CriticalPath:
    """A stream whose next kernel waits for an event behind another stream's copy; the wait is recorded."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 40), 1)
    trace.call("cudaMemcpyAsync", 10, 20, 2)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 26, 80, 2, stream=20)
    trace.call("cudaEventRecord", 22, 26, 3)
    trace.call("cudaStreamWaitEvent", 28, 32, 4)
    trace.sync_row("Stream Wait Event", 28, 32, 4, stream=7, wait_on_stream=20, record=3)
    trace.launch(GEMM, (34, 42), (88, 120), 5)
    return path_of(trace, folder)


def stream_sync(folder: Path) -> hg.CriticalPath:
    """A call that waits for one stream of two; the wait is recorded."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 70), 1)
    trace.launch("prefetch", (10, 18), (24, 110), 2, stream=20)
    trace.call("cudaStreamSynchronize", 22, 80, 3)
    trace.sync_row("Stream Sync", 22, 80, 3, stream=7)
    trace.op("aten::item", 84, 120)
    return path_of(trace, folder)


def device_sync(folder: Path) -> hg.CriticalPath:
    """A call that waits for both streams."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 60), 1)
    trace.launch("prefetch", (10, 18), (24, 90), 2, stream=20)
    trace.call("cudaDeviceSynchronize", 22, 100, 3)
    trace.op("aten::item", 104, 120)
    return path_of(trace, folder)


def event_sync(folder: Path) -> hg.CriticalPath:
    """A call that waits for the first kernel of a stream only; the wait is recorded."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 60), 1)
    trace.call("cudaEventRecord", 10, 14, 2)
    trace.launch("softmax", (16, 24), (61, 115), 3)
    trace.call("cudaEventSynchronize", 28, 70, 4)
    trace.sync_row("Event Sync", 28, 70, 4, wait_on_stream=7, record=2)
    trace.op("aten::add", 74, 120)
    return path_of(trace, folder)


def blocking_copy(folder: Path) -> hg.CriticalPath:
    """A copy to pageable memory, as ``.item()`` makes one."""
    trace = TraceBuilder()
    trace.launch(GEMM, (0, 8), (14, 60), 1)
    trace.op("aten::item", 12, 96)
    trace.call("cudaMemcpyAsync", 20, 90, 2)
    trace.copy("Memcpy DtoH (Device -> Pageable)", 62, 82, 2)
    trace.op("aten::add", 100, 120)
    return path_of(trace, folder)


def thread_handoff(folder: Path) -> hg.CriticalPath:
    """The backward pass on its thread, while the launching one stands still."""
    trace = TraceBuilder()
    trace.op("aten::mse_loss", 0, 25)
    trace.op(BACKWARD, 35, 60, tid=2)
    trace.op(BACKWARD, 62, 90, tid=2)
    trace.op("aten::add_", 100, 120)
    return path_of(trace, folder)


def forward_backward(folder: Path) -> hg.CriticalPath:
    """A forward operator and its backward one, told by autograd's numbers."""
    trace = TraceBuilder()
    trace.op("aten::addmm", 0, 40, **{"Sequence number": 7, "Fwd thread id": 0})
    trace.op(BACKWARD, 60, 120, tid=2, **{"Sequence number": 7, "Fwd thread id": 1})
    return path_of(trace, folder)


def runtime_lock(folder: Path) -> hg.CriticalPath:
    """A launch that stands until another thread's allocation has returned."""
    trace = TraceBuilder()
    for at in range(5):
        trace.call("cudaLaunchKernel", 10 * at, 10 * at + 4)
        trace.call("cudaHostAlloc", 10 * at, 10 * at + 5, tid=2)
    trace.call("cudaHostAlloc", 60, 140, tid=2)
    trace.launch(GEMM, (70, 144), (152, 180), 1)
    return path_of(trace, folder, (40, 180))


def queue_full(folder: Path) -> hg.CriticalPath:
    """The end of a loop that launches 1,200 kernels, each longer than its launch."""
    graph = simulated(Program.of(*[Launch(Stream(), 30_000, "add")] * 1_200))
    full = graph.edges[graph.edges.kind == "queue_full"]
    held = int(graph.event(int(full.target_index.iloc[20])).end_ns)
    return hg.critical_path(graph, hg.between(held - 70_000, held + 50_000))


def host_poll(folder: Path) -> hg.CriticalPath:
    """The last turn of a loop whose host spins until a long kernel has nearly ended."""
    stream = Stream()
    work = Op("aten::bmm", (Gap(50_000), Launch(stream, 40_000, "gemm")))
    graph = simulated(Program.of(*(Launch(stream, 400_000, "dispatch"), Poll(stream, 30_000), work) * 5))
    end = end_of(graph, "gemm")
    return hg.critical_path(graph, hg.between(end - 540_000, end))


def collective(folder: Path) -> hg.CriticalPath:
    """Two ranks of which the second one comes late, by more than their clocks may be apart."""
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank)
        late = 120 * rank
        trace.op("aten::mm", 0, 30 + late)
        trace.collective(34 + late, (44 + late, 240), 1, **{"Comms Id": 5})
        ranks.append(trace)
    return job_path(ranks, folder)


def point_to_point(folder: Path) -> hg.CriticalPath:
    """A message that is sent late."""
    sender, receiver = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    sender.op("aten::mm", 0, 50, tid=MAIN)
    sender.called("send", 54, 57)
    sender.worked("send", 55, 90, tid=MAIN)
    receiver.op("aten::mm", 0, 20, tid=MAIN)
    receiver.called("recv", 24, 27)
    receiver.worked("recv", 25, 94, tid=MAIN)
    receiver.op("aten::add", 98, 120, tid=MAIN)
    return job_path([sender, receiver], folder)


def collective_wait(folder: Path) -> hg.CriticalPath:
    """Two ranks on the CPU whose threads go on when an all-reduce has ended."""
    return hg.critical_path(hg.read_job(late_ranks(folder, 10, 35)), hg.whole())


def _drawing(kind: EdgeKind) -> Drawing:
    """Return what is drawn of a kind: the function of its name here, else the program that its rule's test brings."""
    here: Drawing | None = globals().get(kind.label)
    return here or (lambda _: hg.critical_path(simulated(rule_programs()[kind.label]), hg.whole()))


EDGES: Mapping[EdgeKind, Drawing] = {kind: _drawing(kind) for kind in EdgeKind if kind not in CUSTOM_KINDS.values()}
"""What is drawn of each kind; only its own arrows are."""
