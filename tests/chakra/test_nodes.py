"""From a trace to nodes: what each depends on, how long it takes, what is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hta_graph.base.errors import TraceError
from hta_graph.chakra.astra_sim_executor import DELAY, EtProgram, execute
from hta_graph.chakra.convert import convert
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.chakra.simulate import simulate
from tests.edge_accuracy import read
from tests.simulator import Dialect, write
from tests.simulator import simulate as run_program
from tests.simulator.program import Gap, Launch, Op, Poll, Program, Stream
from tests.support.rank_builder import Found, RankBuilder, converted, named, nodes, workload


def one_rank(**header: object) -> RankBuilder:
    return RankBuilder(0, 1)


def test_a_kernel_follows_the_work_up_to_its_launch_and_not_the_rest_of_its_operator(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::mm", 0, 30)
    trace.launch("gemm", (10, 14), (20, 120), 1)
    trace.op("aten::add", 30, 40)
    folder = workload(tmp_path, trace)
    first, kernel, second, closing = nodes(folder)
    assert (first.name, first.after, first.micros, first.on_cpu) == ("aten::mm", [], 10, True)
    assert (kernel.name, kernel.after, kernel.on_cpu) == ("gemm", ["aten::mm"], False)
    assert (second.name, second.after, second.micros) == ("aten::add", ["aten::mm"], 30)
    assert kernel.micros == 100
    assert kernel.values["duration_nanos"] == 100_000
    # The usual latency of launches comes back at the end.
    assert (closing.name, set(closing.after), closing.micros) == (DELAY, {"gemm", "aten::add"}, 10)


def test_a_call_that_loads_a_module_launches_when_it_returns(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::mm", 0, 600)
    trace.launch("gemm", (10, 514), (512, 532), 1)
    trace.op("aten::add", 600, 610)
    first, kernel, *_ = nodes(workload(tmp_path, trace))
    assert (first.name, first.micros) == ("aten::mm", 514)
    assert (kernel.name, kernel.after, kernel.micros) == ("gemm", ["aten::mm"], 20)


def test_a_blocking_call_is_no_work_and_what_follows_waits_for_the_gpu(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::mm", 0, 10)
    trace.launch("gemm", (2, 8), (8, 200), 1)
    trace.op("aten::item", 10, 210)
    trace.call("cudaStreamSynchronize", 12, 205, 2)
    trace.op("aten::add", 210, 220)
    folder = workload(tmp_path, trace)
    add = named(folder, "aten::add")
    assert set(add.after) == {"gemm", "aten::item", DELAY}
    assert add.micros == 220 - 200
    assert named(folder, "aten::item").micros == 12 - 2
    assert simulate(folder).ranks[0].simulated_ns == 220_000


def test_a_copy_that_blocks_is_launched_before_the_wait_for_it(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::item", 0, 60)
    trace.call("cudaMemcpyAsync", 5, 50, 1)
    trace.copy("Memcpy DtoH (Device -> Pageable)", 20, 45, 1)
    trace.op("aten::add", 60, 70)
    folder = workload(tmp_path, trace)
    assert named(folder, "Memcpy").after == ["aten::item"]
    assert named(folder, "Memcpy").micros == 25
    assert set(named(folder, "aten::add").after) == {"aten::item", "Memcpy DtoH (Device -> Pageable)", DELAY}
    assert named(folder, "aten::add").micros == 70 - 45


def test_a_stream_runs_in_order_and_a_wait_for_an_event_joins_two(tmp_path: Path) -> None:
    trace = one_rank()
    trace.launch("first", (0, 2), (5, 50), 1)
    trace.launch("second", (2, 4), (50, 60), 2)
    trace.call("cudaEventRecord", 4, 5, 3)
    trace.call("cudaStreamWaitEvent", 5, 6, 4)
    trace.sync_row("Stream Wait Event", 5, 6, 4, stream=20, wait_on_stream=7, record=3)
    trace.launch("other", (6, 8), (61, 70), 5, stream=20)
    folder = workload(tmp_path, trace)
    assert "first" in named(folder, "second").after
    assert "second" in named(folder, "other").after
    assert "first" not in named(folder, "other").after


@pytest.mark.parametrize(("overlap", "micros", "whole"), [("keep", 12, 62), ("share", 10, 60)])
def test_work_that_overlaps_its_predecessor_on_a_stream_keeps_the_order(
    tmp_path: Path, overlap: str, micros: int, whole: int
) -> None:
    trace = one_rank()
    trace.launch("first", (0, 2), (2, 50), 1)
    trace.launch("second", (2, 4), (48, 60), 2)
    folder = workload(tmp_path, trace, overlap=overlap)
    assert set(named(folder, "second").after) == {DELAY, "first"}
    assert (named(folder, "first").micros, named(folder, "second").micros) == (48, micros)
    assert named(folder, "second").values["duration_nanos"] == 12_000
    assert simulate(folder).ranks[0].simulated_ns == whole * 1_000


def test_python_between_operators_is_a_delay_as_soon_as_there_is_enough_of_it(tmp_path: Path) -> None:
    trace = one_rank()
    for at in range(6):
        trace.op(f"aten::a{at}", 10_000 * at, 10_000 * at + (9_996 if at < 5 else 10_000))
    found = nodes(workload(tmp_path, trace))
    # 4 µs between two, in a recording of 60 ms: worth a node when they are 12.
    assert [(node.name, node.micros) for node in found] == [
        ("aten::a0", 9_996), ("aten::a1", 9_996), ("aten::a2", 9_996), (DELAY, 12), ("aten::a3", 9_996),
        ("aten::a4", 9_996), ("aten::a5", 10_000), (DELAY, 8),
    ]  # fmt: skip
    assert found[3].after == ["aten::a2"]
    assert (found[3].values["start_nanos"], found[3].values["duration_nanos"]) == (29_988_000, 12_000)
    assert found[4].after == ["aten::a2", DELAY]
    assert found[3].on_cpu


def test_the_thread_that_waits_for_backward_does_not_work_meanwhile(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::loss", 0, 10)
    trace.op("autograd::engine::evaluate_function: AddBackward0", 20, 100, tid=2)
    trace.op("aten::step", 130, 140)
    folder = workload(tmp_path, trace)
    backward = named(folder, "autograd::engine")
    assert "aten::loss" in backward.after
    step = named(folder, "aten::step")
    assert {"aten::loss", backward.name} <= set(step.after)
    assert sum(node.micros for node in nodes(folder)) == 140
    assert backward.micros in (80, 90)


@pytest.mark.parametrize(("overlap", "other", "whole"), [("keep", 90, 220), ("share", 0, 130)])
def test_threads_at_work_at_once_take_turns_or_share_their_time(
    tmp_path: Path, overlap: str, other: int, whole: int
) -> None:
    trace = one_rank()
    for at in range(10):
        trace.op(f"aten::busy{at}", 10 * at, 10 * at + 10)
    trace.op("aten::other", 5, 95, tid=2)
    trace.op("aten::late", 95, 130, tid=2)
    conversion = converted(tmp_path, trace, overlap=overlap)
    folder = read_folder(tmp_path / "work")
    assert named(folder, "aten::other").micros == other
    assert named(folder, "aten::other").values["duration_nanos"] == 90_000
    assert named(folder, "aten::late").micros == (35 if overlap == "keep" else 30)
    assert simulate(folder).ranks[0].simulated_ns == pytest.approx(1_000 * whole + 5_000 * (overlap == "keep"), abs=20)
    assert len([note for note in conversion.notes if "rank 0: 0.095 ms on the CPU" in note]) == 1


@pytest.mark.parametrize(("overlap", "side", "whole"), [("keep", 130, 278), ("share", 30, 178)])
def test_streams_at_work_at_once_take_turns_or_share_their_time(
    tmp_path: Path, overlap: str, side: int, whole: int
) -> None:
    trace = one_rank()
    trace.launch("main", (0, 2), (2, 100), 1)
    trace.launch("tail", (2, 4), (100, 150), 2)
    trace.launch("side", (4, 6), (50, 180), 3, stream=20)
    folder = workload(tmp_path, trace, overlap=overlap)
    assert named(folder, "side").micros == side
    assert simulate(folder).ranks[0].simulated_ns == pytest.approx(1_000 * whole, abs=2_000)


def test_an_unexplained_wait_begins_when_other_streams_leave_the_gpu(tmp_path: Path) -> None:
    """Nothing says why the last kernel waits so long; in between another stream works, and the GPU has one slot."""
    trace = one_rank()
    trace.launch("before", (0, 2), (4, 10), 1)
    trace.launch("unexplained", (2, 4), (1_010, 1_020), 2)
    trace.op("aten::slow", 4, 500)
    trace.launch("between", (500, 502), (504, 904), 3, stream=20)
    folder = workload(tmp_path, trace)
    delay = next(node for node in nodes(folder) if not node.on_cpu and node.name == DELAY and node.micros > 50)
    assert "between" in delay.after
    found = simulate(folder)
    at = found.programs[0].names.index("unexplained")
    assert found.execution.start[0][at] == pytest.approx(1_010_000, abs=5_000)


def test_a_watchdogs_polls_are_no_work(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::a", 0, 10)
    trace.call("cudaEventQuery", 5, 500, 9, tid=7)
    assert [node.name for node in nodes(workload(tmp_path, trace))] == ["aten::a"]


def test_ids_count_up_from_one_in_the_order_of_starts(tmp_path: Path) -> None:
    trace = one_rank()
    trace.launch("late", (0, 2), (200, 210), 1, stream=20)
    trace.launch("early", (2, 4), (10, 190), 2)
    found = nodes(workload(tmp_path, trace))
    assert [node.id for node in found] == list(range(1, len(found) + 1))
    gpu = [node.name for node in found if not node.on_cpu and node.name != DELAY]
    assert gpu == ["early", "late"]


def test_rounding_to_microseconds_does_not_add_up(tmp_path: Path) -> None:
    trace = one_rank()
    for at in range(1_000):
        trace.op("aten::tiny", at * 1.4, at * 1.4 + 1.4)
    micros = [node.micros for node in nodes(workload(tmp_path, trace))]
    assert set(micros) == {1, 2}
    assert abs(sum(micros) - 1_400) <= 1


def test_without_operators_the_host_is_delays_between_launches_and_waits(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::mm", 0, 4)
    trace.launch("first", (2, 4), (5, 50), 1)
    trace.op("aten::item", 4, 55)
    trace.call("cudaStreamSynchronize", 5, 55, 2)
    for at in range(10):
        trace.op(f"aten::slow{at}", 55 + 10 * at, 65 + 10 * at)
    trace.op("aten::mm", 155, 158)
    trace.launch("second", (156, 158), (159, 200), 3, stream=20)
    trace.op("aten::unseen", 160, 300)
    folder = workload(tmp_path, trace, profile="gpu")
    found = nodes(folder)
    assert [(node.name, node.on_cpu, node.micros) for node in found] == [
        (DELAY, True, 2), ("first", False, 45), (DELAY, True, 3), (DELAY, True, 109), ("second", False, 41),
        (DELAY, False, 3),
    ]  # fmt: skip
    assert [node.after for node in found[1:5]] == [[DELAY], [DELAY], ["first", DELAY], [DELAY]]
    assert simulate(folder).ranks[0].simulated_ns == 200_000


def test_what_the_gpu_waits_for_is_the_same_in_both_profiles(tmp_path: Path) -> None:
    """Kernels twice as long: both profiles say the same, for the host's time stays and its waits grow."""
    ends = {}
    for profile in ("full", "gpu"):
        trace = one_rank()
        for at in range(0, 1_000, 100):
            trace.op("aten::mm", at, at + 100)
            trace.launch(f"k{at}", (at + 10, at + 14), (at + 16, at + 76), at + 1)
            trace.call("cudaStreamSynchronize", at + 20, at + 80, at + 2)
        trace.launch("last", (1_000, 1_004), (1_006, 1_106), 1_001)
        program = EtProgram(0, workload(tmp_path, trace, profile=profile, force=True).files[0])
        kernels = {at for at, name in enumerate(program.names) if name.startswith(("k", "last"))}
        plain = program.program()
        longer = [ns * (2 if at in kernels else 1) for at, ns in enumerate(plain.duration)]
        runs = (execute({0: replace(plain, duration=duration)}, {}) for duration in (plain.duration, longer))
        ends[profile] = [max(run.end[0]) for run in runs]
    assert ends["full"] == ends["gpu"] == [1_106_000, 1_806_000]


