"""strip from the command line: files and folders, what is said, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.command_line import folder_contents, one_error, run_command
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    small_job(tmp_path / "job")
    return tmp_path / "job"


def own_trace(folder: Path) -> Path:
    trace = TraceBuilder(host_name="acme-17", username="me")
    trace.op("acme::attention", 0, 10, **{"Input Dims": [[4, 5]], "secret": 3})
    trace.launch("acme_kernel", (1, 3), (5, 9), 1)
    return trace.write(folder / "acme.json")


def test_a_file_becomes_a_file_and_what_went_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "strip", own_trace(tmp_path), "-o", tmp_path / "out.json")
    assert (status, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'out.json'}: 3 events, same dependency graph\n")
    assert "  kernel       0         1" in out
    assert "removed arguments: Input Dims (1), secret (1)" in out
    again = f"hta-graph strip {tmp_path / 'acme.json'} -o {tmp_path / 'out.json'} --list | less"
    assert out.splitlines()[-1] == f"review kept names: {again}"
    assert "acme" not in (tmp_path / "out.json").read_text()


def test_names_that_stay_are_listed_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "strip", own_trace(tmp_path), "-o", tmp_path / "out.json", "--list")
    assert out.endswith("\nkept, call:\n  cudaLaunchKernel\n")


def test_what_is_named_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "strip", own_trace(tmp_path), "-o", tmp_path / "out.json", "--keep", "names,shapes")
    (row, *_) = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert (row["name"], row["args"]) == ("acme::attention", {"Input Dims": [[4, 5]]})


def test_ranks_become_a_folder_of_files_that_are_named_by_rank(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(capsys, "strip", job, "-o", tmp_path / "new")[0] == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["rank_0.json.gz", "rank_1.json.gz"]
    one, other = hg.read_job(job), hg.read_job(tmp_path / "new")
    assert one.collectives.wait_ns.tolist() == other.collectives.wait_ns.tolist()


def test_one_rank_of_several_becomes_a_file(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "strip", job, "--rank", "1", "-o", tmp_path / "one.json.gz")[0] == 0
    assert hg.read_trace(tmp_path / "one.json.gz").rank == 1


def test_a_trace_on_standard_output_has_nothing_beside_it(
    job: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from analyses.cli.main import main

    assert main(["strip", str(job / "rank0.json"), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert len(json.loads(out)["traceEvents"]) > 10
    assert b"same dependency graph" in err


def test_a_broken_rank_is_left_out_and_said(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "rank1.json").write_bytes((job / "rank1.json").read_bytes()[:900])
    status, _, err = run_command(capsys, "strip", job, "-o", tmp_path / "new")
    assert (status, err.count("\n")) == (1, 1)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rank_0.json.gz"]


def test_a_broken_rank_is_salvaged_on_request(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "rank1.json").write_bytes((job / "rank1.json").read_bytes()[:-400])
    assert run_command(capsys, "strip", job, "--salvage", "-o", tmp_path / "new")[0] == 0
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_where_no_rank_can_be_read_nothing_is_left_behind(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in job.iterdir():
        path.write_text("{")
    status, _, err = run_command(capsys, "strip", job, "-o", tmp_path / "new")
    assert status == 1
    assert "nothing was written" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job"]


REFUSED = [
    (["job", "-o", "out.json"], "cannot hold 2 ranks; name a new folder", 2),
    (["job/rank0.json", "-o", "out"], "unknown suffix; name a file", 2),
    (["job/rank0.json", "-o", "job/rank0.json"], "is an input", 1),
    (["job", "-o", "job"], "holds", 1),
    (["job/rank0.json", "-o", "out.json", "--keep", "all"], "expected some of shapes, names, frames, annotations", 2),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("words", "says", "status"), REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_written(
    words: list[str], says: str, status: int, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    before = folder_contents(tmp_path)
    assert says in one_error(capsys, tmp_path, "strip", *words, status=status)
    assert folder_contents(tmp_path) == before
