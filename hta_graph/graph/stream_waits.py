"""How long streams waited for work of other streams."""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import find_sorted
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EventEdges
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind, Ints, edge_kinds

WAITS_FOR_STREAMS = edge_kinds(lambda meaning: meaning.exported == "gpu")
"""Edges to an activity from work of another stream that it waited for."""


def stream_waits(graph: DependencyGraph, edges: EventEdges) -> Ints:
    """Return how long (ns) the target of each edge waited for its source; -1 where only such waits lead to it.

    The wait lasts from when the stream could otherwise have run the target to the end of the source, and no longer than
    to the target's start. The stream could have run it when its earlier work had ended and the call that launched the
    target had returned. Other waits for streams do not count, so that waits for several events overlap.

        waiting stream    [earlier work]                 [target]
        launching thread          [launch]
        other stream      [====== source ==========]
        waited                            |--------|
    """
    table = graph.edge_table
    own = np.where(edges.to_end, end_point(edges.target), start_point(edges.target))
    targets = np.unique(own)
    place = find_sorted(table.target, targets)
    rows = np.flatnonzero((place >= 0) & ~np.isin(table.kind, WAITS_FOR_STREAMS))
    others = graph.edges_at(rows)
    possible = np.where(others.kind == EdgeKind.LAUNCH, graph.event_table.end[others.source], others.source_ns)
    ready = np.full(len(targets), np.iinfo(np.int64).min)
    np.maximum.at(ready, place[rows], np.minimum(possible, others.target_ns))
    since, until = ready[find_sorted(own, targets)], np.minimum(edges.source_ns, edges.target_ns)
    known = since > np.iinfo(np.int64).min
    waited: Ints = np.where(known, np.maximum(until - np.where(known, since, until), 0), -1)
    return waited
