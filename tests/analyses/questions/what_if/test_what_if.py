"""what-if: what it answers on the command line, in JSON and in words, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import analyses
import hta_graph as hg
from analyses.display.text_layout import Line, TextTable
from analyses.judgement.verdict import verdict_records
from analyses.questions.what_if.answer import WhatIf, scale_change, scenario_change, what_if, what_if_document
from analyses.questions.what_if.text import what_if_lines
from hta_graph.paths.windows import median_step
from hta_graph.what_if.reliability import Reliability
from hta_graph.what_if.replay import Replayed
from hta_graph.what_if.scenarios import SCENARIOS
from tests.simulator.ranks import Fault, JobShape, Recording, gpipe, record_job, simulate_job
from tests.support.command_line import BOUND_BY, command_json, one_error, run_command
from tests.support.gloo_builder import late_ranks
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

pytestmark = pytest.mark.sampled(2)

FOLDER = Path(analyses.__file__).parent / "sample"
SAMPLE, JOB = FOLDER / "sample_trace.json.gz", FOLDER / "four_ranks"

KEYS = [
    "schema", "file", "rank", "window", "steps", "measured_ns", "identity_ns", "predicted_ns", "saved_ns",
    "frozen_share", "inferred_share", "reliable", "reason", "changes", "next", "opportunities", "scenarios",
    "path_before", "path_after", "diagnostics",
]  # fmt: skip


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return command_json(capsys, "what-if", *arguments)


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    status, out, err = run_command(capsys, "what-if", *arguments)
    assert status == 0, err
    return out.splitlines()


@pytest.mark.slow
def test_what_may_be_waiting_for_a_stage_without_a_file_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 is late, and then waits for rank 2, whose file is missing: as long as before, or not at all."""
    shape = JobShape(4, 4, backend="gloo", faults=[Fault(1, step, "forward", 5_000_000) for step in range(4)] * 4)
    recorded = record_job(simulate_job(gpipe(shape)), Recording(), tmp_path)
    asks = "--scenario", "rank_like_others=1", "--step", "2"
    assert asked(capsys, tmp_path, *asks)["reliable"]
    recorded.paths[2].unlink()
    found = asked(capsys, tmp_path, *asks)
    assert (found["reliable"], found["reason"]) == (False, "waiting")
    for given in (asks, ("--step", "2")):
        doubt = "(not reliable: 84% of the predicted time may be waiting for other ranks)"
        assert said(capsys, tmp_path, *given)[0].startswith(f"step 2 {doubt}: ")
    assert asked(capsys, tmp_path, *asks, "--summaries", "always")["reason"] == "waiting"


def test_a_small_saving_leads_no_answer_whose_replay_cannot_be_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = mostly_communication(tmp_path)
    monkeypatch.setattr(WhatIf, "reliability", Reliability(0.9))
    monkeypatch.setattr("analyses.questions.what_if.headline.firsts", lambda _: [])
    first = str(what_if_lines(what_if(graph, hg.step(2)))[0])
    assert first == "step 2: savings are unknown, because 90% of the path is fixed in replay"


def gpu_bound(folder: Path) -> Path:
    """Write one step, whose second kernel waits for the first.

    µs       0   10     20   30
    thread   [mm ]launch[mm ]launch
    stream               [a 22 ... 62][b 64 ... 104]
    """
    trace = TraceBuilder(distributedInfo={"rank": 0, "world_size": 1})
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.op("aten::mm", 2, 20)
    trace.launch("a", (10, 18), (22, 62), 1)
    trace.op("aten::add", 24, 40)
    trace.launch("b", (30, 38), (64, 104), 2)
    return trace.write(folder / "trace.json")


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_without_a_change_all_lengths_are_the_recorded_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = asked(capsys, gpu_bound(tmp_path))
    assert list(found) == [*KEYS[:3], "judgement", *KEYS[3:]]
    assert (found["schema"], found["rank"], found["changes"]) == ("hta-graph/what-if/1", 0, [])
    assert found["measured_ns"] == found["identity_ns"] == found["predicted_ns"] == 104_000
    assert (found["saved_ns"], found["next"]) == (0, None)
    assert found["path_before"] == found["path_after"]
    assert set(found["path_after"]["by_bound_ns"]) == BOUND_BY
    assert sum(found["path_after"]["by_bound_ns"].values()) == 104_000
    rows = {(row["kind"], row["name"]): row for row in found["opportunities"]}
    keys = ["kind", "name", "on_path_ns", "saved_half_ns", "saved_free_ns", "next", "alone_ns"]
    assert list(rows["kernel", "b"]) == keys
    assert [rows["kernel", "b"][key] for key in ("on_path_ns", "saved_half_ns", "saved_free_ns")] == [
        40_000, 20_000, 40_000,
    ]  # fmt: skip


