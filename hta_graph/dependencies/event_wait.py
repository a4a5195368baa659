"""event_wait: a stream was told to wait for an event of another stream."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.inference_wait_resolution import stream_waits
from hta_graph.dependencies.inferred_waits import inferred_waits
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind

__all__ = ["event_wait"]


def event_wait(context: RuleContext) -> EdgeTable:
    """Link the work that a record captured to the next work enqueued on the waiting stream, by whatever thread.

    One activity may have many waits: all are kept. Of a graph the first row on each stream waits. Where several calls
    ask for one pair, a recorded one counts, then the first. Waits that nothing in the file says are believed where
    chance is improbable.
    """
    edges, calls = _resolved_waits_as_edges(context)
    believed, their_calls = inferred_waits(context, edges)
    context.wait_calls = WaitCalls.join([calls, their_calls])
    return EdgeTable.join([edges, believed])


def _resolved_waits_as_edges(context: RuleContext) -> tuple[EdgeTable, WaitCalls]:
    """Return the edges of the waits whose calls or records say for what, and these calls."""
    queues, waits = context.queues, stream_waits(context).waits
    captured = stream_waits(context).captured_by_waits()
    # Whatever is enqueued next has to wait, also if another thread enqueues it.
    item = queues.item_after(waits.lane, waits.place)[captured.query]
    pair, waiting = queues.heads.expand(item)
    awaited, rule = captured.activity[pair], captured.rule[pair]
    place = waits.place[captured.query[pair]]
    call = waits.call[captured.query[pair]]
    # Of one pair's calls the recorded (rule 0) and then the earliest comes first, and is kept.
    order = np.lexsort((place, rule, awaited, waiting))
    chosen = order[first_of_runs(awaited[order], waiting[order])]
    edges = EdgeTable.of_kind(EdgeKind.EVENT_WAIT, end_point(awaited), start_point(waiting), rule).take(chosen)
    return edges, WaitCalls(awaited, waiting, call).take(chosen[call[chosen] >= 0])
