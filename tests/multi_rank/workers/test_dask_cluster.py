"""Dask as an engine: workers of this machine and of a scheduler that runs; those that are lost, old, or not there."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest

from hta_graph.base.errors import ClusterError, HtaGraphError, TooLargeError
from hta_graph.multi_rank.workers.dask_cluster import DaskWorkers
from hta_graph.multi_rank.workers.tasks import Task, decode_answer, run_task
from tests.simulator.ranks import JobShape, Recording, ddp, record_job, simulate_job
from tests.support.child_processes import child_processes, is_running, wait_until
from tests.support.command_line import folder_contents, one_error, run_command
from tests.support.dask_cluster import cluster
from tests.support.deep_tests import deep
from tests.support.worker_tasks import BROKEN, as_text, kill_next, rank_file, reading, slow_file, working_children

ROOT = Path(__file__).parents[3]
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see processes")


@pytest.fixture(autouse=True)
def needs_dask() -> None:
    """Import it for a test and not to look for tests: it takes long."""
    pytest.importorskip("distributed")


# -- answers ----------------------------------------------------------------------------------------------------------


def quiet(_: str) -> None:
    """Say nothing."""


def answers(engine: DaskWorkers, tasks: Sequence[Task]) -> list[bytes | HtaGraphError]:
    asked = [engine.submit(task) for task in tasks]
    return [decode_answer(future.result()) for future in asked]


@pytest.mark.slow
@needs_proc
def test_dask_answers_as_this_process_does_and_is_gone_after(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(BROKEN)
    files = [rank_file(tmp_path, 1), tmp_path / "broken.json", tmp_path / "absent.json", rank_file(tmp_path, 2)]
    tasks, said = list(map(reading, files)), list[str]()
    with DaskWorkers("local", 1, 4, 1, said.append) as workers:
        found = list(map(as_text, answers(workers, tasks)))
        (line,) = said
        with urllib.request.urlopen(line.removeprefix("Dask's dashboard: "), timeout=5) as page:  # noqa: S310
            assert page.status == 200
    assert found == [as_text(decode_answer(run_task(task))) for task in tasks]
    assert working_children() == set()


def simulated_job(folder: Path) -> Path:
    record_job(simulate_job(ddp(JobShape(ranks=4, steps=3))), Recording(ids=True), folder)
    return folder


@pytest.mark.slow
def test_answers_are_the_same_to_the_byte_on_every_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is named as one does who stands beside it, and workers stand elsewhere."""
    simulated_job(tmp_path / "job")
    (tmp_path / "job" / "rank2.json").write_text(BROKEN)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with cluster(tmp_path / "elsewhere") as address:
        for command in ("stragglers", "collectives", "critical-path"):
            expected = run_command(capsys, command, "job", "--json", "-", "--jobs", "1")
            assert expected[0] == 1
            assert expected[2].startswith("hta-graph: job/rank2.json: ")
            for where in (["--jobs", "2"], ["--jobs", "2", "--cluster", "local"], ["--cluster", address]):
                status, out, err = run_command(capsys, command, "job", "--json", "-", *where)
                told = [line for line in err.splitlines(keepends=True) if not line.startswith("Dask's dashboard: ")]
                assert (status, out, "".join(told)) == expected, where


# -- workers that are lost --------------------------------------------------------------------------------------------


@needs_proc
@pytest.mark.slow
def test_a_task_whose_worker_is_killed_is_run_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole, slow = rank_file(tmp_path, 2), slow_file(tmp_path)
    with DaskWorkers("local", 1, 2, 1, quiet) as workers:
        killer = kill_next(1, lambda: whole.replace(slow), after=1)
        found = answers(workers, [reading(slow, 2)] * 2)
    killer.join()
    assert found == [decode_answer(run_task(reading(slow, 2)))] * 2
    assert capfd.readouterr() == ("", "")


