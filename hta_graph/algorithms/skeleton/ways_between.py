r"""A rank's longest ways under many weights at once, between few nodes: what others decide, and what they ask for.

origin ──┐                          origin: all times of the rank that are given
met 1  ──┴▶ a ── b ──▶ came to 2    met: when a meeting with others was; came: when the rank came to one
met 2  ──────▶ c ──────▶ end        a, b, c: passed over, but for those where ways meet and fan out again

A node goes while that makes no more edges than it had: without any of them every meeting leads to every later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.replay.longest_paths import LongestPaths
from hta_graph.columns import freeze
from hta_graph.model import Ids, Ints

__all__ = ["ORIGIN", "WaysBetween", "ways_between"]

ORIGIN = 0
"""The node of what is given."""

Weights = Ints
Entries = dict[int, Weights]
"""From which nodes ways lead to one, and how far (ns) it lies behind each, a number per draft; first what is preferred
of several that are equally late."""


@dataclass(frozen=True)
class WaysBetween:
    """Edges between nodes: the origin, so many ``given`` points, nodes in between, the ``asked`` points, the end.

    ``source``, ``target``: nodes, edges into one node together, causes first; ``weight`` (ns): one per draft, row by
    row. What comes from the origin weighs from the window's start on.
    """

    given: int
    asked: int
    drafts: int
    nodes: int
    source: Ids
    target: Ids
    weight: Ints

    @property
    def first_asked(self) -> int:
        """The node of the first asked point; the others follow it, and then the end."""
        return self.nodes - 1 - self.asked

    @property
    def end(self) -> int:
        """The node of the end."""
        return self.nodes - 1

    @property
    def weights(self) -> Ints:
        """The weights (ns), a row per edge and a column per draft."""
        return self.weight.reshape(-1, self.drafts)


def ways_between(
    paths: LongestPaths,
    weights: Iterable[Ints],
    start: Ints,
    *,
    given: Ids,
    asked: Ids,
    ends: Ids,
    tails: Ints,
) -> WaysBetween:
    """Contract the longest ways to asked points and to the latest of some ends.

    Args:
        paths: the shape of a window's edges.
        weights: of each edge (ns), per draft.
        start: the values (ns, behind the window's start) of points that are roots.
        given: points, all of them roots, whose values others decide.
        asked: points whose values are asked for.
        ends: points of which the latest, with its tail, is the window's end.
        tails: how long (ns) the window goes on behind each end, a row per draft.
    """
    points = np.concatenate([asked, ends]).astype(np.int32)
    joined, behind = paths.in_line(weights, points)
    behind[len(asked) :] += tails.T
    nodes = _Nodes(paths, start, given)
    every = [
        nodes.entries(zip(heads, joined[first : first + len(heads)], strict=True))
        for first, heads in _entries_of_meetings(paths)
    ]
    count = len(every)
    heads = paths.head[points].tolist()
    own = list(zip(heads, behind, strict=True))
    every += [nodes.entries([one]) for one in own[: len(asked)]]
    every.append(nodes.entries(own[len(asked) :]))
    kept = _contract(every, count, nodes.first)
    return _as_columns(every, [*kept, *range(count, len(every))], nodes.first, len(asked), behind.shape[1])


def _entries_of_meetings(paths: LongestPaths) -> Iterator[tuple[int, list[int]]]:
    """Yield of each meeting, causes first, where its entries begin and the points from which these lead."""
    meets = paths.meetings
    heads = paths.nodes[meets.head].tolist()
    for first, count in zip(meets.first.tolist(), meets.count.tolist(), strict=True):
        yield first, heads[first : first + count]


class _Nodes:
    """The numbers of points as nodes; points whose values are given for good are the origin, so far behind it."""

    def __init__(self, paths: LongestPaths, start: Ints, given: Ids) -> None:
        self.first = 1 + len(given)
        """The number of the first node where ways meet."""
        met: list[int] = paths.nodes[paths.meetings.node].tolist()
        self._start, self._number = start, {point: place for place, point in enumerate(given.tolist(), 1)}
        self._number |= {point: place for place, point in enumerate(met, self.first)}

    def entries(self, ways: Iterable[tuple[int, Weights]]) -> Entries:
        """Return the entries of a node to which ways lead from points, each so far (ns) behind it."""
        found: Entries = {}
        for point, weight in ways:
            node = self._number.get(point, ORIGIN)
            _add(found, node, weight if node else weight + self._start[point])
        return found


def _add(entries: Entries, node: int, weight: Weights) -> None:
    """Let a way lead from a node; of two the longer one counts."""
    known = entries.get(node)
    entries[node] = weight if known is None else np.maximum(known, weight)


def _contract(every: list[Entries], count: int, first: int) -> list[int]:
    """Take out of the first nodes, so many, what need not be told apart; return the places of those that are left.

    Args:
        every: the entries of nodes where ways meet, causes first, and of the asked ones behind them; they are changed.
        count: how many nodes ways meet in.
        first: the number of the first of them.
    """
    users, kept = _users(every, count, first)
    pending = [node for node in range(count) if kept[node]]
    while pending:
        touched: set[int] = set()
        for node in pending:
            comes, goes = every[node], users[node]
            if not kept[node] or len(comes) * len(goes) > len(comes) + len(goes):
                continue
            kept[node] = False
            for user in goes:
                every[user] = _passed_over(first + node, every[user], comes)
            before = {source - first for source in comes if source >= first}
            for source in before:
                users[source].discard(node)
                users[source] |= goes
            touched |= before
            touched.update(user for user in goes if user < count)
        pending = sorted(touched)
    return [node for node in range(count) if kept[node]]


def _users(every: Sequence[Entries], count: int, first: int) -> tuple[list[set[int]], list[bool]]:
    """Return what follows each node, and whether anything does in the end."""
    users: list[set[int]] = [set() for _ in range(count)]
    for node in range(len(every) - 1, -1, -1):
        if node >= count or users[node]:
            for source in every[node]:
                if source >= first:
                    users[source - first].add(node)
    return users, [bool(own) for own in users]


def _passed_over(node: int, entries: Entries, comes: Entries) -> Entries:
    """Return entries in which a node is replaced by what leads to it, at its place in their order."""
    found: Entries = {}
    for source, weight in entries.items():
        if source != node:
            _add(found, source, weight)
            continue
        for before, more in comes.items():
            _add(found, before, more + weight)
    return found


def _as_columns(every: Sequence[Entries], kept: Sequence[int], first: int, asked: int, drafts: int) -> WaysBetween:
    number = {first + node: first + place for place, node in enumerate(kept)}
    chosen = [every[node] for node in kept]
    source = [number.get(node, node) for entries in chosen for node in entries]
    target = np.repeat(np.arange(len(chosen)) + first, [len(entries) for entries in chosen])
    rows = [weight for entries in chosen for weight in entries.values()]
    return WaysBetween(
        first - 1, asked, drafts, first + len(chosen), freeze(np.array(source, np.int32)),
        freeze(target.astype(np.int32)), freeze(np.concatenate([np.empty(0, np.int64), *rows])),
    )  # fmt: skip
