"""Ranks in the cache: the second question is answered with the same bytes, whatever has happened to the folder."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_graph.multi_rank.read_engine import RankReading, RankRequest, read_rank_graph
from hta_graph.multi_rank.read_ranks import FILE_OVERHEAD_TEXT
from hta_graph.multi_rank.worker_readers import ProcessReader
from hta_graph.store.entry_file import Entry, entry_pieces, read_entry
from hta_graph.trace.header import text_size
from hta_graph.trace.rank_files import RankFile
from tests.support.cache_entries import Damage, flipped, swapped, truncated
from tests.support.command_line import PROGRAM, one_error, run_command
from tests.support.deep_tests import cases, deep
from tests.support.large_jobs import Said, comparable, generated_job

RANKS = 4
ALWAYS = ("--summaries", "always")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a job of a few ranks."""
    return generated_job(tmp_path_factory.mktemp("jobs") / "job", ranks=RANKS, ranks_per_host=2)


def asked(capsys: pytest.CaptureFixture[str], job: Path, folder: object, command: str = "stragglers") -> Said:
    return run_command(capsys, command, job, "--json", "-", *ALWAYS, "--cache", folder)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def without_making(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing make a summary: what answers then is what was kept."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a summary was made")

    monkeypatch.setattr("hta_graph.multi_rank.summary.summarize.summarize_rank", refuse)


