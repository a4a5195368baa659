"""What replay predicts is what re-executed programs do, under every kind of change, on one rank and many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.model import EdgeKind
from hta_graph.what_if.replay_graph import edge_weights
from tests.edge_accuracy import read
from tests.replay_accuracy import PROVEN, Found, figures, of_program, program_of, quantiles
from tests.simulator import Dialect, Program, Stream, simulate, write
from tests.simulator.changes import OF_ANY
from tests.simulator.program import Annotation, Launch
from tests.simulator.pytorch_idioms import pin_memory
from tests.simulator.ranks.job_changes import OF_JOBS
from tests.support.deep_tests import cases, deep

FIRST = 5_000
"""Seeds from here on were never looked at while rules were made."""
MEDIAN, NEARLY_ALL = 0.005, 0.03


def _errors(found: Found) -> tuple[float, float]:
    median, _, nearly_all, _ = quantiles(one.error for predictions in found.values() for one in predictions)
    return median, nearly_all


@pytest.mark.sampled(2)
@pytest.mark.parametrize("programs", [1, deep(cases(40))])
@pytest.mark.parametrize("in_step", [False, True])
def test_programs_do_what_was_predicted(programs: int, *, in_step: bool) -> None:
    seeds = range(FIRST, FIRST + programs)
    found = figures(of_program(program_of(seed), str(seed), in_step=in_step) for seed in seeds)
    median, nearly_all = _errors(found)
    assert median <= MEDIAN
    assert nearly_all <= NEARLY_ALL
    effects = [one.effect for predictions in found.values() for one in predictions]
    assert np.quantile(effects, 0.9) > 5 * NEARLY_ALL
    if not in_step:
        assert found.keys() == OF_ANY.keys()


@pytest.mark.slow
def test_jobs_do_what_was_predicted() -> None:
    found = figures(PROVEN["many ranks, GPUs"](FIRST))
    median, nearly_all = _errors(found)
    assert median <= MEDIAN
    assert nearly_all <= NEARLY_ALL
    assert found.keys() >= OF_JOBS.keys()


@pytest.mark.slow
def test_jobs_on_cpus_do_what_was_predicted() -> None:
    """Of messages no row tells where the transfer ends and its caller goes on."""
    found = figures(PROVEN["many ranks, CPUs"](FIRST))
    told = {kind: predictions for kind, predictions in found.items() if not kind.startswith("communication")}
    median, nearly_all = _errors(told)
    assert median <= MEDIAN
    assert nearly_all <= NEARLY_ALL


# -- the rules that the proof asked for --------------------------------------------------------------------------------


@pytest.mark.slow
def test_nobody_is_tied_to_the_times_of_another_thread_by_a_lock() -> None:
    """A program that waits for locks is predicted like others, though who holds them changes."""
    program = program_of(FIRST)
    for seed in range(FIRST, FIRST + 30):
        program = replace(program_of(seed), threads=(*program_of(seed).threads, pin_memory(60, 25_000)))
        graph = read(write(simulate(program), Dialect()))
        if np.count_nonzero(graph.edge_table.kind == EdgeKind.RUNTIME_LOCK) > 3:
            break
    median, nearly_all = _errors(of_program(program, "locks"))
    assert median <= 2 * MEDIAN
    assert nearly_all <= 2 * NEARLY_ALL
    held = graph.edges_of(EdgeKind.RUNTIME_LOCK)
    replayed = hg.replay(graph, [])
    assert not np.isin(held.row, replayed.draft.base.edges.row).any()
    assert replayed.predicted_ns == replayed.measured_ns


def test_a_launch_bound_what_came_its_usual_time_after_it() -> None:
    """On streams that mostly wait for launches the usual lag between kernels is still that of a stream."""
    graph = read(write(simulate(program_of(29)), Dialect()))
    known, edges = edge_weights(graph), graph.edge_table
    times = graph.timeline.times
    own = known.binds & (edges.kind == EdgeKind.STREAM_ORDER) & (edges.source & 1 == 1)
    lags = times[edges.target[own]] - times[edges.source[own]]
    assert 800 <= np.median(lags) <= 1_200


def test_a_lag_is_judged_by_how_many_times_as_long_as_usual_it_is() -> None:
    """Where kernels are launched about when the stream becomes free, lags of launches do not pass for the stream's."""
    graph = read(write(simulate(program_of(2_036)), Dialect()))
    known, edges = edge_weights(graph), graph.edge_table
    others = ~known.binds & (edges.kind == EdgeKind.STREAM_ORDER) & (edges.source & 1 == 1)
    assert 800 <= np.median(known.weight[others]) <= 1_200


def test_nothing_is_inserted_before_what_an_earlier_step_launched() -> None:
    first = Annotation("ProfilerStep#0", tuple(Launch(Stream(), 100_000, "k") for _ in range(5)))
    second = Annotation("ProfilerStep#1", (Launch(Stream(), 100_000, "k"),))
    graph = read(write(simulate(Program.of(first, second)), Dialect()))
    replayed = hg.replay(graph, hg.insert("kernel:k", 10_000), hg.step(1))
    assert replayed.predicted_ns == replayed.measured_ns + 10_000
