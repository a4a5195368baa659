"""Operators of two traces with one id: equal ids, or ids that are a constant apart; believed where names agree."""

from __future__ import annotations

import numpy as np

from hta_graph.chakra.operator_rows import OperatorRows, RowPairs
from hta_graph.model import Ids, Ints

__all__ = ["best_offset", "join_ids", "names_agree", "same_name_pairs"]

MIN_NAME_AGREEMENT = 0.95
"""Ids are believed where so many of those in both traces stand for operators of one name."""

MAX_RARE_COUNT = 16
"""Names that occur at most so often on both sides tell an offset between ids."""

MAX_OFFSETS = 16
"""So many of the most frequent differences of ids are looked at."""


def join_ids(left: Ints, right: Ints) -> RowPairs:
    """Join positive ids; of rows with one id the first."""
    i, j = np.flatnonzero(left > 0), np.flatnonzero(right > 0)
    left_ids, first_left = np.unique(left[i], return_index=True)
    right_ids, first_right = np.unique(right[j], return_index=True)
    _, at_left, at_right = np.intersect1d(left_ids, right_ids, assume_unique=True, return_indices=True)
    return i[first_left[at_left]], j[first_right[at_right]]


def same_name_pairs(hosted: OperatorRows, recorded: OperatorRows, pairs: RowPairs) -> RowPairs:
    """Keep the pairs of one name."""
    i, j = pairs
    same = hosted.code[i] == recorded.code[j]
    return i[same], j[same]


def names_agree(hosted: OperatorRows, recorded: OperatorRows, pairs: RowPairs) -> bool:
    """Say whether ids that both traces have stand for operators of one name."""
    equal = len(same_name_pairs(hosted, recorded, pairs)[0])
    return equal > 0 and equal >= MIN_NAME_AGREEMENT * len(pairs[0])


def best_offset(hosted: OperatorRows, recorded: OperatorRows, rf_id: Ints, external: Ints) -> int:
    """Return the difference between older ids and those of the host trace with which most names agree."""

    def agreeing(offset: int) -> int:
        return len(same_name_pairs(hosted, recorded, join_ids(rf_id, external - offset))[0])

    known = external > 0
    return max([0, *_common_offsets(rf_id, hosted.code, external[known], recorded.code[known])], key=agreeing)


def _common_offsets(rf_id: Ints, code: Ids, external: Ints, external_code: Ids) -> list[int]:
    """List the commonest differences between ids of equal names: all pairs of rare ones, else equal occurrences."""
    left, right = np.flatnonzero(rf_id > 0), np.flatnonzero(external_code >= 0)
    # Sorted by name, in the order of their beginning within a name: each name is one stretch of both columns.
    left, right = left[np.argsort(code[left], kind="stable")], right[np.argsort(external_code[right], kind="stable")]
    names = np.arange(int(max(code.max(initial=-1), external_code.max(initial=-1))) + 2)
    first, other = np.searchsorted(code[left], names), np.searchsorted(external_code[right], names)
    differences = []
    for begin, end, begin_right, end_right in zip(first[:-1], first[1:], other[:-1], other[1:], strict=True):
        ours, theirs = rf_id[left[begin:end]], external[right[begin_right:end_right]]
        if max(len(ours), len(theirs)) <= MAX_RARE_COUNT:
            differences.append((theirs[None, :] - ours[:, None]).ravel())
        else:
            # All pairs of a common name would be millions: the n-th from either end are likely partners, for
            # recordings begin or end together.
            both = min(len(ours), len(theirs))
            differences += [theirs[:both] - ours[:both], theirs[len(theirs) - both :] - ours[len(ours) - both :]]
    found, count = np.unique(np.concatenate(differences or [np.empty(0, np.int64)]), return_counts=True)
    commonest: list[int] = found[np.argsort(-count, kind="stable")][:MAX_OFFSETS].tolist()
    return commonest
