"""Graph launches as steps where nothing names any: found exactly, and never where something else is meant."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.paths.engine_step_table import engine_step_table
from tests.support.command_line import command_json, run_command
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

LIGHTEST = 5


class Decoder:
    """An engine that names no step: for each step inputs are copied, graphs launched, tokens read (times in µs)."""

    def __init__(self, seed: int = 0, ahead: int = 0) -> None:
        self.trace = TraceBuilder()
        self.rng = random.Random(seed)
        self.ahead = ahead
        self.host = self.gpu = 0.0
        self.number = 0
        self.ends: list[float] = []

    def call(self, name: str, length: float, work: list[tuple[str, float]]) -> None:
        self.number += 1
        self.trace.call(name, self.host, self.host + length, self.number)
        self.gpu = max(self.gpu, self.host + length + 1)
        for kernel, ns in work:
            self.trace.kernel(kernel, self.gpu, self.gpu + ns, self.number)
            self.gpu += ns + 1
        self.host += length + 1

    def wait(self, until: float) -> None:
        until = max(until + 2, self.host + 2)
        self.trace.call("cudaStreamSynchronize", self.host, until)
        self.host = until

    def step(self, graphs: list[str], *, eager: float = 0, waits_inside: bool = False) -> None:
        """Run a step of some graphs, whose kernels have the graph's name, after eager work of some length."""
        self.host += self.rng.uniform(5, 40)
        self.call("cudaMemcpyAsync", 2, [("copy_input", 3)])
        if eager:
            self.call("cudaLaunchKernel", 3, [("prefill", eager)])
        for graph in graphs:
            nodes = self.rng.randint(LIGHTEST, 9) if graph == "bucket" else 6
            self.call("cudaGraphLaunch", 8, [(graph, self.rng.uniform(8, 12)) for _ in range(nodes)])
            if waits_inside:
                self.wait(self.gpu)
        self.call("cudaLaunchKernel", 3, [("sample", 2)])
        self.ends.append(self.gpu - 1)
        if len(self.ends) > self.ahead:
            self.wait(self.ends[-1 - self.ahead])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_each_graph_launch_is_a_step(tmp_path: Path, ahead: int, seed: int) -> None:
    engine = Decoder(seed, ahead)
    for _ in range(12):
        engine.step(["bucket"])
    rows = engine_step_table(engine.trace.graph(tmp_path))
    assert [(row.phase, row.graph_launches, row.engine.requests) for row in rows] == [("graph", 1, None)] * 12
    # Ahead of the first wait there is no boundary but the launch: inputs of the second step count to the first.
    assert [row.gpu_end_ns for row in rows[ahead:]] == [round(end * 1_000) for end in engine.ends[ahead:]]
    assert all(row.activities == row.activities_in_graphs + 2 for row in rows[1 + ahead :])


def test_the_answer_says_why_these_are_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Decoder()
    for _ in range(5):
        engine.step(["bucket"])
    path = engine.trace.write(tmp_path / "t.json")
    _, out, _ = run_command(capsys, "critical-path", path)
    assert out.startswith("5 steps of 1 graph launch: ")
    assert "No annotation names a step: each graph launch is taken as one" in " ".join(out.split())
    assert command_json(capsys, "serving", path)["tables"]["engine_steps"][0]["phase"] == "graph"
    _, out, _ = run_command(capsys, "critical-path", path, "--step", "3")
    assert out.startswith("graph step 3")


def test_the_only_graph_launch_of_a_recording_is_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Decoder()
    engine.step(["bucket"])
    _, out, _ = run_command(capsys, "critical-path", engine.trace.write(tmp_path / "t.json"))
    assert "the only graph launch is taken as one" in " ".join(out.split())


def pieces() -> Decoder:
    engine = Decoder()
    for _ in range(6):
        engine.step(["first", "layer", "layer", "last"])
    return engine


def one_step_of_pieces() -> Decoder:
    engine = Decoder()
    engine.step(["first", *["layer"] * 8, "last"])
    return engine


def two_steps_of_pieces() -> Decoder:
    engine = Decoder(ahead=1)
    engine.step(["bucket", "bucket"])
    engine.step(["bucket", "bucket"])
    return engine


def pieces_with_waits() -> Decoder:
    engine = Decoder()
    for _ in range(6):
        engine.step(["first", "layer", "last"], waits_inside=True)
    return engine


def mostly_eager() -> Decoder:
    engine = Decoder()
    for _ in range(6):
        engine.step(["bucket"], eager=300)
    return engine


def without_graphs() -> Decoder:
    engine = Decoder()
    for _ in range(6):
        engine.step([], eager=100)
    return engine


def in_profiler_steps() -> Decoder:
    engine = Decoder()
    for number in range(6):
        start = engine.host
        engine.step(["bucket"])
        engine.trace.annotation(f"ProfilerStep#{number}", start, engine.host)
    return engine


def in_named_steps() -> Decoder:
    engine = Decoder()
    for _ in range(6):
        start = engine.host
        engine.step(["bucket"])
        engine.trace.annotation("execute_context_0(0)_generation_4(4)", start, engine.host)
    return engine


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "made",
    [
        pieces,
        one_step_of_pieces,
        two_steps_of_pieces,
        pieces_with_waits,
        mostly_eager,
        without_graphs,
        in_profiler_steps,
        in_named_steps,
    ],
)
def test_no_graph_launch_is_a_step_otherwise(tmp_path: Path, made: object) -> None:
    assert callable(made)
    steps = made().trace.graph(tmp_path).steps()
    assert not [one for one in steps if one.engine and one.engine.engine == "graph launch"]


def test_where_a_pattern_is_named_graph_launches_are_no_steps(tmp_path: Path) -> None:
    engine = Decoder()
    for _ in range(3):
        engine.step(["bucket"])
    path = str(engine.trace.write(tmp_path / "t.json"))
    (graph,) = hg.read_graphs(path, step_patterns=["turn [0-9]+"])
    assert graph.steps() == []


@pytest.mark.shared
@pytest.mark.parametrize("name", ["sam_compile_cudagraph_a100", "vllm_hipgraph_mi300x"])
def test_real_traces_with_many_graphs_have_no_such_steps(name: str) -> None:
    steps = hg.build_graph(str(SHARED / "traces" / name / "rank0.json.gz")).steps()
    assert not [one for one in steps if one.engine and one.engine.engine == "graph launch"]
