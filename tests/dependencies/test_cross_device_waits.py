"""A stream that is told to wait for its own number waits for another device's stream of that number."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.dependencies import wait_resolution
from tests.simulator import Dialect, Program, Run, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.program import Launch, Record, Stream, ThreadProgram, Wait
from tests.support.make_samples import split_run
from tests.support.trace_builder import TraceBuilder, edges

FIRST, SECOND, THIRD = (Stream(7, device) for device in range(3))


def graph_of(run: Run, folder: Path, sync_rows: str = "resolved") -> tuple[hg.DependencyGraph, set[tuple[int, int]]]:
    """Write a run; return its graph, and the waits between streams that really were, by the rows' numbers."""
    written = write(run, Dialect(sync_rows=sync_rows))  # type: ignore[arg-type]
    path = folder / "trace.json"
    path.write_bytes(to_bytes(written.document))
    true = {(one.source, one.target) for one in written.constraints if one.kind == "event_wait"}
    numbered = {(written.index_of[source], written.index_of[target]) for source, target in true}
    return hg.build_graph(hg.read_trace(path)), numbered


def waits_in(graph: hg.DependencyGraph) -> set[tuple[int, int]]:
    return {(source, target) for _, source, _, target, _ in edges(graph, "event_wait")}


def test_a_model_split_over_two_devices_has_all_its_waits(tmp_path: Path) -> None:
    graph, true = graph_of(split_run(), tmp_path)
    assert true
    assert waits_in(graph) == true
    assert set(graph.edges[graph.edges.kind == "event_wait"].evidence) == {"inferred"}


def test_the_answer_is_the_same_when_tables_of_waits_and_streams_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be very many of both; then some waits at a time are looked at."""
    monkeypatch.setattr(wait_resolution, "CELLS", 1)
    graph, true = graph_of(split_run(), tmp_path)
    assert waits_in(graph) == true


def test_a_stream_without_work_of_its_own_names_the_only_device_that_has_that_number(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 4), (10, 40), 1)
    trace.call("cudaEventRecord", 5, 6, 2)
    trace.call("cudaStreamWaitEvent", 7, 8, 3)
    trace.sync_row("Stream Wait Event", 7.1, 8, 3, stream=7, device=1, wait_on_stream=7, record=2)
    trace.launch("b", (10, 14), (41, 50), 4, device=1)
    ((source, target),) = waits_in(trace.graph(tmp_path))
    names = trace.graph(tmp_path).events.set_index("event_index").name
    assert (names[source], names[target]) == ("a", "b")


def test_every_nanosecond_of_its_step_has_a_cause(tmp_path: Path) -> None:
    graph, _ = graph_of(split_run(), tmp_path)
    assert hg.critical_path(graph, hg.step(2)).coverage == 1


def test_of_several_devices_it_is_the_one_whose_work_ended_just_before(tmp_path: Path) -> None:
    body = (
        Launch(FIRST, 900_000), Launch(SECOND, 300_000), Launch(THIRD, 20_000), Record(1, SECOND),
        Wait(THIRD, 1), Launch(THIRD, 5_000, "held"),
    )  # fmt: skip
    run = simulate(Program((ThreadProgram(body),)))
    graph, true = graph_of(run, tmp_path)
    assert len(true) == 1
    assert waits_in(graph) == true


def test_work_that_ends_later_was_not_waited_for(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 4), (10, 900), 1)
    trace.call("cudaEventRecord", 5, 6, 2)
    trace.call("cudaStreamWaitEvent", 7, 8, 3)
    trace.sync_row("Stream Wait Event", 7.1, 8, 3, stream=7, device=1, wait_on_stream=7, record=2)
    trace.launch("b", (10, 14), (20, 30), 4, device=1)
    assert waits_in(trace.graph(tmp_path)) == set()


def test_on_one_device_a_stream_that_names_itself_waits_for_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 4), (10, 20), 1)
    trace.call("cudaEventRecord", 5, 6, 2)
    trace.call("cudaStreamWaitEvent", 7, 8, 3)
    trace.sync_row("Stream Wait Event", 7.1, 8, 3, stream=7, wait_on_stream=7, record=2)
    trace.launch("b", (10, 14), (21, 30), 4)
    assert waits_in(trace.graph(tmp_path)) == set()


def test_a_copy_between_devices_holds_both_sides(tmp_path: Path) -> None:
    body = (
        Launch(FIRST, 50_000),
        Launch(SECOND, 200_000),
        *pytorch_idioms.across(1, FIRST, SECOND, 30_000),
        Launch(SECOND, 9_000),
    )
    graph, true = graph_of(simulate(Program((ThreadProgram(body),))), tmp_path)
    assert len(true) == 2
    assert waits_in(graph) == true
