"""The timeline of a job: lanes rank by rank, what waits for other ranks, and which ranks are left out."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.report import timeline
from analyses.report.timeline import timeline_page
from tests.support.gloo_builder import late_ranks
from tests.support.random_jobs import random_job
from tests.support.timeline_data import page_data


@pytest.fixture
def path(tmp_path: Path) -> hg.CriticalPath:
    return hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 35)), hg.whole())


def test_lanes_stand_rank_by_rank_with_communication_below_its_thread(path: hg.CriticalPath) -> None:
    page = timeline_page(path)
    assert [lane.label for lane in page.scene.lanes] == [
        "rank 0: thread 100:100", "rank 0: communication 100:201",
        "rank 1: thread 100:100", "rank 1: communication 100:201",
    ]  # fmt: skip
    assert "Timeline of whole trace, 2 ranks" in page.html().decode()


def test_what_waits_is_told_from_what_transfers(path: hg.CriticalPath) -> None:
    bars = page_data(timeline_page(path).html()).bars
    waits = [(bar.name, bar.start, bar.end) for bar in bars if bar.group == "waiting for other ranks"]
    transfers = sorted((bar.start, bar.end) for bar in bars if bar.group == "communication")
    assert [(name, end - start) for name, start, end in waits] == [("gloo:all_reduce", 22_000)]
    assert [end - start for start, end in transfers] == [9_000, 7_000]
    assert waits[0][2] == 35_000 - path.window.start_ns


def test_the_path_runs_through_the_lanes_of_several_ranks(path: hg.CriticalPath) -> None:
    page = timeline_page(path)
    on_lanes = [bar for bar in page_data(page.html()).bars if bar.group == "path"]
    assert sum(bar.end - bar.start for bar in on_lanes) == path.length_ns
    assert len({bar.track for bar in on_lanes}) == 4


def test_a_link_to_an_event_of_a_job_names_its_time_only(path: hg.CriticalPath) -> None:
    start, end = timeline_page(path).span
    assert timeline_page(path).link(start, end, 3) == f"#t={start},{end}"


def test_of_many_ranks_those_on_the_path_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_RANKS", 1)
    path = hg.critical_path(random_job(tmp_path, 3), hg.whole())
    longest = max(path.by_rank_ns, key=lambda rank: path.by_rank_ns[rank])
    page = timeline_page(path)
    assert page.scene.ranks == [longest]
    assert {lane.label.split(":")[0] for lane in page.scene.lanes} == {f"rank {longest}"}
    assert re.match(rf"Lanes of 1 of \d ranks \({longest}\)", page.notes[-1])


def test_of_many_lanes_those_on_the_path_and_the_busiest_are_drawn(
    path: hg.CriticalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = timeline_page(path).scene
    assert not every.lanes_left
    monkeypatch.setattr(timeline, "MOST_LANES", 2)
    page = timeline_page(path)
    time_on = Counter[int]()
    for lane, ns in zip(path.segment_table.lane.tolist(), path.segment_table.length.tolist(), strict=True):
        time_on[lane] += ns
    rank_of_lane = [path.graph.rank_graphs[at].rank for at in path.graph.rank_index_of_lane]
    labels = {f"rank {rank_of_lane[lane]}: {path.graph.lanes.labels[lane]}" for lane, _ in time_on.most_common(2)}
    assert {lane.label for lane in page.scene.lanes} == labels
    assert page.scene.lanes_left == len(every.lanes) - 2
    assert f"2 of {len(every.lanes)} threads and streams" in page.notes[-1]
    bars = page_data(page.html()).bars
    assert sum(bar.end - bar.start for bar in bars if bar.group == "path") == sum(
        ns for _, ns in time_on.most_common(2)
    )
