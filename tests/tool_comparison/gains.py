"""What a change saves: simulated programs and jobs are changed as the question says, and run again.

The true length is that of the second run; what was drawn at random stays drawn. Half of the questions are about changes
of much effect, half about any change: much of what looks long saves nothing. A prediction is right within 3% of the
measured length of the run; that a rank becomes like the others is asked of the median step, with 10%.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tests.replay_accuracy import program_of
from tests.simulator import Program, Run, simulate
from tests.simulator.changes import (
    Edit,
    Subject,
    annotation_scaled,
    compute_scaled,
    host_scaled,
    kernel_free,
    kernel_removed,
    kernel_scaled,
    launches_free,
    loading_free,
    operator_scaled,
    syncs_free,
    transfers_free,
    transfers_scaled,
)
from tests.simulator.interference import with_interference
from tests.simulator.ranks import Recording, record_job
from tests.simulator.ranks.engine import JobRun
from tests.simulator.window_lengths import step_span, steps_of, whole_span
from tests.tool_comparison.jobs import BACKENDS, SCHEDULES, drawn_job
from tests.tool_comparison.programs import written
from tests.tool_comparison.question import Posed, Question, Truth

CLOSE, CLOSE_OF_STEP = 0.03, 0.1
EFFECT = 0.05
"""A change of much effect makes the run shorter or longer by at least this share."""
TRIES = 40
KINDS_OF_CHANGE: Mapping[str, Callable[[Subject, random.Random], Edit | None]] = {
    "kernels of a name faster": partial(kernel_scaled, factors=(0.25, 0.5, 0.8)),
    "kernels of a name free": kernel_free,
    "kernels of a name gone": kernel_removed,
    "all computation faster": compute_scaled,
    "an operator faster": operator_scaled,
    "an annotation faster": annotation_scaled,
    "operators on the host faster": host_scaled,
    "no data loading": loading_free,
    "no waits of the host": syncs_free,
    "free launches": launches_free,
    "communication faster": transfers_scaled,
    "free communication": transfers_free,
}


def options(asked: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return a change as the command line takes it."""
    found: list[str] = []
    for how, *what in asked:
        if how == "scale":
            found += ["--scale", f"{what[0]}={what[1]}"]
        else:
            found += [f"--{how}", "=".join(map(str, what))]
    return found


@dataclass(frozen=True)
class Machine:
    """What a machine does that no trace shows in full."""

    queue: int = 1_024
    contended: bool = False
    graphs: bool = False
    run: Callable[[Program], Run] = simulate


USUAL = Machine()
MACHINES: Mapping[str, Machine] = {
    "threads that contend for the driver's lock": Machine(contended=True),
    "a launch queue of 16": Machine(queue=16),
    "branched CUDA graphs": Machine(graphs=True),
    "kernels that slow each other down": Machine(run=with_interference),
}


def changed_program(kind: str, seed: int, *, effective: bool, machine: str | None = None) -> Question:
    """Ask how long a program runs after a change."""
    on = MACHINES[machine] if machine else USUAL

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"gain {kind} {seed} {effective}")
        for _ in range(TRIES):
            drawn = rng.randrange(1 << 30)
            program = program_of(drawn, queue=on.queue, contended=on.contended, graphs=on.graphs)
            subject = Subject({0: program})
            edit = KINDS_OF_CHANGE[kind](subject, rng)
            if edit is None:
                continue
            run, after = on.run(program), on.run(edit.applied(program, subject))
            (start, end), (_, new_end) = whole_span(run), whole_span(after)
            measured, true = end - start, new_end - start
            if effective and abs(measured - true) < EFFECT * measured:
                continue
            truth = Truth(number=true, tolerance=CLOSE * measured)
            given = {"change": [*options(edit.asked), "--whole"], "asked": edit.asked, "measured_ns": measured}
            return Posed((written(run, folder / "trace.json"),), truth, given)
        raise AssertionError(f"no program of {kind} {seed} can be changed so")

    much = ", of much effect" if effective else ""
    much += f", {machine}" if machine else ""
    return Question(
        f"gain/{(machine or kind).replace(' ', '-')}-{'much-' if effective else ''}{seed}", "gain", "new_length",
        "How long does the run take after the change?", f"simulated training script; change: {kind}{much}", pose,
    )  # fmt: skip


def rank_like_others(schedule: str, backend: Any, seed: int) -> Question:
    """Ask how long the median step of a job takes without the delay of a rank."""

    def pose(folder: Path) -> Posed:
        drawn = drawn_job(schedule, backend, f"gain {seed}", pattern="every step")
        recorded = record_job(drawn.job, Recording(ids=bool(seed % 2)), folder)
        measured, true = (median(steps_ns(job)) for job in (drawn.job, drawn.usual))
        change = ["--scenario", f"rank_like_others={drawn.late}"]
        given = {"change": change, "recipe": drawn.recipe, "measured_ns": measured}
        return Posed(tuple(recorded.paths), Truth(number=true, tolerance=CLOSE_OF_STEP * measured), given)

    return Question(
        f"gain/rank-{schedule}-{backend}-{seed}", "gain", "new_length",
        "How long is the median step if the late rank is like the others?",
        f"simulated {schedule} on {backend} with a rank that is late in every step", pose,
    )  # fmt: skip


def steps_ns(job: JobRun) -> list[int]:
    """Return the time from the end of a step's work on all ranks to that of the next one's, the first step left out."""
    ends: dict[int, int] = {}
    for run in job.runs.values():
        for number in steps_of(run):
            ends[number] = max(ends.get(number, 0), step_span(run, number)[1])
    return [later - earlier for earlier, later in pairwise(sorted(ends.values()))]


def questions(first: int) -> Iterator[Question]:
    """Return the questions about savings, by the first seed."""
    for kind in KINDS_OF_CHANGE:
        for seed in (first, first + 1):
            yield changed_program(kind, seed, effective=seed == first)
    for machine in MACHINES:
        for seed in (first, first + 1):
            kind = random.Random(f"{machine} {seed}").choice(list(KINDS_OF_CHANGE))
            yield changed_program(kind, seed, effective=seed == first, machine=machine)
    for schedule in SCHEDULES:
        for backend in BACKENDS:
            yield rank_like_others(schedule, backend, first)
