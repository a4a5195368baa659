"""How often does ``gate`` fail an equal program, and how often does it find a slower one, with the right cause?

``python -m tests.gate_accuracy [--runs N] [--only NAME] [FOLDER…]`` prints tables. Equal programs:
all pairs of N simulated runs (default: 6) of each script, noise and number of steps, and the parts of each run and of
the recordings in the folders (default: the shared ones): halves, and odd and even steps, of each rank and job; a folder
is compared with its repetition, whose name has a 2 at its end. Slower programs: each of N simulated runs with each of N
that have one cause. Families: step lengths that depend on each other, come in bursts or hang on both sides. Unusual:
runs that hang, grow, have one slower kind of steps or a late rank, next to the exact test that knows what to look for.
In addition to the gate: the rule "the median is more than 5% longer", and the rule of the gate of nsys-ai 0.3.0. A
contradiction is a pair of which diff and gate do not say the same.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import hta_graph as hg
from analyses.compare.diff.conclusion import conclusion_lines
from analyses.compare.diff.noise import t_quantile
from analyses.compare.diff.regression import ruling
from analyses.compare.diff.step_kinds import kinds_of_contents
from analyses.compare.gate.causes import causes
from analyses.compare.gate.compare_profiles import ProfileComparison, compare_profiles
from analyses.compare.gate.run_profile import RunProfile, profile_of
from hta_graph.base.errors import CannotCompareError, HtaGraphError
from hta_graph.model import Floats, Ints
from tests.simulator import pytorch_idioms
from tests.simulator.large.scripts import LargeShape, large_job
from tests.simulator.program import Annotation, Gap, Op, Statement
from tests.support.job_pairs import job_of_steps
from tests.support.length_families import FAMILIES
from tests.support.make_samples import Script as Training
from tests.support.make_samples import training_step
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

Script = Callable[[int], Statement]


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
    script: Callable[[float], tuple[Script, dict[str, float]]]
    without: float
    expected: tuple[str, ...]


def _kernel(factor: float) -> tuple[Script, dict[str, float]]:
    return training_step, {KERNEL: factor}


def _collective(factor: float) -> tuple[Script, dict[str, float]]:
    return training_step, {COLLECTIVE: factor}


def _loading(ns: float) -> tuple[Script, dict[str, float]]:
    return partial(training_step, script=Training(load_ns=round(ns), log_ns=20_000)), {}


def _logging(ns: float) -> tuple[Script, dict[str, float]]:
    return partial(training_step, script=Training(log_ns=round(ns))), {}


def _host(ns: float) -> tuple[Script, dict[str, float]]:
    return partial(with_host_work, round(ns)), {}


def _metrics(ns: float) -> tuple[Script, dict[str, float]]:
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


COLUMNS = ["name", "bound_by", "control_ns", "test_ns", "diff_ns", "noise_ns"]
LIMIT = 0.01
USUAL_RULE = 0.05
"""The median is longer by more than this: the usual rule."""
FLOOR, THRESHOLD = 0.02, 0.05
"""The rule of nsys-ai 0.3.0: the total time is longer by at least the second share; below the first it is noise."""
STEPS = (10, 20, 40)
EFFECTS = ((0.02, 20), (0.03, 20), (0.03, 10), (0.05, 10))
"""By how much a program is slower, and how many steps of each run are recorded."""
CHANGING = re.compile(r".*_(once|since|fault).*")
"""Recordings that change on the way."""


@dataclass
class Tally:
    """Pairs: how many failed by each rule, in how many the right cause came first, how many cannot be decided."""

    pairs: int = 0
    refused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    right_cause: int = 0
    unknown: int = 0
    contradictions: int = 0

    def add(
        self,
        control: RunProfile,
        test: RunProfile,
        cause: Cause | None = None,
        right: Callable[[Any], bool] | None = None,
    ) -> bool:
        """Judge a pair by each rule; return whether the gate fails it."""
        try:
            found = compare_profiles([control], [test])
            ruled = ruling(found.lengths, LIMIT)
        except CannotCompareError:
            self.refused += 1
            return False
        self.pairs += 1
        self.failed["gate"] += bool(ruled.exceeding)
        self.unknown += ruled.verdict == "cannot_compare"
        self.contradictions += ruled.verdict != _verdict_of_diff(found)
        medians = [float(np.median(one.side.lengths_ns)) for one in (control, test)]
        self.failed["median"] += medians[1] > (1 + USUAL_RULE) * medians[0]
        totals = [float(np.mean(one.side.lengths_ns)) for one in (control, test)]
        delta = totals[1] / totals[0] - 1
        self.failed["nsys-ai"] += delta >= max(FLOOR, THRESHOLD)
        if ruled.exceeding and (cause is not None or right is not None):
            named = causes(found, ruled.main)
            expected = right or (lambda one: cause is not None and one["name"] in cause.expected)
            self.right_cause += bool(named) and expected(named[0])
        return bool(ruled.exceeding)

    def join(self, other: Tally) -> None:
        """Count the pairs of another tally, too."""
        self.pairs, self.refused = self.pairs + other.pairs, self.refused + other.refused
        self.right_cause += other.right_cause
        self.unknown += other.unknown
        self.contradictions += other.contradictions
        self.failed.update(other.failed)

    def text(self, *, with_cause: bool = False) -> str:
        """Return the counts."""
        shares = {name: self.failed[name] / max(self.pairs, 1) for name in ("gate", "median", "nsys-ai", "exact")}
        names = [name for name in shares if name != "exact" or self.failed["exact"]]
        said = ", ".join(f"{name} {self.failed[name]} ({shares[name]:.1%})" for name in names)
        right = self.right_cause / max(self.failed["gate"], 1)
        cause = f"; right cause first {self.right_cause} ({right:.1%})" if with_cause else ""
        unknown = f"; cannot tell {self.unknown} ({self.unknown / max(self.pairs, 1):.1%})"
        more = f"; {self.contradictions} contradictions" * bool(self.contradictions)
        return f"{self.pairs} pairs: failed by {said}{cause}{unknown}{more}" + (
            f"; {self.refused} not comparable" * bool(self.refused)
        )


def _verdict_of_diff(found: ProfileComparison) -> str:
    """Return the verdict of gate that the sentence of diff amounts to."""
    lengths = found.lengths
    none = pd.DataFrame(columns=COLUMNS)
    line = conclusion_lines(lengths, none, none, together=none, labels={})[0]
    if line.startswith("Cannot tell") or "no counterpart that shows" in line:
        return "cannot_compare"
    is_slower = " slower" in line.partition(":")[0] and lengths.change_share > LIMIT
    return "regression" if is_slower else "pass"


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


LONG_RUN = re.compile(r"(?P<program>\w+)_(?P<load>alone|bursts)_(?P<fault>[a-z]+)_\d+\.json\.gz")
OF_FAULT = {
    "hangs": ("read_shard",), "once": ("read_shard",), "drift": ("history",),
    "operator": ("aten::histc", "aten::uniform_"),
}  # fmt: skip
"""What tests/long_runs.py makes slower."""


def long_runs(folders: Sequence[Path]) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Cut the equal runs of tests/long_runs.py in two, and compare those with a fault with the equal ones."""
    known: dict[Path, RunProfile] = {}
    for path in sorted(path for root in folders for path in root.rglob("*.json.gz") if LONG_RUN.fullmatch(path.name)):
        known[path] = profile_of(hg.build_graph(hg.read_trace(path)), None, "gpu")
    equal: dict[str, Tally] = {}
    faulty: dict[str, Tally] = {}
    named = {path: LONG_RUN.fullmatch(path.name) for path in known}
    for path, found in named.items():
        if found is None:
            continue
        if found["fault"] == "none":
            for pair in halves(known[path]):
                for one, other in (pair, pair[::-1]):
                    if equal.setdefault(f"parts of long runs, {found['load']}", Tally()).add(one, other):
                        _print(f"  {path.name}: {one.side.lengths_ns.tolist()} {other.side.lengths_ns.tolist()}")
            continue
        for other_path, base in named.items():
            if base is not None and base.group("program", "load", "fault") == (found["program"], "alone", "none"):
                right = partial(_is_named, OF_FAULT[found["fault"]])
                faulty.setdefault(f"long runs, {found['fault']}", Tally()).add(
                    known[other_path], known[path], right=right
                )
    return equal, faulty


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


