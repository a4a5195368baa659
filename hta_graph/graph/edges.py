"""Edges as columns: by points for what walks over them, by events for all others; and what ranks did together.

Which points can be reached along edges, and by which shortest path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, first_of_runs, freeze, pair_key, take_or
from hta_graph.base.errors import UsageError
from hta_graph.graph.points import end_point, event_of, is_end, start_point
from hta_graph.model import Bools, Codes, EdgeKind, EdgeRule, Floats, Ids, Ints

FIRST_CUSTOM_RULE = 127
"""Codes of custom rules count down from the largest byte, those of :class:`EdgeRule` up from 0."""

_custom_rules: list[str] = []
"""The labels of the custom rules in this process, in the order of their codes."""


def custom_rule(label: str) -> int:
    """Return the code of a custom rule, which is the label of its edges (``graph.edges.rule``).

    Raises:
        UsageError: the label is empty or that of a built-in rule or edge kind, or there are more than a byte can count.
    """
    if label in _custom_rules:
        return FIRST_CUSTOM_RULE - _custom_rules.index(label)
    taken = {member.label for member in (*EdgeRule, *EdgeKind)}
    if not label or label in taken:
        raise UsageError(f"a custom rule cannot be named {label!r}; choose a name that hta-graph does not use")
    if FIRST_CUSTOM_RULE - len(_custom_rules) < len(EdgeRule):
        raise UsageError(f"there are {len(_custom_rules)} custom rules already; reuse one of their labels")
    _custom_rules.append(label)
    return FIRST_CUSTOM_RULE - len(_custom_rules) + 1


def labels_of_custom_rules() -> dict[str, int]:
    """Return the labels of the custom rules in this process, and their codes."""
    return {label: FIRST_CUSTOM_RULE - place for place, label in enumerate(_custom_rules)}


def labels_of_rules(codes: Codes) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return the labels of rules, by code, as objects."""
    labels = np.empty(FIRST_CUSTOM_RULE + 1, object)
    labels[: len(EdgeRule)] = [member.label for member in EdgeRule]
    for label, code in labels_of_custom_rules().items():
        labels[code] = label
    return labels[codes]


@dataclass(frozen=True, eq=False)
class EdgeTable(Columns):
    """Ten bytes an edge: int32 points, int8 kind and rule; lag, evidence and clamping follow from those."""

    source: Ids
    target: Ids
    kind: Codes
    rule: Codes

    @classmethod
    def of_kind(
        cls, kind: EdgeKind, source: Ids | Ints, target: Ids | Ints, rule: EdgeRule | Codes = EdgeRule.RECORDED
    ) -> EdgeTable:
        """Make edges of one kind, by one rule or a rule each."""
        size = len(source)
        return cls(
            freeze(np.asarray(source, np.int32)),
            freeze(np.asarray(target, np.int32)),
            freeze(np.full(size, kind, np.int8)),
            freeze(np.broadcast_to(np.asarray(rule, np.int8), size).copy()),
        )

    @classmethod
    def to_events(cls, kind: EdgeKind, source: Ids | Ints, target: Ids | Ints, *, to_end: bool) -> EdgeTable:
        """Make recorded edges of one kind from the ends of events to the starts, or the ends, of others."""
        return cls.of_kind(kind, end_point(source), end_point(target) if to_end else start_point(target))

    @classmethod
    def between(
        cls,
        kind: EdgeKind,
        source: Ids | Ints,
        target: Ids | Ints,
        *,
        from_end: Bools | bool,
        to_end: Bools | bool,
        rule: EdgeRule | Codes = EdgeRule.RECORDED,
    ) -> EdgeTable:
        """Make edges of one kind from starts or ends of events to starts or ends of others."""
        first = np.where(from_end, end_point(source), start_point(source))
        return cls.of_kind(kind, first, np.where(to_end, end_point(target), start_point(target)), rule)

    @classmethod
    def distinct(cls, kind: EdgeKind, source: Ids, target: Ids, rule: Codes) -> EdgeTable:
        """Make edges of one kind, each pair of points once; what is recorded wins over what is inferred."""
        chosen = np.lexsort((rule, source, target))
        chosen = chosen[first_of_runs(source[chosen], target[chosen])]
        return cls.of_kind(kind, source[chosen], target[chosen], rule[chosen])

    def shifted(self, rows: int) -> EdgeTable:
        """Return the same edges between events that are ``rows`` rows further down."""
        return replace(self, source=freeze(self.source + 2 * rows), target=freeze(self.target + 2 * rows))

    @property
    def inferred(self) -> Bools:
        """Mark the edges that a rule inferred."""
        inferred: Bools = self.rule != EdgeRule.RECORDED
        return inferred

    def lags(self, times: Ints) -> Ints:
        """Return target time − source time (ns), never below 0."""
        lags: Ints = np.maximum(times[self.target] - times[self.source], 0)
        return lags

    def clamped(self, times: Ints) -> Bools:
        """Mark the edges whose clocks disagree: the target is stamped before the source."""
        back: Bools = times[self.target] < times[self.source]
        return back


