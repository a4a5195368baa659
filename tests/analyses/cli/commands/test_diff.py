"""diff on the command line: what is compared by default and on request, and its exit status for CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hta_graph.trace import read as reading
from hta_graph.trace.decompress import FileBytes
from hta_graph.trace.table import Trace
from tests.support.command_line import command_json, one_error, run_command
from tests.support.deep_tests import deep
from tests.support.fixed_length_steps import recorded
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

SLOWER = "--fail-above: 20.0% slower, above the limit of 5.0% and the noise of 1.0%"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return recorded(tmp_path / "control.json", [900, 100, 100, 100])


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return recorded(tmp_path / "slower.json", [900, 120, 120, 120])


def test_the_conclusion_is_the_first_line(capsys: pytest.CaptureFixture[str], control: Path, slower: Path) -> None:
    status, out, err = run_command(capsys, "diff", control, slower)
    assert (status, err) == (0, "")
    assert out.startswith("20.0% slower per iteration: median 0.100 ms → 0.120 ms over 3 and 3 steps (")
    assert "Compared: rank 0 (before) and rank 0 (after)." in out


@pytest.mark.slow
def test_without_a_difference_details_need_all(capsys: pytest.CaptureFixture[str], control: Path) -> None:
    other = recorded(control.parent / "rank1.json", [900, 101, 101, 101], rank=1)
    out = run_command(capsys, "diff", control, other)[1]
    titles = ("\ncritical path by class\n", "\nsteps\n", "\nenvironment\n")
    assert [title in out for title in (*titles, "\nby name\n")] == [True, True, True, False]
    assert "\nMore tables with --all: " in out
    assert "; not compared: step 1 before and step 1 after (first step, warm-up)\n" in out
    assert "\nNoise: how far runs of the same program can differ by chance" in out
    all_of_it = run_command(capsys, "diff", control, other, "--all")[1]
    assert "\nby name\n  sorted by |diff|\n" in all_of_it
    assert "More tables" not in all_of_it


def alternating(path: Path, longer: int = 0) -> Path:
    """Record 12 steps that take 40 and 80 ms in turn, the longer ones with an annotation of their own."""
    trace, at = TraceBuilder(), 0
    for step in range(13):
        length = 1_000 * (40 + 40 * (step % 2)) + longer + 37 * (step * 7 % 11)
        trace.annotation(f"ProfilerStep#{step}", at, at + length)
        trace.op("aten::mm", at + 10, at + 50)
        if step % 2:
            trace.annotation("large", at + 100, at + 40_000)
        at += length + 5
    return trace.write(path)


@pytest.mark.slow
def test_steps_that_alternate_are_compared_kind_by_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The steps of one run differ by 40 ms, those of one kind by 8 ms between the runs."""
    pair = alternating(tmp_path / "control.json"), alternating(tmp_path / "slower.json", 8_000)
    status, out, err = run_command(capsys, "diff", *pair, "--fail-above", "5%")
    assert (status, err.startswith("hta-graph: --fail-above: 13.3% slower, above")) == (1, True)
    assert out.startswith("13.3% slower in CPU time: median 60.203 ms → 68.204 ms over 12 and 12 steps of 2 kinds, ")
    assert re.search(r"\nKinds of steps: 6 and 6 with large, \S+ ms → \S+ ms \(\+8\.000 ms\); 6 and 6 without", out)
    assert "\nStep by step: 12 of 12 steps are longer, by +8.000 ms at the median.\n" in out
    found = command_json(capsys, "diff", *pair)
    assert [(kind["kind"], kind["control_steps"], kind["diff_ns"]) for kind in found["kinds"]] == [
        ("with large", 6, 8_000_000), ("without large", 6, 8_000_000),
    ]  # fmt: skip
    assert found["difference_ns"] == found["test_ns"] - found["control_ns"] == 8_000_000
    assert {pair["diff_ns"] for pair in found["pairs"]} == {8_000_000}


