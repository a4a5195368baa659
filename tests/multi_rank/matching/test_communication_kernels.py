"""Whom kernels concern: peers and roots from arguments, annotations and places; groups whose printed list is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import match_collectives
from hta_graph.multi_rank.matching.communications import ALL_RANKS, NO_RANK, UNKNOWN_RANK, RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.support.trace_builder import TraceBuilder

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GROUP = {"Process Group Name": "3", "Process Group Ranks": "[4, 5, 6, 7]", "Group size": 4}


def traced(rank: int) -> TraceBuilder:
    return TraceBuilder(distributedInfo={"rank": rank, "world_size": 8})


def add(
    trace: TraceBuilder, at: float, kernel: str, said: dict[str, Any] | None = None, *, call: str = "",
    inputs: list[str] | None = None, annotation: str = "", run: tuple[float, float] | None = None,
) -> None:  # fmt: skip
    """Add a kernel that runs after its launch, within what is said around that."""
    if annotation:
        trace.annotation(annotation, at, at + 9)
    if call:
        trace.op(call, at + 1, at + 8, **({} if inputs is None else {"Concrete Inputs": inputs}))
    if said is not None:
        trace.op("record_param_comms", at + 2, at + 7, **said)
    corr = len(trace.rows) + 1
    trace.launch(kernel, (at + 3, at + 4), run or (at + 10, at + 20), corr)


def members_of(trace: TraceBuilder, tmp_path: Path) -> RankCommunications:
    return read_communications(trace.graph(tmp_path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("said", "call", "inputs", "annotation", "needed"),
    [
        (GROUP | {"Collective name": "send", "Dst Rank": 6, "Rank": 2}, "c10d::send", None, "", 6),
        (GROUP | {"Collective name": "recv", "Src Rank": 4, "Rank": 0}, "", None, "", 4),
        (GROUP | {"Collective name": "send"}, "", None, "nccl:send 1->2", 6),
        (GROUP | {"Collective name": "send", "Dst Rank": 1 << 31}, "", None, "nccl:send 1->2", 6),
        (GROUP | {"Collective name": "recv"}, "", None, "nccl:recv 1<-0", 4),
        (GROUP | {"Collective name": "send"}, "c10d::send", ["", "", "3", "0"], "", 7),
        (GROUP | {"Collective name": "recv"}, "c10d::recv_", ["", "", "0", "0"], "", 4),
        (GROUP | {"Collective name": "send"}, "c10d::send", None, "", UNKNOWN_RANK),
        (GROUP | {"Collective name": "send"}, "c10d::send", ["", "", "9", "0"], "", UNKNOWN_RANK),
    ],
)
def test_the_other_rank_of_a_message(
    tmp_path: Path, said: dict[str, Any], call: str, inputs: list[str] | None, annotation: str, needed: int
) -> None:
    trace = traced(5)
    add(trace, 0, SEND_RECV, said, call=call, inputs=inputs, annotation=annotation)
    found = members_of(trace, tmp_path)
    assert (found.needed.tolist(), found.is_message, found.name) == ([needed], [True], [said["Collective name"]])


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("rank", "name", "root", "needed"),
    [
        (5, "broadcast", 2, 6),
        (6, "scatter", 2, 6),
        (5, "gather", 2, NO_RANK),
        (6, "gather", 2, ALL_RANKS),
        (5, "reduce", 1, ALL_RANKS),
        (4, "reduce", 1, NO_RANK),
        (5, "broadcast", None, UNKNOWN_RANK),
        (5, "reduce_scatter", 2, ALL_RANKS),
        (5, "_allgather_base", 1, ALL_RANKS),
        (5, "all_to_allv", 1, ALL_RANKS),
    ],
)
def test_whom_a_rooted_collective_waits_for(
    tmp_path: Path, rank: int, name: str, root: int | None, needed: int
) -> None:
    trace = traced(rank)
    add(trace, 0, BROADCAST, GROUP | {"Collective name": name} | ({} if root is None else {"Rank": root}))
    assert members_of(trace, tmp_path).needed.tolist() == [needed]


def test_a_root_stands_among_the_inputs_too(tmp_path: Path) -> None:
    trace = traced(5)
    add(
        trace,
        0,
        BROADCAST,
        GROUP | {"Collective name": "broadcast"},
        call="c10d::broadcast_",
        inputs=["", "", "3", "0"],
    )
    assert members_of(trace, tmp_path).needed.tolist() == [7]


def test_a_kernel_that_says_nothing_does_what_the_others_on_its_stream_do(tmp_path: Path) -> None:
    trace = traced(5)
    trace.kernel(SEND_RECV, 1, 2)
    add(trace, 10, SEND_RECV, GROUP | {"Collective name": "all_to_allv"})
    trace.kernel(SEND_RECV, 50, 60, stream=9)
    found = members_of(trace, tmp_path)
    assert found.needed.tolist() == [ALL_RANKS, ALL_RANKS, UNKNOWN_RANK]
    # Of the stream where nothing is said neither the operation nor the group is known.
    assert found.group == ["3 [4, 5, 6, 7]"] * 2 + [None]
    assert found.is_message == [False, False, True]


def test_batched_messages_say_nothing_and_are_compared_with_nobody(tmp_path: Path) -> None:
    ranks = {}
    for rank in (0, 1):
        trace = traced(rank)
        add(trace, 0, SEND_RECV, annotation="nccl:coalesced")
        (tmp_path / str(rank)).mkdir()
        ranks[rank] = members_of(trace, tmp_path / str(rank))
    found = match_collectives(ranks)
    assert (len(found), [item.count for item in found.unmatched]) == (0, [2])


def test_alltoall_calls_of_old_traces_are_collectives(tmp_path: Path) -> None:
    trace = traced(0)
    add(trace, 0, SEND_RECV, call="c10d::alltoall_base_")
    assert members_of(trace, tmp_path).needed.tolist() == [ALL_RANKS]


@pytest.mark.parametrize("header", [True, False])
def test_groups_of_more_than_thirty_ranks_are_told_apart(tmp_path: Path, header: bool) -> None:
    cut = str(list(range(0, 60, 2)))[:-1] + ", ...]"
    said = {"Collective name": "allreduce", "Process Group Name": "7", "Process Group Ranks": cut, "Group size": 40}
    strided = {} if header else {"Global rank start": 0, "Global rank stride": 2}
    config = [{"pg_name": "7", "ranks": list(range(0, 80, 2))}] if header else []
    trace = TraceBuilder(distributedInfo={"rank": 0, "world_size": 80, "pg_config": config})
    add(trace, 0, "ncclDevKernel_AllReduce_Sum_f32", said | strided)
    assert members_of(trace, tmp_path).group == [f"7 {list(range(0, 80, 2))}"]


def test_messages_of_gpus_are_matched_and_waited_for(tmp_path: Path) -> None:
    ranks = {}
    for rank, (name, key, begin) in enumerate([("send", "Dst Rank", 40.0), ("recv", "Src Rank", 10.0)]):
        trace = traced(rank)
        for at in range(3):
            said = GROUP | {"Process Group Ranks": "[0, 1]", "Group size": 2, "Collective name": name, key: 1 - rank}
            add(trace, 100.0 * at, SEND_RECV, said, run=(100 * at + begin, 100 * at + 50))
        ranks[rank] = read_communications(hg.build_graph(hg.read_trace(trace.write(tmp_path / f"{rank}.json"))))
    found = match_collectives(ranks)
    assert len(found) == 3
    assert found.wait[found.rank == 1].tolist() == [30_000] * 3
    assert found.wait[found.rank == 0].tolist() == [0] * 3
