"""Communication: what each kernel does, which of one rank is which of another, in which order all issue theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError
from hta_graph.chakra.check import check
from hta_graph.chakra.communications import Communication, Group, gpu_communications
from hta_graph.chakra.convert import ConversionError
from hta_graph.chakra.et_files import EtFolder, read_folder
from hta_graph.chakra.simulate import simulate
from hta_graph.multi_rank.matching.match_ranks import CollectiveError
from tests.support.copy_engines import WAYS, copy_engine_step
from tests.support.rank_builder import ALL_REDUCE, Found, RankBuilder, converted, named, nodes, workload
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def both(**header: int) -> tuple[RankBuilder, RankBuilder]:
    return RankBuilder(0, 2), RankBuilder(1, 2)


def communicating(folder: EtFolder, rank: int = 0) -> list[Found]:
    return [node for node in nodes(folder, rank) if node.type.startswith("COMM")]


def waits_for_nobody(folder: EtFolder, node: Found) -> bool:
    assert folder.groups is not None
    return len(folder.groups[node.values["pg_name"]]) == 1


def exchanges(folder: EtFolder, rank: int = 0) -> list[Found]:
    return [node for node in communicating(folder, rank) if not waits_for_nobody(folder, node)]


def described(tmp_path: Path, trace: TraceBuilder) -> list[Communication] | list[tuple[int, str]]:
    graph = hg.build_graph(hg.read_trace(trace.write(tmp_path / "trace.json")))
    found = gpu_communications(graph, [0, 1])
    return found.known or found.unknown


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("recorded", "kind"),
    [
        ("allreduce", "ALL_REDUCE"),
        ("allreduce_coalesced", "ALL_REDUCE"),
        ("_allgather_base", "ALL_GATHER"),
        ("allgather_into_tensor_coalesced", "ALL_GATHER"),
        ("_reduce_scatter_base", "REDUCE_SCATTER"),
        ("reduce_scatter_tensor_coalesced", "REDUCE_SCATTER"),
        ("all_to_allv", "ALL_TO_ALL"),
        ("broadcast", "BROADCAST"),
        ("_broadcast_oop", "BROADCAST"),
    ],
)
def test_the_recorded_name_tells_the_collective(tmp_path: Path, recorded: str, kind: str) -> None:
    trace = RankBuilder(0, 2)
    trace.collective(0, (5, 50), 1, kind=recorded, name="ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)")
    (found,) = described(tmp_path, trace)
    assert found == Communication(1, kind, 4_000, Group("0", (0, 1)))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("Float", 40), ("BFloat16", 20), ("Half", 20), ("Long", 80), ("Byte", 10), ("Float8_e4m3fn", 10)],
)
def test_bytes_are_those_of_the_input(tmp_path: Path, dtype: str, size: int) -> None:
    trace = RankBuilder(0, 2)
    trace.collective(0, (5, 50), 1, kind="_allgather_base", nelems=10, dtype=dtype, **{"Out msg nelems": 20})
    (found,) = described(tmp_path, trace)
    assert isinstance(found, Communication)
    assert found.size == size


def test_what_is_recorded_on_the_operator_counts_where_the_kernel_says_nothing(tmp_path: Path) -> None:
    trace = RankBuilder(0, 2)
    trace.op(
        "record_param_comms", 0, 9,
        **{"Collective name": "allreduce", "In msg nelems": 5, "dtype": "Long", "Process Group Name": "7", "Seq": 3,
           "Group size": 2, "Global rank start": 0, "Global rank stride": 1},
    )  # fmt: skip
    trace.launch(ALL_REDUCE, (1, 3), (5, 50), 1, stream=24)
    assert described(tmp_path, trace) == [Communication(2, "ALL_REDUCE", 40, Group("7", (0, 1)), sequence=3)]


def test_without_arguments_the_annotation_and_the_shapes_tell(tmp_path: Path) -> None:
    trace = RankBuilder(0, 2)
    trace.op("c10d::alltoall_base_", 0, 20)
    trace.row(
        ph="X", cat="user_annotation", name="nccl:all_to_all", pid=100, tid=1, ts=1, dur=10,
        args={"Input Dims": [[6, 8], []], "Input type": ["c10::BFloat16", "Scalar"]},
    )  # fmt: skip
    trace.launch(SEND_RECV, (2, 4), (5, 50), 1, stream=24)
    assert described(tmp_path, trace) == [Communication(3, "ALL_TO_ALL", 96, Group("", (0, 1)))]


@pytest.mark.parametrize(
    ("operator", "dims", "size"),
    [
        ("_C_custom_ar::all_reduce", [[], [6, 8], [6, 8], []], 96),
        ("c10d::_allgather_base_", [[12, 8], [6, 8], []], 96),
        ("c10d::_reduce_scatter_base_", [[6, 8], [12, 8], []], 192),
        ("_c10d_functional::all_reduce", [[0, 8], [6, 8]], 96),
    ],
)
def test_of_an_operators_tensors_one_is_the_input(tmp_path: Path, operator: str, dims: list[Any], size: int) -> None:
    trace = RankBuilder(0, 2)
    types = ["c10::BFloat16" if shape else "Scalar" for shape in dims]
    trace.op(operator, 0, 20, **{"Input Dims": dims, "Input type": types})
    trace.launch("ncclDevKernel_Generic", (2, 4), (5, 50), 1, stream=24)
    (found,) = described(tmp_path, trace)
    assert isinstance(found, Communication)
    assert found.size == size


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "broken",
    [
        {"nelems": -1},
        {"nelems": 1 << 70},
        {"Process Group Ranks": "[0, ...]", "Group size": 1 << 40, "Global rank start": 0, "Global rank stride": 1},
        {"Process Group Ranks": "[0, ...]", "Group size": 2, "Global rank start": -1, "Global rank stride": 1},
        {"Process Group Ranks": [-1, 0], "Group size": 5},
        {"Process Group Ranks": "[0, 9223372036854775808]", "Group size": 5},
        {"Process Group Ranks": f"[{'9' * 5_000}]", "Group size": 5},
        {"Process Group Ranks": "[0, ...]", "Group size": 3, "Global rank start": 0, "Global rank stride": 1 << 62},
        {"Collective name": "send", "Dst Rank": 1 << 63},
    ],
)
def test_broken_numbers_are_not_taken(tmp_path: Path, broken: dict[str, Any]) -> None:
    trace = RankBuilder(0, 3)
    trace.collective(0, (5, 50), 1, **broken)
    (found,) = described(tmp_path, trace)
    assert isinstance(found, tuple)
    assert "recorded" in found[1]


def test_a_broken_size_of_the_world_is_not_taken(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1 << 40)
    trace.collective(0, (5, 50), 1, ranks=(), group="", **{"Process Group Ranks": None, "Group size": None})
    (found,) = described(tmp_path, trace)
    assert isinstance(found, Communication)
    assert found.group == Group("", (0, 1))


def test_a_groups_ranks_may_stand_in_the_header_only(tmp_path: Path) -> None:
    trace = RankBuilder(0, 4)
    trace.header["distributedInfo"]["pg_config"] = [{"pg_name": "3", "ranks": [0, 2]}]
    trace.collective(0, (5, 50), 1, group="3", **{"Process Group Ranks": "[0, ...]", "Group size": 2})
    (found,) = described(tmp_path, trace)
    assert isinstance(found, Communication)
    assert found.group == Group("3", (0, 2))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"In msg nelems": None}, "its size is not recorded"),
        ({"dtype": "Quaternion"}, "its size is not recorded"),
        ({"Collective name": None, "name": SEND_RECV}, "which collective it is"),
        ({"Collective name": "reduce"}, "it is a REDUCE, which ASTRA-sim does not support"),
        ({"Collective name": "barrier"}, "it is a BARRIER, which ASTRA-sim does not support"),
        ({"Process Group Ranks": "[0, ...]", "Group size": 8}, "the ranks of its group are not recorded"),
        ({"Collective name": "send"}, "its peer rank is not recorded"),
    ],
)
def test_what_is_not_known_is_said_with_the_kernels_name(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    trace = RankBuilder(0, 2)
    trace.collective(0, (5, 50), 1, **change)
    pattern = f"event 1, kernel 'ncclDevKernel_.*{why}.*; unknown='as-recorded' keeps"
    with pytest.raises(ConversionError, match=pattern) as raised:
        converted(tmp_path, trace)
    assert raised.value.on_command_line.endswith("and its duration, as-compute only the duration")
    conversion = converted(tmp_path, trace, unknown="as-compute")
    assert any("treated as compute" in note for note in conversion.notes)
    assert conversion.ranks[0].simulated_ns == 50_000


def test_kernels_of_other_libraries_are_not_known(tmp_path: Path) -> None:
    trace = RankBuilder(0, 2)
    trace.launch("void deep_ep::internode::dispatch<false>()", (0, 2), (5, 50), 1)
    with pytest.raises(ConversionError, match="deep_ep"):
        converted(tmp_path, trace)


def test_a_group_of_one_rank_talks_to_nobody(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1)
    trace.collective(0, (5, 50), 1, ranks=(0,))
    conversion = converted(tmp_path, trace)
    assert conversion.notes == ["rank 0: 1 collectives of single-rank groups stay compute nodes"]


def test_a_collective_becomes_a_node_with_type_bytes_and_group(tmp_path: Path) -> None:
    first, second = both()
    for trace in (first, second):
        trace.collective(0, (5, 50), 1, group="default_pg")
    folder = workload(tmp_path, first, second)
    node = named(folder, ALL_REDUCE)
    assert (node.type, node.on_cpu, node.after, node.micros) == ("COMM_COLL_NODE", False, ["cudaLaunchKernelExC"], 45)
    expected = {"comm_type": 0, "comm_size": 4_000, "pg_name": "1", "comm_tag": 0}
    assert {key: node.values[key] for key in expected} == expected
    assert folder.groups == {"1": [0, 1]}
    names = json.loads((tmp_path / "work" / "group_names.json").read_text())
    assert names["groups"] == {"1": {"name": "default_pg", "ranks": [0, 1]}}


def test_the_rank_that_comes_last_tells_how_long_the_transfer_takes(tmp_path: Path) -> None:
    first, second = both()
    first.collective(0, (5, 100), 1)
    second.op("aten::late", 0, 80)
    second.collective(80, (85, 100), 1)
    folder = workload(tmp_path, first, second)
    found = [named(folder, ALL_REDUCE, rank) for rank in (0, 1)]
    assert [node.micros for node in found] == [95, 15]
    assert [node.values["duration_nanos"] for node in found] == [95_000, 15_000]
    assert [node.values["transfer_nanos"] for node in found] == [15_000, 15_000]
    assert [rank.simulated_ns for rank in simulate(folder).ranks] == pytest.approx([100_000, 100_000], abs=2_000)


def test_a_rank_whose_recording_begins_later_begins_later(tmp_path: Path) -> None:
    """The second rank's clock is 10 s ahead, and its recording begins 500 µs later: the common end tells."""
    first, second = both()
    first.op("aten::long", 0, 1_000)
    first.collective(1_000, (1_005, 1_100), 1)
    second.op("aten::short", 10_000_500, 10_001_000)
    second.collective(10_001_000, (10_001_005, 10_001_100), 1)
    conversion = converted(tmp_path, first, second)
    assert [rank.measured_ns for rank in conversion.ranks] == [1_100_000, 1_100_000]
    assert [rank.simulated_ns for rank in conversion.ranks] == pytest.approx([1_100_000] * 2, abs=10_000)
    assert [rank.cpu_delay_ns for rank in conversion.ranks] == [0, 500_000]