@pytest.mark.parametrize("command", ["stragglers", *map(deep, ("collectives", "critical-path"))])
def test_the_second_question_is_answered_by_what_is_kept(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    whole = run_command(capsys, command, job, "--json", "-", "--skeletons", "never")
    first = asked(capsys, job, tmp_path, command)
    kept = {path: path.read_bytes() for path in entries(tmp_path)}
    assert {path.suffix for path in kept} == {".hta-graph"}
    without_making(monkeypatch)
    assert asked(capsys, job, tmp_path, command) == first
    assert comparable(first) == comparable(whole)
    assert {path: path.read_bytes() for path in entries(tmp_path)} == kept


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Read here what processes would read, and list it."""
    names: list[str] = []

    class Here(ProcessReader):
        def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
            del memory
            names.append(file.path.name)
            return RankReading(file, read_rank_graph(file, asked))

    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", Here)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "read_by_processes"), [(2, 0), (4, RANKS)])
def test_of_kept_graphs_processes_read_the_communications_only_where_these_are_many(
    capsys: pytest.CaptureFixture[str],
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[str],
    limit: int,
    read_by_processes: int,
) -> None:
    monkeypatch.setattr("hta_graph.store.trace_cache.FEW_EVENTS", 0)
    expected = run_command(capsys, "critical-path", job, "--no-cache")
    assert run_command(capsys, "info", job, "--cache", tmp_path)[0] == 0
    sizes = sorted(text_size(path) + FILE_OVERHEAD_TEXT for path in job.iterdir())
    monkeypatch.setattr("hta_graph.multi_rank.read_ranks.MIN_PARALLEL_TEXT", sum(sizes[:-1]) // limit)
    monkeypatch.setattr("hta_graph.multi_rank.read_ranks.processor_count", lambda: RANKS)
    monkeypatch.setattr("hta_graph.multi_rank.workers.worker_processes.can_start_processes", lambda: True)
    assert run_command(capsys, "critical-path", job, "--cache", tmp_path) == expected
    assert len(started) == read_by_processes


@pytest.mark.slow
def test_what_is_kept_is_read_without_processes(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    """Reading a summary takes less than asking a process for it; of those that are missing processes are asked."""
    first = asked(capsys, job, tmp_path, "collectives")
    monkeypatch.setattr("hta_graph.multi_rank.read_ranks._process_count", lambda files, _: len(files))
    assert asked(capsys, job, tmp_path, "collectives") == first
    assert started == []
    for path in entries(tmp_path)[:2]:
        path.unlink()
    assert asked(capsys, job, tmp_path, "collectives") == first
    assert len(started) == 2


@pytest.mark.slow
def test_kept_skeletons_are_of_content_not_of_names(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(capsys, job, tmp_path / "cache")
    (tmp_path / "elsewhere").mkdir()
    for path in job.iterdir():
        (tmp_path / "elsewhere" / path.name).write_bytes(path.read_bytes())
    without_making(monkeypatch)
    status, out, _ = asked(capsys, tmp_path / "elsewhere", tmp_path / "cache")
    assert (status, out.replace(str(tmp_path / "elsewhere"), str(job))) == first[:2]


@pytest.mark.slow
def test_a_changed_trace_is_read(capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path) -> None:
    """A file may keep its name, its size and its time."""
    other, mine = generated_job(tmp_path / "other", ranks=RANKS, ranks_per_host=2, seed=3), tmp_path / "mine"
    mine.mkdir()
    for source in (job, other):
        for path in source.iterdir():
            (mine / path.name).write_bytes(path.read_bytes())
            os.utime(mine / path.name, (1, 1))
        found = asked(capsys, mine, tmp_path / "cache")
    whole = run_command(capsys, "stragglers", mine, "--json", "-", "--skeletons", "never")
    assert comparable(found) == comparable(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no UTF-8 \udcff", deep("two\nlines"), deep("a\x1b[31mb"), deep("~"), deep("a/../b")])
def test_a_folder_may_have_any_name(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    first = asked(capsys, job, name)
    assert len(entries(tmp_path)) == RANKS
    without_making(monkeypatch)
    assert asked(capsys, job, name) == first


# -- entries that are not what was written ----------------------------------------------------------------------------


def folder_in_place(found: list[Path], rng: random.Random) -> None:
    path = rng.choice(found)
    path.unlink()
    path.mkdir()


def link_to_nowhere(found: list[Path], rng: random.Random) -> None:
    path = rng.choice(found)
    path.unlink()
    path.symlink_to("nowhere")


def other_record(found: list[Path], rng: random.Random) -> None:
    """Let an entry hold something else under its own name, with checksums that fit."""
    path = rng.choice(found)
    columns = (np.arange(3),) if rng.random() < 0.5 else ()
    path.write_bytes(b"".join(map(bytes, entry_pieces(path.stem, Entry({"graph": rng.choice(({}, 1, []))}, columns)))))


def other_numbers(found: list[Path], rng: random.Random) -> None:
    """Let a column hold numbers that name nothing, with a checksum that fits."""
    path = rng.choice(found)
    entry = read_entry(path.stem, path.read_bytes())
    columns = list(entry.columns)
    at = rng.choice([at for at, column in enumerate(columns) if len(column)])
    fill = bytes(rng.choice((b"\xff", b"\x7f")) * columns[at].nbytes)
    columns[at] = np.frombuffer(fill, columns[at].dtype)
    path.write_bytes(b"".join(map(bytes, entry_pieces(path.stem, Entry(entry.record, tuple(columns))))))


WITH_REPAIR: dict[str, Damage] = {
    "truncated": truncated, "flipped": flipped, "swapped": swapped, "a folder": folder_in_place,
    "a link": link_to_nowhere, "another record": other_record,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["swapped", *map(deep, sorted(WITH_REPAIR))])
def test_damaged_entries_are_made_anew(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, damage: str
) -> None:
    expected, rng = asked(capsys, job, tmp_path), random.Random(damage)
    for _ in range(1 if damage == "swapped" else cases(24)):
        WITH_REPAIR[damage](entries(tmp_path), rng)
        status, out, err = asked(capsys, job, tmp_path)
        assert ((status, out), len(err.splitlines()) <= len(expected[2].splitlines()) + 2) == (expected[:2], True)
        for path in tmp_path.rglob("*.hta-graph"):
            if path.is_dir():
                path.rmdir()


@pytest.mark.slow
def test_numbers_that_name_nothing_are_no_crash(capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path) -> None:
    """An entry with a checksum that fits gives what was written or what is true, and no traceback."""
    asked(capsys, job, tmp_path)
    sound, rng = {path: path.read_bytes() for path in entries(tmp_path)}, random.Random(1)
    for _ in range(cases(80)):
        other_numbers(entries(tmp_path), rng)
        status, _, err = asked(capsys, job, tmp_path)
        assert (status in (0, 1), "Traceback" in err) == (True, False)
        for path, raw in sound.items():
            path.write_bytes(raw)


# -- folders ----------------------------------------------------------------------------------------------------------


def test_places_that_are_no_folder_of_this_machine_are_one_line(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("s3://bucket/cache", tmp_path / "file", tmp_path / "file" / "below"):
        assert str(place) in one_error(capsys, tmp_path, "stragglers", job, "--cache", place)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_takes_nothing_keeps_nothing(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path
) -> None:
    (cache := tmp_path / "cache").mkdir(mode=0o555)
    expected = run_command(capsys, "stragglers", job, "--json", "-", "--skeletons", "never")
    status, out, err = asked(capsys, job, cache)
    assert err.count("continuing without it") == 1
    assert comparable((status, out, "")) == comparable(expected)
    assert list(cache.iterdir()) == []


@pytest.mark.slow
def test_a_full_disk_keeps_nothing(
    capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    expected = run_command(capsys, "stragglers", job, "--json", "-", "--skeletons", "never")
    monkeypatch.setattr("hta_graph.store.cache_folder.entry_pieces", full)
    status, out, err = asked(capsys, job, tmp_path)
    assert err.count("continuing without it") == 1
    assert comparable((status, out, "")) == comparable(expected)
    assert entries(tmp_path) == []


@pytest.mark.slow
def test_runs_at_once_share_a_folder(capsys: pytest.CaptureFixture[str], job: Path, tmp_path: Path) -> None:
    expected = run_command(capsys, "stragglers", job, "--json", "-", "--skeletons", "never")
    for round_ in range(2):
        running = [
            subprocess.Popen(
                [*PROGRAM, "stragglers", job, "--json", "-", *ALWAYS, "--cache", tmp_path, "--jobs", jobs],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            )
            for jobs in ("1", "2", "2")
        ]  # fmt: skip
        for process in running:
            out, err = process.communicate(timeout=60)
            assert comparable((process.returncode, out, err)) == comparable(expected), round_
    assert len(entries(tmp_path)) == RANKS
    assert all(path.suffix == ".hta-graph" for path in entries(tmp_path))
