"""Windows of annotations around work that another thread does: where they end, and whose their time is (µs)."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.model import EventKind
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import WindowQuery
from tests.edge_accuracy import read
from tests.simulator import Dialect, Program, Run, SimEvent, ThreadProgram, random_program, simulate, write
from tests.simulator.program import Annotation, Backward, Body, Gap, Statement
from tests.simulator.pytorch_idioms import backward, forward, optimizer, step, watchdog
from tests.simulator.rewriting import Around, rewritten
from tests.simulator.run import ACTIVITIES
from tests.support.command_line import command_json
from tests.support.deep_tests import deep
from tests.support.invariants import check_path, check_replay
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

US = 1_000
ENGINE = "autograd::engine::evaluate_function: MulBackward0"


def backward_pass() -> TraceBuilder:
    """An annotation around a backward pass: all that happens in it happens on the engine's thread 2.

    µs        0     10        30           60           90  100      110  120
    thread 1  [mul ]    (bwd                              )       [add   ]
    thread 2              [engine: launch][engine        ]
    stream 7                   [=k=]
    """
    trace = TraceBuilder()
    for index in range(4):
        trace.op("aten::mul", 2 * index, 2 * index + 2)
    trace.annotation("bwd", 15, 100)
    trace.op(ENGINE, 30, 60, tid=2)
    trace.launch("k", (40, 45), (50, 55), 1, tid=2)
    trace.op(ENGINE, 62, 90, tid=2)
    trace.op("aten::add", 110, 120)
    trace.op("aten::add", 120, 130)
    return trace


def segments(path: hg.CriticalPath) -> list[tuple[float, float, str, Any]]:
    columns = path.segments[["start_ns", "end_ns", "bound_by", "name"]]
    base = int(path.graph.event_table.start.min())
    return [
        ((start - base) / US, (end - base) / US, bound, None if pd.isna(name) else name)
        for start, end, bound, name in columns.itertuples(index=False, name=None)
    ]


# -- by hand -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu_window", [False, True])
@pytest.mark.parametrize("name", ["bwd", "ProfilerStep#1"])
def test_a_window_that_ends_inside_a_handoff_follows_the_thread_that_worked(
    tmp_path: Path, name: str, cpu_window: bool
) -> None:
    trace = backward_pass()
    trace.rows = [{**row, "name": row["name"].replace("bwd", name)} for row in trace.rows]
    asked = hg.annotation(name, cpu_window=cpu_window) if name == "bwd" else hg.step(1, cpu_window=cpu_window)
    path = hg.critical_path(trace.graph(tmp_path), asked)
    check_path(path)
    assert segments(path) == [
        (15, 30, "cpu_gap", ENGINE), (30, 40, "cpu_bound", ENGINE), (40, 45, "cpu_bound", "cudaLaunchKernel"),
        (45, 60, "cpu_bound", ENGINE), (60, 62, "cpu_gap", None), (62, 90, "cpu_bound", ENGINE),
        (90, 100, "cpu_gap", name),
    ]  # fmt: skip


def test_the_last_work_is_also_that_of_the_thread_that_worked(tmp_path: Path) -> None:
    trace = backward_pass()
    trace.launch("late", (70, 75), (130, 170), 2, tid=2)
    window = hg.annotation("bwd")(trace.graph(tmp_path))
    assert (window.start_ns, window.end_ns, window.cpu_ns) == (15 * US, 170 * US, 85 * US)


def test_a_window_before_the_handoff_does_not_take_part_in_it(tmp_path: Path) -> None:
    """What ends after the last operator and before the backward pass begins stays on its own thread."""
    trace = backward_pass()
    trace.annotation("fwd", 1, 12)
    trace.annotation("after", 95, 125)
    graph = trace.graph(tmp_path)
    assert segments(hg.critical_path(graph, hg.annotation("fwd")))[-1] == (8, 12, "cpu_gap", "fwd")
    after = hg.annotation("after")(graph)
    assert (after.end_ns, len(after.sink.ends)) == (125 * US, 1)


def test_each_of_two_passes_without_an_operator_between_them_has_its_own_work(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for index in range(4):
        trace.op("aten::mul", 2 * index, 2 * index + 2)
    trace.annotation("first", 10, 30)
    trace.op(ENGINE, 12, 25, tid=2)
    trace.annotation("second", 32, 60)
    trace.op(ENGINE, 35, 50, tid=2)
    trace.launch("k", (40, 45), (50, 90), 1, tid=2)
    trace.op("aten::add", 70, 80)
    graph = trace.graph(tmp_path)
    assert segments(hg.critical_path(graph, hg.annotation("first"))) == [
        (10, 12, "cpu_gap", ENGINE), (12, 25, "cpu_bound", ENGINE), (25, 30, "cpu_gap", "first"),
    ]  # fmt: skip
    assert hg.annotation("second")(graph).end_ns == 90 * US
    assert segments(hg.critical_path(graph, hg.annotation("second", cpu_window=True)))[-2:] == [
        (45, 50, "cpu_bound", ENGINE), (50, 60, "cpu_gap", "second"),
    ]  # fmt: skip


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_pass_that_the_recording_cuts_is_followed_too(tmp_path: Path, cut: str) -> None:
    trace = backward_pass()
    trace.rows = [row for row in trace.rows if row["name"] != {"before": "aten::mul", "after": "aten::add"}[cut]]
    if cut == "before":
        for index in range(3):
            trace.op("aten::add", 130 + 2 * index, 132 + 2 * index)
    path = hg.critical_path(trace.graph(tmp_path), hg.annotation("bwd"))
    check_path(path)
    assert path.by_bound_ns["cpu_bound"] == 58 * US
    assert path.segments.name.tolist()[-1] == "bwd"


def test_what_the_other_thread_does_can_be_gained(tmp_path: Path) -> None:
    """The waiting thread takes as long after the engine as it did: of 85 µs remain 15 + 2 + 10."""
    graph, window = backward_pass().graph(tmp_path), hg.annotation("bwd")
    check_replay(hg.critical_path(graph, window), window)
    free = hg.replay(graph, hg.scale(ENGINE, 0), window)
    assert (free.window.end_ns - free.window.start_ns, free.predicted_ns) == (85 * US, (15 + 2 + 10 + 5) * US)


@pytest.mark.slow
def test_every_command_takes_the_same_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = backward_pass()
    trace.launch("late", (70, 75), (130, 170), 2, tid=2)
    file = trace.write(tmp_path / "trace.json")
    for command in ("critical-path", "what-if", "sync-deps", "idle-time", "roofline", "diff"):
        answer = command_json(capsys, command, *[file] * (1 + (command == "diff")), "--annotation", "bwd")
        for scope in answer.get("scopes", [answer]):
            window = scope["window"]
            assert (window["start_ns"], window["end_ns"]) == (15 * US, 170 * US), command


def test_of_threads_without_autograd_the_one_that_gets_work_first_works_for_the_other() -> None:
    """A graph of another tool's: a pool's thread gets work and gives it back."""
    events = pd.DataFrame({
        "name": ["ask", "work", "use", "note", "work"],
        "lane": ["thread main", "thread pool", "thread main", "thread main", "stream a"],
        "kind": ["cpu_op", "cpu_op", "cpu_op", "annotation", "kernel"],
        "start_ns": [0, 20, 60, 12, 30], "end_ns": [10, 50, 70, 55, 90],
    })  # fmt: skip
    edges = pd.DataFrame({
        "source_index": [0, 1, 1], "source_point": ["end", "end", "start"], "target_index": [1, 2, 4],
        "target_point": ["start"] * 3, "kind": ["thread_handoff", "thread_handoff", "launch"],
    })  # fmt: skip
    graph = hg.from_dataframes(events, edges)
    assert hg.annotation("note")(graph).end_ns == 90
    path = hg.critical_path(graph, hg.annotation("note", cpu_window=True))
    assert path.segments.name.tolist() == ["work", "work", "note"]


# -- on simulated programs ---------------------------------------------------------------------------------------------


def cpu_bound_training(seed: int) -> Program:
    """Steps whose backward pass the host binds: short kernels, hooks between operators, and a watchdog."""
    rng = random.Random(seed)
    layers = rng.randint(1, 6)

    def one(number: int) -> Annotation:
        first = number * layers
        ahead = chain.from_iterable(forward(first + layer, 1_000) for layer in range(layers))
        engine = chain.from_iterable(
            (backward(first + layer, rng.choice((1_000, 3_000))), Gap(rng.randrange(15_000)))
            for layer in reversed(range(layers))
        )
        passed = Annotation("backward", (Gap(rng.randrange(9_000)), Backward(tuple(engine)), Gap(rng.randrange(9_000))))
        return step(number, (*ahead, Gap(rng.randrange(9_000)), passed, *optimizer(2, 1_000)))

    return Program((ThreadProgram(tuple(one(number) for number in range(3))), watchdog(0, 5, 100_000)))


def named(run: Run, name: str) -> list[SimEvent]:
    return sorted((event for event in run.events if event.name == name), key=lambda event: event.start_ns)


def is_engine(event: SimEvent) -> bool:
    return event.name.startswith("autograd::engine")


@pytest.mark.parametrize("seeds", [range(6), deep(range(6, 120))])
def test_the_operators_of_a_simulated_backward_pass_are_its_path(seeds: range) -> None:
    """Where the host binds all the path is in operators exactly as long as one is open on either thread."""
    for seed in seeds:
        run = simulate(cpu_bound_training(seed))
        graph, threads = read(write(run, Dialect())), {event.tid for event in run.events if is_engine(event)}
        for instance, event in enumerate(named(run, "backward")):
            path = hg.critical_path(graph, hg.annotation("backward", instance, cpu_window=True))
            check_path(path)
            rows = [own for own in run.events if own.kind in ("cpu_op", "runtime") and own.tid in {event.tid, *threads}]
            busy = union(*(np.array([[own.start_ns, own.end_ns] for own in rows]).clip(event.start_ns, event.end_ns).T))
            assert path.by_bound_ns["cpu_bound"] == int((busy.end - busy.start).sum()), (seed, instance)
            assert path.by_bound_ns["cpu_bound"] + path.by_bound_ns["cpu_gap"] == event.end_ns - event.start_ns


def annotated(program: Program) -> Program:
    """Put an annotation around each backward pass, and one into each step that begins and ends with it."""

    def change(statement: Statement, _: Around) -> Body:
        if isinstance(statement, Backward):
            return (Annotation("backward", (statement,)),)
        if isinstance(statement, Annotation) and statement.name.startswith("ProfilerStep"):
            return (replace(statement, body=(Annotation("all of it", statement.body, 0),), scope_ns=0),)
        return (statement,)

    return rewritten(program, change)


@pytest.mark.parametrize("seeds", [range(8), deep(range(8, 200))])
def test_the_last_work_of_a_simulated_backward_pass_is_that_of_both_threads(seeds: range) -> None:
    on_gpu = 0
    for seed in seeds:
        run = simulate(annotated(random_program(seed, "pytorch", 150)))
        graph, threads = read(write(run, Dialect())), {event.tid for event in run.events if is_engine(event)}
        ahead = int(graph.event_table.start.min()) - min(event.start_ns for event in run.events)
        for instance, event in enumerate(named(run, "backward")):
            window = hg.annotation("backward", instance)(graph)
            launched = {
                call.correlation
                for call in run.events
                if call.kind == "runtime" and call.tid in {event.tid, *threads}
                and event.start_ns <= call.start_ns < event.end_ns
            }  # fmt: skip
            ends = [own.end_ns for own in run.events if own.kind in ACTIVITIES and own.correlation in launched]
            assert window.end_ns - ahead == max([event.end_ns, *ends]), (seed, instance)
            on_gpu += window.end_ns - ahead > event.end_ns
    assert on_gpu


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seeds", [range(3), deep(range(3, 120))])
@pytest.mark.parametrize("cpu_window", [False, True])
def test_an_annotation_that_spans_a_step_has_the_steps_answer(seeds: range, cpu_window: bool) -> None:
    for seed in seeds:
        graph = read(write(simulate(annotated(random_program(seed, "pytorch", 150))), Dialect()))
        for place, item in enumerate(graph.steps()):
            same_answer(
                graph, hg.step(item.number, cpu_window=cpu_window),
                hg.annotation("all of it", place, cpu_window=cpu_window),
            )  # fmt: skip


def same_answer(graph: hg.DependencyGraph, one: WindowQuery, other: WindowQuery) -> None:
    paths = [hg.critical_path(graph, window) for window in (one, other)]
    assert paths[0].window.sink == paths[1].window.sink
    pd.testing.assert_frame_equal(paths[0].segments, paths[1].segments)
    predicted = {hg.replay(graph, hg.scale("class:cpu_bound", 0.5), window).predicted_ns for window in (one, other)}
    assert len(predicted) == 1


# -- on real traces ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("instance", range(3))
def test_a_real_backward_pass_is_in_operators_as_long_as_one_is_open(instance: int) -> None:
    """Every one of three passes on an A100: the host binds it, and all but a few launches are the engine's."""
    graph = graph_of_file(SHARED / "traces" / "nccl_args_a100" / "rank0.json.gz")
    path = hg.critical_path(graph, hg.annotation("## backward ##", instance))
    check_path(path)
    events, window = graph.event_table, path.window
    rows = np.flatnonzero(np.isin(events.kind, (EventKind.CPU_OP, EventKind.RUNTIME)))
    busy = union(*(column[rows].clip(window.start_ns, window.end_ns) for column in (events.start, events.end)))
    open_ns = int((busy.end - busy.start).sum())
    # A call of a watchdog counts as open, too, and so does what overlaps the waiting thread's last operator.
    assert abs(path.by_bound_ns["cpu_bound"] - open_ns) < 0.001 * open_ns
    assert path.by_bound_ns["cpu_bound"] > 0.8 * (window.end_ns - window.start_ns)


@pytest.mark.shared
def test_a_reported_backward_pass_has_its_operators() -> None:
    graph = graph_of_file(SHARED / "reported" / "backward_annotation_path.json")
    for instance in range(3):
        path = hg.critical_path(graph, hg.annotation("bwd", instance))
        found = {bound: time for bound, time in path.by_bound_ns.items() if time}
        assert found == {"cpu_bound": 1_450 * US, "cpu_gap": 150 * US}