@pytest.mark.slow
def test_a_run_and_itself_are_one_sentence(capsys: pytest.CaptureFixture[str], control: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes(control.read_bytes())
    (tmp_path / "job").mkdir()
    small_job(tmp_path / "job")
    for pair in ((control, control), (control, copy), (tmp_path / "job", tmp_path / "job")):
        status, out, err = run_command(capsys, "diff", *pair, "--fail-above", "1%")
        assert (status, out, err) == (0, "No difference: both sides are the same recording.\n", "")


@pytest.mark.slow
def test_json_has_keys_beside_the_tables(capsys: pytest.CaptureFixture[str], control: Path, slower: Path) -> None:
    found = command_json(capsys, "diff", control, slower)
    assert found["schema"] == "hta-graph/diff/1"
    assert found["difference_share"] == pytest.approx(0.2)
    assert (found["noise_share"], found["beyond_noise"], found["environment"]) == (0.01, True, [])
    assert {"critical_path_by_class", "critical_path_by_name", "kernels_in_order", "by_name"} <= found["tables"].keys()
    assert [scope["window"]["label"] for scope in found["scopes"]] == ["ProfilerStep#2 (GPU window)"] * 2


@pytest.mark.slow
def test_one_step_is_compared_with_one_on_request(
    capsys: pytest.CaptureFixture[str], control: Path, slower: Path
) -> None:
    found = command_json(capsys, "diff", control, slower, "--step", 2, "--test-step", 3)
    assert (found["measure"], found["steps"]) == ("latency", {"control": [], "test": []})
    assert "Only one window of each run" in found["conclusion"]
    assert command_json(capsys, "diff", control, slower, "--cpu-window")["measure"] == "time on the CPU"
    assert command_json(capsys, "diff", control, slower, "--gpu-window")["measure"] == "iteration"
    assert command_json(capsys, "diff", control, slower, "--whole")["measure"] == "whole trace"


@pytest.mark.slow
def test_other_ranks_are_said_first(capsys: pytest.CaptureFixture[str], tmp_path: Path, control: Path) -> None:
    other = recorded(tmp_path / "rank1.json", [900, 100, 100, 100], rank=1)
    out = run_command(capsys, "diff", control, other)[1]
    assert out.startswith("No difference in iteration time beyond noise")
    assert out.splitlines()[1] == "Also different: rank 0 → 1."
    assert "Compared: rank 0 (before) and rank 1 (after)." in out
    assert "\nRanks of a job wait for each other; run hta-graph stragglers" in out
    assert command_json(capsys, "diff", control, other)["caveats"] == ["on a different rank"]


@pytest.mark.parametrize("share", ["5%", deep("5%"), deep("0.05"), deep(".05")])
def test_a_slower_test_fails(capsys: pytest.CaptureFixture[str], control: Path, slower: Path, share: str) -> None:
    status, out, err = run_command(capsys, "diff", control, slower, "--fail-above", share)
    assert (status, err) == (1, f"hta-graph: {SLOWER}\n")
    assert out.startswith("20.0% slower")


@pytest.mark.parametrize("share", ["25%", deep("0.2001"), deep("300%")])
def test_a_test_that_is_less_slower_does_not_fail(
    capsys: pytest.CaptureFixture[str], control: Path, slower: Path, share: str
) -> None:
    assert run_command(capsys, "diff", control, slower, "--fail-above", share)[::2] == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("before", [2, 4])
def test_a_run_that_is_slower_since_a_step_says_so_and_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, before: int
) -> None:
    usual = [100, 101, 99, 100, 102, 98, 100, 101]
    faulty = [length + 40 * (at >= before) for at, length in enumerate(usual[::-1])]
    pair = [recorded(tmp_path / f"{name}.json", [900, *own]) for name, own in (("a", usual), ("b", faulty))]
    status, out, err = run_command(capsys, "diff", *pair, "--fail-above", "5%")
    step = before + 2
    assert status == 1
    assert re.match(rf"hta-graph: --fail-above: 40\.0% slower since step {step}, above the limit of 5\.0%", err)
    assert re.match(rf"40\.0% slower per iteration since step {step}, before it no difference: median 0\.100 ms", out)
    assert f"\nSteps 2 to {step - 1} after: no difference, " in out
    found = command_json(capsys, "diff", *pair)
    assert found["since_step"] == {"control": None, "test": step}
    (earlier,) = found["earlier_levels"]
    assert (earlier["side"], earlier["first_step"], earlier["last_step"]) == ("test", 2, step - 1)
    assert abs(earlier["diff_ns"]) <= earlier["noise_ns"]
    assert [step["step"] for step in found["steps"]["test"] if step["compared"]] == list(range(step, 10))
    assert run_command(capsys, "diff", *pair, "--fail-above", "50%")[0] == 0


@pytest.mark.slow
def test_a_gate_fails_for_the_first_steps_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    usual = [100, 101, 99, 100, 102, 98, 100, 101]
    pair = [
        recorded(tmp_path / f"{name}.json", [900, *own])
        for name, own in (("a", usual), ("b", [length + 40 * (at < 4) for at, length in enumerate(usual)]))
    ]
    status, out, err = run_command(capsys, "diff", *pair, "--fail-above", "5%")
    assert status == 1
    assert "19.7% slower on average by steps that hang (1; 0 before), above the limit of 5.0% " in err
    assert out.startswith("19.7% slower per iteration on average by steps that hang (1; 0 before): mean 0.100 ms")
    assert "\nSteps 2 to 5 after: 40.0% slower" in out


