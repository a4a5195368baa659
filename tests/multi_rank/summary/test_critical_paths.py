"""A job of skeletons says of paths and waits what the job of whole graphs says: byte for byte."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.multi_rank.job_verdict import delays_by_step, job_verdict
from hta_graph.multi_rank.rank_activity import gpu_work_of_ranks
from hta_graph.multi_rank.rank_delays import working_time
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.paths.host_pauses import device_launches
from hta_graph.paths.unrecorded_work import unrecorded_times
from tests.matching_accuracy import DAMAGES, SCENARIOS, random_shape
from tests.simulator.ranks import record_job, simulate_job
from tests.support.deep_tests import cases
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import RankBuilder
from tests.support.shared_traces import SHARED
from tests.support.summary_job import ALL_KINDS, SUMMARY_KINDS, answer_or_error, path_json, recorded_ranks, summary_job

JOBS = ("nanogpt_ddp_8xh100", "dlrm_8xv100", "megatron_tp2_v100")


def assert_same(graphs: list[hg.DependencyGraph]) -> None:
    whole, few = (answer_or_error(partial(join, graphs)) for join in (hg.build_job, summary_job))
    if isinstance(whole, str):
        assert few == whole
        return
    assert few.diagnostics == whole.diagnostics
    for window in (None, hg.whole(), *(hg.step(item.number) for item in whole.steps()[:3])):
        said, other = (answer_or_error(partial(path_json, job, window)) for job in (whole, few))
        assert other == said
    own, other = WaitCauses(whole), WaitCauses(few)
    assert other.activities == own.activities
    for name in ("rank", "activity", "direct", "propagated", "collectives"):
        assert np.array_equal(getattr(other.attribute(), name), getattr(own.attribute(), name))


def test_what_computes_next_to_communication_on_the_path_is_known(tmp_path: Path) -> None:
    for rank in range(2):
        trace = RankBuilder(rank, 2)
        trace.launch("gemm", (2, 4), (6, 40 + 20 * rank), 1)
        trace.collective(12, (41 + 20 * rank, 100), 2, nelems=1_000)
        trace.launch("conv", (20, 22), (65, 90), 3)
        trace.write(tmp_path / f"rank{rank}.json")
    graphs = list(hg.read_graphs(tmp_path, communications=True))
    said = path_json(hg.build_job(graphs), hg.whole())
    assert path_json(summary_job(graphs), hg.whole()) == said
    (found,) = (one["evidence"] for one in said["verdict"] if one["rule"] == "exposed_communication")
    assert (found["on_path_ns"], found["exposed_ns"]) == (39_000, 14_000)


@pytest.mark.parametrize(("scenario", "backend", "damage"), SUMMARY_KINDS)
def test_a_job_of_skeletons_says_the_same(tmp_path: Path, scenario: str, backend: str, damage: str) -> None:
    assert_same(recorded_ranks(tmp_path, scenario, backend, damage, 1))


def ranks_with_a_backward_pass(folder: Path) -> list[hg.DependencyGraph]:
    """Write two ranks; on the first one a thread waits for gradients longer than for the work that it had called for.

    µs       0      10        20        30        40        50        60
    main     [mul  ][allreduce_]_____________________________________[allreduce_]
    worker              [gloo:all_reduce ======================]
    autograd              [evaluate_function                        ]
    """
    paths = []
    for rank, arrival in enumerate((10, 35)):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", 1, arrival - 1, tid=MAIN)
        trace.called("all_reduce", arrival, arrival + 2)
        trace.worked("all_reduce", arrival + 3, 44)
        if rank == 0:
            trace.op("autograd::engine::evaluate_function: AddBackward0", 15, 55, tid=300)
        trace.called("all_reduce", 60, 62, elements=9)
        trace.worked("all_reduce", 63, 70, elements=9)
        trace.op("aten::add", 78, 83, tid=MAIN)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return list(hg.read_graphs(paths, communications=True))


def test_what_a_thread_waited_for_is_compared_with_its_communication(tmp_path: Path) -> None:
    graphs = ranks_with_a_backward_pass(tmp_path)
    said = path_json(hg.build_job(graphs), hg.whole())
    assert path_json(summary_job(graphs), hg.whole()) == said
    assert "autograd::engine::evaluate_function: AddBackward0" in {row["name"] for row in said["segments"]}


def drifting_ranks(folder: Path, count: int = 60) -> list[hg.DependencyGraph]:
    """Write two ranks that come late in turn; the second one's clock is ahead by 25 ms and drifts by 50 ppm."""
    paths = []
    for rank in (0, 1):
        trace = GlooRank(rank, [0, 1])
        shown = partial(_drifted, rank * 25_000, rank * 50e-6)
        for at in range(count):
            begin, come = 100_000 * at, 100_000 * at + (40_000 if (at + rank) % 2 else 10_000)
            trace.op("aten::mul", shown(begin), shown(come - 1), tid=MAIN)
            trace.called("all_reduce", shown(come), shown(come + 2), 8 + at)
            trace.worked(
                "all_reduce", shown(come + 3), shown(begin + 50_000 + (7 * at + 3 * rank) % 11), elements=8 + at
            )
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return list(hg.read_graphs(paths, communications=True))


