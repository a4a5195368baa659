"""Whether the verdict of a job finds a rank's delay, in simulated jobs; ``python -m tests.delay_accuracy --jobs N``.

Each job is asked twice: with a rank that is late in every step, since one, in some or in one, by 5 to 100% of a step,
and without. What the delay is worth is how much longer the same simulated job takes with it, per delayed step: the
product has no part in that. *Found* counts delays worth at least 5% of a step; *clear* ones are worth more than the
steps of that job differ by without it (the range of their lengths): of others nothing but their cause shows that they
are no chance. *Wrong* is any other rank that is named, *accused* one of a job without a delay. ``noisy`` are jobs whose
ranks lose 10% of a step to other programs at random.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import hta_graph as hg
from hta_graph.multi_rank.job_verdict import JobVerdict, job_verdict
from tests.rerun_accuracy import NOISES, SCHEDULES, taken_away
from tests.simulator.ranks import Fault, JobProgram, JobRun, JobShape, Recording, record_job, ring, simulate_job

JOBS: Mapping[str, Callable[[JobShape], JobProgram]] = {**SCHEDULES, "ring": ring}
LEAST_WORTH = 0.05
STEPS = 8


@dataclass(frozen=True)
class Asked:
    """A job with a delay and without: what the delay is worth (a share of a step), and what was said of both.

    ``differ`` is by how much the steps of the job without it differ (a share of a step).
    """

    name: str
    worth: float
    differ: float
    late: int
    with_delay: tuple[str, tuple[int, ...]]
    without: tuple[str, tuple[int, ...]]


def asked_job(case: tuple[str, str, int]) -> Asked:
    """Simulate a job with a delay and without, and ask for the verdict of both."""
    schedule, noise, seed = case
    rng = random.Random(f"delay {schedule} {noise} {seed}")
    shape = JobShape(
        4 if schedule in ("meshes", "ring") else rng.choice((2, 4)), STEPS, rng.randint(2, 4),
        rng.choice((300_000, 2_000_000)), seed=seed,
        backend="gloo" if schedule == "ring" else rng.choice(("gloo", "nccl")),
    )  # fmt: skip
    shape = replace(shape, faults=taken_away(shape, NOISES[noise], rng))
    usual = simulate_job(JOBS[schedule](shape))
    late, step_ns = rng.randrange(shape.ranks), length_of(usual) / STEPS
    phase = rng.choice(("forward", "backward") if schedule not in ("experts", "ring") else ("forward",))
    steps = rng.choice((range(2, STEPS), range(4, STEPS), range(3, STEPS, 2), (rng.randrange(2, STEPS - 1),)))
    delay_ns = round(step_ns * math.exp(rng.uniform(math.log(LEAST_WORTH), 0)))
    delayed = [*shape.faults, *(Fault(late, step, phase, delay_ns, rng.random() < 0.3) for step in steps)]
    slow = simulate_job(JOBS[schedule](replace(shape, faults=delayed)))
    worth = (length_of(slow) - length_of(usual)) / len(steps) / step_ns
    differ = range_of_steps(usual) / step_ns
    return Asked(f"{schedule} {noise} {seed}", worth, differ, late, said_of(slow), said_of(usual))


def length_of(run: JobRun) -> int:
    """Return how long a simulated job takes (ns)."""
    events = [event for own in run.runs.values() for event in own.events]
    return max(event.end_ns for event in events) - min(event.start_ns for event in events)


def range_of_steps(run: JobRun) -> int:
    """Return by how much (ns) the steps of a simulated job, but the first, differ in length."""
    events = [event for own in run.runs.values() for event in own.events if event.kind == "annotation"]
    ends = [max(event.end_ns for event in events if event.name == f"ProfilerStep#{step}") for step in range(STEPS)]
    return max(lengths := [end - begin for begin, end in pairwise(ends)]) - min(lengths)


def said_of(run: JobRun) -> tuple[str, tuple[int, ...]]:
    """Return how firm the verdict of a job is, or why it names nobody, and the ranks that it names."""
    with tempfile.TemporaryDirectory() as folder:
        found: JobVerdict = job_verdict(hg.read_job(record_job(run, Recording(), Path(folder)).paths))
    if found.firmness == "none":
        return f"none, {found.reason}", ()
    return found.firmness, tuple(found.ranks) if found.rank is None else (found.rank,)


CLASSES = ((0.05, 0.1), (0.1, 0.25), (0.25, math.inf))
"""Delays by what they are worth."""


def report(found: list[Asked]) -> str:
    """Print how many delays were found, by what they are worth, and how often another rank was named."""
    lines = [f"{2 * len(found)} jobs"]
    for least, most in CLASSES:
        worth = [one for one in found if least <= one.worth < most]
        right = [one.with_delay[0] for one in worth if one.late in one.with_delay[1]]
        missed = Counter(one.with_delay[0] for one in worth if not one.with_delay[1])
        share = f"{len(right)} of {len(worth)} found ({len(right) / max(len(worth), 1):.1%})"
        lines.append(f"from {least:.0%} of a step: {share}, {right.count('hedged')} probably; missed {dict(missed)}")
        clear = [one.late in one.with_delay[1] for one in worth if one.worth > one.differ]
        lines.append(f"  clear ones: {sum(clear)} of {len(clear)} found")
    wrong = [one for one in found if one.with_delay[1] and one.late not in one.with_delay[1]]
    accused = [one for one in found if one.without[1]]
    lines.append(_named("wrong", [(one.name, one.with_delay[0]) for one in wrong]))
    lines.append(_named("accused without a delay", [(one.name, one.without[0]) for one in accused]))
    return "\n  ".join(lines)


def _named(text: str, listed: list[tuple[str, str]]) -> str:
    firm = sum(firmness == "firm" for _, firmness in listed)
    names = ", ".join(name for name, _ in listed[:20])
    return f"{text}: {firm} firm, {len(listed) - firm} probably {names}".rstrip()


def main() -> None:
    """Ask jobs of all schedules in turn, on all processors, and print a summary for each noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100, metavar="N", help="so many with a delay and so many without")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    args = parser.parse_args()
    each = math.ceil(args.jobs / 2 / len(JOBS))
    for noise in ("quiet", "noisy"):
        cases = [(schedule, noise, args.first + seed) for seed in range(each) for schedule in JOBS]
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(asked_job, cases, chunksize=4))
        print(f"{noise}: {report(found)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
