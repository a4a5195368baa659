"""Alignment of the ranks' sequences of communications, where each rank may lack some.

Pairs are scored by what both are and how close they end; two sequences are aligned for the best score; every further
rank is aligned to those before it. Positions align:

    rank 0      a  b     c  d
    rank 1         b  b  c  d
    rank 2      a  b  b     d
    position    0  1  2  3  4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, column_types
from hta_graph.model import Bools, Floats, Ids, Ints

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
        """Return where each of ``count`` left ones has its partner on the right (-1: it is alone)."""
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

    Members that wait for each other end together. Of others only one that left before the other arrived is evidence.
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
    """Mark the lists (one per row, as long as the left one) whose pairs are those of equal places.

    That is where :func:`align_at_offset` looks no further; distances and slack of clocks are columns of one value per
    list.
    """
    every = slice(None)
    in_order = _pair_scores(left, right, every, every, offset, slack).all(axis=-1)
    return in_order & ~_neighbour_fits_better(left, right, offset, slack)


def _neighbour_fits_better(
    left: CommunicationSequence, right: CommunicationSequence, offset: int | Ints, slack: int | Ints
) -> Bools:
    """Return whether any entry fits one a few places on better than the one at its own place, either way."""
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


SLACK_ERRORS, MIN_SLACK_NS, MAX_SLACK_NS = 3, 10_000, 1_000_000
"""How far apart members can be: this many usual distances of ends, within these bounds."""

MIN_PAIRS = 3
"""How many pairs it takes to believe that clocks differ: any two communications end together at some distance."""

CLEARLY_BETTER = 1.2
"""How much better pairs have to be with clocks that differ than with clocks that agree."""

MUCH_BETTER = 1.5
"""The same, where with clocks that agree nothing stays alone."""

SIMULTANEOUS_NS, SIMULTANEOUS_SHARE = 50_000, 0.9
"""How close ends are, and of how many pairs, where senders wait for their receivers; or what share of the best score
needs no other distance."""

UNBOUNDED_NS = 1 << 62
"""More than any two clocks are apart (ns)."""

USUAL_OFFSETS = 3
"""How many usual distances are tried."""

SAMPLED_ENTRIES = 512
"""How many of the left ones are compared with all right ones to find the usual distance."""


def align_sequences(left: CommunicationSequence, right: CommunicationSequence) -> tuple[Alignment, Bools]:
    """Align two lists so that equal entries are together, in order, at one time; mark what is sure.

    Where all wait for all, members of one communication overlap in time and end together, but for the clocks; one that
    waits alone ends soon after both came. The closer, the more a pair counts; an entry may stay alone, which counts
    nothing. Clocks agree unless pairs are clearly better at another distance. A pair is sure if no others are about as
    good.

        left    a  b  b     b  c  a
        right      b  b  x  b  c  a  a
    """
    if left.waits.any() and right.waits.any():
        return _align_by_time(left, right)
    # Senders may wait for their receivers too, or may not: if they do, both always end together.
    waiting = replace(left, waits=np.ones_like(left.waits)), replace(right, waits=np.ones_like(right.waits))
    together, is_sure = _align_by_time(*waiting)
    is_sure &= len(left) == len(right) or abs(together.offset(*waiting)) <= MAX_SLACK_NS
    plain = _align_by_time(left, right)
    offset = together.offset(*waiting)
    usual = np.abs(together.clock_differences(*waiting) - offset)
    is_proven = len(usual) >= MIN_PAIRS and float(np.mean(usual <= SIMULTANEOUS_NS)) >= SIMULTANEOUS_SHARE
    # Equal steps end together at a wrong distance too: that is asked only where something does not fit without.
    needs_distance = abs(offset) > SIMULTANEOUS_NS
    fits_without = len(plain[0].left) == min(len(left), len(right))
    if is_proven and not (needs_distance and fits_without) and not _leaves_partners_alone(together, left, right):
        return together, is_sure
    return plain


def are_aligned_in_order(left: CommunicationSequence, right: CommunicationSequence) -> Bools:
    """Mark the lists, one per row, that :func:`align_sequences` surely takes for the left one at its first try.

    What differs between ranks is usually times alone; of thousands that is asked at once.
    """
    in_order = right.waits.any(axis=-1) & left.waits.any() & are_pairs_in_order(left, right, 0, MAX_SLACK_NS)
    apart = clock_differences(left, right)
    offset = np.median(apart, axis=-1).astype(np.int64)
    usual = np.median(np.abs(apart - offset[:, None]), axis=-1).astype(np.int64)
    offset = _nearest_possible(np.where(np.abs(offset) <= SLACK_ERRORS * usual, 0, offset), left, right)
    slack = np.minimum(SLACK_ERRORS * usual + MIN_SLACK_NS, MAX_SLACK_NS)
    return in_order & are_pairs_in_order(left, right, offset[:, None], slack[:, None])


def _leaves_partners_alone(found: Alignment, left: CommunicationSequence, right: CommunicationSequence) -> bool:
    """Return whether entries stay alone on both sides between two pairs, though one may be the other's."""
    alone_left = np.setdiff1d(np.arange(len(left)), found.left)
    alone_right = np.setdiff1d(np.arange(len(right)), found.right)
    behind_left = np.searchsorted(found.left, alone_left)
    behind_right = np.searchsorted(found.right, alone_right)
    _, ours, theirs = np.intersect1d(behind_left, behind_right, return_indices=True)
    one, other = left.take(alone_left[ours]), right.take(alone_right[theirs])
    may_meet = (~other.waits | (other.end >= one.start)) & (~one.waits | (one.end >= other.start))
    return bool(may_meet.any())


