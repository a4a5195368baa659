"""Two ranks' communications beside each other where either may lack some: what is alike, in order, ends together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.columns import Columns
from hta_graph.model import Bools, Floats, Ids, Ints

__all__ = ["FEWEST", "Alignment", "Happened", "aligned"]

CLOSE_NS = 200_000
"""The ends of one collective on several ranks are at most about so far apart (188 µs on 8 H100)."""

BAND = 256
"""How many places a partner may lie away from where its end says it is."""

ERRORS, LEAST_SLACK_NS, MOST_SLACK_NS = 3, 10_000, 1_000_000
"""How far members may miss each other: so many usual distances of ends, within these bounds."""

FEWEST = 3
"""How many pairs it takes to believe that clocks differ: any two communications end together at some distance."""

COMPARED = 512
"""How many of the left ones are compared with all right ones to find the usual distance."""

NEAR = 4
"""How many places on an entry is compared, where both lists are equally long."""

WORTH_ALONE = 0.25
"""What a pair is worth whose ends are far apart; close ones are worth one more. So few close pairs go before many."""

TOGETHER_NS, ALWAYS = 50_000, 0.9
"""How close ends are, and of how many pairs, where senders wait for their receivers."""

CLEARLY = 1.2
"""How much better pairs have to be with clocks that differ than with clocks that agree."""

PAIRED, LEFT_ALONE, RIGHT_ALONE = 1, 2, 3

Steps = np.ndarray[tuple[int, int], np.dtype[np.int8]]
"""How the best score of each left one (row) and each right one in its band (column) came about."""


@dataclass(frozen=True, eq=False)
class Happened(Columns):
    """Communications in order: a code for what each is, its elements (-1: not known), when its rank came, its end.

    ``waits``: it cannot have ended before the other one came, but for the clocks. Times in ns.
    """

    what: Ids
    elements: Ints
    start: Ints
    end: Ints
    waits: Bools


@dataclass(frozen=True)
class Alignment:
    """Which entry of one list is which of the other, ascending; how good that is, more is better."""

    left: Ints
    right: Ints
    score: float

    def offset(self, left: Happened, right: Happened) -> int:
        """Return by how much the right clock is ahead, as the pairs' ends say (ns)."""
        return int(np.median(self.apart(left, right))) if len(self.left) else 0

    def apart(self, left: Happened, right: Happened) -> Ints:
        """Return how far the right clock seems to be ahead at each pair (ns).

        Members that wait for each other end together. Of others only one that went before the other came tells.
        """
        ours, theirs = left.take(self.left), right.take(self.right)
        behind = np.where(theirs.waits, np.minimum(theirs.end - ours.start, 0), 0)
        ahead = np.where(ours.waits, np.maximum(theirs.start - ours.end, 0), 0)
        return np.where(ours.waits & theirs.waits, theirs.end - ours.end, behind + ahead)


def aligned(left: Happened, right: Happened) -> Alignment:
    """Lay two lists beside each other so that what is alike stands together, in order, at one time.

    Where all wait for all, members of one communication overlap in time, but for the clocks. A pair counts one, and up
    to one more the closer its ends are; an entry may stay alone, which counts nothing. Clocks agree if so at least as
    many pairs are found as at any other distance; else the distance with the best pairs is taken.

        left    a  b  b     b  c  a
        right      b  b  x  b  c  a  a
    """
    if left.waits.any() and right.waits.any():
        return _aligned_by_time(left, right)
    # Senders may wait for their receivers too, or may not: if they do, both always end together.
    waiting = replace(left, waits=np.ones_like(left.waits)), replace(right, waits=np.ones_like(right.waits))
    together = _aligned_by_time(*waiting)
    usual = np.abs(together.apart(*waiting) - together.offset(*waiting))
    is_proven = len(usual) >= FEWEST and float(np.mean(usual <= TOGETHER_NS)) >= ALWAYS
    return together if is_proven else _aligned_by_time(left, right)


def _aligned_by_time(left: Happened, right: Happened) -> Alignment:
    agreeing = best = _aligned_at(left, right, 0, MOST_SLACK_NS)
    if len(agreeing.left) < min(len(left), len(right)):
        others = [_aligned_at(left, right, offset, MOST_SLACK_NS) for offset in _possible_offsets(left, right)]
        best = max(others, key=lambda found: found.score)
        best = best if len(best.left) >= FEWEST and best.score > CLEARLY * agreeing.score else agreeing
    if not len(best.left):
        return best
    # What is paired tells how far clocks are apart, and how well that is known. What then does not overlap in time is
    # two communications, of which either rank lost the other.
    offset = best.offset(left, right)
    usual = int(np.median(np.abs(best.apart(left, right) - offset)))
    offset = 0 if best is agreeing and abs(offset) <= ERRORS * usual else offset
    return _aligned_at(left, right, offset, min(ERRORS * usual + LEAST_SLACK_NS, MOST_SLACK_NS))


