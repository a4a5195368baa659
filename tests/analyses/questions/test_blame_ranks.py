"""A stream that is idle because of another rank: which part of its wait that rank caused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.scope import Scope, per_step, whole
from analyses.questions.idle_time import idle_time, stream_idle_time
from tests.support.rank_builder import RankBuilder
from tests.support.shared_traces import SHARED


def waiting_ranks(folder: Path, *, comes: tuple[float, float] = (20, 50), blocks_host: bool = False) -> list[Scope]:
    """Each rank computes to 10 and then needs what an all-reduce makes, which ends at 60.

    stream 7    [first]                                       [second]
    stream 24           [all-reduce ~~~~~~~~~~~~~~~~~|====]            ~ until the other rank comes
    """
    scopes = []
    for rank, came in enumerate(comes):
        trace = RankBuilder(rank, 2)
        trace.launch("first", (0, 1), (4, 10), 1)
        trace.collective(1, (came, 60), 2)
        if blocks_host:
            trace.call("cudaStreamSynchronize", 3, 61, 3)
            trace.sync_row("Stream Sync", 3, 61, 3, stream=24)
            trace.launch("second", (61, 62), (63, 70), 5)
        else:
            trace.call("cudaEventRecord", 3, 4, 3)
            trace.call("cudaStreamWaitEvent", 4, 5, 4)
            trace.sync_row("Stream Wait Event", 4, 5, 4, stream=7, wait_on_stream=24, record=3)
            trace.launch("second", (5, 6), (63, 70), 5)
        scopes.append(whole(rank, hg.build_graph(hg.read_trace(trace.write(folder / f"rank{rank}.json")))))
    return scopes


def causes(frame: pd.DataFrame, rank: int) -> dict[str, int]:
    own = frame[(frame["rank"] == rank) & (frame["stream"] == "stream 0:1:7")]
    return dict(zip(own["cause"], own["idle_ns"], strict=True))


def test_a_stream_waits_for_the_other_rank_until_that_comes(tmp_path: Path) -> None:
    found = stream_idle_time(waiting_ranks(tmp_path))
    assert causes(found, 0) == {"other_rank": 30_000, "event_wait": 53_000 - 30_000}
    assert causes(found, 1) == {"event_wait": 53_000}


def test_a_host_that_waits_for_it_does_so_too(tmp_path: Path) -> None:
    found = stream_idle_time(waiting_ranks(tmp_path, blocks_host=True))
    assert causes(found, 0)["other_rank"] == 30_000
    assert "other_rank" not in causes(found, 1)
    assert sum(causes(found, 0).values()) == sum(causes(found, 1).values()) == 53_000


def test_ranks_that_come_together_are_not_blamed(tmp_path: Path) -> None:
    found = stream_idle_time(waiting_ranks(tmp_path, comes=(20, 20)))
    assert set(found["cause"]) == {"event_wait"}


def test_one_rank_alone_blames_nobody(tmp_path: Path) -> None:
    scopes = waiting_ranks(tmp_path)
    assert causes(stream_idle_time(scopes[:1]), 0) == {"event_wait": 53_000}


def test_while_communication_runs_the_gpu_is_not_idle(tmp_path: Path) -> None:
    found = idle_time(waiting_ranks(tmp_path))
    assert "other_rank" not in set(found["cause"])


@pytest.mark.shared
@pytest.mark.parametrize("name", ["megatron_tp2_v100", "dlrm_8xv100"])
def test_blame_moves_time_between_causes_and_makes_none(name: str) -> None:
    graphs = {graph.rank or 0: graph for graph in hg.read_graphs(SHARED / "traces" / name)}
    together = [scope for rank, graph in graphs.items() for scope in (whole(rank, graph), *per_step(rank, graph))]
    alone = pd.concat([stream_idle_time([scope]) for scope in together])
    found = stream_idle_time(together)
    keys = ["rank", "scope", "stream"]
    assert found.groupby(keys)["idle_ns"].sum().equals(alone.groupby(keys)["idle_ns"].sum())
    assert found.loc[found["cause"] == "other_rank", "idle_ns"].sum() > 1_000_000
