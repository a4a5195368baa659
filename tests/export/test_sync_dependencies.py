"""Synchronisation dependencies: the recorded truth, targets and external ids, windows, and every form of output."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.export.sync_dependencies import next_operators
from hta_graph.trace.decompress import read_bytes
from tests.edge_accuracy import DIALECTS, GPU_TO_CPU, Score, read
from tests.simulator import Dialect, random_program, simulate, write
from tests.support.command_line import command_json, one_error, run_command
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.sync_dependency_accuracy import (
    RECORDERS,
    TRACES,
    Recording,
    dependencies,
    hidden_score,
    hidden_table,
    links_of,
    prove_sync,
    recorder_table,
    shared_file,
    simulated_table,
    without_records,
)

pytestmark = pytest.mark.sampled(2)

KEYS = {
    "kind", "evidence", "source_index", "source_name", "source_external_id", "sync_index", "sync_name", "target_index",
    "target_name", "target_external_id", "waited_ns", "lag_ns", "binding",
}  # fmt: skip
GPU_KEYS = {
    "kind", "evidence", "source_index", "source_name", "source_external_id", "wait_index", "wait_name", "target_index",
    "target_name", "target_external_id", "waited_ns", "lag_ns",
}  # fmt: skip
RECORDED_COUNTS = {
    "sync_alexnet_a100": {"stream_sync": 16, "device_sync": 9, "event_wait": 6},
    "sync_simple_add": {"stream_sync": 16, "device_sync": 9},
    "sync_event_cpu": {"stream_sync": 1, "device_sync": 1, "event_sync": 1},
    "sync_event_multistream": {"device_sync": 3, "event_wait": 1},
}


def listed(graph: hg.DependencyGraph, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of all dependencies as rows; missing is ``None``."""
    frame = hg.sync_dependencies(graph)[list(columns)].astype(object)
    return [tuple(row) for row in frame.where(frame.notna(), None).itertuples(index=False)]


# -- the recorded truth -----------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("name", TRACES)
def test_recorded_dependencies_equal_the_rows_of_the_file(name: str) -> None:
    path = shared_file(name)
    frame = hg.sync_dependencies(graph_of_file(path))
    recorded = frame[frame.evidence == "recorded"]
    end = recorded.sync_index.where(recorded.direction == "gpu_to_cpu", recorded.target_index)
    assert set(zip(recorded.kind, recorded.source_index, end, strict=True)) == Recording.of(path).links()
    assert recorded.kind.value_counts().to_dict() == RECORDED_COUNTS[name]
    assert len(recorded) == len(recorded[["kind", "source_index", "sync_index", "target_index"]].drop_duplicates())


@pytest.mark.shared
@pytest.mark.parametrize("name", TRACES)
def test_operators_and_their_external_ids_are_those_around_and_after_the_calls(name: str) -> None:
    path = shared_file(name)
    recording = Recording.of(path)
    rows = listed(
        graph_of_file(path), "direction", "source_index", "source_external_id", "sync_index",
        "target_index", "target_external_id",
    )  # fmt: skip
    assert len(rows) >= 4
    for direction, source, source_id, call, target, target_id in rows:
        assert source_id == recording.external_id(recording.launching_operator(source))
        if direction == "gpu_to_cpu":
            assert target == recording.operator_after(call)
            assert target_id == recording.external_id(target)
        else:
            assert target_id == recording.external_id(recording.launching_operator(target))


@pytest.mark.shared
def test_event_waits_name_the_call_behind_them() -> None:
    path = shared_file("sync_alexnet_a100")
    recording = Recording.of(path)
    waits = {
        row["args"]["correlation"]: row["args"]["wait_on_cuda_event_record_corr_id"]
        for row in recording.rows
        if row.get("name") == "Stream Wait Event"
    }
    graph = graph_of_file(path)
    rows = listed(graph, "kind", "sync_index", "sync_name", "source_index", "target_index")
    found = [row[1:] for row in rows if row[0] == "event_wait"]
    assert len({call for call, *_ in found}) == len(found) == 6
    for call, name, source, target in found:
        assert name == "cudaStreamWaitEvent"
        correlation = recording.rows[call]["args"]["correlation"]
        origin = recording.rows[source]["args"]
        assert [source] == recording.last_before(0, origin["stream"], waits[correlation])
        assert recording.rows[target]["args"]["correlation"] > correlation


