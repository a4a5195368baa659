"""What only a job tells: who holds it up, what its ranks did together, whether clocks allow it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import advice_of, verdict_of
from tests.support.gloo_builder import GlooRank, late_ranks
from tests.support.two_rank_job import one_rank, small_job


def findings(path: hg.CriticalPath) -> dict[str, PathFinding]:
    facts = PathFacts(path)
    return {finding.rule: finding for finding in (*verdict_of(facts), *advice_of(facts))}


def test_the_rank_that_holds_up_the_job_opens_the_verdict(tmp_path: Path) -> None:
    found = findings(hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 30, 55, met=True))))
    assert next(iter(found)) == "held_up_by_rank"
    verdict = found["held_up_by_rank"]
    assert (verdict.confidence, verdict.saves_at_most_ns) == ("high", None)
    assert verdict.evidence["rank"] == 2
    assert verdict.evidence["held_up_ns"] == 25_000
    assert verdict.evidence["in_window"]
    assert verdict.evidence["meanwhile"] == [{"name": "aten::mul", "bound_by": "cpu_bound", "time_ns": 25_000}]


def test_before_ranks_have_met_nobody_is_known_to_be_late(tmp_path: Path) -> None:
    """Recordings begin when they begin: who comes last to the first collective may have been recorded late."""
    assert "held_up_by_rank" not in findings(hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 30, 55))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arrivals", [(33, 35), (35, 35), (35, 34.5, 34)])
def test_ranks_that_are_alike_hold_up_nobody(tmp_path: Path, arrivals: tuple[float, ...]) -> None:
    found = findings(hg.critical_path(hg.read_job(late_ranks(tmp_path, *arrivals, met=True))))
    assert "held_up_by_rank" not in found
    assert next(iter(found)) == "bound_by"


def test_two_ranks_that_are_late_by_turns_hold_up_nobody_alone(tmp_path: Path) -> None:
    paths = []
    for rank, arrivals in enumerate(((10, 75), (35, 50))):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mul", 1, arrivals[0] - 1, tid=100)
        for arrival, end in zip(arrivals, (44, 84), strict=True):
            trace.called("all_reduce", arrival, arrival + 2)
            trace.worked("all_reduce", arrival + 3, end + rank)
        trace.op("aten::mul", 47, arrivals[1] - 1, tid=100)
        trace.op("aten::add", 90, 95, tid=100)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    found = findings(hg.critical_path(hg.read_job(paths), hg.whole()))
    assert "held_up_by_rank" not in found


def test_what_the_ranks_did_together_is_counted(tmp_path: Path) -> None:
    found = findings(hg.critical_path(hg.read_job(small_job(tmp_path)), hg.whole()))["ranks_matched"]
    assert found.text == "Matched between ranks: 2 collectives."
    assert found.evidence["without_partner"] == 0


def test_what_has_no_partner_is_told_with_its_share(tmp_path: Path) -> None:
    trace = one_rank(0)
    trace.collective(150, (160, 170), 9, nelems=7, kind="broadcast")
    paths = [trace.write(tmp_path / "rank0.json"), one_rank(1).write(tmp_path / "rank1.json")]
    found = findings(hg.critical_path(hg.read_job(paths), hg.whole()))["ranks_matched"]
    assert (found.evidence["without_partner"], found.evidence["without_partner_ns"]) == (1, 10_000)
    alone = "1 communication (15% of communication time) without a partner"
    assert found.text == f"Matched between ranks: 2 collectives; {alone}."


def test_ranks_that_never_talk_are_told_so(tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        trace = GlooRank(rank)
        trace.op("aten::mul", 1, 50, tid=100)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    found = findings(hg.critical_path(hg.read_job(paths)))
    assert found["ranks_matched"].text.startswith("No communication between ranks was found")


def test_uncertain_clocks_are_told_where_they_matter(tmp_path: Path) -> None:
    path = hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 35, met=True)))
    assert isinstance(path.graph, hg.JobGraph)
    assert "clocks_unsure" not in findings(path)
    path.graph.clock_table = replace(path.graph.clock_table, error=np.array([0, 1_500]))
    found = findings(path)
    assert found["clocks_unsure"].text.startswith("The clock of rank 1 is uncertain by 1.50 µs")
    assert "held_up_by_rank" in found


def test_one_rank_is_asked_about_none_of_it(tmp_path: Path) -> None:
    found = findings(hg.critical_path(one_rank(0).graph(tmp_path), hg.whole()))
    assert not {"held_up_by_rank", "ranks_matched", "clocks_unsure"} & set(found)


def test_communication_of_a_job_holds_no_waiting(tmp_path: Path) -> None:
    found = findings(hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 35))))["exposed_communication"]
    assert "Waiting for other ranks is not included." in found.text
    assert found.saves_at_most_ns == found.evidence["on_path_ns"]


def test_what_another_ranks_gpu_does_relieves_nobody(tmp_path: Path) -> None:
    path = hg.critical_path(hg.read_job(small_job(tmp_path)), hg.annotation("forward"))
    facts = PathFacts(path)
    # The path is on rank 1 until its kernel begins at 58, then on rank 0 to 68; rank 0's kernels before do not count.
    part = path.graph.rank_index_of(facts.work.row)
    assert [int((facts.work.end - facts.work.start)[part == place].sum()) for place in (0, 1)] == [10_000, 26_000]
    assert facts.gpu_idle_ns == 68_000 - 10_000 - 26_000
