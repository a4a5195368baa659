"""launch-stats: durations of launch calls, and what the launched work waits for before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, boolean, integer, ns
from analyses.declare.description import Flag
from analyses.declare.scope import Scope
from analyses.declare.tables import event_names, table_of
from analyses.display.charts import GRID, SERIES, empty_figure, new_figure
from analyses.display.headline import Outlier, outlier, rows_at_outlier, sums_per_scope
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.source.window_report import clock_notes
from hta_graph.base.arrays import percentiles_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EdgeKind, EdgeRole, Ints, edge_kinds
from hta_graph.paths.gpu_activity import Activities, WorkType

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "launch_stats", "launched_work", "launches"]

TITLE = "Launches"
HISTOGRAMS = {
    "short_kernels": "call longer than its kernel, µs",
    "runtime_outliers": "long call, µs",
    "launch_delay_outliers": "long launch delay, µs",
}
WAITED_FOR = {
    "behind_stream_ns": "waiting for earlier work on the same stream",
    "behind_event_ns": "waiting for other streams",
    "overhead_ns": "launch overhead",
}
"""What each part of a launch delay is."""

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
PARTS = Table(
    ns("behind_stream_ns", "Part of the delay spent waiting for earlier work on the stream"),
    ns("behind_event_ns", "Part of the delay spent waiting for an event of another stream"),
    ns("overhead_ns", "Rest of the delay"),
)
DELAYS = Table(ns("launch_delay_ns", "Time from the end of the launch call to the start of its work"), PARTS)
OUTLIERS = Table(
    integer("short_kernels", "Number of kernels shorter than their launch call."),
    integer("runtime_outliers", "Number of calls longer than --runtime-cutoff."),
    integer("launch_delay_outliers", "Number of delays longer than --launch-delay-cutoff."),
)
NUMBERS = ("call_index", "cpu_duration_ns", "gpu_duration_ns", *DELAYS)
NUMERIC = dict.fromkeys(("rank", "event_index", "correlation", *NUMBERS), np.int64)
STATS = Table(
    *("rank", "scope", "call", "calls", "launches", "cpu_ns", "gpu_ns", DELAYS),
    ns("median_launch_delay_ns", "Median launch delay"),
    ns("p95_launch_delay_ns", "95th percentile of the launch delay"),
    *(ns("median_overhead_ns", "Median overhead"), OUTLIERS),
)
LARGEST_OVERHEADS = Table("rank", "scope", "event_index", PARTS, "call", "name")
LAUNCHES = Table(
    *("rank", "scope", "event_index", "call_index"),
    integer("correlation", "Correlation id of the call and its work; -1 if there is none."),
    *("call", "name", "stream", ns("cpu_duration_ns", "Duration of the call")),
    *(ns("gpu_duration_ns", "Duration of the activity"), DELAYS),
)
MARKED = Table(
    LAUNCHES,
    boolean("short_kernels", "Whether the kernel is shorter than its launch call."),
    boolean("runtime_outliers", "Whether the call is longer than --runtime-cutoff."),
    boolean("launch_delay_outliers", "Whether the delay is longer than --launch-delay-cutoff."),
)


@LAUNCHES.returned
def launches(scopes: Sequence[Scope], *, include_memory_events: bool = True) -> pd.DataFrame:
    """List every GPU activity with the call that launched it.

    Each runtime or driver call with a correlation id counts, on AMD too, and a graph launch once for each of its
    activities; HTA knows four names of calls. The launch delay is the time from the call's return to the start of the
    work (0 if it started before). It is divided exactly: time while the stream was busy with earlier work, time
    waiting for an event of another stream, and overhead.

    Args:
        scopes: what to look at.
        include_memory_events: list copies and memsets too.
    """
    columns = partial(_launch_columns, include_memory_events=include_memory_events)
    return table_of(scopes, columns, LAUNCHES).astype(NUMERIC)


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


@STATS.returned
def launch_stats(
    frame: pd.DataFrame,
    runtime_cutoff: float = RUNTIME_CUTOFF_US,
    launch_delay_cutoff: float = LAUNCH_DELAY_CUTOFF_US,
) -> pd.DataFrame:
    """Sum up launches per rank, scope and name of the call, most CPU time first.

    A call of a graph counts once in ``cpu_ns``, however much it launched. Delays are sums over launches, whose waits
    overlap, or those of single launches.

    Args:
        frame: what :func:`launches` returns.
        runtime_cutoff: calls that take longer (µs) are runtime outliers; others are short kernels if their work is
            shorter than the call.
        launch_delay_cutoff: delays above it (µs) are launch delay outliers.
    """
    found = _marked(frame, runtime_cutoff, launch_delay_cutoff)
    columns = {name: found[name].to_numpy() for name in (*NUMBERS, *OUTLIERS)}
    keys = found[["rank", "scope", "call"]].to_numpy()
    parts = list(found.groupby(["rank", "scope", "call"], sort=False).indices.values())
    rows = [[*keys[at[0]], *_summed_launches({name: column[at] for name, column in columns.items()})] for at in parts]
    scopes = found[["rank", "scope"]].drop_duplicates().to_numpy().tolist()
    rows.sort(key=lambda row: (scopes.index(row[:2]), -row[5]))
    return pd.DataFrame(rows, columns=[*STATS])


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


@MARKED.returned
def _marked(frame: pd.DataFrame, runtime_cutoff: float, launch_delay_cutoff: float) -> pd.DataFrame:
    """Mark the :func:`launches` that HTA's three histograms show, and that :func:`launch_stats` counts."""
    cpu, gpu, delay = frame["cpu_duration_ns"], frame["gpu_duration_ns"], frame["launch_delay_ns"]
    found = ((cpu <= runtime_cutoff * 1e3) & (gpu < cpu), cpu > runtime_cutoff * 1e3, delay > launch_delay_cutoff * 1e3)
    return frame.assign(**dict(zip(OUTLIERS, found, strict=True)))


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
    tables = {"launch_stats": launch_stats(frame, runtime_cutoff, launch_delay_cutoff), "largest_overheads": largest}
    series = {"launches": _marked(frame, runtime_cutoff, launch_delay_cutoff)}
    summed = {"launch_stats": "launches, whose waits overlap"}
    return Answer(tables, notes, series, summed=summed, conclusion=_conclusion(tables["launch_stats"]))


