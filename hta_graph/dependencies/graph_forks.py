"""Forks and joins inside launches of CUDA graphs: for which nodes of other streams a node waits, by all replays' times.

Nothing records the edges between a graph's nodes, but its replays are the same program again. What a node waits for has
ended in every replay before it starts, and right before it where nothing that it waits for was later:

    replay 1   stream 7    [root][=== a ===]                    [join]        join starts right after b, and not after a
               stream 9          [========= b =========][c]
    replay 2   stream 7    [root][=============== a ===============][join]    here after a, its stream's order; b has
               stream 9          [====== b ======][== c ==========================]    ended, c has not: no edge from c
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import (
    Columns,
    distinct,
    expand_ranges,
    find_sorted,
    first_of_runs,
    hash_rows,
    is_among,
    last_of_runs,
    pair_key,
    percentiles_by,
    run_numbers,
)
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import Bools, EdgeKind, EdgeRule, Floats, Ids, Ints

FOLLOWS_WITHIN_NS = 6_000
"""A node starts within this time of what it waited for (public traces: at most 6 µs), or of three usual gaps."""

SAME_TIMES_NS = 50
"""Replays whose nodes all have the same times, up to this, count as one."""

FEWEST_REPLAYS = 3
"""Of fewer replays with different times only what leaves no choice is believed."""

ENOUGH_GAPS = 10
"""From this many pairs without a choice it is known how soon the nodes of a graph start after other streams' ones."""

GLITCHES = 100
"""One in this number of replays may contradict an edge: stamps are wrong at times."""

EXPLAINS = 5.0
"""What a pair gains with each wait that it explains, less what the wait's gap is unusual by (a log likelihood)."""

CLEARLY = 2.0
"""By this much more than the second best pair the best one must gain with its waits: twenty to one."""

TIME_BITS = 40
"""The time (ns) since a launch's first node, of up to 18 minutes, and the launch's number fit one number."""


def graph_forks(context: RuleContext) -> EdgeTable:
    """Link nodes of graph launches to what they waited for on other streams of the launch, where nothing records it."""
    rows = _forked_rows(context)
    if not len(rows):
        return EdgeTable.empty()
    nodes = _Nodes.in_order(context, rows)
    source, target = _Waits(nodes).pairs()
    pair, replay = expand_ranges(np.zeros(len(target), np.int64), nodes.replays[target])
    source, target = (column[pair] + replay * nodes.size[column[pair]] for column in (source, target))
    agrees = nodes.end[source] <= nodes.start[target] + nodes.resolution
    return EdgeTable.of_kind(
        EdgeKind.GRAPH_ORDER,
        end_point(nodes.row[source[agrees]]),
        start_point(nodes.row[target[agrees]]),
        EdgeRule.SAME_IN_ALL_REPLAYS,
    )


def _forked_rows(context: RuleContext) -> Ints:
    """Return the places, among a trace's activities, of those that graph launches with several streams launched."""
    heads = context.queues.heads
    several = heads.members[heads.first[:-1][np.diff(heads.first) > 1]]
    calls = context.launch_call[np.searchsorted(context.activities, several)]
    forked = np.zeros(len(context.trace.events) + 1, np.bool_)
    # Of work without a call it is not known what was launched together: the last place, -1, stays unmarked.
    forked[calls[calls >= 0]] = True
    return np.flatnonzero(forked[context.launch_call] & ~context.is_in_ordered_graph[context.activities])


