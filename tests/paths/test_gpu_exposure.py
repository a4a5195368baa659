"""Exposure: what other work hides, what it leaves open and what is shared add up to each activity's time."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hta_graph.paths.gpu_activity import Activities, exposure
from hta_graph.paths.intervals import union
from tests.support.deep_tests import for_all

Spans = list[tuple[int, int]]
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)


@for_all(SPANS, SPANS, examples=400)
def test_exposures_sum_to_what_is_not_hidden(work: Spans, hiding: Spans) -> None:
    start = np.array([begin for begin, _ in work], np.int64)
    end = start + np.array([length for _, length in work], np.int64)
    hidden_start = np.array([begin for begin, _ in hiding], np.int64)
    hidden = union(hidden_start, hidden_start + np.array([length for _, length in hiding], np.int64))
    codes = np.zeros(len(work), np.int32)
    found = exposure(Activities(codes, start, end, codes, codes.astype(np.int8), codes), hidden)
    assert found.exposed.sum() == union(start, end).subtract(hidden).total
    assert (found.hidden + found.exposed + found.shared == end - start).all()
    assert all((part >= 0).all() for part in (found.hidden, found.exposed, found.shared))
