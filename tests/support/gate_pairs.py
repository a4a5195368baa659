"""Pairs of runs for the gate: simulated scripts whose steps vary by chance, and the parts of one recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from analyses.compare.diff.step_kinds import kinds_of_contents
from analyses.compare.gate.run_profile import RunProfile, profile_of
from hta_graph.model import Ints
from tests.simulator import pytorch_idioms
from tests.simulator.program import Annotation, Gap, Op, Statement
from tests.support.make_samples import Script, training_step
from tests.support.noisy_runs import noisy_run
from tests.support.step_programs import SCRIPTS, stalling, wandering

KERNEL = "ampere_sgemm_64x32_tn"
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STEP_NOISE = 0.01
PIECE_NOISE = 0.01
AR_LIKENESS = 0.3
STALLED, STALL = 0.05, 1.2
"""Which share of steps hangs, and how many times as long they then take."""
NOISES = ("independent", "resembling", "outliers")

StepScript = Callable[[int], Statement]


def pace_of(noise: str, seed: int) -> tuple[Callable[[int], float], float]:
    """Return how steps vary together, and the noise of each step on its own."""
    if noise == "resembling":
        return wandering(seed, STEP_NOISE, AR_LIKENESS), 0.0
    if noise == "outliers":
        return stalling(seed, STALLED, STALL), STEP_NOISE
    return (lambda _: 1.0), STEP_NOISE


def with_host_work(ns: int, number: int) -> Statement:
    """A step of operators on the host, one of which takes some time."""
    body = (*(Op("aten::mm", (Gap(40_000),)) for _ in range(10)), Op("aten::cumsum", (Gap(ns),)))
    return pytorch_idioms.step(number, body)


def with_metrics(count: int, number: int) -> Statement:
    """A step of operators on the host that ends with some more of another kind."""
    body = tuple(Op("aten::mm", (Gap(40_000),)) for _ in range(10))
    more = (Annotation("metrics", tuple(Op("aten::histc", (Gap(count),)) for _ in range(1))),) if count else ()
    return pytorch_idioms.step(number, (*body, *more))


@dataclass(frozen=True)
class Cause:
    """What makes a simulated script slower: a function of its size, the size without, and what a gate must name."""

    name: str
    script: Callable[[float], tuple[StepScript, dict[str, float]]]
    without: float
    expected: tuple[str, ...]


def _kernel(factor: float) -> tuple[StepScript, dict[str, float]]:
    return training_step, {KERNEL: factor}


def _collective(factor: float) -> tuple[StepScript, dict[str, float]]:
    return training_step, {COLLECTIVE: factor}


def _loading(ns: float) -> tuple[StepScript, dict[str, float]]:
    return partial(training_step, script=Script(load_ns=round(ns), log_ns=20_000)), {}


def _logging(ns: float) -> tuple[StepScript, dict[str, float]]:
    return partial(training_step, script=Script(log_ns=round(ns))), {}


def _host(ns: float) -> tuple[StepScript, dict[str, float]]:
    return partial(with_host_work, round(ns)), {}


def _metrics(ns: float) -> tuple[StepScript, dict[str, float]]:
    return partial(with_metrics, round(ns)), {}


CAUSES = (
    Cause("a slower kernel", _kernel, 1.0, (KERNEL,)),
    Cause("a slower collective", _collective, 1.0, (COLLECTIVE,)),
    Cause("slower data loading", _loading, 380_000, ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",)),
    Cause("slower Python", _logging, 60_000, ("train.py: log_loss",)),
    Cause("a slower operator", _host, 40_000, ("aten::cumsum",)),
    Cause("new operators", _metrics, 0.0, ("aten::histc", "metrics")),
)


def run(folder: Path, seed: int, steps: int, cause: Cause, size: float, noise: str) -> RunProfile:
    """Record a script once."""
    script, slower = cause.script(size)
    pace, common = pace_of(noise, seed)
    graph = noisy_run(
        folder, seed, steps=steps + 1, spread=PIECE_NOISE, common=common, slower=slower, script=script, pace_of=pace
    )
    return profile_of(graph, None, "gpu")


def _exact(folder: Path, cause: Cause, size: float) -> float:
    script, slower = cause.script(size)
    graph = noisy_run(folder, 1, steps=5, spread=0.0, common=0.0, slower=slower, script=script)
    return float(np.median(profile_of(graph, None, "gpu").side.lengths_ns))


@cache
def size_of(folder: Path, cause: Cause, share: float) -> float:
    """Return the size of a cause with which steps without noise take longer by a share (by bisection)."""
    base = _exact(folder, cause, cause.without)
    low, high = cause.without, cause.without
    growth = 0.05 if cause.without < 10 else 2_000.0
    while _exact(folder, cause, high) < base * (1 + share):
        low, high, growth = high, high + growth, 2 * growth
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _exact(folder, cause, middle) < base * (1 + share) else (low, middle)
    return high


def plain_run(folder: Path, seed: int, steps: int, script: str, noise: str) -> RunProfile:
    """Record one of the scripts whose steps differ in what they do."""
    pace, common = pace_of(noise, seed)
    graph = noisy_run(
        folder, seed, steps=steps + 1, spread=PIECE_NOISE, common=common, script=SCRIPTS[script], pace_of=pace
    )
    return profile_of(graph, None, "gpu")


def part_of(profile: RunProfile, places: Ints) -> RunProfile:
    """Return a recording of some of its steps alone."""
    side = profile.side
    numbers = side.numbers[places]
    windows = [at for at, number in enumerate(side.path_numbers) if number in set(numbers.tolist())]
    new = {old: at for at, old in enumerate(windows)}
    rows = side.rows
    frames = {
        name: frame[frame["window"].isin(windows)].assign(window=lambda one: one["window"].map(new).astype(np.int64))
        for name in ("classes", "names", "ranks", "causes", "groups")
        for frame in [getattr(rows, name)]
    }
    kept = replace(
        side,
        lengths_ns=side.lengths_ns[places],
        numbers=numbers,
        path_numbers=tuple(side.path_numbers[at] for at in windows),
        rows=replace(rows, count=len(windows), **frames),
    )
    return replace(
        profile,
        side=kept,
        contents=profile.contents.take(places.tolist()),
        latencies_ns=tuple(profile.latencies_ns[at] for at in places.tolist()),
    )


def halves(profile: RunProfile) -> Iterator[tuple[RunProfile, RunProfile]]:
    """Yield the first and the second half of a recording, and its odd and even steps, with at least four steps each.

    The noise of fewer steps comes from the kernels of the usual step, which parts of a recording share. Parts that
    differ in their kinds of steps are no equal programs.
    """
    count = len(profile.side.lengths_ns)
    places, kind = np.arange(count), kinds_of_contents(profile.contents, profile.contents).control
    for one, other in ((places[: count // 2], places[count // 2 :]), (places[::2], places[1::2])):
        if count >= 8 and set(kind[one].tolist()) == set(kind[other].tolist()):
            yield part_of(profile, one), part_of(profile, other)
