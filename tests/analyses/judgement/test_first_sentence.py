"""The first sentence about one rank: what the rows do not show comes first, and nothing advised saves more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.judgement.findings import judgement
from analyses.judgement.pricing import GLOO, HOST_WORK, Gains
from analyses.judgement.verdict import listed_advice, replayed_advice, replayed_verdict, verdict_sentences
from analyses.questions.what_if.answer import what_if
from analyses.questions.what_if.text import what_if_lines
from analyses.report.summary import summary_of
from hta_graph.dependencies.synchronization import host_poll
from hta_graph.what_if.reliability import reliability
from hta_graph.what_if.replay import replay_graph
from tests.advice_accuracy import graph_of_run, spinning_loop
from tests.support.gloo_builder import GlooRank
from tests.support.gpu_in_slices import in_slices
from tests.support.samples import SAMPLES
from tests.support.trace_builder import TraceBuilder


def on_cpu(*, launches: bool = False, work_us: float = 90, each_us: float = 100) -> TraceBuilder:
    """Ten times an operator in 100 µs; none of what it may launch is recorded."""
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 10 * each_us)
    for number in range(10):
        at = each_us * number
        trace.op("aten::mm", at, at + work_us)
        if launches:
            trace.call("cudaLaunchKernel", at + 1, at + 5, number + 1)
    return trace


def with_a_copy(trace: TraceBuilder) -> TraceBuilder:
    """Add a copy that the GPU runs: it shows nothing of kernels."""
    trace.call("cudaMemcpyAsync", 960, 965, 99)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 966, 970, 99)
    return trace


def in_time() -> TraceBuilder:
    """The host works for 80 of each 100 µs before it launches a kernel of 10 µs."""
    trace = TraceBuilder()
    for number in range(60):
        at = 100.0 * number
        trace.op("aten::add", at, at + 86)
        trace.launch("add", (at + 80, at + 85), (at + 88, at + 98), number + 1)
    return trace


def queued() -> TraceBuilder:
    """A thousand kernels of 2 µs are launched ahead, and 2 µs pass between any two: no work starts late."""
    trace = TraceBuilder()
    for number in range(1_000):
        trace.launch("tiny", (number, number + 0.5), (1_200 + 4 * number, 1_202 + 4 * number), number + 1)
    return trace


SAID: dict[str, tuple[Callable[[], TraceBuilder], str | None, str]] = {
    "launches without work": (
        lambda: on_cpu(launches=True), "gpu_not_recorded",
        "step 1: no GPU activity is recorded for 10 launch calls, only host time; savings are unknown; ",
    ),
    "launches without kernels": (
        lambda: with_a_copy(on_cpu(launches=True)), "kernels_not_recorded",
        "step 1: 10 of 11 launch calls have no recorded GPU activity, so what the GPU did is not recorded for 995.0 ",
    ),
    "a program on the CPU": (on_cpu, None, "step 1: no GPU activity is recorded; bound by host time ("),
    "hardly a row": (
        lambda: on_cpu(work_us=200, each_us=2_000), "nothing_recorded",
        "step 1: no operator or call is recorded for 18.0 ms (90%); savings are unknown; ",
    ),
    # As PyTorch's own recordings of small models are: between two operators is Python.
    "much Python between small operators": (
        lambda: on_cpu(work_us=10), None, "step 1: no GPU activity is recorded; bound by host time (",
    ),
    "a GPU in slices": (
        lambda: in_slices(30, 2_400), "not_started", "whole trace: bound by launched work that does not start for ",
    ),
    "a GPU that starts in time": (in_time, None, "whole trace: bound by host time ("),
    "a full queue": (queued, None, "whole trace: bound by kernel gaps ("),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", SAID)
def test_what_the_rows_do_not_show_is_said_first_and_no_gain_is_claimed(case: str, tmp_path: Path) -> None:
    trace, missing, said = SAID[case]
    graph = trace().graph(tmp_path)
    window = hg.step(1) if said.startswith("step") else hg.whole()
    path = hg.critical_path(graph, window)
    bound = next(one for one in replayed_verdict(PathFacts(path)) if one.rule == "bound_by")
    assert bound.text.startswith(said)
    assert verdict_sentences(path)[0] == bound.text
    assert reliability(replay_graph(graph, window)).missing == missing
    assert (bound.saves_ns is None) == (missing is not None)
    savings = [one for one in replayed_advice(PathFacts(path)) if one.saves_ns is not None]
    headline = str(what_if_lines(what_if(graph, window))[0])
    assert ("savings are unknown" in headline) == (missing is not None)
    assert not (missing and savings)
    if missing is not None:
        page, end = summary_of(path, "run").headline, "; savings are unknown; "
        assert page.lower().startswith(said.lower().removesuffix(end))
        assert bound.text.startswith(page[0].lower() + page[1:] + end)


def test_work_that_does_not_start_is_said_to_wait_for_what_the_trace_does_not_show(tmp_path: Path) -> None:
    path = hg.critical_path(in_slices(30, 2_400).graph(tmp_path), hg.whole())
    assert "another process in turn, or the work may wait for other ranks" in verdict_sentences(path)[1]


def test_a_rank_of_a_job_whose_work_does_not_start_saves_nothing_in_the_job_either(tmp_path: Path) -> None:
    """What is unknown of the rank that the path is on is unknown of the job."""
    job = hg.read_job([in_slices(30, 2_400).write(tmp_path / "rank0.json"), in_time().write(tmp_path / "rank1.json")])
    path = hg.critical_path(job, hg.whole())
    (bound,) = (one for one in replayed_verdict(PathFacts(path)) if one.rule == "bound_by")
    assert bound.text.startswith("whole trace: bound by launched work on rank 0 that does not start for ")
    assert not [one for one in replayed_advice(PathFacts(path)) if one.saves_ns is not None]
    found = what_if(job, hg.whole())
    assert found.reliability.missing == "not_started"
    assert "savings are unknown" in str(what_if_lines(found)[0])


def test_a_job_whose_path_is_on_a_rank_that_starts_in_time_is_trusted(tmp_path: Path) -> None:
    job = hg.read_job([in_slices(2, 2_400).write(tmp_path / "rank0.json"), in_time().write(tmp_path / "rank1.json")])
    path = hg.critical_path(job, hg.whole())
    assert path.by_rank_ns[1] > path.by_rank_ns[0]
    assert what_if(job, hg.whole()).reliability.missing is None
    (bound,) = (one for one in replayed_verdict(PathFacts(path)) if one.rule == "bound_by")
    assert "does not start" not in bound.text


# -- the largest claim, advice included --------------------------------------------------------------------------------


def test_the_headline_is_the_advice_that_saves_most_where_that_is_more_than_any_cause() -> None:
    """Without its waits the host works while the GPU does: neither goes, and more is saved than without either."""
    path = hg.critical_path(hg.build_graph(hg.read_trace(SAMPLES / "slower_trace.json.gz")))
    bound = next(one for one in replayed_verdict(PathFacts(path)) if one.rule == "bound_by")
    first = replayed_advice(PathFacts(path))[0]
    assert (bound.evidence["first"], bound.saves_ns) == (f"scenario:{first.rule}", first.saves_ns)
    assert (first.rule, first.saves_ns) == ("values_read", 583_400)
    assert "; largest change: no values read from the GPU, at most 583.4 µs" in bound.text


def test_loading_that_only_delays_the_next_launches_is_advised_for_an_iteration_too() -> None:
    graph = hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz"))
    found = [replayed_advice(PathFacts(hg.critical_path(graph, hg.step(2, gpu_window=gpu)))) for gpu in (False, True)]
    saved = [{one.rule: one.saves_ns for one in advice if one.saves_ns} for advice in found]
    assert saved == [{"data_loading_exposed": 80_600}] * 2


def reading(*, kinds: bool) -> TraceBuilder:
    """The host waits before each launch: by reading a value, and, of several ``kinds``, by synchronizing in turn."""
    trace, at = TraceBuilder(), 0.0
    for number in range(40):
        for kernel in range(4):
            begins = at + 10 * kernel
            trace.op("aten::mm", begins, begins + 9)
            starts = at + 40 + 10 * kernel
            trace.launch("gemm", (begins + 2, begins + 6), (starts, starts + 10), 5 * number + kernel + 1)
        if kinds and number % 2:
            trace.call("cudaDeviceSynchronize", at + 42, at + 85)
        else:
            trace.op("aten::item", at + 41, at + 92)
            trace.call("cudaMemcpyAsync", at + 42, at + 44, 5 * number + 5)
            trace.copy("Memcpy DtoH (Device -> Pinned)", at + 81, at + 82, 5 * number + 5)
            trace.call("cudaStreamSynchronize", at + 45, at + 90)
        at += 100
    return trace


def test_waits_of_all_kinds_are_advised_where_they_cost_much_more_together(tmp_path: Path) -> None:
    """One kind alone leaves the other's waits, and so gains half."""
    for kinds in (False, True):
        facts = PathFacts(hg.critical_path(reading(kinds=kinds).graph(tmp_path), hg.whole()))
        found = {one.rule: one for one in replayed_advice(facts)}
        assert ("waits_of_all_kinds" in found) == kinds
        largest = max(one.saves_ns or 0 for one in found.values())
        bound = next(one for one in replayed_verdict(facts) if one.rule == "bound_by")
        assert (bound.saves_ns or 0) >= largest


