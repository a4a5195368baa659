"""The longest paths of all ranks joined at their rendezvous: when all of a job would be, under many drafts.

rank 0   met 1 ──▶ came to 2 ──┐
                               ▼
rank 1   met 1 ──▶ came to 2 ─▶ met 2 ──▶ end          met 2: the latest of those who came
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, first_of_runs, take_or, unique_rows
from hta_graph.base.errors import QueryError
from hta_graph.graph.edges import EventEdges
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import summary_rows
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints
from hta_graph.multi_rank.join_ranks import ExternalEdges
from hta_graph.multi_rank.what_if.boundary_longest_paths import ORIGIN, BoundaryLongestPaths
from hta_graph.multi_rank.what_if.rank_replay import WINDOW_END, ReplayLeg, longest_paths_of_answer
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.windows import Window
from hta_graph.what_if.changes import Change
from hta_graph.what_if.longest_paths import UNREACHED


@dataclass(frozen=True, eq=False)
class Arrivals(Columns):
    """Who came to a rendezvous: the place of the rank, and which of its awaited points that was.

    Of one rendezvous that which it was, as recorded, stands first.
    """

    rendezvous: Ids
    rank_index: Ids
    awaited: Ids


@dataclass(frozen=True, eq=False)
class IncomingTimes(Columns):
    """What comes to one rank from elsewhere, when (ns): a ``rendezvous``, or (-1) an awaited point of another rank."""

    rendezvous: Ids
    rank_index: Ids
    awaited: Ids
    time: Ints


@dataclass(frozen=True)
class RankBoundary:
    """What one rank is given: the edges from elsewhere, and the rows of its whole graph to answer for.

    ``names`` are those of the instants from which the edges come.
    """

    edges: ExternalEdges
    names: list[str]
    awaited_rows: Ids
    at_end: Bools


@dataclass(frozen=True)
class JobBoundary:
    """Where ranks meet; ``rendezvous`` are rows of the job, ``incoming`` and ``ranks`` are by index of the rank."""

    rendezvous: Ids
    arrivals: Arrivals
    incoming: list[IncomingTimes]
    ranks: list[RankBoundary]


def job_boundary(job: JobGraph) -> JobBoundary:
    """Find where the ranks of a job meet, which may hold few rows of each."""
    kind = job.edge_table.kind
    rows = np.flatnonzero(np.isin(kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)))
    edges = EventEdges.of_rows(job.edge_table, rows, job.timeline.times)
    is_rendezvous = job.event_table.kind == EventKind.RENDEZVOUS
    from_rank = np.flatnonzero(~is_rendezvous[edges.source])
    awaited = _AwaitedPoints(job, edges.take(from_rank))
    awaited_index = np.full(len(rows), -1, np.int64)
    awaited_index[from_rank] = awaited.index
    return JobBoundary(
        job.rendezvous_rows,
        _arrivals(job, edges, is_rendezvous, awaited_index),
        *_rank_boundaries(job, edges, is_rendezvous, awaited_index, awaited),
    )


class _AwaitedPoints:
    """The points of ranks from which edges lead to others, each once, numbered rank by rank."""

    def __init__(self, job: JobGraph, edges: EventEdges) -> None:
        rank_index = job.rank_index_of(edges.source).astype(np.int64)
        key = (rank_index << 40) + (edges.source.astype(np.int64) << 1) + edges.from_end
        keys, at = np.unique(key, return_inverse=True)
        self.rank_index = (keys >> 40).astype(np.int32)
        self.row = ((keys & ((1 << 40) - 1)) >> 1).astype(np.int32)
        self.at_end = (keys & 1).astype(np.bool_)
        first = np.searchsorted(self.rank_index, np.arange(len(job.rank_graphs) + 1))
        self.of_rank = [slice(*bounds) for bounds in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)]
        self.index = at.reshape(-1) - first[self.rank_index[at.reshape(-1)]]
        """For each edge the place of its source among the points of its rank."""


def _arrivals(job: JobGraph, edges: EventEdges, is_rendezvous: Bools, awaited_index: Ints) -> Arrivals:
    """List who came to each rendezvous."""
    at = np.flatnonzero(is_rendezvous[edges.target])
    number = np.searchsorted(job.rendezvous_rows, edges.target[at])
    # Who came last binds it; of others that would come as late the one that came later is preferred.
    position = job.timeline.position[2 * edges.source[at] + edges.from_end[at]]
    order = np.lexsort((-position, number))
    at = at[order]
    return Arrivals.of(
        rendezvous=number[order], rank_index=job.rank_index_of(edges.source[at]), awaited=awaited_index[at]
    )


def _rank_boundaries(
    job: JobGraph, edges: EventEdges, is_rendezvous: Bools, awaited_index: Ints, awaited: _AwaitedPoints
) -> tuple[list[IncomingTimes], list[RankBoundary]]:
    """Give each rank what comes to it, and what to answer."""
    doubtful = np.zeros(len(job.edge_table), np.bool_)
    doubtful[job.doubtful_edges] = True
    outgoing = np.flatnonzero(~is_rendezvous[edges.target])
    rank_index = job.rank_index_of(edges.target[outgoing])
    order = np.argsort(rank_index, kind="stable")
    first = np.searchsorted(rank_index[order], np.arange(len(job.rank_graphs) + 1))
    incoming, ranks = [], []
    for own, begins, past in zip(job.rank_graphs, first[:-1].tolist(), first[1:].tolist(), strict=True):
        summarized = summary_rows(own.graph)
        at = outgoing[order[begins:past]]
        is_direct = ~is_rendezvous[edges.source[at]]
        # What comes from one point several times, a message and its answer, is one instant.
        chosen, number = unique_rows(np.where(is_direct, awaited_index[at], -1), edges.source[at])
        sources = at[chosen]
        incoming.append(
            IncomingTimes.of(
                rendezvous=np.where(is_direct[chosen], -1, np.searchsorted(job.rendezvous_rows, edges.source[sources])),
                rank_index=job.rank_index_of(edges.source[sources]),
                awaited=awaited_index[sources],
                time=edges.source_ns[sources],
            )
        )
        external = ExternalEdges.of(
            instant=number, row=summarized[own.of_rank(edges.target[at])],
            is_message=edges.kind[at] == EdgeKind.POINT_TO_POINT,
            rule=job.edge_table.rule[edges.row[at]], is_doubtful=doubtful[edges.row[at]],
        )  # fmt: skip
        mine = awaited.of_rank[own.index]
        rows = take_or(summarized, own.of_rank(awaited.row[mine]))
        names = [job.name_of(row) for row in edges.source[sources].tolist()]
        ranks.append(RankBoundary(external, names, rows.astype(np.int32), awaited.at_end[mine]))
    return incoming, ranks


RankLeg = tuple[int, ReplayLeg]
"""The place of a rank, and a way there."""

UNREACHED_NODE = 2 * UNREACHED

DRAFTS_AT_ONCE = 8
"""Drafts."""


@dataclass(frozen=True)
class _JobEdges:
    """Edges into nodes, those of one node together; ``incoming``: of what is from elsewhere.

    ``rows`` is where each stood when those who came to rendezvous were followed by each rank's own edges.
    """

    source: Ids
    target: Ids
    incoming: Ids
    rows: Ints

    def into(self, node: int) -> slice:
        """Return the rows of the edges into a node."""
        return slice(*np.searchsorted(self.target, (node, node + 1)).tolist())


@dataclass
class JobLongestPaths:
    """The ways of a job's ranks, in the order of these, for drafts that all ranks were given.

    Args:
        boundary: where the ranks meet.
        paths_by_rank: of each rank its longest paths.
        incoming: of each rank the indices of what others decide.
        columns: of each rank which of its columns each draft has: where nothing changes, ranks answer one for several.
    """

    boundary: JobBoundary
    paths_by_rank: Sequence[BoundaryLongestPaths]
    incoming: Sequence[Ids]
    columns: Sequence[Ids]
    _first: Ints = field(init=False)
    _values: dict[int, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Origin and rendezvous are nodes of all; behind them come each rank's own, which has no others before them.
        own = np.array([paths.node_count - 1 - paths.incoming_count for paths in self.paths_by_rank], np.int64)
        past = 1 + len(self.boundary.rendezvous) + np.cumsum(own)
        self._first, self._count = past - own, int(past[-1])
        self._first_awaited = np.array(
            [self._node(rank_index, paths.first_awaited) for rank_index, paths in enumerate(self.paths_by_rank)],
            np.int64,
        )

    def _node(self, rank_index: int, own: int) -> int:
        """Return the node of the job that one of a rank's own nodes is."""
        return int(self._first[rank_index]) + own - 1 - self.paths_by_rank[rank_index].incoming_count

    # -- when ----------------------------------------------------------------------------------------------------------

    def values(self, draft: int) -> Ints:
        """Return how far (ns) behind the window's start each node is under a draft."""
        if draft not in self._values:
            self._values[draft] = self._values_of([draft])[:, 0]
        return self._values[draft]

    @cached_property
    def ends(self) -> Ints:
        """How far behind the window's start (ns) each rank ends, a column per draft."""
        ends = [self._node(rank_index, paths.end) for rank_index, paths in enumerate(self.paths_by_rank)]
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
        arrivals = np.zeros((len(self.boundary.arrivals), len(drafts)), np.int64)
        own = [paths.weights[:, of[drafts]] for paths, of in zip(self.paths_by_rank, self.columns, strict=True)]
        return np.concatenate([arrivals, *own])[self._edges.rows]

    def _orders(self, draft: int) -> Ids:
        """Return for each edge, of those into one node, which is preferred under a draft: the least."""
        arrivals = np.arange(len(self.boundary.arrivals), dtype=np.int32)
        own = [paths.orders[:, of[draft]] for paths, of in zip(self.paths_by_rank, self.columns, strict=True)]
        return np.concatenate([arrivals, *own])[self._edges.rows]

    def incoming_times(self, rank_index: int, draft: int, recorded: Ints, start_ns: int) -> Ints:
        """Return when (ns) what comes to a rank from elsewhere is under a draft; what no rank decides stays."""
        found = recorded.copy()
        found[self.incoming[rank_index]] = self.values(draft)[self._nodes_of_incoming(rank_index)] + start_ns
        return found

    # -- on which way --------------------------------------------------------------------------------------------------

    def legs_back(self, rank_index: int, draft: int) -> Iterator[RankLeg]:
        """Yield the ways of a longest path under a draft, from the end on a rank back, latest first."""
        edges, values = self._edges, self.values(draft)
        weight, order = self._weights([draft])[:, 0], self._orders(draft)

        def decides(node: int) -> int:
            """Return the edge by which a node is as late as it is; of several the preferred one."""
            own = edges.into(node)
            late = own.start + np.flatnonzero(values[edges.source[own]] + weight[own] == values[node])
            return int(late[np.argmin(order[late])])

        node, begins = self._node(rank_index, self.paths_by_rank[rank_index].end), WINDOW_END
        while True:
            at = decides(node)
            source, incoming = int(edges.source[at]), int(edges.incoming[at])
            if source == ORIGIN or incoming >= 0:
                yield rank_index, (begins, incoming)
            if source == ORIGIN:
                return
            node = source
            if node <= len(self.boundary.rendezvous):
                node = int(edges.source[decides(node)])
            if incoming >= 0:
                rank_index, begins = self._awaited_point_of(node)

    def _awaited_point_of(self, node: int) -> tuple[int, int]:
        """Return of which rank, and which of its awaited points, a node is."""
        rank_index = int(np.searchsorted(self._first, node, side="right")) - 1
        return rank_index, node - int(self._first_awaited[rank_index])

    # -- as one graph --------------------------------------------------------------------------------------------------

    @cached_property
    def _edges(self) -> _JobEdges:
        arrivals = self.boundary.arrivals
        source, target = (
            [self._node_of_awaited(arrivals.rank_index, arrivals.awaited)],
            [1 + arrivals.rendezvous.astype(np.int64)],
        )
        incomings = [np.full(len(arrivals), -1)]
        for rank_index, own in enumerate(self.paths_by_rank):
            nodes = np.arange(own.node_count) - 1 - own.incoming_count + self._first[rank_index]
            nodes[ORIGIN] = ORIGIN
            nodes[1 : 1 + own.incoming_count] = self._nodes_of_incoming(rank_index)
            source.append(nodes[own.source])
            target.append(nodes[own.target])
            from_elsewhere = (own.source > ORIGIN) & (own.source <= own.incoming_count)
            incoming = np.append(self.incoming[rank_index], -1)
            incomings.append(np.where(from_elsewhere, incoming[np.where(from_elsewhere, own.source - 1, -1)], -1))
        targets = np.concatenate(target)
        by_target = np.argsort(targets, kind="stable")
        return _JobEdges(
            np.concatenate(source)[by_target].astype(np.int32), targets[by_target].astype(np.int32),
            np.concatenate(incomings)[by_target].astype(np.int32), by_target,
        )  # fmt: skip

    def _nodes_of_incoming(self, rank_index: int) -> Ints:
        """Return the nodes of what comes to a rank from elsewhere: rendezvous, or awaited points of other ranks."""
        incoming = self.boundary.incoming[rank_index].take(self.incoming[rank_index])
        awaited = self._node_of_awaited(incoming.rank_index.clip(min=0), incoming.awaited)
        return np.where(incoming.rendezvous >= 0, 1 + incoming.rendezvous, awaited)

    def _node_of_awaited(self, rank_index: Ids, awaited: Ids) -> Ints:
        found: Ints = self._first_awaited[rank_index] + awaited
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
            raise QueryError("the ranks' dependencies form a cycle: a rank would have to wait for itself")
        return found