def _conclusion(stats: pd.DataFrame) -> list[str]:
    """Return the headline: CPU time of launch calls, and what most of the launch delay is."""
    found = outlier(sums_per_scope(stats), "cpu_ns", brief_duration) if len(stats) else None
    if found is None:
        return []
    longest = rows_at_outlier(stats, found).iloc[0]
    share = longest["cpu_ns"] / max(found["cpu_ns"], 1) if found["calls"] > longest["calls"] else None
    calls = f"{counted(found['calls'], 'launch call')}{found.where}"
    takes = f"{calls} {'takes' if found['calls'] == 1 else 'take'} {brief_duration(found['cpu_ns'])} of CPU time"
    most = "" if share is None else f", {brief_share(share)} of it in {quoted(longest['call'])}"
    launched = f"for {brief_duration(found['gpu_ns'])} of GPU work"
    return [f"{takes}{found.typical}{most}, {launched}; {_main_wait(found)}"]


@LARGEST_OVERHEADS.returned
def _largest_overheads(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the :func:`launches` with the largest overhead: late with the stream free and no event to wait for."""
    return frame.nlargest(LARGEST, "overhead_ns")[[*LARGEST_OVERHEADS]]


def _missing_notes(scope: Scope, *, no_memory_events: bool) -> Iterator[str]:
    """Yield notes on what is missing or left out."""
    is_launched = scope.work.call >= 0
    if missing := scope.missing_start():
        yield missing
    elif not is_launched.all():
        orphans = int(np.count_nonzero(~is_launched))
        counts = f"{orphans:,} of {len(scope.work):,} GPU activities in {scope.name}"
        yield f"rank {scope.rank}: {counts} left out: no launch call in the trace"
    if no_memory_events and is_launched.any() and not len(launched_work(scope, include_memory_events=False)):
        yield (f"rank {scope.rank}: only copies and memsets were launched in {scope.name}, and these are left out")


def figure(found: Answer) -> Figure:
    """Draw HTA's histograms: launch calls of short kernels, long launch calls, and long delays."""
    frame = found.series["launches"]
    if frame.empty:
        return empty_figure(TITLE, "no launch recorded")
    made = new_figure(title=TITLE, y="launches")
    for at, (kind, label) in enumerate(HISTOGRAMS.items()):
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


TABLES = {"launch_stats": STATS, "largest_overheads": LARGEST_OVERHEADS, "launches": MARKED}

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


def _main_wait(found: Outlier) -> str:
    """State what most of the launch delay is, if there is any."""
    if not found["launch_delay_ns"]:
        return "the work starts before the launch calls return"
    part = max(WAITED_FOR, key=lambda name: int(found[name]))
    return f"{brief_share(found[part] / found['launch_delay_ns'])} of the launch delay is {WAITED_FOR[part]}"
