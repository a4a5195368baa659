"""overlap: overlapped and exposed communication and copies, and the most exposed collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, integer, ns, share
from analyses.declare.scope import LEAST_SAID, Scope, naming_window, several_gpus
from analyses.declare.tables import event_names, table_of
from analyses.display.charts import COLOUR, empty_figure, new_figure, row_labels
from analyses.display.headline import Outlier, outlier, rows_at_outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.source.unnamed_communication import unnamed_communication
from hta_graph.base.arrays import find_sorted, take_or
from hta_graph.base.text.shorten import short_name
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.matching.collectives import RankWaits, waits_by_rank
from hta_graph.multi_rank.matching.read_communications import read_communication_kernels
from hta_graph.paths.gpu_activity import Activities, WorkType, exposure
from hta_graph.paths.intervals import Intervals, union

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "comm_comp_overlap", "communication_kernels", "exposed_copies", "figure"]

TITLE = "Communication and copies: overlapped and exposed"
PARTS = {
    "overlapped_communication": "communication, overlapped",
    "exposed_communication": "communication, exposed",
    "overlapped_memory": "copies, overlapped",
    "exposed_memory": "copies, exposed",
}

COLOUR_OF_PART = {
    "overlapped_communication": "rgba(232,137,58,0.4)",
    "exposed_communication": COLOUR["communication"],
    "overlapped_memory": "rgba(207,169,44,0.4)",
    "exposed_memory": COLOUR["memory"],
}
BAR = {"communication": "comm.", "copies": "copies"}


def hidden_and_exposed(overlap: pd.DataFrame) -> Figure:
    """Draw one stacked bar for communication and one for copies, per row of the table."""
    if not (overlap["communication_ns"].any() or overlap["memory_ns"].any()):
        return empty_figure(TITLE, "no communication and no copies found")
    made = new_figure(title=TITLE, y="ms")
    labels = row_labels(overlap)
    for part, name in PARTS.items():
        whole = overlap[f"{part.rpartition('_')[2]}_ns"]  # of communication or of copies, by the last word
        made.add_bar(
            name=name,
            x=[labels, [BAR[name.partition(",")[0]]] * len(labels)],
            y=overlap[f"{part}_ns"] / 1e6,
            customdata=(overlap[f"{part}_ns"] / whole.where(whole > 0)).fillna(0),
            marker_color=COLOUR_OF_PART[part],
            hovertemplate="%{y:,.3f} ms, %{customdata:.1%}",
        )
    made.update_layout(barmode="stack", bargap=0.2, legend={"y": 1.02, "yanchor": "bottom"}, margin={"t": 90})
    made.update_xaxes(showgrid=False)
    return made


RECORDED = {
    "collective": "Collective name",
    "group": "Process Group Name",
    "dtype": "dtype",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "sequence": "Seq",
}
"""What the profiler records about a collective: column → argument."""

TIMES = Table(
    "duration_ns",
    ns("overlapped_ns", "Part of the duration that is overlapped"),
    ns("exposed_ns", "Part of the duration that is exposed"),
    ns("shared_ns", "Exposed time that is counted in another activity of the same type"),
)
SUMMED = {"count": ("duration_ns", "size"), **{name: (name, "sum") for name in TIMES}}
WAITING = Table(
    ns(
        "exposed_waiting_ns",
        "Part of exposed communication in which all of it waits for other ranks; null for a single rank",
        null=True,
    ),
    ns("exposed_transfer_ns", "Rest of exposed communication; null for a single rank", null=True),
)
OVERLAP = Table(
    *("rank", "scope"),
    ns("communication_ns", "Time with any communication running"),
    ns("overlapped_communication_ns", "Time with communication and computation running"),
    share("overlapped_share", "Overlapped share of communication; null without communication", null=True),
    "exposed_communication_ns",
    ns("memory_ns", "Time with any copy or memset running"),
    ns("overlapped_memory_ns", "Time with a copy or memset and other work running"),
    "exposed_memory_ns",
    WAITING,
)
NUMBERS = Table(
    integer("in_elements", "Elements of the input; null if not recorded.", null=True),
    integer("out_elements", "Elements of the output; null if not recorded.", null=True),
    integer("sequence", "Sequence number in the group; null if not recorded.", null=True),
)
KERNELS = Table(
    *("rank", "scope", "event_index", "kernel", "collective", "group", "dtype"),
    *(NUMBERS, "stream", "start_ns", TIMES),
)
ALIKE = ("collective", "group", "dtype", "kernel")
"""The columns by which communication kernels are grouped."""
EXPOSED_SHARE = share("exposed_share", "Share of the scope's exposed time", null=True)
COLLECTIVES = Table("rank", "scope", *ALIKE, "count", TIMES, EXPOSED_SHARE)
MOST_EXPOSED = Table("rank", "scope", "event_index", "collective", TIMES, "kernel")
MOST = 10
COPIES = Table("rank", "scope", "kernel", "count", TIMES, EXPOSED_SHARE)


@OVERLAP.returned
def comm_comp_overlap(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return how much communication overlaps with computation, and how much copying with either.

    The exposed times are those of the temporal breakdown. Without communication, the share is missing, not 0; HTA then
    gives NaN, and counts operators that carry a stream number as computation.
    """
    waits = waits_by_rank({scope.rank: scope.graph for scope in scopes})
    rows = table_of(scopes, lambda scope: [_hidden_time(scope, waits.get(scope.rank))], OVERLAP)
    return rows.astype(dict.fromkeys(WAITING, "Int64"))


