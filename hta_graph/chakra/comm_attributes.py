"""What each communication of a rank is for the simulator, and how long its slot is taken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.chakra.channels import Group, single_rank_group
from hta_graph.chakra.et_nodes import CommAttributes
from hta_graph.chakra.matched_communications import CommonSchedule, RecordedRank
from hta_graph.chakra.meeting_nodes import split_recorded_communications
from hta_graph.chakra.simulated import COMMUNICATION, MIN_ALL_GATHER_BYTES, NO_SLOT
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints

__all__ = ["RankCommAttributes", "SimulatorIds"]

MATCHED_TAG = 1 << 24
"""From here on what the job's matcher brought together is numbered; each channel numbers its own from 0."""


STANDALONE_TAG = 1 << 30
"""From here on what waits for nobody is numbered."""


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
        """Cut what is as recorded into meetings and transfers, and describe all communication.

        The ``standalone`` events take as long as they did: ASTRA-sim replays broadcasts, in which nobody waits.
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
                name, transfer = f"meeting of {graph.name_of(item.event)}", 0
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

        Several threads of Gloo work at once, and the row of a send goes on until somebody asks whether it arrived.

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
