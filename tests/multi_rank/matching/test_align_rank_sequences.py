"""Lists of ranks laid beside each other with gaps: what is lost on one changes no other match, clocks may differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.base.arrays import column_types
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching import align_rank_sequences
from hta_graph.multi_rank.matching.align_rank_sequences import (
    CommunicationSequence,
    align_ranks,
    align_sequences,
    are_aligned_in_order,
)
from tests.support.deep_tests import for_all

US = 1_000
TRANSFER = 60 * US
"""What every rank of a drawn job needs after the last one came (ns)."""


def happened(kinds: str, ends: list[int], *, waits: bool = True) -> CommunicationSequence:
    """Make a list with one letter per communication, each a microsecond long."""
    end = np.array(ends, np.int64)
    return CommunicationSequence.of(
        what=[ord(kind) for kind in kinds], elements=-1, kind=-1, number=-1, start=end - US, end=end, waits=waits
    )


def test_what_either_lost_stands_alone() -> None:
    left = happened("abbbca", [0, 10 * US, 20 * US, 30 * US, 40 * US, 50 * US])
    right = happened("bbxbcaa", [10 * US, 20 * US, 25 * US, 30 * US, 40 * US, 50 * US, 60 * US])
    found, _ = align_sequences(left, right)
    assert found.left.tolist() == [1, 2, 3, 4, 5]
    assert found.right.tolist() == [0, 1, 3, 4, 5]


def test_sizes_that_both_know_must_agree() -> None:
    left, right = happened("aa", [0, 10 * US]), happened("aa", [0, 10 * US])
    sized = CommunicationSequence.of(
        what=right.what, elements=[7, -1], kind=-1, number=-1, start=right.start, end=right.end, waits=True
    )
    other = CommunicationSequence.of(
        what=left.what, elements=[8, 9], kind=-1, number=-1, start=left.start, end=left.end, waits=True
    )
    assert align_sequences(other, sized)[0].left.tolist() == [1]
    assert align_sequences(left, sized)[0].left.tolist() == [0, 1]


def test_nobody_who_waits_ends_before_the_other_came() -> None:
    apart = happened("a", [0]), happened("a", [5_000 * US])
    assert not len(align_sequences(*apart)[0].left)
    # One pair would fit any clocks; three of them tell that these differ.
    assert (
        len(align_sequences(happened("abc", [0, 70, 90]), happened("abc", [10**9, 10**9 + 70, 10**9 + 90]))[0].left)
        == 3
    )
    buffered = happened("a", [0], waits=False), happened("a", [5_000 * US])
    assert len(align_sequences(*buffered)[0].left) == 1


def test_equal_ones_in_equal_numbers_are_paired_in_order() -> None:
    """Ends on CPUs scatter by milliseconds, which must not outweigh the order."""
    steady = [at * 3_000 * US for at in range(12)]
    late = [end + (2_900 * US if at % 5 == 2 else 0) for at, end in enumerate(steady)]
    right = CommunicationSequence.of(
        what=0, elements=-1, kind=-1, number=-1, start=np.array(late) - 9_000 * US, end=late, waits=True
    )
    left = CommunicationSequence.of(
        what=0, elements=-1, kind=-1, number=-1, start=np.array(steady) - 9_000 * US, end=steady, waits=True
    )
    found, _ = align_sequences(left, right)
    assert found.left.tolist() == found.right.tolist() == list(range(12))


@pytest.mark.parametrize("ahead", [0, 24_000 * US])
def test_messages_in_equal_numbers_are_paired_in_order_whatever_their_ends(ahead: int) -> None:
    """A receiver's row ends when its caller goes on, some milliseconds after the message: as late as the next ones."""
    begun = np.arange(20) * 2_000 * US
    late = np.array([3_000 * US + (7 * at % 20) * 400 * US for at in range(20)])
    sends = CommunicationSequence.of(
        what=0, elements=-1, kind=-1, number=-1, start=begun, end=begun + 90 * US, waits=False
    )
    received = CommunicationSequence.of(
        what=0, elements=-1, kind=-1, number=-1, start=begun + 100 * US - ahead, end=begun + late - ahead, waits=True
    )
    found, is_sure = align_sequences(sends, received)
    assert found.left.tolist() == found.right.tolist() == list(range(20))
    assert is_sure.all() or ahead


def test_clocks_that_agree_by_chance_give_way_to_much_closer_ends() -> None:
    """Steps are equal and one is cut, so nothing stays alone at once; but then no ends are close."""
    end = np.arange(40) * 4_000 * US + np.random.default_rng(2).integers(-450 * US, 450 * US, 40)
    left = CommunicationSequence.of(what=0, elements=-1, kind=-1, number=-1, start=end - 900 * US, end=end, waits=True)
    right = left.take(np.arange(1, 40))
    off = replace(right, start=right.start - 4_000 * US, end=right.end - 4_000 * US)
    found, _ = align_sequences(left, off)
    assert (found.left - found.right).tolist() == [1] * 39


