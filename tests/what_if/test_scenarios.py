"""Named scenarios on small programs and jobs: each changes what its sentence says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import analyses
import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.what_if.scenarios import SCENARIOS
from tests.support.rank_builder import RankBuilder
from tests.support.trace_builder import TraceBuilder

US = 1_000
SAMPLES = Path(analyses.__file__).parent / "sample"


def step(trace: TraceBuilder, number: int, start: float, gemm: float) -> float:
    """Add a step of 20 µs of data loading, an operator with two kernels, and a wait; return where it ends."""
    corr = 10 * number
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, start + 20)
    trace.op("aten::mm", start + 20, start + 40)
    end = start + 30 + gemm
    trace.launch("gemm", (start + 22, start + 26), (start + 30, end), corr + 1)
    trace.launch("bias", (start + 28, start + 32), (end + 2, end + 12), corr + 2)
    trace.call("cudaDeviceSynchronize", start + 42, end + 20, corr + 3)
    trace.annotation(f"ProfilerStep#{number}", start, end + 25)
    return end + 25


def three_steps(folder: Path) -> DependencyGraph:
    trace = TraceBuilder()
    at = 0.0
    for number, gemm in enumerate((100, 140, 100), start=1):
        at = step(trace, number, at, gemm)
    return trace.graph(folder)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("name", "argument", "length"),
    [
        ("data_loading_free", None, 195 - 20),
        ("like_median", None, 155),
        ("launches_free", None, 195 - 8),
        ("cuda_graphs", None, 195 - 5 - 8 - 2),
        ("no_host_syncs", None, 182),
        ("fused", "aten::mm", 195 - 2),
    ],
)
def test_a_scenario_does_what_it_says(name: str, argument: str | None, length: float, tmp_path: Path) -> None:
    """Step 2: 20 of loading, 10 until gemm starts, 140, a gap of 2, 10, return after 8, 5 without an operator."""
    replayed = hg.replay(three_steps(tmp_path), hg.scenario(name, argument), hg.step(2))
    assert replayed.measured_ns == 195 * US
    assert replayed.predicted_ns == length * US


def test_ranks_that_do_not_wait_end_with_their_own_work() -> None:
    job = hg.read_job(SAMPLES / "four_ranks")
    measured = hg.replay(job).measured_ns
    alone = hg.replay(job, hg.scenario("no_waiting")).predicted_ns
    free = hg.replay(job, hg.scenario("communication_free")).predicted_ns
    half = hg.replay(job, hg.scenario("communication", 0.5)).predicted_ns
    assert alone <= measured
    assert free < half < measured


def test_a_slow_rank_takes_the_time_of_the_others() -> None:
    job = hg.read_job(SAMPLES / "four_ranks")
    saved = {rank: hg.replay(job, hg.scenario("rank_like_others", rank)).saved_ns for rank in range(4)}
    assert max(saved.values()) > 0
    path = hg.critical_path(job)
    assert max(saved, key=lambda rank: saved[rank]) == max(path.by_rank_ns, key=lambda rank: path.by_rank_ns[rank])


def test_every_scenario_says_what_it_assumes() -> None:
    for name, known in SCENARIOS.items():
        assert known.says, name
        assert known.assumes, name
        assert known.argument is None or known.argument.startswith(("a ", "an "))


def test_only_steps_of_one_shape_are_compared(tmp_path: Path) -> None:
    """A step with one kernel more has no partner, so that none of its operations takes another's time."""
    trace = TraceBuilder()
    at = step(trace, 1, 0, 100)
    end = step(trace, 2, at, 140)
    trace.launch("gemm", (at + 32, at + 36), (at + 30 + 152, at + 30 + 155), 29)
    step(trace, 3, end, 100)
    graph = trace.graph(tmp_path)
    replayed = hg.replay(graph, hg.scenario("like_median"), hg.step(2))
    gemm = next(
        row
        for row in range(len(graph.event_table))
        if graph.event_table.start[row] - graph.event_table.start.min() == (at + 30) * US
    )
    assert replayed.times[2 * gemm + 1] - replayed.times[2 * gemm] == 140 * US


def test_what_one_rank_alone_does_is_not_done_by_a_rank_like_the_others(tmp_path: Path) -> None:
    """Two ranks are bound by their hosts; one of them multiplies twice more, which has no partner."""
    for rank, products in enumerate((1, 3, 1)):
        trace = RankBuilder(rank, 3)
        for number in range(products):
            trace.op("aten::mm", 10 * number, 10 * number + 8)
        trace.op("aten::add", 10 * products, 10 * products + 5)
        trace.write(tmp_path / f"rank{rank}.json")
    job = hg.read_job(tmp_path)
    replayed = hg.replay(job, hg.scenario("rank_like_others", 1))
    assert (replayed.measured_ns, replayed.predicted_ns) == (35 * US, 15 * US)
