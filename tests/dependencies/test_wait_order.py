"""Rows of stream waits whose calls are not in the file: the row's own stream, time and record count (times in µs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from tests.edge_accuracy import DIALECTS
from tests.inferred_wait_accuracy import EVENT_CALLS, program_of, rows_only
from tests.simulator import random_program, simulate
from tests.support.trace_builder import TraceBuilder

NO_IDS: dict[str, Any] = {"wait_on_stream": -1, "record": -1}
IDS: dict[str, Any] = {"wait_on_stream": 20, "record": 3}


def forked(at: float = 40, corr: int = 5, *, record: bool = False, ids: dict[str, Any] = IDS) -> TraceBuilder:
    """Streams 7 and 20 work; a row tells stream 7 at 40 µs to wait for the copy that stream 20 held."""
    trace = TraceBuilder()
    trace.launch("before", (0, 5), (10, 20), 1)
    trace.launch("captured", (10, 15), (20, 500), 2, stream=20)
    if record:
        trace.call("cudaEventRecord", 20, 21, 3)
    trace.launch("too late", (25, 30), (500, 900), 4, stream=20)
    trace.sync_row("Stream Wait Event", at, at + 1, corr, stream=7, **ids)
    trace.launch("other thread", (50, 55), (502, 600), 6, tid=2)
    trace.launch("after", (60, 65), (600, 610), 7)
    return trace


def waits(graph: DependencyGraph) -> list[tuple[str, str, str, str]]:
    """Return source, target, evidence and rule of the waits between streams."""
    frame = graph.edges[graph.edges.kind == "event_wait"]
    names = [[graph.event(index)["name"] for index in frame[side]] for side in ("source_index", "target_index")]
    return sorted(zip(*names, frame.evidence, frame.rule.fillna(""), strict=True))


@pytest.mark.parametrize("record", [True, False])
def test_a_row_that_names_its_record_is_a_recorded_wait_without_any_call(record: bool, tmp_path: Path) -> None:
    """The record's number alone tells what was enqueued before it."""
    graph = forked(record=record).graph(tmp_path)
    assert [wait[:3] for wait in waits(graph)] == [("captured", "other thread", "recorded")]
    wanted = {"event_waits": 1, "event_waits_unresolved": 0, "sync_records_without_call": 1}
    assert {key: graph.diagnostics[key] for key in wanted} == wanted
    assert hg.sync_dependencies(graph).query("direction == 'gpu_to_gpu'").sync_index.isna().all()
    hg.critical_path(graph, hg.whole()).self_check()


def test_a_row_stands_where_its_time_is(tmp_path: Path) -> None:
    assert [wait[1] for wait in waits(forked(at=57).graph(tmp_path))] == ["after"]
    assert [wait[1] for wait in waits(forked(at=50).graph(tmp_path))] == ["other thread"]
    assert waits(forked(at=70).graph(tmp_path)) == []


@pytest.mark.parametrize("at", [18, 20])
def test_a_record_of_a_later_use_of_the_event_is_not_believed_but_the_wait_is(at: float, tmp_path: Path) -> None:
    """A record that begins with the row was issued before it, a later one was not: then timing tells what was."""
    evidence = "recorded" if at == 20 else "inferred"
    assert [wait[:3] for wait in waits(forked(at=at, record=True).graph(tmp_path))] == [
        ("captured", "other thread", evidence)
    ]
    assert waits(forked(corr=2).graph(tmp_path)) == []


def test_one_row_of_a_later_use_leaves_the_others_their_word(tmp_path: Path) -> None:
    """Stream 20 waits for the first product, and its row names the second: Kineto keeps an event's latest record."""
    trace = TraceBuilder()
    trace.launch("gemm_a", (0, 5), (10, 310), 1)
    trace.call("cudaEventRecord", 6, 7, 2)
    trace.call("cudaStreamWaitEvent", 8, 9, 3)
    trace.launch("side", (10, 15), (312, 600), 4, stream=20)
    trace.launch("gemm_b", (16, 20), (312, 500), 5)
    trace.call("cudaEventRecord", 21, 22, 6)
    trace.call("cudaStreamWaitEvent", 23, 24, 7)
    trace.launch("nameless", (25, 30), (602, 700), 8, stream=20)
    trace.sync_row("Stream Wait Event", 8, 9, 3, stream=20, wait_on_stream=7, record=6)
    trace.sync_row("Stream Wait Event", 23, 24, 7, stream=20, wait_on_stream=-1, record=-1)
    assert [wait[:3] for wait in waits(trace.graph(tmp_path))] == [("gemm_a", "side", "inferred")]


