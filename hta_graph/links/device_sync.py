"""device_sync: a call returns when all streams of a device have finished what they held."""

from __future__ import annotations

import numpy as np

from hta_graph.links.blocking import edges_to_return
from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.links.sync_records import SyncKind
from hta_graph.model import EdgeKind

__all__ = ["device_sync"]


def device_sync(context: LinkContext) -> EdgeTable:
    """Link the last work of each stream of the device (and context) enqueued before the call to the call's return."""
    rows = context.sync_rows(SyncKind.DEVICE_SYNC)
    lanes = context.trace.lanes
    streams = context.queues.lanes()
    same_device = lanes.device[rows.lane][:, None] == lanes.device[streams][None, :]
    contexts = lanes.context[rows.lane][:, None], lanes.context[streams][None, :]
    row, stream = np.nonzero(same_device & ((contexts[0] == contexts[1]) | (contexts[0] < 0) | (contexts[1] < 0)))
    place = context.start_position(rows.call)
    return edges_to_return(context, EdgeKind.DEVICE_SYNC, rows.call[row], streams[stream], place[row])
