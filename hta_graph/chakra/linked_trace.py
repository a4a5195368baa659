"""A host execution trace and a device trace of one process → one linked trace ("ET+"), as Chakra's converter reads it.

    linked = link_traces(graph, read_host_trace("host_et_rank0.json.gz"))
    write_file("linked.rank0.json", linked_json(linked))       # hta_graph.chakra.linked_json

Every host node is kept; GPU activities become children of the innermost node around their launching call, found by
correlation. Nodes wait for GPU work (``sync``), for operators of other threads (``thread``) and for work of other
streams (``gpu``), as the dependency graph says and never from gaps in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, freeze, last_of_runs
from hta_graph.chakra.host_matching import RECORD_FUNCTION_ID, HostMatching, check_rank, match_host_trace
from hta_graph.chakra.host_trace import HostTrace
from hta_graph.chakra.node_waits import (
    EventDependencies,
    blocked_time,
    gpu_dependencies,
    sync_dependencies,
    thread_dependencies,
)
from hta_graph.chakra.placement import NodePlacement
from hta_graph.errors import TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.rank_files import rank_in_name

__all__ = ["DEVICE_ARGUMENTS", "LinkedTrace", "NodeDependencies", "link_traces"]

DEVICE_ARGUMENTS = (
    "bytes",
    "grid",
    "block",
    "graph id",
    "graph node id",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "In split size",
    "Out split size",
    "Group size",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Rank",
    "Src Rank",
    "Dst Rank",
    "Seq",
    "Comms Id",
)
"""What a GPU node keeps of its row's arguments, besides device, context, stream, correlation and External id."""