@dataclass(frozen=True, eq=False, repr=False)
class EventEdges(Columns):
    """Edges as what they join: events (canonical rows), which end of each, and when that was (ns).

    ``row`` is an edge's row in the :class:`EdgeTable`.
    """

    row: Ids
    kind: Codes
    inferred: Bools
    source: Ids
    target: Ids
    from_end: Bools
    to_end: Bools
    source_ns: Ints
    target_ns: Ints

    @classmethod
    def of_rows(cls, edges: EdgeTable, rows: Ids | Ints, times: Ints) -> EventEdges:
        """Describe rows of a table, given the times of all points."""
        chosen = edges.take(rows)
        return cls(
            freeze(np.asarray(rows, np.int32)),
            chosen.kind,
            freeze(chosen.inferred),
            freeze(event_of(chosen.source)),
            freeze(event_of(chosen.target)),
            freeze(is_end(chosen.source)),
            freeze(is_end(chosen.target)),
            freeze(times[chosen.source]),
            freeze(times[chosen.target]),
        )

    def __repr__(self) -> str:
        counts = np.bincount(self.kind, minlength=len(EdgeKind))
        said = [f"{counts[kind]:,} {kind.label}" for kind in EdgeKind if counts[kind]]
        return f"<EventEdges: {len(self):,} edges{' (' * bool(said)}{', '.join(said)}{')' * bool(said)}>"

    @property
    def lag(self) -> Ints:
        """Target time − source time (ns), never below 0."""
        lag: Ints = np.maximum(self.target_ns - self.source_ns, 0)
        return lag


@dataclass(frozen=True, eq=False)
class WaitCalls(Columns):
    """The CPU ``call`` that let the activity ``target`` wait for the activity ``source``; each pair once."""

    source: Ids
    target: Ids
    call: Ids

    def shifted(self, rows: int) -> WaitCalls:
        """Return the same for events that are ``rows`` rows further down."""
        return WaitCalls(*(freeze(column + rows) for column in (self.source, self.target, self.call)))

    def of_pairs(self, source: Ids, target: Ids) -> Ids:
        """Return the call behind each pair of activities; -1 where none is known."""
        key = pair_key(self.source, self.target)
        order = np.argsort(key, kind="stable")
        calls: Ids = take_or(self.call[order], find_sorted(pair_key(source, target), key[order]))
        return calls


@dataclass(frozen=True, eq=False)
class Members(Columns):
    """What ranks did with each other, in job time: one entry per rank and communication, whichever ranks took part.

    ``number`` is that of the collective or message (-1: unmatched), ``row`` the job's row that did the work,
    ``call`` the one that asked for it (-1: none in the file). ``busy`` is how long (ns) from the arrival on its thread
    did other things than wait (of a message on the CPU), ``wait`` the time from then until the last one came for whom
    it waits, on the rank at place ``awaited`` (-1: it waits for none); ``transfer`` the rest, to the row's end.
    ``is_last``: it came last of those that others wait for (``is_needed``); ``by`` is how it was matched (-1: not).
    ``said`` is what it was, and of which process group, as a code of the job's names.
    """

    number: Ints
    part: Ids
    row: Ids
    call: Ids
    arrival: Ints
    busy: Ints
    wait: Ints
    transfer: Ints
    awaited: Ids
    is_last: Bools
    is_needed: Bools
    is_message: Bools
    by: Codes
    said: Ids

    @property
    def waits_since(self) -> Ints:
        """From when on (ns) each waits for others, where it does."""
        return self.arrival + self.busy


@dataclass(frozen=True, eq=False)
class Clocks(Columns):
    """How far each rank's clocks are ahead, in order of rank (:attr:`JobGraph.clocks`); error -1: unknown."""

    rank: Ints
    offset: Ints
    gpu_offset: Ints
    drift_ppm: Floats
    error: Ints
    collectives: Ints


def reachable(edges: EdgeTable, point_count: int, points: Ids, *, backward: bool) -> Bools:
    """Mark the points that lie behind some points along the edges, or before them, themselves included."""
    sides = (edges.target, edges.source) if backward else (edges.source, edges.target)
    start, neighbour = _neighbours_by_point(*sides, point_count)
    seen = np.zeros(point_count, np.bool_)
    seen[points] = True
    stack = points.tolist()
    # An own stack: a chain of a million points would be as many nested calls.
    while stack:
        point = stack.pop()
        for near in neighbour[start[point] : start[point + 1]].tolist():
            if not seen[near]:
                seen[near] = True
                stack.append(near)
    return seen


def shortest_path(edges: EdgeTable, point_count: int, source: int, target: int) -> Ints:
    """Return the edges of a path with the fewest edges from one point to another, in order; none if there is no way.

    The search goes breadth first, one layer of edges at a time; ``came_by`` is the edge that first reached a point.
    """
    came_by = np.full(point_count, -1, np.int64)
    seen = np.zeros(point_count, np.bool_)
    seen[source] = True
    frontier = np.array([source])
    start, edge_rows = _neighbours_by_point(edges.source, np.arange(len(edges), dtype=np.int32), point_count)
    while len(frontier) and not seen[target]:
        # All edges out of this layer; of several into one point the first counts.
        rows = np.concatenate([edge_rows[start[point] : start[point + 1]] for point in frontier.tolist()])
        rows = rows[~seen[edges.target[rows]]]
        reached, first = np.unique(edges.target[rows], return_index=True)
        came_by[reached], seen[reached] = rows[first], True
        frontier = reached
    # Back from the target, by the edge that first reached each point.
    path: list[int] = []
    while seen[target] and target != source:
        path.append(int(came_by[target]))
        target = int(edges.source[path[-1]])
    return np.array(path[::-1], np.int64)


def _neighbours_by_point(side: Ids, other: Ids, point_count: int) -> tuple[Ints, Ids]:
    """Return where each point's neighbors begin, and all neighbors point by point."""
    order = np.argsort(side, kind="stable")
    return np.searchsorted(side[order], np.arange(point_count + 1)), other[order]
