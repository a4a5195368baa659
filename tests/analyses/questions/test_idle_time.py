"""Idle time: causes sum to the gaps on every trace, are right on made ones, and follow the critical path's rules."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.scope import in_window, per_step, whole
from analyses.display.labels import SHORT
from analyses.hta.breakdowns import hta_idle_time
from analyses.hta.frame import hta_scopes
from analyses.questions.idle_time import (
    answer,
    bars_of_causes,
    figure,
    idle_time,
    idle_waits,
    launch_gaps,
    longest_gaps,
    stream_idle_time,
)
from analyses.questions.temporal_breakdown import temporal_breakdown
from hta_graph.base.errors import UsageError
from hta_graph.model import EdgeKind, GapCause
from hta_graph.paths.gpu_activity import activities, device_gaps, stream_intervals
from hta_graph.paths.idle_gap_causes import GapExplainer, Gaps
from hta_graph.paths.segments import SegmentTable
from hta_graph.paths.windows import between
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.reference_percentile import percentile
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

GOLDEN = ["ddp_v100", "dlrm_8xv100", "execution_trace_sample", "nanogpt_ab_current", "nanogpt_ab_hook"]
GOLDEN += ["nanogpt_ddp_8xh100", "nccl_args_a100", "ns_resolution_v100", "owlv2_pystack_h100", "sync_alexnet_a100"]


def causes(frame: pd.DataFrame) -> dict[str, int]:
    return dict(zip(frame["cause"], frame["idle_ns"], strict=True))


def late_host() -> TraceBuilder:
    """A kernel to 10, one launched at 90 by an operator from 20 to 95, between them Python and a synchronisation."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    trace.launch("gemm", (1, 2), (3, 10), 1)
    trace.call("cudaDeviceSynchronize", 6, 14)
    trace.frame("train.py(7): step", 4, 100)
    trace.op("aten::linear", 20, 95)
    trace.op("aten::empty", 30, 50)
    trace.call("cudaMalloc", 35, 45)
    trace.launch("gemm", (90, 94), (93, 97), 2)
    return trace


def test_a_late_launch_is_explained_by_what_the_host_did(tmp_path: Path) -> None:
    scope = whole(0, late_host().graph(tmp_path))
    assert causes(idle_time([scope])) == {
        "host_operator": 60_000,  # 20 to 35, 45 to 90
        "host_call": 10_000,
        "host_no_operator": 6_000,  # 14 to 20
        "host_blocked": 4_000,  # 10 to 14
        "launch": 3_000,  # 90 to 93
    }
    waits = idle_waits([scope]).set_index("cause")
    assert waits["name"].to_dict() == {
        "host_operator": "aten::linear",
        "host_call": "cudaMalloc",
        "host_no_operator": "train.py(7): step",
        "host_blocked": "cudaDeviceSynchronize",
        "launch": "cudaLaunchKernel",
    }
    assert waits.loc["host_call", "operator"] == "aten::linear"
    assert waits.loc["host_blocked", "evidence"] == "inferred"
    innermost = idle_waits([scope], innermost=True)
    assert set(innermost["name"]) == {*waits["name"], "aten::empty"}


def test_the_longest_gap_names_the_edge_the_activity_and_what_is_behind_it(tmp_path: Path) -> None:
    (gap,) = longest_gaps([whole(5, late_host().graph(tmp_path))]).to_dict("records")
    assert gap == {
        "rank": 5,
        "scope": "whole trace",
        "offset_ns": 7_000,
        "idle_ns": 83_000,
        "cause": "host_operator",
        "cause_share": 60 / 83,
        "edge": "launch",
        "evidence": "recorded",
        "event_index": 9,
        "kernel": "gemm",
        "name": "aten::linear",
    }


def waiting_stream() -> TraceBuilder:
    """Stream 7 has done its work at 10 and waits for a copy on stream 20 until 40, then starts at 43."""
    trace = TraceBuilder()
    trace.launch("first", (0, 1), (4, 10), 1)
    trace.launch("prefetch", (1, 2), (5, 40), 2, stream=20)
    trace.call("cudaEventRecord", 2, 3, 3)
    trace.call("cudaStreamWaitEvent", 3, 4, 4)
    trace.sync_row("Stream Wait Event", 3, 4, 4, stream=7, wait_on_stream=20, record=3)
    trace.launch("second", (4, 5), (43, 50), 5)
    return trace


