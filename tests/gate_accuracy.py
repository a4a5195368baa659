"""How often does ``gate`` fail an equal program, and how often does it find a slower one, with the right cause?

``python -m tests.gate_accuracy [--runs N] [--only equal|recorded|slower] [FOLDER…]`` prints two tables. Equal programs:
all pairs of N simulated runs (default: 6) of each script, noise and number of steps, and the parts of each run and of
the recordings in the folders (default: the shared ones): halves, and odd and even steps, of each rank and job; a folder
is compared with its repetition, whose name has a 2 at its end. Slower programs: each of N simulated runs with each of N
that have one cause. In addition to the gate: the rule "the median is more than 5% longer", and the rule of the gate of
nsys-ai 0.3.0.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path

import numpy as np

import hta_graph as hg
from analyses.compare.diff.regression import ruling
from analyses.compare.diff.step_kinds import kinds_of_contents
from analyses.compare.gate.answer_of_gate import causes
from analyses.compare.gate.compare_profiles import compare_profiles
from analyses.compare.gate.run_profile import RunProfile, profile_of
from hta_graph.base.errors import CannotCompareError, HtaGraphError
from hta_graph.model import Ints
from tests.simulator import pytorch_idioms
from tests.simulator.program import Annotation, Gap, Op, Statement
from tests.support.job_pairs import job_of_steps
from tests.support.make_samples import Script, training_step
from tests.support.noisy_runs import noisy_run
from tests.support.shared_traces import SHARED
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


LIMIT = 0.01
USUAL_RULE = 0.05
"""The median is longer by more than this: the usual rule."""
FLOOR, THRESHOLD = 0.02, 0.05
"""The rule of nsys-ai 0.3.0: the total time is longer by at least the second share; below the first it is noise."""
STEPS = (10, 20, 40)
EFFECTS = ((0.02, 20), (0.03, 10), (0.05, 10))
"""By how much a program is slower, and how many steps of each run are recorded."""
CHANGING = re.compile(r".*_(once|since|fault).*")
"""Recordings that change on the way."""


@dataclass
class Tally:
    """Pairs: how many failed by each rule, and in how many the right cause came first."""

    pairs: int = 0
    refused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    right_cause: int = 0

    def add(self, control: RunProfile, test: RunProfile, cause: Cause | None = None) -> bool:
        """Judge a pair by each rule; return whether the gate fails it."""
        try:
            found = compare_profiles([control], [test])
            ruled = ruling(found.lengths, LIMIT)
        except CannotCompareError:
            self.refused += 1
            return False
        self.pairs += 1
        self.failed["gate"] += bool(ruled.exceeding)
        medians = [float(np.median(one.side.lengths_ns)) for one in (control, test)]
        self.failed["median"] += medians[1] > (1 + USUAL_RULE) * medians[0]
        totals = [float(np.mean(one.side.lengths_ns)) for one in (control, test)]
        delta = totals[1] / totals[0] - 1
        self.failed["nsys-ai"] += delta >= max(FLOOR, THRESHOLD)
        if cause is not None and ruled.exceeding:
            named = causes(found, ruled.main)
            self.right_cause += bool(named) and named[0]["name"] in cause.expected
        return bool(ruled.exceeding)

    def join(self, other: Tally) -> None:
        """Count the pairs of another tally, too."""
        self.pairs, self.refused = self.pairs + other.pairs, self.refused + other.refused
        self.right_cause += other.right_cause
        self.failed.update(other.failed)

    def text(self, *, with_cause: bool = False) -> str:
        """Return the counts."""
        shares = {name: self.failed[name] / max(self.pairs, 1) for name in ("gate", "median", "nsys-ai")}
        said = ", ".join(f"{name} {self.failed[name]} ({share:.1%})" for name, share in shares.items())
        right = self.right_cause / max(self.failed["gate"], 1)
        cause = f"; right cause first {self.right_cause} ({right:.1%})" if with_cause else ""
        return f"{self.pairs} pairs: failed by {said}{cause}" + (
            f"; {self.refused} not comparable" * bool(self.refused)
        )


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def equal_simulated(folder: Path, runs: int) -> dict[str, Tally]:
    """Compare runs of one script with other noise, and the parts of each."""
    tallies = {name: Tally() for name in ("simulated runs", "parts of simulated runs")}
    for cell, (script, noise, steps) in enumerate(product(SCRIPTS, NOISES, STEPS)):
        known = [plain_run(folder, 1_000 * cell + at, steps, script, noise) for at in range(runs)]
        own, parts = Tally(), Tally()
        for one, other in combinations(known, 2):
            own.add(one, other)
        for profile in known:
            for one, other in halves(profile):
                parts.add(one, other)
        if own.failed["gate"] + parts.failed["gate"]:
            _print(f"  equal, {script}, {noise}, {steps} steps: {own.text()}; parts: {parts.text()}")
        tallies["simulated runs"].join(own)
        tallies["parts of simulated runs"].join(parts)
    return tallies


def equal_jobs(folder: Path, runs: int) -> Tally:
    """Compare generated jobs of eight ranks with other noise."""
    own = Tally()
    jobs = [_job(sorted(job_of_steps(folder / f"{seed}", seed, steps=12).glob("rank*"))) for seed in range(runs)]
    for one, other in combinations(jobs, 2):
        own.add(one, other)
    return own


def _job(paths: Sequence[Path]) -> RunProfile:
    job = hg.read_job(list(paths))
    return profile_of(job, job.graph(min(part.rank for part in job.rank_graphs)), "gpu")


def _recordings(folders: Sequence[Path]) -> Iterator[tuple[str, dict[str, RunProfile]]]:
    """Yield the ranks, and the job, of each recording that does not change on the way."""
    for folder in sorted({path.parent for root in folders for path in root.rglob("*.json.gz")}):
        ranks = [path for path in sorted(folder.glob("*.json.gz")) if re.search(r"rank_?\d+", path.name)]
        ranks = [path for path in ranks if not path.name.startswith("host_et")]
        if CHANGING.fullmatch(folder.name) or not ranks:
            continue
        found = {}
        for path in ranks:
            try:
                found[path.name] = profile_of(hg.build_graph(hg.read_trace(path)), None, "gpu")
            except HtaGraphError:
                continue
        try:
            if len(found) > 1:
                found["job"] = _job([folder / name for name in found])
        except HtaGraphError:
            pass
        yield folder.name, found


def equal_recorded(folders: Sequence[Path]) -> dict[str, Tally]:
    """Compare the parts of each recording, and recordings with their repetitions."""
    tallies = {name: Tally() for name in ("parts of a rank", "parts of a job", "repetitions")}
    known: dict[str, dict[str, RunProfile]] = {}
    for name, ranks in _recordings(folders):
        known[name] = ranks
        for rank, profile in ranks.items():
            for one, other in halves(profile):
                if tallies["parts of a job" if rank == "job" else "parts of a rank"].add(one, other):
                    _print(f"  {name} {rank}: {one.side.lengths_ns.tolist()} {other.side.lengths_ns.tolist()}")
    for name, ranks in known.items():
        for rank, profile in known.get(f"{name}2", {}).items():
            if rank in ranks and tallies["repetitions"].add(ranks[rank], profile):
                _print(f"  {name} {rank} and its repetition")
    return tallies


def slower(folder: Path, runs: int) -> dict[tuple[float, int], Tally]:
    """Compare runs of which the second one is slower for one cause."""
    tallies = {effect: Tally() for effect in EFFECTS}
    for cell, ((share, steps), noise, cause) in enumerate(product(EFFECTS, NOISES, CAUSES)):
        own, size = Tally(), size_of(folder, cause, share)
        sides = [
            [run(folder, 1_000_000 + 1_000 * cell + 500 * at + one, steps, cause, of, noise) for one in range(runs)]
            for at, of in enumerate((cause.without, size))
        ]
        for one, other in product(*sides):
            own.add(one, other, cause)
        _print(f"  {share:.0%} slower, {steps} steps, {noise}, {cause.name}: {own.text(with_cause=True)}")
        tallies[share, steps].join(own)
    return tallies


def main(runs: int, only: str, folders: Sequence[Path]) -> None:
    """Print all tables."""
    with tempfile.TemporaryDirectory() as name:
        folder, every = Path(name), Tally()
        if only in ("", "equal"):
            _report(equal_simulated(folder, runs), every)
            _report({"simulated jobs": equal_jobs(folder, runs)}, every)
        if only in ("", "recorded"):
            _report(equal_recorded(folders), every)
        if every.pairs:
            _print(f"equal programs: {every.text()}")
        if only in ("", "slower"):
            for (share, steps), own in slower(folder, runs).items():
                _print(f"{share:.0%} slower, {steps} steps: {own.text(with_cause=True)}")


def _report(found: dict[str, Tally], every: Tally) -> None:
    for title, own in found.items():
        _print(f"equal programs, {title}: {own.text()}")
        every.join(own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--only", choices=("equal", "recorded", "slower"), default="")
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    default = [SHARED / name for name in ("traces", "traces_more", "gloo", "gloo_more")]
    main(options.runs, options.only, options.folders or [folder for folder in default if folder.is_dir()])