def _drifted(ahead: float, drift: float, time: float) -> float:
    return round(time + ahead + drift * (time - 3_000_000), 3)


def test_a_rank_whose_clock_drifts_is_read_in_the_jobs_time(tmp_path: Path) -> None:
    graphs = drifting_ranks(tmp_path)
    whole = hg.build_job(graphs)
    assert 45 < whole.clocks.drift_ppm.tolist()[1] < 55
    assert path_json(summary_job(graphs), hg.whole()) == path_json(whole, hg.whole())


def test_what_a_gpu_computes_while_a_receive_waits_is_known(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "pipeline", "nccl", "none", 0)
    whole, few = hg.build_job(graphs), summary_job(graphs)
    kept, every = gpu_work_of_ranks(few), gpu_work_of_ranks(whole)
    assert all(0 < len(own.start) < len(of.start) / 2 for own, of in zip(kept, every, strict=True))
    # That is as much as all of it, for where the ranks' walks are they work anyway.
    spans = delays_by_step(whole).spans
    worked, same = (working_time(job, WaitCauses(job), spans) for job in (whole, few))
    assert np.array_equal(worked, same)
    assert job_verdict(few) == job_verdict(whole)


def test_what_a_rank_lacks_and_its_pauses_are_in_the_jobs_time(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "ddp", "nccl", "all of these", 0)
    whole, few = (hg.critical_path(join(graphs)).graph for join in (hg.build_job, summary_job))
    for part, other in zip(whole.rank_graphs, few.rank_graphs, strict=True):
        # Rank 1, on which the whole path is, is asked for its rows; its clock is 1.5 ms ahead.
        if part.rank == 1:
            lost, same = (unrecorded_times(of.graph) for of in (part, other))
            assert lost.total == 9_000
            assert (same.start.tolist(), same.end.tolist()) == (lost.start.tolist(), lost.end.tolist())
            own, known = (device_launches(of.graph)[0].pauses for of in (part, other))
            assert (known.start.tolist(), known.end.tolist()) == (own.start.tolist(), own.end.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "backend", "damage"), ALL_KINDS)
def test_jobs_of_all_kinds_say_the_same(tmp_path: Path, scenario: str, backend: str, damage: str) -> None:
    for seed in range(cases(4)):
        (folder := tmp_path / str(seed)).mkdir()
        assert_same(recorded_ranks(folder, scenario, backend, damage, seed))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("job", [*sorted(path.name for path in (SHARED / "gloo").glob("*_*r_*")), *JOBS])
def test_real_jobs_say_the_same(job: str) -> None:
    folder = SHARED / ("traces" if job in JOBS else "gloo") / job
    assert_same(list(hg.read_graphs(folder, communications=True)))


def test_what_a_rank_did_least_of_is_added_up_by_class(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "ddp", "nccl", "none", 3)
    jobs = [summary_job(graphs, doings) for doings in (1 << 20, 4)]
    every, fewer = map(WaitCauses, jobs)
    assert len(fewer.activities) < len(every.activities)
    # All waiting is charged, to the nanosecond, whatever is told apart.
    assert fewer.attribute().caused.sum() == every.attribute().caused.sum()


@pytest.mark.slow
def test_a_window_that_takes_all_rows_is_refused(tmp_path: Path) -> None:
    few = summary_job(recorded_ranks(tmp_path, "ddp", "nccl", "none", 1))
    start = int(few.event_table.start.min())
    with pytest.raises(hg.HtaGraphError, match="needs all events of all ranks"):
        hg.critical_path(few, hg.between(start, start + 1_000))


@pytest.mark.slow
def test_a_job_of_files_holds_skeletons_where_that_is_asked_for(tmp_path: Path) -> None:
    job = simulate_job(SCENARIOS["ddp"](random_shape("ddp", "nccl", 1)))
    paths = record_job(job, DAMAGES["clocks"].recording(job, random.Random(1)), tmp_path).paths
    whole, few = hg.read_job(paths), hg.read_job(paths, summaries=True, cache=tmp_path / "cache")
    assert len(few.event_table) < len(whole.event_table)
    again = hg.read_job(paths, summaries=True, cache=tmp_path / "cache")
    for job, window in ((few, hg.whole()), (again, None)):
        said, of_whole = path_json(job, window), path_json(whole, window)
        # Summaries have the causes of waits only where they are asked for.
        assert said.pop("job_verdict")["reason"] == "no_causes_in_summary"
        of_whole.pop("job_verdict")
        for step in (*said.get("steps", ()), *of_whole.get("steps", ())):
            step.pop("held_up_by", None)
        assert said == of_whole