# -- no stretch twice, names -------------------------------------------------------------------------------------------


def loading_after_a_wait() -> TraceBuilder:
    """The host reads a value, loads data for 500 µs, and works for 20 µs until it launches."""
    trace = TraceBuilder()
    for number in range(4):
        at = 1_000.0 * number
        trace.launch("gemm", (at, at + 5), (at + 10, at + 400), 3 * number + 1)
        trace.op("aten::item", at + 6, at + 420)
        trace.call("cudaMemcpyAsync", at + 7, at + 9, 3 * number + 2)
        trace.copy("Memcpy DtoH (Device -> Pinned)", at + 401, at + 402, 3 * number + 2)
        trace.call("cudaStreamSynchronize", at + 10, at + 410)
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 421, at + 921)
        trace.op("aten::stack", at + 430, at + 900)
        trace.op("aten::mm", at + 960, at + 1_000)
    return trace


def test_the_time_behind_a_wait_leaves_out_data_loading_which_is_advice_of_its_own(tmp_path: Path) -> None:
    facts = PathFacts(hg.critical_path(loading_after_a_wait().graph(tmp_path), hg.whole()))
    found = {one.rule: one for one in replayed_advice(facts)}
    loading, waits = found["data_loading_exposed"].evidence["loading_ns"], found["values_read"].evidence["gpu_idle_ns"]
    assert loading >= 3 * 500_000
    assert 0 < waits <= facts.gpu_idle_ns - loading
    assert "Data loading is not counted; without the wait it could overlap with GPU work." in found["values_read"].text


