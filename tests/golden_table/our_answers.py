"""Our answers to HTA's calls, by the names and arguments that HTA's users write."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

import analyses
from analyses import DeviceType, LabeledTrace, MemoryAnalysis, Trace, TraceAnalysis, TraceDiff
from analyses.hta.filters import Filter
from tests.golden_table.golden_files import Golden
from tests.golden_table.golden_form import encoded, highest
from tests.support.shared_traces import SHARED

__all__ = ["FOLDER_ARGUMENT", "analysis_of", "asked_of_us", "counter_tracks", "filters_asked"]

TRACES = SHARED / "traces"
NOT_OURS = ("visualize", "queue_length_dict", "output_dir", "labels", "control", "test")
"""Arguments that the golden files only describe."""
NEED_SERIES = ("get_queue_length_summary_from_time_series", "get_time_spent_blocked_on_full_queue")
DRAW = (
    *("get_temporal_breakdown", "get_comm_comp_overlap", "get_gpu_kernel_breakdown", "get_idle_time_breakdown"),
    *("get_gpu_user_annotation_breakdown", "get_cuda_kernel_launch_stats"),
)
FOLDER_ARGUMENT = "(folder"


@lru_cache(maxsize=1)
def analysis_of(recording: str) -> TraceAnalysis:
    """Load the ranks of a run."""
    return TraceAnalysis(trace_dir=str(TRACES / recording))


def asked_of_us(golden: Golden) -> Any:
    """Ask what HTA was asked, and return the answer in the form of the golden files."""
    other = OTHER.get(golden.method)
    return encoded(other(golden) if other else _method(golden))


def _method(golden: Golden) -> Any:
    analysis = analysis_of(golden.recording)
    arguments = {key: value for key, value in golden.arguments.items() if key not in NOT_OURS}
    if golden.method in NEED_SERIES:
        arguments["queue_length_dict"] = analysis.get_queue_length_time_series(analysis.get_ranks())
    if golden.method in DRAW:
        arguments["visualize"] = False
    return getattr(analysis, golden.method)(**arguments)


def _loaded(golden: Golden) -> dict[str, Any]:
    if golden.trace.startswith("diff"):
        return {key: _side(golden.arguments[side]) for key, side in (("c", "control"), ("t", "test"))}
    t = analysis_of(golden.recording).t
    return {str(rank): _frame(t.get_trace(rank)) for rank in t.get_ranks()}


def _side(name: str) -> dict[str, Any]:
    labeled = LabeledTrace(t=_trace(str(TRACES / name)))
    rows = {str(rank): len(labeled.t.get_trace(rank)) for rank in labeled.ranks()}
    return {"iterations": labeled.iterations(), "ranks": labeled.ranks(), "rows": rows}


def _frame(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "rows": len(frame),
        "gpu_rows(stream!=-1)": int((frame["stream"] != -1).sum()),
        "streams": sorted({-1, *frame["stream"].tolist()}),
        "dur_negative": int((frame["dur"] < 0).sum()),
        "iterations": sorted(set(frame["iteration"].tolist())),
    }


def _rank_files(golden: Golden) -> dict[str, str]:
    files = analysis_of(golden.recording).t.trace_files
    return {str(rank): Path(path).name for rank, path in files.items()}


def _counters(golden: Golden) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = {key: golden.arguments[key] for key in ("time_series", "ranks")}
        made = analysis_of(golden.recording).generate_trace_with_counters(**arguments, output_dir=folder)
        return [_tracks(path) for path in made]


def _tracks(path: Path) -> dict[str, Any]:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    tracks: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "C":
            for key, value in event["args"].items():
                tracks[f"{key} | name={event['name']} | id={event.get('id')}"].append(value)
    return {"file": path.name, "gzip": True, "events_total": len(events), **counter_tracks(tracks)}


def counter_tracks(tracks: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Sum up counter tracks as the golden files do."""
    by = {key: {"count": len(values), "sum": sum(values), "max": highest(values)} for key, values in tracks.items()}
    return {"counter_events": sum(map(len, tracks.values())), "by": by}


def _filters(golden: Golden) -> dict[str, Any]:
    analysis = analysis_of(golden.recording)
    frame, symbols = analysis.get_trace(analysis.get_ranks()[0]), analysis.symbol_table
    bare = frame.drop(columns=["s_name", "s_cat"])
    found = {}
    for key in filters_asked(golden):
        kept = _filter(key)(bare) if "no_symbols" in key else _filter(key)(frame, symbols)
        found[key] = {"rows": len(kept), "dur_sum": float(kept["dur"].sum())}
    return found


