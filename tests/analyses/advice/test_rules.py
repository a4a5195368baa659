"""Each rule of advice where it must speak, and where it must be silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import ADVICE_RULES, VERDICT_RULES, advice_of, verdict_of
from tests.advice_accuracy import OWN_PROGRAMS, guard_rates, own_rates, rates
from tests.support.cuda_graph_replay import replayed_graph
from tests.support.trace_builder import TraceBuilder
from tests.support.work_before_recording import long_queued

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OF_JOBS = ("slow_gpu", "slow_host")
"""Rules of several ranks, which :mod:`tests.analyses.advice.test_slow_rank_rules` asks."""
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def findings(trace: TraceBuilder, tmp_path: Path, window: hg.Window | None = None) -> dict[str, PathFinding]:
    """Return the findings about a window, else about the whole trace, by the names of their rules."""
    facts = PathFacts(hg.critical_path(trace.graph(tmp_path), window or hg.whole()))
    return {finding.rule: finding for finding in (*verdict_of(facts), *advice_of(facts))}


def launching(every_us: float, kernel_us: float, count: int = 80) -> TraceBuilder:
    """A host that launches a kernel every so many µs, each of so many µs, and does nothing else."""
    trace = TraceBuilder()
    end = 0.0
    for number in range(count):
        at = number * every_us
        start = max(at + 8, end)
        end = start + kernel_us
        trace.op("aten::add", at, at + every_us - 1)
        trace.launch("kernel", (at + 1, at + 5), (start, end), number + 1)
    return trace


def reading(reader: str, host_us: float, gpu_us: float, count: int = 5, frame: str = "") -> TraceBuilder:
    """A loop: a kernel, an operator that waits for its value, and then the host's own work."""
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 3 * count, 3):
        done = at + 10 + gpu_us
        trace.launch("gemm", (at, at + 5), (at + 10, done), number)
        if frame:
            trace.frame(frame, at + 5, done + 10)
        trace.op(reader, at + 6, done + 8)
        trace.call("cudaMemcpyAsync", at + 7, done + 6, number + 1)
        trace.copy("Memcpy DtoH (Device -> Pageable)", done, done + 2, number + 1)
        trace.op("aten::work", done + 10, done + 10 + host_us)
        at = done + 12 + host_us
    trace.launch("gemm", (at, at + 5), (at + 10, at + 10 + gpu_us), 900)
    return trace


def uploading(memory: str) -> TraceBuilder:
    """A kernel, a copy to the GPU that waits for it on its stream, and then the host's own work."""
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 15, 3):
        trace.launch("gemm", (at, at + 5), (at + 10, at + 210), number)
        trace.op("aten::copy_", at + 6, at + 225)
        trace.call("cudaMemcpyAsync", at + 7, at + 12, number + 1)
        trace.copy(f"Memcpy HtoD ({memory} -> Device)", at + 210, at + 215, number + 1)
        trace.call("cudaStreamSynchronize", at + 13, at + 220, number + 2)
        trace.op("aten::work", at + 226, at + 420)
        at += 422
    trace.launch("gemm", (at, at + 5), (at + 10, at + 210), 900)
    return trace


def synchronising(host_us: float, gpu_us: float = 200) -> TraceBuilder:
    """The program itself waits for the GPU, and then works."""
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 11, 2):
        trace.launch("gemm", (at, at + 5), (at + 10, at + 10 + gpu_us), number)
        trace.call("cudaDeviceSynchronize", at + 6, at + 15 + gpu_us, number + 1)
        trace.op("aten::work", at + 16 + gpu_us, at + 16 + gpu_us + host_us)
        at += 18 + gpu_us + host_us
    trace.launch("gemm", (at, at + 5), (at + 10, at + 10 + gpu_us), 900)
    return trace


def loading(host_us: float) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op(LOADER, 0, host_us)
    trace.launch("gemm", (host_us + 1, host_us + 5), (host_us + 10, host_us + 1000), 1)
    return trace


