"""End of a collective's or message's work on the CPU → the calling thread goes on.

thread    [c10d::allreduce_]  [aten::mul]       (wait: no row)         [aten::add]
worker         [== gloo:all_reduce ============================]──────▶
"""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import Bools, EdgeKind, Ids, Rule
from hta_graph.multi_rank.host_work import HostCommunications
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL

__all__ = ["collective_wait_edges"]

MIN_STALL_NS = 5_000
"""Between the rows of a thread that works lie up to a few µs; of 1,947 waits with stamped calls none was shorter."""

MIN_WAKE_UP_NS = 2_000
"""A thread that sleeps takes some µs to go on, of 4,600 recorded waits the quickest 4: later ends are no cause."""


def collective_wait_edges(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from the end of work to the next point of the thread that called for it, if that stood still until then.

    ``wait()`` leaves no row. That a thread waited is inferred: the work ended while the thread had stood between two
    rows, in no ``aten::`` operator, for more than a moment; it goes on with the next one, however much later that is.
    """
    known = work.take(work.call >= 0)
    calls, events = graph.calls, graph.event_table
    ends, lanes = events.end[known.row], events.lane[known.call]
    goes_on = np.full(len(known), -1, np.int64)
    for lane in distinct(lanes).tolist():
        part, here = calls.lane_slice(lane), np.flatnonzero(lanes == lane)
        after = np.searchsorted(calls.time[part], ends[here], side="left")
        inside = (after > 0) & (after < part.stop - part.start)
        goes_on[here[inside]] = part.start + after[inside]
    found = np.flatnonzero(goes_on >= 0)
    at = goes_on[found]
    stood, awakening = ends[found] - calls.time[at - 1], calls.time[at] - ends[found]
    # A message's row ends where ``wait()`` returns: that needs no proof.
    is_moment = ((stood < MIN_STALL_NS) | (awakening < MIN_WAKE_UP_NS)) & ~known.is_message[found]
    found = found[_is_stalled(graph, calls.owner[at - 1]) & ~is_moment]
    at = goes_on[found]
    return EdgeTable.between(
        EdgeKind.COLLECTIVE_WAIT, known.row[found], calls.event[at], from_end=True, to_end=calls.is_end[at],
        rule=Rule.SILENCE_UNTIL_WORK_END,
    )  # fmt: skip


def _is_stalled(graph: DependencyGraph, around: Ids) -> Bools:
    """Mark gaps in which a thread may wait: in no row, or in one that is no ``aten::`` operator and no call."""
    works = np.array([name.startswith("aten::") or name in PROCESS_GROUP_CALL for name in graph.names] or [False])
    busy: Bools = take_or(works, take_or(graph.event_table.name, around), otherwise=False)
    return ~busy
