"""HTA's traces with counters, and its table of hardware counters."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from pathlib import Path

import numpy as np
import pandas as pd

from analyses.description import COUNTER_SERIES
from analyses.hta.hta_window import earliest_ns
from analyses.questions.counter_tracks import QUEUES, RATES, counter_tracks, output_name
from analyses.questions.hardware_counters import KEYS, counted_ranges
from analyses.scope import Scope
from hta_graph.errors import OutputError
from hta_graph.export.perfetto.counter_tracks import write_counters
from hta_graph.model import EventKind
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.storage.output_paths import check_outputs
from hta_graph.trace.profiler_names import PROFILER_RANGE

__all__ = ["TimeSeriesTypes", "hta_cupti_counter_data_with_operators", "hta_generate_trace_with_counters"]


class TimeSeriesTypes(Flag):
    """HTA's name for what is drawn: the queue of each stream, the rate of each kind of copy."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


SERIES_OF_TYPE = {TimeSeriesTypes.QUEUE_LENGTH: QUEUES, TimeSeriesTypes.MEMCPY_BANDWIDTH: RATES}


def hta_generate_trace_with_counters(
    scopes: Sequence[Scope],
    time_series: TimeSeriesTypes | None,
    output_suffix: str,
    output_dir: str | Path | None,
    *,
    inputs: Sequence[Location] = (),
) -> list[Location]:
    """Do what ``TraceAnalysis.generate_trace_with_counters`` does.

    ``inputs`` are files of other ranks, which are not overwritten either.
    """
    paths = [scope.graph.path for scope in scopes]
    targets = [resolve_location(output_dir or path.parent) / output_name(path, output_suffix) for path in paths]
    if len(set(targets)) < len(targets):
        raise OutputError(f"{targets[0]}: two ranks would be written there; give each its own output_dir")
    # All outputs are looked at before the first is written.
    check_outputs(targets, [*paths, *inputs])
    chosen = [name for kind, name in SERIES_OF_TYPE.items() if kind in time_series] if time_series else COUNTER_SERIES
    for scope, target in zip(scopes, targets, strict=True):
        write_counters(scope.graph.trace, counter_tracks(scope, chosen), target)
    return targets


def hta_cupti_counter_data_with_operators(scopes: Sequence[Scope], origin_ns: int | None = None) -> list[pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_cupti_counter_data_with_operators``: the columns about ranges.

    ``origin_ns`` is what ts (µs) counts from; the earliest event of the scopes' traces if not given.
    """
    scopes = [scope for scope in scopes if (scope.graph.event_table.kind == EventKind.OTHER).any()]
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = [(scope, counted_ranges([scope])) for scope in scopes]
    return [_counter_frame(scope, frame, origin) for scope, frame in frames if (frame["call_index"] >= 0).any()]


def _counter_frame(scope: Scope, frame: pd.DataFrame, origin: int) -> pd.DataFrame:
    """Return a rank's ranges (µs from the origin)."""
    events = scope.graph.event_table
    rows = np.flatnonzero(np.isin(events.index, frame["event_index"]))
    start, end = (events.start[rows] - origin) / 1e3, (events.end[rows] - origin) / 1e3
    return pd.DataFrame(
        {
            "index": frame["event_index"],
            "cat": PROFILER_RANGE,
            "name": frame["name"],
            "ts": start,
            "dur": end - start,
            "end": end,
            **{name: frame[name] for name in frame.columns if name not in KEYS},
            "index_runtime": frame["call_index"],
            "op_stack": frame["operator_stack"],
            "top_level_op": [stack[0] if stack else "" for stack in frame["operator_stack"]],
            "bottom_level_op": frame["operator"],
        }
    )
