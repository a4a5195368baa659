"""memory-bandwidth: what copies and sets moved, and at which rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses import column_types
from analyses.analysis import Analysis
from analyses.answer import Answer
from analyses.display.charts import steps_by_group
from analyses.display.headline import largest_item, rows_at_outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.scope import Scope
from analyses.tables import Table, scopes_in, table_of
from hta_graph.gpu_activity import Copies, copies_of, rate_steps
from hta_graph.model import Bools, Floats, Ints
from hta_graph.paths.intervals import union

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "memory_bandwidth", "memory_bandwidth_time_series"]

COLUMNS = [
    *("rank", "scope", "kind", "events", "without_bytes", "bytes", "duration_ns", "busy_ns"),
    *("mean_gbps", "busy_gbps", "max_gbps"),
]
SERIES_COLUMNS = ["rank", "scope", "kind", "time_ns", "bandwidth_gbps"]


def memory_bandwidth(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Sum up the copies and sets of each kind.

    Returns:
        rank, scope, kind, events, without_bytes: those that do not say what they moved, bytes, duration_ns: the sum of
        their lengths, busy_ns: when at least one runs, mean_gbps: bytes / duration, busy_gbps: bytes / busy (both
        without those of length 0, whose time is below the trace's clock), and the highest recorded rate of a single
        one, max_gbps; all in 10^9 bytes per second, NaN where nothing is known.
    """
    return table_of(scopes, _copies_by_kind, COLUMNS)


def memory_bandwidth_time_series(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List how the rate of all running copies of a kind changes.

    A copy counts with its recorded rate, else with its bytes / its length. Sums are exact: where nothing runs the rate
    is 0, not what floats leave over. Copies of length 0 take no time and do not show.

    Returns:
        rank, scope, kind, time_ns, bandwidth_gbps from then on.
    """
    return table_of(scopes, _rate_changes, SERIES_COLUMNS)


def _copies_by_kind(scope: Scope) -> list[dict[str, Any]]:
    """Return a row for each kind of copy of a scope."""
    copies = copies_of(scope.graph, scope.work)
    return [_summed_copies(copies, kind, copies.kind == code) for code, kind in enumerate(copies.kinds)]


def _summed_copies(copies: Copies, kind: str, chosen: Bools) -> dict[str, Any]:
    """Sum up the copies of one kind."""
    moved, length = copies.bytes[chosen], copies.end[chosen] - copies.start[chosen]
    # A rate needs bytes and a length: what lacks one counts in the sums but not in the rate.
    known, timed = moved >= 0, (moved >= 0) & (length > 0)
    rates = copies.rate[chosen][~np.isnan(copies.rate[chosen])]
    return {
        "kind": kind,
        "events": len(moved),
        "without_bytes": int(np.count_nonzero(~known)),
        "bytes": int(moved[known].sum()),
        "duration_ns": int(length.sum()),
        "busy_ns": union(copies.start[chosen], copies.end[chosen]).total,
        "mean_gbps": _gigabytes_per_second(moved[timed], int(length[timed].sum())),
        "busy_gbps": _gigabytes_per_second(
            moved[timed], union(copies.start[chosen][timed], copies.end[chosen][timed]).total
        ),
        "max_gbps": float(rates.max()) if len(rates) else float("nan"),
    }


def _gigabytes_per_second(moved: Ints, time_ns: int) -> float:
    """Return GB/s, which is bytes per nanosecond."""
    return int(moved.sum()) / time_ns if time_ns else float("nan")


def _rate_changes(scope: Scope) -> dict[str, Any]:
    """Return the columns of a scope's changes."""
    copies = copies_of(scope.graph, scope.running)
    # At one instant ends and starts cancel out: only what holds afterwards is a change.
    steps = rate_steps(copies, copies.end, _copy_rates(copies), copies.end > copies.start).last_of_each_instant()
    return {
        "kind": np.array(copies.kinds, object)[steps.kind],
        "time_ns": steps.time,
        "bandwidth_gbps": steps.rate,
    }


def _copy_rates(copies: Copies) -> Floats:
    """Return each one's rate: as recorded, else bytes / length, else 0."""
    length = np.maximum(copies.end - copies.start, 1)
    computed = np.where(copies.bytes >= 0, copies.bytes / length, 0.0)
    rates: Floats = np.where(np.isnan(copies.rate), computed, copies.rate)
    return rates


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the table ``memory_bandwidth`` (a row a kind of copy) and the series ``memory_bandwidth_time_series``.

    Args:
        scopes: where to look.
    """
    frame = memory_bandwidth(scopes)
    named = scopes_in(frame)
    notes = [
        scope.missing() or f"rank {scope.rank}: no copy or set in {scope.label}"
        for scope in scopes
        if (scope.rank, scope.label) not in named
    ]
    if frame["without_bytes"].any():
        notes.append("some copies do not say how much they moved; their time counts, rates leave them out")
    series = {"memory_bandwidth_time_series": memory_bandwidth_time_series(scopes)}
    return Answer({"memory_bandwidth": frame}, notes, series, conclusion=_conclusion(frame))


def _conclusion(frame: pd.DataFrame) -> list[str]:
    """Say which kind of copy takes most time, where it takes most, and how fast it is."""
    found = largest_item(frame, ["kind"], "duration_ns")
    if found is None:
        return []
    share = brief_share(found["duration_ns"] / int(rows_at_outlier(frame, found)["duration_ns"].sum()))
    time = f"{brief_duration(found['duration_ns'])}, {share}{found.typical}"
    rate = f"; {found['mean_gbps']:,.1f} GB/s on average" if found["mean_gbps"] > 0 else ""
    return [f"{quoted(found['kind'])} takes most of the time of copies and sets{found.where}: {time}{rate}"]


def figure(found: Answer) -> Figure:
    """Draw the rate of each kind of copy over time."""
    frame = found.series["memory_bandwidth_time_series"]
    return steps_by_group(frame, "kind", "bandwidth_gbps", title="Memory bandwidth of copies and sets", y="GB/s")


MEANINGS = {
    "kind": column_types.text("The kind of copy or set."),
    "events": column_types.integer("How many copies or sets there are."),
    "without_bytes": column_types.integer("How many of them do not say what they moved."),
    "bytes": column_types.byte_count("What was moved"),
    "duration_ns": column_types.ns("Their lengths added up"),
    "busy_ns": column_types.ns("When at least one runs"),
    "mean_gbps": column_types.rate("Bytes by added-up time; null: not known", null=True),
    "busy_gbps": column_types.rate("Bytes by the time when at least one runs; null: not known", null=True),
    "max_gbps": column_types.rate("The highest recorded rate of a single one; null: not known", null=True),
    "time_ns": column_types.ns("When it changes"),
    "bandwidth_gbps": column_types.rate("The rate of all that run, from then on"),
}
TABLES = {
    "memory_bandwidth": Table(memory_bandwidth, COLUMNS, MEANINGS),
    "memory_bandwidth_time_series": Table(memory_bandwidth_time_series, SERIES_COLUMNS, MEANINGS),
}

ANALYSIS = Analysis(
    name="memory-bandwidth",
    help="What copies and sets moved, and at which rate.",
    more="Copies are told apart by direction; those that do not say how many bytes they moved are counted apart.",
    question="what do copies move, at which rate?",
    examples=("memory-bandwidth trace.json.gz",),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
