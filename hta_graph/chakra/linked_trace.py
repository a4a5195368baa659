"""A host execution trace and a device trace of one process → one linked trace ("ET+"), as Chakra's converter reads it.

    linked = link_traces(graph, read_host_trace("host_et_rank0.json.gz"))
    write_file("linked.rank0.json", linked_json(linked))

Every host node is kept; GPU activities become children of the innermost node around their launching call, found by
correlation. Nodes wait for GPU work (``sync``), for operators of other threads (``thread``) and for work of other
streams (``gpu``), as the dependency graph says and never from gaps in time.

The JSON has the fields that Chakra's converter reads and those that its own linker loses. Per node: ``id``, ``name``,
``ctrl_deps`` (one id), ``inputs``, ``outputs``, ``attrs`` as in the host trace; a GPU node has those of the operator
that launched it. Matched host nodes and GPU nodes: ``inclusive_dur``, ``exclusive_dur``, ``ts`` (µs, as Kineto prints
them; fractions are kept). Host nodes: ``inter_thread_dep`` (an id or null), ``sync_dep`` (ids of GPU nodes; only where
there are some). GPU nodes: ``cat``, ``ph``, ``stream``, ``pg_name`` where recorded.

Beyond that: ``blocked_dur`` (µs of ``exclusive_dur`` that a host node waits for the GPU or another thread),
``gpu_sync_dep`` (ids of GPU nodes of other streams that a GPU node waits for) and ``args`` (what Kineto recorded:
``External id``, ``device``, ``context``, ``stream``, ``correlation``, ``bytes``, ``grid``, ``block`` and the fields of
collectives); at the top ``rank``, ``baseTimeNanoseconds`` (``ts`` counts from there) and ``distributedInfo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.arrays import Columns, freeze, last_of_runs
from hta_graph.base.errors import TraceError
from hta_graph.chakra.host_matching import RECORD_FUNCTION_ID, HostMatching, check_rank, match_host_trace
from hta_graph.chakra.host_trace import NODE_ATTRIBUTES, HostAttribute, HostNode, HostTrace
from hta_graph.export.sync_dependencies import GPU_TO_CPU, next_operators
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BETWEEN_ACTIVITIES, Bools, EdgeKind, EventKind, Ids, Ints
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.rank_files import rank_in_name
from hta_graph.trace.timestamps import EXACT_FLOAT_LIMIT_US

NESTED_KINDS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME)
"""What host nodes stand for, and the calls inside."""


class NodePlacement:
    """A graph and the host nodes of its operators and annotations; a row *has a node* if it was matched."""

    def __init__(self, graph: DependencyGraph, matching: HostMatching) -> None:
        self.graph = graph
        self.has_node: Bools = matching.node >= 0

    @cached_property
    def enclosing(self) -> Ids:
        """The innermost row with a node around each operator, annotation and call; -1 where there is none."""
        # Climb until all have reached a row with a node: as many passes as rows without one lie inside each other.
        around = self.graph.nesting(*NESTED_KINDS).parent.copy()
        while (unknown := (around >= 0) & ~self.has_node[around]).any():
            around[unknown] = around[around[unknown]]
        return around

    def innermost(self, rows: Ids) -> Ids:
        """Return rows that have a node, and for others the innermost one around them; -1 for none and for row -1."""
        known = np.where(rows >= 0, np.where(self.has_node[rows], rows, self.enclosing[rows]), -1)
        return known.astype(np.int32)

    @cached_property
    def launcher(self) -> Ids:
        """For every GPU activity the innermost row with a node around its launching call; -1 where there is none."""
        return self.innermost(self.graph.launching_call)

    def open_at(self, lanes: Ids, times: Ints) -> Ids:
        """Return the innermost row with a node that is open on each thread just after each time; -1 where none is."""
        return self.innermost(self.graph.nesting(*NESTED_KINDS).open_at(lanes, times))

    @cached_property
    def own_time(self) -> Ints:
        """How long each row with a node runs without the rows with nodes directly inside (ns)."""
        events = self.graph.event_table
        own = events.end - events.start
        inner = np.flatnonzero(self.has_node & (self.enclosing >= 0))
        outer = self.enclosing[inner]
        # A row may outlive the one around it; only the part inside is taken from that one.
        inside = np.minimum(events.end[inner], events.end[outer]) - events.start[inner]
        np.subtract.at(own, outer, np.maximum(inside, 0))
        left: Ints = np.maximum(own, 0)
        return left

    @cached_property
    def _operators_in_order(self) -> tuple[Ids, Ints]:
        """The operators with a node in order of thread and start, and their keys."""
        events = self.graph.event_table
        rows = np.flatnonzero(self.has_node & (events.kind == EventKind.CPU_OP)).astype(np.int32)
        key = self.graph.lane_key(rows)
        order = np.argsort(key)
        return rows[order], key[order]

    def operators_from(self, events: Ids, *, at_end: Bools) -> Ids:
        """Return the first operator with a node that starts with or after each event's start or end; -1: none."""
        return self._adjacent_operator(events, self.graph.lane_key(events, at_end) - 1, ahead=True)

    def operators_before(self, events: Ids, *, at_end: Bools) -> Ids:
        """Return the last operator with a node that has started by each event's start or end; -1: none."""
        return self._adjacent_operator(events, self.graph.lane_key(events, at_end), ahead=False)

    def operators_after(self, calls: Ids) -> Ids:
        """Return the first operator with a node that starts when or after a call of its thread returns; -1: none."""
        return next_operators(self.graph, calls, self.has_node)

    def _adjacent_operator(self, events: Ids, key: Ints, *, ahead: bool) -> Ids:
        """Find on each event's thread the first operator that starts after a place, or the last up to it."""
        operators, keys = self._operators_in_order
        lane = self.graph.event_table.lane
        at = np.searchsorted(keys, key, side="right") - (not ahead)
        found = np.append(operators, -1)[np.where(at < 0, len(operators), at)]
        return np.where((found >= 0) & (lane[found] == lane[events]), found, -1).astype(np.int32)


