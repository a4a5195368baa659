"""The attributes of each communication node (type, bytes, group, tag, ends), and how long its slot is taken.

Communication as recorded becomes two nodes: one in which the ranks wait for each other, one that takes as long as the
transfer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hta_graph.chakra.astra_sim_executor import COMMUNICATION, MIN_ALL_GATHER_BYTES, NO_SLOT
from hta_graph.chakra.communications import Group, single_rank_group
from hta_graph.chakra.et_nodes import CommAttributes
from hta_graph.chakra.matched_communications import CommonSchedule, RecordedRank
from hta_graph.chakra.nodes import Nodes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints


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


MATCHED_TAG = 1 << 24
"""Communication matched by the job's matcher is numbered from here; each channel numbers its own from 0."""


STANDALONE_TAG = 1 << 30
"""Communication in which no rank waits is numbered from here."""


@dataclass(frozen=True)
class SimulatorIds:
    """How the simulator numbers groups of ranks, and ranks."""

    group: Mapping[Group, str]
    npu: Mapping[int, int]


@dataclass(frozen=True)
class RankCommAttributes:
    """A rank's nodes, what each communication does (by its place among them), and how long each node works (ns)."""

    nodes: Nodes
    by_node: dict[int, CommAttributes]
    work: Ints

    @classmethod
    def of(
        cls,
        nodes: Nodes,
        graph: DependencyGraph,
        recorded: RecordedRank,
        schedule: CommonSchedule,
        ids: SimulatorIds,
        standalone: Collection[int],
    ) -> RankCommAttributes:
        """Split recorded communication into synchronization and transfer, and describe all communication.

        The ``standalone`` events keep their duration: ASTRA-sim replays broadcasts, in which no rank waits.
        """
        rank = recorded.rank
        item_of = {item.event: (item, (rank, at)) for at, item in enumerate(recorded.known)}
        as_recorded = {event: found for event, found in item_of.items() if found[0].is_recorded}
        nodes, turn = split_recorded_communications(
            nodes,
            {event: schedule.duration[place] for event, (_, place) in as_recorded.items()},
            {event: max(len(item.peers), 1) for event, (item, _) in as_recorded.items()},
        )
        by_node = {}
        for at in np.flatnonzero(nodes.slot == COMMUNICATION).tolist():
            event = int(nodes.row[at])
            if event in standalone:
                lasted = int(nodes.end[at] - nodes.start[at])
                by_node[at] = CommAttributes(
                    "BROADCAST", 0, ids.group[single_rank_group(rank)], lasted, tag=STANDALONE_TAG + at
                )
                continue
            item, place = item_of[event]
            number, transfer = schedule.number[place], schedule.duration[place]
            group, size, name = ids.group[item.group], schedule.size[place], ""
            if item.is_recorded and turn[at] < 0:
                by_node[at] = CommAttributes("BROADCAST", 0, ids.group[single_rank_group(rank)], transfer, tag=number)
                continue
            if item.is_recorded:
                name, transfer = f"synchronization of {graph.name_of(item.event)}", 0
                item = replace(item, peer=item.peers[turn[at]]) if item.peers else item
            source, target = (ids.npu.get(one, -1) for one in item.ends(rank))
            tag = number if item.match < 0 else MATCHED_TAG + number
            size = max(size, MIN_ALL_GATHER_BYTES) if item.kind == "ALL_GATHER" else size
            by_node[at] = CommAttributes(item.kind, size, group, transfer, source, target, tag, name)
        receives = [at for at, comm in by_node.items() if comm.kind == "RECV"]
        slot = nodes.slot.copy()
        slot[receives] = NO_SLOT
        return cls(replace(nodes, slot=slot), by_node, nodes.end - nodes.start)

    def on_host(self, exclusive_ns: Mapping[int, int], sends: Collection[int]) -> RankCommAttributes:
        """Let what ran on the CPU take its slot only as long as it had it alone; a send, as in ASTRA-sim, for a moment.

        Several threads of Gloo work at once, and the event of a send lasts until its wait() returns.

        Args:
            exclusive_ns: how long each collective on the CPU was the only one (ns), by its event.
            sends: the events of messages that were sent by the CPU.
        """
        work, by_node = self.work.copy(), dict(self.by_node)
        rows = self.nodes.row.tolist()
        for at, comm in self.by_node.items():
            if rows[at] in exclusive_ns:
                # Of one that is cut in two the transfer counts first.
                left = exclusive_ns[rows[at]] - (self.by_node[at + 1].transfer if comm.name else 0)
                work[at] = min(work[at], max(left, 0))
            elif rows[at] in sends or (comm.name and comm.kind == "SEND"):
                work[at], by_node[at] = 0, replace(comm, transfer=0)
        return replace(self, by_node=by_node, work=work)