@pytest.mark.slow
def test_a_gate_warns_of_steps_that_have_no_counterpart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """From the ninth step on an operator takes 20 ms that no step before calls: another kind of steps."""
    paths = []
    for name, since in (("a", 99), ("b", 9)):
        trace, at = TraceBuilder(), 0
        for step in range(14):
            length = 40_000 + 37 * (step * 7 % 11) + 20_000 * (step >= since)
            trace.annotation(f"ProfilerStep#{step}", at, at + length)
            trace.op("aten::mm", at + 10, at + 50)
            if step >= since:
                trace.op("aten::item", at + 60, at + 20_000)
            at += length + 5
        paths.append(trace.write(tmp_path / f"{name}.json"))
    status, out, err = run_command(capsys, "diff", *paths, "--fail-above", "5%")
    assert status == 3
    why = "the mean step is 19.1% longer, and 5 steps after have no counterpart that shows how much they vary"
    assert err == f"hta-graph: --fail-above: cannot compare: {why}\n"
    assert "\nAfter: 5 steps with aten::item have no counterpart and are left out of the comparison.\n" in out


def test_a_verdict_says_first_that_steps_without_counterpart_take_most_of_the_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Every second step evaluates afterwards; a step in which a value is read takes hardly longer."""
    paths = []
    for name, longer in (("a", 0), ("b", 20_000), ("c", 10)):
        trace, at = TraceBuilder(), 0
        for step in range(9):
            extra = longer * (step % 2)
            length = 4_000 + 37 * (step * 7 % 11) + extra
            trace.annotation(f"ProfilerStep#{step}", at, at + length)
            trace.op("aten::mm", at + 10, at + 3_990)
            if extra:
                trace.op("aten::item", at + 4_000, at + 4_000 + extra)
            at += length + 5
        paths.append(trace.write(tmp_path / f"{name}.json"))
    before, after, alike = paths
    out = run_command(capsys, "diff", before, after)[1]
    assert re.match(
        r"The mean step is 238.2% longer, and 4 steps after have no counterpart that shows how much they vary: "
        r"median .* over 8 and 4 steps ",
        out,
    )
    assert run_command(capsys, "diff", before, alike)[1].startswith("No difference in CPU time beyond noise: ")


@pytest.mark.slow
def test_a_faster_test_does_not_fail(capsys: pytest.CaptureFixture[str], control: Path, slower: Path) -> None:
    assert run_command(capsys, "diff", slower, control, "--fail-above", "5%")[0] == 0


@pytest.mark.slow
def test_noise_does_not_fail(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    noisy = [
        recorded(tmp_path / f"{at}.json", [900, *steps]) for at, steps in enumerate([[80, 100, 120], [90, 115, 130]])
    ]
    status, _, err = run_command(capsys, "diff", *noisy, "--fail-above", "1%")
    assert status == 0
    assert re.search(r"--fail-above: Noise hides a change of 1\.0%; more than 1,000 steps of each run are needed", err)


@pytest.mark.slow
def test_what_cannot_be_compared_does_not_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, control: Path
) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (2, 50), 1)
    other = trace.write(tmp_path / "other.json")
    """Status 1 means a regression and nothing else: a comparison that is not possible has 3."""
    status, _, err = run_command(capsys, "diff", control, other, "--fail-above", "5%")
    assert status == 3
    assert "another model: only 0% of the operators' time is common" in err or "only the before run has" in err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", ["5", "-5%", "five", "5%%", "", "nan", "1.0"])
def test_a_share_that_is_none_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, control: Path, share: str
) -> None:
    assert "share such as 5% or 0.05" in one_error(
        capsys, tmp_path, "diff", control, control, f"--fail-above={share}", status=2
    )


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every file of which a trace is read."""
    noted: list[str] = []
    read = reading.traces_of_bytes

    def noting(path: Path, content: FileBytes, *, salvage: bool = False) -> list[Trace]:
        noted.append(path.name)
        return read(path, content, salvage=salvage)

    monkeypatch.setattr(reading, "traces_of_bytes", noting)
    return noted


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [[], ["--step", "2", "--test-step", "3"]], ids=["all steps", "two steps"])
def test_a_file_on_both_sides_is_read_once(
    words: list[str], control: Path, files_read: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link.json").symlink_to(control)
    status, out, err = run_command(capsys, "diff", control, tmp_path / "link.json", *words)
    assert (status, err, files_read) == (0, "", [control.name])
    # All steps of a run and itself differ in nothing.
    assert "Compared: rank 0 (before) and rank 0 (after)." in out if words else len(out.splitlines()) == 1


@pytest.mark.slow
def test_a_job_on_both_sides_is_read_once(
    files_read: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_job(tmp_path)
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    status, _, err = run_command(capsys, "diff", tmp_path, f"{tmp_path}/../{tmp_path.name}", "--jobs", 1)
    assert (status, err) == (0, "")
    assert sorted(files_read) == sorted([*names, names[0]]), "each rank for the job, one rank again for itself"


def test_two_ranks_of_one_job_are_both_read(
    files_read: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_job(tmp_path)
    assert run_command(capsys, "diff", tmp_path, tmp_path, "--rank", 0, "--test-rank", 1)[0] == 0
    assert len(set(files_read)) == 2