@dataclass(frozen=True)
class EventDependencies(Columns):
    """Pairs of events (canonical rows): ``target`` waits for ``source``; -1 where no node stands for the event."""

    source: Ids
    target: Ids


def sync_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair GPU work that a call waited for with the first operator that has a node after the call, on its thread."""
    edges = placement.graph.edges_of(*GPU_TO_CPU)
    return EventDependencies(_with_node(placement, edges.source), placement.operators_after(edges.target))


def gpu_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair GPU work with the work of other streams that waited for it: at events, and around graphs."""
    graph = placement.graph
    edges = graph.edges_of(*BETWEEN_ACTIVITIES)
    lane = graph.event_table.lane
    edges = edges.take(
        (lane[edges.source] != lane[edges.target]) & graph.is_gpu[edges.source] & graph.is_gpu[edges.target]
    )
    return EventDependencies(_with_node(placement, edges.source), _with_node(placement, edges.target))


def thread_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair operators of different threads: forward with backward, and what ran before and after a hand-off.

    A hand-off leads from the last operator that had started on the one thread to the first one that starts on the
    other: simulators run a thread's operators one after the other in the order of their starts.
    """
    graph = placement.graph
    recorded, handed = graph.edges_of(EdgeKind.FORWARD_BACKWARD), graph.edges_of(EdgeKind.THREAD_HANDOFF)
    backward, resumed = (placement.operators_from(edges.target, at_end=edges.to_end) for edges in (recorded, handed))
    stopped = placement.operators_before(handed.source, at_end=handed.from_end)
    waits = EventDependencies.join(
        [EventDependencies(placement.innermost(recorded.source), backward), EventDependencies(stopped, resumed)]
    )
    lane = graph.event_table.lane
    same = (waits.source >= 0) & (waits.target >= 0) & (lane[waits.source] == lane[waits.target])
    return waits.take(~same)


def blocked_time(placement: NodePlacement) -> Ints:
    """Return how long each row with a node waits in its own time (ns): in blocking calls, and for another thread."""
    blocked = np.zeros(len(placement.graph.event_table), np.int64)
    for owner, length in (_blocking_call_waits(placement), _thread_handoff_waits(placement)):
        np.add.at(blocked, owner[owner >= 0], length[owner >= 0])
    return np.minimum(blocked, placement.own_time)


def _blocking_call_waits(placement: NodePlacement) -> tuple[Ids, Ints]:
    """Find who waits in blocking calls: until the last awaited GPU work ends, at most until the call returns."""
    edges, events = placement.graph.edges_of(*GPU_TO_CPU), placement.graph.event_table
    calls, of_call = np.unique(edges.target, return_inverse=True)
    until = events.start[calls].copy()
    np.maximum.at(until, of_call, events.end[edges.source])
    waited = np.minimum(until, events.end[calls]) - events.start[calls]
    return placement.innermost(calls), waited


def _thread_handoff_waits(placement: NodePlacement) -> tuple[Ids, Ints]:
    """Find who waits for autograd's thread: what is open at home from a hand-off there to the next one back.

    home    |---- backward() --------------|
    away         |- there  |- back
                 |-- waits-|
    """
    edges, lane = placement.graph.edges_of(EdgeKind.THREAD_HANDOFF), placement.graph.event_table.lane
    leaving, entering = lane[edges.source], lane[edges.target]
    home, away = np.minimum(leaving, entering), np.maximum(leaving, entering)
    # Of two threads the lower lane stands as home; what counts is that the next hand-off goes the other way.
    order = np.lexsort((edges.source_ns, away, home))
    there, back = order[:-1], order[1:]
    pair = (home[there] == home[back]) & (away[there] == away[back]) & (leaving[there] != leaving[back])
    there, back = there[pair], back[pair]
    begin, end = edges.target_ns[there], edges.source_ns[back]
    return placement.open_at(entering[back], begin), np.maximum(end - begin, 0)


def _with_node(placement: NodePlacement, activities: Ids) -> Ids:
    """Return activities; -1 for those without a node."""
    return np.where(placement.launcher[activities] >= 0, activities, -1).astype(np.int32)


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
        raise TraceError(path, f"belongs to rank {known}, not {asked}", f"pass the traces of rank {asked}")
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


CONVERTER_SCHEMA = {"1.0.1": "1.0.2-chakra.0.0.4", "1.0.4-chakra.0.0.4": "1.1.0-chakra.0.0.4"}
"""Versions that Chakra's converter refuses, and the next one that it accepts; the others are kept."""

