"""Who waits for those that take from it: Gloo's sends end when their receivers have come."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.wait_causes import WaitCauses
from tests.simulator.program import Gap, Op, Program, Stream
from tests.simulator.ranks import Group, JobProgram, Recording, record_job, simulate_job
from tests.simulator.ranks.communication_statements import Await, Meet
from tests.support.gloo_builder import MAIN, GlooRank

US = 1_000
ALL = [0, 1, 2, 3]


def matched(paths: list[Path]) -> Collectives:
    graphs = hg.read_graphs(paths)
    return match_collectives({graph.rank or 0: read_communications(graph) for graph in graphs})


def ranks_of(folder: Path, kind: str, *rows: tuple[float, float]) -> list[Path]:
    """Write ranks that multiply until they come to a collective, and add after it: when each comes and leaves (µs)."""
    paths = []
    for rank, (came, left) in enumerate(rows):
        trace = GlooRank(rank, ALL[: len(rows)])
        trace.called("all_reduce", 0, 1)
        trace.worked("all_reduce", 2, 10)
        trace.op("aten::mul", 15, came - 1, tid=MAIN)
        trace.called(kind, came, came + 1)
        trace.worked(kind, came + 2, left)
        trace.op("aten::add", left + 5, left + 10, tid=MAIN)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths


def waits_us(found: Collectives) -> dict[int, tuple[float, int]]:
    """Return of the second collective how long each rank waited, and for whom."""
    second = found.number == 1
    rows = zip(*(column[second].tolist() for column in (found.rank, found.wait, found.awaited)), strict=True)
    return {rank: (wait / US, awaited) for rank, wait, awaited in rows if wait}


def test_a_parent_in_a_broadcast_waits_for_its_child_and_the_others_do_not(tmp_path: Path) -> None:
    """The root, rank 1, hands on to ranks 2 and 3, rank 2 to rank 0; rank 3 is late, by whom only the root is held."""
    found = matched(ranks_of(tmp_path, "broadcast", (50, 60), (50, 160), (50, 60), (150, 160)))
    assert waits_us(found) == {1: (100, 3)}
    assert found.rank[found.last].tolist() == [0, 3]


def test_a_child_waits_for_all_above_it(tmp_path: Path) -> None:
    found = matched(ranks_of(tmp_path, "broadcast", (50, 160), (50, 160), (150, 160), (50, 60)))
    assert waits_us(found) == {0: (100, 2), 1: (100, 2)}


def test_leaves_of_a_gather_wait_for_the_root_unless_a_buffer_took_what_they_gave(tmp_path: Path) -> None:
    found = matched(ranks_of(tmp_path, "gather", (150, 160), (50, 160), (50, 60)))
    assert waits_us(found) == {1: (100, 0)}
    assert len(found) == 2


def test_a_late_child_is_the_cause_and_the_path_leads_to_it(tmp_path: Path) -> None:
    job = hg.read_job(ranks_of(tmp_path, "broadcast", (50, 60), (50, 1160), (50, 60), (1150, 1160)))
    causes = WaitCauses(job)
    assert [(rank, ns) for rank, ns in zip(*causes_of(causes), strict=True) if ns] == [(3, 1_100 * US)]
    path = hg.critical_path(job, hg.whole())
    assert {3: True}.items() <= {rank: ns > 1_000 * US for rank, ns in path.by_rank_ns.items()}.items()
    assert hg.replay(job, []).predicted_ns == hg.replay(job, []).measured_ns
    quicker = hg.replay(job, [hg.scale("operator:aten::mul", 0.5)])
    assert quicker.saved_ns == pytest.approx((1_150 - 16) / 2 * US, rel=0.01)


def causes_of(causes: WaitCauses) -> tuple[list[int], list[int]]:
    found = causes.attribute()
    return found.rank.tolist(), found.caused.tolist()


@pytest.mark.parametrize("size", [2, 3, 6])
def test_trees_are_those_of_gloos_rounds(tmp_path: Path, size: int) -> None:
    group = Group("0", tuple(range(size)))
    ranks = {
        rank: Program.of(*(part for root in range(size) for part in broadcast(group, rank, root)))
        for rank in range(size)
    }
    job = simulate_job(JobProgram(ranks, (group,), "gloo"))
    found = matched(record_job(job, Recording(), tmp_path).paths)
    root_of = {number: number for number in range(size)}
    truth = {
        (number, own.rank, other)
        for number, one in enumerate(job.rendezvous)
        for own in one.members.values()
        for other in own.awaited - {root_of[number]}
    }
    further = found.further
    assert set(zip(*(column.tolist() for column in (further.number, further.rank, further.awaited)), strict=True)) == (
        truth
    )


def broadcast(group: Group, rank: int, root: int) -> tuple[Op, Await]:
    """Let a rank take part in a broadcast, later the higher its number is, and wait for its end."""
    meet = Meet("broadcast", group, 50 * US, Stream(23), 8, root, work=root, on_cpu=True)
    return Op("c10d::broadcast_", (Gap((1 + rank) * 10 * US), meet)), Await(root)
