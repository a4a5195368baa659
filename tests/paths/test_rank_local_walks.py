"""Ways back that stay on a rank: from a member to the one that its thread, or its stream, had waited for."""

from __future__ import annotations

from pathlib import Path

import hta_graph as hg
from hta_graph.paths.rank_local_walks import rank_local_walks
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import RankBuilder


def ways_of(job: hg.JobGraph) -> list[tuple[int, bool, int]]:
    """Return of each way of rank 0 the member that it leads to, whether to its end, and how long it is (µs)."""
    ways = rank_local_walks(job)
    first = int(job.event_table.start.min())
    of_rank = (job.members.part[ways.member] == 0).nonzero()[0].tolist()
    length = [int((own.end - own.start).sum()) for own in (ways.since.take(ways.since.walk == way) for way in of_rank)]
    before = [int(ways.member[ways.before[way]]) if ways.before[way] >= 0 else -1 for way in of_rank]
    assert all(ways.before[way] < 0 or ways.before_ns[way] >= first for way in of_rank)
    return [(at, bool(ways.resumed[way]), ns // 1_000) for at, way, ns in zip(before, of_rank, length, strict=True)]


def test_a_way_ends_where_the_thread_went_on_or_called_before(tmp_path: Path) -> None:
    """The thread waits for the first, not for the second.

    µs       0    10        40     50   55   65   70       100
    thread   [mul][call 0]  ······ [add][call 1]  [call 2]
    worker          [== 0 ======]         [== 1 ============]
    """
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", 0, 9, tid=MAIN)
        for call, work in ((10, 40), (55, 100), (70, 110)):
            trace.called("all_reduce", call, call + 2)
            trace.worked("all_reduce", call + 3, work, tid=201 + (call == 70))
        trace.op("aten::add", 50, 54, tid=MAIN)
        ranks.append(trace.write(tmp_path / f"rank{rank}.json"))
    assert ways_of(hg.read_job(ranks)) == [(-1, False, 10), (0, True, 15), (1, False, 15)]


def test_ways_of_kernels_join_where_what_came_before_them_was_called(tmp_path: Path) -> None:
    """Nothing on the CPU waits for a GPU: the second kernel's way leads to the call of the kernel before the first.

    µs       0        10       20        100      110
    thread   [gemm 1] [nccl 2]           [gemm 3] [nccl 4]
    stream 7      [gemm    ][nccl]            [gemm    ][nccl]
    """
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank)
        for at, corr in ((0, 1), (100, 3)):
            trace.launch("gemm", (at, at + 5), (at + 6, at + 18), corr)
            trace.collective(at + 10, (at + 18, at + 25), corr + 1, stream=7)
        ranks.append(trace.write(tmp_path / f"rank{rank}.json"))
    first, second, *joins = ways_of(hg.read_job(ranks))
    assert first == (0, False, 18)
    assert second == (1, False, 18)
    assert joins == [(-1, False, 0), (0, False, 100)]
