"""How long names are open: as asking at each time which rows are, in time that grows with the number of rows."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_graph.graph.event_names import time_by_open_name

NAMES = 4


@st.composite
def rows_in_rows(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """Draw rows with the one around each, their names, and times by the innermost row that is open."""
    count = draw(st.integers(0, 12))
    order = draw(st.permutations(range(count)))
    parent = [-1] * count
    for at in range(1, count):
        parent[order[at]] = draw(st.sampled_from([-1, *order[:at]]))
    names = [draw(st.integers(0, NAMES - 1)) for _ in range(count)]
    innermost = draw(st.lists(st.integers(-1, count - 1), max_size=8))
    return parent, names, innermost, [draw(st.integers(1, 100)) for _ in innermost]


def one_by_one(
    parent: list[int], names: list[int], innermost: list[int], times: list[int]
) -> tuple[Counter[int], dict[int, int]]:
    """Walk outwards from each time."""
    sums, levels = Counter[int](), dict[int, int]()
    for row, ns in zip(innermost, times, strict=True):
        level, seen, around = 0, set[int](), row
        while around >= 0:
            seen.add(names[around])
            levels[names[around]] = min(level, levels.get(names[around], level))
            level, around = level + 1, parent[around]
        sums.update(dict.fromkeys(seen, ns))
    return sums, levels


@given(rows_in_rows())
def test_each_name_is_open_once_at_each_time(drawn: tuple[list[int], list[int], list[int], list[int]]) -> None:
    parent, names, innermost, times = (np.array(column, np.int32) for column in drawn)
    found, levels = time_by_open_name(parent, names, innermost, times.astype(np.int64), NAMES)
    sums, lowest = one_by_one(*drawn)
    assert found.tolist() == [sums[name] for name in range(NAMES)]
    assert levels.tolist() == [lowest.get(name, NAMES) for name in range(NAMES)]


def test_deep_nesting_is_no_slower_than_many_rows() -> None:
    """Three thousand rows in each other, and a time in each: 4.5 million pairs, 0.1 s and not 15."""
    depth = 3_000
    parent = np.arange(-1, depth - 1, dtype=np.int32)
    name, innermost = np.arange(depth, dtype=np.int32), np.arange(depth, dtype=np.int32)
    began = time.process_time()
    found, levels = time_by_open_name(parent, name, innermost, np.ones(depth, np.int64), depth)
    assert time.process_time() - began < 2
    assert found.tolist() == list(range(depth, 0, -1))
    assert not levels.any()
