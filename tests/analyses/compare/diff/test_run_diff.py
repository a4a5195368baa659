"""The difference of two runs: what is concluded, identities, and the exact recomputation of a real pair."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.compare.diff.change_tables import call_path_diff, name_diff, path_class_diff, time_by_name_diff
from analyses.compare.diff.conclusion import pair_differences
from analyses.compare.diff.kernels_in_order import kernel_changes
from analyses.compare.diff.length_comparison import Comparison, compare
from analyses.compare.diff.run_diff import TABLES, answer, answer_of_comparison, between_runs, figure
from analyses.declare.answer import Answer, answer_document, answer_lines
from analyses.declare.scope import Scope, in_window
from hta_graph.paths.critical_path import critical_path
from tests.support.deep_tests import deep
from tests.support.noisy_runs import noisy_run
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

KERNEL = "ampere_sgemm_64x32_tn"


def recorded(folder: Path, lengths: list[float], kernels: int = 2, **header: Any) -> hg.DependencyGraph:
    """Record steps of these lengths (µs), each filled by equal kernels, numbered from 1."""
    trace = TraceBuilder(**header)
    at, number = 0.0, 0
    for step, length in enumerate(lengths, 1):
        trace.annotation(f"ProfilerStep#{step}", at, at + length - 5)
        for kernel in range(kernels):
            number += 1
            call, begin = at + 3 * kernel, at + kernel * length / kernels
            trace.op("aten::mm", call, call + 2)
            trace.launch("gemm", (call + 0.5, call + 1), (begin + 1, begin + length / kernels), number)
        at += length
    folder.mkdir(exist_ok=True)
    return trace.graph(folder)


def pair_of(tmp_path: Path, control: list[float], test: list[float]) -> Comparison:
    return between_runs(recorded(tmp_path / "control", control), recorded(tmp_path / "test", test))


def opening(found: Comparison) -> str:
    return "\n".join(answer_of_comparison(found).opening)


def test_medians_of_all_steps_but_the_warm_up_are_compared(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [9_000, 100, 101, 100, 99, 100], [300, 110, 111, 110, 400, 110])
    assert (found.control.median_ns, found.test.median_ns) == (100_000, 110_000)
    assert found.differences[0].share == pytest.approx(0.1)
    said = opening(found)
    assert said.startswith("58.0% slower per iteration on average by steps that hang (1; 0 before): mean 0.100 ms → ")
    assert "Hangs: 1 after (step 5) and 0 before; at the median one takes 0.290 ms." in said
    assert "On the critical path: GPU compute +0.010 ms" in said


@pytest.mark.slow
def test_a_difference_within_the_spread_of_the_steps_is_none(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [500, 100, 90, 110, 95], [500, 104, 96, 113, 99])
    assert not found.beyond_noise
    assert opening(found).startswith("No difference in iteration time beyond noise: median 0.098 ms → 0.102 ms")
    assert "\nA difference below " in opening(found)


def test_recordings_without_any_spread_still_differ_by_clocks_and_placement(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [500, 1_000, 1_000, 1_000], [500, 1_009, 1_009, 1_009])
    assert (found.noise_share, found.beyond_noise) == (0.01, False)
    assert pair_of(tmp_path, [500, 1_000, 1_000, 1_000], [500, 1_011, 1_011, 1_011]).beyond_noise


def test_fewer_than_three_steps_believe_no_less_than_five_percent(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [500, 1_000, 1_000, 1_000], [500, 1_049, 1_049])
    assert (found.noise_share, found.beyond_noise) == (0.05, False)
    assert "Only 3 and 2 steps, in which nothing repeats: the noise is " in opening(found)
    assert pair_of(tmp_path, [500, 1_000, 1_000], [500, 1_051]).beyond_noise


def test_two_steps_that_differ_are_noise_themselves(tmp_path: Path) -> None:
    """Of equal programs 0.3% leave the band, so that it is wider than the two steps are apart."""
    found = pair_of(tmp_path, [500, 100, 130], [500, 100, 100])
    assert 30 / 115 < found.noise_share < 2 * 30 / 115


def test_one_window_each_says_so(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [500, 100], [500, 103])
    assert "Only one window of each run" in opening(found)
    assert opening(found).startswith(
        "No difference in iteration time beyond noise: ProfilerStep#2: 0.100 ms → 0.103 ms (+3.0%; "
    )


def test_a_warm_up_is_not_compared_with_a_usual_step(tmp_path: Path) -> None:
    graphs = recorded(tmp_path / "control", [500, 100, 100]), recorded(tmp_path / "test", [500, 100, 100])
    found = between_runs(*graphs, (hg.step(2), hg.step(1)))
    assert (found.difference_share, found.beyond_noise) == (None, False)
    assert opening(found).startswith("No verdict: only the after step is the first of its trace, a warm-up")


@pytest.mark.slow
def test_the_only_step_of_a_recording_is_compared_by_latency_with_such_a_one(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [100], [150])
    assert found.control.measure == "latency"
    assert "50.0% slower by latency: ProfilerStep#1: 0.100 ms → 0.150 ms" in opening(found)
    assert "may include warm-up" in opening(found)
    assert pair_of(tmp_path, [100], [300, 100, 100]).refused


def test_first_steps_that_differ_by_what_nobody_knows_are_not_compared(tmp_path: Path) -> None:
    graphs = []
    for name, held in (("control", 0), ("test", 500)):
        trace = TraceBuilder()
        trace.annotation("ProfilerStep#7", 0, 30)
        trace.launch("gemm", (1, 2), (3 + held, 103 + held), 1)
        (tmp_path / name).mkdir()
        graphs.append(trace.graph(tmp_path / name))
    assert opening(between_runs(*graphs)).startswith("No verdict: 0.45")
    assert "unexplained, such as work enqueued before recording started" in between_runs(*graphs).refused


def test_a_whole_trace_is_not_compared_with_steps(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (3, 4), (5, 900), 1)
    (tmp_path / "other").mkdir()
    found = between_runs(recorded(tmp_path / "control", [100, 100, 100]), trace.graph(tmp_path / "other"))
    assert "only the before run has profiler steps" in found.refused


@pytest.mark.slow
def test_windows_with_other_amounts_of_the_same_work_are_not_compared(tmp_path: Path) -> None:
    control, test = recorded(tmp_path / "control", [100] * 3), recorded(tmp_path / "test", [100] * 9)
    found = between_runs(control, test, (hg.whole(), hg.whole()))
    assert found.refused == "the after window contains 3 times as much of the same work"
    same = between_runs(control, recorded(tmp_path / "same", [150] * 3), (hg.whole(), hg.whole()))
    assert "The whole trace is 5" in opening(same)
    assert "only if both traces contain the same amount of work" in opening(same)


def test_steps_of_a_host_alone_are_compared_on_the_cpu(tmp_path: Path) -> None:
    graphs = []
    for name, length in (("control", 100), ("test", 150)):
        trace = TraceBuilder()
        for step in range(4):
            trace.annotation(f"ProfilerStep#{step}", 1_000 * step, 1_000 * step + length)
            trace.op("aten::mm", 1_000 * step, 1_000 * step + length)
        (tmp_path / name).mkdir()
        graphs.append(trace.graph(tmp_path / name))
    assert "50.0% slower in CPU time: median" in opening(between_runs(*graphs))


def test_form_cpu_compares_the_steps_on_the_cpu(tmp_path: Path) -> None:
    graphs = recorded(tmp_path / "control", [500, 100, 100, 100]), recorded(tmp_path / "test", [500, 100, 100, 100])
    assert between_runs(*graphs, form="cpu").test.measure == "time on the CPU"


def test_the_environment_is_the_second_line(tmp_path: Path) -> None:
    sides = [recorded(tmp_path / name, [100] * 4, deviceProperties=[{"name": name}]) for name in ("A100", "V100")]
    assert answer_of_comparison(between_runs(*sides)).opening[1] == "Also different: GPU A100 → V100."


def test_the_largest_change_comes_first_also_within_its_noise(tmp_path: Path) -> None:
    graphs = []
    for name, steady, wild in (("control", 50, [200, 700, 500, 400]), ("test", 60, [500, 100, 600, 300])):
        trace = TraceBuilder()
        at = 0
        for step, length in enumerate(wild):
            trace.annotation(f"ProfilerStep#{step}", at, at + 1_000)
            trace.launch("steady", (at + 1, at + 2), (at + 3, at + 3 + steady), 2 * step + 1)
            trace.launch("wild", (at + 2, at + 3), (at + 80, at + 80 + length), 2 * step + 2)
            at += 1_000
        (tmp_path / name).mkdir()
        graphs.append(trace.graph(tmp_path / name))
    frame = time_by_name_diff(between_runs(*graphs))
    found = frame[frame["name"].isin(["steady", "wild"])]
    assert found["name"].tolist() == ["wild", "steady"]
    assert found["control_ns"].tolist() == [500_000, 50_000]
    assert found["diff_ns"].tolist() == [-200_000, 10_000]
    assert (found["diff_ns"].abs() > found["noise_ns"]).tolist() == [False, True]


def test_what_a_step_lacks_counts_as_zero(tmp_path: Path) -> None:
    graphs = []
    for name, steps in (("control", ()), ("test", (1,)), ("other", (1, 2))):
        trace = TraceBuilder()
        for step in range(4):
            trace.annotation(f"ProfilerStep#{step}", 100 * step, 100 * step + 100)
            trace.launch("gemm", (100 * step, 100 * step + 1), (100 * step + 2, 100 * step + 90), step + 1)
            if step in steps:
                trace.op("rare", 100 * step + 50, 100 * step + 60)
        (tmp_path / name).mkdir()
        graphs.append(trace.graph(tmp_path / name))
    assert "rare" not in time_by_name_diff(between_runs(graphs[0], graphs[1]))["name"].tolist()
    rows = time_by_name_diff(between_runs(graphs[0], graphs[2])).set_index("name")
    assert rows.loc["rare", ["control_count", "test_count", "diff_ns"]].tolist() == [0, 1, 10_000]


@pytest.mark.slow
def test_json_says_what_was_compared(tmp_path: Path) -> None:
    found = pair_of(tmp_path, [500, 100, 100, 100], [500, 120, 120, 120])
    document = answer_document("diff", answer_of_comparison(found), [])
    assert document["environment"] == []
    assert document["conclusion"].startswith("20.0% slower per iteration")
    assert (document["difference_share"], document["beyond_noise"], document["measure"]) == (0.2, True, "iteration")
    assert (document["control_ns"], document["test_ns"]) == (100_000, 120_000)
    steps = document["steps"]["test"]
    assert [(row["step"], row["iteration_ns"], row["compared"]) for row in steps] == [
        (1, 500_000, False), (2, 120_000, True), (3, 120_000, True), (4, 120_000, True),
    ]  # fmt: skip
    assert document["conclusion"].startswith(document["notes"][0])
    assert {name: list(frame) for name, frame in answer_of_comparison(found).tables.items()} == {
        name: list(TABLES[name]) for name in answer_of_comparison(found).tables
    }


def test_the_conclusion_stands_before_the_tables(tmp_path: Path) -> None:
    found = answer_of_comparison(pair_of(tmp_path, [500, 100, 100, 100], [500, 120, 120, 120]))
    lines = answer_lines(found)
    assert lines[: len(found.opening)] == list(found.opening)
    assert lines[-1] == found.notes[-1]
    assert len([line for line in lines if line in found.opening]) == len(found.opening)


def test_an_empty_answer_has_the_declared_columns(tmp_path: Path) -> None:
    graph = recorded(tmp_path / "one", [500, 100, 100, 100])
    tables = answer_of_comparison(between_runs(graph, graph)).tables
    assert all(list(frame) == list(TABLES[name]) for name, frame in tables.items())
    assert not any(map(len, tables.values())), "of a run and itself every table would be of zeros"


@pytest.fixture(scope="module", params=[3, deep(6)])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[hg.DependencyGraph]:
    folder = tmp_path_factory.mktemp("noisy")
    return [noisy_run(folder, seed) for seed in range(request.param)]


@pytest.mark.slow
def test_recordings_of_one_program_do_not_differ(program: list[hg.DependencyGraph]) -> None:
    pairs = [(one, other) for at, one in enumerate(program) for other in program[at + 1 :]]
    found = [between_runs(*pair) for pair in pairs]
    assert [opening(comparison) for comparison in found if comparison.beyond_noise] == []


@pytest.mark.slow
def test_a_kernel_that_is_a_tenth_slower_is_found(program: list[hg.DependencyGraph], tmp_path: Path) -> None:
    found = between_runs(program[0], noisy_run(tmp_path, 100, slower={KERNEL: 1.1}))
    assert found.beyond_noise
    assert 0.03 < found.change_share < 0.055
    assert f"Largest change on the critical path: {KERNEL}, +0.0" in opening(found)


@pytest.mark.slow
def test_what_changed_within_the_noise_of_the_whole_is_said(tmp_path: Path) -> None:
    sides = [noisy_run(tmp_path, 7 + at, steps=4, slower={KERNEL: 1 + at / 7}) for at in range(2)]
    found = between_runs(*sides)
    assert not found.beyond_noise
    said = "\nOn the critical path, 1 name changed beyond noise; largest: "
    assert f"{said}{KERNEL}, +0.0" in opening(found)


@pytest.mark.slow
def test_a_part_that_leaves_its_band_by_little_is_not_said(tmp_path: Path) -> None:
    sides = [noisy_run(tmp_path, 7 + at, steps=4, slower={KERNEL: 1 + at / 10}) for at in range(2)]
    assert "changed beyond noise" not in opening(between_runs(*sides))


@cache
def graph_of_side(side: str) -> hg.DependencyGraph:
    return hg.build_graph(hg.read_trace(SHARED / f"traces/nanogpt_ab_{side}/rank0.json.gz"))


def pair(step: int = 10) -> list[Scope]:
    return [in_window(0, graph_of_side(side), hg.step(step)) for side in ("current", "hook")]


@pytest.mark.shared
@pytest.mark.slow
def test_counts_and_durations_of_a_real_pair_equal_the_exact_recomputation() -> None:
    golden = json.loads((SHARED / "golden/diff_nanogpt_ab_current_vs_hook/independent.json").read_text())
    scopes = pair(golden["control_step"])
    for device in ("CPU", "GPU"):
        found = name_diff(scopes[:1], scopes[1:], gpu=device == "GPU", cpu=device == "CPU").set_index("name")
        columns = ["control_count", "control_ns", "test_count", "test_ns"]
        assert {name: row for name, *row in golden[device]["rows"]} == {
            name: found.loc[name, columns].tolist() for name in found.index
        }


def answer_about(scopes: list[Scope], step: int) -> tuple[Answer, Comparison]:
    paths = [critical_path(scope.graph, hg.step(step)) for scope in scopes]
    windows = hg.step(step), hg.step(step)
    return answer(scopes[0], scopes[1], (paths[0], paths[1])), between_runs(scopes[0].graph, scopes[1].graph, windows)


@pytest.mark.shared
@pytest.mark.slow
def test_the_differences_of_a_real_pair_are_identities() -> None:
    scopes = pair()
    found, comparison = answer_about(scopes, 10)
    lengths = [side.path.length_ns for side in comparison.sides.values()]
    assert path_class_diff(comparison)["diff_ns"].sum() == lengths[1] - lengths[0]
    gpu_time = [int((scope.work.end - scope.work.start).sum()) for scope in scopes]
    assert call_path_diff(comparison)["diff_ns"].sum() == gpu_time[1] - gpu_time[0]
    assert kernel_changes(*scopes)["diff_ns"].sum() == gpu_time[1] - gpu_time[0]
    assert found.notes[0].startswith("No difference in latency beyond noise: ProfilerStep#10: 121.593 ms → 120.748 ms")
    assert figure(found).data


@pytest.mark.shared
@pytest.mark.slow
def test_two_versions_whose_steps_alternate_are_compared_kind_by_kind() -> None:
    """Every other step runs a second optimizer: steps differ by 5%, and the versions by 1% in each of them."""
    found = between_runs(*(scope.graph for scope in pair()))
    assert [len(side.lengths_ns) for side in found.sides.values()] == [3, 3]
    assert [kind.counts for kind in found.change.kinds] == [(2, 2), (1, 1)]
    assert pair_differences(found) == pytest.approx([-960_245, -503_232, -788_022], abs=1)
    assert found.change_share == pytest.approx(-0.0122, abs=1e-4)
    assert found.beyond_noise
    assert "\nStep by step: -0.960, -0.503 and -0.788 ms." in opening(found)


@pytest.mark.slow
@pytest.mark.shared
def test_a_run_differs_from_itself_in_nothing() -> None:
    scope = pair()[0]
    found = answer_about([scope, scope], 10)[0]
    assert {name: len(frame) for name, frame in found.tables.items()} == {
        "critical_path_by_class": 0,
        "critical_path_by_name": 0,
        "gpu_time_by_call_path": 0,
        "kernels_in_order": 0,
        "by_name": 0,
    }
    assert found.notes == ["No difference: both sides are the same recording."]
    assert not figure(found).data


@pytest.mark.slow
def test_both_ways_to_ask_give_one_answer(tmp_path: Path) -> None:
    graphs = [recorded(tmp_path / name, [500, 100, 100]) for name in ("control", "test")]
    scopes = [in_window(0, graph, hg.step(2)) for graph in graphs]
    found, comparison = answer_about(scopes, 2)
    other = answer_of_comparison(comparison)
    assert found.notes == other.notes
    assert all(pd.DataFrame.equals(found.tables[name], other.tables[name]) for name in other.tables)
    assert compare(comparison.control, comparison.test) == comparison
