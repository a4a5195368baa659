"""Questions to the graph of a job: events of all ranks, ways from rank to rank, with networkx as the oracle."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.base.errors import QueryError
from tests.support.deep_tests import deep, for_all
from tests.support.invariants import check_graph
from tests.support.random_jobs import random_job
from tests.support.shared_traces import SHARED
from tests.support.two_rank_job import small_job

SEEDS = st.integers(0, 10_000)


@pytest.fixture
def job(tmp_path: Path) -> hg.JobGraph:
    return random_job(tmp_path, 3)


def names_of(frame: Any) -> set[tuple[int, int]]:
    return set(zip(frame["rank"].tolist(), frame["event_index"].tolist(), strict=True))


def events_of(nodes: Any) -> set[tuple[int, int]]:
    """Return the events whose points nodes are; rendezvous are none."""
    return {node[:2] for node in nodes if node[0] != "rendezvous"}


def test_events_and_edges_say_whose_they_are(job: hg.JobGraph) -> None:
    assert list(job.events.columns)[:2] == ["rank", "event_index"]
    assert "rendezvous" not in set(job.events.kind)
    edges = job.edges
    meeting = edges[edges.kind == "collective"]
    assert (meeting.source_rank.isna() ^ meeting.target_rank.isna()).all()
    assert (meeting.source_rank.isna() == meeting.source_index.isna()).all()
    assert (meeting.source_point.isna() == meeting.source_index.isna()).all()
    assert meeting.rendezvous.notna().all()
    others = edges[edges.kind != "collective"]
    assert others.rendezvous.isna().all()
    assert others[["source_rank", "target_rank", "source_index", "target_index"]].notna().all(axis=None)
    for name in ("source_index", "target_index", "source_rank", "target_rank", "rendezvous"):
        assert str(edges[name].dtype) == "Int64" or edges[name].notna().all()


@for_all(SEEDS, examples=40)
def test_reachability_is_that_of_networkx(seed: int) -> None:
    with TemporaryDirectory() as folder:
        job = random_job(Path(folder), seed)
    graph = job.to_networkx()
    for name in sorted(events_of(graph)):
        before = events_of(networkx.ancestors(graph, (*name, "end"))) - {name}
        after = events_of(networkx.descendants(graph, (*name, "start"))) - {name}
        assert names_of(job.ancestors(name)) == before
        assert names_of(job.descendants(name)) == after


@pytest.mark.slow
@for_all(SEEDS, examples=40)
def test_ways_between_ranks_are_shortest(seed: int) -> None:
    with TemporaryDirectory() as folder:
        job = random_job(Path(folder), seed)
    graph = job.to_networkx()
    names = sorted(events_of(graph))
    for source, target in zip(names, reversed(names), strict=True):
        start, end = (*source, "start"), (*target, "end")
        if not networkx.has_path(graph, start, end):
            with pytest.raises(QueryError, match="no path"):
                job.path_between(source, target)
            continue
        way = job.path_between(source, target)
        assert len(way) == networkx.shortest_path_length(graph, start, end)
        assert (way.source_rank.iloc[0], way.target_rank.iloc[-1]) == (source[0], target[0])


@pytest.mark.slow
@for_all(SEEDS, examples=40)
def test_neighbours_are_those_of_networkx(seed: int) -> None:
    with TemporaryDirectory() as folder:
        job = random_job(Path(folder), seed)
    graph = job.to_networkx()
    for name in sorted(events_of(graph)):
        points = [(*name, side) for side in ("start", "end")]
        into = [edge for point in points for edge in graph.in_edges(point) if edge[0][:2] != name]
        out_of = [edge for point in points for edge in graph.out_edges(point) if edge[1][:2] != name]
        assert (len(job.predecessors(name)), len(job.successors(name))) == (len(into), len(out_of))


@for_all(SEEDS, examples=40)
def test_graphs_and_paths_of_jobs_obey_the_rules_of_all(seed: int) -> None:
    with TemporaryDirectory() as folder:
        job = random_job(Path(folder), seed)
    assert check_graph(job, [hg.whole()], oracle=True) == 1


def test_a_neighbourhood_reaches_other_ranks_through_where_they_meet(job: hg.JobGraph) -> None:
    member = job.collectives.iloc[0]
    name = (int(member["rank"]), int(member.event_index))
    assert set(job.neighbourhood(name, 1).events["rank"]) == {name[0]}
    assert set(job.neighbourhood(name, 2).events["rank"]) == set(job.ranks["rank"])


def test_a_filter_keeps_ranks(job: hg.JobGraph) -> None:
    part = job.filter(rank=[0, 1], kind="cpu_op")
    assert isinstance(part, hg.JobGraph)
    assert set(part.events["rank"]) == {0, 1}
    assert set(part.events.kind) == {"cpu_op"}
    assert names_of(job.filter(rank=1).events) == {name for name in names_of(job.events) if name[0] == 1}
    with pytest.raises(QueryError, match="no rank 9"):
        job.filter(rank=9)


def test_a_rank_alone_can_be_named_too(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(small_job(tmp_path)[1]))
    assert len(graph.filter(rank=1).events) == len(graph.events)
    with pytest.raises(QueryError, match=r"no rank 0; did you mean 1\? Available: 1"):
        graph.filter(rank=0)


def test_a_part_of_a_job_is_a_job_whose_ranks_alone_are_parts_too(job: hg.JobGraph) -> None:
    part = job.filter(name="op|all_reduce")
    assert isinstance(part, hg.JobGraph)
    assert len(part.rendezvous) == len(job.rendezvous)
    for rank in job.ranks["rank"]:
        own = part.events[part.events["rank"] == rank]
        assert sorted(own.event_index) == sorted(part.graph(rank).events.event_index)
    assert hg.critical_path(part, hg.whole()).length_ns > 0


def test_rustworkx_has_the_points_and_edges_of_all_ranks(job: hg.JobGraph) -> None:
    graph, same = job.to_rustworkx(), job.to_networkx()
    assert (graph.num_nodes(), graph.num_edges()) == (len(same), same.number_of_edges())
    table = job.edge_table
    for source, target, row in graph.weighted_edge_list():
        assert graph[source] == table.source[row]
        assert graph[target] == table.target[row]


def test_a_job_shows_itself(job: hg.JobGraph) -> None:
    meetings = len(job.rendezvous)
    assert f"{len(job.ranks)} ranks, {len(job.events)} events" in repr(job)
    assert f"{meetings} rendezvous" in repr(job)
    assert "collective" in job._repr_html_()


def test_lanes_of_equal_names_belong_to_their_ranks(job: hg.JobGraph) -> None:
    rows = np.flatnonzero(job.event_table.index >= 0)
    assert (job.rank_index_of_lane[job.event_table.lane[rows]] == job.rank_index_of(rows)).all()
    assert job.rank_index_of_lane[job.event_table.lane[job.rendezvous_rows[0]]] == -1


@pytest.mark.shared
@pytest.mark.parametrize(
    "folder", [deep("gloo/groups_4r_slowa2a_1"), deep("gloo/pipeline_2r_slowfwd_1"), deep("traces/nanogpt_ddp_8xh100")]
)
def test_recorded_jobs_answer_as_networkx_does(folder: str) -> None:
    job = hg.read_job(sorted((SHARED / folder).glob("rank*.json.gz"))[:4])
    graph = job.to_networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    walked = sorted(events_of(graph))
    for name in walked[:: len(walked) // 5]:
        before = events_of(networkx.ancestors(graph, (*name, "end"))) - {name}
        after = events_of(networkx.descendants(graph, (*name, "start"))) - {name}
        assert (names_of(job.ancestors(name)), names_of(job.descendants(name))) == (before, after)
