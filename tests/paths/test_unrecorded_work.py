"""Launched work without a row: its time is unknown, never idle and never a gain; whole recordings have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import advice_of
from analyses.declare.scope import whole
from analyses.questions import idle_time, temporal_breakdown
from analyses.questions.catalogue import analysis
from hta_graph.paths.engine_step_table import engine_step_table
from hta_graph.paths.unrecorded_work import lost_launches, rows_of_gpu_use, unrecorded_times, unrecorded_work
from hta_graph.what_if.bounds import Bounds
from hta_graph.what_if.reliability import reliability
from hta_graph.what_if.replay import replay_graph
from tests.edge_accuracy import read
from tests.recording_gaps import LOSSES, busy_times, losses
from tests.simulator import Dialect, random_program, simulate, write
from tests.support.command_line import run_command
from tests.support.cuda_graph_replay import replayed_graph
from tests.support.deep_tests import deep
from tests.support.rank_builder import RankBuilder
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(4)


def steps(lost: range = range(0), step: str = "ProfilerStep#{number}") -> TraceBuilder:
    """Ten steps of a launch, its kernel of 380 µs and a wait for it; the kernels of some have no row."""
    trace = TraceBuilder()
    for number in range(10):
        at = 500.0 * number
        trace.annotation(step.format(number=number), at, at + 480)
        trace.op("aten::mm", at, at + 20)
        trace.call("cudaLaunchKernel", at + 2, at + 10, number + 1)
        if number not in lost:
            trace.kernel("gemm", at + 20, at + 400, number + 1)
        trace.call("cudaStreamSynchronize", at + 30, at + 410, 100 + number)
    return trace


@pytest.mark.parametrize("family", ["pytorch", "experts"])
@pytest.mark.parametrize("seed", [0, *(deep(seed) for seed in range(1, 30))])
def test_no_whole_recording_of_a_program_lacks_work(family: str, seed: int) -> None:
    run = simulate(random_program(seed, family, 400))  # type: ignore[arg-type]
    assert not len(unrecorded_work(read(write(run, Dialect()))))


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, *(deep(seed) for seed in range(1, 10))])
def test_no_time_in_which_a_lost_kernel_ran_is_called_idle(seed: int, share: float) -> None:
    run, random = simulate(random_program(seed, "pytorch", 400)), np.random.default_rng(seed)
    whole_busy = busy_times(read(write(run, Dialect())))
    # What a graph's first or last nodes took shows nowhere.
    kernels = [event.uid for event in run.events if event.kind == "kernel" and event.name != "graph_kernel"]
    graph = read(write(run, Dialect(), lost=[uid for uid in kernels if random.random() < share]))
    called_idle = whole_busy.subtract(busy_times(graph)).subtract(unrecorded_times(graph))
    assert called_idle.total <= 0.01 * whole_busy.total


def test_lost_steps_are_unknown_and_the_parts_still_sum(tmp_path: Path) -> None:
    graph = steps(range(4)).graph(tmp_path)
    assert len(lost_launches(graph)) == 4
    (row,) = temporal_breakdown.temporal_breakdown([whole(0, graph)]).to_dict("records")
    parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns", "not_recorded_ns")
    assert sum(row[part] for part in parts) == row["window_ns"]
    # From each lost call to the return of the wait behind it.
    assert row["not_recorded_ns"] == 4 * 408_000
    found = idle_time.answer([whole(0, graph)])
    causes = found.main.set_index("cause")
    assert causes.loc["not_recorded", "idle_ns"] == 4 * 408_000
    assert np.isnan(causes.loc["not_recorded", "idle_share"])
    assert causes["idle_share"].sum() == pytest.approx(1.0)


def test_no_saving_is_promised_of_what_is_unknown(tmp_path: Path) -> None:
    graph = steps(range(4)).graph(tmp_path)
    window = hg.between(0, 2_000_000)(graph)
    assert reliability(replay_graph(graph, hg.between(0, 2_000_000))).reason == "kernels_not_recorded"
    bounds = Bounds.of(graph, window)
    assert bounds.not_recorded_ns == 4 * 408_000
    assert bounds.gpu_idle_ns == window.end_ns - window.start_ns - 4 * 408_000
    assert reliability(replay_graph(graph, hg.between(2_000_000, 4_500_000))).missing is None


def test_what_runs_on_another_stream_is_known(tmp_path: Path) -> None:
    """The GPU worked in 150 µs of the time in which a lost kernel may have run."""
    trace = steps(range(4, 5))
    trace.launch("copy", (2_012, 2_016), (2_100, 2_250), 900, stream=20)
    assert unrecorded_times(trace.graph(tmp_path)).total == 408_000 - 150_000


def test_a_wait_for_another_stream_ends_no_unknown_time(tmp_path: Path) -> None:
    """The host waits for a copy's stream, as its record says, and 200 µs later for the one of the lost kernel."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch("gemm", (2, 10), (20, 100), 1)
    trace.op("aten::mm", 110, 130)
    trace.call("cudaLaunchKernel", 112, 120, 2)
    trace.launch("copy", (140, 150), (160, 260), 3, stream=20)
    trace.call("cudaStreamSynchronize", 155, 265, 4)
    trace.sync_row("Stream Sync", 155, 265, 4, stream=20)
    trace.call("cudaStreamSynchronize", 300, 465, 5)
    trace.sync_row("Stream Sync", 300, 465, 5, stream=7)
    found = unrecorded_work(trace.graph(tmp_path))
    assert (found.end - found.start).tolist() == [465_000 - 112_000]


