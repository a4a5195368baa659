"""One rank on its way from a graph to the nodes of an ``.et`` file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hta_graph.base.arrays import take_or
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.chakra.astra_sim_executor import COMMUNICATION, COMPUTE, CPU
from hta_graph.chakra.comm_attributes import RankCommAttributes, SimulatorIds
from hta_graph.chakra.communications import Communication, ReadDetails, gloo_communications, gpu_communications
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_nodes import CommAttributes, metadata_message, node_messages
from hta_graph.chakra.matched_communications import CommonSchedule, RecordedRank
from hta_graph.chakra.nodes import (
    Nodes,
    Pairs,
    contract_host_nodes,
    cycle_error,
    issue_order,
    nodes_from_graph,
    remove_nodes,
)
from hta_graph.chakra.replay_times import ReplayTimes, exclusive_work, overlap_ns, replay_times
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ids
from hta_graph.multi_rank.join_ranks import with_host_communications
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.profiler_names import MESSAGE_ROWS


class HostDetails(Protocol):
    """What a host trace adds to a rank."""

    def dependencies(self, nodes: Nodes) -> Pairs:
        """Return the dependencies between nodes by the tensors that one writes and another reads."""

    def describe(self, operator: int, node: Any) -> None:
        """Add inputs, outputs and attributes of an operator (canonical row, -1: none) to a node's message."""


@dataclass(frozen=True)
class RankInput:
    """A rank, its graph, what a host trace adds, and where arguments come from if not from the trace's file."""

    rank: int
    graph: DependencyGraph
    tensors: HostDetails | None = None
    details: ReadDetails = read_event_args


class RankWorkload:
    """A rank's nodes and its communications."""

    def __init__(self, rank_input: RankInput, members: RankCommunications, world: Sequence[int]) -> None:
        """Prepare a rank.

        Args:
            rank_input: its graph, and what a host trace adds.
            members: what it did with others, as the job's matcher looks at it; groups of the CPU are those that all
                ranks together show.
            world: all ranks of the job.
        """
        self.rank, self._recorded_graph, self._tensors = rank_input.rank, rank_input.graph, rank_input.tensors
        self.members = members
        self.graph = graph = rank_input.graph
        self.communications = gpu_communications(graph, world, rank_input.details)
        self.on_cpu = np.zeros(len(graph.event_table), np.bool_)
        if graph.event_flags.gloo_collective.any():
            self.graph = graph = with_host_communications(graph, self.members)
            self.communications = self.communications.merged_with(
                gloo_communications(graph, self.members, rank_input.details)
            )
            self.on_cpu = graph.lanes.is_communication[graph.event_table.lane]
        self._end = graph.event_table.end
        nodes = nodes_from_graph(graph, graph.event_flags.communicates | self.on_cpu)
        nodes = self._without_parts(nodes)
        nodes = remove_nodes(nodes, (nodes.slot == CPU) & np.isin(nodes.lane, self._gloo_worker_lanes()))
        nodes = self._messages_from_calls(nodes)
        self.nodes = nodes.with_dependencies(rank_input.tensors.dependencies(nodes)) if rank_input.tensors else nodes

    @property
    def unknown_kernels(self) -> list[tuple[int, str]]:
        """The communication kernels of which something is not known, and what."""
        return [(row, why) for row, why in self.communications.unknown if not self.on_cpu[row]]

    def _without_parts(self, nodes: Nodes) -> Nodes:
        """Let one node stand for all copies that do the work of one collective, until the last of them ends."""
        parts = self.communications.parts
        if not parts:
            return nodes
        self._end = self._end.copy()
        np.maximum.at(self._end, [*parts.values()], self._end[[*parts]])
        on_gpu = nodes.slot != CPU
        nodes = replace(nodes, end=np.where(on_gpu, self._end[nodes.row], nodes.end))
        return remove_nodes(nodes, on_gpu & np.isin(nodes.row, [*parts]))

    def _gloo_worker_lanes(self) -> Ids:
        """Return the threads whose work is the communication itself: Gloo's workers, not who sends and receives."""
        rows = np.flatnonzero(self.on_cpu & ~self._is_message)
        lanes: Ids = self._recorded_graph.event_table.lane[rows]
        return lanes

    @property
    def _is_message(self) -> Bools:
        codes = [code for code, name in enumerate(self.graph.names) if name in MESSAGE_ROWS]
        return self.on_cpu & np.isin(self.graph.event_table.name, codes)

    def _messages_from_calls(self, nodes: Nodes) -> Nodes:
        """Let messages of the CPU begin with their calls, in which their rows begin late."""
        messages = np.flatnonzero((nodes.slot == COMMUNICATION) & take_or(self._is_message, nodes.row, otherwise=False))
        if not len(messages):
            return nodes
        arrival = dict(zip(self.members.row.tolist(), self.members.arrival.tolist(), strict=True))
        start = nodes.start.copy()
        start[messages] = [arrival[row] for row in nodes.row[messages].tolist()]
        return replace(nodes, start=start)

    @property
    def begin(self) -> int:
        """When the recording began (ns)."""
        return int(self.nodes.start.min(initial=np.iinfo(np.int64).max))

    def recorded(self, known: Sequence[Communication]) -> RecordedRank:
        """Return some of the rank's communications, in the order in which they were launched, with their times."""
        events = self.graph.event_table
        rows = np.array([item.event for item in known], np.int64)
        calls = self.graph.launching_call[rows]
        launched = np.where(calls >= 0, events.start[calls], events.start[rows])
        order = np.lexsort((events.start[rows], launched))
        rows, known = rows[order], [known[at] for at in order.tolist()]
        return RecordedRank(self.rank, self.begin, known, events.start[rows], self._end[rows])

    def scheduled(
        self,
        recorded: RecordedRank,
        schedule: CommonSchedule,
        options: ConvertOptions,
        ids: SimulatorIds,
        standalone: Collection[int] = (),
    ) -> ScheduledRank:
        """Put the collectives in order, and find out how long each node takes.

        What some ranks did not record waits for no rank and keeps its duration, like the ``standalone`` events.

        Raises:
            CollectiveError: the common order contradicts what this rank waited for.
            CycleError: nodes wait for each other without it.
        """
        cut = {recorded.known[at].event for at in schedule.cut[self.rank]}
        standalone = {event for event in {*cut, *standalone} if not self.on_cpu[event]}
        matched = {item.event for item in recorded.known} - cut
        ordered = self._in_common_order(
            [recorded.known[at].event for at in schedule.order[self.rank]], matched | standalone
        )
        if options.profile == "gpu":
            ordered = contract_host_nodes(ordered)
        attributes = RankCommAttributes.of(ordered, self.graph, recorded, schedule, ids, standalone)
        if self.on_cpu.any():
            ours = [(item, (self.rank, at)) for at, item in enumerate(recorded.known) if item.on_cpu]
            exclusive_ns = {
                item.event: schedule.exclusive_ns[place] for item, place in ours if place in schedule.exclusive_ns
            }
            attributes = attributes.on_host(
                exclusive_ns, {i.event for i, _ in ours if i.kind == "SEND" and not i.is_recorded}
            )
        nodes, work = attributes.nodes, attributes.work
        if options.overlap == "share":
            work = np.minimum(work, exclusive_work(nodes))
        origin = schedule.clock[self.rank]
        # A thread that at last waits for others on the CPU has no node of its own for that; the recording went on.
        end = int((self.nodes if options.profile == "full" else nodes).end.max(initial=origin))
        return ScheduledRank(self, nodes, replay_times(nodes, work, origin, end), attributes.by_node, origin, end)

    def _in_common_order(self, collectives: Sequence[int], communicating: Collection[int]) -> Nodes:
        """Let collectives follow each other in the common order, whatever their streams (events, canonical rows).

        Of what was taken for communication only the ``communicating`` events communicate: other work of the GPU
        computes (groups of one rank, unknown kinds), and what ran on the CPU stays time of the thread that waited for
        it.
        """
        others = ~np.isin(self.nodes.row, np.array([*communicating], np.int64))
        others &= self.nodes.slot == COMMUNICATION
        on_cpu = others & take_or(self.on_cpu, self.nodes.row, otherwise=False)
        slot = np.where(others & ~on_cpu, COMPUTE, self.nodes.slot).astype(np.int8)
        nodes = replace(self.nodes, slot=slot)
        places = np.flatnonzero(slot == COMMUNICATION)
        node = dict(zip(nodes.row[places].tolist(), places.tolist(), strict=True))
        chain = np.array([node[event] for event in collectives], np.int64)
        chained = nodes.with_dependencies((chain[:-1], chain[1:]))
        if len(issue_order(chained)) < len(chained):
            raise cycle_error(self.graph, nodes, chained)
        return remove_nodes(chained, on_cpu)

    def describe(self, operator: int, node: Any) -> None:
        """Add what a host trace says about an operator."""
        if self._tensors:
            self._tensors.describe(operator, node)