def test_a_default_window_has_its_steps_and_a_named_one_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["step"] for row in asked(capsys, SAMPLE)["steps"]] == [1, 2, 3]
    named = asked(capsys, SAMPLE, "--step", 2)
    assert [key for key in KEYS if key not in named] == ["steps"]
    assert named["window"]["label"] == "ProfilerStep#2 (GPU window)"


def test_changes_are_listed_as_they_were_asked_for_and_compose(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = asked(
        capsys, gpu_bound(tmp_path), "--scale", "kernel:a=0.5", "kernel:b=0.25", "--remove", "operator:none|add"
    )
    assert [(row["change"], row["what"]) for row in found["changes"]] == [
        ("scale", "kernel:a"), ("scale", "kernel:b"), ("remove", "operator:none|add"),
    ]  # fmt: skip
    assert found["changes"][0] == {
        "change": "scale", "what": "kernel:a", "factor": 0.5, "says": "kernel:a takes 0.5 times as long",
        "assumes": None,
    }  # fmt: skip
    # The second operator is gone with the kernel that it launches.
    assert found["saved_ns"] == found["measured_ns"] - found["predicted_ns"] >= 60_000
    assert found["opportunities"] == found["scenarios"] == []
    both = asked(capsys, tmp_path / "trace.json", "--scale", "kernel:a=0.5", "--scale", "kernel:b=0.25")
    assert both["saved_ns"] == 20_000 + 30_000
    assert sum(both["path_after"]["by_bound_ns"].values()) == both["predicted_ns"]


def test_the_order_of_changes_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--remove", "class:cpu_gap", "--scenario", "communication=0.5", "--scale", "kernel:sgemm=2"]
    found = asked(capsys, SAMPLE, *given)["changes"]
    assert [row["change"] for row in found] == ["remove", "scenario", "scale"]
    assert [row["argument"] for row in found if row["change"] == "scenario"] == ["0.5"]


def test_names_hold_equal_signs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch("tile<n=4>", (5, 10), (20, 60), 1)
    found = asked(capsys, trace.write(tmp_path / "t.json"), "--scale", "kernel:tile<n=4>=0.5")
    assert found["saved_ns"] == 20_000


def test_the_curve_of_the_only_scaling_comes_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = gpu_bound(tmp_path)
    found = asked(capsys, path, "--scale", "kernel:a=0.5")["curve"]
    assert found["what"] == "kernel:a"
    assert list(found["corners"][0]) == ["factor", "predicted_ns", "saved_ns", "on_path_ns", "next"]
    # From some factor on the host decides, which launches the second kernel.
    assert [corner["factor"] for corner in found["corners"]] == [1.0, pytest.approx(0.3, abs=0.3), 0.0]
    assert found["corners"][0]["predicted_ns"] == 104_000
    assert "curve" not in asked(capsys, path, "--scale", "kernel:a=0.5", "kernel:b=0.5")
    assert asked(capsys, path, "--curve", "kernel:b")["curve"]["what"] == "kernel:b"
    assert "curve" not in asked(capsys, path)


def test_a_job_tells_its_ranks_and_asks_each_alone_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, JOB, "--scenario", "rank_like_others=2")
    assert (found["rank"], found["ranks"]) == (None, [0, 1, 2, 3])
    assert sum(found["path_after"]["by_rank_ns"].values()) == found["predicted_ns"] < found["measured_ns"]
    assert {event["rank"] for event in found["path_after"]["events"]} <= {0, 1, 2, 3}
    assert found["next"].startswith("rank ")
    alone = asked(capsys, JOB, "--rank", "2")
    assert alone["rank"] == 2
    assert "ranks" not in alone
    assert "by_rank_ns" not in alone["path_after"]


