"""What no simulator computes keeps where ranks meet; what ran on CPUs communicates in the workload too."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import UsageError
from hta_graph.chakra.check import check
from hta_graph.chakra.convert import Conversion, ConversionError, convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import EtFolder, read_folder
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.chakra.scale import scale_workload
from hta_graph.chakra.simulate import simulate
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import RankBuilder, named, nodes, workload

DISPATCH = "void deep_ep::internode::dispatch<false>()"


def late_kernels(*arrivals: float, name: str = DISPATCH, end: float = 60) -> list[RankBuilder]:
    """Build ranks whose kernels, of which nothing but the name is known, begin at some times and end together (µs)."""
    ranks = []
    for rank, arrival in enumerate(arrivals):
        trace = RankBuilder(rank, len(arrivals))
        trace.op("aten::first", 0, 4)
        trace.launch("gemm", (4, 5), (6, arrival), 1, stream=24)
        trace.launch(name, (5, 6), (arrival, end), 2, stream=24)
        trace.launch("beside", (6, 7), (arrival, arrival + 5), 3)
        trace.launch("after", (7, 8), (end, end + 10), 4, stream=24)
        ranks.append(trace)
    return ranks


def of_jobs(tmp_path: Path, ranks: list[GlooRank], **options: str) -> tuple[Conversion, EtFolder]:
    """Convert ranks that talk by Gloo."""
    inputs = []
    for rank, trace in enumerate(ranks):
        graph = hg.build_graph(hg.read_trace(trace.write(tmp_path / f"rank{rank}.json")))
        inputs.append(RankInput(rank, graph))
    conversion = convert(inputs, tmp_path / "work", ConvertOptions(**options))
    return conversion, read_folder(tmp_path / "work")


def ends(folder: EtFolder, name: str) -> list[int]:
    """Return when the nodes of a name end, rank by rank (µs, rounded)."""
    result = simulate(folder)
    found = []
    for npu, program in result.programs.items():
        (place,) = [at for at, other in enumerate(program.names) if other == name]
        found.append(round(result.execution.end[npu][place] / 1000))
    return found


def test_a_kernel_as_recorded_is_a_meeting_and_then_its_transfer(tmp_path: Path) -> None:
    folder = workload(tmp_path, *late_kernels(20, 50), unknown="as-recorded")
    for rank, wait in ((0, 30), (1, 0)):
        meeting, transfer = named(folder, "synchronization of void deep_ep", rank), named(folder, "void deep_ep", rank)
        assert (meeting.type, meeting.values["comm_type"], meeting.values["comm_size"]) == ("COMM_COLL_NODE", 2, 64)
        # Only one of both takes the time that ranks wait, and only one the transfer's: nothing is counted twice.
        assert (meeting.micros, meeting.values["transfer_nanos"]) == (wait, 0)
        assert (transfer.micros, transfer.values["transfer_nanos"], transfer.values["comm_type"]) == (10, 10_000, 5)
        assert transfer.after == [meeting.name]
        assert not meeting.on_cpu
        assert not transfer.on_cpu
    assert folder.groups == {"1": [0, 1], "2": [0], "3": [1]}
    assert not check(folder).findings


def test_ranks_still_wait_for_each_other_and_compute_meanwhile(tmp_path: Path) -> None:
    folder = workload(tmp_path, *late_kernels(20, 50), unknown="as-recorded")
    # A GPU's times are the usual latency of a launch earlier, here 2 µs.
    assert (ends(folder, DISPATCH), ends(folder, "beside")) == ([58, 58], [23, 53])
    slower = scaled_first(tmp_path, folder)
    assert (ends(slower, DISPATCH), ends(slower, "beside")) == ([98, 98], [23, 93])


def scaled_first(tmp_path: Path, folder: EtFolder) -> EtFolder:
    """Let rank 1 multiply 40 µs longer; whoever meets it ends so much later."""
    from hta_graph.chakra.et_files import length_prefixed
    from hta_graph.chakra.et_nodes import metadata_message

    target = tmp_path / "slower"
    target.mkdir()
    (target / "comm_groups.json").write_bytes((folder.path / "comm_groups.json").read_bytes())
    for rank, file in folder.files.items():
        listed = list(file.nodes())
        for node in listed:
            if node.name == "gemm" and rank == 1:
                node.duration_micros += 40
        with (target / f"trace.{rank}.et").open("wb") as written:
            written.writelines(length_prefixed([metadata_message(), *(node.SerializeToString() for node in listed)]))
    return read_folder(target)


def test_what_nobody_shares_takes_as_long_as_it_did_and_is_counted(tmp_path: Path) -> None:
    first, second = late_kernels(20, 50)
    first.launch("void deep_ep::internode::combine<false>()", (70, 71), (80, 90), 9, stream=24)
    inputs = [
        RankInput(t.rank, hg.build_graph(hg.read_trace(t.write(tmp_path / f"{t.rank}.json")))) for t in (first, second)
    ]
    conversion = convert(inputs, tmp_path / "work", ConvertOptions(unknown="as-recorded"))
    assert conversion.notes[:2] == [
        "rank 0: 1 communications synchronize their ranks and keep their recorded duration",
        "rank 0: 1 communication kernels have no partner; they keep their recorded duration",
    ]
    combine = named(read_folder(tmp_path / "work"), "void deep_ep::internode::combine")
    assert (combine.type, combine.values["comm_type"], combine.micros) == ("COMM_COLL_NODE", 5, 10)


def test_known_collectives_keep_their_place_in_the_one_order(tmp_path: Path) -> None:
    ranks = late_kernels(20, 50)
    for trace in ranks:
        trace.collective(60, (80, 90), 5, nelems=1_000, stream=25)
    folder = workload(tmp_path, *ranks, unknown="as-recorded")
    known = next(node for node in nodes(folder) if node.values.get("comm_type") == 0)
    assert DISPATCH in known.after


def test_where_one_rank_does_not_know_all_are_as_recorded(tmp_path: Path) -> None:
    ranks = [RankBuilder(rank, 2) for rank in range(2)]
    for rank, trace in enumerate(ranks):
        trace.collective(0, (5 + 10 * rank, 50), 1, nelems=None if rank else 1_000)
    folder = workload(tmp_path, *ranks, unknown="as-recorded")
    assert [
        node.values["comm_type"] for rank in range(2) for node in nodes(folder, rank) if "comm_type" in node.values
    ] == [2, 5] * 2


@pytest.mark.parametrize(("root", "kind"), [(0, "COMM_SEND_NODE"), (1, "COMM_RECV_NODE")])
def test_of_a_broadcast_the_others_wait_for_the_root_alone(tmp_path: Path, root: int, kind: str) -> None:
    ranks = [RankBuilder(rank, 2) for rank in range(2)]
    for rank, trace in enumerate(ranks):
        trace.op("record_param_comms", 0, 4, Rank=root, **{"Collective name": "broadcast"})
        begin = 10 + 20 * (rank != root)
        trace.collective(1, (begin, 50), 1, kind="broadcast")
    folder = workload(tmp_path, *ranks, unknown="as-recorded")
    found = [node for node in nodes(folder) if node.name.startswith("synchronization of")]
    assert [(node.type, node.values["comm_src"], node.values["comm_dst"]) for node in found] == [(kind, root, 1 - root)]
    assert not check(folder).findings


def test_an_all_gather_of_a_single_byte_is_one_that_ends(tmp_path: Path) -> None:
    ranks = [RankBuilder(rank, 2) for rank in range(2)]
    for trace in ranks:
        trace.collective(0, (5, 50), 1, kind="allgather", nelems=1, dtype="Bool")
    folder = workload(tmp_path, *ranks)
    assert [node.values["comm_size"] for node in nodes(folder) if "comm_size" in node.values] == [4]


# -- on the CPU --------------------------------------------------------------------------------------------------------


def late_workers(*arrivals: float, kind: str = "all_reduce", end: float = 60) -> list[GlooRank]:
    """Build ranks that ask for a collective at some times, and go on when it has ended (µs)."""
    ranks = []
    for rank, arrival in enumerate(arrivals):
        trace = GlooRank(rank, list(range(len(arrivals))))
        trace.op("aten::mul", 0, arrival, tid=MAIN)
        trace.called(kind, arrival, arrival + 2)
        trace.worked(kind, arrival + 3, end)
        trace.op("aten::add", end + 10, end + 20, tid=MAIN)
        ranks.append(trace)
    return ranks


def test_a_collective_of_the_cpu_communicates_and_its_thread_waits_for_it(tmp_path: Path) -> None:
    conversion, folder = of_jobs(tmp_path, late_workers(10, 40))
    assert conversion.notes == []
    assert [rank.simulated_ns for rank in conversion.ranks] == [rank.measured_ns for rank in conversion.ranks]
    for rank, transfer in ((0, 17_000), (1, 17_000)):
        reduce = named(folder, "gloo:all_reduce", rank)
        assert (reduce.type, reduce.on_cpu) == ("COMM_COLL_NODE", False)
        assert (reduce.values["comm_type"], reduce.values["comm_size"]) == (0, 32)
        assert reduce.values["transfer_nanos"] == transfer
        assert "gloo:all_reduce" in waits_of(folder, "aten::add", rank)


def waits_of(folder: EtFolder, name: str, rank: int) -> set[str]:
    """Return the names of all that a node waits for, directly or through delays."""
    by_id = {node.id: node for node in folder.files[rank].nodes()}
    (at,) = [node for node in by_id.values() if node.name == name]
    found, asked = set[str](), [*at.data_deps]
    while asked:
        node = by_id[asked.pop()]
        found.add(node.name)
        asked += node.data_deps
    return found


def test_the_thread_of_an_asynchronous_collective_goes_on(tmp_path: Path) -> None:
    ranks = late_workers(10, 40)
    for rank, trace in enumerate(ranks):
        trace.op("aten::meanwhile", 13 + 30 * rank, 59.5, tid=MAIN)
    _, folder = of_jobs(tmp_path, ranks)
    assert "gloo:all_reduce" not in waits_of(folder, "aten::meanwhile", 0)


def test_what_a_worker_does_inside_a_collective_is_no_work_of_its_own(tmp_path: Path) -> None:
    ranks = late_workers(10, 40)
    for trace in ranks:
        trace.op("aten::copy_", 50, 55, tid=201)
    _, folder = of_jobs(tmp_path, ranks)
    assert "aten::copy_" not in {node.name for node in nodes(folder)}


def test_a_barrier_of_the_cpu_is_time_of_its_thread_or_as_recorded(tmp_path: Path) -> None:
    conversion, folder = of_jobs(tmp_path, late_workers(10, 40, kind="gather"))
    assert conversion.notes[0].startswith(
        "rank 0: 1 communications on the CPU, with unknown size or group, or of a kind"
    )
    assert all(node.type == "COMP_NODE" for node in nodes(folder))


def test_a_gather_as_recorded_lets_the_root_alone_wait(tmp_path: Path) -> None:
    _, folder = of_jobs(tmp_path, late_workers(10, 40, kind="gather"), unknown="as-recorded")
    kinds = [[node.type for node in nodes(folder, rank) if node.type.startswith("COMM")] for rank in range(2)]
    assert kinds == [["COMM_RECV_NODE", "COMM_COLL_NODE"], ["COMM_SEND_NODE", "COMM_COLL_NODE"]]
    assert ends(folder, "gloo:gather") == [57, 57]


def test_messages_of_the_cpu_name_both_ends_and_may_overlap(tmp_path: Path) -> None:
    sender, receiver = (GlooRank(rank, [0, 1]) for rank in range(2))
    for trace, kind, peer, end in ((sender, "send", 1, 40), (receiver, "recv", 0, 30)):
        for at in (0, 10):
            inputs = {"Concrete Inputs": ["", "", str(peer), "0"], "Input Dims": [[[8]], [], [], []]}
            trace.op(f"c10d::{kind}{'_' * (kind == 'recv')}", at, at + 4, tid=MAIN, **inputs)
            trace.worked(kind, at + 2, end + at, tid=MAIN)
        trace.op("aten::add", 60, 70, tid=MAIN)
    conversion, folder = of_jobs(tmp_path, [sender, receiver])
    sends = [node for node in nodes(folder, 0) if node.type == "COMM_SEND_NODE"]
    receives = [node for node in nodes(folder, 1) if node.type == "COMM_RECV_NODE"]
    ways = [tuple(node.values[key] for key in ("comm_src", "comm_dst", "comm_size")) for node in (*sends, *receives)]
    assert ways == [(0, 1, 32)] * 4
    assert [node.values["comm_tag"] for node in sends] == [node.values["comm_tag"] for node in receives]
    # Both are under way at the same time: neither waits for the other one.
    assert not any("gloo:recv" in node.after for node in receives)
    assert [rank.simulated_ns for rank in conversion.ranks] == [rank.measured_ns for rank in conversion.ranks]


def test_a_rank_ends_with_no_message(tmp_path: Path) -> None:
    ranks = [GlooRank(rank, [0, 1]) for rank in range(2)]
    for rank, trace in enumerate(ranks):
        trace.called(("send", "recv")[rank], 0, 4)
        trace.worked(("send", "recv")[rank], 2, 30, tid=MAIN)
    _, folder = of_jobs(tmp_path, ranks)
    for rank in range(2):
        last = nodes(folder, rank)[-1]
        assert (last.name, last.type) == ("delay", "COMP_NODE")
        assert any(name.startswith("gloo") for name in last.after)


def test_each_rank_leaves_a_collective_of_the_cpu_when_it_did(tmp_path: Path) -> None:
    ranks = []
    for rank, (arrival, end) in enumerate(((10, 60), (40, 75))):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", 0, arrival, tid=MAIN)
        trace.called("all_reduce", arrival, arrival + 2)
        trace.worked("all_reduce", arrival + 3, end)
        trace.op("aten::add", 90, 95, tid=MAIN)
        ranks.append(trace)
    _, folder = of_jobs(tmp_path, ranks)
    assert ends(folder, "gloo:all_reduce") == [57, 72]


def test_collectives_that_workers_do_at_once_do_not_count_twice(tmp_path: Path) -> None:
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        for at, (begin, end) in enumerate(((10, 40), (20, 60))):
            trace.called("all_reduce", 3 * at, 3 * at + 2)
            trace.worked("all_reduce", begin, end, tid=201 + at)
        trace.op("aten::add", 70, 80, tid=MAIN)
        ranks.append(trace)
    conversion, _ = of_jobs(tmp_path, ranks)
    assert [rank.simulated_ns for rank in conversion.ranks] == [rank.measured_ns for rank in conversion.ranks]


@pytest.mark.parametrize("given", [[0], [0, 1]])
def test_whose_trace_is_not_given_is_missing_on_cpus_too(tmp_path: Path, given: list[int]) -> None:
    ranks = [late_workers(10, 20, 40)[rank] for rank in given]
    with pytest.raises(ConversionError, match=r"missing ranks: .*2; rank"):
        of_jobs(tmp_path, ranks)
    conversion, folder = of_jobs(tmp_path, ranks, missing="as-recorded")
    assert "on the CPU time of the thread that waited for it" in " ".join(conversion.notes)
    assert [one.simulated_ns for one in conversion.ranks] == [one.measured_ns for one in conversion.ranks]
    assert all(node.type == "COMP_NODE" for node in nodes(folder))
    (tmp_path / "again").mkdir()
    with pytest.raises(ConversionError, match="the arrival time of a copy is unknown"):
        of_jobs(tmp_path / "again", ranks, missing="copy")


@pytest.mark.slow
def test_a_wait_at_the_end_is_part_of_the_recording(tmp_path: Path) -> None:
    ranks = late_workers(10, 40, kind="gather", end=900)
    for trace in ranks:
        trace.rows = [row for row in trace.rows if row["name"] != "aten::add"]
    conversion, _ = of_jobs(tmp_path, ranks)
    assert {one.measured_ns for one in conversion.ranks} == {900_000}
    assert {one.simulated_ns for one in conversion.ranks} == {900_000}


def test_broadcasts_that_wait_for_nobody_are_told(tmp_path: Path) -> None:
    ranks = [RankBuilder(0, 2), RankBuilder(1, 2)]
    for trace, arrival in zip(ranks, (10, 500), strict=True):
        trace.op("aten::before", 0, arrival)
        trace.collective(arrival, (arrival + 5, 600), 1, kind="broadcast", name="ncclDevKernel_Broadcast")
    inputs = []
    for rank, trace in enumerate(ranks):
        inputs.append(RankInput(rank, hg.build_graph(hg.read_trace(trace.write(tmp_path / f"{rank}.json")))))
    conversion = convert(inputs, tmp_path / "work")
    assert any(
        note.startswith("2 broadcasts keep their recorded duration and wait for no other rank")
        for note in conversion.notes
    )
    # As in ASTRA-sim a rank does them by itself: 5 µs early, as all work of the GPU, and the root is not waited for.
    assert ends(read_folder(tmp_path / "work"), "ncclDevKernel_Broadcast") == [595, 595]
    scale_workload(read_folder(tmp_path / "work"), tmp_path / "fast", Fraction(1), Fraction(0))
    assert ends(read_folder(tmp_path / "fast"), "ncclDevKernel_Broadcast") == [585, 95]
    kept = convert(inputs, tmp_path / "kept", ConvertOptions(unknown="as-recorded"))
    assert not any("broadcasts" in note for note in kept.notes)


@pytest.mark.parametrize("wrong", [{"profile": "GPU"}, {"overlap": "shared"}, {"unknown": "x"}, {"missing": "skip"}])
def test_what_nobody_can_do_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"must be one of .*, not"):
        ConvertOptions(**wrong)


def test_each_rank_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="pass at least one rank"):
        convert([], tmp_path / "work")
    graph = hg.build_graph(hg.read_trace(RankBuilder(0, 1).write(tmp_path / "rank.json")))
    with pytest.raises(ConversionError, match="pass each rank once"):
        convert([RankInput(0, graph), RankInput(0, graph)], tmp_path / "work")
