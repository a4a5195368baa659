"""One seam for engines: the same answers and errors in this process and in others, in order, and what is lost again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph.base.errors import ClusterError, HtaGraphError, MissingExtraError, QueryError, TooLargeError, TraceError
from hta_graph.multi_rank.read_engine import RankReading, RankRequest
from hta_graph.multi_rank.read_options import ReadOptions
from hta_graph.multi_rank.read_ranks import read_files
from hta_graph.multi_rank.workers import worker_processes
from hta_graph.multi_rank.workers.dask_cluster import DaskWorkers
from hta_graph.multi_rank.workers.tasks import Task, decode_answer, error_with_path, run_task
from hta_graph.multi_rank.workers.worker_processes import WorkerPool
from hta_graph.trace.rank_files import RankFile
from tests.support.child_processes import is_running, wait_until
from tests.support.command_line import one_error
from tests.support.worker_tasks import (
    BROKEN,
    answers,
    as_text,
    kill_next,
    rank_file,
    reading,
    slow_file,
    submit_task,
    working_children,
)

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")


def some_tasks(folder: Path) -> list[Task]:
    """Ask for sound files, a broken one, none, nonsense, and for more memory than is allowed."""
    broken = folder / "broken.json"
    broken.write_text(BROKEN)
    large = folder / "large.json"
    large.write_bytes(b'{"traceEvents": [' + b" " * (40 << 20) + b"]}")
    tasks = [reading(rank_file(folder, rank), rank) for rank in range(5)]
    tasks[2:2] = [reading(broken), reading(folder / "absent.json"), Task("hta_graph.multi_rank.rank_task:absent", {})]
    return [*tasks, reading(large, memory=50 << 20), Task("hta_graph.multi_rank.rank_task:file_pieces", {"path": "x"})]


def answered_here(tasks: Sequence[Task]) -> list[object]:
    return [as_text(decode_answer(run_task(task))) for task in tasks]


# -- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        "hta_graph:read_trace",
        "hta_graph.multi_rank.rank_task",
        "hta_graph.multi_rank.rank_task:_private",
        "hta_graph.multi_rank.rank_task:file_pieces.__globals__",
        "hta_graph.base.errors:MESSAGE_LIMIT",
        "hta_graph.absent:function",
        "hta_graphs.evil:function",
        "..os:system",
        "",
    ],
)
def test_nothing_but_functions_of_this_package_is_run(function: str) -> None:
    found = decode_answer(run_task(Task(function, {})))
    assert isinstance(found, QueryError)
    assert function in str(found)


def test_an_answer_is_what_the_function_made(tmp_path: Path) -> None:
    found = decode_answer(run_task(reading(rank_file(tmp_path, 3), 3)))
    assert isinstance(found, bytes)
    assert found.startswith(b"hta-graph entry")
    assert run_task(reading(tmp_path / "rank3.json", 3)) == b'{"size": %d}\n' % len(found) + found


@pytest.mark.slow
def test_an_error_keeps_its_kind_and_both_its_texts(tmp_path: Path) -> None:
    found = decode_answer(run_task(some_tasks(tmp_path)[-2]))
    assert type(found) is TooLargeError
    assert str(found).endswith("allow more with memory")
    assert found.on_command_line.endswith("allow more with --memory")
    moved = error_with_path(found, str(tmp_path), "here")
    assert type(moved) is TooLargeError
    assert str(moved).startswith("here/large.json: ")
    assert moved.on_command_line.startswith("here/large.json: ")


def test_a_defect_is_an_error_of_its_task() -> None:
    found = decode_answer(run_task(Task("hta_graph.multi_rank.rank_task:file_pieces", {"path": "x"})))
    assert type(found) is TraceError
    assert str(found).startswith("x: reading it failed, TypeError: ")


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_answer_as_this_process_does(tmp_path: Path) -> None:
    tasks = some_tasks(tmp_path)
    here = answered_here(tasks)
    assert [type(answer) is bytes for answer in here] == [True] * 2 + [False] * 3 + [True] * 3 + [False] * 2
    with WorkerPool(2) as processes:
        assert list(map(as_text, answers(processes, tasks))) == here


class Backwards:
    """Reads so many files at once, and is done with the last one first; counts how many wait for their turn."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.begun = self.most = 0

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        del asked, memory
        self.begun += 1
        return RankReading(file)

    def wait(self, readings: Iterable[RankReading]) -> None:
        waiting = list(readings)
        self.most = max(self.most, len(waiting))
        reading = [one for one in waiting if one.answer is None][-1]
        reading.answer = TraceError(reading.file.path, "was read")

    def __enter__(self) -> Backwards:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def in_order(
    paths: Sequence[Path], monkeypatch: pytest.MonkeyPatch, engine: Backwards, told: list[tuple[int, int]]
) -> Iterator[hg.DependencyGraph | HtaGraphError]:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.DaskReader", lambda *_: engine)
    files = [RankFile(path, rank, "header") for rank, path in enumerate(paths)]
    how = ReadOptions(cluster="local", progress=lambda _: nullcontext(lambda *done: told.append(done)))
    yield from read_files(files, lambda _: RankRequest(), how)


