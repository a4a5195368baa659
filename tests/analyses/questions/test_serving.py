"""Serving: steps and phases of simulated engines are right, and what makes them slow is named first."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.declare.answer import Answer, records
from analyses.declare.scope import in_window, per_step, whole
from analyses.display.sentence_format import brief_duration
from analyses.judgement.findings import leading
from analyses.questions.serving import answer, engine_phases, engine_steps, figure, graph_sizes, step_gaps
from hta_graph.paths.engine_gaps import engine_gaps
from hta_graph.paths.engine_step_table import engine_step_table
from tests.simulator.serving import CAUSES, ENGINES, InjectedCause, Served, ServingFault, ServingShape, serve
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

SMALL_JOB = """
# serving / engine_phases
(empty)

# serving / step_gaps
(empty)

# serving / engine_steps
(empty)

# serving / graph_sizes
(empty)
"""

NAMED: dict[InjectedCause, str] = {
    "scheduler": "scheduler",
    "tokenizer": "tokenizer",
    "sampling": "sampling",
    "python": "host_code",
    "no_row": "unrecorded",
}
"""What each injected cause is called; of time without a row nothing can be known."""


def answered(served: Served, folder: Path) -> tuple[Answer, list[hg.DependencyGraph]]:
    graphs = [hg.build_graph(hg.read_trace(path)) for path in served.record(folder).paths]
    return answer([whole(rank, graph) for rank, graph in enumerate(graphs)]), graphs


def drawn(seed: int) -> ServingShape:
    """Draw a server with a fault that is one to ten times the host's usual time between steps."""
    rng = Random(f"served {seed}")
    ranks = rng.choice([1, 2])
    fault = ServingFault(rng.choice(CAUSES), rng.randint(150_000, 1_500_000), rng.choice([None, 0, ranks - 1]))
    return ServingShape(rng.choice(ENGINES), ranks, rng.randint(2, 5), seed, fault, rng.random() < 0.5)


def is_named_first(shape: ServingShape, found: Answer) -> bool:
    """Tell whether most idle time of the rank that is idle longest has the injected cause."""
    gaps = found.tables["step_gaps"]
    rank = gaps.groupby("rank")["idle_ns"].sum().idxmax()
    assert shape.fault is not None
    largest = gaps[gaps["rank"] == rank].groupby("cause")["idle_ns"].sum().idxmax()
    return bool(largest == NAMED[shape.fault.cause])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "count"), [(0, 3), *(deep(at, 30) for at in range(3, 300, 30))])
def test_injected_causes_are_named_first(tmp_path: Path, first: int, count: int) -> None:
    """Of these 303 servers all, with steps and phases of all right."""
    named = []
    for seed in range(first, first + count):
        shape = drawn(seed)
        served = serve(shape)
        found, graphs = answered(served, tmp_path / str(seed))
        steps = found.tables["engine_steps"]
        for rank, graph in enumerate(graphs):
            own = steps[steps["rank"] == rank]
            assert list(zip(own["phase"], own["requests"], own["tokens"], strict=True)) == [
                (step.phase, step.requests, step.tokens) for step in served.steps
            ]
            assert (own["graph_launches"] > 0).tolist() == [step.padded is not None for step in served.steps]
            assert engine_gaps(graph).length.sum() == sum(row.idle_ns for row in engine_step_table(graph))
        named.append(is_named_first(shape, found))
    assert np.mean(named) >= 0.95  # of the 303 servers all


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("engine", "cause"), list(product(ENGINES, CAUSES)))
def test_the_headline_names_phase_and_cause(tmp_path: Path, engine: str, cause: InjectedCause) -> None:
    fault = ServingFault(cause, 3_000_000)
    served = serve(ServingShape(engine, requests=2, fault=fault, waits_in_thread=True))  # type: ignore[arg-type]
    found, _ = answered(served, tmp_path)
    said = found.conclusion[0]
    phase = engine_phase(found)
    count = sum(step.phase == phase for step in served.steps)
    assert said.startswith(f"{count} {phase} step{'s' * (count > 1)} of batch ")
    assert "mostly the host between steps" in said
    expected = {
        "scheduler": "the scheduler",
        "tokenizer": "the tokenizer or detokenizer",
        "sampling": "sampling on the CPU",
        "python": "other host code",
        "no_row": "no recorded cause",
    }
    assert f"largest cause of idle time: {expected[cause]} (" in said


