"""Communication as recorded becomes two nodes: one in which ranks wait for each other, and one for the transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from hta_graph.chakra.simulated import COMMUNICATION
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.model import Ints

__all__ = ["split_recorded_communications"]


def split_recorded_communications(
    nodes: Nodes, transfer: Mapping[int, int], wait_counts: Mapping[int, int]
) -> tuple[Nodes, Ints]:
    """Cut communications in two where those for whom they waited had come.

        kernel      |wwwwwwwwtttt|      w: waits for others, t: transfer
        nodes       |wait    |   |      what came after the kernel waits for the second one

    Args:
        nodes: a rank's nodes.
        transfer: how long each one's transfer took (ns), by event.
        wait_counts: how many nodes, side by side, stand for each one's wait: one, or one for each message.

    Returns:
        all nodes, and for each its place among the waits of its event (-1: it is none).
    """
    rows = np.array(list(transfer), np.int32)
    cut = np.flatnonzero((nodes.slot == COMMUNICATION) & np.isin(nodes.row, rows))
    if not len(cut):
        return nodes, np.full(len(nodes), -1)
    count = np.ones(len(nodes), np.int64)
    count[cut] += [wait_counts[row] for row in nodes.row[cut].tolist()]
    # Waits stand right before their transfer, in their lane and in the order of issue.
    order = np.repeat(np.arange(len(nodes)), count)
    last = np.cumsum(count) - 1
    first = last - count + 1
    place = np.arange(len(order)) - first[order]
    is_wait = np.arange(len(order)) < last[order]
    columns: dict[str, Any] = {f.name: getattr(nodes, f.name)[order] for f in fields(nodes)[:-2]}
    transfer_begin = nodes.end.copy()
    transfer_begin[cut] -= [transfer[row] for row in nodes.row[cut].tolist()]
    columns["end"] = np.where(is_wait, transfer_begin[order], columns["end"])
    columns["start"][last[cut]] = transfer_begin[cut]
    columns["issued"] = columns["issued"] * int(count.max()) + place
    parts = Nodes(**columns, source=first[:0], target=first[:0])
    # Whatever the communication waited for, each of its waits does.
    again = np.repeat(np.arange(len(nodes.target)), np.maximum(count - 1, 1)[nodes.target])
    turn = np.arange(len(again)) - np.searchsorted(again, again)
    waits = last[nodes.source][again], first[nodes.target][again] + turn
    between = np.flatnonzero(is_wait)
    return parts.with_dependencies(waits, (between, last[order[between]])), np.where(is_wait, place, -1)
