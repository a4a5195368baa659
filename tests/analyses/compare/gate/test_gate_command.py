"""gate on the command line: the verdict, its cause, its exit status and its outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.simulator.large import read_truth
from tests.simulator.ranks import Fault, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.command_line import command_json, run_command
from tests.support.fixed_length_steps import recorded
from tests.support.job_pairs import DELAY_NS, job_of_steps
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES
from tests.support.strict_schemas import schema_errors
from tests.support.trace_builder import TraceBuilder

USUAL = [900, 100, 101, 99, 100, 102, 98, 100, 101, 100]


def run_of(path: Path, factor: float = 1.0, lengths: list[int] = USUAL) -> Path:
    return recorded(path, [lengths[0], *(round(factor * length) for length in lengths[1:])])


def test_an_equal_run_passes_and_a_slower_one_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base, slower = run_of(tmp_path / "a.json"), run_of(tmp_path / "c.json", 1.2)
    other = run_of(tmp_path / "b.json", lengths=[900, *USUAL[:0:-1]])
    status, out, err = run_command(capsys, "gate", base, other)
    assert (status, err) == (0, "")
    assert out.startswith("pass: iteration time +0.0%, within the noise (limit 1.0%, noise ±")
    status, out, err = run_command(capsys, "gate", base, slower, "--fail-above", "5%")
    assert status == 1
    assert err.startswith("hta-graph: gate: regression: iteration time 2")
    assert out.startswith("regression: iteration time 2")
    assert " or more would have been a regression.\ncause: 1. " in out
    assert run_command(capsys, "gate", slower, base)[0] == 0
    assert run_command(capsys, "gate", base, slower, "--fail-above", "30%")[0] == 0


def test_every_line_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    out = run_command(capsys, "gate", ONE_RANK, SAMPLES / "slower_trace.json.gz")[1]
    assert max(map(len, out.splitlines())) <= 80


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, str]]:
    """Runs that cannot be compared, and what is said of them, by the reason."""
    folder = tmp_path_factory.mktemp("refused")
    base = run_of(folder / "base.json")
    rank = recorded(folder / "rank1.json", USUAL, rank=1)
    few = recorded(folder / "few.json", [100, 100])
    (folder / "broken.json").write_bytes(b'{"traceEvents": [')
    model = TraceBuilder()
    for step in range(6):
        at = 1_000 * step
        model.annotation(f"ProfilerStep#{step}", at, at + 900)
        model.op("aten::conv2d", at + 20, at + 600)
    version = {}
    for name in ("2.8.0", "2.9.0"):
        document = json.loads(base.read_bytes())
        (folder / f"{name}.json").write_text(json.dumps({**document, "pytorch_version": name}))
        version[name] = folder / f"{name}.json"
    return {
        "unreadable": (base, folder / "broken.json", "broken.json"),
        "missing": (base, folder / "absent.json", "no such file"),
        "ranks": (base, rank, "partial input: ranks 0 before, ranks 1 after"),
        "world_size": (ONE_RANK, FOUR_RANKS, "another world size: 1 before, 4 after"),
        "steps": (few, recorded(folder / "fewer.json", [100, 130]), "only 1 pair of steps"),
        "gpu": (base, model.write(folder / "model.json"), "another GPU"),
        "pytorch": (version["2.8.0"], version["2.9.0"], "another version of PyTorch: 2.8.0 before, 2.9.0 after"),
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("why", ["unreadable", "missing", "ranks", "world_size", "steps", "gpu", "pytorch"])
def test_what_cannot_be_compared_has_status_3_and_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, refused: dict[str, tuple[Path, Path, str]], why: str
) -> None:
    control, test, words = refused[why]
    answer = tmp_path / "answer.json"
    written = [] if why == "missing" else ["--json", answer, "--markdown", tmp_path / "m.md"]
    status, out, err = run_command(capsys, "gate", control, test, *written)
    assert (status, out) == (3, "")
    assert words in err
    assert err.count("\n") == 1
    assert run_command(capsys, "diff", control, test, "--fail-above", "1%")[0] == 3
    if written:
        found = json.loads(answer.read_bytes())
        assert (found["verdict"], found["reason"]["code"]) == ("cannot_compare", why)
        assert schema_errors(found) == []
        assert (tmp_path / "m.md").read_text().startswith("### Performance gate: cannot compare\n\n")


def test_what_differs_can_be_allowed(
    capsys: pytest.CaptureFixture[str], refused: dict[str, tuple[Path, Path, str]]
) -> None:
    control, test, _ = refused["pytorch"]
    assert run_command(capsys, "gate", control, test, "--allow", "pytorch")[0] == 0


def test_a_defect_is_no_regression(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from analyses.compare.gate import compare_profiles

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(compare_profiles, "compare_lengths", fail)
    base = run_of(tmp_path / "a.json")
    status, out, err = run_command(capsys, "gate", base, base)
    assert (status, out) == (3, "")
    assert "this is a defect of hta-graph" in err


@pytest.mark.parametrize("words", [[], ["--with-hosts", ONE_RANK], ["--fail-above", "5", ONE_RANK]])
def test_invalid_usage_has_status_2(capsys: pytest.CaptureFixture[str], words: list[object]) -> None:
    try:
        status = run_command(capsys, "gate", ONE_RANK, *words)[0]
    except SystemExit as stop:
        status = int(str(stop.code))
    assert status == 2


def test_a_level_of_too_few_steps_passes_and_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = run_of(tmp_path / "a.json", lengths=[*USUAL, 99, 102, 100])
    late = recorded(tmp_path / "b.json", [900, *USUAL[:0:-1], 301, 299, 300])
    status, out, _ = run_command(capsys, "gate", base, late)
    assert status == 0
    text = " ".join(out.split())
    assert text.startswith("pass: iteration time +200.0% since step 11, in too few steps to judge (limit")
    assert "too few steps are left to judge it" in text
    assert "would have been a regression" not in text
    assert command_json(capsys, "gate", base, late)["detectable_share"] is None
    assert "too few steps are left" in run_command(capsys, "diff", base, late, "--fail-above", "1%")[2]


def test_what_gate_refuses_names_no_option_that_it_lacks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = run_of(tmp_path / "a.json")
    (tmp_path / "cut.json").write_bytes(base.read_bytes()[:-400])
    status, _, err = run_command(capsys, "gate", base, tmp_path / "cut.json")
    assert (status, "--salvage" in err, "record it again" in err) == (3, False, True)


def test_recordings_of_one_run_are_pooled_with_their_noise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Three recordings that differ by 3% show that 2% is noise; a single one does not."""
    lengths = [900, *(100_000 + at for at in (1, 7, 3, 9, 5, 2, 8, 4, 6, 0, 11, 13))]
    for name, factor in (("a", 1.0), ("b", 1.03), ("c", 0.97), ("new", 1.02)):
        run_of(tmp_path / f"{name}.json", factor, lengths)
    base, more, new = tmp_path / "a.json", [tmp_path / f"{name}.json" for name in "abc"], tmp_path / "new.json"
    assert run_command(capsys, "gate", base, new)[0] == 1
    assert run_command(capsys, "gate", "--update", tmp_path / "base.json", *more)[0] == 0
    found = command_json(capsys, "gate", tmp_path / "base.json", new)
    assert (found["verdict"], found["baseline"]["recordings"], found["new"]["recordings"]) == ("pass", 3, 1)
    assert found["noise_share"] > 0.05
    assert json.loads((tmp_path / "base.json").read_bytes())["noise"]["runs_share"] == pytest.approx(0.03, rel=0.05)


