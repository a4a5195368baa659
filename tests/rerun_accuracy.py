"""A rank like the others, next to the same job without its fault, run again; ``python -m tests.rerun_accuracy``.

Simulated jobs have a rank that is late in all steps, from one step on or in some of them, and processors that other
programs take away from any rank at any time, in the run with the fault and, at other times, in that without. A
prediction *misses* if it is more than 25% off the median step of that run, and is *announced* if it is not reliable.
``--recorded`` asks recorded jobs that have a run without a fault beside them, ``--simulated N`` N jobs of each kind.
Machines are quicker or slower in another run: a recorded prediction is held against the step that it is for, too, less
the delay that was injected into it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import hta_graph as hg
from analyses.questions.what_if.answer import scenario_change, what_if
from hta_graph.paths.windows import median_step, step_lengths
from tests.job_verdict_accuracy import Faults, recorded_faults
from tests.simulator.ranks import (
    Fault,
    JobProgram,
    JobShape,
    Recording,
    ddp,
    experts,
    fsdp,
    gpipe,
    meshes,
    pipeline,
    record_job,
    simulate_job,
    tensor_parallel,
)
from tests.support.shared_traces import SHARED

MISS = 0.25
SCHEDULES: Mapping[str, Callable[[JobShape], JobProgram]] = {
    "ddp": ddp,
    "fsdp": fsdp,
    "experts": experts,
    "tensor": tensor_parallel,
    "meshes": meshes,
    "gpipe": gpipe,
    "pipeline": partial(pipeline, buffered=True),
}
NOISES: Mapping[str, tuple[float, float]] = {"quiet": (0, 0), "noisy": (0.1, 0.3), "starved": (0.3, 0.8)}
"""How much of a step other programs take away, and by which factor (sigma of its logarithm) that varies by step."""


@dataclass(frozen=True)
class Rerun:
    """A job with a fault: a step as predicted without it, the median step of a run without it (ns), why not trusted."""

    name: str
    predicted_ns: float
    true_ns: float
    reason: str | None
    interval_ns: tuple[int, int] | None
    own_ns: float = math.nan
    """The same step without the delay that was injected into it, where that is known."""

    @property
    def own_error(self) -> float:
        """By what share of that the prediction is wrong."""
        return abs(self.predicted_ns - self.own_ns) / self.own_ns

    @property
    def error(self) -> float:
        """By what share of the true length the prediction is wrong."""
        return abs(self.signed_error)

    @property
    def signed_error(self) -> float:
        """The same, negative where the prediction is too short."""
        return (self.predicted_ns - self.true_ns) / self.true_ns

    @property
    def is_covered(self) -> bool:
        """Whether the interval holds the true length."""
        return self.interval_ns is None or self.interval_ns[0] <= self.true_ns <= self.interval_ns[1]


def predicted_rerun(name: str, job: hg.JobGraph, rank: int, true_ns: float, faults: Faults | None = None) -> Rerun:
    """Ask what a job would take if a rank were like the others; ``faults`` are the injected delays, if known."""
    found = what_if(job, median_step(), [scenario_change("rank_like_others", str(rank))])
    interval, replayed = found.of_steps.interval_ns if found.of_steps else None, found.replayed
    delay_ms = math.nan if faults is None else faults.get((replayed.window.step or 0, rank), 0.0)
    own_ns = replayed.measured_ns - delay_ms * 1e6
    return Rerun(name, replayed.predicted_ns, true_ns, found.reliability.reason, interval, own_ns)


# -- simulated ---------------------------------------------------------------------------------------------------------


def taken_away(shape: JobShape, noise: tuple[float, float], rng: random.Random) -> list[Fault]:
    """Return when other programs have the processors of a job's ranks: some steps lose more, on all ranks."""
    share, sigma = noise
    found: list[Fault] = []
    for step in range(shape.steps):
        lost_ns = share * rng.lognormvariate(0, sigma) * 3 * shape.layers * shape.compute_ns
        for rank in range(shape.ranks):
            for phase in ("forward", "backward", "optimizer"):
                found += (
                    Fault(rank, step, phase, round(rng.expovariate(6 / lost_ns))) for _ in range(2) if lost_ns
                )  # fmt: skip
    return found


def simulated_rerun(folder: Path, schedule: str, noise: str, seed: int) -> Rerun:
    """Delay a rank of a simulated job, predict that it is like the others, and run the job without the delay."""
    slow, usual, late = simulated_pair(folder, schedule, noise, seed)
    lengths = [one.iteration_ns for one in step_lengths(usual) if one.is_candidate]
    return predicted_rerun(f"{schedule} {noise} {seed}", slow, late, median(lengths))


