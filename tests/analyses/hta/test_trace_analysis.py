"""``TraceAnalysis`` and ``TraceDiff`` for those who come from HTA: the same names, arguments, defaults and shapes."""

from __future__ import annotations

import gzip
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import numpy as np
import pandas as pd
import pytest

import analyses
from analyses import CPEdgeType, DeviceType, LabeledTrace, TimeSeriesTypes, Trace, TraceAnalysis, TraceDiff
from hta_graph.base.errors import OutputError, QueryError, UsageError
from tests.support.deep_tests import deep
from tests.support.host_builder import host_of
from tests.support.incomplete_traces import POOR_TRACES, TELLING, broken_off
from tests.support.merged_ranks import labelled, read_document, with_own_process, write_merged
from tests.support.trace_builder import PID, TraceBuilder

FOUR_RANKS = Path(analyses.__file__).parent / "sample" / "four_ranks"
ONE = FOUR_RANKS / "rank_1.json.gz"

SIGNATURES = {
    "__init__": "trace_files=None, trace_dir=*, include_last_profiler_step=False",
    "get_comm_comp_overlap": "visualize=True",
    "get_profiler_steps": "",
    "get_potential_stragglers": (
        "profiler_steps=None, num_candidates=2, visualize=False, straggler_identification_impl=*"
    ),
    "get_gpu_kernel_breakdown": (
        "visualize=True, duration_ratio=0.8, num_kernels=10, include_memory_kernels=True, image_renderer=''"
    ),
    "get_gpu_kernels_with_user_annotations": "rank, expand_names=True, shorten_names=True",
    "get_gpu_user_annotation_breakdown": (
        "use_gpu_annotation=True, visualize=True, duration_ratio=0.8, num_kernels=1000, allowlist_patterns=None, "
        "image_renderer=None"
    ),
    "get_temporal_breakdown": "visualize=True",
    "get_frequent_cuda_kernel_sequences": (
        "operator_name, output_dir=*, min_pattern_len=3, rank=*, top_k=5, visualize=False, compress_other_kernels=True"
    ),
    "get_aten_op_kernels_and_delay": "ranks=None, sort_by=None",
    "get_cuda_kernel_launch_stats": (
        "ranks=None, runtime_cutoff=50, launch_delay_cutoff=100, include_memory_events=True, visualize=True"
    ),
    "generate_trace_with_counters": "time_series=None, ranks=None, output_suffix='_with_counters'",
    "get_queue_length_summary": "ranks=None",
    "get_queue_length_summary_from_time_series": "queue_length_dict",
    "get_queue_length_time_series": "ranks=None",
    "get_time_spent_blocked_on_full_queue": "queue_length_dict, max_queue_length=1024",
    "get_memory_bw_summary": "ranks=None",
    "get_memory_bw_time_series": "ranks=None",
    "get_idle_time_breakdown": (
        "ranks=None, streams=None, visualize=True, visualize_pctg=True, show_idle_interval_stats=False, "
        "consecutive_kernel_delay=30"
    ),
    "get_cupti_counter_data_with_operators": "ranks=None",
    "critical_path_analysis": "rank, annotation=*, instance_id=*, data_load_events=None",
    "overlay_critical_path_analysis": (
        "rank, critical_path_graph, output_dir, only_show_critical_events=True, show_all_edges=False"
    ),
}
"""HTA 0.6.1's methods; a star is a default of ours where HTA has none or another kind."""

DIFF_ARGUMENTS = ["control", "test", "control_rank", "test_rank", "control_iteration", "test_iteration", "device_type"]
ALIASES = {
    "get_frequent_cuda_kernel_patterns": "get_frequent_cuda_kernel_sequences",
    "get_cuda_launch_kernel_info": "get_cuda_kernel_launch_stats",
    "get_queue_length_series": "get_queue_length_time_series",
    "get_memory_bw_series": "get_memory_bw_time_series",
    "get_op_kernels_and_delay": "get_aten_op_kernels_and_delay",
}


@pytest.fixture(scope="module")
def four() -> TraceAnalysis:
    return TraceAnalysis(trace_dir=str(FOUR_RANKS))


