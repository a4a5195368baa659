"""launch-stats: durations of launch calls, and what the launched work waits for before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare import column_types
from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.description import Flag
from analyses.declare.scope import Scope
from analyses.declare.tables import Table, event_names, table_of
from analyses.display.charts import GRID, SERIES, empty_figure, new_figure
from analyses.display.headline import outlier, rows_at_outlier, sums_per_scope
from analyses.display.sentence_format import brief_duration
from analyses.messages import launch_stats as messages
from analyses.source.window_report import clock_notes
from hta_graph.base.arrays import percentiles_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EdgeKind, EdgeRole, Ints, edge_kinds
from hta_graph.paths.gpu_activity import Activities, WorkType

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "launch_stats", "launched_work", "launches"]

RUNTIME_CUTOFF_US: float = 50
LAUNCH_DELAY_CUTOFF_US: float = 100
"""Longer calls and delays are outliers."""
LARGEST = 10
"""How many single launches are listed."""
BINS = 100
AXIS = {"gridcolor": GRID, "zeroline": False}
IN_STREAM = edge_kinds(lambda meaning: meaning.role == EdgeRole.STREAM and not meaning.exported)
ACROSS_STREAMS = edge_kinds(lambda meaning: meaning.role == EdgeRole.STREAM and meaning.exported)
"""Edges by which work waits for what its own stream did before, and for what another stream did."""
DELAYS = ("launch_delay_ns", "behind_stream_ns", "behind_event_ns", "overhead_ns")
OUTLIERS = ("short_kernels", "runtime_outliers", "launch_delay_outliers")
NUMBERS = ("call_index", "cpu_duration_ns", "gpu_duration_ns", *DELAYS)
NUMERIC = dict.fromkeys(("rank", "event_index", "correlation", *NUMBERS), np.int64)
STATS_COLUMNS = (
    *("rank", "scope", "call", "calls", "launches", "cpu_ns", "gpu_ns"),
    *(*DELAYS, "median_launch_delay_ns", "p95_launch_delay_ns", "median_overhead_ns", *OUTLIERS),
)
LARGEST_COLUMNS = ("rank", "scope", "event_index", *DELAYS[1:], "call", "name")
COLUMNS = (
    *("rank", "scope", "event_index", "call_index", "correlation", "call", "name", "stream"),
    *("cpu_duration_ns", "gpu_duration_ns", *DELAYS),
)


def launches(scopes: Sequence[Scope], *, include_memory_events: bool = True) -> pd.DataFrame:
    """List every GPU activity with the call that launched it.

    Each runtime or driver call with a correlation id counts, on AMD too, and a graph launch once for each of its
    activities; HTA knows four names of calls. The launch delay is the time from the call's return to the start of the
    work (0 if it started before). It is divided exactly: time while the stream was busy with earlier work, time
    waiting for an event of another stream, and overhead.

    Args:
        scopes: what to look at.
        include_memory_events: list copies and memsets too.

    Returns:
        rank, scope, event_index, call_index (of the activity and its call), correlation, call, name, stream,
        cpu_duration_ns, gpu_duration_ns, launch_delay_ns = behind_stream_ns + behind_event_ns + overhead_ns. An answer
        adds the marks short_kernels, runtime_outliers and launch_delay_outliers, as :func:`launch_stats` counts them.
    """
    found = table_of(scopes, lambda scope: _launch_columns(scope, include_memory_events=include_memory_events), COLUMNS)
    return found.astype(NUMERIC)


def _launch_columns(scope: Scope, *, include_memory_events: bool) -> dict[str, Any]:
    """Return the columns of a scope's launches."""
    graph, work = scope.graph, launched_work(scope, include_memory_events=include_memory_events)
    events = graph.event_table
    return {
        "event_index": events.index[work.row],
        "call_index": events.index[work.call],
        "correlation": events.correlation[work.row],
        "call": event_names(graph, work.call),
        "name": event_names(graph, work.row),
        "stream": np.array(graph.lanes.labels, object)[work.lane],
        **_launch_times(graph, work),
    }


