"""attribution: GPU time by operator, Python frame, module or annotation, found from each activity's launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, share, text
from analyses.declare.description import ATTRIBUTED_TO, Flag
from analyses.declare.scope import Scope, idle_first
from analyses.declare.tables import event_indices, event_names, table_of
from analyses.display.charts import empty_figure, new_figure
from analyses.display.headline import largest_item
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.source.graph_names import LAUNCHED_BY_GRAPH, NAME_THEM, naming_notes, replayed
from hta_graph.attribution.call_paths import STANDALONE_NUMBER
from hta_graph.attribution.graph_annotations import recorded_owners
from hta_graph.attribution.graph_kernels import UNCHECKED, calls_with_owners, graph_kernels, row_names
from hta_graph.attribution.owners import OWNERS_BY_KIND, owners, totals_by_label
from hta_graph.attribution.replayed_names import RecordedNames
from hta_graph.base.arrays import take_or
from hta_graph.base.errors import Remedy, UsageError
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.event_names import annotation_labels
from hta_graph.model import Bools, Ids

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from hta_graph.graph.dependency_graph import DependencyGraph

__all__ = ["BY", "TABLES", "activity_owners", "answer", "attribution", "figure"]

NOT_DRAWN = Remedy("pass by='operator', …", "use --by operator, …")
BAR_LABELS = {"gpu_self_ns": "self", "gpu_total_ns": "total"}
RECORD = {
    "frame": "record with with_stack=True",
    "module": "record with with_stack=True (or with_modules=True)",
    "annotation": "put torch.profiler.record_function(...) around parts of the program",
}
"""How to record what an attribution needs."""

BY = ATTRIBUTED_TO

UNKNOWN = "(unknown)"
BARS = 25
TIMES = Table(
    *("rank", "scope", "name", integer("instances", "Number of owners with GPU work."), "activities", "gpu_self_ns"),
    ns("gpu_total_ns", "GPU time of all work launched inside it"),
)
OWNERS = Table(
    TIMES,
    share("gpu_self_share", "gpu_self_ns as a share of the time of all activities", null=True),
    share("gpu_total_share", "gpu_total_ns as a share of the time of all activities", null=True),
)
ACTIVITIES = Table(
    *("rank", "scope", "event_index", "name", "gpu_ns", "call", "call_index"),
    *("operator", integer("operator_index", "Event index of the operator; null if there is none.", null=True)),
    text("frame", "Innermost Python frame; null if not recorded.", null=True),
    integer("frame_index", "Event index of the frame; null if there is none.", null=True),
    text("module", "Innermost nn.Module; null if not recorded.", null=True),
    integer("module_index", "Event index of the module; null if there is none.", null=True),
    *("annotation", integer("annotation_index", "Event index of the annotation; null if there is none.", null=True)),
    text(
        "named_by",
        "How the owners were found: launch, capture (inferred by the capture of a CUDA graph), unchecked (the same, "
        "without kernel names), none.",
    ),
)
ALIKE = {"frame": re.compile(r" at 0x[0-9a-fA-F]+"), "module-class": re.compile(r"_\d+$")}
"""Parts that are removed from names: the addresses of objects, the numbers of modules."""


@OWNERS.returned
def attribution(scopes: Sequence[Scope], by: str = "operator") -> pd.DataFrame:
    """Sum GPU time per operator, Python frame, module (object or class) or annotation.

    Every activity is followed to its launch call and to what was open around that call; Python frames and
    annotations also across the hand-off to the autograd thread, modules also from the backward to the forward operator.
    ``gpu_self_ns`` counts an activity for the innermost owner only, so that it sums to the time of all activities, the
    row ``(unknown)`` included; ``gpu_total_ns`` counts it once for every name around it. Most self time comes first.

    Raises:
        UsageError: ``by`` is none of :data:`BY` but ``activity``.
    """
    if by not in BY[:-1]:
        raise UsageError(f"by={by!r}: unknown kind of owner; choose one of {', '.join(BY[:-1])}")
    known: dict[DependencyGraph, Any] = {}
    for graph in dict.fromkeys(scope.graph for scope in scopes):  # the steps of a trace share their owners
        known[graph] = owners(graph, by.removesuffix("-class")), *_label_codes(graph, by), _recorded_labels(graph, by)
    frame = table_of(scopes, lambda scope: _times_by_label(scope, by, *known[scope.graph]), TIMES)
    # Own times sum to all activities' time, so their sum is what shares are of.
    every = frame.groupby(["rank", "scope"])["gpu_self_ns"].transform("sum")
    for part in ("self", "total"):
        frame[f"gpu_{part}_share"] = frame[f"gpu_{part}_ns"] / every.where(every > 0)
    return frame


def _label_codes(graph: DependencyGraph, by: str) -> tuple[Ids, list[str]]:
    """Return a label code for every event and the labels' texts: names without addresses and object numbers."""
    if by == "annotation":
        labels = annotation_labels(graph)
        return labels.code, list(labels.texts)
    codes, names = row_names(graph)
    if by not in ALIKE:
        return codes, names
    alike = [ALIKE[by].sub("", name) for name in names]
    # Codes in order of the texts: equal labels get one code, and ties fall the same way in every run.
    texts = sorted(set(alike))
    number = {text: code for code, text in enumerate(texts)}
    return np.array([number[text] for text in alike] or [0], np.int32)[codes], texts


