"""Simulated inference engines: what they compute is what the requests need, and their files are read."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.model import EventKind
from tests.simulator.serving import BUCKETS, ENGINES, TOKEN_BUDGET, ServingFault, ServingShape, planned_steps, serve


@pytest.mark.parametrize("engine", ENGINES)
def test_steps_keep_to_the_token_budget_and_to_the_sizes_of_graphs(engine: str) -> None:
    steps = planned_steps(ServingShape(engine, seed=1))  # type: ignore[arg-type]
    assert {step.phase for step in steps} == {"prefill", "decode"} | ({"mixed"} if engine == "vllm" else set())
    for step in steps:
        assert step.tokens <= TOKEN_BUDGET + step.requests
        assert step.padded is None or (step.padded in BUCKETS and step.padded >= step.requests == step.tokens)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ranks", [1, 2])
def test_files_hold_what_was_done(tmp_path: Path, engine: str, ranks: int) -> None:
    served = serve(ServingShape(engine, ranks, requests=3, waits_in_thread=True))  # type: ignore[arg-type]
    for path in served.record(tmp_path).paths:
        trace = hg.read_trace(path)
        on_cpu = trace.events.take(trace.events.kind == EventKind.ANNOTATION)
        names = [trace.names[code] for code in on_cpu.name[on_cpu.start.argsort(kind="stable")].tolist()]
        planned = [step.name for step in served.steps]
        assert [name for name in names if name in planned] == planned
        assert names.count("nccl:all_reduce") == (3 * len(served.steps) if ranks > 1 else 0)


def test_a_fault_makes_each_step_longer() -> None:
    usual, slow = serve(ServingShape()), serve(ServingShape(fault=ServingFault("scheduler", 2_000_000)))
    ends = [max(event.end_ns for event in served.job.runs[0].events) for served in (usual, slow)]
    assert len(usual.steps) == len(slow.steps)
    assert ends[1] - ends[0] > 1_500_000 * len(usual.steps)