@dataclass(frozen=True)
class ScheduledRank:
    """All that a rank's file holds; from ``origin`` to ``end`` the simulation lasts (ns, the rank's clock)."""

    work: RankWorkload
    nodes: Nodes
    times: ReplayTimes
    attributes: dict[int, CommAttributes]
    origin: int
    end: int

    @property
    def measured_ns(self) -> int:
        """How long the recording took from the beginning of the simulation to the end of the last node."""
        return self.end - self.origin

    def delay_ns(self, slot: int) -> int:
        """How long a slot idles for no known reason, or for the host where its operators are left out."""
        of_slot = self.nodes.slot == slot
        if slot == COMPUTE:
            of_slot = self.nodes.slot != CPU
        host = of_slot & (self.nodes.row < 0)
        return 1000 * int(self.times.delay[of_slot].sum() + self.times.work[host].sum())

    @property
    def overlaps(self) -> dict[str, int]:
        """How much longer the nodes of CPU, GPU and communication took than the time in which any ran (ns)."""
        slots = {"CPU": CPU, "GPU": COMPUTE, "communication": COMMUNICATION}
        # What Gloo's workers did at once has been shared out.
        nodes = self.nodes.select(~take_or(self.work.on_cpu, self.nodes.row, otherwise=False))
        return {name: overlap_ns(nodes, slot) for name, slot in slots.items()}

    def messages(self, **more: str | int) -> Iterator[bytes]:
        """Yield the file's messages; ``more`` goes into its metadata."""
        graph = self.work.graph
        known: dict[str, str | int] = {"trace": encodable_path(Path(graph.path.name)), "rank": self.work.rank}
        yield metadata_message(**known, origin_nanos=self.origin, measured_nanos=self.measured_ns, **more)
        yield from node_messages(graph, self.nodes, self.times, self.attributes, self.work.describe)
