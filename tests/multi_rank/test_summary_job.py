"""Questions about jobs of which few rows are held: the command line answers as of whole graphs, byte for byte."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hta_graph.multi_rank import summary_job
from tests.benchmarks.process_usage import kill_one, run_watched
from tests.simulator.large import read_truth
from tests.support.command_line import PROGRAM, run_command
from tests.support.dask_cluster import cluster
from tests.support.deep_tests import deep
from tests.support.large_jobs import JobOf, asked_with, comparable, generated_job, jobs_written_once, only_difference
from tests.support.two_rank_job import one_rank
from tests.support.worker_tasks import working_children

COMMANDS = ("stragglers", "collectives", "critical-path", "what-if")
NAMED = ("--annotation", "Optimizer.step#AdamW.step")
QUESTIONS = {
    "stragglers": ([], ["--per-step"], ["--step", "1"], NAMED, [*NAMED, "--instance", "1:2"]),
    "collectives": ([], ["--per-step"], ["--step", "2"], NAMED, ["--whole"], ["--step", "9"], ["--annotation", "x"]),
    "critical-path": (
        [], ["--step", "1"], ["--step", "9"], ["--whole"], ["--cpu-window"], ["--step", "0", "--cpu-window"],
        ["--step", "2", "--gpu-window"], NAMED, [*NAMED, "--instance", "2"], [*NAMED, "--cpu-window"],
        ["--annotation", "Opt.*", "--regex"], ["--annotation", "x"], ["--merge-runs"], ["--data-load", "augment"],
    ),
    "what-if": (
        [], ["--step", "1", "--scenario", "rank_like_others=5"], ["--step", "9"],
        ["--whole", "--scale", "rank:1=0.5", "class:cpu_gap=0"],
        [*NAMED, "--scale", "class:cpu_bound=0.5"], ["--cpu-window", "--scenario", "no_waiting"],
        ["--scale", "kernel:x=0.5"], ["--step", "2", "--gpu-window", "--scenario", "communication=0.5"],
        ["--scale", "class:cpu_bound=999999", "class:cpu_bound=999999", "class:cpu_bound=999999"],
        ["--scenario", "rank_like_others=5"],
    ),
}  # fmt: skip
QUICK = {("stragglers", "clocks"): [[]], ("critical-path", "clocks"): [["--step", "9"], NAMED]}
ASKED = [
    *((command, job, asked) for (command, job), asked in QUICK.items()),
    *(deep(command, "clocks", asked) for command, asked in QUESTIONS.items()),
    *(deep(command, "3d", asked[:4]) for command, asked in QUESTIONS.items()),
    *(deep(command, job, [[]]) for command in QUESTIONS for job in ("fsdp", "host", "cut")),
]

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["stragglers", "critical-path", "what-if"])
def test_few_rows_tell_of_lost_launches_as_all_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for rank in range(2):
        trace = one_rank(rank)
        if rank:
            trace.call("cudaLaunchKernel", 150, 152, 8)
            trace.call("cudaLaunchKernel", 153, 155, 9)
            trace.launch("gemm", (176, 178), (188, 195), 10)
        trace.write(tmp_path / f"rank{rank}.json")
    said = [run_command(capsys, command, tmp_path, "--summaries", kept) for kept in ("never", "always")]
    assert said[0][:2] == said[1][:2]
    first = said[0][1].splitlines()[0]
    assert ("2 of 9 launch calls have no recorded GPU activity" if command == "stragglers" else "not recorded") in first


@pytest.fixture(scope="module")
def job_of(tmp_path_factory: pytest.TempPathFactory) -> JobOf:
    return jobs_written_once(tmp_path_factory)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("command", "job", "asked"), ASKED)
def test_few_rows_answer_as_all_do(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, command: str, job: str, asked: list[list[str]]
) -> None:
    for words in asked:
        few, whole = (asked_with(capsys, held, job_of(job), command, *words) for held in ("always", "never"))
        assert comparable(few) == comparable(whole), words
        assert few[0] == int(any(word in ("9", "x", "kernel:x=0.5") or "999999" in word for word in words))


@pytest.mark.slow
def test_of_steps_few_rows_tell_those_of_the_job(capsys: pytest.CaptureFixture[str], job_of: JobOf) -> None:
    """The paths of each rank alone would need all rows of all ranks."""
    few, whole = (
        json.loads(asked_with(capsys, held, job_of("clocks"), "critical-path", "--per-step")[1])
        for held in ("always", "never")
    )
    assert list(only_difference(few, whole)) == ["ranks", "steps"]
    assert (few["ranks"], few["steps"], len(few["job_steps"])) == ([], [], 3)
    status, out, _ = run_command(capsys, "critical-path", job_of("clocks"), "--per-step", "--skeletons", "always")
    assert (status, "0 ranks" in out) == (0, False)


@pytest.mark.slow
def test_time_on_paths_is_told_by_host(capsys: pytest.CaptureFixture[str], job_of: JobOf) -> None:
    """Ranks 0 to 3 are on one host, the others on another."""
    _, out, _ = asked_with(capsys, "always", job_of("clocks"), "critical-path")
    path = json.loads(out)
    sums = [sum(path["by_rank_ns"][str(rank)] for rank in ranks) for ranks in (range(4), range(4, 8))]
    assert path["by_host_ns"] == {"node0": sums[0], "node1": sums[1]}
    _, out, _ = asked_with(capsys, "always", job_of("clocks"), "what-if", "--scale", "rank:5=0.5")
    found = json.loads(out)
    for side in ("path_before", "path_after"):
        assert sum(found[side]["by_host_ns"].values()) == sum(found[side]["by_rank_ns"].values())
    for command in (["critical-path"], ["what-if", "--scale", "rank:5=0.5"]):
        status, text, _ = run_command(capsys, command[0], job_of("clocks"), *command[1:])
        assert status == 0
        assert re.search("critical path by host\n(.*\n)+?.*ms.*node[01]", text), text


@pytest.mark.slow
def test_the_first_cause_is_the_injected_one(capsys: pytest.CaptureFixture[str], job_of: JobOf) -> None:
    _, out, _ = asked_with(capsys, "always", job_of("3d"), "stragglers")
    first, injected = json.loads(out)["tables"]["causes"][0], read_truth(job_of("3d"))["injected"]
    assert (first["rank"], first["name"]) == (injected["rank"], injected["kernel"])


@pytest.mark.slow
def test_not_every_clock_has_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = generated_job(tmp_path / "job", ranks=40, ranks_per_host=1, clock_spread_ns=300_000)
    (few, whole) = (run_command(capsys, "collectives", job, "--skeletons", held)[1] for held in ("always", "never"))
    assert few == whole
    assert few.count("from the first rank's; corrected") == 10
    assert re.search(r"\d+ more ranks: clock offsets of at most ", few)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("critical-path", ["--near", "1%"]),
        ("critical-path", ["--overlay", "o.json"]),
        ("critical-path", ["--window", "0:1000000"]),
        ("what-if", ["--near", "1%"]),
        ("what-if", ["--curve", "rank:1"]),
        ("what-if", ["--scenario", "like_median"]),
    ],
)
def test_what_needs_all_rows_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str],
    job_of: JobOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = asked_with(capsys, "always", job_of("fsdp"), command, *option)
    assert (status in (1, 2), out, err.count("\n")) == (True, "", 0), err
    assert list(tmp_path.iterdir()) == []


# -- who reads --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_whoever_reads_answers_are_the_same(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers stand in another folder than the one who asks."""
    pytest.importorskip("distributed")
    pytest.importorskip("pyarrow")
    job = job_of("clocks")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with cluster(elsewhere) as address:
        for command in COMMANDS:
            expected = asked_with(capsys, "always", job, command, "--jobs", "1")
            assert expected[0] == 0
            for where in (["--jobs", "2"], ["--jobs", "2", "--cluster", "local"], ["--cluster", address]):
                assert asked_with(capsys, "always", job, command, *where) == expected, (command, where)
            kept = asked_with(capsys, "always", job, command, "--cluster", address, "--cache", "kept")
            assert kept == expected
    assert len(list((tmp_path / "kept").rglob("*.hta-graph"))) >= len(list(job.iterdir()))
    assert list(elsewhere.rglob("*.hta-graph")) == []
    assert working_children() == set()


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("where", [["--jobs", "2"], ["--jobs", "2", "--cluster", "local"]])
def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path, where: list[str]) -> None:
    if "--cluster" in where:
        pytest.importorskip("distributed")
    job = generated_job(tmp_path / "job", rows=3_000)
    ask = [*PROGRAM, "critical-path", str(job), "--skeletons", "always", *where, "--json"]
    whole = run_watched([*ask, str(tmp_path / "whole.json")])
    ended = run_watched([*ask, str(tmp_path / "killed.json")], kill_one(whole.middle_s))
    assert (ended.status, ended.is_hit) == (0, True), ended.said
    assert "Traceback" not in ended.said
    assert (tmp_path / "killed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


# -- files that are broken, or go -------------------------------------------------------------------------------------


def copied(job: Path, folder: Path, without: int = -1) -> Path:
    folder.mkdir()
    for path in job.iterdir():
        if path.name != f"rank_{without}.json.gz":
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", ["stragglers", *map(deep, COMMANDS[1:])])
def test_a_broken_rank_is_left_out(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path, command: str
) -> None:
    broken, left = copied(job_of("fsdp"), tmp_path / "broken"), copied(job_of("fsdp"), tmp_path / "left", without=3)
    path = broken / "rank_3.json.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[: len(text) // 2]))
    status, out, err = asked_with(capsys, "always", broken, command)
    assert (status, err.count("\n")) == (1, 0)
    assert err.startswith(f"hta-graph: {path}: ")
    status, of_others, _ = asked_with(capsys, "always", left, command)
    document = json.loads(out.replace(str(broken), str(left)))
    assert [line.startswith(f"{left / path.name}: ") for line in document.pop("unread")] == [True]
    assert (status, json.loads(of_others)) == (0, document)


def replaced_before_excerpts(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change something once skeletons are there."""
    read = summary_job.read_files

    def changed(*given: Any) -> Any:
        change()
        return read(*given)

    monkeypatch.setattr(summary_job, "read_files", changed)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda path: path.unlink(missing_ok=True), "no such file"),
    "other rows": (lambda path: path.write_bytes(other_job(path, rows=400)), "has changed while it was read"),
    "other times": (lambda path: path.write_bytes(other_job(path, seed=5)), "has changed while it was read"),
    "broken": (lambda path: path.write_bytes(path.read_bytes()[:600]), "is truncated"),
    "a folder": (lambda path: (path.unlink(missing_ok=True), path.mkdir(exist_ok=True)), "rank_"),
    "nothing": (lambda path: path.write_bytes(b""), "is empty"),
}


def other_job(path: Path, **shape: Any) -> bytes:
    """Return the file of the same rank in another job."""
    other = path.parent.with_name("other")
    if not other.exists():
        generated_job(other, **shape)
    return (other / path.name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["gone", "other times", *map(deep, ("other rows", "broken", "a folder", "nothing"))])
def test_a_file_that_changes_meanwhile_is_one_line(
    capsys: pytest.CaptureFixture[str],
    job_of: JobOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    job = copied(job_of("fsdp"), tmp_path / "job")
    act, expected = CHANGES[change]
    replaced_before_excerpts(monkeypatch, lambda: [act(path) for path in sorted(job.iterdir())])
    status, out, err = asked_with(capsys, "always", job, "critical-path")
    assert (status, out, err.count("\n")) == (1, "", 0), err
    assert expected in err
    assert "Traceback" not in err


# -- which jobs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "job"),
    [("stragglers", "small"), *(deep(name, "cut") for name in ("stragglers", "critical-path", "what-if"))],
)
def test_a_job_that_fits_in_memory_is_held_in_full_however_many_ranks_it_has(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, command: str, job: str
) -> None:
    whole = run_command(capsys, command, job_of(job), "--summaries", "never", "--json", "-")
    assert run_command(capsys, command, job_of(job), "--json", "-") == whole


@pytest.mark.parametrize(
    ("command", "memory"),
    [("stragglers", ["--memory", "80M"]), deep("what-if", ["--memory", "80M"]), deep("what-if", [])],
)
def test_of_a_job_that_does_not_fit_summaries_are_held_and_a_line_says_what_they_lack(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, monkeypatch: pytest.MonkeyPatch, command: str, memory: list[str]
) -> None:
    asked = (command, job_of("small"), "--json", "-")
    few = run_command(capsys, *asked, "--summaries", "always")
    room = 80 if memory else 20
    monkeypatch.setattr("hta_graph.multi_rank.read_engine.memory_share", lambda: 20 << 20)
    monkeypatch.setattr("hta_graph.multi_rank.read_engine.MARGIN", 80 if memory else 1.25)
    status, out, err = run_command(capsys, *asked, *memory)
    assert (status, out) == few[:2]
    (said,) = [line for line in err.splitlines() if line not in few[2].splitlines()]
    assert re.match(rf"whole graphs of 4 ranks may take \d+ MiB, more than {room} MiB; continuing with rank summ", said)


# -- what it costs ----------------------------------------------------------------------------------------------------

MIB = 1 << 20
MORE_MIB = 8


@needs_proc
@pytest.mark.slow
def test_the_asking_process_holds_no_more_of_larger_files(tmp_path: Path) -> None:
    peaks = {}
    for rows in (2_000, 20_000):
        job = generated_job(tmp_path / str(rows), ranks=64, rows=rows, ranks_per_host=8)
        ask = [
            *PROGRAM,
            "stragglers",
            str(job),
            "--summaries",
            "always",
            "--jobs",
            "2",
            "--json",
            str(tmp_path / f"{rows}.json"),
        ]
        ended = run_watched(ask)
        assert ended.status == 0, ended.said
        peaks[rows] = ended.peak_bytes / MIB
    assert peaks[20_000] < peaks[2_000] + MORE_MIB, peaks