def test_one_recorded_number_is_one_communication_whatever_the_clocks() -> None:
    one, other = (numbered(happened("aa", [0, US]), [4, 5]), numbered(happened("aa", [10**10, 10**10 + US]), [5, 6]))
    found, _ = align_sequences(one, other)
    assert (found.left.tolist(), found.right.tolist()) == ([1], [0])
    assert not len(align_sequences(numbered(one, [-1, -1]), other)[0].left)
    here = numbered(happened("aa", [0, US]), [6, 7])
    assert not len(align_sequences(one, here)[0].left)


def test_what_fits_elsewhere_as_well_is_not_sure() -> None:
    """Of three sends into a buffer one was lost, and the receiver came after all of them."""
    sends = happened("aaa", [0, 10 * US, 20 * US], waits=False)
    received = happened("aa", [5_000 * US, 5_100 * US])
    found, is_sure = align_sequences(sends, received)
    assert len(found.left) == 2
    assert not is_sure.all()
    assert align_sequences(sends, happened("aaa", [5_000 * US, 5_100 * US, 5_200 * US]))[1].all()


def numbered(own: CommunicationSequence, numbers: list[int]) -> CommunicationSequence:
    return replace(own, number=np.array(numbers, np.int64))


@pytest.mark.slow
def test_a_band_is_as_good_as_the_whole() -> None:
    drawn = np.random.default_rng(5)
    end = np.cumsum(drawn.integers(100 * US, 5_000 * US, 900))
    kept = drawn.random(900) > 0.05
    what = drawn.integers(0, 3, 900)
    left = CommunicationSequence.of(what=what, elements=-1, kind=-1, number=-1, start=end - US, end=end, waits=True)
    right = left.take(kept)
    (whole, _), band = align_sequences(left, right), align_rank_sequences.BAND_WIDTH
    align_rank_sequences.BAND_WIDTH = 80
    try:
        banded, _ = align_sequences(left, right)
    finally:
        align_rank_sequences.BAND_WIDTH = band
    assert whole.left.tolist() == banded.left.tolist() == np.flatnonzero(kept).tolist()


@pytest.mark.slow
@for_all(st.integers(0, 2**32 - 1), st.booleans(), examples=200)
def test_losses_change_no_other_match(seed: int, clocks_differ: bool) -> None:
    """Every rank loses some of the job's communications; the others keep their partners, whatever the clocks."""
    drawn = np.random.default_rng(seed)
    count, ranks = int(drawn.integers(20, 60)), int(drawn.integers(2, 6))
    what = drawn.integers(0, 3, count)
    met = np.cumsum(drawn.integers(300 * US, 9_000 * US, count))
    kept = {rank: drawn.random(count) > 0.05 for rank in range(ranks)}
    ahead = {rank: int(drawn.integers(-(10**9), 10**9)) * clocks_differ for rank in range(ranks)}
    lists = {rank: _recorded(what, met, kept[rank], ahead[rank], drawn) for rank in range(ranks)}
    places, _ = align_ranks(lists)
    truth: dict[int, set[int]] = {}
    for rank, own in places.items():
        for place, number in zip(own.tolist(), np.flatnonzero(kept[rank]).tolist(), strict=True):
            truth.setdefault(place, set()).add(number)
    assert all(len(numbers) == 1 for numbers in truth.values())
    assert len(truth) == np.any(list(kept.values()), axis=0).sum()


def _recorded(what: Ints, met: Ints, kept: Bools, ahead: int, drawn: np.random.Generator) -> CommunicationSequence:
    """Return what one rank recorded: it came at some time before the last one, and left soon after the transfer."""
    came = met - drawn.integers(0, 200 * US, len(met))
    left = met + TRANSFER + drawn.integers(0, 20 * US, len(met))
    return CommunicationSequence.of(
        what=what, elements=-1, kind=-1, number=-1, start=came + ahead, end=left + ahead, waits=True
    ).take(kept)


@pytest.mark.slow
@for_all(st.integers(0, 1 << 32), examples=400)
def test_lists_that_are_found_alike_at_once_are_so_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.choice([1, 2, 5, 12]))
    kinds = random.integers(0, 3, count)
    end = np.cumsum(random.integers(1, random.choice([500, 5_000, 50_000]), count)) * US
    scatter = int(random.choice([1, 300 * US, 3_000 * US]))
    lists = [
        CommunicationSequence.of(
            what=np.where(random.random(count) < random.choice([0.0, 0.05]), 7, kinds),
            elements=random.choice([-1, 4, 5], count, p=[0.1, 0.88, 0.02]),
            kind=-1,
            number=random.choice([-1, 3], count, p=[0.9, 0.1]),
            start=ends - random.integers(0, scatter + 1, count),
            end=ends,
            waits=random.random(count) < 0.9,
        )
        for ends in (end + random.integers(-scatter, scatter + 1, (9, count)) + random.integers(0, scatter + 1, (9, 1)))
    ]
    rows = CommunicationSequence(
        **{name: np.stack([getattr(own, name) for own in lists[1:]]) for name in column_types(CommunicationSequence)}
    )
    for own, is_alike in zip(lists[1:], are_aligned_in_order(lists[0], rows).tolist(), strict=True):
        found, is_sure = align_sequences(lists[0], own)
        in_order = found.left.tolist() == found.right.tolist() == list(range(count)) and bool(is_sure.all())
        assert in_order or not is_alike
