"""What is compared with nobody says why, and takes its share of the time; a match that is a guess says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.communications import ALL_RANKS, UNKNOWN_RANK, RankCommunications, RankRecording
from hta_graph.multi_rank.matching.match_checks import (
    NO_PARTNER,
    NOT_RECORDED,
    OUTSIDE_RECORDING,
    UNKNOWN_KERNEL,
    UNMATCHED_REASONS,
    VIOLATES_CAUSALITY,
)

US = 1_000


def rank_of(
    *ran: tuple[str, int, int], group: str = "0 [0, 1]", recorded: tuple[int, int] = (0, 99_999)
) -> RankCommunications:
    """Make a rank's members of name, start and end (µs)."""
    names = [name for name, _, _ in ran]
    start, end = (np.array([own[at] for own in ran], np.int64) * US for at in (1, 2))
    rows = np.arange(len(ran), dtype=np.int32)
    needed = np.array([UNKNOWN_RANK if name == "send" else ALL_RANKS for name in names], np.int64)
    said = RankCommunications.no_arguments(len(ran)) | {"Collective name": names}
    recording = RankRecording("h", recorded[0] * US, recorded[1] * US)
    on_gpu = np.ones(len(ran), np.bool_)
    return RankCommunications(
        rows, rows, start, 0 * start, start, end, needed, on_gpu, names, [group] * len(ran), said, recording
    )


def reasons(found: Collectives) -> dict[int, list[int]]:
    return {rank: codes.tolist() for rank, codes in found.reasons.items()}


def test_one_that_nobody_else_has_has_no_partner_and_its_share_of_time() -> None:
    every = rank_of(("a", 0, 10), ("b", 100, 130), ("c", 200, 210))
    found = match_collectives({0: every, 1: every.take(np.array([0, 2]))})
    assert reasons(found) == {0: [0, NO_PARTNER, 0], 1: [0, 0]}
    (left,) = found.unmatched
    assert (left.reason, left.count, left.time_ns) == (UNMATCHED_REASONS[NO_PARTNER], 1, 30 * US)
    assert left.share == pytest.approx(30 / 70)
    assert found.without_partner == 1


def test_before_and_after_another_ranks_recording_nothing_has_a_partner() -> None:
    every = rank_of(("a", 0, 10), ("b", 100, 110), ("c", 200, 210), ("d", 300, 310))
    short = replace(every.take(np.array([1, 2])), recording=RankRecording("h", 50 * US, 250 * US))
    found = match_collectives({0: every, 1: short})
    assert reasons(found) == {0: [OUTSIDE_RECORDING, 0, 0, OUTSIDE_RECORDING], 1: [0, 0]}


def test_a_pair_that_cannot_have_met_is_left_out_also_with_equal_ids() -> None:
    times = [("a", 100 * at, 100 * at + 10) for at in range(30)]
    ranks = {rank: rank_of(*times, ("b", 20_000 + 10_000 * rank, 20_010 + 10_000 * rank)) for rank in range(2)}
    numbered = {
        rank: replace(own, arguments=own.arguments | {"Comms Id": list(range(len(own)))}) for rank, own in ranks.items()
    }
    found = match_collectives(numbered)
    assert (len(found), reasons(found)[0][-1], reasons(found)[1][-1]) == (30, VIOLATES_CAUSALITY, VIOLATES_CAUSALITY)


def test_pairs_too_many_for_clocks_to_leave_out_cannot_have_met_either() -> None:
    times = [("a", 100 * at, 100 * at + 10) for at in range(20)]
    wrong = [
        [("b", 10_000 * at + 9_000 * rank, 10_000 * at + 9_000 * rank + 10) for at in range(1, 5)] for rank in (0, 1)
    ]
    ranks = {rank: rank_of(*times, *wrong[rank]) for rank in range(2)}
    numbered = {
        rank: replace(own, arguments=own.arguments | {"Comms Id": list(range(len(own)))}) for rank, own in ranks.items()
    }
    found = match_collectives(numbered)
    assert len(found) == 20
    assert reasons(found)[0][20:] == [VIOLATES_CAUSALITY] * 4


