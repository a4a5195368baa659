"""Iterations are replayed together with those before: what that predicts, and what a run with the change takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.windows import earlier_iterations, step_lengths
from hta_graph.what_if.bounds import priced_window
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.opportunities import savings_of
from hta_graph.what_if.replay import replay_graph
from tests.advice_accuracy import CHANGES, changed, graph_of_run
from tests.simulator import Program, random_program
from tests.simulator.program import Launch, Op, SyncDevice, ThreadProgram
from tests.simulator.pytorch_idioms import COMPUTE, finish, load_data
from tests.simulator.pytorch_idioms import step as profiler_step
from tests.support.make_samples import PLAIN, SLOWER, STEPS, Script, training_step
from tests.support.trace_builder import TraceBuilder

US = 1_000
SCENARIOS = {"data_loading_exposed": "data_loading_free", "exposed_communication": "communication_free"}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def iterations(graph: DependencyGraph) -> list[int]:
    return [one.iteration_ns for one in step_lengths(graph)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", [PLAIN, SLOWER])
@pytest.mark.parametrize("rule", sorted(SCENARIOS))
def test_the_bundled_programs_gain_in_each_iteration_what_is_predicted(script: Script, rule: str) -> None:
    """Their all-reduce is not awaited, so that loading is hidden by nothing, and communication hides nothing."""
    program = Program((ThreadProgram((*(training_step(number, script) for number in STEPS), *finish())),))
    graph, after = graph_of_run(program), graph_of_run(changed(program, CHANGES[rule]))
    change = hg.scenario(SCENARIOS[rule])
    predicted = [hg.replay(graph, change, hg.step(number, gpu_window=True)).saved_ns for number in STEPS]
    gained = np.subtract(iterations(graph), iterations(after))
    # The loader's own operator takes 600 ns more than its loading.
    assert np.abs(gained - predicted).max() <= 600


def three_steps() -> TraceBuilder:
    """Each step loads for 50 µs while the all-reduce of the step before, which nothing awaits, still runs.

    µs          0           50     60         100    180 190      200
    thread      [step N load ][launch]..........[launch ][step N+1 …
    stream 7                         [gemm 35  ]
    stream 20   =====]                                   [all-reduce 50 …
    """
    trace = TraceBuilder()
    for number in range(3):
        at = 200 * number
        trace.annotation(f"ProfilerStep#{number + 1}", at, at + 200)
        trace.op(LOADER, at, at + 50)
        trace.launch("gemm", (at + 50, at + 58), (at + 65, at + 100), 10 * number + 1)
        trace.launch("ncclDevKernel_AllReduce", (at + 180, at + 188), (at + 195, at + 245), 10 * number + 2, stream=20)
    return trace


def test_what_ended_before_an_iteration_began_shortens_it_if_it_is_of_each_step(tmp_path: Path) -> None:
    graph, window = three_steps().graph(tmp_path), hg.step(3, gpu_window=True)
    free = hg.replay(graph, hg.scenario("data_loading_free"), window)
    assert (free.measured_ns, free.identity_ns, free.predicted_ns) == (200 * US, 200 * US, 150 * US)
    assert sum(free.path_after.by_bound_ns.values()) == 150 * US
    assert sum(free.path_before.by_bound_ns.values()) == 200 * US
    assert free.path_before.by_bound_ns == hg.critical_path(graph, window).by_bound_ns
    assert hg.replay(graph, hg.scenario("communication_free"), window).saved_ns == 0, "every step ends as much sooner"


def test_the_first_iteration_has_none_before_it(tmp_path: Path) -> None:
    graph = three_steps().graph(tmp_path)
    found = [earlier_iterations(graph, hg.step(number, gpu_window=True)(graph)) for number in (1, 2, 3)]
    began = int(graph.event_table.start.min())
    spans = [one and (one.start_ns - began, one.end_ns - began) for one in found]
    assert spans == [None, (0, 245 * US), (0, 445 * US)]
    others = (hg.step(2), hg.step(2, cpu_window=True), hg.whole(), hg.between(0, 10**18))
    assert [earlier_iterations(graph, window(graph)) for window in others] == [None] * 4


def test_an_iteration_starts_when_the_last_work_of_all_earlier_steps_ends(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number, ends in enumerate((150, 140, 250)):
        trace.annotation(f"ProfilerStep#{number + 1}", 50 * number, 50 * number + 50)
        begins = 50 * number
        trace.launch("gemm", (begins, begins + 8), (begins + 10, ends), number + 1, stream=7 + number)
    graph = trace.graph(tmp_path)
    query = hg.step(3, gpu_window=True)
    window = query(graph)
    assert window.start_ns == int(graph.event_table.start.min()) + 150 * US
    earlier = earlier_iterations(graph, window)
    assert earlier is not None
    assert (earlier.start_ns, earlier.end_ns) == (int(graph.event_table.start.min()), window.start_ns)
    halved = hg.replay(graph, hg.scale("kernel:gemm", 0.5), query)
    # It ends after 180 µs instead of 250, and of the earlier ones the second step's kernel is now the last, after 100.
    assert halved.predicted_ns == 80 * US


@pytest.mark.parametrize("seed", [112, 60])
def test_what_changes_several_iterations_before_shifts_the_start_too(seed: int) -> None:
    """The host is ahead of the GPU by more than a step: what the GPU does in one was launched in those before."""
    program = random_program(seed, "pytorch", 400)
    graph, after = graph_of_run(program), graph_of_run(changed(program, CHANGES["exposed_communication"]))
    window = hg.step(hg.critical_path(graph).window.step or 0, gpu_window=True)
    predicted = hg.replay(graph, hg.scenario("communication_free"), window)
    truth = hg.critical_path(after, window).length_ns
    assert predicted.predicted_ns == pytest.approx(truth, rel=0.01)


def test_a_latency_that_begins_where_the_work_before_ends_is_priced_as_an_iteration() -> None:
    body = (*load_data(100_000), Op("aten::mm", (Launch(COMPUTE, 50_000, "gemm"),)), SyncDevice())
    graph = graph_of_run(Program((ThreadProgram(tuple(profiler_step(number, body) for number in range(4))),)))
    latency, iteration = (hg.step(2, gpu_window=gpu_window)(graph) for gpu_window in (False, True))
    assert (latency.start_ns, latency.end_ns) == (iteration.start_ns, iteration.end_ns)
    priced = priced_window(graph, latency)
    assert priced == latency
    assert earlier_iterations(graph, priced) == earlier_iterations(graph, iteration)
    assert earlier_iterations(graph, latency) is None, "which was asked for as a latency"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["pytorch", "experts", "arbitrary"])
def test_lengths_paths_and_curves_agree_for_all_changes(family: str) -> None:
    together = 0
    for seed in range(8):
        graph = graph_of_run(random_program(seed, family, 200))  # type: ignore[arg-type]
        for step in graph.steps():
            try:
                window = hg.step(step.number, gpu_window=True)
                base = replay_graph(graph, window)
            except QueryError:
                continue
            together += base.previous is not None
            same = hg.replay(graph, (), window)
            assert same.predicted_ns == same.measured_ns == same.identity_ns == base.length_ns
            assert np.array_equal(same.times, graph.timeline.times)
            drafts = []
            for name in ("class:cpu_bound", "class:gpu_compute_bound", "class:gpu_communication_bound"):
                try:
                    halved = hg.replay(graph, hg.scale(name, 0.5), window)
                    curve = hg.sensitivity(graph, name, window)
                except QueryError:
                    continue
                assert 0 <= halved.predicted_ns == sum(halved.path_after.by_bound_ns.values())
                assert abs(curve.at(0.5) - halved.predicted_ns) <= 100
                assert curve.corners[0][:2] == (1.0, base.length_ns)
                drafts.append((halved.draft, halved.saved_ns))
            one_by_one = [saved for _, saved in drafts]
            assert (
                savings_of(replay_graph(graph, window), [draft for draft, _ in drafts]).ravel().tolist() == one_by_one
            )
    assert together or family == "arbitrary"


def test_a_draft_without_changes_starts_when_the_one_before_ended(tmp_path: Path) -> None:
    graph = three_steps().graph(tmp_path)
    base = replay_graph(graph, hg.step(3, gpu_window=True))
    draft = ModifiedWindow(base)
    assert base.start_of(base.times[base.ends], draft.tails) == base.window.start_ns
    assert base.end_of(base.times, draft.tails) == base.window.end_ns
