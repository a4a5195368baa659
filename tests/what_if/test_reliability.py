"""How far predictions can be trusted: what they rest on after a change, and what the trace shows of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.what_if.reliability import reliability_after
from tests.advice_accuracy import CHANGES, changed, graph_of_run
from tests.simulator import Program
from tests.simulator.program import Gap, Launch, Op, Statement, SyncDevice
from tests.simulator.pytorch_idioms import COMPUTE
from tests.support.trace_builder import TraceBuilder


def launch_bound(ahead: int) -> Program:
    """Operators of 35 µs, each with a kernel of up to 31 µs; before, kernels of 100 µs that are launched ``ahead``."""
    body: list[Statement] = [Op("aten::mm", (Launch(COMPUTE, 100_000, "gemm"),)) for _ in range(ahead)]
    body += [SyncDevice()] * (ahead > 0)
    for place in range(60):
        body += [Op("aten::add", (Gap(25_000), Launch(COMPUTE, 31_000 - 800 * (place % 5), "add"))), Gap(6_000)]
    return Program.of(*body, SyncDevice())


@pytest.mark.parametrize(("ahead", "reason"), [(0, "unusual"), (30, None)], ids=["none launched ahead", "gaps seen"])
def test_gaps_that_were_never_seen_shorter_may_be_shorter(ahead: int, reason: str | None) -> None:
    program = launch_bound(ahead)
    graph, after = graph_of_run(program), graph_of_run(changed(program, CHANGES["launch_bound"]))
    found = hg.replay(graph, hg.scenario("cuda_graphs"), hg.whole())
    trusted = reliability_after(found)
    assert trusted.reason == reason
    missed = abs(hg.critical_path(after, hg.whole()).length_ns - found.predicted_ns) / found.measured_ns
    assert (missed > 0.03) == (reason is not None)
    if reason:
        assert trusted.share == pytest.approx(missed, abs=0.02)


def test_gaps_that_are_on_the_path_anyway_are_no_doubt() -> None:
    graph = graph_of_run(launch_bound(0))
    assert reliability_after(hg.replay(graph, (), hg.whole())).reason is None
    assert reliability_after(hg.replay(graph, hg.scale("kernel:add", 0.9), hg.whole())).reason is None


@pytest.mark.parametrize(("slow", "reason"), [(10, "unusual"), (0, None)])
def test_calls_that_took_unusually_long_waited_for_something(slow: int, reason: str | None, tmp_path: Path) -> None:
    """While kernels are long the calls are hidden; with short ones they are the path, if they then take as long."""
    trace = TraceBuilder()
    at, free = 0.0, 0.0
    for number in range(40):
        took = 100 if number < slow else 4
        begins = max(free + 1, at + 6)
        trace.launch("gemm", (at, at + took), (begins, begins + 300), number + 1)
        trace.op("aten::mm", at + took + 1, at + took + 21)
        at, free = at + took + 22, begins + 300
    found = reliability_after(hg.replay(trace.graph(tmp_path), hg.scale("kernel:gemm", 0.01), hg.whole()))
    assert found.reason == reason


def graph_on_streams(folder: Path, *middle: int) -> hg.DependencyGraph:
    """Work of 100 µs, then a graph of a first node, one on each stream in the middle, and a last node behind these.

    Of two in the middle nothing shows for which the last node waits: they end together, and all replays are alike.
    """
    trace = TraceBuilder()
    for number in range(4):
        at = 200 * number
        trace.launch("gemm", (at, at + 4), (at + 8, at + 108), 10 * number + 1)
        trace.call("cudaGraphLaunch", at + 10, at + 16, 10 * number + 2)
        for start, stream in ((109, 7), *((131.2, one) for one in middle), (152.4, 7)):
            trace.kernel("node", at + start, at + start + 20, 10 * number + 2, stream=stream)
        trace.call("cudaDeviceSynchronize", at + 20, at + 180, 10 * number + 3)
        trace.op("aten::add", at + 182, at + 198)
    return trace.graph(folder)


def test_the_order_inside_a_graph_is_not_recorded(tmp_path: Path) -> None:
    graph = graph_on_streams(tmp_path, 21, 22)
    longer = reliability_after(hg.replay(graph, hg.scale("kernel:node", 3), hg.whole()))
    assert longer.reason == "unusual"
    # In each of four launches a node moves by 40 µs: the window is off by what all of them lose.
    assert longer.share == pytest.approx(4 * 40 / 800, abs=0.01)
    assert reliability_after(hg.replay(graph, hg.scale("kernel:gemm", 0.2), hg.whole())).reason is None


def test_an_order_inside_a_graph_that_its_times_show_is_kept(tmp_path: Path) -> None:
    longer = hg.replay(graph_on_streams(tmp_path, 21), hg.scale("kernel:node", 3), hg.whole())
    assert reliability_after(longer).reason is None
    # The last launch's three nodes, and what the host waits for the three before.
    assert longer.predicted_ns - longer.measured_ns == pytest.approx(4 * 3 * 40_000, abs=1_000)


def two_streams_before_a_sync(folder: Path) -> hg.DependencyGraph:
    """Steps that load data, then ask for an event: a copy's or a kernel's, whose work is done by then."""
    trace = TraceBuilder()
    for number in range(4):
        at, own = 440 * number, 10 * number
        trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 300)
        trace.call("cudaEventSynchronize", at + 302, at + 304, own + 9)
        trace.op("aten::add", at + 305, at + 405)
        trace.launch("gemm", (at + 406, at + 410), (at + 412, at + 580), own + 1)
        trace.launch("Memcpy HtoD (Pinned -> Device)", (at + 414, at + 418), (at + 420, at + 430), own + 2, stream=20)
    return trace.graph(folder)


def test_a_synchronization_that_found_its_work_done_may_wait_after_a_change(tmp_path: Path) -> None:
    graph = two_streams_before_a_sync(tmp_path)
    free = reliability_after(hg.replay(graph, hg.scenario("data_loading_free"), hg.whole()))
    assert free.reason == "unusual"
    # Without a change of what comes before, it waits for nothing, whatever it asks for.
    assert reliability_after(hg.replay(graph, hg.scale("kernel:gemm", 0.5), hg.whole())).reason is None
    assert reliability_after(hg.replay(graph, (), hg.whole())).reason is None


def beside_the_default_stream(
    folder: Path, lag: tuple[float, ...], stream: int = 7, loops: int = 4
) -> hg.DependencyGraph:
    """Work that is launched ahead on two streams in turn: that of the second starts some time after the first's end.

    launches      [a][b][a][b]...
    stream 7         [a ====]          [a =====]         what holds b back, and the next a, is nowhere recorded
    stream 20               |lag[b ===]         |lag[b ===]
    """
    trace, at = TraceBuilder(), 200.0
    for number in range(loops):
        call, long = 20.0 * number, 90.0 + 13 * (number % 3)
        trace.launch("a", (call, call + 4), (at, at + long), 2 * number + 1, stream=stream)
        at += long + lag[number % len(lag)]
        trace.launch("b", (call + 8, call + 12), (at, at + 60), 2 * number + 2, stream=20)
        at += 60 + lag[number % len(lag)]
    trace.call("cudaDeviceSynchronize", 20 * loops, at + 3, 999)
    return trace.graph(folder)


@pytest.mark.parametrize(
    ("lag", "stream", "loops", "doubted"),
    [
        ((0.6, 0.7, 0.5), 7, 6, True),
        ((0.6, 0.7, 0.5), 0, 6, True),
        ((0.6, 0.7, 0.5), 15, 6, False),
        ((0.6, 0.7, 0.5), 7, 2, False),
        ((31, 55, 42), 7, 6, False),
        ((1.5, 2.1, 1.8), 7, 6, True),
    ],
    ids=["stream 7", "stream 0", "no default stream", "too rarely", "not right after", "each might be chance"],
)
def test_work_that_waits_for_the_default_stream_by_no_record_is_doubted(
    tmp_path: Path, lag: tuple[float, ...], stream: int, loops: int, doubted: bool
) -> None:
    graph = beside_the_default_stream(tmp_path, lag, stream, loops)
    found = hg.replay(graph, hg.scale("kernel:a", 0.5), hg.whole())
    assert (reliability_after(found).unusual_share > 0) == doubted
    assert reliability_after(hg.replay(graph, (), hg.whole())).unusual_share == 0


@pytest.mark.parametrize("long", [False, True])
def test_a_stream_wait_that_held_nothing_back_may_do_so_after_a_change(tmp_path: Path, long: bool) -> None:
    """Stream 7 waits for b, or for c: both had ended when its own work ended, or did not start so soon."""
    trace = TraceBuilder()
    trace.launch("b", (0, 4), (10, 400), 1, stream=20)
    trace.launch("c", (5, 9), (15, 300), 2, stream=24)
    trace.launch("a", (10, 14), (20, 420 if long else 100), 3)
    trace.call("cudaEventRecord", 15, 16, 4)
    trace.call("cudaStreamWaitEvent", 17, 18, 5)
    trace.launch("after", (19, 23), (421 if long else 401, 500), 6)
    trace.call("cudaDeviceSynchronize", 24, 503, 7)
    graph = trace.graph(tmp_path)
    found = hg.replay(graph, hg.scale("kernel:a", 0.5), hg.whole())
    assert (reliability_after(found).reason == "unusual") == long
    assert reliability_after(hg.replay(graph, (), hg.whole())).reason is None


@pytest.mark.parametrize("gap_us", [0.001, 1.0], ids=["as AMD writes gaps", "as NVIDIA writes gaps"])
@pytest.mark.parametrize("held_us", [0, 8_000])
def test_a_launch_that_earlier_work_held_is_no_usual_one(tmp_path: Path, gap_us: float, held_us: float) -> None:
    """A recording of one decode step of a server: the GPU still works for earlier steps, then it is never idle.

    host   [copy][graph][gemm]
    GPU    ~~~~~ work from before the recording ~~~~~[copy][=== graph, 10 ms ===]  [gemm]
    """
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=4]", 0, 200)
    at = held_us + 20.0
    trace.launch("copy", (10, 14), (at, at + 5), 1)
    trace.call("cudaGraphLaunch", 20, 60, 2)
    at += 5 + gap_us
    for node in range(40):
        trace.kernel(f"node {node}", at, at + 250, 2)
        at += 250 + gap_us
    at += 12
    trace.launch("gemm", (70, 74), (at, at + 250), 3)
    graph = trace.graph(tmp_path)
    found = hg.replay(graph, hg.scale("kernel:node *", 0.5), hg.step(0))
    assert reliability_after(found).reason is None
    assert found.predicted_ns == pytest.approx(found.measured_ns - 5_000_000, rel=0.01)
