"""Messages that are launched together: peers come from the operators inside the range of the launch (µs)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import match_graphs, waits_by_rank
from hta_graph.paths.windows import whole
from tests.support.command_line import command_json, run_command
from tests.support.invariants import check_path
from tests.support.rank_builder import RankBuilder

KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
Message = tuple[str, int]
"""A send or receive, and the other rank."""


def batch(
    trace: RankBuilder,
    at: float,
    run: tuple[float, float],
    corr: int,
    messages: Sequence[Message],
    *,
    size: int = 1_000,
) -> int:
    """Add a batch as PyTorch records it; return its kernel."""
    trace.annotation("nccl:coalesced", at, at + 20)
    for place, (kind, peer) in enumerate(messages):
        trace.op(
            "record_param_comms", at + 1 + 3 * place, at + 3 + 3 * place,
            **{
                "Collective name": kind, "Dst Rank" if kind == "send" else "Src Rank": peer, "In msg nelems": size,
                "Out msg nelems": size, "dtype": "Float", "Process Group Name": "0", "Seq": corr,
                "Process Group Ranks": str(list(range(trace.world))), "Group size": trace.world,
            },
        )  # fmt: skip
    trace.call("cudaLaunchKernelExC", at + 16, at + 18, corr)
    return trace.kernel(KERNEL, *run, corr, stream=24)


def job(folder: Path, ranks: Sequence[RankBuilder]) -> dict[int, hg.DependencyGraph]:
    for rank in ranks:
        rank.write(folder / f"rank{rank.rank}.json")
    return {graph.rank or 0: graph for graph in hg.read_graphs(folder)}


def waits(graphs: dict[int, hg.DependencyGraph]) -> dict[int, list[int]]:
    """Return how long each rank waited in each row (µs), in order of its rows."""
    return {rank: ((own.end - own.start) // 1000).tolist() for rank, own in waits_by_rank(graphs).items()}


def pair(folder: Path, late: Sequence[int] = (0, 150, 0, 50)) -> dict[int, hg.DependencyGraph]:
    """Two ranks exchange, rank 1 late by so much (µs); both send and receive at once."""
    ranks = [RankBuilder(rank, 2) for rank in range(2)]
    for number, by in enumerate(late):
        begin = 1_000 * number
        for rank, trace in enumerate(ranks):
            start = begin + 100 + (by if rank else 0)
            batch(trace, start - 60, (start, begin + 500), number + 1, [("send", 1 - rank), ("recv", 1 - rank)])
    return job(folder, ranks)


def test_both_sides_of_an_exchange_wait_for_the_later_one(tmp_path: Path) -> None:
    graphs = pair(tmp_path)
    assert waits(graphs) == {0: [0, 150, 0, 50], 1: [0, 0, 0, 0]}
    _, found = match_graphs(graphs)
    assert (len(found), found.without_partner) == (4, 0)


def test_the_rank_that_is_late_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pair(tmp_path, (150,) * 4)
    status, out, _ = run_command(capsys, "stragglers", tmp_path)
    assert status == 0
    assert out.splitlines()[:2] == [
        "no rank is named: most of the waiting has no recorded cause", "Rank 1 mostly arrives last."
    ]  # fmt: skip
    assert "record no peer" not in out
    document = command_json(capsys, "stragglers", tmp_path)
    caused = {row["rank"]: row["wait_caused_ns"] for row in document["tables"]["stragglers"]}
    assert caused == {0: 0, 1: 600_000}


def test_numbers_of_other_batches_do_not_pair(tmp_path: Path) -> None:
    """Rank 1 of a pipeline exchanges with both neighbors in turn, so that its numbers run ahead of theirs."""
    ranks = [RankBuilder(rank, 3) for rank in range(3)]
    for number in range(4):
        begin, other = 1_000 * number, 2 * (number % 2)
        for rank, late in ((other, 0), (1, 30)):
            peer = 1 if rank != 1 else other
            own = number + 1 if rank == 1 else number // 2 + 1
            start = begin + 100 + late
            batch(ranks[rank], start - 60, (start, begin + 500), own, [("send", peer), ("recv", peer)])
    assert waits(job(tmp_path, ranks)) == {0: [30, 30], 1: [0, 0, 0, 0], 2: [30, 30]}


def test_a_ring_waits_for_its_neighbors(tmp_path: Path) -> None:
    """Each of four ranks sends to the next and receives from the one before, in one kernel; rank 2 is late."""
    ranks = [RankBuilder(rank, 4) for rank in range(4)]
    for number in range(3):
        for rank, trace in enumerate(ranks):
            start = 1_000 * number + 100 + (90 if rank == 2 else 0)
            messages = [("send", (rank + 1) % 4), ("recv", (rank - 1) % 4)]
            batch(trace, start - 60, (start, 1_000 * number + 500), number + 1, messages)
    graphs = job(tmp_path, ranks)
    assert waits(graphs) == {0: [0] * 3, 1: [90] * 3, 2: [0] * 3, 3: [90] * 3}
    _, found = match_graphs(graphs)
    assert (len(found), found.without_partner) == (12, 0)
    check_path(hg.critical_path(hg.read_job(tmp_path), whole()))


def test_what_is_not_sure_stays_unknown(tmp_path: Path) -> None:
    """Two kernels of one range, a collective among the messages, a message without a peer, or no range."""
    trace = RankBuilder(0, 2)
    batch(trace, 0, (100, 200), 1, [("send", 1), ("recv", 1)])
    trace.call("cudaLaunchKernelExC", 18.5, 19, 2)
    trace.kernel(KERNEL, 200, 300, 2, stream=24)
    batch(trace, 400, (500, 600), 3, [("send", 1), ("allreduce", 1)])
    batch(trace, 700, (800, 900), 4, [("send", -1), ("recv", 1)])
    trace.call("cudaLaunchKernelExC", 950, 952, 5)
    trace.kernel(KERNEL, 960, 990, 5, stream=24)
    other = RankBuilder(1, 2)
    batch(other, 0, (100, 200), 1, [("send", 0), ("recv", 0)])
    ranks, found = match_graphs(job(tmp_path, [trace, other]))
    assert len(found) == 0
    assert len(ranks[0]) == 5