def communicating(beside: bool) -> TraceBuilder:
    """A collective after a kernel, with or without another kernel beside it."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 110), 1)
    trace.launch(ALL_REDUCE, (6, 9), (112, 212), 2)
    if beside:
        trace.launch("gemm", (9, 12), (112, 211), 3, stream=20)
    return trace


def in_turns(beside: bool) -> TraceBuilder:
    """Collectives between kernels, or next to other kernels."""
    trace = TraceBuilder()
    for number in range(12):
        at = 200.0 * number
        trace.launch("gemm", (10 * number, 10 * number + 2), (200 + at, 300 + at), 10 * number + 1)
        trace.launch(ALL_REDUCE, (10 * number + 3, 10 * number + 5), (301 + at, 399 + at), 10 * number + 2)
        if beside:
            trace.launch("gemm", (10 * number + 6, 10 * number + 8), (301 + at, 399 + at), 10 * number + 3, stream=20)
    return trace


def reducing(around: str) -> TraceBuilder:
    """Sixty short collectives, each started by an operator of its own in some other one."""
    trace = TraceBuilder()
    for number in range(60):
        at = 100.0 * number
        trace.op(around, at, at + 95)
        trace.launch("gemm", (at + 1, at + 5), (at + 10, at + 20), 10 * number + 1)
        trace.op("c10d::allreduce_", at + 10, at + 90)
        trace.launch(ALL_REDUCE, (at + 80, at + 85), (at + 88, at + 96), 10 * number + 2, stream=20)
    return trace


def tiny(kernel_us: float) -> TraceBuilder:
    trace = TraceBuilder()
    for number in range(150):
        start = 300 + number * kernel_us
        trace.launch("pointwise", (number, number + 0.5), (start, start + kernel_us - 1), number + 1)
    return trace


def stepping(allocated_us: float, between_us: float = 0.0, steps: int = 3, call: str = "cudaMalloc") -> TraceBuilder:
    """Steps that ask the driver for memory, and work before their first launch."""
    trace, at = TraceBuilder(), 0.0
    for number in range(steps):
        begin = at
        if between_us:
            trace.op("log", at + 1, at + 1 + between_us)
            at += between_us + 2
        if allocated_us:
            trace.call(call, at, at + allocated_us)
            at += allocated_us + 1
        for kernel in range(4):
            trace.launch("gemm", (at, at + 3), (at + 6 + kernel * 50, at + 55 + kernel * 50), 10 * number + kernel + 1)
            at += 4
        at += 200
        trace.annotation(f"ProfilerStep#{number}", begin, at)
    return trace


def in_python(time_us: float) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::first", -10, 0)
    trace.frame("train.py(7): transform", 0, time_us)
    trace.launch("gemm", (time_us, time_us + 5), (time_us + 10, time_us + 1000), 1)
    return trace


def silent(time_us: float, stacks: bool = False) -> TraceBuilder:
    trace = in_python(time_us) if stacks else TraceBuilder()
    if not stacks:
        trace.op("aten::first", -10, 0)
        trace.launch("gemm", (time_us, time_us + 5), (time_us + 10, time_us + 1000), 1)
    return trace


def loading_code(at: int) -> TraceBuilder:
    """Ten launches of one kernel, one of which takes 5 ms."""
    trace = TraceBuilder()
    for number in range(10):
        begin = 5_100.0 * number
        length = 5_000 if number == at else 5
        trace.launch("gemm", (begin, begin + length), (begin + length + 5, begin + length + 90), number + 1)
    return trace


def blocking(by: str) -> TraceBuilder:
    """Launches that return behind their kernels, or a synchronization behind each or behind every other one."""
    trace = TraceBuilder()
    for number in range(30):
        at = 100.0 * number
        trace.launch("gemm", (at, at + 50 if by == "setting" else at + 5), (at + 8, at + 45), 2 * number + 1)
        if by == "syncs" or (by == "some syncs" and number % 2):
            trace.call("cudaDeviceSynchronize", at + 10, at + 50, 2 * number + 2)
    return trace


def collecting(name: str) -> TraceBuilder:
    """A launch, a frame of 3 ms, and a launch."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 500), 1)
    trace.frame("train.py(3): step", 0, 3_200)
    trace.frame(name, 100, 3_100)
    trace.launch("gemm", (3_200, 3_205), (3_210, 3_700), 2)
    return trace


def with_gloo(runs: bool) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::first", 0, 10)
    if runs:
        trace.annotation("gloo:all_reduce", 12, 4000, tid=2)
    trace.op("aten::last", 4005, 4100)
    return trace


def starting_up(call_us: float) -> TraceBuilder:
    trace = TraceBuilder()
    trace.call("cudaStreamCreateWithFlags", 0, call_us)
    trace.launch("gemm", (call_us + 1, call_us + 5), (call_us + 10, call_us + 1000), 1)
    return trace


