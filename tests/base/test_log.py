"""What a user of the library hears by ``logging``, and that nobody else does."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.samples import FOUR_RANKS
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

Heard = Callable[[], list[str]]


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    """Return what tells the lines of the logger so far, with their levels."""
    caplog.set_level(logging.INFO, "hta_graph")
    return lambda: [f"{logging.getLevelName(level)} {line}" for name, level, line in caplog.record_tuples]


def poor_trace(path: Path, **header: object) -> Path:
    """Write a trace with a row that nobody can place."""
    trace = TraceBuilder(**header)
    trace.op("aten::mm", 0, 10)
    trace.row(ph="X", cat="cpu_op", name="aten::add", ts="soon", dur=1, pid=1, tid=1)
    return trace.write(path)


def dropped(path: Path) -> str:
    what = "events without a valid start and duration"
    return f"WARNING {path}: {what}: 1 (rows_dropped_bad_time)"


@pytest.mark.parametrize(
    "ask", [hg.read_trace, lambda path: list(hg.read_traces(path)), lambda path: list(hg.read_graphs(path))]
)
def test_what_of_a_file_is_dropped_is_told_once(ask: Callable[[Path], object], tmp_path: Path, heard: Heard) -> None:
    path = poor_trace(tmp_path / "trace.json")
    ask(path)
    assert heard() == [dropped(path)]


@pytest.mark.parametrize("jobs", [1, deep(2)])
def test_so_it_is_of_each_rank_wherever_that_is_read(jobs: int, tmp_path: Path, heard: Heard) -> None:
    paths = [poor_trace(tmp_path / f"rank{rank}.json", distributedInfo={"rank": rank}) for rank in range(2)]
    list(hg.read_graphs(tmp_path, jobs=jobs))
    assert heard() == [dropped(path) for path in paths]


def test_files_that_are_skipped_or_numbered_by_order_are_told(tmp_path: Path, heard: Heard) -> None:
    for name in ("a.json", "b.json"):
        TraceBuilder().write(tmp_path / name)
    (tmp_path / "c.json").write_text('{"schema": "1.0", "nodes": []}')
    list(hg.read_graphs(tmp_path))
    skipped, by_order = heard()
    assert skipped.startswith(f"WARNING skipped 1 file that is not a trace: {tmp_path}/c.json")
    assert by_order.startswith("WARNING 2 files name no rank in their header or file name; ranks assigned by order: ")


def test_who_gives_an_own_function_hears_these_there_alone(tmp_path: Path, heard: Heard) -> None:
    for name in ("a.json", "b.json"):
        TraceBuilder().write(tmp_path / name)
    said: list[str] = []
    list(hg.read_traces(tmp_path, say=said.append))
    assert (len(said), heard()) == (1, [])


def test_clocks_that_contradict_dependencies_are_told(tmp_path: Path, heard: Heard) -> None:
    trace = TraceBuilder()
    trace.launch("soon", (100, 110), (90, 120), 1)
    trace.launch("too soon", (5_000, 5_010), (3_000, 3_100), 2)
    trace.agree(6_000)
    path = trace.write(tmp_path / "trace.json")
    hg.build_graph(hg.read_trace(path))
    told = heard()
    assert f"WARNING {path}: 1 dependencies go back in time by more than 1 ms and are dropped" in told
    assert f"INFO {path}: 1 dependencies go back in time by at most 1 ms and are kept with lag 0" in told


def test_ranks_that_are_missing_and_clocks_that_are_put_right_are_told(tmp_path: Path, heard: Heard) -> None:
    folder = FOUR_RANKS
    hg.read_job(folder)
    assert [line for line in heard() if line.startswith("WARNING")] == []
    hg.read_job(folder, ranks=[0, 2, 3])
    assert [line.partition(": ")[2] for line in heard() if line.startswith("WARNING")] == [
        "1 of 4 ranks are missing; waits for them have no cause"
    ]


def test_dumps_that_not_all_ranks_have_are_told(tmp_path: Path, heard: Heard) -> None:
    small_job(tmp_path)
    dump = tmp_path / "flight" / "rank0.json"
    dump.parent.mkdir()
    dump.write_text('{"version": "2.4", "entries": []}')
    hg.read_job(tmp_path)
    assert "WARNING flight recorder dumps are not used, because some ranks have none" in heard()


def test_the_command_line_says_its_own_lines_and_no_other(
    tmp_path: Path, heard: Heard, capsys: pytest.CaptureFixture[str]
) -> None:
    path = poor_trace(tmp_path / "trace.json")
    status, _, err = run_command(capsys, "critical-path", path)
    assert (status, err) == (0, dropped(path).removeprefix("WARNING ") + "\n")


@pytest.mark.parametrize(
    ("setup", "expected"), [deep("", 0), deep("import logging", 0), ("import logging; logging.basicConfig()", 1)]
)
def test_only_a_program_that_listens_hears_it(setup: str, expected: int, tmp_path: Path) -> None:
    path = poor_trace(tmp_path / "trace.json")
    code = f"{setup}\nimport sys, hta_graph\nhta_graph.read_trace(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
    assert len(done.stderr.splitlines()) == expected
    assert done.stderr.startswith("WARNING:hta_graph:" if expected else "")


def test_a_name_of_a_file_makes_no_second_line(tmp_path: Path, heard: Heard) -> None:
    hg.read_trace(poor_trace(tmp_path / "a\nb.json"))
    (line,) = heard()
    assert "\n" not in line
