"""Annotations: their time on the CPU, the GPU work launched inside them, and HTA's two questions about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses.declare.scope import in_window, per_step, whole
from analyses.hta.breakdowns import hta_gpu_kernels_with_user_annotations, hta_gpu_user_annotation_breakdown
from analyses.hta.frame import hta_scopes, hta_trace_frames
from analyses.questions.annotation_times import (
    annotated_activities,
    annotation_durations,
    annotation_times,
    answer,
    figure,
)
from hta_graph.attribution.owners import annotation_sources, gpu_annotations_over
from hta_graph.base.errors import QueryError
from hta_graph.model import EventKind
from hta_graph.paths.windows import between
from tests.support.golden_graphs import NANOSECONDS, TRACES, WHOLE_MICROSECONDS, answered, graphs
from tests.support.shared_traces import graph_of_file
from tests.support.trace_builder import PID, TraceBuilder

UNROUNDED = ("nccl_args_a100", "nanogpt_ab_current", "nanogpt_ddp_8xh100", "owlv2_pystack_h100")
"""Nanosecond traces of which HTA answered without rounding too, and kept all copies of annotations."""


def build() -> TraceBuilder:
    trace = TraceBuilder()
    trace.annotation("outer", 0, 40)
    trace.annotation("inner", 5, 15)
    trace.annotation("inner", 8, 12)
    trace.launch("k", (9, 10), (20, 30), 1)
    trace.launch("k", (18, 19), (25, 45), 2, stream=8)
    trace.launch("k", (50, 51), (60, 63), 3)
    return trace


def copied(trace: TraceBuilder, name: str, start: float, end: float, ident: int, stream: int = 7) -> None:
    """Add the copy of an annotation on a stream."""
    trace.row(
        ph="X", cat="gpu_user_annotation", name=name, pid=0, tid=stream, ts=start, dur=end - start,
        args={"External id": ident},
    )  # fmt: skip


def test_nested_annotations_count_their_work_once(tmp_path: Path) -> None:
    frame = annotation_times([whole(0, build().graph(tmp_path))])
    assert frame.drop(columns=["rank", "scope"]).to_numpy().tolist() == [
        ["outer", 1, 40_000, 40_000, 2, 30_000, 20_000, 25_000],
        ["inner", 2, 14_000, 10_000, 1, 10_000, 10_000, 10_000],
        ["(none)", 0, 0, 0, 1, 3_000, 3_000, 3_000],
    ]


def test_durations_are_of_single_instances_on_both_sides(tmp_path: Path) -> None:
    trace = build()
    copied(trace, "outer", 19, 31, 5)
    assert annotation_durations([whole(0, trace.graph(tmp_path))]).iloc[:, 2:].to_numpy().tolist() == [
        ["cpu", "outer", 1, 40_000, 40_000, 40_000, 40_000],
        ["cpu", "inner", 2, 14_000, 4_000, 7_000, 10_000],
        ["gpu", "outer", 1, 12_000, 12_000, 12_000, 12_000],
    ]


def test_an_activity_is_under_the_shortest_copy_that_it_overlaps_on_its_stream(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for name, start, end, ident, stream in (("long", 10, 50, 1, 7), ("short", 18, 22, 2, 7), ("other", 0, 90, 3, 8)):
        trace.row(
            ph="X", cat="user_annotation", name=name, pid=PID, tid=1, ts=start / 10, dur=1, args={"External id": ident}
        )
        copied(trace, name, start, end, ident, stream)
    for at, (start, end) in enumerate(((0, 5), (10, 10), (10.5, 11), (12, 18), (17, 19), (22, 30), (50, 55))):
        trace.kernel("k", start, end, at + 1)
    graph = trace.graph(tmp_path)
    rows = np.flatnonzero(graph.trace.is_gpu).astype(np.int32)
    over = [graph.trace.name_of(row) if row >= 0 else None for row in gpu_annotations_over(graph, rows).tolist()]
    assert over == [None, "long", "long", "long", "short", "long", None]
    copies, sources = annotation_sources(graph)
    assert [graph.trace.name_of(row) for row in copies.tolist()] == [
        graph.trace.name_of(row) for row in sources.tolist()
    ]


def test_each_activity_is_listed_with_both_annotations(tmp_path: Path) -> None:
    trace = build()
    copied(trace, "outer", 19, 31, 5)
    frame = annotated_activities([whole(0, trace.graph(tmp_path))])
    assert frame["annotation"].fillna("").tolist() == ["inner", "outer", ""]
    assert frame["gpu_annotation"].fillna("").tolist() == ["outer", "", ""]
    assert frame["gpu_annotation_index"].isna().tolist() == [False, True, True]


def test_a_trace_without_annotations_says_how_to_record_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("k", (0, 1), (2, 3), 1)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.main["annotation"].tolist() == ["(none)"]
    assert "record_function" in found.notes[0]
    empty = TraceBuilder()
    empty.op("aten::add", 0, 1)
    found = answer([whole(0, empty.graph(tmp_path))])
    assert not len(found.main)
    assert not figure(found).data


def test_the_figure_names_the_annotations(tmp_path: Path) -> None:
    made = figure(answer([whole(0, build().graph(tmp_path))]))
    assert [list(bar.y) for bar in made.data] == [["(none)", "inner", "outer"]] * 3


def test_hta_questions_are_none_without_copies(tmp_path: Path) -> None:
    scope = whole(0, build().graph(tmp_path))
    assert hta_gpu_kernels_with_user_annotations(scope, expand_names=True, shorten_names=True) is None
    assert (
        hta_gpu_user_annotation_breakdown(
            [scope], use_gpu_annotation=True, duration_ratio=0.8, num_kernels=1000, allowlist_patterns=None
        )
        is None
    )


def test_others_are_all_instances_of_the_rest_and_allowed_names_stay(tmp_path: Path) -> None:
    scopes = [whole(0, build().graph(tmp_path))]
    frame = hta_gpu_user_annotation_breakdown(
        scopes, use_gpu_annotation=False, num_kernels=1, duration_ratio=0.8, allowlist_patterns=None
    )
    assert frame is not None
    assert frame.to_numpy().tolist() == [
        ["others", 14.0, 10.0, 4.0, pytest.approx(4.2426, abs=1e-3), 7.0, 0],
        ["outer", 40.0, 40.0, 40.0, 0.0, 40.0, 0],
    ]
    kept = hta_gpu_user_annotation_breakdown(
        scopes, use_gpu_annotation=False, num_kernels=1, allowlist_patterns=["^in+er$"], duration_ratio=0.8
    )
    assert kept is not None
    assert kept["name"].tolist() == ["inner", "outer"]
    with pytest.raises(QueryError, match="regular expression"):
        hta_gpu_user_annotation_breakdown(
            scopes, use_gpu_annotation=False, allowlist_patterns=["("], duration_ratio=0.8, num_kernels=1000
        )


@pytest.mark.slow
@pytest.mark.shared
def test_own_times_sum_to_all_in_every_step_of_every_trace(real_traces: list[Path]) -> None:
    for path in real_traces:
        graph = graph_of_file(path)
        for scope in [whole(0, graph), *(per_step(0, graph) if graph.trace.steps() else [])]:
            frame = annotation_times([scope])
            assert frame["gpu_self_ns"].sum() == (scope.work.end - scope.work.start).sum()
            assert (frame["gpu_busy_ns"] <= frame["gpu_ns"]).all()
            assert (frame["cpu_covered_ns"] <= frame["cpu_ns"]).all()


@pytest.mark.slow
@pytest.mark.shared
def test_work_of_the_autograd_thread_belongs_to_the_backward_pass() -> None:
    frame = annotation_times([whole(0, graphs("nccl_args_a100")[0])]).set_index("annotation")
    assert frame.loc["## backward ##", "activities"] == 2_391
    assert (
        frame["gpu_self_ns"].sum() == frame.loc[["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"], "gpu_ns"].sum()
    )


def breakdown(name: str, **arguments: Any) -> pd.DataFrame | None:
    defaults = {"use_gpu_annotation": True, "duration_ratio": 0.8, "num_kernels": 1000, "allowlist_patterns": None}
    return hta_gpu_user_annotation_breakdown(hta_scopes(graphs(name)), **{**defaults, **arguments})


def as_hta(frame: pd.DataFrame, result: dict[str, Any]) -> tuple[Any, Any]:
    """Return our names and numbers, and HTA's."""
    assert list(frame.columns) == result["columns"]
    ours, hta = frame.to_numpy().tolist(), result["rows"]
    return [[row[0], row[-1], *row[1:-1]] for row in ours], [[row[0], row[-1], *row[1:-1]] for row in hta]


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", WHOLE_MICROSECONDS)
def test_hta_is_met_on_traces_in_microseconds(name: str) -> None:
    assert answered(name, "get_gpu_user_annotation_breakdown")["kind"] == "none"
    assert breakdown(name) is None
    frame = breakdown(name, use_gpu_annotation=False)
    assert frame is not None
    ours, hta = as_hta(frame, answered(name, "get_gpu_user_annotation_breakdown__cpu"))
    for own, theirs in zip(ours, hta, strict=True):
        assert own[:2] == theirs[:2]
        assert own[2:] == pytest.approx(theirs[2:], abs=1e-6)


