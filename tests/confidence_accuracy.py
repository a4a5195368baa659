"""Do claims come true as often as their confidence says? Programs, jobs and recordings, run again as claimed.

``python -m tests.confidence_accuracy [--programs N] [--first SEED]`` asks simulated programs of one rank, and jobs, for
the judgement on their default window. Each finding is followed (the remedy of a rule, a cause without time, an operator
or kernel at twice its speed; in a job on all ranks; a rank without its injected delay) and its claim compared with what
the window of the same step is shorter by then. Recorded jobs with a fault have their run without it beside them; a rank
in which nothing was injected saves nothing. The what-if oracle is ByteDance's published results for a public job.

A claim of n ns *comes true* within 10% if n ns and what is saved differ by at most 10% of n, as n is all that a reader
has; or by 0.5% of the window, which no one could measure. "At most n" comes true if no more than that is saved. The
ratio is what is saved in all by what is claimed in all: what such a claim is worth
(:data:`analyses.judgement.findings.WORTH`). *Yesterday's* order of findings is by what they claim alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.judgement.findings import WindowFinding, judgement
from hta_graph.paths.windows import step_lengths
from hta_graph.what_if.bounds import priced_window
from tests.advice_accuracy import OWN_PROGRAMS, WORTH, graph_of_run
from tests.matching_accuracy import SCENARIOS
from tests.replay_accuracy import job_of
from tests.rerun_accuracy import NOISES, SCHEDULES, lengths_of_steps, recorded_pairs, simulated_pair
from tests.simulator import random_program
from tests.simulator.changes import Edit, Subject
from tests.simulator.ranks import JobProgram, Recording, record_job, simulate_job
from tests.simulator.rewriting import with_lags
from tests.straggler_oracle import StragglerAnswers
from tests.support.followed_findings import followed
from tests.support.published_what_if import numbers_of, public_job
from tests.support.published_what_if import published as published_results
from tests.support.shared_traces import SHARED

TOLERANCES = (0.1, 0.25)
FLOOR = 0.005
"""Of the window: steps of one program differ by more."""

FAMILIES = ("pytorch", "experts")
SIZE = 400
ALONE = "a rank alone"
FOLDERS = (SHARED / "gloo", SHARED / "gloo_more", SHARED / "gloo_shapes")


@dataclass(frozen=True)
class Claim:
    """What a finding claims that a window is shorter by, and by what it is (ns)."""

    source: str
    finding: WindowFinding
    claimed_ns: int
    realised_ns: int
    window_ns: int
    of_program: float = 0.0
    """By what share the whole program is shorter: an iteration can begin as much earlier as it ends earlier."""

    def comes_true(self, tolerance: float) -> bool:
        """Return whether it comes true within a tolerance."""
        allowed = max(tolerance * self.claimed_ns, FLOOR * self.window_ns)
        off = self.realised_ns - self.claimed_ns
        return off <= allowed if self.finding.is_at_most else abs(off) <= allowed

    @property
    def is_vain(self) -> bool:
        """Whether it is advice that saves nothing worth it, in its window and in the program."""
        share = max(self.realised_ns / self.window_ns, self.of_program)
        return self.finding.kind == "scenario" and share < WORTH


@dataclass(frozen=True)
class Asked:
    """A program, or job, with all findings on a window; what those save that can be followed stands by their names."""

    findings: Sequence[WindowFinding]
    claims: dict[str, Claim]

    def first(self, key: Callable[[WindowFinding], float] | None = None) -> Claim | None:
        """Return the first finding that saves something, in their order or another; None: it cannot be followed."""
        saving = [one for one in self.findings if one.saves_ns]
        ordered = saving if key is None else sorted(saving, key=key)
        return self.claims.get(ordered[0].id) if ordered else None


# -- what is asked -----------------------------------------------------------------------------------------------------

GraphOf = Callable[[Edit | None], hg.DependencyGraph]
"""Runs a program or a job, with an edit or as it is, and reads what was recorded."""


def asked_of(graph_of: GraphOf, subject: Subject, source: str) -> Asked:
    """Follow every finding on a default window."""
    graph = graph_of(None)
    facts = PathFacts.of(hg.critical_path(graph))
    findings, claims = judgement(facts), {}
    for one in findings:
        edit = followed(one, subject) if one.saves_ns is not None else None
        if edit is not None:
            after = graph_of(edit)
            claim = _claim(source, one, facts, _length_of_same(facts, after))
            claims[one.id] = replace(claim, of_program=1 - _whole_length(after) / _whole_length(graph))
    return Asked(findings, claims)


def _claim(source: str, finding: WindowFinding, facts: PathFacts, after_ns: float) -> Claim:
    length_ns = facts.priced.length_ns
    return Claim(source, finding, finding.saves_ns or 0, round(length_ns - after_ns), length_ns)


def _length_of_same(facts: PathFacts, graph: hg.DependencyGraph) -> int:
    number = facts.path.window.step
    window = priced_window(graph, (hg.whole() if number is None else hg.step(number))(graph))
    return window.end_ns - window.start_ns


def _whole_length(graph: hg.DependencyGraph) -> int:
    window = hg.whole()(graph)
    return window.end_ns - window.start_ns


def one_rank(seeds: Iterable[int]) -> Iterator[Asked]:
    """Ask training scripts, and experts of which half make their host spin."""
    for seed in seeds:
        for family in FAMILIES:
            program = with_lags(random_program(seed, family, SIZE), seed)  # type: ignore[arg-type]
            subject = Subject({0: program})
            yield asked_of(partial(_rerun, subject), subject, "programs")


def _rerun(subject: Subject, edit: Edit | None) -> hg.DependencyGraph:
    program = subject.ranks[0]
    return graph_of_run(edit.applied(program, subject) if edit else program)


def own_programs(seeds: Iterable[int]) -> Iterator[Asked]:
    """Ask programs that are made for a rule, written once more as it advises."""
    for seed in seeds:
        for rule, make in OWN_PROGRAMS.items():
            facts = PathFacts.of(hg.critical_path(graph_of_run(make(seed, followed=False)), hg.whole()))
            advice = next((one for one in judgement(facts) if one.advice is not None and one.advice.rule == rule), None)
            if advice is not None and advice.saves_ns is not None:
                after_ns = _length_of_same(facts, graph_of_run(make(seed, followed=True)))
                yield Asked([advice], {advice.id: _claim("own programs", advice, facts, after_ns)})


def jobs(seeds: Iterable[int]) -> Iterator[Asked]:
    """Ask jobs, and their first rank alone, that all ranks follow what is found."""
    for seed in seeds:
        for scenario in SCENARIOS:
            if scenario == "wide":
                continue
            for backend in ("nccl", "gloo"):
                job = job_of(scenario, backend, seed)
                subject = Subject(job.ranks)
                for source in ("jobs", ALONE):
                    yield asked_of(partial(_rerun_job, job, subject, source == ALONE), subject, source)


def _rerun_job(job: JobProgram, subject: Subject, alone: bool, edit: Edit | None) -> hg.DependencyGraph:
    ranks = {rank: edit.applied(own, subject) if edit else own for rank, own in job.ranks.items()}
    with tempfile.TemporaryDirectory() as folder:
        paths = record_job(simulate_job(replace(job, ranks=ranks)), Recording(ids=True), Path(folder)).paths
        return hg.build_graph(hg.read_trace(paths[0])) if alone else hg.read_job(paths)


def asked_of_ranks(job: hg.JobGraph, late: set[int], usual_ns: float, source: str) -> Asked:
    """Compare the ranks that the judgement names with a run without what was injected; others save nothing."""
    facts = PathFacts.of(hg.critical_path(job))
    findings, claims = judgement(facts), {}
    for one in findings:
        rank = one.id.removeprefix("rank:")
        if rank.isdigit() and one.saves_ns is not None:
            claims[one.id] = _claim(source, one, facts, usual_ns if int(rank) in late else facts.priced.length_ns)
    return Asked(findings, claims)


def delayed_jobs(seeds: Iterable[int]) -> Iterator[Asked]:
    """Ask jobs on machines that other programs use more or less, with a delayed rank and without."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for noise in NOISES:
                for schedule in SCHEDULES:
                    slow, usual, late = simulated_pair(Path(folder), schedule, noise, seed)
                    lengths = [one.iteration_ns for one in step_lengths(usual) if one.is_candidate]
                    yield asked_of_ranks(slow, {late}, median(lengths), "delayed jobs")
                    yield asked_of_ranks(usual, set(), 0, "without delay")


