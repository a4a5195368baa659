"""Boxes of a picture, and the links between them: of a path, of an event's surroundings, between two events.

Runs of events are drawn as one box, and neighbors are joined until few enough remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_graph.attribution.replayed_names import EVIDENCE, replayed_names
from hta_graph.base.arrays import run_numbers, take_or
from hta_graph.base.errors import QueryError
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.export.picture.style import MAX_NAME_LENGTH, format_duration, short_label
from hta_graph.graph.dependency_graph import DependencyGraph, EventName
from hta_graph.model import BETWEEN_ACTIVITIES, RETURNS, WITHIN_A_LANE, Bools, BoundBy, EdgeKind, EventKind, Ids, Ints
from hta_graph.paths.binding_edges import walk_back_from_end
from hta_graph.paths.critical_path import CriticalPath

SMALL_SHARE = 0.015
"""Share of the window below which neighbours on the path share a box."""

TINY_SHARE = 0.005
"""Share of the window below which a segment goes into its neighbor's box."""

MAIN_SHARE = 0.9
"""Share of a box's time from which a name is that of the box."""

USUAL_LINES, MAX_LINES = 3, 7
"""The number of names that a box of different events lists; more only above ``SMALL_SHARE`` of the window."""

OPERATOR_SIGN = " ▸ "
"""What stands between the operator of a replayed kernel and its name."""

IDLE_PREFIX = {
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "idle before",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "waits for launch:",
    BoundBy.CPU_GAP.label: "gap:",
    BoundBy.SYNC_OVERHEAD.label: "return of",
    BoundBy.UNEXPLAINED.label: "unexplained:",
}
"""The prefix of the owner's name where nothing works; these boxes have a dashed border."""


@dataclass
class NamedTime:
    """What a box holds under one name: its events and their time."""

    events: set[int] = field(default_factory=set)
    ns: int = 0


@dataclass
class Box:
    """Events drawn as one: ``first`` is the number of its first piece or step, ``part`` the place of its rank."""

    lane: int
    first: int
    start_ns: int
    part: int = 0
    parts: dict[tuple[int, str], NamedTime] = field(default_factory=dict)
    fills: Counter[str] = field(default_factory=Counter)
    indices: list[int] = field(default_factory=list)
    focus: bool = False
    long_ns: float = 0

    @property
    def ns(self) -> int:
        """The time of all its events."""
        return sum(part.ns for part in self.parts.values())

    @property
    def count(self) -> int:
        """How many events it holds."""
        return sum(len(part.events) for part in self.parts.values())

    @property
    def fill(self) -> str:
        """The class or kind that takes most of its time."""
        return max(self.fills, key=lambda fill: (self.fills[fill], fill))

    def add(self, text: str, event: int, ns: int, fill: str) -> None:
        """Add time of an event under a name."""
        part = self.parts.setdefault((self.lane, text), NamedTime())
        part.events.add(event)
        part.ns += ns
        self.fills[fill] += ns

    @property
    def lines(self) -> int:
        """How many parts are named."""
        if self.main is not None:
            return 1
        long = sum(part.ns >= self.long_ns for part in self.parts.values()) if self.long_ns else 0
        return min(max(USUAL_LINES, long), MAX_LINES)

    @property
    def main(self) -> str | None:
        """The name that stands for the box: that of nearly all of its time."""
        (lane, text), part = self.largest()[0]
        return text if lane == self.lane and part.ns >= MAIN_SHARE * self.ns else None

    def absorb(self, other: Box) -> None:
        """Take in the box that follows; the lane with more time wins."""
        for key, part in other.parts.items():
            own = self.parts.setdefault(key, NamedTime())
            own.events |= part.events
            own.ns += part.ns
        self.fills.update(other.fills)
        self.indices += other.indices
        lanes: Counter[int] = Counter()
        for (lane, _), part in self.parts.items():
            lanes[lane] += part.ns
        # Of equal times the lower lane, so that a picture does not depend on the order of joining.
        largest = max(lanes, key=lambda lane: (lanes[lane], -lane))
        # A lane that overtakes did so by what came in.
        self.part = self.part if largest == self.lane else other.part
        self.lane = largest

    def largest(self) -> list[tuple[tuple[int, str], NamedTime]]:
        """Return the parts, longest first."""
        return sorted(self.parts.items(), key=lambda item: (-item[1].ns, item[0]))

    def unnamed(self) -> list[NamedTime]:
        """Return the parts that the box has no line for."""
        return [part for _, part in self.largest()[self.lines :]]


