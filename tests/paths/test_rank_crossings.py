"""Where the path of a job goes from rank to rank, and whom the job waited for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.paths.rank_crossings import crossings, held_up_by, last_arrivals
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.two_rank_job import one_rank, small_job


def job_path(paths: list[Path], window: hg.Window | None = None) -> hg.CriticalPath:
    return hg.critical_path(hg.read_job(paths), window)


def test_the_path_crosses_to_the_rank_that_came_last(tmp_path: Path) -> None:
    found = crossings(job_path(small_job(tmp_path), hg.annotation("forward")))
    assert (found.earlier.tolist(), found.later.tolist(), found.corrected.tolist()) == ([1], [0], [0])


def test_a_cause_that_is_stamped_after_its_effect_is_counted_at_the_crossing(tmp_path: Path) -> None:
    path = job_path(small_job(tmp_path), hg.annotation("forward"))
    times = path.graph.timeline.times.copy()
    part = path.graph.rank_index_of(path.chain.points // 2)
    before = path.chain.points[np.flatnonzero(part == 1)[0]]
    moved = int(path.window.end_ns) + 300
    times[before] = moved
    path.graph.timeline.__dict__["times"] = times
    assert crossings(path).corrected.tolist() == [300]


def test_one_rank_has_nobody_to_wait_for(tmp_path: Path) -> None:
    path = hg.critical_path(one_rank(0).graph(tmp_path))
    assert (len(crossings(path)), len(last_arrivals(path))) == (0, 0)
    assert [found.total for found in held_up_by(path)] == [0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arrivals", "margin"), [((10, 35), 25_000), ((10, 30, 35), 5_000), ((35, 10, 12), 23_000)])
def test_the_job_waits_for_the_last_one_since_the_next_one_came(
    tmp_path: Path, arrivals: tuple[float, ...], margin: int
) -> None:
    path = job_path(late_ranks(tmp_path, *arrivals))
    last = arrivals.index(max(arrivals))
    found = last_arrivals(path)
    assert (found.part.tolist(), found.margin.tolist()) == ([last], [margin])
    assert [held.total for held in held_up_by(path)] == [margin * (at == last) for at in range(len(arrivals))]


def test_a_small_margin_is_known_with_one_clock(tmp_path: Path) -> None:
    path = job_path(late_ranks(tmp_path, 32.5, 35))
    assert last_arrivals(path).margin.tolist() == [2_500]


def test_below_the_error_of_clocks_nobody_is_late(tmp_path: Path) -> None:
    path = job_path(late_ranks(tmp_path, 10, 35))
    assert isinstance(path.graph, hg.JobGraph)
    table = path.graph.clock_table
    path.graph.clock_table = replace(table, error=np.array([0, 13_000]))
    assert last_arrivals(path).margin.tolist() == [0]
    path.graph.clock_table = replace(table, error=np.array([0, 12_000]))
    assert last_arrivals(path).margin.tolist() == [25_000]


def test_the_margin_is_cut_to_the_window(tmp_path: Path) -> None:
    paths = late_ranks(tmp_path, 10, 35)
    start = int(hg.read_job(paths).event_table.start.min())
    path = job_path(paths, hg.between(start + 20_000, start + 55_000))
    assert last_arrivals(path).margin.tolist() == [15_000]


def test_a_step_waits_for_the_rank_that_ends_it_last(tmp_path: Path) -> None:
    paths = late_ranks(tmp_path, 10, 10.4)
    (tmp_path / "longer").mkdir()
    path = job_path([late_ranks(tmp_path / "longer", 10, 10.4, step_end=90)[0], paths[1]])
    assert [held.total for held in held_up_by(path)] == [30_000, 400]


def test_what_the_path_does_not_lead_through_holds_up_nobody(tmp_path: Path) -> None:
    paths = []
    for rank, (arrival, busy) in enumerate(((10, 80), (35, 50))):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", 1, arrival - 1, tid=MAIN)
        trace.called("all_reduce", arrival, arrival + 1)
        trace.op("aten::mul", arrival + 1, busy, tid=MAIN)
        trace.worked("all_reduce", arrival + 3, 45 + rank)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    path = job_path(paths, hg.whole())
    assert path.by_rank_ns == {0: 79_000, 1: 0}
    assert len(last_arrivals(path)) == 0
