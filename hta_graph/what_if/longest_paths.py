r"""The longest paths to all points of a graph at once: the latest of all that a point waits for decides its time.

Most points have one cause; their times are sums along a lane, which is one cumulative sum. Only where ways meet a
decision is due, one after the other:

thread   a ── b ── c ── d ─────▶ e ── f        a root; b, c, d, f: sums from a, from e
                    \\          ↗
stream               g ── h ──                 g, h: sums from a; e: the later of d and h
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import distinct, expand_ranges, first_of_runs, freeze, summed_by, take_or
from hta_graph.base.errors import QueryError
from hta_graph.model import Bools, Floats, Ids, Ints

UNREACHED = -(2**61)
"""Below this a value (ns) says that no way leads to a point."""
LEFT_OUT = UNREACHED // 2
"""The weight (ns) of an edge that is left out: any other cause of its target is later."""


@dataclass(frozen=True)
class JoinNodes:
    """Where ways meet, in an order in which causes come first; ``node`` numbers these points and the roots.

    Entry by entry one edge: from the node ``head`` over the point ``source`` to one; ``first`` and ``count`` are
    the entries of each rendezvous, and ``node`` its own number.
    """

    edge: Ids
    source: Ids
    head: Ids
    first: Ints
    count: Ints
    node: Ids


class LongestPaths:
    """The shape of a graph, for longest paths with any weights; it is found once, whatever the weights are.

    Args:
        source: where each edge comes from (a point).
        target: where it leads.
        lane_order: all points, such that as many as possible stand right behind their cause.
        place: where each point stands in an order of causes; edges that go back in it are found and dealt with.
        fixed: points that keep the value that they are given; so do those without a cause.
        preferred: edges that are named as the cause where several are equally late.
        kept: edges that count; None: all.

    Raises:
        QueryError: the edges form a cycle.
    """

    def __init__(
        self,
        source: Ids,
        target: Ids,
        lane_order: Ids,
        place: Ids | Ints,
        fixed: Bools,
        preferred: Bools,
        kept: Bools | None = None,
    ) -> None:
        self.source, self.target = source, target
        self._place, self._preferred = place, preferred
        used = np.flatnonzero(~fixed[target] if kept is None else ~fixed[target] & kept)
        causes = np.bincount(target[used], minlength=len(fixed))
        self.is_root = freeze(causes == 0)
        self._meets = causes > 1
        self._cause = np.full(len(fixed), -1, np.int32)
        self._cause[target[used]] = used
        self._cause[self._meets] = -1
        self.points_of_runs = lane_order[~self.is_root[lane_order]]
        self._make_runs()
        self._joins = used[self._meets[target[used]]]
        self.meetings = self._ordered_joins()

    def _make_runs(self) -> None:
        """Cut the points into runs in which each follows its only cause, and find the node that each hangs on."""
        points = self.points_of_runs
        before = np.append(self.source, -1)[self._cause[points]]
        follows = np.zeros(len(points), np.bool_)
        follows[1:] = before[1:] == points[:-1]
        run = np.cumsum(~follows) - 1
        self.run_of = np.full(len(self.is_root), -1, np.int32)
        self.run_of[points] = run
        self.run_start = np.flatnonzero(~follows)
        self._run_length = np.diff(np.append(self.run_start, len(points)))
        self.followed_edge = self._cause[points]
        first = points[self.run_start]
        hangs_on = np.where(self._meets[first], -1, before[self.run_start])
        # Runs that hang on others, level by level: of most runs the first point is a meeting or follows a root.
        self.head = np.arange(len(self.is_root), dtype=np.int32)
        head_of_run = np.where(hangs_on < 0, first, -1).astype(np.int32)
        self.levels: list[tuple[Ints, Ids]] = []
        hanging = np.flatnonzero(hangs_on >= 0)
        while len(hanging):
            above = self.run_of[hangs_on[hanging]]
            known = np.where(above < 0, hangs_on[hanging], head_of_run[above])
            ready = known >= 0
            if not ready.any():
                raise QueryError("the changed dependencies form a cycle; remove one of the added edges")
            head_of_run[hanging[ready]] = known[ready]
            self.levels.append((hanging[ready], hangs_on[hanging[ready]]))
            hanging = hanging[~ready]
        self._head_of_run = head_of_run
        self.head[points] = head_of_run[run]

    def _ordered_joins(self) -> JoinNodes:
        joins = self._joins
        head = self.head[self.source[joins]]
        meeting = distinct(self.target[joins])
        place = self._causes_first(meeting, head, self.target[joins])
        order = np.lexsort((-self._place[self.source[joins]], ~self._preferred[joins], place[self.target[joins]]))
        joins, head = joins[order], head[order]
        first = np.flatnonzero(first_of_runs(self.target[joins]))
        node, count = self.node_of_point, np.diff(np.append(first, len(joins)))
        return JoinNodes(
            joins.astype(np.int32), self.source[joins], node[head], first, count, node[self.target[joins[first]]]
        )

    @cached_property
    def nodes(self) -> Ids:
        """The rendezvous, and the roots that anything depends on."""
        return distinct(np.concatenate([self.head[self.source[self._joins]], self.target[self._joins]]))

    @cached_property
    def node_of_point(self) -> Ids:
        """The place of each point among the nodes (-1: it is none)."""
        found = np.full(len(self.is_root), -1, np.int32)
        found[self.nodes] = np.arange(len(self.nodes), dtype=np.int32)
        return found

    @cached_property
    def node_of_entry(self) -> Ids:
        """The node that each entry of the rendezvous leads to."""
        return np.repeat(self.meetings.node, self.meetings.count)

    def _causes_first(self, meeting: Ids, head: Ids, target: Ids) -> Ints:
        """Return for each point a place such that causes of rendezvous stand before them."""
        place = self._place.astype(np.int64)
        back = self._meets[head] & (place[head] >= place[target])
        if not back.any():
            return place
        import rustworkx

        # Clock faults and edges that were added: the order of time is not that of causes.
        number = np.full(len(self.is_root), -1, np.int64)
        number[meeting] = np.arange(len(meeting))
        shape: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
        shape.add_nodes_from(range(len(meeting)))
        inner = self._meets[head]
        shape.add_edges_from_no_data(
            list(zip(number[head[inner]].tolist(), number[target[inner]].tolist(), strict=True))
        )
        try:
            sorted_nodes = rustworkx.topological_sort(shape)
        except rustworkx.DAGHasCycle:
            raise QueryError("the changed dependencies form a cycle; remove one of the added edges") from None
        place[meeting[np.array(list(sorted_nodes), np.int64)]] = np.arange(len(meeting))
        return place

    # -- with weights --------------------------------------------------------------------------------------------------

    def _along_runs(self, weight: Ints | Floats) -> tuple[Any, Any]:
        """Add up weights along all runs, one behind the other.

        Returns:
            for each point of the runs, and last for none, the sum (ns) up to it, and for each run, and last for none,
            how far (ns) its first point lies behind the node that it hangs on.
        """
        summed = np.empty(len(self.points_of_runs) + 1, weight.dtype)
        along = summed[:-1]
        np.take(weight, self.followed_edge, out=along, mode="wrap")
        along[self.run_start] = 0
        np.cumsum(along, out=along)
        summed[-1] = 0
        first = np.zeros(len(self.run_start) + 1, weight.dtype)
        for runs, above in self.levels:
            first[runs] = self._behind(summed, first, self._places_of(above))
            first[runs] += weight[self.followed_edge[self.run_start[runs]]]
        return summed, first

    def _places_of(self, points: Ids) -> tuple[Ids, Ids, Ints]:
        """Return where points stand in the runs, in which run, and where that begins; -1 in none."""
        run = self.run_of[points]
        return self.place_in_run[points], run, np.append(self.run_start, -1)[run]

    @staticmethod
    def _behind(summed: Any, first: Any, places: tuple[Ids, Ids, Ints]) -> Any:
        """Return how far (ns) points lie behind the nodes that they hang on."""
        at, run, begin = places
        return summed[at] - summed[begin] + first[run]

    def values(self, weight: Ints | Floats, start: Ints) -> Any:
        """Return the value (ns) of every point: that of ``start`` where it is fixed, else the latest way to it.

        Args:
            weight: of each edge (ns).
            start: the value of each point that is a root.
        """
        summed, first = self._along_runs(weight)
        joined = self._behind(summed, first, self._places_of_joins) + weight[self.meetings.edge]
        found = start.astype(weight.dtype)
        found[self.nodes] = self.decided(start[self.nodes], joined)
        # From each node on as far as its runs reach; summed in this order, a node itself stays what it is.
        along = summed[:-1]
        along -= np.repeat(along[self.run_start], self._run_length)
        along += np.repeat(found[self._head_of_run] + first[:-1], self._run_length)
        found[self.points_of_runs] = along
        return found

    def in_line(self, weights: Iterable[Ints], points: Ids) -> tuple[Ints, Ints]:
        """Return under many weights, a column each, how far (ns) points lie behind nodes.

        Returns:
            of each entry of the rendezvous how far that lies behind the entry's node, and of each of ``points``
            how far it lies behind its own.
        """
        meets, joined, behind = self.meetings, list[Ints](), list[Ints]()
        places = self._places_of(points)
        for weight in weights:
            along = self._along_runs(weight)
            joined.append(self._behind(*along, self._places_of_joins) + weight[meets.edge])
            behind.append(self._behind(*along, places))
        if not behind:
            return np.empty((len(meets.edge), 0), np.int64), np.empty((len(points), 0), np.int64)
        return np.stack(joined, axis=1), np.stack(behind, axis=1)

    def roots_of(self, weight: Ints, values: Ints, points: Ids) -> Ids:
        """Return the root at which a longest path to each of some points begins."""
        chosen = self._chosen(weight, values)
        leads = np.arange(len(self.is_root), dtype=np.int32)
        met = np.flatnonzero(chosen >= 0)
        leads[met] = self.head[self.source[chosen[met]]]
        # Twice as far in each round.
        while not np.array_equal(further := leads[leads], leads):
            leads = further
        found: Ids = leads[self.head[points]]
        return found

    def trace_back(self, weight: Ints | Floats, values: Ints | Floats, point: int) -> Ids:
        """Return the edges of a longest path to a point, latest first."""
        return self._edges_back(self._chosen(weight, values), point)

    def _edges_back(self, chosen: Ids, point: int) -> Ids:
        """Return the same, given the edge that decides at each rendezvous, as far as the path passes it."""
        # From the first point of each run on it goes on at the source of what decided that: a place in another run.
        first = self.points_of_runs[self.run_start]
        edge = np.where(self._meets[first], chosen[first], self._cause[first])
        before = take_or(self.source, edge)
        runs_before, run = take_or(self.run_of, before).tolist(), int(self.run_of[point])
        passed = list[int]()
        while run >= 0:
            passed.append(run)
            run = runs_before[run]
        runs = np.array(passed, np.int64)
        ends = self.place_in_run[np.append(point, before[runs[:-1]])].astype(np.int64)
        return self._edges_of_runs(self.run_start[runs], ends[: len(runs)], chosen)

    def edges_over(self, entries: Ints, point: int) -> Ids:
        """Return the edges of a path to a point, latest first, given the entries of the rendezvous that it takes."""
        edges, chosen = self.meetings.edge[entries], np.full(len(self.is_root), -1, np.int32)
        chosen[self.target[edges]] = edges
        return self._edges_back(chosen, point)

    def passed_edges(self, entries: Ints, point: int) -> Bools:
        """Mark the same: quicker than in their order."""
        edges, steps = self.meetings.edge[entries], np.zeros(len(self.points_of_runs) + 1, np.int8)
        points = np.append(self.source[edges], np.int32(point))
        while len(points := points[self.run_of[points] >= 0]):
            first = self.run_start[self.run_of[points]]
            cause = self.followed_edge[first]
            np.add.at(steps, first + (cause < 0), 1)
            np.add.at(steps, self.place_in_run[points] + 1, -1)
            # Where runs hang on others.
            points = self.source[cause[cause >= 0]]
        found = np.zeros(len(self.source), np.bool_)
        found[edges] = found[self.followed_edge[np.flatnonzero(np.cumsum(steps[:-1], dtype=np.int8))]] = True
        return found

    def _edges_of_runs(self, begins: Ints, ends: Ints, chosen: Ids) -> Ids:
        """Return what caused the points of runs, each from its end back to its first point, end to end."""
        run, nth = expand_ranges(np.zeros_like(begins), ends - begins + 1)
        points = self.points_of_runs[ends[run] - nth]
        edges = np.where(self._meets[points], chosen[points], self._cause[points])
        found: Ids = edges.astype(np.int32)
        return found

    @cached_property
    def _places_of_joins(self) -> tuple[Ids, Ids, Ints]:
        return self._places_of(self.meetings.source)

    @cached_property
    def place_in_run(self) -> Ids:
        """The place of each point among those of the runs (-1: in none)."""
        place = np.full(len(self.is_root), -1, np.int32)
        place[self.points_of_runs] = np.arange(len(self.points_of_runs), dtype=np.int32)
        return place

    def _chosen(self, weight: Ints | Floats, values: Ints | Floats) -> Ids:
        """Return for each rendezvous the edge that decided, of equals the preferred one."""
        meets = self.meetings
        target = self.target[meets.edge]
        if np.issubdtype(weight.dtype, np.integer):
            reached = values[meets.source] + weight[meets.edge]
        else:
            # Summed as when it was decided, so that rounding is the same.
            behind = self._behind(*self._along_runs(weight), self._places_of_joins)
            reached = values[self.head[meets.source]] + (behind + weight[meets.edge])
        decides = np.flatnonzero(reached == values[target])
        chosen = np.full(len(self.is_root), -1, np.int32)
        # Written from the back: of several the first one, which is preferred, stays.
        chosen[target[decides][::-1]] = meets.edge[decides][::-1]
        return chosen

    @cached_property
    def _pairs(self) -> tuple[list[int], list[int], list[int], Ints, Ints]:
        """The rendezvous as decisions between two: of the third entry and further ones with what came out before.

        Returns:
            lists of the node that is decided, the node of one entry, and that of the other; then the entries: the one
            (-1: what came out before, which weighs nothing) and the other.
        """
        meets = self.meetings
        of, other = expand_ranges(meets.first + 1, meets.count - 1)
        is_new = first_of_runs(of)
        node, one = meets.node[of], np.where(is_new, meets.first[of], -1)
        head = np.where(is_new, meets.head[meets.first[of]], node)
        found: list[list[int]] = [column.tolist() for column in (node, head, meets.head[other])]
        return found[0], found[1], found[2], one, other

    @cached_property
    def _chains(self) -> tuple[Ints, Ints, tuple[Ints, Ints], tuple[Ints, Ints]]:
        """The same pairs as chains, each of which is decided at once: a running maximum behind summed weights.

        stream    a ──▶ b ──▶ c ──▶ d        each is the later of the one before it in the chain and of something
        thread    ▲     ▲     ▲     ▲        that is known when the chain begins

        Returns:
            where chains begin; where each node stands among the nodes with the pairs behind them; then, of each pair,
            of what stands before it in its chain and of the other, where that stands, and its entry (-1: none).
        """
        nodes, heads, others, one, other = self._pairs
        count, slot = len(self.nodes), [*range(len(self.nodes))]
        # Of what stands where: the round in which it is known, its chain, and whether that ends with it.
        known, chain, is_last = [0] * count, [-1] * count, [False] * count
        before, beside, turned, chains = list[int](), list[int](), list[bool](), 0
        for at, (node, head, second) in enumerate(zip(nodes, heads, others, strict=True), count):
            one_at, other_at = slot[head], slot[second]
            turns = known[other_at] > known[one_at] and is_last[other_at]
            if turns:
                one_at, other_at = other_at, one_at
            follows = known[one_at] > known[other_at] and is_last[one_at]
            known.append(known[one_at] if follows else max(known[one_at], known[other_at]) + 1)
            chain.append(chain[one_at] if follows else chains)
            chains += not follows
            is_last[one_at] &= not follows
            is_last.append(True)
            slot[node] = at
            before.append(one_at)
            beside.append(other_at)
            turned.append(turns)
        order = np.lexsort((chain[count:], known[count:]))
        place = np.arange(count + len(order))
        place[count + order] = np.arange(count, count + len(order))
        swaps = np.array(turned, np.bool_)
        own, added = np.where(swaps, other, one)[order], np.where(swaps, one, other)[order]
        begins = np.flatnonzero(first_of_runs(np.array(chain[count:], np.int64)[order]))
        stands, stand_beside = (place[np.array(column, np.int64)[order]] for column in (before, beside))
        return begins, place[slot], (stands, own), (stand_beside, added)

    def decided_by_many(self, start: Ints, weight: Ints) -> Ints:
        """Decide at all rendezvous, for all weights (columns) at once, chain by chain."""
        first, slot, (before, own), (beside, other) = self._chains
        nothing, count = np.zeros((1, weight.shape[1]), np.int64), len(start)
        weights = np.concatenate([weight, nothing])
        along = np.cumsum(weights[own], axis=0)
        along -= np.repeat(np.concatenate([nothing, along])[first], np.diff(first, append=len(own)), axis=0)
        reached, values = weights[other] - along, np.empty((count + len(own), weight.shape[1]), np.int64)
        values[:count] = start[:, None]
        every = pairwise([*first.tolist(), len(own)])
        for (begin, end), of in zip(every, before[first].tolist(), strict=True):
            chain = reached[begin:end]
            chain += values[beside[begin:end]]
            np.maximum(chain[0], values[of], out=chain[0])
            np.maximum.accumulate(chain, axis=0, out=chain)
            np.add(chain, along[begin:end], out=values[count + begin : count + end])
        found: Ints = values[slot]
        return found

    def decided(self, value: Ints, weight: Ints | Floats) -> Any:
        """Decide at one rendezvous after the other; plain lists, since one number at a time is quicker in them."""
        nodes, heads, others, one, other = self._pairs
        known = value.tolist()
        own, added = take_or(weight, one, otherwise=0).tolist(), weight[other].tolist()
        for node, head, length, second, more in zip(nodes, heads, own, others, added, strict=True):
            latest, end = known[head] + length, known[second] + more
            known[node] = latest if latest >= end else end
        return np.array(known, weight.dtype)


class ContractedPaths:
    """Longest paths to some points under many weights, quicker than of all points: between rendezvous ways are summed.

    It matters how much was saved before where runs begin, and where ways lead on from them: at their stops.

    run    b ── c ── d ── e ── f         of b, d and f it matters; what c weighs less is saved at d, and at f
           |         |         |
    stop   0         1         2

    Args:
        paths: the graph.
        weight: of each edge (ns).
        points: those of interest.
    """

    def __init__(self, paths: LongestPaths, weight: Ints, points: Ids) -> None:
        self.paths, self.points = paths, points
        self._head = paths.head[points]
        self._node = paths.node_of_point[self._head]
        self._entries, self._points = (columns[:, 0] for columns in paths.in_line([weight], points))
        asked = [paths.meetings.source, points, *(above for _, above in paths.levels)]
        is_stop = np.zeros(len(paths.points_of_runs) + 1, np.bool_)
        for one in asked:
            is_stop[paths.place_in_run[one]] = True
        is_stop[paths.run_start], is_stop[-1] = True, False
        self._stops = int(is_stop.sum())
        before = np.append(np.cumsum(is_stop[:-1]) - is_stop[:-1], -1).astype(np.int32)
        begins = before[np.append(paths.run_start, -1)]
        # Of each the stop, that where its run begins, and the run; -1 in none.
        of = ((before[paths.place_in_run[one]], paths.run_of[one]) for one in asked)
        self._of_entries, self._of_points, *self._of_levels = [(stop, begins[run], run) for stop, run in of]
        self._slot = self._slots(before)

    def _slots(self, before: Ids) -> Ids:
        """Return where what each edge weighs less is summed: by the next stop, by entry, or by the run that it begins.

        Behind the stops one slot takes what is saved nowhere.
        """
        paths, slot = self.paths, np.full(len(self.paths.source), self._stops, np.int32)
        follows = np.ones(len(paths.points_of_runs), np.bool_)
        follows[paths.run_start] = False
        inner = np.flatnonzero(follows)
        slot[paths.followed_edge[inner]] = before[inner]
        slot[paths.meetings.edge] = self._stops + 1 + np.arange(len(paths.meetings.edge))
        for runs, _ in paths.levels:
            slot[paths.followed_edge[paths.run_start[runs]]] = self._stops + 1 + len(paths.meetings.edge) + runs
        return slot

    def savings(self, edges: Ids | Ints, less: Ints) -> tuple[Ints, Ints]:
        """Return how much is saved (ns) from their nodes up to each entry of the rendezvous, and up to each point.

        Args:
            edges: edges that weigh less, perhaps more than once.
            less: by how much (ns).
        """
        entries = len(self.paths.meetings.edge)
        sums = summed_by(self._slot[edges], less, self._stops + 1 + entries + len(self.paths.run_start))
        # What is in no run stands last: it is taken from itself below.
        saved, own, begun = np.split(sums, [self._stops + 1, self._stops + 1 + entries])
        np.cumsum(saved[:-1], out=saved[:-1])
        first = np.zeros(len(self.paths.run_start) + 1, np.int64)
        for (runs, _), above in zip(self.paths.levels, self._of_levels, strict=True):
            first[runs] = _saved_up_to(saved, first, above) + begun[runs]
        return _saved_up_to(saved, first, self._of_entries) + own, _saved_up_to(saved, first, self._of_points)

    def latest(
        self, changes: Iterable[tuple[Ids | Ints, Ints, Ints]], start: Ints, first: Sequence[int]
    ) -> tuple[Ints, Ints, Ints]:
        """Return when (ns) the latest of the points is under many weights, and what was decided for that.

        Args:
            changes: by how much (ns) some edges weigh less, each time, as for :meth:`savings`; and how much later (ns)
                than its point each of ``points`` counts.
            start: the value of each point that is a root.
            first: where each group of points begins; none is empty.

        Returns:
            a row for each change, a column for each group; and, a column for each change, how far entries lie behind
            nodes, and the nodes, as in :class:`DecidedPaths`.
        """
        paths, group = self.paths, np.searchsorted(first, np.arange(len(self.points)), side="right")
        # Of all points that hang on one node only the latest one counts, and is kept.
        order = np.lexsort((self._head, group))
        begins = np.flatnonzero(first_of_runs(self._head[order], group[order]))
        head, node = self._head[order[begins]], self._node[order[begins]]
        joined, behind = list[Ints](), list[Ints]()
        for edges, less, later in changes:
            of_entries, of_points = self.savings(edges, less)
            joined.append(self._entries - of_entries)
            behind.append(np.maximum.reduceat((self._points - of_points + later)[order], begins))
        if not behind:
            return np.empty((0, len(first)), np.int64), np.empty((0, 0), np.int64), np.empty((0, 0), np.int64)
        entries = np.stack(joined, axis=1)
        known = paths.decided_by_many(start[paths.nodes], entries)
        decided = node >= 0
        value = np.repeat(start[head][None], len(behind), axis=0)
        value[:, decided] = known[node[decided]].T
        reached = np.stack(behind) + value
        latest = np.maximum.reduceat(reached, np.flatnonzero(first_of_runs(group[order[begins]])), axis=1)
        return latest, entries, known

    def with_savings(self, of_entries: Any, of_points: Any, start: Ints) -> DecidedPaths:
        """Return the paths where so much is saved up to entries and points, and the values (ns) of roots."""
        entries = self._entries - of_entries
        return self.with_decided(entries, self.paths.decided(start[self.paths.nodes], entries), of_points, start)

    def with_decided(
        self, entries: Ints | Floats, nodes: Ints | Floats, of_points: Ints | Floats, start: Ints
    ) -> DecidedPaths:
        """Return the same where the nodes are known."""
        values = np.where(self._node >= 0, np.append(nodes, 0)[self._node], start[self._head])
        return DecidedPaths(self.paths, entries, nodes, values + (self._points - of_points))


Places = tuple[Ids, Ids, Ids]


def _saved_up_to(saved: Ints, first: Ints, places: Places) -> Ints:
    stop, begin, run = places
    found: Ints = saved[stop] - saved[begin]
    return found + first[run] if first.any() else found


@dataclass(frozen=True)
class DecidedPaths:
    """What was decided under some weights (ns): how far entries lie behind nodes, the nodes, and points asked for."""

    paths: LongestPaths
    entries: Ints | Floats
    nodes: Ints | Floats
    values: Ints | Floats

    @cached_property
    def _before(self) -> tuple[Ints, list[int]]:
        """The entry that decides at each node (-1: none), of equals the first, which is preferred, and its own node."""
        meets, of = self.paths.meetings, self.paths.node_of_entry
        decides = np.flatnonzero(self.nodes[meets.head] + self.entries == self.nodes[of])[::-1]
        chosen = np.full(len(self.paths.nodes), -1, np.int64)
        # Written from the back: the first one stays.
        chosen[of[decides]] = decides
        return chosen, take_or(meets.head, chosen).tolist()

    @cached_property
    def _known_entries(self) -> dict[int, Ints]:
        return {}

    def entries_to(self, point: int) -> Ints:
        """Return the entries of the rendezvous that a longest path to a point takes, latest first."""
        if point not in self._known_entries:
            chosen, before = self._before
            node, passed = int(self.paths.node_of_point[self.paths.head[point]]), list[int]()
            while node >= 0:
                passed.append(node)
                node = before[node]
            found = chosen[np.array(passed, np.int64)]
            self._known_entries[point] = found[found >= 0]
        return self._known_entries[point]

    def values_before(self, entries: Ints) -> Any:
        """Return the values of the nodes that entries lead from."""
        return self.nodes[self.paths.meetings.head[entries]]
