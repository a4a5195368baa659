"""Points that hang on others in whatever order the lanes name them."""

from __future__ import annotations

import numpy as np
import pytest

from hta_graph.algorithms.replay.longest_paths import LongestPaths
from hta_graph.errors import QueryError


def paths(edges: list[tuple[int, int]], lane_order: list[int]) -> LongestPaths:
    source, target = (np.array(points, np.int32) for points in zip(*edges, strict=True))
    count = len(lane_order)
    return LongestPaths(
        source, target, np.array(lane_order, np.int32), np.arange(count), np.zeros(count, np.bool_),
        np.ones(len(edges), np.bool_),
    )  # fmt: skip


def test_what_hangs_on_a_meeting_alone_is_no_cycle() -> None:
    """Two ways meet in 2, and only from there others go on, on lanes that are named before."""
    found = paths([(0, 2), (1, 2), (2, 3), (3, 4)], [4, 3, 2, 0, 1])
    assert found.values(np.array([5, 7, 2, 1]), np.array([0, 10, 0, 0, 0])).tolist() == [0, 10, 17, 19, 20]


def test_points_that_wait_for_each_other_are_a_cycle() -> None:
    with pytest.raises(QueryError, match="cycle"):
        paths([(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)], [3, 0, 1, 2]).values(
            np.ones(5, np.int64), np.zeros(4, np.int64)
        )
    with pytest.raises(QueryError, match="cycle"):
        paths([(0, 1), (1, 2), (2, 0)], [2, 1, 0])