def box_of_event(graph: DependencyGraph, row: int, first: int) -> Box:
    """Make the box of one event, which is reached by step ``first``."""
    events = graph.event_table
    lane = int(events.lane[row])
    part = int(graph.rank_index_of_lane[lane])
    box = Box(lane, first, int(events.start[row]), part, indices=[int(events.index[row])])
    box.add(
        _event_label(graph, row), row, int(events.end[row] - events.start[row]), EventKind(int(events.kind[row])).label
    )
    return box


def path_boxes(path: CriticalPath, limit: int) -> list[Box]:
    """Fold a critical path into at most ``limit`` boxes, each a range of time."""
    small, tiny = SMALL_SHARE * path.length_ns, TINY_SHARE * path.length_ns
    return fold_boxes(_absorb_tiny(_join_below(_boxes_of_runs(path), small), tiny), limit)


def fold_boxes(boxes: Sequence[Box], limit: int) -> list[Box]:
    """Join alike neighbours, then small ones, until at most ``limit`` boxes remain."""
    return _join_until_few(_join_alike(boxes), limit)


def _boxes_of_runs(path: CriticalPath) -> list[Box]:
    """Make a box of each run of alike segments and of small neighbours on one lane."""
    pieces, graph = path.segment_table, path.graph
    if not len(pieces):
        return []
    names = _short_codes(graph, pieces.event)
    alike = run_numbers(pieces.lane, pieces.part, pieces.bound, names)
    length = np.bincount(alike, pieces.length.astype(float))[alike]
    small = length < SMALL_SHARE * path.length_ns
    # All small runs count as alike, so that neighbours among them share a box.
    group = run_numbers(pieces.lane, pieces.part, np.where(small, -1, alike))
    boxes: list[Box] = []
    columns = (group, pieces.lane, pieces.part, pieces.start, pieces.end, pieces.bound, pieces.event)
    text: dict[tuple[int, int], str] = {}
    for at, (own, lane, part, start, end, bound, event) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if own == len(boxes):
            boxes.append(Box(lane, at, start, part, long_ns=SMALL_SHARE * path.length_ns))
        key = (bound, int(names[at]))
        if key not in text:
            text[key] = _segment_text(graph, event, BoundBy(bound).label)
        boxes[-1].add(text[key], event if event >= 0 else ~at, end - start, BoundBy(bound).label)
        boxes[-1].indices += [int(graph.event_table.index[event])] if event >= 0 else []
    return boxes


def _short_codes(graph: DependencyGraph, events: Ids) -> Ints:
    """Number the short names of events, of replayed kernels with their operators; -1 without an event."""
    names = replayed_names(graph, "operator")
    operators = len(names.texts) + 1
    key = take_or(graph.event_table.name, events).astype(np.int64) * operators + take_or(names.innermost, events) + 1
    used, code = np.unique(key, return_inverse=True)
    number: dict[tuple[str, int], int] = {}
    short = [
        number.setdefault((short_name(graph.names[name]), of), len(number)) if name >= 0 else -1
        for name, of in (divmod(one, operators) for one in used.tolist())
    ]
    return np.array(short, np.int64)[code]


def _event_label(graph: DependencyGraph, event: int) -> str:
    """Return the short name of an event, of a replayed kernel behind its operator, else its module."""
    found = operator_over(graph, event)
    owner = f"{shorten_middle(short_name(found[0]), MAX_NAME_LENGTH // 2)}{OPERATOR_SIGN}" if found else ""
    return owner + short_label(short_name(graph.name_of(event)), MAX_NAME_LENGTH - len(owner))


