"""What a rank did with others: on the GPU and on the CPU, in order of time."""

from __future__ import annotations

from hta_graph.graph import DependencyGraph
from hta_graph.graph.remembered import remembered
from hta_graph.job.matching.communication_kernels import read_communication_kernels
from hta_graph.job.matching.host_communications import read_host_communications
from hta_graph.job.matching.rank_members import RankMembers

__all__ = ["read_members"]


@remembered
def read_members(graph: DependencyGraph) -> RankMembers:
    """Return a rank's communications: its communication kernels, and the collectives that ran on its CPU.

    Raises:
        TraceError: the file, which is read once more for recorded arguments, is gone or has changed.
    """
    return read_communication_kernels(graph).beside(read_host_communications(graph))
