"""Reasons for the unexplained: each where the trace shows it, and never where it does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import RULES
from analyses.questions.critical_path import path_document
from hta_graph.base.text.json_text import to_json
from hta_graph.paths.unrecorded_work import replays_with_hole
from tests.support.cuda_graph_replay import queued_replays, replayed_graph
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.support.work_before_recording import held_stream, long_queued
from tests.unexplained_reason_accuracy import POVERTIES, Poverty, rates

pytestmark = pytest.mark.sampled(2)


def reasons(graph: hg.DependencyGraph) -> list[tuple[str, str | None, str | None]]:
    """Return reason, while_in and before of each unexplained stretch of the whole trace."""
    found = hg.critical_path(graph, hg.whole()).unexplained_columns()
    return list(zip(*(found[key].tolist() for key in ("reason", "while_in", "before")), strict=True))


def replayed(holes: list[float], tmp_path: Path) -> list[tuple[str, str | None, str | None]]:
    """Return the unexplained stretches of such replays."""
    return reasons(replayed_graph(holes).graph(tmp_path))


def test_the_same_hole_in_every_replay_is_a_node_that_was_not_recorded(tmp_path: Path) -> None:
    stretch = ("missing_graph_node", "cudaDeviceSynchronize", "last")
    assert replayed([400, 420, 390], tmp_path) == [stretch] * 3


def test_a_missing_node_is_counted_in_its_replays_and_nothing_else_is(tmp_path: Path) -> None:
    graph = replayed_graph([400, 420, 390, 700]).graph(tmp_path)
    found = hg.critical_path(graph, hg.whole()).unexplained
    assert found[["replays", "replays_with_hole"]].to_numpy().tolist() == [[4, 4]] * 4
    waits = hg.critical_path(held_back(995).graph(tmp_path), hg.whole()).unexplained
    assert waits[["replays", "replays_with_hole"]].to_numpy().tolist() == [[None, None]]


def test_replays_that_show_a_shorter_hole_do_not_count(tmp_path: Path) -> None:
    graph = replayed_graph([400, 20, 400]).graph(tmp_path)
    last = np.flatnonzero(graph.event_table.start == graph.event_table.start.max()).astype(np.int32)
    counts = replays_with_hole(graph, last, np.array([350_000]))
    assert [count.tolist() for count in counts] == [[3], [2]]


@pytest.mark.parametrize(("end_before", "expected"), [(1, set()), (12, set()), (60, {"missing_graph_node"})])
def test_a_hole_in_which_another_lane_of_the_launch_works_is_no_missing_node(
    tmp_path: Path, end_before: float, expected: set[str]
) -> None:
    """A node that joins two branches starts when the longer one ends; after one that ended long before it does not."""
    trace = replayed_graph([400] * 3)
    for number in (1, 2, 3):
        began = 440 * (number - 1) + 20
        trace.kernel("branch", began, began + 400 - end_before, number, stream=20)
    assert {found for found, *_ in reasons(trace.graph(tmp_path))} == expected


@pytest.mark.shared
def test_a_recorded_join_of_two_branches_is_no_missing_node() -> None:
    graph = graph_of_file(SHARED / "one_rank" / "graph_join.json")
    assert not [found for found, *_ in reasons(graph) if found == "missing_graph_node"]


@pytest.mark.parametrize("holes", [[400, 400], [400, 400, 5], [400, 20, 400]])
def test_a_hole_in_few_or_in_some_replays_is_not(tmp_path: Path, holes: list[float]) -> None:
    assert {reason for reason, *_ in replayed(holes, tmp_path)} == {"unknown"}


MISSING_BEFORE_GEMM = ("missing_graph_node", "cudaDeviceSynchronize", "gemm")


def test_another_graph_with_as_many_nodes_hides_no_hole(tmp_path: Path) -> None:
    replays = [("memset", [2.0, 400.0]), ("copy", [2.0, 2.0])] * 3
    assert reasons(queued_replays(replays).graph(tmp_path)) == [MISSING_BEFORE_GEMM] * 3


def test_replays_of_nodes_with_the_same_names_are_of_one_graph(tmp_path: Path) -> None:
    replays = [("memset", [2.0, 400.0]), ("memset", [2.0, 2.0])] * 3
    assert {reason for reason, *_ in reasons(queued_replays(replays).graph(tmp_path))} == {"unknown"}


def test_branches_that_begin_in_another_order_are_of_one_graph(tmp_path: Path) -> None:
    trace = queued_replays([("first", [2.0, 400.0])] * 3)
    last = [row for row in trace.rows if row["name"] == "gemm"]
    for row, shift in zip(last, (1, 3, 1), strict=True):
        for name, at, stream in (("left", row["ts"] + shift, 21), ("right", row["ts"] + 4 - shift, 22)):
            trace.kernel(name, at, at + 4, row["args"]["correlation"], stream=stream)
    assert [reason for reason, *_ in reasons(trace.graph(tmp_path))].count("missing_graph_node") == 3


@pytest.mark.parametrize(("holes", "count"), [([400, 420, 390], 3), ([400, 20, 390], 2), ([700, 690, 20, 720, 710], 4)])
def test_a_hole_before_the_first_node_of_most_replays_is_a_node(tmp_path: Path, holes: list[float], count: int) -> None:
    found = hg.critical_path(
        queued_replays([("memset", [hole, 2.0]) for hole in holes]).graph(tmp_path), hg.whole()
    ).unexplained
    missing = found[found.reason == "missing_graph_node"]
    assert (
        missing[["before", "replays", "replays_with_hole"]].to_numpy().tolist()
        == [["memset", len(holes), count]] * count
    )


@pytest.mark.parametrize("holes", [[400, 420], [400, 20, 390, 20], [400, 20, 20]])
def test_a_hole_before_the_first_node_of_few_replays_is_not(tmp_path: Path, holes: list[float]) -> None:
    graph = queued_replays([("memset", [hole, 2.0]) for hole in holes]).graph(tmp_path)
    assert {reason for reason, *_ in reasons(graph)} == {"unknown"}


@pytest.mark.parametrize("call", ["cudaStreamWaitEvent", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch"])
def test_whatever_else_was_enqueued_may_fill_the_hole_before_a_graph(tmp_path: Path, call: str) -> None:
    graph = queued_replays([("memset", [400.0, 2.0])] * 3, between=call).graph(tmp_path)
    assert "missing_graph_node" not in {reason for reason, *_ in reasons(graph)}


@pytest.mark.parametrize(("ends_before", "reason"), [(25, "missing_graph_node"), (8, "unknown"), (-5, "unknown")])
def test_a_graph_that_starts_when_another_stream_is_done_may_have_waited(
    tmp_path: Path, ends_before: float, reason: str
) -> None:
    trace = queued_replays([("memset", [400.0, 2.0])] * 3)
    for start in [row["ts"] for row in trace.rows if row["name"] == "memset"]:
        trace.kernel("beside", start - 60, start - ends_before, stream=20)
    assert {found for found, *_ in reasons(trace.graph(tmp_path))} == {reason}


def test_before_what_is_no_graph_no_node_is_missing(tmp_path: Path) -> None:
    trace = queued_replays([("memset", [400.0, 2.0])] * 3)
    for row in trace.rows:
        row["name"] = "cudaMemcpyAsync" if row["name"] == "cudaGraphLaunch" else row["name"]
    assert {reason for reason, *_ in reasons(trace.graph(tmp_path))} == {"unknown"}


@pytest.mark.parametrize(("returned", "stream_free"), [(425, 100), (30, 20)], ids=["still launched", "launched late"])
def test_what_a_launch_takes_is_no_missing_node(tmp_path: Path, returned: float, stream_free: float) -> None:
    trace = TraceBuilder()
    for at in (0, 1_000, 2_000):
        trace.launch("fill", (at, at + 5), (at + 10, at + stream_free), at + 1)
        trace.call("cudaGraphLaunch", at + 22, at + returned, at + 2)
        trace.kernel("memset", at + 430, at + 440, at + 2)
        trace.kernel("gemm", at + 442, at + 450, at + 2)
        trace.call("cudaDeviceSynchronize", at + returned + 2, at + 453, at + 3)
    assert "missing_graph_node" not in {reason for reason, *_ in reasons(trace.graph(tmp_path))}


@pytest.mark.parametrize("beside", [[], [(50, 54)], [(50, 54), (60, 5_070)]])
def test_the_first_work_of_a_stream_was_held_by_older_work(tmp_path: Path, beside: list[tuple[float, float]]) -> None:
    assert "before_recording" in {reason for reason, *_ in reasons(held_stream(beside).graph(tmp_path))}


@pytest.mark.parametrize(
    "beside",
    [
        [(50, 5_200)],
        [(60 + 30 * at, 85 + 30 * at) for at in range(168)],
        [(50, 5_095)],
    ],
    ids=["runs on", "one of many ends", "an end just before"],
)
def test_the_first_work_of_a_stream_may_have_waited_for_another(
    tmp_path: Path, beside: list[tuple[float, float]]
) -> None:
    assert "before_recording" not in {reason for reason, *_ in reasons(held_stream(beside).graph(tmp_path))}


def test_the_second_work_of_a_stream_is_behind_the_first(tmp_path: Path) -> None:
    trace = held_stream([(50, 54)])
    trace.kernel("early", 60, 64, 0, stream=3)
    assert "before_recording" not in {reason for reason, *_ in reasons(trace.graph(tmp_path))}


def test_the_first_work_after_a_long_queued_launch_was_held_by_older_work(tmp_path: Path) -> None:
    stretch = ("before_recording", "cudaStreamSynchronize", "gemm")
    assert reasons(long_queued(10).graph(tmp_path)) == [stretch]


def test_late_in_a_recording_nobody_knows(tmp_path: Path) -> None:
    assert [reason for reason, *_ in reasons(long_queued(5_000).graph(tmp_path))] == ["unknown"]


def blocked(until: float, *, launched_before: bool) -> TraceBuilder:
    """A call blocks for no work that is in the file."""
    trace = TraceBuilder()
    trace.op("aten::zeros", 0, 2)
    if launched_before:
        trace.launch("early", (3, 5), (8, 9), 1)
    trace.call("cudaStreamSynchronize", 10, until, 2)
    trace.launch("late", (until + 5, until + 8), (until + 12, until + 20), 3)
    return trace


@pytest.mark.parametrize(("launched_before", "reason"), [(True, "wait_without_record"), (False, "before_recording")])
def test_a_call_that_blocks_for_no_work_in_the_file(tmp_path: Path, launched_before: bool, reason: str) -> None:
    graph = blocked(500, launched_before=launched_before).graph(tmp_path)
    assert {found[:2] for found in reasons(graph)} == {(reason, "cudaStreamSynchronize")}


def held_back(other_end: float, other_kernels: int = 1) -> TraceBuilder:
    """Work launched in time stands still until some µs after another stream's work, of which no wait is recorded."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 20), 1)
    trace.launch("add", (6, 11), (1_000, 1_010), 2)
    for number in range(other_kernels):
        end = other_end - 30 * number
        trace.kernel("nccl", max(end - 900, 15) if other_kernels == 1 else end - 20, end, stream=20)
    trace.call("cudaDeviceSynchronize", 20, 1_013, 3)
    return trace


