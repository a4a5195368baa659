"""One seam for engines: the same answers and errors in this process and in others, in order, and what is lost again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from analyses.command_line.cli import main
from hta_graph.errors import ClusterError, MissingExtraError, QueryError, TooLargeError, TraceError
from hta_graph.job.engines import own_process
from hta_graph.job.engines.engine import answers, engine
from hta_graph.job.engines.inline import InlineExecutor
from hta_graph.job.engines.processes import ProcessExecutor
from hta_graph.job.engines.tasks import Task, decoded_answer, renamed_error, run_task
from tests.support.command_line import one_error
from tests.support.engine_tasks import BROKEN, as_text, kill_next, rank_file, reading, slow_file, working_children
from tests.support.processes import is_running, wait_until

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")


def some_tasks(folder: Path) -> list[Task]:
    """Ask for sound files, a broken one, none, nonsense, and for more memory than is allowed."""
    broken = folder / "broken.json"
    broken.write_text(BROKEN)
    large = folder / "large.json"
    large.write_bytes(b'{"traceEvents": [' + b" " * (40 << 20) + b"]}")
    tasks = [reading(rank_file(folder, rank), rank) for rank in range(5)]
    tasks[2:2] = [reading(broken), reading(folder / "absent.json"), Task("hta_graph.job.rank_task:absent", {})]
    return [*tasks, reading(large, memory=50 << 20), Task("hta_graph.job.rank_task:file_pieces", {"path": "x"})]


def all_answers(tasks: Sequence[Task], *, cluster: str | None = None, jobs: int | None = None) -> list[object]:
    with engine(cluster=cluster, jobs=jobs, count=len(tasks)) as executor:
        return list(map(as_text, answers(executor, tasks)))


# -- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        "hta_graph:read_trace",
        "hta_graph.job.rank_task",
        "hta_graph.job.rank_task:_private",
        "hta_graph.job.rank_task:file_pieces.__globals__",
        "hta_graph.errors:MESSAGE_LIMIT",
        "hta_graph.absent:function",
        "hta_graphs.evil:function",
        "..os:system",
        "",
    ],
)
def test_nothing_but_functions_of_this_package_is_run(function: str) -> None:
    found = decoded_answer(run_task(Task(function, {})))
    assert isinstance(found, QueryError)
    assert function in str(found)


def test_an_answer_is_what_the_function_made(tmp_path: Path) -> None:
    found = decoded_answer(run_task(reading(rank_file(tmp_path, 3), 3)))
    assert isinstance(found, bytes)
    assert found.startswith(b'{"trace": ')
    assert run_task(reading(tmp_path / "rank3.json", 3)) == b'{"size": %d}\n' % len(found) + found


@pytest.mark.slow
def test_an_error_keeps_its_kind_and_both_its_texts(tmp_path: Path) -> None:
    found = decoded_answer(run_task(some_tasks(tmp_path)[-2]))
    assert type(found) is TooLargeError
    assert str(found).endswith("allow more with memory")
    assert found.on_command_line.endswith("allow more with --memory")
    moved = renamed_error(found, str(tmp_path), "here")
    assert type(moved) is TooLargeError
    assert str(moved).startswith("here/large.json: ")
    assert moved.on_command_line.startswith("here/large.json: ")


def test_a_defect_is_an_error_of_its_task() -> None:
    found = decoded_answer(run_task(Task("hta_graph.job.rank_task:file_pieces", {"path": "x"})))
    assert type(found) is TraceError
    assert str(found).startswith("x: reading it failed, TypeError: ")


# -- engines ----------------------------------------------------------------------------------------------------------


def test_processes_answer_as_this_process_does(tmp_path: Path) -> None:
    tasks = some_tasks(tmp_path)
    here = all_answers(tasks, jobs=1)
    assert [type(answer) is bytes for answer in here] == [True] * 2 + [False] * 3 + [True] * 3 + [False] * 2
    assert all_answers(tasks, jobs=2) == here


def test_this_process_runs_alone_where_others_are_of_no_use() -> None:
    for jobs, count in ((1, 9), (9, 1), (None, 0)):
        with engine(cluster=None, jobs=jobs, count=count) as executor:
            assert isinstance(executor, InlineExecutor)


def test_other_functions_are_refused() -> None:
    with ProcessExecutor(1) as executor, pytest.raises(ValueError, match="nothing else"):
        executor.submit(print)


@pytest.mark.slow
def test_an_executor_of_somebody_else_will_do(tmp_path: Path) -> None:
    tasks = some_tasks(tmp_path)
    with ThreadPoolExecutor(1) as executor:
        assert list(map(as_text, answers(executor, tasks))) == all_answers(tasks, jobs=1)


class Backwards(Executor):
    """Answers the last of so many tasks first; counts how many wait for their turn."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.most = self.taken = 0
        self._waiting: list[tuple[Future[bytes], int]] = []
        self._submitted = 0

    def submit(self, fn: Callable[..., Any], /, *_: Any, **__: Any) -> Future[Any]:
        assert fn is run_task
        future: Future[bytes] = Future()
        self._waiting.append((future, self._submitted))
        self._submitted += 1
        self.most = max(self.most, self._submitted - self.taken)
        if len(self._waiting) == self.at_once:
            while self._waiting:
                last, number = self._waiting.pop()
                last.set_result(b'{"size": 1}\n%d' % number)
        return future


