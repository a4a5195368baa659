"""temporal-breakdown: how much of the window the GPU computes, talks, moves memory, or does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import bars_of_shares
from analyses.scope import Scope
from hta_graph.algorithms.work.activities import WorkType

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "figure", "hta_frame", "temporal_breakdown"]

PARTS = ("compute", "exposed_communication", "exposed_memory", "idle")


def temporal_breakdown(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide each window: compute + exposed communication + exposed memory + idle = window, to the nanosecond.

    Time counts as compute where any kernel computes; communication is exposed where nothing computes; copies and sets
    are exposed where nothing computes or communicates. HTA counts synchronisation records and operators that carry a
    stream number as GPU work, and rounds to microseconds first; here only kernels, copies and sets count, exactly.

    Returns:
        rank, scope, window_ns, compute_ns, exposed_communication_ns, exposed_memory_ns, idle_ns, and each
        part's share.
    """
    columns = ["rank", "scope", "window_ns", *(f"{part}_ns" for part in PARTS)]
    frame = pd.DataFrame([_row(scope) for scope in scopes], columns=columns)
    frame = frame.astype({name: "int64" for name in columns if name != "scope"})
    for part in PARTS:
        frame[f"{part}_share"] = frame[f"{part}_ns"] / frame["window_ns"].where(frame["window_ns"] > 0)
    return frame


def _row(scope: Scope) -> dict[str, Any]:
    compute = scope.running.busy(WorkType.COMPUTATION)
    talking = scope.running.busy(WorkType.COMPUTATION, WorkType.COMMUNICATION)
    busy = scope.running.busy()
    return {
        "rank": scope.rank,
        "scope": scope.label,
        "window_ns": scope.window_ns,
        "compute_ns": compute.total,
        "exposed_communication_ns": talking.total - compute.total,
        "exposed_memory_ns": busy.total - talking.total,
        "idle_ns": scope.window_ns - busy.total,
    }


def hta_frame(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return the columns of HTA's ``get_temporal_breakdown``, in microseconds and percent of the window."""
    exact = temporal_breakdown([scope for scope in scopes if not scope.missing()])
    frame = pd.DataFrame({"rank": exact["rank"]})
    times = {
        "idle_time": exact["idle_ns"],
        "compute_time": exact["compute_ns"],
        "non_compute_time": exact["exposed_communication_ns"] + exact["exposed_memory_ns"],
        "kernel_time": exact["window_ns"],
    }
    for name, column in times.items():
        frame[f"{name}(us)"] = column / 1e3
    for name in ("idle_time", "compute_time", "non_compute_time"):
        frame[f"{name}_pctg"] = (100 * times[name] / times["kernel_time"]).round(2)
    return frame


def answer(scopes: Sequence[Scope]) -> Answer:
    """Answer the command."""
    notes = [scope.missing() for scope in scopes if scope.missing()]
    return Answer({"temporal_breakdown": temporal_breakdown(scopes)}, notes)


def figure(found: Answer) -> Figure:
    """Draw stacked bars, one a rank or step."""
    return bars_of_shares(found.main, PARTS, title="Where the GPU's time goes")