def test_work_that_goes_on_when_another_stream_is_done_waited_for_it(tmp_path: Path) -> None:
    assert reasons(held_back(995).graph(tmp_path)) == [("wait_without_record", "cudaDeviceSynchronize", "add")]


@pytest.mark.parametrize(("end", "kernels"), [(970, 1), (995, 30)])
def test_an_end_that_is_far_or_one_of_many_is_no_evidence(tmp_path: Path, end: float, kernels: int) -> None:
    assert [reason for reason, *_ in reasons(held_back(end, kernels).graph(tmp_path))] == ["unknown"]


def test_work_stamped_long_before_its_launch_is_a_clock_fault(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 20), 1)
    trace.launch("add", (4_000, 4_005), (500, 4_100), 2)
    assert ("clock_fault", None, "add") in reasons(trace.graph(tmp_path))


def test_a_reason_is_worded_and_a_document_has_one_in_every_unexplained_segment(tmp_path: Path) -> None:
    path = hg.critical_path(held_back(995).graph(tmp_path), hg.whole())
    said = ", in cudaDeviceSynchronize, before add) is a wait that the trace does not record"
    found = RULES["unexplained"](PathFacts(path))
    assert found is not None
    assert found.text.endswith(f"{said}.")
    import orjson

    document: dict[str, Any] = orjson.loads(b"".join(to_json(path_document(path))))
    assert {(s["bound_by"] == "unexplained", s["reason"]) for s in document["segments"]} == {
        (True, "wait_without_record"), (False, None),
    }  # fmt: skip
    assert [stretch["reason"] for stretch in document["unexplained"]] == ["wait_without_record"]
    assert sum(path.by_reason_ns.values()) == path.by_bound_ns["unexplained"]
    assert path.unexplained["segment"].tolist() == [stretch["segment"] for stretch in document["unexplained"]]