def engine_phase(found: Answer) -> str:
    """Return the phase of the headline's steps."""
    return str(found.main.iloc[0]["phase"])


# -- by hand ----------------------------------------------------------------------------------------------------------


def two_steps() -> TraceBuilder:
    """Make two decoding steps of ATOM; the second one is scheduled while the GPU is idle.

    CPU   |decode|   |schedule|decode|
    GPU      |===|               |===|  |=|
    """
    trace = TraceBuilder()
    trace.annotation("decode[bs=3/4 tok=3]", 0, 10)
    trace.launch("gemm", (2, 4), (10, 30), 1)
    trace.frame("atom/model_engine/scheduler.py(140): schedule", 35, 65)
    trace.annotation("decode[bs=4/4 tok=4]", 70, 90)
    trace.launch("gemm", (75, 77), (80, 100), 2)
    trace.launch("gemm", (85, 87), (110, 120), 3)
    return trace


def test_idle_time_is_divided_by_what_is_open(tmp_path: Path) -> None:
    frame = step_gaps([whole(0, two_steps().graph(tmp_path))])
    assert [list(row.values()) for row in records(frame[["place", "cause", "idle_ns", "name"]])] == [
        ["before", "scheduler", 30_000, "atom/model_engine/scheduler.py(140): schedule"],
        ["inside", "not_started", 10_000, "gemm"],
        ["before", "unrecorded", 10_000, None],
        ["before", "in_step", 5_000, "decode[bs=4/4 tok=4]"],
        ["before", "launching", 5_000, "cudaLaunchKernel"],
    ]
    assert frame["idle_share"].sum() == pytest.approx(1)
    # Before the first step no idle time can be known: what is before the second is by one step, what is inside by two.
    assert frame["per_step_ns"].tolist() == [30_000, 5_000, 10_000, 5_000, 5_000]


def test_steps_have_their_own_work_and_padding(tmp_path: Path) -> None:
    scopes = [whole(0, two_steps().graph(tmp_path))]
    columns = ["step", "phase", "requests", "padded_requests", "iteration_ns", "busy_ns", "idle_before_ns"]
    assert engine_steps(scopes)[[*columns, "idle_inside_ns"]].to_numpy().tolist() == [
        [0, "decode", 3, 4, 20_000, 20_000, 0, 0],
        [1, "decode", 4, 4, 90_000, 30_000, 50_000, 10_000],
    ]
    (phase,) = engine_phases(scopes).to_dict("records")
    # The recording's first iteration has no known begin, so the median is of the others.
    assert (phase["steps"], phase["time_ns"], phase["median_ns"], phase["bound_by"]) == (
        2, 110_000, 90_000, "gpu_compute",
    )  # fmt: skip
    assert (phase["tokens"], phase["tokens_per_s"]) == (7, round(7 / 110e-6))
    (size,) = graph_sizes(scopes).to_dict("records")
    assert (size["padded_requests"], size["steps"], size["requests"], size["padding_share"]) == (4, 2, 7, 1 / 8)


def test_the_median_step_is_that_of_the_critical_path(tmp_path: Path) -> None:
    found, (graph,) = answered(
        serve(ServingShape("sglang", requests=7, seed=5148, fault=ServingFault("tokenizer", 2_500_000))), tmp_path
    )
    window = hg.critical_path(graph).window
    phases, steps = found.tables["engine_phases"], found.tables["engine_steps"].set_index("step")
    assert window.step is not None
    assert phases["median_ns"].iloc[0] == steps.loc[window.step, "iteration_ns"]
    assert f"median {brief_duration(int(phases['median_ns'].iloc[0]))}" in found.conclusion[0]
    # What the largest cause saves in a step is the table's figure: before the first step none of it is known.
    largest = found.tables["step_gaps"].query("phase == 'prefill'").iloc[0]
    assert f"at most {brief_duration(largest['per_step_ns'])} per step on average" in found.conclusion[0]