CATEGORY = {EventKind.KERNEL: "kernel", EventKind.MEMCPY: "gpu_memcpy", EventKind.MEMSET: "gpu_memset"}

NODES_PER_CHUNK = 10_000


class _JsonNode(msgspec.Struct, gc=False):
    """A node as it is written: host nodes first, what only GPU nodes have last; unset fields are left out."""

    id: int
    name: str
    ctrl_deps: int
    inputs: Any
    outputs: Any
    attrs: Any
    inclusive_dur: Any = msgspec.UNSET
    exclusive_dur: Any = msgspec.UNSET
    ts: Any = msgspec.UNSET
    inter_thread_dep: Any = msgspec.UNSET
    sync_dep: Any = msgspec.UNSET
    blocked_dur: Any = msgspec.UNSET
    cat: Any = msgspec.UNSET
    ph: Any = msgspec.UNSET
    stream: Any = msgspec.UNSET
    pg_name: Any = msgspec.UNSET
    gpu_sync_dep: Any = msgspec.UNSET
    args: Any = msgspec.UNSET


def linked_json(linked: LinkedTrace) -> Iterator[bytes]:
    """Yield the text of a linked trace, in pieces."""
    encoder = msgspec.json.Encoder()
    head = encoder.encode(_top_fields(linked))
    yield head[:-1] + b',"nodes":['
    # GPU nodes share the inputs, outputs and attributes of the node that launched them: the same objects, not copies.
    hosted = _host_nodes(linked)
    nodes = hosted + _gpu_nodes(linked, hosted)
    by_id = [nodes[at] for at in np.argsort(np.concatenate([linked.host_id, linked.activity_id])).tolist()]
    # The nodes go through the encoder by the thousand, so that the whole text is never in memory.
    for at in range(0, len(nodes), NODES_PER_CHUNK):
        yield b",\n" * (at > 0) + encoder.encode(by_id[at : at + NODES_PER_CHUNK])[1:-1]
    yield b"]}\n"


def _top_fields(linked: LinkedTrace) -> dict[str, Any]:
    host = linked.host
    return {
        "schema": CONVERTER_SCHEMA.get(host.schema, host.schema),
        "pid": host.pid or 0,
        "time": str(host.header.time or ""),
        "start_ts": _whole_number(host.header.start_ts),
        "finish_ts": _whole_number(host.header.finish_ts),
        "rank": linked.rank,
        "baseTimeNanoseconds": linked.details.base_ns,
        "distributedInfo": linked.details.distributed,
    }


def _whole_number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _host_nodes(linked: LinkedTrace) -> list[_JsonNode]:
    encode = msgspec.json.Encoder().encode
    nodes = [
        _JsonNode(number, node.name, parent, node.inputs, node.outputs, msgspec.Raw(encode(_all_attributes(node))))
        for number, parent, node in zip(
            linked.host_id.tolist(), linked.parent_id.tolist(), linked.host.nodes, strict=True
        )
    ]
    _add_times(linked, nodes)
    row = {number: at for at, number in enumerate(linked.host_id.tolist())}
    for source, target in zip(linked.thread.source.tolist(), linked.thread.target.tolist(), strict=True):
        nodes[row[target]].inter_thread_dep = source
    for target, sources in linked.sync.by_target():
        nodes[row[target]].sync_dep = sources
    return nodes


