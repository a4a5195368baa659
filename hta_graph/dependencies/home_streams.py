"""On which stream was a graph launched? The trace shows only the streams on which its rows ran."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.points import start_point
from hta_graph.model import Ids
from hta_graph.trace.profiler_names import GRAPH_LAUNCH_CALL
from hta_graph.trace.table import Trace

__all__ = ["enqueue_streams"]


def enqueue_streams(trace: Trace, timeline: Timeline, activities: Ids, call: Ids) -> Ids:
    """Return for each activity the stream on which it was enqueued: its own, or its graph's launching stream.

    A graph belongs to the stream among its own on which other work is launched too; where its rows run on streams of
    their own (as CUDA shows captured ones), to the stream of the thread's launches next to it.
    """
    stream = trace.events.lane[activities].copy()
    launches = trace.matching_names(GRAPH_LAUNCH_CALL)[trace.events.name[call]] & (call >= 0)
    if not launches.any():
        return freeze(stream)
    plain = np.flatnonzero(~launches & (call >= 0))
    # Streams on which something else than a graph was launched: a graph's own branches never are.
    is_regular = np.zeros(len(trace.lanes.labels), np.bool_)
    is_regular[stream[plain]] = True
    neighbours = _NeighbouringLaunches(trace, timeline, call[plain], stream[plain])
    of_graph = np.flatnonzero(launches)
    of_graph = of_graph[np.argsort(call[of_graph], kind="stable")]
    # One round per graph launch: few, even where graphs hold most of the work.
    for rows in np.split(of_graph, np.flatnonzero(np.diff(call[of_graph])) + 1):
        regular = stream[rows[is_regular[stream[rows]]]]
        stream[rows] = regular[0] if len(regular) else neighbours.stream(int(call[rows[0]]), int(stream[rows[0]]))
    return freeze(stream)


class _NeighbouringLaunches:
    """Plain launches, to find the ones next to a graph launch on its thread."""

    def __init__(self, trace: Trace, timeline: Timeline, call: Ids, stream: Ids) -> None:
        self._lane, self._device = trace.events.lane, trace.lanes.device
        self._timeline = timeline
        key = timeline.lane_key(start_point(call))
        order = np.argsort(key, kind="stable")
        self._call, self._stream, self._key = call[order], stream[order], key[order]
        self._used = np.bincount(stream, minlength=len(trace.lanes.labels))

    def stream(self, call: int, own: int) -> int:
        """Return the stream of the launches next to a call on its thread and device; of two the one it uses more."""
        at = int(np.searchsorted(self._key, self._timeline.lane_key(start_point(np.array([call]))))[0])
        near = [
            int(self._stream[i])
            for i in (at - 1, at)
            if 0 <= i < len(self._call) and self._lane[self._call[i]] == self._lane[call]
        ]
        near = [stream for stream in near if self._device[stream] == self._device[own]]
        return max(near, key=lambda stream: self._used[stream]) if near else own