def steps(trace: RankBuilder, names: str, first: int = 0) -> None:
    """Record collectives a (100 elements), b (200), ...; capitals were launched before the recording."""
    for at, name in enumerate(names, start=first):
        run = 100 * at + 10, 100 * at + 60
        if name.isupper():
            trace.kernel(ALL_REDUCE, *run, 1_000 + at, stream=24)
        else:
            trace.collective(100 * at, run, 1 + at, nelems=100 * (1 + "abcdefgh".index(name)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("first", "second", "later", "common"),
    [
        ("abc", "abc", 0, "abc"),
        ("ABcd", "Bcd", 1, "cd"),
        ("abcd", "BCd", 1, "d"),
        ("bcd", "abcd", -1, "bcd"),
        ("abcd", "abc", 0, "abc"),
        ("abab", "abab", 0, "abab"),
    ],
)
def test_what_not_every_rank_recorded_waits_for_nobody(
    tmp_path: Path, first: str, second: str, later: int, common: str
) -> None:
    traces = both()
    steps(traces[0], first, first=2)
    steps(traces[1], second, first=2 + later)
    folder = workload(tmp_path, *traces)
    sizes = [400 * (1 + "abcdefgh".index(name)) for name in common]
    for rank, names in enumerate((first, second)):
        assert [node.values["comm_size"] for node in exchanges(folder, rank)] == sizes
        rest = [node for node in communicating(folder, rank) if waits_for_nobody(folder, node)]
        assert len(rest) == len(names) - len(common)
        # Broadcasts, which ASTRA-sim replays as they were recorded.
        assert {(node.values["comm_type"], node.values["comm_size"], node.micros) for node in rest} <= {(5, 0, 50)}
        assert all(folder.groups[node.values["pg_name"]] == [rank] for node in rest if folder.groups)
    assert check(folder).findings == []


def test_what_waits_for_nobody_is_told_and_its_time_stays(tmp_path: Path) -> None:
    traces = both()
    for trace, early in zip(traces, ("A", "AB"), strict=True):
        steps(trace, early + "c")
        trace.call("cudaStreamSynchronize", 100 * len(early) + 3, 100 * len(early) + 62, 77)
        trace.sync_row("Stream Sync", 0, 1, 77, stream=24)
        trace.op("aten::after", 100 * len(early) + 62, 100 * len(early) + 70)
    conversion = converted(tmp_path, *traces)
    (note,) = conversion.notes
    assert note.startswith(
        "communication launched before the recording waits for no rank and keeps its recorded duration"
    )
    assert note.endswith(": 1 on rank 0, 2 on rank 1")
    for rank in conversion.ranks:
        assert rank.simulated_ns == pytest.approx(rank.measured_ns, abs=10_000)


def test_steps_that_look_alike_are_told_apart_by_their_ends(tmp_path: Path) -> None:
    """Both recorded four equal collectives, of which three are common: rank 1's second is rank 0's first."""
    traces = both()
    times = [0, 1_000, 2_700, 3_100, 9_000]
    for trace, own in zip(traces, (times[1:], times[:4]), strict=True):
        for corr, at in enumerate(own, start=1):
            trace.collective(at, (at + 10, at + 60), corr)
    folder = workload(tmp_path, *traces)
    starts = [[node.values["start_nanos"] for node in exchanges(folder, rank)] for rank in (0, 1)]
    assert starts[0] == starts[1] == [1_010_000, 2_710_000, 3_110_000]


def test_recorded_numbers_tell_which_is_which(tmp_path: Path) -> None:
    traces = both()
    for trace, numbers in zip(traces, ((7, 8, 9), (8, 9, 10)), strict=True):
        for at, number in enumerate(numbers):
            trace.collective(100 * at, (100 * at + 10, 100 * at + 60), at + 1, Seq=number)
    folder = workload(tmp_path, *traces)
    assert len(exchanges(folder)) == 2
    assert exchanges(folder)[0].values["start_nanos"] == 110_000
    assert exchanges(folder, 1)[0].values["start_nanos"] == 10_000


def test_ranks_that_disagree_are_refused_with_both_descriptions(tmp_path: Path) -> None:
    traces = both()
    steps(traces[0], "abcd")
    steps(traces[1], "abed")
    expected = (
        r"group 0 \[0, 1\]: the ranks disagree: number 2 of rank 0 is ALL_REDUCE of 1,200 bytes, "
        "number 2 of rank 1 is ALL_REDUCE of 2,000 bytes"
    )
    with pytest.raises(CollectiveError, match=expected):
        converted(tmp_path, *traces)
    assert list(tmp_path.glob("*work*")) == list(tmp_path.glob(".work*")) == []


def test_a_rank_without_any_is_refused(tmp_path: Path) -> None:
    first, second = both()
    steps(first, "ab")
    second.op("aten::a", 0, 10)
    with pytest.raises(CollectiveError, match="rank 1 recorded nothing, rank 0 2 communications"):
        converted(tmp_path, first, second)


def test_all_to_alls_may_differ_in_bytes(tmp_path: Path) -> None:
    traces = both()
    for trace, nelems in zip(traces, (100, 300), strict=True):
        trace.collective(0, (10, 60), 1, kind="all_to_allv", nelems=nelems, name=SEND_RECV)
    conversion = converted(tmp_path, *traces)
    assert "1 all-to-alls whose sizes differ between ranks get the largest size" in conversion.notes


def test_missing_ranks_are_named_and_the_ways_on(tmp_path: Path) -> None:
    trace = RankBuilder(0, 4)
    trace.collective(0, (5, 50), 1)
    with pytest.raises(ConversionError, match=r"missing ranks: 1, 2, 3; .*group 0.*'copy'") as raised:
        converted(tmp_path, trace)
    assert (
        "continue with --missing-ranks as-recorded (communication with them keeps its" in raised.value.on_command_line
    )
    assert not (tmp_path / "work").exists()


def test_missing_ranks_can_be_copies(tmp_path: Path) -> None:
    trace = RankBuilder(2, 4)
    trace.collective(0, (5, 50), 1)
    conversion = converted(tmp_path, trace, missing="copy")
    assert [(rank.npu, rank.rank) for rank in conversion.ranks] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    files = read_folder(tmp_path / "work").files
    assert all(files[npu].messages[1:] == files[2].messages[1:] for npu in range(4))
    said = {npu: (file.metadata["rank"], file.metadata.get("copy_of")) for npu, file in files.items()}
    assert said == {0: (0, 2), 1: (1, 2), 2: (2, None), 3: (3, 2)}
    # Nobody measured how long a copy took.
    assert [rank.measured_ns is None for rank in conversion.ranks] == [True, True, False, True]
    assert ["measured_nanos" in file.metadata for _, file in sorted(files.items())] == [False, False, True, False]


def test_what_waits_for_nobody_can_be_copied(tmp_path: Path) -> None:
    trace = RankBuilder(0, 2)
    steps(trace, "Ab")
    conversion = converted(tmp_path, trace, missing="copy")
    assert conversion.ranks[0].simulated_ns == conversion.ranks[1].simulated_ns
    assert len(communicating(read_folder(tmp_path / "work"), 1)) == 2


def test_communication_with_missing_ranks_can_take_as_long_as_it_did(tmp_path: Path) -> None:
    """It keeps the slot of communication, so that what ran beside it still does."""
    trace = RankBuilder(0, 4)
    trace.collective(0, (5, 105), 1)
    trace.launch("gemm", (4, 5), (10, 100), 2)
    folder = workload(tmp_path, trace, missing="as-recorded")
    (node,) = communicating(folder)
    assert (node.values["comm_type"], node.micros, waits_for_nobody(folder, node)) == (5, 100, True)
    (rank,) = simulate(folder).ranks
    assert rank.simulated_ns == rank.measured_ns == 105_000


def test_copies_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Rank 0 is in groups with 1 and with 2: rank 1 cannot do the same."""
    trace = RankBuilder(0, 4)
    trace.collective(0, (5, 50), 1, group="tp", ranks=(0, 1))
    trace.collective(60, (65, 90), 2, group="dp", ranks=(0, 2))
    with pytest.raises(ConversionError, match=r"rank 1 is not in group 2.*; missing='as-compute' has fewer"):
        converted(tmp_path, trace, missing="copy")
    assert not (tmp_path / "work").exists()


def test_communication_with_missing_ranks_can_be_computation(tmp_path: Path) -> None:
    first, second = RankBuilder(0, 4), RankBuilder(1, 4)
    for trace in (first, second):
        trace.collective(0, (5, 50), 1, group="tp", ranks=(0, 1))
        trace.collective(60, (65, 90), 2, group="dp", ranks=(trace.rank, trace.rank + 2))
    folder = workload(tmp_path, first, second, missing="as-compute")
    assert [node.type for node in nodes(folder) if node.name == ALL_REDUCE] == ["COMM_COLL_NODE", "COMP_NODE"]
    assert folder.groups == {"1": [0, 1]}


def test_ranks_are_renumbered_where_some_are_not_there(tmp_path: Path) -> None:
    first, second = RankBuilder(3, 8), RankBuilder(6, 8)
    for trace in (first, second):
        trace.collective(0, (5, 50), 1, group="odd", ranks=(3, 6))
    conversion = converted(tmp_path, first, second)
    assert [(rank.npu, rank.rank) for rank in conversion.ranks] == [(0, 3), (1, 6)]
    assert json.loads((tmp_path / "work" / "comm_groups.json").read_text()) == {"1": [0, 1]}
    names = json.loads((tmp_path / "work" / "group_names.json").read_text())
    assert names["rank_of_npu"] == {"0": 3, "1": 6}
    assert any("renumbered" in note for note in conversion.notes)


def test_collectives_follow_each_other_on_every_rank_also_over_streams(tmp_path: Path) -> None:
    traces = both()
    for trace in traces:
        trace.collective(0, (10, 60), 1, group="a", stream=24)
        trace.collective(5, (20, 70), 2, group="b", stream=28)
    folder = workload(tmp_path, *traces)
    first, second = exchanges(folder)
    assert first.name in second.after
    assert [first.values["pg_name"], second.values["pg_name"]] == ["1", "2"]


def test_groups_launched_in_different_orders_are_issued_in_one(tmp_path: Path) -> None:
    """Rank 0 launches a, then b; rank 1 the other way round: alone they would wait for each other for ever."""
    traces = both()
    for trace, order in zip(traces, ("ab", "ba"), strict=True):
        for corr, group in enumerate(order, start=1):
            run = (100, 160) if group == "a" else (110, 170)
            trace.collective(10 * corr, run, corr, group=group, stream=24 if group == "a" else 28)
    folder = workload(tmp_path, *traces)
    result = check(folder)
    assert result.findings == []
    sequences = [[node.values["start_nanos"] for node in exchanges(folder, rank)] for rank in (0, 1)]
    assert sequences == [[100_000, 110_000], [100_000, 110_000]]


def test_orders_that_contradict_what_ranks_waited_for_are_refused(tmp_path: Path) -> None:
    """On each rank the second is on the first one's stream, so neither order is possible."""
    traces = both()
    for trace, order in zip(traces, ("ab", "ba"), strict=True):
        for corr, group in enumerate(order, start=1):
            trace.collective(10 * corr, (100 * corr, 100 * corr + 60), corr, group=group)
    kernels = [rf"'{ALL_REDUCE[:30]}' \(event {event}\)" for event in (1, 3)]
    expected = rf"rank.\.json: the common order of collectives contradicts .*: {kernels[0]} waits for {kernels[1]}, "
    with pytest.raises(CollectiveError, match=rf"{expected}which waits for {kernels[0]}$"):
        converted(tmp_path, *traces)


def messages(recorded: bool) -> tuple[RankBuilder, RankBuilder]:
    """Rank 0 sends two messages to rank 1, which recorded only the second one's receive launch."""
    first, second = both()
    for corr in (1, 2):
        at = 100 * corr
        for trace, kind, key, peer in ((first, "send", "Dst Rank", 1), (second, "recv", "Src Rank", 0)):
            if recorded:
                trace.collective(at, (at + 10, at + 60), corr, kind=kind, name=SEND_RECV, **{key: peer})
            else:
                arrow = "0->1" if kind == "send" else "1<-0"
                trace.annotation(f"nccl:{kind} {arrow}", at - 1, at + 5)
                trace.collective(at, (at + 10, at + 60), corr, kind=None, name=SEND_RECV)  # type: ignore[arg-type]
    return first, second


@pytest.mark.parametrize("recorded", [True, False])
def test_a_message_has_both_ends_and_a_tag(tmp_path: Path, recorded: bool) -> None:
    folder = workload(tmp_path, *messages(recorded))
    ends = [
        [(node.type, *(node.values[key] for key in ("comm_src", "comm_dst", "comm_tag", "comm_size"))) for node in own]
        for own in (exchanges(folder), exchanges(folder, 1))
    ]
    assert ends == [
        [("COMM_SEND_NODE", 0, 1, 0, 4_000), ("COMM_SEND_NODE", 0, 1, 1, 4_000)],
        [("COMM_RECV_NODE", 0, 1, 0, 4_000), ("COMM_RECV_NODE", 0, 1, 1, 4_000)],
    ]
    kinds = {kind for node in folder.files[0].nodes() for kind in _kinds(node)}
    assert kinds >= {("comm_src", "int32_val"), ("comm_dst", "int32_val"), ("comm_tag", "int32_val")}
    assert check(folder).findings == []


def _kinds(node: Any) -> list[tuple[str, str]]:
    return [(attribute.name, attribute.WhichOneof("value")) for attribute in node.attr]


def test_errors_of_one_trace_leave_nothing_behind(tmp_path: Path) -> None:
    traces = both()
    steps(traces[0], "ab")
    with pytest.raises(HtaGraphError):
        converted(tmp_path, traces[0])
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.json"]


def test_ranks_that_share_nothing_begin_together_whatever_their_clocks_say(tmp_path: Path) -> None:
    first, second = RankBuilder(0, 2), RankBuilder(1, 2)
    first.op("aten::a", 0, 10)
    second.op("aten::a", 3_600_000_000, 3_600_000_010)
    conversion = converted(tmp_path, first, second)
    assert [rank.measured_ns for rank in conversion.ranks] == [10_000, 10_000]


def test_collectives_of_gloo_are_counted(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1)
    trace.op("c10d::allreduce_", 0, 10)
    trace.annotation("gloo:all_reduce", 2, 90, tid=5)
    trace.op("aten::after", 100, 110)
    conversion = converted(tmp_path, trace)
    (said,) = conversion.notes
    assert said.startswith(
        "rank 0: 1 communications on the CPU, with unknown size or group, or of a kind that ASTRA-sim "
    )


def test_the_copies_of_a_copy_engine_are_one_collective(tmp_path: Path) -> None:
    ways = [(WAYS[0], 120, 20), (WAYS[1], 141, 20)]
    folder = workload(tmp_path, copy_engine_step(0, ways), copy_engine_step(1, [*ways[::-1], (WAYS[0], 162, 8)]))
    assert folder.groups is not None
    assert list(folder.groups.values()) == [[0, 1]]
    for rank, micros in enumerate((41, 50)):
        (gather,) = exchanges(folder, rank)
        assert (gather.values["comm_size"], gather.micros) == (4_000, micros)
        assert not [node for node in nodes(folder, rank) if node.name.startswith("Memcpy") and node.id != gather.id]
    assert check(folder).findings == []
