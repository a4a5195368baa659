"""Operators of two traces by name and order, where ids tell nothing: thread by thread."""

from __future__ import annotations

import numpy as np

from hta_graph.alignment.sequence_alignment import align
from hta_graph.chakra.operator_rows import OperatorRows, RowPairs

__all__ = ["match_by_order"]


def match_by_order(hosted: OperatorRows, recorded: OperatorRows) -> RowPairs:
    """Align the names on each logical thread with those on the Kineto thread that shares most of them."""
    parts = []
    for thread, lane in _matching_threads(hosted, recorded):
        left, right = np.flatnonzero(hosted.thread == thread), np.flatnonzero(recorded.thread == lane)
        # What only one side knows cannot match, and would push the others apart.
        right = right[np.isin(recorded.code[right], hosted.code[left])]
        left = left[np.isin(hosted.code[left], recorded.code[right])]
        i, j = align(hosted.code[left], recorded.code[right])
        parts.append((left[i], right[j]))
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(i for i, _ in parts)]), np.concatenate([none, *(j for _, j in parts)])


def _matching_threads(hosted: OperatorRows, recorded: OperatorRows) -> list[tuple[int, int]]:
    """Pair threads one to one, those that share most operators first."""
    names = int(hosted.code.max(initial=-1)) + 1
    known = recorded.code >= 0
    ours, theirs = np.unique(hosted.thread), np.unique(recorded.thread[known])
    counts = [np.bincount(hosted.code[hosted.thread == thread], minlength=names) for thread in ours]
    shared = np.zeros((len(ours), len(theirs)), np.int64)
    for at, lane in enumerate(theirs):
        count = np.bincount(recorded.code[known & (recorded.thread == lane)], minlength=names)
        shared[:, at] = [int(np.minimum(own, count).sum()) for own in counts]
    # The pair that shares most is taken, then the next among the threads that are left.
    pairs = []
    while shared.max(initial=0) > 0:
        i, j = np.unravel_index(int(shared.argmax()), shared.shape)
        pairs.append((int(ours[i]), int(theirs[j])))
        shared[i, :] = shared[:, j] = 0
    return pairs