LegsByRank = dict[int, list[list[int]]]
"""By rank where a path goes there (:data:`ReplayLeg`), latest first."""


class JobSolutions:
    """Drafts of a window, joined.

    Args:
        job: the job.
        window: the window.
        points: where its ranks meet.
        answers: by rank.
        groups: the places of the drafts that the ranks answered together.
        drafts: the changes of each.
    """

    def __init__(
        self,
        job: JobGraph,
        window: Window,
        boundary: JobBoundary,
        answers: Mapping[int, ReplayAnswer],
        groups: Sequence[Sequence[int]],
        drafts: Sequence[Sequence[Change]],
    ) -> None:
        self.answers = answers
        self.drafts = drafts
        self._window, self._boundary = window, boundary
        self._ranks = [part.rank for part in job.rank_graphs]
        self._rank_index = {rank: at for at, rank in enumerate(self._ranks)}
        self._recorded_last = last_rank(job, window)
        self._at = {
            draft: (number, column) for number, group in enumerate(groups) for column, draft in enumerate(group)
        }
        every = [answers[rank] for rank in self._ranks]
        self._applicable = {(draft, at) for answer in every for draft, at in answer.applicable}
        paths = [
            longest_paths_of_answer(answer, len(boundary.ranks[at].awaited_rows)) for at, answer in enumerate(every)
        ]
        incoming = [answer.incoming for answer in every]
        columns = [[np.array(own, np.int32) for own in answer.columns] for answer in every]
        self._groups = [
            JobLongestPaths(boundary, [own[number] for own in paths], incoming, [own[number] for own in columns])
            for number in range(len(groups))
        ]
        self._has_end = np.array([answer.has_end for answer in every], np.bool_)

    def applies_to_any_rank(self, draft: int, position: int = 0) -> bool:
        """Return whether a change of a draft concerns anything on any rank."""
        return (draft, position) in self._applicable

    def refusal(self, draft: int, position: int) -> tuple[int, str, str]:
        """Return which rank said first, and how, in Python and on the command line, that a change concerns nothing."""
        return next(
            (rank, text, line)
            for rank, answer in sorted(self.answers.items())
            for at, of, text, line in answer.refused
            if (at, of) == (draft, position)
        )

    def is_unchanged(self, draft: int) -> bool:
        """Return whether a draft leaves everything as long as it was, on all ranks."""
        return all(draft in answer.unchanged for answer in self.answers.values())

    def added_ns(self, draft: int) -> float:
        """Return how much time a draft adds at most, on all ranks together."""
        return float(sum(added for answer in self.answers.values() for at, added in answer.added_ns if at == draft))

    def end(self, draft: int) -> int:
        """Return how long (ns) the window is under a draft."""
        number, column = self._at[draft]
        if not self._has_end.any():
            return self._window.end_ns - self._window.start_ns
        return int(self._groups[number].ends[self._has_end, column].max())

    def path(self, draft: int) -> LegsByRank:
        """Return where the window's path goes under a draft."""
        found: LegsByRank = defaultdict(list)
        if not self._has_end.any():
            return found
        number, column = self._at[draft]
        ends = np.where(self._has_end, self._groups[number].ends[:, column], np.iinfo(np.int64).min)
        latest = np.flatnonzero(ends == ends.max()).tolist()
        # Of several that end then the one that does as recorded.
        last = self._recorded_last if self._recorded_last in latest else latest[0]
        for rank_index, (awaited, incoming) in self._groups[number].legs_back(last, column):
            found[self._ranks[rank_index]].append([awaited, incoming])
        return found

    def incoming_ns(self, rank: int, draft: int) -> list[int]:
        """Return when (ns) what comes to a rank from elsewhere is under a draft."""
        number, column = self._at[draft]
        rank_index = self._rank_index[rank]
        recorded = self._boundary.incoming[rank_index].time
        times: list[int] = (
            self._groups[number].incoming_times(rank_index, column, recorded, self._window.start_ns).tolist()
        )
        return times


def last_rank(job: JobGraph, window: Window) -> int:
    """Return the place of the rank with which a window ends as recorded; -1 if it waits for none."""
    return int(job.rank_index_of(np.array([window.sink.point // 2], np.int32))[0]) if window.sink.point >= 0 else -1
