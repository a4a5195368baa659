"""What bounds a window, by what is gained without it: on programs of which it is plain, and on samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.judgement.pricing import HOST_WORK, Gains
from analyses.judgement.verdict import (
    NOTHING_SUGGESTED,
    listed_advice,
    replayed_advice,
    replayed_verdict,
    verdict_sentences,
)
from hta_graph.model import BoundBy
from tests.support.samples import SAMPLES
from tests.support.trace_builder import TraceBuilder

LAUNCHES = 60


def launching(host_us: float, kernel_us: float) -> TraceBuilder:
    """The host launches one kernel after the other; each waits for its launch and for the kernel before it."""
    trace, free = TraceBuilder(), 0.0
    for number in range(LAUNCHES):
        begins = number * host_us
        trace.op("aten::relu", begins, begins + host_us - 1)
        start = max(free, begins + 8)
        free = start + kernel_us
        trace.launch("relu_kernel", (begins + 1, begins + 5), (start, free), number + 1)
    return trace


def gathering(kernel_us: float, transfer_us: float) -> TraceBuilder:
    """A kernel, then a collective that nothing overlaps, again and again; all is launched ahead."""
    trace, free = TraceBuilder(), 100.0
    for number in range(10):
        begins = 2.0 * number
        trace.launch("gemm", (begins, begins + 0.5), (free, free + kernel_us), 2 * number + 1)
        talks = (free + kernel_us, free + kernel_us + transfer_us)
        trace.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (begins + 1, begins + 1.5), talks, 2 * number + 2)
        free = talks[1]
    return trace


PROGRAMS: dict[str, tuple[Callable[[], TraceBuilder], str]] = {
    "the host launches slowly": (lambda: launching(50, 5), HOST_WORK),
    "kernels are long": (lambda: launching(10, 100), "gpu_compute_bound"),
    "the collective is exposed": (lambda: gathering(10, 300), "gpu_communication_bound"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_cause_is_the_one_without_which_the_window_would_be_shortest(program: str, tmp_path: Path) -> None:
    trace, cause = PROGRAMS[program]
    facts = PathFacts(hg.critical_path(trace().graph(tmp_path), hg.whole()))
    bound = next(finding for finding in replayed_verdict(facts) if finding.rule == "bound_by")
    assert bound.evidence["cause"] == cause
    assert bound.saves_ns is not None
    assert bound.bound_ns is not None
    assert 0 < bound.saves_ns <= bound.bound_ns <= facts.priced.length_ns


def test_a_host_that_is_as_long_as_the_gpu_is_not_called_the_bound_by_its_share_of_the_path(tmp_path: Path) -> None:
    """The path can be on the host all the time while the GPU is idle for next to nothing."""
    facts = PathFacts(hg.critical_path(launching(50, 38).graph(tmp_path), hg.whole()))
    gains = Gains.of(facts)
    assert gains is not None
    assert gains.without[HOST_WORK].ns <= facts.priced.gpu_idle_ns < 0.3 * facts.length_ns
    assert facts.share(gains.time_on_path(HOST_WORK)) > 0.9
    headline = verdict_sentences(facts.path)[0]
    assert "bound by host time" in headline
    assert "; largest single operator at 2x: aten::relu, " in headline


def test_where_only_faster_kernels_help_the_best_candidates_are_named(tmp_path: Path) -> None:
    path = hg.critical_path(launching(10, 100).graph(tmp_path), hg.whole())
    found = listed_advice(path)
    assert not found.shown
    assert "only faster kernels or less work help. Largest savings at 2x speed: " in found.why_nothing
    last = replayed_advice(PathFacts(path))[-1]
    assert last.rule == NOTHING_SUGGESTED
    assert {one["what"] for one in last.evidence["candidates"]} >= {"operator:aten::relu"}


def test_an_answer_either_advises_or_says_why_not() -> None:
    for name in ("sample_trace.json.gz", "slower_trace.json.gz"):
        path = hg.critical_path(hg.build_graph(hg.read_trace(SAMPLES / name)))
        found = listed_advice(path)
        assert bool(found.why_nothing) != any("[saves" in one.saving for one in found.shown)


def test_what_to_record_comes_first_where_much_is_unexplained(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaStreamSynchronize", 0, 150)
    for number in range(3):
        trace.op("aten::mm", 150 + 20 * number, 170 + 20 * number)
    found = listed_advice(hg.critical_path(trace.graph(tmp_path), hg.whole()))
    assert found.shown[0].action.startswith("Record ")


def test_the_longest_class_of_the_path_is_not_the_bound_where_something_else_is_as_long(tmp_path: Path) -> None:
    """The host works for 400 µs, launches a kernel of 600 µs, and works on until just before that ends."""
    trace = TraceBuilder()
    trace.op("prepare", 0, 400)
    trace.launch("gemm", (400, 405), (410, 1010), 1)
    trace.op("log", 406, 1000)
    facts = PathFacts(hg.critical_path(trace.graph(tmp_path), hg.whole()))
    bound = next(finding for finding in replayed_verdict(facts) if finding.rule == "bound_by")
    assert facts.class_ns(BoundBy.GPU_COMPUTE_BOUND) == 600_000
    assert bound.evidence["cause"] == HOST_WORK
    # Not "bound by host time (41%)" above a table that begins with 59%: the order is by what would be saved.
    named = "largest cause: host time (41% of the critical path; GPU compute 59%); without it, the window would be "
    assert named in bound.text
    assert bound.detail == "GPU compute is longer on the path but saves less: 10.0 µs (1%) at 2x speed."


def test_where_host_and_gpu_take_equally_long_both_must_do_less(tmp_path: Path) -> None:
    """Each call takes as long as its kernel: a faster GPU waits for the host, and a faster host for the GPU.

    µs         0         100       200
    thread     [mm 0    ][mm 1    ][mm 2    ]
    stream 7      [kernel 0][kernel 1][kernel 2]
    """
    trace = TraceBuilder()
    for number in range(40):
        at = 100 * number
        trace.op("aten::mm", at, at + 98)
        trace.launch("gemm", (at, at + 97), (at + 10, at + 109), number + 1)
    (found,) = [
        one
        for one in replayed_advice(PathFacts.of(hg.critical_path(trace.graph(tmp_path))))
        if one.rule == NOTHING_SUGGESTED
    ]
    assert found.text.startswith(
        "No cause alone saves 5% of the window; less work for both the host and the GPU does. "
        "Largest savings at 2x speed: operator aten::mm, "
    )