def test_an_event_wait_names_the_stream_and_the_kernel(tmp_path: Path) -> None:
    scope = whole(0, waiting_stream().graph(tmp_path))
    assert causes(idle_time([scope])) == {"event_wait": 3_000}
    wait = idle_waits([scope]).iloc[0]
    assert wait[["lane", "name", "evidence"]].tolist() == ["stream 0:1:20", "prefetch", "recorded"]
    streams = stream_idle_time([scope])
    assert streams[["stream", "cause", "idle_ns", "gaps"]].to_numpy().tolist() == [
        ["stream 0:1:7", "event_wait", 33_000, 1],
    ]  # fmt: skip


def test_a_stream_whose_launch_waited_for_another_streams_work_was_blocked_on_the_host(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("first", (0, 1), (4, 10), 1)
    trace.launch("other", (1, 2), (5, 40), 2, stream=20)
    trace.call("cudaDeviceSynchronize", 6, 44)
    trace.launch("second", (45, 46), (48, 50), 3)
    scope = whole(0, trace.graph(tmp_path))
    assert causes(stream_idle_time([scope])) == {"host_blocked": 34_000, "host_no_operator": 1_000, "launch": 3_000}
    assert causes(idle_time([scope])) == {"host_blocked": 4_000, "host_no_operator": 1_000, "launch": 3_000}


def test_a_long_gap_after_a_launch_in_time_is_unknown_but_for_its_end(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("first", (0, 1), (4, 10), 1)
    trace.launch("second", (1, 2), (310, 320), 2)
    scope = whole(0, trace.graph(tmp_path))
    assert causes(idle_time([scope])) == {"unknown": 250_000, "stream_order": 50_000}
    assert causes(launch_gaps([scope])) == {"other": 300_000}
    assert causes(launch_gaps([scope], launch_gap_us=301)) == {"kernel_wait": 300_000}


def test_without_a_launch_in_the_file_it_is_not_known_who_was_late(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("first", 4, 10, 1)
    trace.kernel("second", 12, 20, 2)
    scope = whole(0, trace.graph(tmp_path))
    assert causes(idle_time([scope])) == {"launch_unknown": 2_000}
    assert causes(launch_gaps([scope])) == {"launch_unknown": 2_000}


def test_a_window_may_begin_and_end_with_nothing_to_run(tmp_path: Path) -> None:
    graph = late_host().graph(tmp_path)
    in_the_gap = in_window(0, graph, between(30_000, 60_000))
    assert causes(idle_time([in_the_gap])) == {"host_operator": 20_000, "host_call": 10_000}
    behind = in_window(0, graph, between(95_000, 99_000))
    assert causes(idle_time([behind])) == {"no_more_work": 2_000}
    assert longest_gaps([behind])["kernel"].isna().all()


def test_data_loading_is_a_cause_of_its_own(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("first", (0, 1), (4, 10), 1)
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 30)
    trace.op("aten::stack", 15, 20)
    trace.launch("second", (31, 32), (33, 40), 2)
    found = causes(idle_time([whole(0, trace.graph(tmp_path))]))
    assert found == {"data_loading": 18_000, "host_no_operator": 3_000, "launch": 2_000}


def test_activities_that_overlap_on_a_stream_leave_no_negative_gap(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("long", (0, 1), (2, 30), 1)
    trace.launch("short", (1, 2), (10, 12), 2)
    trace.launch("next", (2, 3), (33, 40), 3)
    found = stream_intervals(activities(trace.graph(tmp_path)))
    assert found.length.tolist() == [0, 3_000]


@pytest.mark.parametrize("has_calls", [True, False])
def test_a_gpu_of_which_nothing_is_recorded_is_not_called_idle(tmp_path: Path, *, has_calls: bool) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    if has_calls:
        trace.op("aten::add", 0, 5)
        trace.call("cudaLaunchKernel", 1, 3, 1)
    graph = trace.graph(tmp_path)
    found = answer([in_window(0, graph, hg.between(0, 100_000))])
    assert (list(found.conclusion), found.main.empty) == ([], True)
    assert "no GPU activity" in found.notes[0]


def test_no_gpu_work_is_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    scope = whole(0, trace.graph(tmp_path))
    found = answer([scope])
    assert all(frame.empty for frame in found.tables.values())
    columns = ["rank", "scope", "cause", "idle_ns", "idle_share", "window_share", "gaps", "median_gap_ns", "p95_gap_ns"]
    assert found.main.columns.tolist() == columns
    assert "no GPU activity" in found.notes[0]
    assert not figure(found).data
    frame, statistics = hta_idle_time([scope], show_idle_interval_stats=True, streams=None, consecutive_kernel_delay=30)
    assert frame.columns.tolist() == ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"]
    assert statistics is not None
    assert statistics.empty


def test_a_negative_threshold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="µs"):
        launch_gaps([whole(0, waiting_stream().graph(tmp_path))], launch_gap_us=-1)


def test_htas_frames(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 1), (4, 10), 1)
    trace.launch("b", (1, 2), (12, 20), 2)
    trace.launch("c", (30, 31), (32, 40), 3)
    trace.launch("d", (30, 31), (34, 40), 4, stream=9)
    frame, statistics = hta_idle_time(
        [whole(1, trace.graph(tmp_path))], show_idle_interval_stats=True, streams=None, consecutive_kernel_delay=30
    )
    assert frame.to_numpy().tolist() == [
        [1, 7, "host_wait", 12.0, 0.86],
        [1, 7, "kernel_wait", 2.0, 0.14],
        [1, 7, "other", 0.0, 0.0],
        [1, 9, "other", 0.0, 0.0],
    ]
    assert statistics is not None
    assert statistics.index.tolist() == ["host_wait", "kernel_wait", "other", "other"]
    assert statistics.iloc[0].fillna(-1).tolist() == [1, 7, 1, 12, -1, 12, 12, 12, 12, 12]
    assert statistics["count"].tolist() == [1, 1, 0, 0]
    only, nothing = hta_idle_time(
        [whole(1, trace.graph(tmp_path))], streams=[9], show_idle_interval_stats=False, consecutive_kernel_delay=30
    )
    assert only["stream"].tolist() == [9]
    assert nothing is None


def test_the_figure_has_a_bar_for_every_cause() -> None:
    causes = [cause.label for cause in GapCause]
    frame = pd.DataFrame({"rank": 0, "scope": "whole trace", "cause": causes, "idle_ns": 1, "window_share": 0.01})
    bars = bars_of_causes(frame).data
    assert [bar.name for bar in bars] == [SHORT[cause] for cause in causes]
    assert len({bar.marker.color for bar in bars}) == len(causes)


def test_the_figure_stacks_the_causes_of_each_rank(tmp_path: Path) -> None:
    found = answer([whole(0, late_host().graph(tmp_path))])
    assert {bar.name for bar in figure(found).data} == {
        "CPU in operator", "CPU in runtime call", "CPU, no operator", "CPU waits for GPU", "launch in progress",
    }  # fmt: skip


def simulated(seed: int, tmp_path: Path) -> hg.DependencyGraph:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 40)), Dialect()).document))
    return hg.build_graph(hg.read_trace(path))


