r"""One rank of a job alone, in the job's time: what it did with others it did with instants whose times are known.

rank     ...──[all-reduce ~~~~~~|====]──...
                                ↑
others             elsewhere ───┘       when the last one came, or the other side of a message: an instant without lane
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, pair_key
from hta_graph.build import drop_impossible_edges
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.edges import EdgeTable, EventEdges
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.job_graph import Clocks, JobGraph, Members
from hta_graph.model import Bools, Codes, EdgeKind, Ids, Ints
from hta_graph.multi_rank.collective_wait import collective_wait_edges
from hta_graph.multi_rank.host_work import host_communication_edges, host_work_of
from hta_graph.multi_rank.job_trace import RendezvousPoints, join_columns
from hta_graph.multi_rank.join_ranks import describe_members
from hta_graph.multi_rank.matching.rank_members import RankCommunications

__all__ = ["ExternalEdges", "isolated_rank_job", "single_rank_job"]


@dataclass(frozen=True, eq=False)
class ExternalEdges(Columns):
    """Edges from other ranks: from which instant (a place among given times) to which row's end, and how it is known.

    ``is_message``: it is of a message, else of a collective. ``is_doubtful``: it tells of a wait below the clocks'
    error.
    """

    instant: Ids
    row: Ids
    is_message: Bools
    rule: Codes
    is_doubtful: Bools


def single_rank_job(
    graph: DependencyGraph,
    members: RankCommunications,
    number: Ints,
    times: Ints,
    names: Sequence[str],
    edges: ExternalEdges,
) -> JobGraph:
    """Return a rank as a job of its own; instants of other ranks stand behind its rows, in their order.

    Args:
        graph: the rank's, in the job's time.
        members: what it did with others, in the same time.
        number: with which collective of the job each member was matched (-1: none).
        times: when (ns) what comes from elsewhere was.
        names: what it is called.
        edges: what it led to.
    """
    work = host_work_of(members)
    (descriptions,) = describe_members([members])
    instants = RendezvousPoints(np.arange(len(times)), names, times)
    joined = join_columns([graph.rank or 0], [graph], [work.row], instants, [descriptions])
    timeline, notes = Timeline(joined.trace), Counter[str]()
    given = _edges_from_instants(edges, joined.first_rendezvous)
    added = EdgeTable.join([host_communication_edges(graph, work), collective_wait_edges(graph, work), *given])
    table = drop_impossible_edges(added, timeline, notes, joined.edges)
    between = np.flatnonzero(np.isin(table.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)))
    known = EventEdges.of_rows(table, between, timeline.times)
    doubtful = edges.take(edges.is_doubtful)
    is_doubtful = np.isin(
        pair_key(known.source, known.target), pair_key(doubtful.instant + joined.first_rendezvous, doubtful.row)
    )
    notes.update({key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics})
    return JobGraph(
        joined.trace,
        timeline,
        table,
        joined.parts,
        (graph,),
        _members_of_rank(members, number, joined.descriptions[0]),
        _exact_clock(graph.rank or 0),
        doubtful=between[is_doubtful],
        notes=dict(notes),
        wait_calls=joined.wait_calls,
    )


def _edges_from_instants(edges: ExternalEdges, first: int) -> Iterator[EdgeTable]:
    for kind, own in (
        (EdgeKind.COLLECTIVE, edges.take(~edges.is_message)),
        (EdgeKind.POINT_TO_POINT, edges.take(edges.is_message)),
    ):
        yield EdgeTable.between(kind, own.instant + first, own.row, from_end=False, to_end=True, rule=own.rule)


def isolated_rank_job(graph: DependencyGraph, local: DependencyGraph, members: RankCommunications) -> JobGraph:
    """Return a rank as a job in which it met nobody, with the columns that it has already.

    Args:
        graph: the rank's, in the job's time.
        local: the same with its communication on the CPU (:func:`with_host_communications`).
        members: what it did with others, in the same time.
    """
    rank = graph.rank or 0
    return JobGraph(
        local.trace, local.timeline, local.edge_table, [RankGraph(0, rank, graph, 0, 0)], [graph],
        _members_of_rank(members, -1, -1), _exact_clock(rank), doubtful=np.empty(0, np.int64), notes={},
        wait_calls=local.wait_calls,
    )  # fmt: skip


def _exact_clock(rank: int) -> Clocks:
    return Clocks.of(rank=[rank], offset=0, gpu_offset=0, drift_ppm=0.0, error=0, collectives=0)


def _members_of_rank(members: RankCommunications, number: Ints | int, description: Ids | int) -> Members:
    """Lay out what a rank did with others; how long it waited is told by the job."""
    return Members.of(
        number=number, part=0, row=members.row, call=members.call, arrival=members.arrival, wait=0,
        transfer=members.end - members.arrival, is_last=False, is_needed=False,
        is_message=np.array(members.is_message, np.bool_), by=-1, said=description,
    )  # fmt: skip
