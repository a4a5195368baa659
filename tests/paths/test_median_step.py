"""Which step stands for a run, what is said of the others, on traces of a few lines (times in µs)."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hta_graph.paths.step_table import step_rows
from hta_graph.paths.windows import median_step, median_step_of_job, step_lengths
from tests.support.command_line import command_json, run_command
from tests.support.trace_builder import TraceBuilder


def steps_of(*lengths: int, first: int = 1, gpu: bool = True, malloc: int = 0) -> TraceBuilder:
    """One step after the other, the GPU busy to the end of each; the first one holds a cudaMalloc of some length."""
    trace, at = TraceBuilder(), 0
    for number, length in enumerate(lengths, first):
        trace.annotation(f"ProfilerStep#{number}", at, at + length)
        if number == first and malloc:
            trace.call("cudaMalloc", at + 1, at + 1 + malloc, 900)
        trace.op("aten::mm", at + 1 + malloc * (number == first), at + length - 5)
        if gpu:
            trace.launch("gemm", (at + length - 10, at + length - 8), (at + length - 7, at + length), number)
        at += length
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("lengths", "gpu", "expected"),
    [
        ((900, 100, 300, 200), True, 4),  # without the first one: 100, 200, 300
        ((100, 100, 300, 200, 400), True, 4),  # 100, 200, 300, 400: of two in the middle the shorter
        ((50, 100, 100, 100), True, 2),  # of equals the earliest
        ((50,), True, 1),
        ((900, 100), True, 2),
        ((900, 100, 300, 200), False, 4),
    ],
)
def test_the_median_step_leaves_the_first_one_out(
    tmp_path: Path, lengths: tuple[int, ...], gpu: bool, expected: int
) -> None:
    window = median_step()(steps_of(*lengths, gpu=gpu).graph(tmp_path))
    assert (window.step, window.is_default) == (expected, True)
    assert window.label == f"ProfilerStep#{expected}"


def test_steps_that_launch_nothing_are_no_candidates(tmp_path: Path) -> None:
    trace = steps_of(100, 110, 120, gpu=False)
    trace.launch("late", (230, 234), (240, 400), 1)
    graph = trace.graph(tmp_path)
    assert median_step()(graph).step == 3
    assert [one.is_candidate for one in step_lengths(graph)] == [False, False, True]
    assert [row.outlier for row in step_rows(graph)] == ["launches no GPU work", "launches no GPU work", None]


def test_iterations_tile_the_run_and_latencies_overlap(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.launch("a", (10, 14), (20, 160), 1)
    trace.annotation("ProfilerStep#2", 100, 200)
    trace.launch("b", (110, 114), (160, 290), 2)
    lengths = step_lengths(trace.graph(tmp_path))
    assert [(one.iteration_ns, one.latency_ns) for one in lengths] == [(160_000, 160_000), (130_000, 190_000)]


def test_a_job_is_asked_about_one_step(tmp_path: Path) -> None:
    lengths = {"a": (900, 100, 300, 200), "b": (900, 310, 100, 200), "c": (900, 120, 130)}
    graphs = []
    for rank, of in lengths.items():
        (tmp_path / rank).mkdir()
        graphs.append(steps_of(*of).graph(tmp_path / rank))
    # Steps 2 and 3 are on all ranks: their medians are 120 and 130. Rank by rank it would be 4, 4 and 2.
    assert [median_step_of_job(graphs)(graph).step for graph in graphs] == [2, 2, 2]
    # Of two ranks the shorter counts: 100, 100 and 200 for steps 2, 3 and 4.
    assert [median_step_of_job(graphs[:2])(graph).step for graph in graphs] == [2, 2, 2]
    assert median_step_of_job([])(graphs[0]).step == 4


def test_an_outlier_says_what_it_contains(tmp_path: Path) -> None:
    rows = step_rows(steps_of(400, 100, 110, 120, 60, malloc=250).graph(tmp_path))
    assert [row.outlier for row in rows] == ["cudaMalloc 0.250 ms: warm-up", None, None, None, "shorter than usual"]
    assert [row.iteration_ns for row in rows] == [400_000, 100_000, 110_000, 120_000, 60_000]
    assert {row.bound_by for row in rows} == {"cpu_bound"}


def test_a_first_step_ahead_of_its_gpu_is_no_outlier(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation(f"ProfilerStep#{number}", 50 * number, 50 * number + 50)
        trace.launch("gemm", (50 * number + 5, 50 * number + 9), (100 + 60 * number, 160 + 60 * number), number + 1)
    rows = step_rows(trace.graph(tmp_path))
    assert [(row.iteration_ns, row.latency_ns) for row in rows[:2]] == [(160_000, 160_000), (60_000, 170_000)]
    assert [row.outlier for row in rows] == [None] * 4


def test_a_later_outlier_is_told_by_what_grew(tmp_path: Path) -> None:
    trace = steps_of(100, 100, 110)
    trace.annotation("ProfilerStep#4", 310, 600)
    trace.call("cudaStreamSynchronize", 312, 320, 50)
    trace.op("tokenize", 325, 580)
    trace.launch("gemm", (585, 587), (588, 600), 60)
    assert [row.outlier for row in step_rows(trace.graph(tmp_path))] == [None, None, None, "tokenize 0.255 ms"]


@pytest.mark.slow
def test_the_answer_names_the_default_and_shows_the_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = steps_of(400, 100, 110, 120, malloc=250).write(tmp_path / "trace.json")
    found = command_json(capsys, "critical-path", path)
    assert found["window"]["label"] == "ProfilerStep#3"
    assert found["steps"][0] == {
        "step": 1, "iteration_ns": 400_000, "latency_ns": 400_000, "bound_by": "cpu_bound",
        "outlier": "cudaMalloc 0.250 ms: warm-up",
    }  # fmt: skip
    assert [row["step"] for row in found["steps"]] == [1, 2, 3, 4]
    assert "steps" not in command_json(capsys, "critical-path", path, "--step", "2")
    _, out, _ = run_command(capsys, "critical-path", path)
    assert "ProfilerStep#3 is the median of 3 of 4 steps (the first is excluded); use --step N for another." in out
    assert "ProfilerStep#3: latency 0.110 ms, from its start to the end of its last work" in out
    tiles = "from the end of the previous step's work to the end of this step's work"
    assert f"  iteration 0.110 ms, {tiles}; 0.110 ms on the CPU" in out
    _, _, err = run_command(capsys, "render", path, "--path", "-o", tmp_path / "path.dot")
    assert "ProfilerStep#3 is the median of 3 of 4 steps" in err
    other = steps_of(400, 100, 110, 120, malloc=240).write(tmp_path / "other.json")
    _, out, _ = run_command(capsys, "diff", path, other)
    assert "over 3 and 3 steps" in out
    assert "kernels in order compares the median steps (ProfilerStep#3 before, ProfilerStep#3 after)" in out
    assert run_command(capsys, "report", path, "-o", tmp_path / "page.html")[0] == 0
    assert "cudaMalloc 0.250 ms: warm-up" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_run_without_a_gpu_is_told_as_such(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run_command(capsys, "critical-path", steps_of(90, 100, 110, gpu=False).write(tmp_path / "trace.json"))
    assert "ProfilerStep#2: 0.100 ms on the CPU; no GPU activity in the trace" in out.splitlines()
    assert "GPU 0" not in out


def test_without_steps_the_repeated_annotation_is_offered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in (0, 100, 200):
        trace.annotation("execute_model", at, at + 90)
        trace.annotation("inner", at + 1, at + 2)
        trace.annotation("inner", at + 3, at + 4)
        trace.op("aten::mm", at + 5, at + 80)
    path = trace.write(tmp_path / "trace.json")
    _, out, _ = run_command(capsys, "critical-path", path)
    assert (
        "No profiler steps in this trace; the whole trace is analyzed. "
        "Use --annotation execute_model --instance I to select one of 3 × execute_model.\n"
    ) in out
    assert command_json(capsys, "critical-path", path)["steps"] == []


def test_annotations_that_differ_by_numbers_are_offered_as_an_expression(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = TraceBuilder()
    trace.annotation("load", 0, 10)
    for number, at in enumerate((100, 200, 300)):
        trace.annotation(f"execute_context_{number}(sq{number * 17}+1)", at, at + 90)
        trace.op("aten::mm", at + 5, at + 80)
    path = trace.write(tmp_path / "trace.json")
    _, out, _ = run_command(capsys, "critical-path", path)
    offer = next(line for line in out.splitlines() if "No profiler steps" in line).partition("Use ")[2]
    flags, _, what = offer.partition(" to select one of ")
    assert what == "3 × execute_context_#(sq#+#)."
    assert flags == "--annotation 'execute_context_\\d+\\(sq\\d+\\+\\d+\\)' --regex --instance I"
    assert command_json(capsys, "critical-path", path, *shlex.split(flags)[:-1], "2")["window"]["start_ns"] == 300_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", [[], ["setup"], ["setup", "run"]])
def test_an_annotation_that_is_not_repeated_is_not_offered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, names: list[str]
) -> None:
    trace = TraceBuilder()
    for at, name in enumerate(names):
        trace.annotation(name, 100 * at, 100 * at + 90)
    trace.op("aten::mm", 5, 80)
    _, out, _ = run_command(capsys, "critical-path", trace.write(tmp_path / "trace.json"))
    assert "No profiler steps in this trace; the whole trace is analyzed." in out.splitlines()


def test_per_step_lists_every_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = steps_of(400, 100, 110, malloc=250).write(tmp_path / "trace.json")
    found = command_json(capsys, "critical-path", path, "--per-step")
    assert found["schema"] == "hta-graph/critical-path-per-step/1"
    assert [(row["step"], row["latency_ns"], row["coverage"]) for row in found["steps"]] == [
        (1, 400_000, 1.0), (2, 100_000, 1.0), (3, 110_000, 1.0),
    ]  # fmt: skip
    status, out, _ = run_command(capsys, "critical-path", path, "--per-step")
    assert (status, len(out.splitlines())) == (0, 7)
    assert out.splitlines()[1] == "  latency: from the start of a step to the end of its last work"
    assert "cudaMalloc 0.250 ms: warm-up" in out


def ranks_of(folder: Path, *steps: tuple[int, ...]) -> Path:
    """Write ranks whose steps last so many µs."""
    for rank, lengths in enumerate(steps):
        trace = steps_of(*lengths)
        trace.header["distributedInfo"] = {"rank": rank, "world_size": len(steps)}
        trace.write(folder / f"rank{rank}.json")
    return folder


def test_per_step_lists_the_steps_of_every_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = ranks_of(tmp_path, (400, 100), (), (410, 300, 110))
    found = command_json(capsys, "critical-path", folder, "--per-step")
    assert [(row["step"], row["rank"], row["latency_ns"]) for row in found["steps"]] == [
        (1, 0, 400_000), (1, 2, 410_000), (2, 0, 100_000), (2, 2, 300_000), (3, 2, 110_000),
    ]  # fmt: skip
    assert (found["file"], found["rank"], found["diagnostics"]) == (None, None, {})
    assert [(Path(of["file"]).name, of["rank"]) for of in found["ranks"]] == [
        ("rank0.json", 0), ("rank1.json", 1), ("rank2.json", 2),
    ]  # fmt: skip
    status, out, _ = run_command(capsys, "critical-path", folder, "--per-step")
    assert status == 0
    of_job, _, of_ranks = out.partition("\n\n")
    assert of_job.splitlines()[0] == "job"
    assert (of_ranks.splitlines()[0], len(of_ranks.splitlines())) == ("3 ranks; no steps on rank 1", 9)


def test_per_step_of_one_rank_is_as_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = ranks_of(tmp_path, (400, 100), (410, 300, 110))
    found = command_json(capsys, "critical-path", folder, "--per-step", "--rank", 1)
    assert list(found) == ["schema", "file", "rank", "diagnostics", "steps"]
    assert (Path(found["file"]).name, found["rank"], len(found["steps"])) == ("rank1.json", 1, 3)
    assert "edges_clamped" in found["diagnostics"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("extra", [("--step", "2"), ("--gpu-window",), ("--whole",), ("--dot", "out.dot")])
def test_per_step_takes_no_other_window(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, extra: tuple[str, ...]
) -> None:
    path = steps_of(100, 110).write(tmp_path / "trace.json")
    assert run_command(capsys, "critical-path", path, "--per-step", *extra)[0] == 2
    assert run_command(capsys, "critical-path", TraceBuilder().write(tmp_path / "no.json"), "--per-step")[0] == 1


def test_all_lists_every_item_of_the_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 200)
    for at in range(15):
        trace.op(f"operator_{at}", 10 * at, 10 * at + 8 - at // 2)
    path = trace.write(tmp_path / "trace.json")
    listed = [run_command(capsys, "critical-path", path, *more)[1].count("operator_1") for more in ([], ["--all"])]
    assert listed[0] < listed[1]
