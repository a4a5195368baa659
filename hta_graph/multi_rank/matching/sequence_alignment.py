"""Two ranks' communications beside each other where either may lack some: what is alike, in order, ends together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hta_graph.model import Bools, Ids, Ints
from hta_graph.multi_rank.matching.weighed_pairs import (
    BASE_SCORE,
    CLOSE_ENDS_NS,
    Alignment,
    CommunicationSequence,
    align_at_offset,
    are_pairs_in_order,
    clock_differences,
)

__all__ = ["SIMULTANEOUS_SHARE", "MIN_PAIRS", "SIMULTANEOUS_NS", "align_sequences", "are_aligned_in_order"]

SLACK_ERRORS, MIN_SLACK_NS, MAX_SLACK_NS = 3, 10_000, 1_000_000
"""How far members may miss each other: so many usual distances of ends, within these bounds."""

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
    """Lay two lists beside each other so that what is alike stands together, in order, at one time; mark what is sure.

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
    """Mark the lists, one per row, of which :func:`align_sequences` says at its first try that they are the left one, surely.

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
    """Tell whether entries stay alone on both sides between two pairs, though one may be the other's."""
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
    """Do the same of many lists, one per row, beside the left one."""
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
    """Mark the pairs of which no other alignment has either with somebody else."""
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