def test_answers_come_in_order_and_no_more_than_asked_for_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    engine, told = Backwards(4), list[tuple[int, int]]()
    paths = [tmp_path / f"{rank}.json" for rank in range(12)]
    found = []
    for answer in in_order(paths, monkeypatch, engine, told):
        found.append(str(answer))
        assert engine.begun - len(found) < 4
    assert found == [f"{path}: was read" for path in paths]
    assert engine.most == 4
    assert told[-1] == (12, 12)


def test_here_one_file_is_read_when_its_answer_is_asked_for(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    files = [RankFile(rank_file(tmp_path, 0), 0, "header"), RankFile(tmp_path / "later.json", 1, "header")]
    options = ReadOptions(jobs=1, progress=lambda _: nullcontext(lambda *done: told.append(done)))
    found = read_files(files, lambda _: RankRequest(), options)
    assert isinstance(next(found), hg.DependencyGraph)
    (tmp_path / "rank0.json").rename(tmp_path / "later.json")
    assert isinstance(next(found), hg.DependencyGraph)
    assert next(found, None) is None
    assert told[0] == (0, 2)
    assert told[-1] == (2, 2)


@pytest.mark.slow
def test_processes_end_when_what_was_asked_is_done(tmp_path: Path) -> None:
    processes = WorkerPool(1)
    asked = [submit_task(processes, reading(rank_file(tmp_path, rank), rank)) for rank in range(2)]
    processes.shutdown()
    assert [future.done() for future in asked] == [True, True]
    with pytest.raises(RuntimeError, match="have ended"):
        submit_task(processes, reading(tmp_path / "rank0.json"))


# -- processes that are lost ------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_proc
def test_a_task_whose_process_is_killed_is_run_again(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    whole = rank_file(tmp_path, 2)
    with WorkerPool(1) as processes:
        killer = kill_next(1, lambda: whole.replace(slow))
        found = answers(processes, [reading(slow, 2)] * 2)
    killer.join()
    assert found == [decode_answer(run_task(reading(slow, 2)))] * 2


@pytest.mark.slow
@needs_proc
def test_a_task_whose_process_is_killed_twice_is_an_error(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    with WorkerPool(1) as processes:
        killer = kill_next(2)
        first, second = answers(processes, [reading(slow), reading(rank_file(tmp_path, 1), 1)])
    killer.join()
    assert type(first) is TooLargeError
    assert str(first).startswith(f"{slow}: the process that read it was killed (signal 9), possibly for lack of m")
    assert isinstance(second, bytes)


@needs_proc
def test_what_still_runs_is_given_up_with_the_block(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    others = working_children()
    begin = time.monotonic()
    with WorkerPool(2) as processes:
        futures = [submit_task(processes, reading(slow)) for _ in range(9)]
        wait_until(lambda: len(working_children() - others) == 2)
        workers = working_children() - others
    assert time.monotonic() - begin < 5
    assert not any(map(is_running, workers))
    assert all(future.done() for future in futures)


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with WorkerPool(1) as processes:
        (found,) = answers(processes, [reading(tmp_path)])
    assert "no process can be started to read it: No such file" in str(found)


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    code = f"""import os, sys
if not os.path.exists({str(flag)!r}):
    open({str(flag)!r}, "w").close(); print('{{"size": 9}}'); print("abc"); sys.exit(4)
sys.path[:] = sys.argv[1:]
from hta_graph.multi_rank.workers.worker_main import serve; serve()"""
    monkeypatch.setattr(worker_processes, "PROGRAM", code)
    with WorkerPool(1) as processes:
        (found,) = answers(processes, [reading(rank_file(tmp_path, 0))])
    assert isinstance(found, bytes)


# -- a cluster that is not there --------------------------------------------------------------------------------------


@pytest.fixture
def without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)


@pytest.mark.usefixtures("without_dask")
def test_without_dask_the_extra_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingExtraError):
        DaskWorkers("local", 1, 1, 1, print)
    for rank in range(2):
        rank_file(tmp_path, rank)
    for where in ("local", "tcp://127.0.0.1:8786"):
        error = one_error(capsys, tmp_path, "info", tmp_path, "--cluster", where)
        assert error.endswith("needs an optional package; install it with: pip install 'hta-graph[cluster]'\n")


def test_an_address_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match=r"'127\.0\.0\.1:8786' is not a cluster; give local or"):
        DaskWorkers("127.0.0.1:8786", None, 1, 1, print)
    error = one_error(capsys, tmp_path, "info", rank_file(tmp_path, 0), "--cluster", "127.0.0.1", status=2)
    assert "--cluster: expected local or an address such as tcp://host:8786, got '127.0.0.1'" in error


def test_a_scheduler_that_does_not_answer_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    for rank in range(2):
        rank_file(tmp_path, rank)
    error = one_error(capsys, tmp_path, "info", tmp_path, "--cluster", "tcp://127.0.0.1:1")
    assert error.startswith("hta-graph: tcp://127.0.0.1:1: no Dask scheduler answers there: Connection refused; start")


def test_one_rank_is_read_here_whatever_the_cluster(tmp_path: Path) -> None:
    for rank in range(2):
        rank_file(tmp_path, rank)
    assert main(["critical-path", str(tmp_path), "--rank", "1", "--cluster", "tcp://127.0.0.1:1"]) == 0
