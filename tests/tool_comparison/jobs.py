"""Simulated jobs: which rank delays the others, what it does meanwhile, and jobs that nothing delays.

Each delay makes the job wait at least twice as long as a second simulation without it. In half of the
jobs other programs take the processors away from every rank now and then, the same times with and without delay.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from tests.simulator.program import Gap, Launch, Statement
from tests.simulator.ranks import (
    Fault,
    JobProgram,
    JobRun,
    JobShape,
    Recording,
    ddp,
    experts,
    fsdp,
    gpipe,
    meshes,
    pipeline,
    record_job,
    rooted,
    simulate_job,
    tensor_parallel,
)
from tests.simulator.ranks.scripts import Backend, Phase
from tests.simulator.rewriting import statements
from tests.tool_comparison.question import HEALTHY, Posed, Question, Truth

SCHEDULES: Mapping[str, Callable[[JobShape], JobProgram]] = {
    "ddp": ddp,
    "fsdp": fsdp,
    "pipeline": partial(pipeline, buffered=True),
    "gpipe": gpipe,
    "tensor": tensor_parallel,
    "experts": experts,
    "rooted": rooted,
    "meshes": meshes,
}
"""Ways to spread training over ranks, and the simulator's programs for them."""
BACKENDS: tuple[Backend, ...] = ("nccl", "gloo")
PHASES: Mapping[str, tuple[Phase, ...]] = {
    "experts": ("forward", "data"),
    "rooted": ("data", "forward", "optimizer"),
}
STAGED = {"pipeline": 3, "gpipe": 3}
"""Schedules whose ranks wait without a delay, too, and how much longer theirs are."""
ANY_WORK: tuple[Phase, ...] = ("forward", "backward", "optimizer")
ANY_PHASE: tuple[Phase, ...] = ("data", "forward", "backward")
PATTERNS = ("every step", "since", "once")
TRIES = 200
NOISE = 0.1
"""What other programs take away of a step."""


@dataclass(frozen=True)
class Drawn:
    """A job with a delay, the same without it, and what was delayed."""

    job: JobRun
    usual: JobRun
    shape: JobShape
    late: int
    phase: Phase
    pattern: str
    noisy: bool

    @property
    def recipe(self) -> str:
        """Say how the job was made."""
        noise = ", noisy" if self.noisy else ""
        return f"{self.shape.ranks} ranks, {self.shape.steps} steps, delay in {self.phase} ({self.pattern}){noise}"


def stolen_time(shape: JobShape, rng: random.Random) -> list[Fault]:
    """Return when other programs have the processors of a job's ranks, on all ranks alike."""
    found: list[Fault] = []
    for step in range(shape.steps):
        lost_ns = NOISE * rng.lognormvariate(0, 0.3) * 3 * shape.layers * shape.compute_ns
        for rank, phase in product(range(shape.ranks), ANY_WORK):
            found += [Fault(rank, step, phase, round(rng.expovariate(3 / lost_ns)))]
    return found


def plain_shape(schedule: str, backend: Backend, rng: random.Random) -> JobShape:
    """Draw the size of a job."""
    return JobShape(
        4 if schedule == "meshes" else rng.choice((2, 4) if schedule in STAGED else (2, 4, 4, 8)),
        rng.choice((5, 6, 8)),
        rng.randint(2, 4),
        rng.choice((300_000, 1_000_000)),
        rng.choice((20_000, 150_000)),
        rng.randrange(1 << 20),
        backend,
    )


def drawn_job(schedule: str, backend: Backend, seed: object, pattern: str | None = None) -> Drawn:
    """Draw jobs until one waits at least twice as long as it does without its delay."""
    rng = random.Random(f"late {schedule} {backend} {seed}")
    for _ in range(TRIES):
        shape = plain_shape(schedule, backend, rng)
        late, phase = rng.randrange(shape.ranks), rng.choice(PHASES.get(schedule, ANY_PHASE))
        drawn_pattern, noisy = pattern or rng.choice(PATTERNS), rng.random() < 0.5
        first = rng.randrange(1, shape.steps - 1)
        steps = {"every step": range(shape.steps), "since": range(first, shape.steps), "once": range(first, first + 1)}
        ns = round(rng.uniform(0.5, 4) * 3 * STAGED.get(schedule, 1) * shape.layers * shape.compute_ns)
        on_host = phase == "data" or (backend == "nccl" and rng.random() < 0.3)
        delays = [Fault(late, step, phase, ns, on_host) for step in steps[drawn_pattern]]
        noise = stolen_time(shape, rng) if noisy else []
        job, usual = (
            simulate_job(SCHEDULES[schedule](replace(shape, faults=own))) for own in ([*delays, *noise], noise)
        )
        if 2 * waiting_ns(usual) < waiting_ns(job):
            return Drawn(job, usual, shape, late, phase, drawn_pattern, noisy)
    raise AssertionError(f"no delay makes {schedule} {backend} {seed} wait")


