"""annotations: the CPU time of each annotation, and the GPU work that it launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, integer, ns, text
from analyses.declare.scope import Scope
from analyses.declare.tables import event_indices, event_names, table_of
from analyses.display.charts import empty_figure, new_figure
from analyses.display.headline import largest_item, rows_at_outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from hta_graph.attribution.owners import (
    annotation_sources,
    gpu_annotations_over,
    owners,
    rows_by_label,
    totals_by_label,
)
from hta_graph.graph.event_names import annotation_labels
from hta_graph.model import EventKind, Ids
from hta_graph.paths.intervals import union

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "TABLES",
    "annotated_activities",
    "annotation_durations",
    "annotation_rows",
    "annotation_times",
    "answer",
    "figure",
]

TITLE = "Annotations: CPU time and launched GPU work"
BAR_LABELS = {
    "cpu_covered_ns": "open on the CPU",
    "gpu_busy_ns": "GPU busy with its work",
    "gpu_self_ns": "self GPU time",
}

NONE = "(none)"
BARS = 25
CPU = Table("count", "cpu_ns", ns("cpu_covered_ns", "Time with at least one instance open on any thread"))
TIMES = Table(
    *("rank", "scope", "annotation", CPU, "activities"),
    ns("gpu_ns", "Total duration of its GPU activities"),
    "gpu_self_ns",
    ns("gpu_busy_ns", "Time with at least one of its GPU activities running"),
)
DURATIONS = Table(
    *("rank", "scope", text("side", "Where the instances ran: cpu or gpu."), "annotation"),
    *("count", "sum_ns", "min_ns", "mean_ns", "max_ns"),
)
ACTIVITIES = Table(
    *("rank", "scope", "event_index", text("activity", "Name of the activity."), "gpu_ns"),
    text("annotation", "Innermost annotation around the launch; null if there is none.", null=True),
    integer("annotation_index", "Its event index; null if there is none.", null=True),
    text("gpu_annotation", "Shortest copy on the stream that it overlaps; null if there is none.", null=True),
    integer("gpu_annotation_index", "Its event index; null if there is none.", null=True),
)


@TIMES.returned
def annotation_times(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Sum the time of each annotation on the CPU, and of the GPU work launched inside it.

    Work belongs to an annotation if its launch call lies in it, also on the autograd thread that works for the
    annotated one; no ``gpu_user_annotation`` rows are needed. Activities count once per name however often it is
    nested. ``gpu_self_ns`` counts an activity for its innermost annotation only: with the row ``(none)`` it sums to the
    time of all activities. In ``cpu_ns`` nested and overlapping instances count twice. Most GPU time first.
    """
    return table_of(scopes, _cpu_and_gpu_times, TIMES)


def _cpu_and_gpu_times(scope: Scope) -> pd.DataFrame:
    """Join the CPU columns and the GPU columns of a scope's annotations."""
    names = annotation_labels(scope.graph).texts
    on_cpu = pd.DataFrame.from_dict(_cpu_columns(scope), orient="index", columns=list(CPU))
    on_gpu = _gpu_columns(scope)
    # An annotation may be on one side only; the other then counts 0.
    codes = on_cpu.index.union(on_gpu.index)
    frame = pd.concat([side.reindex(codes, fill_value=0) for side in (on_cpu, on_gpu)], axis=1).astype(np.int64)
    frame["annotation"] = [names[code] if code >= 0 else NONE for code in frame.index.tolist()]
    return frame.sort_values(["gpu_ns", "cpu_ns", "annotation"], ascending=[False, False, True])


def annotation_rows(scope: Scope, *, on_gpu: bool) -> Ids:
    """Return the annotations (canonical rows) that start in a window; copies on the GPU with their originals."""
    events = scope.graph.event_table
    if on_gpu:
        copies, original = annotation_sources(scope.graph)
        # A copy belongs where its original does: it starts later, perhaps in the next step.
        return copies[scope.holds(np.where(original >= 0, original, copies))]
    rows = np.flatnonzero(events.kind == EventKind.ANNOTATION).astype(np.int32)
    return rows[scope.holds(rows)]


def _cpu_columns(scope: Scope) -> dict[int, list[int]]:
    """Return the CPU columns by name code."""
    events = scope.graph.event_table
    length = events.end - events.start
    return {
        code: [len(rows), int(length[rows].sum()), union(events.start[rows], events.end[rows]).total]
        for code, rows in _rows_by_name(scope, annotation_rows(scope, on_gpu=False))
    }


def _gpu_columns(scope: Scope) -> pd.DataFrame:
    """Return the GPU columns by name code; -1 stands for work outside all annotations."""
    work, labels = scope.work, annotation_labels(scope.graph).code
    found = owners(scope.graph, "annotation")
    sums = totals_by_label(found, labels, work.call, work.end - work.start)
    # Overlapping work of one annotation keeps the GPU busy once.
    busy = {code: union(work.start[at], work.end[at]).total for code, at in rows_by_label(found, labels, work.call)}
    columns = {
        "activities": sums.total_count,
        "gpu_ns": sums.total,
        "gpu_self_ns": sums.own,
        "gpu_busy_ns": [busy[code] for code in sums.label.tolist()],
    }
    return pd.DataFrame(columns, index=sums.label)