# -- names and arguments ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", SIGNATURES)
def test_methods_take_the_arguments_of_hta_in_its_order(method: str) -> None:
    ours = list(inspect.signature(getattr(TraceAnalysis, method)).parameters.values())
    ours = [item for item in ours if item.name != "self"]
    wanted = [item.split("=") for item in SIGNATURES[method].split(", ") if item]
    for parameter, (name, *default) in zip(ours, wanted, strict=False):
        assert parameter.name == name
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if default and default[0] != "*":
            assert repr(parameter.default) == default[0]
    assert len(ours) >= len(wanted)
    assert all(item.default is not inspect.Parameter.empty for item in ours[len(wanted) :])


def test_older_names_are_the_same_methods() -> None:
    for older, name in ALIASES.items():
        assert getattr(TraceAnalysis, older) is getattr(TraceAnalysis, name)


def test_comparisons_take_the_arguments_of_hta() -> None:
    assert list(inspect.signature(TraceDiff.compare_traces).parameters) == [*DIFF_ARGUMENTS, "use_short_name"]
    assert list(inspect.signature(TraceDiff.ops_diff).parameters) == DIFF_ARGUMENTS
    for draw in (TraceDiff.visualize_counts_diff, TraceDiff.visualize_duration_diff):
        assert list(inspect.signature(draw).parameters) == ["df", "show_image", "export_image_path"]
    assert list(inspect.signature(LabeledTrace).parameters)[:3] == ["label", "t", "trace_dir"]


def test_every_method_says_in_a_sentence_what_it_returns() -> None:
    for method in SIGNATURES:
        text = inspect.getdoc(getattr(TraceAnalysis, method)) or ""
        assert text.split("\n\n")[0].rstrip().endswith((".", "it."))


def test_all_names_are_imported_from_one_place_and_only_when_used() -> None:
    for name in analyses.__all__:
        assert getattr(analyses, name) is not None
    with pytest.raises(AttributeError, match="TraceAnalyzer"):
        analyses.TraceAnalyzer  # noqa: B018
    code = "import sys, analyses; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- which traces -----------------------------------------------------------------------------------------------------


def test_files_may_be_named_by_rank_by_list_or_by_folder(tmp_path: Path) -> None:
    copy(ONE, tmp_path / "only.json.gz")
    for files, folder in (
        ({5: str(ONE)}, None),
        ({5: "rank_1.json.gz"}, str(FOUR_RANKS)),
        ({5: "only.json.gz"}, str(tmp_path)),
    ):
        found = TraceAnalysis(trace_files=files, trace_dir=folder)
        assert found.get_ranks() == [5]
        assert found.get_temporal_breakdown(visualize=False)["rank"].tolist() == [5]
    assert TraceAnalysis(trace_files=[str(ONE)]).get_ranks() == [1]
    assert TraceAnalysis(trace_dir=str(FOUR_RANKS)).get_ranks() == [0, 1, 2, 3]
    assert TraceAnalysis({0: str(ONE), 1: str(ONE)}).get_ranks() == [0, 1]


def test_merged_ranks_are_named_one_by_one_or_by_their_file(tmp_path: Path) -> None:
    paths = [FOUR_RANKS / f"rank_{rank}.json.gz" for rank in range(3)]
    documents = [with_own_process(read_document(path), rank) for rank, path in enumerate(paths)]
    merged = str(write_merged(documents, labelled, tmp_path / "merged.json"))
    apart = TraceAnalysis(trace_files=dict(enumerate(map(str, paths)))).get_temporal_breakdown(visualize=False)
    for files in ({0: merged, 1: merged, 2: merged}, [merged]):
        together = TraceAnalysis(trace_files=files).get_temporal_breakdown(visualize=False)
        pd.testing.assert_frame_equal(together, apart)
    beside = TraceAnalysis(trace_files={0: str(paths[0]), 2: merged}).get_temporal_breakdown(visualize=False)
    pd.testing.assert_frame_equal(beside, apart[apart["rank"] != 1].reset_index(drop=True))
    with pytest.raises(QueryError, match="rank 7 is not among the merged ranks 0, 1, 2"):
        TraceAnalysis(trace_files={7: merged}).get_ranks()


