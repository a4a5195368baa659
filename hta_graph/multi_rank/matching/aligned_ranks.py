"""Several ranks' communications beside each other, where each may lack some: every rank is laid beside those before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.arrays import column_types
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.sequence_alignment import align_sequences, are_aligned_in_order
from hta_graph.multi_rank.matching.weighed_pairs import OPTIONAL_COLUMNS, Alignment, CommunicationSequence

__all__ = ["align_ranks"]

FIRST_BATCH, LARGEST_BATCH = 32, 256
"""How many ranks are compared with what is known in one go: at first, and at most, since thousands would only take
memory."""

_MergeStep = tuple[int, tuple[Ints, Ints] | None]
"""A rank that was laid beside those before; where its own and where theirs came to stand (None: all as they were)."""


def align_ranks(happened: Mapping[int, CommunicationSequence]) -> tuple[dict[int, Ints], dict[int, Bools]]:
    """Return the position of each rank's communications; what stands at one position belongs together.

    What only one rank recorded has a position of its own. Besides, which of each rank's may belong elsewhere as well.

        rank 0      a  b     c  d
        rank 1         b  b  c  d
        rank 2      a  b  b     d
        position    0  1  2  3  4
    """
    # The longest recording first: the others have most to be compared with. Ties: the lower rank.
    first, *others = sorted(happened, key=lambda rank: (-len(happened[rank]), rank))
    known = happened[first]
    unsure = {rank: np.zeros(len(own), np.bool_) for rank, own in happened.items()}
    steps: list[_MergeStep] = []
    done, at_once = 0, FIRST_BATCH
    while done < len(others):
        asked = others[done : done + at_once]
        alike = _count_equal_sequences(known, [happened[rank] for rank in asked])
        steps += [(rank, None) for rank in asked[:alike]]
        done, at_once = done + alike, min(2 * at_once, LARGEST_BATCH)
        if alike < len(asked):
            rank, at_once = asked[alike], 1
            found, is_sure = align_sequences(known, happened[rank])
            unsure[rank][found.right[~is_sure]] = True
            known, at, moved = _merge_sequences(known, happened[rank], found)
            steps.append((rank, (at, moved)))
            done += 1
    return _final_positions(first, steps, len(known)), unsure


def _count_equal_sequences(known: CommunicationSequence, others: Sequence[CommunicationSequence]) -> int:
    """Count the first lists that are the known one entry by entry, and tell nothing that is not known of it."""
    even = next((at for at, own in enumerate(others) if len(own) != len(known)), len(others))
    if not even:
        return 0
    rows = CommunicationSequence(
        **{
            name: np.stack([getattr(own, name) for own in others[:even]])
            for name in column_types(CommunicationSequence)
        }
    )
    alike = are_aligned_in_order(known, rows)
    for name in OPTIONAL_COLUMNS:
        alike &= (getattr(rows, name) <= getattr(known, name)).all(axis=-1)
    return even if alike.all() else int(alike.argmin())


def _merge_sequences(
    known: CommunicationSequence, own: CommunicationSequence, found: Alignment
) -> tuple[CommunicationSequence, Ints, Ints]:
    """Return both lists as one, the places in it of the own ones, and of the known ones."""
    ahead = found.offset(known, own)
    at, moved = _merged_positions(known, own, found, ahead)
    return _merged_columns(known, own, moved, at, ahead), at, moved


def _final_positions(first: int, steps: Sequence[_MergeStep], count: int) -> dict[int, Ints]:
    """Return the places of each rank's communications when all are laid together.

    Each step moved the places of all ranks before it: from the last step to the first one, each is moved once.
    """
    places: dict[int, Ints] = {}
    last: Ints = np.arange(count)
    for rank, step in reversed(steps):
        places[rank] = last
        if step is not None:
            at, moved = step
            places[rank], last = last[at], last[moved]
    return places | {first: last}


def _merged_positions(
    known: CommunicationSequence, own: CommunicationSequence, found: Alignment, ahead: int
) -> tuple[Ints, Ints]:
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


def _merged_columns(
    known: CommunicationSequence, own: CommunicationSequence, moved: Ints, at: Ints, ahead: int
) -> CommunicationSequence:
    """Return both lists as one, in the known one's time; of a pair the known entry, with what either knows besides."""
    both = CommunicationSequence.join([known, replace(own, start=own.start - ahead, end=own.end - ahead)])
    place = np.concatenate((moved, at))
    _, first = np.unique(place, return_index=True)
    told: dict[str, Any] = {name: np.full(len(first), -1, np.int64) for name in OPTIONAL_COLUMNS}
    for name, column in told.items():
        np.maximum.at(column, place, getattr(both, name))
    return replace(both.take(first), **told)