def _rows_by_name(scope: Scope, rows: Ids) -> list[tuple[int, Ids]]:
    """Divide rows by the codes of their names."""
    codes = annotation_labels(scope.graph).code[rows]
    order = np.argsort(codes, kind="stable")
    distinct, first = np.unique(codes[order], return_index=True)
    return list(zip(distinct.tolist(), np.split(rows[order], first[1:]), strict=True)) if len(rows) else []


@DURATIONS.returned
def annotation_durations(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List how long single instances take: on the CPU, and as the profiler copied them onto GPU streams.

    A copy lasts from the first to the last activity launched in the annotation by its own thread, one per stream; what
    the stream did in between, idling included, is in it. The longest sum comes first.
    """
    rows = [row for scope in scopes for on_gpu in (False, True) for row in _instance_lengths(scope, on_gpu=on_gpu)]
    return pd.DataFrame(rows, columns=[*DURATIONS])


def _instance_lengths(scope: Scope, *, on_gpu: bool) -> list[list[Any]]:
    """Describe the instances of each annotation of a scope on one side, longest sum first."""
    graph = scope.graph
    length, texts = graph.event_table.end - graph.event_table.start, annotation_labels(graph).texts
    rows: list[list[Any]] = []
    for code, chosen in _rows_by_name(scope, annotation_rows(scope, on_gpu=on_gpu)):
        own = length[chosen]
        numbers = [len(own), int(own.sum()), int(own.min()), round(own.mean()), int(own.max())]
        rows.append([scope.rank, scope.label, "gpu" if on_gpu else "cpu", texts[code], *numbers])
    return sorted(rows, key=lambda row: (-row[5], row[3]))


@ACTIVITIES.returned
def annotated_activities(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every GPU activity with its annotations."""
    return table_of(scopes, _annotated_rows, ACTIVITIES)


def _annotated_rows(scope: Scope) -> dict[str, Any]:
    """Return the columns of a scope's activities."""
    events, work = scope.graph.event_table, scope.work
    columns = {
        "event_index": events.index[work.row],
        "activity": event_names(scope.graph, work.row),
        "gpu_ns": work.end - work.start,
    }
    around = {
        "annotation": owners(scope.graph, "annotation").innermost(work.call),
        "gpu_annotation": gpu_annotations_over(scope.graph, work.row),
    }
    for column, rows in around.items():
        columns |= {column: event_names(scope.graph, rows), f"{column}_index": event_indices(scope.graph, rows)}
    return columns


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the tables ``annotations`` (calls and times by name) and ``durations`` (of single instances).

    Args:
        scopes: where to look.
    """
    tables = {"annotations": annotation_times(scopes), "durations": annotation_durations(scopes)}
    found = tables["annotations"]
    listed = {*zip(found["rank"], found["scope"], strict=True)}
    notes = [note for scope in scopes if (note := _missing_note(scope, has_rows=(scope.rank, scope.label) in listed))]
    folded = {name: count for scope in scopes for name, count in annotation_labels(scope.graph).folded.items()}
    notes += [
        f"{quoted(name)} stands for {count:,} annotations whose names differ only in numbers"
        for name, count in sorted(folded.items())
    ]
    said = _conclusion(tables["annotations"])
    return Answer(tables, notes, summed={"annotations": "instances"}, conclusion=said)


def _conclusion(frame: pd.DataFrame) -> list[str]:
    """Return the headline: the annotation with the most self GPU time."""
    found = largest_item(frame[frame["annotation"] != NONE], ["annotation"], "gpu_self_ns")
    if found is None:
        return []
    every = int(rows_at_outlier(frame, found)["gpu_self_ns"].sum())
    own = (
        f"{brief_duration(found['gpu_self_ns'])}{found.typical}, {brief_share(found['gpu_self_ns'] / every)} of all "
        "GPU work"
    )
    return [f"annotation {quoted(found['annotation'])} has the most self GPU time{found.where}: {own}"]


def _missing_note(scope: Scope, *, has_rows: bool) -> str:
    """Return a note where there is nothing to sum up."""
    has_annotations = (scope.graph.event_table.kind == EventKind.ANNOTATION).any()
    if has_annotations:
        nothing = "" if has_rows else f"rank {scope.rank}: no annotation begins or launches GPU work in {scope.name}"
        return scope.missing() or nothing
    return (
        f"rank {scope.rank}: the trace has no annotations; put torch.profiler.record_function(...) around parts "
        "of the program, and call prof.step() after each step"
    )


def figure(found: Answer) -> Figure:
    """Draw bars: time on the CPU, and GPU work launched inside, of the annotations with most of either."""
    frame = found.main
    if not len(frame):
        return empty_figure(TITLE, "no annotation recorded")
    top = frame.groupby("annotation")[["cpu_covered_ns", "gpu_busy_ns", "gpu_self_ns"]].sum()
    top = top.sort_values(["gpu_busy_ns", "cpu_covered_ns"], ascending=False, kind="stable").head(BARS)[::-1]
    made = new_figure(title=TITLE, x="ms")
    names = [name if len(name) <= 50 else f"{name[:49]}…" for name in top.index]
    for column, label in BAR_LABELS.items():
        made.add_bar(name=label, x=top[column] / 1e6, y=names, orientation="h")
    made.update_layout(barmode="group", bargap=0.2)
    return made


TABLES = {"annotations": TIMES, "durations": DURATIONS}

ANALYSIS = Analysis(
    name="annotations",
    help="CPU time and launched GPU work of each annotation.",
    more="Annotations are record_function ranges and profiler steps.",
    question="how much CPU and GPU time does each annotation take?",
    examples=("annotations trace.json.gz",),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