@pytest.mark.sampled(6)
@pytest.mark.shared
@pytest.mark.parametrize(
    "path", shared_traces() or [Path("absent")], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_no_dependency_goes_back_in_time_or_to_itself(path: Path) -> None:
    found = dependencies(path)
    events = found.graph.trace.events
    for part in (found.to_cpu, found.to_gpu):
        with_target = part.target >= 0
        source, target = part.source[with_target], part.target[with_target]
        assert (source != target).all()
        assert (events.end[source] <= events.start[target]).all()
    # A wait that no call shows was believed: the rule says so, and there is no call to name.
    assert found.graph.edges_at(found.to_gpu.edge[found.to_gpu.call < 0]).inferred.all()
    assert found.external_ids().same == 0
    assert not any("Query" in name for name in found.table()["sync_name"] if name)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["sync_alexnet_a100/rank0", "megatron_tp2_v100/kineto_rank0"])
def test_shuffled_rows_and_a_saved_graph_give_the_same_dependencies(name: str, tmp_path: Path) -> None:
    source = SHARED / "traces" / f"{name}.json.gz"
    graph = hg.build_graph(hg.read_trace(source))
    text = json.loads(read_bytes(source).data)
    random.Random(3).shuffle(text["traceEvents"])
    shuffled = tmp_path / "shuffled.json"
    shuffled.write_text(json.dumps(text), encoding="utf-8")
    hg.save_graph(graph, tmp_path / "graph")
    columns = [name for name in hg.sync_dependencies(graph).columns if not name.endswith("_index")]
    expected = listed(graph, *columns)
    assert len(expected) > 20
    assert listed(hg.build_graph(hg.read_trace(shuffled)), *columns) == expected
    assert listed(hg.load_graph(tmp_path / "graph"), *columns) == expected


@pytest.mark.shared
@pytest.mark.parametrize("name", TRACES)
def test_hidden_records_are_found_again(name: str) -> None:
    """All that recorded waits of the CPU are; of event waits those that held something up."""
    path = shared_file(name)
    truth, found = Recording.of(path).links(), without_records(path)
    to_cpu = {link for link in truth if link[0] != "event_wait"}
    assert to_cpu == {link for link in found if link[0] in ("stream_sync", "device_sync", "event_sync")}
    decided = links_of(dependencies(path), binding=True) & truth
    assert decided
    assert decided <= without_records(path, binding=True)


@pytest.mark.shared
@pytest.mark.slow
def test_the_table_of_hidden_records_has_a_line_per_trace_and_kind() -> None:
    assert len(list(hidden_table())) == 1 + 11


@pytest.mark.shared
def test_arrows_of_made_graphs_are_scored_with_and_without_them() -> None:
    """Without arrows the fork B → D is not inferred from these replays, or it is: never anything wrong."""
    score = hidden_score(hg.read_trace(SHARED / RECORDERS["Cuspy (made)"][0]))
    assert (score.truths, score.wrong) == (12, 0)
    assert score.missed <= 4


@pytest.mark.shared
@pytest.mark.slow
def test_the_table_of_recorders_has_a_line_for_each() -> None:
    assert len(list(recorder_table())) == 1 + len(RECORDERS)


# -- simulated programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["recorded", "no ids", "no rows", "no rows, no records", "ROCm"])
@pytest.mark.parametrize("programs", [6, deep(40)])
@pytest.mark.slow
def test_dependencies_of_simulated_programs(dialect: str, programs: int) -> None:
    total = prove_sync(DIALECTS[dialect], range(programs), 120)
    assert total["GPU→CPU"].truths > 1.5 * programs
    assert total["GPU→GPU"].truths > 1.5 * programs
    for direction, least in (("GPU→CPU", 0.99), ("GPU→GPU", 0.9)):
        score = total.get(direction, Score())
        limit = 1.0 if dialect == "recorded" else least
        assert score.precision >= limit
        assert score.recall >= limit


@pytest.mark.slow
def test_the_table_of_simulated_programs_has_both_directions_of_all_dialects() -> None:
    assert len(list(simulated_table(2, 60))) == 1 + 2 * len(DIALECTS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(6), *map(deep, range(6, 12))])
