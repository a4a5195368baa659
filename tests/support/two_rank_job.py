"""Two ranks of one training step, small enough to know every number of every answer by heart.

µs       0         20        40        60        80        100       120       140
thread   [ linear           ] [add ]  L3          C4          [ mm   ]  L6         C7
inside     [ mm L1        ]    L2                              L5
stream 7           [gemm    ]   [add]           [copy]              [gemm]               [copy]
stream 24                         [all-reduce     ]                       [all-reduce]
rank 1 begins 10 later          rank 0 begins 8 later
"""

from __future__ import annotations

from pathlib import Path

from tests.support.rank_builder import ALL_REDUCE, RankBuilder
from tests.support.trace_builder import PID

__all__ = ["ALL_REDUCE", "COPY", "one_rank", "small_job"]

COPY = "Memcpy HtoD (Pinned -> Device)"


def small_job(folder: Path) -> list[Path]:
    """Write both ranks' traces."""
    return [one_rank(rank).write(folder / f"rank{rank}.json") for rank in range(2)]


def one_rank(rank: int) -> RankBuilder:
    """Build a rank's trace: rank 1 comes late to the first all-reduce, rank 0 to the second."""
    trace = RankBuilder(rank, 2)
    trace.annotation("ProfilerStep#1", 0, 200)
    trace.annotation("forward", 0, 40)
    trace.op("aten::linear", 2, 22)
    trace.op("aten::mm", 4, 20)
    allocation(trace, 5, 400, 400)
    trace.launch("gemm", (6, 10), (20, 40), 1)
    trace.op("aten::add", 24, 32)
    trace.launch("add", (26, 30), (44, 50), 2)
    trace.collective(34 + 10 * rank, (48 + 10 * rank, 68), 3, nelems=1_000)
    copy_in(trace, 60, (72, 80), 4)
    trace.op("aten::mm", 84, 96)
    allocation(trace, 85, 100, 500)
    trace.launch("gemm", (86, 90), (100, 110), 5)
    allocation(trace, 95, -400, 100)
    trace.collective(98, (112 + 8 * (1 - rank), 130), 6, nelems=500)
    copy_in(trace, 134, (140, 144), 7)
    for at, instructions in enumerate((40, 20, 25, 10, 5)):
        counters = {"inst.sum": instructions, "active.avg": 2 * instructions}
        begin = {"ts": 150 + 5 * at, "dur": 5}
        trace.row(ph="X", cat="cuda_profiler_range", name=f"range {at}", pid=0, tid=0, **begin, args=counters)
    return trace


def copy_in(trace: RankBuilder, call: float, run: tuple[float, float], corr: int) -> None:
    """Add a call of 4 µs that copies 8,000 bytes to the GPU."""
    trace.call("cudaMemcpyAsync", call, call + 4, corr)
    rate = 8 / (run[1] - run[0])
    trace.copy(COPY, *run, corr, **{"bytes": 8_000, "memory bandwidth (GB/s)": rate})


def allocation(trace: RankBuilder, time: float, size: int, total: int) -> None:
    """Add an allocation, or a release where the size is negative, after which so many bytes are allocated."""
    args = {"Total Allocated": total, "Total Reserved": 1_000, "Bytes": size, "Device Id": 0, "Device Type": 1}
    address = 7 if abs(size) == 400 else 9
    trace.row(
        ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=time, args={**args, "Addr": address}
    )
