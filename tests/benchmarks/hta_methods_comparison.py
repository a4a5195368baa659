"""Method by method beside HTA: ``python -m tests.benchmarks.hta_methods_comparison --hta-python PYTHON``.

PYTHON belongs to an environment with ``traceinsight`` and ``pandas<3``; ``--make-hta-venv DIR`` makes one. Both sides
load the same trace in a process of their own; then each method is called on either side in turn, and the medians of
what follows the first call are compared. A benchmark reports, it does not gate.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import hta_method_process
from tests.benchmarks.beside_hta import make_hta_venv
from tests.benchmarks.machine_description import machine, versions
from tests.benchmarks.paired_commands import markdown
from tests.support.shared_traces import SHARED

TRACES = (("ddp_v100", 1), ("owlv2_pystack_h100", 0))
TARGET = 5
NEGLIGIBLE_S = 0.001
"""What HTA answers so quickly, mostly that there is nothing, is in no target."""
QUICK_S, MORE = 0.1, 7
"""Calls below this are made so many times as often: their times vary more."""


@dataclass
class Side:
    """A process that answers calls."""

    process: subprocess.Popen[str]
    times: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def call(self, number: int) -> None:
        """Have one call made, and note how long it took.

        Raises:
            RuntimeError: the process has ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} has ended")
        self.times.setdefault(number, []).append(json.loads(line))

    def error(self, number: int) -> str:
        """Return what the call raised."""
        return str(self.times[number][0].get("error", ""))

    def first(self, number: int) -> float:
        """Return how long the first call took (s)."""
        return float(self.times[number][0]["wall"])

    def median(self, number: int) -> float:
        """Return how long the calls after the first took (s)."""
        return statistics.median(item["wall"] for item in self.times[number][1:])


def started(python: str, side: str, trace: Path, rank: int, folder: Path) -> Side:
    """Start one side with a copy of the trace, beside which HTA may write."""
    folder.mkdir()
    own = Path(shutil.copy(trace, folder / "trace.json.gz"))
    script = [python, hta_method_process.__file__, side, str(own), str(rank), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return Side(subprocess.Popen(script, text=True, **pipes))  # type: ignore[call-overload]


def measure(trace: Path, rank: int, python: str, rounds: int, folder: Path) -> tuple[Side, Side]:
    """Call every method on both sides in turn."""
    sides = (
        started(python, "hta", trace, rank, folder / "hta"),
        started(sys.executable, "ours", trace, rank, folder / "ours"),
    )
    for number in range(len(hta_method_process.CALLS)):
        for side in sides:
            side.call(number)
        quick = all(side.error(number) or side.first(number) < QUICK_S for side in sides)
        for _ in range(rounds * MORE if quick else rounds):
            for side in sides:
                if not side.error(number):
                    side.call(number)
    for side in sides:
        side.process.communicate()
    return sides


def rows(hta: Side, ours: Side) -> Iterator[list[str]]:
    """Return the lines of the table: milliseconds and how many times faster."""
    for number, (method, arguments) in enumerate(hta_method_process.CALLS):
        said = ", ".join(
            f"{key}={value}" for key, value in arguments.items() if key in ("use_gpu_annotation", "operator_name")
        )
        label = f"{method}({said})" if said else method
        if hta.error(number) or ours.error(number):
            error = f"raises {hta.error(number).split(':')[0]}" if hta.error(number) else _ms(hta.median(number))
            own = f"raises {ours.error(number)}" if ours.error(number) else _ms(ours.median(number))
            yield [label, error, own, "", "", ""]
            continue
        ratio = hta.median(number) / ours.median(number)
        first = hta.first(number) / ours.first(number)
        yield [
            label,
            _ms(hta.median(number)),
            _ms(ours.median(number)),
            f"{ratio:,.1f}",
            _ms(ours.first(number)),
            f"{first:,.1f}",
        ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def report(name: str, hta: Side, ours: Side) -> list[str]:
    """Return one trace's table as lines."""
    table = list(rows(hta, ours))
    least = f"{NEGLIGIBLE_S * 1e3:g} ms"
    slow = [row[0] for row in table if row[3] and _number(row[1]) >= NEGLIGIBLE_S * 1e3 and _number(row[3]) < TARGET]
    header = ["method", "HTA, ms", "ours, ms", "times faster", "first call of ours, ms", "times faster at first"]
    counted = f"of what takes HTA {least} or more"
    verdict = (
        f"{counted}, below {TARGET} times: {', '.join(slow)}" if slow else f"{counted}, all at least {TARGET} times"
    )
    return [f"### {name}", "", *markdown(header, table), "", verdict, ""]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure every analysis beside HTA's method.")
    parser.add_argument("traces", nargs="*", default=[name for name, _ in TRACES], help="folders of shared traces")
    hta = parser.add_mutually_exclusive_group(required=True)
    hta.add_argument("--hta-python", metavar="PYTHON", help="an interpreter that has traceinsight and pandas<3")
    hta.add_argument("--make-hta-venv", type=Path, metavar="DIR", help="make an environment for HTA there and use it")
    parser.add_argument("--rounds", type=int, default=3, help="calls after the first of each method (3)")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and print."""
    options = options_of()
    python = options.hta_python or make_hta_venv(options.make_hta_venv)
    print(f"{machine()}. {versions()}.\n")  # noqa: T201
    for name in options.traces:
        rank = dict(TRACES).get(name, 0)
        with tempfile.TemporaryDirectory() as folder:
            trace = SHARED / "traces" / name / f"rank{rank}.json.gz"
            print("\n".join(report(name, *measure(trace, rank, python, options.rounds, Path(folder)))))  # noqa: T201


if __name__ == "__main__":
    main()
