"""What is looked up for very many lanes, rows or waits at once is what a loop over them finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.base import arrays
from hta_graph.base.arrays import last_at_most
from hta_graph.dependencies import wait_resolution
from hta_graph.graph.timeline import USUAL_DEPTH, nearest_around
from tests.support.deep_tests import for_all
from tests.support.trace_builder import TraceBuilder


@for_all(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12), st.data(), examples=1_000)
def test_the_last_value_until_a_wanted_one_is_found_in_each_range(ranges: list[list[int]], data: st.DataObject) -> None:
    values = np.array([value for own in ranges for value in sorted(own)], np.int64)
    ends = np.cumsum([len(own) for own in ranges])
    asked = data.draw(st.lists(st.tuples(st.integers(0, len(ranges) - 1), st.integers(-1, 10)), min_size=1))
    of, wanted = (np.array(column) for column in zip(*asked, strict=True))
    first = np.append(0, ends[:-1])
    expected = [first[at] - 1 + sum(value <= most for value in ranges[at]) for at, most in asked]
    for few in (0, arrays.FEW_RANGES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrays, "FEW_RANGES", few)
            assert last_at_most(values, first[of], ends[of], wanted).tolist() == expected


def test_a_range_without_values_is_told_from_the_one_that_begins_there() -> None:
    first, past = np.array([0, 0, 2, 2]), np.array([0, 2, 2, 3])
    assert last_at_most(np.array([1, 5, 3]), first, past, np.full(4, 4)).tolist() == [-1, 0, 1, 2]


@pytest.mark.parametrize("depth", [3, USUAL_DEPTH, 5 * USUAL_DEPTH])
def test_rows_however_deep_find_the_nearest_wanted_one(depth: int) -> None:
    parent = np.arange(-1, depth - 1, dtype=np.int32)
    rows = np.array([depth - 1, -1, 0], np.int32)
    for at in (0, depth // 2, depth - 1):
        wanted = np.arange(depth) == at
        assert nearest_around(parent, rows, wanted).tolist() == [at, -1, 0 if at == 0 else -1]
    assert nearest_around(parent, rows, np.zeros(depth, np.bool_)).tolist() == [-1, -1, -1]


def waits_without_records(seed: int) -> TraceBuilder:
    """Streams that wait for each other, and a host that waits for them, without a record that says for which."""
    chance, trace = random.Random(seed), TraceBuilder()
    for number in range(30):
        at, corr = 30 * number, 3 * number + 1
        start = at + chance.randint(3, 60)
        trace.launch("k", (at, at + 2), (start, start + chance.randint(1, 9)), corr, stream=chance.randint(7, 11))
        trace.call("cudaEventRecord", at + 3, at + 4, corr + 1)
        call = chance.choice(["cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaEventSynchronize"])
        trace.call(call, at + 5, at + 5 + chance.randint(1, 20), corr + 2)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_waits_are_inferred_alike_in_parts_and_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A table of all waits by all streams does not fit into memory where there are many of both."""
    at_once = waits_without_records(seed).graph(tmp_path)
    monkeypatch.setattr(wait_resolution, "CELLS", 1)
    in_parts = waits_without_records(seed).graph(tmp_path)
    assert at_once.edge_counts() == in_parts.edge_counts()
    for column in ("source", "target", "kind", "rule"):
        assert np.array_equal(getattr(at_once.edge_table, column), getattr(in_parts.edge_table, column))
    assert at_once.edge_counts()["event_wait"]["inferred"]
