"""Longest ways between few points are those through all of them, under all drafts, whatever others decide."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx
import numpy as np
from hypothesis import strategies as st

from hta_graph.multi_rank.what_if.boundary_longest_paths import ORIGIN, BoundaryLongestPaths, boundary_longest_paths
from tests.support.deep_tests import for_all
from tests.support.random_dags import Edge, as_paths, random_edges, reference_values

DRAFTS = 3
FAR = 10**6
"""Longer than any way."""


class Drawn:
    """A random graph with points that others decide and points that are asked for; few weights, so that many tie."""

    def __init__(self, seed: int, points: int, most: int = 3) -> None:
        self.rng = rng = random.Random(seed)
        shape = [(0, points - 1, 0), *random_edges(rng, points)]
        self.drafts = [[(source, target, rng.randint(-1, most)) for source, target, _ in shape] for _ in range(DRAFTS)]
        preferred = np.array([rng.random() < 0.3 for _ in shape])
        self.paths, _ = as_paths(shape, points, preferred=preferred)
        self.start = [rng.randint(0, 9) for _ in range(points)]
        roots = np.flatnonzero(self.paths.is_root).tolist()
        self.given = sorted(rng.sample(roots, rng.randint(0, len(roots))))
        self.asked = rng.sample(range(points), rng.randint(0, min(3, points)))
        self.ends = rng.sample(range(points), rng.randint(0, min(4, points)))
        self.tails = [[rng.randint(0, 3) for _ in self.ends] for _ in range(DRAFTS)]

    def ways(self) -> BoundaryLongestPaths:
        return boundary_longest_paths(
            self.paths, (self.weights(draft) for draft in range(DRAFTS)), np.array(self.start),
            incoming=np.array(self.given, np.int32), awaited=np.array(self.asked, np.int32),
            ends=np.array(self.ends, np.int32), tails=np.array(self.tails, np.int64),
        )  # fmt: skip

    def weights(self, draft: int) -> np.ndarray:
        return np.array([weight for *_, weight in self.drafts[draft]])

    def decided(self) -> Iterator[list[int]]:
        """Yield values that others may decide: as they are, at random, and so that all rests on one of them."""
        yield [self.start[point] for point in self.given]
        yield [self.rng.randint(-9, 9) for _ in self.given]
        for at, _ in enumerate(self.given):
            yield [FAR if at == of else -FAR for of, _ in enumerate(self.given)]

    def started(self, decided: Sequence[int]) -> list[int]:
        start = list(self.start)
        for point, value in zip(self.given, decided, strict=True):
            start[point] = value
        return start


@dataclass
class Walk:
    """Ways under one draft: how late each node is, and the node from which a longest way to it begins."""

    late: list[int | None]
    begins: list[int]

    @classmethod
    def of(cls, ways: BoundaryLongestPaths, draft: int, decided: Sequence[int]) -> Walk:
        own: dict[int, list[tuple[int, int, int]]] = {}
        columns = (ways.source, ways.target, ways.weights[:, draft], ways.orders[:, draft])
        for source, target, weight, order in zip(*(column.tolist() for column in columns), strict=True):
            own.setdefault(target, []).append((source, weight, order))
        late: list[int | None] = [0, *decided]
        begins = list(range(len(late)))
        for node in range(len(late), ways.node_count):
            best = max(((late[source] + weight, -order, source) for source, weight, order in own.get(node, ())),
                       default=(None, 0, ORIGIN))  # type: ignore[operator]  # fmt: skip
            late.append(best[0])
            begins.append(begins[best[2]])
        return cls(late, begins)


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=2000)
def test_what_is_asked_is_as_late_as_in_the_whole_graph(seed: int, points: int) -> None:
    drawn = Drawn(seed, points)
    ways = drawn.ways()
    for decided in drawn.decided():
        for draft, edges in enumerate(drawn.drafts):
            values = reference_values(edges, drawn.started(decided))
            late = Walk.of(ways, draft, decided).late
            assert late[ways.first_awaited : ways.end] == [values[point] for point in drawn.asked]
            reached = [values[point] + tail for point, tail in zip(drawn.ends, drawn.tails[draft], strict=True)]
            assert late[ways.end] == max(reached, default=None)


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=2000)
def test_of_equally_late_ways_the_one_is_preferred_that_the_whole_graph_prefers(seed: int, points: int) -> None:
    drawn = Drawn(seed, points, most=1)
    ways = drawn.ways()
    node_of = {point: node for node, point in enumerate(drawn.given, 1)}
    for decided in drawn.decided():
        start = np.array(drawn.started(decided))
        for draft in range(DRAFTS):
            weight, begins = drawn.weights(draft), Walk.of(ways, draft, decided).begins
            values = drawn.paths.values(weight, start)
            last = [values[point] + tail for point, tail in zip(drawn.ends, drawn.tails[draft], strict=True)]
            ends = drawn.ends[last.index(max(last)) :][:1] if last else []
            roots = drawn.paths.roots_of(weight, values, np.array([*drawn.asked, *ends], np.int32)).tolist()
            expected = [node_of.get(root, ORIGIN) for root in roots]
            assert begins[ways.first_awaited :][: len(expected)] == expected


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=1200)
def test_ways_lead_from_what_is_given_only_where_edges_do(seed: int, points: int) -> None:
    drawn = Drawn(seed, points)
    ways, whole, few = drawn.ways(), networkx.DiGraph(), networkx.DiGraph()
    whole.add_nodes_from(range(points))
    whole.add_edges_from(edge[:2] for edge in drawn.drafts[0])
    few.add_nodes_from(range(ways.node_count))
    few.add_edges_from(zip(ways.source.tolist(), ways.target.tolist(), strict=True))
    for node, point in enumerate(drawn.given, 1):
        for at, asked in enumerate(drawn.asked, ways.first_awaited):
            assert networkx.has_path(few, node, at) == networkx.has_path(whole, point, asked)


@for_all(st.integers(0, 10**9), st.integers(2, 40), examples=2000)
def test_a_node_goes_where_that_makes_no_more_edges_and_no_other_does(seed: int, points: int) -> None:
    drawn = Drawn(seed, points)
    ways, shape = drawn.ways(), drawn.paths
    edges = list(zip(ways.target.tolist(), ways.source.tolist(), strict=True))
    assert edges == sorted(edges, key=lambda edge: edge[0])
    assert len(set(edges)) == len(edges)
    assert all(source < target for target, source in edges)
    whole = len(shape.meetings.edge) + len(drawn.asked) + len(drawn.ends)
    assert len(edges) <= whole
    for node in range(1 + ways.incoming_count, ways.first_awaited):
        comes = sum(target == node for target, _ in edges)
        goes = sum(source == node for _, source in edges)
        assert goes > 0
        assert comes * goes > comes + goes


def test_where_many_meet_and_many_part_a_node_is_left() -> None:
    """Five meetings lead to five later ones by one point: ten edges, and not twenty-five."""
    edges = [*((at, 5, at) for at in range(5)), *((5, 6 + at, 10 * at) for at in range(5))]
    paths, weight = as_paths(edges, 11)
    ways = boundary_longest_paths(
        paths, [weight], np.zeros(11, np.int64), incoming=np.arange(5, dtype=np.int32),
        awaited=np.arange(6, 11, dtype=np.int32), ends=np.array([], np.int32), tails=np.empty((1, 0), np.int64),
    )  # fmt: skip
    columns = (ways.source.tolist(), ways.target.tolist(), ways.weights[:, 0].tolist())
    assert sorted(zip(*columns, strict=True)) == [
        *((1 + at, 6, at) for at in range(5)), *((6, 7 + at, 10 * at) for at in range(5)),
    ]  # fmt: skip


def chain_of_diamonds(count: int) -> list[Edge]:
    """Let two ways, each the longer one under another draft, meet and part so many times."""
    sides = [(3 * at, 3 * at + side, side) for at in range(count) for side in (1, 2)]
    return [*sides, *((3 * at + side, 3 * at + 3, 0) for at in range(count) for side in (1, 2))]


def test_where_ways_part_and_meet_again_many_times_one_edge_is_left() -> None:
    """So many that places in the order of preference, put into one another, would not be numbers of 64 bits."""
    count = 100
    edges = chain_of_diamonds(count)
    paths, weight = as_paths(edges, 3 * count + 1)
    other = np.where(weight == 1, 5, weight)
    ways = boundary_longest_paths(
        paths, [weight, other, np.zeros_like(weight)], np.zeros(3 * count + 1, np.int64),
        incoming=np.array([0], np.int32),
        awaited=np.array([3 * count], np.int32), ends=np.array([], np.int32), tails=np.empty((3, 0), np.int64),
    )  # fmt: skip
    assert (ways.source.tolist(), ways.target.tolist()) == ([1], [2])
    assert ways.weights.tolist() == [[2 * count, 5 * count, 0]]
    assert ways.orders.tolist() == [[0, 0, 0]]


def test_a_tie_is_broken_by_what_counts_under_that_draft() -> None:
    """By way of the point 3 from 0 in one draft, straight from it in the other; between both stands what is from 1."""
    edges = [(0, 2, 5), (1, 2, 7), (0, 3, 7), (3, 2, 0)]
    # The way straight from 0 is marked as preferred; of the others the one from the later point, 1, comes first.
    paths, weight = as_paths(edges, 4, np.array([0, 2, 3, 1], np.int32), np.array([True, False, False, False]))
    other = np.array([7, 7, 5, 0])
    ways = boundary_longest_paths(
        paths, [weight, other], np.zeros(4, np.int64),
        incoming=np.array([0, 1], np.int32), awaited=np.array([2], np.int32),
        ends=np.array([], np.int32), tails=np.empty((2, 0), np.int64),
    )  # fmt: skip
    assert ways.weights.tolist() == [[7, 7], [7, 7]]
    preferred = ways.source[np.argmin(ways.orders, axis=0)].tolist()
    assert preferred == [2, 1]