def test_names_are_whole_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    trace = TraceBuilder()
    trace.op("aten::add", 0, 20)
    trace.launch(name, (5, 10), (20, 60), 1)
    path = trace.write(tmp_path / "t.json")
    assert ("kernel", name) in {(row["kind"], row["name"]) for row in asked(capsys, path)["opportunities"]}
    # A name counts as tables show it, too.
    shown = asked(capsys, path, "--scale", "kernel:vectorized_elementwise [CUDAFunctor_add]=0")
    assert shown["saved_ns"] == 40_000


@pytest.mark.slow
def test_near_critical_work_is_the_same_beside_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    asked_for = ("--near", "5%")
    near = asked(capsys, JOB, *asked_for)["near"]
    assert list(near) == ["threshold_ns", "by_rank", "alternatives"]
    assert [row["rank"] for row in near["by_rank"]] == [0, 1, 2, 3]
    beside = command_json(capsys, "critical-path", JOB, *asked_for)
    assert beside["near"] == near
    assert near["threshold_ns"] == int(0.05 * (beside["window"]["end_ns"] - beside["window"]["start_ns"]))
    assert "near" not in command_json(capsys, "critical-path", JOB)
    lines = run_command(capsys, "critical-path", JOB, *asked_for)[1]
    assert re.search(r"near-critical work \(slack below .*\), by rank", lines)
    assert "No other rank or class of work is near-critical." in lines
    assert "alternative paths to the end of the window" in run_command(capsys, "critical-path", JOB, "--near", "50%")[1]


def test_an_annotation_and_explicit_times_are_asked_as_a_path_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = gpu_bound(tmp_path)
    assert asked(capsys, path, "--window", "30000:90000")["measured_ns"] == 60_000
    assert asked(capsys, path, "--annotation", "ProfilerStep#1", "--cpu-window")["measured_ns"] == 50_000
    assert asked(capsys, path, "--whole")["measured_ns"] == 102_000


# -- words -------------------------------------------------------------------------------------------------------------


def test_the_first_line_says_it_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = gpu_bound(tmp_path)
    assert said(capsys, path, "--scale", "kernel:a=0.5")[0] == (
        "step 1: 84.0 µs instead of 104.0 µs (−19.2%); largest item: b"
    )
    assert said(capsys, path, "--scale", "kernel:^a=0")[0] == (
        "step 1: 82.0 µs instead of 104.0 µs (−21.2%); next bottleneck: cudaLaunchKernel"
    )
    assert said(capsys, path, "--scale", "kernel:a=2")[0].endswith("instead of 104.0 µs (+38.5%)")
    assert said(capsys, path, "--scale", "kernel:a=1")[0] == (
        "step 1: 104.0 µs as before; the changes affect nothing on its path"
    )


def test_a_bare_operator_means_its_own_time_and_the_answer_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = gpu_bound(tmp_path)
    note = "'aten::add' matched 1 event's own CPU time only; use operator:aten::add to include the kernels they launch"
    assert said(capsys, path, "--scale", "aten::add=0.5")[:2] == ["step 1: 104.0 µs as before", f"{note}."]
    assert note in repr(hg.replay(hg.build_graph(path), hg.scale("aten::add", 0.5)))
    assert not hg.replay(hg.build_graph(path), hg.scale("operator:aten::add", 0.5)).remarks


def test_classes_are_named_by_label_or_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = gpu_bound(tmp_path)
    by_key = asked(capsys, path, "--scale", "class:gpu_compute_bound=0.5")
    assert by_key["saved_ns"] > 0
    assert asked(capsys, path, "--scale", "class:gpu Compute=0.5")["saved_ns"] == by_key["saved_ns"]


