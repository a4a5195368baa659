"""A graph as nodes that a simulator runs: segments of CPU work and GPU activities, and what each depends on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hta_graph.arrays import take_or
from hta_graph.chakra.nodes import BLOCKING_EDGES, CpuSegments
from hta_graph.chakra.simulated import COMMUNICATION, COMPUTE, CPU
from hta_graph.chakra.topological_order import dependencies_first
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BETWEEN_ACTIVITIES, Bools, Codes, EdgeKind, Ids, Ints

__all__ = ["Nodes", "Pairs", "nodes_from_graph"]

Pairs = tuple[Ints, Ints]
"""Dependencies: the nodes that are waited for, and those that wait."""


@dataclass(frozen=True)
class Nodes:
    """Columns, one entry per node, within a thread or stream (``lane``) in its order; and the dependencies.

    A node works from ``start`` to ``end`` (ns) and takes a ``slot`` meanwhile. ``row`` is the event that gives it its
    name; ``operator`` the one that starts in it or launched it (-1: none). ``issued`` counts up in the order of issue:
    CPU work by its start, GPU work right after what launched it, first of all what was launched before the recording.
    """

    slot: Codes
    lane: Ids
    row: Ids
    operator: Ids
    start: Ints
    end: Ints
    issued: Ints
    source: Ints
    target: Ints
    """The dependencies, which stand last: nodes that are waited for, and those that wait."""

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def lane_successors(self) -> Pairs:
        """Each node and the next one on its thread or stream."""
        order = np.argsort(self.lane, kind="stable")
        same = np.flatnonzero(np.diff(self.lane[order]) == 0)
        return order[same], order[same + 1]

    def select(self, mask: Bools) -> Nodes:
        """Return some of the nodes, and the dependencies between them."""
        number = np.cumsum(mask) - 1
        inside = mask[self.source] & mask[self.target]
        columns: dict[str, Any] = {f.name: getattr(self, f.name)[mask] for f in fields(self)[:-2]}
        return Nodes(**columns, source=number[self.source[inside]], target=number[self.target[inside]])

    def with_dependencies(self, *more: Pairs) -> Nodes:
        """Return the same nodes with more dependencies; each pair stands once, by target and source."""
        source = np.concatenate([self.source, *(pairs[0] for pairs in more)])
        target = np.concatenate([self.target, *(pairs[1] for pairs in more)])
        size = max(len(self), 1)
        # Pairs as one number: unique, by target and then by source, in one sort.
        key = np.unique((target * size + source)[source != target])
        return replace(self, source=key % size, target=key // size)


def nodes_from_graph(graph: DependencyGraph, is_communication: Bools) -> Nodes:
    """Make a graph's nodes; ``is_communication`` marks events.

    Every order becomes a dependency of a node's beginning on another one's end. Activities of one stream follow each
    other even where they overlap a little (programmatic dependent launch, graph branches shown on one stream).
    """
    events, cpu = graph.event_table, CpuSegments(graph)
    activities = _activities_in_causal_order(graph, cpu)
    calls = graph.launching_call[activities]
    launcher = np.where(calls >= 0, cpu.launching_segment(calls), _requesting_segments(graph, cpu)[activities])
    slot = np.where(is_communication[activities], COMMUNICATION, COMPUTE)
    nodes = Nodes(
        slot=np.append(np.full(len(cpu), CPU), slot).astype(np.int8),
        lane=np.append(cpu.lane, events.lane[activities]),
        row=np.append(cpu.row, activities).astype(np.int32),
        operator=np.append(cpu.operator, np.where(calls >= 0, graph.operator_around[calls], -1)).astype(np.int32),
        start=np.append(cpu.start, events.start[activities]),
        end=np.append(cpu.end, events.end[activities]),
        issued=_issue_numbers(cpu, launcher, events.start[activities]),
        source=np.empty(0, np.int64),
        target=np.empty(0, np.int64),
    )
    on_lanes = nodes.lane_successors
    # A node can wait for another's end only. What an activity lets go when it starts had the work before it done.
    before = np.full(len(nodes), -1, np.int64)
    before[on_lanes[1]] = on_lanes[0]
    return nodes.with_dependencies(
        _lane_dependencies(nodes, graph), *_edge_dependencies(graph, cpu, activities, before)
    )


def _activities_in_causal_order(graph: DependencyGraph, cpu: CpuSegments) -> Ints:
    """Return the activities in the order in which they ran, which is that of their times where clocks agree.

    Where they do not, an activity can seem to run before what it waited for. By time it would then come first on its
    stream, and wait for itself; so causes come first. Every dependency between nodes leads forward in this order.
    """
    activities = np.flatnonzero(graph.is_activity)
    activities = activities[np.argsort(graph.place(activities))]
    everything = np.arange(len(cpu) + len(activities))
    on_threads = np.flatnonzero(np.diff(cpu.lane) == 0)
    pairs = [(on_threads, on_threads + 1), *_edge_dependencies(graph, cpu, activities, everything)]
    source, target = (np.concatenate(sides) for sides in zip(*pairs, strict=True))
    by_place = np.argsort(np.append(cpu.place, graph.place(activities)), kind="stable")
    order = dependencies_first(by_place, source, target)
    if len(order) < len(everything):
        # What waits for itself has no place; why will be told of the nodes, and which.
        order = by_place
    return activities[order[order >= len(cpu)] - len(cpu)]


def _lane_dependencies(nodes: Nodes, graph: DependencyGraph) -> Pairs:
    """Link what follows each other on a thread or stream; messages of one thread are under way at the same time."""
    source, target = nodes.lane_successors
    beside = graph.lanes.is_communication[nodes.lane[source]] & (nodes.start[target] < nodes.end[source])
    return source[~beside], target[~beside]


def _requesting_segments(graph: DependencyGraph, cpu: CpuSegments) -> Ints:
    """Return for each event that ran on the CPU with other ranks the segment that asked for it; -1 for all others."""
    segments = np.full(len(graph.event_table), -1, np.int64)
    if graph.lanes.is_communication.any():
        edges = graph.edges_of(EdgeKind.THREAD_HANDOFF, EdgeKind.THREAD_ORDER)
        requests = np.flatnonzero(graph.is_activity[edges.target] & ~graph.is_activity[edges.source])
        segments[edges.target[requests]] = cpu.segment_before(edges.source[requests], at_end=edges.from_end[requests])
    return segments


def _issue_numbers(cpu: CpuSegments, launcher: Ints, start: Ints) -> Ints:
    """Return the place of each node in the order of issue; ``launcher`` and ``start`` are the activities'."""
    launched = launcher >= 0
    segment = np.append(np.arange(len(cpu)), launcher)
    time = np.append(cpu.start, np.where(launched, np.append(cpu.end, 0)[launcher], np.iinfo(np.int64).min))
    order = np.lexsort((np.append(cpu.start, start), np.append(np.zeros(len(cpu)), np.ones(len(start))), segment, time))
    issued = np.empty(len(order), np.int64)
    issued[order] = np.arange(len(order))
    return issued