@dataclass(frozen=True, eq=False)
class _Nodes(Columns):
    """The nodes of such launches: graph by graph, replay by replay, branch by branch in their order.

    A ``branch`` is what shows on one stream in one launch. A node stands ``size`` places before itself in the next of
    its graph's ``replays``. Times (ns) are since the first node of the ``launch``; ``free`` is when the
    stream had finished what ran before, at the earliest then.
    """

    row: Ids
    start: Ints
    end: Ints
    free: Ints
    device: Ints
    branch: Ints
    launch: Ints
    graph: Ints
    size: Ints
    replays: Ints

    @classmethod
    def in_order(cls, context: RuleContext, at: Ints) -> _Nodes:
        """Put nodes in order: two launches are of one graph if their branches have the same names in the same order."""
        events, rows, call = context.trace.events, context.activities[at], context.launch_call[at]
        key = pair_key(call, events.lane[rows])
        order = np.argsort(key, kind="stable")  # rows are in order of time
        rows, first = rows[order], np.flatnonzero(first_of_runs(key[order]))
        count = np.diff(np.append(first, len(rows)))
        branch, place = expand_ranges(np.zeros(len(first), np.int64), count)
        names = np.add.reduceat(hash_rows(events.name[rows], place), first)
        launch = run_numbers(call[order[first]])
        graph = np.add.reduceat(hash_rows(names), np.flatnonzero(first_of_runs(launch)))[launch]
        # A stream may have another number in the next replay; streams with the same names are told apart by it.
        order = np.lexsort((names, launch, graph))
        branch, at = expand_ranges(first[order], count[order])
        rows, launch, graph = rows[at], run_numbers(launch[order])[branch], run_numbers(graph[order])[branch]
        begins = np.flatnonzero(first_of_runs(launch))
        since = np.minimum.reduceat(events.start[rows], begins)[launch]
        return cls(
            row=rows,
            start=events.start[rows] - since,
            end=events.end[rows] - since,
            free=np.maximum(context.queues.free_since(rows), since) - since,
            device=context.trace.lanes.device[events.lane[rows]],
            branch=branch,
            launch=launch,
            graph=graph,
            size=np.bincount(launch)[launch],
            replays=np.bincount(graph[begins])[graph],
        )

    @cached_property
    def resolution(self) -> int:
        """By how much (ns) times may be wrong because the file prints whole µs."""
        return 0 if ((self.end - self.start) % 1_000).any() else 1_000

    @cached_property
    def in_first_replay(self) -> Ints:
        """Where each node stands in the first replay of its graph."""
        launches, graphs = (np.flatnonzero(first_of_runs(column)) for column in (self.launch, self.graph))
        found: Ints = np.arange(len(self)) - launches[self.launch] + graphs[self.graph]
        return found

    @cached_property
    def varies(self) -> Bools:
        """Mark the nodes of graphs with enough replays that have different times."""
        begins, same = np.flatnonzero(first_of_runs(self.launch)), self.in_first_replay
        off = np.maximum(np.abs(self.start - self.start[same]), np.abs(self.end - self.end[same]))
        other = np.maximum.reduceat(off, begins) > SAME_TIMES_NS
        found: Bools = np.bincount(self.graph[begins], other)[self.graph] + 1 >= FEWEST_REPLAYS
        return found


@dataclass(frozen=True, eq=False)
class _Gaps(Columns):
    """How soon (ns) the nodes of each graph start after what they waited for."""

    least: Ints
    usual: Ints
    most: Ints


@dataclass(frozen=True, eq=False)
class _Candidates(Columns):
    """What may have released each ``wait`` (a node), as a ``pair`` of places in the first replay, and how soon (ns)."""

    wait: Ints
    pair: Ints
    gap: Ints

    def only_ones(self) -> _Candidates:
        """Return those that are the only ones of their waits."""
        return self.take(np.bincount(self.wait, minlength=1)[self.wait] == 1)


