"""What a trace is once it is read: one order, positions in the file, read-only columns, real files of each kind."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from tests.support.command_line import two_steps
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder


def columns(part: object) -> dict[str, np.ndarray]:
    """Return the arrays of a table."""
    found = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}  # type: ignore[arg-type]
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


@pytest.fixture
def trace(tmp_path: Path) -> hg.Trace:
    builder = two_steps()
    builder.sync_row("Stream Sync", 140, 150, 9, stream=7)
    builder.row(ph="s", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=10)
    builder.row(ph="f", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=110, bp="e")
    return hg.read_trace(builder.write(tmp_path / "t.json"))


def test_event_index_is_the_place_in_the_file(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.row(ph="M", name="process_name", pid=1, args={"name": "x"})
    late = builder.op("late", 50, 60)
    builder.row(ph="s", cat="ac2g", name="ac2g", id=1, ts=1)
    early = builder.op("early", 0, 10)
    trace = hg.read_trace(builder.write(tmp_path / "t.json"))
    assert (late, early) == (1, 3)
    assert trace.events.index.tolist() == [early, late]


def test_events_stand_in_order_of_time_longer_first(tmp_path: Path) -> None:
    builder = TraceBuilder()
    inner, outer, first = builder.op("inner", 5, 10), builder.op("outer", 5, 20), builder.op("first", 0, 1)
    assert hg.read_trace(builder.write(tmp_path / "t.json")).events.index.tolist() == [first, outer, inner]


def test_the_order_of_rows_changes_nothing_but_indices(tmp_path: Path) -> None:
    builder = two_steps()
    whole = hg.read_trace(builder.write(tmp_path / "a.json"))
    rows = list(builder.rows)
    for seed in range(5):
        random.Random(seed).shuffle(builder.rows)
        shuffled = hg.read_trace(builder.write(tmp_path / "b.json"))
        assert [rows[at] for at in whole.events.index] == [builder.rows[at] for at in shuffled.events.index]
        for name, column in columns(whole.events).items():
            if name != "index":
                assert np.array_equal(column, getattr(shuffled.events, name)), name


@pytest.mark.parametrize("part", ["events", "lanes", "syncs", "flows"])
def test_columns_of_a_trace_are_read_only(trace: hg.Trace, part: str) -> None:
    writeable = [name for name, column in columns(getattr(trace, part)).items() if column.flags.writeable]
    assert writeable == []


def test_columns_have_small_types(trace: hg.Trace) -> None:
    types = {name: str(column.dtype) for name, column in columns(trace.events).items()}
    assert types == {
        "index": "int32", "kind": "int8", "name": "int32", "lane": "int32", "start": "int64", "end": "int64",
        "correlation": "int64", "external_id": "int64", "sequence": "int64", "forward_thread": "int32",
        "collective": "bool",
    }  # fmt: skip


def test_diagnostics_of_a_graph_cannot_be_changed_from_outside(trace: hg.Trace) -> None:
    graph = hg.build_graph(trace)
    graph.diagnostics["orphans"] = 7
    assert "orphans" not in graph.diagnostics


def test_forward_backward_arrows_are_read(trace: hg.Trace) -> None:
    assert (trace.flows.start_time.tolist(), trace.flows.end_time.tolist()) == ([10_000], [110_000])


def test_steps_are_listed_in_time_order(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, start in ((9, 30), (10, 40), (2, 10), (9, 60)):
        builder.annotation(f"ProfilerStep#{number}", start, start + 5)
    steps = hg.read_trace(builder.write(tmp_path / "t.json")).steps()
    # A number that repeats begins another cycle of the profiler: its steps are numbered on.
    assert [(step.number, step.start_ns) for step in steps] == [(2, 10_000), (9, 30_000), (10, 40_000), (11, 60_000)]


def test_reading_twice_gives_equal_columns(tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "t.json.gz")
    first, second = hg.read_trace(path), hg.read_trace(str(path))
    assert (first.names, first.lanes.labels, first.path) == (second.names, second.lanes.labels, second.path)
    assert all(np.array_equal(column, getattr(second.events, name)) for name, column in columns(first.events).items())


def folder_file(name: str) -> Path:
    return next(path for path in shared_traces() if path.parent.name == name)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "key", "number"),
    [
        ("oldest_format_array", "runtime", 10_800),
        ("oldest_format_array", "kernel", 9_538),
        ("oldest_format_array", "memset", 377),
        ("oldest_format_array", "memcpy", 12),
        ("cupti_counters", "runtime", 1_862),
        ("cupti_counters", "kernel", 0),
        ("execution_trace_sample", "kernel", 4),
    ],
)
def test_real_files_hold_what_their_manifest_says(name: str, key: str, number: int) -> None:
    graph = graph_of_file(folder_file(name))
    assert int((graph.events["kind"] == key).sum()) == number


@pytest.mark.shared
@pytest.mark.slow
def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(hg.HtaGraphError, match="list without event objects"):
        hg.read_trace(SHARED / "traces" / "memory_timeline" / "memory_timeline.raw.gz")


@pytest.mark.shared
@pytest.mark.slow
def test_real_epoch_decimals_are_exact() -> None:
    import gzip
    import re

    trace = hg.read_trace(folder_file("ns_resolution_v100"))
    text = gzip.decompress(trace.path.read_bytes()).decode()
    printed = [int(a) * 1000 + int(b) for a, b in re.findall(r'"ts": (\d+)\.(\d{3})\b', text)]
    assert len(printed) > 1000
    assert set(trace.events.start.tolist()) <= set(printed)
