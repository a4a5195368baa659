"""How long streams waited for each other: by hand, by brute force over the tables, and in simulated programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.export.sync_dependencies import SyncDependencies
from tests.edge_accuracy import read
from tests.simulator import Dialect, random_program, simulate, write
from tests.support.command_line import command_json
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

LONGEST_LATENCY_NS = 8_000
"""The simulator's lags of launches and streams, and the calls that launch, are shorter."""
SEEDS = (1, 3, 5, deep(7), deep(8), deep(9))


def two_streams(wait: tuple[int, int], launch: tuple[int, int], starts: int) -> TraceBuilder:
    """A kernel of 100 µs on one stream, and one on another that an event lets start when the first has ended."""
    trace = TraceBuilder()
    trace.launch("first", (0, 5), (10, 110), 1, stream=7)
    trace.call("cudaEventRecord", 6, 8, 2)
    trace.launch("earlier", (9, 12), (15, 40), 3, stream=20)
    trace.call("cudaStreamWaitEvent", *wait, 4)
    trace.sync_row("Stream Wait Event", *wait, 4, stream=20, wait_on_stream=7, record=2)
    trace.launch("waiting", launch, (starts, starts + 30), 5, stream=20)
    return trace


def waits_of(graph: hg.DependencyGraph) -> list[Any]:
    frame = hg.sync_dependencies(graph)
    return frame[frame["kind"] == "event_wait"]["waited_ns"].tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("launch", "starts", "waited"),
    [
        ((22, 25), 112, 70_000),  # from the end of the stream's own work
        ((60, 66), 112, 44_000),  # from the return of the late launch
        ((120, 125), 130, 0),  # launched when the event had completed
    ],
)
def test_a_stream_waits_from_when_it_could_have_run(
    tmp_path: Path, launch: tuple[int, int], starts: int, waited: int
) -> None:
    assert waits_of(two_streams((18, 20), launch, starts).graph(tmp_path)) == [waited]


def test_the_command_line_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = two_streams((18, 20), (22, 25), 112)
    trace.call("cudaDeviceSynchronize", 150, 160, 9)
    document = command_json(capsys, "sync-deps", trace.write(tmp_path / "trace.json"))
    assert [row["waited_ns"] for row in document["gpu_dependencies"]] == [70_000]
    assert all(row["waited_ns"] == 0 for row in document["dependencies"]), "all had ended before the call began"


def by_brute_force(graph: hg.DependencyGraph, source: int, target: int) -> int:
    """Return the wait of one activity for another, from the tables that people see."""
    events, into = graph.events.set_index("event_index"), graph.predecessors(target)
    into = into[(into["target_point"] == "start") & (into["kind"] != "event_wait")]
    begun = events.loc[target, "start_ns"]
    since = []
    for kind, index, point in into[["kind", "source_index", "source_point"]].itertuples(index=False):
        column = "end_ns" if kind == "launch" or point == "end" else "start_ns"
        since.append(min(events.loc[index, column], begun))
    return int(max(min(events.loc[source, "end_ns"], begun) - max(since), 0)) if since else -1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_simulated_streams_waited_as_long_as_is_found(seed: int) -> None:
    """By brute force to the nanosecond; of the truth, which knows every latency, a few microseconds are missing."""
    run = simulate(random_program(seed, "pytorch", 2_000))
    written = write(run, Dialect(sync_rows="resolved"))
    graph, event = read(written), {event.uid: event for event in run.events}
    uid = {index: uid for uid, index in written.index_of.items()}
    into: dict[int, list[Any]] = {}
    for constraint in written.constraints:
        if constraint.target_point == "start":
            into.setdefault(constraint.target, []).append(constraint)
    frame = hg.sync_dependencies(graph)
    frame = frame[frame["kind"] == "event_wait"]
    assert len(frame) > 5
    for source, target, waited in frame[["source_index", "target_index", "waited_ns"]].itertuples(index=False):
        assert waited == by_brute_force(graph, source, target)
        others = [one for one in into[uid[target]] if one.kind != "event_wait"]
        could = max(event[one.source].at(one.source_point) + one.latency_ns for one in others)
        ended = min(event[uid[source]].end_ns, event[uid[target]].start_ns)
        held = any(one.kind == "launch" and event[one.source].end_ns - could > 0 for one in others)
        assert held or abs(waited - max(ended - could, 0)) <= LONGEST_LATENCY_NS


def test_calls_wait_from_their_start_to_the_end_of_what_they_waited_for(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 100), 1)
    trace.call("cudaDeviceSynchronize", 30, 104, 2)
    found = hg.sync_dependencies(trace.graph(tmp_path))
    assert found["waited_ns"].tolist() == [70_000]
    assert found["lag_ns"].tolist() == [4_000]
    assert found["waited_ns"].dtype == pd.Int64Dtype()


def test_a_target_of_which_nothing_else_is_known_has_no_length(tmp_path: Path) -> None:
    events = pd.DataFrame({
        "name": ["a", "b"], "lane": ["stream 0", "stream 1"], "start_ns": [0, 20], "end_ns": [10, 30],
    })  # fmt: skip
    graph = hg.from_dataframes(events, pd.DataFrame({"source_index": [0], "target_index": [1]}))
    assert SyncDependencies(graph).waited_ns(SyncDependencies(graph).to_gpu).tolist() == [-1]
    assert hg.sync_dependencies(graph)["waited_ns"].isna().all()