def operator_over(graph: DependencyGraph, event: int) -> tuple[str, str] | None:
    """Return the operator, else the module, over a replayed kernel, and how that is known; None where there is none."""
    for kind in ("operator", "module"):
        names = replayed_names(graph, kind)
        if names.innermost[event] >= 0:
            return names.texts[names.innermost[event]], EVIDENCE[names.evidence[event]]
    return None


def _segment_text(graph: DependencyGraph, event: int, bound: str) -> str:
    name = _event_label(graph, event) if event >= 0 else ""
    if bound in IDLE_PREFIX:
        return f"{IDLE_PREFIX[bound]} {name}" if name else IDLE_PREFIX[bound].rstrip(":")
    return name or bound


def _absorb_tiny(boxes: Sequence[Box], size: float) -> list[Box]:
    """Put boxes that are hardly visible into the box before or after them on their lane."""
    joined: list[Box] = []
    for box in boxes:
        if joined and joined[-1].lane == box.lane and (box.ns < size or joined[-1].ns < size):
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


def _join_alike(boxes: Sequence[Box]) -> list[Box]:
    """Join neighbours on one lane for which the same name stands."""
    joined: list[Box] = []
    for box in boxes:
        if joined and joined[-1].lane == box.lane and box.main is not None and joined[-1].main == box.main:
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


def _join_until_few(boxes: Sequence[Box], limit: int) -> list[Box]:
    """Join small neighbours, the smallest first, until few enough boxes remain."""
    shortened, size = list(boxes), 1.0
    while len(shortened) > limit:
        # Grows until it fits: a fixed size would leave long windows unreadable and short ones empty.
        size *= 1.2
        shortened = _join_below(shortened, size, between_ranks=size / 8)
    return shortened


def _join_below(boxes: Sequence[Box], size: float, between_ranks: float = 0) -> list[Box]:
    """Join neighbours that together stay below a size; on different lanes, below half of it.

    Those of different ranks have a limit of their own: whom the others wait for is what a picture of a job is for.
    """
    joined = list(boxes[:1])
    for box in boxes[1:]:
        same_rank = size if box.lane == joined[-1].lane else size / 2
        if joined[-1].ns + box.ns < (same_rank if box.part == joined[-1].part else between_ranks):
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


@dataclass(frozen=True)
class Link:
    """Edges of one kind from one box to another, by their numbers."""

    source: int
    target: int
    kind: EdgeKind | None
    inferred: bool = False
    lag_ns: int = 0
    count: int = 1
    bold: bool = False
    note: str = ""


def path_links(path: CriticalPath, boxes: Sequence[Box]) -> list[Link]:
    """Link each box to the next by the edge through which the path goes there."""
    crossings = _LaneCrossings(path)
    return [crossings.link_into(at, box.first) for at, box in enumerate(boxes[1:])]


