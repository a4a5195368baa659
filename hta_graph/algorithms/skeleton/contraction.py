r"""A rank's binding edges between few of its points: what lies between is passed over, the walk back is the same.

points    a ── b ── c ── d ── e        a, c and e are kept
kept      a ─────── c ─────── e        each has one edge, from where the walk back comes by next
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.stretches import binding_edges
from hta_graph.columns import freeze, picked
from hta_graph.graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import Bools, EdgeKind, Ids, Ints, Rule

__all__ = ["Contraction", "contracted"]

NO_DIP = 0


@dataclass(frozen=True)
class Contraction:
    """The edges that bind kept points, in points of the rows that are kept, and what is passed over on their way.

    ``dip`` is, for each kept point, by how much (ns) the way to it was stamped before where it comes from: clocks that
    go wrong in between hide there. It is 0 nearly everywhere.
    """

    edges: EdgeTable
    dip: Ints


def contracted(graph: DependencyGraph, rows: Ids) -> Contraction:
    """Keep some rows of a graph and contract what binds their points; edges between kept points stay as they are."""
    kept = np.zeros(len(graph.timeline.times), np.bool_)
    kept[start_point(rows)] = kept[end_point(rows)] = True
    number = np.cumsum(kept) - 1
    points = np.flatnonzero(kept)
    binding = binding_edges(graph)
    before = picked(graph.edge_table.source, binding)
    source, lowest = _next_kept(graph, kept, before, points)
    bound = np.flatnonzero(source >= 0)
    is_direct = source[bound] == before[points[bound]]
    edge = binding[points[bound]]
    edges = EdgeTable(
        freeze(number[source[bound]].astype(np.int32)),
        freeze(number[points[bound]].astype(np.int32)),
        freeze(np.where(is_direct, graph.edge_table.kind[edge], EdgeKind.THREAD_ORDER).astype(np.int8)),
        freeze(np.where(is_direct, graph.edge_table.rule[edge], Rule.RECORDED).astype(np.int8)),
    )
    dip = np.full(len(points), NO_DIP, np.int64)
    dip[bound] = np.maximum(graph.timeline.times[source[bound]] - lowest[bound], NO_DIP)
    return Contraction(edges, freeze(dip))


def _next_kept(graph: DependencyGraph, kept: Bools, before: Ids, points: Ints) -> tuple[Ids, Ints]:
    """Return for each kept point the next one on the walk back (-1: none), and the earliest time on the way there."""
    times = graph.timeline.times
    far = np.int64(np.iinfo(np.int64).max)
    # Every point leads as far as is known: a kept one to itself, and twice as far in each round.
    leads = np.where(kept, np.arange(len(kept)), before).astype(np.int32)
    lowest = np.where(kept, far, times)
    while True:
        further = picked(leads, leads)
        if (further == leads).all():
            break
        lowest = np.minimum(lowest, np.where(leads >= 0, lowest[leads], far))
        leads = further
    first = before[points]
    return picked(leads, first), np.where(first >= 0, lowest[first], far)
