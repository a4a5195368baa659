"""Merging to fit a page: no time is lost, no series is mixed with another, long bars stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.paths.level_of_detail import TimelineBars, merge_to_limit
from tests.support.deep_tests import for_all

LENGTHS = st.integers(0, 20) | st.integers(0, 400)
ROW = st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans(), LENGTHS, LENGTHS)
"""Track, group, on the path, gap to the bar before, length."""


def bars_of(rows: list[tuple[int, int, bool, int, int]]) -> TimelineBars:
    """Return bars that do not overlap on their tracks."""
    at = [0, 0, 0]
    found = []
    for number, (track, group, on_path, gap, length) in enumerate(rows):
        start = at[track] + gap
        at[track] = start + length
        found.append((track, group, on_path, start, start + length, length, 1, number % 7, number))
    names = ("track", "group", "on_path", "start", "end", "busy", "count", "name", "index")
    columns = np.array(found, np.int64).reshape(-1, len(names)).T
    return TimelineBars.of(**dict(zip(names, columns, strict=True))).in_order()


def totals(bars: TimelineBars) -> dict[tuple[int, int, bool], tuple[int, int]]:
    """Return time and rows of each series."""
    found: dict[tuple[int, int, bool], tuple[int, int]] = {}
    columns = (bars.track, bars.group, bars.on_path, bars.busy, bars.count)
    for track, group, on_path, busy, count in zip(*(column.tolist() for column in columns), strict=True):
        time, rows = found.get((track, group, on_path), (0, 0))
        found[track, group, on_path] = time + busy, rows + count
    return found


@for_all(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 60), examples=800)
def test_every_series_keeps_its_time_and_its_rows(rows: list[tuple[int, int, bool, int, int]], limit: int) -> None:
    bars = bars_of(rows)
    merged, _ = merge_to_limit(bars, limit)
    assert totals(merged) == totals(bars)
    assert merged.start.min() == bars.start.min()
    assert merged.end.max() == bars.end.max()


@for_all(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 60), examples=800)
def test_bars_of_a_series_stay_apart_and_in_order(rows: list[tuple[int, int, bool, int, int]], limit: int) -> None:
    merged, _ = merge_to_limit(bars_of(rows), limit)
    same = np.flatnonzero(np.diff(merged.series) == 0)
    assert (merged.start[same + 1] >= merged.end[same]).all()
    assert (merged.busy <= merged.end - merged.start).all()


@for_all(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 60), examples=800)
def test_bars_as_long_as_the_resolution_stay_as_they_are(
    rows: list[tuple[int, int, bool, int, int]], limit: int
) -> None:
    bars = bars_of(rows)
    merged, resolution = merge_to_limit(bars, limit)
    long = bars.end - bars.start >= resolution
    assert set(bars.index[long].tolist()) <= set(merged.index.tolist())
    assert (merged.count[np.isin(merged.index, bars.index[long])] == 1).all()


def test_a_merged_bar_is_called_by_its_longest() -> None:
    merged, resolution = merge_to_limit(bars_of([(0, 0, True, 0, 3), (0, 0, True, 1, 9), (0, 0, True, 0, 2)]), 1)
    assert resolution >= 16
    assert (merged.start.tolist(), merged.end.tolist(), merged.busy.tolist()) == ([0], [15], [14])
    assert (merged.count.tolist(), merged.index.tolist()) == ([3], [1])


def test_a_long_bar_stands_alone_between_short_ones() -> None:
    bars = bars_of([(0, 0, True, 0, 2), (0, 0, True, 1, 100), (0, 0, True, 0, 2), (0, 0, True, 1, 2)])
    merged, resolution = merge_to_limit(bars, 3)
    assert resolution == 16
    assert (merged.count.tolist(), merged.index.tolist()) == ([1, 1, 2], [0, 1, 2])


@pytest.mark.parametrize("limit", [3, 4])
def test_what_fits_is_left_alone(limit: int) -> None:
    bars = bars_of([(0, 0, True, 0, 3), (0, 0, True, 1, 9), (0, 0, True, 0, 2)])
    assert merge_to_limit(bars, limit) == (bars, 0)
