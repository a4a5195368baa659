"""Simulated training scripts whose steps differ from each other: in what they do, or only in how long they take."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from tests.simulator import pytorch_idioms
from tests.simulator.program import Annotation, Body, Gap, Op, Statement
from tests.support.make_samples import training_step

Script = Callable[[int], Statement]


def _layers(first: int, count: int, ns: int) -> Body:
    forward = [part for layer in range(count) for part in pytorch_idioms.forward(first + layer, ns)]
    return (*forward, *(pytorch_idioms.backward(first + layer, 2 * ns) for layer in reversed(range(count))))


def alternating(number: int) -> Statement:
    """Every other step does the work of two."""
    large = (Annotation("large", _layers(1_000 * number, 4, 60_000)),) if number % 2 else ()
    return pytorch_idioms.step(number, (*_layers(10 * number, 4, 60_000), *large, *pytorch_idioms.item(4_000)))


def accumulating(number: int) -> Statement:
    """Four steps accumulate gradients, the last one of them reduces and updates."""
    last = number % 4 == 0
    update = (pytorch_idioms.all_reduce(10 * number, 180_000), *pytorch_idioms.optimizer(3, 20_000)) if last else ()
    return pytorch_idioms.step(number, (*_layers(10 * number, 4, 60_000), *update, *pytorch_idioms.item(4_000)))


def saving(number: int) -> Statement:
    """Every fifth step saves a checkpoint: the model is read from the GPU and written by the host."""
    save = Annotation("save_checkpoint", (*pytorch_idioms.item(50_000), Gap(1_500_000)))
    body = (*_layers(10 * number, 4, 60_000), *pytorch_idioms.item(4_000), *((save,) if number % 5 == 0 else ()))
    return pytorch_idioms.step(number, body)


def collecting(number: int) -> Statement:
    """Python collects garbage in every fourth step, which leaves no row."""
    pause = (Gap(400_000),) if number % 4 == 0 else ()
    return pytorch_idioms.step(number, (*_layers(10 * number, 4, 60_000), *pytorch_idioms.item(4_000), *pause))


def on_the_host(number: int) -> Statement:
    """Operators on the CPU alone, two kinds of steps."""
    count = 12 if number % 2 else 6
    body = tuple(Op("aten::mm", (Gap(40_000),)) for _ in range(count))
    return pytorch_idioms.step(number, (*body, *((Annotation("evaluate", body),) if number % 2 else ())))


SCRIPTS: dict[str, Script] = {
    "plain": training_step,
    "alternating": alternating,
    "accumulating": accumulating,
    "saving": saving,
    "collecting": collecting,
    "host": on_the_host,
}


OF_ONE_KIND: dict[str, Callable[[int], bool]] = {
    "alternating": lambda number: number % 2 == 1,
    "accumulating": lambda number: number % 4 == 0,
    "saving": lambda number: number % 5 != 0,
    "host": lambda number: number % 2 == 1,
}
"""Which steps are of one kind, by number, where there are several kinds."""


def drifting(share: float) -> Callable[[int], float]:
    """Let each step take longer than the one before, by a share of the first."""
    return lambda number: 1 + share * number


def wandering(seed: int, spread: float, likeness: float = 0.6) -> Callable[[int], float]:
    """Let the pace of each step resemble that of the one before."""

    @cache
    def pace(number: int) -> float:
        own = random.Random(f"{seed} {number}").gauss(0, spread)
        return own if number <= 0 else likeness * pace(number - 1) + (1 - likeness**2) ** 0.5 * own

    return lambda number: 1 + pace(number)


def stalling(seed: int, share: float, times: float) -> Callable[[int], float]:
    """Let a share of the steps, by chance, take several times as long."""
    return lambda number: times if random.Random(f"{seed} {number}").random() < share else 1.0
