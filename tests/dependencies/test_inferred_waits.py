"""Waits that nothing in a file says: believed where chance is improbable, else left alone (times in µs)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from tests.edge_accuracy import DIALECTS
from tests.inferred_wait_accuracy import FAMILIES, POVERTIES, WaitFamily, proved
from tests.support.deep_tests import cases, deep
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder, edges


def orphans(hole: float, lag: float, *, ends: int = 1, corr: int = 5, later: int = 0) -> TraceBuilder:
    """Work of before the recording stands still for some µs, until some µs after other streams' work."""
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 5, 100)
    trace.kernel("held back since", 10, 20, 4)
    start = 20 + hole
    for number in range(ends):
        end = start - lag - 10 * number
        trace.kernel("nccl", end - 9, end, corr - ends + number + later, stream=20)
    trace.kernel("gemm", start, start + 10, corr + 1)
    return trace


def one_of_many(*, later: float = 9_000) -> TraceBuilder:
    """Four ends lie in the hole; what was launched last before the wait runs on until some µs later."""
    trace = orphans(300, 2, ends=4)
    trace.kernel("last", 318.5, later, 5, stream=20)
    return trace


def believed(graph: DependencyGraph) -> set[tuple[str, str]]:
    """Return source and target, by name, of the waits that are believed."""
    frame = graph.edges
    chosen = frame[frame.rule == "end_of_other_stream"]
    assert set(chosen.evidence) <= {"inferred"}
    names = [[graph.event(index)["name"] for index in chosen[column]] for column in ("source_index", "target_index")]
    return set(zip(*names, strict=True))


def test_old_work_that_goes_on_when_another_stream_is_done_waited_for_it(tmp_path: Path) -> None:
    graph = orphans(8_500, 18).graph(tmp_path)
    assert believed(graph) == {("nccl", "gemm")}
    assert hg.critical_path(graph, hg.whole()).by_bound_ns["unexplained"] < 10_000_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(orphans(8_500, 120), id="the end is far"),
        pytest.param(orphans(300, 5), id="the hole is short beside the lag"),
        pytest.param(one_of_many(), id="one of many ends"),
        pytest.param(orphans(8_500, 5, later=9), id="launched earlier than what ended"),
        pytest.param(orphans(8_500, 5, corr=200), id="launched in the recording, its call is lost"),
    ],
)
def test_what_may_be_chance_is_left_alone(trace: TraceBuilder, tmp_path: Path) -> None:
    assert believed(trace.graph(tmp_path)) == set()


def test_what_was_launched_last_before_the_wait_is_the_one_to_ask(tmp_path: Path) -> None:
    assert believed(orphans(300, 2, ends=4).graph(tmp_path)) == {("nccl", "gemm")}


def test_a_free_stream_may_find_no_room_on_the_device_for_a_while(tmp_path: Path) -> None:
    assert believed(orphans(8_500, 80).graph(tmp_path)) == {("nccl", "gemm")}
    trace = orphans(8_500, 80)
    trace.kernel("last", 8_450, 9_000, 5, stream=20)
    assert believed(trace.graph(tmp_path)) == set()


def test_the_first_work_of_a_stream_may_have_waited_since_the_recording_began(tmp_path: Path) -> None:
    trace = orphans(8_500, 5)
    del trace.rows[1]
    assert believed(trace.graph(tmp_path)) == {("nccl", "gemm")}


def test_nodes_of_a_graph_wait_for_each_other_only(tmp_path: Path) -> None:
    trace = orphans(8_500, 5)
    trace.kernel("second node", 9_000, 9_010, 6)
    assert believed(trace.graph(tmp_path)) == set()


def test_an_event_captures_whole_graphs(tmp_path: Path) -> None:
    trace = orphans(8_500, 5)
    trace.kernel("last node", 8_517, 8_600, 4, stream=20)
    assert believed(trace.graph(tmp_path)) == set()


def test_two_copies_may_share_an_engine(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 0, 5, 100)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 10, 20, 4)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 11, 9_000, 5, stream=20)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 9_002, 9_010, 6)
    assert believed(trace.graph(tmp_path)) == set()


def test_two_streams_that_end_together_leave_open_which_was_meant(tmp_path: Path) -> None:
    trace = orphans(8_500, 5)
    trace.kernel("copy", 100, 8_514, 3, stream=24)
    assert believed(trace.graph(tmp_path)) == set()