def test_what_does_not_say_whom_it_concerns_is_compared_with_nobody() -> None:
    ranks = {rank: rank_of(("a", 0, 10), ("send", 20, 30), ("a", 40, 50)) for rank in range(2)}
    assert reasons(match_collectives(ranks)) == {0: [0, NOT_RECORDED, 0], 1: [0, NOT_RECORDED, 0]}


def test_one_ranks_own_group_is_not_left_out() -> None:
    found = match_collectives({0: rank_of(("a", 0, 10), group="1 [0]"), 1: rank_of(("a", 0, 10), group="2 [1]")})
    assert (len(found), found.unmatched, found.without_partner) == (0, (), 0)


def test_ranks_that_were_not_given_are_missing() -> None:
    own = rank_of(("a", 0, 10), ("a", 50, 60), ("a", 90, 95), group="0 [0, 1, 2, 3]")
    assert match_collectives({0: own, 2: own}).missing.tolist() == [2, 2, 2]
    # The printed list of a large group is cut, but its size is not.
    large = replace(own, group=["0 [0, 1, ...]"] * 3, arguments=own.arguments | {"Group size": [64] * 3})
    assert match_collectives({0: large, 2: large}).missing.tolist() == [62, 62, 62]


def test_of_equal_ones_at_one_time_it_is_a_guess_which_was_lost() -> None:
    long = rank_of(("a", 0, 1_000), ("a", 10, 1_010), ("b", 2_000, 2_010), ("b", 3_000, 3_010), ("c", 4_000, 4_001))
    lost = match_collectives({0: long, 1: long.take(np.array([1, 2, 4]))})
    # Either a fits; which b it was is plain from the time.
    assert lost.ambiguous.tolist() == [True, False, False]
    assert not match_collectives({0: long, 1: long}).ambiguous.any()


def test_clocks_that_one_group_tells_serve_another_that_tells_none() -> None:
    """Two collectives fit any clocks; but the ranks did more than these together."""
    times = [("a", 1_000 * at + 7 * at * at, 1_000 * at + 7 * at * at + 10) for at in range(12)]
    few = [("b", 2_500, 2_510), ("b", 9_500, 9_510)]
    rows = sorted(times + few, key=lambda row: row[1])
    other = [(name, start + 5_000_000, end + 5_000_000) for name, start, end in rows]
    groups = ["0 [0, 1]" if name == "a" else "1 [0, 1]" for name, _, _ in rows]
    ranks = {rank: replace(rank_of(*own), group=groups) for rank, own in enumerate([rows, other])}
    found = match_collectives(ranks)
    assert len(found) == 14
    assert found.clocks.by_rank[1].line.ahead == 5_000_000_000


def test_kernels_that_do_not_wait_are_no_collectives_whatever_order_says() -> None:
    # Each has two launches of one name: the first one sends and is gone, the second one waits for the others' first.
    sends = [("ep::dispatch", 40_000 * at, 40_000 * at + 50) for at in range(20)]
    known = [("ncclDevKernel_AllReduce", 40_000 * at + 20_000, 40_000 * at + 21_000) for at in range(20)]
    late = [(name, start + 200 * (at % 2), end + 200 * (at % 2)) for at, (name, start, end) in enumerate(sends)]
    ranks = {
        rank: rank_of(*sorted(own + known, key=lambda row: row[1]), recorded=(0, 900_000))
        for rank, own in enumerate([sends, late])
    }
    unnamed = {rank: replace(own, arguments=RankCommunications.no_arguments(len(own))) for rank, own in ranks.items()}
    found = match_collectives(unnamed)
    assert len(found) == 20
    assert [(item.reason, item.count) for item in found.unmatched] == [(UNMATCHED_REASONS[UNKNOWN_KERNEL], 40)]
    assert found.offsets == {}


def test_a_group_that_each_rank_names_otherwise_is_one_by_its_ranks() -> None:
    times = [("a", 100 * at, 100 * at + 10) for at in range(3)]
    found = match_collectives({0: rank_of(*times, group="x [0, 1]"), 1: rank_of(*times, group="y [0, 1]")})
    assert (len(found), found.without_partner) == (3, 0)
    # Where a rank has two groups of these ranks nobody knows which is which.
    two = rank_of(*times, group="z [0, 1]")
    both = replace(two, group=["y [0, 1]", "z [0, 1]", "z [0, 1]"])
    assert len(match_collectives({0: rank_of(*times, group="x [0, 1]"), 1: both})) == 0
