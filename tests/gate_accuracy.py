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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path

import numpy as np

import hta_graph as hg
from analyses.compare.diff.regression import ruling
from analyses.compare.gate.answer_of_gate import causes
from analyses.compare.gate.compare_profiles import compare_profiles
from analyses.compare.gate.run_profile import RunProfile, profile_of
from hta_graph.base.errors import CannotCompareError, HtaGraphError
from tests.support.gate_pairs import CAUSES, NOISES, Cause, halves, plain_run, run, size_of
from tests.support.job_pairs import job_of_steps
from tests.support.shared_traces import SHARED
from tests.support.step_programs import SCRIPTS

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
