"""One rank's graph in which its communication on the CPU takes part, as in that of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from hta_graph.build import sound_edges
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.multi_rank.collective_wait import collective_wait
from hta_graph.multi_rank.host_work import host_work_edges, host_work_of
from hta_graph.multi_rank.job_trace import Meetings, join_columns
from hta_graph.multi_rank.matching.rank_members import RankMembers

__all__ = ["with_host_communication"]

NO_MEETINGS = Meetings(np.empty(0, np.int64), (), np.empty(0, np.int64))
"""One rank alone meets nobody."""


def with_host_communication(graph: DependencyGraph, members: RankMembers) -> DependencyGraph:
    """Return a rank's graph with what ran on its CPU with others on lanes of its own, and what waits for what there.

    ``members`` are the rank's communications; events keep their rows. Without any on the CPU it is the same graph.
    """
    work = host_work_of(members)
    if not len(work):
        return graph
    joined = join_columns([graph.rank or 0], [graph], [work.row], NO_MEETINGS, [[]]).trace
    trace = replace(graph.trace, events=joined.events, lanes=joined.lanes, names=joined.names)
    timeline, notes = Timeline(trace), Counter[str]()
    added = EdgeTable.join([host_work_edges(graph, work), collective_wait(graph, work)])
    edges = sound_edges(added, timeline, notes, graph.edge_table)
    notes.update({key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics})
    return DependencyGraph(trace, timeline, edges, dict(notes), graph.wait_calls)