def _align_by_time(left: CommunicationSequence, right: CommunicationSequence) -> tuple[Alignment, Bools]:
    agreeing = best = align_at_offset(left, right, 0, MAX_SLACK_NS)
    tried = [agreeing]
    shared = min(len(left), len(right))
    is_complete = len(agreeing.left) == shared
    is_best = is_complete and (
        len(left) == len(right) or agreeing.score >= SIMULTANEOUS_SHARE * shared * (BASE_SCORE + 1)
    )
    if not is_best:
        tried += _in_order_candidates(left, right)
        tried += [align_at_offset(left, right, offset, MAX_SLACK_NS) for offset in _candidate_offsets(left, right)]
        best = max(tried, key=lambda found: found.score)
        needed = MUCH_BETTER if is_complete else CLEARLY_BETTER
        best = best if len(best.left) >= MIN_PAIRS and best.score > needed * agreeing.score else agreeing
    if not len(best.left):
        return best, np.zeros(0, np.bool_)
    # What is paired tells how far clocks are apart, and how well that is known. What then does not overlap in time is
    # two communications, of which either rank lost the other.
    offset = best.offset(left, right)
    usual = int(np.median(np.abs(best.clock_differences(left, right) - offset)))
    offset = 0 if best is agreeing and abs(offset) <= SLACK_ERRORS * usual else offset
    if len(best.left) == len(left) == len(right):
        offset = _within_bounds(offset, left, right)
    slack = min(SLACK_ERRORS * usual + MIN_SLACK_NS, MAX_SLACK_NS)
    found = align_at_offset(left, right, offset, slack)
    if best is not agreeing and len(left) != len(right) and not (left.waits.any() and right.waits.any()):
        # Of messages one way almost any distance allows all: where some are lost, that is a guess.
        return found, np.zeros(len(found.left), np.bool_)
    # Clocks that agree are what is usual; of distances that are about as good none is sure.
    nearly = 1 if best is agreeing else CLEARLY_BETTER
    rivals = [other for other in tried if nearly * other.score > best.score]
    return found, _is_certain(found, [*rivals, *_biased_alignments(found, left, right, offset, slack)], len(left))


def _in_order_candidates(left: CommunicationSequence, right: CommunicationSequence) -> list[Alignment]:
    """Return what order alone says where nothing is lost and some distance of clocks allows it; else nothing."""
    if len(left) != len(right):
        return []
    both = left.waits & right.waits
    usual = int(np.median((right.end - left.end)[both])) if both.any() else 0
    return [align_at_offset(left, right, _within_bounds(usual, left, right), MAX_SLACK_NS)]


def _within_bounds(offset: int, left: CommunicationSequence, right: CommunicationSequence) -> int:
    """Return the nearest distance of clocks (ns) at which all of two lists of equal lengths may have met in order."""
    return int(_nearest_possible(np.array(offset), left, right))


