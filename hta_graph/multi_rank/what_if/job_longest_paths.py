r"""The ways of all ranks joined where they meet: when everything of a job would be, under many drafts at once.

rank 0   met 1 ──▶ came to 2 ──┐
                               ▼
rank 1   met 1 ──▶ came to 2 ─▶ met 2 ──▶ end          met 2: the latest of those who came
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hta_graph.arrays import expand_ranges, first_of_runs
from hta_graph.errors import QueryError
from hta_graph.model import Ids, Ints
from hta_graph.multi_rank.what_if.boundary_longest_paths import ORIGIN, BoundaryLongestPaths
from hta_graph.multi_rank.what_if.meeting_points import JobBoundary
from hta_graph.multi_rank.what_if.skeleton_rank_replay import WINDOW_END, ReplayLeg
from hta_graph.what_if.longest_paths import UNREACHED

__all__ = ["JobLongestPaths", "RankLeg"]

RankLeg = tuple[int, ReplayLeg]
"""The place of a rank, and a way there."""

UNREACHED_NODE = 2 * UNREACHED

DRAFTS_AT_ONCE = 8
"""Drafts."""


@dataclass(frozen=True)
class _JobEdges:
    """Edges into nodes, those of one node together; ``place``: of what is from elsewhere.

    ``rows`` is where each stood when those who came to rendezvous were followed by each rank's own edges.
    """

    source: Ids
    target: Ids
    place: Ids
    rows: Ints

    def into(self, node: int) -> slice:
        """Return the rows of the edges into a node."""
        return slice(*np.searchsorted(self.target, (node, node + 1)).tolist())


@dataclass
class JobLongestPaths:
    """The ways of a job's ranks, in the order of these, for drafts that all ranks were given.

    Args:
        points: where the ranks meet.
        ways: of each rank its ways.
        given: of each rank the places of what others decide.
        columns: of each rank which of its columns each draft has: where nothing changes, ranks tell one for several.
    """

    points: JobBoundary
    ways: Sequence[BoundaryLongestPaths]
    given: Sequence[Ids]
    columns: Sequence[Ids]
    _first: Ints = field(init=False)
    _known: dict[int, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Origin and rendezvous are nodes of all; behind them come each rank's own, which has no others before them.
        own = np.array([ways.nodes - 1 - ways.given for ways in self.ways], np.int64)
        past = 1 + len(self.points.rendezvous) + np.cumsum(own)
        self._first, self._count = past - own, int(past[-1])
        self._first_asked = np.array(
            [self._node(place, ways.first_awaited) for place, ways in enumerate(self.ways)], np.int64
        )

    def _node(self, place: int, own: int) -> int:
        """Return the node of the job that one of a rank's own nodes is."""
        return int(self._first[place]) + own - 1 - self.ways[place].given

    # -- when ----------------------------------------------------------------------------------------------------------

    def values(self, draft: int) -> Ints:
        """Return how far (ns) behind the window's start each node is under a draft."""
        if draft not in self._known:
            self._known[draft] = self._values_of([draft])[:, 0]
        return self._known[draft]

    @cached_property
    def ends(self) -> Ints:
        """How far behind the window's start (ns) each rank ends, a column per draft."""
        ends = [self._node(place, ways.end) for place, ways in enumerate(self.ways)]
        every = range(len(self.columns[0]))
        # A few drafts at a time: of thousands of ranks all of them would take gigabytes.
        pieces = [self._values_of(every[at : at + DRAFTS_AT_ONCE])[ends] for at in every[::DRAFTS_AT_ONCE]]
        return np.concatenate(pieces, axis=1)

    def _values_of(self, drafts: Sequence[int]) -> Ints:
        edges, weight = self._edges, self._weights(drafts)
        found = np.full((self._count, len(drafts)), UNREACHED_NODE, np.int64)
        found[ORIGIN] = 0
        for rows in self._levels:
            reached = found[edges.source[rows]] + weight[rows]
            begins = np.flatnonzero(first_of_runs(edges.target[rows]))
            found[edges.target[rows[begins]]] = np.maximum.reduceat(reached, begins, axis=0)
        return found

    def _weights(self, drafts: Sequence[int]) -> Ints:
        """Return the weight (ns) of each edge, a column per draft; coming to a rendezvous weighs nothing."""
        comes = np.zeros((len(self.points.comes), len(drafts)), np.int64)
        own = [ways.weights[:, of[drafts]] for ways, of in zip(self.ways, self.columns, strict=True)]
        return np.concatenate([comes, *own])[self._edges.rows]

    def _orders(self, draft: int) -> Ids:
        """Return for each edge, of those into one node, which is preferred under a draft: the least."""
        comes = np.arange(len(self.points.comes), dtype=np.int32)
        own = [ways.orders[:, of[draft]] for ways, of in zip(self.ways, self.columns, strict=True)]
        return np.concatenate([comes, *own])[self._edges.rows]

    def incoming_times(self, place: int, draft: int, recorded: Ints, start_ns: int) -> Ints:
        """Return when (ns) what comes to a rank from elsewhere is under a draft; what nobody decides stays."""
        found = recorded.copy()
        found[self.given[place]] = self.values(draft)[self._nodes_of_incoming(place)] + start_ns
        return found

    # -- on which way --------------------------------------------------------------------------------------------------

    def legs_back(self, place: int, draft: int) -> Iterator[RankLeg]:
        """Yield the ways of a longest path under a draft, from the end on a rank back, latest first."""
        edges, values = self._edges, self.values(draft)
        weight, order = self._weights([draft])[:, 0], self._orders(draft)

        def decides(node: int) -> int:
            """Return the edge by which a node is as late as it is; of several the preferred one."""
            own = edges.into(node)
            late = own.start + np.flatnonzero(values[edges.source[own]] + weight[own] == values[node])
            return int(late[np.argmin(order[late])])

        node, begins = self._node(place, self.ways[place].end), WINDOW_END
        while True:
            at = decides(node)
            source, given = int(edges.source[at]), int(edges.place[at])
            if source == ORIGIN or given >= 0:
                yield place, (begins, given)
            if source == ORIGIN:
                return
            node = source
            if node <= len(self.points.rendezvous):
                node = int(edges.source[decides(node)])
            if given >= 0:
                place, begins = self._awaited_point_of(node)

    def _awaited_point_of(self, node: int) -> tuple[int, int]:
        """Return of which rank, and which of its asked points, a node is."""
        place = int(np.searchsorted(self._first, node, side="right")) - 1
        return place, node - int(self._first_asked[place])

    # -- as one graph --------------------------------------------------------------------------------------------------

    @cached_property
    def _edges(self) -> _JobEdges:
        meets = self.points.comes
        source, target = [self._node_of_awaited(meets.part, meets.asked)], [1 + meets.rendezvous.astype(np.int64)]
        places = [np.full(len(meets), -1)]
        for place, own in enumerate(self.ways):
            nodes = np.arange(own.nodes) - 1 - own.given + self._first[place]
            nodes[ORIGIN] = ORIGIN
            nodes[1 : 1 + own.given] = self._nodes_of_incoming(place)
            source.append(nodes[own.source])
            target.append(nodes[own.target])
            from_elsewhere = (own.source > ORIGIN) & (own.source <= own.given)
            given = np.append(self.given[place], -1)
            places.append(np.where(from_elsewhere, given[np.where(from_elsewhere, own.source - 1, -1)], -1))
        targets = np.concatenate(target)
        by_target = np.argsort(targets, kind="stable")
        return _JobEdges(
            np.concatenate(source)[by_target].astype(np.int32), targets[by_target].astype(np.int32),
            np.concatenate(places)[by_target].astype(np.int32), by_target,
        )  # fmt: skip

    def _nodes_of_incoming(self, place: int) -> Ints:
        """Return the nodes of what comes to a rank from elsewhere: rendezvous, or asked points of other ranks."""
        known = self.points.instants[place].take(self.given[place])
        asked = self._node_of_awaited(known.part.clip(min=0), known.asked)
        return np.where(known.rendezvous >= 0, 1 + known.rendezvous, asked)

    def _node_of_awaited(self, part: Ids, asked: Ids) -> Ints:
        found: Ints = self._first_asked[part] + asked
        return found

    @cached_property
    def _levels(self) -> list[Ints]:
        """The edges in rounds: those into the nodes of whose causes all are known, by node.

        Raises:
            QueryError: they form a cycle.
        """
        edges = self._edges
        missing = np.bincount(edges.target, minlength=self._count)
        by_source = np.argsort(edges.source, kind="stable")
        first = np.searchsorted(edges.source[by_source], np.arange(self._count + 1))
        into = np.searchsorted(edges.target, np.arange(self._count + 1))
        ready, known, found = np.flatnonzero(missing == 0), 0, list[Ints]()
        while len(ready):
            known += len(ready)
            target = edges.target[by_source[expand_ranges(first[ready], first[ready + 1] - first[ready])[1]]]
            np.subtract.at(missing, target, 1)
            ready = np.unique(target[missing[target] == 0])
            if len(ready):
                found.append(expand_ranges(into[ready], into[ready + 1] - into[ready])[1])
        if known < self._count:
            raise QueryError("the ranks' dependencies form a cycle: one would have to wait for itself")
        return found