def test_answers_come_in_order_and_no_more_than_asked_for_wait() -> None:
    executor, told = Backwards(4), list[tuple[int, int]]()
    tasks = [Task("", {})] * 12
    found = []
    for answer in answers(executor, tasks[:4], progress=lambda *done: told.append(done)):
        found.append(answer)
        executor.taken += 1
    assert found == [b"0", b"1", b"2", b"3"]
    assert executor.most == 4
    assert told[-1] == (4, 4)


def test_progress_tells_of_each_task(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    tasks = [reading(rank_file(tmp_path, rank), rank) for rank in range(4)]
    list(answers(InlineExecutor(), tasks, progress=lambda *done: told.append(done)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_here_one_task_is_run_when_its_answer_is_asked_for(tmp_path: Path) -> None:
    tasks = [reading(rank_file(tmp_path, 0)), reading(tmp_path / "later.json")]
    found = answers(InlineExecutor(), tasks)
    assert isinstance(next(found), bytes)
    (tmp_path / "rank0.json").rename(tmp_path / "later.json")
    assert isinstance(next(found), bytes)


@pytest.mark.slow
def test_processes_end_when_what_was_asked_is_done(tmp_path: Path) -> None:
    executor = ProcessExecutor(1)
    asked = [executor.submit(run_task, reading(rank_file(tmp_path, rank), rank)) for rank in range(2)]
    executor.shutdown()
    assert [future.done() for future in asked] == [True, True]
    with pytest.raises(RuntimeError, match="have ended"):
        executor.submit(run_task, reading(tmp_path / "rank0.json"))


# -- processes that are lost ------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_proc
def test_a_task_whose_process_is_killed_is_run_again(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    whole = rank_file(tmp_path, 2)
    expected = decoded_answer(run_task(reading(whole, 2)))
    with ProcessExecutor(1) as executor:
        killer = kill_next(1, lambda: whole.replace(slow))
        found = list(answers(executor, [reading(slow, 2)] * 2))
    killer.join()
    assert found == [expected.replace(b"rank2.json", b"slow.json")] * 2  # type: ignore[union-attr, arg-type]


@pytest.mark.slow
@needs_proc
def test_a_task_whose_process_is_killed_twice_is_an_error(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    with ProcessExecutor(1) as executor:
        killer = kill_next(2)
        first, second = answers(executor, [reading(slow), reading(rank_file(tmp_path, 1), 1)])
    killer.join()
    assert type(first) is TooLargeError
    assert str(first).startswith(f"{slow}: the process that read it was killed (signal 9), perhaps for lack of m")
    assert isinstance(second, bytes)


@needs_proc
def test_what_still_runs_is_given_up_with_the_block(tmp_path: Path) -> None:
    slow = slow_file(tmp_path)
    begin = time.monotonic()
    with engine(cluster=None, jobs=2, count=9) as executor:
        futures = [executor.submit(run_task, reading(slow)) for _ in range(9)]
        wait_until(lambda: len(working_children()) == 2)
        workers = working_children()
    assert time.monotonic() - begin < 5
    assert not any(map(is_running, workers))
    assert all(future.done() for future in futures)


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with ProcessExecutor(1) as executor:
        (found,) = answers(executor, [reading(tmp_path)])
    assert "no process can be started to read it: No such file" in str(found)


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    code = f"""import os, sys
if not os.path.exists({str(flag)!r}):
    open({str(flag)!r}, "w").close(); print('{{"size": 9}}'); print("abc"); sys.exit(4)
sys.path[:] = sys.argv[1:]
from hta_graph.job.engines.serving import serve; serve()"""
    monkeypatch.setattr(own_process, "PROGRAM", code)
    with ProcessExecutor(1) as executor:
        (found,) = answers(executor, [reading(rank_file(tmp_path, 0))])
    assert isinstance(found, bytes)


# -- a cluster that is not there --------------------------------------------------------------------------------------


@pytest.fixture
def without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)


@pytest.mark.usefixtures("without_dask")
def test_without_dask_the_extra_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingExtraError), engine(cluster="local", jobs=1, count=1):
        pass
    for rank in range(2):
        rank_file(tmp_path, rank)
    for where in ("local", "tcp://127.0.0.1:8786"):
        error = one_error(capsys, tmp_path, "info", tmp_path, "--cluster", where)
        assert error.endswith("needs an optional package; install it with: pip install 'hta-graph[cluster]'\n")


def test_an_address_that_is_none_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match=r"'127\.0\.0\.1:8786' is no cluster; give local or"):
        engine(cluster="127.0.0.1:8786", jobs=None, count=1).__enter__()
    error = one_error(capsys, tmp_path, "info", rank_file(tmp_path, 0), "--cluster", "127.0.0.1", status=2)
    assert "argument --cluster: takes local or an address such as tcp://host:8786, not '127.0.0.1'" in error


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
