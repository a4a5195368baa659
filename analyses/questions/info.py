"""info: what a trace and its graph hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.display.labels import EDGE
from analyses.display.text_layout import Line, table
from analyses.messages import engine_steps as engine_messages
from analyses.messages import info as messages
from analyses.source.window_report import clock_lines, engine_record, sync_record_lines
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind

GPU_OF_LANE = re.compile(r"stream (\d{1,9}):")
RANKS_LISTED = 64
"""How many ranks are listed one by one."""


def info_document(graph: DependencyGraph) -> dict[str, Any]:
    """Return one rank's counts per kind, lanes, steps, GPUs, span (ns), edges per kind and evidence, diagnostics."""
    events, times = graph.event_table, graph.trace.file_times
    kinds = np.bincount(events.kind, minlength=len(EventKind))
    per_lane = np.bincount(events.lane, minlength=len(graph.lanes.labels))
    return {
        "file": encodable_path(graph.path),
        "rank": graph.rank,
        "world_size": graph.trace.world_size,
        "recorder": graph.trace.settings.get("recorder"),
        "events": len(events),
        "kinds": {kind.label: int(kinds[kind]) for kind in EventKind if kind != EventKind.RENDEZVOUS},
        "lanes": [
            {"lane": label, "events": int(count)} for label, count in zip(graph.lanes.labels, per_lane, strict=True)
        ],
        "steps": [
            {"step": item.number, "start_ns": item.start_ns, "end_ns": item.end_ns, **engine_record(item.engine)}
            for item in graph.steps()
        ],
        "gpus": list(graph.trace.gpu_names),
        "start_ns": int(times.start.min()) if len(events) else None,
        "end_ns": int(times.end.max()) if len(events) else None,
        "edges": graph.edge_counts(),
        "diagnostics": graph.diagnostics_record,
    }


def info_lines(info: dict[str, Any]) -> list[Line]:
    """Render one rank for a terminal."""
    rank = messages.of_world(info["rank"], info["world_size"])
    if not info["events"]:
        return [messages.empty(info["file"], rank)]
    steps, diagnostics = info["steps"], info["diagnostics"]
    lines: list[Line] = [
        messages.span(info["file"], rank, info["events"], info["end_ns"] - info["start_ns"]),
        messages.recorded_by(info["recorder"]),
        messages.gpus(info["gpus"]),
        *_driven_line(info["lanes"]),
        messages.steps([step["step"] for step in steps], [step["end_ns"] - step["start_ns"] for step in steps]),
        *_phases_line(steps),
        *clock_lines(diagnostics["gpu_clock"]),
        *sync_record_lines(diagnostics),
        "",
    ]
    lines += [messages.EVENTS, *table([[f"{n:,}", kind] for kind, n in info["kinds"].items() if n], left=[1]), ""]
    lines += [messages.LANES, *_lane_lines(info["lanes"]), ""]
    edges = [[f"{n['recorded']:,}", f"{n['inferred']:,}", kind, EDGE[kind]] for kind, n in info["edges"].items()]
    lines += [messages.EDGES, *table(edges, messages.EDGE_COLUMNS, left=[2, 3], words=[3]), ""]
    found = [[f"{n:,}", key] for key, n in diagnostics.items() if n and isinstance(n, int)]
    return lines + ([messages.DIAGNOSTICS, *table(found, left=[1])] if found else [messages.NO_DIAGNOSTICS])


def more_ranks_line(ranks: Sequence[dict[str, Any]]) -> str:
    """Say what the ranks hold that are not listed one by one."""
    numbers = [info["rank"] for info in ranks if info["rank"] is not None]
    return messages.more_ranks([info["events"] for info in ranks], numbers)


def _driven_line(lanes: list[dict[str, Any]]) -> list[str]:
    """Say that one process drives multiple GPUs.

    >>> lanes = [{"lane": "stream 0:1:7", "events": 3}, {"lane": "stream 1:2:7", "events": 4}]
    >>> _driven_line(lanes), _driven_line(lanes[:1])
    (['GPUs of this process: 0 (3 events), 1 (4 events)'], [])
    """
    events: Counter[int] = Counter()
    for item in lanes:
        if found := GPU_OF_LANE.match(item["lane"]):
            events[int(found[1])] += item["events"]
    return [messages.driven_gpus(events)] if len(events) > 1 else []


def _phases_line(steps: list[dict[str, Any]]) -> list[str]:
    """Count an engine's steps by phase, the most frequent first, with their batches.

    >>> step = {"phase": "decode", "requests": 8, "tokens": 8}
    >>> _phases_line([step, {**step, "requests": 6, "tokens": 6}, {"phase": "graph", "requests": None, "tokens": None}])
    ['phases: 2 decode steps of batch 6 to 8, 1 graph step']
    >>> _phases_line([{"step": 0}])
    []
    """
    counts = Counter(step["phase"] for step in steps if "phase" in step)
    found = []
    for phase, count in counts.most_common():
        own = [step for step in steps if step.get("phase") == phase]
        requests, tokens = ([step[name] for step in own if step[name] is not None] for name in ("requests", "tokens"))
        found.append(engine_messages.of_phase(count, phase, engine_messages.sizes(requests, tokens)))
    return [messages.phases(found)] if found else []


def _lane_lines(lanes: list[dict[str, Any]], limit: int = 12) -> list[Line]:
    """List the busiest lanes."""
    busiest = sorted(lanes, key=lambda item: -item["events"])[:limit]
    rows = table([[f"{item['events']:,}", item["lane"]] for item in busiest], left=[1])
    return rows + ([messages.more_lanes(len(lanes) - limit)] if len(lanes) > limit else [])