def test_columns_follow_from_the_graph_by_brute_force(seed: int) -> None:
    dialect = Dialect(time="us_int" if seed % 2 else "us_float_base", sync_rows="none" if seed % 3 else "resolved")
    graph = read(write(simulate(random_program(seed, "arbitrary", 120)), dialect))
    edges, events = graph.edges, graph.events.set_index("event_index", drop=False)
    frame = hg.sync_dependencies(graph)
    to_cpu = frame[frame.direction == "gpu_to_cpu"]
    expected = edges[edges.kind.isin(GPU_TO_CPU)]
    assert set(zip(to_cpu.kind, to_cpu.source_index, to_cpu.sync_index, to_cpu.lag_ns, strict=True)) == set(
        zip(expected.kind, expected.source_index, expected.target_index, expected.lag_ns, strict=True)
    )
    to_gpu, expected = frame[frame.direction == "gpu_to_gpu"], edges[edges.kind == "event_wait"]
    assert set(zip(to_gpu.source_index, to_gpu.target_index, to_gpu.lag_ns, strict=True)) == set(
        zip(expected.source_index, expected.target_index, expected.lag_ns, strict=True)
    )
    assert to_gpu.sync_name.str.contains("StreamWaitEvent").all()
    operators = events[events.kind == "cpu_op"]
    for call, target in zip(to_cpu.sync_index, to_cpu.target_index, strict=True):
        own = events.loc[call]
        after = operators[(operators.lane == own.lane) & (operators.start_ns >= own.end_ns)]
        assert pd.isna(target) == after.empty
        assert after.empty or events.loc[target].start_ns == after.start_ns.min()


@pytest.mark.slow
@pytest.mark.parametrize("programs", [8, deep(24)])
def test_binding_is_what_finished_last(programs: int) -> None:
    decided = 0
    for seed in range(programs):
        graph = read(write(simulate(random_program(seed, "pytorch", 120)), Dialect()))
        frame = hg.sync_dependencies(graph)
        to_cpu = frame[frame.direction == "gpu_to_cpu"]
        ends = graph.events.set_index("event_index").end_ns
        for call, source, binding in zip(to_cpu.sync_index, to_cpu.source_index, to_cpu.binding, strict=True):
            others = to_cpu[to_cpu.sync_index == call].source_index
            last = max(*(ends[other] for other in others), begun(graph, call))
            assert ends[source] == last if binding else ends[source] <= last
            decided += binding
    assert decided > 0.4 * programs


def begun(graph: hg.DependencyGraph, call: int) -> int:
    return int(graph.event(call)["start_ns"])


# -- targets, ids, waits ----------------------------------------------------------------------------------------------


