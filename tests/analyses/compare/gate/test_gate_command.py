"""gate on the command line: the verdict, its cause, its exit status and its outputs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from analyses.display.sentence_format import counted
from tests.simulator.large import read_truth
from tests.simulator.ranks import Fault, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.command_line import command_json, run_command
from tests.support.fixed_length_steps import recorded
from tests.support.job_pairs import DELAY_NS, job_of_steps
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES
from tests.support.strict_schemas import schema_errors
from tests.support.trace_builder import TraceBuilder

HEADING = "### Performance gate: cannot compare"
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


def test_a_short_level_at_the_end_is_an_event_of_its_size(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = run_of(tmp_path / "a.json", lengths=[*USUAL, 99, 102, 100])
    late = recorded(tmp_path / "b.json", [900, *USUAL[:0:-1], 301, 299, 300])
    status, out, _ = run_command(capsys, "gate", base, late)
    assert status == 1
    text = " ".join(out.split())
    assert text.startswith("regression: iteration time 49.9% slower on average by steps that hang (1; 0 before), above")
    assert "Hangs: 1 after (steps 11 to 13) and 0 before; at the median one takes 0.600 ms." in text
    out = run_command(capsys, "gate", base, late, "--json", "-")[1]
    assert json.loads(out)["hangs"]["new_steps"] == [11, 12, 13]
    assert run_command(capsys, "diff", base, late, "--fail-above", "1%")[0] == 1


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


LONG = [900, *(100_000 + 700 * (at * 7 % 11) for at in range(24))]


def with_hangs(lengths: list[int], places: tuple[int, ...], longer: int) -> list[int]:
    return [length + longer * (at in places) for at, length in enumerate(lengths)]


def test_hangs_fail_with_their_cause(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = recorded(tmp_path / "a.json", LONG)
    late = recorded(tmp_path / "b.json", with_hangs(LONG[:1] + LONG[:0:-1], (5, 13, 21), 202_000))
    status, out, _ = run_command(capsys, "gate", base, late, "--wide")
    assert status == 1
    assert re.match(
        r"regression: iteration time 2\d\.\d% slower on average by steps that hang \(3; 0 before\), above", out
    )
    assert "\nHangs: 3 after (steps 6, 14 and 22) and 0 before; at the median one takes 198.5" in out
    assert re.search(r"\ncause: 1\. gemm \(GPU compute\): \+2\d\.\d+ ms, 100% of the change\n", out)
    diff = run_command(capsys, "diff", base, late)[1]
    assert re.match(r"2\d\.\d% slower per iteration on average by steps that hang \(3; 0 before\): mean 10", diff)


def test_what_noise_may_hide_is_no_pass(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = recorded(tmp_path / "a.json", LONG)
    late = recorded(tmp_path / "b.json", with_hangs(LONG[:1] + LONG[:0:-1], (5, 13, 21), 90_000))
    answer = tmp_path / "answer.json"
    status, _, err = run_command(capsys, "gate", base, late, "--json", answer, "--markdown", tmp_path / "c.md")
    found = json.loads(answer.read_bytes())
    assert status == 3
    assert schema_errors(found) == []
    assert (found["verdict"], found["reason"]["code"], found["compared_by"]) == ("cannot_compare", "noise", "hangs")
    assert found["reason"]["text"].startswith("cannot tell a change of 1")
    assert (
        " with 24 and 24 steps, 64 would do: what hanging steps add is less than its noise" in found["reason"]["text"]
    )
    assert found["reason"]["text"] in err
    assert (tmp_path / "c.md").read_text().startswith(f"{HEADING}\n\ncannot tell a change of 1")
    assert run_command(capsys, "gate", base, late, "--allow", "noise")[0] == 0
    assert run_command(capsys, "diff", base, late)[1].startswith("Cannot tell a change of 1")
    assert run_command(capsys, "diff", base, late, "--fail-above", "1%")[0] == 3
    assert run_command(capsys, "gate", base, late, "--fail-above", "15%")[0] == 0
    of_diff = command_json(capsys, "diff", base, late)
    assert schema_errors(of_diff) == []
    assert (of_diff["cannot_tell"], of_diff["beyond_noise"]) == (found["reason"]["text"], False)


def test_a_plan_counts_the_steps_that_show_a_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = recorded(tmp_path / "a.json", LONG)
    status, out, _ = run_command(capsys, "gate", "--plan", base)
    first, *others = out.splitlines()
    assert status == 0
    assert re.fullmatch(r"With 24 steps of each run, noise explains up to \d\.\d% of the usual step\.", first)
    counts = [int(re.search(r"record (\d+) steps", line)[1]) for line in others]  # type: ignore[index]
    assert len(counts) == 5
    assert counts == sorted(counts, reverse=True)
    assert run_command(capsys, "gate", "--plan", base, base)[0] == 2


def test_update_adds_to_a_baseline_and_keeps_the_newest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    runs = [recorded(tmp_path / f"{at}.json", [length * (100 + at) // 100 for length in LONG]) for at in range(5)]
    base = tmp_path / "base.json"
    for at, run in enumerate(runs):
        said = run_command(capsys, "gate", "--update", base, run, "--keep", "4")[2]
        assert f": a baseline of {counted(min(at + 1, 4), 'recording')} with" in said
    assert ", which differ by " in said
    assert said == run_command(capsys, "gate", "--update", base, runs[4], "--keep", "4")[2], "a recording counts once"
    status, out, _ = run_command(capsys, "gate", base, recorded(tmp_path / "new.json", [x * 106 // 100 for x in LONG]))
    assert status == 1, "each step of the creep is a percent"
    assert "the new run is +5.0% from the oldest and +1.9% from the newest." in " ".join(out.split())
    other = tmp_path / "other.json"
    trace = TraceBuilder()
    for step in range(6):
        trace.annotation(f"ProfilerStep#{step}", 1_000 * step, 1_000 * step + 900)
        trace.op("aten::conv2d", 1_000 * step + 20, 1_000 * step + 600)
    trace.write(other)
    before = base.read_bytes()
    status, _, err = run_command(capsys, "gate", "--update", base, other)
    assert (status, "; --keep 1 begins a new baseline" in err, base.read_bytes()) == (3, True, before)
    assert run_command(capsys, "gate", "--update", base, other, "--keep", "1")[0] == 0


def test_a_missing_baseline_says_how_to_make_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    comment = tmp_path / "c.md"
    status, _, err = run_command(capsys, "gate", tmp_path / "none.json.gz", ONE_RANK, "--markdown", comment)
    assert status == 3
    assert err.rstrip().endswith("hta-graph gate --update BASELINE TRACE makes a baseline")
    assert "makes a baseline" in comment.read_text()


def test_steps_in_which_all_is_slower_are_those_of_the_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = []
    for name, slow in (("a", ()), ("b", (4, 5, 6))):
        trace, at = TraceBuilder(), 0
        for step in range(14):
            length = (40_000 + 37 * (step * 7 % 11)) * (1 + 2 * (step in slow))
            trace.annotation(f"ProfilerStep#{step}", at, at + length)
            for place, op in enumerate(("aten::mm", "aten::add", "aten::relu", "aten::sum")):
                trace.op(op, at + length * place // 4 + 5, at + length * (place + 1) // 4 - 5)
            at += length + 5
        paths.append(trace.write(tmp_path / f"{name}.json"))
    status, out, _ = run_command(capsys, "gate", *paths)
    assert status == 1
    assert "All operators are slower in steps 4 to 6: the machine, rather than the program." in " ".join(out.split())