LATE_NS = 2_000_000
HANG_AT, ONCE_AT = frozenset({4, 8, 13, 17, 22, 27, 31, 36}), 13


@dataclass(frozen=True)
class Unusual:
    """A run that its usual step does not show: how many steps, what they do, and the test that knows of it."""

    name: str
    steps: int
    script: Script
    exact: Callable[[Floats, Floats], bool]
    expected: str = "aten::cumsum"
    pace: Callable[[int], float] = lambda _: 1.0


def _host_step(extra: Callable[[int], int], number: int) -> Statement:
    """A step of operators on the host; one of them may take longer."""
    work = (*(Op("aten::mm", (Gap(400_000),)) for _ in range(8)), *(Op("aten::add", (Gap(100_000),)) for _ in range(6)))
    return pytorch_idioms.step(number, (*work, Op("aten::cumsum", (Gap(200_000 + extra(number)),))))


def _longer_at(places: Collection[int], ns: int) -> Script:
    return partial(_host_step, lambda number: ns if number in places else 0)


def _grows(ns: int) -> Script:
    return partial(_host_step, lambda number: ns * number)


USUAL = _grows(0)


def _two_means(control: Floats, test: Floats) -> bool:
    """Student's test of the means, one of 300 equal pairs being different."""
    error = np.sqrt(control.var(ddof=1) / len(control) + test.var(ddof=1) / len(test))
    return bool(test.mean() - control.mean() > t_quantile(len(control) + len(test) - 2) * error)