def test_a_window_has_the_steps_that_start_in_it(tmp_path: Path) -> None:
    graph = two_steps().graph(tmp_path)
    assert engine_steps(per_step(0, graph))["scope"].tolist() == ["decode step 0", "decode step 1"]
    second = [in_window(0, graph, hg.step(1))]
    assert engine_steps(second)["step"].tolist() == [1]
    assert step_gaps(second)["per_step_ns"].tolist() == [30_000, 10_000, 10_000, 5_000, 5_000]


def test_what_other_threads_make_is_named_while_the_engine_waits(tmp_path: Path) -> None:
    trace = two_steps()
    trace.frame("vllm/v1/engine/detokenizer.py(95): update", 65, 70, tid=9)
    trace.frame("vllm/v1/engine/detokenizer.py(20): loop", 0, 120, tid=9)
    frame = step_gaps([whole(0, trace.graph(tmp_path))])
    assert frame[frame["place"] == "before"][["cause", "idle_ns", "name"]].to_numpy().tolist()[:3] == [
        ["scheduler", 30_000, "atom/model_engine/scheduler.py(140): schedule"],
        ["in_step", 5_000, "decode[bs=4/4 tok=4]"],
        ["launching", 5_000, "cudaLaunchKernel"],
    ]
    (row,) = frame[frame["cause"] == "tokenizer"].to_dict("records")
    assert (row["idle_ns"], row["name"]) == (5_000, "vllm/v1/engine/detokenizer.py(95): update")


def test_phases_that_no_engine_names_are_kept_apart(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, phase in enumerate(("sing", "dance", "sing", "dance")):
        trace.annotation(f"turn {phase}", 100 * at, 100 * at + 90)
        trace.launch("gemm", (100 * at + 5, 100 * at + 9), (100 * at + 20, 100 * at + 40), at + 1)
    (graph,) = hg.read_graphs(trace.write(tmp_path / "t.json"), step_patterns=["turn (?P<phase>.*)"])
    gaps = step_gaps([whole(0, graph)])
    assert set(gaps["phase"]) == {"sing", "dance"}


def test_without_steps_the_answer_says_how_to_name_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (2, 4), (10, 30), 1)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert all(isinstance(frame, pd.DataFrame) and frame.empty for frame in found.tables.values())
    assert found.notes[0].startswith("rank 0: the window has no steps of an inference engine; read_graphs(")
    assert not found.conclusion


@pytest.mark.parametrize(
    ("computes_us", "part", "saves"),
    [
        (880, "GPU compute", "step 1: largest cause: GPU compute, 440.0 µs (44%) at 2x speed"),
        (
            180,
            "exposed communication",
            "step 1: largest change: no exposed communication, 790.0 µs (79%), low",
        ),
    ],
)
def test_a_phase_is_led_by_what_the_critical_path_is_led_by(
    tmp_path: Path, computes_us: int, part: str, saves: str
) -> None:
    trace = TraceBuilder()
    for at in range(3):
        begin, ready = 1_000 * at, 1_000 * at + 20 + computes_us
        trace.annotation("step[DECODE bs=4]", begin, begin + 998)
        trace.launch("gemm", (begin + 10, begin + 12), (begin + 20, ready), 2 * at + 1)
        trace.launch("ncclDevKernel_AllReduce", (begin + 14, begin + 16), (ready, begin + 990), 2 * at + 2)
        trace.call("cudaDeviceSynchronize", begin + 20, begin + 995)
    graph = trace.graph(tmp_path)
    (said,) = answer([whole(0, graph)]).conclusion
    assert f"mostly {part}; " in said
    first = leading(PathFacts.of(hg.critical_path(graph)))
    assert first is not None
    assert first.lead in said
    assert saves in said
    assert "largest cause of idle time" not in said


def test_the_figure_has_a_bar_for_each_part_of_each_step(tmp_path: Path) -> None:
    found = answer([whole(0, two_steps().graph(tmp_path))])
    assert [list(bar.y) for bar in figure(found).data] == [[0.02, 0.03], [0, 0], [0, 0.05], [0, 0.01]]
