"""Ranks joined: where they meet, what they wait for, the path that goes on at the late one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest

import hta_graph as hg
from analyses.judgement.verdict import verdict_sentences
from hta_graph.base.errors import QueryError
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.job_clocks import JobClocks, RankClock
from tests.simulator.ranks import Fault, JobProgram, JobShape, Recording, ddp, experts, record_job, simulate_job
from tests.support.deep_tests import deep
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.two_rank_job import small_job


def two_ranks(tmp_path: Path) -> hg.JobGraph:
    """Join two ranks of which the second comes 25 µs late."""
    return hg.read_job(late_ranks(tmp_path, 10, 35))


def test_ranks_meet_in_one_point_with_an_edge_from_and_to_each(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    edges = job.edges[job.edges.kind == "collective"]
    assert len(job.rendezvous) == 1
    assert job.rendezvous.time_ns.tolist() == [38_000]
    assert sorted(edges.source_rank.dropna()) == sorted(edges.target_rank.dropna()) == [0, 1]
    assert set(edges.rendezvous) == {0}
    assert edges.source_index.isna().sum() == edges.target_index.isna().sum() == 2


def test_the_path_goes_on_at_the_rank_that_came_last(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    path = hg.critical_path(job)
    parts = [(rank, name) for rank, name in zip(path.segments["rank"], path.segments["name"], strict=True)]
    assert path.window.label == "ProfilerStep#1"
    assert (1, "aten::mul") in parts
    assert (0, "aten::mul") not in parts
    assert path.by_rank_ns == {0: 22_000, 1: 38_000}
    assert path.by_bound_ns["unexplained"] == 0


def test_waits_are_charged_to_nobody_else(tmp_path: Path) -> None:
    waits = two_ranks(tmp_path).collectives
    assert waits.wait_ns.tolist() == [25_000, 0]
    assert waits.is_last.tolist() == [False, True]


def test_a_thread_goes_on_when_its_collective_has_ended(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    found = job.edges[job.edges.kind == "collective_wait"]
    assert found.lag_ns.tolist() == [6_000, 5_000]
    assert set(found.rule) == {"silence_until_work_end"}


def simulated(folder: Path, kind: Callable[[JobShape], JobProgram], late_by_us: tuple[float, float]) -> hg.JobGraph:
    """Record a job of which every third row of work ends late; its threads go on 25 µs after the true end."""
    shape = JobShape(
        4, 5, 3, 2_000_000, backend="gloo", faults=[Fault(2, step, "forward", 4_000_000) for step in (2, 3)]
    )
    rng, paths = random.Random(7), record_job(simulate_job(kind(shape)), Recording(), folder).paths
    for path in paths:
        document = json.loads(path.read_bytes())
        work = [row for row in document["traceEvents"] if row.get("name", "").startswith("gloo:") and "dur" in row]
        for row in work:
            then = min((one["ts"] for one in work if one["tid"] == row["tid"] and one["ts"] > row["ts"]), default=1e18)
            end = row["ts"] + row["dur"] + rng.uniform(*late_by_us)
            if rng.random() < 1 / 3 and end < then:
                row["dur"] = end - row["ts"]
        path.write_bytes(json.dumps(document).encode())
    return hg.read_job(paths)


def waits_of(job: hg.JobGraph) -> set[tuple[int, int, int]]:
    found = job.edges[job.edges.kind == "collective_wait"]
    return set(zip(found.source_rank, found.source_index, found.target_index, strict=True))


@pytest.mark.parametrize("kind", [ddp, deep(experts)])
def test_a_thread_may_go_on_just_before_the_row_of_its_collective_ends(
    tmp_path: Path, kind: Callable[[JobShape], JobProgram]
) -> None:
    """PyTorch completes the future first, and then ends the row: 5 to 65 µs after they go on here."""
    usual, early, later = (simulated(tmp_path / str(by[0]), kind, by) for by in ((0, 0), (30, 90), (200, 300)))
    # A wait that is short itself shows nothing; nor does what goes on much sooner.
    lost = [len(waits_of(usual) - waits_of(job)) / len(waits_of(usual)) for job in (early, later)]
    assert lost[0] < 0.05 < 0.1 < lost[1]
    assert early.edges[early.edges.clamped].kind.isin(["collective_wait", "collective"]).all()
    paths = [hg.critical_path(job) for job in (usual, early)]
    assert [sum(path.by_bound_ns.values()) for path in paths] == [path.length_ns for path in paths]
    for bound, ns in paths[0].by_bound_ns.items():
        assert abs(paths[1].by_bound_ns[bound] - ns) < 0.01 * paths[0].length_ns


@pytest.mark.parametrize(
    ("name", "stands_still", "ends_later", "waits"),
    [
        ("aten::add", 400, 50, True),
        ("aten::add", 400, -1, True),
        ("aten::relu", 400, 50, False),  # never comes after a wait
        ("aten::add", 80, 50, False),  # a pause like others
        ("aten::add", 400, 120, False),
    ],
)
def test_what_shows_that_a_thread_was_woken_before_the_row_ended(
    tmp_path: Path, name: str, stands_still: int, ends_later: int, waits: bool
) -> None:
    paths = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        for at in (0, 1_000):
            trace.called("all_reduce", at, at + 2)
            trace.op("aten::mul", at + 3, at + 100, tid=MAIN)
        trace.worked("all_reduce", 3, 200)
        trace.op("aten::add", 210, 220, tid=MAIN)
        goes_on = 1_100 + stands_still
        trace.worked("all_reduce", 1_003, goes_on + ends_later)
        woken = trace.op(name, goes_on, goes_on + 200, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    edges = hg.read_job(paths).edges
    assert (woken in edges[edges.kind == "collective_wait"].target_index.tolist()) == waits


def test_events_are_named_by_rank_and_number(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    assert job.event((1, 3))["name"] == "gloo:all_reduce"
    assert set(job.ancestors((0, 4))["rank"]) == {0, 1}
    assert 1 not in set(job.ancestors((0, 3)).query("name == 'aten::add'")["rank"])
    with pytest.raises(QueryError, match="by rank and number"):
        job.event(3)
    with pytest.raises(QueryError, match="no rank 7"):
        job.graph(7)


def test_a_rank_alone_has_the_times_and_edges_of_its_file(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    alone = job.graph(1)
    assert "collective" not in alone.edge_counts()
    assert alone.rank == 1


def test_networkx_names_points_by_rank_and_where_ranks_meet(tmp_path: Path) -> None:
    graph = two_ranks(tmp_path).to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert list(graph.predecessors(("rendezvous", 0))) == [(0, 3, "start"), (1, 3, "start")]
    assert (1, 1, "end") in graph


def test_a_subgraph_keeps_where_its_events_meet(tmp_path: Path) -> None:
    job = two_ranks(tmp_path)
    part = job.subgraph([(0, 3), (1, 3), (1, 2)])
    assert isinstance(part, hg.JobGraph)
    assert len(part.rendezvous) == 1
    assert sorted(part.events["rank"]) == [0, 1, 1]
    assert set(part.edges.kind) == {"collective", "execution", "thread_order", "thread_handoff"}


def test_kernels_of_ranks_meet_too(tmp_path: Path) -> None:
    job = hg.read_job(small_job(tmp_path))
    assert len(job.rendezvous) == 2
    path = hg.critical_path(job, hg.whole())
    assert sum(path.by_rank_ns.values()) == path.length_ns


def test_a_step_that_ends_in_a_wait_ends_with_what_was_waited_for(tmp_path: Path) -> None:
    """Rank 0 stands still at the end of step 1, until rank 1 has come and the collective has ended.

    µs       0      10        20        30        40       50      60      70
    step     [1                                                   ][2        ]
    rank 0   [mul  ]call                                               [add]
    worker           [~~~~~~~~~~~~~~~~~~~~~~~~~~~~~====]
    rank 1   [mul                           ]call                      [add]
    """
    paths = []
    for rank, arrival in enumerate((10, 40)):
        trace = GlooRank(rank, [0, 1])
        trace.annotation("ProfilerStep#1", 0, 60, tid=MAIN)
        trace.annotation("ProfilerStep#2", 60, 80, tid=MAIN)
        trace.op("aten::mul", 1, arrival - 1, tid=MAIN)
        trace.called("all_reduce", arrival, arrival + 2)
        trace.worked("all_reduce", arrival + 3, 50)
        trace.op("aten::add", 70, 75, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    path = hg.critical_path(hg.read_job(paths), hg.step(1))
    names = list(zip(path.segments["rank"], path.segments["name"], strict=True))
    assert (1, "aten::mul") in names
    assert (0, "aten::mul") not in names
    assert path.by_bound_ns["gpu_communication_bound"] == 7_000


def test_a_rank_whose_recording_begins_later_has_a_head_that_says_so(tmp_path: Path) -> None:
    paths = []
    for rank, begin in enumerate((0, 30)):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", begin, begin + 10, tid=MAIN)
        trace.called("all_reduce", begin + 10, begin + 12)
        trace.worked("all_reduce", begin + 13, 60)
        trace.op("aten::add", 66, 70, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    path = hg.critical_path(hg.read_job(paths), hg.whole())
    assert path.by_reason_ns == {"before_recording": 30_000}
    assert path.before_rank_began.tolist() == [True] + [False] * (len(path.segment_table) - 1)
    assert path.rank_of_segment(0) == 1
    assert "is before the recording of rank 1 starts" in " ".join(verdict_sentences(path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("error_ns", "ranks"), [(0, {0, 1}), (7_999, {0, 1}), (8_000, {1}), (50_000, {1})])
def test_a_wait_below_the_error_of_the_clocks_leads_to_no_other_rank(
    tmp_path: Path, error_ns: int, ranks: set[int]
) -> None:
    """Rank 0 comes 8 µs late to the second all-reduce, with whose end on rank 1 the window ends."""
    graphs = list(hg.read_graphs(small_job(tmp_path)))
    job = join_ranks(graphs, JobClocks({0: RankClock(), 1: RankClock(error=error_ns)}))
    path = hg.critical_path(job, hg.between(105_000, 130_000))
    assert {rank for rank, ns in path.by_rank_ns.items() if ns} == ranks
