"""Longest paths of random graphs are what a plain loop finds, one after the other and many at once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.base.errors import QueryError
from hta_graph.what_if.longest_paths import ContractedPaths, LongestPaths
from tests.support.deep_tests import for_all
from tests.support.random_dags import as_paths, random_edges, random_paths, reference_values


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=300)
def test_values_are_the_latest_of_all_ways(seed: int, points: int) -> None:
    _, edges, start, paths, weight = random_paths(seed, points)
    assert paths.values(weight, start).tolist() == reference_values(edges, start.tolist())


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=120)
def test_many_weights_at_once_are_one_after_the_other(seed: int, points: int) -> None:
    rng, edges, start, paths, weight = random_paths(seed, points)
    weights = [weight + np.array([rng.randint(-3, 3) for _ in edges]) for _ in range(3)]
    chosen = np.array([rng.randrange(points) for _ in range(rng.randint(2, 2 * points))])
    tails = [np.array([rng.randint(0, 5) for _ in chosen]) for _ in weights]
    first = sorted({0, rng.randrange(len(chosen))})
    reached = [paths.values(own, start)[chosen] + later for own, later in zip(weights, tails, strict=True)]
    expected = [np.maximum.reduceat(own, first).tolist() for own in reached]
    every = np.arange(len(edges))
    # An edge may be given in several pieces, in any order.
    savings = [(np.append(every[::-1], every), np.append((weight - own)[::-1] - 1, 1 + 0 * weight)) for own in weights]
    changes = [(*one, later) for one, later in zip(savings, tails, strict=True)]
    latest, _, nodes = ContractedPaths(paths, weight, chosen).latest(changes, start, first)
    assert latest.tolist() == expected
    assert nodes.T.tolist() == [paths.values(own, start)[paths.nodes].tolist() for own in weights]


def test_where_no_ways_meet_the_latest_is_found_along_lanes() -> None:
    paths, weight = as_paths([(0, 1, 5), (1, 2, 7)], 4)
    changes = [(np.array([0]), np.array([less]), np.zeros(3, np.int64)) for less in (0, 3)]
    start, asked = np.array([10, 0, 0, 15]), np.array([0, 2, 3])
    assert ContractedPaths(paths, weight, asked).latest(changes, start, [0, 2])[0].tolist() == [[22, 15], [19, 15]]


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=150)
def test_a_traced_path_is_as_long_as_its_end_is_late(seed: int, points: int) -> None:
    rng, edges, start, paths, weight = random_paths(seed, points)
    values, at = paths.values(weight, start), rng.randrange(points)
    passed = paths.trace_back(weight, values, at).tolist()
    end = at
    for edge in passed:
        assert edges[edge][1] == end
        end = edges[edge][0]
    assert end not in {target for _, target, _ in edges}
    assert values[at] == start[end] + sum(weight[passed])


@for_all(st.integers(0, 10**9), st.integers(2, 25), examples=150)
def test_paths_between_rendezvous_are_those_of_all_points(seed: int, points: int) -> None:
    rng, edges, start, paths, weight = random_paths(seed, points)
    less = np.array([rng.randint(-3, 3) for _ in edges])
    values, at = paths.values(weight - less, start), rng.randrange(points)
    contracted = ContractedPaths(paths, weight, np.array([at]))
    found = contracted.with_savings(*contracted.savings(np.arange(len(edges)), less), start)
    assert found.values.tolist() == [values[at]]
    passed = paths.edges_over(found.entries_to(at), at)
    assert passed.tolist() == paths.trace_back(weight - less, values, at).tolist()
    assert np.flatnonzero(paths.passed_edges(found.entries_to(at), at)).tolist() == sorted(passed.tolist())


@pytest.mark.parametrize("preferred", [0, 1, 2])
def test_of_equal_ways_the_preferred_one_is_taken_between_rendezvous_too(preferred: int) -> None:
    edges = [(0, 3, 5), (1, 3, 5), (2, 3, 5), (3, 4, 1)]
    paths, weight = as_paths(edges, 5, preferred=np.arange(4) == preferred)
    start = np.zeros(5, np.int64)
    contracted, nothing = ContractedPaths(paths, weight, np.array([4])), np.zeros(0, np.int64)
    found = contracted.with_savings(*contracted.savings(nothing, nothing), start)
    expected = paths.trace_back(weight, paths.values(weight, start), 4).tolist()
    assert paths.edges_over(found.entries_to(4), 4).tolist() == expected == [3, preferred]


@for_all(st.integers(0, 10**9), st.integers(3, 25), examples=120)
def test_a_wrong_order_of_causes_is_dealt_with(seed: int, points: int) -> None:
    rng = random.Random(seed)
    edges, start = random_edges(rng, points), [0] * points
    if not edges:
        return
    place = np.array(rng.sample(range(points), points), np.int32)
    paths, weight = as_paths(edges, points, place)
    assert paths.values(weight, np.array(start)).tolist() == reference_values(edges, start)


@pytest.mark.parametrize("back", [(3, 0), (2, 1), (1, 0)])
def test_a_cycle_is_named(back: tuple[int, int]) -> None:
    edges = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (4, 1, 5), (4, 3, 2), (*back, 0)]
    with pytest.raises(QueryError, match="form a cycle"):
        as_paths(edges, 5)


def test_fixed_points_keep_what_they_are_given() -> None:
    order, weight = np.arange(3, dtype=np.int32), np.array([5, 5])
    fixed = np.array([True, True, False])
    paths = LongestPaths(order[:2], order[1:], order, order, fixed, np.zeros(2, np.bool_))
    assert paths.values(weight, np.array([0, 100, 7])).tolist() == [0, 100, 105]


def test_of_equally_late_causes_the_preferred_one_is_the_path() -> None:
    source, target = np.array([0, 1, 0], np.int32), np.array([2, 2, 1], np.int32)
    order, weight = np.arange(3, dtype=np.int32), np.array([4, 2, 2])
    for preferred in (0, 1):
        marks = np.arange(3) == preferred
        paths = LongestPaths(source, target, order, order, np.zeros(3, np.bool_), marks)
        values = paths.values(weight, np.zeros(3, np.int64))
        assert paths.trace_back(weight, values, 2)[0] == preferred


def test_a_cycle_of_points_with_one_cause_each_is_named() -> None:
    """None of them is where ways meet."""
    with pytest.raises(QueryError, match="form a cycle"):
        as_paths([(2, 0, 1), (0, 1, 1), (1, 2, 1)], 3)