def _hidden_time(scope: Scope, waits: RankWaits | None) -> dict[str, Any]:
    """Return the row of one scope."""
    talk, compute = scope.running.busy(WorkType.COMMUNICATION), scope.running.busy(WorkType.COMPUTATION)
    memory, busy = scope.running.busy(WorkType.MEMORY), scope.running.busy()
    # Unions of kinds are enough: what overlaps is what a union is shorter than the sum of its parts.
    either = scope.running.busy(WorkType.COMPUTATION, WorkType.COMMUNICATION)
    overlapped = talk.total + compute.total - either.total  # |A ∩ B| = |A| + |B| - |A ∪ B|
    return {
        "communication_ns": talk.total,
        "overlapped_communication_ns": overlapped,
        "overlapped_share": overlapped / talk.total if talk.total else float("nan"),
        "exposed_communication_ns": either.total - compute.total,
        "memory_ns": memory.total,
        "overlapped_memory_ns": memory.total + either.total - busy.total,
        "exposed_memory_ns": busy.total - either.total,
        **_exposed_waiting(scope, talk.subtract(compute), waits),
    }


def _exposed_waiting(scope: Scope, exposed: Intervals, waits: RankWaits | None) -> dict[str, int | None]:
    """Divide exposed communication: waiting where no kernel of it transfers; one without a partner never waits."""
    if waits is None:
        return dict.fromkeys(WAITING)
    work = scope.running.take(scope.running.type == WorkType.COMMUNICATION)
    # A kernel waits first and transfers from then on.
    begins = np.maximum(work.start, take_or(waits.end, find_sorted(work.row, waits.row), otherwise=0))
    transfer = union(np.minimum(begins, work.end), work.end)
    waiting = exposed.subtract(transfer).total
    return {"exposed_waiting_ns": waiting, "exposed_transfer_ns": exposed.total - waiting}