def _all_attributes(node: HostNode) -> list[HostAttribute]:
    """Return a node's attributes, with those that every node must have."""
    names = {attribute.name for attribute in node.attributes}
    missing = [HostAttribute(name, kind, value) for name, (kind, value) in NODE_ATTRIBUTES.items() if name not in names]
    return node.attributes + missing


def _add_times(linked: LinkedTrace, nodes: list[_JsonNode]) -> None:
    events, event = linked.graph.event_table, linked.matching.event
    matched = np.flatnonzero(event >= 0)
    rows = event[matched]
    columns = (
        _json_microseconds(events.start[rows] - linked.details.base_ns),
        _json_microseconds(events.end[rows] - events.start[rows]),
        _json_microseconds(linked.own_time[rows]),
        _json_microseconds(linked.blocked_time[rows]),
        events.external_id[rows].tolist(),
    )
    for at, start, length, own, blocked, external in zip(matched.tolist(), *columns, strict=True):
        node = nodes[at]
        node.ts, node.inclusive_dur, node.exclusive_dur, node.inter_thread_dep = start, length, own, None
        if blocked:
            node.blocked_dur = blocked
        if external >= 0:
            node.args = {"External id": external}


def _gpu_nodes(linked: LinkedTrace, hosted: list[_JsonNode]) -> list[_JsonNode]:
    graph, rows = linked.graph, linked.activity
    events, times = graph.event_table, graph.trace.file_times
    columns = (
        linked.activity_id.tolist(),
        linked.activity_owner.tolist(),
        events.name[rows].tolist(),
        events.kind[rows].tolist(),
        _json_microseconds(times.start[rows] - linked.details.base_ns),
        _json_microseconds(times.end[rows] - times.start[rows]),
        _recorded_arguments(linked, rows),
    )
    nodes = []
    for number, owner, name, kind, start, length, args in zip(*columns, strict=True):
        own = hosted[owner]
        node = _JsonNode(number, graph.names[name], own.id, own.inputs, own.outputs, own.attrs, length, length, start)
        node.cat, node.ph, node.stream, node.args = CATEGORY[EventKind(kind)], "X", args["stream"], args
        if (group := args.get("Process Group Name")) is not None:
            node.pg_name = str(group)
        nodes.append(node)
    place = {number: at for at, number in enumerate(columns[0])}
    for target, sources in linked.gpu.by_target():
        nodes[place[target]].gpu_sync_dep = sources
    return nodes


def _recorded_arguments(linked: LinkedTrace, rows: Ids) -> list[dict[str, Any]]:
    """Return what Kineto recorded of each GPU activity, by its own keys."""
    events, lanes = linked.graph.event_table, linked.graph.lanes
    lane = events.lane[rows]
    known = {
        "External id": events.external_id[rows],
        "correlation": events.correlation[rows],
        "device": lanes.device[lane],
        "context": lanes.context[lane],
    }
    listed = {key: column.tolist() for key, column in known.items()}
    found: list[dict[str, Any]] = [{"stream": stream} for stream in lanes.stream[lane].tolist()]
    for key, values in listed.items():
        for args, value in zip(found, values, strict=True):
            if value >= 0:
                args[key] = value
    for key in DEVICE_ARGUMENTS:
        column = linked.details[key][rows]
        for at in np.flatnonzero(column != None).tolist():  # noqa: E711 - element by element
            found[at][key] = column[at]
    return found


def _json_microseconds(ns: Ints) -> list[Any]:
    """Return times as the JSON numbers of microseconds: whole ones where they are whole, else exact decimals.

    >>> _json_microseconds(np.array([5000, 1500]))
    [5.0, 1.5]
    """
    whole, rest = np.divmod(ns, 1000)
    if not rest.any():
        return whole.tolist()  # type: ignore[no-any-return]
    # Below that limit a double's shortest text is the exact fraction; above it digits are put together by hand.
    if int(np.abs(whole).max()) < EXACT_FLOAT_LIMIT_US:
        return (ns / 1000).tolist()  # type: ignore[no-any-return]
    return [msgspec.Raw(b"%d.%03d" % pair) for pair in zip(whole.tolist(), rest.tolist(), strict=True)]