@pytest.mark.parametrize("programs", [2, deep(12)])
@pytest.mark.parametrize("poverty", POVERTIES)
@pytest.mark.slow
def test_reasons_in_poor_recordings_of_simulated_programs_are_true(poverty: Poverty, programs: int) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for family in ("pytorch", "arbitrary", "replays", "two graphs"):
        counts += rates(family, poverty, range(programs), 300)  # type: ignore[arg-type]
    wrong = sum(count for (reason, right), count in counts.items() if not right and reason != "unknown")
    assert wrong <= 1


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("file", shared_traces(), ids=lambda path: path.parent.name)
def test_exactly_the_unexplained_has_a_reason(file: Path) -> None:
    path = hg.critical_path(graph_of_file(file), hg.whole())
    columns = path.segment_columns()
    assert ((columns["bound_by"] == "unexplained") == (columns["reason"] != None)).all()  # noqa: E711 - a column
    assert len(path.unexplained_columns()["segment"]) == (columns["bound_by"] == "unexplained").sum()


MOST: dict[str, tuple[str | None, int]] = {
    "one_graph": ("missing_graph_node", 4),
    "two_graphs": ("missing_graph_node", 4),
    "first_node": ("missing_graph_node", 4),
    "stream_first": ("before_recording", 1),
    "stream_only": ("before_recording", 1),
    "capital_kernel": (None, 0),
}
"""The reason of most of what is unexplained in each file, and how many segments have it."""


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", MOST)
def test_the_smallest_replays_and_beginnings_have_their_reasons(name: str) -> None:
    path = hg.critical_path(graph_of_file(SHARED / "clock_and_graph" / f"{name}.json"), hg.whole())
    reason, count = MOST[name]
    assert max(path.by_reason_ns, key=path.by_reason_ns.__getitem__, default=None) == reason
    assert (path.unexplained.reason == reason).sum() == count