def test_steps_of_an_engine_are_not_idle_while_work_may_run_that_was_not_recorded(tmp_path: Path) -> None:
    whole_steps, lost = (
        engine_step_table(steps(which, "execute_context_0(0)_generation_4(4)").graph(tmp_path))
        for which in (range(0), range(5, 6))
    )
    assert [row.not_recorded_ns for row in whole_steps] == [0] * 10
    assert sum(row.not_recorded_ns for row in lost) == 408_000
    for row in lost:
        assert row.busy_ns + row.idle_ns + row.not_recorded_ns == row.own_ns


@pytest.mark.parametrize("name", ["temporal-breakdown", "kernel-breakdown", "idle-time", "launch-stats", "overlap"])
def test_every_answer_says_first_what_was_not_recorded(name: str, tmp_path: Path) -> None:
    graph = steps(range(4)).graph(tmp_path)
    found = analysis(name).answer_about([whole(0, graph)])
    said = "rank 0: 4 of 10 launch calls have no recorded GPU activity: what the GPU did is not recorded for 1.63 ms ("
    assert found.headline[0].startswith(said)


def test_gate_and_diff_say_which_side_lacks_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = steps().write(tmp_path / "whole.json"), steps(range(4, 6)).write(tmp_path / "lost.json")
    _, out, _ = run_command(capsys, "gate", *paths)
    assert "Not all of the new run was recorded: 2 of 10 launch calls" in " ".join(out.split())
    assert "Not all of the baseline" not in out
    _, out, _ = run_command(capsys, "diff", *paths)
    assert "After: 2 of 10 launch calls have no recorded GPU activity" in " ".join(out.split())


def test_one_piece_of_advice_says_that_work_was_not_recorded(tmp_path: Path) -> None:
    path = hg.critical_path(steps(range(4)).graph(tmp_path), hg.between(0, 2_000_000))
    assert path.by_reason_ns["not_recorded"] == path.by_bound_ns["unexplained"] > 0.5 * path.length_ns
    rules = [finding.rule for finding in advice_of(PathFacts(path))]
    assert "work_not_recorded" in rules
    assert "causes_not_recorded" not in rules


def test_one_lost_call_among_many_makes_little_unknown(tmp_path: Path) -> None:
    graph = steps(range(6, 7)).graph(tmp_path)
    assert unrecorded_times(graph).total == 408_000
    assert reliability(replay_graph(graph, hg.whole())).missing is None