class _Waits:
    """What the nodes waited for that do not start right after what is before them on their stream."""

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes, self._graphs = nodes, int(nodes.graph[-1]) + 1
        self._by_end = np.argsort(self._key(slice(None), nodes.end), kind="stable")
        self._ends = self._key(self._by_end, nodes.end[self._by_end])
        first = first_of_runs(nodes.branch)
        # The first ones of all branches that wait for nothing start about together.
        gap = nodes.start - nodes.free
        own = np.flatnonzero(~first & (gap >= 0))
        last = self._by_end[self._ended_by(own, nodes.start[own]) - 1]
        own = own[nodes.end[last] == nodes.free[own]]
        least, usual, most = self._percentiles(own, gap[own], (1, 50, 95))
        self._gaps = _Gaps(least // 2 - nodes.resolution, usual, np.maximum(FOLLOWS_WITHIN_NS, 3 * usual))
        explained = most + np.maximum(most - usual, 200) + nodes.resolution
        self._waits = gap > np.where(nodes.varies, explained[nodes.graph], self._gaps.most[nodes.graph])

    def _percentiles(self, nodes: Ints, gaps: Ints, percents: tuple[int, int, int]) -> list[Ints]:
        """Return percentiles of gaps (ns) before some nodes, for each graph."""
        return [percentiles_by(self._nodes.graph[nodes], gaps, self._graphs, percent) for percent in percents]

    def _ended_by(self, nodes: Ints, times: Ints) -> Ints:
        """Return how many nodes stand, in the order of their ends, before times of some nodes' launches."""
        return np.searchsorted(self._ends, self._key(nodes, times), side="right")

    def _key(self, nodes: Ints | slice, times: Ints) -> Ints:
        key: Ints = (self._nodes.launch[nodes] << TIME_BITS) + np.minimum(times, (1 << TIME_BITS) - 1)
        return key

    def pairs(self) -> tuple[Ints, Ints]:
        """Return for what nodes wait and which, as places in the first replays of the graphs."""
        found = self._candidates()
        found = found.take(self._is_possible(found.pair, self._gaps.least))
        gaps = self._gaps_across_streams(found.only_ones())
        found = found.take(self._is_usual(found, gaps))
        graph = self._nodes.graph[found.wait]
        spread = np.maximum((gaps.most - gaps.least) / 4, SAME_TIMES_NS)[graph]
        gain = (EXPLAINS - ((found.gap - gaps.usual[graph]) / spread) ** 2 / 2).clip(min=0)
        chosen = _fewest_that_explain(found, gain, self._nodes.varies)
        holes = self._before_holes()
        chosen = np.concatenate([chosen, holes[~is_among(holes >> 32, chosen >> 32)]])
        return chosen & 0xFFFF_FFFF, chosen >> 32

    def _before_holes(self) -> Ints:
        """Return pairs of nodes between which, in each replay, no node of the launch runs for longer than the gaps.

        What ran there was not recorded; it follows what ended last.
        """
        nodes = self._nodes
        order = np.argsort(self._key(slice(None), nodes.start), kind="stable")
        ends = self._key(order, nodes.end[order])
        reach = np.maximum.accumulate(ends)
        last = np.maximum.accumulate(np.where(ends == reach, np.arange(len(order)), 0))
        at = np.flatnonzero(self._waits[order[1:]]) + 1
        target, source = order[at], order[last[at - 1]]
        idle = nodes.start[target] - nodes.end[source] > self._gaps.most[nodes.graph[target]]
        idle &= (nodes.launch[source] == nodes.launch[target]) & (nodes.branch[source] != nodes.branch[target])
        key = pair_key(nodes.in_first_replay[target[idle]], nodes.in_first_replay[source[idle]])
        pairs = distinct(key)
        count = np.bincount(find_sorted(key, pairs), minlength=len(pairs))
        found: Ints = pairs[count == nodes.replays[pairs >> 32]]
        return found

    def _candidates(self) -> _Candidates:
        """Find the nodes of other branches that ended right before those that wait."""
        nodes, waiting = self._nodes, np.flatnonzero(self._waits)
        graph, start = nodes.graph[waiting], nodes.start[waiting]
        low = self._ended_by(waiting, np.maximum(start - self._gaps.most[graph], 0) - 1)
        high = self._ended_by(waiting, start - self._gaps.least[graph])
        of, at = expand_ranges(low, np.maximum(high - low, 0))
        target, source = waiting[of], self._by_end[at]
        elsewhere = (nodes.branch[source] != nodes.branch[target]) & (nodes.device[source] == nodes.device[target])
        target, source = target[elsewhere], source[elsewhere]
        pair = pair_key(nodes.in_first_replay[target], nodes.in_first_replay[source])
        return _Candidates(target, pair, nodes.start[target] - nodes.end[source])

    def _is_possible(self, asked: Ints, least: Ints) -> Bools:
        """Mark the pairs whose source had ended in every replay at least some time (ns, by graph) before the target."""
        nodes, pairs = self._nodes, distinct(asked)
        target, source = pairs >> 32, pairs & 0xFFFF_FFFF
        replays, size, wrong = nodes.replays[target], nodes.size[target], np.zeros(len(pairs), np.int64)
        least, open_, done = least[nodes.graph[target]], np.arange(len(pairs)), 0
        # Twice as many replays in each round: most pairs are contradicted by one of the first.
        while len(open_ := open_[replays[open_] > done]):
            which, replay = expand_ranges(np.full(len(open_), done), np.minimum(replays[open_] - done, done + 1))
            pair = open_[which]
            gap = nodes.start[target[pair] + replay * size[pair]] - nodes.end[source[pair] + replay * size[pair]]
            wrong += np.bincount(pair[gap < least[pair]], minlength=len(pairs))
            open_, done = open_[wrong[open_] * GLITCHES <= replays[open_]], 2 * done + 1
        possible: Bools = (wrong * GLITCHES <= replays)[find_sorted(asked, pairs)]
        return possible

    def _gaps_across_streams(self, certain: _Candidates) -> _Gaps:
        """Measure how soon nodes start after those of other streams, where there is no choice and in enough cases.

        Where many branches run, many nodes end within the time that a node may take to start.
        """
        least, usual, most = self._percentiles(certain.wait, certain.gap, (1, 50, 99))
        # Replays of one pair are much alike.
        enough = np.bincount(self._nodes.graph[distinct(certain.pair) >> 32], minlength=self._graphs) >= ENOUGH_GAPS
        room = self._nodes.resolution
        return _Gaps(
            np.where(enough, least - np.maximum(least // 10, (usual - least) // 2) - room, self._gaps.least),
            np.where(enough, usual, self._gaps.usual),
            np.where(enough, most + np.maximum(most // 10, (most - usual) // 2) + room, self._gaps.most),
        )

    def _is_usual(self, found: _Candidates, gaps: _Gaps) -> Bools:
        """Mark the candidates with such gaps; all of a wait without one."""
        graph = self._nodes.graph[found.wait]
        usual = (found.gap >= gaps.least[graph]) & (found.gap <= gaps.most[graph])
        usual[usual] = self._is_possible(found.pair[usual], gaps.least)
        has_one = np.zeros(len(self._nodes), np.bool_)
        has_one[found.wait[usual]] = True
        return usual | ~has_one[found.wait]


def _fewest_that_explain(found: _Candidates, gain: Floats, is_varied: Bools) -> Ints:
    """Choose pairs such that each wait has one, as few as possible.

    First those without which a wait has none. Where replays vary (by node) each target then has the pair that gains
    most with its open waits, if no other one gains about as much with them: else they stay open.
    """
    pairs = distinct(found.pair)
    pair, target = find_sorted(found.pair, pairs), run_numbers(pairs >> 32)
    chosen, closed = np.zeros(len(pairs), np.bool_), ~is_varied
    chosen[find_sorted(found.only_ones().pair, pairs)] = True
    closed[found.wait[chosen[pair]]] = True
    while len(open_ := np.flatnonzero(~closed[found.wait])):
        wait, of = found.wait[open_], pair[open_]
        total = np.bincount(of, gain[open_], len(pairs))
        best, most = _largest(target, total)
        here = np.zeros(len(is_varied), np.bool_)
        here[wait[best[of]]] = True
        rival = np.where(best, 0, np.bincount(of, gain[open_] * here[wait], len(pairs)))
        chosen |= best & (most > 0) & (total >= _largest(target, rival)[1] + CLEARLY)
        closed[found.wait[chosen[pair]]] = True
        closed |= here
    return pairs[chosen]


def _largest(group: Ints, values: Ints | Floats) -> tuple[Bools, Ints | Floats]:
    """Mark the place of each group's largest value, and return for each place the largest one of its group."""
    order = np.lexsort((values, group))
    last = order[last_of_runs(group[order])]
    found = np.zeros(len(group), np.bool_)
    found[last] = True
    return found, values[last][group]
