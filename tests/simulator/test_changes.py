"""Programs that are changed take the same time where they are not; windows of runs are those of their traces."""

from __future__ import annotations

import random

import pytest

import hta_graph as hg
from tests.edge_accuracy import read
from tests.replay_accuracy import program_of
from tests.simulator import Dialect, Program, simulate, write
from tests.simulator.changes import OF_ANY, Subject
from tests.simulator.interference import with_interference
from tests.simulator.program import Gap, Launch, Op, Statement, Stream
from tests.simulator.rewriting import Around, rewritten, statements, with_lags
from tests.simulator.window_lengths import step_span, steps_of, whole_span

PROGRAMS = range(4)


def _unchanged(own: Statement, _: Around) -> tuple[Statement, ...]:
    return (own,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_what_is_not_changed_runs_as_before(seed: int) -> None:
    program = program_of(seed)
    assert rewritten(program, _unchanged) == program
    assert simulate(rewritten(program, _unchanged)).events == simulate(program).events


def test_lags_are_drawn_once_and_differ() -> None:
    program = Program.of(*(Launch(Stream(), 1_000) for _ in range(50)))
    lagging = with_lags(program, 1)
    assert lagging == with_lags(program, 1) != with_lags(program, 2)
    lags = {own.latencies.launch for own, _ in statements(lagging) if hasattr(own, "latencies")}
    assert len(lags) > 40


@pytest.mark.slow
def test_only_what_lies_in_the_step_is_changed() -> None:
    program = program_of(3)
    step = list(steps_of(simulate(program)))[1]
    subject = Subject({0: program}, step)
    for name, kind in OF_ANY.items():
        edit = kind(subject, random.Random(name))
        if edit is not None:
            before, after = simulate(program), simulate(edit.applied(program, subject))
            start_ns = step_span(before, step)[0]
            assert step_span(after, step)[0] == start_ns
            assert _rows_until(before, start_ns) == _rows_until(after, start_ns)


def _rows_until(run: object, end_ns: int) -> list[tuple[str, int, int]]:
    rows = [(one.name, one.start_ns, one.end_ns) for one in run.events]  # type: ignore[attr-defined]
    return sorted(row for row in rows if row[2] < end_ns)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_spans_are_the_windows_of_the_trace(seed: int) -> None:
    run = simulate(program_of(seed, contended=True, graphs=True))
    graph = read(write(run, Dialect()))
    start_ns, end_ns = whole_span(run)
    whole = hg.whole()(graph)
    assert end_ns - start_ns == whole.end_ns - whole.start_ns
    for number in steps_of(run):
        window = hg.step(number)(graph)
        assert step_span(run, number)[1] - step_span(run, number)[0] == window.end_ns - window.start_ns


def test_kernels_side_by_side_take_longer() -> None:
    program = Program.of(Op("a", (Launch(Stream(7), 100_000), Launch(Stream(20), 100_000))), Gap(1_000))
    lengths = [one.end_ns - one.start_ns for one in with_interference(program).events if one.kind == "kernel"]
    assert all(126_000 < length <= 130_000 for length in lengths)
