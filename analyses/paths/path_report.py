"""critical-path: the path of one window, for a person and for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyses.display.clocks import clock_lines
from analyses.display.terminal import clipped, milliseconds, percent, table
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.export.files import printable
from hta_graph.export.json_text import Records

__all__ = ["path_document", "path_lines"]

THINGS_TO_LOOK_AT = 10

MEANING = {
    "cpu_bound": "the CPU works: operators and calls",
    "data_loading": "the CPU loads data",
    "gpu_compute_bound": "the GPU computes",
    "gpu_communication_bound": "the GPU communicates; may include waiting for other ranks",
    "gpu_memory_bound": "the GPU copies or sets memory",
    "gpu_kernel_kernel_overhead": "the GPU is idle between dependent activities",
    "gpu_kernel_launch_overhead": "the GPU waits for a launch",
    "cpu_gap": "no operator is open: Python, the framework, another thread",
    "sync_overhead": "the GPU is done, the waiting call has not returned",
    "unexplained": "no cause is known",
}
"""What each class means, in a few words."""

REASON = {
    "before_recording": "held by work that was enqueued before the recording",
    "missing_graph_node": "a node of the graph that was not recorded, in every replay",
    "wait_without_record": "a wait of which the trace has no record",
    "other_rank": "it waited for another rank",
    "clock_fault": "its times contradict each other",
    "unknown": "nothing in the trace tells why",
}
"""What each reason for being unexplained means."""


def path_document(path: CriticalPath) -> dict[str, Any]:
    """Return the path as ``hta-graph/critical-path/1``: window, coverage, time per class, segments (times in ns)."""
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
        },
        "coverage": path.coverage,
        "by_bound_ns": path.by_bound_ns,
        "segments": Records(path.segment_columns()),
        "unexplained": Records(path.unexplained_columns()),
        "diagnostics": path.graph.diagnostics,
    }


def path_lines(path: CriticalPath) -> list[str]:
    """Render the path: what bounds the window, what is not known, the ten things to look at."""
    return [
        *verdict_lines(path),
        *clock_lines(path.graph.diagnostics),
        "",
        "time on the critical path",
        *class_lines(path),
        "",
        *event_lines(path),
    ]


def verdict_lines(path: CriticalPath) -> list[str]:
    """Say what bounds the window."""
    window, graph = path.window, path.graph
    rank = "" if graph.rank is None else f", rank {graph.rank}"
    lengths = f"CPU {milliseconds(window.cpu_ns)}, GPU {milliseconds(window.gpu_ns)}"
    # Of equal classes the one that comes first in the order of the table.
    largest, time_ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    length = max(path.length_ns, 1)
    return [
        f"{graph.path.name}{rank}",
        f"{clipped(window.label, 60)}: {milliseconds(path.length_ns)} ({lengths})",
        f"bound by {largest}: {milliseconds(time_ns)}, {percent(time_ns / length)} ({MEANING[largest]})",
        unexplained_line(path, length),
    ]


def unexplained_line(path: CriticalPath, length: int) -> str:
    """Say how much has no cause, and of the largest stretch of it what stood open and what is behind it."""
    total = path.by_bound_ns["unexplained"]
    if not total:
        return "unexplained: nothing, every nanosecond has a cause"
    return f"unexplained: {milliseconds(total)}, {percent(total / length)}; {largest_unexplained(path)}"


def largest_unexplained(path: CriticalPath) -> str:
    """Say of the largest unexplained stretch what stood open and what is behind it, as far as the trace tells."""
    found = path.unexplained_columns()
    # One long stretch tells more than the sum of many short ones.
    at = int(np.argmax(found["end_ns"] - found["start_ns"]))
    size = milliseconds(int(found["end_ns"][at] - found["start_ns"][at]))
    open_call, waiter = found["while_in"][at], found["before"][at]
    inside = f", while in {clipped(open_call, 40)}" if open_call else ""
    until = f", before {clipped(waiter, 40)}" if waiter else ", after the last work on the path"
    return f"the largest stretch, {size}{inside}{until}: {REASON[found['reason'][at]]}"


def class_lines(path: CriticalPath) -> list[str]:
    """List the classes, longest first."""
    length = max(path.length_ns, 1)
    found = sorted(((ns, bound) for bound, ns in path.by_bound_ns.items() if ns), key=lambda item: -item[0])
    return table([[milliseconds(ns), percent(ns / length), bound, MEANING[bound]] for ns, bound in found], left=[2, 3])


def event_lines(path: CriticalPath) -> list[str]:
    """List what takes most of the path."""
    totals = path.event_totals()
    length = max(path.length_ns, 1)
    rows = [
        [milliseconds(int(ns)), percent(ns / length), f"{calls:,}", bound, name or "(nothing recorded)"]
        for name, bound, ns, calls in list(zip(*totals.values(), strict=True))[:THINGS_TO_LOOK_AT]
        for name, bound, ns, calls in [(name, bound, ns, calls if name else 0)]
    ]
    return [
        f"the {len(rows)} things to look at",
        *table(rows, ["time", "share", "calls", "class", "what"], left=[3, 4]),
    ]
