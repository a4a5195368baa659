"""temporal-breakdown: GPU time by activity: compute, exposed communication, exposed copies, idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, integer, ns, share
from analyses.declare.scope import LEAST_SAID, MOSTLY_IDLE, Scope, several_gpus
from analyses.declare.tables import table_of
from analyses.display.charts import stacked_share_bars
from analyses.display.headline import outlier
from analyses.display.sentence_format import brief_share
from analyses.source.unnamed_communication import unnamed_communication
from hta_graph.paths.gpu_activity import WorkType

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "temporal_breakdown"]

WITHOUT_COMPUTATION = {
    "idle": "idle time (see idle-time)",
    "exposed_communication": "exposed communication (see overlap)",
    "exposed_memory": "exposed copies and memsets (see overlap)",
    "not_recorded": "launched work that was not recorded",
}
"""What the time is in which nothing computes, and which command explains it."""

PARTS = ("compute", "exposed_communication", "exposed_memory", "idle", "not_recorded")
TIMES = Table(
    *("window_ns", ns("compute_ns", "Time with computation running")),
    *("exposed_communication_ns", "exposed_memory_ns", "idle_ns"),
    ns("not_recorded_ns", "Time in which launched work that was not recorded may run: not known to be idle"),
)
OF_WINDOW = "as a share of the window; null if it is empty"
SHARES = Table(
    share("compute_share", f"Compute time {OF_WINDOW}", null=True),
    share("exposed_communication_share", f"Exposed communication {OF_WINDOW}", null=True),
    share("exposed_memory_share", f"Exposed copies and memsets {OF_WINDOW}", null=True),
    share("idle_share", f"Idle time {OF_WINDOW}", null=True),
    share("not_recorded_share", f"Time that was not recorded {OF_WINDOW}", null=True),
)
BREAKDOWN = Table("rank", "scope", TIMES, SHARES)
BY_GPU = Table("rank", "scope", integer("gpu", "Number of the GPU."), TIMES, SHARES)


@BREAKDOWN.returned
def temporal_breakdown(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide each window: compute + exposed communication + exposed memory + idle + not recorded = window, exactly.

    Time counts as compute while any kernel computes; communication is exposed while nothing computes; copies and
    memsets are exposed while nothing computes or communicates. HTA counts synchronization records and operators that
    carry a stream number as GPU work, and rounds to microseconds first; here only kernels, copies and memsets count,
    exactly.
    """
    return _with_shares(table_of(scopes, lambda scope: [_divided_window(scope)], ("rank", "scope", *TIMES)))


@BY_GPU.returned
def breakdown_by_gpu(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide each window on each GPU alone, of the ranks that drive several; other ranks have no rows."""
    several = [scope for scope in scopes if len(scope.gpus) > 1]
    names = ("rank", "scope", "gpu", *TIMES)
    return _with_shares(table_of(several, lambda scope: [_on_gpu(scope, gpu) for gpu in scope.gpus], names))


def _on_gpu(scope: Scope, gpu: int) -> dict[str, Any]:
    return {"gpu": gpu, **_divided_window(scope.on_gpu(gpu))}


def _with_shares(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.astype({name: "int64" for name in frame if name != "scope"})
    for part in PARTS:
        frame[f"{part}_share"] = frame[f"{part}_ns"] / frame["window_ns"].where(frame["window_ns"] > 0)
    return frame


def _divided_window(scope: Scope) -> dict[str, Any]:
    """Return the row of one scope."""
    # What a kind of work adds to the union of the kinds before it is exposed; on the right, what counts of each:
    # computation     ######  ####       ######  ####
    # communication      #######  ###          ##
    # copies        ####     ##  ##    ##            #
    compute = scope.running.busy(WorkType.COMPUTATION)
    talking = scope.running.busy(WorkType.COMPUTATION, WorkType.COMMUNICATION)
    busy, unknown_ns = scope.running.busy(), scope.not_recorded_ns
    return {
        "window_ns": scope.window_ns,
        "compute_ns": compute.total,
        "exposed_communication_ns": talking.total - compute.total,
        "exposed_memory_ns": busy.total - talking.total,
        "idle_ns": scope.window_ns - busy.total - unknown_ns,
        "not_recorded_ns": unknown_ns,
    }


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the table ``temporal_breakdown``: GPU time by activity in each scope.

    Where a rank drives several GPUs there is ``breakdown_by_gpu`` too: in the first table a time in which one of them
    computes is compute, whatever the others do.

    Args:
        scopes: where to look.
    """
    notes = [*(scope.missing() for scope in scopes if scope.missing()), *several_gpus(scopes)]
    notes += unnamed_communication(scopes)
    # A path of the whole trace is longer: it begins with the host's first event.
    extents = {"temporal_breakdown": "first to last GPU activity"} if any(scope.is_open for scope in scopes) else {}
    frame, by_gpu = temporal_breakdown(scopes), breakdown_by_gpu(scopes)
    tables = {"temporal_breakdown": frame} | ({"breakdown_by_gpu": by_gpu} if len(by_gpu) else {})
    shown = {} if frame["not_recorded_ns"].any() else {name: _without_unknown(one) for name, one in tables.items()}
    return Answer(tables, notes, extents=extents, conclusion=_conclusion(frame), on_screen=shown)


def _without_unknown(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out of a table for the screen what is nothing in a whole recording."""
    return frame.drop(columns=["not_recorded_ns", "not_recorded_share"])


def _conclusion(frame: pd.DataFrame) -> list[str]:
    """Return the headline: how much the GPU computes where it computes least, and what most of the rest is."""
    ran = frame[frame["idle_ns"] < frame["window_ns"]]
    found = outlier(ran.assign(lost_share=1 - ran["compute_share"]), "lost_share", lambda lost: brief_share(1 - lost))
    if found is None:
        return []
    rest = max(WITHOUT_COMPUTATION, key=lambda part: found[f"{part}_ns"])
    share = found[f"{rest}_share"]
    if rest == "idle" and share >= MOSTLY_IDLE:
        idle = f"GPU idle {brief_share(found['idle_share'])} of the time (see idle-time){found.where}"
        return [f"{idle}; it computes {brief_share(found['compute_share'])}{found.typical}"]
    computes = f"the GPU computes {brief_share(found['compute_share'])} of the time{found.where}{found.typical}"
    return [f"{computes}; {brief_share(share)} is {WITHOUT_COMPUTATION[rest]}" if share >= LEAST_SAID else computes]


def figure(found: Answer) -> Figure:
    """Draw stacked bars, one per rank or step."""
    return stacked_share_bars(found.main, PARTS, title="GPU time by activity")


TABLES = {"temporal_breakdown": BREAKDOWN, "breakdown_by_gpu": BY_GPU}

ANALYSIS = Analysis(
    name="temporal-breakdown",
    help="GPU time by activity: compute, exposed communication, exposed copies, idle.",
    more="Every nanosecond counts once, so the parts add up to the window.",
    question="how much of the time does the GPU compute, communicate, copy or idle?",
    examples=("temporal-breakdown trace.json.gz", "temporal-breakdown job --per-step -o times.csv"),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
