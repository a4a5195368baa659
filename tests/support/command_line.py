"""The command line asked from a test: in this process or as a program, for JSON or for one line of error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from analyses.cli.main import main
from tests.support.trace_builder import TraceBuilder

BOUND_BY = {
    "cpu_bound", "data_loading", "gpu_compute_bound", "gpu_communication_bound", "gpu_memory_bound",
    "gpu_kernel_kernel_overhead", "gpu_kernel_launch_overhead", "cpu_gap", "sync_overhead", "unexplained",
}  # fmt: skip
COMMANDS = ("info", "critical-path", "graph")
PROGRAM = (sys.executable, "-m", "analyses.cli.main")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command in this process; return its exit status, standard output and standard error."""
    capsys.readouterr()
    try:
        status = main([str(item) for item in arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    done = capsys.readouterr()
    return status, done.out, done.err


def command_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a command that must succeed and return the JSON that it prints."""
    status, out, err = run_command(capsys, *arguments, "--json", "-")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def one_error(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object, status: int = 1) -> str:
    """Run a command that must fail: one line on stderr, nothing on stdout, the folder as it was."""
    before = folder_contents(folder)
    found, out, err = run_command(capsys, *arguments)
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert (found, out) == (status, ""), err
    assert folder_contents(folder) == before
    return err


def folder_contents(folder: Path) -> dict[str, bytes | None]:
    """Return every path below a folder with its bytes (``None`` for a folder)."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def two_steps() -> TraceBuilder:
    """Step 1 (0 to 100 µs) launches a kernel that runs until 150; step 2 (100 to 200) launches nothing.

    Path of step 1: gap 0-10, operator and call 10-30, launch 30-50, kernel 50-150.
    """
    trace = TraceBuilder(distributedInfo={"rank": 3, "world_size": 8}, deviceProperties=[{"name": "A100"}])
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.op("aten::mm", 10, 40)
    trace.launch("gemm", (20, 30), (50, 150), 5)
    trace.annotation("ProfilerStep#2", 100, 200)
    trace.op("aten::add", 110, 120)
    trace.annotation("block", 110, 120)
    trace.annotation("block", 130, 160)
    return trace


def time_by_class(found: dict[str, Any]) -> dict[str, int]:
    """Return the classes that time was spent in, and check that segments tile the window and agree with the sums."""
    segments, window = found["segments"], found["window"]
    borders = [window["start_ns"], *(segment["end_ns"] for segment in segments)]
    assert borders == [*(segment["start_ns"] for segment in segments), window["end_ns"]]
    sums = dict.fromkeys(BOUND_BY, 0)
    for segment in segments:
        assert segment["end_ns"] > segment["start_ns"]
        sums[segment["bound_by"]] += segment["end_ns"] - segment["start_ns"]
    assert found["by_bound_ns"] == sums
    assert sum(sums.values()) == window["end_ns"] - window["start_ns"]
    return {bound: ns for bound, ns in sums.items() if ns}


def run_program(
    *arguments: object, env: dict[str, str] | None = None, stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run the program as a process of its own."""
    command = [*PROGRAM, *(item if isinstance(item, bytes) else str(item) for item in arguments)]
    return subprocess.run(
        command, env={**os.environ, **(env or {})}, stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8",
        errors="surrogateescape", timeout=60, check=False,
    )  # fmt: skip
