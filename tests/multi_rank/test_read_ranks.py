"""Ranks read in processes of their own: the same graphs in the same order, within memory, and nothing left behind."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph.base.errors import HtaGraphError, TraceError
from hta_graph.multi_rank import read_ranks
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.read_engine import RankReading, RankRequest, graph_bytes, memory_share, peak_bytes
from hta_graph.multi_rank.wire_format import answer_pieces, graph_of_answer, read_answer
from hta_graph.multi_rank.workers import worker_processes
from hta_graph.trace import decompress
from hta_graph.trace.decompress import TextStream
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_rank
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.child_processes import child_processes, is_running, wait_until
from tests.support.command_line import folder_contents, run_command
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder
from tests.support.worker_tasks import working_children

NANOGPT = SHARED / "traces" / "nanogpt_ddp_8xh100"
IS_LINUX = Path("/proc/self/task").is_dir()


def job_folder(folder: Path, *ranks: int) -> Path:
    """Write a trace for each rank; the rank reports its number of operators."""
    folder.mkdir(exist_ok=True)
    for rank in ranks:
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": len(ranks)})
        for at in range(rank + 1):
            trace.op(f"op {at}", 10 * at, 10 * at + 5)
        trace.write(folder / f"trace_{9 - rank}.json.gz")
    return folder


def parts_of(item: Any) -> Iterator[Any]:
    """Return the fields of a table and of the tables in it; columns as lists, so that absent numbers are equal."""
    for f in fields(item):
        value = getattr(item, f.name)
        if is_dataclass(value):
            yield from parts_of(value)
        else:
            yield f.name, repr(value.tolist()) if isinstance(value, np.ndarray) else value


def same_graphs(one: hg.DependencyGraph, other: hg.DependencyGraph) -> bool:
    """Compare all that a graph holds."""
    tables = [(one.trace, other.trace), (one.edge_table, other.edge_table)]
    return one.diagnostics == other.diagnostics and all(list(parts_of(a)) == list(parts_of(b)) for a, b in tables)


# -- a graph on its way between processes -----------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_graph_survives_the_way_from_process_to_process(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 60)), Dialect()).document))
    graph = hg.build_graph(hg.read_trace(path))
    found = graph_of_answer(b"".join(answer_pieces(graph)))
    assert same_graphs(found, graph)
    assert not found.trace.events.start.flags.writeable
    assert hg.critical_path(found).segment_table.start.tolist() == hg.critical_path(graph).segment_table.start.tolist()


def test_odd_names_survive_it(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[{"name": "\ud800"}], note=float("nan"))
    trace.op('"\n\x00é', 0, 10)
    graph = hg.build_graph(hg.read_trace(trace.write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n .json")))))
    assert same_graphs(graph_of_answer(b"".join(answer_pieces(graph))), graph)


def test_communications_go_with_the_graph_and_the_file_is_not_opened_again(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("record_param_comms", 0, 10, **{"Collective name": "allreduce", "Comms Id": 2**63 + 1})
    trace.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", (2, 4), (10, 20), 1)
    path = trace.write(tmp_path / "trace.json")
    for jobs in (1, 2):
        (graph,) = hg.read_graphs(path, communications=True, jobs=jobs)
        own = read_communications(graph)
        found = graph_of_answer(b"".join(answer_pieces(graph)))
        assert [type(table) for table in found.attached_tables] == [RankCommunications]
        path.rename(tmp_path / "elsewhere")
        assert list(parts_of(read_communications(found))) == list(parts_of(own))
        (tmp_path / "elsewhere").rename(path)
        assert own.arguments["Comms Id"] == [2**63 + 1]


@pytest.mark.slow
def test_processes_send_communications_only_where_they_are_wanted(tmp_path: Path) -> None:
    folder = job_folder(tmp_path, 0, 1)
    for members in (False, True):
        for graph in hg.read_graphs(folder, jobs=2, communications=members):
            assert bool(graph.attached_tables) == members


def test_a_stream_that_ends_early_is_noticed(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(job_folder(tmp_path, 3) / "trace_6.json.gz"))
    data = b"".join(answer_pieces(graph))
    assert bytes(read_answer(len(data), BytesIO(data))) == data
    with pytest.raises(EOFError):
        read_answer(len(data), BytesIO(data[:-1]))


# -- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [None, 1, deep(2)])
def test_graphs_come_lowest_rank_first_and_are_those_of_single_files(tmp_path: Path, jobs: int | None) -> None:
    job_folder(tmp_path, 0, 2, 3)
    found = {graph.trace.rank: graph for graph in hg.read_graphs(tmp_path, jobs=jobs)}
    assert list(found) == [0, 2, 3]
    for rank, graph in found.items():
        assert same_graphs(graph, hg.build_graph(hg.read_trace(tmp_path / f"trace_{9 - (rank or 0)}.json.gz")))


@pytest.mark.slow
def test_a_rank_by_name_or_order_reaches_the_graph(tmp_path: Path) -> None:
    for name in ("x_rank5.json", "b.json", "a.json"):
        trace = TraceBuilder()
        trace.op(name, 0, 10)
        trace.write(tmp_path / name)
    lines: list[str] = []
    found = [(graph.trace.rank, graph.trace.names) for graph in hg.read_graphs(tmp_path, jobs=2, say=lines.append)]
    assert found == [(0, ("a.json",)), (1, ("b.json",)), (5, ("x_rank5.json",))]
    assert len(lines) == 1
    assert lines[0].endswith(f"ranks assigned by order: {tmp_path / 'a.json'} as rank 0, b.json as rank 1")


@pytest.mark.slow
def test_some_ranks_are_read_alone(tmp_path: Path) -> None:
    job_folder(tmp_path, 0, 1, 2)
    (tmp_path / "trace_8.json.gz").write_bytes(b"broken")
    assert [graph.trace.rank for graph in hg.read_graphs(tmp_path, ranks=[2, 0])] == [0, 2]
    with pytest.raises(TraceError, match="rank 7 not found"):
        next(hg.read_graphs(tmp_path, ranks=[7]))


def test_one_file_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", None)
    job_folder(tmp_path, 3)
    assert [graph.trace.rank for graph in hg.read_graphs(tmp_path, jobs=4)] == [3]
    assert [graph.trace.rank for graph in hg.read_graphs(tmp_path / "trace_6.json.gz", ranks=[3], jobs=4)] == [3]
    with pytest.raises(TraceError, match="rank 0 not found"):
        next(hg.read_graphs(tmp_path, ranks=[0]))


def test_few_small_files_are_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", None)
    assert len(list(hg.read_graphs(job_folder(tmp_path, 0, 1, 2)))) == 3


def test_a_program_without_an_interpreter_reads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", None)
    assert len(list(hg.read_graphs(job_folder(tmp_path, 0, 1), jobs=2))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", [deep("script"), "standard input"])
def test_a_script_needs_no_guard(tmp_path: Path, how: str) -> None:
    job_folder(tmp_path / "job", 0, 1)
    script = tmp_path / "script.py"
    script.write_text(
        "import hta_graph as hg\nprint('started')\n"
        f"print([graph.trace.rank for graph in hg.read_graphs({str(tmp_path / 'job')!r}, jobs=2)])\n"
    )
    command = [sys.executable, "-W", "error", *([str(script)] if how == "script" else ["-"])]
    done = subprocess.run(command, input=script.read_text(), capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("started\n[0, 1]\n", "")


@pytest.mark.shared
@pytest.mark.slow
def test_real_ranks_are_those_that_one_process_reads() -> None:
    there = list(hg.read_graphs([NANOGPT / "rank3.json.gz", NANOGPT / "rank1.json.gz"], jobs=2))
    here = list(hg.read_graphs([NANOGPT / "rank3.json.gz", NANOGPT / "rank1.json.gz"], jobs=1))
    assert [graph.trace.rank for graph in there] == [1, 3]
    assert all(same_graphs(a, b) for a, b in zip(there, here, strict=True))


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_broken_file_is_reported_and_left_out(tmp_path: Path, jobs: int) -> None:
    path = job_folder(tmp_path, 0, 1, 2) / "trace_8.json.gz"
    path.write_bytes(path.read_bytes()[:-20])
    errors: list[HtaGraphError] = []
    assert [graph.trace.rank for graph in hg.read_graphs(tmp_path, jobs=jobs, report=errors.append)] == [0, 2]
    assert [type(error) for error in errors] == [TraceError]
    with pytest.raises(TraceError) as caught:
        hg.read_trace(path)
    assert str(errors[0]) == str(caught.value)


@pytest.mark.parametrize("jobs", [1, deep(2)])
def test_without_a_report_the_error_is_raised_in_its_place(tmp_path: Path, jobs: int) -> None:
    path = job_folder(tmp_path, 0, 1, 2) / "trace_8.json.gz"
    path.write_bytes(path.read_bytes()[:-20])
    found = hg.read_graphs(tmp_path, jobs=jobs)
    assert next(found).trace.rank == 0
    with pytest.raises(TraceError, match="truncated"):
        next(found)


def test_nothing_but_broken_files_is_an_error(tmp_path: Path) -> None:
    for path in job_folder(tmp_path, 0, 1).iterdir():
        path.write_bytes(b"")
    errors: list[HtaGraphError] = []
    with pytest.raises(TraceError, match="none of these files is a readable trace"):
        list(hg.read_graphs(tmp_path, report=errors.append))
    assert len(errors) == 2


KILLED = "os.kill(os.getpid(), 9)"
HALFWAY = """sys.stdout.buffer.write(b'{"trace": {"path": "x"'), sys.stdout.flush(), os._exit(3)"""


FAULTS = {
    1: (KILLED, r"the process that read it was killed \(signal 9\), possibly for lack of memory; read fewer"),
    2: (HALFWAY, r"the process that read it ended early \(status 3\); pass jobs=1 to read without"),
    4: ("[][7]", r"reading it failed, IndexError: list index out of range; pass jobs=1 to see where"),
    5: ("exec('raise MemoryError')", "not enough memory to read it"),
    6: ("print('noise') or read(path, salvage=False)", ""),
}
"""What happens when a rank is read, and what is said of it."""


@pytest.mark.slow
def test_a_process_that_fails_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    faults = ", ".join(f'"trace_{9 - rank}.json.gz": lambda path: ({fault})' for rank, (fault, _) in FAULTS.items())
    program = f"""
        import os, sys; sys.path[:] = sys.argv[1:]
        import hta_graph.trace.read as task; read = task.read_recordings
        from hta_graph.multi_rank.workers.worker_main import serve
        faults = {{{faults}}}
        whole = lambda path: read(path, salvage=False)
        task.read_recordings = lambda path, *_, **__: faults.get(os.path.basename(path), whole)(path)
        serve()"""
    monkeypatch.setattr(worker_processes, "PROGRAM", textwrap.dedent(program))
    job_folder(tmp_path, *range(8))
    errors: list[HtaGraphError] = []
    found = [graph.trace.rank for graph in hg.read_graphs(tmp_path, jobs=2, report=errors.append)]
    assert found == [0, 3, 6, 7]
    causes = {tmp_path / f"trace_{9 - rank}.json.gz": cause for rank, (_, cause) in FAULTS.items() if cause}
    for error, (path, cause) in zip(errors, causes.items(), strict=True):
        with pytest.raises(TraceError, match=f"^{path}: {cause}"):
            raise error
        on_command_line = f"{path}: {cause}".replace("pass jobs=1", "use --jobs 1")
        assert re.match(on_command_line, error.on_command_line)
    assert "Traceback" not in capfd.readouterr().err


def test_no_process_at_all_is_an_error_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_folder(tmp_path, 0, 1)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    errors: list[HtaGraphError] = []
    with pytest.raises(TraceError, match="is a readable trace"):
        list(hg.read_graphs(tmp_path, jobs=2, report=errors.append))
    assert all("no process can be started to read it: No such file" in str(error) for error in errors)
    assert len(errors) == 2


# -- memory -----------------------------------------------------------------------------------------------------------


class Counted:
    """Stands for the pool of processes, one of which ends at a time, the last one first; counts how many read."""

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        assert memory in (0, read_ranks.peak_bytes(file.path))
        assert asked == RankRequest()
        reading_now.append(reading_now[-1] + 1)
        return RankReading(file)

    def wait(self, readings: Sequence[RankReading]) -> None:
        last = [reading for reading in readings if reading.answer is None][-1]
        last.answer = hg.build_graph(read_rank(last.file))
        reading_now.append(reading_now[-1] - 1)

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        assert reading_now[-1] == 0


reading_now = [0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("room", "jobs", "most"), [(0, 4, 1), (1.5, 4, 1), (2.5, 4, 2), (100, 4, 4), (100, 3, 3)])
def test_no_more_files_are_read_at_once_than_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: float, jobs: int, most: int
) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", Counted)
    reading_now[:] = [0]
    peak = peak_bytes(job_folder(tmp_path, *range(8)) / "trace_2.json.gz")
    found = [graph.trace.rank for graph in hg.read_graphs(tmp_path, jobs=jobs, memory=int(room * peak))]
    assert found == list(range(8))
    assert max(reading_now) == most


def test_graphs_that_are_kept_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", Counted)
    monkeypatch.setattr(read_ranks, "peak_bytes", lambda _: 100)
    monkeypatch.setattr(read_ranks, "graph_bytes", lambda _: 100)
    job_folder(tmp_path, *range(8))
    reading_now[:] = [0]
    kept = list(hg.read_graphs(tmp_path, jobs=4, memory=400))
    assert len(kept) == 8
    assert reading_now[-6:] == [1, 0, 1, 0, 1, 0]


def test_the_estimates_are_sane(tmp_path: Path) -> None:
    path = job_folder(tmp_path, 3) / "trace_6.json.gz"
    assert 50 << 20 < peak_bytes(path) < 500 << 20
    graph = hg.build_graph(hg.read_trace(path))
    assert len(graph.trace.events) * 50 < graph_bytes(graph) < len(graph.trace.events) * 500
    assert 1 << 20 < memory_share() < 1 << 50


# -- interrupted ------------------------------------------------------------------------------------------------------

needs_proc = pytest.mark.skipif(not IS_LINUX, reason="needs /proc to see processes")


def started_program(worker: str, *arguments: object) -> subprocess.Popen[str]:
    """Start the program with another way to read, and wait until two processes read."""
    code = (
        f"import sys; import hta_graph.multi_rank.workers.worker_processes as own; own.PROGRAM = {worker!r}\n"
        "from analyses.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: len(child_processes(process.pid)) == 2)
    return process


SLOW_READER = """
import sys, time; sys.path[:] = sys.argv[1:]
import hta_graph.trace.read as task
from hta_graph.multi_rank.workers.worker_main import serve
task.read_without_log = lambda path, salvage: time.sleep(60)
serve()"""


@pytest.mark.slow
@needs_proc
def test_an_interrupt_leaves_no_process_and_no_output(tmp_path: Path) -> None:
    folder = job_folder(tmp_path / "job", *range(4))
    before = folder_contents(tmp_path)
    process = started_program(SLOW_READER, "info", folder, "--jobs", 2, "--json", tmp_path / "out.json")
    workers = child_processes(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "hta-graph: interrupted\n")
    assert process.returncode == 130
    wait_until(lambda: not any(map(is_running, workers)), 5)
    assert folder_contents(tmp_path) == before


@needs_proc
@pytest.mark.parametrize("kind", [signal.SIGKILL, deep(signal.SIGTERM)])
@pytest.mark.slow
def test_a_killed_program_leaves_no_process(tmp_path: Path, kind: signal.Signals) -> None:
    process = started_program(SLOW_READER, "info", job_folder(tmp_path, *range(4)), "--jobs", 2)
    workers = child_processes(process.pid)
    time.sleep(0.3)
    process.send_signal(kind)
    process.communicate(timeout=20)
    wait_until(lambda: not any(map(is_running, workers)))


@needs_proc
@pytest.mark.shared
@pytest.mark.slow
def test_an_interrupt_while_real_ranks_are_read(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "analyses.cli.main",
        "info",
        NANOGPT,
        "--jobs",
        "2",
        "--json",
        tmp_path / "out.json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(child_processes(process.pid)) == 2)
    workers = child_processes(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "hta-graph: interrupted\n")
    assert process.returncode == 130
    wait_until(lambda: not any(map(is_running, workers)), 5)
    assert folder_contents(tmp_path) == {}


@needs_proc
@pytest.mark.slow
def test_an_error_ends_the_processes(tmp_path: Path) -> None:
    path = job_folder(tmp_path, *range(4)) / "trace_8.json.gz"
    path.write_bytes(path.read_bytes()[:-20])
    found = hg.read_graphs(tmp_path, jobs=2)
    next(found)
    workers = working_children()
    assert workers
    with pytest.raises(TraceError) as kept:
        next(found)
    assert not any(map(is_running, workers)), kept


@needs_proc
@pytest.mark.slow
def test_a_reader_that_is_given_up_ends_its_processes(tmp_path: Path) -> None:
    found = hg.read_graphs(job_folder(tmp_path, *range(4)), jobs=2)
    next(found)
    workers = working_children()
    assert workers
    found.close()  # type: ignore[attr-defined]
    assert not any(map(is_running, workers))


# -- on the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs: expected a whole number from 1 to 999,999, got '0'"),
        (["--jobs", "x"], "--jobs: expected a whole number from 1 to 999,999, got 'x'"),
        (["--memory", "much"], "--memory: expected a size such as 4G or 500M, up to 1048576T, got 'much'"),
        (["--memory=-4G"], "--memory: expected a size such as 4G or 500M, up to 1048576T, got '-4G'"),
    ],
)
def test_bad_limits_are_usage_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    status, out, err = run_command(capsys, "info", job_folder(tmp_path, 0, 1), *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limits", [deep(["--jobs", "2"]), ["--jobs", "2", "--memory", "1"], ["--memory", "1.5GiB"]])
def test_limits_do_not_change_the_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, limits: list[str]) -> None:
    job_folder(tmp_path, 0, 1, 2)
    assert run_command(capsys, "info", tmp_path, "--json", "-", *limits) == run_command(
        capsys, "info", tmp_path, "--json", "-"
    )


def on_a_terminal(*arguments: object) -> tuple[int, str, str]:
    """Run the program with standard error on a terminal; return its status, standard output, and what came there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "analyses.cli.main", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment)
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the terminal is closed on the other side
        pass
    os.close(ours)
    return process.returncode, out, shown.decode()


