"""NCCL's payloads say of its kernels what Kineto says in their arguments."""

from __future__ import annotations

from pathlib import Path

import hta_graph as hg
from hta_graph.trace.event_args import read_event_args
from tests.support.made_nsys import NsysBuilder

US = 1_000
COMM = 0xF00D_0000_0001
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def two_ranks() -> NsysBuilder:
    """Two processes that reduce, exchange messages in a group, and send one message to each other's rank."""
    made = NsysBuilder()
    made.process(pid=144)
    made.process(pid=145)
    for rank in range(2):
        made.use(pid=144 + rank, tid=144 + rank, device=rank, context=1)
        late = rank * 20 * US
        made.nccl("ncclCommInitRank", 0, 5 * US, "init", COMM, 2, rank, rank)
        made.nccl("ncclAllReduce", 10 * US, 20 * US, "reduce", COMM, 4096, 0)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
        made.launch(name, (12 * US + late, 14 * US + late), (30 * US + late, 80 * US), 11)
        made.nccl("ncclSend", 100 * US, 101 * US, "peer", COMM, 1024, 1 - rank)
        made.nccl("ncclRecv", 102 * US, 103 * US, "peer", COMM, 512, 1 - rank)
        made.nccl("ncclGroupEnd", 104 * US, 110 * US)
        made.launch(KERNEL, (105 * US, 106 * US), (110 * US, 150 * US), 12)
        one = "ncclSend" if rank == 0 else "ncclRecv"
        made.nccl(one, 160 * US, 170 * US, "peer", COMM, 64, 1 - rank)
        made.launch(KERNEL, (161 * US, 162 * US), (165 * US, 190 * US), 13)
    return made


def test_kernels_have_the_arguments_of_their_calls(tmp_path: Path) -> None:
    path = two_ranks().write(tmp_path / "a.sqlite")
    traces = list(hg.read_traces(path))
    keys = ["Collective name", "In msg nelems", "dtype", "Group size", "Process Group Ranks", "Dst Rank", "Src Rank"]
    for trace in traces:
        found = read_event_args(trace, keys, trace.events.collective)
        assert found["Collective name"].tolist() == ["allreduce", "all_to_all", ("send", "recv")[trace.rank or 0]]
        assert found["In msg nelems"].tolist()[:2] == [4096, 1024]
        assert found["Process Group Ranks"].tolist() == ["[0, 1]"] * 3
        assert found["Dst Rank" if trace.rank == 0 else "Src Rank"].tolist() == [None, None, 1 - (trace.rank or 0)]


def test_ranks_are_matched_by_what_is_recorded(tmp_path: Path) -> None:
    job = hg.read_job(two_ranks().write(tmp_path / "a.sqlite"))
    assert len(job.collectives) == 6
    assert job.collectives.sort_values("number")["is_message"].tolist() == [False] * 4 + [True] * 2
    assert job.edge_counts()["collective"] == {"recorded": 8, "inferred": 0}
    assert sum(job.edge_counts()["point_to_point"].values()) > 0


def test_a_payload_that_is_cut_is_left_out(tmp_path: Path) -> None:
    made = two_ranks()
    for row in made.rows["NVTX_EVENTS"]:
        if "binaryData" in row:
            row["binaryData"] = row["binaryData"][:12]
    traces = list(hg.read_traces(made.write(tmp_path / "a.sqlite")))
    assert [int(trace.events.collective.sum()) for trace in traces] == [0, 0]