def pausing(outer: str, *, step: bool = False) -> TraceBuilder:
    """The host is in many short operators for 5 ms, all inside of one, between two launches."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 60), 1)
    if step:
        trace.annotation(outer, 10, 5_000)
    else:
        trace.op(outer, 10, 5_000)
    for number in range(49):
        trace.op(f"aten::part{number}", 20 + 100 * number, 110 + 100 * number)
    trace.op("aten::mm", 5_010, 5_030)
    trace.launch("gemm", (5_015, 5_020), (5_025, 5_100), 2)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("outer", "step", "said"),
    [
        ("aten::split_with_sizes", False, "pause, mostly in aten::split_with_sizes"),
        ("forward", True, "pause, mostly in forward"),
        ("ProfilerStep#1", True, "1 pause of 5.01 ms before aten::mm"),
    ],
)
def test_pauses_are_named_by_what_is_open_or_else_by_what_follows(
    outer: str, step: bool, said: str, tmp_path: Path
) -> None:
    facts = PathFacts(hg.critical_path(pausing(outer, step=step).graph(tmp_path), hg.whole()))
    found: PathFinding = next(one for one in replayed_advice(facts) if one.rule == "host_pauses")
    assert said in found.sentences


@pytest.mark.parametrize("waits", [False, True])
def test_python_that_waits_for_gloo_is_not_python_to_be_moved(waits: bool, tmp_path: Path) -> None:
    trace = GlooRank(0, [0, 1])
    trace.annotation("ProfilerStep#1", 0, 300, tid=1)
    trace.op("aten::mm", 5, 60, tid=1)
    trace.called("all_reduce", 61, 63)
    trace.frame("<built-in method wait>", 64, 250, tid=1)
    if waits:
        trace.worked("all_reduce", 64, 248)
    trace.op("aten::add", 251, 299, tid=1)
    path = hg.critical_path(hg.build_graph(hg.read_trace(trace.write(tmp_path / "t.json"))), hg.step(1))
    rules = {one.rule for one in replayed_advice(PathFacts(path))}
    assert ("python_bound" in rules) != waits
    assert listed_advice(path).shown


def test_silence_while_gloo_communicates_is_no_host_time(tmp_path: Path) -> None:
    """Operators for 110 µs and a collective for 184 µs: neither counts the other's time."""
    trace = GlooRank(0, [0, 1])
    trace.annotation("ProfilerStep#1", 0, 300, tid=1)
    trace.op("aten::mm", 0, 60, tid=1)
    trace.called("all_reduce", 60, 62)
    trace.worked("all_reduce", 62, 246)
    trace.op("aten::add", 250, 300, tid=1)
    facts = PathFacts(
        hg.critical_path(hg.build_graph(hg.read_trace(trace.write(tmp_path / "t.json"))), hg.step(1, cpu_window=True))
    )
    gains = Gains.of(facts)
    assert gains is not None
    assert (gains.time_on_path(GLOO), gains.time_on_path(HOST_WORK)) == (184_000, 116_000)
    assert gains.largest is not None
    assert gains.largest.cause == GLOO