def waiting_ns(job: JobRun) -> int:
    """Return how long all ranks wait for others in truth."""
    return sum(one.true_wait(member) for one, member in job.meetings())


# -- questions --------------------------------------------------------------------------------------------------------


def late_rank(schedule: str, backend: Backend, seed: int) -> Question:
    """Ask which rank delays a job."""

    def pose(folder: Path) -> Posed:
        drawn = drawn_job(schedule, backend, seed)
        recorded = record_job(drawn.job, Recording(ids=bool(seed % 2)), folder)
        return Posed(tuple(recorded.paths), Truth(frozenset({drawn.late}), all_of_them=True), {"recipe": drawn.recipe})

    return Question(
        f"rank/{schedule}-{backend}-{seed}", "rank", "late_rank", "Which rank delays the others?",
        f"simulated {schedule} on {backend} with one late rank", pose,
    )  # fmt: skip


CLASSES: Mapping[Phase, frozenset[str]] = {
    "data": frozenset({"data_loading", "cpu_bound"}),
    "forward": frozenset({"gpu_compute_bound", "cpu_bound"}),
    "backward": frozenset({"gpu_compute_bound", "cpu_bound"}),
    "optimizer": frozenset({"gpu_compute_bound", "cpu_bound"}),
}


def late_rank_cause(schedule: str, backend: Backend, seed: int) -> Question:
    """Ask what the late rank of a job does while the others wait: the row that was made longer, or one around it."""

    def pose(folder: Path) -> Posed:
        drawn = drawn_job(schedule, backend, f"cause {seed}")
        recorded = record_job(drawn.job, Recording(ids=bool(seed % 2)), folder)
        longest = max(one.end_ns - one.start_ns for one in recorded.delays() if one.rank == drawn.late)
        names = {
            one.name for one in recorded.delays() if one.rank == drawn.late and one.end_ns - one.start_ns == longest
        }
        truth = Truth(frozenset(names), CLASSES[drawn.phase])
        return Posed(tuple(recorded.paths), truth, {"recipe": drawn.recipe, "rank": drawn.late})

    return Question(
        f"cause/job-{schedule}-{backend}-{seed}", "cause", "late_rank_cause",
        "What does the late rank do while the others wait?", f"simulated {schedule} on {backend} with one late rank",
        pose,
    )  # fmt: skip


BALANCED = ("ddp", "fsdp", "pipeline", "gpipe", "tensor")
"""Schedules whose ranks have the same work; in the others layers take different time on each rank."""
MOST_UNBALANCED = 0.05
"""A job is healthy if no rank has more work, by more than this share, than half of the ranks have at most."""


def sound_job(schedule: str, backend: Backend, seed: int) -> Question:
    """Ask which rank delays a job that no rank delays; in half of them every step takes its own time, on all ranks."""

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"sound {schedule} {backend} {seed}")
        for _ in range(TRIES):
            shape, varies = plain_shape(schedule, backend, rng), rng.random() < 0.5
            program = SCHEDULES[schedule](replace(shape, faults=longer_steps(shape, rng) if varies else []))
            if unbalanced(program) <= MOST_UNBALANCED:
                recorded = record_job(simulate_job(program), Recording(ids=bool(seed % 2)), folder)
                return Posed(tuple(recorded.paths), HEALTHY, {"recipe": "steps vary" if varies else "steps alike"})
        raise AssertionError(f"each job of {schedule} {backend} {seed} is unbalanced")

    return Question(
        f"healthy/job-{schedule}-{backend}-{seed}", "healthy", "any_late_rank", "Does a rank delay the others?",
        f"simulated {schedule} on {backend} without a delay", pose,
    )  # fmt: skip


def longer_steps(shape: JobShape, rng: random.Random) -> list[Fault]:
    """Let every step take longer by a time of its own, on all ranks nearly alike."""
    found: list[Fault] = []
    for step in range(shape.steps):
        lost_ns = rng.expovariate(1 / NOISE) * 3 * shape.layers * shape.compute_ns
        for rank in range(shape.ranks):
            found += [Fault(rank, step, "forward", round(lost_ns * rng.uniform(0.9, 1.1)))]
    return found


def unbalanced(program: JobProgram) -> float:
    """Return by which share the rank with most work has more than the median rank."""
    work = sorted(sum(map(_work_ns, statements(own))) for own in program.ranks.values())
    return work[-1] / median(work) - 1


def _work_ns(found: tuple[Statement, object]) -> int:
    statement = found[0]
    return statement.ns or 0 if isinstance(statement, Gap | Launch) else 0


def questions(first: int) -> Iterator[Question]:
    """Return the questions about simulated jobs, by the first seed."""
    for schedule in SCHEDULES:
        for backend in BACKENDS:
            for seed in range(first, first + (3 if backend == "nccl" else 2)):
                yield late_rank(schedule, backend, seed)
            if schedule != "rooted":
                yield late_rank_cause(schedule, backend, first)
            if schedule in BALANCED:
                for seed in (first, first + 1):
                    yield sound_job(schedule, backend, seed)
