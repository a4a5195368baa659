"""memory-bandwidth: bytes and bandwidth of memory copies and memsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, byte_count, integer, ns, rate, text
from analyses.declare.scope import LEAST_SAID, Scope
from analyses.declare.tables import scopes_in, table_of
from analyses.display.charts import steps_by_group
from analyses.display.headline import largest_item, rows_at_outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from hta_graph.model import Bools, Floats, Ints
from hta_graph.paths.gpu_activity import Copies, copies_of, rate_steps
from hta_graph.paths.intervals import union

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "memory_bandwidth", "memory_bandwidth_time_series"]

KIND = Table("rank", "scope", text("kind", "Kind of copy or memset."))
COPIES = Table(
    *(KIND, integer("events", "Number of copies or memsets.")),
    integer("without_bytes", "Number of copies or memsets without a recorded size."),
    *(byte_count("bytes", "Bytes moved"), "duration_ns", ns("busy_ns", "Time with at least one running")),
    rate("mean_gbps", "Bytes divided by total duration; null if unknown", null=True),
    rate("busy_gbps", "Bytes divided by busy time; null if unknown", null=True),
    rate("max_gbps", "Highest recorded bandwidth of a single copy; null if unknown", null=True),
)
CHANGES = Table(
    *(KIND, ns("time_ns", "Time of the change")),
    rate("bandwidth_gbps", "Bandwidth of all running copies from then on"),
)


@COPIES.returned
def memory_bandwidth(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Sum up the copies and memsets of each kind.

    Bandwidths leave out those of length 0, below the resolution of the trace's clock.
    """
    return table_of(scopes, _copies_by_kind, COPIES)


@CHANGES.returned
def memory_bandwidth_time_series(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every change of the bandwidth of all running copies of a kind.

    A copy counts with its recorded bandwidth, else with its bytes / its length. Sums are exact: while nothing runs the
    bandwidth is 0, without a rounding residue. Copies of length 0 are left out.
    """
    return table_of(scopes, _rate_changes, CHANGES)


def _copies_by_kind(scope: Scope) -> list[dict[str, Any]]:
    """Return a row for each kind of copy of a scope."""
    copies = copies_of(scope.graph, scope.work)
    return [_summed_copies(copies, kind, copies.kind == code) for code, kind in enumerate(copies.kinds)]


def _summed_copies(copies: Copies, kind: str, chosen: Bools) -> dict[str, Any]:
    """Sum up the copies of one kind."""
    moved, length = copies.bytes[chosen], copies.end[chosen] - copies.start[chosen]
    # Bandwidth needs bytes and a length: what lacks one counts in the sums only.
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
    # Ends and starts at one instant cancel out: only the value afterwards is a change.
    steps = rate_steps(copies, copies.end, _copy_rates(copies), copies.end > copies.start).last_of_each_instant()
    return {
        "kind": np.array(copies.kinds, object)[steps.kind],
        "time_ns": steps.time,
        "bandwidth_gbps": steps.rate,
    }


def _copy_rates(copies: Copies) -> Floats:
    """Return the bandwidth of each copy: as recorded, else bytes / length, else 0."""
    length = np.maximum(copies.end - copies.start, 1)
    computed = np.where(copies.bytes >= 0, copies.bytes / length, 0.0)
    rates: Floats = np.where(np.isnan(copies.rate), computed, copies.rate)
    return rates


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the table ``memory_bandwidth`` (one row per kind) and the series ``memory_bandwidth_time_series``.

    Args:
        scopes: where to look.
    """
    frame = memory_bandwidth(scopes)
    named = scopes_in(frame)
    notes = [
        scope.missing() or f"rank {scope.rank}: no copies or memsets in {scope.name}"
        for scope in scopes
        if (scope.rank, scope.label) not in named
    ]
    if frame["without_bytes"].any():
        notes.append("some copies have no recorded size; their time is counted, but they are left out of the bandwidth")
    series = {"memory_bandwidth_time_series": memory_bandwidth_time_series(scopes)}
    return Answer({"memory_bandwidth": frame}, notes, series, conclusion=_conclusion(frame, scopes))


def _conclusion(frame: pd.DataFrame, scopes: Sequence[Scope]) -> list[str]:
    """Return the headline: the kind of copy with the most time, and its mean bandwidth; none of little time."""
    found = largest_item(frame, ["kind"], "duration_ns")
    if found is None:
        return []
    every = int(rows_at_outlier(frame, found)["duration_ns"].sum())
    window = next(scope.window_ns for scope in scopes if (scope.rank, scope.label) == (found["rank"], found["scope"]))
    if every < LEAST_SAID * window:
        return [f"copies and memsets take {brief_duration(every)}, less than 1% of the time{found.where}"]
    times = (
        f"{brief_duration(found['duration_ns'])}{found.typical}, {brief_share(found['duration_ns'] / every)} of all "
        "copies and memsets"
    )
    rate = f"; {found['mean_gbps']:,.1f} GB/s on average" if found["mean_gbps"] > 0 else ""
    return [f"{quoted(found['kind'])} takes the most copy time{found.where}: {times}{rate}"]


def figure(found: Answer) -> Figure:
    """Draw the bandwidth of each kind of copy over time."""
    frame = found.series["memory_bandwidth_time_series"]
    return steps_by_group(frame, "kind", "bandwidth_gbps", title="Memory copy and memset bandwidth", y="GB/s")


TABLES = {"memory_bandwidth": COPIES, "memory_bandwidth_time_series": CHANGES}

ANALYSIS = Analysis(
    name="memory-bandwidth",
    help="Memory copy and memset bandwidth.",
    more="One row per direction; copies without a recorded size are counted separately.",
    question="how much do copies move, and at what bandwidth?",
    examples=("memory-bandwidth trace.json.gz",),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