@pytest.mark.slow
def test_a_late_rank_of_the_new_run_is_named_also_where_it_passes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    faults = [Fault(2, step, "forward", DELAY_NS) for step in range(6)]
    record_job(simulate_job(ddp(JobShape(steps=6, layers=2, backend="gloo", faults=faults))), Recording(), tmp_path)
    status, out, _ = run_command(capsys, "gate", tmp_path, tmp_path, "--wide")
    assert status == 0
    assert any(line.startswith("In the new run, rank 2 delays the others by ") for line in out.splitlines()[:3])
    found = command_json(capsys, "gate", tmp_path, tmp_path)
    assert (found["verdict"], found["job_verdict"]["rank"]) == ("pass", 2)
    assert found["late_rank"] in out.splitlines()
    base = tmp_path / "base.json"
    assert run_command(capsys, "gate", "--update", base, tmp_path)[0] == 0
    found = command_json(capsys, "gate", base, base)
    assert found["job_verdict"] is None
    assert found["late_rank"].startswith("In the new run, rank 2 causes ")


def test_a_job_names_the_rank_that_causes_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    jobs = [
        job_of_steps(tmp_path / name, seed, delay, collectives=10, rows=120)
        for name, seed, delay in (("a", 1, 0), ("b", 3, DELAY_NS))
    ]
    truth = read_truth(jobs[1])
    answer = tmp_path / "answer.json"
    assert run_command(capsys, "gate", *jobs, "--json", answer)[0] == 1
    found = json.loads(answer.read_bytes())
    assert found["causes"][0]["rank"] == truth["injected"]["rank"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("metric", ["critical-path", "exposed-communication", "gpu-busy", "gpu-idle"])
def test_other_metrics_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path, metric: str) -> None:
    answer = tmp_path / "answer.json"
    status = run_command(
        capsys, "gate", ONE_RANK, SAMPLES / "slower_trace.json.gz", "--metric", metric, "--json", answer
    )[0]
    found = json.loads(answer.read_bytes())
    assert schema_errors(found) == []
    assert status == {"pass": 0, "regression": 1}[found["verdict"]]
    assert found["new_value"] - found["baseline_value"] == pytest.approx(found["difference"], abs=1)


def test_memory_that_is_not_recorded_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "gate", ONE_RANK, ONE_RANK, "--metric", "memory")
    assert (status, out, "record with profile_memory=True" in err) == (3, "", True)


def test_names_have_no_effect_in_a_comment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, length in (("a", 400), ("b", 700)):
        trace = TraceBuilder()
        for step in range(6):
            at = 1_000 * step
            trace.annotation(f"ProfilerStep#{step}", at, at + length + 100)
            trace.op("@team |x| `y` <img src=x> [z](http://evil)", at + 10, at + length)
        trace.write(Path(f"{name}.json"))
    status, out, _ = run_command(capsys, "gate", "a.json", "b.json", "--markdown", "-")
    assert status == 1
    row = next(line for line in out.splitlines() if "team" in line)
    assert row.startswith("| `@team \\|x\\| 'y' <img src=x> [z](http://evil)` | ")


def test_a_closed_pipe_does_not_hide_a_regression(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, slower = run_of(tmp_path / "a.json"), run_of(tmp_path / "b.json", 1.2)

    class Closed:
        encoding = "utf-8"

        def write(self, _: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            pass

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdout", Closed())
    assert run_command(capsys, "gate", base, slower)[0] == 1
