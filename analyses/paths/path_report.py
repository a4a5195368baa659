"""critical-path: the path of one window, for a person and for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.display.clocks import clock_lines
from analyses.display.terminal import clipped, duration_text, percent, table
from analyses.display.window_text import default_lines, elided, rows_after_lines, window_lines
from analyses.display.words import MEANING, REASON
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.algorithms.time.step_table import StepRow
from hta_graph.export.files import printable
from hta_graph.export.json_text import Records
from hta_graph.graph import DependencyGraph

__all__ = ["largest_unexplained", "path_document", "path_lines", "per_step_document", "per_step_lines", "step_records"]

THINGS_TO_LOOK_AT = 10


def path_document(path: CriticalPath, steps: Sequence[StepRow] = ()) -> dict[str, Any]:
    """Return the path as ``hta-graph/critical-path/1``: window, coverage, time per class, segments (times in ns).

    ``steps`` is the table of steps; it is listed where the window is a default.
    """
    window = path.window
    return {
        "schema": "hta-graph/critical-path/1",
        "file": printable(path.graph.path),
        "rank": path.graph.rank,
        "window": {
            "start_ns": window.start_ns,
            "end_ns": window.end_ns,
            "label": window.label,
            "cpu_ns": window.cpu_ns,
            "gpu_ns": window.gpu_ns,
            "rows_after": window.rows_after,
        },
        **({"steps": step_records(steps)} if window.is_default else {}),
        "coverage": path.coverage,
        "by_bound_ns": path.by_bound_ns,
        "segments": Records(path.segment_columns()),
        "unexplained": Records(path.unexplained_columns()),
        "diagnostics": path.graph.diagnostics,
    }


def step_records(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Return the steps as JSON lists them (times in ns)."""
    shown = ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")
    return [{key: getattr(row, key) for key in shown} for row in steps]


def per_step_document(graph: DependencyGraph, steps: Sequence[StepRow]) -> dict[str, Any]:
    """Return ``hta-graph/critical-path-per-step/1``: file, rank, every step with its coverage (times in ns)."""
    rows = [{**record, "coverage": row.coverage} for record, row in zip(step_records(steps), steps, strict=True)]
    return {
        "schema": "hta-graph/critical-path-per-step/1",
        "file": printable(graph.path),
        "rank": graph.rank,
        "steps": rows,
        "diagnostics": graph.diagnostics,
    }


def per_step_lines(graph: DependencyGraph, steps: Sequence[StepRow]) -> list[str]:
    """Render every step: its lengths, the class that bounds it, how much of it has a cause, what is unusual."""
    rank = "" if graph.rank is None else f", rank {graph.rank}"
    rows = [
        [
            str(row.step),
            duration_text(row.iteration_ns),
            duration_text(row.latency_ns),
            percent(row.coverage),
            row.bound_by,
            elided(row.outlier or ""),
        ]
        for row in steps
    ]
    header = ["step", "iteration", "latency", "explained", "bound by", "outlier"]
    return [f"{graph.path.name}{rank}", *table(rows, header, left=[4, 5])]


def path_lines(path: CriticalPath, steps: Sequence[StepRow] = ()) -> list[str]:
    """Render the path: what bounds the window, what is not known, the steps beside a default one, what to look at."""
    chosen = default_lines(path.window, path.graph, steps)
    return [
        *_verdict_lines(path),
        *clock_lines(path.graph.diagnostics),
        *chosen,
        "",
        "time on the critical path",
        *_class_lines(path),
        "",
        *_event_lines(path),
    ]


def _verdict_lines(path: CriticalPath) -> list[str]:
    """Say what bounds the window."""
    window, graph = path.window, path.graph
    rank = "" if graph.rank is None else f", rank {graph.rank}"
    # Of equal classes the one that comes first in the order of the table.
    largest, time_ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    length = max(path.length_ns, 1)
    return [
        f"{graph.path.name}{rank}",
        *window_lines(window, graph),
        f"bound by {largest}: {duration_text(time_ns)}, {percent(time_ns / length)} ({MEANING[largest]})",
        _unexplained_line(path, length),
        *rows_after_lines(window),
    ]


def _unexplained_line(path: CriticalPath, length: int) -> str:
    """Say how much has no cause, and of the largest stretch of it what stood open and what is behind it."""
    total = path.by_bound_ns["unexplained"]
    if not total:
        return "unexplained: nothing, every nanosecond has a cause"
    return f"unexplained: {duration_text(total)}, {percent(total / length)}; {largest_unexplained(path)}"


def largest_unexplained(path: CriticalPath) -> str:
    """Say of the largest unexplained stretch what stood open and what is behind it, as far as the trace tells."""
    found = path.unexplained_columns()
    # One long stretch tells more than the sum of many short ones.
    at = int(np.argmax(found["end_ns"] - found["start_ns"]))
    size = duration_text(int(found["end_ns"][at] - found["start_ns"][at]))
    open_call, waiter = found["while_in"][at], found["before"][at]
    inside = f", while in {clipped(open_call, 40)}" if open_call else ""
    until = f", before {clipped(waiter, 40)}" if waiter else ", after the last work on the path"
    return f"the largest stretch, {size}{inside}{until}: {REASON[found['reason'][at]]}"


def _class_lines(path: CriticalPath) -> list[str]:
    """List the classes, longest first."""
    length = max(path.length_ns, 1)
    found = sorted(((ns, bound) for bound, ns in path.by_bound_ns.items() if ns), key=lambda item: -item[0])
    return table([[duration_text(ns), percent(ns / length), bound, MEANING[bound]] for ns, bound in found], left=[2, 3])


def _event_lines(path: CriticalPath) -> list[str]:
    """List what takes most of the path."""
    totals = path.event_totals()
    length = max(path.length_ns, 1)
    rows = [
        [duration_text(int(ns)), percent(ns / length), f"{calls:,}", bound, name or "(nothing recorded)"]
        for name, bound, ns, calls in list(zip(*totals.values(), strict=True))[:THINGS_TO_LOOK_AT]
        for name, bound, ns, calls in [(name, bound, ns, calls if name else 0)]
    ]
    return [
        f"the {len(rows)} things to look at",
        *table(rows, ["time", "share", "calls", "class", "what"], left=[3, 4]),
    ]
