"""Who is charged for waiting, beside what was injected, in simulated jobs; ``python -m tests.wait_cause_accuracy``.

A job is asked about if a delay was injected after its first step, and causes most of its waiting: without it, the same
job waits less than half as long. It is *named first* if the first cause is the rank that was delayed and the row that
took too long (or its class, where no row did). In every job the waiting charged is the waiting.

``--longer`` asks instead what the verdict of the delayed step says of short delays, which a GPU's work may hide: what
the rank does meanwhile, and what it takes longer for; each, and the first cause, beside what was injected.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import verdict_of
from analyses.judgement.pricing import with_savings
from analyses.judgement.verdict import takes_longer_text
from hta_graph.multi_rank.wait_causes import WaitCauses
from tests.matching_accuracy import SCENARIOS, random_shape
from tests.simulator.ranks import Fault, JobRun, JobShape, Recording, record_job, simulate_job

BACKENDS = ("nccl", "gloo")
SAID = ("meanwhile", "longer", "first cause")


@dataclass
class Score:
    """How causes fared on some jobs."""

    jobs: int = 0
    asked: int = 0
    named_first: int = 0
    rank_first: int = 0
    waited_ns: int = 0
    unknown_ns: int = 0
    others: list[str] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Count what another one counts."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def delayed_shape(scenario: str, backend: str, seed: int) -> JobShape:
    """Return the shape of a random job with one delay, after its first step, that is long beside its layers."""
    shape, rng = random_shape(scenario, backend, seed), random.Random(f"delay {scenario} {backend} {seed}")
    steps = max(shape.steps, 2 if scenario == "wide" else 3)
    fault = Fault(
        rng.randrange(34 if scenario == "wide" else shape.ranks),
        rng.randrange(1, 2 if scenario == "wide" else steps),
        rng.choice(("data", "forward", "backward", "optimizer")),
        rng.randint(5, 40) * 1_000_000,
        rng.random() < 0.5,
    )
    return replace(shape, steps=steps, compute_ns=min(shape.compute_ns, 300_000), faults=(fault,))


def prove(scenario: str, backend: str, seed: int) -> Score:
    """Charge the waiting of one random job and look for what was injected."""
    shape = delayed_shape(scenario, backend, seed)
    job = simulate_job(SCENARIOS[scenario](shape))
    case = f"{scenario} {backend} {seed}"
    with tempfile.TemporaryDirectory() as folder:
        recorded = record_job(job, Recording(ids=bool(seed % 2)), Path(folder))
        found = hg.read_job(recorded.paths)
        causes, members = WaitCauses(found), found.members
        attributed = causes.attribute()
        names = {(delay.rank, delay.name) for delay in recorded.delays()}
    unknown = int(attributed.caused[attributed.activity < 0].sum())
    score = Score(jobs=1, waited_ns=int(attributed.caused.sum()), unknown_ns=unknown)
    if int(members.wait[members.number >= 0].sum()) != score.waited_ns:
        score.unbalanced.append(case)
    if not names or not causes_most(scenario, shape, job):
        return score
    score.asked = 1
    known = attributed.take(attributed.activity >= 0)
    first = (int(known.rank[0]), causes.activities.name[known.activity[0]]) if len(known) else None
    score.named_first, score.rank_first = int(first in names), int(first is not None and first[0] in dict(names))
    if first not in names:
        score.others.append(f"{case}: {first} instead of {sorted(names)}")
    return score


def causes_most(scenario: str, shape: JobShape, job: JobRun) -> bool:
    """Tell whether a job waits less than half as long without its delay."""
    return 2 * _true_waiting(simulate_job(SCENARIOS[scenario](replace(shape, faults=())))) < _true_waiting(job)


def _true_waiting(job: JobRun) -> int:
    return sum(one.true_wait(member) for one, member in job.meetings())


def briefly_delayed(scenario: str, backend: str, seed: int) -> JobShape:
    """Return the same shape with a delay as long as a few of its layers: its rank may compute while the others wait."""
    shape, rng = delayed_shape(scenario, backend, seed), random.Random(f"brief {scenario} {backend} {seed}")
    fault = shape.faults[0]
    length = int(shape.compute_ns * shape.layers * rng.uniform(0.3, 4))
    return replace(shape, faults=(replace(fault, ns=length, on_host=fault.on_host or fault.phase == "data"),))


def said_of(scenario: str, backend: str, seed: int) -> Counter[str]:
    """Compare what the verdict of a delayed step says with what was injected, where it tells of a saving."""
    shape = briefly_delayed(scenario, backend, seed)
    with tempfile.TemporaryDirectory() as folder:
        recorded = record_job(simulate_job(SCENARIOS[scenario](shape)), Recording(ids=bool(seed % 2)), Path(folder))
        names = {(delay.rank, delay.name) for delay in recorded.delays()}
        job = hg.read_job(recorded.paths)
        facts = PathFacts(hg.critical_path(job, hg.step(shape.faults[0].step)))
        said = with_savings(facts, verdict_of(facts)[:1])[0]
        counts = Counter(jobs=1)
        if said.rule != "held_up_by_rank" or not names or not facts.is_notable(said.saves_ns or 0):
            return counts
        rank, meanwhile = said.evidence["rank"], said.evidence["meanwhile"]
        causes = WaitCauses(job)
        attributed = causes.attribute()
    first = causes.activities.name[attributed.activity[0]] if len(attributed) and attributed.activity[0] >= 0 else None
    cause = (int(attributed.rank[0]), first) if len(attributed) else None
    counts.update(["told", f"meanwhile {_judged(meanwhile and (rank, meanwhile[0]['name']), names)}"])
    counts.update([f"first cause {_judged(cause, names)}"])
    if takes_longer_text(said, facts):
        assert said.takes_longer
        counts.update([f"longer {_judged((rank, said.takes_longer[0]), names)}"])
    return counts


def _judged(said: object, names: set[tuple[int, str | None]]) -> str:
    return "right" if said in names else "wrong"


def longer_table(options: argparse.Namespace) -> str:
    """Print for each back end what was said, and how much of it is what was injected."""
    columns = ("jobs", "told", *(f"{what} {how}" for what in SAID for how in ("right", "wrong")))
    lines = ["| back end | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for backend in BACKENDS:
        counts: Counter[str] = Counter()
        for scenario in SCENARIOS:
            if scenario != "wide":
                for seed in range(options.first, options.first + options.seeds):
                    counts += said_of(scenario, backend, seed)
        lines.append(f"| {backend} | " + " | ".join(str(counts[column]) for column in columns) + " |")
    return "\n".join(lines)


def table(scores: Iterable[tuple[str, Score]]) -> str:
    """Print scores, one line each."""
    lines = [
        "| jobs | all | asked | rank first | named first | waited (s) | not known |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, score in scores:
        unknown = score.unknown_ns / max(score.waited_ns, 1)
        cells = (name, score.jobs, score.asked, score.rank_first, score.named_first, f"{score.waited_ns / 1e9:.2f}")
        lines.append("| " + " | ".join(map(str, cells)) + f" | {unknown:.1%} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the tables; exit status 1 if the charges of any job do not add up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--longer", action="store_true", help="what the verdict says of the rank that is late")
    options = parser.parse_args(argv)
    if options.longer:
        print(longer_table(options))  # noqa: T201
        return 0
    scores: dict[str, Score] = defaultdict(Score)
    for scenario in SCENARIOS:
        for backend in BACKENDS:
            for seed in range(options.first, options.first + options.seeds):
                scores[f"{scenario}, {backend}"].add(prove(scenario, backend, seed))
    total = Score()
    for score in scores.values():
        total.add(score)
    print(table([*scores.items(), ("all", total)]))  # noqa: T201
    print("\n".join(total.others + total.unbalanced))  # noqa: T201
    return int(bool(total.unbalanced))


if __name__ == "__main__":
    sys.exit(main())