def known_waits(lag: float, old_hole: float = 100, old_lag: float = 2) -> TraceBuilder:
    """Three times the stream waits for the other one, each time by a call; before the recording it may have, too."""
    trace = orphans(old_hole, old_lag)
    for number in range(3):
        at = 1_000 + 200 * number
        trace.launch("nccl", (at, at + 3), (at + 10, at + 100), 101 + 10 * number, stream=20)
        trace.call("cudaStreamWaitEvent", at + 5, at + 6, 102 + 10 * number)
        trace.launch("add", (at + 7, at + 9), (at + 100 + lag, at + 110 + lag), 103 + 10 * number)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("lag", "found"), [(2, {("nccl", "gemm")}), (3.5, {("nccl", "gemm")}), (9, set())])
def test_a_shorter_hole_is_enough_where_the_streams_usually_wait_so_long(
    lag: float, found: set[tuple[str, str]], tmp_path: Path
) -> None:
    assert believed(known_waits(lag).graph(tmp_path)) == found


def test_a_lag_that_is_longer_than_usual_is_not_enough(tmp_path: Path) -> None:
    assert believed(known_waits(2, 200, 8).graph(tmp_path)) == set()
    assert believed(known_waits(8, 200, 8).graph(tmp_path)) == {("nccl", "gemm")}


def launched(*, wait: bool, row: bool = False) -> TraceBuilder:
    """A thread tells a stream to wait and launches nothing more; another thread launches what is held back."""
    trace = TraceBuilder()
    trace.launch("first", (0, 5), (10, 20), 1)
    trace.launch("nccl", (30, 35), (40, 1_000), 2, stream=20, tid=2)
    if wait:
        trace.call("cudaStreamWaitEvent", 40, 45, 3, tid=2)
    if row:
        trace.sync_row("Stream Wait Event", 400, 401, 9, stream=7, wait_on_stream=20, record=8)
        trace.call("cudaEventRecord", 390, 391, 8)
        trace.call("cudaStreamWaitEvent", 400, 402, 9)
    trace.launch("add", (60, 65), (1_003, 1_010), 4)
    return trace


def test_a_wait_call_of_another_thread_is_believed_by_timing(tmp_path: Path) -> None:
    graph = launched(wait=True).graph(tmp_path)
    assert believed(graph) == {("nccl", "add")}
    assert graph.diagnostics["event_waits_unresolved"] == 0
    assert hg.sync_dependencies(graph)["sync_index"].tolist() == [4]


def test_a_wait_call_holds_back_the_next_work_only(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("nccl", (0, 5), (10, 1_000), 1, stream=20, tid=2)
    trace.call("cudaStreamWaitEvent", 10, 15, 2, tid=2)
    trace.launch("next", (20, 25), (30, 40), 3)
    trace.launch("add", (50, 55), (1_003, 1_010), 4)
    assert believed(trace.graph(tmp_path)) == set()


@pytest.mark.parametrize(("wait", "row"), [(False, False), (True, True)])
def test_work_launched_in_the_file_waits_by_a_call_in_the_file(wait: bool, row: bool, tmp_path: Path) -> None:
    assert believed(launched(wait=wait, row=row).graph(tmp_path)) == set()


@pytest.mark.parametrize(
    ("dialect", "programs"),
    [("no rows", 4), *(deep(dialect, cases(60)) for dialect in DIALECTS)],
)
@pytest.mark.slow
def test_waits_in_recordings_of_simulated_programs_are_true(dialect: str, programs: int) -> None:
    counts: dict[str, Counter[str]] = {
        poverty: sum(
            (proved(family, DIALECTS[dialect], poverty, range(programs), 150) for family in FAMILIES), Counter()
        )
        for poverty in POVERTIES
    }
    complete, lossy = counts["begun by a call"], counts["lost rows"]
    assert not complete["wrong"]
    assert complete["held"] > programs
    assert complete["found"] > 0.25 * complete["held"]
    assert lossy["wrong"] <= 1 + 0.05 * lossy["believed"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_simulated(family: WaitFamily) -> None:
    assert proved(family, DIALECTS["no rows"], "begun by a call", range(2), 100)["wrong"] == 0


@pytest.mark.slow
@pytest.mark.shared
def test_copies_that_an_amd_gpu_enqueued_before_the_recording_waited_for_the_all_reduce() -> None:
    graph = graph_of_file(SHARED / "traces_more" / "rccl_ddp_mi300x" / "rank0.json.gz")
    found = {(source, target) for _, source, _, target, _ in edges(graph, "event_wait")}
    assert {(45457, 45459), (49715, 49717)} <= found
    assert hg.critical_path(graph, hg.whole()).coverage > 0.97
