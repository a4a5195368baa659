"""When the communications of each rank waited for other ranks, in the rank's own time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.read_members import read_communications

__all__ = ["RankWaits", "waits_by_rank", "waits_of_rank"]


@dataclass(frozen=True, eq=False)
class RankWaits(Columns):
    """Matched communications of a rank: canonical row, and from when to when it waited (ns; nobody: both the same)."""

    row: Ids
    start: Ints
    end: Ints


def waits_by_rank(graphs: Mapping[int, DependencyGraph]) -> dict[int, RankWaits]:
    """Match the communications of ranks and return when each waited for another; nothing for a single rank.

    Of ranks of a larger job whose waits go with their graphs it is these.

    Raises:
        TraceError: a file, which is read once more for recorded arguments, is gone or has changed.
    """
    if len(graphs) < 2:
        return {}
    known = {rank: waits for rank, graph in graphs.items() if (waits := graph.attached(RankWaits)) is not None}
    if known.keys() == graphs.keys():
        return known
    found = match_collectives({rank: read_communications(graph) for rank, graph in graphs.items()})
    return {rank: waits_of_rank(graph, rank, found) for rank, graph in graphs.items()}


def waits_of_rank(graph: DependencyGraph, rank: int, found: Collectives) -> RankWaits:
    """Return when a rank waited, given what the ranks did together."""
    own, mine = read_communications(graph), found.of_rank(rank)
    place, wait = found.place[mine], found.wait[mine]
    # A rank's own arrival: what others did was compared in another time.
    start = own.arrival[place]
    order = np.argsort(own.row[place], kind="stable")
    return RankWaits.of(row=own.row[place], start=start, end=start + wait).take(order)
