"""Ranks that do not go together, that lack things, or that lie: one clear line, or what can be said."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError, TraceError
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.rank_builder import RankBuilder
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import one_rank, small_job

MS = 1_000


def read(tmp_path: Path, *ranks: RankBuilder | GlooRank) -> hg.JobGraph:
    return hg.read_job([rank.write(tmp_path / f"rank{at}.json") for at, rank in enumerate(ranks)])


def gloo_rank(rank: int, *meetings: float, step: int = 1) -> GlooRank:
    """Let a rank call an all-reduce at each time (µs); each takes 10."""
    trace = GlooRank(rank, [0, 1])
    trace.annotation(f"ProfilerStep#{step}", meetings[0] - 5, meetings[-1] + 30, tid=MAIN)
    for at in meetings:
        trace.op("aten::mul", at - 4, at - 1, tid=MAIN)
        trace.called("all_reduce", at, at + 2)
        trace.worked("all_reduce", at + 3, at + 13)
    trace.op("aten::add", meetings[-1] + 20, meetings[-1] + 25, tid=MAIN)
    return trace


def test_jobs_of_different_sizes_are_refused(tmp_path: Path) -> None:
    paths = [RankBuilder(0, 2).write(tmp_path / "a.json"), RankBuilder(1, 4).write(tmp_path / "b.json")]
    with pytest.raises(QueryError, match=r"b\.json: is from a job of 4 ranks, but .*a\.json is from a job of 2"):
        hg.read_job(paths)


def test_a_rank_twice_is_refused(tmp_path: Path) -> None:
    paths = [one_rank(0).write(tmp_path / name) for name in ("a.json", "b.json")]
    with pytest.raises(TraceError, match="rank 0"):
        hg.read_job(paths)
    with pytest.raises(QueryError, match=r"has rank 0, like .*; pass each rank once"):
        hg.build_job([hg.build_graph(hg.read_trace(path)) for path in paths])


def test_no_rank_is_no_job() -> None:
    with pytest.raises(QueryError, match="there are no ranks"):
        hg.build_job([])


def test_a_broken_rank_is_told_and_the_others_are_answered(tmp_path: Path) -> None:
    small_job(tmp_path)
    (tmp_path / "rank2.json").write_text('{"traceEvents": [{"ph": "X", "na')
    told: list[Exception] = []
    job = hg.read_job(tmp_path, report=told.append)
    assert len(told) == 1
    assert len(job.rendezvous) == 2


def test_one_rank_of_two_is_a_job_whose_collectives_have_no_partner(tmp_path: Path) -> None:
    job = hg.read_job([one_rank(1).write(tmp_path / "rank1.json")])
    assert len(job.rendezvous) == 0
    assert job.collectives.number.isna().all()
    alone = hg.critical_path(job.graph(1), hg.whole())
    assert hg.critical_path(job, hg.whole()).by_bound_ns == alone.by_bound_ns


def test_ranks_without_the_step_are_listed(tmp_path: Path) -> None:
    job = read(tmp_path, gloo_rank(0, 10, 110, step=1), gloo_rank(1, 12, 112, step=2))
    window = hg.step(2)(job)
    assert window.missing == (0,)
    with pytest.raises(QueryError, match="there is no step 3"):
        hg.step(3)(job)


def test_clocks_that_are_days_apart_are_set_right(tmp_path: Path) -> None:
    days = 3 * 86_400_000_000
    times = [10, 140, 260, 420]
    job = read(tmp_path, gloo_rank(0, *times), gloo_rank(1, *(at + days for at in times)))
    assert len(job.rendezvous) == len(times)
    assert job.clocks.offset_ns.tolist() == [0, days * 1_000]
    path = hg.critical_path(job, hg.whole())
    assert path.length_ns < 1_000_000
    assert sum(path.by_rank_ns.values()) == path.length_ns


def test_forged_ids_close_no_cycle(tmp_path: Path) -> None:
    """Rank 0 does A, then B; rank 1 claims to do B, then A."""
    ranks = []
    for rank in range(2):
        trace = RankBuilder(rank, 2)
        for place, at in enumerate((20, 60)):
            trace.collective(at - 10, (at, at + 10), place + 1, nelems=8)
            trace.rows[-1].setdefault("args", {})["Comms Id"] = (place + rank) % 2 + 1
        ranks.append(trace)
    job = read(tmp_path, *ranks)
    assert nx.is_directed_acyclic_graph(job.to_networkx())
    path = hg.critical_path(job, hg.whole())
    assert sum(path.by_rank_ns.values()) == path.length_ns


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(20))
def test_ranks_that_lost_rows_still_make_a_job(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    ranks = [one_rank(0), one_rank(1)]
    for trace in ranks:
        trace.rows = [row for row in trace.rows if random.random() > 0.2]
    job = read(tmp_path, *ranks)
    path = hg.critical_path(job, hg.whole())
    assert sum(path.by_rank_ns.values()) == path.length_ns
    assert nx.is_directed_acyclic_graph(job.to_networkx())


def test_ranks_that_never_met_and_were_recorded_at_other_times_are_refused(tmp_path: Path) -> None:
    one, other = TraceBuilder(), TraceBuilder()
    one.op("aten::mul", 0, 10)
    other.op("aten::mul", 500, 510)
    paths = [one.write(tmp_path / "rank0.json"), other.write(tmp_path / "rank1.json")]
    with pytest.raises(QueryError, match=r"nothing matches .*rank0\.json, which ends 0\.490 ms before"):
        hg.read_job(paths)


def test_files_named_in_different_ways_are_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late_ranks(tmp_path, 10, 35)
    (tmp_path / "flight").mkdir()
    monkeypatch.chdir(tmp_path)
    job = hg.read_job(["rank0.json", tmp_path / "rank1.json"])
    assert len(job.rendezvous) == 1
    assert job.path == tmp_path
