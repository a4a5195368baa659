"""Several ranks' communications beside each other, where each may lack some: every rank is laid beside those before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.job.matching.aligned_sequences import aligned
from hta_graph.job.matching.weighed_pairs import MAY_BE_KNOWN, Alignment, Happened
from hta_graph.model import Bools, Ints

__all__ = ["aligned_ranks"]


def aligned_ranks(happened: Mapping[int, Happened]) -> tuple[dict[int, Ints], dict[int, Bools]]:
    """Return the position of each rank's communications; what stands at one position belongs together.

    What only one rank recorded has a position of its own. Besides, which of each rank's may belong elsewhere as well.

        rank 0      a  b     c  d
        rank 1         b  b  c  d
        rank 2      a  b  b     d
        position    0  1  2  3  4
    """
    if all(len(own) == 1 for own in happened.values()):
        return {rank: np.zeros(1, np.int64) for rank in happened}, {rank: np.zeros(1, np.bool_) for rank in happened}
    # The longest recording first: the others have most to be compared with. Ties: the lower rank.
    first, *others = sorted(happened, key=lambda rank: (-len(happened[rank]), rank))
    known = happened[first]
    place = {first: np.arange(len(known))}
    unsure = {rank: np.zeros(len(own), np.bool_) for rank, own in happened.items()}
    for rank in others:
        own = happened[rank]
        found, is_sure = aligned(known, own)
        unsure[rank][found.right[~is_sure]] = True
        ahead = found.offset(known, own)
        at, moved = _merged_places(known, own, found, ahead)
        place = {other: moved[places] for other, places in place.items()} | {rank: at}
        known = _merged(known, own, moved, at, ahead)
    return place, unsure


def _merged_places(known: Happened, own: Happened, found: Alignment, ahead: int) -> tuple[Ints, Ints]:
    """Number the entries of two lists together: where each of the own and each of the known ones comes to stand."""
    is_paired = np.zeros(len(own), np.bool_)
    is_paired[found.right] = True
    alone = np.flatnonzero(~is_paired)
    # Behind each pair comes what stands alone on either side up to the next pair, in order of time.
    #   known  a  b     c        own   a  x  c          together   a  b  x  c
    behind_known = np.searchsorted(found.left, np.arange(len(known)), side="right")
    behind_own = np.searchsorted(found.right, alone, side="right")
    opens = np.isin(np.arange(len(known)), found.left)
    behind = np.concatenate((behind_known, behind_own))
    is_later = np.concatenate((~opens, np.ones(len(alone), np.bool_)))
    time = np.concatenate((known.end, own.end[alone] - ahead))
    order = np.lexsort((time, is_later, behind))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    moved, at = place[: len(known)], np.empty(len(own), np.int64)
    at[found.right] = moved[found.left]
    at[alone] = place[len(known) :]
    return at, moved


def _merged(known: Happened, own: Happened, moved: Ints, at: Ints, ahead: int) -> Happened:
    """Return both lists as one, in the known one's time; of a pair the known entry, with what either knows besides."""
    both = Happened.join([known, replace(own, start=own.start - ahead, end=own.end - ahead)])
    place = np.concatenate((moved, at))
    _, first = np.unique(place, return_index=True)
    told: dict[str, Any] = {name: np.full(len(first), -1, np.int64) for name in MAY_BE_KNOWN}
    for name, column in told.items():
        np.maximum.at(column, place, getattr(both, name))
    return replace(both.take(first), **told)
