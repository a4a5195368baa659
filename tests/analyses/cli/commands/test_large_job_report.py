"""The report of a job of which few rows are held: what all ranks tell is that of whole graphs; two stand in detail."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hta_graph.multi_rank import summary_job
from tests.benchmarks.process_usage import run_watched
from tests.simulator.large import read_truth
from tests.support.command_line import PROGRAM, one_error, run_command
from tests.support.html_tables import page_sections, page_tables
from tests.support.large_jobs import JOBS, RULES_OF_ALL_ROWS, JobOf, generated_job, jobs_written_once
from tests.support.samples import FOUR_RANKS
from tests.support.shared_traces import SHARED

OF_THE_JOB = ("Time on the critical path by rank", "Largest items on the critical path", "Causes of waiting")
MIB = 1 << 20
MORE_MIB = 30


def reported(capsys: pytest.CaptureFixture[str], job: Path, folder: Path, held: str, *words: str) -> dict[str, Any]:
    """Write page and JSON of a job; return the JSON."""
    where = ["-o", folder / f"{held}.html", "--json", folder / f"{held}.json"]
    status, _, err = run_command(capsys, "report", job, *where, "--skeletons", held, *words)
    assert status == 0, err
    found: dict[str, Any] = json.loads((folder / f"{held}.json").read_text())
    return found


FIRST_FINDING = re.compile("; largest [^;]*")
"""What a whole job's headline says of its judgement."""


