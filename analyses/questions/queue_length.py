"""queue-length: launch queue length per stream, and time blocked on a full queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, number, share
from analyses.declare.description import Flag
from analyses.declare.scope import Scope
from analyses.declare.tables import table_of
from analyses.display.charts import steps_by_group
from analyses.display.headline import outlier
from analyses.display.sentence_format import brief_duration, counted
from hta_graph.base.arrays import summed_by
from hta_graph.base.errors import Remedy
from hta_graph.graph.overheads import full_queues
from hta_graph.model import EdgeKind, EventKind, Ids
from hta_graph.paths.gpu_activity import QueueSteps, activities, queue_steps
from hta_graph.trace.profiler_names import AMD_CALL

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "queue_length", "queue_length_time_series", "queue_of"]

MAX_QUEUE_LENGTH = 1024
"""The length of a full queue: the most launches that a hardware queue of NVIDIA holds."""
QUEUES = Table(
    *("rank", "scope", "stream", "launches"),
    integer("max_length", "Longest queue, in launches."),
    number("mean_length", "Mean length over the changes, in launches; null without changes.", null=True),
    number("median_length", "Median length over the changes, in launches; null without changes.", null=True),
    number("time_mean_length", "Time-weighted mean length, in launches; null without time.", null=True),
    ns("full_ns", "Time with at least --max-queue-length launches in the queue"),
    share(
        "full_share",
        "full_ns as a share of the window, or of the time from first to last change in a whole trace",
        null=True,
    ),
    integer("blocked_calls", "Number of launch calls that waited for a free slot."),
    ns("blocked_ns", "How long they waited as recorded, else total duration of those calls"),
)
CHANGES = Table(
    *("rank", "scope", "stream"),
    ns("time_ns", "Time of the change, absolute"),
    integer("queue_length", "Launches in the queue from then on."),
    integer("event_index", "Event index of the call or activity that changed it."),
)
SATURATED = range(1000, 1024)
"""Where the queues of NVIDIA GPUs are full in real traces: 1,013 to 1,024 launches, mostly 1,022."""


@QUEUES.returned
def queue_length(scopes: Sequence[Scope], max_queue_length: int = MAX_QUEUE_LENGTH) -> pd.DataFrame:
    """Summarize how many launches of each stream had not started.

    Every launch counts, a graph launch once for each activity; HTA leaves graph launches and several other calls out.
    A window begins with the queue that it finds. Mean and median are over the changes, as HTA's. Which calls waited for
    a free slot, the graph's ``queue_full`` edges say.
    """
    return table_of(scopes, lambda scope: _stream_summaries(scope, max_queue_length), QUEUES)


@CHANGES.returned
def queue_length_time_series(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every change of a queue, stream by stream."""
    return table_of(scopes, _queue_changes, CHANGES)


def queue_of(scope: Scope) -> QueueSteps:
    """Return the changes of the queues in a window."""
    events = scope.graph.event_table
    # A step begins with what earlier steps left in the queue, so all work of the trace is followed.
    if scope.is_open:
        return queue_steps(events, scope.work)
    return queue_steps(events, activities(scope.graph)).clip(scope.start_ns, scope.end_ns)


def _queue_changes(scope: Scope) -> dict[str, Any]:
    """Return the columns of a scope's changes."""
    queue = queue_of(scope)
    return {
        "stream": np.array(scope.graph.lanes.labels, object)[queue.lane],
        "time_ns": queue.time,
        "queue_length": queue.length,
        "event_index": scope.graph.event_table.index[queue.row],
    }


def _stream_summaries(scope: Scope, max_queue_length: int) -> list[dict[str, Any]]:
    """Return a row for each stream of a scope."""
    # queue    1 2 3   2     1   0        changes: of the mean and the median, as HTA's
    # time     +-+-+---+-----+---+---|    how long each length lasted: of the time mean and of full_ns
    queue, blocked = queue_of(scope), _blocked_launches(scope)
    lasting = queue.lasting(None if scope.is_open else scope.end_ns)
    return [
        {
            "stream": scope.graph.lanes.labels[lane],
            "launches": _count_launches(scope, queue.row[part]),
            **_described_lengths(
                queue.length[part], lasting[part], max_queue_length, None if scope.is_open else scope.window_ns
            ),
            **blocked.get(lane, {"blocked_calls": 0, "blocked_ns": 0}),
        }
        for lane, part in queue.streams()
    ]


def _count_launches(scope: Scope, rows: Ids) -> int:
    """Count the changes that are launches of the scope; those before a window only left their queue there."""
    events = scope.graph.event_table
    inside = events.start[rows] >= scope.start_ns if not scope.is_open else np.True_
    return int(np.count_nonzero((events.kind[rows] == EventKind.RUNTIME) & inside))


