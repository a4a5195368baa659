"""What the verdict of a job names, next to the fault that is in it; ``python -m tests.job_verdict_accuracy [FOLDER…]``.

A folder holds recorded jobs with a ``truth.json`` each: by default those of the tests and the shared ones. A verdict is
*right* if it names the rank that was delayed, or all of them where they take turns, *silent* if it names none, *wrong*
if it names another one, or accuses a rank of a job without a fault of at least 10% of a step. Of
several late ranks none may be another one. Its size is compared with what was injected in the steps that it names, and
these with the steps, the warm-up left out, into which at least a fifth of the rank's largest delay was injected.
``--simulated N`` asks N simulated jobs of each shape and backend, with a delay and without it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import hta_graph as hg
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.job_verdict import JobVerdict, job_verdict
from hta_graph.paths.windows import step_lengths
from tests.matching_accuracy import SCENARIOS
from tests.simulator.ranks import JobShape, Recording, record_job, simulate_job
from tests.support.shared_traces import SHARED
from tests.wait_cause_accuracy import BACKENDS, causes_most, delayed_shape

FOLDERS = (
    Path(__file__).parent / "multi_rank" / "recorded",
    SHARED / "gloo",
    SHARED / "gloo_more",
    SHARED / "gloo_shapes",
)
ACCUSED_SHARE = 0.1
"""A rank of a sound job may be named for less than this share of a step: something always comes last."""
FEWEST_MS = 60
"""Shorter delays drown in the noise of recorded jobs that share their processors."""

Faults = Mapping[tuple[int, int], float]
"""How long (ms) ranks were delayed, by step and rank."""


def recorded_faults(folder: Path) -> Faults:
    """Read what was injected into a recorded job, warm-up left out."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    found: defaultdict[tuple[int, int], float] = defaultdict(float)
    if "injections" in truth:
        first = truth["job"]["wait"] + truth["job"]["warmup"]
        faults = [(one["step"], one["rank"], one["dur_ns"] / 1e6) for one in truth["injections"]]
    else:
        first = 2
        faults = [(one["step"], one["rank"], one["ms"]) for rank in truth["ranks"] for one in rank["inj"]]
    for step, rank, ms in faults:
        if step >= first:
            found[step, rank] += ms
    return found


def judged(found: JobVerdict, faults: Faults) -> str:
    """Say whether a verdict is right, silent, wrong or, of a job without a fault, sound."""
    late = {rank for _, rank in faults}
    if not faults:
        return "wrong" if found.firmness != "none" and found.share_of_step >= ACCUSED_SHARE else "sound"
    if found.pattern == "rotating":
        turns = zip(found.steps, found.ranks, strict=True)
        return "right" if len(late) > 1 and all(turn in faults for turn in turns) else "wrong"
    if found.rank is None:
        return "silent"
    if not set(found.ranks) <= late:
        return "wrong"
    return "right" if found.rank in late else "wrong"


def step_errors(found: JobVerdict, faults: Faults, compared: Container[int]) -> tuple[list[int], list[int]] | None:
    """Return which steps of the injected delays are not named, and which are named without one; None without a rank."""
    turns = dict(zip(found.steps, found.ranks, strict=False))
    named = set(turns.items()) if found.pattern == "rotating" else {(step, found.rank) for step in found.steps}
    ranks = {rank for _, rank in named}
    most = {rank: max((ms for (_, of), ms in faults.items() if of == rank), default=0.0) for rank in ranks}
    late = {
        (step, rank)
        for (step, rank), ms in faults.items()
        if rank in ranks and step in compared and ms >= most[rank] / 5
    }
    return (sorted(step for step, _ in late - named), sorted(step for step, _ in named - late)) if named else None


def size_error(found: JobVerdict, faults: Faults) -> float | None:
    """Return by how much the delay that is said differs from the injected one, as a share; None without a rank."""
    ranks = {found.rank} if found.rank is not None else set(found.ranks)
    named = [ms for (step, rank), ms in faults.items() if step in found.steps and rank in ranks]
    return found.median_caused_ns / 1e6 / median(named) - 1 if named and found.firmness != "none" else None


