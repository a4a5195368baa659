"""A recorded inference server with faults of known size: ``serving`` names its steps, its phases and the fault."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.answer import Answer
from analyses.declare.scope import whole
from analyses.questions.serving import answer
from hta_graph.paths.engine_gaps import engine_gaps
from hta_graph.paths.engine_step_table import engine_step_table
from tests.support.command_line import run_command

RECORDED = Path(__file__).parent / "recorded_serving"
NAMES = ("base", "base_again", "scheduler", "detokenizer", "sampling", "slow_rank", "long_prefill")
CAUSES = {"scheduler": "scheduler", "detokenizer": "tokenizer", "sampling": "sampling", "slow_rank": "in_step"}
"""What each fault is called."""
CLOCK_NS = 300_000
"""How much later than an annotation begins the program may look at its clock, and sooner before it ends."""


def truth_of(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / name / "truth.json").read_text(encoding="utf-8"))["ranks"]
    return found


@cache
def graphs_of(name: str) -> list[hg.DependencyGraph]:
    return [hg.build_graph(hg.read_trace(RECORDED / name / f"rank{rank}.json.gz")) for rank in range(2)]


def answered(name: str) -> Answer:
    return answer([whole(rank, graph) for rank, graph in enumerate(graphs_of(name))])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_the_program(name: str) -> None:
    steps = answered(name).tables["engine_steps"]
    for rank, truth in enumerate(truth_of(name)):
        own = steps[steps["rank"] == rank]
        said = list(zip(own["phase"], own["requests"], own["tokens"], strict=True))
        assert said == [(one["phase"], one["requests"], one["tokens"]) for one in truth["steps"]]
        lengths = own["latency_ns"].to_numpy(np.int64) - [one["end"] - one["start"] for one in truth["steps"]]
        assert np.abs(lengths).max() < CLOCK_NS


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CAUSES)
def test_the_fault_is_named_first_with_its_size(name: str) -> None:
    found, cause = answered(name), CAUSES[name]
    gaps, steps = found.tables["step_gaps"], found.tables["engine_steps"]
    for rank, truth in enumerate(truth_of(name)):
        numbers = [one["step"] for one in truth["steps"]]
        # A delay after the last step delays none.
        delayed = [one for one in truth["inj"] if one["step"] in numbers]
        own = gaps[gaps["rank"] == rank]
        if delayed:
            assert own["cause"].iloc[0] == cause
            assert own[own["cause"] == cause]["idle_ns"].sum() / 1e6 >= 0.9 * sum(one["ms"] for one in delayed)
            longer = steps[(steps["rank"] == rank) & steps["step"].isin([one["step"] for one in delayed])]
            assert (longer["idle_before_ns"] + longer["idle_inside_ns"]).min() >= 0.8 * 40e6
        else:
            assert name in ("slow_rank", "detokenizer")
    assert f"largest cause of time outside operators: {HEADLINES[name]} (" in found.conclusion[0]


HEADLINES = {
    "scheduler": "the scheduler",
    "detokenizer": "the tokenizer or detokenizer",
    "sampling": "sampling on the CPU",
    "slow_rank": "host code in the step",
}


@pytest.mark.parametrize("name", ["slow_rank", "detokenizer"])
def test_the_delayed_rank_is_named_and_not_the_one_that_waits(name: str) -> None:
    found = answered(name)
    late = next(rank for rank, truth in enumerate(truth_of(name)) if truth["inj"])
    assert f" on rank {late}: " in found.conclusion[0]
    phases = found.tables["engine_phases"]
    decode = phases[phases["phase"] == "decode"]
    bounds = dict(zip(decode["rank"], decode["bound_by"], strict=True))
    assert bounds[late].startswith("host_")
    assert bounds[1 - late] == "exposed_communication"


@pytest.mark.parametrize("name", ["base", "base_again"])
def test_no_part_of_the_engine_is_accused_without_a_fault(name: str) -> None:
    found = answered(name)
    phases, gaps = found.tables["engine_phases"], found.tables["step_gaps"]
    assert not phases["bound_by"].str.startswith("host_").any()
    time = phases["time_ns"].sum() / 2
    parts = gaps[gaps["cause"].isin(CAUSES.values())].groupby(["rank", "cause"])["idle_ns"].sum()
    assert parts.max() < 0.1 * time


def test_a_long_prompt_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered("long_prefill")
    assert "prefill step 4 of batch 1 (1,500 tokens) alone takes " in found.conclusion[0]
    assert found.tables["engine_phases"]["phase"].iloc[0] == "prefill"
    # What is in a job is said in front of every command.
    status, printed, _ = run_command(capsys, "serving", RECORDED / "long_prefill")
    assert (status, printed.splitlines()[0]) == (0, found.conclusion[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_gaps_add_up_to_the_idle_time(name: str) -> None:
    for graph in graphs_of(name):
        table, gaps = engine_step_table(graph), engine_gaps(graph)
        idle: Counter[int] = Counter()
        for step, length in zip(gaps.step.tolist(), gaps.length.tolist(), strict=True):
            idle[step] += length
        assert [idle[at] for at in range(len(table))] == [row.idle_ns for row in table]
        assert all(row.busy_ns + row.idle_ns == row.iteration_ns for row in table)


def test_the_median_step_is_one_of_all_decode_steps(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_command(capsys, "critical-path", RECORDED / "slow_rank")[1]
    assert printed.startswith("rank 1 delays the others by ")
    assert " in every decode step since step 3 (" in printed
    assert "\n6 decode steps of batch 1 to 3: bound by CPU, no operator on rank 1 (" in printed
    assert " is the median of 6 decode steps (10 steps in all)" in printed