def recorded_jobs(folders: Sequence[Path] = FOLDERS) -> Iterator[Asked]:
    """Ask recorded jobs with a fault in one rank, and once each those without it."""
    seen = set()
    for _, job, rank, base in recorded_pairs(folders):
        yield asked_of_ranks(job, {rank}, median(lengths_of_steps(base)), "recorded jobs")
        if base not in seen:
            seen.add(base)
            yield asked_of_ranks(hg.read_job(sorted(base.glob("rank*.json.gz"))), set(), 0, "recorded, no fault")


def oracle() -> Iterator[tuple[str, float, float]]:
    """Yield slow-downs of a public job by the replay of this package, and as they were published."""
    for path in sorted((SHARED / "oracle_whatif").glob("trace-*.parquet")):
        name = path.stem.removeprefix("trace-")
        found, published = (
            dict(numbers_of(of)) for of in (StragglerAnswers.of(public_job(name)).report(), published_results(name))
        )
        yield from ((key, found[key], published[key]) for key in published if published[key] is not None)


# -- figures -----------------------------------------------------------------------------------------------------------


def table(asked: Sequence[Asked]) -> Iterator[str]:
    """Print a line for each kind of claim and confidence, then what it is made of."""
    groups: dict[tuple[str, str, str], list[Claim]] = defaultdict(list)
    for one in asked:
        for claim in one.claims.values():
            for kind, source in (("all", ""), (claim.finding.kind, ""), (claim.finding.kind, claim.source)):
                groups[claim.finding.confidence, kind, source].append(claim)
    yield f"{'confidence':<11}{'kind':<10}{'':<20}{'claims':>7}{'in 10%':>8}{'in 25%':>8}{'ratio':>7}"
    for (confidence, kind, source), own in sorted(groups.items(), key=lambda item: ORDER.index(item[0][0])):
        true = [sum(one.comes_true(tolerance) for one in own) / len(own) for tolerance in TOLERANCES]
        yield f"{confidence:<11}{kind:<10}{source:<20}{len(own):>7}{true[0]:>8.1%}{true[1]:>8.1%}{ratio(own):>7.2f}"


