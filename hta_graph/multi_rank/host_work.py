r"""Communication on the CPU: from its call to the work, and from work to work of one worker.

thread      [c10d::allreduce_]  [c10d::allreduce_]  [aten::mul]
\ hand-off              \
    worker          [=== gloo:all_reduce ===][=== gloo:all_reduce ===]      the second one queued behind the first
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import Bools, EdgeKind, Ids, Ints, Rule
from hta_graph.multi_rank.matching.rank_members import RankCommunications

__all__ = ["HostCommunications", "arrival_points", "host_communication_edges", "host_work_of"]


@dataclass(frozen=True, eq=False)
class HostCommunications(Columns):
    """What a rank did with others on its CPU: the row of the work, its call (-1: not in the file), when it arrived."""

    row: Ids
    call: Ids
    arrival: Ints
    is_message: Bools


def host_work_of(members: RankCommunications) -> HostCommunications:
    """Select what ran on the CPU of a rank's communications."""
    is_message = np.array(members.is_message, np.bool_)
    work = HostCommunications.of(row=members.row, call=members.call, arrival=members.arrival, is_message=is_message)
    return work.take(~members.on_gpu)


def host_communication_edges(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Return the edges inside one rank to, of and between the rows of its communication on the CPU (canonical rows)."""
    rows = work.row
    runs = EdgeTable.between(EdgeKind.EXECUTION, rows, rows, from_end=False, to_end=True)
    return EdgeTable.join([runs, _edges_from_calls(graph, work), _edges_along_workers(graph, work)])


def arrival_points(graph: DependencyGraph, known: HostCommunications) -> tuple[Ids, Bools]:
    """Return the event inside each call with which the rank arrived, and whether it did so with its end."""
    calls, at = graph.calls, np.zeros(len(known), np.int64)
    lanes = graph.event_table.lane[known.call]
    for lane in distinct(lanes).tolist():
        part, here = calls.lane_slice(lane), np.flatnonzero(lanes == lane)
        at[here] = part.start + np.searchsorted(calls.time[part], known.arrival[here], side="right") - 1
    return calls.event[at], calls.is_end[at]


def _edges_from_calls(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from where the rank arrived to the start of the work: of a message's row on the same thread."""
    found = []
    for is_message, kind, rule in (
        (False, EdgeKind.THREAD_HANDOFF, Rule.CALL_OF_WORKER),
        (True, EdgeKind.THREAD_ORDER, Rule.RECORDED),
    ):
        known = work.take((work.call >= 0) & (work.is_message == is_message))
        event, at_end = arrival_points(graph, known)
        found.append(EdgeTable.between(kind, event, known.row, from_end=at_end, to_end=False, rule=rule))
    return EdgeTable.join(found)


def _edges_along_workers(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from each worker's row to its next one; messages have no worker."""
    events, rows = graph.event_table, work.row[~work.is_message]
    rows = rows[np.lexsort((events.start[rows], events.lane[rows]))]
    follows = np.flatnonzero(events.lane[rows[1:]] == events.lane[rows[:-1]])
    return EdgeTable.to_events(EdgeKind.THREAD_ORDER, rows[follows], rows[follows + 1], to_end=False)