@pytest.mark.parametrize("seed", [*range(6), *map(deep, range(6, 15))])
@pytest.mark.slow
def test_causes_sum_to_the_idle_time_of_simulated_programs(seed: int, tmp_path: Path) -> None:
    graph = simulated(seed, tmp_path)
    check_identities(graph)
    assert "launch_unknown" not in causes(idle_time([whole(0, graph)]))


def check_identities(graph: hg.DependencyGraph) -> None:
    scopes = [whole(0, graph), *(per_step(0, graph) if graph.trace.steps() else [])]
    idle = temporal_breakdown(scopes).set_index("scope")["idle_ns"]
    if not len(activities(graph)):
        idle *= 0  # a GPU of which nothing is recorded is not called idle
    by_cause = idle_time(scopes)
    assert (by_cause["idle_ns"] > 0).all()
    assert (by_cause.groupby("scope")["idle_ns"].sum().reindex(idle.index, fill_value=0) == idle).all()
    assert idle_waits(scopes[:1])["idle_ns"].sum() == idle.iloc[0]
    intervals = stream_intervals(scopes[0].running)
    for frame in (stream_idle_time(scopes[:1]), launch_gaps(scopes[:1])):
        assert frame["idle_ns"].sum() == intervals.length.sum()
    explainer = GapExplainer(graph)
    check_tiling(explainer, intervals.gaps()[0])
    for scope in scopes:
        check_tiling(explainer, device_gaps(scope.running, activities(graph), scope.start_ns, scope.end_ns))


