"""The handler in programs that train with PyTorch itself, each as a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg

# Looked for without importing it: what trains is another process.
pytest.importorskip("torch", reason="PyTorch is absent; pip install torch runs them")

TRAINING = """
import sys, torch
from torch.profiler import profile, schedule
from analyses.torch import options, trace_handler

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
asked = dict(analyse=False)

def train(model=model):
    model(torch.randn(8, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

"""


def environment(**given: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **given}


def run(folder: Path, program: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Train in a folder, which is no checkout."""
    return subprocess.run(
        [sys.executable, "-c", TRAINING + program], cwd=folder, env=environment(**env), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def trained(folder: Path, program: str, **env: str) -> str:
    """Train well; return what was printed."""
    done = run(folder, program, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def steps_of(path: Path) -> list[int]:
    """Return the numbers of the steps that a recording holds."""
    names = (row.get("name", "") for row in document(path)["traceEvents"])
    return sorted({int(name.partition("#")[2]) for name in names if name.startswith("ProfilerStep#")})


def command(*arguments: object) -> str:
    """Ask the command line and return what it prints."""
    asked = [sys.executable, "-m", "hta_graph", *map(str, arguments)]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def test_a_recording_says_what_it_shows_and_has_a_page(tmp_path: Path) -> None:
    said = trained(
        tmp_path,
        """
with profile(schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
             on_trace_ready=trace_handler("traces", report=True), **options()) as prof:
    for _ in range(6):
        train()
        prof.step()
print("trained")
""",
    )
    assert files_in(tmp_path) == ["traces/step-5/rank-0.html", "traces/step-5/rank-0.json.gz"]
    assert steps_of(tmp_path / "traces/step-5/rank-0.json.gz") == [2, 3, 4]
    first = command("critical-path", tmp_path / "traces/step-5/rank-0.json.gz").splitlines()[0]
    assert first in said.splitlines()
    assert "bound by host time" in first
    assert "rank-0.html: open it in a browser" in said
    assert "trained" in said


def test_each_cycle_of_a_schedule_has_its_own_folder(tmp_path: Path) -> None:
    said = trained(
        tmp_path,
        """
handler = trace_handler("traces")
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=3), on_trace_ready=handler, **options()) as prof:
    for _ in range(14):
        train()
        prof.step()
handler.wait()
print([str(path.relative_to(path.parents[1])) for path in handler.files])
""",
    )
    expected = [f"step-{step}/rank-0.json.gz" for step in (4, 8, 12)]
    assert files_in(tmp_path / "traces") == sorted(expected)
    assert said.splitlines()[-1] == str(expected)
    assert said.count("Details: hta-graph critical-path ") == 3
    assert [steps_of(tmp_path / "traces" / name) for name in expected] == [[2, 3], [6, 7], [10, 11]]


def test_a_program_run_again_mixes_no_files(tmp_path: Path) -> None:
    program = """
with profile(on_trace_ready=trace_handler("traces", **asked), **options()) as prof:
    train()
    prof.step()
"""
    trained(tmp_path, program)
    trained(tmp_path, program)
    assert files_in(tmp_path / "traces") == ["step-1-2/rank-0.json.gz", "step-1/rank-0.json.gz"]


def test_a_training_that_fails_leaves_its_recording_and_its_own_error(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
with profile(on_trace_ready=trace_handler("traces"), **options()) as prof:
    for _ in range(3):
        train()
        prof.step()
    raise ValueError("the loss is not a number")
""",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: the loss is not a number"
    assert files_in(tmp_path / "traces") == ["step-3/rank-0.json.gz"]
    assert done.stdout.startswith("whole trace: "), done.stdout


def test_without_steps_the_whole_recording_is_asked_about(tmp_path: Path) -> None:
    said = trained(
        tmp_path,
        """
with profile(on_trace_ready=trace_handler("traces"), **options()):
    train()
    train()
""",
    )
    assert files_in(tmp_path / "traces") == ["step-0/rank-0.json.gz"]
    assert said.startswith("whole trace: "), said


def test_a_full_disk_costs_the_recording_and_not_the_training(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
handler = trace_handler("traces")
with profile(on_trace_ready=handler, **options()) as prof:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))  # files become no larger
    train()
    prof.step()
print("trained", handler.files)
""",
    )
    assert (done.returncode, done.stdout) == (0, "trained []\n"), done.stderr
    assert files_in(tmp_path) == []
    assert "traces: trace not written: " in done.stderr


def test_a_compiled_model_is_recorded_as_others_are(tmp_path: Path) -> None:
    said = trained(
        tmp_path,
        """
compiled = torch.compile(model, backend="aot_eager")
train(compiled)
with profile(on_trace_ready=trace_handler("traces"), **options()) as prof:
    for _ in range(2):
        train(compiled)
        prof.step()
""",
    )
    (trace,) = (tmp_path / "traces").rglob("*.json.gz")
    assert any("CompiledFunction" in row.get("name", "") for row in document(trace)["traceEvents"])
    assert "bound by host time" in said


def test_two_ranks_leave_a_folder_that_is_a_job(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
parallel = torch.nn.parallel.DistributedDataParallel(model)
with profile(schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
             on_trace_ready=trace_handler("traces", report=True), **options()) as prof:
    for _ in range(6):
        if dist.get_rank() == 1:
            with torch.profiler.record_function("slow input"):
                time.sleep(0.05)
        train(parallel)
        prof.step()
dist.destroy_process_group()
"""
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING + program], cwd=tmp_path, env=environment(**env, RANK=str(rank)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    folder = tmp_path / "traces" / "step-5"
    assert files_in(tmp_path / "traces") == ["step-5/rank-0.html", "step-5/rank-0.json.gz", "step-5/rank-1.json.gz"]
    assert [document(folder / f"rank-{rank}.json.gz")["distributedInfo"]["rank"] for rank in range(2)] == [0, 1]
    assert re.search(r"All 2 ranks: hta-graph stragglers .*step-5\n$", said[0][0])
    assert said[1][0] == ""
    assert sorted(found.trace.rank or 0 for found in hg.read_graphs(folder)) == [0, 1]
    found = json.loads(command("stragglers", folder, "--json", "-"))
    first = found["tables"]["stragglers"][0]
    assert first["rank"] == 1
    assert first["wait_caused_ns"] > 50_000_000
    assert found["tables"]["causes"][0]["name"] == "slow input"


def test_the_blocks_of_the_page_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "torch.md").read_text(encoding="utf-8")
    first, notebook = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    given = "loader, batch, inner = range(12), 0, train\ntrain = lambda batch: inner()\n"
    said = trained(tmp_path, given + first + notebook + "print(len(handler.files))\n")
    names = files_in(tmp_path / "traces")
    assert names == ["step-0/rank-0.json.gz", "step-10/rank-0.html", "step-10/rank-0.json.gz"]
    assert "1" in said.splitlines()  # the page is done earlier or later
    assert f"{tmp_path}/traces/step-10/rank-0.html: open it in a browser" in said.splitlines()
