"""What a handler does with recordings, whoever recorded them: PyTorch is not needed here."""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.torch import TraceHandler, options, trace_handler
from analyses.torch import handler as handler_module
from analyses.torch import handler as process_module
from analyses.torch.handler import Rank, cycle_folder, this_rank
from hta_graph.base.errors import HtaGraphError, OutputError, UsageError
from tests.support.command_line import two_steps


class FakeProfiler:
    """A profiler with a recording of two steps, or of whatever it is given."""

    def __init__(self, step: int = 4, content: bytes | None = None) -> None:
        self.step_num = step
        self._content = content

    def export_chrome_trace(self, path: str) -> None:
        """Write the recording."""
        if self._content is None:
            two_steps().write(Path(path))
        else:
            Path(path).write_bytes(self._content)


class BrokenProfiler:
    """A profiler that writes half a file and gives up."""

    step_num = 4

    def export_chrome_trace(self, path: str) -> None:
        """Write the first bytes and fail."""
        Path(path).write_text('{"traceEvents": [')
        raise RuntimeError("no space\nleft")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be no rank of a job, whoever runs the tests."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


Warned = Callable[[], list[str]]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """Return what tells what has been warned of."""
    return lambda: [line for _, level, line in caplog.record_tuples if level == logging.WARNING]


def of_rank(rank: int) -> bytes:
    document = two_steps().document()
    return json.dumps({**document, "distributedInfo": {"rank": rank, "world_size": 2}}).encode()


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_recording_is_written_and_the_verdict_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handler = trace_handler(tmp_path / "new" / "traces", report=True)
    handler(FakeProfiler())
    handler.wait()
    out, err = capfd.readouterr()
    (trace,) = handler.files
    assert files_in(tmp_path / "new") == ["traces/step-4/rank-0.html", "traces/step-4/rank-0.json.gz"]
    assert gzip.decompress(trace.read_bytes()) == two_steps().write(tmp_path / "same.json").read_bytes()
    assert "<html" in trace.with_name("rank-0.html").read_text(encoding="utf-8")
    assert err == ""
    assert out.splitlines()[0].startswith("step 1: bound by GPU compute (67% of the critical path)")
    assert out.splitlines()[-2:] == [
        f"Details: hta-graph critical-path {trace}",
        f"{trace.with_name('rank-0.html')}: open it in a browser",
    ]


@pytest.mark.slow
def test_the_verdict_opens_as_critical_path_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handler = trace_handler(tmp_path)
    handler(FakeProfiler())
    handler.wait()
    told = capfd.readouterr().out.splitlines()[0]
    command = [sys.executable, "-m", "hta_graph", "critical-path", str(handler.files[0])]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0] == told


def test_cycles_have_folders_of_their_own(tmp_path: Path) -> None:
    handler = trace_handler(tmp_path, analyse=False, use_gzip=False)
    for step in (4, 8, 8):
        handler(FakeProfiler(step))
    assert files_in(tmp_path) == ["step-4/rank-0.json", "step-8-2/rank-0.json", "step-8/rank-0.json"]
    assert [str(path.relative_to(tmp_path)) for path in handler.files] == [
        "step-4/rank-0.json", "step-8/rank-0.json", "step-8-2/rank-0.json",
    ]  # fmt: skip


def test_ranks_of_a_run_meet_in_a_folder_that_is_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    handlers = [trace_handler(tmp_path, analyse=False, worker_name="node7") for _ in range(2)]
    for rank, handler in enumerate(handlers):
        monkeypatch.setenv("RANK", str(rank))
        handler(FakeProfiler(content=of_rank(rank)))
    assert files_in(tmp_path) == ["step-4/rank-0.node7.json.gz", "step-4/rank-1.node7.json.gz"]
    assert [trace.rank for trace in hg.read_traces(tmp_path / "step-4")] == [0, 1]