def _nearest_possible(offset: Ints, left: CommunicationSequence, right: CommunicationSequence) -> Ints:
    """Do the same of many lists, one per row, and the left one."""
    low = np.where(left.waits, right.start - left.end, -UNBOUNDED_NS).max(axis=-1)
    high = np.where(right.waits, right.end - left.start, UNBOUNDED_NS).min(axis=-1)
    nearest: Ints = np.where(low <= high, np.maximum(low, np.minimum(offset, high)), (low + high) // 2)
    return nearest


def _biased_alignments(
    found: Alignment, left: CommunicationSequence, right: CommunicationSequence, offset: int, slack: int
) -> list[Alignment]:
    """Return the best pairs if those to one side were worth a little more; none where nothing is alone."""
    if len(found.left) == len(left) == len(right):
        return []
    # What is alone lies between the partners of those around it.
    place = np.searchsorted(found.left, np.arange(len(left)))
    base = np.append(found.right, len(right))[place].astype(np.float64)
    base[found.partner_of(len(left)) < 0] -= 0.5
    return [align_at_offset(left, right, offset, slack, lean=lean, base=base) for lean in (-1, 1)]


def _is_certain(found: Alignment, others: list[Alignment], count: int) -> Bools:
    """Mark the pairs of which no other alignment has either with another one."""
    partner = found.partner_of(count)
    is_sure = np.ones(count, np.bool_)
    for other in others:
        theirs = other.partner_of(count)
        is_sure &= (theirs == partner) | (theirs < 0)
    return is_sure[found.left]


def _candidate_offsets(left: CommunicationSequence, right: CommunicationSequence) -> list[int]:
    """List by how much the right clock may be ahead (ns): as the first, the last, the rare ones, or most pairs say."""
    shared = min(len(left), len(right))
    from_start = right.end[:shared] - left.end[:shared]
    from_end = right.end[-shared:] - left.end[-shared:]
    apart = [
        *_offset_of_same_numbers(left, right),
        int(np.median(from_start)),
        int(np.median(from_end)),
        _offset_of_unique_entries(left, right),
        *_usual_offsets(left, right),
    ]
    return list(dict.fromkeys(apart))


def _offset_of_same_numbers(left: CommunicationSequence, right: CommunicationSequence) -> list[int]:
    """Return the usual distance of the ends of what has one recorded number."""
    _, ours, theirs = np.intersect1d(left.number, right.number, return_indices=True)
    apart = (right.end[theirs] - left.end[ours])[left.number[ours] >= 0]
    return [int(np.median(apart))] if len(apart) else []


def _usual_offsets(left: CommunicationSequence, right: CommunicationSequence) -> list[int]:
    """Return the distances at which most of all possible pairs have their ends, most first."""
    some = np.linspace(0, len(left) - 1, min(len(left), SAMPLED_ENTRIES)).astype(np.int64)
    alike = right.what[None, :] == left.what[some, None]
    apart = np.sort((right.end[None, :] - left.end[some, None])[alike])
    found: list[int] = []
    while len(apart) and len(found) < USUAL_OFFSETS:
        within = np.searchsorted(apart, apart + CLOSE_ENDS_NS, side="right") - np.arange(len(apart))
        first = int(within.argmax())
        found.append(int(np.median(apart[first : first + int(within[first])])))
        apart = apart[np.abs(apart - found[-1]) > CLOSE_ENDS_NS]
    return found


def _offset_of_unique_entries(left: CommunicationSequence, right: CommunicationSequence) -> int:
    """Return the usual distance of the ends of what occurs once in either list; 0 if nothing does."""
    once_left, at_left = _unique_entries(left.what)
    once_right, at_right = _unique_entries(right.what)
    _, ours, theirs = np.intersect1d(once_left, once_right, return_indices=True)
    return int(np.median(right.end[at_right[theirs]] - left.end[at_left[ours]])) if len(ours) else 0


def _unique_entries(what: Ids) -> tuple[Ids, Ints]:
    codes, first, counts = np.unique(what, return_index=True, return_counts=True)
    return codes[counts == 1], first[counts == 1]


FIRST_BATCH, LARGEST_BATCH = 32, 256
"""How many ranks are compared with what is known in one go: at first, and at most, since thousands would only take
memory."""

_MergeStep = tuple[int, tuple[Ints, Ints] | None]
"""A rank aligned with those before; where its own and where theirs came to stand (None: all as they were)."""


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
    """Count the first lists that equal the known one entry by entry and hold nothing that it lacks."""
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
