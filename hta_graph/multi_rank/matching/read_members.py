"""What a rank did with others: on the GPU and on the CPU, in order of time."""

from __future__ import annotations

from dataclasses import replace

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.multi_rank.matching.communication_kernels import read_communication_kernels
from hta_graph.multi_rank.matching.gloo_events import read_gloo_communications
from hta_graph.multi_rank.matching.rank_members import RankCommunications, Recording

__all__ = ["read_communications"]


@memoized
def read_communications(graph: DependencyGraph) -> RankCommunications:
    """Return a rank's communications: its communication kernels, and the collectives that ran on its CPU.

    Those that go with the graph are believed.

    Raises:
        TraceError: the file, which is read once more for recorded arguments, is gone or has changed.
    """
    known = graph.attached(RankCommunications)
    if known is not None:
        return known
    both = read_communication_kernels(graph).merged_with(read_gloo_communications(graph))
    return replace(both, recording=_recording(graph))


def _recording(graph: DependencyGraph) -> Recording:
    events = graph.event_table
    return Recording(
        graph.trace.settings.get("host_name"),
        int(events.start.min()) if len(events) else 0,
        int(events.end.max(initial=0)),
        -graph.diagnostics["gpu_clock_behind_ns"],
    )