def item() -> TraceBuilder:
    """``aten::item`` copies to the host and synchronises inside; the next operator starts as the call returns."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5, **{"External id": 1})
    trace.launch("gemm", (1, 3), (4, 50), 10)
    trace.op("aten::item", 10, 70, **{"External id": 2})
    trace.op("aten::_local_scalar_dense", 11, 69, **{"External id": 3})
    trace.call("cudaMemcpyAsync", 12, 14, 11)
    trace.copy("Memcpy DtoH (Device -> Pinned)", 52, 55, 11)
    trace.call("cudaStreamSynchronize", 15, 60, 12)
    trace.op("aten::inner", 60, 62, **{"External id": 4})
    trace.op("aten::other_thread", 61, 90, tid=2, **{"External id": 5})
    trace.op("aten::add", 75, 80, **{"External id": 6})
    return trace


def test_the_target_is_the_next_operator_and_not_the_one_around_the_call(tmp_path: Path) -> None:
    graph = item().graph(tmp_path)
    rows = listed(graph, "kind", "source_name", "source_external_id", "sync_index", "target_name", "target_external_id")
    assert rows == [("stream_sync", "Memcpy DtoH (Device -> Pinned)", 3, 7, "aten::inner", 4)]
    assert listed(graph, "lag_ns", "binding", "evidence") == [(5_000, True, "inferred")]


def test_an_operator_that_starts_as_the_call_returns_comes_after_it(tmp_path: Path) -> None:
    """The outermost of those that start then; not the one around a call of no length that starts with it."""
    trace = TraceBuilder()
    call = trace.call("cudaStreamSynchronize", 5, 10, 1)
    trace.op("inner", 10, 12)
    outer = trace.op("outer", 10, 15)
    trace.op("around", 20, 30, tid=2)
    short = trace.call("cudaStreamSynchronize", 20, 20, 2, tid=2)
    behind = trace.op("behind", 25, 26, tid=2)
    trace.op("last", 40, 50, tid=3)
    final = trace.call("cudaStreamSynchronize", 45, 60, 3, tid=3)
    graph = trace.graph(tmp_path)
    index = graph.trace.events.index.tolist()
    calls = np.array([index.index(at) for at in (call, short, final)], np.int32)
    found = next_operators(graph, calls).tolist()
    assert [index[at] if at >= 0 else None for at in found] == [outer, behind, None]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    """No operator around the launch, none after the call, no id at all."""
    trace = TraceBuilder()
    trace.launch("alone", (0, 1), (2, 30), 1)
    trace.kernel("orphan", 2, 31, 99, stream=8)
    trace.op("no id", 2, 5)
    trace.launch("known", (3, 4), (5, 32), 2, stream=9)
    trace.call("cudaDeviceSynchronize", 6, 35, 3)
    rows = listed(trace.graph(tmp_path), "source_name", "source_external_id", "target_index", "target_external_id")
    assert rows == [(name, None, None, None) for name in ("alone", "orphan", "known")]


def two_waits() -> TraceBuilder:
    """Kernel ``D`` on stream 3 waits for ``S2``, by two calls, and for ``S1``; an event query asks in between."""
    trace = TraceBuilder()
    trace.op("fork", 0, 10, **{"External id": 1})
    trace.launch("S1", (1, 4), (10, 100), 1, stream=1)
    trace.launch("S2", (5, 8), (12, 200), 2, stream=2)
    for at, corr in ((11, 3), (13, 4)):
        trace.call("cudaEventRecord", at, at + 1, corr)
    for at, corr, stream, record in ((15, 5, 2, 4), (16, 6, 2, 4), (17, 7, 1, 3)):
        trace.call("cudaStreamWaitEvent", at, at + 1, corr)
        trace.sync_row("Stream Wait Event", at, at + 1, corr, stream=3, wait_on_stream=stream, record=record)
    trace.call("cudaEventQuery", 18, 19, 8)
    trace.sync_row("Event Sync", 18, 19, 8, wait_on_stream=1, record=3)
    trace.op("join", 20, 24, **{"External id": 2})
    trace.launch("D", (20, 23), (203, 213), 9, stream=3)
    return trace


def test_a_wait_between_streams_names_the_first_call_that_asked_for_it(tmp_path: Path) -> None:
    rows = listed(
        two_waits().graph(tmp_path), "direction", "source_name", "sync_index", "target_name", "source_external_id",
        "target_external_id", "lag_ns", "binding",
    )  # fmt: skip
    assert rows == [
        ("gpu_to_gpu", "S1", 11, "D", 1, 2, 103_000, False),
        ("gpu_to_gpu", "S2", 7, "D", 1, 2, 3_000, True),
    ]


def test_a_wait_whose_call_is_not_in_the_graph_is_null(tmp_path: Path) -> None:
    kernels = two_waits().graph(tmp_path).filter(kind="kernel")
    assert listed(kernels, "source_name", "sync_index", "sync_name") == [("S1", None, None), ("S2", None, None)]


def test_a_wait_is_null_where_only_its_own_call_is_not_in_the_graph(tmp_path: Path) -> None:
    graph = two_waits().graph(tmp_path)
    part = graph.subgraph(set(graph.events.event_index) - {7, 9})
    assert listed(part, "source_name", "sync_index") == [("S1", 11), ("S2", None)]


def test_a_recorded_wait_is_named_before_an_inferred_one(tmp_path: Path) -> None:
    """The profiler drops the record of a stream's first wait; here a second one for the same work has one."""
    trace = TraceBuilder()
    trace.launch("S", (0, 1), (10, 100), 1, stream=1)
    trace.call("cudaEventRecord", 2, 3, 2)
    trace.call("cudaStreamWaitEvent", 4, 5, 3)
    recorded = trace.call("cudaStreamWaitEvent", 6, 7, 4)
    trace.sync_row("Stream Wait Event", 6, 7, 4, stream=3, wait_on_stream=1, record=2)
    trace.launch("D", (8, 9), (103, 110), 5, stream=3)
    graph = trace.graph(tmp_path)
    assert graph.diagnostics["event_waits"] == 2
    assert graph.diagnostics["event_waits_unresolved"] == 0
    assert listed(graph, "source_name", "sync_index", "evidence") == [("S", recorded, "recorded")]


