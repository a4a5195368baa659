"""A rank's longest paths under many weights at once, from what other ranks decide to what they wait for.

origin ──┐                          origin: all times of the rank that are given
met 1  ──┴▶ a ── b ──▶ came to 2    met: when a rendezvous with others was; came: when the rank came to one
met 2  ──────▶ c ──────▶ end        a, b, c: passed over, but for those where paths join and fan out again

A node goes while that makes no more edges than it had: without any of them every rendezvous leads to every later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct, first_of_runs, freeze
from hta_graph.model import Ids, Ints
from hta_graph.what_if.longest_paths import LongestPaths

ORIGIN = 0
"""The node of what is given."""

MAX_ORDER_SPAN = 1 << 40
"""From here on orders are numbered anew: as numbers of 64 bits they can be put in order once more."""


@dataclass(frozen=True)
class BoundaryLongestPaths:
    """Edges between nodes: the origin, the incoming points, nodes in between, the awaited points, the end.

    ``source``, ``target``: nodes, edges into one node together, causes first; ``weight`` (ns): one per draft, row by
    row. What comes from the origin weighs from the window's start on. ``order``, as ``weight``: of the edges by which
    a node is equally late that with the least number is preferred.
    """

    incoming_count: int
    awaited_count: int
    draft_count: int
    node_count: int
    source: Ids
    target: Ids
    weight: Ints
    order: Ids

    @property
    def first_awaited(self) -> int:
        """The node of the first awaited point; the others follow it, and then the end."""
        return self.node_count - 1 - self.awaited_count

    @property
    def end(self) -> int:
        """The node of the end."""
        return self.node_count - 1

    @property
    def weights(self) -> Ints:
        """The weights (ns), a row per edge and a column per draft."""
        return self.weight.reshape(-1, self.draft_count)

    @property
    def orders(self) -> Ids:
        """The orders of preference, a row per edge and a column per draft."""
        return self.order.reshape(-1, self.draft_count)


PathEntry = tuple[int, Ints, Ints | int]
"""From which node a way leads, how far (ns) what it leads to lies behind it, and its order: both per draft."""


@dataclass(frozen=True)
class _IncomingPaths:
    """The longest ways to a node, by the node from which they lead: how far (ns) it lies behind that, and their order.

    Both are per draft; orders are whole numbers below ``span``, the least one that of what is preferred.
    """

    by_source: dict[int, tuple[Ints, Ints | int]]
    span: int


def boundary_longest_paths(
    paths: LongestPaths,
    weights: Iterable[Ints],
    start: Ints,
    *,
    incoming: Ids,
    awaited: Ids,
    ends: Ids,
    tails: Ints,
) -> BoundaryLongestPaths:
    """Contract the longest paths to awaited points and to the latest of some ends.

    Args:
        paths: the shape of a window's edges.
        weights: of each edge (ns), per draft.
        start: the values (ns, behind the window's start) of points that are roots.
        incoming: points, all of them roots, whose values others decide.
        awaited: points that other ranks wait for.
        ends: points of which the latest, with its tail, is the window's end; of several the first one is preferred.
        tails: how long (ns) the window continues behind each end, a row per draft.
    """
    points = np.concatenate([awaited, ends]).astype(np.int32)
    joined, behind = paths.in_line(weights, points)
    behind[len(awaited) :] += tails.T
    nodes = _NodeNumbers(paths, start, incoming)
    every = [nodes.entries(heads, joined[first : first + len(heads)]) for first, heads in _entries_of_join_nodes(paths)]
    count = len(every)
    head = paths.head[points]
    every += [nodes.entries(head[at : at + 1].tolist(), behind[at : at + 1]) for at in range(len(awaited))]
    last = len(awaited) + _deciding_ends(head[len(awaited) :], behind[len(awaited) :])
    every.append(nodes.entries(head[last].tolist(), behind[last]))
    used, retained = _used_and_retained([set(entries.by_source) for entries in every], count, nodes.first)
    return _as_columns(_contracted(every, used, retained, nodes.first), nodes.first, len(awaited), behind.shape[1])


def _entries_of_join_nodes(paths: LongestPaths) -> Iterator[tuple[int, list[int]]]:
    """Yield of each rendezvous, causes first, where its entries begin and the points from which these lead."""
    joins = paths.meetings
    heads = paths.nodes[joins.head].tolist()
    for first, count in zip(joins.first.tolist(), joins.count.tolist(), strict=True):
        yield first, heads[first : first + count]


def _deciding_ends(head: Ids, behind: Ints) -> Ints:
    """Choose of the window's ends, of which there are many, those that are the first longest from their head at all."""
    rows = np.argsort(head, kind="stable")
    if not behind.size:
        return rows
    is_first = first_of_runs(head[rows])
    begins, run = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    longest = np.maximum.reduceat(behind[rows], begins, axis=0)
    counts = np.where(behind[rows] == longest[run], rows[:, None], len(rows))
    return distinct(np.minimum.reduceat(counts, begins, axis=0).ravel())


class _NodeNumbers:
    """The numbers of points as nodes; points whose values are given for good are the origin, so far behind it."""

    def __init__(self, paths: LongestPaths, start: Ints, incoming: Ids) -> None:
        self.first = 1 + len(incoming)
        """The number of the first node where ways meet."""
        join_points: list[int] = paths.nodes[paths.meetings.node].tolist()
        self._start, self._number = start, {point: place for place, point in enumerate(incoming.tolist(), 1)}
        self._number |= {point: place for place, point in enumerate(join_points, self.first)}

    def entries(self, points: list[int], weights: Ints) -> _IncomingPaths:
        """Return the entries of a node to which ways lead from points, each so far (ns) behind it; best ones first."""
        return _IncomingPaths(_longest_by_source(self._rows(points, weights)), max(len(points), 1))

    def _rows(self, points: list[int], weights: Ints) -> Iterator[PathEntry]:
        for place, (point, weight) in enumerate(zip(points, weights, strict=True)):
            node = self._number.get(point, ORIGIN)
            yield node, weight if node else weight + self._start[point], place


# -- which nodes are told apart ----------------------------------------------------------------------------------------


def _used_and_retained(sources: list[set[int]], count: int, first: int) -> tuple[list[bool], list[bool]]:
    """Return of each node where ways meet whether anything follows it in the end, and whether it is kept.

    Args:
        sources: from which nodes ways lead to those where ways meet, causes first, and to the awaited ones behind them.
        count: how many nodes ways meet in.
        first: the number of the first of them.
    """
    users = _successors(sources, count, first)
    used = [bool(own) for own in users]
    retained, pending = list(used), [node for node in range(count) if used[node]]
    while pending:
        touched: set[int] = set()
        for node in pending:
            before, after = sources[node], users[node]
            if not retained[node] or len(before) * len(after) > len(before) + len(after):
                continue
            retained[node] = False
            for user in after:
                sources[user] = (sources[user] - {first + node}) | before
            inner = {source - first for source in before if source >= first}
            for source in inner:
                users[source] = (users[source] - {node}) | after
            touched |= inner
            touched.update(user for user in after if user < count)
        pending = sorted(touched)
    return used, retained


def _successors(sources: Sequence[set[int]], count: int, first: int) -> list[set[int]]:
    """Return what of all that anything asked comes from follows each node."""
    users: list[set[int]] = [set() for _ in range(count)]
    for node in range(len(sources) - 1, -1, -1):
        if node >= count or users[node]:
            for source in sources[node]:
                if source >= first:
                    users[source - first].add(node)
    return users


# -- how far they are from each other ----------------------------------------------------------------------------------


def _contracted(
    every: Sequence[_IncomingPaths], used: Sequence[bool], retained: Sequence[bool], first: int
) -> dict[int, _IncomingPaths]:
    """Return the entries of nodes that are kept, from others of these."""
    bypassed, found = dict[int, _IncomingPaths](), dict[int, _IncomingPaths]()
    for place, own in enumerate(every):
        if place >= len(used) or retained[place]:
            found[first + place] = _bypassed(own, bypassed)
        elif used[place]:
            bypassed[first + place] = _bypassed(own, bypassed)
    return found


def _bypassed(own: _IncomingPaths, bypassed: Mapping[int, _IncomingPaths]) -> _IncomingPaths:
    """Put what leads to nodes that are passed over in their place, also in the order of preference."""
    if bypassed.keys().isdisjoint(own.by_source):
        return own
    span = max(bypassed[node].span for node in own.by_source if node in bypassed)
    found = _IncomingPaths(_longest_by_source(_bypassing_rows(own, bypassed, span)), own.span * span)
    return found if found.span < MAX_ORDER_SPAN else _with_ranked_orders(found)


def _bypassing_rows(own: _IncomingPaths, bypassed: Mapping[int, _IncomingPaths], span: int) -> Iterator[PathEntry]:
    for node, (more, order) in own.by_source.items():
        if node not in bypassed:
            yield node, more, order * span
            continue
        for source, (weight, among) in bypassed[node].by_source.items():
            yield source, weight + more, among + order * span


def _longest_by_source(rows: Iterable[PathEntry]) -> dict[int, tuple[Ints, Ints | int]]:
    """Let of several ways from one node the longest count, under each draft, with its own order."""
    found: dict[int, tuple[Ints, Ints | int]] = {}
    for source, weight, order in rows:
        known = found.get(source)
        if known is None:
            found[source] = weight, order
            continue
        wins = weight > known[0]
        # Ways of which all orders are plain numbers come in order of these.
        if not (isinstance(order, int) and isinstance(known[1], int)):
            wins |= (weight == known[0]) & (order < known[1])
        # Mostly under all drafts or none; then orders stay plain numbers.
        if (count := np.count_nonzero(wins)) == len(wins):
            found[source] = weight, order
        elif count:
            found[source] = np.maximum(weight, known[0]), np.where(wins, order, known[1])
    return found


def _with_ranked_orders(found: _IncomingPaths) -> _IncomingPaths:
    """Return the same with orders that are numbers from 0 on."""
    if not found.by_source:
        return found
    weights = [weight for weight, _ in found.by_source.values()]
    orders = np.stack([np.broadcast_to(order, weights[0].shape) for _, order in found.by_source.values()])
    numbers = orders.argsort(axis=0).argsort(axis=0)
    return _IncomingPaths(dict(zip(found.by_source, zip(weights, numbers, strict=True), strict=True)), len(weights))


def _as_columns(
    retained: Mapping[int, _IncomingPaths], first: int, awaited_count: int, draft_count: int
) -> BoundaryLongestPaths:
    number = {node: place for place, node in enumerate(retained, first)}
    found = [_with_ranked_orders(longest).by_source for longest in retained.values()]
    source = [number.get(node, node) for by_source in found for node in by_source]
    target = np.repeat(np.arange(len(found)) + first, [len(by_source) for by_source in found])
    none = np.empty(0, np.int64)
    weight, order = (
        np.concatenate([none, *(path[at] for by_source in found for path in by_source.values())]) for at in (0, 1)
    )
    return BoundaryLongestPaths(
        first - 1, awaited_count, draft_count, first + len(found), freeze(np.array(source, np.int32)),
        freeze(target.astype(np.int32)), freeze(weight), freeze(order.astype(np.int32)),
    )  # fmt: skip
