"""One process that drives several GPUs: what is said of the GPU, and of each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.declare.answer import Answer
from analyses.declare.scope import Scope, in_window, per_step, several_gpus, whole
from analyses.questions import collectives, idle_time, memory_bandwidth, overlap, temporal_breakdown
from analyses.questions.info import info_document, info_lines
from analyses.questions.temporal_breakdown import breakdown_by_gpu
from tests.support.make_samples import FOLDER
from tests.support.trace_builder import TraceBuilder

TWO_GPUS = FOLDER / "two_gpus.json.gz"
SAYS = "rank 0: one process drives 2 GPUs (0, 1); the GPU counts as busy while any of them is busy"


@pytest.fixture(scope="module")
def graph() -> hg.DependencyGraph:
    return hg.build_graph(hg.read_trace(TWO_GPUS))


def two_by_turns(folder: Path) -> Scope:
    """One GPU works from 10 to 50, the other from 40 to 110, with 20 of both communicating."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 4), (10, 50), 1)
    trace.launch("gemm", (5, 8), (40, 90), 2, device=1)
    trace.launch("ncclDevKernel_AllReduce", (9, 12), (90, 110), 3, device=1)
    return whole(0, trace.graph(folder))


def test_each_gpu_has_its_own_row_over_the_same_window(tmp_path: Path) -> None:
    rows = breakdown_by_gpu([two_by_turns(tmp_path)])
    assert rows[["gpu", "window_ns", "compute_ns", "exposed_communication_ns", "idle_ns"]].to_numpy().tolist() == [
        [0, 100_000, 40_000, 0, 60_000],
        [1, 100_000, 50_000, 20_000, 30_000],
    ]


def test_together_they_are_idle_only_where_none_works(tmp_path: Path) -> None:
    (row,) = temporal_breakdown.answer([two_by_turns(tmp_path)]).main.to_dict("records")
    assert (row["compute_ns"], row["exposed_communication_ns"], row["idle_ns"]) == (80_000, 20_000, 0)


def test_the_parts_of_each_gpu_sum_to_the_window(graph: hg.DependencyGraph) -> None:
    rows = breakdown_by_gpu([*per_step(0, graph), whole(0, graph)])
    parts = rows[["compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]].sum(axis=1)
    assert len(rows) == 8
    assert parts.tolist() == rows.window_ns.tolist()


def test_a_rank_with_one_gpu_has_no_table_of_its_gpus(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 4), (10, 50), 1)
    found = temporal_breakdown.answer([whole(0, trace.graph(tmp_path))])
    assert list(found.tables) == ["temporal_breakdown"]
    assert found.notes == []


def test_answers_about_the_gpu_say_that_there_are_several(graph: hg.DependencyGraph) -> None:
    answers: list[Answer] = [asked.answer([whole(0, graph)]) for asked in (temporal_breakdown, idle_time, overlap)]
    assert all(SAYS in found.notes for found in answers)


def test_of_many_steps_it_is_said_once(graph: hg.DependencyGraph) -> None:
    assert several_gpus(per_step(0, graph)) == [SAYS]


def test_info_says_that_one_process_drives_them(graph: hg.DependencyGraph) -> None:
    assert "GPUs of this process: 0 (27 events), 1 (26 events)" in info_lines(info_document(graph))


def test_a_copy_between_them_is_a_kind_of_its_own(graph: hg.DependencyGraph) -> None:
    assert memory_bandwidth.answer([whole(0, graph)]).main["kind"].tolist() == ["Memcpy PtoP"]


def test_the_path_goes_from_one_to_the_other(graph: hg.DependencyGraph) -> None:
    path = hg.critical_path(graph, hg.step(2))
    crossing = path.segments[path.segments.edge == "event_wait"]
    assert path.coverage == 1
    assert len(crossing) == 2
    assert {lane.split(":")[0] for lane in path.segments.lane if str(lane).startswith("stream")} == {
        "stream 0",
        "stream 1",
    }


def test_a_device_sync_waits_for_its_own_device(graph: hg.DependencyGraph) -> None:
    waits = graph.edges[graph.edges.kind == "device_sync"]
    lane_of = dict(zip(graph.events.event_index, graph.events.lane, strict=True))
    assert [lane_of[source].split(":")[0] for source in waits.source_index] == ["stream 0", "stream 1"] * 3


def test_a_window_on_one_gpu_keeps_its_length(graph: hg.DependencyGraph) -> None:
    scope = in_window(0, graph, hg.step(2))
    assert scope.gpus == [0, 1]
    assert scope.on_gpu(1).window_ns == scope.window_ns
    assert len(scope.on_gpu(0).running) + len(scope.on_gpu(1).running) == len(scope.running)


def job_on_two_gpus(folder: Path) -> list[Path]:
    """Write two ranks whose collectives run on both GPUs of each; rank 1 is late to the third one."""
    paths = []
    for rank in range(2):
        trace = TraceBuilder(distributedInfo={"backend": "nccl", "rank": rank, "world_size": 2})
        for at in range(4):
            begin, end = 100 * at + (20 * rank if at == 2 else 0), 100 * at + 50
            for gpu in range(2):
                start = begin + 10 + 2 * gpu
                calls = (begin + 3 + 2 * gpu, begin + 4 + 2 * gpu)
                trace.launch("ncclDevKernel_AllReduce", calls, (start, end), 10 * at + gpu + 1, stream=24, device=gpu)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths


def test_collectives_on_several_gpus_are_matched_gpu_by_gpu_and_it_is_said(tmp_path: Path) -> None:
    graphs = [hg.build_graph(hg.read_trace(path)) for path in job_on_two_gpus(tmp_path)]
    found = collectives.answer([whole(rank, graph) for rank, graph in enumerate(graphs)])
    assert sorted(found.main["waited_ns"].tolist()) == [0] * 6 + [20_000] * 2
    said = "communicates on 2 GPUs (0, 1) from one process. Which of them arrives last is unknown"
    assert [f"Rank {rank} {said}" in note for rank, note in zip((0, 1), found.notes[-2:], strict=True)] == [True, True]


def test_one_rank_alone_says_it_too(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(job_on_two_gpus(tmp_path)[0]))
    assert collectives.answer([whole(0, graph)]).notes[-1].startswith("Rank 0 communicates on 2 GPUs")
