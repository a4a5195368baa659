"""The best pairs of two lists of communications: what is alike, in order, at one time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, column_types
from hta_graph.model import Bools, Floats, Ids, Ints

__all__ = [
    "CLOSE_ENDS_NS",
    "OPTIONAL_COLUMNS",
    "BASE_SCORE",
    "Alignment",
    "CommunicationSequence",
    "align_at_offset",
    "clock_differences",
    "are_pairs_in_order",
]

CLOSE_ENDS_NS = 200_000
"""The ends of one collective on several ranks are at most about so far apart (188 µs on 8 H100)."""

BAND_WIDTH = 256
"""How many places a partner may lie away from where its end says it is."""

NEIGHBOURS = 4
"""How many places on an entry is compared, where both lists are equally long."""

BASE_SCORE = 0.25
"""What a pair is worth whose ends are far apart; close ones are worth one more. So few close pairs go before many."""

SAME_NUMBER_SCORE = 4.0
"""What a pair with one recorded number is worth."""

LOSS_PENALTY = 1.0
"""How much better a pair's loss on both sides has to make the others, where lists of equal lengths fit in order."""

SCORE_TOLERANCE = 0.1
"""By how much the worth of pairs may be wrong, each."""

PAIRED, LEFT_ALONE, RIGHT_ALONE = 1, 2, 3

BacktraceMatrix = np.ndarray[tuple[int, int], np.dtype[np.int8]]
"""How the best score of each left one (row) and each right one in its band (column) came about."""


OPTIONAL_COLUMNS = ("elements", "kind", "number")
"""What must be the same where both know it."""


@dataclass(frozen=True, eq=False)
class CommunicationSequence(Columns):
    """Communications in order: a code for what each is, what else is known of it, when its rank came, its end.

    ``elements``, ``kind`` (a code) and ``number`` within the group are -1 where they are not known. ``waits``: it
    cannot have ended before the other one came, but for the clocks. Times in ns.
    """

    what: Ids
    elements: Ints
    kind: Ints
    number: Ints
    start: Ints
    end: Ints
    waits: Bools


@dataclass(frozen=True)
class Alignment:
    """Which entry of one list is which of the other, ascending; how good that is, more is better."""

    left: Ints
    right: Ints
    score: float

    def partner_of(self, count: int) -> Ints:
        """Return where each of so many left ones has its partner on the right (-1: it is alone)."""
        partner = np.full(count, -1, np.int64)
        partner[self.left] = self.right
        return partner

    def offset(self, left: CommunicationSequence, right: CommunicationSequence) -> int:
        """Return by how much the right clock is ahead, as the pairs' ends say (ns)."""
        return int(np.median(self.clock_differences(left, right))) if len(self.left) else 0

    def clock_differences(self, left: CommunicationSequence, right: CommunicationSequence) -> Ints:
        """Return how far the right clock seems to be ahead at each pair (ns): see :func:`clock_differences`."""
        return clock_differences(left.take(self.left), right.take(self.right))


def clock_differences(ours: CommunicationSequence, theirs: CommunicationSequence) -> Ints:
    """Return how far the right clock seems to be ahead at each pair (ns), one or many lists of theirs.

    Members that wait for each other end together. Of others only one that went before the other came tells.
    """
    behind = np.where(theirs.waits, np.minimum(theirs.end - ours.start, 0), 0)
    ahead = np.where(ours.waits, np.maximum(theirs.start - ours.end, 0), 0)
    apart: Ints = np.where(ours.waits & theirs.waits, theirs.end - ours.end, behind + ahead)
    return apart


