"""No claim exceeds what rows allow, and no share exceeds the whole: on samples, simulated programs and recordings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice import facts as advice_facts
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import RULES
from analyses.judgement.findings import judgement, leading
from analyses.judgement.pricing import SAME_SHARE
from analyses.judgement.verdict import replayed_advice, replayed_verdict
from analyses.questions.critical_path import PathText, path_lines
from analyses.questions.what_if.answer import what_if, what_if_document
from analyses.questions.what_if.text import what_if_lines
from hta_graph.base.errors import DefectError
from hta_graph.paths.windows import WindowQuery, median_step
from hta_graph.what_if.bounds import Bounds
from tests.simulator import Dialect, random_program, simulate, write
from tests.simulator.programs import Family
from tests.support.deep_tests import deep
from tests.support.samples import SAMPLES
from tests.support.shared_traces import shared_traces
from tests.unexplained_reason_accuracy import graph_of

SHARE = re.compile(r"([\d.,]+)%")
OF_A_CHANGE = re.compile(r"\+[\d.,]+%")
"""What gets longer may do so by more than the whole."""
PROGRAMS = [
    (family, seed) if seed < 3 else deep((family, seed))
    for family in ("pytorch", "experts", "arbitrary")
    for seed in range(30)
]


def claims_of(path: hg.CriticalPath) -> Iterator[tuple[PathFinding, int]]:
    """Yield the findings about a path that claim a saving, and the length that it is of."""
    facts = PathFacts(path)
    for finding in (*replayed_verdict(facts), *replayed_advice(facts)):
        if finding.saves_ns is not None or finding.saves_at_most_ns is not None:
            yield finding, facts.priced.length_ns


def hold_claims(graph: hg.DependencyGraph) -> int:
    """Hold every claim about the default window and the whole trace against its bound; return how many there are."""
    count = 0
    for window in (None, hg.whole()):
        path = hg.critical_path(graph, window)
        for finding, whole_ns in claims_of(path):
            assert finding.bound_ns is not None, finding.rule
            most = finding.bound_ns if finding.saves_at_most_ns is None else finding.saves_at_most_ns
            saved = most if finding.saves_ns is None else finding.saves_ns
            assert saved <= most <= finding.bound_ns <= whole_ns, finding.rule
            count += 1
        hold_shares(path, window or median_step())
        if len(graph.rank_graphs) == 1:
            hold_order(path)
            hold_opportunities(graph, window or median_step())
    return count


def hold_order(path: hg.CriticalPath) -> None:
    """Hold the headline against the judgement: nothing is worth more than what leads, but what counts as the same."""
    facts = PathFacts(path)
    bound = next(finding for finding in replayed_verdict(facts) if finding.rule == "bound_by")
    assert bound.saves_ns is None or not bound.evidence.get("missing")
    first = leading(facts)
    if first is None or bound.evidence.get("cause") == "start_up_recorded":
        return
    worth = [one.expected_ns or 0 for one in judgement(facts) if one.kind != "recording"]
    assert max(worth, default=0) <= (first.expected_ns or 0) + SAME_SHARE * facts.priced.length_ns
    assert bound.saves_ns in (None, first.saves_ns)


def hold_opportunities(graph: hg.DependencyGraph, window: WindowQuery) -> None:
    """Hold what JSON says of classes and scenarios against rows of their own kind."""
    found = what_if(graph, window)
    document, bounds = what_if_document(found), Bounds.of(graph, found.replayed.window)
    most = {
        "gpu_communication_bound": bounds.communication_ns,
        "gpu_memory_bound": bounds.copies_ns,
        **dict.fromkeys(("cpu_bound", "cpu_gap", "data_loading"), bounds.not_computing_ns),
    }
    for row in document["opportunities"]:
        limit = most.get(row["name"], bounds.length_ns) if row["kind"] == "class" else bounds.length_ns
        assert max(row["saved_half_ns"], row["saved_free_ns"]) <= limit, row
    assert all(one["saved_ns"] <= bounds.length_ns for one in document["scenarios"])


def hold_shares(path: hg.CriticalPath, window: WindowQuery) -> None:
    """Hold every share that answers print against the whole."""
    for line in (*path_lines(PathText.of(path)), *what_if_lines(what_if(path.graph, window))):
        shares = [float(share.replace(",", "")) for share in SHARE.findall(OF_A_CHANGE.sub("", str(line)))]
        assert all(share <= 100 for share in shares), line


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sample_trace.json.gz", "slower_trace.json.gz", "two_gpus.json.gz", "four_ranks"])
def test_no_claim_about_a_sample_exceeds_its_bound(name: str) -> None:
    path = SAMPLES / name
    assert hold_claims(hg.read_job(path) if path.is_dir() else hg.build_graph(hg.read_trace(path)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_no_claim_about_a_simulated_program_exceeds_its_bound(program: tuple[Family, int]) -> None:
    family, seed = program
    hold_claims(graph_of(write(simulate(random_program(seed, family, 300)), Dialect(sync_rows="none")).document))


def test_waits_that_are_tried_before_edges_with_negative_lags_are_counted_without_overflow() -> None:
    """Clock faults leave such edges; the limit of a point without a tried wait is no number to subtract one from."""
    program = random_program(13, "arbitrary", 300)
    assert hold_claims(graph_of(write(simulate(program), Dialect(sync_rows="none")).document))


@pytest.mark.sampled(8)
@pytest.mark.shared
@pytest.mark.parametrize("file", shared_traces(), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_no_claim_about_a_recording_exceeds_its_bound(file: Path) -> None:
    hold_claims(hg.build_graph(hg.read_trace(file)))


def test_every_rule_with_a_remedy_has_a_bound() -> None:
    assert [name for name, rule in RULES.items() if rule.remedy and not rule.bound] == []


def test_every_remedy_of_one_rank_can_lead_the_headline() -> None:
    of_ranks = {"held_up_by_rank", "slow_gpu", "slow_host"}
    leads, remedies = ({name for name, rule in RULES.items() if getattr(rule, of)} for of in ("change", "remedy"))
    assert leads == remedies - of_ranks


def test_a_sentence_that_says_more_than_rows_allow_is_an_error_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = PathFacts(hg.critical_path(hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz")), hg.step(2)))
    with pytest.raises(DefectError, match="rows allow 500000 ns"):
        facts.lost(600_000, 500_000)
    monkeypatch.setattr(advice_facts, "RAISES", False)
    assert facts.lost(600_000, 500_000) == (500_000, True)