# -- streams that a call holds ----------------------------------------------------------------------------------------

HOLDS = (
    "cudaLaunchHostFunc",
    "cudaStreamAddCallback",
    "cuLaunchHostFunc",
    "hipLaunchHostFunc_spt",
    "cuStreamWaitValue32_v2",
)


def held(call: str = "cudaLaunchHostFunc", at: float = 6, tid: int = 1) -> TraceBuilder:
    """Two kernels with a hole between them, a call somewhere, and a wait for the second one."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 40), 1)
    trace.call(call, at, at + 2, 2, tid=tid)
    trace.launch("add", (12, 16), (600, 640), 3)
    trace.call("cudaStreamSynchronize", 20, 643, 4)
    return trace


@pytest.mark.parametrize("call", HOLDS)
def test_a_call_between_two_launches_may_have_held_the_stream(call: str, tmp_path: Path) -> None:
    graph = held(call).graph(tmp_path)
    assert reasons(graph) == [("stream_held", "cudaStreamSynchronize", "add")]
    path = hg.critical_path(graph, hg.whole())
    said = [finding for finding in path_document(path)["verdict"] if finding["rule"] == "unexplained"]
    assert f"that held the stream. {call} was called before it." in said[0]["text"]
    advice = [finding["text"] for finding in path_document(path)["verdict"] if finding["rule"] == "causes_not_recorded"]
    assert advice[0].startswith("Annotate the host function, or the code that writes the memory")


@pytest.mark.parametrize(
    ("call", "at", "tid"),
    [
        ("cudaFuncGetAttributes", 6, 1),
        ("cuStreamWriteValue32_v2", 6, 1),  # holds nothing
        ("cudaLaunchHostFunc", -5, 1),  # before the launch before
        ("cudaLaunchHostFunc", 17, 1),  # behind the launch
        ("cudaLaunchHostFunc", 6, 2),  # on a thread that launches nothing
    ],
)
def test_what_cannot_have_held_it_is_not_named(call: str, at: float, tid: int, tmp_path: Path) -> None:
    assert reasons(held(call, at, tid).graph(tmp_path)) == [("unknown", "cudaStreamSynchronize", "add")]


def test_a_wait_that_outlasts_the_work_may_be_for_a_host_function(tmp_path: Path) -> None:
    """The host function is the last item of the stream: the synchronization returns when it has."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 40), 1)
    trace.call("cudaLaunchHostFunc", 6, 8, 2)
    trace.call("cudaStreamSynchronize", 10, 643, 4)
    trace.op("aten::item", 650, 660)
    (found,) = reasons(trace.graph(tmp_path))
    assert found[:2] == ("stream_held", "cudaStreamSynchronize")


def test_each_hole_has_the_call_before_its_own_launch(tmp_path: Path) -> None:
    trace = held()
    trace.launch("mul", (700, 705), (710, 740), 5)
    trace.launch("sub", (706, 710), (1_300, 1_340), 6)
    trace.call("cudaStreamSynchronize", 715, 1_343, 7)
    assert [reason for reason, _, _ in reasons(trace.graph(tmp_path))] == ["stream_held", "unknown"]
