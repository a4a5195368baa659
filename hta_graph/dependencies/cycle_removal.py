"""Which edges to drop so that none is on a cycle."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import cycle_among, edges_in_question
from hta_graph.model import WITHIN_A_LANE, Ints


def edges_that_close_cycles(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return the edges to drop so that none is on a cycle: inferred ones first, then clamped ones, then the others.

    Edges that go forward in the global order of points cannot close a cycle alone. A cycle goes back by edges against
    that order only, so it lies within the stretches that those span.
    """
    chosen = edges_in_question(edges, timeline.position)
    dropped: list[int] = []
    # One edge at a time: dropping it may break several cycles, and no more is dropped than must be.
    while len(cycle := cycle_among(edges, chosen)):
        worst = _weakest_edge(edges, timeline, cycle)
        dropped.append(worst)
        chosen = chosen[chosen != worst]
    return np.array(dropped, np.int64)


def _weakest_edge(edges: EdgeTable, timeline: Timeline, cycle: Ints) -> int:
    """Choose what to drop: an inferred edge before a clamped one, the order of a thread or an activity never."""
    droppable = cycle[~np.isin(edges.kind[cycle], WITHIN_A_LANE)]
    against = timeline.position[edges.source[droppable]] >= timeline.position[edges.target[droppable]]
    clamped = edges.clamped(timeline.times)[droppable]
    rank = np.lexsort(
        (edges.target[droppable], edges.source[droppable], ~against, ~clamped, ~edges.inferred[droppable])
    )
    return int(droppable[rank[0]])