def without_records(records: bool) -> TraceBuilder:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 20), 1)
    trace.call("cudaEventSynchronize", 30, 400, 2)
    trace.op("aten::last", 400, 500)
    if records:
        trace.sync_row("Stream Sync", 10, 20, 77, stream=7)
    return trace


def launches_only(gpu_rows: bool) -> TraceBuilder:
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 5, 1)
    trace.op("aten::add", 6, 10)
    if gpu_rows:
        trace.kernel("gemm", 8, 20, 1)
    return trace


def mixed_waits(work_us: float) -> TraceBuilder:
    """A value is read, and then the program synchronises: without one of the two the other one still holds the host."""
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 60, 6):
        trace.launch("gemm", (at, at + 2), (at + 10, at + 300), number)
        trace.op("aten::item", at + 6, at + 306)
        trace.call("cudaMemcpyAsync", at + 7, at + 305, number + 1)
        trace.copy("Memcpy DtoH (Device -> Pageable)", at + 300, at + 302, number + 1)
        trace.launch("small", (at + 306, at + 308), (at + 310, at + 312), number + 2)
        trace.call("cudaDeviceSynchronize", at + 309, at + 314, number + 3)
        trace.op("aten::work", at + 315, at + 315 + work_us)
        at += 316 + work_us
    trace.launch("gemm", (at, at + 2), (at + 10, at + 300), 900)
    return trace


def multiplying(rows: int, us: float, kernel: str = "gemm", kind: str = "c10::Half") -> TraceBuilder:
    trace = TraceBuilder(deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}])
    trace.op("aten::mm", 0, 8, **{"Input Dims": [[rows, 4096], [4096, 4096]], "Input type": [kind, kind]})
    trace.launch(kernel, (2, 6), (10, 10 + us), 1)
    return trace


def chained(between: str) -> TraceBuilder:
    """X · sigmoid(x), with the same operators next to each other or with a product between them."""
    trace, shape = TraceBuilder(), [4096, 4096]
    for at, (name, inputs) in enumerate((("aten::sigmoid", 1), (between, 2), ("aten::mul", 2))):
        given = {"Input Dims": [shape] * inputs, "Input type": ["float"] * inputs}
        trace.op(name, 10 * at, 10 * at + 8, **given)
        trace.launch("kernel", (10 * at + 1, 10 * at + 5), (40 + 100 * at, 140 + 100 * at), at + 1)
    return trace


def with_lost_launches(*, rows: bool) -> TraceBuilder:
    """Ten launches and waits; with or without rows of the kernels in the second half."""
    trace = TraceBuilder()
    for number in range(10):
        at = 500.0 * number
        trace.op("aten::mm", at, at + 20)
        if rows or number < 5:
            trace.launch("gemm", (at + 2, at + 10), (at + 20, at + 400), number)
        else:
            trace.call("cudaLaunchKernel", at + 2, at + 10, number)
        trace.call("cudaStreamSynchronize", at + 30, at + 410, 100 + number)
    return trace