def test_a_record_older_than_the_file_is_not_placed(tmp_path: Path) -> None:
    graph = forked(ids={"wait_on_stream": 20, "record": 0}).graph(tmp_path)
    assert [wait for wait in waits(graph) if wait[2] == "recorded"] == []


def test_a_row_of_a_stream_without_work_holds_back_nothing(tmp_path: Path) -> None:
    trace = forked(ids={"wait_on_stream": 33, "record": 3})
    graph = trace.graph(tmp_path)
    assert waits(graph) == []
    assert graph.diagnostics["event_waits_for_nothing"] == 1


def held(until: float, launched: float = 50) -> TraceBuilder:
    """A row without ids, and work that goes on some µs after another stream's work ended at 500 µs."""
    trace = TraceBuilder()
    trace.launch("first", (0, 5), (10, 20), 1)
    trace.launch("nccl", (10, 15), (20, 500), 2, stream=20)
    trace.sync_row("Stream Wait Event", 40, 41, 5, stream=7, **NO_IDS)
    trace.launch("gemm", (launched, launched + 5), (until, until + 50), 6)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("until", "launched", "found"),
    [
        pytest.param(503, 50, True, id="right after the other stream's work"),
        pytest.param(530, 50, False, id="long after it"),
        pytest.param(503, 490, False, id="as soon as it was launched"),
        pytest.param(60, 50, False, id="while it runs"),
    ],
)
def test_a_row_without_ids_is_resolved_by_timing_alone(
    until: float, launched: float, found: bool, tmp_path: Path
) -> None:
    graph = held(until, launched).graph(tmp_path)
    assert waits(graph) == [("nccl", "gemm", "inferred", "stream_by_timing")] * found
    assert graph.diagnostics["event_waits_unresolved"] == (not found)


def test_a_row_between_other_calls_of_the_same_pair_names_none_of_them(tmp_path: Path) -> None:
    trace = forked()
    call = trace.call("cudaStreamWaitEvent", 46, 47, 55)
    graph = trace.graph(tmp_path)
    assert call not in hg.sync_dependencies(graph).sync_index.dropna().tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("numbers", "source"), [((20, 20), "captured"), ((20, 30), "captured"), ((30, 20), "remote")])
def test_equal_stream_numbers_of_two_devices(numbers: tuple[int, int], source: str, tmp_path: Path) -> None:
    """The record's own device is meant; where it has no such stream, the only other device that has."""
    trace = TraceBuilder()
    trace.launch("captured", (0, 5), (10, 500), 1, stream=numbers[0])
    trace.launch("remote", (6, 9), (15, 500), 2, stream=numbers[1], device=1)
    stream = 20 if 20 in numbers else -1
    trace.sync_row("Stream Wait Event", 40, 41, 5, stream=7, wait_on_stream=stream, record=3)
    trace.launch("after", (60, 65), (505, 510), 7)
    assert [wait[:3] for wait in waits(trace.graph(tmp_path))] == [(source, "after", "recorded")]


def test_a_number_on_two_other_devices_is_not_believed(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for device in (1, 2):
        trace.launch("remote", (6 * device, 6 * device + 4), (20, 500), device, stream=20, device=device)
    trace.sync_row("Stream Wait Event", 40, 41, 5, stream=7, wait_on_stream=20, record=3)
    trace.launch("after", (60, 65), (550, 560), 7)
    graph = trace.graph(tmp_path)
    assert waits(graph) == []
    assert graph.diagnostics["event_waits_for_nothing"] == 1


@pytest.mark.parametrize("gone", [EVENT_CALLS[:1], EVENT_CALLS])
@pytest.mark.parametrize("dialect", ["recorded", "virtual tid", "µs, recorded"])
@pytest.mark.slow
def test_simulated_programs_get_their_waits_from_the_rows_alone(dialect: str, gone: tuple[str, ...]) -> None:
    counts = rows_only(simulate(program_of("overlapping", 2, 150)), DIALECTS[dialect], gone)
    assert counts["true"] > 10
    assert not counts["wrong"]
    assert 20 * counts["missed"] <= counts["true"]


def test_simulated_programs_are_not_guessed_from_rows_without_ids() -> None:
    for seed in range(3):
        assert not rows_only(simulate(random_program(seed, "arbitrary", 200)), DIALECTS["no ids"])["wrong"]