@needs_proc
@pytest.mark.slow
def test_a_task_that_costs_worker_after_worker_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    slow = slow_file(tmp_path)
    with DaskWorkers("local", 1, 2, 1, quiet) as workers:
        killer = kill_next(3, after=2)
        (first,) = answers(workers, [reading(slow)])
        (second,) = answers(workers, [reading(rank_file(tmp_path, 1), 1)])
    killer.join()
    assert type(first) is TooLargeError
    assert str(first).startswith(f"{slow}: the workers that read it were killed one after the other, possibly for lack")
    assert isinstance(second, bytes)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_an_error_of_what_it_was_given(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = slow_file(tmp_path)
    with ExitStack() as running, DaskWorkers(running.enter_context(cluster(tmp_path)), None, 2, 1, quiet) as there:
        Timer(1, running.close).start()
        found = answers(there, [reading(slow), reading(slow)])
    assert all("the cluster did not answer" in str(error) for error in found)
    assert capfd.readouterr() == ("", "")


# -- clusters that cannot be used -------------------------------------------------------------------------------------


def refusal(address: str) -> str:
    begin = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        DaskWorkers(address, None, 2, 1, quiet)
    assert time.monotonic() - begin < 12
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_a_scheduler_without_workers_is_one_line(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=[]) as address:
        assert refusal(address) == f"{address}: it has no workers; start one with: dask worker {address}"


@pytest.mark.slow
def test_something_else_that_listens_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        assert refusal(address).startswith(f"{address}: no Dask scheduler answers there: ")


OTHERS = {
    "raise ModuleNotFoundError(\"No module named 'hta_graph'\")": r"workers? .*cannot run hta-graph: .*No module named",
    "__version__ = '9'; __path__ = [{room!r}]": r"worker .* has hta-graph 9, but this process has [0-9.]+",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", OTHERS)
def test_workers_without_this_version_are_one_line(tmp_path: Path, code: str) -> None:
    (tmp_path / "hta_graph").mkdir()
    (tmp_path / "hta_graph" / "__init__.py").write_text(code.format(room=str(ROOT / "hta_graph")))
    with cluster(tmp_path, workers=[{"PYTHONPATH": str(tmp_path)}]) as address:
        assert re.search(
            f"^{address}: .*{OTHERS[code]}.*; install the same version of hta-graph there$", refusal(address)
        )


# -- interrupted ------------------------------------------------------------------------------------------------------

WAITING = """
import sys
from pathlib import Path
from hta_graph.multi_rank import read_ranks, worker_readers
from hta_graph.trace.rank_files import RankFile
read_ranks.find_ranks = lambda paths, **_: [RankFile(Path(path), at, "order") for at, path in enumerate(paths)]
worker_readers.peak_bytes = lambda _: 1
from analyses.cli.main import run
run()"""


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, deep(signal.SIGTERM), deep(signal.SIGKILL)])
def test_an_interrupt_leaves_no_process(tmp_path: Path, kind: signal.Signals) -> None:
    """As from a terminal, all processes of the group hear it."""
    slow = slow_file(tmp_path)
    (tmp_path / "again.json").symlink_to(slow)
    before = set(folder_contents(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, "info", slow, tmp_path / "again.json", "--cluster", "local", "--json",
         tmp_path / "out.json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: len(child_processes(process.pid)) == 3)
    time.sleep(3)
    children = child_processes(process.pid)
    if kind == signal.SIGINT:
        os.killpg(process.pid, kind)
    else:
        process.send_signal(kind)
    out, err = process.communicate(timeout=20)
    lines = [line for line in err.splitlines() if not line.startswith("Dask's dashboard: ")]
    assert out == ""
    # Of a program that is killed Python's own tracker of what processes share has something to say.
    assert kind == signal.SIGKILL or lines == ["hta-graph: interrupted"] * (kind == signal.SIGINT)
    assert process.returncode == (-9 if kind == signal.SIGKILL else 128 + kind)
    wait_until(lambda: not any(map(is_running, children)))
    assert set(folder_contents(tmp_path)) == before


@pytest.mark.slow
def test_an_error_on_the_way_ends_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        (tmp_path / f"rank{rank}.json").write_text(BROKEN)
    status, _, err = run_command(capsys, "info", tmp_path, "--cluster", "local", "--jobs", "1")
    assert (status, err.count("is truncated")) == (1, 3)
    assert "none of these files is a readable trace" in err
    assert working_children() == set()
    assert "Connection refused" in one_error(capsys, tmp_path, "info", tmp_path, "--cluster", "tcp://127.0.0.1:1")
