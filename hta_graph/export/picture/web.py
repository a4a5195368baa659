"""The boxes and links around an event, and the way from one event to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.export.picture.boxes import Box, box_of_event
from hta_graph.export.picture.path_links import Link
from hta_graph.graph.dependency_graph import DependencyGraph, EventName
from hta_graph.model import RETURNS, Bools, EdgeKind, Ids, Ints
from hta_graph.paths.walk_path import walk_back_from_end

__all__ = ["Surroundings", "event_label", "surroundings", "events_between"]

MAX_FAN_OUT = 8
"""More activities of one launch than this share a box, alike or not."""


@dataclass(frozen=True)
class Surroundings:
    """The boxes nearest to an event in order of time, the links between them, and how many events are further away."""

    boxes: list[Box]
    links: list[Link]
    hidden: int


def surroundings(near: DependencyGraph, focus: int, depth: int, limit: int) -> Surroundings:
    """Fold the neighbourhood of an event, given by its row, and keep the ``limit`` boxes nearest to it."""
    hops = _hops_from(near, focus, depth)
    boxes, box_of = _fold_events(near, hops, focus)
    kept = _nearest_boxes(near, box_of, hops, focus, limit)
    links = [link for link in _neighbour_links(near, box_of, hops < depth, focus) if {link.source, link.target} <= kept]
    number = {at: place for place, at in enumerate(_in_time_order(boxes, kept, links))}
    moved = [replace(link, source=number[link.source], target=number[link.target]) for link in links]
    hidden = sum(box.count for at, box in enumerate(boxes) if at not in kept)
    return Surroundings([boxes[at] for at in number], moved, hidden)


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


def _fold_events(near: DependencyGraph, hops: Ints, focus: int) -> tuple[list[Box], Ids]:
    """Put runs of alike siblings into one box each, and all that one call launched where that is much."""
    parent = _row_or_call_around(near)
    boxes: list[Box] = []
    box_of = np.full(len(parent), -1, np.int32)
    last: dict[tuple[int, int], int] = {}
    is_gpu = near.is_gpu
    fan = np.bincount(parent[is_gpu] + 1, minlength=len(parent) + 1)
    for row in range(len(parent)):
        box = box_of_event(near, row, row)
        box.focus = row == focus
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