def simulated_pair(folder: Path, schedule: str, noise: str, seed: int) -> tuple[hg.JobGraph, hg.JobGraph, int]:
    """Return a simulated job with a delayed rank, one without the delay, and the rank."""
    rng = random.Random(f"{schedule} {noise} {seed}")
    shape = JobShape(
        rng.choice((2, 4)) if schedule != "meshes" else 4,
        rng.choice((5, 7, 9)),
        compute_ns=rng.choice((300_000, 2_000_000)),
        seed=seed,
        backend=rng.choice(("gloo", "nccl")),
    )
    late, phase = (
        rng.randrange(shape.ranks),
        rng.choice(("forward", "backward") if schedule != "experts" else ("forward",)),
    )
    delayed = {
        "every": range(shape.steps),
        "since": range(shape.steps // 2, shape.steps),
        "some": range(1, shape.steps, 2),
    }
    steps = delayed[rng.choice((*delayed,))]
    calls = shape.ranks if schedule in ("gpipe", "pipeline") else 1
    delay_ns = round(rng.uniform(0.5, 1.5) * 3 * shape.layers * shape.compute_ns / calls)
    fault = [Fault(late, step, phase, delay_ns) for step in steps] * calls
    jobs = []
    for name, own in (("slow", fault), ("usual", [])):
        faults = [*own, *taken_away(shape, NOISES[noise], rng)]
        run = simulate_job(SCHEDULES[schedule](replace(shape, faults=faults)))
        jobs.append(hg.read_job(record_job(run, Recording(), folder / f"{schedule} {noise} {seed} {name}").paths))
    return jobs[0], jobs[1], late


# -- recorded ----------------------------------------------------------------------------------------------------------


def recorded_reruns(folders: Iterable[Path]) -> Iterator[Rerun]:
    """Ask recorded jobs with a fault in one rank that have a base run beside them."""
    for name, job, rank, base in recorded_pairs(folders):
        faults = recorded_faults(base.with_name(name))
        yield predicted_rerun(name, job, rank, median(lengths_of_steps(base)), faults)


def recorded_pairs(folders: Iterable[Path]) -> Iterator[tuple[str, hg.JobGraph, int, Path]]:
    """Yield such jobs by name, the rank, and where the base run is."""
    for folder in folders:
        for own in sorted(folder.glob("*/truth.json")):
            name = own.parent.name
            base = next((one for one in base_runs(own.parent) if (one / "truth.json").exists()), None)
            ranks = {rank for _, rank in recorded_faults(own.parent)}
            if base is None or len(ranks) != 1 or name.endswith(("_skew", "_once")):
                continue
            job = hg.read_job(sorted(own.parent.glob("rank*.json.gz")))
            yield name, job, *ranks, base


def base_runs(folder: Path) -> Sequence[Path]:
    """Return where a run of the same job without a fault may be."""
    kind, _, _ = folder.name.rpartition("_")
    first = "_".join(folder.name.split("_")[:2])
    return folder.with_name(f"{first}_base_1"), folder.with_name(f"{kind}_base")


def lengths_of_steps(folder: Path) -> list[float]:
    """Return the lengths (ns) of the recorded steps of a job: from the last rank's end to the last rank's end."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    if "steps" in truth:
        rows = [(one["step"], one["end_ns"], one["recorded"]) for own in truth["steps"].values() for one in own]
    else:
        rows = [(at, wall[1], at > 1) for own in truth["ranks"] for at, wall in enumerate(own["walls"])]
    ends: dict[int, int] = {}
    for number, end_ns, _ in rows:
        ends[number] = max(ends.get(number, 0), end_ns)
    recorded = {number for number, _, is_recorded in rows if is_recorded}
    return [ends[number] - ends[number - 1] for number in sorted(recorded) if number - 1 in ends]


# -- in words ----------------------------------------------------------------------------------------------------------


def summary(found: Sequence[Rerun]) -> str:
    """Say how far predictions are off, and how many that miss or do not were announced."""
    errors = sorted(one.error for one in found)
    misses, good = [one for one in found if one.error > MISS], [one for one in found if one.error <= MISS]
    silent = [one.name for one in misses if one.reason is None]
    trusted = [one.error for one in found if one.reason is None]
    signed = median(one.signed_error for one in found)
    return (
        f"{len(found)}: median error {median(errors):.1%} ({signed:+.1%}), p90 {errors[9 * len(errors) // 10]:.1%}; "
        f"of {len(trusted)} trusted {median(trusted or [0]):.1%}; {len(misses) - len(silent)} of {len(misses)} misses "
        f"announced, {sum(one.reason is not None for one in good)} of {len(good)} others; "
        f"{sum(one.is_covered for one in found)} in the interval" + (f"; silent: {', '.join(silent)}" if silent else "")
    )


def main() -> None:
    """Print a line for each schedule and noise, or for each recorded job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--simulated", type=int, default=0, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    options = parser.parse_args()
    if options.recorded is not None:
        found = []
        folders = [SHARED / name for name in ("gloo", "gloo_more", "gloo_shapes")]
        for one in recorded_reruns(options.recorded or folders):
            found.append(one)
            low, high = (round(ns / 1e6, 1) for ns in one.interval_ns or (0, 0))
            lengths = f"{one.predicted_ns / 1e6:8.1f} ({low}–{high}) ms, run again {one.true_ns / 1e6:8.1f} ms"
            own = f"this step without the delay {one.own_ns / 1e6:8.1f} ms, {one.own_error:6.1%}"
            _print(f"{one.name:28} {lengths}, {one.error:6.1%}; {own}  {one.reason or ''}")
        _print(f"recorded {summary(found)}")
        own_errors = [one.own_error for one in found]
        close = sum(error <= MISS for error in own_errors)
        _print(
            f"steps without the delay: median error {median(own_errors):.1%}, {close} of {len(found)} within {MISS:.0%}"
        )
    every: list[Rerun] = []
    with tempfile.TemporaryDirectory() as folder:
        for noise in NOISES if options.simulated else ():
            of_noise = []
            for schedule in SCHEDULES:
                seeds = range(options.first, options.first + options.simulated)
                of_noise += [simulated_rerun(Path(folder), schedule, noise, seed) for seed in seeds]
                _print(f"{noise:8} {schedule:9} {summary(of_noise[-options.simulated :])}")
            _print(f"{noise:18} {summary(of_noise)}")
            every += of_noise
    if every:
        _print(f"{'all':18} {summary(every)}")


def _print(line: str) -> None:
    print(line)  # noqa: T201


if __name__ == "__main__":
    main()