def _slope(_: Floats, test: Floats) -> bool:
    """Student's test of the slope."""
    place = np.arange(len(test)) - (len(test) - 1) / 2
    slope = float((place * test).sum() / (place**2).sum())
    rest = test - test.mean() - slope * place
    error = np.sqrt(float((rest**2).sum()) / (len(test) - 2) / float((place**2).sum()))
    return bool(slope > t_quantile(len(test) - 2) * error)


def _events(control: Floats, test: Floats) -> bool:
    """Binomial test of how many steps hang: eight and none are no chance, one of 200 pairs being different."""
    hang = [int(np.count_nonzero(own > 1.2 * np.median(own))) for own in (control, test)]
    return hang[1] >= 8 and not hang[0]


def _is_large(control: Floats, test: Floats) -> bool:
    """No test: the mean is 15% longer."""
    return bool(test.mean() > 1.15 * control.mean())


def _checkpoints(control: Floats, test: Floats) -> bool:
    """Student's test of the steps that save: each fifth one."""
    return _two_means(*(own[own > 1.2 * np.median(own)] for own in (control, test)))


def _save(times: float, number: int) -> Statement:
    """A step with a checkpoint in each fifth one, which takes longer by a factor."""
    save = (Op("aten::save", (Gap(round(2_000_000 * times)),)),) if number % 5 == 0 else ()
    return pytorch_idioms.step(number, (*(Op("aten::mm", (Gap(400_000),)) for _ in range(10)), *save))


UNUSUAL = (
    Unusual("eight hangs of 40, +10% of the mean", 40, _longer_at(HANG_AT, 2_000_000), _events),
    Unusual("three hangs of 24, +10% of the mean", 24, _longer_at({5, 13, 21}, 3_200_000), _events),
    Unusual("three hangs of 24, +25% of the mean", 24, _longer_at({5, 13, 21}, 8_000_000), _is_large),
    Unusual("one step of 24, +80% of the mean", 24, _longer_at({ONCE_AT}, 77_000_000), _is_large),
    Unusual("an operator grows by 5%, 20 steps", 20, _grows(10_500), _slope),
    Unusual("an operator grows by 10%, 20 steps", 20, _grows(21_000), _slope),
    Unusual("an operator grows by 10%, 40 steps", 40, _grows(10_500), _slope),
    Unusual("everything grows by 10%, 20 steps", 20, USUAL, _slope, "aten::mm", lambda number: 1 + 0.005 * number),
    Unusual(
        "all is 3 times slower in 3 steps of 12",
        12,
        USUAL,
        _is_large,
        "aten::mm",
        lambda at: 3.0 if 3 <= at <= 5 else 1.0,
    ),
    Unusual("checkpoints take 30% longer, 8 of 40 steps", 40, partial(_save, 1.3), _checkpoints, "aten::save"),
)


