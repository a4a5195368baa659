"""Traces of the profiler before Kineto: operators, kernels and the arrows between them are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from tests.support.command_line import command_json, run_command


def old_trace(folder: Path, *, device: str = "CUDA", thread: Any = 1) -> Path:
    """Write what torch.autograd.profiler wrote: two operators inside each other, and three kernels."""
    cpu = {"ph": "X", "pid": "CPU functions", "tid": thread, "args": {}}
    gpu = {"ph": "X", "pid": f"{device} functions", "tid": 0, "args": {}}
    flow = {"cat": f"cpu_to_{device.lower()}", "args": {}}
    rows: list[dict[str, Any]] = [
        cpu | {"name": "linear", "ts": 10.5, "dur": 60.0},
        cpu | {"name": "mm", "ts": 20.0, "dur": 30.0},
        cpu | {"name": "add", "ts": 80.0, "dur": 10.0},
    ]
    for key, (op, begin, name, start, length) in enumerate([
        ("mm", 20.0, "gemm", 40.0, 100.0), ("mm", 20.0, "splitk", 140.0, 10.0), ("add", 80.0, "add_kernel", 150.0, 5.0),
    ]):  # fmt: skip
        rows += [
            flow | {"name": op, "ph": "s", "ts": begin, "tid": thread, "pid": "CPU functions", "id": key},
            flow | {"name": name, "ph": "f", "ts": start, "tid": 0, "pid": f"{device} functions", "id": key},
            gpu | {"name": name, "ts": start, "dur": length},
        ]
    path = folder / "old.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("device", "thread"), [("CUDA", 1), ("CUDA", "1"), ("XPU", 2)])
def test_operators_and_kernels_are_read(tmp_path: Path, device: str, thread: Any) -> None:
    graph = hg.build_graph(hg.read_trace(old_trace(tmp_path, device=device, thread=thread)))
    events = graph.events
    assert list(events["kind"]) == ["cpu_op", "cpu_op", "kernel", "cpu_op", "kernel", "kernel"]
    assert list(events["lane"].unique()) == [f"thread CPU functions:{thread}", "stream 0:-:0"]
    assert graph.edge_counts()["launch"] == {"recorded": 3, "inferred": 0}


@pytest.mark.slow
def test_commands_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = old_trace(tmp_path)
    rows = command_json(capsys, "attribution", path)["tables"]["gpu_time_by_operator"]
    owned = {row["name"]: row["gpu_self_ns"] for row in rows}
    assert owned == {"linear": 0, "mm": 110_000, "add": 5_000}
    assert command_json(capsys, "critical-path", path)["segments"]
    for command in ("kernel-breakdown", "temporal-breakdown", "idle-time", "attribution", "what-if", "report"):
        arguments = ["--output", tmp_path / "r.html"] if command == "report" else []
        status, _, err = run_command(capsys, command, path, *arguments)
        assert (status, "Traceback" in err) == (0, False), (command, err)
