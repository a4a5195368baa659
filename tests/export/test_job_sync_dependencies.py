"""What the calls and streams of a job waited for: each rank's own waits, with its number; waits for ranks are none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.export.sync_dependencies import SyncDependencies
from tests.support.deep_tests import deep
from tests.support.random_jobs import random_job
from tests.support.rank_builder import RankBuilder
from tests.support.shared_traces import SHARED


def job_with_waits(folder: Path) -> hg.JobGraph:
    """Let each of two ranks wait for a kernel of its own before and after they meet."""
    paths = []
    for rank in range(2):
        trace = RankBuilder(rank, 2)
        trace.launch("gemm", (0, 4), (10, 30 + rank), 1)
        trace.call("cudaDeviceSynchronize", 5, 36 + rank, 2)
        trace.op("aten::add", 40, 44, **{"External id": 7})
        trace.collective(46, (60 + 10 * rank, 90), 3)
        trace.call("cudaDeviceSynchronize", 62, 95, 4)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return hg.read_job(paths)


def rows_alone(job: hg.JobGraph) -> pd.DataFrame:
    """Ask each rank alone, and lay the answers end to end."""
    parts = [(rank, hg.sync_dependencies(job.graph(rank))) for rank in job.ranks["rank"]]
    return pd.concat([frame.assign(rank=rank) for rank, frame in parts])


def in_order(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    columns = ["rank", "direction", "kind", "source_index", "sync_index", "target_index", "binding", "rule"]
    rows = frame[columns].astype(object).where(frame[columns].notna(), None)
    return sorted(map(tuple, rows.to_numpy().tolist()), key=str)


def test_a_job_lists_what_its_ranks_list_alone(tmp_path: Path) -> None:
    job = job_with_waits(tmp_path)
    found = hg.sync_dependencies(job)
    assert list(found.columns)[:2] == ["direction", "rank"]
    assert in_order(found) == in_order(rows_alone(job))
    assert len(job.rendezvous) == 1
    assert found[found.binding]["rank"].tolist().count(0) == 2


def test_waits_for_other_ranks_are_no_dependencies(tmp_path: Path) -> None:
    job = random_job(tmp_path, 3)
    assert (job.edges.kind == "collective_wait").any()
    assert hg.sync_dependencies(job).empty


def test_external_ids_are_asked_of_one_rank(tmp_path: Path) -> None:
    job = job_with_waits(tmp_path)
    with pytest.raises(QueryError, match=r"ask job.graph\(rank\)"):
        SyncDependencies(job).external_ids()
    assert SyncDependencies(job.graph(0)).external_ids().missing >= 0


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("folder", [deep("traces/nanogpt_ddp_8xh100"), "traces/megatron_tp2_v100"])
def test_recorded_jobs_list_what_their_ranks_list_alone(folder: str) -> None:
    job = hg.read_job(SHARED / folder)
    found = hg.sync_dependencies(job)
    assert len(found) > 0
    assert in_order(found) == in_order(rows_alone(job))