def test_a_step_is_priced_by_its_iteration_with_its_latency_next_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    changed = (SAMPLE, "--step", 2, "--scenario", "communication_free")
    of_iteration, latency = asked(capsys, *changed, "--gpu-window"), asked(capsys, *changed).pop("latency")
    assert [asked(capsys, *changed)[key] for key in ("measured_ns", "saved_ns")] == [
        of_iteration["measured_ns"], of_iteration["saved_ns"]
    ]  # fmt: skip
    found = hg.replay(hg.build_graph(hg.read_trace(SAMPLE)), hg.scenario("communication_free"), hg.step(2))
    assert (latency["measured_ns"], latency["saved_ns"]) == (found.measured_ns, found.saved_ns)
    assert "latency" not in of_iteration
    assert said(capsys, *changed)[1] == "Latency: 1.07 ms instead of 1.16 ms (−8.2%)."


def test_a_headline_says_at_most_what_rows_allow(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The GPU computes in all but 25 µs of the step: loading that takes no time saves no more for sure.

    µs        0      10                      200     215       300
    thread    [launch][load ~~~~~~~~~~~~~~~~~~][launch]
    stream 7         [gemm ~~~~~~~~~~~~~~~~~~~]
    stream 8                                          [conv ~~~~]
    """
    trace = TraceBuilder(distributedInfo={"rank": 0, "world_size": 1})
    trace.annotation("ProfilerStep#1", 0, 300)
    trace.launch("gemm", (0, 5), (10, 200), 1)
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 40, 200)
    trace.launch("conv", (200, 208), (215, 300), 2, stream=8)
    lines = said(capsys, trace.write(tmp_path / "t.json"), "--step", "1", "--scenario", "data_loading_free")
    assert lines[0].startswith("step 1: at least 275.0 µs instead of 300.0 µs (−8.3%)")
    assert lines[1].startswith("Replay predicts 2")
    assert said(capsys, JOB, "--scenario", "data_loading_free")[0].startswith("step 2: 1.09 ms instead of 1.36 ms")


def test_without_rows_of_a_gpu_loading_saves_its_time_and_silence_is_said_to_stay(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A data set that reads files records nothing inside the loader's annotation; neither does a request that sleeps.

    ms        0   1         11  12           15  16
    thread    [mm][load ~~~~~][mm][request ~~~][mm]
    """
    trace = TraceBuilder()
    for start in (0, 11_000, 15_000):
        trace.op("aten::mm", start, start + 1_000)
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1_000, 11_000)
    trace.annotation("request", 12_000, 15_000)
    path = trace.write(tmp_path / "trace.json")
    assert said(capsys, path, "--scenario", "data_loading_free")[0].startswith("whole trace: 6.00 ms instead of 16.0")
    loads = said(capsys, path)[0]
    assert loads.startswith(
        "whole trace: largest change: data loading in other processes, 10.0 ms (62%), high confidence"
    )
    lines = said(capsys, path, *(f"--scale=class:{name}=0" for name in ("data_loading", "cpu_bound", "cpu_gap")))
    assert "at least" in lines[0]
    assert lines[1].endswith(
        "but no row shows what the host does in part of that time; the bound assumes that it stays."
    )


def test_work_of_earlier_steps_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder(distributedInfo={"rank": 0, "world_size": 1})
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.launch("a", (10, 18), (22, 100), 1)
    trace.annotation("ProfilerStep#2", 50, 160)
    trace.launch("b", (60, 68), (102, 152), 2)
    trace.call("cudaDeviceSynchronize", 70, 155, 3)
    lines = said(capsys, trace.write(tmp_path / "t.json"), "--step", "2", "--cpu-window")
    assert any(re.match(r"[\d.]+% of the path is earlier steps' work, which changes do not affect", it) for it in lines)