def launched_work(scope: Scope, *, include_memory_events: bool) -> Activities:
    """Return the work with a launch call, in the order of the calls."""
    events, work = scope.graph.event_table, scope.work
    chosen = work.call >= 0 if include_memory_events else (work.call >= 0) & (work.type != WorkType.MEMORY)
    work = work.take(chosen)
    return work.take(np.lexsort((work.row, events.index[work.call])))


def _launch_times(graph: DependencyGraph, work: Activities) -> dict[str, Ints]:
    """Return how long each call and its work took, and the parts of the delay between them (ns)."""
    # the call         [launch]
    # its stream       ~ earlier work ~|
    # another stream   ~ awaited work ~~~~~~~~|
    # the delay               |- stream|- event -|- overhead -|
    # its work                                                [######]
    events = graph.event_table
    returned = events.end[work.call]
    # Work may start while its call still runs: then there is no delay.
    begun = np.maximum(work.start, returned)
    stream_free = _last_source_ns(graph, IN_STREAM)[work.row].clip(returned, begun)
    # Clipped into what the stream left over: the parts add up to the delay whatever overlaps.
    all_free = _last_source_ns(graph, ACROSS_STREAMS)[work.row].clip(stream_free, begun)
    return {
        "cpu_duration_ns": returned - events.start[work.call],
        "gpu_duration_ns": work.end - work.start,
        "launch_delay_ns": begun - returned,
        "behind_stream_ns": stream_free - returned,
        "behind_event_ns": all_free - stream_free,
        "overhead_ns": begun - all_free,
    }


def _last_source_ns(graph: DependencyGraph, kinds: tuple[EdgeKind, ...]) -> Ints:
    """Return the latest source time of the edges of some kinds into each event's start (ns)."""
    edges = graph.edges_of(*kinds)
    edges = edges.take(~edges.to_end)
    times = np.full(len(graph.event_table), np.iinfo(np.int64).min)
    np.maximum.at(times, edges.target, edges.source_ns)
    return times


def launch_stats(
    frame: pd.DataFrame,
    runtime_cutoff: float = RUNTIME_CUTOFF_US,
    launch_delay_cutoff: float = LAUNCH_DELAY_CUTOFF_US,
) -> pd.DataFrame:
    """Sum up launches per rank, scope and name of the call.

    Args:
        frame: what :func:`launches` returns.
        runtime_cutoff: calls that take longer (µs) are runtime outliers; others are short kernels if their work is
            shorter than the call.
        launch_delay_cutoff: delays above it (µs) are launch delay outliers.

    Returns:
        rank, scope, call, calls, launches (activities), cpu_ns (each call once), gpu_ns; summed over launches, whose
        waits overlap, launch_delay_ns and its parts behind_stream_ns, behind_event_ns, overhead_ns; of single launches
        median_launch_delay_ns, p95_launch_delay_ns (95th percentile) and median_overhead_ns; the counts short_kernels,
        runtime_outliers, launch_delay_outliers. Most CPU time first.
    """
    found = frame.assign(**_outlier_marks(frame, runtime_cutoff, launch_delay_cutoff))
    columns = {name: found[name].to_numpy() for name in (*NUMBERS, *OUTLIERS)}
    keys = found[["rank", "scope", "call"]].to_numpy()
    parts = list(found.groupby(["rank", "scope", "call"], sort=False).indices.values())
    rows = [[*keys[at[0]], *_summed_launches({name: column[at] for name, column in columns.items()})] for at in parts]
    scopes = found[["rank", "scope"]].drop_duplicates().to_numpy().tolist()
    rows.sort(key=lambda row: (scopes.index(row[:2]), -row[5]))
    return pd.DataFrame(rows, columns=list(STATS_COLUMNS))


