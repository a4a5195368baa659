"""Where a window begins and ends, on traces of a few lines and on simulated programs (times in µs unless said)."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.paths.windows import whole
from tests.edge_accuracy import read
from tests.simulator import Dialect, Program, Run, Stream, ThreadProgram, random_program, simulate, write
from tests.simulator.program import Gap, Launch, Record, SyncDevice
from tests.simulator.pytorch_idioms import watchdog
from tests.simulator.run import ACTIVITIES, WALKABLE
from tests.support.deep_tests import deep
from tests.support.invariants import check_path
from tests.support.trace_builder import TraceBuilder

FEEDS_NOTHING = {"cudaEventQuery", "cudaHostAlloc"}
"""All that a watchdog and a thread that pins memory call."""


def end_of_work(run: Run) -> int:
    """Return when the last activity or row of a thread that does more than poll and allocate ends."""
    names: dict[str, set[str]] = {}
    for event in run.events:
        names.setdefault(event.lane, set()).add(event.name)
    works = [e for e in run.events if e.kind in ACTIVITIES or not names[e.lane] <= FEEDS_NOTHING]
    return max(event.end_ns for event in works if event.kind in WALKABLE)


def path_of(run: Run) -> tuple[hg.CriticalPath, int]:
    """Return the path of the whole trace and the time that the recording adds to all."""
    written = write(run, Dialect())
    graph = read(written)
    path = hg.critical_path(graph, hg.whole())
    check_path(path)
    return path, int(graph.event_table.start.min()) - min(event.start_ns for event in run.events)


def test_a_watchdogs_late_polls_are_not_the_programs_end() -> None:
    body = (Launch(Stream(7), 50_000, "A"), Record(0, Stream(7)), SyncDevice(), Gap(5_000))
    run = simulate(Program((ThreadProgram(body), watchdog(0, 9, 100_000))))
    path, base = path_of(run)
    assert path.window.end_ns - base == end_of_work(run)
    late = [event for event in run.events if event.start_ns >= end_of_work(run)]
    assert {event.name for event in late} == {"cudaEventQuery"}
    # Every poll has its record of synchronisation beside it.
    assert path.window.rows_after == 2 * len(late) > 10
    assert path.window.after_ns == max(event.end_ns for event in late) - end_of_work(run)
    assert path.coverage == 1.0


@pytest.mark.parametrize("seeds", [range(6), deep(range(6, 400))])
def test_the_whole_ends_where_the_work_of_a_simulated_program_ends(seeds: range) -> None:
    trimmed = 0
    for seed in seeds:
        run = simulate(random_program(seed, "pytorch", 150))
        path, base = path_of(run)
        assert path.window.end_ns - base == end_of_work(run), seed
        assert path.window.start_ns - base == min(e.start_ns for e in run.events if e.kind in WALKABLE), seed
        trimmed += path.window.rows_after > 0
    assert trimmed > len(seeds) // 10


def test_only_the_end_is_trimmed_and_no_path_takes_every_row(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("setup", 0, 90)
    trace.call("cudaEventQuery", 5, 6, tid=2)
    trace.launch("gemm", (20, 24), (30, 70), 1)
    trace.call("cudaStreamSynchronize", 30, 72, 2)
    trace.call("cudaEventQuery", 200, 210, tid=2)
    graph = trace.graph(tmp_path)
    asked, every = whole()(graph), whole(all_rows=True)(graph)
    assert (asked.start_ns, asked.end_ns, asked.rows_after, asked.after_ns) == (5_000, 72_000, 1, 138_000)
    assert (every.start_ns, every.end_ns, every.rows_after) == (0, 210_000, 0)
    assert len(hg.sync_dependencies(graph, hg.whole())) == len(hg.sync_dependencies(graph)) == 1


def test_a_trace_without_points_is_taken_as_it_is(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.frame("main", 0, 50)
    path = hg.critical_path(trace.graph(tmp_path), hg.whole())
    assert (path.window.start_ns, path.window.end_ns, path.window.rows_after) == (0, 50_000, 0)


def test_an_annotation_is_meant_by_its_whole_name_and_an_expression_by_what_it_matches(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, name in enumerate(["eval", "eval (1)", "an eval"]):
        trace.annotation(name, 100 * at, 100 * at + 50)
    graph = hg.build_graph(hg.read_trace(trace.write(tmp_path / "t.json")))
    start = graph.event_table.start.min()
    begun = [hg.annotation(name)(graph).start_ns - start for name in ("eval", "eval (1)", "an eval")]
    assert begun == [0, 100_000, 200_000]
    assert hg.annotation(r"an e\w+", regex=True)(graph).start_ns - start == 200_000
    for name in ("eva", "eval .1.", "EVAL"):
        with pytest.raises(QueryError, match="there is no"):
            hg.annotation(name)(graph)
