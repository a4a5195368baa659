"""What a rank did with others: on the GPU and on the CPU, in order of time."""

from __future__ import annotations

from dataclasses import replace

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import remembered
from hta_graph.multi_rank.matching.communication_kernels import read_communication_kernels
from hta_graph.multi_rank.matching.gloo_events import read_host_communications
from hta_graph.multi_rank.matching.rank_members import RankMembers, Recording

__all__ = ["read_members"]


@remembered
def read_members(graph: DependencyGraph) -> RankMembers:
    """Return a rank's communications: its communication kernels, and the collectives that ran on its CPU.

    Those that go with the graph are believed.

    Raises:
        TraceError: the file, which is read once more for recorded arguments, is gone or has changed.
    """
    known = graph.attached(RankMembers)
    if known is not None:
        return known
    both = read_communication_kernels(graph).merged_with(read_host_communications(graph))
    return replace(both, recording=_recording_of(graph))


def _recording_of(graph: DependencyGraph) -> Recording:
    events = graph.event_table
    return Recording(
        graph.trace.settings.get("host_name"),
        int(events.start.min()) if len(events) else 0,
        int(events.end.max(initial=0)),
        -graph.diagnostics["gpu_clock_behind_ns"],
    )
