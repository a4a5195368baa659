"""Whether one run is slower than another: equal programs, and programs that became slower, both noisy.

Pieces of work vary by 3%, steps together by 1%. Programs have steps of one kind, of several kinds in turn, or pauses;
of equal ones the pace may also wander or stall. What makes a program slower is everything, a kernel, or the host: by 3%
or more, of 20 steps by 2%, by a simulation without noise. The limit of all questions is 1%.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.simulator import Program, ThreadProgram, pytorch_idioms, simulate
from tests.simulator.program import Gap, Statement
from tests.simulator.window_lengths import whole_span
from tests.support.noisy_runs import noisy_file, slower_pieces
from tests.support.step_programs import SCRIPTS, stalling, wandering
from tests.tool_comparison.question import Posed, Question, Truth

SPREAD, COMMON = 0.03, 0.01
STEPS = (12, 20)
LEAST_SLOWER = {12: 0.03, 20: 0.02}
"""By what share a run of this number of steps is slower at least."""
KERNEL = "ampere_sgemm_64x32_tn"
CAUSES = ("everything", "kernel", "host")
TRIES = 50
PACES: Mapping[str, Callable[[int], Callable[[int], float]]] = {
    "steady": lambda _: lambda _: 1.0,
    "wandering": lambda seed: wandering(seed, 0.02),
    "stalling": lambda seed: stalling(seed, 0.15, 1.4),
}
"""How the steps of a run vary together, besides."""


def equal_pair(script: str, seed: int) -> Question:
    """Ask whether a run is slower than another one of the same program."""

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"equal {script} {seed}")
        steps, pace = rng.choice(STEPS), rng.choice(list(PACES))
        inputs = tuple(
            _recorded(folder, rng, script, steps, {"pace_of": PACES[pace](rng.randrange(1 << 30))}) for _ in range(2)
        )
        return Posed(inputs, Truth(frozenset({False})), {"recipe": f"{steps} steps, {pace} pace"})

    return _question(f"{script}-equal-{seed}", f"simulated script ({script} steps), recorded twice", pose)


def slower_pair(script: str, cause: str, seed: int) -> Question:
    """Ask whether a run is slower than one of the program before a change."""

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"slower {script} {cause} {seed}")
        for _ in range(TRIES):
            steps, change = rng.choice(STEPS), _change(script, cause, rng)
            slower_by = _length_ns(steps, script, change) / _length_ns(steps, script, {}) - 1
            if slower_by >= LEAST_SLOWER[steps]:
                inputs = _recorded(folder, rng, script, steps, {}), _recorded(folder, rng, script, steps, change)
                return Posed(inputs, Truth(frozenset({True})), {"recipe": f"{steps} steps, {slower_by:.1%} slower"})
        raise AssertionError(f"nothing makes {script} slower by {cause}")

    return _question(f"{script}-{cause}-{seed}", f"simulated script ({script} steps), then slower by {cause}", pose)


def _question(name: str, recipe: str, pose: Callable[[Path], Posed]) -> Question:
    return Question(
        f"regression/{name}", "regression", "slower", "Is the second run slower by more than 1%?", recipe, pose
    )


def _change(script: str, cause: str, rng: random.Random) -> dict[str, Any]:
    if cause == "everything":
        share = rng.uniform(0.02, 0.1)
        return {"pace_of": lambda _: 1 + share}
    if cause == "kernel":
        return {"slower": {KERNEL: rng.uniform(1.1, 1.6)}}
    pause_ns = rng.randint(10_000, 200_000)

    def pausing(number: int) -> Statement:
        step: Any = SCRIPTS[script](number)
        return replace(step, body=(*step.body, *pytorch_idioms.item(2_000), Gap(pause_ns)))  # type: ignore[no-any-return]

    return {"script": pausing}


def _recorded(folder: Path, rng: random.Random, script: str, steps: int, change: Mapping[str, Any]) -> Path:
    own: dict[str, Any] = {"spread": SPREAD, "common": COMMON, "script": SCRIPTS[script], **change}
    return noisy_file(folder, rng.randrange(1 << 30), steps=steps + 1, **own)


def _length_ns(steps: int, script: str, change: Mapping[str, Any]) -> int:
    """Return how long a script runs without noise."""
    made, pace_of = change.get("script", SCRIPTS[script]), change.get("pace_of", PACES["steady"](0))
    slower = change.get("slower", {})
    body = tuple(slower_pieces(made(number), pace_of(number), slower) for number in range(1, steps + 1))
    start, end = whole_span(simulate(Program((ThreadProgram(body),))))
    return end - start


def questions(first: int) -> Iterator[Question]:
    """Return the questions about pairs of runs, by the first seed."""
    for script in SCRIPTS:
        for seed in range(first, first + 4):
            yield equal_pair(script, seed)
        for cause in CAUSES if script != "host" else CAUSES[:1]:
            yield slower_pair(script, cause, first)
