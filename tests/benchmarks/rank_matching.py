"""The step that looks at all ranks of a made job: ``python -m tests.benchmarks.rank_matching --ranks 64 256``.

Prints the time and the peak of memory of each stage. Every job is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hta_graph.multi_rank.matching import collectives
from tests.benchmarks.machine_description import machine
from tests.support.generated_communications import GeneratedJob, generated_communications

MATCHING = (
    *("records_of", "match_ranks", "job_clocks", "members_in_job_time", "possible_meetings"),
    *("ambiguous_meetings", "why_left_out", "names_unlike_collectives"),
)
"""The stages of matching, by the functions that do them."""


class Stages:
    """Seconds and the peak of memory (MiB) per stage; what runs several times adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure one stage."""
        _forget_peak()
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
        self.peak[name] = max(self.peak.get(name, 0.0), _peak_mib())

    def watched(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, measured."""

        def run(*args: Any, **named: Any) -> Any:
            with self.of(name):
                return work(*args, **named)

        return run


def measure(job: GeneratedJob) -> dict[str, dict[str, float]]:
    """Measure one job in this process."""
    stages = Stages()
    with stages.of("(making it)"):
        members = generated_communications(job)
    for name in MATCHING:
        setattr(collectives, name, stages.watched(name, getattr(collectives, name)))
    begin = time.perf_counter()
    found = collectives.match_collectives(members)
    stages.seconds["match_collectives"] = time.perf_counter() - begin
    stages.peak["match_collectives"] = max(stages.peak.values())
    return {
        "seconds": stages.seconds,
        "peak": stages.peak,
        "found": {"collectives": len(found), "members": len(found.number), "alone": found.without_partner},
    }


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def main() -> None:
    """Print one table per job."""
    parser = argparse.ArgumentParser(description="The one step that looks at all ranks of a job.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--collectives", type=int, default=40)
    parser.add_argument("--without-ids", action="store_true")
    parser.add_argument("--clock-spread-ms", type=float, default=0.0)
    parser.add_argument("--drift-ppm", type=float, default=0.0)
    parser.add_argument("--lost", type=float, default=0.0)
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        job = GeneratedJob(
            options.ranks[0], options.collectives, ids=not options.without_ids,
            clock_spread_ns=int(options.clock_spread_ms * 1e6), drift_ppm=options.drift_ppm, lost=options.lost,
            step_ns=int(options.step_ms * 1e6),
        )  # fmt: skip
        sys.stdout.write(json.dumps(measure(job)))
        return
    sys.stdout.write(machine() + "\n")
    given = sys.argv[1:]
    for ranks in options.ranks:
        command = [sys.executable, "-m", "tests.benchmarks.rank_matching", *given, "--ranks", str(ranks), "--one"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        told = ", ".join(f"{count:,} {name}" for name, count in found["found"].items())
        sys.stdout.write(f"{ranks} ranks: {told}\n")
        for name, seconds in found["seconds"].items():
            sys.stdout.write(f"  {name:<26}{seconds:>9.2f} s{found['peak'][name]:>8.0f} MiB\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
