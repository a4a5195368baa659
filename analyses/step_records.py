"""What JSON says of a window and of the steps beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.step_table import StepRow
from hta_graph.paths.windows import Window

__all__ = ["step_records", "window_record"]


def window_record(window: Window, graph: DependencyGraph) -> dict[str, Any]:
    """Return a window as JSON has it (times in ns); that of a job with the ranks that have none."""
    return {
        "start_ns": window.start_ns,
        "end_ns": window.end_ns,
        "label": window.label,
        "cpu_ns": window.cpu_ns,
        "gpu_ns": window.gpu_ns,
        "rows_after": window.rows_after,
        **({"missing_ranks": list(window.missing)} if len(graph.parts) > 1 else {}),
    }


def step_records(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Return the steps as JSON lists them (times in ns); those of a job with the rank that holds each up, or null."""
    shown = ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")
    records = [{key: getattr(row, key) for key in shown} for row in steps]
    of_job = [len(row.path.graph.parts) > 1 for row in steps]
    return [
        {**record, **({"held_up_by": row.held_up_by} if several else {})}
        for record, row, several in zip(records, steps, of_job, strict=True)
    ]
