"""Waits charged to what the late rank did more of, since both last went on from a meeting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.multi_rank.wait_causes import WaitCauses
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.gloo_collectives import ranks_with_a_propagated_wait, take_part
from tests.support.rank_builder import RankBuilder
from tests.support.two_rank_job import small_job

Cause = tuple[int, str | None, str | None, str, int, int]


def causes_of(job: hg.JobGraph) -> list[Cause]:
    """List the causes: rank, call path, name, class, and the waiting that they cause (ns), direct and passed on."""
    found = WaitCauses(job)
    attributed, activities = found.attribute(), found.activities
    columns = (attributed.rank, attributed.activity, attributed.direct, attributed.propagated)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    members = job.members
    assert attributed.caused.sum() == members.wait[members.number >= 0].sum()
    return [
        (rank, None, None, "unexplained", direct, passed)
        if activity < 0
        else (
            rank,
            activities.call_path[activity],
            activities.name[activity],
            activities.bound[activity].label,
            direct,
            passed,
        )
        for rank, activity, direct, passed in rows
    ]


def job_of(folder: Path, ranks: Sequence[GlooRank | RankBuilder]) -> hg.JobGraph:
    return hg.read_job([trace.write(folder / f"rank{at}.json") for at, trace in enumerate(ranks)])


def pair(folder: Path, late: str | None, *, annotation: str | None = None) -> hg.JobGraph:
    """Let rank 1 come 50 µs late to the second of two all-reduces, after an operator or in a sleep.

    µs       0          20     30           70        130
    rank 0   [meet     ]       [mm ][meet ~~~~~~~~~~~ ]
    rank 1   [meet     ]       [mm ][late      ][meet ]
    """
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        trace.annotation("ProfilerStep#3", 0, 200, tid=MAIN)
        take_part(trace, 10, 20)
        trace.op("aten::mm", 30, 40, tid=MAIN)
        if rank == 1:
            if annotation is not None:
                trace.annotation(annotation, 44, 96, tid=MAIN)
            if late is not None:
                trace.op(late, 45, 95, tid=MAIN)
        take_part(trace, 50 + 50 * rank, 130)
        ranks.append(trace)
    return job_of(folder, ranks)


def test_a_wait_is_charged_to_what_the_late_rank_did_more_of(tmp_path: Path) -> None:
    first, *rest = causes_of(pair(tmp_path, "aten::bmm"))
    assert first == (1, "", "aten::bmm", "cpu_bound", 50_000, 0)
    assert rest == []


def test_numbers_and_annotations_are_part_of_the_path(tmp_path: Path) -> None:
    first, second = causes_of(pair(tmp_path, "aten::bmm", annotation="slow 7"))
    assert first[:4] == (1, "slow #", "aten::bmm", "cpu_bound")
    assert second[:4] == (1, "", "slow #", "cpu_gap")
    assert (first[4], second[4]) == (48_077, 1_923)


def test_a_sleep_is_the_innermost_annotations(tmp_path: Path) -> None:
    """Without any annotation it is the step's: numbers of steps are left out."""
    assert causes_of(pair(tmp_path, None)) == [(1, "", "ProfilerStep", "cpu_gap", 50_000, 0)]
    first, *_ = causes_of(pair(tmp_path, None, annotation="load"))
    assert first[:4] == (1, "", "load", "cpu_gap")


def test_what_came_before_the_first_meeting_is_not_known(tmp_path: Path) -> None:
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mm", 1, 5 + 30 * rank, tid=MAIN)
        take_part(trace, 10 + 30 * rank, 60)
        ranks.append(trace)
    assert causes_of(job_of(tmp_path, ranks)) == [(1, None, None, "unexplained", 30_000, 0)]


def test_who_was_late_before_still_is(tmp_path: Path) -> None:
    """Neither rank waits for the first all-reduce, to which rank 1 comes 30 µs late; to the second it comes 40 late."""
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        take_part(trace, 10 + 30 * rank, 60, waits=False)
        trace.op("aten::mm", 20 + 30 * rank, 70 + 30 * rank, tid=MAIN)
        if rank:
            trace.op("aten::bmm", 102, 112, tid=MAIN)
        take_part(trace, 80 + 40 * rank, 140)
        ranks.append(trace)
    found = {name: direct for _, _, name, _, direct, _ in causes_of(job_of(tmp_path, ranks))}
    assert found == {None: 60_000, "aten::bmm": 10_000}


def test_a_late_ranks_own_wait_is_passed_on_to_its_cause(tmp_path: Path) -> None:
    job = job_of(tmp_path, ranks_with_a_propagated_wait())
    found = causes_of(job)
    assert job.members.wait.sum() == (94 - 44 + 110 - 44) * 1_000
    assert found[0][:4] == (0, "", "aten::bmm", "cpu_bound")
    assert found[0][4] == 50_000
    assert 30_000 < found[0][5] < 66_000
    assert {rank for rank, *_ in found} == {0, 1}


def test_asynchronous_collectives_do_not_inherit_what_was_waited_for_before(tmp_path: Path) -> None:
    """Rank 1 is late in the first step, by an operator; in the second it is late by another one.

    What rank 0 went on from after the first step is the last bucket, which rank 1 was too late to wait for: it had
    called it last.
    """
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        take_part(trace, 2, 10)
        trace.op("aten::bmm" if rank else "aten::mm", 20, 30 + 60 * rank, tid=MAIN)
        take_part(trace, 32 + 60 * rank, 100, waits=False)
        take_part(trace, 36 + 60 * rank, 120 - 15 * rank, waits=not rank)
        trace.op("aten::add" if rank else "aten::mm", 130, 140 + 40 * rank, tid=MAIN)
        take_part(trace, 150 + 40 * rank, 210)
        ranks.append(trace)
    found = {name: direct for _, _, name, _, direct, _ in causes_of(job_of(tmp_path, ranks))}
    assert found["aten::bmm"] > 90_000
    assert found["aten::add"] > 30_000
    assert sum(found.values()) == 160_000


def kernels(folder: Path, slow: int) -> hg.JobGraph:
    """Let one of two ranks' CPU launch its second all-reduce 40 µs later; each GPU works on what the first one brought.

    µs        0      10            50              90
    thread    [launch 1]           [sync]  [item  ][launch 2]
    stream 24     [all-reduce]                         [all-reduce]
    """
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank)
        trace.collective(2, (10, 30), 1)
        trace.call("cudaDeviceSynchronize", 5, 32)
        trace.op("aten::item", 34, 36 + 40 * (rank == slow), tid=1)
        trace.collective(40 + 40 * (rank == slow), (45 + 40 * (rank == slow), 100), 3)
        ranks.append(trace)
    return job_of(folder, ranks)


@pytest.mark.parametrize("slow", [0, 1])
def test_kernels_are_late_by_their_rank(tmp_path: Path, slow: int) -> None:
    first, *rest = causes_of(kernels(tmp_path, slow))
    assert first == (slow, "", "aten::item", "cpu_bound", 40_000, 0)
    assert rest == []


def test_the_same_waits_are_charged_whatever_part_is_asked_about(tmp_path: Path) -> None:
    job = hg.read_job(small_job(tmp_path))
    found, members = WaitCauses(job), job.members
    parts = [found.attribute(members.number == number) for number in np.unique(members.number)]
    assert sum(int(part.caused.sum()) for part in parts) == int(found.attribute().caused.sum()) == 18_000
    assert len(found.attribute(np.zeros(len(members), np.bool_))) == 0