def _edge_dependencies(graph: DependencyGraph, cpu: CpuSegments, activities: Ints, started: Ints) -> list[Pairs]:
    """Return what nodes wait for by the graph's edges; ``started`` is the node that stands for each node's start."""
    node = np.full(len(graph.event_table), -1, np.int64)
    node[activities] = np.arange(len(cpu), len(cpu) + len(activities))
    launch = graph.edges_of(EdgeKind.LAUNCH)
    # That work ends no earlier than other work says nothing about when it begins.
    between = graph.edges_of(*BETWEEN_ACTIVITIES)
    begins = ~between.to_end
    forward = graph.edges_of(EdgeKind.FORWARD_BACKWARD)
    pairs = [
        (cpu.launching_segment(launch.source), node[launch.target]),
        (_requesting_segments(graph, cpu)[activities], node[activities]),
        (node[between.source[begins]], node[between.target[begins]]),
        _blocking_dependencies(graph, cpu, node, started),
        (
            cpu.segment_before(forward.source, at_end=forward.from_end),
            cpu.segment_after(forward.target, at_end=forward.to_end),
        ),
    ]
    known = [(source >= 0) & (target >= 0) for source, target in pairs]
    return [(source[kept], target[kept]) for (source, target), kept in zip(pairs, known, strict=True)]


def _blocking_dependencies(graph: DependencyGraph, cpu: CpuSegments, node: Ints, started: Ints) -> Pairs:
    """Link what held a thread to the segment that begins with the wait.

    An activity's start holds it where the launch queue is full, or the host polls the kernel.
    """
    edges = graph.edges_of(*BLOCKING_EDGES)
    activity = node[edges.source]
    held_by = np.where(edges.from_end, activity, take_or(started, activity))
    held_by = np.where(activity >= 0, held_by, cpu.segment_before(edges.source, at_end=edges.from_end))
    return held_by, cpu.waiting_segment(edges.target, at_end=edges.to_end)