def sharing(us: float, call: str = "cuMemImportFromShareableHandle") -> TraceBuilder:
    """Two products, between which memory is shared with another process, and mapped."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 60), 1)
    trace.op("symm_mem::rendezvous", 10, 40 + us)
    trace.call(call, 15, 15 + us, 2)
    trace.call("cuMemMap", 20 + us, 35 + us, 3)
    trace.launch("gemm", (50 + us, 55 + us), (60 + us, 120 + us), 4)
    return trace


CASES: dict[str, tuple[Callable[[], TraceBuilder], Callable[[], TraceBuilder]]] = {
    "launch_bound": (lambda: launching(20, 4), lambda: launching(20, 60)),
    "values_read": (lambda: reading("aten::item", 200, 200), lambda: reading("aten::item", 5, 400)),
    "explicit_synchronisation": (lambda: synchronising(200), lambda: synchronising(5, 2000)),
    "waits_of_all_kinds": (lambda: mixed_waits(200), lambda: reading("aten::item", 200, 200)),
    "synchronous_launches": (lambda: blocking("setting"), lambda: blocking("some syncs")),
    "pageable_copies": (lambda: uploading("Pageable"), lambda: uploading("Pinned")),
    "blocking_uploads": (lambda: uploading("Pinned"), lambda: uploading("Pageable")),
    "data_loading_exposed": (lambda: loading(500), lambda: loading(20)),
    "exposed_communication": (lambda: communicating(beside=False), lambda: communicating(beside=True)),
    "serial_communication": (lambda: in_turns(beside=False), lambda: in_turns(beside=True)),
    "unbucketed_collectives": (lambda: reducing("AddmmBackward0"), lambda: reducing("aten::linear")),
    "tiny_kernels": (lambda: tiny(5), lambda: tiny(20)),
    "code_loading": (lambda: loading_code(0), lambda: loading_code(4)),
    "compilation": (
        lambda: collecting("torch/_dynamo/convert_frame.py(1100): _compile"),
        lambda: collecting("torch/_dynamo/eval_frame.py(655): _fn"),
    ),
    "garbage_collection": (lambda: collecting("Python GC"), lambda: collecting("torch/optim/sgd.py(1): collect")),
    "memory_sharing": (lambda: sharing(900), lambda: sharing(900, "cudaMalloc")),
    "driver_allocations": (lambda: stepping(100), lambda: stepping(0)),
    "idle_between_steps": (lambda: stepping(0, 300), lambda: stepping(0)),
    "far_from_limit": (lambda: multiplying(4096, 2_000), lambda: multiplying(4096, 600)),
    "float32_products": (
        lambda: multiplying(4096, 8_000, "ampere_sgemm_128x64_tn", "float"),
        lambda: multiplying(4096, 1_000, "ampere_s1688gemm_tf32_128x64_tn", "float"),
    ),
    "unfused_chains": (lambda: chained("aten::sub"), lambda: chained("aten::mm")),
    "python_bound": (lambda: in_python(500), lambda: in_python(20)),
    "host_pauses": (lambda: silent(3000), lambda: silent(900)),
    "no_python_stacks": (lambda: silent(3000), lambda: silent(3000, stacks=True)),
    "gloo_communication": (lambda: with_gloo(runs=True), lambda: with_gloo(runs=False)),
    "start_up_recorded": (lambda: starting_up(30_000), lambda: starting_up(3000)),
    "no_sync_records": (lambda: without_records(records=False), lambda: without_records(records=True)),
    "begun_too_late": (lambda: long_queued(100), lambda: long_queued(1500)),
    "causes_not_recorded": (lambda: without_records(records=True), lambda: without_records(records=False)),
    "work_not_recorded": (lambda: with_lost_launches(rows=False), lambda: with_lost_launches(rows=True)),
    "no_gpu_rows": (lambda: launches_only(gpu_rows=False), lambda: launches_only(gpu_rows=True)),
}
"""For each rule a trace of which it speaks, and one that differs in what it asks for."""

OF_A_STEP = {"driver_allocations", "idle_between_steps"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rule", CASES)
def test_a_rule_speaks_where_it_must_and_is_silent_where_it_must(rule: str, tmp_path: Path) -> None:
    speaks, silent_there = CASES[rule]
    window = hg.step(1) if rule in OF_A_STEP else None
    (tmp_path / "silent").mkdir()
    assert rule in findings(speaks(), tmp_path, window)
    assert rule not in findings(silent_there(), tmp_path / "silent", window)


@pytest.mark.parametrize("records", [False, True])
def test_records_silence_the_advice_to_record_them_in_a_job_too(records: bool, tmp_path: Path) -> None:
    graphs = []
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        graphs.append(without_records(records=records).graph(tmp_path / str(rank)))
    facts = PathFacts(hg.critical_path(hg.build_job(graphs), hg.whole()))
    assert ("no_sync_records" in {finding.rule for finding in advice_of(facts)}) == (not records)


@pytest.mark.parametrize(
    ("holes", "said"),
    [
        ([400.0] * 6, "2.100 ms of it is CUDA graph nodes that were not recorded, in 6 of 6 replays."),
        ([400.0, 90.0], ""),
    ],
)
def test_a_graph_node_that_was_not_recorded_is_said_with_its_replays(
    holes: list[float], said: str, tmp_path: Path
) -> None:
    """All of a hole above 50 µs is unexplained."""
    finding = findings(replayed_graph(holes), tmp_path)["unexplained"]
    assert finding.detail == said
    if said:
        assert (finding.evidence["replays"], finding.evidence["replays_with_hole"]) == (6, 6)


def test_memory_that_may_be_pinned_counts_as_pinned(tmp_path: Path) -> None:
    assert "blocking_uploads" in findings(uploading("Host"), tmp_path)


def test_a_copy_and_its_call_on_the_path_are_one_copy(tmp_path: Path) -> None:
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 15, 3):
        trace.op("aten::copy_", at, at + 100)
        trace.call("cudaMemcpyAsync", at + 1, at + 40, number)
        trace.copy("Memcpy HtoD (Pageable -> Device)", at + 42, at + 80, number)
        trace.call("cudaStreamSynchronize", at + 41, at + 85, number + 1)
        trace.op("aten::work", at + 101, at + 150)
        trace.launch("gemm", (at + 151, at + 155), (at + 160, at + 400), number + 2)
        at += 160
    assert findings(trace, tmp_path)["pageable_copies"].evidence["copies"] == 5


def test_a_synchronization_behind_each_launch_is_no_setting(tmp_path: Path) -> None:
    found = findings(blocking("syncs"), tmp_path)
    assert found["synchronous_launches"].action.startswith("Do not synchronize after each launch")
    assert "explicit_synchronisation" not in found


def test_every_rule_of_advice_has_both_traces() -> None:
    assert {*CASES, *OF_JOBS} == {rule.name for rule in ADVICE_RULES}


def test_a_host_that_launches_beside_a_busy_gpu_is_blamed_with_doubt(tmp_path: Path) -> None:
    """Launches every 20 µs of 8 µs each; another stream works for 6 µs of the time in between."""
    trace = launching(20, 8)
    for number in range(78):
        at = 20 * number
        trace.launch("other", (at + 5.5, at + 6.5), (at + 20, at + 26), 1_000 + number, stream=20)
    busy, idle = findings(trace, tmp_path), findings(launching(20, 8), tmp_path)
    assert "gpu_busy_meanwhile" in busy
    assert "gpu_busy_meanwhile" not in idle
    assert (busy["launch_bound"].confidence, idle["launch_bound"].confidence) == ("low", "high")


def test_a_pause_of_the_host_is_no_launching_and_no_graph_removes_it(tmp_path: Path) -> None:
    """Eighty launches of 20 µs each, 5 ms in which the host is in no operator, and one launch more."""
    trace = launching(20, 4)
    before = findings(trace, tmp_path)["launch_bound"].evidence["host_ns"]
    trace.launch("gemm", (6_600, 6_605), (6_610, 6_614), 5_000)
    found = findings(trace, tmp_path)
    assert found["host_pauses"].evidence["pauses"] == 1
    pause_ns = found["host_pauses"].evidence["time_ns"]
    assert 4_900_000 < pause_ns < 5_100_000
    # One launch more, and of the last operator what follows its launch is the pause's.
    assert abs(found["launch_bound"].evidence["host_ns"] - before) < 20_000
    graph = hg.build_graph(hg.read_trace(tmp_path / "trace.json"))
    replayed = hg.replay(graph, [hg.scenario("cuda_graphs")])
    assert 0 <= replayed.predicted_ns - pause_ns < 10_000


def test_two_devices_that_pause_at_once_are_paused_once(tmp_path: Path) -> None:
    """Two threads launch to a device each, and none for 5 ms: the path is on one of them."""
    trace = TraceBuilder()
    for number in range(2):
        for at in (0, 5_100):
            begin, run = at + 20 * number, at + 20 * number + 10
            trace.op("aten::add", begin, begin + 6, tid=number + 1)
            trace.launch("gemm", (begin + 1, begin + 5), (run, run + 4), at + number + 1, device=number, tid=number + 1)
    pauses = findings(trace, tmp_path)["host_pauses"].evidence
    assert pauses["pauses"] == 1
    assert pauses["time_ns"] < 5_200_000


def test_stacks_that_are_there_are_not_asked_for(tmp_path: Path) -> None:
    assert "with_stack=True" in findings(silent(3000), tmp_path)["host_pauses"].text
    assert "with_stack=True" not in findings(silent(3000, stacks=True), tmp_path)["host_pauses"].text


def test_every_rule_has_its_own_name() -> None:
    names = [rule.name for rule in (*VERDICT_RULES, *ADVICE_RULES)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_communication_beside_the_path_would_be_next(tmp_path: Path) -> None:
    trace = communicating(beside=False)
    trace.launch(ALL_REDUCE, (9, 12), (112, 200), 3, stream=30)
    found = findings(trace, tmp_path)["exposed_communication"]
    # 188 µs of collectives, of which 100 µs are exposed: two of them run at once.
    assert found.saves_at_most_ns == found.bound_ns == 100_000


def renamed(name: str, rank: int) -> TraceBuilder:
    """A collective after a kernel in an annotation, on some rank."""
    trace = communicating(beside=False)
    trace.annotation(name, 0, 212)
    trace.header["distributedInfo"] = {"rank": rank}
    return trace


def behind(steps: int = 3) -> TraceBuilder:
    """Steps whose last work ends long after them, with communication and copies on the path."""
    trace = TraceBuilder()
    for number in range(steps):
        at = 400.0 * number
        trace.op("aten::work", at, at + 100)
        trace.launch("gemm", (at + 100, at + 103), (at + 110, at + 300), 10 * number + 1)
        trace.launch(ALL_REDUCE, (at + 104, at + 107), (at + 302, at + 500), 10 * number + 2, stream=20)
        trace.annotation(f"ProfilerStep#{number}", at, at + 390)
    return trace


SENTENCES: dict[str, tuple[Callable[[], TraceBuilder], hg.Window, str]] = {
    "no GPU": (
        lambda: with_gloo(runs=True), hg.whole(),
        "whole trace: bound by CPU, no operator (97% of the critical path); length 4.10 ms",
    ),
    "one rank, a tie": (
        lambda: renamed("forward", 3), hg.whole(),
        "whole trace: bound by GPU compute (47% of the critical path); length 212.0 µs",
    ),
    "an annotation": (
        lambda: renamed("forward", 3), hg.annotation("forward"),
        "forward[0]: bound by CPU, no operator (96% of the critical path); latency 212.0 µs",
    ),
    "a long annotation": (
        lambda: renamed("forward of " + "a module with a name " * 5, 1023), hg.annotation(".*module.*", regex=True),
        "forward of",
    ),
    "a step": (
        lambda: stepping(100, 300), hg.step(1),
        "step 1: bound by CPU work (65% of the critical path); latency 620.0 µs",
    ),
    "a step whose work lags": (
        behind, hg.step(1),
        "step 1: bound by GPU communication (40% of the critical path); latency 500.0 µs, iteration 400.0 µs",
    ),
    "no cause is known": (
        lambda: long_queued(100), hg.whole(),
        "whole trace: mostly unexplained (81% of the critical path); length 1.05 ms",
    ),
}  # fmt: skip
"""A trace, a window, and how the sentence to forward begins."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", SENTENCES)
def test_the_sentence_to_forward_is_plain_and_fits_a_line(case: str, tmp_path: Path) -> None:
    trace, window, begins = SENTENCES[case]
    text = findings(trace(), tmp_path, window)["bound_by"].text
    assert text.startswith(begins)
    assert len(text) <= 160
    assert "_" not in text


