"""Simulated recordings of one training script that differ by chance, and by one kernel if one is made slower."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hta_graph as hg
from tests.simulator import Program, ThreadProgram, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.dialect import Dialect
from tests.simulator.program import Statement
from tests.support.make_samples import training_step

__all__ = ["noisy_file", "noisy_run", "slower_pieces"]


def noisy_run(folder: Path, seed: int, **given: Any) -> hg.DependencyGraph:
    """Record a script as :func:`noisy_file` does, and read the recording."""
    return hg.build_graph(hg.read_trace(noisy_file(folder, seed, **given)))


def noisy_file(
    folder: Path,
    seed: int,
    *,
    steps: int = 9,
    spread: float = 0.03,
    common: float = 0.005,
    slower: dict[str, float] | None = None,
    script: Callable[[int], Statement] = training_step,
    pace_of: Callable[[int], float] = lambda _: 1.0,
    first: int = 1,
) -> Path:
    """Record a script whose pieces take a little longer or shorter each time.

    Args:
        folder: where the trace goes.
        seed: of the noise.
        steps: how many are recorded; the first one is a warm-up like any other.
        spread: of every piece of work on its own.
        common: of all pieces of a step together.
        slower: kernel → by which factor it takes longer.
        script: makes a step, given its number.
        pace_of: step → by which factor it takes longer.
        first: the number of the first step.
    """
    rng = random.Random(seed)
    body = []
    for number in range(first, first + steps):
        pace = rng.lognormvariate(0, common) * pace_of(number)
        body.append(slower_pieces(script(number), pace, slower or {}, lambda: rng.lognormvariate(0, spread)))
    run = simulate(Program((ThreadProgram((*body, *pytorch_idioms.finish())),)))
    path = folder / f"{seed}.json"
    path.write_bytes(to_bytes(write(run, Dialect(sync_rows="resolved")).document))
    return path


def slower_pieces(
    statement: Statement, pace: float, slower: dict[str, float], drawn: Callable[[], float] = lambda: 1.0
) -> Any:
    """Let a statement and what is inside take another time: by a pace, by name, and by what is drawn for each piece."""
    found: Any = statement
    changes: dict[str, Any] = {}
    for length in ("ns", "call_ns"):
        if hasattr(found, length):
            factor = slower.get(getattr(found, "name", ""), 1.0) if length == "ns" else 1.0
            changes[length] = max(1, round(getattr(found, length) * factor * pace * drawn()))
    if hasattr(found, "body"):
        changes["body"] = tuple(slower_pieces(part, pace, slower, drawn) for part in found.body)
    return replace(found, **changes) if changes else found
