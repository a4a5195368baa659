"""Where two runs spend their time: on the critical path, by call path, by name; medians over their stretches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from analyses.scope import Scope
from analyses.two_runs.both_sides import SIDES, medians_of_sides, sums_of_sides
from analyses.two_runs.comparison import Comparison
from analyses.two_runs.sides import Side
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.algorithms.who.call_paths import CallPaths
from hta_graph.model import EventKind, kind_mask
from hta_graph.trace.vocabulary import STEP_NAME

__all__ = ["call_path_diff", "name_diff", "path_class_diff", "path_event_diff", "step_table", "time_by_name_diff"]

CPU_ROWS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION, EventKind.OVERHEAD)


def path_class_diff(found: Comparison) -> pd.DataFrame:
    """Compare the classes of critical paths.

    Returns:
        bound_by, control_ns, test_ns (medians over the stretches of a side; of one stretch they sum to its window),
        diff_ns, noise_ns (how much of that chance may do); what is beyond its noise first, then by size.
    """
    return _medians(found, lambda side: map(_class_times, side.paths), ["bound_by"], ["ns"])


def _class_times(path: CriticalPath) -> pd.DataFrame:
    return pd.DataFrame({"bound_by": list(path.by_bound_ns), "ns": list(path.by_bound_ns.values())})


def path_event_diff(found: Comparison) -> pd.DataFrame:
    """Compare what the paths ran through.

    Returns:
        name, bound_by, control_calls, test_calls, control_ns, test_ns, diff_ns, noise_ns; as in the table of classes.
    """
    keys = ["name", "bound_by"]
    return _changed_rows(_medians(found, lambda side: map(_event_times, side.paths), keys, ["calls", "ns"]))


def _event_times(path: CriticalPath) -> pd.DataFrame:
    totals = pd.DataFrame(path.event_totals())
    totals["name"] = totals["name"].fillna("(nothing recorded)").map(_without_step_number)
    parts = totals.rename(columns={"time_ns": "ns"}).groupby(["name", "bound_by"], as_index=False)
    return parts[["calls", "ns"]].sum()


def call_path_diff(found: Comparison) -> pd.DataFrame:
    """Compare GPU time by the operators and annotations that launched it.

    Returns:
        call_path (outermost first; empty where nothing was open), control_count, test_count, control_ns, test_ns,
        diff_ns, noise_ns; as in the table of classes.
    """
    # One table of paths for both sides: equal paths then have equal numbers.
    paths = CallPaths()
    frame = _medians(
        found, lambda side: (_times_by_path(paths, scope) for scope in side.scopes), ["path"], ["count", "ns"]
    )
    frame.insert(0, "call_path", pd.Series([paths.label(path) for path in frame["path"]], dtype=object))
    return _changed_rows(frame.drop(columns="path"))


def _times_by_path(paths: CallPaths, scope: Scope) -> pd.DataFrame:
    """Count and add up a scope's activities by call path."""
    path = paths.around(scope.graph, scope.work.call)
    frame = pd.DataFrame({"path": path, "ns": scope.work.end - scope.work.start})
    return frame.groupby("path")["ns"].agg(count="size", ns="sum").reset_index()


def time_by_name_diff(found: Comparison) -> pd.DataFrame:
    """Compare counts and durations by name; steps are left out, whose lengths are compared as such.

    Returns:
        name, control_count, test_count, control_ns, test_ns, diff_ns, noise_ns; as in the table of classes.
    """
    frame = _medians(found, lambda side: map(_times_by_name, side.scopes), ["name"], ["count", "ns"])
    return _changed_rows(frame[frame["name"].map(_without_step_number) == frame["name"]])


def name_diff(control: Sequence[Scope], test: Sequence[Scope], *, gpu: bool = True, cpu: bool = True) -> pd.DataFrame:
    """Compare counts and total durations by name, over one or several steps of a side, as HTA does.

    CPU rows belong to a step if they start in it, GPU activities if it launched them. HTA assigns rows to steps by the
    steps' GPU annotations too and counts operators that carry a stream as GPU work; that is not repeated.

    Returns:
        name, control_count, test_count, control_ns, test_ns, diff_ns; largest change first.
    """
    sides = []
    for scopes in (control, test):
        parts = pd.concat([_times_by_name(scope, gpu=gpu, cpu=cpu) for scope in scopes])
        sides.append(parts.groupby("name", as_index=False).sum())
    return sums_of_sides(sides, ["name"], ["count", "ns"])


def _times_by_name(scope: Scope, *, gpu: bool = True, cpu: bool = True) -> pd.DataFrame:
    """Count and add up a scope's rows by name."""
    events, names = scope.graph.event_table, scope.graph.names
    on_cpu = np.flatnonzero(kind_mask(events.kind, CPU_ROWS))
    rows = np.concatenate([on_cpu[scope.holds(on_cpu)] if cpu else on_cpu[:0], scope.work.row if gpu else on_cpu[:0]])
    frame = pd.DataFrame({"name": events.name[rows], "ns": events.end[rows] - events.start[rows]})
    found = frame.groupby("name")["ns"].agg(count="size", ns="sum").reset_index()
    found["name"] = np.array(names or ("",), object)[found["name"]]
    return found


def step_table(found: Comparison) -> pd.DataFrame:
    """List the steps of both sides.

    Returns:
        side (``control``, ``test``), step, iteration_ns (from the end of earlier work to that of its own), latency_ns
        (from its start), bound_by, outlier (what an unusual step contains, else empty).
    """
    rows = [
        (side, row.step, row.iteration_ns, row.latency_ns, row.bound_by, row.outlier or "")
        for side, of in zip(SIDES, (found.control, found.test), strict=True)
        for row in of.steps
    ]
    return pd.DataFrame(rows, columns=["side", "step", "iteration_ns", "latency_ns", "bound_by", "outlier"])


def _medians(
    found: Comparison, tables_of: Callable[[Side], Iterable[pd.DataFrame]], keys: list[str], values: list[str]
) -> pd.DataFrame:
    """Make one table of the tables of all stretches."""
    sides = [list(tables_of(side)) for side in (found.control, found.test)]
    return medians_of_sides(sides, keys, values, found.row_noise_share)


def _without_step_number(name: str) -> str:
    """Let the steps of both sides be one thing: their lengths are compared as windows."""
    return "ProfilerStep" if STEP_NAME.fullmatch(name) else name


def _changed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out what takes as long on both sides."""
    return frame[frame["diff_ns"] != 0].reset_index(drop=True)