class _LaneCrossings:
    """The edges of a path that lead from one event to another, found by the segment that they lead into."""

    def __init__(self, path: CriticalPath) -> None:
        self._graph, self._pieces = path.graph, path.segment_table
        self._is_stream = path.graph.lanes.is_stream
        edges, back = path.graph.edges_at(path.chain.edges[::-1]), path.chain.times[::-1]
        # To a rendezvous and from it: the way from the rank that came last to one that waited, as one edge.
        meets = path.graph.event_table.kind[edges.source] == EventKind.RENDEZVOUS
        came_last = np.roll(edges.source, 1)
        crossing = ~np.isin(edges.kind, WITHIN_A_LANE)
        crossing[:-1] &= ~meets[1:]
        taken = edges.take(crossing)
        self._kind, self._inferred, self._target = taken.kind, taken.inferred, taken.target
        source = np.where(meets, came_last, edges.source)[crossing]
        lane = path.graph.event_table.lane
        self._lanes = np.stack([lane[source], lane[taken.target]])
        self._parts = np.stack([path.graph.rank_index_of(source), path.graph.rank_index_of(taken.target)])
        self._from, self._to = back[:-1][crossing], back[1:][crossing]
        self._from[meets[crossing]] = np.roll(back[:-1], 1)[crossing][meets[crossing]]

    def link_into(self, box: int, piece: int) -> Link:
        """Return the link from a box to the next, whose first segment is ``piece``; no kind where nothing is known."""
        parts = (int(self._pieces.part[piece - 1]), int(self._pieces.part[piece]))
        lanes = (int(self._pieces.lane[piece - 1]), int(self._pieces.lane[piece]))
        at = self._crossing_at(piece, self._lanes, lanes)
        if at < 0 and parts[0] != parts[1]:
            at = self._crossing_at(piece, self._parts, parts)
        if at < 0:
            return Link(box, box + 1, *self._of_segments(piece, *lanes), bold=True)
        kind, inferred = EdgeKind(int(self._kind[at])), bool(self._inferred[at])
        return Link(box, box + 1, kind, inferred, bold=True, note=self._wait_note(at))

    def _crossing_at(self, piece: int, sides: Ids, wanted: tuple[int, int]) -> int:
        """Return the edge between two lanes, or ranks, that leads into a segment; -1: none does."""
        # Several crossings may end at one instant; the one between these two is meant.
        start = self._pieces.start[piece]
        at = int(np.searchsorted(self._to, start))
        while at < len(self._to) and self._from[at] <= start:
            if tuple(sides[:, at]) == wanted:
                return at
            at += 1
        return -1

    def _wait_note(self, at: int) -> str:
        """Say how long the rank waited that a crossing from another one leads to."""
        if self._parts[0, at] == self._parts[1, at]:
            return ""
        came_last, waited = (self._graph.rank_graphs[place].rank for place in self._parts[:, at].tolist())
        time_ns = int(self._graph.waited(self._target[at : at + 1])[0])
        return f"rank {waited} waited {format_duration(time_ns)} for rank {came_last}"

    def _of_segments(self, piece: int, before: int, after: int) -> tuple[EdgeKind | None, bool]:
        pieces = self._pieces
        if before >= 0 and after >= 0 and self._is_stream[before] != self._is_stream[after]:
            # A call that has yet to send the rest of its graph: the path leaves the stream for it, and comes back.
            unsent = (pieces.edge_kind == EdgeKind.LAUNCH) & pieces.inferred
            if unsent[piece] and not self._is_stream[after]:
                return None, False
            if unsent[piece - 1] and self._is_stream[after]:
                return EdgeKind.LAUNCH, True
        waited = [piece - 1] if pieces.event[piece - 1] == pieces.event[piece] else []
        for at in [*waited, piece]:
            if pieces.edge_kind[at] >= 0 and pieces.edge_kind[at] not in WITHIN_A_LANE and before != after:
                return EdgeKind(int(pieces.edge_kind[at])), bool(pieces.inferred[at])
        if before != after or before < 0:
            return None, False
        return (EdgeKind.STREAM_ORDER if self._is_stream[after] else EdgeKind.THREAD_ORDER), False


MAX_FAN_OUT = 8
"""More activities of one launch than this share a box, alike or not; of a graph in question, chains of its nodes do."""


@dataclass(frozen=True)
class Surroundings:
    """The boxes nearest to an event in order of time, the links between them, and how many events are further away.

    ``nodes`` are the numbers of the boxes that hold nodes of the event, where that is the launch of a graph.
    """

    boxes: list[Box]
    links: list[Link]
    hidden: int
    nodes: frozenset[int]