def _described_lengths(length: Any, lasting: Any, max_queue_length: int, window_ns: int | None) -> dict[str, Any]:
    """Describe one queue by its lengths and how long each lasted (ns)."""
    span = int(lasting.sum()) if window_ns is None else window_ns
    full = int(lasting[length >= max_queue_length].sum())
    return {
        "max_length": int(length.max()),
        "mean_length": float(length.mean()),
        "median_length": float(np.median(length)),
        "time_mean_length": float((length * lasting).sum() / span) if span else float(length.mean()),
        "full_ns": full,
        "full_share": full / span if span else 0.0,
    }


def _blocked_launches(scope: Scope) -> dict[int, dict[str, int]]:
    """Return for each stream the launches that waited for a slot, and how long: as recorded, else the time inside."""
    graph = scope.graph
    events, edges = graph.event_table, graph.edges_of(EdgeKind.QUEUE_FULL)
    edges = edges.take(scope.holds(edges.target))
    call, lane = edges.target, events.lane[edges.source]
    blocked = events.end[call] - events.start[call]
    if not edges.inferred.all():
        waits = full_queues(graph.trace, graph.calls)
        blocked = summed_by(waits.call, events.end[waits.row] - events.start[waits.row], len(events))[call]
    return {
        stream: {
            "blocked_calls": int(np.count_nonzero(lane == stream)),
            "blocked_ns": int(blocked[lane == stream].sum()),
        }
        for stream in np.unique(lane).tolist()
    }


def answer(scopes: Sequence[Scope], max_queue_length: int = MAX_QUEUE_LENGTH) -> Answer:
    """Return the table ``queue_length`` (one row per stream) and the series ``queue_length_time_series``.

    Args:
        scopes: where to look.
        max_queue_length: the number of launches in a full queue.
    """
    frame = queue_length(scopes, max_queue_length)
    notes: list[str | Note] = [note for scope in scopes if (note := _missing_note(scope))]
    # Queues of NVIDIA fill a little below the nominal limit, so that the default counts nothing.
    near = frame[frame["max_length"].isin(SATURATED) & (frame["max_length"] < max_queue_length)]
    if len(near):
        notes.append(Note(*_nearly_full(int(near["max_length"].max()))))
    if any(map(_is_amd, scopes)):
        notes.append("AMD queues hold more than 1,024 launches; a long queue does not block the CPU")
    series = {"queue_length_time_series": queue_length_time_series(scopes)}
    return Answer({"queue_length": frame}, notes, series, conclusion=_conclusion(frame))


def _nearly_full(most: int) -> tuple[str, Remedy]:
    """Report a queue that is full below the nominal limit, and how to count it."""
    return (
        f"a queue reached {most:,} launches; NVIDIA queues are full near 1,022",
        Remedy(
            f"pass max_queue_length={most} to count it as full", f"use --max-queue-length {most} to count it as full"
        ),
    )


def _conclusion(frame: pd.DataFrame) -> list[str]:
    """Return the headline: the longest queue over time, and how long full queues blocked launches."""
    found = outlier(_longest_queues(frame), "time_mean_length", lambda mean: f"{mean:,.1f}")
    if found is None:
        return []
    average = f"{found['time_mean_length']:,.1f} launches on average{found.typical}"
    longest = f"longest queue: {found['stream']}{found.where}, {average}, at most {found['max_length']:,}"
    calls, ns = (int(frame[column].sum()) for column in ("blocked_calls", "blocked_ns"))
    if not calls:
        return [f"{longest}; no full queue blocked a launch"]
    blocked = counted(calls, "launch", "launches")
    return [f"{longest}; full queues blocked {blocked} for {brief_duration(ns)} in total"]


def _longest_queues(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the longest queue of each rank and scope."""
    ordered = frame.sort_values("time_mean_length", ascending=False, kind="stable")
    return ordered.drop_duplicates(["rank", "scope"]).sort_index()


def _missing_note(scope: Scope) -> str:
    """Return a note on why there is no queue."""
    if scope.missing() or (scope.work.call >= 0).any() or not len(scope.work):
        return scope.missing()
    return f"rank {scope.rank}: no launch call in {scope.name}; record with ProfilerActivity.CPU as well"


def _is_amd(scope: Scope) -> bool:
    """Return whether calls of AMD's runtime launched any work."""
    graph = scope.graph
    called = np.unique(graph.event_table.name[scope.work.call[scope.work.call >= 0]])
    return bool(graph.trace.names_starting_with(AMD_CALL)[called].any())


def figure(found: Answer) -> Figure:
    """Draw each stream's queue over time."""
    frame = found.series["queue_length_time_series"]
    return steps_by_group(frame, "stream", "queue_length", title="Launches that have not started", y="queue length")


TABLES = {"queue_length": QUEUES, "queue_length_time_series": CHANGES}

ANALYSIS = Analysis(
    name="queue-length",
    help="Launch queue length per stream, and time blocked on a full queue.",
    more="A full queue blocks the CPU until the GPU catches up.",
    question="how long are the launch queues, and when are they full?",
    examples=("queue-length trace.json.gz",),
    flags=(Flag("max_queue_length", "count", "number of launches in a full queue", MAX_QUEUE_LENGTH),),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