@pytest.mark.parametrize(
    ("call", "args", "is_lost"),
    [
        ("cudaLaunchKernel", {}, True),
        ("hipModuleLaunchKernel", {}, True),
        ("cuLaunchKernelEx", {}, True),
        ("cudaGraphLaunch", {}, True),
        ("cudaMemcpyAsync", {}, True),
        ("cudaMemsetAsync", {}, False),
        ("cudaLaunchHostFunc", {}, False),
        ("cudaEventRecord", {}, False),
    ],
)
def test_only_calls_that_leave_a_row_lose_one(call: str, args: dict[str, int], is_lost: bool, tmp_path: Path) -> None:
    trace = steps()
    trace.call(call, 5_000, 5_010, 900)
    assert len(lost_launches(trace.graph(tmp_path))) == is_lost


def test_what_is_captured_runs_later_and_is_not_lost(tmp_path: Path) -> None:
    trace = steps()
    trace.call("cudaStreamBeginCapture", 5_000, 5_001, 900)
    trace.call("cudaLaunchKernel", 5_010, 5_015, 901)
    trace.call("cudaStreamEndCapture", 5_020, 5_021, 902)
    assert not len(lost_launches(trace.graph(tmp_path)))


def test_what_one_rank_captures_hides_no_call_of_another_one(tmp_path: Path) -> None:
    """Nor a capture that began before the recording what comes behind the next one."""
    traces = [RankBuilder(rank, 2) for rank in range(2)]
    traces[0].call("cudaStreamEndCapture", -20, -15, 1)
    traces[0].call("cudaStreamBeginCapture", 0, 5, 2)
    for rank, trace in enumerate(traces):
        trace.collective(-100, (-90, -50), 8)
        trace.call("cudaLaunchKernel", 10, 20, 3)
        trace.call("cudaLaunchKernel", 70, 80, 4)
        trace.launch("gemm", (90, 95), (100, 110 + rank), 5)
    traces[0].call("cudaStreamEndCapture", 50, 55, 6)
    job = hg.read_job([trace.write(tmp_path / f"rank{at}.json") for at, trace in enumerate(traces)])
    rows = np.flatnonzero(rows_of_gpu_use(job)[0])
    assert np.bincount(job.rank_index_of(rows)).tolist() == [3, 4]


def test_of_two_calls_inside_each_other_one_has_the_row(tmp_path: Path) -> None:
    trace = steps()
    trace.call("cudaLaunchKernel", 5_000, 5_020, 900)
    trace.call("cuLaunchKernel", 5_002, 5_018, 901)
    trace.kernel("gemm", 5_030, 5_050, 901)
    assert not len(lost_launches(trace.graph(tmp_path)))


def test_rows_that_name_no_call_may_be_those_of_calls_without_a_row(tmp_path: Path) -> None:
    trace = steps(range(5, 6))
    trace.kernel("gemm", 2_520, 2_900, 77_777)
    assert not len(lost_launches(trace.graph(tmp_path)))


def test_a_hole_in_a_replay_that_lacks_nodes_is_unknown(tmp_path: Path) -> None:
    """Four replays of four nodes; the third one lacks the second node, of 100 µs."""
    trace = TraceBuilder()
    for number in range(4):
        at = 1_000.0 * number
        trace.call("cudaGraphLaunch", at, at + 10, number + 1)
        for place in range(4):
            if (number, place) != (2, 1):
                trace.kernel(f"node{place}", at + 20 + 102 * place, at + 120 + 102 * place, number + 1)
        trace.call("cudaStreamSynchronize", at + 20, at + 440, 100 + number)
    graph = trace.graph(tmp_path)
    found = unrecorded_work(graph)
    assert found.is_node.tolist() == [True]
    assert (found.end - found.start).tolist() == [104_000]


def test_whole_replays_lack_nothing(tmp_path: Path) -> None:
    assert not len(unrecorded_work(replayed_graph([1.0] * 5).graph(tmp_path)))


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", [deep("ddp_v100/rank1"), "megatron_tp2_v100/kineto_rank1", deep("sam_compile_cudagraph_a100/rank0")]
)
def test_lost_rows_of_real_traces_are_never_called_idle(name: str, tmp_path: Path) -> None:
    found = list(losses(SHARED / "traces" / f"{name}.json.gz", tmp_path))
    assert len(found) == len(LOSSES)
    for one in found:
        assert one.called_idle_ns <= 0.01 * one.time_ns, one