def surroundings(near: DependencyGraph, focus: int, depth: int, limit: int) -> Surroundings:
    """Fold the neighbourhood of an event, given by its row, and keep the ``limit`` boxes nearest to it."""
    hops = _hops_from(near, focus, depth)
    is_node = (near.launching_call == focus) & near.event_flags.graph_launch_call[focus]
    boxes, box_of = _fold_events(near, hops, focus, is_node)
    kept = _nearest_boxes(near, box_of, hops, focus, limit)
    links = [link for link in _neighbour_links(near, box_of, hops < depth, focus) if {link.source, link.target} <= kept]
    nodes = frozenset(box_of[is_node].tolist()) & kept
    # That a launch comes before all nodes of its graph is said by the first ones.
    follows = {link.target for link in links if {link.source, link.target} <= nodes}
    links = [link for link in links if link.kind != EdgeKind.LAUNCH or link.target not in follows or link.bold]
    number = {at: place for place, at in enumerate(_in_time_order(boxes, kept, links))}
    moved = [replace(link, source=number[link.source], target=number[link.target]) for link in links]
    hidden = sum(box.count for at, box in enumerate(boxes) if at not in kept)
    return Surroundings([boxes[at] for at in number], moved, hidden, frozenset(number[at] for at in nodes))


def _hops_from(near: DependencyGraph, focus: int, depth: int) -> Ints:
    """Count the edges between each event and the one in question."""
    edges = near.edges_of()
    source, target = edges.source, edges.target
    hops = np.full(len(near.event_table), depth + 1)
    hops[focus] = 0
    for _ in range(depth):
        # All edges at once, forwards and backwards: after n rounds everything n edges away is known.
        before = hops.copy()
        np.minimum.at(hops, target, before[source] + 1)
        np.minimum.at(hops, source, before[target] + 1)
    return hops


def _fold_events(near: DependencyGraph, hops: Ints, focus: int, is_node: Bools) -> tuple[list[Box], Ids]:
    """Put runs of alike siblings into one box each, and all that one call launched where that is much.

    Nodes of the graph in question stay apart, but for chains of many.
    """
    parent, chained = _row_or_call_around(near), _chains(near, is_node)
    boxes: list[Box] = []
    box_of = np.full(len(parent), -1, np.int32)
    last: dict[tuple[int, int], int] = {}
    is_gpu = near.is_gpu
    fan = np.bincount(parent[is_gpu] + 1, minlength=len(parent) + 1)
    for row in range(len(parent)):
        box = box_of_event(near, row, row)
        box.focus = row == focus
        if is_node[row]:
            if chained[row] >= 0:
                boxes[box_of[chained[row]]].absorb(box)
            else:
                boxes.append(box)
            box_of[row] = box_of[chained[row]] if chained[row] >= 0 else len(boxes) - 1
            continue
        around, on_gpu = int(parent[row]), bool(is_gpu[row])
        many = on_gpu and around >= 0 and fan[around + 1] > MAX_FAN_OUT
        run = (box.lane, int(box_of[around]) if around >= 0 and (many or not on_gpu) else -1)
        at = last.get(run, -1)
        as_far = at >= 0 and (hops[boxes[at].first] == hops[row] or min(hops[boxes[at].first], hops[row]) > 1)
        alike = as_far and (many or boxes[at].parts.keys() == box.parts.keys())
        if alike and not (box.focus or boxes[at].focus):
            boxes[at].absorb(box)
        else:
            last[run] = at = len(boxes)
            boxes.append(box)
        box_of[row] = at
    return boxes, box_of


def _chains(near: DependencyGraph, is_node: Bools) -> Ids:
    """Return the node of the same stream that a node alone follows, and that it alone follows; -1 for others."""
    found = np.full(len(is_node), -1, np.int32)
    if np.count_nonzero(is_node) <= MAX_FAN_OUT:
        return found
    edges = near.edges_of(*BETWEEN_ACTIVITIES)
    edges = edges.take(is_node[edges.source] & is_node[edges.target])
    pairs = np.unique(np.stack([edges.source, edges.target]), axis=1)
    before, after = (np.bincount(side, minlength=len(is_node)) for side in (pairs[1], pairs[0]))
    lane = near.event_table.lane
    source, target = pairs[:, (after[pairs[0]] == 1) & (before[pairs[1]] == 1) & (lane[pairs[0]] == lane[pairs[1]])]
    found[target[source < target]] = source[source < target]
    return found