def unusual(folder: Path, runs: int) -> dict[str, Tally]:
    """Compare runs of which the second one hangs, grows, has a slower kind of steps, or a late rank."""
    tallies: dict[str, Tally] = {}
    for cell, case in enumerate(UNUSUAL):
        usual = partial(_save, 1.0) if case.expected == "aten::save" else USUAL
        sides = [
            [_host_run(folder, 3_000_000 + 1_000 * cell + 500 * at + one, case, script) for one in range(runs)]
            for at, script in enumerate((usual, None))
        ]
        tallies[case.name] = _against(sides, case.exact, partial(_is_named, (case.expected,)))
        _print(f"  {case.name}: {tallies[case.name].text(with_cause=True)}")
    late = Tally()
    for seed in range(2 * runs):
        shape: dict[str, Any] = {"seed": seed, "steps": 12}
        jobs = [job_of_steps(folder / f"{seed} {delay}", delay_ns=delay, **shape) for delay in (0, LATE_NS)]
        pair = [_job(sorted(side.glob("rank*"))) for side in jobs]
        rank = large_job(LargeShape(ranks=8, **shape)).injected.rank
        late.join(_against([pair[:1], pair[1:]], _two_means, partial(_is_on, rank)))
    return {**tallies, "a rank of eight is late in each of 12 steps": late}


def _is_on(rank: int, row: Mapping[str, Any]) -> bool:
    return bool(row["rank"] == rank)


def _is_named(names: Collection[str], row: Mapping[str, Any]) -> bool:
    return row["name"] in names


def _against(
    sides: Sequence[Sequence[RunProfile]], exact: Callable[[Floats, Floats], bool], right: Callable[[Any], bool]
) -> Tally:
    own = Tally()
    for one, other in product(*sides):
        own.add(one, other, right=right)
        own.failed["exact"] += exact(*(side.side.lengths_ns.astype(float) for side in (one, other)))
    return own


def _host_run(folder: Path, seed: int, case: Unusual, script: Script | None) -> RunProfile:
    """Record a case once, or the run before it, which has another script."""
    given = {"script": case.script, "pace_of": case.pace} if script is None else {"script": script}
    graph = noisy_run(folder, seed, steps=case.steps + 1, spread=PIECE_NOISE, common=STEP_NOISE, **given)
    return profile_of(graph, None, "gpu")


def with_lengths(profile: RunProfile, ns: Floats) -> RunProfile:
    """Return a recording whose steps have other lengths."""
    return replace(profile, side=replace(profile.side, lengths_ns=ns.round().astype(np.int64)))


def equal_families(folder: Path, pairs: int) -> dict[str, Tally]:
    """Compare runs whose lengths are drawn from one family."""
    tallies: dict[str, Tally] = {}
    for steps in (12, 20, 40):
        base = plain_run(folder, 77_000 + steps, steps, "host", "independent")
        base = replace(base, contents=replace(base.contents, contents=(base.contents.contents[0],) * steps))
        for name, family in FAMILIES.items():
            rng, own = np.random.default_rng(sum(map(ord, name)) + steps), Tally()
            for _ in range(pairs):
                own.add(with_lengths(base, 50e6 * family(rng, steps)), with_lengths(base, 50e6 * family(rng, steps)))
            _print(f"  {name}, {steps} steps: {own.text()}")
            tallies.setdefault(name, Tally()).join(own)
    return tallies


def main(runs: int, only: str, folders: Sequence[Path]) -> None:
    """Print all tables."""
    with tempfile.TemporaryDirectory() as name:
        folder, every = Path(name), Tally()
        if only in ("", "equal"):
            _report(equal_simulated(folder, runs), every)
            _report({"simulated jobs": equal_jobs(folder, runs)}, every)
        if only in ("", "families"):
            _report(equal_families(folder, 20 * runs), every)
        if only in ("", "recorded"):
            _report(equal_recorded(folders), every)
            equal, faulty = long_runs(folders)
            _report(equal, every)
            for title, own in faulty.items():
                _print(f"{title}: {own.text(with_cause=True)}")
        if every.pairs:
            _print(f"equal programs: {every.text()}")
        if only in ("", "slower"):
            for (share, steps), own in slower(folder, runs).items():
                _print(f"{share:.0%} slower, {steps} steps: {own.text(with_cause=True)}")
        if only in ("", "unusual"):
            for title, own in unusual(folder, runs).items():
                _print(f"{title}: {own.text(with_cause=True)}")


def _report(found: dict[str, Tally], every: Tally) -> None:
    for title, own in found.items():
        _print(f"equal programs, {title}: {own.text()}")
        every.join(own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--only", choices=("equal", "families", "recorded", "slower", "unusual"), default="")
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    default = [SHARED / name for name in ("traces", "traces_more", "gloo", "gloo_more")]
    main(options.runs, options.only, options.folders or [folder for folder in default if folder.is_dir()])
