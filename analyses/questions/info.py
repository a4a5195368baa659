"""info: what is in a trace, and what the graph made of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.display.labels import EDGE
from analyses.display.text_layout import Line, clipped, duration_text, table
from analyses.window_report import clock_lines
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind
from hta_graph.text.sanitize import encodable_path

GPU_OF_LANE = re.compile(r"stream (\d{1,9}):")
RANKS_LISTED = 64
"""How many ranks are told one by one."""


def info_document(graph: DependencyGraph) -> dict[str, Any]:
    """Return one rank's counts per kind, lanes, steps, GPUs, span (ns), edges per kind and evidence, diagnostics."""
    events = graph.event_table
    kinds = np.bincount(events.kind, minlength=len(EventKind))
    per_lane = np.bincount(events.lane, minlength=len(graph.lanes.labels))
    return {
        "file": encodable_path(graph.path),
        "rank": graph.rank,
        "world_size": graph.trace.world_size,
        "events": len(events),
        "kinds": {kind.label: int(kinds[kind]) for kind in EventKind if kind != EventKind.RENDEZVOUS},
        "lanes": [
            {"lane": label, "events": int(count)} for label, count in zip(graph.lanes.labels, per_lane, strict=True)
        ],
        "steps": [{"step": s.number, "start_ns": s.start_ns, "end_ns": s.end_ns} for s in graph.steps()],
        "gpus": list(graph.trace.gpu_names),
        "start_ns": int(events.start.min()) if len(events) else None,
        "end_ns": int(events.end.max()) if len(events) else None,
        "edges": graph.edge_counts(),
        "diagnostics": graph.diagnostics,
    }


def info_lines(info: dict[str, Any]) -> list[Line]:
    """Render one rank for a terminal."""
    rank = (
        ""
        if info["rank"] is None
        else f", rank {info['rank']}" + (f" of {info['world_size']}" if info["world_size"] else "")
    )
    if not info["events"]:
        return [f"{info['file']}{rank}: no events, nothing was captured"]
    span = duration_text(info["end_ns"] - info["start_ns"])
    lines: list[Line] = [
        f"{info['file']}{rank}: {info['events']:,} events in {span}",
        _gpu_line(info["gpus"]),
        *_driven_line(info["lanes"]),
        _step_line(info["steps"]),
        *clock_lines(info["diagnostics"]),
        "",
    ]
    lines += ["events", *table([[f"{n:,}", kind] for kind, n in info["kinds"].items() if n], left=[1]), ""]
    lines += ["lanes", *_lane_lines(info["lanes"]), ""]
    edges = [[f"{n['recorded']:,}", f"{n['inferred']:,}", kind, EDGE[kind]] for kind, n in info["edges"].items()]
    lines += ["edges", *table(edges, ["recorded", "inferred", "kind", "meaning"], left=[2, 3], words=[3]), ""]
    found = [[f"{n:,}", key] for key, n in info["diagnostics"].items() if n]
    return lines + (
        ["diagnostics", *table(found, left=[1])] if found else ["diagnostics: nothing dropped, repaired or unresolved"]
    )


def more_ranks_line(ranks: Sequence[dict[str, Any]]) -> str:
    """Say what the ranks hold that are not told one by one."""
    events = [info["events"] for info in ranks]
    numbers = [info["rank"] for info in ranks if info["rank"] is not None]
    named = f" ({numbers[0]} to {numbers[-1]})" if numbers else ""
    each = f"{min(events):,} to {max(events):,} events each"
    return f"… and {len(ranks):,} more ranks{named}: {sum(events):,} events, {each}; --rank N tells one, --wide all"


def _gpu_line(names: list[str]) -> str:
    """Name the GPUs."""
    unique = list(dict.fromkeys(names))  # usually one model, many times
    return (
        f"GPUs of the host: {len(names)} × {clipped(', '.join(unique), 60)}"
        if names
        else "GPUs of the host: not recorded"
    )


def _driven_line(lanes: list[dict[str, Any]]) -> list[str]:
    """Say that one process drives several GPUs, which the other lines do not tell.

    >>> lanes = [{"lane": "stream 0:1:7", "events": 3}, {"lane": "stream 1:2:7", "events": 4}]
    >>> _driven_line(lanes), _driven_line(lanes[:1])
    (['this process drives 2 GPUs: 0 (3 rows), 1 (4 rows)'], [])
    """
    rows: Counter[int] = Counter()
    for item in lanes:
        if found := GPU_OF_LANE.match(item["lane"]):
            rows[int(found[1])] += item["events"]
    told = ", ".join(f"{gpu} ({rows[gpu]:,} rows)" for gpu in sorted(rows))
    return [f"this process drives {len(rows)} GPUs: {told}"] if len(rows) > 1 else []


def _step_line(steps: list[dict[str, int]]) -> str:
    """Tell how many steps there are and how long they are."""
    if not steps:
        return "steps: none recorded"
    lengths = [s["end_ns"] - s["start_ns"] for s in steps]
    numbers = clipped(", ".join(str(s["step"]) for s in steps), 50)
    return f"steps: {len(steps)} ({numbers}), {duration_text(min(lengths))} to {duration_text(max(lengths))} on the CPU"


def _lane_lines(lanes: list[dict[str, Any]], limit: int = 12) -> list[Line]:
    """List the busiest lanes."""
    busiest = sorted(lanes, key=lambda item: -item["events"])[:limit]
    rows = table([[f"{item['events']:,}", item["lane"]] for item in busiest], left=[1])
    return rows + ([f"  and {len(lanes) - limit} more"] if len(lanes) > limit else [])
