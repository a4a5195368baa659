"""When each rank's communications waited for others, in its own time."""

from __future__ import annotations

from pathlib import Path

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import waits_by_rank
from tests.support.two_rank_job import small_job


def test_each_waits_from_its_start_until_the_last_one_comes(tmp_path: Path) -> None:
    graphs = {graph.rank or 0: graph for graph in hg.read_graphs(small_job(tmp_path))}
    found = waits_by_rank(graphs)
    base = int(graphs[0].event_table.start.min())
    spans = {
        rank: list(zip((own.start - base).tolist(), (own.end - base).tolist(), strict=True))
        for rank, own in found.items()
    }
    assert spans == {0: [(48_000, 58_000), (120_000, 120_000)], 1: [(58_000, 58_000), (112_000, 120_000)]}
    assert [graphs[0].name_of(row)[:4] for row in found[0].row.tolist()] == ["nccl", "nccl"]


def test_a_rank_alone_waits_for_nobody_that_is_known(tmp_path: Path) -> None:
    (graph, *_) = hg.read_graphs(small_job(tmp_path))
    assert waits_by_rank({0: graph}) == {}


def test_ranks_of_a_larger_job_waited_for_all_of_it(tmp_path: Path) -> None:
    """Compared with each other alone those who came last to it would have waited for nobody."""
    graphs = {graph.rank or 0: graph for graph in hg.read_graphs(small_job(tmp_path))}
    of_all = {rank: own.take(slice(0, 1)) for rank, own in waits_by_rank(graphs).items()}
    graphs[0] = graphs[0].with_attached(of_all[0])
    assert len(waits_by_rank(graphs)[0].row) == 2  # of rank 1 nothing is known
    graphs[1] = graphs[1].with_attached(of_all[1])
    assert waits_by_rank(graphs) == of_all
