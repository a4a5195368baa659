r"""The longest paths to all points of a graph at once: the latest of all that a point waits for decides its time.

Most points have one cause; their times are sums along a lane, which is one cumulative sum. Only where ways meet a
decision is due, one after the other:

thread   a ── b ── c ── d ─────▶ e ── f        a root; b, c, d, f: sums from a, from e
                    \\          ↗
stream               g ── h ──                 g, h: sums from a; e: the later of d and h
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.arrays import expand_ranges, first_of_runs, freeze
from hta_graph.errors import QueryError
from hta_graph.model import Bools, Floats, Ids, Ints

UNREACHED = -(2**61)
"""Below this a value (ns) says that no way leads to a point."""


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

    Raises:
        QueryError: the edges form a cycle.
    """

    def __init__(
        self, source: Ids, target: Ids, lane_order: Ids, place: Ids | Ints, fixed: Bools, preferred: Bools
    ) -> None:
        self.source, self.target = source, target
        self._place, self._preferred = place, preferred
        used = np.flatnonzero(~fixed[target])
        causes = np.bincount(target[used], minlength=len(fixed))
        self.is_root = freeze(causes == 0)
        self._meets = causes > 1
        self._cause = np.full(len(fixed), -1, np.int32)
        self._cause[target[used]] = used
        self._cause[self._meets] = -1
        self._points = lane_order[~self.is_root[lane_order]]
        self._make_runs()
        self._joins = used[self._meets[target[used]]]
        self.meetings = self._ordered_joins()

    def _make_runs(self) -> None:
        """Cut the points into runs in which each follows its only cause, and find the node that each hangs on."""
        points = self._points
        before = np.append(self.source, -1)[self._cause[points]]
        follows = np.zeros(len(points), np.bool_)
        follows[1:] = before[1:] == points[:-1]
        run = np.cumsum(~follows) - 1
        self._follows, self._run = follows, run
        self._run_of = np.full(len(self.is_root), -1, np.int32)
        self._run_of[points] = run
        self._run_start = np.flatnonzero(~follows)
        first = points[self._run_start]
        hangs_on = np.where(self._meets[first], -1, before[self._run_start])
        # Runs that hang on others, level by level: of most runs the first point is a meeting or follows a root.
        self.head = np.arange(len(self.is_root), dtype=np.int32)
        head_of_run = np.where(hangs_on < 0, first, -1).astype(np.int32)
        self._levels: list[tuple[Ints, Ids]] = []
        hanging = np.flatnonzero(hangs_on >= 0)
        while len(hanging):
            above = self._run_of[hangs_on[hanging]]
            known = np.where(above < 0, hangs_on[hanging], head_of_run[above])
            ready = known >= 0
            if not ready.any():
                raise QueryError("the changed dependencies form a cycle; remove one of the added edges")
            head_of_run[hanging[ready]] = known[ready]
            self._levels.append((hanging[ready], hangs_on[hanging[ready]]))
            hanging = hanging[~ready]
        self.head[points] = head_of_run[run]

    def _ordered_joins(self) -> JoinNodes:
        joins = self._joins
        head = self.head[self.source[joins]]
        meeting = np.unique(self.target[joins])
        place = self._causes_first(meeting, head, self.target[joins])
        order = np.lexsort((-self._place[self.source[joins]], ~self._preferred[joins], place[self.target[joins]]))
        joins, head = joins[order], head[order]
        first = np.flatnonzero(first_of_runs(self.target[joins]))
        node, count = self._node_of_point, np.diff(np.append(first, len(joins)))
        return JoinNodes(
            joins.astype(np.int32), self.source[joins], node[head], first, count, node[self.target[joins[first]]]
        )

    @cached_property
    def nodes(self) -> Ids:
        """The rendezvous, and the roots that anything depends on."""
        return np.unique(np.concatenate([self.head[self.source[self._joins]], self.target[self._joins]]))

    @cached_property
    def _node_of_point(self) -> Ids:
        """The place of each point among the nodes (-1: it is none)."""
        found = np.full(len(self.is_root), -1, np.int32)
        found[self.nodes] = np.arange(len(self.nodes), dtype=np.int32)
        return found

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

    def offsets(self, weight: Ints | Floats) -> Any:
        """Return for every point how far (ns) it lies behind the node that it hangs on."""
        points = self._points
        step = np.where(self._follows, weight[self._cause[points]], 0)
        behind = np.cumsum(step, dtype=weight.dtype)
        behind -= behind[self._run_start][self._run]
        found = np.zeros(len(self.is_root), weight.dtype)
        found[points] = behind
        for runs, above in self._levels:
            first = self._run_start[runs]
            base = found[above] + weight[self._cause[points[first]]]
            members, at = expand_ranges(first, np.diff(np.append(self._run_start, len(points)))[runs])
            found[points[at]] += base[members]
        return found

    def values(self, weight: Ints | Floats, start: Ints) -> Any:
        """Return the value (ns) of every point: that of ``start`` where it is fixed, else the latest way to it.

        Args:
            weight: of each edge (ns).
            start: the value of each point that is a root.
        """
        behind, meets = self.offsets(weight), self.meetings
        node_values = self._pass(start[self.nodes], behind[meets.source] + weight[meets.edge])
        found = start.astype(weight.dtype)
        found[self.nodes] = node_values
        return found[self.head] + behind

    def many(self, weights: Iterable[Ints], start: Ints, points: Ids) -> Ints:
        """Return the values (ns) of some points under many weights, a row each: cheaper than one after the other."""
        joined, behind = self.in_line(weights, points)
        if not behind.size:
            return behind.T
        known = self._pass_of_many(start[self.nodes], joined)
        heads = self._node_of_point[self.head[points]]
        found = np.repeat(start[self.head[points]][None], behind.shape[1], axis=0)
        decided = heads >= 0
        found[:, decided] = known[heads[decided]].T
        found += behind.T
        return found

    def in_line(self, weights: Iterable[Ints], points: Ids) -> tuple[Ints, Ints]:
        """Return under many weights, a column each, how far (ns) points lie behind nodes.

        Returns:
            of each entry of the rendezvous how far that lies behind the entry's node, and of each of ``points``
            how far it lies behind its own.
        """
        meets, joined, behind = self.meetings, list[Ints](), list[Ints]()
        for weight in weights:
            offset = self.offsets(weight)
            joined.append(offset[meets.source] + weight[meets.edge])
            behind.append(offset[points])
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
        chosen = self._chosen(weight, values)
        # Plain memory views: looking up one number at a time is several times faster than in an array.
        chosen_at, run_of, cause, source = chosen.data, self._run_of.data, self._cause.data, self.source.data
        first_place, place, points = self._run_start.data, self._place_in_run.data, self._points.data
        meets, begins, ends = self._meets.data, [], []
        while True:
            # From the point back to the node that it hangs on, run by run.
            while (run := run_of[point]) >= 0:
                first = first_place[run]
                begins.append(first)
                ends.append(place[point])
                point = points[first]
                if meets[point]:
                    break
                point = source[cause[point]]
            edge = chosen_at[point]
            if edge < 0:
                break
            point = source[edge]
        return self._edges_of_runs(np.array(begins, np.int64), np.array(ends, np.int64), chosen)

    def _edges_of_runs(self, begins: Ints, ends: Ints, chosen: Ids) -> Ids:
        """Return what caused the points of runs, each from its end back to its first point, end to end."""
        run, nth = expand_ranges(np.zeros_like(begins), ends - begins + 1)
        points = self._points[ends[run] - nth]
        edges = np.where(self._meets[points], chosen[points], self._cause[points])
        found: Ids = edges.astype(np.int32)
        return found

    @cached_property
    def _place_in_run(self) -> Ids:
        place = np.full(len(self.is_root), -1, np.int32)
        place[self._points] = np.arange(len(self._points), dtype=np.int32)
        return place

    def _chosen(self, weight: Ints | Floats, values: Ints | Floats) -> Ids:
        """Return for each rendezvous the edge that decided, of equals the preferred one."""
        meets = self.meetings
        target = self.target[meets.edge]
        # Summed as when it was decided, so that rounding, where weights are no whole numbers, is the same.
        behind = self.offsets(weight)
        heads = values[self.head[meets.source]]
        decides = np.flatnonzero(heads + (behind[meets.source] + weight[meets.edge]) == values[target])
        chosen = np.full(len(self.is_root), -1, np.int32)
        # Written from the back: of several the first one, which is preferred, stays.
        chosen[target[decides][::-1]] = meets.edge[decides][::-1]
        return chosen

    def _pass_of_many(self, start: Ints, weight: Ints) -> Ints:
        """Decide at one rendezvous after the other, for all weights (columns) at once."""
        meets, known = self.meetings, np.repeat(start[:, None], weight.shape[1], axis=1)
        head, rows = meets.head.tolist(), list(weight)
        values = list(known)
        for node, first, count in zip(meets.node.tolist(), meets.first.tolist(), meets.count.tolist(), strict=True):
            latest = values[node]
            np.add(values[head[first]], rows[first], out=latest)
            for entry in range(first + 1, first + count):
                np.maximum(latest, values[head[entry]] + rows[entry], out=latest)
        return known

    def _pass(self, value: Ints, weight: Ints | Floats) -> Any:
        """Decide at one rendezvous after the other; plain lists, since one number at a time is quicker in them."""
        meets, known = self.meetings, value.tolist()
        entries = iter(zip(meets.head.tolist(), weight.tolist(), strict=True))
        for node, more in zip(meets.node.tolist(), (meets.count - 1).tolist(), strict=True):
            head, length = next(entries)
            latest = known[head] + length
            for _ in range(more):
                head, length = next(entries)
                if (end := known[head] + length) > latest:
                    latest = end
            known[node] = latest
        return np.array(known, weight.dtype)