def test_without_a_change_the_first_line_names_what_gains_most(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = said(capsys, gpu_bound(tmp_path))
    assert lines[0] == "step 1: largest cause: GPU compute, 40.0 µs (38%) at 2x speed, high confidence"
    assert lines[1].startswith("Largest single ")
    assert "estimated savings by class (% of the window; savings overlap, do not add them)" in lines
    assert lines[-1].startswith("Use --scale KIND:NAME=FACTOR to predict one of them")


def test_a_class_is_named_where_it_gains_far_more_than_each_thing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = TraceBuilder()
    for at in range(10):
        trace.op(f"op {at}", 10 * at, 10 * at + 10)
        trace.launch(f"kernel {at}", (10 * at + 1, 10 * at + 2), (200 + 100 * at, 300 + 100 * at), at + 1)
    first = said(capsys, trace.write(tmp_path / "t.json"))[0]
    assert first == "whole trace: largest cause: GPU compute, 500.0 µs (42%) at 2x speed, high confidence"


@pytest.mark.slow
def test_the_answer_states_assumptions_and_what_is_frozen(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, SAMPLE, "--scenario", "data_loading_free")
    assert f"Change: {SCENARIOS['data_loading_free'].says}. Assumption: " in "\n".join(lines)
    assert any(line.startswith("17.5% of the path is fixed in every scenario") for line in lines)
    assert any(line.startswith("All of the path can change") for line in said(capsys, JOB))


@pytest.mark.slow
def test_a_pipe_gets_whole_names_and_a_terminal_lines_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    from analyses.display.console import text_of
    from analyses.questions.what_if.answer import scale_change, what_if
    from analyses.questions.what_if.text import what_if_lines

    job = hg.read_job(JOB)
    for changes in ([], [scale_change("kernel:sgemm", 0.5)]):
        lines = what_if_lines(what_if(job, hg.step(2), changes, near=0.05))
        for width in (80, 100):
            cut = text_of([line for line in lines if not isinstance(line, str)], width).splitlines()
            assert max(map(len, cut)) <= width
    assert "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)" in "\n".join(said(capsys, JOB))


def test_the_scenarios_are_listed_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_command(capsys, "what-if", "--scenarios")
    assert status == 0
    for name, known in SCENARIOS.items():
        assert f"{name}={known.argument.split()[-1].upper()}" if known.argument else name in out
        assert known.assumes in out


# -- named changes on fitting traces -----------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("scenario", "saves"),
    [
        ("data_loading_free", True), ("communication_free", True), ("communication=0.5", True), ("cuda_graphs", True),
        ("launches_free", True), ("like_median", True), ("rank_like_others=2", True), ("no_waiting", False),
        ("communication=1", False),
    ],
)  # fmt: skip
def test_a_scenario_of_the_sample_job(capsys: pytest.CaptureFixture[str], scenario: str, saves: bool) -> None:
    found = asked(capsys, JOB, "--step", 2, "--scenario", scenario)
    assert (found["saved_ns"] > 0) == saves
    assert found["changes"][0]["assumes"]
    assert sum(found["path_after"]["by_bound_ns"].values()) == found["predicted_ns"]


def test_a_host_that_launches_nothing_gains_nothing_by_graphs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    late_ranks(tmp_path, 10, 35)
    given = ["what-if", tmp_path / "rank0.json", "--scenario", "cuda_graphs"]
    assert "contains no launches" in one_error(capsys, tmp_path, *given)
    names = {row["name"] for row in asked(capsys, tmp_path)["scenarios"]}
    assert "rank_like_others" in names
    assert "cuda_graphs" not in names


def test_without_host_syncs_work_is_launched_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, SAMPLE, "--whole", "--scenario", "no_host_syncs")
    assert 0 < found["saved_ns"] < found["measured_ns"]


def test_an_operator_of_several_kernels_is_fused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::softmax", 0, 100)
    for at in range(3):
        trace.launch(f"part {at}", (10 + 30 * at, 25 + 30 * at), (30 + 30 * at, 35 + 30 * at), at + 1)
    found = asked(capsys, trace.write(tmp_path / "t.json"), "--scenario", "fused=aten::softmax")
    assert found["saved_ns"] > 0