ORDER = ("high", "medium", "low")


def ratio(claims: Iterable[Claim]) -> float:
    """Return what claims save by what they promise, each as a share of its window."""
    shares = [(one.realised_ns / one.window_ns, one.claimed_ns / one.window_ns) for one in claims]
    return sum(saved for saved, _ in shares) / max(sum(promised for _, promised in shares), 1e-9)


def of_first(asked: Sequence[Asked]) -> Iterator[str]:
    """Say what following the first finding saves, in this order and in yesterday's."""
    for name, key in (("this order", None), ("yesterday's order", lambda one: -(one.saves_ns or 0))):
        found = [claim for one in asked if (claim := one.first(key)) is not None]
        count = max(len(found), 1)
        claimed, saved, expected = (
            sum(ns / claim.window_ns for claim, ns in zip(found, of, strict=True)) / count
            for of in (
                [one.claimed_ns for one in found],
                [one.realised_ns for one in found],
                [one.finding.expected_ns or 0 for one in found],
            )
        )
        true = sum(one.comes_true(TOLERANCES[1]) for one in found) / count
        shares = f"claims {claimed:.1%} of the window, expected {expected:.1%}, saved {saved:.1%}"
        yield f"first in {name}: {len(found)} followed; {shares}; {true:.0%} true within 25%"


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=40, help="jobs of each kind are fewer: one for each forty")
    parser.add_argument("--first", type=int, default=5_000, help="the first seed: confidence was chosen with others")
    options = parser.parse_args(argv)
    seeds = range(options.first, options.first + options.programs)
    asked = [*one_rank(seeds), *own_programs(seeds[::4]), *jobs(seeds[::40])]
    asked += [*delayed_jobs(seeds[::20]), *recorded_jobs()]
    unknown = sum(one.saves_ns is None and one.kind != "recording" for every in asked for one in every.findings)
    claims = [claim for every in asked for claim in every.claims.values()]
    vain = [claim for claim in claims if claim.is_vain]
    close = [abs(found - true) <= TOLERANCES[0] * abs(true) for _, found, true in oracle()]
    sys.stdout.write("\n".join([*table(asked), *of_first(asked), ""]))
    sys.stdout.write(f"advice that saves less than 1%: {len(vain)}; savings unknown: {unknown} findings\n")
    sys.stdout.write(f"what-if oracle: {sum(close)} of {len(close)} numbers within 10%\n")


if __name__ == "__main__":
    main()
