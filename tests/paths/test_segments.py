"""Pieces of time are cut, clipped and merged as slow loops would do it."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from hta_graph.paths.segments import SegmentTable
from hta_graph.paths.time_accounting import AccountedTime
from tests.support.deep_tests import for_all

Piece = tuple[int, int, int, int]


def piece_lists() -> st.SearchStrategy[list[Piece]]:
    """Draw contiguous pieces: start, end, class and event."""
    part = st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(-1, 1))
    return st.tuples(st.integers(-9, 9), st.lists(part, min_size=1, max_size=8)).map(_contiguous)


def _contiguous(drawn: tuple[int, list[tuple[int, int, int]]]) -> list[Piece]:
    at, made = drawn[0], []
    for length, bound, event in drawn[1]:
        made.append((at, at + length, bound, event))
        at += length
    return made


def as_pieces(rows: list[Piece]) -> SegmentTable:
    start, end, bound, event = (np.array(column) for column in zip(*rows, strict=True))
    return SegmentTable.of(
        start=start,
        end=end,
        bound=bound,
        event=event,
        edge_kind=-1,
        inferred=False,
        lane=-1,
        part=0,
        reason=-1,
        open_call=-1,
    )


def as_accounts(rows: list[Piece]) -> AccountedTime:
    start, end, part, owner = (np.array(column) for column in zip(*rows, strict=True))
    return AccountedTime.of(span=0, start=start, end=end, part=part, owner=owner, is_loading=False)


def as_rows(parts: SegmentTable | AccountedTime) -> list[Piece]:
    said = (parts.bound, parts.event) if isinstance(parts, SegmentTable) else (parts.part, parts.owner)
    columns = (parts.start, parts.end, *said)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@for_all(piece_lists(), st.lists(st.integers(-12, 50), max_size=8, unique=True), examples=150)
def test_cutting_parts_is_a_loop_over_cuts(rows: list[Piece], cuts: list[int]) -> None:
    """Each piece is cut at every time strictly inside it; no time is lost or gained."""
    expected = []
    for start, end, bound, event in rows:
        times = [start, *(cut for cut in sorted(cuts) if start < cut < end), end]
        expected += [(left, right, bound, event) for left, right in pairwise(times)]
    assert as_rows(as_accounts(rows).cut(np.array(sorted(cuts), np.int64))) == expected


@for_all(piece_lists(), st.integers(-12, 50), st.integers(0, 30), examples=150)
def test_clipping_parts_is_a_loop_over_them(rows: list[Piece], start: int, length: int) -> None:
    """What lies in the window stays, cut at its ends; nothing of no length stays."""
    end = start + length
    clipped = [(max(left, start), min(right, end), bound, event) for left, right, bound, event in rows]
    limits = np.full(len(rows), start), np.full(len(rows), end)
    assert as_rows(as_accounts(rows).clip(*limits)) == [row for row in clipped if row[1] > row[0]]


@for_all(piece_lists(), st.randoms(use_true_random=False), examples=150)
def test_merging_pieces_is_a_loop_over_neighbours(rows: list[Piece], rng: random.Random) -> None:
    """Neighbours in time of equal class and event become one, whatever their order was; each path has its own."""
    expected: list[Piece] = []
    for row in rows:
        if expected and expected[-1][2:] == row[2:]:
            expected[-1] = (expected[-1][0], row[1], *row[2:])
        else:
            expected.append(row)
    shuffled = rng.sample(rows, len(rows))
    alone = np.zeros(len(rows), np.int64)
    assert [as_rows(of) for of in as_pieces(shuffled).merged(alone, 1)] == [expected]
    paths = np.array([0, 2] * len(rows))
    twice = as_pieces([row for row in shuffled for _ in range(2)]).merged(paths, 3)
    assert [as_rows(of) for of in twice] == [expected, [], expected]