def test_a_trace_without_a_gpu_has_no_gpu_profile(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::a", 0, 10)
    with pytest.raises(TraceError, match="no GPU activity; profile='full'") as raised:
        converted(tmp_path, trace, profile="gpu")
    assert raised.value.on_command_line.endswith("no GPU activity; --profile full simulates its CPU work")
    assert not (tmp_path / "work").exists()


def test_a_trace_of_annotations_has_nothing_to_simulate(tmp_path: Path) -> None:
    trace = one_rank()
    trace.annotation("ProfilerStep#1", 0, 10)
    with pytest.raises(TraceError, match="holds nothing to simulate"):
        converted(tmp_path, trace)


def test_every_node_says_where_it_is_from(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::mm", 0, 30, **{"External id": 17})
    _, kernel = trace.launch("gemm", (10, 14), (20, 120), 1)
    folder = workload(tmp_path, trace)
    found: Found = named(folder, "gemm")
    expected = {"event_index": kernel, "external_id": 17, "stream": 7, "device": 0, "start_nanos": 20_000}
    assert {key: found.values[key] for key in expected} == expected
    assert nodes(folder)[0].values["tid"] == 1
    assert folder.files[0].metadata["measured_nanos"] == 120_000


@pytest.mark.slow
def test_a_full_launch_queue_holds_the_cpu_until_the_gpu_goes_on(tmp_path: Path) -> None:
    trace = one_rank()
    corr = 0
    for at in range(1_100):
        corr += 1
        trace.launch(f"k{at}", (at * 2, at * 2 + 1), (5_000 + at * 10, 5_010 + at * 10), corr)
    freed = 5_000 + 20 * 10
    trace.call("cudaLaunchKernel", 2_200, freed + 2, corr + 1)
    trace.kernel("last", 16_000, 16_010, corr + 1)
    graph_folder = workload(tmp_path, trace)
    times = simulate(graph_folder).ranks[0]
    assert times.simulated_ns == pytest.approx(times.measured_ns, rel=0.001)
    assert np.sum([node.micros for node in nodes(graph_folder) if node.on_cpu]) < 3_300


def test_names_that_cannot_be_encoded_and_times_before_the_epoch_do_no_harm(tmp_path: Path) -> None:
    trace = one_rank()
    trace.op("aten::\ud800", -50, -40)
    trace.op("aten::b", -40, 10)
    found = nodes(workload(tmp_path, trace))
    assert [node.micros for node in found] == [10, 50]
    assert found[0].name.startswith("aten::")


def test_a_host_that_polls_a_kernel_goes_on_after_what_ran_before_it(tmp_path: Path) -> None:
    """A node can wait for another's end only: the kernel that lets the host go on has not ended then."""
    stream = Stream(7)
    work = Op("aten::bmm", (Gap(50_000), Launch(stream, 4_000, "gemm")))
    once = (Launch(stream, 600_000, "dispatch"), Poll(stream, 30_000), work)
    graph = read(write(run_program(Program.of(*once * 8)), Dialect()))
    assert graph.edge_counts()["host_poll"] == {"recorded": 0, "inferred": 8}
    (rank,) = convert([RankInput(0, graph)], tmp_path / "work").ranks
    assert abs(rank.simulated_ns - rank.measured_ns) < 2_000
    held = [node.name for node in nodes(read_folder(tmp_path / "work")) if node.on_cpu and "gemm" in node.after]
    assert Counter(held) == {"aten::bmm": 7, DELAY: 7}
