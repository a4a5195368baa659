"""event_wait: a stream was told to wait for an event of another stream."""

from __future__ import annotations

from dataclasses import dataclass

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.links.wait_resolution import stream_waits
from hta_graph.model import Codes, EdgeKind, Ids
from hta_graph.timeline import end_point, start_point

__all__ = ["HeldBack", "event_wait", "held_back"]


@dataclass(frozen=True)
class HeldBack:
    """``call`` let the point ``target`` wait for the point ``source``, by ``rule``; a pair may have several calls."""

    source: Ids
    target: Ids
    call: Ids
    rule: Codes


def event_wait(context: LinkContext) -> EdgeTable:
    """Link the work that a record captured to the next work enqueued on the waiting stream, by whatever thread.

    One activity may have many waits: all are kept. Of a graph the first row on each stream waits.
    """
    waits = held_back(context)
    return EdgeTable.distinct(EdgeKind.EVENT_WAIT, waits.source, waits.target, waits.rule)


def held_back(context: LinkContext) -> HeldBack:
    """Find the work that each wait held back, what for, and the CPU call that asked for it."""
    queues, waits = context.queues, stream_waits(context).waits
    captured = stream_waits(context).captured_by_waits()
    item = queues.item_after(waits.lane, waits.place)[captured.query]
    pair, head = queues.heads.expand(item)
    call = context.timeline.order[waits.place[captured.query[pair]]] >> 1
    return HeldBack(end_point(captured.activity[pair]), start_point(head), call, captured.rule[pair])