@pytest.mark.parametrize(("kernels", "said"), [
    ((("deep_ep::dispatch", 40), ("deep_ep::combine", 300)),
     "mostly on deep_ep::combine (0.900 ms) and deep_ep::dispatch (0.117 ms)"),
    ((("deep_ep::dispatch", 20), ("deep_ep::combine", 320)), "mostly on deep_ep::combine (0.960 ms)."),
    ((("deep_ep::combine", 20),), ""),
])  # fmt: skip
def test_what_the_gpu_works_on_while_the_path_has_no_cause_is_named(
    tmp_path: Path, kernels: tuple[tuple[str, float], ...], said: str
) -> None:
    """Nothing records or shows what the graph's last node waits for, while another thread's kernels exchange tokens."""
    trace = replayed_graph([400] * 3)
    for number in (1, 2, 3):
        at = 440.0 * number - 81 - sum(length for _, length in kernels)
        for place, (name, length) in enumerate(kernels):
            begin, corr = 440.0 * (number - 1) + 5 * place, 1_000 * (place + 1) + number
            trace.launch(name, (begin, begin + 3), (at, at + length), corr, stream=20, tid=2)
            at += length
    found = findings(trace, tmp_path)
    assert ("of it the GPU works" in found["unexplained"].detail) == bool(said)
    assert said in found["unexplained"].detail
    share = {300: "69%", 320: "73%"}.get(kernels[-1][1])
    assert ("meanwhile" in found["bound_by"].text) == bool(share)
    assert not share or f"; meanwhile the GPU works on deep_ep::combine for {share})" in found["bound_by"].text


