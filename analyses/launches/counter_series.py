"""counters: a trace with its queue lengths and copy rates as counter tracks, for ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from pathlib import Path

import numpy as np

from analyses.scope import Scope
from hta_graph.algorithms.work.copies import copies_of, rate_steps
from hta_graph.algorithms.work.launch_queue import queue_steps
from hta_graph.errors import OutputError
from hta_graph.export.files import check_output
from hta_graph.export.perfetto.counter_tracks import CounterTrack, write_counters

__all__ = ["TimeSeriesTypes", "counter_tracks", "hta_generate_trace_with_counters", "output_name"]

MICROSECOND = 1_000


class TimeSeriesTypes(Flag):
    """What is drawn: the queue of each stream, the rate of each kind of copy."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


BOTH = TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH


def counter_tracks(scope: Scope, series: TimeSeriesTypes = BOTH) -> list[CounterTrack]:
    """Return the tracks of a stretch, named as HTA names them.

    ``Queue Length`` has the stream as its id (as text: HTA's numbers make one track of all streams in Perfetto); a kind
    of copy is a track of its own with the argument ``Memcpy BW`` (GB/s). Copies of length 0 count as 1 µs, so that
    they show.
    """
    tracks = _queues(scope) if TimeSeriesTypes.QUEUE_LENGTH in series else []
    return tracks + _rates(scope) if TimeSeriesTypes.MEMCPY_BANDWIDTH in series else tracks


def _queues(scope: Scope) -> list[CounterTrack]:
    trace = scope.graph.trace
    queue, device, stream = queue_steps(trace.events, scope.work), trace.lanes.device, trace.lanes.stream
    return [
        CounterTrack(
            "Queue Length", "Queue Length", int(stream[lane]), int(device[lane]), queue.time[part], queue.length[part]
        )
        for lane, part in queue.streams()
    ]


def _rates(scope: Scope) -> list[CounterTrack]:
    """Return a track per kind of copy and device."""
    trace = scope.graph.trace
    copies = copies_of(scope.graph, scope.work)
    end = np.where(copies.end > copies.start, copies.end, copies.start + MICROSECOND)
    rate = np.where(copies.bytes >= 0, copies.bytes / (end - copies.start), 0.0)
    rate = np.where(np.isnan(copies.rate), rate, copies.rate)
    device = trace.lanes.device[copies.lane]
    tracks = []
    for process in np.unique(device).tolist():
        steps = rate_steps(copies, end, rate, device == process)
        for code in np.unique(steps.kind).tolist():
            own = steps.kind == code
            tracks.append(
                CounterTrack(copies.kinds[code], "Memcpy BW", None, process, steps.time[own], steps.rate[own])
            )
    return tracks


def output_name(path: Path, suffix: str) -> str:
    """Return the name of a trace's copy with counters.

    >>> output_name(Path("x/rank0.json.gz"), "_with_counters"), output_name(Path("rank0.json.zst"), "+")
    ('rank0_with_counters.json.gz', 'rank0+.json')
    """
    name = path.name.removesuffix(".zst")
    return name.replace(".json", f"{suffix}.json") if ".json" in name else f"{name}{suffix}.json"


def hta_generate_trace_with_counters(
    scopes: Sequence[Scope],
    time_series: TimeSeriesTypes | None = None,
    output_suffix: str = "_with_counters",
    output_dir: str | Path | None = None,
) -> list[Path]:
    """Do what HTA's ``generate_trace_with_counters`` does, and return the files written.

    The trace's own rows stay as they are and its compression is kept; HTA writes them anew, and gzip into ``.json``.

    Args:
        scopes: one a rank.
        time_series: what to draw; both if not given.
        output_suffix: stands before ``.json`` in the name.
        output_dir: where to write; beside the input, as HTA does, if not given.

    Raises:
        OutputError: a file cannot be written, is an input, or two would have one name.
    """
    paths = [scope.graph.trace.path for scope in scopes]
    targets = [Path(output_dir or path.parent) / output_name(path, output_suffix) for path in paths]
    if len(set(targets)) < len(targets):
        raise OutputError(f"{targets[0]}: two ranks would be written there; give each its own output_dir")
    for target in targets:
        check_output(target, paths)
    for scope, target in zip(scopes, targets, strict=True):
        write_counters(scope.graph.trace, counter_tracks(scope, time_series or BOTH), target)
    return targets
