"""What a workload is worth: it takes as long as the program did, and as long as the program would on another GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph.build.from_trace import DependencyRule
from hta_graph.chakra.astra_sim_executor import DELAY, EtProgram, execute
from hta_graph.chakra.check import check
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.rank_workload import RankInput
from tests.simulator import Dialect, Program, random_program, simulate, to_bytes, write
from tests.simulator.program import Copy, GraphNode, Launch, Set
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED

MOST, FEW = 20, 8


@cache
def programs_of_real_depth(number: int) -> list[Program]:
    """Return the first random programs that have the launch queue of a real GPU."""
    programs = (random_program(seed, size=400) for seed in count())
    return list(islice((program for program in programs if program.launch_queue_depth > 1_000), number))


def recorded(program: Program, path: Path, rules: Iterable[DependencyRule] = hg.DEFAULT_RULES) -> hg.DependencyGraph:
    path.write_bytes(to_bytes(write(simulate(program), Dialect(sync_rows="none")).document))
    return hg.build_graph(hg.read_trace(path), rules)


def with_gpu(program: Any, factor: float) -> Any:
    """Return the program with GPU work that takes longer by a factor."""
    if isinstance(program, (Launch, Set, Copy, GraphNode)):
        return replace(program, ns=int(program.ns * factor))
    if isinstance(program, tuple):
        return tuple(with_gpu(item, factor) for item in program)
    if not is_dataclass(program) or isinstance(program, type):
        return program
    parts = {f.name: getattr(program, f.name) for f in fields(program) if isinstance(getattr(program, f.name), tuple)}
    return replace(program, **{name: with_gpu(part, factor) for name, part in parts.items()})


def truth(program: Program, profile: str = "full") -> int:
    """Return how long the program takes until nothing is left to do but poll and pin memory; or for the GPU."""
    run = simulate(program)
    idle = ("cudaEventQuery", "cudaHostAlloc")
    on_gpu = ("kernel", "memcpy", "memset")
    shown = [e for e in run.events if e.kind in (*on_gpu, "cpu_op", "runtime") and e.name not in idle]
    last = [event for event in shown if profile == "full" or event.kind in on_gpu]
    return max(event.end_ns for event in last) - min(event.start_ns for event in shown)


def predicted(graph: hg.DependencyGraph, factor: float, profile: str = "full") -> int:
    """Execute a trace's workload with GPU work that takes longer by a factor; delays stay."""
    with TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        convert([RankInput(0, graph)], work, ConvertOptions(profile=profile, unknown="as-compute", overlap="share"))
        found = EtProgram(0, read_folder(work).files[0])
    program = found.program()
    computes = [not on_cpu and name != DELAY for on_cpu, name in zip(found.on_cpu, found.names, strict=True)]
    scaled = [int(ns * factor) if gpu else ns for ns, gpu in zip(program.duration, computes, strict=True)]
    run = execute({0: replace(program, duration=scaled)}, {})
    assert run.stalled == {0: []}
    return max(run.end[0])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", [*range(FEW), *map(deep, range(FEW, MOST))])
def test_the_replay_takes_as_long_as_the_program(tmp_path: Path, number: int) -> None:
    program = programs_of_real_depth(FEW if number < FEW else MOST)[number]
    assert predicted(recorded(program, tmp_path / "t.json"), 1) == pytest.approx(truth(program), rel=0.002)


@pytest.mark.parametrize("profile", ["full", "gpu"])
@pytest.mark.parametrize(("factor", "programs"), [(0.5, FEW), *(deep(factor, MOST) for factor in (0.25, 0.5, 2, 4))])
@pytest.mark.slow
def test_the_dependencies_tell_how_long_it_would_take_on_another_gpu(
    tmp_path: Path, factor: float, programs: int, profile: str
) -> None:
    """The trace is of one GPU, the truth is of the same program on another: they agree if the waits are right.

    Time that streams share is shared out: one compute slot serialises what a real GPU runs side by side.
    """
    errors = prediction_errors(tmp_path / "t.json", factor, hg.DEFAULT_RULES, programs, profile)
    assert np.mean(errors) < 0.01
    assert np.mean(errors < 0.05) >= 0.95


@pytest.mark.slow
def test_without_the_waits_of_the_cpu_they_would_not(tmp_path: Path) -> None:
    """The same comparison notices when dependencies are missing."""
    waits = ("stream_sync", "device_sync", "event_sync", "blocking_copy", "queue_full")
    rules = [rule for rule in hg.DEFAULT_RULES if rule.__name__ not in waits]
    assert np.mean(prediction_errors(tmp_path / "t.json", 0.5, rules, FEW)) > 0.1


def prediction_errors(
    path: Path, factor: float, rules: Iterable[DependencyRule], programs: int, profile: str = "full"
) -> np.ndarray[Any, Any]:
    errors = []
    for program in programs_of_real_depth(programs):
        graph = recorded(program, path, rules)
        errors.append(abs(predicted(graph, factor, profile) / truth(with_gpu(program, factor), profile) - 1))
    return np.array(errors)


@pytest.mark.parametrize("profile", ["full", "gpu"])
@pytest.mark.parametrize("seed", [1, deep(2), deep(3)])
def test_files_of_random_programs_are_sound(tmp_path: Path, seed: int, profile: str) -> None:
    graph = recorded(random_program(seed, "arbitrary", 400), tmp_path / "t.json")
    convert(
        [RankInput(0, graph)], tmp_path / "work", ConvertOptions(profile=profile, unknown="as-compute", overlap="share")
    )
    result = check(read_folder(tmp_path / "work"))
    assert result.findings == []
    assert result.execution is not None
    assert result.execution.stalled == {0: []}
    program = result.programs[0]
    source, target = program.pairs
    assert (source < target).all()
    assert all(not node.ctrl_deps for node in program.file.nodes())


REAL = {
    "megatron_tp2_v100": (2, ["--host-trace", "host_et_rank0.json.gz", "host_et_rank1.json.gz"]),
    "dlrm_8xv100": (8, ["--host-trace", *(f"host_et_rank{rank}.json.gz" for rank in range(8))]),
    "nanogpt_ddp_8xh100": (8, []),
    "vllm_hipgraph_mi300x": (1, []),
    "sam_compile_cudagraph_a100": (1, []),
}


@pytest.mark.shared
@pytest.mark.parametrize("profile", ["full", "gpu"])
@pytest.mark.parametrize("trace", REAL)
def test_real_traces_become_workloads_that_take_as_long(tmp_path: Path, trace: str, profile: str) -> None:
    ranks, more = REAL[trace]
    folder = SHARED / "traces" / trace
    arguments = [item if item.startswith("--") else str(folder / item) for item in more]
    output = str(tmp_path / "work")
    assert main(["chakra", "convert", str(folder), "-o", output, "--profile", profile, *arguments]) == 0
    result = check(read_folder(output))
    assert result.findings == []
    assert result.execution is not None
    assert len(result.programs) == ranks
    for npu, program in result.programs.items():
        assert result.execution.stalled[npu] == []
        measured = program.file.metadata["measured_nanos"]
        assert max(result.execution.end[npu]) == pytest.approx(measured, rel=0.002 if profile == "full" else 0.02)