CODE = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")


def on_screen(shown: str) -> list[str]:
    """Return the lines that a terminal shows in the end, of one that knows how to go up and to erase a line."""
    lines, row, is_fresh = [""], 0, True
    for piece in re.findall(rf"{CODE.pattern}|\r|\n|[^\x1b\r\n]+", shown):
        if piece == "\n":
            row, is_fresh = row + 1, True
            lines += [""] * (row == len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece == "\r":
            is_fresh = True
        elif not CODE.fullmatch(piece):
            lines[row], is_fresh = piece if is_fresh else lines[row] + piece, False
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [deep(1), 2])
def test_a_terminal_shows_a_bar_that_is_gone_at_the_end(tmp_path: Path, jobs: int) -> None:
    job_folder(tmp_path, 0, 1, 2)
    (tmp_path / "trace_8.json.gz").write_bytes(b"broken")
    status, out, shown = on_a_terminal("info", tmp_path, "--jobs", jobs)
    assert (status, out.count(" events in ")) == (1, 2)
    plain = CODE.sub("", shown)
    assert "reading traces ━" in plain
    assert "0 of 3" in plain
    assert "3 of 3" in plain
    first, *wrapped = filter(None, on_screen(shown))
    assert all(line.startswith("  ") for line in wrapped)
    assert "".join([first, *wrapped]).replace(" ", "").startswith(f"hta-graph:{tmp_path / 'trace_8.json.gz'}:")


@pytest.mark.slow
def test_a_single_file_shows_no_bar(tmp_path: Path) -> None:
    job_folder(tmp_path, 0)
    assert on_a_terminal("info", tmp_path)[2] == ""


@pytest.mark.slow
def test_a_pipe_gets_no_bar(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_command(capsys, "info", job_folder(tmp_path, 0, 1), "--jobs", "2")[2] == ""


def test_the_rest_of_a_job_is_not_read_for_one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_folder(tmp_path, 0, 1, 2)
    read: list[str] = []
    begin = decompress._begin_text

    def noted(path: Path, *args: Any, **options: Any) -> TextStream:
        read.append(path.name)
        return begin(path, *args, **options)

    monkeypatch.setattr(decompress, "_begin_text", noted)
    assert main(["critical-path", str(tmp_path), "--rank", "1"]) == 0
    assert read == ["trace_8.json.gz"]