def test_a_rank_that_waits_for_nobody_gains_nothing_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    late_ranks(tmp_path, 10, 35)
    assert asked(capsys, tmp_path, "--scale", "rank:0=0.5")["saved_ns"] == 0
    assert asked(capsys, tmp_path, "--scale", "rank:1=0.5")["saved_ns"] > 0
    rows = [row for row in asked(capsys, tmp_path)["opportunities"] if row["kind"] == "rank"]
    assert rows[0]["name"] == "1"


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSED = [
    (["--scenario", "nope"], 2, "there is no scenario 'nope'; available: no_waiting"),
    (["--scenario", "launch_free"], 2, "did you mean launches_free? Available: "),
    (["--scenario", "rank_like_others"], 2, "needs a rank"),
    (["--scenario", "cuda_graphs=1"], 2, "takes no argument"),
    (["--scenario", "communication=x"], 2, "'x' is not a factor"),
    (["--scenario", "communication=-1"], 2, "at least 0"),
    (["--scenario", "no_waiting"], 1, "compares ranks"),
    (["--scenario", "fused=aten::mm"], 1, "contains no operators 'aten::mm' that launch several kernels"),
    (["--scale", "kernel:sgemm"], 2, "--scale: expected WHAT=FACTOR"),
    (["--scale", "=0.5"], 2, "--scale: expected WHAT=FACTOR"),
    (["--scale", "kernel:=0.5"], 2, "has no pattern"),
    (["--scale", "kernel:sgemm=half"], 2, "a number from 0 to 1,000,000, got 'half'"),
    (["--scale", "kernel:sgemm=-0.5"], 2, "a number from 0"),
    (["--scale", "kernel:sgemm=nan"], 2, "a number from 0"),
    (["--scale", "kernel:sgemm=inf"], 2, "a number from 0"),
    (["--remove", "kernel:foo("], 2, "'foo(' is not a regular expression"),
    (["--remove", "class:gpu_compute"], 2, "did you mean gpu_compute_bound?"),
    (["--remove", "rank:x"], 2, "is not a rank"),
    (["--remove", "rank:3"], 1, "there is no rank 3; did you mean 0? Available: 0"),
    (["--remove", "kernel:ampere_gemm_64x32"], 1, "did you mean 'ampere_sgemm_64x32_tn'"),
    (["--remove", "krnel:sgemm"], 1, "did you mean 'kernel:sgemm'?"),
    (["--remove", "kernel:aten::mm"], 1, "use operator:aten::mm"),
    (["--remove", "module:nope"], 1, "what-if without a change lists what can be changed"),
    (["--curve", "kernel:nope"], 1, "what-if without a change lists what can be changed"),
    (["--curve", "class:x"], 2, "there is no class 'x'"),
    (["--near", "5"], 2, "expected a share such as 5% or 0.05"),
    (["--near", "200%"], 2, "is not a share of the window"),
    (["--step", "77"], 1, "there is no step 77"),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("arguments", "status", "words"), REFUSED, ids=lambda item: str(item)[:40])
def test_what_cannot_be_answered_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], status: int, words: str
) -> None:
    target = tmp_path / "answer.json"
    assert words in one_error(capsys, tmp_path, "what-if", SAMPLE, *arguments, "--json", target, status=status)


def test_one_wrong_change_among_right_ones_applies_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["--scale", "kernel:sgemm=0.5", "kernel:nope=0.5"]
    one_error(capsys, tmp_path, "what-if", SAMPLE, *given, "--json", tmp_path / "x.json")


def test_an_input_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = gpu_bound(tmp_path)
    one_error(capsys, tmp_path, "what-if", path, "--json", path, status=1)