def test_clock_faults_keep_their_dependency_with_lag_zero(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("k", (0, 2), (3, 50), 1)
    trace.call("cudaStreamSynchronize", 5, 40, 2)
    trace.sync_row("Stream Sync", 5, 40, 2, stream=7)
    assert listed(trace.graph(tmp_path), "lag_ns", "clamped", "rule") == [(0, True, "recorded")]


# -- windows ----------------------------------------------------------------------------------------------------------


def two_syncs() -> TraceBuilder:
    """Stream synchronisations [10, 30] and [50, 70]; a wait between streams for work that starts at 90."""
    trace = TraceBuilder()
    for start in (0, 40):
        trace.op("aten::op", start, start + 5, **{"External id": start})
        trace.launch("k", (start + 1, start + 2), (start + 5, start + 28), start + 1)
        trace.call("cudaStreamSynchronize", start + 10, start + 30, start + 2)
    trace.call("cudaEventRecord", 72, 73, 81)
    trace.call("cudaStreamWaitEvent", 74, 75, 82)
    trace.sync_row("Stream Wait Event", 74, 75, 82, stream=8, wait_on_stream=7, record=81)
    trace.launch("waits", (76, 77), (90, 95), 83, stream=8)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("start", "end", "calls", "waits"),
    [
        (0, 10, [], 0),
        (0, 11, [3], 0),
        (29, 50, [3], 0),
        (30, 50, [], 0),
        (20, 60, [3, 7], 0),
        (70, 90, [], 0),
        (90, 92, [], 1),
        (0, 200, [3, 7], 1),
    ],
)
def test_calls_belong_where_they_overlap_and_streams_where_they_go_on(
    tmp_path: Path, start: int, end: int, calls: list[int], waits: int
) -> None:
    graph = two_syncs().graph(tmp_path)
    frame = hg.sync_dependencies(graph, hg.between(start * 1_000, end * 1_000))
    assert frame[frame.direction == "gpu_to_cpu"].sync_index.unique().tolist() == calls
    assert (frame.direction == "gpu_to_gpu").sum() == waits


def test_the_last_instant_belongs_to_the_window_that_ends_with_the_trace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("k", (0, 1), (2, 10), 1)
    trace.call("cudaDeviceSynchronize", 20, 20, 2)
    graph = trace.graph(tmp_path)
    assert len(hg.sync_dependencies(graph)) == len(hg.sync_dependencies(graph, hg.whole())) == 1
    assert len(hg.sync_dependencies(graph, hg.between(10_000, 20_000))) == 1


