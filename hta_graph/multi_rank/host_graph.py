"""One rank's graph in which its communication on the CPU takes part, as in that of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from hta_graph.build import drop_impossible_edges
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.multi_rank.collective_wait import collective_wait_edges
from hta_graph.multi_rank.host_work import host_communication_edges, host_work_of
from hta_graph.multi_rank.job_trace import RendezvousPoints, join_columns
from hta_graph.multi_rank.matching.rank_members import RankCommunications

__all__ = ["with_host_communications"]

NO_RENDEZVOUS = RendezvousPoints(np.empty(0, np.int64), (), np.empty(0, np.int64))
"""One rank alone meets nobody."""


def with_host_communications(graph: DependencyGraph, members: RankCommunications) -> DependencyGraph:
    """Return a rank's graph with what ran on its CPU with others on lanes of its own, and what waits for what there.

    ``members`` are the rank's communications; events keep their rows. Without any on the CPU it is the same graph.
    """
    work = host_work_of(members)
    if not len(work):
        return graph
    joined = join_columns([graph.rank or 0], [graph], [work.row], NO_RENDEZVOUS, [[]]).trace
    trace = replace(graph.trace, events=joined.events, lanes=joined.lanes, names=joined.names)
    timeline, notes = Timeline(trace), Counter[str]()
    added = EdgeTable.join([host_communication_edges(graph, work), collective_wait_edges(graph, work)])
    edges = drop_impossible_edges(added, timeline, notes, graph.edge_table)
    notes.update({key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics})
    return DependencyGraph(trace, timeline, edges, dict(notes), graph.wait_calls)
