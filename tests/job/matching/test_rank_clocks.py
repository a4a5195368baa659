"""How far clocks are apart: by ends, by bounds, through others; where nothing contradicts them they agree."""

from __future__ import annotations

import numpy as np

from hta_graph.job.matching.rank_clocks import RankClock, job_clocks
from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.model import Ints

US = 1_000


def members(arrivals: list[int], ends: list[int], *, ahead: int = 0, needed: int = ALL, name: str = "k") -> RankMembers:
    """Make a rank's members (µs; ``ahead`` too)."""
    count = len(ends)
    rows = np.arange(count, dtype=np.int32)
    came, left = ((np.array(times, np.int64) + ahead) * US for times in (arrivals, ends))
    waits: Ints = np.full(count, needed, np.int64)
    said = RankMembers.nothing_said(count)
    on_gpu = np.ones(count, np.bool_)
    return RankMembers(rows, rows, came, came, left, waits, on_gpu, [name] * count, [None] * count, said)


def offsets(meetings: list[dict[int, int]], ranks: dict[int, RankMembers]) -> list[int]:
    """Return how far each rank's clock is ahead (µs)."""
    return [clock.line.ahead // US for _, clock in sorted(clocks_of(meetings, ranks).items())]


def clocks_of(meetings: list[dict[int, int]], ranks: dict[int, RankMembers]) -> dict[int, RankClock]:
    return job_clocks(meetings, ranks).by_rank


def test_clocks_that_nothing_contradicts_agree() -> None:
    ranks = {0: members([0, 50], [30, 90]), 1: members([20, 40], [35, 80])}
    meetings = [{0: 0, 1: 0}, {0: 1, 1: 1}]
    assert offsets(meetings, ranks) == [0, 0]
    moved = {**ranks, 1: members([20, 40], [35, 80], ahead=31)}
    # Rank 0 would leave the first one 21 µs before rank 1 came.
    assert offsets(meetings, moved)[1] >= 21


def test_ends_tell_where_they_scatter_less_than_bounds_are_wide() -> None:
    arrivals = [0, 1_000, 2_000, 3_000]
    ranks = {
        0: members(arrivals, [500, 1_500, 2_500, 3_500]),
        1: members(arrivals, [501, 1_499, 2_502, 3_500], ahead=7_000),
    }
    clock = clocks_of([{0: at, 1: at} for at in range(4)], ranks)[1]
    assert (clock.line.ahead // US, clock.meetings) == (7_000, 4)
    assert clock.error < 3 * US


def test_bounds_tell_where_ends_scatter() -> None:
    ranks = {
        0: members([0, 1_000], [10, 1_400]),
        1: members([5, 1_005], [300, 1_015], ahead=-2_000),
    }
    clock = clocks_of([{0: 0, 1: 0}, {0: 1, 1: 1}], ranks)[1]
    assert abs(clock.line.ahead + 2_000 * US) <= clock.error <= 15 * US


def test_a_message_bounds_from_one_side() -> None:
    sends, receives = members([100], [110], needed=1, name="gloo:send"), members([0], [162], needed=0)
    assert offsets([{0: 0, 1: 0}], {0: sends, 1: receives}) == [0, 0]
    # It cannot have been received before it was sent: by so much the clock is behind at least.
    assert offsets([{0: 0, 1: 0}], {0: sends, 1: members([0], [99], needed=0)}) == [0, -1]


def test_the_surest_way_leads_to_a_rank_that_nobody_met_directly() -> None:
    ranks = {
        0: members([0, 10], [5, 15]),
        1: members([0, 10, 20], [5, 15, 25], ahead=40),
        2: members([20], [25], ahead=-7),
        3: members([90], [95]),
    }
    clocks = clocks_of([{0: 0, 1: 0}, {0: 1, 1: 1}, {1: 2, 2: 0}], ranks)
    assert {rank: clock.line.ahead // US for rank, clock in clocks.items()} == {0: 0, 1: 40, 2: -7, 3: 0}
