"""A large file read in parts gives the trace that it gives as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.trace import json_reader
from hta_graph.trace.json_reader import EVENT_ROWS
from hta_graph.trace.table import Trace
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.compare_traces import same_columns
from tests.support.shared_traces import shared_traces
from tests.support.trace_builder import TraceBuilder


def read_both(path: Path, monkeypatch: pytest.MonkeyPatch, size: int = 700) -> tuple[Trace, Trace, int]:
    """Read as a whole and in parts; return how many parts there were."""
    whole = hg.read_trace(path)
    monkeypatch.setattr(json_reader, "PART_BYTES", size)
    count = len(list(json_reader.Parts(path, path.read_bytes(), EVENT_ROWS))) if path.suffix == ".json" else 0
    return whole, hg.read_trace(path), count


@pytest.mark.sampled(6)
@pytest.mark.parametrize("time", ["us_int", "us_float_base", "epoch_us_3dec"])
@pytest.mark.parametrize("seed", range(3))
def test_simulated_traces(time: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect = Dialect(time=time, shuffle_seed=seed)  # type: ignore[arg-type]
    path = tmp_path / "trace.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 300)), dialect).document))
    whole, split, count = read_both(path, monkeypatch)
    assert count > 20
    assert same_columns(whole, split)


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", ["sync_alexnet_a100", "ascend_npu", "cpu_only_gloo", "ns_resolution_v100"])
def test_real_traces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in shared_traces() if path.parent.name == name)
    whole, split, _ = read_both(path, monkeypatch, 50_000)
    assert same_columns(whole, split)


def test_what_looks_like_a_boundary_inside_an_event_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder(displayTimeUnit="ms")
    for at in range(200):
        trace.op(
            'a "name" }, { with "traceEvents": [ in it', at, at + 1, Shapes=[{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}]
        )
    whole, split, count = read_both(trace.write(tmp_path / "t.json"), monkeypatch)
    assert count > 20
    assert len(split.events) == 200
    assert same_columns(whole, split)


def test_a_begin_row_may_end_in_another_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder()
    trace.row(ph="B", cat="cpu_op", name="outer", pid=1, tid=1, ts=0)
    for at in range(100):
        trace.op("op", at, at + 1)
    trace.row(ph="E", cat="cpu_op", name="outer", pid=1, tid=1, ts=500)
    whole, split, count = read_both(trace.write(tmp_path / "t.json"), monkeypatch)
    assert count > 5
    assert int(split.events.end.max()) == 500_000
    assert same_columns(whole, split)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bad", ['{"ph": "X", "ts": NaN}', '{"ph": 7}', "3", '{"name": "\\ud800"}'])
def test_a_row_that_is_not_strict_in_a_later_part(bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        json.dumps({"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": at, "dur": 1})
        for at in range(99)
    ]
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + ",\n".join([*rows[:70], bad, *rows[70:]]) + "]}")
    whole = hg.read_trace(path)
    monkeypatch.setattr(json_reader, "PART_BYTES", 500)
    split = hg.read_trace(path)
    assert len(split.events) == 99
    assert same_columns(whole, split)


def test_an_inner_key_of_the_same_name_is_not_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"inner": {"traceEvents": [row] * 50}, "traceEvents": [row] * 3}))
    monkeypatch.setattr(json_reader, "PART_BYTES", 500)
    assert len(hg.read_trace(path).events) == 3