def _possible_offsets(left: Happened, right: Happened) -> list[int]:
    """List by how much the right clock may be ahead (ns): as the first, the last, the rare ones, or most pairs say."""
    shared = min(len(left), len(right))
    from_start = right.end[:shared] - left.end[:shared]
    from_end = right.end[-shared:] - left.end[-shared:]
    apart = [
        int(np.median(from_start)),
        int(np.median(from_end)),
        _rare_offset(left, right),
        _usual_offset(left, right),
    ]
    return list(dict.fromkeys(apart))


def _usual_offset(left: Happened, right: Happened) -> int:
    """Return the distance at which most of all possible pairs have their ends."""
    some = np.linspace(0, len(left) - 1, min(len(left), COMPARED)).astype(np.int64)
    alike = right.what[None, :] == left.what[some, None]
    apart = np.sort((right.end[None, :] - left.end[some, None])[alike])
    if not len(apart):
        return 0
    within = np.searchsorted(apart, apart + CLOSE_NS, side="right") - np.arange(len(apart))
    first = int(within.argmax())
    return int(np.median(apart[first : first + int(within[first])]))


def _rare_offset(left: Happened, right: Happened) -> int:
    """Return the usual distance of the ends of what occurs once in either list; 0 if nothing does."""
    once_left, at_left = _only_once(left.what)
    once_right, at_right = _only_once(right.what)
    _, ours, theirs = np.intersect1d(once_left, once_right, return_indices=True)
    return int(np.median(right.end[at_right[theirs]] - left.end[at_left[ours]])) if len(ours) else 0


def _only_once(what: Ids) -> tuple[Ids, Ints]:
    codes, first, counts = np.unique(what, return_index=True, return_counts=True)
    return codes[counts == 1], first[counts == 1]


def _aligned_at(left: Happened, right: Happened, offset: int, slack: int) -> Alignment:
    """Find the best pairs for one distance of clocks: the longest common subsequence, weighted by closeness."""
    if len(left) == len(right):
        worth = _worth_of(left, right, slice(None), slice(None), offset, slack)
        # Nothing seems lost, and each fits the one at its place as well as those beside it: the usual case of a job.
        if worth.all() and not any(
            (_worth_of(left.take(ours), right.take(theirs), slice(None), slice(None), offset, slack) > worth[ours]).any()
            for ours, theirs in _beside(len(left))
        ):
            every = np.arange(len(left))
            return Alignment(every, every, float(worth.sum()))
    width = min(2 * BAND + 1, len(right))
    # A band around where each left one's end lies on the right keeps long recordings linear.
    middle = np.searchsorted(np.maximum.accumulate(right.end), left.end + offset)
    begin = np.maximum.accumulate(np.clip(middle - width // 2, 0, len(right) - width))
    came_from = np.full((len(left), width), LEFT_ALONE, np.int8)
    # The score before the band, then those within; a score never falls to the right.
    best = np.zeros(width + 1)
    for at, first in enumerate(begin.tolist()):
        if at and (moved := first - int(begin[at - 1])):
            best = best[np.minimum(np.arange(width + 1) + moved, width)]
        worth = _worth_of(left, right, at, slice(first, first + width), offset, slack)
        paired = np.where(worth > 0, best[:-1] + worth, -1.0)
        row = np.maximum.accumulate(np.maximum(np.maximum(paired, best[1:]), best[0]))
        came_from[at, row > best[1:]] = RIGHT_ALONE
        came_from[at, (row == paired) & (row > best[1:])] = PAIRED
        best = np.concatenate((best[:1], row))
    return _traced_back(came_from, begin, float(best[-1]))


def _worth_of(left: Happened, right: Happened, at: int | slice, band: slice, offset: int, slack: int) -> Floats:
    """Say what a pair with each one in the band is worth; 0 where the two are not alike or cannot have met."""
    sizes, start, end = right.elements[band], right.start[band] - offset, right.end[band] - offset
    alike = (right.what[band] == left.what[at]) & ((sizes == left.elements[at]) | (sizes < 0) | (left.elements[at] < 0))
    # Who waits for the other cannot have gone before that one came.
    may_meet = (~right.waits[band] | (end >= left.start[at] - slack)) & (
        ~left.waits[at] | (left.end[at] >= start - slack)
    )
    # Members that wait for each other end together; one that waits alone ends soon after both have come.
    both, one = right.waits[band] & left.waits[at], right.waits[band] | left.waits[at]
    late = np.where(right.waits[band], end, left.end[at]) - np.maximum(start, left.start[at])
    apart = np.where(both, np.abs(end - left.end[at]), np.abs(late))
    closeness = np.where(both | (one & (late >= 0)), 1, 0.01) / (1 + apart / CLOSE_NS)
    return np.where(alike & may_meet, WORTH_ALONE + closeness, 0.0)


def _beside(count: int) -> list[tuple[slice, slice]]:
    """List how entries stand beside those of a few places on, either way."""
    near = range(1, min(NEAR, count))
    ahead = [(slice(None, -by), slice(by, None)) for by in near]
    return ahead + [(theirs, ours) for ours, theirs in ahead]


def _traced_back(came_from: Steps, begin: Ints, score: float) -> Alignment:
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
