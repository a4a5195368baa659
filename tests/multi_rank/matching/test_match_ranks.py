"""The one matcher of ranks: how lists are laid beside each other, what is cut or refused, how clocks are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hta_graph.multi_rank.matching.communications import Label, RankRecord
from hta_graph.multi_rank.matching.match_ranks import CollectiveError, match_ranks, missing_ranks

STEP = 1_000_000


@dataclass(frozen=True)
class Line:
    """A channel of a test."""

    members: tuple[int, ...] = (0, 1)


def record(rank: int, contents: str, *, line: Line | None = None, begin: int = 0, ahead: int = 0) -> RankRecord[Line]:
    """Make a rank with one communication per letter, which ends every millisecond from ``begin`` on."""
    end = (begin + np.arange(len(contents), dtype=np.int64)) * STEP + ahead
    return RankRecord(rank, [Label(line or Line(), (letter,), text=letter) for letter in contents], end - 10, end)


def together(*records: RankRecord[Line], strict: bool) -> list[dict[int, int]]:
    return [dict(meeting) for channel in match_ranks(records, strict=strict) for meeting in channel.matches]


def test_strictly_contents_tell_how_lists_are_shifted() -> None:
    (found,) = match_ranks([record(0, "abcde"), record(1, "cdef", begin=2)], strict=True)
    assert found.matches == [{0: 2, 1: 0}, {0: 3, 1: 1}, {0: 4, 1: 2}]
    assert found.unmatched == {0: [0, 1], 1: [3]}


def test_leniently_lists_are_aligned_with_gaps_by_what_was_done_and_when() -> None:
    assert together(record(0, "aba"), record(1, "ba", begin=1), strict=False) == [{0: 1, 1: 0}, {0: 2, 1: 1}]
    assert together(record(0, "aaa"), record(1, "aa", begin=1), strict=False) == [{0: 1, 1: 0}, {0: 2, 1: 1}]
    assert together(record(0, "abc"), record(1, "xyz"), strict=False) == []


def test_of_equal_contents_the_distances_of_the_ends_tell() -> None:
    uneven = [0, 1, 3, 6, 10, 15]
    ranks = [
        RankRecord(rank, [Label(Line(), ("a",))] * len(own), np.array(own) * STEP - 1, np.array(own) * STEP)
        for rank, own in enumerate((uneven, uneven[1:]))
    ]
    assert together(*ranks, strict=True)[0] == {0: 1, 1: 0}


def test_what_not_all_of_a_channel_did_is_left_out_or_refused() -> None:
    three = Line(members=(0, 1, 2))
    ranks = [record(0, "a", line=three), record(1, "a", line=three), record(2, "b", line=Line(members=(2, 3)))]
    assert together(*ranks, strict=False) == [{2: 0}]
    with pytest.raises(CollectiveError, match="rank 2 recorded nothing, rank 0 1 communications"):
        match_ranks(ranks, strict=True)
    assert missing_ranks(ranks) == {3: Line(members=(2, 3))}


def test_what_disagrees_is_named() -> None:
    with pytest.raises(CollectiveError, match=r"number 1 of rank 0 is b, number 1 of rank 1 is x"):
        match_ranks([record(0, "abc"), record(1, "axc")], strict=True)


def test_what_has_no_channel_is_compared_with_nobody() -> None:
    alone = RankRecord(0, [Label[Line](None)], np.array([1]), np.array([2]))
    assert match_ranks([alone], strict=False) == match_ranks([alone], strict=True) == []
