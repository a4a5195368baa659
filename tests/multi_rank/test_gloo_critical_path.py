"""The path of recorded jobs with injected delays: whatever delayed the job lies on it."""

from __future__ import annotations

import numpy as np
import pytest

import hta_graph as hg
from tests.support.injected_delays import Injection, injections_of
from tests.support.shared_traces import SHARED

QUICK = ("ddp_4r_slowdata_1", "groups_2r_slowfwd_1", "pipeline_4r_slowmb_1")
SETS = sorted(path.name for path in (SHARED / "gloo").glob("*_*r_*") if "base" not in path.name)
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETS]
LEAST_SHARE = 0.95


def share_on_path(job: hg.JobGraph, path: hg.CriticalPath, delay: Injection) -> float:
    """Return how much of a delay lies on the path, on its rank."""
    at = job.rank_numbers.tolist().index(delay.rank)
    ahead = int(job.clock_table.offset[at])
    start, end = delay.start_ns - ahead, delay.end_ns - ahead
    pieces = path.segment_table.take(path.segment_table.part == at)
    inside = np.minimum(pieces.end, end) - np.maximum(pieces.start, start)
    return float(inside.clip(min=0).sum()) / (end - start)


@pytest.mark.shared
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.slow
def test_delays_without_slack_lie_on_the_path(name: str) -> None:
    folder = SHARED / "gloo" / name
    job = hg.read_job(sorted(folder.glob("rank*.json.gz")))
    path = hg.critical_path(job, hg.whole())
    delays = injections_of(folder)
    shares = [share_on_path(job, path, delay) for delay in delays]
    assert [share >= LEAST_SHARE for share in shares] == [not delay.has_slack for delay in delays]


@pytest.mark.shared
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.slow
def test_the_path_has_a_cause_nearly_everywhere(name: str) -> None:
    path = hg.critical_path(hg.read_job(sorted((SHARED / "gloo" / name).glob("rank*.json.gz"))), hg.whole())
    before = path.by_reason_ns.get("before_recording", 0)
    assert path.by_bound_ns["unexplained"] - before <= 0.08 * path.length_ns
    assert sum(path.by_rank_ns.values()) == path.length_ns
