"""A graph as nodes that a simulator runs: segments of CPU work and GPU activities, and what each depends on.

A thread's recorded time is cut into the segments that become CPU nodes; nodes are put in the order in which they are
issued, taken out with what followed them linked to what they followed, and joined between launches and waits for
simulators of the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.arrays import first_of_runs, freeze, last_of_runs, take_or
from hta_graph.base.errors import HtaGraphError
from hta_graph.chakra.astra_sim_executor import COMMUNICATION, COMPUTE, CPU
from hta_graph.chakra.topological_order import cycle_text, dependencies_first, find_cycle
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BETWEEN_ACTIVITIES, Bools, Codes, EdgeKind, EventKind, Ids, Ints, edge_kinds
from hta_graph.multi_rank.matching.match_ranks import CollectiveError
from hta_graph.paths.window_ends import working_threads

NO_WAIT = np.iinfo(np.int64).min
"""Stands for the time of what a point waits for, where it waits for nothing."""

LONG_CALL_NS = 20_000
"""Launching takes some µs; a call that takes longer does something else first."""

BLOCKING_EDGES = edge_kinds(lambda meaning: meaning.holds)
"""Edges whose target is on the CPU and until which its thread was held."""


class CpuSegments:
    """Segments of the threads that work, in order of thread and time: each becomes a CPU node.

    A segment begins where an operator starts, where a call launches something, where a wait or a silence begins; so all
    that it causes comes at its end, and all that it waits for at its beginning. What follows a launch or a wait belongs
    to the next operator's segment. It lasts from ``begin`` to ``end``; the thread works from ``start`` on, before that
    it waits or is idle. ``row`` is the event that gives the segment its name.

        operators   |---------------------------|     |-----------|
        calls          |launch|  |synchronise|           |launch|
        segments    |1 |2        |3             |4       |5       |     3 waits, then works; 4 is idle, then works
    """

    def __init__(self, graph: DependencyGraph) -> None:
        self._graph = graph
        self._events = graph.event_table
        # The working threads' starts and ends in order of thread and time; all columns below have one entry for each.
        calls = graph.calls
        chosen = np.flatnonzero(working_threads(graph)[self._events.lane[calls.event]])
        self._event, self._is_end, self._time = calls.event[chosen], calls.is_end[chosen], calls.time[chosen]
        self._owner, self._lane = calls.owner[chosen], self._events.lane[calls.event[chosen]]
        self._is_first, self._is_last = first_of_runs(self._lane), last_of_runs(self._lane)
        self._place = np.full((2, len(self._events)), -1, np.int64)
        self._place[self._is_end.astype(np.int8), self._event] = np.arange(len(chosen))
        begins = self._segment_begins()
        self._segment = np.cumsum(begins) - 1
        self._first = np.flatnonzero(begins)
        # A segment ends where the next begins; its thread's last one at the thread's last moment.
        follows = np.append(self._first[1:], len(chosen))
        self._end = np.where(np.append(self._is_first, True)[follows], follows - 1, follows)[: len(self._first)]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def lane(self) -> Ids:
        """The thread of each segment."""
        lane: Ids = self._lane[self._first]
        return lane

    @property
    def begin(self) -> Ints:
        """When each segment begins (ns)."""
        begin: Ints = self._time[self._first]
        return begin

    @property
    def end(self) -> Ints:
        """When each segment ends (ns)."""
        end: Ints = self._time[self._end]
        return end

    @property
    def start(self) -> Ints:
        """When its thread starts to work (ns)."""
        first, second = self._time[self._first], self._time[self._first + 1]
        until = np.clip(self._wait_ends[self._first + 1], first, second)
        start: Ints = np.where(self._is_idle[self._first], second, until)
        return start

    @property
    def place(self) -> Ints:
        """The place, in the order of all that happened, from which on each segment can work: where its wait ends."""
        first = self._first + (self._wait_ends[self._first + 1] > NO_WAIT)
        return self._graph.position(self._event[first], self._is_end[first])

    @property
    def row(self) -> Ids:
        """The operator that starts in each segment, else the one around it, else its first call or the one around."""
        owner = self._owner[self._first]
        in_call = (owner >= 0) & (self._events.kind[owner] == EventKind.RUNTIME)
        around = np.where(in_call, self._graph.operator_around[owner], owner)
        call = self._first_marked(~self._is_end)
        other = np.where(around >= 0, around, np.where(call >= 0, call, owner))
        return np.where(self.operator >= 0, self.operator, other).astype(np.int32)

    @cached_property
    def operator(self) -> Ids:
        """The operator that starts in each segment; -1 where none does."""
        return self._first_marked(self._starts_operator)

    def _first_marked(self, marks: Bools) -> Ids:
        """Return the event of the first marked start or end in each segment; -1 where there is none."""
        size = len(marks)
        following = np.minimum.accumulate(np.where(marks, np.arange(size), size)[::-1])[::-1]
        place = following[self._first]
        return np.where(place < self._end, self._event[place.clip(max=size - 1)], -1).astype(np.int32)

    def segment_before(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        """Return the segment before each event's start or end; -1 where its thread begins there or does not work."""
        place = self._places_of(events, at_end=at_end)
        known = (place >= 0) & ~take_or(self._is_first, place)
        before: Ints = take_or(self._segment, np.where(known, place - 1, -1))
        return before

    def segment_after(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        """Return the segment after each event's start or end; of a thread's last moment the one before it."""
        place = self._places_of(events, at_end=at_end)
        after: Ints = take_or(self._segment, place - take_or(self._is_last, place, otherwise=False))
        return after

    def launching_segment(self, calls: Ids) -> Ints:
        """Return the segment at whose end each call launches; -1 where the call is its thread's first row.

        That is where the call starts: work may begin before it returns, and holds its return where it waits. A call
        that takes long, waits for nothing and returns about when its work begins (it loads a module) launches at its
        end; so does a thread's first row.
        """
        return self.segment_before(calls, at_end=self._launches_late[calls])

    def waiting_segment(self, events: Ids, *, at_end: Bools) -> Ints:
        """Return the segment that begins with the wait that ends at each event's start or end."""
        ends = self.segment_before(events, at_end=at_end)
        return np.where(ends >= 0, ends, self.segment_after(events, at_end=at_end))

    def _places_of(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        places: Ints = self._place[np.asarray(at_end, np.int8), events]
        return places

    @cached_property
    def _wait_ends(self) -> Ints:
        """When the last of what each start or end waited for was there (ns)."""
        ends = np.full(len(self._event), NO_WAIT)
        edges = self._graph.edges_of(*BLOCKING_EDGES)
        place = self._places_of(edges.target, at_end=edges.to_end)
        np.maximum.at(ends, place[place >= 0], edges.source_ns[place >= 0])
        return ends

    @cached_property
    def _is_idle(self) -> Bools:
        """Mark where a silence begins: no operator and no call is open until the next start."""
        idle: Bools = (self._owner < 0) & ~self._is_last
        idle[:-1] &= self._time[1:] > self._time[:-1]
        return idle

    @cached_property
    def _starts_operator(self) -> Bools:
        starts: Bools = ~self._is_end & (self._events.kind[self._event] == EventKind.CPU_OP)
        return starts

    def _segment_begins(self) -> Bools:
        """Mark the starts and ends at which a segment begins."""
        marks = self._is_first | self._is_idle | self._launches() | self._handoffs()
        waits = np.flatnonzero((self._wait_ends > NO_WAIT) & ~self._is_first)
        marks[waits - 1] = True
        # After a mark that is no operator's start the segment has no name yet: the next operator gives it its own and
        # begins none.
        place = np.arange(len(marks))
        last_mark = np.maximum.accumulate(np.where(marks, place, -1))
        last_operator = np.maximum.accumulate(np.where(self._starts_operator, place, -1))
        unnamed = last_mark > np.append(-1, last_operator[:-1])
        begins: Bools = (marks | (self._starts_operator & ~unnamed)) & ~self._is_last
        return begins

    @cached_property
    def _launches_late(self) -> Bools:
        """Mark the calls (by event) that launch when they return."""
        events, edges = self._events, self._graph.edges_of(EdgeKind.LAUNCH)
        first = np.full(len(events), np.iinfo(np.int64).max)
        np.minimum.at(first, edges.source, events.start[edges.target])
        late = (events.end - events.start > LONG_CALL_NS) & (first > events.end - LONG_CALL_NS)
        thread_begins = self._event[self._is_first]
        late[thread_begins] |= first[thread_begins] >= events.end[thread_begins]
        begin, end = (self._places_of(edges.source, at_end=side) for side in (False, True))
        # What is inside the call might wait for what it launched; then the launch must not wait for it.
        late[edges.source] &= (end == begin + 1) & (self._wait_ends[end] == NO_WAIT)
        return freeze(late)

    def _launches(self) -> Bools:
        """Mark where calls launch something: at their starts, or their ends."""
        launches = np.zeros(len(self._events), np.bool_)
        launches[self._graph.edges_of(EdgeKind.LAUNCH).source] = True
        marks: Bools = launches[self._event] & (self._is_end == self._launches_late[self._event])
        return marks

    def _handoffs(self) -> Bools:
        """Mark where a thread hands work to another one, and where backward needs what forward has made."""
        marks = np.zeros(len(self._event), np.bool_)
        kinds = (EdgeKind.THREAD_HANDOFF, EdgeKind.FORWARD_BACKWARD, EdgeKind.THREAD_ORDER)
        handed, needed, followed = (self._graph.edges_of(kind) for kind in kinds)
        # Messages to other ranks are on no thread: what follows the point that asks for one does not wait for it.
        asks = self._graph.is_activity[followed.target] & ~self._graph.is_activity[followed.source] & ~followed.to_end
        for place in (
            self._places_of(handed.source, at_end=handed.from_end),
            self._places_of(followed.source[asks], at_end=followed.from_end[asks]),
            self._places_of(needed.target, at_end=needed.to_end),
        ):
            marks[place[place >= 0]] = True
        return marks


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
    activities = activities[np.argsort(graph.position(activities))]
    everything = np.arange(len(cpu) + len(activities))
    on_threads = np.flatnonzero(np.diff(cpu.lane) == 0)
    pairs = [(on_threads, on_threads + 1), *_edge_dependencies(graph, cpu, activities, everything)]
    source, target = (np.concatenate(sides) for sides in zip(*pairs, strict=True))
    by_place = np.argsort(np.append(cpu.place, graph.position(activities)), kind="stable")
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
        # What leads to a message's end is its thread that waits for it.
        requests = np.flatnonzero(graph.is_activity[edges.target] & ~graph.is_activity[edges.source] & ~edges.to_end)
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


def issue_order(nodes: Nodes, due: Ints | None = None) -> Ints:
    """Return the nodes in the order in which they were issued; simulators give a free slot to the lowest number.

    That is the order of ``due`` (ns), by default of their starts, and of launches where these are equal. Where a node
    would come before one that it depends on (clocks that disagree, collectives put into another order) it is issued
    right after that one. Nodes that wait for themselves through others are left out.
    """
    order = np.lexsort((nodes.issued, nodes.start if due is None else due))
    return dependencies_first(order, nodes.source, nodes.target)


class CycleError(HtaGraphError):
    """Nodes wait for themselves, through each other."""


def cycle_error(graph: DependencyGraph, nodes: Nodes, chained: Nodes) -> HtaGraphError:
    """Return the error that names the nodes that wait for each other, and says what closes their circle.

    Args:
        graph: where the nodes come from.
        nodes: a rank's nodes by themselves.
        chained: the same, their collectives in the one order of all ranks.
    """
    if circle := find_cycle(nodes.source, nodes.target, len(nodes)):
        return CycleError(f"{graph.path}: nodes wait for each other in a cycle: {_cycle_names(graph, nodes, circle)}")
    circle = find_cycle(chained.source, chained.target, len(chained))
    return CollectiveError(
        f"{graph.path}: the common order of collectives contradicts what this rank waited for, and a "
        f"simulated rank runs one at a time: {_cycle_names(graph, chained, circle)}"
    )


def _cycle_names(graph: DependencyGraph, nodes: Nodes, circle: list[int]) -> str:
    rows = [int(nodes.row[at]) for at in circle]
    return cycle_text([f"{graph.name_of(row)[:30]!r} (event {graph.event_table.index[row]})" for row in rows])


Frontier = dict[int, int]
"""Per thread or stream the last kept node that something waits for: that one's predecessors there are implied."""


def remove_nodes(nodes: Nodes, removed: Bools) -> Nodes:
    """Take nodes out; what depended on one depends on what that one depended on, directly or through others."""
    if not removed.any():
        return nodes
    behind = _frontiers_behind(nodes, removed)
    touched = removed[nodes.source] & ~removed[nodes.target]
    bridges = [
        (before, after)
        for gone, after in zip(nodes.source[touched].tolist(), nodes.target[touched].tolist(), strict=True)
        for before in behind[gone].values()
    ]
    pairs = np.array(bridges, np.int64).reshape(-1, 2)
    return nodes.with_dependencies((pairs[:, 0], pairs[:, 1])).select(~removed)


def _frontiers_behind(nodes: Nodes, removed: Bools) -> dict[int, Frontier]:
    """Find what each removed node waits for among those that stay, in the order in which they were issued."""
    # Of what a removed node waits for on one thread or stream only the last node counts: the others come before it
    # there. So a frontier has at most one node per lane, however long the removed stretch is.
    into = removed[nodes.target]
    source, target = nodes.source[into], nodes.target[into]
    first = np.searchsorted(target, np.arange(len(nodes) + 1)).tolist()
    before, lane, gone = source.tolist(), nodes.lane.tolist(), removed.tolist()
    order = issue_order(nodes)
    found: dict[int, Frontier] = {}
    for node in order[removed[order]].tolist():
        frontier: Frontier = {}
        for earlier in before[first[node] : first[node + 1]]:
            if not gone[earlier]:
                _advance_frontier(frontier, lane[earlier], earlier)
            elif not frontier:
                # Alone behind another removed node: the same frontier, shared rather than copied.
                frontier = found[earlier] if first[node + 1] - first[node] == 1 else dict(found[earlier])
            else:
                for where, other in found[earlier].items():
                    _advance_frontier(frontier, where, other)
        found[node] = frontier
    return found


def _advance_frontier(frontier: Frontier, lane: int, node: int) -> None:
    if frontier.get(lane, -1) < node:
        frontier[lane] = node


def contract_host_nodes(nodes: Nodes) -> Nodes:
    """Join the CPU nodes of each thread between launches, waits and hand-offs; leave out what no GPU work waits for.

    The nodes that stand for several are no one event's: their ``row`` and ``operator`` are -1.

        operators   |mm    |add        |item            |mm
        launches         |      |         |  (waits)         |
        host lane   |----|------|---------|          |-------|
    """
    on_cpu = nodes.slot == CPU
    previous, following = nodes.lane_successors
    crosses = nodes.lane[nodes.source] != nodes.lane[nodes.target]
    gives, takes = np.zeros((2, len(nodes)), np.bool_)
    gives[nodes.source[crosses]], takes[nodes.target[crosses]] = True, True
    joined = on_cpu[previous] & ~gives[previous] & ~takes[following]
    joined &= nodes.start[following] <= nodes.end[previous]
    begins = np.ones(len(nodes), np.bool_)
    begins[following[joined]] = False
    # Nodes stand in order within their lanes, so those of one group follow each other when sorted by lane.
    order = np.argsort(nodes.lane, kind="stable")
    group = np.empty(len(nodes), np.int64)
    group[order] = np.cumsum(begins[order]) - 1
    contracted = _joined_groups(nodes, order, group, on_cpu)
    return contracted.select((contracted.slot != CPU) | _awaited_by_gpu(contracted))


def _joined_groups(nodes: Nodes, order: Ints, group: Ints, on_cpu: Bools) -> Nodes:
    first = order[np.unique(group[order], return_index=True)[1]]
    last = order[len(order) - 1 - np.unique(group[order][::-1], return_index=True)[1]]
    columns: dict[str, Any] = {f.name: getattr(nodes, f.name)[first] for f in fields(nodes)[:-2]}
    host = on_cpu[first]
    columns["end"] = nodes.end[last]
    for name in ("row", "operator"):
        columns[name] = np.where(host, -1, columns[name]).astype(columns[name].dtype)
    nothing = np.empty(0, np.int64)
    return Nodes(**columns, source=nothing, target=nothing).with_dependencies(
        (group[nodes.source], group[nodes.target])
    )


def _awaited_by_gpu(nodes: Nodes) -> Bools:
    """Mark what GPU work waits for, directly or through others."""
    place = np.empty(len(nodes), np.int64)
    place[issue_order(nodes)] = np.arange(len(nodes))
    awaited = (nodes.slot != CPU).tolist()
    back = np.argsort(-place[nodes.target], kind="stable")
    for source, target in zip(nodes.source[back].tolist(), nodes.target[back].tolist(), strict=True):
        if awaited[target]:
            awaited[source] = True
    return np.array(awaited, np.bool_)