def test_the_call_site_is_the_programs_own_line(tmp_path: Path) -> None:
    found = findings(reading("aten::item", 200, 200, frame="train.py(12): step"), tmp_path)["values_read"]
    assert found.evidence["sites"][0]["site"] == "train.py(12): step, aten::item"
    assert found.evidence["waits"] == 5


def test_what_waits_cost_is_what_running_ahead_would_save(tmp_path: Path) -> None:
    found = findings(reading("aten::item", 200, 200), tmp_path)["values_read"]
    # Five times 200 µs of the host's work, each of which the GPU's next 200 µs could have hidden.
    # The waits' own lags and the copies come on top.
    assert 1_000_000 < (found.saves_at_most_ns or 0) < 1_100_000


def test_a_gpu_that_starts_its_work_late_is_not_launch_bound(tmp_path: Path) -> None:
    """Work of 20 launches, on as many streams, starts only with the last of them, as where others have the GPU."""
    trace = TraceBuilder()
    for number in range(80):
        at, begin = 110 * number, 110 * (number // 20 * 20 + 19) + 8 + number % 20
        trace.op("aten::add", at, at + 109)
        trace.launch("kernel", (at + 1, at + 5), (begin, begin + 4), number + 1, stream=number % 20 + 7)
    assert "launch_bound" not in findings(trace, tmp_path)


def test_a_value_read_once_at_the_end_of_a_launch_bound_loop_is_no_reason(tmp_path: Path) -> None:
    trace = launching(20, 4)
    trace.op("aten::item", 1620, 1640)
    trace.call("cudaMemcpyAsync", 1621, 1632, 901)
    trace.copy("Memcpy DtoH (Device -> Pageable)", 1626, 1628, 901)
    found = findings(trace, tmp_path)
    assert "launch_bound" in found
    assert "values_read" not in found


def test_annotations_of_compilation_need_no_stacks(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 500), 1)
    trace.annotation("compile_fx_inner (dynamo_timed)", 100, 3_100)
    trace.launch("gemm", (3_200, 3_205), (3_210, 3_700), 2)
    assert findings(trace, tmp_path)["compilation"].evidence["longest"] == "compile_fx_inner (dynamo_timed)"


