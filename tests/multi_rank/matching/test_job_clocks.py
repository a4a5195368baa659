"""How far clocks are apart: by ends, by bounds, through others; where nothing contradicts them they agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.collectives import match_collectives
from hta_graph.multi_rank.matching.communications import ALL_RANKS, RankCommunications, RankRecording
from hta_graph.multi_rank.matching.job_clocks import RankClock, job_clocks, tighten_clocks
from hta_graph.multi_rank.matching.pair_clocks import SAME_CLOCK, UNKNOWN_ERROR, ClockEvidence, PairMatches
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.support.shared_traces import SHARED

US = 1_000


def members(
    arrivals: list[int], ends: list[int], *, ahead: int = 0, needed: int = ALL_RANKS, name: str = "k"
) -> RankCommunications:
    """Make a rank's members (µs; ``ahead`` too)."""
    count = len(ends)
    rows = np.arange(count, dtype=np.int32)
    came, left = ((np.array(times, np.int64) + ahead) * US for times in (arrivals, ends))
    waits: Ints = np.full(count, needed, np.int64)
    said = RankCommunications.no_arguments(count)
    on_gpu = np.ones(count, np.bool_)
    return RankCommunications(
        rows, rows, came, 0 * came, came, left, waits, on_gpu, [name] * count, [None] * count, said
    )


