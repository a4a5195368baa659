"""Gloo's communications on the CPU: whose call, which group, when the rank came, whom it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    NO_RANK,
    UNKNOWN_RANK,
    RankCommunications,
    count_elements,
)
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.support.gloo_builder import MAIN, WORKER, GlooRank
from tests.support.trace_builder import TraceBuilder


def members_of(tmp_path: Path, trace: TraceBuilder) -> RankCommunications:
    return read_communications(trace.graph(tmp_path))


def matched(tmp_path: Path, *traces: TraceBuilder) -> tuple[Collectives, dict[int, RankCommunications]]:
    graphs = [hg.build_graph(hg.read_trace(own.write(tmp_path / f"rank{at}.json"))) for at, own in enumerate(traces)]
    ranks = {graph.trace.rank or 0: read_communications(graph) for graph in graphs}
    return match_collectives(ranks), ranks


def test_a_rank_arrives_with_its_call_or_after_what_that_does_first(tmp_path: Path) -> None:
    trace = GlooRank(0, [0, 1])
    trace.called("all_reduce", 10, 12)
    trace.worked("all_reduce", 30, 40)
    trace.called("reduce_scatter", 50, 59)
    trace.op("aten::copy_", 51, 57, tid=MAIN)
    trace.worked("all_reduce", 58, 70)
    trace.worked("all_reduce", 80, 90)
    found = members_of(tmp_path, trace)
    assert found.arrival.tolist() == [10_000, 57_000, 80_000]
    assert found.call.tolist()[2] == -1
    assert found.group == ["0 [0, 1]"] * 3
    assert found.arguments["In msg nelems"] == [8] * 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lost", [None, 0, 2, 5])
def test_a_lost_row_shifts_no_calls(tmp_path: Path, lost: int | None) -> None:
    trace = GlooRank(0, [0, 1])
    calls = [trace.called("all_reduce", 100 * at, 100 * at + 5) for at in range(6)]
    for at in range(6):
        if at != lost:
            trace.worked("all_reduce", 100 * at + 7, 100 * at + 60, tid=WORKER + at % 2)
    graph = trace.graph(tmp_path)
    index = graph.event_table.index[read_communications(graph).call].tolist()
    assert index == [call for at, call in enumerate(calls) if at != lost]


def test_a_worker_that_is_busy_is_no_lost_row(tmp_path: Path) -> None:
    # Of what was called at the end of the recording the rows may not be there: the first ones are those of the first.
    trace = GlooRank(0, [0, 1])
    calls = [trace.called("all_reduce", 10 * at, 10 * at + 5) for at in range(4)]
    for at in range(2):
        trace.worked("all_reduce", 50 + 20 * at, 60 + 20 * at, tid=WORKER + at % 2)
    graph = trace.graph(tmp_path)
    assert graph.event_table.index[read_communications(graph).call].tolist() == calls[:2]


def test_work_is_that_of_the_call_that_fits_it(tmp_path: Path) -> None:
    trace = GlooRank(0, [0, 1], [0, 2])
    trace.worked("all_reduce", 1, 3, tid=WORKER)  # of a call from before the recording
    calls = [trace.called("all_reduce", 10, 11, 4), trace.called("all_reduce", 12, 13, 9)]
    calls.append(trace.called("broadcast", 14, 15))
    for name, start, tid, size in [
        ("all_reduce", 30, WORKER, 4), ("all_reduce", 20, 205, 9), ("broadcast", 25, 206, 8),
        ("all_reduce", 90, WORKER + 1, 4),
    ]:  # fmt: skip
        trace.worked(name, start, start + 2, tid=tid, elements=size)
    graph = trace.graph(tmp_path)
    found = read_communications(graph)
    index = [int(graph.event_table.index[call]) if call >= 0 else -1 for call in found.call.tolist()]
    assert index == [-1, calls[1], calls[2], calls[0], -1]
    assert found.group == [f"{at} {ranks}" for at, ranks in [(0, [0, 1]), (1, [0, 2]), (1, [0, 2]), (0, [0, 1])]] + [
        "0 [0, 1]"
    ]


@pytest.mark.parametrize(
    ("tids", "groups"),
    [
        ([201, 202, 205, 206], ["0 [0, 1]", "0 [0, 1]", "1 [0, 2]", "1 [0, 2]"]),
        ([201, 202, 205], ["0 [0, 1]", "0 [0, 1]", "1 [0, 2]"]),
        ([201], [None]),  # either group's, whose other worker left no row
    ],
)
def test_workers_are_made_in_pairs_in_the_order_of_the_groups(
    tmp_path: Path, tids: list[int], groups: list[str | None]
) -> None:
    trace = GlooRank(0, [0, 1], [0, 2])
    for at, tid in enumerate(tids):
        trace.worked("all_reduce", 10 * at, 10 * at + 5, tid=tid)
    assert members_of(tmp_path, trace).group == groups


def test_whom_a_rank_waits_for(tmp_path: Path) -> None:
    def needed(rank: int, kind: str, **dropped: Any) -> int:
        trace = GlooRank(rank, [2, 3])
        if not dropped:
            trace.called(kind, 10, 30)
        trace.worked(kind, 15, 40, tid=MAIN if kind in ("send", "recv") else WORKER)
        return int(members_of(tmp_path, trace).needed[0])

    assert needed(2, "all_reduce") == ALL_RANKS
    assert needed(2, "broadcast") == 3
    assert (needed(2, "gather"), needed(3, "gather")) == (ALL_RANKS, NO_RANK)
    assert (needed(2, "send"), needed(3, "recv")) == (3, 2)
    assert needed(3, "recv", without_call=True) == UNKNOWN_RANK


def test_only_the_root_of_a_broadcast_makes_others_wait(tmp_path: Path) -> None:
    traces = []
    for rank, start in enumerate((10, 25, 90)):
        trace = GlooRank(rank, [0, 1, 2])
        trace.called("broadcast", start, start + 1)
        trace.worked("broadcast", start + 2, start + 30)
        traces.append(trace)
    found, _ = matched(tmp_path, *traces)
    assert found.wait.tolist() == [15_000, 0, 0]  # the root is rank 1; rank 2 came after it
    assert found.rank[found.last].tolist() == [1]
    assert (found.wait + found.transfer).tolist() == (found.end - found.arrival).tolist()


def test_messages_are_matched_by_sender_and_receiver(tmp_path: Path) -> None:
    sender, receiver = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    #   send  |==|          |=====|
    #   recv         |==|  |==========|      the first went into a buffer; the second receiver waits
    for call, end in ((10, 15), (60, 75)):
        sender.called("send", call, call + 3)
        sender.worked("send", call + 1, end, tid=MAIN)
    for call, end in ((30, 35), (40, 70)):
        receiver.called("recv", call, call + 3)
        receiver.worked("recv", call + 1, end, tid=MAIN)
    found, _ = matched(tmp_path, sender, receiver)
    pairs = list(zip(found.number.tolist(), found.rank.tolist(), found.place.tolist(), strict=True))
    assert pairs == [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)]
    assert found.wait.tolist() == [0, 0, 0, 20_000]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dims", [None, "text", [[-1]], [["x"]], [[1 << 50]], {}])
def test_forged_sizes_are_not_known(dims: Any) -> None:
    assert count_elements(dims) == -1
