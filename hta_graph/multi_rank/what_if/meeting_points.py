"""Where the ranks of a job meet, as each of them is told: what comes from elsewhere, and what others wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, take_or
from hta_graph.graph.edges import EventEdges
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import summary_rows
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints
from hta_graph.multi_rank.rank_of_job import ExternalEdges

__all__ = ["Arrivals", "IncomingTimes", "JobBoundary", "RankBoundary", "job_boundary"]


@dataclass(frozen=True, eq=False)
class Arrivals(Columns):
    """Who came to a rendezvous: the place of the rank, and which of its asked points that was.

    Of one rendezvous that which it was, as recorded, stands first.
    """

    rendezvous: Ids
    part: Ids
    asked: Ids


@dataclass(frozen=True, eq=False)
class IncomingTimes(Columns):
    """What comes to one rank from elsewhere, when (ns): a ``rendezvous``, or (-1) an asked point of another rank."""

    rendezvous: Ids
    part: Ids
    asked: Ids
    time: Ints


@dataclass(frozen=True)
class RankBoundary:
    """What one rank is told: the edges from elsewhere, and the rows of its whole graph that are asked about.

    ``names`` are those of the instants from which the edges come.
    """

    edges: ExternalEdges
    names: list[str]
    awaited_rows: Ids
    at_end: Bools


@dataclass(frozen=True)
class JobBoundary:
    """Where ranks meet; ``rendezvous`` are rows of the job, ``instants`` and ``ranks`` are by place of the rank."""

    rendezvous: Ids
    comes: Arrivals
    instants: list[IncomingTimes]
    ranks: list[RankBoundary]


def job_boundary(job: JobGraph) -> JobBoundary:
    """Find where the ranks of a job meet, which may hold few rows of each."""
    kind = job.edge_table.kind
    rows = np.flatnonzero(np.isin(kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)))
    edges = EventEdges.of_rows(job.edge_table, rows, job.timeline.times)
    meets = job.event_table.kind == EventKind.RENDEZVOUS
    from_rank = np.flatnonzero(~meets[edges.source])
    asked = _AwaitedPoints(job, edges.take(from_rank))
    place = np.full(len(rows), -1, np.int64)
    place[from_rank] = asked.place
    return JobBoundary(
        job.rendezvous_rows,
        _arrivals(job, edges, meets, place),
        *_rank_boundaries(job, edges, meets, place, asked),
    )


class _AwaitedPoints:
    """The points of ranks from which edges lead to others, each once, numbered rank by rank."""

    def __init__(self, job: JobGraph, edges: EventEdges) -> None:
        part = job.rank_index_of(edges.source).astype(np.int64)
        key = (part << 40) + (edges.source.astype(np.int64) << 1) + edges.from_end
        known, at = np.unique(key, return_inverse=True)
        self.part = (known >> 40).astype(np.int32)
        self.row = ((known & ((1 << 40) - 1)) >> 1).astype(np.int32)
        self.at_end = (known & 1).astype(np.bool_)
        first = np.searchsorted(self.part, np.arange(len(job.parts) + 1))
        self.of_rank = [slice(*bounds) for bounds in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)]
        self.place = at.reshape(-1) - first[self.part[at.reshape(-1)]]
        """For each edge the place of its source among the points of its rank."""


def _arrivals(job: JobGraph, edges: EventEdges, meets: Bools, place: Ints) -> Arrivals:
    """List who came to each rendezvous."""
    at = np.flatnonzero(meets[edges.target])
    number = np.searchsorted(job.rendezvous_rows, edges.target[at])
    # Who came last binds it; of others that would come as late the one that came later is preferred.
    position = job.timeline.position[2 * edges.source[at] + edges.from_end[at]]
    order = np.lexsort((-position, number))
    at = at[order]
    return Arrivals.of(rendezvous=number[order], part=job.rank_index_of(edges.source[at]), asked=place[at])


def _rank_boundaries(
    job: JobGraph, edges: EventEdges, meets: Bools, place: Ints, asked: _AwaitedPoints
) -> tuple[list[IncomingTimes], list[RankBoundary]]:
    """Tell each rank what comes to it, and what of it is asked."""
    doubtful = np.zeros(len(job.edge_table), np.bool_)
    doubtful[job.doubtful_edges] = True
    goes = np.flatnonzero(~meets[edges.target])
    part = job.rank_index_of(edges.target[goes])
    order = np.argsort(part, kind="stable")
    first = np.searchsorted(part[order], np.arange(len(job.parts) + 1))
    instants, ranks = [], []
    for own, begins, past in zip(job.parts, first[:-1].tolist(), first[1:].tolist(), strict=True):
        kept = summary_rows(own.graph)
        at = goes[order[begins:past]]
        is_message = ~meets[edges.source[at]]
        # What comes from one point several times, a message and its answer, is one instant.
        key = np.stack([np.where(is_message, place[at], -1), edges.source[at]])
        _, chosen, number = np.unique(key, axis=1, return_index=True, return_inverse=True)
        told = at[chosen]
        instants.append(
            IncomingTimes.of(
                rendezvous=np.where(is_message[chosen], -1, np.searchsorted(job.rendezvous_rows, edges.source[told])),
                part=job.rank_index_of(edges.source[told]),
                asked=place[told],
                time=edges.source_ns[told],
            )
        )
        given = ExternalEdges.of(
            instant=number.reshape(-1), row=kept[own.of_rank(edges.target[at])], is_message=is_message,
            rule=job.edge_table.rule[edges.row[at]], is_doubtful=doubtful[edges.row[at]],
        )  # fmt: skip
        mine = asked.of_rank[own.place]
        rows = take_or(kept, own.of_rank(asked.row[mine]))
        names = [job.name_of(row) for row in edges.source[told].tolist()]
        ranks.append(RankBoundary(given, names, rows.astype(np.int32), asked.at_end[mine]))
    return instants, ranks
