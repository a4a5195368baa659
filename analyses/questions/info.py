"""info: what a trace and its graph hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.declare.missing_work import missing_work, rows_of_a_gpu_program
from analyses.display.labels import EDGE
from analyses.display.phrases import batch_sizes, steps_of_phase
from analyses.display.sentence_format import counted
from analyses.display.text_layout import Line, clipped, duration_text, table
from analyses.source.window_facts import engine_record
from analyses.source.window_report import clock_lines, sync_record_lines
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EdgeKind, EventKind, Evidence
from hta_graph.paths.unrecorded_work import lost_launches, unrecorded_times

PROFILER_OF_PYTORCH = "PyTorch's profiler"

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
        "recorded_by": recorded_edges(graph),
        "recording": _recording_record(graph),
        "diagnostics": graph.diagnostics_record,
    }


RECORDED_BY: Mapping[str, tuple[EdgeKind, ...]] = {
    "graph_arrows": (EdgeKind.GRAPH_ORDER,),
    "sync_records": (EdgeKind.EVENT_WAIT, EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC),
    "queue_records": (EdgeKind.QUEUE_FULL,),
}
"""Which recorder says what was waited for: Cuspy's arrows, CUPTI's synchronization records and its full queues."""


def recorded_edges(graph: DependencyGraph) -> dict[str, int]:
    """Count the edges that each recorder of waits gave."""
    counts = graph.edge_counts()
    return {
        recorder: sum(counts.get(kind.label, {}).get(Evidence.RECORDED.label, 0) for kind in kinds)
        for recorder, kinds in RECORDED_BY.items()
    }


def _recorded_line(counts: Mapping[str, int]) -> list[str]:
    """Say how many waits were recorded, and by what.

    >>> _recorded_line({"graph_arrows": 1_200, "sync_records": 1, "queue_records": 0})
    ['recorded waits: 1,200 by graph arrows, 1 by sync records']
    >>> _recorded_line({"graph_arrows": 0, "sync_records": 0, "queue_records": 0})
    []
    """
    said = [f"{count:,} by {recorder.replace('_', ' ')}" for recorder, count in counts.items() if count]
    return [f"recorded waits: {', '.join(said)}"] if said else []


def _recording_record(graph: DependencyGraph) -> dict[str, Any]:
    """Return how much launched work has no row, and what is missing, in sentences; none of it in a whole recording."""
    calls, flags, start = lost_launches(graph), graph.event_flags, graph.event_table.start
    unknown, missing = unrecorded_times(graph), list[str]()
    if not graph.is_gpu.any():
        shown_by = rows_of_a_gpu_program(graph)
        missing += [f"no GPU activity is recorded for {shown_by}"] if shown_by else []
    elif len(unknown.start):
        missing += missing_work(graph, int(start.min()), int(graph.event_table.end.max()))
    return {
        "is_whole": not missing,
        "launch_calls": int(np.count_nonzero(flags.work_call)),
        "launch_calls_without_row": len(calls),
        "not_recorded_ns": unknown.total,
        "missing": missing,
    }


def info_lines(info: dict[str, Any]) -> list[Line]:
    """Render one rank for a terminal."""
    rank = _of_world(info["rank"], info["world_size"])
    if not info["events"]:
        return [f"{info['file']}{rank}: no events"]
    steps, diagnostics = info["steps"], info["diagnostics"]
    lines: list[Line] = [
        f"{info['file']}{rank}: {info['events']:,} events in {duration_text(info['end_ns'] - info['start_ns'])}",
        f"recorded by {info['recorder'] or PROFILER_OF_PYTORCH}: {_whole_or_missing(info['recording'])}",
        _gpus(info["gpus"]),
        *_driven_line(info["lanes"]),
        *_recorded_line(info["recorded_by"]),
        _steps([step["step"] for step in steps], [step["end_ns"] - step["start_ns"] for step in steps]),
        *_phases_line(steps),
        *clock_lines(diagnostics["gpu_clock"]),
        *sync_record_lines(diagnostics),
        "",
    ]
    lines += ["events", *table([[f"{n:,}", kind] for kind, n in info["kinds"].items() if n], left=[1]), ""]
    lines += ["lanes", *_lane_lines(info["lanes"]), ""]
    edges = [[f"{n['recorded']:,}", f"{n['inferred']:,}", kind, EDGE[kind]] for kind, n in info["edges"].items()]
    lines += ["edges", *table(edges, ("recorded", "inferred", "kind", "meaning"), left=[2, 3], words=[3]), ""]
    found = [[f"{n:,}", key] for key, n in diagnostics.items() if n and isinstance(n, int)]
    return lines + (
        ["diagnostics", *table(found, left=[1])] if found else ["Diagnostics: nothing dropped, repaired or unresolved."]
    )


def _whole_or_missing(recording: Mapping[str, Any]) -> str:
    """Say whether a recording is complete, or what it lacks."""
    return "; ".join(recording["missing"]) or "complete"


def _of_world(rank: int | None, world_size: int | None) -> str:
    """Name a rank behind its file."""
    return "" if rank is None else f", rank {rank}" + (f" of {world_size}" if world_size else "")


def _gpus(names: Sequence[str]) -> str:
    """Name the GPUs of the host."""
    unique = list(dict.fromkeys(names))  # usually one model, many times
    found = f"{len(names)} × {clipped(', '.join(unique), 60)}" if names else "not recorded"
    return f"GPUs of the host: {found}"


def _steps(numbers: Sequence[int], lengths_ns: Sequence[int]) -> str:
    """Say which steps there are, and how long they are."""
    if not numbers:
        return "steps: none recorded"
    listed = clipped(", ".join(map(str, numbers)), 50)
    shortest, longest = duration_text(min(lengths_ns)), duration_text(max(lengths_ns))
    spread = shortest if shortest == longest else f"{shortest} to {longest}"
    return f"steps: {len(numbers)} ({listed}), {spread} on the CPU"


def more_ranks_line(ranks: Sequence[dict[str, Any]]) -> str:
    """Say what the ranks hold that are not listed one by one."""
    numbers = [info["rank"] for info in ranks if info["rank"] is not None]
    events = [info["events"] for info in ranks]
    named = f" ({numbers[0]} to {numbers[-1]})" if numbers else ""
    total = f"{sum(events):,} events, {min(events):,} to {max(events):,} each"
    return f"… and {len(events):,} more ranks{named}: {total}; use --rank N for one, --wide for all"


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
    each = ", ".join(f"{gpu} ({counted(events[gpu], 'event')})" for gpu in sorted(events))
    return [f"GPUs of this process: {each}"] if len(events) > 1 else []


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
        found.append(steps_of_phase(count, phase, batch_sizes(requests, tokens)))
    return [f"phases: {', '.join(found)}"] if found else []


MOST_LANES = 12


def _lane_lines(lanes: list[dict[str, Any]]) -> list[Line]:
    """List the busiest lanes."""
    busiest = sorted(lanes, key=lambda item: -item["events"])[:MOST_LANES]
    rows = table([[f"{item['events']:,}", item["lane"]] for item in busiest], left=[1])
    return rows + ([f"  … and {counted(len(lanes) - MOST_LANES, 'more lane')}"] if len(lanes) > MOST_LANES else [])