@pytest.mark.parametrize(
    ("frame", "action"),
    [
        ("Python GC", "Collect garbage by hand: gc.freeze()"),
        ("<built-in function collect>", "Call gc.collect() less often"),
    ],
)
def test_a_collection_that_the_program_asks_for_is_told_from_others(frame: str, action: str, tmp_path: Path) -> None:
    assert findings(collecting(frame), tmp_path)["garbage_collection"].action.startswith(action)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("call", "action", "said"),
    [
        ("cudaMalloc", "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "Varying shapes"),
        ("cudaFree", "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "1 of them returns memory"),
        ("cuMemMap", "Run the largest shapes first", "Expandable segments are in use"),
        ("cudaHostAlloc", "Pin host memory once", "Most of these calls pin memory"),
        ("cuMemUnmap", "Run the largest shapes first", "Expandable segments are in use"),
    ],
)
def test_expandable_segments_are_not_advised_where_they_are_used(
    call: str, action: str, said: str, tmp_path: Path
) -> None:
    found = findings(stepping(100, call=call), tmp_path, hg.step(1))["driver_allocations"]
    assert found.action.startswith(action)
    assert said in found.text


def test_allocations_of_the_first_step_are_warm_up(tmp_path: Path) -> None:
    assert "driver_allocations" not in findings(stepping(100), tmp_path, hg.step(0))


def test_advice_is_ordered_by_what_it_saves_and_never_saves_more_than_the_window(tmp_path: Path) -> None:
    facts = PathFacts(hg.critical_path(stepping(100, 300).graph(tmp_path), hg.step(1)))
    saved = [finding.saves_at_most_ns or 0 for finding in advice_of(facts)]
    assert saved == sorted(saved, reverse=True)
    assert max(saved) <= facts.path.length_ns


def covered_silence(times: int, cover_us: float) -> TraceBuilder:
    """Silences of 400 µs that end with a kernel's end, which runs for so much of each."""
    trace, at = TraceBuilder(), 0.0
    for number in range(1, 2 * times, 2):
        trace.op("aten::work", at, at + 5)
        trace.launch("dispatch", (at + 5, at + 9), (at + 409 - cover_us, at + 409), number)
        trace.op("aten::next", at + 410, at + 420)
        trace.launch("gemm", (at + 421, at + 425), (at + 428, at + 440), number + 1, stream=20)
        at += 442
    return trace


@pytest.mark.parametrize(("times", "cover_us", "warned"), [(2, 395, False), (2, 100, False)])
def test_the_guard_wants_several_covered_silences(times: int, cover_us: float, warned: bool, tmp_path: Path) -> None:
    assert ("host_may_poll" in findings(covered_silence(times, cover_us), tmp_path)) == warned


def test_the_guard_lowers_the_confidence_of_the_verdict_and_silences_advice_about_the_host() -> None:
    assert guard_rates("spinning", range(6), 100) == {"misled": 6, "misled, warned": 6}


@pytest.mark.parametrize("family", ["pytorch", "experts", "arbitrary"])
@pytest.mark.slow
def test_the_guard_is_silent_on_programs_that_do_not_spin(family: str) -> None:
    assert guard_rates(family, range(8), 300)["others, warned"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", OWN_PROGRAMS)
def test_a_program_that_follows_advice_saves_what_is_promised(rule: str) -> None:
    counts = own_rates(rule, range(4))
    assert counts["fired"]
    assert (counts["wrong"], counts["above rows"], counts["wrongly silent"]) == (0, 0, 0)
    assert counts["kept"] == counts["fired"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [7043, 7143, 7146, 8062, 8330, 10018, 10020, 10046])
@pytest.mark.parametrize("of_steps", [False, True])
def test_no_run_that_follows_advice_saves_more_than_its_bound(seed: int, of_steps: bool) -> None:
    """In these, waits for the driver's lock go as well, or loading that earlier iterations hid."""
    counts = rates("pytorch", [seed], 400, of_steps=of_steps)
    assert sum(count for (_, key), count in counts.items() if key == "above rows") == 0


@pytest.mark.slow
def test_following_advice_saves_time_on_simulated_programs() -> None:
    counts = rates("pytorch", range(8), 300)
    assert sum(count for (_, key), count in counts.items() if key == "fired") > 5
    assert sum(count for (_, key), count in counts.items() if key == "wrong") == 0


@pytest.mark.slow
def test_what_an_iteration_gains_is_predicted_or_doubted() -> None:
    counts = sum((rates(family, range(60), 400, of_steps=True) for family in ("pytorch", "experts")), Counter())
    fired, wrong, kept, neither = (
        sum(count for (_, key), count in counts.items() if key == name)
        for name in ("fired", "wrong", "kept", "neither")
    )
    assert (wrong, neither) == (0, 0)
    assert kept >= 0.95 * fired > 60


def test_compiled_programs_are_not_told_to_compile(tmp_path: Path) -> None:
    plain, compiled = launching(20, 4), launching(20, 4)
    compiled.op("Torch-Compiled Region: 0/0", 2_000, 2_001)
    assert "or torch.compile" in findings(plain, tmp_path)["launch_bound"].action
    assert "reduce-overhead" in findings(compiled, tmp_path)["launch_bound"].action


def test_all_of_python_is_not_one_frame(tmp_path: Path) -> None:
    """Four frames in turn take the time, so that none can be moved to save all of it."""
    trace = TraceBuilder()
    for number in range(40):
        at = 100 * number
        trace.frame(f"train.py({number % 4}): part_{number % 4}", at + 5, at + 95)
        trace.op("aten::add", at, at + 5)
        trace.launch("kernel", (at + 1, at + 3), (at + 10, at + 14), number + 1)
    assert findings(trace, tmp_path)["python_bound"].action.startswith("Run less Python")


@pytest.mark.parametrize("captures", [True, False])
def test_python_that_runs_once_to_capture_a_graph_is_not_advised_about(captures: bool, tmp_path: Path) -> None:
    """Its launches leave no rows of the GPU; the same without a capture is work of the host alone."""
    trace = TraceBuilder()
    if captures:
        trace.call("hipStreamBeginCapture", 0, 1)
    for number in range(40):
        at = 100 * number + 10
        trace.frame("model.py(7): forward", at + 5, at + 95)
        trace.op("aten::add", at, at + 5)
        trace.call("hipLaunchKernel", at + 1, at + 3)
    assert ("python_bound" in findings(trace, tmp_path)) is not captures


@pytest.mark.parametrize(
    "call",
    ["cuMemExportToShareableHandle", "cudaIpcOpenMemHandle", "cuIpcGetMemHandle_v2", "hipMemImportFromShareableHandle",
     "cuMulticastBindMem"],
)  # fmt: skip
def test_calls_that_share_memory_are_named_with_what_maps_it(call: str, tmp_path: Path) -> None:
    found = findings(sharing(900, call), tmp_path)["memory_sharing"]
    assert (found.evidence["calls"], found.evidence["time_ns"]) == (2, 915_000)
    assert f"915.0 µs (90%) in 2 calls, mostly {call}" in found.text


def test_mapping_alone_is_no_sharing(tmp_path: Path) -> None:
    assert "memory_sharing" not in findings(sharing(900, "cuMemCreate"), tmp_path)