def without_savings(verdict: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what only whole graphs tell: savings by replay, which order advice, and comparisons of all rows."""
    unknown = dict.fromkeys(("saves_ns", "saves_at_most_ns", "bound_ns"))
    kept = [one | unknown for one in verdict if one["rule"] not in RULES_OF_ALL_ROWS]
    told = [
        {
            **one,
            "text": FIRST_FINDING.sub("", one["text"].partition(" At the others' speed")[0]),
            "evidence": {key: value for key, value in one["evidence"].items() if key != "first"},
        }
        for one in kept
    ]
    return sorted(told, key=lambda one: str(one["rule"]))


def assert_same_job(capsys: pytest.CaptureFixture[str], job: Path, folder: Path, *words: str) -> None:
    """Compare what both ways tell of the job, and of the ranks that both hold whole."""
    few, whole = (reported(capsys, job, folder, held, *words) for held in ("always", "never"))
    assert few["job"] == whole["job"]
    found, priced = without_savings(few["verdict"]), without_savings(whole["verdict"])
    # Only whole graphs tell which advice saves too little to be given, and why none is.
    shown = {one["rule"] for one in priced} - {"nothing_suggested"}
    assert [one for one in found if one["rule"] in shown] == [one for one in priced if one["rule"] in shown]
    assert shown <= {one["rule"] for one in found}
    of_rank = {rank["rank"]: rank for rank in whole["ranks"]}
    assert [{**of_rank[rank["rank"]], "shown_as": rank["shown_as"]} for rank in few["ranks"]] == few["ranks"]
    pages = [page_sections(folder / f"{held}.html") for held in ("always", "never")]
    tables = [
        {title: rows for text in sections.values() for title, rows in page_tables(text).items()} for sections in pages
    ]
    for begins in (*OF_THE_JOB, "Estimated savings"):
        one, other = (
            [
                rows
                for title, rows in own.items()
                if title.startswith(begins) and not title.startswith(f"{begins}, rank")
            ]
            for own in tables
        )
        assert one == other, begins
        assert one or not begins.startswith("Largest"), begins
    shown = [str(rank["rank"]) for rank in few["ranks"]]
    for title in (title for title in tables[1] if title.startswith(("Overlap: ", "Temporal breakdown: "))):
        head, *rows = tables[1][title]
        assert sorted(tables[0][title][1:]) == sorted(row for row in rows if row[head.index("rank")] in shown)


@pytest.mark.slow
def test_what_the_job_tells_is_that_of_whole_graphs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert_same_job(capsys, FOUR_RANKS, tmp_path)
    sections = page_sections(tmp_path / "always.html")
    assert list(sections)[:7] == [
        "Critical path of the job",
        "Waiting",
        "Steps",
        "Savings",
        "Ranks in detail",
        "Ranks",
        "Timeline, rank 2",
    ]
    assert "Collectives" not in sections
    assert "rank 2, which delays the job; rank 1, a typical rank" in sections["Ranks in detail"]
    (steps,) = page_tables(sections["Steps"]).items()
    assert steps[0] == "Length of each step"


@pytest.fixture(scope="module")
def job_of(tmp_path_factory: pytest.TempPathFactory) -> JobOf:
    return jobs_written_once(tmp_path_factory)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clocks", "3d", "host", "cut"])
def test_of_jobs_of_all_kinds(capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path, name: str) -> None:
    assert_same_job(capsys, job_of(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--whole"],
        ["--step", "1"],
        ["--cpu-window"],
        ["--step", "2", "--gpu-window"],
        ["--annotation", "Optimizer.step#AdamW.step"],
        ["--data-load", "augment"],
    ],
)
def test_of_every_window(capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path, words: list[str]) -> None:
    assert_same_job(capsys, job_of("clocks"), tmp_path, *words)


@pytest.mark.slow
@pytest.mark.shared
def test_of_a_real_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert_same_job(capsys, SHARED / "traces" / "nanogpt_ddp_8xh100", tmp_path)


# -- many ranks -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_of_many_ranks_the_worst_are_listed_and_the_page_stays_small(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path
) -> None:
    status, _, err = run_command(
        capsys, "report", job_of("cut"), "--summaries", "always", "--step", "1", "-o", tmp_path / "r.html"
    )
    assert status == 0, err
    sections = page_sections(tmp_path / "r.html")
    tables = page_tables(sections["Waiting"])
    (ranks,) = (rows for title, rows in tables.items() if "the top 10 of 40 ranks" in title)
    assert [row[0] for row in ranks[-2:]] == ["median", "p95"]
    injected = read_truth(job_of("cut"))["injected"]["rank"]
    assert ranks[1][0] == str(injected)
    assert f"rank {injected}, which delays the job" in sections["Ranks in detail"]
    assert "When each of 40 ranks waits for others" in sections["Waiting"]
    assert max(len(rows) for text in sections.values() for rows in page_tables(text).values()) <= 101
    assert (tmp_path / "r.html").stat().st_size < 300_000


@pytest.mark.slow
def test_kept_skeletons_and_other_readers_make_the_same_page(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path
) -> None:
    pages = []
    cached = ["--cache", str(tmp_path / "kept"), "--jobs", "2"]
    for at, words in enumerate(([], cached, cached)):
        page = tmp_path / f"{at}.html"
        assert run_command(capsys, "report", job_of("small"), "-o", page, "--skeletons", "always", *words)[0] == 0
        pages.append(page.read_bytes())
    assert pages[0] == pages[1] == pages[2]
    assert len(list((tmp_path / "kept").glob("*.hta-graph"))) >= JOBS["small"]["ranks"]


@pytest.mark.slow
def test_the_overlay_is_of_the_rank_that_matters(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path
) -> None:
    for held in ("always", "never"):
        found = reported(
            capsys, job_of("host"), tmp_path, held, "--step", "1", "--overlay", str(tmp_path / f"{held}_o.json")
        )
        assert found["verdict"][0]["rule"] == "held_up_by_rank"
    assert (tmp_path / "always_o.json").read_bytes() == (tmp_path / "never_o.json").read_bytes()
    assert 'href="always_o.json"' in (tmp_path / "always.html").read_text()


# -- ranks that lack something ----------------------------------------------------------------------------------------


def copied(job: Path, folder: Path, rank: int, change: Callable[[bytes], bytes]) -> Path:
    """Copy a job with one rank's text changed."""
    folder.mkdir()
    for path in job.iterdir():
        text = gzip.decompress(path.read_bytes())
        own = change(text) if path.name == f"rank_{rank}.json.gz" else text
        (folder / path.name).write_bytes(gzip.compress(own))
    return folder


@pytest.mark.slow
def test_a_rank_without_the_step_is_told_and_contributes_nothing(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path
) -> None:
    job = copied(job_of("small"), tmp_path / "job", 3, lambda text: text.replace(b"ProfilerStep#2", b"SomethingElse"))
    status, out, err = run_command(capsys, "report", job, "--step", "2", "--skeletons", "always", "--json", "-")
    assert status == 0, err
    assert 3 not in [rank["rank"] for rank in json.loads(out)["ranks"]]
    assert json.loads(out)["job"]["ranks"] == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_broken_rank_is_left_out(capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path) -> None:
    job = copied(job_of("small"), tmp_path / "job", 1, lambda text: text[: len(text) // 2])
    status, _, err = run_command(capsys, "report", job, "--skeletons", "always", "-o", tmp_path / "r.html")
    assert status == 1
    assert err.startswith(f"hta-graph: {job / 'rank_1.json.gz'}: ")
    assert "3 ranks" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_one_rank_that_is_left_gets_its_own_page(
    capsys: pytest.CaptureFixture[str], job_of: JobOf, tmp_path: Path
) -> None:
    (job := tmp_path / "job").mkdir()
    for rank in range(2):
        (job / f"rank_{rank}.json.gz").write_bytes(
            (job_of("small") / f"rank_{rank}.json.gz").read_bytes()[: None if rank else 600]
        )
    status, _, err = run_command(capsys, "report", job, "--skeletons", "always", "-o", tmp_path / "r.html")
    assert (status, "continuing with" in err) == (1, True)
    assert "Critical path of the job" not in page_sections(tmp_path / "r.html")


@pytest.mark.slow
@pytest.mark.parametrize("after", range(6))
def test_a_file_that_changes_meanwhile_is_one_line(
    capsys: pytest.CaptureFixture[str],
    job_of: JobOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    """Whichever of the six further readings it is that finds it."""
    job, read, asked = copied(job_of("small"), tmp_path / "job", -1, bytes), summary_job.read_files, []
    other = generated_job(tmp_path / "other", **JOBS["small"], seed=5)

    def changed(*given: Any) -> Any:
        asked.append(given)
        if len(asked) > after:
            for path in job.iterdir():
                path.write_bytes((other / path.name).read_bytes())
        return read(*given)

    monkeypatch.setattr(summary_job, "read_files", changed)
    # JSON takes the first two alone.
    where = ["-o" if after > 1 else "--json", tmp_path / "answer.html", "--skeletons", "always"]
    err = one_error(capsys, tmp_path / "nothing", "report", job, *where)
    assert "has changed while it was read" in err
    assert not (tmp_path / "answer.html").exists()


# -- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")
def test_the_asking_process_holds_the_rows_of_two_ranks_at_most(tmp_path: Path) -> None:
    peaks = {}
    for rows in (1_000, 10_000):
        job = generated_job(tmp_path / str(rows), ranks=40, rows=rows)
        page = tmp_path / f"{rows}.html"
        ended = run_watched([*PROGRAM, "report", str(job), "--summaries", "always", "--jobs", "2", "-o", str(page)])
        assert ended.status == 0, ended.said
        peaks[rows] = ended.peak_bytes / MIB
        assert "40 ranks" in page.read_text()
    assert peaks[10_000] < peaks[1_000] + MORE_MIB, peaks