@KERNELS.returned
def communication_kernels(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every communication kernel with how much of it is exposed, scope by scope, the most exposed first.

    An instant in which several of them run and nothing computes is exposed once: it belongs to the kernel that started
    first and is ``shared`` time of the others. So the column ``exposed_ns`` sums to the temporal breakdown's exposed
    communication, to the nanosecond, and in each row overlapped + exposed + shared = duration. What is not recorded on
    a kernel is that of the operator that launched it.

    Raises:
        TraceError: the file, which is read once more for the recorded arguments, is gone or has changed.
    """
    # Several scopes may be steps of one trace, whose file is read once.
    recorded = {graph: _recorded_arguments(graph) for graph in dict.fromkeys(scope.graph for scope in scopes)}
    busy = [scope for scope in scopes if len(scope.running)]
    frame = table_of(busy, lambda scope: _exposed_kernels(scope, recorded[scope.graph]), KERNELS)
    # What was recorded may be missing or a text: an element count is a number or nothing.
    numbers = {name: pd.to_numeric(frame[name], errors="coerce").astype("Int64") for name in NUMBERS}
    return _most_exposed_first(frame.assign(**numbers))


def _most_exposed_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Order the rows of each scope by their exposed time, longest first."""
    scope = frame.groupby(["rank", "scope"], sort=False).ngroup()
    return frame.iloc[np.lexsort((-frame["exposed_ns"], scope))].reset_index(drop=True)


def _exposed_kernels(scope: Scope, recorded: Mapping[int, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the columns of a scope's communication kernels."""
    work = scope.running.take(scope.running.type == WorkType.COMMUNICATION)
    said = [recorded[row] for row in work.row.tolist()]
    return {
        "event_index": scope.graph.event_table.index[work.row],
        **{name: pd.Series([one[at] for one in said], dtype=object) for at, name in enumerate(RECORDED)},
        "stream": np.array(scope.graph.lanes.labels, object)[work.lane],
        "start_ns": scope.graph.trace.in_file_time(work.row, work.start),
        **_exposed_times(scope, work, scope.running.busy(WorkType.COMPUTATION)),
    }


def _exposed_times(scope: Scope, work: Activities, hiding: Intervals) -> dict[str, Any]:
    """Return the names of activities, their lengths, and how these divide."""
    found = exposure(work, hiding)
    times = (work.end - work.start, found.hidden, found.exposed, found.shared)
    return {"kernel": event_names(scope.graph, work.row), **dict(zip(TIMES, times, strict=True))}


def _recorded_arguments(graph: DependencyGraph) -> dict[int, tuple[Any, ...]]:
    """Return what the trace records about each communication kernel (canonical row)."""
    found = read_communication_kernels(graph)
    columns = [map(_number_or_text, found.arguments[key]) for key in RECORDED.values()]
    return dict(zip(found.row.tolist(), zip(*columns, strict=True), strict=True))


def _number_or_text(value: Any) -> Any:
    """Keep numbers and texts; an empty text is missing."""
    if value is None or isinstance(value, int | float):
        return value
    return str(value) or None


@COLLECTIVES.returned
def exposed_collectives(kernels: pd.DataFrame) -> pd.DataFrame:
    """Add up :func:`communication_kernels` per collective, group, element type and kernel, scope by scope."""
    return _added_up(kernels, ALIKE)[[*COLLECTIVES]]


@COPIES.returned
def exposed_copies(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Add up copies and memsets per name: what overlaps with other work, and what is exposed.

    Instants are attributed as in :func:`communication_kernels`; ``exposed_ns`` sums to the temporal breakdown's exposed
    memory.
    """
    busy = [scope for scope in scopes if len(scope.running)]
    times = table_of(busy, _copy_times, ("rank", "scope", "kernel", *TIMES))
    return _added_up(times, ["kernel"])[[*COPIES]]


def _copy_times(scope: Scope) -> dict[str, Any]:
    """Return the columns of a scope's copies and memsets."""
    work = scope.running.take(scope.running.type == WorkType.MEMORY)
    hiding = scope.running.busy(WorkType.COMPUTATION, WorkType.COMMUNICATION)
    return _exposed_times(scope, work, hiding)


def _added_up(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Add up rows that are alike in some columns, scope by scope, the most exposed first."""
    grouped = frame.groupby(["rank", "scope", *keys], dropna=False, sort=False)
    summed = grouped.agg(**SUMMED).reset_index()
    # Where nothing is exposed there is no share of it, rather than a division by zero.
    whole = summed.groupby(["rank", "scope"])["exposed_ns"].transform("sum")
    summed["exposed_share"] = summed["exposed_ns"] / whole.where(whole > 0)
    return _most_exposed_first(summed)


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return overlapped and exposed time of all communication, of collectives and of copies.

    Args:
        scopes: where to look.

    Returns:
        The tables ``overlap``, ``collectives``, ``most_exposed``, ``copies``, and the series ``communication_kernels``.

    Raises:
        TraceError: the file, which is read once more for the recorded arguments, is gone or has changed.
    """
    kernels = communication_kernels(scopes)
    tables = {
        "overlap": comm_comp_overlap(scopes),
        "collectives": exposed_collectives(kernels),
        "most_exposed": _most_exposed(kernels),
        "copies": exposed_copies(scopes),
    }
    notes = [*(note for scope in scopes if (note := _missing_note(scope))), *several_gpus(scopes)]
    notes += unnamed_communication(scopes)
    summed = {"collectives": "kernels", "copies": "copies"}
    said = naming_window(_conclusion(tables["overlap"], tables["collectives"], scopes), scopes)
    return Answer(tables, notes, {"communication_kernels": kernels}, summed=summed, conclusion=said)


def _conclusion(frame: pd.DataFrame, collectives: pd.DataFrame, scopes: Sequence[Scope]) -> list[str]:
    """Return the headline: how much of the time is exposed communication, in which collective, how much is waiting."""
    window = {(scope.rank, scope.label): max(scope.window_ns, 1) for scope in scopes}
    talks = frame[frame["communication_ns"] > 0]
    lengths = [window[key] for key in zip(talks["rank"], talks["scope"], strict=True)]
    found = outlier(talks.assign(window_share=talks["exposed_communication_ns"] / lengths), "window_share")
    if found is None:
        return _without_communication(frame, [max(scope.window_ns, 1) for scope in scopes], scopes)
    exposed, waiting = found["exposed_communication_ns"], found["exposed_waiting_ns"]
    if not exposed:
        return [f"computation overlaps all communication: {brief_duration(found['communication_ns'])}{found.where}"]
    if found["window_share"] < LEAST_SAID:
        return [f"exposed communication takes {_exposed(found)}, less than 1% of the time{found.where}{found.typical}"]
    largest = rows_at_outlier(collectives, found).iloc[0]
    name = largest["collective"] if isinstance(largest["collective"], str) else short_name(largest["kernel"])
    waiting_share = None if pd.isna(waiting) else waiting / exposed
    share = f"exposed communication takes {brief_share(found['window_share'])} of the time{found.where}{found.typical}"
    waits = "" if waiting_share is None else f", and {brief_share(waiting_share)} is waiting for other ranks"
    parts = f"of the exposed time, {brief_share(largest['exposed_share'])} is in {quoted(name)}{waits}"
    return [f"{share}: {_exposed(found)}; {parts}"]


def _without_communication(frame: pd.DataFrame, lengths: Sequence[int], scopes: Sequence[Scope]) -> list[str]:
    """Return the headline where nothing communicates: how long copies are exposed instead; a note says if all idle."""
    if not any(len(scope.running) for scope in scopes):
        return []
    found = outlier(frame.assign(window_share=frame["exposed_memory_ns"] / lengths), "window_share")
    return [_only_copies(found)] if found is not None and found["memory_ns"] else ["no communication and no copies"]


def _only_copies(found: Outlier) -> str:
    """State that nothing communicates, and how long copies run alone."""
    exposed, every = (brief_duration(found[f"{name}memory_ns"]) for name in ("exposed_", ""))
    share = f"{brief_share(found['window_share'])} of the time"
    return f"no communication; exposed copies take {share}{found.where}{found.typical}: {exposed} of {every} of copies"


@MOST_EXPOSED.returned
def _most_exposed(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the most exposed of :func:`communication_kernels`."""
    exposed = kernels.loc[kernels["exposed_ns"] > 0, [*MOST_EXPOSED]]
    return exposed.sort_values("exposed_ns", ascending=False, kind="stable", ignore_index=True).head(MOST)


def _missing_note(scope: Scope) -> str:
    """Return a note where there is no share of overlap."""
    if scope.missing():
        return scope.missing()
    if (scope.running.type == WorkType.COMMUNICATION).any():
        return ""
    return (
        f"rank {scope.rank}: no communication kernels in {scope.name}, so the overlapped share is "
        "undefined; for a distributed job, record a step that communicates"
    )


def figure(found: Answer) -> Figure:
    """Draw overlapped and exposed communication of each rank or step."""
    return hidden_and_exposed(found.main)


TABLES = {
    "overlap": OVERLAP,
    "collectives": COLLECTIVES,
    "most_exposed": MOST_EXPOSED,
    "copies": COPIES,
    "communication_kernels": KERNELS,
}

ANALYSIS = Analysis(
    name="overlap",
    help="Overlapped and exposed communication and copies, and the most exposed collectives.",
    more="Communication is exposed while nothing computes; copies are exposed while nothing else runs.",
    question="how much communication is overlapped, and which collectives are exposed?",
    examples=("overlap trace.json.gz", "overlap job --per-step"),
    tables=TABLES,
    answer=answer,
    figure=figure,
)


def _exposed(found: Outlier) -> str:
    exposed, every = (brief_duration(found[f"{name}communication_ns"]) for name in ("exposed_", ""))
    return f"{exposed} of {every} of communication"