def test_without_a_rank_the_lowest_is_asked_and_an_unknown_one_is_an_error(four: TraceAnalysis) -> None:
    alone = TraceAnalysis(trace_files=[str(ONE)])
    assert list(alone.get_queue_length_time_series()) == [1]
    assert alone.get_idle_time_breakdown(visualize=False)[0]["rank"].unique().tolist() == [1]
    assert list(four.get_queue_length_time_series(ranks=[2, 0])) == [2, 0]
    with pytest.raises(QueryError, match=r"rank 7 is not loaded; choose one of 0, 1, 2, 3"):
        four.get_memory_bw_summary(ranks=[7])
    for nothing in ({}, {"trace_files": {}}):
        with pytest.raises(QueryError, match="trace_dir"):
            TraceAnalysis(**nothing)  # type: ignore[arg-type]


def test_the_window_is_that_of_hta_or_everything() -> None:
    steps = {
        window: TraceAnalysis(trace_files=[str(ONE)], window=window).get_profiler_steps() for window in ("hta", "whole")
    }
    assert len(steps["whole"]) == len(steps["hta"]) + 1
    kept = TraceAnalysis(trace_files=[str(ONE)], include_last_profiler_step=True)
    assert kept.get_profiler_steps() == steps["whole"]
    with pytest.raises(UsageError, match="hta, whole"):
        TraceAnalysis(trace_files=[str(ONE)], window="half")


def test_nothing_is_read_before_a_question_and_nothing_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from hta_graph.multi_rank import job_source

    asked: list[object] = []
    read = job_source.read_graphs
    monkeypatch.setattr(job_source, "read_graphs", lambda paths, **more: asked.append(paths) or read(paths, **more))
    found = TraceAnalysis(trace_files=[str(ONE)])
    assert asked == []
    found.get_temporal_breakdown(visualize=False)
    found.get_gpu_kernel_breakdown(visualize=False)
    assert len(asked) == 1


# -- answers ----------------------------------------------------------------------------------------------------------


def test_every_question_is_answered_in_the_shape_of_hta(four: TraceAnalysis, tmp_path: Path) -> None:
    assert list(four.get_temporal_breakdown()) == [
        *("rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)"),
        *("idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"),
    ]
    assert list(four.get_comm_comp_overlap()) == ["rank", "comp_comm_overlap_pctg"]
    types, kernels = four.get_gpu_kernel_breakdown()
    assert list(types) == ["kernel_type", "sum", "percentage"]
    assert list(kernels)[1:6] == ["sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"]
    idle, statistics = four.get_idle_time_breakdown(ranks=[0, 1], show_idle_interval_stats=True)
    assert list(idle) == ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"]
    assert statistics is not None
    assert statistics.index.name == "idle_category"
    queues = four.get_queue_length_time_series(ranks=[0])
    assert list(queues[0]) == ["ts", "pid", "tid", "stream", "queue_length"]
    summary = four.get_queue_length_summary_from_time_series(queues)
    assert summary is not None
    assert summary.index.names == ["rank", "stream"]
    pd.testing.assert_frame_equal(summary, four.get_queue_length_summary(ranks=[0]))
    assert list(four.get_time_spent_blocked_on_full_queue(queues, max_queue_length=2))[:2] == ["rank", "stream"]
    assert list(four.get_memory_bw_time_series()[0]) == ["ts", "pid", "name", "memory_bw_gbps"]
    assert four.get_memory_bw_summary() is not None
    assert list(four.get_cuda_kernel_launch_stats()[0]) == [
        "correlation",
        "cpu_duration",
        "gpu_duration",
        "launch_delay",
    ]
    assert list(four.get_aten_op_kernels_and_delay()[0])[:3] == ["aten_op_name", "kernel_sequence", "occurrence_count"]
    sequences = four.get_frequent_cuda_kernel_sequences("aten::", str(tmp_path), min_pattern_len=1)
    assert list(sequences) == ["pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"]
    assert [path.name for path in tmp_path.iterdir()] == ["overlaid_rank_0.json.gz"]
    breakdown = four.get_gpu_user_annotation_breakdown(use_gpu_annotation=False)
    assert breakdown is not None
    assert next(iter(breakdown)) == "name"
    assert four.get_profiler_steps() == sorted(four.get_profiler_steps())
    assert set(four.get_potential_stragglers(num_candidates=4)) <= set(four.get_ranks())
    assert four.get_cupti_counter_data_with_operators() == []