def offsets(meetings: list[dict[int, int]], ranks: dict[int, RankCommunications]) -> list[int]:
    """Return how far each rank's clock is ahead (µs)."""
    return [clock.line.ahead // US for _, clock in sorted(clocks_of(meetings, ranks).items())]


def clocks_of(meetings: list[dict[int, int]], ranks: dict[int, RankCommunications]) -> dict[int, RankClock]:
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
    assert (clock.line.ahead // US, clock.match_count) == (7_000, 4)
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
        0: members([0, 10, 20], [5, 15, 25]),
        1: members([0, 10, 20, 30, 40, 50], [5, 15, 25, 35, 45, 55], ahead=40),
        2: members([30, 40, 50], [35, 45, 55], ahead=-7),
        3: members([90], [95]),
    }
    clocks = clocks_of([{0: at, 1: at} for at in range(3)] + [{1: at + 3, 2: at} for at in range(3)], ranks)
    assert {rank: clock.line.ahead // US for rank, clock in clocks.items()} == {0: 0, 1: 40, 2: -7, 3: 0}
    assert [clock.reference for clock in clocks.values()] == [0, 0, 0, 3]


def test_bounds_reach_through_a_third_rank() -> None:
    # Ranks 0 and 2 met loosely, but either met rank 1 tightly; nobody's ends are told often enough.
    ranks = {
        0: members([0, 1_000], [900, 1_002]),
        1: members([1_000, 2_000], [1_002, 2_002], ahead=500),
        2: members([0, 2_000], [900, 2_002], ahead=800),
    }
    clock = clocks_of([{0: 0, 2: 0}, {0: 1, 1: 0}, {1: 1, 2: 1}], ranks)[2]
    assert abs(clock.line.ahead - 800 * US) <= clock.error <= 4 * US


def test_one_bound_may_be_direct_and_the_other_through_a_third_rank() -> None:
    # Of rank 2's clock, 800 µs ahead, rank 0 tells the least and rank 1, 500 µs ahead, the most.
    ranks = {
        0: members([0, 2_000], [1, 2_801]),
        1: members([1_001, 5_000], [2_001, 5_800], ahead=500),
        2: members([0, 4_000], [1_000, 5_001], ahead=800),
    }
    clock = clocks_of([{0: 0, 2: 0}, {0: 1, 1: 0}, {1: 1, 2: 1}], ranks)[2]
    assert abs(clock.line.ahead - 800 * US) <= clock.error <= 2 * US


def test_ranks_of_one_named_host_have_one_clock() -> None:
    arrivals = [0, 1_000, 2_000]
    ranks = {0: members(arrivals, [500, 1_500, 2_500]), 1: members(arrivals, [530, 1_540, 2_490])}
    meetings = [{0: at, 1: at} for at in range(3)]
    on_cpu = {rank: replace(own, on_gpu=~own.on_gpu, recording=RankRecording("h")) for rank, own in ranks.items()}
    assert (clocks_of(meetings, on_cpu)[1].line, clocks_of(meetings, on_cpu)[1].error) == (SAME_CLOCK, 0)
    # Its GPUs have clocks of their own; nothing contradicts that they agree, up to what their ends show.
    on_gpu = {rank: replace(own, recording=RankRecording("h")) for rank, own in ranks.items()}
    assert clocks_of(meetings, on_gpu)[1].line == SAME_CLOCK
    assert clocks_of(meetings, on_gpu)[1].error > 10 * US
    # Those of another host are no matter of course.
    apart = {rank: replace(own, recording=RankRecording(f"h{rank}")) for rank, own in on_gpu.items()}
    assert clocks_of(meetings, apart)[1].line.ahead == 30 * US


def drifting(count: int, every_us: int, share: float, noise: Ints) -> dict[int, RankCommunications]:
    """Make two ranks that meet again and again, the second one's clock ahead by 9 ms and drifting from the middle."""
    came = [every_us * at for at in range(count)]
    true = np.array(came, np.int64) * US
    shown = true + 9_000 * US + np.rint(share * (true - true[count // 2])).astype(np.int64)
    one = members(came, [at + 100 for at in came])
    return {0: one, 1: replace(one, arrival=shown, start=shown, end=shown + 100 * US + noise)}


@pytest.mark.parametrize(
    ("every_us", "share", "found"), [(100_000, 50e-6, 50), (100_000, 0.0, 0), (1_000, 50e-6, 0), (100_000, 5e-3, 0)]
)
def test_a_drift_is_found_in_long_recordings(every_us: int, share: float, found: int) -> None:
    noise = np.random.default_rng(1).integers(-10 * US, 10 * US, 60)
    clock = clocks_of([{0: at, 1: at} for at in range(60)], drifting(60, every_us, share, noise))[1]
    assert abs(clock.line.drift * 1e6 - found) < 2


def test_a_drift_that_a_half_does_not_confirm_is_none() -> None:
    # The clock is adjusted in the second half: a line through all of it drifts, but the first half does not.
    noise = np.maximum(np.arange(60) - 30, 0) * 20 * US
    ranks = drifting(60, 100_000, 0.0, noise)
    # Both wait long, so that bounds leave room for either.
    early = {rank: replace(own, arrival=own.arrival - 2_000 * US) for rank, own in ranks.items()}
    assert clocks_of([{0: at, 1: at} for at in range(60)], early)[1].line.drift == 0


def test_bounds_without_room_show_a_drift_where_ends_scatter() -> None:
    quiet = np.zeros(40, np.int64)
    ranks = drifting(40, 10_000, 200e-6, quiet)
    # Ranks come just before they leave, so that bounds are 100 µs wide and the drift moves clocks by 80.
    late = {
        rank: replace(own, arrival=own.end - 10 * US, needed=own.needed * 0 + 1 - rank) for rank, own in ranks.items()
    }
    ends_unknown = {0: late[0], 1: late[1]}
    clock = clocks_of([{0: at, 1: at} for at in range(40)], ends_unknown)[1]
    assert abs(clock.line.drift * 1e6 - 200) < 60
    assert abs(clock.line.ahead_at(int(late[1].end[20])) - 9_000 * US) < 10 * US


def test_a_meeting_that_fits_no_clocks_is_named_and_moves_none() -> None:
    arrivals = [1_000 * at for at in range(20)]
    one, other = members(arrivals, [at + 50 for at in arrivals]), members(arrivals, [at + 50 for at in arrivals])
    meetings = [{0: at, 1: at} for at in range(20)] + [{0: 3, 1: 17}]
    clocks = job_clocks(meetings, {0: one, 1: other})
    assert clocks.impossible == (20,)
    assert abs(clocks.by_rank[1].line.ahead) <= clocks.by_rank[1].error


def test_an_offset_of_a_gpu_is_listed_and_not_taken_off_twice() -> None:
    arrivals = [0, 1_000, 2_000]
    ranks = {rank: members(arrivals, [at + 40 for at in arrivals]) for rank in range(2)}
    ranks[1] = replace(ranks[1], recording=RankRecording(gpu_ahead=-60 * US))
    clocks = job_clocks([{0: at, 1: at} for at in range(3)], ranks)
    assert clocks.by_rank[1].line == SAME_CLOCK
    assert clocks.rows()[1]["gpu_offset_ns"] == -60 * US
    assert clocks.to_job(1, ranks[1].arrival).tolist() == ranks[1].arrival.tolist()
    assert clocks.are_equal


def test_the_table_of_clocks_says_what_to_subtract() -> None:
    ranks = drifting(60, 100_000, 50e-6, np.zeros(60, np.int64))
    begin, end = int(ranks[1].arrival[0]), int(ranks[1].end[-1])
    ranks[1] = replace(ranks[1], recording=RankRecording("b", begin, end))
    clocks = job_clocks([{0: at, 1: at} for at in range(60)], ranks)
    row = clocks.rows()[1]
    assert (row["rank"], row["host"], row["gpu_offset_ns"], row["collectives"]) == (1, "b", 0, 60)
    own = ranks[1].end
    job = own - row["offset_ns"] - np.rint(row["drift_ppm"] * 1e-6 * (own - (begin + end) // 2)).astype(np.int64)
    assert np.abs(job - ranks[0].end).max() <= 2 * US
    assert np.abs(clocks.to_job(1, own) - ranks[0].end).max() <= 2 * US
    assert clocks.frame().columns.tolist() == list(row)


@pytest.mark.slow
@pytest.mark.shared
def test_five_milliseconds_written_into_the_files_are_found() -> None:
    graphs = hg.read_graphs(SHARED / "traces" / "nanogpt_ddp_8xh100", communications=True)
    ranks = {graph.trace.rank or 0: read_communications(graph) for graph in graphs}
    shift = {rank: 5_000 * US * (-1) ** rank if rank else 0 for rank in ranks}
    moved = {
        rank: replace(own, arrival=own.arrival + shift[rank], start=own.start + shift[rank], end=own.end + shift[rank])
        for rank, own in ranks.items()
    }
    before, after = match_collectives(ranks), match_collectives(moved)
    assert (len(before), len(after), before.offsets) == (76, 76, {})
    assert after.place.tolist() == before.place.tolist()
    for rank, clock in after.clocks.by_rank.items():
        assert abs(clock.line.ahead - shift[rank]) <= 5 * US


def test_a_clock_that_is_not_known_stays_so_when_a_bound_moves_it() -> None:
    waited = PairMatches(
        *(np.array([value]) for value in (1, 100, 200)), np.array([True]), *(np.array([ns]) for ns in (900, 950)),
        np.array([False]),
    )  # fmt: skip
    pair = ClockEvidence(np.array([0]), np.array([1]), np.array([0]), waited)
    moved = tighten_clocks(pair, {0: (SAME_CLOCK, 0), 1: (SAME_CLOCK, UNKNOWN_ERROR)})
    assert moved == {0: (0, 0), 1: (700, UNKNOWN_ERROR)}
