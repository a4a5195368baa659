"""What a command printed about graphs in the cache is printed again without computing it, and never for another one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hta_graph.errors import QueryError
from hta_graph.graph_cache import cached_graphs, kept_answers
from hta_graph.graph_cache.entry_file import read_entry
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES

OTHER = SAMPLES / "slower_trace.json.gz"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is said of graphs of any size, in a folder of the test."""
    monkeypatch.setattr(cached_graphs, "FEW_EVENTS", 0)
    monkeypatch.setenv("HTA_GRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Copy a sample."""
    return Path(shutil.copyfile(ONE_RANK, tmp_path / "trace.json.gz"))


def outputs(cache: Path) -> list[Path]:
    """Return the entries of outputs."""
    return [path for path in cache.glob("*.hta-graph") if _kind(path) == "output"]


def _kind(path: Path) -> str:
    return str(read_entry(path.stem, path.read_bytes()).record["kind"])


def refuse_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no output be computed: what is written then is what was kept."""
    kept_output = kept_answers.kept_output

    def refuse() -> Any:
        raise AssertionError("an output was computed")

    def known_output(graphs: Any, question: Any, _: Any, *others: Any) -> Any:
        return kept_output(graphs, question, refuse, *others)

    monkeypatch.setattr(kept_answers, "kept_output", known_output)


@pytest.mark.parametrize(
    "words",
    [
        ("attribution",), ("diff", OTHER, "--json", "-"),
        *map(deep, (
            ("critical-path",), ("critical-path", "--json", "-"), ("roofline", "--all"), ("what-if",),
            ("report", "-o", "-"), ("diff", OTHER), ("idle-time", "--step", "1"), ("overlap", "--per-step"),
            ("what-if", "--scale", "kernel:gemm=0.5"),
        )),
    ],
)  # fmt: skip
def test_the_second_question_computes_nothing(
    capsys: pytest.CaptureFixture[str], trace: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...]
) -> None:
    command, *others = words
    expected = run_command(capsys, command, trace, *others, "--no-cache")
    assert run_command(capsys, command, trace, *others) == expected
    refuse_to_compute(monkeypatch)
    assert run_command(capsys, command, trace, *others) == expected


@deep
@pytest.mark.parametrize("command", ["stragglers", "critical-path", "report"])
def test_so_does_the_second_question_about_a_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    job = Path(shutil.copytree(FOUR_RANKS, tmp_path / "job"))
    others = ("-o", "-") if command == "report" else ()
    expected = run_command(capsys, command, job, *others, "--no-cache")
    assert run_command(capsys, command, job, *others) == expected
    with monkeypatch.context() as meanwhile:
        refuse_to_compute(meanwhile)
        assert run_command(capsys, command, job, *others) == expected
    # The last of the ranks is another one now.
    last = sorted(job.iterdir())[-1]
    last.unlink()
    fewer = run_command(capsys, command, job, *others, "--no-cache")
    assert run_command(capsys, command, job, *others) == fewer != expected


OPTIONS: tuple[tuple[str, ...], ...] = (
    (), ("--by", "module"), ("--all",), ("--step", "1"), ("--whole",), ("--per-step",), ("--json", "-"),
)  # fmt: skip


@pytest.mark.parametrize("asked", [OPTIONS[:3], deep(OPTIONS)])
def test_other_options_are_another_question(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, asked: tuple[tuple[str, ...], ...]
) -> None:
    expected = [run_command(capsys, "attribution", trace, *words, "--no-cache") for words in asked]
    for _ in range(2):
        assert [run_command(capsys, "attribution", trace, *words) for words in asked] == expected
    assert len(outputs(cache)) == len(asked)


def test_where_the_answer_goes_is_no_other_question(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run_command(capsys, "attribution", trace, "--json", "-")[1]
    run_command(capsys, "attribution", trace, "--json", trace.with_name("a.json"), "--jobs", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert trace.with_name("a.json").read_text() == printed
    assert len(outputs(cache)) == 1


def test_what_rests_on_another_file_is_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, tmp_path: Path
) -> None:
    peaks = tmp_path / "peaks.json"
    for bytes_per_s in (10**12, 2 * 10**12):
        peaks.write_text(f'{{"memory_bytes_per_s": {bytes_per_s}}}')
        asked = ("roofline", trace, "--peaks", peaks)
        assert run_command(capsys, *asked) == run_command(capsys, *asked, "--no-cache")
    assert outputs(cache) == []


@pytest.mark.parametrize("form", [(), ("--json", "-")])
def test_what_is_kept_and_has_another_form_is_computed(
    capsys: pytest.CaptureFixture[str],
    trace: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, ...],
) -> None:
    expected = run_command(capsys, "attribution", trace, *form, "--no-cache")
    kept_output = kept_answers.kept_output
    with monkeypatch.context() as patch:
        patch.setattr(
            kept_answers, "kept_output",
            lambda graphs, question, compute, *others: [
                list(kept_output(graphs, question, lambda: [b'{"rows": 1}'], *others)), *compute()
            ][1:],
        )  # fmt: skip
        assert run_command(capsys, "attribution", trace, *form) == expected
    assert len(outputs(cache)) == 1
    assert run_command(capsys, "attribution", trace, *form) == expected


def test_a_long_output_is_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST_OUTPUT_BYTES", 100)
    expected = run_command(capsys, "attribution", trace, "--no-cache")
    assert [run_command(capsys, "attribution", trace) for _ in range(2)] == [expected] * 2
    assert outputs(cache) == []


@pytest.mark.slow
def test_why_ranks_are_no_job_is_said_each_time(
    capsys: pytest.CaptureFixture[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> Any:
        raise QueryError("no job", "none")

    monkeypatch.setattr("hta_graph.multi_rank.build_job.build_job", refuse)
    asked = ("report", FOUR_RANKS, "-o", "-")
    first, second = (run_command(capsys, *asked) for _ in range(2))
    assert second == first
    assert "single ranks only" in second[2]
    assert outputs(cache) == []