def test_the_critical_path_is_found_and_drawn_over_the_trace(four: TraceAnalysis, tmp_path: Path) -> None:
    path, success = four.critical_path_analysis(rank=1, annotation="ProfilerStep", instance_id=1)
    assert success
    assert sum(path.by_bound_ns.values()) == path.length_ns
    both, _ = four.critical_path_analysis(rank=1, annotation="ProfilerStep", instance_id=(0, 1))
    assert both.length_ns > path.length_ns
    written = four.overlay_critical_path_analysis(1, path, output_dir=str(tmp_path))
    assert Path(written) == tmp_path / f"overlaid_critical_path_{ONE.name}"  # named and compressed as HTA's
    overlaid = json.loads(gzip.decompress(Path(written).read_bytes()))
    assert len(overlaid["traceEvents"]) > len(json.loads(gzip.decompress(ONE.read_bytes()))["traceEvents"])
    with pytest.raises(QueryError):
        four.critical_path_analysis(rank=1, annotation="no such part")


def test_counters_are_written_where_one_says(tmp_path: Path) -> None:
    copy(ONE, tmp_path / "rank1.json.gz")
    found = TraceAnalysis(trace_dir=str(tmp_path))
    (beside,) = found.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH)
    assert beside == tmp_path / "rank1_with_counters.json.gz"
    (elsewhere,) = found.generate_trace_with_counters(output_dir=tmp_path / "..", output_suffix="_more")
    assert elsewhere.resolve().parent == tmp_path.parent.resolve()