def _recorded_labels(graph: DependencyGraph, by: str) -> RecordedNames:
    """Return what is recorded on activities of graphs themselves; a class of modules has ``#`` for their numbers."""
    found = recorded_owners(graph, by.removesuffix("-class"))
    if by != "module-class":
        return found
    alike = [STANDALONE_NUMBER.sub("#", text) for text in found.texts]
    texts = sorted(set(alike))
    codes = np.array([*(texts.index(text) for text in alike), -1], np.int32)
    return RecordedNames(codes[found.code], tuple(texts))


def _times_by_label(
    scope: Scope, by: str, found: Any, labels: Ids, texts: list[str], recorded: RecordedNames
) -> pd.DataFrame:
    """Sum a scope's GPU time by label, most of its own first.

    What is recorded on an activity itself is its innermost owner; what is around its call is around that.
    """
    work, call = scope.work, _calls(scope, by)
    by_call = _times_around_calls(scope, call, found, labels, texts)
    own = recorded.code[work.row]
    said = np.flatnonzero(own >= 0)
    if not len(said):
        return by_call
    length, around = (work.end - work.start)[said], take_or(labels, found.innermost(call[said]))
    # What is taken from the innermost owner around the call, and given to the one that is recorded.
    rows = [list(row) for row in by_call.itertuples(index=False)]
    moved = {texts[code] if code >= 0 else UNKNOWN: around == code for code in np.unique(around).tolist()}
    for row in rows:
        if (of_name := moved.get(row[0])) is not None:
            row[3] -= int(length[of_name].sum())
            if row[0] == UNKNOWN:
                row[2], row[4] = row[2] - int(of_name.sum()), row[3]
    for code in np.unique(own[said]).tolist():
        of_code = own[said] == code
        calls, ns = len(np.unique(work.call[said][of_code])), int(length[of_code].sum())
        rows.append([recorded.texts[code], calls, int(of_code.sum()), ns, ns])
    frame = pd.DataFrame(rows, columns=by_call.columns)
    return _most_first(frame[frame["activities"] > 0].groupby("name", as_index=False, sort=False).sum())


def _most_first(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["gpu_self_ns", "gpu_total_ns", "name"], ascending=[False, False, True])


def _calls(scope: Scope, by: str) -> Ids:
    return calls_with_owners(scope.graph, by.removesuffix("-class"), scope.work.row, scope.work.call)


