"""critical-path: the path of one window, for a person and for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analyses.display.terminal import duration_text, percent, table
from analyses.display.window_text import default_lines, elided, rows_after_lines, window_lines
from analyses.display.words import MEANING
from analyses.paths.verdict import advice_lines, verdict_records, verdict_sentences
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.algorithms.time.step_table import StepRow
from hta_graph.export.files import printable
from hta_graph.export.json_text import Records
from hta_graph.graph import DependencyGraph

__all__ = ["path_document", "path_lines", "per_step_document", "per_step_lines", "step_records"]

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
        "verdict": verdict_records(path),
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
        *(["", *chosen] if chosen else []),
        "",
        "time on the critical path",
        *_class_lines(path),
        "",
        *_event_lines(path),
    ]


def _verdict_lines(path: CriticalPath) -> list[str]:
    """Say in a sentence what bounds the window, then the rest of the verdict and advice."""
    window, graph = path.window, path.graph
    first, *rest = verdict_sentences(path)
    advice = advice_lines(path)
    return [
        first,
        "",
        f"{graph.path.name}{'' if graph.rank is None else f', rank {graph.rank}'}",
        *window_lines(window, graph),
        *rest,
        *rows_after_lines(window),
        *(["", "what to try", *(f"  {line}" for line in advice)] if advice else []),
    ]


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