def check_tiling(explainer: GapExplainer, gaps: Gaps) -> None:
    """Every gap's pieces follow each other from its start to its end."""
    found = explainer.explain(gaps)
    first = np.append(True, found.gap[1:] != found.gap[:-1]) if len(found.gap) else np.empty(0, np.bool_)
    assert np.unique(found.gap).tolist() == list(range(len(gaps)))
    assert np.array_equal(found.start[first], gaps.start[found.gap[first]])
    assert np.array_equal(found.start[~first], found.end[:-1][~first[1:]])
    last = np.append(first[1:], True) if len(first) else first
    assert np.array_equal(found.end[last], gaps.end[found.gap[last]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(3), *map(deep, range(3, 8))])
def test_a_gap_is_explained_by_the_edges_of_the_critical_path_through_it(seed: int, tmp_path: Path) -> None:
    check_against_paths(simulated(seed, tmp_path), most=12)


def check_against_paths(graph: hg.DependencyGraph, most: int) -> None:
    scope = whole(0, graph)
    every = activities(graph)
    gaps = device_gaps(scope.running, every, scope.start_ns, scope.end_ns)
    alone = np.flatnonzero([np.count_nonzero(every.start == end) == 1 for end in gaps.end.tolist()])[:most]
    found = GapExplainer(graph).explain(gaps)
    for gap in alone.tolist():
        start, end = int(gaps.start[gap]), int(gaps.end[gap])
        path = clipped(hg.critical_path(graph, between(start, end + 1)).segment_table, start, end)
        mine = found.take(found.gap == gap)
        kind = np.where(mine.edge >= 0, graph.edge_table.kind[mine.edge], -1)
        assert sums(kind, mine.length) == sums(path.edge_kind, path.end - path.start)
        named = kind == EdgeKind.THREAD_ORDER
        on_path = path.edge_kind == EdgeKind.THREAD_ORDER
        by_event = sums(path.event[on_path], (path.end - path.start)[on_path])
        assert sums(mine.event[named], mine.length[named]) == by_event


def clipped(pieces: SegmentTable, start: int, end: int) -> SegmentTable:
    cut = replace(pieces, start=pieces.start.clip(start, end), end=pieces.end.clip(start, end))
    return cut.take(cut.length > 0)


def sums(keys: Any, lengths: Any) -> dict[int, int]:
    return {key: int(lengths[keys == key].sum()) for key in np.unique(keys).tolist()}


@pytest.mark.shared
@pytest.mark.slow
def test_causes_sum_to_the_idle_time_of_every_step_and_trace(real_traces: list[Path]) -> None:
    for path in real_traces:
        check_identities(graph_of_file(path))


@cache
def graphs_of(name: str) -> dict[int, hg.DependencyGraph]:
    return {trace.rank or 0: hg.build_graph(trace) for trace in hg.read_traces(SHARED / "traces" / name)}


@pytest.mark.shared
@pytest.mark.parametrize("name", ["nccl_args_a100", "dlrm_8xv100", "sam_compile_cudagraph_a100", "megatron_tp2_v100"])
def test_real_gaps_are_explained_by_the_edges_of_the_critical_path(name: str) -> None:
    check_against_paths(next(iter(graphs_of(name).values())), most=15)


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_the_exact_recomputation_is_met(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "independent.json").read_text())["ranks"]
    for rank, graph in graphs_of(name).items():
        for threshold, limit in {"threshold_30us": 30.0, "threshold_30ns": 0.03}.items():
            check_launch_gaps(
                launch_gaps([whole(rank, graph)], launch_gap_us=limit), golden[str(rank)]["idle"]["all"], threshold
            )


def check_launch_gaps(frame: pd.DataFrame, exact: dict[str, Any], threshold: str) -> None:
    """Host waits are equal; what has no launch in the file is counted apart here and as launched in time there."""
    for stream, expected in exact.items():
        own = frame[frame["stream"].str.endswith(f":{stream}")]
        ours, theirs = causes(own), {cause: item["idle_ns"] for cause, item in expected[threshold].items()}
        assert ours.get("host_wait", 0) == theirs["host_wait"]
        assert own["idle_ns"].sum() == expected["gaps_ns"]
        if "launch_unknown" not in ours:
            assert ours == {cause: idle for cause, idle in theirs.items() if idle}
    assert frame["idle_ns"].sum() == sum(item["gaps_ns"] for item in exact.values())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ddp_v100", "execution_trace_sample", "sync_alexnet_a100", "dlrm_8xv100"])