def test_a_call_of_no_length_belongs_where_it_starts(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("k", (0, 1), (2, 10), 1)
    trace.call("cudaDeviceSynchronize", 20, 20, 2)
    trace.op("after", 30, 40)
    graph = trace.graph(tmp_path)
    assert len(hg.sync_dependencies(graph, hg.between(20_000, 30_000))) == 1
    assert len(hg.sync_dependencies(graph, hg.between(10_000, 20_000))) == 0


def test_a_trace_without_events_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(hg.HtaGraphError, match="the trace has no events"):
        hg.sync_dependencies(TraceBuilder().graph(tmp_path))


def test_columns_exist_where_there_is_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    frame = hg.sync_dependencies(trace.graph(tmp_path))
    assert frame.empty
    assert set(frame.columns) == {"direction", *KEYS, "rule", "clamped"}
    assert frame.dtypes["source_index"] == "Int64"


# -- command line -----------------------------------------------------------------------------------------------------


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    return item().write(tmp_path / "trace.json")


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str], trace_file: Path, tmp_path: Path) -> None:
    found = command_json(capsys, "sync-deps", trace_file)
    assert set(found) == {
        "schema", "file", "rank", "window", "dependencies", "gpu_dependencies", "diagnostics",
    }  # fmt: skip
    assert (found["schema"], found["file"], found["rank"]) == ("hta-graph/sync-deps/1", str(trace_file), 0)
    assert found["window"] == {
        "start_ns": 0, "end_ns": 90_000, "label": "whole trace", "cpu_ns": 90_000, "gpu_ns": 90_000,
    }  # fmt: skip
    assert found["gpu_dependencies"] == []
    (dependency,) = found["dependencies"]
    assert dependency == {
        "kind": "stream_sync", "evidence": "inferred", "source_index": 6,
        "source_name": "Memcpy DtoH (Device -> Pinned)", "source_external_id": 3, "sync_index": 7,
        "sync_name": "cudaStreamSynchronize", "target_index": 8, "target_name": "aten::inner",
        "target_external_id": 4, "waited_ns": 40_000, "lag_ns": 5_000, "binding": True,
    }  # fmt: skip
    assert set(dependency) == KEYS
    found = command_json(capsys, "sync-deps", two_waits().write(tmp_path / "waits.json"))
    assert found["dependencies"] == []
    assert [set(item) for item in found["gpu_dependencies"]] == [GPU_KEYS, GPU_KEYS]
    assert found["gpu_dependencies"][1] == {
        "kind": "event_wait", "evidence": "recorded", "source_index": 4, "source_name": "S2", "source_external_id": 1,
        "wait_index": 7, "wait_name": "cudaStreamWaitEvent", "target_index": 17, "target_name": "D",
        "target_external_id": 2, "waited_ns": 177_000, "lag_ns": 3_000,
    }  # fmt: skip


def test_csv_is_one_table_of_both_directions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = two_waits()
    trace.call("cudaDeviceSynchronize", 30, 220, 20)
    path = trace.write(tmp_path / "trace.json")
    status, out, err = run_command(capsys, "sync-deps", path, "--csv", "-")
    assert (status, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["direction"] for row in rows] == ["gpu_to_cpu"] * 3 + ["gpu_to_gpu"] * 2
    assert [row["target_index"] for row in rows] == ["", "", "", "17", "17"]
    back = pd.read_csv(io.StringIO(out))
    frame = hg.sync_dependencies(hg.build_graph(hg.read_trace(path)))
    assert back.columns.tolist() == frame.columns.tolist()
    assert back.astype(frame.dtypes).to_csv() == frame.to_csv()


def test_external_ids_map_operators_to_the_operators_that_they_wait_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = item()
    trace.op("aten::mul", 100, 105, **{"External id": 9})
    trace.launch("alone", (110, 111), (112, 130), 20, stream=8)
    trace.call("cudaDeviceSynchronize", 120, 140, 21)
    trace.op("aten::sub", 150, 151, **{"External id": 8})
    trace.call("cudaDeviceSynchronize", 160, 170, 22)
    target = tmp_path / "ids.json"
    status, out, err = run_command(capsys, "sync-deps", trace.write(tmp_path / "t.json"), "--external-ids", target)
    assert (status, out) == (0, "")
    assert json.loads(target.read_bytes()) == {"4": [3], "8": [3]}
    assert err == f"{target}: 3 dependencies without an external id on both ends left out\n"


def test_no_operator_waits_for_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, name in ((0, "first"), (50, "second")):
        trace.op(name, at, at + 5, **{"External id": 7})
    trace.launch("k", (1, 2), (3, 20), 1)
    trace.call("cudaStreamSynchronize", 10, 25, 2)
    status, out, err = run_command(capsys, "sync-deps", trace.write(tmp_path / "t.json"), "--external-ids", "-")
    assert (status, out) == (0, "{}\n")
    assert err == "-: 1 dependency of an operator on itself left out\n"