def test_near_goes_with_one_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["critical-path", SAMPLE, "--per-step", "--near", "1%"]
    assert "need one path" in one_error(capsys, tmp_path, *given, status=2)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["sync-deps", str(SAMPLE), "--json", "-"], "hta_graph.what_if"),
        (["what-if", str(SAMPLE)], "pandas"),
        (["what-if", str(SAMPLE), "--scale", "kernel:sgemm=0.5", "--json", "-"], "rich"),
        (["what-if", "--help"], "numpy"),
    ],
    ids=lambda item: item if isinstance(item, str) else item[0],
)
@pytest.mark.slow
def test_what_is_heavy_is_imported_where_it_is_needed(arguments: list[str], absent: str) -> None:
    code = (
        "import sys\nfrom analyses.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    assert absent not in done.stderr.split()


def test_a_job_of_two_ranks_is_asked_in_any_window(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small_job(tmp_path)
    found = asked(capsys, tmp_path, "--annotation", "forward")
    assert found["measured_ns"] == found["predicted_ns"] == 68_000
    assert found["window"]["missing_ranks"] == []
    assert json.dumps(found["opportunities"])


LARGEST = re.compile(r"([\d,.]+) (s|ms|µs) \(")
NS_OF = {"s": 1e9, "ms": 1e6, "µs": 1e3}


def savings_listed(lines: list[Line]) -> list[float]:
    """Return what the first row of each table of savings saves (ns)."""
    tables = [line for line in lines if isinstance(line, TextTable)]
    column = [1 if "2x saves ms" in table.header else 0 for table in tables]
    return [1e6 * float(table.rows[0][at].replace(",", "")) for table, at in zip(tables, column, strict=True)]


@pytest.mark.parametrize("name", ["sample_trace.json.gz", "slower_trace.json.gz"])
def test_the_headline_is_the_largest_saving_of_all_tables_and_the_first_table_holds_it(name: str) -> None:
    found = what_if(hg.build_graph(hg.read_trace(FOLDER / name)), median_step())
    lines = what_if_lines(found)
    number, unit = LARGEST.findall(str(lines[0]))[0]
    listed = savings_listed(lines)
    assert float(number) * NS_OF[unit] == pytest.approx(max(listed), rel=0.01)
    assert listed == sorted(listed, reverse=True)


def test_communication_of_a_single_rank_leads_with_its_doubt(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 2), (10, 30), 1)
    trace.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (3, 5), (30, 330), 2)
    trace.launch("gemm", (6, 8), (330, 350), 3)
    found = what_if(trace.graph(tmp_path), hg.whole())
    first = str(what_if_lines(found)[0])
    assert first.endswith("low confidence: it may include waiting for other ranks")


def test_python_functions_are_listed_and_can_be_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(3):
        at = 1000.0 * number
        trace.frame("train.py(7): tokenize", at, at + 600)
        trace.launch("gemm", (at + 700, at + 705), (at + 710, at + 800), number + 1)
    path = trace.write(tmp_path / "trace.json")
    rows = {f"{row['kind']}:{row['name']}": row for row in asked(capsys, path, "--whole")["opportunities"]}
    listed = rows["frame:train.py(7): tokenize"]
    again = asked(capsys, path, "--whole", "--scale", "frame:train.py(7): tokenize=0")
    assert again["saved_ns"] == listed["saved_free_ns"] > 1_000_000


def test_a_path_that_is_mostly_fixed_is_said_first() -> None:
    """Predictions that replay cannot vouch for begin with the reason."""
    trusted = Reliability(0.6, 0.2)
    assert trusted.reason == "fixed"
    assert trusted.of_communication.reason is None
    assert Reliability(0.3, 0.0, 0.2).reason == "another_path"


def one_slow_host(folder: Path) -> hg.DependencyGraph:
    """Steps whose GPU work takes 90 µs and whose host 60 µs, but for the last one, whose host takes 170 µs.

    The host is 120 µs ahead of the GPU when that one begins, so that it is hidden but for 50 µs. Without kernels it is
    not hidden at all.
    """
    trace, at, free = TraceBuilder(), 0.0, 0.0
    for number, host in enumerate((60, 60, 60, 60, 170), start=1):
        trace.annotation(f"ProfilerStep#{number}", at, at + host)
        trace.op("aten::mm", at, at + host)
        begins = max(free + 1, at + host - 4)
        trace.launch("gemm", (at + host - 10, at + host - 6), (begins, begins + 89), number)
        at, free = at + host, begins + 89
    return trace.graph(folder)


def test_an_iteration_that_becomes_longer_says_that_those_before_end_earlier(tmp_path: Path) -> None:
    graph = one_slow_host(tmp_path)
    window = hg.step(5, gpu_window=True)
    found = what_if(graph, window, [scale_change("kernel:gemm", 0.1)])
    replayed = found.replayed
    assert isinstance(replayed, Replayed)
    assert replayed.saved_ns < 0 < replayed.starts_earlier_ns + replayed.saved_ns
    first, second, *_ = map(str, what_if_lines(found))
    assert "(+" in first
    assert second.startswith("The iterations before end ")
    assert "A negative saving makes the iterations before shorter" in "".join(
        map(str, what_if_lines(what_if(graph, window)))
    )