def recorded_rows(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Ask all recorded jobs below some folders."""
    rows = []
    for truth in sorted(path for folder in folders for path in folder.glob("*/truth.json")):
        faults = recorded_faults(truth.parent)
        if faults and max(faults.values()) < FEWEST_MS:
            continue
        rows.append(_row(truth.parent.name, hg.read_job(truth.parent), faults))
    return rows


def simulated_rows(count: int) -> list[dict[str, Any]]:
    """Ask simulated jobs that a delay makes wait more than twice as long, each with it and without it."""
    rows = []
    for scenario in SCENARIOS:
        for backend in BACKENDS:
            for seed in range(count):
                shape = delayed_shape(scenario, backend, seed)
                if causes_most(scenario, shape, simulate_job(SCENARIOS[scenario](shape))):
                    rows += [_simulated_row(scenario, backend, own) for own in (shape, replace(shape, faults=()))]
    return rows


def _simulated_row(scenario: str, backend: str, shape: JobShape) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        recorded = record_job(simulate_job(SCENARIOS[scenario](shape)), Recording(), Path(folder))
        faults = {(one.step, one.rank): one.ns / 1e6 for one in shape.faults}
        return _row(f"{scenario} {backend}", hg.read_job(recorded.paths), faults)


def _row(name: str, job: DependencyGraph, faults: Faults) -> dict[str, Any]:
    found = job_verdict(job)
    compared = [one.number for one in step_lengths(job) if one.is_candidate]
    return {"job": name, "found": found, "is": judged(found, faults), "faulty": bool(faults),
            "error": size_error(found, faults), "steps": step_errors(found, faults, compared)}  # fmt: skip


def report(rows: Iterable[Mapping[str, Any]], *, each: bool) -> str:
    """Print what was found: each job, then how many of which kind, and the sizes."""
    rows = list(rows)
    lines = [_line(row) for row in rows] if each else []
    for faulty in (True, False):
        counts = Counter(row["is"] for row in rows if row["faulty"] == faulty)
        if counts:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
            lines.append(f"{'with' if faulty else 'without'} a fault, {counts.total()} jobs: {kinds}")
    steps = [row["steps"] for row in rows if row["steps"] is not None and row["is"] == "right"]
    if steps:
        lines.append(f"exactly the steps with the delay: {sum(one == ([], []) for one in steps)} of {len(steps)}")
    errors = [abs(row["error"]) for row in rows if row["error"] is not None and row["is"] == "right"]
    if errors:
        within = sum(error <= 0.15 for error in errors)
        lines.append(
            f"size within 15% of the injected delay: {within} of {len(errors)}, median error {median(errors):.0%}"
        )
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    found: JobVerdict = row["found"]
    size = "" if row["error"] is None else f", {found.median_caused_ns / 1e6:.1f} ms ({row['error']:+.0%})"
    who = found.ranks if found.pattern == "rotating" else found.rank
    said = f"{found.firmness} {found.scope} rank {who} {found.pattern}{size} {found.reason or ''}".rstrip()
    missed, more = row["steps"] or ([], [])
    steps = f", steps missed {missed}" * bool(missed) + f", steps without a delay {more}" * bool(more and row["faulty"])
    several = f", late {[one.rank for one in found.late_ranks]}" * bool(found.late_ranks)
    return f"{row['job']:28} {row['is']:7} {said}{several}{steps}".rstrip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--simulated", type=int, default=0, metavar="N", help="ask N jobs of each shape and backend")
    args = parser.parse_args()
    rows = simulated_rows(args.simulated) if args.simulated else recorded_rows(args.folders or FOLDERS)
    print(report(rows, each=not args.simulated))  # noqa: T201


if __name__ == "__main__":
    main()
