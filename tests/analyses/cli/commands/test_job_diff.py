"""diff of two folders of ranks: the job is judged, one rank of each stands beside it, skeletons answer the same."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from analyses.compare.diff import job_diff
from tests.simulator.large import read_truth
from tests.support.command_line import command_json, run_command
from tests.support.deep_tests import some_of
from tests.support.fixed_length_steps import recorded
from tests.support.job_pairs import DELAY_NS, compared_jobs, job_of_steps
from tests.support.shared_traces import SHARED

HELD = ("always", "never")
ASKED: list[list[str]] = [
    ["--step", "2"], ["--step", "2", "--test-step", "3"], ["--cpu-window"], ["--gpu-window"], ["--whole"],
    ["--annotation", "Optimizer.step#AdamW.step"], ["--step", "0", "--test-step", "2"], ["--step", "9"],
    ["--data-load", "augment"],
]  # fmt: skip
GLOO = sorted(path.name for path in (SHARED / "gloo").glob("*_*r_*") if "_base" not in path.name)
NOT_FIRST = {
    "ddp_2r_slowfwd_1": "the delayed rank kept nobody waiting",
    "ddp_4r_slowbwdquiet_1": "the control waited as long for other reasons",
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("jobs")
    given: dict[str, Any] = {"clock_spread_ns": 300_000}
    return job_of_steps(folder / "control", 1, **given), job_of_steps(folder / "test", 3, DELAY_NS, **given)


@pytest.mark.slow
def test_the_first_sentence_is_the_jobs(capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path]) -> None:
    status, out, err = run_command(capsys, "diff", *jobs)
    assert (status, err) == (0, "")
    assert re.match(r"\d+\.\d% slower per iteration: median .* over 4 and 4 steps \(noise ±", out)
    assert "\njob causes\n" in out
    assert "\nkernels in order" not in out
    assert "\nCompared: 8 ranks before and 8 ranks after; 8 of them are in both jobs, by number." in out
    assert "; use --json to write them, or --rank N for another rank" in out


@pytest.mark.slow
def test_ranks_that_never_met_are_compared_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for side, lengths in (("control", [900, 100, 100, 100]), ("test", [900, 120, 120, 120])):
        (tmp_path / side).mkdir()
        for rank in range(2):
            recorded(tmp_path / side / f"rank{rank}.json", lengths, rank)
    sides = tmp_path / "control", tmp_path / "test"
    few, whole = (run_command(capsys, "diff", *sides, "--skeletons", held, "--json", "-") for held in HELD)
    assert few == whole
    found = json.loads(whole[1])
    assert found["job"]["difference_share"] == pytest.approx(0.2)
    assert [found["tables"][f"job_{name}"] for name in ("hosts", "groups", "causes")] == [[], [], []]


@pytest.mark.slow
def test_beside_the_job_the_document_is_that_of_one_rank(
    capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path]
) -> None:
    found, alone = (command_json(capsys, "diff", *jobs, *words) for words in ([], ["--rank", 0]))
    of_jobs = ("job", "control_job_verdict", "job_verdict", "tables", "notes", "environment", "judgement")
    told = {key: value for key, value in found.items() if key not in of_jobs}
    assert told == {key: value for key, value in alone.items() if key in told}
    assert alone["tables"].items() <= found["tables"].items()
    assert found["tables"].keys() - alone["tables"].keys() == job_diff.TABLES.keys()
    assert (found["job"]["measure"], found["job"]["beyond_noise"], found["job"]["caveats"]) == ("iteration", True, [])
    assert found["job"]["test_ns"] - found["job"]["control_ns"] == pytest.approx(DELAY_NS, rel=0.1)
    assert found["job"]["ranks"] == {"control": list(range(8)), "test": list(range(8))}
    steps = found["job"]["steps"]["test"]
    assert [(one["step"], one["compared"]) for one in steps] == [(0, False), (1, True), (2, True), (3, True), (4, True)]
    rank = read_truth(jobs[1])["injected"]["rank"]
    assert {one["held_up_by"] for one in steps if one["compared"]} == {rank}
    assert found["tables"]["job_causes"][0]["rank"] == rank


@pytest.mark.slow
@pytest.mark.parametrize("asked", [[], *some_of(ASKED)])
def test_few_rows_answer_as_all_do(
    capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path], asked: list[str]
) -> None:
    few, whole = (run_command(capsys, "diff", *jobs, *asked, "--skeletons", held, "--json", "-") for held in HELD)
    assert few == whole
    assert few[0] == int("9" in asked)


@pytest.mark.slow
def test_kept_skeletons_and_other_engines_answer_the_same(
    capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path], tmp_path: Path
) -> None:
    first = run_command(capsys, "diff", *jobs, "--json", "-")
    kept = tmp_path / "kept"
    cached = ["--skeletons", "always", "--cache", kept]
    for words in (cached, cached, ["--skeletons", "always", "--jobs", 2]):
        assert run_command(capsys, "diff", *jobs, *words, "--json", "-") == first
    assert len(list(kept.glob("*.hta-graph"))) == 16


@pytest.mark.slow
def test_the_job_is_judged_not_the_rank(capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path]) -> None:
    status, _, err = run_command(capsys, "diff", *jobs, "--fail-above", "5%")
    found = command_json(capsys, "diff", *jobs)
    assert found["job"]["difference_share"] != found["difference_share"]
    share = f"{found['job']['difference_share']:.1%}"
    assert (status, err.startswith(f"hta-graph: --fail-above: {share} slower")) == (1, True)
    assert run_command(capsys, "diff", jobs[1], jobs[0], "--fail-above", "5%")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_broken_rank_is_told_and_left_out(
    capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path], tmp_path: Path, side: int
) -> None:
    sides = [shutil.copytree(job, tmp_path / job.name) for job in jobs]
    (sides[side] / "rank_0.json.gz").write_bytes(b"{")
    status, out, err = run_command(capsys, "diff", *sides)
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"hta-graph: {sides[side] / 'rank_0.json.gz'}: ")
    texts = ("7 of 8", "8, including 0")
    assert f"Also different: ranks {texts[side]} → {texts[1 - side]}." in out.splitlines()[1:3]
    assert "rank 1 (before) and rank 1 (after)" in out


@pytest.mark.slow
def test_a_job_of_which_one_rank_is_left_is_compared_by_it(
    capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path], tmp_path: Path
) -> None:
    lone = shutil.copytree(jobs[1], tmp_path / "lone")
    for path in lone.iterdir():
        if path.name != "rank_3.json.gz":
            path.write_bytes(b"{")
    status, out, err = run_command(capsys, "diff", jobs[0], lone)
    assert (status, err.count("\n")) == (1, 8)
    assert err.endswith(f"continuing with {lone / 'rank_3.json.gz'}, rank 3, alone\n")
    assert "Compared: rank 3 (before) and rank 3 (after)." in out
    assert "job classes" not in out


@pytest.mark.slow
def test_a_named_rank_and_a_single_file_are_no_job(capsys: pytest.CaptureFixture[str], jobs: tuple[Path, Path]) -> None:
    control, test = jobs
    for asked in ([control, test, "--rank", 3], [control, test, "--test-rank", 3], [control / "rank_3.json.gz", test]):
        out = run_command(capsys, "diff", *asked)[1]
        assert "job classes" not in out
        assert "\ncritical path by class\n" in out


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(GLOO))
def test_of_recorded_jobs_the_first_cause_is_the_delayed_rank(name: str) -> None:
    workload, ranks = name.split("_")[:2]
    control = SHARED / "gloo" / f"{workload}_{ranks}_base_1"
    if not control.exists():
        pytest.skip("has no job without a delay beside it")
    found = compared_jobs(*(sorted(folder.glob("rank*.json.gz")) for folder in (control, SHARED / "gloo" / name)))
    fault = json.loads((SHARED / "gloo" / name / "truth.json").read_text())["fault"]
    causes = job_diff.job_causes(found)
    first = causes[causes["name"].notna()].iloc[0]
    assert ((first["rank"], first["diff_ns"] > 0) == (fault["rank"], True)) == (name not in NOT_FIRST)
    # Three steps on a machine that others used: such differences are not to be believed.
    assert not found.beyond_noise
