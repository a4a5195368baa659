"""What a command printed about files is printed again without computing it, and never for other files."""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.rank_inputs import RankInputs
from hta_graph.base.errors import QueryError
from hta_graph.graph_cache import kept_outputs, trace_cache
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.graph_cache.kept_outputs import KeptOutputs
from tests.support.cache_entries import Damage, emptied, entries, flipped, swapped, truncated
from tests.support.command_line import run_command
from tests.support.deep_tests import cases, deep
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES

OTHER = SAMPLES / "slower_trace.json.gz"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is said of graphs of any size, in a folder of the test."""
    monkeypatch.setattr(trace_cache, "FEW_EVENTS", 0)
    monkeypatch.setenv("HTA_GRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Copy a sample."""
    return Path(shutil.copyfile(ONE_RANK, tmp_path / "trace.json.gz"))


def refuse_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no trace be read and no graph be taken from the cache: what is written then is what was kept."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("an output was computed")

    monkeypatch.setattr(RankInputs, "_started", refuse)


@pytest.mark.parametrize(
    "words",
    [
        ("attribution",), ("diff", OTHER, "--json", "-"),
        *map(deep, (
            ("critical-path",), ("critical-path", "--json", "-"), ("roofline", "--all"), ("what-if",),
            ("report", "-o", "-"), ("report", "--json", "-"), ("critical-path", "--per-step"), ("diff", OTHER),
            ("idle-time", "--step", "1"), ("overlap", "--per-step"),
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
@pytest.mark.parametrize("command", ["stragglers", "critical-path", "report", "diff"])
def test_so_does_the_second_question_about_a_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    job = Path(shutil.copytree(FOUR_RANKS, tmp_path / "job"))
    others = {"report": ("-o", "-"), "diff": (FOUR_RANKS,)}.get(command, ())
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
    assert len(entries(cache, "output")) == len(asked)


def test_where_the_answer_goes_is_no_other_question(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run_command(capsys, "attribution", trace, "--json", "-")[1]
    run_command(capsys, "attribution", trace, "--json", trace.with_name("a.json"), "--jobs", "1")
    monkeypatch.setenv("COLUMNS", "60")
    assert trace.with_name("a.json").read_text() == printed
    assert len(entries(cache, "output")) == 1


def test_what_rests_on_another_file_is_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, tmp_path: Path
) -> None:
    peaks = tmp_path / "peaks.json"
    found = []
    for gb_per_s in (100, 2_000):
        peaks.write_text(f'{{"memory_gb_per_s": {gb_per_s}}}')
        asked = ("roofline", trace, "--peaks", peaks)
        found.append(run_command(capsys, *asked, "--no-cache"))
        assert run_command(capsys, *asked) == found[-1]
    assert [status for status, *_ in found] == [0, 0]
    assert found[0] != found[1]
    assert entries(cache, "output") == []


@pytest.mark.parametrize("form", [(), ("--json", "-")])
def test_what_is_kept_and_has_another_form_is_computed(
    capsys: pytest.CaptureFixture[str],
    trace: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, ...],
) -> None:
    expected = run_command(capsys, "attribution", trace, *form, "--no-cache")
    run_command(capsys, "attribution", trace, *form)
    with monkeypatch.context() as patch:
        patch.setattr(KeptOutputs, "find", lambda *_: Entry({"said": []}, text=b'{"rows": 1}'))
        assert run_command(capsys, "attribution", trace, *form) == expected
        patch.setattr(KeptOutputs, "find", lambda *_: Entry({"said": 1}, text=b'{"schema":"hta-graph/1"}\n'))
        assert run_command(capsys, "attribution", trace, *form) == expected
    assert len(entries(cache, "output")) == 1
    assert run_command(capsys, "attribution", trace, *form) == expected


def test_a_long_output_is_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_outputs, "MOST_OUTPUT_BYTES", 100)
    expected = run_command(capsys, "attribution", trace, "--no-cache")
    assert [run_command(capsys, "attribution", trace) for _ in range(2)] == [expected] * 2
    assert entries(cache, "output") == []


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
    assert len(entries(cache, "output")) == 1


# -- files that are not what they were --------------------------------------------------------------------------------


def answers(capsys: pytest.CaptureFixture[str], *asked: object) -> None:
    """Ask twice, and compare each time with what is computed now."""
    expected = run_command(capsys, *asked, "--no-cache")
    for _ in range(2):
        assert run_command(capsys, *asked) == expected


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Copy a job of four ranks."""
    return Path(shutil.copytree(FOUR_RANKS, tmp_path / "job"))


@pytest.mark.slow
def test_another_file_in_the_folder_is_another_question(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, job: Path
) -> None:
    """Ranks, other content, other names, files that cannot be read, and dumps that number collectives."""
    answers(capsys, "stragglers", job)
    last, as_json = sorted(job.iterdir())[-1], ("attribution", job, "--json", "-")
    content = last.read_bytes()
    for text in (content, gzip.compress(gzip.decompress(content).replace(b"aten::", b"mine::")), content):
        last.write_bytes(text)
        answers(capsys, *as_json)
    renamed = last.rename(last.with_name(f"x-{last.name}"))
    answers(capsys, *as_json)
    renamed.rename(tmp_path / "last")
    answers(capsys, *as_json)
    (job / "rank3.json").write_bytes(b"no trace")
    answers(capsys, "stragglers", job)
    (job / "rank3.json").unlink()
    (job / "flight").mkdir()
    for dump in (b"no dump", b"{}"):
        (job / "flight" / "rank0.json").write_bytes(dump)
        answers(capsys, "stragglers", job)


@pytest.mark.parametrize("is_new", [True, deep(False)])
def test_what_changes_while_it_is_read_is_not_kept(
    capsys: pytest.CaptureFixture[str], job: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """Another rank comes into the folder, or one of the ranks is replaced."""
    begun, last = RankInputs._started, sorted(job.iterdir())[-1]
    text = gzip.decompress(last.read_bytes()).replace(b"aten::", b"mine::")
    if is_new:
        last.unlink()

    def changed_meanwhile(self: RankInputs, *others: Any, **options: Any) -> Any:
        last.write_bytes(gzip.compress(text))
        return begun(self, *others, **options)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(RankInputs, "_started", changed_meanwhile)
        run_command(capsys, "attribution", job)
    assert entries(cache, "output") == []


def test_a_part_of_a_database_in_another_file_is_never_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path
) -> None:
    trace.with_name(f"{trace.name}-wal").write_bytes(b"rows")
    answers(capsys, "attribution", trace)
    assert entries(cache) == []


def test_where_a_file_is_and_how_it_is_called_are_in_the_answer(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for path in (trace, trace.with_name("rank3.json.gz"), tmp_path / "elsewhere" / trace.name):
        if path != trace:
            shutil.copyfile(trace, path)
        answers(capsys, "attribution", path, "--json", "-")


def test_lines_about_reading_are_said_again_and_those_about_the_cache_are_not(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path
) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) // 2])
    asked = ("attribution", trace, "--salvage")
    expected = run_command(capsys, *asked, "--no-cache")
    assert expected[2]
    for _ in range(2):
        assert run_command(capsys, *asked) == expected
        entries(cache, "output")[0].unlink()
        entries(cache, "graph")[0].write_bytes(b"damaged")
        found = run_command(capsys, *asked)
        assert found[:2] == expected[:2]
        assert found[2].count("\n") == expected[2].count("\n") + 1


# -- entries that are not what was written ----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [flipped, *map(deep, (truncated, swapped, emptied))])
def test_whatever_happens_to_entries_the_answer_is_right(
    capsys: pytest.CaptureFixture[str], trace: Path, cache: Path, damage: Damage
) -> None:
    asked = [("attribution", trace), ("attribution", shutil.copyfile(OTHER, trace.with_name("other.json.gz")))]
    expected = [run_command(capsys, *words) for words in asked]
    rng = random.Random(damage.__name__)
    for _ in range(cases(20)):
        damage(entries(cache), rng)
        for words, (status, out, err) in zip(asked, expected, strict=True):
            found = run_command(capsys, *words)
            assert found[:2] == (status, out)
            assert 0 <= found[2].count("\n") - err.count("\n") <= 2


@pytest.mark.slow
def test_a_known_answer_needs_no_arrays(trace: Path) -> None:
    """Importing NumPy takes longer than all the rest."""
    asked = [str(item) for item in ("attribution", trace)]
    ask = f"from analyses.cli.main import main; import sys; main({asked!r}); print('numpy' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True) for _ in range(2)]
    said = [run.stdout.splitlines() for run in runs]
    assert [lines[-1] for lines in said] == ["True", "False"]
    assert said[0][:-1] == said[1][:-1]


@pytest.mark.slow
def test_what_is_written_beside_an_answer_is_written_each_time(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    page, overlay = tmp_path / "page.html", tmp_path / "overlay.json"
    for _ in range(2):
        assert run_command(capsys, "report", trace, "-o", page, "--overlay", overlay)[0] == 0
        overlay.unlink()
