"""Command lines that together write every document there is, and the traces that they name."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from analyses.questions.catalogue import CATALOGUE
from hta_graph.chakra.astra_sim_executor import DELAY
from tests.simulator import Dialect
from tests.support.astra_log import Ran, log_text, write_workload
from tests.support.cuda_graph_replay import replayed_graph
from tests.support.fixed_length_steps import recorded
from tests.support.incomplete_traces import broken_off, cpu_only, no_events, only_instants, saved_file, simulated_bytes
from tests.support.job_pairs import DELAY_NS, job_of_steps
from tests.support.large_jobs import generated_job
from tests.support.trace_builder import PID, TraceBuilder
from tests.support.two_rank_job import small_job

__all__ = ["QUESTIONS", "asked_of", "every_command_line", "written_inputs"]

QUESTIONS = (
    "info",
    "graph",
    "sync-deps",
    "critical-path",
    "critical-path --whole",
    "critical-path --per-step",
    "critical-path --merge-runs",
    "what-if",
    "report",
    *(one.name for one in CATALOGUE if one.name != "kernel-sequences"),
    "kernel-sequences --operator aten::",
)
"""What can be asked of any trace."""
OF_STEPS = ("critical-path --near 0.2", "what-if --scale class:cpu_bound=0.5 --curve class:cpu_bound --near 0.2")
"""What needs a window with work on its path."""
OWNERS = ("frame", "module", "annotation", "module-class", "activity")
OF_MANY = ("critical-path", "critical-path --per-step", "what-if", "report", "collectives", "stragglers")
"""What skeletons answer."""

OTHERS = """
temporal-breakdown two --per-step
temporal-breakdown two_gpus.json.gz
critical-path odd.json --per-step
roofline job --peaks MI300X
roofline trace.json.gz --peaks MI300X
what-if job --scale kernel:gemm=0.5 --curve kernel:gemm
what-if trace.json.gz --remove kernel:gemm
what-if trace.json.gz --scenario cuda_graphs
what-if job --scenario rank_like_others=2
diff trace.json.gz slower.json.gz
diff trace.json.gz slower.json.gz --step 2
diff trace.json.gz slower.json.gz --whole
diff trace.json.gz amd.json
diff odd.json odd.json
diff control test
diff control test --skeletons always
diff left_out test
gate trace.json.gz slower.json.gz --per-phase
gate trace.json.gz amd.json
gate odd.json odd.json
gate control test
memory-timeline memory.raw.json.gz
memory-timeline earlier.json
critical-path replayed.json --whole
critical-path poor/broken.json --salvage
chakra convert two --output work
chakra check work
chakra check unsound
chakra simulate work
chakra statistics log --workload ran
chakra statistics log
"""
"""What only some traces, or other files, can answer."""

RAN = [
    Ran(1, 0, 20, "aten::mm", on_cpu=True),
    Ran(2, 10, 40, "gemm"),
    Ran(3, 30, 70, "all-reduce", "COMM_COLL_NODE"),
    Ran(4, 40, 50, DELAY),
]
"""A rank's nodes; nobody says what the collective does, so that ASTRA-sim would not run it."""
RAW_MEMORY = [[-1, 1, 100, 0], [50, 2, 5, 4], [60, 3, -5, 4]]


def written_inputs(folder: Path) -> Path:
    """Write the traces and other files into a folder, and return that."""
    _write_bundled(folder)
    generated_job(folder / "mesh", mesh="3d")
    job_of_steps(folder / "control", 1)
    job_of_steps(folder / "test", 3, DELAY_NS)
    for name in ("two", "left_out", "poor", "log"):
        (folder / name).mkdir()
    small_job(folder / "two")
    shutil.copytree(folder / "job", folder / "left_out", dirs_exist_ok=True)
    (folder / "left_out" / "rank_1.json.gz").write_bytes(b"broken")
    for make in (cpu_only, only_instants, no_events, broken_off):
        make(folder / "poor")
    saved_file(folder / "amd.json", simulated_bytes(Dialect(vendor="rocm")))
    _trace_with_older_memory().write(folder / "earlier.json")
    recorded(folder / "odd.json", [100, 100, 900, 100, 100])
    replayed_graph([400.0] * 6).write(folder / "replayed.json")
    saved_file(folder / "memory.raw.json.gz", gzip.compress(json.dumps(RAW_MEMORY).encode()))
    for name in ("ran", "unsound"):
        write_workload(folder / name, [RAN])
    (folder / "log" / "log.log").write_text(log_text([RAN]), encoding="utf-8")
    return folder


def _write_bundled(folder: Path) -> None:
    with as_file(files("analyses") / "sample") as sample:
        shutil.copyfile(sample / "sample_trace.json.gz", folder / "trace.json.gz")
        shutil.copyfile(sample / "slower_trace.json.gz", folder / "slower.json.gz")
        shutil.copyfile(sample / "two_gpus.json.gz", folder / "two_gpus.json.gz")
        shutil.copytree(sample / "four_ranks", folder / "job")


def _trace_with_older_memory() -> TraceBuilder:
    """One allocation of 10 bytes, after which 100 are allocated: nobody saw where the others came from."""
    trace = TraceBuilder()
    known = {"Bytes": 10, "Addr": 1, "Device Type": 1, "Device Id": 0, "Total Allocated": 100, "Total Reserved": 512}
    trace.row(ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=3, args=known)
    return trace


def asked_of(trace: str | Path, *, steps: bool = False) -> Iterator[list[str]]:
    """Yield the command lines that ask everything of a trace or a folder of them."""
    owners = [f"attribution --by {owner}" for owner in OWNERS]
    for words in (*QUESTIONS, *(OF_STEPS if steps else ()), *owners):
        command, *options = words.split()
        yield [command, str(trace), *options]


def every_command_line() -> Iterator[list[str]]:
    """Yield all command lines, which name files of :func:`written_inputs`."""
    for name in ("trace.json.gz", "job"):
        yield from asked_of(name, steps=True)
    for name in ("two", "left_out", "poor/cpu.json", "poor/instants.json", "poor/empty.json"):
        yield from asked_of(name)
    for words in OF_MANY:
        command, *options = words.split()
        yield from ([command, job, *options, "--skeletons", "always"] for job in ("mesh", "left_out"))
    yield from ([command, "mesh"] for command in ("critical-path", "what-if", "report", "stragglers", "collectives"))
    yield from (line.split() for line in OTHERS.strip().splitlines())
