"""One rank on its way from a graph to the nodes of an ``.et`` file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hta_graph.export.chakra.simulator.simulated import COMMUNICATION, COMPUTE, CPU
from hta_graph.export.chakra.workload.channels import Group
from hta_graph.export.chakra.workload.collective_order import Agreement, RecordedRank
from hta_graph.export.chakra.workload.communications import (
    KnownCommunication,
    ReadDetails,
    communications,
)
from hta_graph.export.chakra.workload.convert_options import ConvertOptions
from hta_graph.export.chakra.workload.et_nodes import Exchange, metadata, node_messages
from hta_graph.export.chakra.workload.host_lane import with_host_lane
from hta_graph.export.chakra.workload.issue_order import issue_order
from hta_graph.export.chakra.workload.nodes import Nodes, Pairs, nodes_of
from hta_graph.export.chakra.workload.order_error import order_error
from hta_graph.export.chakra.workload.pruning import without
from hta_graph.export.chakra.workload.replay_times import ReplayTimes, replay_times
from hta_graph.export.chakra.workload.shared_time import overlap_ns, shared_out
from hta_graph.export.files import printable
from hta_graph.graph import DependencyGraph
from hta_graph.trace.details import read_details

__all__ = ["FinishedRank", "RankInput", "RankWork", "Tensors"]


class Tensors(Protocol):
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
    tensors: Tensors | None = None
    details: ReadDetails = read_details


class RankWork:
    """A rank's nodes and its communications."""

    def __init__(self, given: RankInput, world: Sequence[int]) -> None:
        self.rank, self.graph, self._tensors = given.rank, given.graph, given.tensors
        self.found = communications(given.graph, world, given.details)
        nodes = nodes_of(given.graph, given.graph.marks.communicates)
        self.nodes = nodes.depending(given.tensors.dependencies(nodes)) if given.tensors else nodes

    @property
    def begin(self) -> int:
        """When the recording began (ns)."""
        return int(self.nodes.start.min(initial=np.iinfo(np.int64).max))

    def recorded(self, known: Sequence[KnownCommunication]) -> RecordedRank:
        """Return some of the rank's communications with their times."""
        events = self.graph.event_table
        rows = np.array([item.event for item in known], np.int64)
        return RecordedRank(self.rank, self.begin, known, events.start[rows], events.end[rows])

    def finished(
        self,
        recorded: RecordedRank,
        agreed: Agreement,
        options: ConvertOptions,
        groups: Mapping[Group, str],
        npu: Mapping[int, int],
    ) -> FinishedRank:
        """Cut what is not on every rank, put the collectives in order, and find out how long each node takes.

        Raises:
            CollectiveError: the common order contradicts what this rank waited for.
            CycleError: nodes wait for each other without it.
        """
        cut = {recorded.known[at].event for at in agreed.cut[self.rank]} | set(self.found.early)
        # What else was taken for communication (of one rank, of an unknown kind) computes.
        talking = np.array([*{item.event for item in recorded.known} | cut], np.int64)
        computes = (self.nodes.slot == COMMUNICATION) & ~np.isin(self.nodes.row, talking)
        nodes = replace(self.nodes, slot=np.where(computes, COMPUTE, self.nodes.slot).astype(np.int8))
        talks = np.flatnonzero(nodes.slot == COMMUNICATION)
        node = dict(zip(nodes.row[talks].tolist(), talks.tolist(), strict=True))
        # Each collective waits for the one before it in the common order, whatever its stream.
        chain = np.array([node[recorded.known[at].event] for at in agreed.order[self.rank]], np.int64)
        chained = nodes.depending((chain[:-1], chain[1:]))
        if len(issue_order(chained)) < len(chained):
            raise order_error(self.graph, nodes, chained)
        removed = np.zeros(len(nodes), np.bool_)
        removed[[node[event] for event in cut]] = True
        kept = without(chained, removed)
        if options.profile == "gpu":
            kept = with_host_lane(kept)
        work = shared_out(kept) if options.overlap == "share" else kept.end - kept.start
        exchanges = dict(self._exchanges_by_event(recorded, agreed, groups, npu))
        origin = agreed.clock[self.rank]
        return FinishedRank(self, kept, replay_times(kept, work, origin), exchanges, origin)

    def _exchanges_by_event(
        self, recorded: RecordedRank, agreed: Agreement, groups: Mapping[Group, str], npu: Mapping[int, int]
    ) -> Iterator[tuple[int, Exchange]]:
        for at, item in enumerate(recorded.known):
            place = self.rank, at
            if place not in agreed.number:
                continue
            source, target = (npu.get(rank, -1) for rank in item.ends(self.rank))
            size, duration, number = agreed.size[place], agreed.duration[place], agreed.number[place]
            yield item.event, Exchange(item.kind, size, groups[item.group], duration, source, target, number)

    def describe(self, operator: int, node: Any) -> None:
        """Add what a host trace says about an operator."""
        if self._tensors:
            self._tensors.describe(operator, node)


@dataclass(frozen=True)
class FinishedRank:
    """All that a rank's file holds; ``origin`` is when the simulation begins (ns, the rank's clock)."""

    work: RankWork
    nodes: Nodes
    times: ReplayTimes
    exchanges: dict[int, Exchange]
    origin: int

    @property
    def measured_ns(self) -> int:
        """How long the recording took from the beginning of the simulation to the end of the last node."""
        return int(self.nodes.end.max(initial=self.origin)) - self.origin

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
        return {name: overlap_ns(self.nodes, slot) for name, slot in slots.items()}

    def messages(self, **more: str | int) -> Iterator[bytes]:
        """Yield the file's messages; ``more`` goes into its metadata."""
        graph = self.work.graph
        known: dict[str, str | int] = {
            "trace": printable(Path(graph.path.name)),
            "rank": self.work.rank,
            "origin_nanos": self.origin,
        }
        yield metadata(**known, measured_nanos=self.measured_ns, **more)
        yield from node_messages(graph, self.nodes, self.times, self.exchanges, self.work.describe)
