"""Hardware counters: ranges find their operators by order, sums add up, and HTA's table is met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.scope import in_window, whole
from analyses.hta.frame import hta_scopes
from analyses.hta.queues_and_launches import hta_cupti_counter_data_with_operators
from analyses.questions.hardware_counters import answer, counted_ranges, figure, hardware_counters
from hta_graph.base.errors import TraceError
from hta_graph.paths.windows import between
from hta_graph.trace.event_args import count_counter_samples, read_profiler_ranges
from tests.support.golden_graphs import TRACES, answered, graphs
from tests.support.trace_builder import TraceBuilder


def add_range(trace: TraceBuilder, name: str, start: float, **counters: Any) -> int:
    return trace.row(ph="X", cat="cuda_profiler_range", name=name, pid=0, tid=0, ts=start, dur=10, args=counters)


def counted() -> TraceBuilder:
    """A convolution with two kernels in nested operators, a bare launch; ranges that lie elsewhere in time."""
    trace = TraceBuilder()
    trace.op("aten::conv2d", 0, 50)
    trace.op("aten::cudnn_convolution", 10, 40)
    trace.call("cudaLaunchKernel", 12, 13, 1)
    trace.call("cudaMemcpyAsync", 14, 15, 2)
    trace.call("cuLaunchKernelEx", 16, 17, 3)
    trace.call("cudaLaunchKernel", 60, 61, 4)
    add_range(trace, "third", 90, **{"inst.sum": 5, "active.avg": 30, "note": "text"})
    add_range(trace, "first", 70, **{"inst.sum": 10, "active.avg": 10.5})
    add_range(trace, "second", 80, **{"inst.sum": 85})
    return trace


def test_the_kth_range_belongs_to_the_kth_launch(tmp_path: Path) -> None:
    frame = counted_ranges([whole(0, counted().graph(tmp_path))])
    assert frame["name"].tolist() == ["first", "second", "third"]
    assert frame["call_index"].tolist() == [2, 4, 5]
    stack = ["aten::conv2d", "aten::cudnn_convolution"]
    assert frame["operator_stack"].tolist() == [stack, stack, []]
    assert frame["operator"].tolist() == ["aten::cudnn_convolution", "aten::cudnn_convolution", ""]
    assert frame["inst.sum"].tolist() == [10, 85, 5]
    assert frame["active.avg"].tolist() == pytest.approx([10.5, np.nan, 30], nan_ok=True)
    assert "note" not in frame


def test_sums_are_shared_and_averages_are_not(tmp_path: Path) -> None:
    frame = answer([whole(0, counted().graph(tmp_path))]).main
    rows = frame[["counter", "operator", "ranges", "value"]].to_numpy().tolist()
    assert rows == [
        ["inst.sum", "aten::cudnn_convolution", 2, 95],
        ["inst.sum", "", 1, 5],
        ["active.avg", "", 1, 30],
        ["active.avg", "aten::cudnn_convolution", 1, 10.5],
    ]
    assert frame["value_share"].tolist() == pytest.approx([0.95, 0.05, np.nan, np.nan], nan_ok=True)


def test_a_window_holds_the_ranges_of_its_launches(tmp_path: Path) -> None:
    scope = in_window(0, counted().graph(tmp_path), between(55_000, 66_000))
    assert counted_ranges([scope])["name"].tolist() == ["third"]


def test_unequal_numbers_leave_the_operators_open(tmp_path: Path) -> None:
    trace = counted()
    trace.call("cudaLaunchCooperativeKernel", 62, 63, 5)
    scopes = [whole(0, trace.graph(tmp_path))]
    found = answer(scopes)
    assert found.series["ranges"]["operator"].tolist() == ["", "", ""]
    assert found.main["value"].tolist() == [100, 20.25]
    assert "profiler ranges and kernel launches differ in number" in found.notes[0]
    assert hta_cupti_counter_data_with_operators(scopes) == []


def test_no_ranges_are_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 1), (2, 3), 1)
    trace.row(ph="X", cat="unheard_of", name="x", pid=1, tid=1, ts=5, dur=1, args={"inst.sum": 3})
    scopes = [whole(0, trace.graph(tmp_path))]
    found = answer(scopes)
    assert found.main.empty
    assert "value_share" in found.main
    assert "no cuda_profiler_range events" in found.notes[0]
    assert not figure(found).data
    assert hta_cupti_counter_data_with_operators(scopes) == []
    assert hardware_counters(counted_ranges([])).empty


def test_counters_that_never_count_are_named(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 1, 1)
    add_range(trace, "k", 5, **{"a.sum": 0, "b.sum": 1})
    assert answer([whole(0, trace.graph(tmp_path))]).notes == [
        "rank 0: counters that are 0 in every range of the whole trace: a.sum"
    ]


def test_a_file_that_changed_or_is_not_strict(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = counted().write(path).read_text()
    graph = hg.build_graph(hg.read_trace(path))
    path.write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match="has changed"):
        read_profiler_ranges(graph.trace)
    path.write_text(text.replace('"inst.sum": 85', '"inst.sum": NaN'))
    frame = counted_ranges([whole(0, hg.build_graph(hg.read_trace(path)))])
    assert frame["inst.sum"].tolist() == pytest.approx([10, np.nan, 5], nan_ok=True)


def test_a_figure_shares_the_counters_out(tmp_path: Path) -> None:
    drawn = figure(answer([whole(0, counted().graph(tmp_path))])).data
    assert {bars.name: bars.x.tolist() for bars in drawn} == {"aten::cudnn_convolution": [0.95], "": [0.05]}


@pytest.mark.shared
def test_hta_is_met() -> None:
    (frame,) = hta_cupti_counter_data_with_operators(hta_scopes(graphs("cupti_counters")))
    (golden,) = answered("cupti_counters", "get_cupti_counter_data_with_operators")["items"]
    for column in frame:
        expected = [row[golden["columns"].index(column)] for row in golden["rows"]]
        assert frame[column].tolist() == expected, column
    assert len(frame.columns) == 19


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in TRACES if name != "cupti_counters"])
def test_hta_is_met_where_there_are_none(name: str) -> None:
    assert answered(name, "get_cupti_counter_data_with_operators")["value"] == []
    assert hta_cupti_counter_data_with_operators(hta_scopes(graphs(name))) == []


@pytest.mark.shared
def test_sums_of_operators_are_the_sums_of_ranges() -> None:
    scopes = [whole(0, graphs("cupti_counters")[0])]
    ranges = counted_ranges(scopes)
    counters = [name for name in ranges.columns if str(name).endswith(".sum")]
    sums = hardware_counters(ranges).groupby("counter")["value"].sum()
    assert {name: int(ranges[name].sum()) for name in counters if ranges[name].any()} == sums.astype(int).to_dict()
    assert hardware_counters(ranges).groupby("counter")["value_share"].sum().tolist() == pytest.approx([1] * 4)


def test_samples_are_counted_and_nobody_is_sent_to_an_option_that_is_gone(tmp_path: Path) -> None:
    """PM sampling writes a counter row for each metric and time (kineto PR 1530); it knows no kernels."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 40), 1)
    for at in range(12):
        for metric in ("sm__throughput.avg", "nvltx__bytes.sum"):
            trace.row(ph="C", cat="hardware_counters", name=metric, pid="GPU 0 Counters", tid=0, ts=at, args={"": at})
    trace.row(ph="C", cat="cpu_load", name="load", pid=1, tid=0, ts=1, args={"": 1})
    graph = trace.graph(tmp_path)
    assert count_counter_samples(graph.trace) == {"sm__throughput.avg": 12, "nvltx__bytes.sum": 12}
    (note,) = answer([whole(0, graph)]).notes
    assert note == (
        "rank 0: 24 counter samples of 2 metrics are in the file, not read: PM sampling counts over time, not per "
        "kernel; Perfetto draws them (sm__throughput.avg, nvltx__bytes.sum)"
    )