@pytest.mark.shared
@pytest.mark.parametrize("name", UNROUNDED)
def test_hta_is_met_on_copies_where_it_does_not_round(name: str) -> None:
    frame = breakdown(name)
    assert frame is not None
    ours, hta = as_hta(frame, answered(f"{name}__ns_rounding_off", "get_gpu_user_annotation_breakdown"))
    for own, theirs in zip(ours, hta, strict=True):
        assert own[:2] == theirs[:2]
        assert own[2:] == pytest.approx(theirs[2:], abs=2e-3)


@pytest.mark.shared
@pytest.mark.parametrize("name", NANOSECONDS)
def test_rounding_makes_hta_too_short_and_nothing_else_differs_in_names(name: str) -> None:
    frame = breakdown(name)
    assert frame is not None
    ours, hta = as_hta(frame, answered(name, "get_gpu_user_annotation_breakdown"))
    assert [row[:2] for row in ours] == [row[:2] for row in hta]
    assert all(own[2] >= theirs[2] for own, theirs in zip(ours, hta, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", TRACES)
def test_gpu_rows_have_hta_columns_and_annotations(name: str) -> None:
    rounded = "" if name in WHOLE_MICROSECONDS else "__ns_rounding_off"
    if name == "nanogpt_ab_hook":
        rounded = ""  # HTA failed on it, and there is no run without rounding
    scope = hta_scopes(graphs(name))[0]
    frames, symbols = hta_trace_frames([scope])
    frame = hta_gpu_kernels_with_user_annotations(
        scope, frames=lambda: (frames, symbols), expand_names=True, shorten_names=True
    )
    if name in WHOLE_MICROSECONDS:
        assert frame is None
        return
    assert frame is not None
    assert len(frame) == len(scope.work)
    if name == "nanogpt_ab_hook":
        return
    result = answered(f"{name}{rounded}", "get_gpu_kernels_with_user_annotations")
    assert list(frame.columns) == result["columns"]
    shown = [dict(zip(result["columns"], row, strict=True)) for row in result["head"] + result["tail"]]
    kept = [row for row in shown if row["index"] in frame.index]
    assert len(kept) >= len(shown) // 2
    for row in kept:
        own = frame.loc[row["index"]]
        for column in ("stream", "correlation", "bytes", "external_id", "collective_name", "s_name", "s_cat"):
            assert own[column] == row[column], column
        if row["s_user_annotation"] or name != "ns_resolution_v100":  # there HTA drops two copies, keeps their kernels
            assert own["s_user_annotation"] == row["s_user_annotation"]


@pytest.mark.shared
def test_a_graph_without_this_kind_of_row_has_no_copies() -> None:
    graph = graphs("execution_trace_sample")[0]
    assert not (graph.trace.events.kind == EventKind.GPU_ANNOTATION).any()
    assert not len(annotation_sources(graph)[0])


def test_it_concludes_which_annotation_has_most_gpu_time(tmp_path: Path) -> None:
    # outer has 20 of 33 µs of its own, inner 10, none 3.
    assert answer([whole(0, build().graph(tmp_path))]).conclusion == [
        "annotation outer has the most self GPU time: 20.0 µs, 61% of all GPU work"
    ]
    assert answer([]).conclusion == []


def served(*names: str) -> TraceBuilder:
    trace = TraceBuilder()
    for at, name in enumerate(names):
        trace.annotation(name, 100 * at, 100 * at + 90)
        trace.launch("k", (100 * at + 5, 100 * at + 8), (100 * at + 20, 100 * at + 30 + at % 7), at + 1)
    return trace


def test_names_that_differ_only_in_numbers_are_one_row(tmp_path: Path) -> None:
    names = [f"execute_context_{at}({16 * at})_generation_{at % 5}({at % 5})" for at in range(40)]
    scope = whole(0, served(*names).graph(tmp_path))
    (row,) = annotation_times([scope]).to_dict("records")
    assert row["annotation"] == "execute_context_#(#)_generation_#(#)"
    assert (row["count"], row["activities"]) == (40, 40)
    (length,) = annotation_durations([scope]).to_dict("records")
    assert (length["count"], length["min_ns"], length["max_ns"]) == (40, 90_000, 90_000)
    assert answer([scope]).notes == [
        "execute_context_#(#)_generation_#(#) stands for 40 annotations whose names differ only in numbers"
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param([f"layers.{at}" for at in range(40)], id="layers, once each"),
        pytest.param([f"batch_{at % 20}_of_{20}" for at in range(60)], id="names that recur"),
        pytest.param([f"a{at} b{at}" for at in range(10)], id="few"),
        pytest.param([f"ProfilerStep#{at}" for at in range(120)], id="steps"),
    ],
)
def test_names_that_say_more_than_numbers_stay(names: list[str], tmp_path: Path) -> None:
    found = annotation_times([whole(0, served(*names).graph(tmp_path))])
    assert set(found["annotation"]) == set(names)


def test_a_window_without_annotations_is_said(tmp_path: Path) -> None:
    graph = build().graph(tmp_path)
    begin = int(graph.event_table.start.min())
    (note,) = answer([in_window(0, graph, between(begin + 62_000, begin + 63_000))]).notes
    assert note.startswith("rank 0: no annotation begins or launches GPU work in ")
