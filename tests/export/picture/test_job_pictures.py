"""Pictures of jobs: lanes rank by rank, and who waited for whom where the path goes from rank to rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.export.picture import around_picture, between_picture, path_picture
from tests.support.gloo_builder import late_ranks


@pytest.fixture
def job(tmp_path: Path) -> hg.JobGraph:
    """Let rank 1 come 25 µs late to an all-reduce that both wait for."""
    return hg.read_job(late_ranks(tmp_path, 10, 35))


def lanes_of(source: str) -> list[str]:
    return re.findall(r"label=<<B>([^<]*)</B>>", source)


def test_a_path_says_who_waited_for_whom(job: hg.JobGraph) -> None:
    source = path_picture(hg.critical_path(job, hg.whole())).source
    assert r"collective\nrank 0 waited 25 µs for rank 1" in source
    assert source.count(" waited ") == 1
    assert lanes_of(source)[0] == "rank 0: thread 100:100"
    assert {lane.split(":")[0] for lane in lanes_of(source)} == {"rank 0", "rank 1"}


def test_lanes_stand_rank_by_rank(job: hg.JobGraph) -> None:
    source = path_picture(hg.critical_path(job, hg.whole())).source
    ranks = [lane.split(":")[0] for lane in lanes_of(source)]
    assert ranks == sorted(ranks)


def test_a_picture_of_few_boxes_joins_ranks_too(job: hg.JobGraph) -> None:
    source = path_picture(hg.critical_path(job, hg.whole()), limit=1).source
    assert set(re.findall(r"\bb\d+\b", source)) == {"b0"}


def test_a_rank_alone_has_lanes_without_its_number(job: hg.JobGraph) -> None:
    assert "rank 0: " not in path_picture(hg.critical_path(job.graph(0), hg.whole())).source


def test_surroundings_reach_through_the_rendezvous(job: hg.JobGraph) -> None:
    source = around_picture(job, (0, 3), 2).source
    assert "Around event 3 of rank 0 (gloo:all_reduce), depth 2" in source
    assert {"rendezvous", "rank 0: communication 100:201", "rank 1: communication 100:201"} <= set(lanes_of(source))
    assert "#-1" not in source
    assert "0 ns" not in source.replace("+0 ns", "")


def test_a_way_leads_from_rank_to_rank(job: hg.JobGraph) -> None:
    source = between_picture(job, (1, 1), (0, 4)).source
    assert "From event 1 of rank 1 (aten::mul) to event 4 of rank 0 (aten::add): 6 events" in source
    with pytest.raises(QueryError, match="no path leads from event 4 of rank 0 to event 1 of rank 1"):
        between_picture(job, (0, 4), (1, 1))


def test_python_draws_jobs_as_it_draws_graphs(job: hg.JobGraph, tmp_path: Path) -> None:
    around = hg.render(job, tmp_path / "around.dot", around=(1, 3), depth=1)
    assert (tmp_path / "around.dot").read_text() == around.source
    assert "to event 4 of rank 0" in hg.render(job, between=((1, 1), (0, 4))).source
    with pytest.raises(QueryError, match="by rank and number"):
        hg.render(job, around=3)
