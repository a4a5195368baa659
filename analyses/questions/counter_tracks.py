"""counters: a trace with queue lengths and copy bandwidth as counter tracks, for ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from analyses.declare.description import COUNTER_SERIES
from analyses.declare.scope import Scope
from hta_graph.base.storage.location import Location
from hta_graph.export.perfetto.append_events import CounterTrack
from hta_graph.paths.gpu_activity import copies_of, queue_steps, rate_steps

QUEUES, RATES = COUNTER_SERIES


def counter_tracks(scope: Scope, series: Collection[str] = COUNTER_SERIES) -> list[CounterTrack]:
    """Return the counter tracks of a window: queue length per stream, bandwidth per kind of copy, or both.

    They are named as HTA names them. ``Queue Length`` has the stream as its id (as text: HTA's numbers make one track
    of all streams in Perfetto); a kind of copy is a track of its own with the argument ``Memcpy BW`` (GB/s). Copies of
    length 0 count as 1 µs, so that they show. Bandwidths stand with the file's copies, queues are in host time: they
    grow by the host's clock and shrink by the GPU's.

    Args:
        scope: where to look.
        series: which of :data:`~analyses.declare.description.COUNTER_SERIES`.
    """
    tracks = _queue_tracks(scope) if QUEUES in series else []
    return tracks + _rate_tracks(scope) if RATES in series else tracks


def _queue_tracks(scope: Scope) -> list[CounterTrack]:
    """Return a track per stream."""
    graph = scope.graph
    queue, device, stream = queue_steps(graph.event_table, scope.work), graph.lanes.device, graph.lanes.stream
    return [
        CounterTrack(
            "Queue Length", "Queue Length", int(stream[lane]), int(device[lane]), queue.time[part], queue.length[part]
        )
        for lane, part in queue.streams()
    ]


def _rate_tracks(scope: Scope) -> list[CounterTrack]:
    """Return a track per kind of copy and device."""
    graph = scope.graph
    copies = copies_of(scope.graph, scope.work).in_file_time(graph.trace)
    end = copies.drawn_end
    rate = np.where(copies.bytes >= 0, copies.bytes / (end - copies.start), 0.0)
    rate = np.where(np.isnan(copies.rate), rate, copies.rate)
    device = graph.lanes.device[copies.lane]
    tracks = []
    for process in np.unique(device).tolist():
        steps = rate_steps(copies, end, rate, device == process)
        for code in np.unique(steps.kind).tolist():
            own = steps.kind == code
            tracks.append(
                CounterTrack(copies.kinds[code], "Memcpy BW", None, process, steps.time[own], steps.rate[own])
            )
    return tracks


def output_name(path: Location, suffix: str) -> str:
    """Return the name of a trace's copy with counters.

    >>> from pathlib import Path
    >>> output_name(Path("x/rank0.json.gz"), "_with_counters"), output_name(Path("rank0.json.zst"), "+")
    ('rank0_with_counters.json.gz', 'rank0+.json')
    """
    name = path.name.removesuffix(".zst")
    return name.replace(".json", f"{suffix}.json") if ".json" in name else f"{name}{suffix}.json"