def mostly_communication(folder: Path) -> hg.DependencyGraph:
    trace = TraceBuilder()
    for number in range(3):
        at = 1000.0 * number
        trace.annotation(f"ProfilerStep#{number + 1}", at, at + 1000)
        trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 200)
        trace.launch("gemm", (at + 210, at + 214), (at + 220, at + 300), 10 * number + 1)
        trace.launch("ncclDevKernel_AllReduce_Sum_f32", (at + 220, at + 224), (at + 301, at + 950), 10 * number + 2)
        trace.call("cudaDeviceSynchronize", at + 230, at + 955, 10 * number + 3)
    return trace.graph(folder)


@pytest.mark.parametrize(
    ("change", "rule"),
    [("communication_free", "exposed_communication"), ("data_loading_free", "data_loading_exposed")],
)
def test_advice_and_what_if_judge_a_prediction_alike(change: str, rule: str, tmp_path: Path) -> None:
    """Most of the path is communication of a lone rank: fixed, unless communication is what changes."""
    graph = mostly_communication(tmp_path)
    asked = what_if_document(what_if(graph, hg.step(2), [scenario_change(change)]))
    findings = {one["rule"]: one for one in verdict_records(hg.critical_path(graph, hg.step(2)))}
    assert asked["reliable"] == (change == "communication_free")
    assert (findings[rule]["saves_ns"] is not None) == asked["reliable"]
    if asked["reliable"]:
        assert findings[rule]["saves_ns"] == asked["saved_ns"]
    assert asked["reason"] == (None if asked["reliable"] else "fixed")


@pytest.mark.shared
def test_advice_and_what_if_judge_a_recording_alike() -> None:
    graph = hg.build_graph(hg.read_trace(SHARED / "traces" / "megatron_tp2_v100" / "kineto_rank1.json.gz"))
    asked = what_if_document(what_if(graph, median_step(), [scenario_change("communication_free")]))
    findings = {one["rule"]: one for one in verdict_records(hg.critical_path(graph))}
    assert asked["reliable"]
    assert findings["exposed_communication"]["saves_ns"] == asked["saved_ns"]
    assert not what_if_document(what_if(graph, median_step(), [scenario_change("data_loading_free")]))["reliable"]
    assert findings["data_loading_exposed"]["saves_ns"] is None


def test_silence_while_gloo_communicates_may_be_waiting(tmp_path: Path) -> None:
    """The thread has no operator open while its collective runs on another thread: it most likely waits for it."""
    trace = TraceBuilder()
    for number in range(5):
        at = 100.0 * number
        trace.op("aten::mm", at, at + 40)
        trace.annotation("gloo:all_reduce", at + 41, at + 99, tid=2)
    lines = [str(line) for line in what_if_lines(what_if(trace.graph(tmp_path), hg.whole()))]
    gloo = next(line for line in lines if "communication (Gloo)" in line)  # as critical-path names it
    assert "it may include waiting for other ranks" in gloo


def test_what_happens_once_is_said_first(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaFree", 0, 59_000, 9)
    trace.op("aten::mm", 59_001, 59_020)
    trace.launch("gemm", (59_010, 59_014), (59_020, 60_000), 1)
    lines = [str(line) for line in what_if_lines(what_if(trace.graph(tmp_path), hg.whole()))]
    assert "one-time start-up takes 59.0 ms" in lines[0]
    assert lines[0].endswith("; record later to see what else can be saved")


def test_the_frame_of_the_whole_program_is_no_headline(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.frame("train.py(1): main", 0, 1_000)
    for number in range(10):
        at = 100.0 * number
        trace.frame("train.py(9): prepare" if number < 6 else "train.py(20): log", at, at + 95)
        trace.op("aten::mm", at + 10, at + 30)
        trace.launch("gemm", (at + 20, at + 24), (at + 26, at + 36), number + 1)
    lines = [str(line) for line in what_if_lines(what_if(trace.graph(tmp_path), hg.whole()))]
    assert "train.py(1): main" in "".join(lines[1:])
    assert "main" not in lines[0]