def _summed_launches(part: dict[str, Any]) -> list[int]:
    """Return the numbers of one row: each call counts once, however much it launched."""
    # A call of a graph launches many activities but takes its time once.
    calls, first = np.unique(part["call_index"], return_index=True)
    delay, overhead = part["launch_delay_ns"], part["overhead_ns"]
    every = np.zeros(len(delay), np.int64)
    usual = [percentiles_by(every, *of)[0] for of in ((delay, 1, 50), (delay, 1, 95), (overhead, 1, 50))]
    sums = [part["cpu_duration_ns"][first].sum(), part["gpu_duration_ns"].sum(), *(part[name].sum() for name in DELAYS)]
    return [
        len(calls),
        len(overhead),
        *sums,
        *usual,
        *(part[name].sum() for name in OUTLIERS),
    ]


def _outlier_marks(frame: pd.DataFrame, runtime_cutoff: float, launch_delay_cutoff: float) -> dict[str, Any]:
    """Mark what HTA's three histograms show."""
    cpu, gpu, delay = frame["cpu_duration_ns"], frame["gpu_duration_ns"], frame["launch_delay_ns"]
    found = ((cpu <= runtime_cutoff * 1e3) & (gpu < cpu), cpu > runtime_cutoff * 1e3, delay > launch_delay_cutoff * 1e3)
    return dict(zip(OUTLIERS, found, strict=True))


def answer(
    scopes: Sequence[Scope],
    runtime_cutoff: float = RUNTIME_CUTOFF_US,
    launch_delay_cutoff: float = LAUNCH_DELAY_CUTOFF_US,
    *,
    no_memory_events: bool = False,
) -> Answer:
    """Return durations of launch calls, and what the launched work waits for before it starts.

    Args:
        scopes: where to look.
        runtime_cutoff: longer calls (µs) are outliers.
        launch_delay_cutoff: longer delays (µs) are outliers.
        no_memory_events: leave out copies and memsets.

    Returns:
        The tables ``launch_stats`` (by name of the call) and ``largest_overheads``, and the series ``launches``.
    """
    frame = launches(scopes, include_memory_events=not no_memory_events)
    notes = [
        *(note for scope in scopes for note in _missing_notes(scope, no_memory_events=no_memory_events)),
        *clock_notes({scope.rank: scope.graph.gpu_clock for scope in scopes}),
    ]
    largest = _largest_overheads(frame)
    found = _outlier_marks(frame, runtime_cutoff, launch_delay_cutoff)
    tables = {"launch_stats": launch_stats(frame, runtime_cutoff, launch_delay_cutoff), "largest_overheads": largest}
    series = {"launches": frame.assign(**found)}
    summed = {"launch_stats": messages.SUMMED}
    return Answer(tables, notes, series, summed=summed, conclusion=_conclusion(tables["launch_stats"]))


def _conclusion(stats: pd.DataFrame) -> list[str]:
    """Return the headline: CPU time of launch calls, and what most of the launch delay is."""
    found = outlier(sums_per_scope(stats), "cpu_ns", brief_duration) if len(stats) else None
    if found is None:
        return []
    longest = rows_at_outlier(stats, found).iloc[0]
    share = longest["cpu_ns"] / max(found["cpu_ns"], 1) if found["calls"] > longest["calls"] else None
    return [messages.headline(found, longest["call"], share)]