def test_a_run_after_one_that_broke_off_does_not_join_its_files(tmp_path: Path) -> None:
    broken_off = tmp_path / "step-4" / "rank-1.json.gz"
    broken_off.parent.mkdir()
    broken_off.write_bytes(b"")
    before = time.time() - 60
    os.utime(broken_off, (before, before))
    trace_handler(tmp_path, analyse=False)(FakeProfiler())
    assert files_in(tmp_path) == ["step-4-2/rank-0.json.gz", "step-4/rank-1.json.gz"]
    assert cycle_folder(tmp_path, 4, "rank-7.json.gz", before - 60) == tmp_path / "step-4"


@pytest.mark.slow
def test_only_rank_0_speaks_unless_others_are_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    assert this_rank() == Rank(3, 8)
    quiet, speaking = (trace_handler(tmp_path, report=True, analyse=analyse) for analyse in (None, True))
    quiet(FakeProfiler(4))
    quiet.wait()
    assert capfd.readouterr() == ("", "")
    assert files_in(tmp_path) == ["step-4/rank-3.json.gz"]
    speaking(FakeProfiler(8))
    speaking.wait()
    assert capfd.readouterr().out.endswith(f"All 8 ranks: hta-graph stragglers {tmp_path}/step-8\n")


def test_what_cannot_be_written_is_a_warning_and_leaves_nothing(tmp_path: Path, warned: Warned) -> None:
    handler = trace_handler(tmp_path)
    handler(BrokenProfiler())
    assert warned() == [f"{tmp_path}: trace not written: no space left"]
    assert files_in(tmp_path) == []
    assert handler.files == []


@pytest.mark.slow
def test_what_cannot_be_analysed_is_a_warning_and_stays(
    tmp_path: Path, warned: Warned, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = trace_handler(tmp_path)
    handler(FakeProfiler(content=b'{"traceEvents": ['))
    handler.wait()
    (line,) = warned()
    assert line.startswith(f"{handler.files[0]}: written, but not analyzed: ")
    assert "truncated" in line
    assert gzip.decompress(handler.files[0].read_bytes()) == b'{"traceEvents": ['
    assert capfd.readouterr() == ("", "")


def test_a_thread_that_does_not_start_is_a_warning(
    tmp_path: Path, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    handler = trace_handler(tmp_path)
    handler(FakeProfiler())
    handler.wait()
    assert warned() == [f"{handler.files[0]}: written, but not analyzed: can't start new thread"]


def test_an_analysis_that_takes_too_long_is_given_up(
    tmp_path: Path, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "TIMEOUT_S", 0.001)
    handler = trace_handler(tmp_path)
    handler(FakeProfiler())
    handler.wait()
    assert ["not analyzed: took longer than 0.001 s; run hta-graph report " in line for line in warned()] == [True]


def test_analyses_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, order = [0], [0], []

    def ask(trace: Path, page: Path | None) -> process_module.Verdict:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)
        running[0] -= 1
        order.append(trace)
        return process_module.Verdict([], None)

    monkeypatch.setattr(handler_module, "run_report", ask)
    handler = trace_handler(tmp_path)
    for step in range(1, 6):
        handler(FakeProfiler(step))
    handler.wait()
    assert (most, order) == ([1], handler.files)


def test_what_cannot_work_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be created: Not a directory; choose another folder"):
        trace_handler(tmp_path / "file" / "traces")
    with pytest.raises(UsageError, match="choose a local folder"):
        trace_handler("s3://bucket/traces")
    with pytest.raises(UsageError, match="not valid in a file name"):
        trace_handler(tmp_path, worker_name="a/b")


def test_without_pytorch_a_handler_is_made_and_options_say_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(trace_handler(tmp_path), TraceHandler)
    with pytest.raises(HtaGraphError, match=r"require PyTorch, which cannot be imported .* install it"):
        options()


@pytest.mark.slow
def test_it_is_there_as_an_attribute_without_being_imported() -> None:
    code = "import analyses, sys; print(analyses.torch.trace_handler.__module__, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "analyses.torch.handler False\n"
