"""A rank like the others: medians of what these take at its places, and for what it does more often or alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.what_if.rank_normalization import RankNormalization, comparison_keys, comparison_times
from hta_graph.what_if.replay import replay_graph
from tests.support.trace_builder import TraceBuilder


def job_of(folder: Path, *durations: list[float]) -> hg.JobGraph:
    """Write a rank for each list of durations (µs): a step in which so many products follow each other, then a sum."""
    paths = []
    for rank, products in enumerate(durations):
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": len(durations)})
        trace.annotation("ProfilerStep#1", 0, 1_000)
        at = 0.0
        for product in products:
            trace.op("aten::mm", at, at + product)
            at += product
        trace.op("aten::sum", at, at + 10)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return hg.read_job(paths)


def time_of_rank(job: hg.JobGraph, rank: int) -> float:
    """Return when (µs) a rank's last operator would end if it were like the others."""
    found = hg.replay(job, hg.scenario("rank_like_others", rank), hg.step(1, cpu_window=True))
    ends = [2 * row + 1 for row in range(len(job.event_table)) if job.name_of(row) == "aten::sum"]
    return (int(found.times[ends[rank]]) - int(job.timeline.times.min())) / 1_000


def test_a_place_takes_the_lower_median_of_the_others(tmp_path: Path) -> None:
    job = job_of(tmp_path, [100], [20], [30], [50], [80])
    assert time_of_rank(job, 0) == 30 + 10


def test_what_is_done_more_often_takes_what_the_others_take_for_it_together(tmp_path: Path) -> None:
    """Twice 60 where the others take 20, 30 and 40 in one go: together 30, in proportion."""
    job = job_of(tmp_path, [60, 60], [20], [30], [40])
    assert time_of_rank(job, 0) == 30 + 10


def test_what_a_rank_does_alone_takes_no_time(tmp_path: Path) -> None:
    job = job_of(tmp_path, [60], [], [])
    assert time_of_rank(job, 0) == 10


def test_it_never_takes_longer_than_it_did_where_it_does_more_often(tmp_path: Path) -> None:
    job = job_of(tmp_path, [10, 10], [90], [90])
    assert time_of_rank(job, 0) == 20 + 10


def test_others_may_be_asked_one_by_one(tmp_path: Path) -> None:
    job = job_of(tmp_path, [60, 60], [20], [30, 30], [40])
    base = replay_graph(job, hg.step(1, cpu_window=True))
    asked = comparison_keys(base, 0)
    assert (np.diff(asked.place) > 0).all()
    assert (np.diff(asked.kind) > 0).all()
    found = RankNormalization.of(0, asked, [comparison_times(job, part, asked) for part in (1, 2, 3)])
    alone = RankNormalization.of(0, asked, [comparison_times(job, 1, asked)])
    assert found.is_shared.sum() > alone.is_shared.sum() > 0
    assert str(found) == "rank_like_others=0"
    with pytest.raises(hg.HtaGraphError, match="9"):
        hg.replay(job, hg.scenario("rank_like_others", 9))
