"""Long runs of equal class and stack are one, nothing else is, and no nanosecond changes its class."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.arrays import summed_by
from hta_graph.model import BoundBy, EventKind, Reason
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.segments import MERGE_RESOLUTION, SegmentTable, merge_runs
from tests.support.deep_tests import for_all
from tests.support.graph_strategies import FILLED
from tests.support.shared_traces import graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder

CALLS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)

Row = dict[str, Any]


def whole_path(trace: TraceBuilder, folder: Path) -> CriticalPath:
    return hg.critical_path(trace.graph(folder), hg.whole())


def rows_of(columns: dict[str, Any]) -> list[Row]:
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]


def merged(trace: TraceBuilder, folder: Path) -> list[Row]:
    return rows_of(whole_path(trace, folder).run_columns())


def short_calls(*calls: str) -> TraceBuilder:
    """A second of Python in one frame, which calls short functions every 100 µs."""
    trace = TraceBuilder()
    trace.op("first", 0, 1)
    trace.frame("forward", 1, 999_999)
    for at, name in enumerate(calls):
        trace.frame(name, 100 * at + 50, 100 * at + 90)
    trace.op("last", 999_999, 1_000_000)
    return trace


# -- what is merged ---------------------------------------------------------------------------------------------------


def test_short_calls_are_not_told_apart_from_what_calls_them(tmp_path: Path) -> None:
    path = whole_path(short_calls("len", "isinstance", "len"), tmp_path)
    assert len(path.segment_table) == 9
    gap = rows_of(path.run_columns())[1]
    assert (gap["bound_by"], gap["name"], gap["inside"], gap["segments"]) == ("cpu_gap", "forward", "forward", 7)


def test_a_run_is_called_by_the_event_that_most_of_its_time_belongs_to(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("first", 0, 1)
    trace.frame("forward", 1, 1_000)
    trace.frame("isinstance", 10, 100)
    trace.frame("len", 200, 900)
    trace.op("last", 1_000, 100_000_000)
    gap = merged(trace, tmp_path)[1]
    assert (gap["name"], gap["inside"], gap["segments"]) == ("len", None, 5)  # none lasts a thousandth of the window


def test_calls_of_a_thousandth_of_the_window_are_told_apart(tmp_path: Path) -> None:
    trace = short_calls("len")
    trace.frame("loss", 500_000, 500_000 + 1_000_000 / MERGE_RESOLUTION)
    assert [(row["name"], row["segments"]) for row in merged(trace, tmp_path)[1:-1]] == [
        ("forward", 3),
        ("loss", 1),
        ("forward", 1),
    ]


def test_two_calls_of_one_name_are_two_stacks(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in (0, 500):
        trace.op("aten::linear", at, at + 500)
        trace.op("aten::mm", at + 100, at + 400)
    assert [row["segments"] for row in merged(trace, tmp_path)] == [1] * 6


def test_classes_are_never_merged(tmp_path: Path) -> None:
    trace = short_calls()
    for at in range(0, 1_000, 10):
        trace.op("aten::view", at + 3, at + 5)
    rows = merged(trace, tmp_path)
    assert len(rows) > 200
    assert all(one["bound_by"] != two["bound_by"] for one, two in pairwise(rows))


def test_threads_are_never_merged(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    path = whole_path(trace, tmp_path)
    work = {
        "edge_kind": 0,
        "inferred": False,
        "bound": BoundBy.CPU_GAP,
        "event": -1,
        "part": 0,
        "reason": -1,
        "open_call": -1,
    }
    pieces = SegmentTable.of(start=[0, 5_000], end=[5_000, 10_000], lane=[0, 1], **work)
    assert merge_runs(path.graph, pieces, 10_000).segments.tolist() == [1, 1]


def test_work_of_the_gpu_stays_apart(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("first", (0, 5), (10, 20), 1)
    trace.launch("second", (5, 8), (20, 30), 2)
    rows = [row for row in merged(trace, tmp_path) if row["bound_by"] == "gpu_compute_bound"]
    assert [(row["name"], row["segments"], row["inside"]) for row in rows] == [("first", 1, None), ("second", 1, None)]


def test_what_is_unexplained_stays_apart(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaStreamSynchronize", 0, 200, 1)
    trace.call("cudaStreamSynchronize", 200, 400, 2)
    trace.op("last", 400, 1_000_000)
    assert [row["bound_by"] for row in merged(trace, tmp_path)][:2] == ["unexplained"] * 2


def test_an_edge_of_several_kinds_is_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 12)
    trace.launch("gemm", (5, 10), (10, 100_000), 1)
    first = merged(trace, tmp_path)[0]
    assert (first["segments"], first["edge"], first["evidence"]) == (2, None, "recorded")


# -- what stays as it is ----------------------------------------------------------------------------------------------


def as_a_slow_loop(path: CriticalPath) -> list[tuple[int, int, int]]:
    """Return start, end and number of segments of each run."""
    graph, pieces = path.graph, path.segment_table
    events, parent = graph.event_table, graph.nesting(*CALLS).parent
    found: list[tuple[int, int, int]] = []
    before: tuple[Any, ...] = ()
    for at in range(len(pieces)):
        owner, bound = int(pieces.event[at]), int(pieces.bound[at])
        call = owner
        if owner >= 0 and not graph.is_gpu[owner] and bound != BoundBy.UNEXPLAINED:
            while call >= 0 and (events.end[call] - events.start[call]) * MERGE_RESOLUTION < path.length_ns:
                call = int(parent[call])
        key = (bound, int(pieces.lane[at]), bool(pieces.inferred[at]), int(pieces.reason[at]), call)
        start, end = int(pieces.start[at]), int(pieces.end[at])
        if key == before:
            found[-1] = (found[-1][0], end, found[-1][2] + 1)
        else:
            found.append((start, end, 1))
        before = key
    return found


def largest_owner_ns(path: CriticalPath, first: int, count: int) -> Counter[int]:
    time: Counter[int] = Counter()
    for at in range(first, first + count):
        time[int(path.segment_table.event[at])] += int(path.segment_table.length[at])
    return time


@for_all(FILLED, examples=200)
def test_runs_are_those_of_a_slow_loop_and_keep_all_sums(graph: hg.DependencyGraph) -> None:
    path = hg.critical_path(graph, hg.whole())
    runs = path.runs
    assert list(zip(runs.start.tolist(), runs.end.tolist(), runs.segments.tolist(), strict=True)) == as_a_slow_loop(
        path
    )
    CriticalPath(graph, path.window, path.chain, runs)  # its self-check: the runs tile the window
    for codes in (BoundBy, Reason):
        key = "bound" if codes is BoundBy else "reason"
        sums = [
            summed_by(getattr(part, key) + 1, part.length, len(codes) + 1).tolist()
            for part in (path.segment_table, path.runs)
        ]
        assert sums[0] == sums[1]
    for event, first, count in zip(runs.event.tolist(), runs.first.tolist(), runs.segments.tolist(), strict=True):
        time = largest_owner_ns(path, first, count)
        assert time[event] == max(time.values())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["owlv2_pystack_h100", "vllm_hipgraph_mi300x"])
def test_traces_with_python_stacks(name: str) -> None:
    source = next(trace for trace in shared_traces() if trace.parent.name == name)
    path = hg.critical_path(graph_of_file(source), hg.whole())
    on_cpu = np.isin(path.runs.bound, (BoundBy.CPU_GAP, BoundBy.DATA_LOADING, BoundBy.CPU_BOUND))
    before = np.isin(path.segment_table.bound, (BoundBy.CPU_GAP, BoundBy.DATA_LOADING, BoundBy.CPU_BOUND))
    assert 10 * np.count_nonzero(on_cpu) < np.count_nonzero(before)