def _largest_overheads(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the :func:`launches` with the largest overhead: late with the stream free and no event to wait for.

    Returns:
        rank, scope, event_index, behind_stream_ns, behind_event_ns, overhead_ns, call, name.
    """
    return frame.nlargest(LARGEST, "overhead_ns")[list(LARGEST_COLUMNS)]


def _missing_notes(scope: Scope, *, no_memory_events: bool) -> Iterator[str]:
    """Yield notes on what is missing or left out."""
    is_launched = scope.work.call >= 0
    if missing := scope.missing_start():
        yield missing
    elif not is_launched.all():
        orphans = int(np.count_nonzero(~is_launched))
        yield messages.without_launch(scope.rank, scope.label, orphans, len(scope.work))
    if no_memory_events and is_launched.any() and not len(launched_work(scope, include_memory_events=False)):
        yield messages.only_memory(scope.rank, scope.label)


def figure(found: Answer) -> Figure:
    """Draw HTA's histograms: launch calls of short kernels, long launch calls, and long delays."""
    frame = found.series["launches"]
    if frame.empty:
        return empty_figure(messages.TITLE, messages.NO_LAUNCH)
    made = new_figure(title=messages.TITLE, y="launches")
    for at, (kind, label) in enumerate(messages.HISTOGRAMS.items()):
        column = "launch_delay_ns" if kind == "launch_delay_outliers" else "cpu_duration_ns"
        axis = "" if at == 0 else str(at + 1)
        _add_histogram(made, frame.loc[frame[kind], column].to_numpy() / 1e3, SERIES[at], axis)
        place = {"title": label, "domain": [at * 0.35, at * 0.35 + 0.3], **AXIS}
        made.update_layout({f"xaxis{axis}": place, f"yaxis{axis}": {"anchor": f"x{axis}", **AXIS}})
    made.update_layout(showlegend=False, bargap=0)
    return made


def _add_histogram(made: Figure, values: Any, colour: str, axis: str) -> None:
    """Add a histogram that is counted here."""
    count, edges = np.histogram(values, BINS)  # counted here: the page carries bars, not launches
    made.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=count,
        width=np.diff(edges),
        marker_color=colour,
        xaxis=f"x{axis}",
        yaxis=f"y{axis}",
        hovertemplate="%{x:,.1f} µs: %{y:,}<extra></extra>",
    )


MEANINGS = {
    "launch_delay_ns": column_types.ns("Time from the end of the launch call to the start of its work"),
    "behind_stream_ns": column_types.ns("Part of the delay spent waiting for earlier work on the stream"),
    "behind_event_ns": column_types.ns("Part of the delay spent waiting for an event of another stream"),
    "overhead_ns": column_types.ns("Rest of the delay"),
    "median_launch_delay_ns": column_types.ns("Median launch delay"),
    "p95_launch_delay_ns": column_types.ns("95th percentile of the launch delay"),
    "median_overhead_ns": column_types.ns("Median overhead"),
    "short_kernels": column_types.integer("Number of kernels shorter than their launch call."),
    "runtime_outliers": column_types.integer("Number of calls longer than --runtime-cutoff."),
    "launch_delay_outliers": column_types.integer("Number of delays longer than --launch-delay-cutoff."),
    "correlation": column_types.integer("Correlation id of the call and its work; -1 if there is none."),
    "cpu_duration_ns": column_types.ns("Duration of the call"),
    "gpu_duration_ns": column_types.ns("Duration of the activity"),
}
TABLES = {
    "launch_stats": Table(launch_stats, STATS_COLUMNS, MEANINGS),
    "largest_overheads": Table(_largest_overheads, LARGEST_COLUMNS, MEANINGS),
    "launches": Table(
        launches,
        (*COLUMNS, *OUTLIERS),
        {
            **MEANINGS,
            "short_kernels": column_types.boolean("Whether the kernel is shorter than its launch call."),
            "runtime_outliers": column_types.boolean("Whether the call is longer than --runtime-cutoff."),
            "launch_delay_outliers": column_types.boolean("Whether the delay is longer than --launch-delay-cutoff."),
        },
    ),
}

ANALYSIS = Analysis(
    name="launch-stats",
    help="Durations of launch calls, and what the launched work waits for before it starts.",
    more="Each launch delay is divided into waiting for earlier work, waiting for an event, and overhead.",
    question="how long do launches take, and what do their kernels wait for?",
    examples=("launch-stats trace.json.gz",),
    flags=(
        Flag("runtime_cutoff", "microseconds", "count calls longer than this many µs as outliers", RUNTIME_CUTOFF_US),
        Flag(
            "launch_delay_cutoff",
            "microseconds",
            "count launch delays longer than this many µs as outliers",
            LAUNCH_DELAY_CUTOFF_US,
        ),
        Flag("no_memory_events", "switch", "leave out copies and memsets", default=False),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