def _times_around_calls(scope: Scope, call: Ids, found: Any, labels: Ids, texts: list[str]) -> pd.DataFrame:
    """Sum a scope's GPU time by the labels of what is open around its calls."""
    work = scope.work
    sums = totals_by_label(found, labels, call, work.end - work.start)
    frame = pd.DataFrame({
        "name": [texts[code] if code >= 0 else UNKNOWN for code in sums.label.tolist()],
        "instances": np.where(sums.label >= 0, sums.owners, 0),
        "activities": sums.total_count,
        "gpu_self_ns": sums.own,
        "gpu_total_ns": sums.total,
    })  # fmt: skip
    return _most_first(frame)


@ACTIVITIES.returned
def activity_owners(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every GPU activity with its launch call, and what was open around that call; the longest come first."""
    return table_of(scopes, _owned_activities, ACTIVITIES)


def _owned_activities(scope: Scope) -> pd.DataFrame:
    """List a scope's activities with what was open around their calls."""
    graph, work = scope.graph, scope.work
    columns = {
        "event_index": graph.event_table.index[work.row],
        "name": event_names(graph, work.row),
        "gpu_ns": work.end - work.start,
    }
    around = {"call": work.call} | {kind: owners(graph, kind).innermost(_calls(scope, kind)) for kind in OWNERS_BY_KIND}
    for kind, rows in around.items():
        recorded, names, indices = recorded_owners(graph, kind), event_names(graph, rows), event_indices(graph, rows)
        said = recorded.code[work.row] >= 0
        names[said] = [recorded.texts[code] for code in recorded.code[work.row[said]].tolist()]
        indices[said] = pd.NA
        columns |= {kind: names, f"{kind}_index": indices}
    columns["named_by"] = _ways_of_naming(scope)
    return pd.DataFrame(columns).sort_values(["gpu_ns", "event_index"], ascending=[False, True])


def _ways_of_naming(scope: Scope) -> Any:
    """Return for each activity of a scope how its owners were found."""
    named, work = graph_kernels(scope.graph), scope.work
    unchecked = [one.call for one in named.replays if one.rule == UNCHECKED]
    found = np.where(work.call >= 0, "launch", "none").astype(object)
    found[replayed(scope)] = "none"
    by_capture = named.launch[work.row] >= 0
    found[by_capture] = "capture"
    found[by_capture & np.isin(work.call, unchecked)] = UNCHECKED
    return found


def answer(scopes: Sequence[Scope], by: str = "operator") -> Answer:
    """Return one table of GPU time, named after the kind of owner: ``gpu_time_by_operator``, ``gpu_time_by_frame``, ….

    Args:
        scopes: where to look.
        by: ``operator``, ``frame``, ``module``, ``module-class`` or ``annotation``; or ``activity``: a list of all
            activities with all their owners.

    Raises:
        UsageError: ``by`` is none of these.
    """
    named = [] if by == "annotation" else naming_notes(scopes)
    notes = [*named, *(note for scope in scopes for note in _missing_notes(scope, by))]
    frame = activity_owners(scopes) if by == "activity" else attribution(scopes, by)
    said = [] if by == "activity" else idle_first(_conclusion(frame, by), scopes)
    return Answer({_table_name(by): frame}, notes, summed={_table_name(by): "activities"}, conclusion=said)


def _conclusion(frame: pd.DataFrame, by: str) -> list[str]:
    """Return the headline: the owner with the most self GPU time, and how much has no owner."""
    found = largest_item(frame[frame["name"] != UNKNOWN], ["name"], "gpu_self_ns")
    if found is None:
        return [f"no GPU work belongs to any {by.replace('-', ' ')}"] if frame["gpu_self_ns"].any() else []
    unknown = frame[frame["name"] == UNKNOWN]
    unknown_share = int(unknown["gpu_self_ns"].sum()) / int(frame["gpu_self_ns"].sum())
    kind = by.replace("-", " ")
    own = (
        f"{brief_duration(found['gpu_self_ns'])}{found.typical}, {brief_share(found['gpu_self_share'])} of all GPU work"
    )
    lost = f"; {brief_share(unknown_share)} belongs to no {kind}" if unknown_share else ""
    return [f"{kind} {quoted(found['name'])} has the most self GPU time{found.where}: {own}{lost}"]


def _table_name(by: str) -> str:
    """Return the name of an attribution's table.

    >>> _table_name("module-class")
    'gpu_time_by_module_class'
    """
    return f"gpu_time_by_{by.replace('-', '_')}"


def _missing_notes(scope: Scope, by: str) -> list[str | Note]:
    """Return notes on what could not be attributed, and why."""
    if missing := scope.missing_start():
        return [missing]
    if by == "activity":
        return []
    kind = by.removesuffix("-class")
    orphans = scope.work.call < 0
    # Two different reasons with different remedies: the call is missing, or nothing was open around it.
    owned = owners(scope.graph, kind).innermost(_calls(scope, kind)) >= 0
    owned |= recorded_owners(scope.graph, kind).code[scope.work.row] >= 0
    by_graph = replayed(scope) & ~owned
    reasons = (
        (orphans, "no launch call in the trace (launched before recording started)"),
        (~orphans & ~owned & ~by_graph, _launched_outside(kind, record=not owned.any())),
    )
    notes: list[str | Note] = [_not_attributed(scope, chosen, why) for chosen, why in reasons if chosen.any()]
    if by_graph.any():
        text = _not_attributed(scope, by_graph, LAUNCHED_BY_GRAPH)
        notes.append(text if graph_kernels(scope.graph) else Note(text, NAME_THEM))
    return notes


def _launched_outside(kind: str, *, record: bool) -> str:
    """Explain activities that were launched where no owner was open."""
    remedy = f"; {RECORD[kind]}" if record and kind in RECORD else ""
    return f"launched while no {kind} was open{remedy}"


def _not_attributed(scope: Scope, chosen: Bools, why: str) -> str:
    """Return the note on the activities that have no owner for one reason."""
    ns = int((scope.work.end - scope.work.start)[chosen].sum())
    counts = f"{int(chosen.sum()):,} of {len(chosen):,} GPU activities ({milliseconds(ns)} ms)"
    return f"rank {scope.rank}, {scope.label}: {counts} not attributed: {why}"


def figure(found: Answer) -> Figure:
    """Draw bars: self and total GPU time of the first names."""
    frame = found.main
    title = next(iter(found.tables)).replace("_", " ").replace("gpu", "GPU")
    if "gpu_self_ns" not in frame or not len(frame):
        return empty_figure(title, found.wording(NOT_DRAWN) if len(frame) else "no GPU activity to attribute")
    top = frame.groupby("name", sort=False)[["gpu_self_ns", "gpu_total_ns"]].sum()
    top = top.sort_values("gpu_self_ns", ascending=False, kind="stable").head(BARS)[::-1]
    made = new_figure(title=title.capitalize().replace("Gpu", "GPU"), x="ms")
    names = [name if len(name) <= 60 else name[:59] + "…" for name in top.index]
    for column, label in BAR_LABELS.items():
        made.add_bar(
            name=label,
            x=top[column] / 1e6,
            y=list(range(len(top))),
            orientation="h",
            customdata=list(top.index),
            hovertemplate="%{customdata}<br>%{x:,.3f} ms",
        )
    made.update_yaxes(tickvals=list(range(len(top))), ticktext=names)
    made.update_layout(barmode="group", bargap=0.2)
    return made


TABLES = {_table_name(by): OWNERS for by in BY[:-1]} | {_table_name("activity"): ACTIVITIES}

ANALYSIS = Analysis(
    name="attribution",
    help="GPU time by operator, Python frame, module or annotation.",
    more="Frames and modules require a trace recorded with with_stack=True.",
    question="which operators, Python frames or modules does GPU time belong to?",
    usage="--by module",
    examples=("attribution trace.json.gz", "attribution trace.json.gz --by module"),
    flags=(
        Flag(
            "by",
            "text",
            f"{', '.join(BY[:-1])}; activity lists every activity",
            "operator",
            choices=BY,
            value="KIND",
        ),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