# -- what else is as long, and by what the order is --------------------------------------------------------------------


def one_after_the_other(host_us: float, kernel_us: float) -> TraceBuilder:
    """The host works, launches a kernel, waits for it, and so on."""
    trace, at = TraceBuilder(), 0.0
    for number in range(20):
        trace.op("aten::mm", at, at + host_us)
        begins = at + host_us + 6
        trace.launch("gemm", (at + host_us + 1, at + host_us + 5), (begins, begins + kernel_us), number + 1)
        trace.call("cudaDeviceSynchronize", begins + 1, begins + kernel_us + 2, 100 + number)
        at = begins + kernel_us + 4
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("host_us", "kernel_us", "said"),
    [
        (300, 100, "bound by host time (76% of the critical path); without it, "),
        (110, 100, "bound by host time (55% of the critical path; GPU compute 45%); largest change: no wait after "),
        (20, 100, "bound by GPU compute (77% of the critical path); largest change: no wait after "),
    ],
)
def test_what_is_as_long_stands_beside_what_bounds_a_window(
    host_us: float, kernel_us: float, said: str, tmp_path: Path
) -> None:
    path = hg.critical_path(one_after_the_other(host_us, kernel_us).graph(tmp_path), hg.whole())
    assert verdict_sentences(path)[0].startswith(f"whole trace: {said}")


def test_a_gpu_that_works_for_longer_than_the_host_is_what_may_be_polled_for() -> None:
    graph = graph_of_run(spinning_loop(3))
    rules = [rule for rule in hg.DEFAULT_RULES if rule is not host_poll]
    path = hg.critical_path(hg.build_graph(graph.trace, rules), hg.whole())
    assert ") that the host may poll for, or by host time (" in verdict_sentences(path)[0]
    assert verdict_sentences(path)[0].startswith("whole trace: bound by GPU work (")
    doubts = {one.id: one.reason for one in judgement(PathFacts.of(path))}
    assert doubts["cause:host_work"] == "the host may be polling"


def test_gaps_are_no_known_cause_where_much_is_unexplained(tmp_path: Path) -> None:
    gains = Gains.of(PathFacts(hg.critical_path(queued().graph(tmp_path), hg.whole())))
    assert gains is not None
    assert gains.largest is not None
    assert gains.largest_known is not None
    assert gains.largest.cause == "gpu_kernel_kernel_overhead" != gains.largest_known.cause


def numbered() -> TraceBuilder:
    """Batches whose annotations hold their sizes, with nothing in them but a launch."""
    trace = TraceBuilder()
    for number in range(40):
        at = 100.0 * number
        trace.annotation(f"execute_context_{number}({8 * number})_generation_{number}(1)", at, at + 100)
        trace.launch("decode", (at + 60, at + 64), (at + 66, at + 70), number + 1)
    return trace


def test_numbered_annotations_are_one_item_of_a_path(tmp_path: Path) -> None:
    graph, name = numbered().graph(tmp_path), "execute_context_#(#)_generation_#(#)"
    path = hg.critical_path(graph, hg.whole())
    first = path.by_event().iloc[0]
    assert (first["name"], first["calls"]) == (name, 40)
    assert any(
        f"Largest item on the critical path: {name} (CPU, no operator)" in one for one in verdict_sentences(path)
    )
    replayed = hg.replay(graph, hg.scale("kernel:decode", 0.5), hg.whole())
    assert replayed.path_after.by_name()["name"][0] == name
    assert hg.replay(graph, (), hg.whole()).path_before.by_name()["name"][0] == name