def test_htas_answer_is_met_where_it_is_right(name: str) -> None:
    items = json.loads((SHARED / "golden" / name / "get_idle_time_breakdown.json").read_text())["result"]["items"]
    right = {rank: graph for rank, graph in graphs_of(name).items() if not (name == "dlrm_8xv100" and rank in (1, 3))}
    frame, statistics = hta_idle_time(
        hta_scopes(right), show_idle_interval_stats=True, streams=None, consecutive_kernel_delay=30
    )
    assert statistics is not None
    for ours, item in ((frame, items[0]), (statistics.reset_index(), items[1])):
        golden = pd.DataFrame(item["rows"], columns=[column.removeprefix("index:") for column in item["columns"]])
        theirs = golden[golden["rank"].isin(right)][ours.columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours.reset_index(drop=True), theirs, check_dtype=False)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["nccl_args_a100", "owlv2_pystack_h100"])
def test_htas_answer_without_rounding_is_met_but_for_its_float_error(name: str) -> None:
    golden = SHARED / "golden" / f"{name}__ns_rounding_off" / "get_idle_time_breakdown.json"
    item = json.loads(golden.read_text())["result"]["items"][0]
    theirs = pd.DataFrame(item["rows"], columns=item["columns"])
    ours, _ = hta_idle_time(
        hta_scopes(graphs_of(name)), streams=None, show_idle_interval_stats=False, consecutive_kernel_delay=30
    )
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, rtol=0, atol=5)


def test_a_median_and_95_percent_tell_of_single_gaps(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(31):
        trace.op("aten::mm", at * 100, at * 100 + 10 + at * at % 43)
        trace.launch(
            "gemm", (at * 100 + 5 + at * at % 43, at * 100 + 6 + at * at % 43), (at * 100 + 70, at * 100 + 90), at + 1
        )
    scope = whole(0, trace.graph(tmp_path))
    pieces = GapExplainer(scope.graph).explain(
        device_gaps(scope.running, activities(scope.graph), scope.start_ns, scope.end_ns)
    )
    for row in idle_time([scope]).itertuples():
        single: dict[int, int] = {}
        for gap, cause, length in zip(pieces.gap, pieces.cause, pieces.length, strict=True):
            if GapCause(cause).label == row.cause:
                single[gap] = single.get(gap, 0) + int(length)
        assert row.gaps == len(single)
        assert (row.median_gap_ns, row.p95_gap_ns) == (percentile(single.values(), 50), percentile(single.values(), 95))
    streams, device = stream_idle_time([scope]), idle_time([scope])
    assert set(map(tuple, streams[["cause", "median_gap_ns"]].to_numpy().tolist())) <= {
        *map(tuple, device[["cause", "median_gap_ns"]].to_numpy().tolist())
    }


def test_it_concludes_how_long_the_gpu_is_idle_and_what_is_mostly_behind_that(tmp_path: Path) -> None:
    graph = late_host().graph(tmp_path)
    scope = whole(0, graph)
    found = answer([scope])
    # 83 of 94 µs: between the kernels, 10 to 93.
    first = found.tables["idle_time"].iloc[0]
    said = found.conclusion[0]
    extent = "first to last GPU activity, 94.0 µs of the 97.0 µs trace"
    assert said.startswith(f"{extent}: GPU idle 88% of the time; largest cause: CPU in operator (")
    assert said.endswith(f"({first['idle_share']:.0%} of it, aten::linear)")


def test_of_a_gpu_that_is_never_idle_nothing_is_concluded(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (3, 10), 1)
    assert answer([whole(0, trace.graph(tmp_path))]).conclusion == []


def test_one_scope_instead_of_a_list_is_refused_with_the_way_to_pass_it(tmp_path: Path) -> None:
    scope = whole(0, TraceBuilder().graph(tmp_path))
    with pytest.raises(TypeError, match=re.escape("pass [scope]")):
        longest_gaps(scope)  # type: ignore[arg-type]


def test_idle_time_in_pauses_of_the_host_is_reported_once_whatever_divides_it(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 30), 1)
    for piece in range(4):
        trace.frame(f"decode.py({piece}): part", 40 + 500 * piece, 540 + 500 * piece)
    trace.launch("gemm", (2040, 2045), (2050, 2060), 2)
    notes = [str(note) for note in answer([whole(0, trace.graph(tmp_path))]).closing_notes]
    said = "of the idle time is in 1 pause of the host, longer than 1 ms between launches."
    assert [note for note in notes if said in note] == [
        f"Rank 0: 2.01 ms (>99%) {said} CUDA graphs do not remove pauses."
    ]