def align_at_offset(
    left: CommunicationSequence,
    right: CommunicationSequence,
    offset: int,
    slack: int,
    *,
    lean: int = 0,
    base: Floats | None = None,
) -> Alignment:
    """Find the best pairs for one distance of clocks: the longest common subsequence, weighted by closeness.

    With ``lean`` pairs to one side of ``base``, where each left one's partner lies on the right, are worth a little
    more: what then is paired otherwise was no clear choice.
    """
    in_order = _in_order_alignment(left, right, offset, slack) if base is None else None
    if in_order is not None and not _neighbour_fits_better(left, right, offset, slack):
        return in_order
    width = min(2 * BAND_WIDTH + 1, len(right))
    # A band around where each left one's end lies on the right keeps long recordings linear.
    middle = np.searchsorted(np.maximum.accumulate(right.end), left.end + offset)
    begin = np.maximum.accumulate(np.clip(middle - width // 2, 0, len(right) - width))
    came_from = np.full((len(left), width), LEFT_ALONE, np.int8)
    # The score before the band, then those within; a score never falls to the right.
    best = np.zeros(width + 1)
    for at, first in enumerate(begin.tolist()):
        if at and (moved := first - int(begin[at - 1])):
            best = best[np.minimum(np.arange(width + 1) + moved, width)]
        worth = _pair_scores(left, right, at, slice(first, first + width), offset, slack)
        if base is not None:
            leant = lean * (np.arange(first, first + width) - base[at]) > 0
            worth = np.where((worth > 0) & leant, worth + SCORE_TOLERANCE, worth)
        paired = np.where(worth > 0, best[:-1] + worth, -1.0)
        row = np.maximum.accumulate(np.maximum(np.maximum(paired, best[1:]), best[0]))
        came_from[at, row > best[1:]] = RIGHT_ALONE
        came_from[at, (row == paired) & (row > best[1:])] = PAIRED
        best = np.concatenate((best[:1], row))
    found = _trace_back(came_from, begin, float(best[-1]))
    if in_order is not None and found.score < in_order.score + LOSS_PENALTY * (len(left) - len(found.left)):
        return in_order
    return found


def _in_order_alignment(
    left: CommunicationSequence, right: CommunicationSequence, offset: int, slack: int
) -> Alignment | None:
    """Return the pairs of equal places of lists of equal lengths; None where any of them is none."""
    if len(left) != len(right):
        return None
    worth = _pair_scores(left, right, slice(None), slice(None), offset, slack)
    every = np.arange(len(left))
    return Alignment(every, every, float(worth.sum())) if worth.all() else None


def are_pairs_in_order(
    left: CommunicationSequence, right: CommunicationSequence, offset: int | Ints, slack: int | Ints
) -> Bools:
    """Tell of each list of as many entries as the left one, one per row, whether its pairs are those of equal places.

    That is where :func:`align_at_offset` looks no further; distances and slack of clocks are columns of one value per list.
    """
    every = slice(None)
    in_order = _pair_scores(left, right, every, every, offset, slack).all(axis=-1)
    return in_order & ~_neighbour_fits_better(left, right, offset, slack)


def _neighbour_fits_better(
    left: CommunicationSequence, right: CommunicationSequence, offset: int | Ints, slack: int | Ints
) -> Bools:
    """Tell whether any entry fits one a few places on better than the one at its own place, either way."""
    every = slice(None)
    worth = _pair_scores(left, right, every, every, offset, slack)
    found: Bools = np.zeros(worth.shape[:-1], np.bool_)
    near = range(1, min(NEIGHBOURS, len(left)))
    ahead = [(slice(None, -by), slice(by, None)) for by in near]
    for ours, theirs in ahead + [(theirs, ours) for ours, theirs in ahead]:
        beside = _pair_scores(_slice_of(left, ours), _slice_of(right, theirs), every, every, offset, slack)
        found = found | np.any(beside > worth[..., ours], axis=-1)
    return found


def _slice_of(happened: CommunicationSequence, part: slice) -> CommunicationSequence:
    """Select a range of places, of each of several lists."""
    return CommunicationSequence(
        **{name: getattr(happened, name)[..., part] for name in column_types(CommunicationSequence)}
    )


def _pair_scores(
    left: CommunicationSequence,
    right: CommunicationSequence,
    at: int | slice,
    band: slice,
    offset: int | Ints,
    slack: int | Ints,
) -> Floats:
    """Say what a pair with each one in the band is worth; 0 where the two are not alike or cannot have met."""
    start, end = right.start[band] - offset, right.end[band] - offset
    alike = right.what[band] == left.what[at]
    for known in OPTIONAL_COLUMNS:
        ours, theirs = getattr(left, known)[at], getattr(right, known)[band]
        alike &= (ours == theirs) | (ours < 0) | (theirs < 0)
    numbered = alike & (left.number[at] >= 0) & (right.number[band] >= 0)
    # Who waits for the other cannot have gone before that one came.
    may_meet = (~right.waits[band] | (end >= left.start[at] - slack)) & (
        ~left.waits[at] | (left.end[at] >= start - slack)
    )
    # Members that wait for each other end together; one that waits alone ends soon after both have come.
    both, one = right.waits[band] & left.waits[at], right.waits[band] | left.waits[at]
    late = np.where(right.waits[band], end, left.end[at]) - np.maximum(start, left.start[at])
    apart = np.where(both, np.abs(end - left.end[at]), np.abs(late))
    closeness = np.where(both | (one & (late >= 0)), 1, 0.01) / (1 + apart / CLOSE_ENDS_NS)
    return np.where(numbered, SAME_NUMBER_SCORE, np.where(alike & may_meet, BASE_SCORE + closeness, 0.0))


def _trace_back(came_from: BacktraceMatrix, begin: Ints, score: float) -> Alignment:
    pairs: list[tuple[int, int]] = []
    width, at = came_from.shape[1], len(came_from) - 1
    place = int(begin[-1]) + width - 1 if len(begin) else -1
    while at >= 0 and place >= 0:
        within = place - int(begin[at])
        step = LEFT_ALONE if within < 0 else RIGHT_ALONE if within >= width else int(came_from[at, within])
        if step == PAIRED:
            pairs.append((at, place))
        at -= step != RIGHT_ALONE
        place -= step != LEFT_ALONE
    left, right = np.array(pairs[::-1], np.int64).reshape(-1, 2).T
    return Alignment(left, right, score)