def _row_or_call_around(near: DependencyGraph) -> Ids:
    """Return the row around each row on a thread, and the call that launched each activity; -1 for none."""
    parent, launches = near.calls.parent.copy(), near.edges_of(EdgeKind.LAUNCH)
    before = launches.source < launches.target
    parent[launches.target[before]] = launches.source[before]
    return parent


def _nearest_boxes(near: DependencyGraph, box_of: Ids, hops: Ints, focus: int, limit: int) -> set[int]:
    """Choose the boxes that are the fewest edges, and then the least time, away."""
    start = near.event_table.start
    order = np.lexsort((np.abs(start - start[focus]), hops))
    return set(list(dict.fromkeys(box_of[order].tolist()))[:limit])


def _neighbour_links(near: DependencyGraph, box_of: Ids, inside: Bools, focus: int) -> list[Link]:
    """Gather the edges between boxes; a row's return to the row around it says nothing new and is not drawn."""
    edges = near.edges_of()
    bold = _critical_edges(near, inside, focus)
    source, target = box_of[edges.source], box_of[edges.target]
    # An arrow from the last inner row back to the row around it would say nothing new.
    outward = (edges.kind == EdgeKind.THREAD_ORDER) & edges.to_end
    drawn = source != target
    alone = ~np.isin(source, np.concatenate([source[drawn & ~outward], target[drawn & ~outward]]))
    links: dict[tuple[int, int, int, bool], Link] = {}
    for at in np.flatnonzero(drawn & (~outward | alone)).tolist():
        key = (int(source[at]), int(target[at]), int(edges.kind[at]), bool(edges.inferred[at]))
        old = links.get(key) or Link(key[0], key[1], EdgeKind(key[2]), key[3], count=0)
        lag = max(old.lag_ns, int(edges.lag[at]))
        links[key] = replace(old, lag_ns=lag, count=old.count + 1, bold=old.bold or at in bold)
    return list(links.values())


def _critical_edges(near: DependencyGraph, inside: Bools, focus: int) -> set[int]:
    """Return the edges of the walk back from an event, as far as all predecessors are known."""
    chain = walk_back_from_end(near, focus)
    known = inside[near.edges_at(chain.edges).target]
    return set(chain.edges[: len(known) if known.all() else int(np.argmin(known))].tolist())


def _in_time_order(boxes: Sequence[Box], kept: set[int], links: Sequence[Link]) -> list[int]:
    """Order boxes by their starts; a call that waits stands after what it waits for, unless it launched that."""
    time = {at: boxes[at].start_ns for at in kept}
    launched = {(link.source, link.target) for link in links if link.kind == EdgeKind.LAUNCH}
    for link in links:
        if link.kind in RETURNS and (link.target, link.source) not in launched:
            time[link.target] = max(time[link.target], boxes[link.source].start_ns + 1)
    return sorted(kept, key=lambda at: (time[at], at))


def events_between(
    graph: DependencyGraph, source: EventName, target: EventName
) -> tuple[list[int], list[tuple[EdgeKind, bool, int]]]:
    """Return the rows on a way from one event to another, and through which edge each is reached.

    Raises:
        QueryError: there is no way.
    """
    way = graph.path_edges_between(source, target)
    if not len(way) and source != target:
        raise QueryError(f"{graph.path}: no path leads from {event_label(source)} to {event_label(target)}")
    last = graph.row_of(target)
    visited, steps = [graph.row_of(source)], [(EdgeKind.THREAD_ORDER, False, 0)]
    columns = (way.kind, way.to_end, way.target, way.inferred, way.lag)
    for kind, to_end, row, inferred, lag_ns in zip(*(column.tolist() for column in columns), strict=True):
        outward = kind == EdgeKind.THREAD_ORDER and to_end
        if row != visited[-1] and (not outward or row == last):
            visited.append(row)
            steps.append((EdgeKind(kind), inferred, lag_ns))
    return visited, steps


def event_label(event: EventName) -> str:
    """Name an event for people.

    >>> event_label(512), event_label((3, 512))
    ('event 512', 'event 512 of rank 3')
    """
    return f"event {event[1]} of rank {event[0]}" if isinstance(event, tuple) else f"event {event}"