def filters_asked(golden: Golden) -> list[str]:
    """List the filters that HTA answered for."""
    return [key for key, said in golden.result["value"].items() if "dur_sum" in said]


def _filter(key: str) -> Filter:
    """Make the filter that a key of the golden file stands for."""
    name, _, text = key.removesuffix("_symbols").removesuffix("_no").partition("(")
    text = text.removesuffix(")")
    if name == "CompositeFilter":
        return analyses.CompositeFilter([analyses.GPUKernelFilter(), analyses.FirstIterationFilter()])
    if name == "ZeroDurationFilter":
        return analyses.ZeroDurationFilter
    kind = getattr(analyses, name)
    if name == "TimeRangeFilter":
        return kind(tuple(map(int, text.split(","))))  # type: ignore[no-any-return]
    if name.endswith("OperatorFilter") and text:
        operator, *rest = text.split(",")
        return kind(operator, int(rest[0]), rest[1:] == ["gpu"])  # type: ignore[no-any-return]
    arguments = [int(text)] if name.startswith("Iteration") else [text] if text else []
    return kind(*arguments)  # type: ignore[no-any-return]


def _memory(golden: Golden) -> dict[str, Any]:
    frame = MemoryAnalysis(TRACES / "memory_timeline" / golden.arguments["path"]).get_memory_timeline()
    parts = frame.drop(columns=["time_ns", "all_bytes"])
    parts.columns = [name.removesuffix("_bytes").replace("_", " ").capitalize() for name in parts.columns]
    rows = [[time, sizes] for time, sizes in zip(frame["time_ns"].tolist(), parts.to_numpy().tolist(), strict=True)]
    peak = int(frame["all_bytes"].idxmax())
    return {
        "points": len(frame),
        "t_first": rows[0][0],
        "t_min": int(frame["time_ns"].min()),
        "t_max": int(frame["time_ns"].max()),
        "first20": rows[:20],
        "last20": rows[-20:],
        "max_by_category": parts.max().to_dict(),
        "min_by_category": parts.min().to_dict(),
        "last_by_category": parts.iloc[-1].to_dict(),
        "peak_total_bytes": int(frame["all_bytes"].max()),
        "peak_at_index": peak,
        "peak_at_ts": rows[peak][0],
    }


def _host_trace(golden: Golden) -> dict[str, Any]:
    """Return the host node of each row by event index."""
    t = TraceAnalysis(trace_dir=str(TRACES / golden.recording)).t
    host = analyses.load_execution_trace(TRACES / golden.recording / golden.arguments["et"])
    analyses.correlate_execution_trace(t, 0, host)
    nodes = t.get_trace(0)["et_node"].dropna()
    return {str(index): int(node) for index, node in nodes.items()}


@lru_cache(maxsize=2)
def _trace(folder: str) -> Trace:
    return Trace(trace_dir=folder, window="whole")


def _diff(golden: Golden) -> Any:
    arguments = {key: value for key, value in golden.arguments.items() if key not in NOT_OURS}
    if "device_type" in arguments:
        arguments["device_type"] = DeviceType[arguments["device_type"]]
    folders = [str(TRACES / f"nanogpt_ab_{name}") for name in ("current", "hook")]
    if str(golden.arguments.get("control", "")).startswith(FOLDER_ARGUMENT):
        return getattr(TraceDiff, golden.method)(*folders, **arguments)
    labels = golden.arguments.get("labels") or ("control", "test")
    sides = [LabeledTrace(label, t=_trace(folder)) for label, folder in zip(labels, folders, strict=True)]
    found = getattr(TraceDiff, golden.method)(*sides, **arguments)
    return {key: sorted(names) for key, names in found.items()} if isinstance(found, dict) else found


OTHER: dict[str, Callable[[Golden], Any]] = {
    "__init__": _loaded,
    "LabeledTrace": _loaded,
    "get_trace_files": _rank_files,
    "generate_trace_with_counters": _counters,
    "trace_filter/*": _filters,
    "_process_raw_events": _memory,
    "correlate_execution_trace": _host_trace,
    "compare_traces": _diff,
    "ops_diff": _diff,
}
"""Calls that are no methods of ``TraceAnalysis``, or whose golden form is a summary."""