def test_nothing_is_written_over_another_rank(tmp_path: Path) -> None:
    names = {0: "a.json", 1: "a_with_counters.json", 2: "overlaid_a.json", 3: "overlaid_critical_path_a.json"}
    for rank, name in names.items():
        trace = TraceBuilder(distributedInfo={"rank": rank})
        trace.op("aten::mm", 0, 20)
        trace.launch("k", (1, 2), (5, 9), 1)
        trace.write(tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = TraceAnalysis(trace_files={rank: str(tmp_path / name) for rank, name in names.items()})
    path, _ = found.critical_path_analysis(0, "", 0)
    for write in (
        found.generate_trace_with_counters,
        lambda: found.get_frequent_cuda_kernel_sequences("aten", tmp_path, 1, rank=0),
        lambda: found.overlay_critical_path_analysis(0, path, str(tmp_path)),
    ):
        with pytest.raises(OutputError, match="is an input, and inputs are never overwritten"):
            write()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_times_count_from_the_first_event_of_all_ranks_whichever_are_asked(tmp_path: Path) -> None:
    for rank, start in ((0, 100), (1, 400)):
        trace = TraceBuilder(distributedInfo={"rank": rank})
        trace.launch("k", (start, start + 1), (start + 5, start + 9), 1)
        trace.write(tmp_path / f"rank{rank}.json")
    found = TraceAnalysis(trace_dir=str(tmp_path))
    assert found.get_queue_length_time_series(ranks=[1])[1]["ts"].tolist() == [300.0, 305.0]
    assert found.t.get_trace(1)["ts"].tolist() == [300.0, 305.0]
    assert found.t.min_ts == 100.0


def test_a_rule_of_ones_own_names_the_stragglers(four: TraceAnalysis) -> None:
    def longest(frame: pd.DataFrame, symbols: object, most: int, visualize: bool) -> pd.Series:
        assert list(frame)[:2] == ["rank", "idx"]
        assert not visualize
        assert set(frame["iteration"]) == {1}
        return frame.groupby("rank")["dur"].sum().rank()

    own = four.get_potential_stragglers([1], num_candidates=3, straggler_identification_impl=longest)
    assert len(set(own)) == 3
    assert all(isinstance(rank, int) for rank in own)


def test_counters_of_hardware_come_with_the_columns_of_the_trace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    trace.call("cudaLaunchKernel", 12, 13, 1)
    counted = trace.row(
        ph="X", cat="cuda_profiler_range", name="gemm", pid=0, tid=0, ts=90, dur=10, args={"inst.sum": 5}
    )
    (frame,) = TraceAnalysis(
        trace_files=[str(trace.write(tmp_path / "t.json"))]
    ).get_cupti_counter_data_with_operators()
    assert {"pid", "tid", "stream", "correlation", "iteration"} <= set(frame)
    (row,) = frame.to_dict("records")
    assert (row["index"], row["name"], row["cat"]) == (counted, "gemm", "cuda_profiler_range")
    assert (row["op_stack"], row["top_level_op"], row["inst.sum"]) == (["aten::mm"], "aten::mm", 5)


@pytest.mark.parametrize(
    "make",
    [make if make in TELLING else deep(make) for make in POOR_TRACES if make is not broken_off],
    ids=lambda make: make.__name__,
)
@pytest.mark.slow
def test_traces_that_lack_something_are_answered_too(make: Callable[[Path], list[Path]], tmp_path: Path) -> None:
    found = TraceAnalysis(trace_files=[str(path) for path in make(tmp_path)])
    rank = found.get_ranks()[0]
    queues = found.get_queue_length_time_series()
    answers = [
        found.get_temporal_breakdown(),
        *found.get_gpu_kernel_breakdown(),
        found.get_idle_time_breakdown()[0],
        *found.get_idle_time_breakdown(show_idle_interval_stats=True),
        found.get_comm_comp_overlap(),
        found.get_queue_length_summary(),
        found.get_queue_length_summary_from_time_series(queues),
        found.get_time_spent_blocked_on_full_queue(queues),
        found.get_memory_bw_summary(),
        found.get_gpu_user_annotation_breakdown(),
        found.get_gpu_user_annotation_breakdown(use_gpu_annotation=False),
        found.get_gpu_kernels_with_user_annotations(rank),
        found.get_frequent_cuda_kernel_sequences("aten::"),
        *found.get_memory_bw_time_series().values(),
        *found.get_cuda_kernel_launch_stats().values(),
        *found.get_aten_op_kernels_and_delay().values(),
        *found.get_cupti_counter_data_with_operators(),
        found.t.get_trace(rank),
    ]
    assert all(answer is None or len(answer.columns) for answer in answers)
    assert found.get_potential_stragglers() == []
    assert found.get_profiler_steps() == found.t.get_iterations(rank)
    assert found.t.get_trace_duration(rank) >= 0
    assert len(found.generate_trace_with_counters(output_dir=tmp_path)) == 1
    assert len(TraceDiff.compare_traces(found, found)) >= 0


# -- frames -----------------------------------------------------------------------------------------------------------


def test_a_trace_has_what_htas_users_read_from_it(four: TraceAnalysis) -> None:
    t = four.t
    assert t.get_ranks() == four.get_ranks() == list(t.get_all_traces()) == list(t.trace_files)
    assert t.get_iterations(1) == four.get_profiler_steps()
    frame = t.get_trace(1)
    assert t.get_trace_duration(1) == frame["ts"].max() - frame["ts"].min()
    assert t.symbol_table.get_sym_table()[frame["name"].iloc[0]] == frame["s_name"].iloc[0]
    t.decode_symbol_ids(use_shorten_name=False)
    assert t.get_trace(1) is frame
    with pytest.raises(QueryError, match="rank 9"):
        t.get_trace(9)


def test_parsed_traces_have_the_rows_and_the_clock_of_the_file(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in range(3):
        trace.annotation(f"ProfilerStep#{step}", 1_000 + 100 * step, 1_090 + 100 * step)
        trace.launch("k", (1_010 + 100 * step, 1_012 + 100 * step), (1_020 + 100 * step, 1_030 + 100 * step), step + 1)
    t = Trace(trace_files={0: str(trace.write(tmp_path / "t.json"))})
    loaded = t.get_trace(0)
    assert (loaded["ts"].min(), len(loaded)) == (0, 6)  # aligned, and without the last step
    t.parse_traces()
    parsed = t.get_trace(0)
    assert parsed["ts"].tolist() == [row["ts"] for row in trace.rows]
    names = [t.symbol_table.sym_table[code] for code in parsed["name"]]
    assert names == [row["name"] for row in trace.rows]
    inside = analyses.TimeRangeFilter((1_200, 1_290))(parsed)
    assert inside["s_name"].tolist() == ["ProfilerStep#2", "cudaLaunchKernel", "k"]
    t.align_and_filter_trace()
    pd.testing.assert_frame_equal(t.get_trace(0), loaded)
    t.align_and_filter_trace(include_last_profiler_step=True)
    assert len(t.get_trace(0)) == 9


def test_times_of_a_file_with_a_base_are_those_that_it_prints(tmp_path: Path) -> None:
    trace = TraceBuilder(baseTimeNanoseconds=1_700_000_000_000_000_000)
    trace.op("aten::mm", 5.25, 20)
    t = Trace(trace_files={0: str(trace.write(tmp_path / "t.json"))})
    t.parse_traces()
    assert t.get_trace(0)["ts"].tolist() == [5.25]


def test_rows_of_mtia_without_a_stream_are_on_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for tid, args in ((801, {}), (3, {"stream": 3})):
        trace.row(ph="X", cat="mtia_ccp_events", name="job", pid=0, tid=tid, ts=tid, dur=5, args=args)
    found = TraceAnalysis(trace_files={0: str(trace.write(tmp_path / "t.json"))}).get_trace(0)
    assert dict(zip(found["tid"], found["stream"], strict=True)) == {801: -1, 3: 3}


def test_a_folder_is_read_again_after_copies_were_written_into_it(tmp_path: Path) -> None:
    for rank in range(2):
        copy(FOUR_RANKS / f"rank_{rank}.json.gz", tmp_path)
    found = TraceAnalysis(trace_dir=str(tmp_path))
    path, _ = found.critical_path_analysis(0)
    found.generate_trace_with_counters(ranks=[0, 1])
    found.overlay_critical_path_analysis(0, path, str(tmp_path))
    found.get_frequent_cuda_kernel_sequences("aten", str(tmp_path), 1, rank=0)
    assert len(list(tmp_path.iterdir())) == 6
    assert TraceAnalysis(trace_dir=str(tmp_path)).get_ranks() == [0, 1]


def test_a_script_that_exports_sync_dependencies_runs_line_by_line(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#0", 0, 400)
    trace.op("aten::mm", 10, 30, **{"External id": 5})
    trace.launch("gemm", (12, 15), (20, 220), 1)
    trace.rows[-1]["args"]["External id"] = 5
    trace.op("aten::item", 40, 260, **{"External id": 6})
    call = trace.call("cudaStreamSynchronize", 45, 230, 2)
    trace.rows[call]["args"]["External id"] = 6
    trace.op("aten::add", 300, 390)
    analysis = TraceAnalysis(trace_files={0: str(trace.write(tmp_path / "t.json"))})

    # As in mlcommons/chakra pull request 57, but for what it logs.
    graph, success = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
    assert success
    raw_events = analysis.t.get_raw_trace_for_one_rank(rank=0)["traceEvents"]
    sync_dependencies: dict[int, list[int]] = {}
    for edge in graph.critical_path_edges_set:
        if edge.type in [CPEdgeType.SYNC_DEPENDENCY]:
            start_event_id, end_event_id = graph.get_events_for_edge(edge)
            start_event, end_event = raw_events[start_event_id], raw_events[end_event_id]
            if "External id" in end_event["args"] and "External id" in start_event["args"]:
                sync_dependencies.setdefault(end_event["args"]["External id"], [])
                sync_dependencies[end_event["args"]["External id"]].append(start_event["args"]["External id"])
    assert sync_dependencies == {6: [5]}


def test_edges_of_a_path_have_the_types_of_hta(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.launch("a", (2, 5), (20, 120), 1)
    trace.launch("b", (6, 9), (121, 221), 2)
    analysis = TraceAnalysis(trace_files={0: str(trace.write(tmp_path / "t.json"))})
    path, _ = analysis.critical_path_analysis(rank=0)
    types = {edge.type: edge.weight for edge in path.critical_path_edges_set}
    assert types[CPEdgeType.KERNEL_KERNEL_DELAY] == 1
    assert types[CPEdgeType.KERNEL_LAUNCH_DELAY] == 18
    assert types[CPEdgeType.OPERATOR_KERNEL] in {2, 100}
    events = {trace.rows[index]["name"] for index in path.critical_path_events_set}
    assert events == {"aten::mm", "cudaLaunchKernel", "a", "b"}
    assert len(path.critical_path_nodes) == len(path.critical_path_edges_set) + 1


def test_figures_are_shown_where_there_is_a_display(four: TraceAnalysis, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("plotly.graph_objects.Figure.show", lambda _, renderer, **__: shown.append(renderer))
    four.get_temporal_breakdown(visualize=True)
    assert shown == []
    monkeypatch.setenv("DISPLAY", ":0")
    four.get_temporal_breakdown(visualize=False)
    four.get_temporal_breakdown(visualize=True)
    assert shown == ["browser"]


def test_a_trace_stands_alone_too() -> None:
    t = Trace(trace_files=[str(ONE)])
    short = len(t.get_trace(1))
    t.load_traces(include_last_profiler_step=True)
    assert len(t.get_trace(1)) > short


def test_what_is_done_to_a_frame_changes_no_answer(tmp_path: Path) -> None:
    found = TraceAnalysis(trace_files=[str(annotated(tmp_path))])
    before = found.get_gpu_kernels_with_user_annotations(0)
    frame = found.t.get_trace(0)
    frame["dur"] = -5
    del frame["stream"]
    copied = found.get_trace(0)
    copied["ts"] = 0
    assert before is not None
    assert before["dur"].tolist() == [10.0]
    pd.testing.assert_frame_equal(before, found.get_gpu_kernels_with_user_annotations(0))
    queues = found.get_queue_length_time_series()
    columns = list(queues[0])
    found.get_queue_length_summary_from_time_series(queues)
    assert list(queues[0]) == columns


def annotated(folder: Path) -> Path:
    trace = TraceBuilder()
    for cat, pid, start in (("user_annotation", PID, 0), ("gpu_user_annotation", 0, 20)):
        trace.row(ph="X", cat=cat, name="part", pid=pid, tid=7, ts=start, dur=15, args={"External id": 3})
    trace.launch("gemm", (1, 2), (22, 32), 1)
    return trace.write(folder / "trace.json")


def test_host_traces_add_columns_to_the_frame_as_in_hta(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, name in enumerate(("aten::linear", "aten::mm")):
        trace.op(name, 10 * at, 10 * at + 8, **{"External id": 20 + at})
    found = TraceAnalysis(trace_files=[str(trace.write(tmp_path / "trace.json"))])
    host = analyses.load_execution_trace(host_of(found.get_graph(0)).write(tmp_path / "host.json"))
    frame = found.t.get_trace(0)
    analyses.correlate_execution_trace(found.t, 0, host)
    analyses.add_et_column(frame, host, "et_node_name")
    assert frame["et_node_name"].tolist() == ["aten::linear", "aten::mm"]
    assert frame["et_node"].tolist() == [3, 4], "behind the nodes of the process and of its thread"


# -- comparing --------------------------------------------------------------------------------------------------------


def test_sides_are_folders_traces_and_labelled_ones(four: TraceAnalysis) -> None:
    label = LabeledTrace("before", t=Trace(trace_dir=str(FOUR_RANKS)))
    assert label.ranks() == [0, 1, 2, 3]
    assert label.iterations() == [1, 2, 3]
    frame = TraceDiff.compare_traces(label, str(FOUR_RANKS), device_type=DeviceType.GPU)
    assert list(frame)[:4] == ["before_counts", "before_total_duration", "Test_counts", "Test_total_duration"]
    assert not frame["diff_counts"].any()
    same = TraceDiff.compare_traces(four, Trace(trace_dir=str(FOUR_RANKS)), control_rank=2, test_rank=2)
    assert not same["diff_duration"].any()


def test_several_ranks_and_steps_add_up(four: TraceAnalysis) -> None:
    one, other, both = (
        TraceDiff.compare_traces(four, four, control_rank=ranks, control_iteration=[1, 2]) for ranks in (0, 1, [0, 1])
    )
    parts = one["Control_counts"].add(other["Control_counts"], fill_value=0)
    assert np.array_equal(both["Control_counts"], parts.reindex(both.index))