@dataclass(frozen=True)
class NodeDependencies(Columns):
    """Pairs of node ids: ``target`` waits for ``source``; each pair once, by target."""

    source: Ints
    target: Ints

    def by_target(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each target and all that it waits for."""
        targets, first = np.unique(self.target, return_index=True)
        sources = np.split(self.source, first[1:])
        return zip(targets.tolist(), (part.tolist() for part in sources), strict=False)


@dataclass(frozen=True)
class LinkedTrace:
    """A linked trace as columns; ids are dense, host nodes in the order of theirs, each followed by its GPU nodes.

    ``host_id`` is each host row's id; ``activity``, ``activity_id``, ``activity_owner`` are the canonical row, the id
    and the host row of each GPU node; ``own_time`` and ``blocked_time`` (ns) have one entry per event.

    ``unplaced`` counts the GPU activities without a node: their launch is not in the file or under no matched operator;
    ``waits_without_node`` the dependencies one end of which has none; ``waits_back_in_time`` those left out because
    their target starts before their source.
    """

    graph: DependencyGraph
    host: HostTrace
    matching: HostMatching
    details: EventArgs
    rank: int
    host_id: Ints
    parent_id: Ints
    activity: Ids
    activity_id: Ints
    activity_owner: Ids
    own_time: Ints
    blocked_time: Ints
    sync: NodeDependencies
    thread: NodeDependencies
    gpu: NodeDependencies
    unplaced: int
    waits_without_node: int
    waits_back_in_time: int


def link_traces(
    graph: DependencyGraph, host: HostTrace, *, rank: int | None = None, any_process: bool = False
) -> LinkedTrace:
    """Link a host trace with the device trace of the same process.

    Args:
        graph: the device trace's graph.
        host: the host trace.
        rank: which rank this should be; that of the device trace if not given.
        any_process: link traces that name different processes.

    Raises:
        TraceError: the traces are of different ranks or processes, or fewer than half of the operators match.
    """
    rank = _consistent_rank(graph, host, rank)
    details = read_event_args(graph.trace, [RECORD_FUNCTION_ID, *DEVICE_ARGUMENTS])
    matching = match_host_trace(graph, host, details=details, any_process=any_process)
    placement = NodePlacement(graph, matching)
    numbers = _NodeIds(placement, host, matching)
    sync, thread, gpu = (
        numbers.dependencies(find(placement)) for find in (sync_dependencies, thread_dependencies, gpu_dependencies)
    )
    return LinkedTrace(
        graph=graph,
        host=host,
        matching=matching,
        details=details,
        rank=rank,
        host_id=numbers.host_id,
        parent_id=numbers.parent_id,
        activity=numbers.activity,
        activity_id=numbers.activity_id,
        activity_owner=numbers.owner,
        own_time=placement.own_time,
        blocked_time=blocked_time(placement),
        sync=sync,
        thread=numbers.latest(thread),
        gpu=gpu,
        unplaced=int(np.count_nonzero(graph.is_gpu)) - len(numbers.activity),
        waits_without_node=numbers.without_node,
        waits_back_in_time=numbers.back_in_time,
    )


def _consistent_rank(graph: DependencyGraph, host: HostTrace, asked: int | None) -> int:
    """Return the rank asked for, else that in the device trace's header or name, else 0, if all agree."""
    path, known = graph.path, graph.rank
    if asked is not None and known is not None and asked != known:
        raise TraceError(path, f"is of rank {known}, not {asked}", f"give the traces of rank {asked}")
    rank = next((rank for rank in (asked, known, rank_in_name(path)) if rank is not None), 0)
    check_rank(host, rank)
    return rank


class _NodeIds:
    """The ids of the linked nodes, and a clock by which neither threads nor launches go back."""

    def __init__(self, placement: NodePlacement, host: HostTrace, matching: HostMatching) -> None:
        self._events = placement.graph.event_table
        self.without_node = self.back_in_time = 0
        activity = np.flatnonzero(placement.launcher >= 0).astype(np.int32)
        owner = matching.node[placement.launcher[activity]]
        order = np.lexsort((activity, self._events.start[activity], owner))
        self.activity, self.owner = freeze(activity[order]), freeze(owner[order])
        count = np.bincount(self.owner, minlength=len(host))
        # Chakra's converter overlooks a dependency on id 0, so ids start with 1 where something might wait for it.
        first = int(len(host) > 0 and matching.event[0] >= 0)
        # Each host node is followed by its GPU nodes, so its number is moved on by all of those before it.
        self.host_id = freeze(first + np.arange(len(host)) + np.cumsum(count) - count)
        place = np.arange(len(self.owner)) - (np.cumsum(count) - count)[self.owner]
        self.activity_id = freeze(self.host_id[self.owner] + 1 + place)
        self.parent_id = freeze(self.host_id[_parent_rows(host)])
        self._id = np.full(len(self._events) + 1, -1, np.int64)
        self._id[matching.event[matching.event >= 0]] = self.host_id[matching.event >= 0]
        self._id[self.activity] = self.activity_id
        self._clock = self._starts_in_order(host, matching)

    def _starts_in_order(self, host: HostTrace, matching: HostMatching) -> Ints:
        """Return a time per event: its start, but not before that of the thread's earlier nodes, or of the owner."""
        # Recorded starts go back where clocks disagree; a simulator runs a thread's nodes in the order of their ids.
        clock = self._events.start.copy()
        for thread in np.unique(host.thread).tolist():
            rows = matching.event[host.thread == thread]
            rows = rows[rows >= 0]
            clock[rows] = np.maximum.accumulate(clock[rows])
        owners = matching.event[self.owner]
        clock[self.activity] = np.maximum(clock[self.activity], clock[owners])
        return clock

    def dependencies(self, waits: EventDependencies) -> NodeDependencies:
        """Return the ids of both ends, without what has no node or goes back in time, each pair once."""
        known = (self._id[waits.source] >= 0) & (self._id[waits.target] >= 0)
        self.without_node += int(np.count_nonzero(~known))
        source, target = waits.source[known], waits.target[known]
        # What waits for a later one in the order of threads and launches would wait for itself.
        early, late = self._clock[source], self._clock[target]
        forward = (early < late) | ((early == late) & (self._id[source] < self._id[target]))
        forward &= self._events.start[source] <= self._events.start[target]
        self.back_in_time += int(np.count_nonzero(~forward))
        pairs = np.unique(np.stack([self._id[target[forward]], self._id[source[forward]]]), axis=1)
        return NodeDependencies(freeze(pairs[1]), freeze(pairs[0]))

    def latest(self, found: NodeDependencies) -> NodeDependencies:
        """Keep of each target's sources the one that starts last."""
        row = np.full(int(self._id.max(initial=-1)) + 1, -1, np.int64)
        row[self._id[self._id >= 0]] = np.flatnonzero(self._id >= 0)
        order = np.lexsort((found.source, self._clock[row[found.source]], found.target))
        return found.take(order[last_of_runs(found.target[order])])


def _parent_rows(host: HostTrace) -> Ids:
    """Return each node's parent as a row; of nodes whose parent is absent the node of their thread, else themselves."""
    rows = np.arange(len(host), dtype=np.int32)
    parent = host.row_of(host.parent)
    # A parent comes before its children in the order of ids; one that does not would close a circle.
    lost = (parent < 0) | ((parent >= rows) & (host.parent != host.id))
    threads = {int(host.thread[row]): row for row in np.flatnonzero(host.is_thread)[::-1].tolist()}
    instead = np.array([threads.get(thread, -1) for thread in host.thread[lost].tolist()], np.int32)
    parent[lost] = np.where((instead >= 0) & (instead < rows[lost]), instead, rows[lost])
    return parent
