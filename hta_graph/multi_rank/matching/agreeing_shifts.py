"""By how much the lists of ranks are shifted against each other, where what they hold has to agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from hta_graph.errors import HtaGraphError
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.rank_record import ChannelT, IndicesByRank, Label, RankRecord
from hta_graph.multi_rank.matching.weighed_pairs import CLOSE_ENDS_NS

__all__ = ["CollectiveError", "constant_offsets"]

OFFSETS_TRIED = 4_096

LabelView = Callable[[Label[Any]], tuple[object, ...]]
"""What two ranks' labels are compared by."""

BY_CONTENT: LabelView = attrgetter("content")


class CollectiveError(HtaGraphError):
    """The ranks' communications do not fit together."""


def constant_offsets(
    channel: ChannelT, places: IndicesByRank, records: Mapping[int, RankRecord[ChannelT]]
) -> dict[int, int]:
    """Return how many places later than the lowest rank's recording each one's begins.

    That is where recorded numbers and contents agree, else contents alone; of several shifts the one at which the ends
    keep the same distance best, then the one with most in common.

    Raises:
        CollectiveError: there is no such shift; the message names the ranks, which communication, and what both are.
    """
    first = min(places)
    one = records[first], places[first]
    return {
        rank: 0 if rank == first else _constant_offset(channel, *one, records[rank], places[rank]) for rank in places
    }


def _constant_offset(
    channel: ChannelT,
    one: RankRecord[ChannelT],
    ours: Sequence[int],
    other: RankRecord[ChannelT],
    theirs: Sequence[int],
) -> int:
    left, right = [one.labels[place] for place in ours], [other.labels[place] for place in theirs]
    ends = one.end[list(ours)], other.end[list(theirs)]
    # Numbers are the surest sign; but where one rank lacks them, or they were counted anew, contents alone have to do.
    numbered = all(label.number >= 0 for label in (*left, *right))
    views: list[LabelView] = [lambda label: (*label.content, label.number)] if numbered else []
    for view in [*views, BY_CONTENT]:
        if found := _agreeing_offsets(*_as_codes(view, left, right), *ends):
            return min(found)[-1]
    raise _describe_disagreement(channel, (one.rank, left), (other.rank, right))


def _as_codes(view: LabelView, left: Sequence[Label[Any]], right: Sequence[Label[Any]]) -> tuple[Ints, Ints]:
    seen = [view(label) for label in (*left, *right)]
    # Equal contents get equal numbers, so that thousands of shifts are comparisons of columns.
    code = {what: at for at, what in enumerate(dict.fromkeys(seen))}
    codes = np.array([code[what] for what in seen], np.int64)
    return codes[: len(left)], codes[len(left) :]


def _agreeing_offsets(a: Ints, b: Ints, ends_a: Ints, ends_b: Ints) -> list[tuple[int, int, int, int]]:
    """List the shifts at which all partners agree: (how the distance of ends varies, −partners, |shift|, shift)."""
    found = []
    for shift in _candidate_offsets(len(a), len(b)):
        left, right = _overlapping_slices(len(a), len(b), shift)
        if np.array_equal(a[left], b[right]):
            # Clocks differ by a constant, so at the right shift all ends are equally far apart. In a loop of equal
            # collectives a wrong one agrees as well, but there the distances vary with the lengths of the steps.
            apart = ends_b[right] - ends_a[left]
            varies = int(np.median(np.abs(apart - np.median(apart))))
            found.append((max(varies, CLOSE_ENDS_NS), left.start - left.stop, abs(shift), shift))
            if shift == 0 and len(a) == len(b) and varies <= CLOSE_ENDS_NS:
                break
    return found


def _candidate_offsets(left: int, right: int) -> list[int]:
    """List the shifts at which at least half of the shorter list has a partner, small ones first."""
    least = (min(left, right) + 1) // 2
    return sorted(range(least - right, left - least + 1), key=abs)[:OFFSETS_TRIED]


def _overlapping_slices(left: int, right: int, shift: int) -> tuple[slice, slice]:
    first, last = max(0, shift), min(left, shift + right)
    return slice(first, last), slice(first - shift, last - shift)


def _describe_disagreement(
    channel: ChannelT, one: tuple[int, Sequence[Label[Any]]], other: tuple[int, Sequence[Label[Any]]]
) -> CollectiveError:
    """Tell where two ranks first differ, at the shift at which most agrees."""
    (rank, left), (other_rank, right) = one, other
    a, b = _as_codes(BY_CONTENT, left, right)

    def agreement(shift: int) -> int:
        ours, theirs = _overlapping_slices(len(a), len(b), shift)
        return int(np.count_nonzero(a[ours] == b[theirs]))

    ours, theirs = _overlapping_slices(len(a), len(b), max(_candidate_offsets(len(a), len(b)), key=agreement))
    at = int(np.flatnonzero(a[ours] != b[theirs])[0])
    i, j = ours.start + at, theirs.start + at
    return CollectiveError(
        f"{channel}: the ranks disagree: number {i} of rank {rank} is {left[i].text}, number {j} of rank {other_rank} "
        f"is {right[j].text}; give traces of one recording"
    )