def test_table_counts_and_names_the_longest_waits(
    capsys: pytest.CaptureFixture[str], trace_file: Path, tmp_path: Path
) -> None:
    status, out, err = run_command(capsys, "sync-deps", trace_file)
    assert (status, err) == (0, "")
    assert out.startswith("1 CPU call waited for the GPU, 45.0 µs in all; longest 45.0 µs: cudaStreamSynchronize\n")
    assert "whole trace: 1 dependency of 1 CPU call on GPU work, 0 between streams" in out
    assert "0.045 ms      7  cudaStreamSynchronize  aten::inner" in out
    status, out, err = run_command(capsys, "sync-deps", two_waits().write(tmp_path / "waits.json"))
    assert (status, err) == (0, "")
    assert re.match(r"\d streams? waited for the GPU, [\d.]+ µs in all; longest 177.0 µs: cudaStreamWaitEvent\n", out)
    assert "0 dependencies of 0 CPU calls on GPU work, 2 between streams" in out
    assert "1  event queries, which do not wait" in out
    assert "0.177 ms     17  cudaStreamWaitEvent  D     S2" in out


def test_no_dependency_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    path = trace.write(tmp_path / "t.json")
    status, out, err = run_command(capsys, "sync-deps", path)
    assert (status, err) == (0, "")
    assert "no synchronization dependencies: no call and no stream is known to wait for GPU work" in out
    found = command_json(capsys, "sync-deps", path)
    assert (found["dependencies"], found["gpu_dependencies"]) == ([], [])
    assert run_command(capsys, "sync-deps", path, "--external-ids", "-") == (0, "{}\n", "")
    assert run_command(capsys, "sync-deps", path, "--csv", "-")[1].count("\n") == 1


def test_window_options_choose_what_is_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = two_syncs()
    trace.annotation("ProfilerStep#1", 0, 35)
    trace.annotation("ProfilerStep#2", 35, 72)
    path = trace.write(tmp_path / "t.json")
    expected = {
        (): ([3, 7], 1), ("--whole",): ([3, 7], 1), ("--step", "1"): ([3], 0), ("--step", "2"): ([7], 0),
        ("--annotation", "ProfilerStep#2", "--cpu-window"): ([7], 0), ("--window", "60000:91000"): ([7], 1),
        ("--cpu-window",): ([7], 0), ("--step", "2", "--gpu-window"): ([7], 0),
    }  # fmt: skip
    for arguments, (calls, waits) in expected.items():
        found = command_json(capsys, "sync-deps", path, *arguments)
        assert [row["sync_index"] for row in found["dependencies"]] == calls, arguments
        assert len(found["gpu_dependencies"]) == waits, arguments


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--step", "1", "--whole"], 2),
        (["--whole", "--cpu-window"], 2),
        (["--window", "9:1"], 2),
        (["--instance", "1"], 2),
        (["--data-load", "x"], 2),
        (["--json", "-", "--csv", "-"], 2),
        (["--step", "7"], 1),
        (["--annotation", "nothing"], 1),
        (["--csv", "absent/x.csv"], 1),
        (["--external-ids", "TRACE"], 1),
        (["--csv", "TRACE"], 1),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path, arguments: list[str], status: int
) -> None:
    given = [trace_file if item == "TRACE" else item for item in arguments]
    one_error(capsys, tmp_path, "sync-deps", trace_file, *given, status=status)


def test_an_empty_trace_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = TraceBuilder().write(tmp_path / "t.json")
    assert "the trace has no events" in one_error(capsys, tmp_path, "sync-deps", path, "--csv", tmp_path / "x.csv")


def test_all_outputs_at_once_are_those_of_one_at_a_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path
) -> None:
    outputs = {option: tmp_path / option for option in ("--json", "--csv", "--external-ids")}
    given = [part for pair in outputs.items() for part in pair]
    first = run_command(capsys, "sync-deps", trace_file)[1].splitlines()[0]
    assert run_command(capsys, "sync-deps", trace_file, *given) == (0, f"{first}\n", "")
    for option, target in outputs.items():
        assert run_command(capsys, "sync-deps", trace_file, option, "-") == (0, target.read_text(), "")


@pytest.mark.slow
def test_the_command_does_without_pandas(trace_file: Path) -> None:
    code = "from analyses.cli.main import main, sys; main(sys.argv[1:]); sys.stderr.write(' '.join(sys.modules))"
    given = ["sync-deps", str(trace_file), "--csv", "-"]
    done = subprocess.run([sys.executable, "-c", code, *given], check=True, capture_output=True, text=True)
    assert {"pandas", "networkx", "rustworkx", "pyarrow"} & set(done.stderr.split()) == set()
    assert done.stdout.startswith("direction,kind,evidence")
