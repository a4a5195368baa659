"""Beside HTA and beside ``json.loads``, in one run: ``python -m tests.benchmarks.hta_comparison --hta-python PYTHON``.

PYTHON belongs to an environment with ``traceinsight`` and ``pandas<3``; ``--make-hta-venv DIR`` makes one. Whole
processes take turns in every round, after one that does not count; ratios are medians of the rounds' own ratios, so
that a machine that slows down for a while slows down both sides. A benchmark reports, it does not gate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks import hta_critical_path_process
from tests.benchmarks.cold_process import Run, run_cold
from tests.benchmarks.machine_description import machine, versions
from tests.support.shared_traces import SHARED

TRACES = (SHARED / "traces" / "ddp_v100" / "rank1.json.gz", SHARED / "traces" / "sam_eager_a100" / "rank0.json.gz")
JSON_LOADS = "import gzip, json, sys; json.loads(gzip.open(sys.argv[1]).read())"
LOADS, OURS, HTA = (
    "json.loads(gzip.open(FILE).read())",
    "hta-graph critical-path FILE --whole --json OUT",
    "HTA: TraceAnalysis, critical_path_analysis",
)
IN_PROCESS, HTA_ALONE, HTA_LOAD = "hta-graph: graph and path", "HTA: critical_path_analysis", "HTA: load"
AT_LEAST, AT_MOST = "≥", "≤"
ONCE, SOME_TIMES, LARGE_TIMES = 1, 8, 60
LARGE_GB = 24

Times = list[tuple[float, float]]
"""Seconds by the clock and of the processor, round by round."""


@dataclass
class Measured:
    """One trace: times per row of the table, peak bytes of the whole processes, and sizes."""

    name: str
    times: dict[str, Times] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)

    def add(self, runs: Mapping[str, Run]) -> None:
        """Take a round's processes."""
        for row, run in runs.items():
            self._note(row, run.wall_s, run.cpu_s)
            self.peaks[row] = max(self.peaks.get(row, 0), run.peak_bytes)

    def add_stages(self, printed: str, rows: Mapping[str, str]) -> None:
        """Take what a process measured inside itself: stage → row."""
        found = json.loads(printed.splitlines()[-1])
        for stage, row in rows.items():
            self._note(row, *found.pop(stage))
        self.sizes |= {key: value for key, value in found.items() if not isinstance(value, list)}

    def _note(self, row: str, wall: float, cpu: float) -> None:
        self.times.setdefault(row, []).append((wall, cpu))

    def ratio(self, above: str, below: str) -> tuple[float, float]:
        """Divide two rows, by the clock and by processor time."""
        return ratio(self.times[above], self.times[below])


def ratio(above: Times, below: Times) -> tuple[float, float]:
    """Return the median of the rounds' ratios, by the clock and by processor time.

    >>> ratio([(2, 1), (4, 2), (9, 3)], [(1, 1), (2, 1), (3, 1)])
    (2.0, 2.0)
    """
    pairs = list(zip(above, below, strict=True))
    return medians([(a[0] / b[0], a[1] / b[1]) for a, b in pairs])


def medians(times: Times) -> tuple[float, float]:
    """Return the median by the clock and by processor time."""
    wall, cpu = (statistics.median(time[side] for time in times) for side in (0, 1))
    return wall, cpu


@dataclass(frozen=True)
class Target:
    """What was asked for, of which trace, and what was measured."""

    what: str
    trace: str
    sense: str
    bound: float
    found: tuple[float, ...]

    def cells(self) -> list[str]:
        """Return a row of the table."""
        met = ["yes" if self._is_met(value) else "no" for value in self.found]
        verdict = " / ".join(dict.fromkeys(met))
        return [self.what, self.trace, f"{self.sense} {self.bound:g}", *_two(f"{x:.2f}" for x in self.found), verdict]

    def _is_met(self, value: float) -> bool:
        return value >= self.bound if self.sense == AT_LEAST else value <= self.bound


def _two(cells: Iterator[str]) -> list[str]:
    return [*cells, ""][:2]


# -- measuring --------------------------------------------------------------------------------------------------------


def our_command(trace: Path, out: Path) -> list[str]:
    """Return the command that is measured."""
    return [
        sys.executable,
        "-m",
        "analyses.cli.main",
        "critical-path",
        str(trace),
        "--whole",
        "--json",
        str(out),
    ]


def measure(trace: Path, hta_python: str, rounds: int, scratch: Path) -> Measured:
    """Let json.loads, our command and HTA take turns on a trace."""
    measured = Measured(trace.parent.name)
    commands = {
        LOADS: [sys.executable, "-c", JSON_LOADS, str(trace)],
        OURS: our_command(trace, scratch / "path.json"),
        HTA: [hta_python, str(Path(hta_critical_path_process.__file__)), str(trace)],
    }
    inside = [sys.executable, "-m", "tests.benchmarks.graph_and_path_times", str(trace)]
    for number in range(rounds + 1):
        say(f"{measured.name}: round {number} of {rounds}")
        runs = {row: run_cold(command) for row, command in commands.items()}
        graph_and_path = run_cold(inside)
        if number:
            measured.add(runs)
            measured.add_stages(runs[HTA].printed, {"load": HTA_LOAD, "critical_path_analysis": HTA_ALONE})
            measured.add_stages(graph_and_path.printed, {"graph and path": IN_PROCESS})
    return measured


def measure_repeated(trace: Path, times: int, rounds: int, scratch: Path) -> Measured:
    """Run our command on a trace that is repeated in time, as plain JSON."""
    large = scratch / f"times_{times}.json"
    say(f"{trace.parent.name} × {times}: writing")
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.repeat_trace", str(trace), str(times), str(large)], check=True
    )
    measured = Measured(f"{trace.parent.name} × {times}")
    inside = [sys.executable, "-m", "tests.benchmarks.graph_and_path_times", str(large), "--runs", "1"]
    measured.add_stages(run_cold(inside).printed, {"graph and path": IN_PROCESS})
    for number in range(1 if times == LARGE_TIMES else rounds):
        say(f"{measured.name}: round {number + 1}")
        measured.add({OURS: run_cold(our_command(large, scratch / "path.json"))})
    large.unlink()
    return measured


def say(line: str) -> None:
    """Print how far it is."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


# -- targets ----------------------------------------------------------------------------------------------------------


def targets(measured: Measured) -> Iterator[Target]:
    """Yield what is asked for of a trace beside HTA, whose own start and exit count in one row and not in the next."""
    name, sizes = measured.name, measured.sizes
    yield Target("times as fast as json.loads alone", name, AT_LEAST, 1, measured.ratio(LOADS, OURS))
    yield Target("times as fast as HTA, start to exit", name, AT_LEAST, 12, measured.ratio(HTA, OURS))
    stages = zip(measured.times[HTA_LOAD], measured.times[HTA_ALONE], strict=True)
    load_and_path = [(load[0] + path[0], load[1] + path[1]) for load, path in stages]
    yield Target("times as fast as HTA's load and path", name, AT_LEAST, 12, ratio(load_and_path, measured.times[OURS]))
    yield Target("graph and path, times as fast as HTA's", name, AT_LEAST, 50, measured.ratio(HTA_ALONE, IN_PROCESS))
    yield Target("bytes an edge", name, AT_MOST, 24, (sizes["edge_bytes"] / max(sizes["edges"], 1),))


def targets_of_repeated(one: Measured, many: Measured) -> Iterator[Target]:
    """Yield what is asked for of a repeated trace; of the largest only that it is read at all."""
    peak = many.peaks[OURS]
    if many.name.endswith(f"× {LARGE_TIMES}"):
        yield Target("peak memory, GB", many.name, AT_MOST, LARGE_GB, (peak / 1e9,))
        return
    seconds = zip(medians(many.times[OURS]), medians(one.times[OURS]), strict=True)
    per_event = tuple(above / many.sizes["events"] / (below / one.sizes["events"]) for above, below in seconds)
    yield Target("time per event, to the single trace's", many.name, AT_MOST, 1.3, per_event)
    yield Target("peak memory, to the uncompressed file", many.name, AT_MOST, 2.5, (peak / many.sizes["text_bytes"],))


# -- the report -------------------------------------------------------------------------------------------------------


def report(results: Sequence[Measured], wanted: Sequence[Target]) -> Iterator[str]:
    """Yield the lines of the report, as Markdown."""
    yield from [f"Machine: {machine()}.", f"hta-graph: {versions()}."]
    hta = next(measured.sizes for measured in results if "versions" in measured.sizes)
    packages = ", ".join(f"{name} {number}" for name, number in hta["versions"].items())
    yield from [f"HTA: Python {hta['python']}, {packages}.", ""]
    header = ["what", "trace", "target", "by the clock", "by CPU time", "met"]
    yield from markdown(header, [target.cells() for target in wanted])
    yield from ["", "Seconds, median (least to most):", ""]
    yield from markdown(["trace", "what", "by the clock", "CPU time", "peak MB"], list(_rows(results)))


def _rows(results: Sequence[Measured]) -> Iterator[list[str]]:
    for measured in results:
        for row, times in measured.times.items():
            peak = f"{measured.peaks[row] / 1e6:,.0f}" if row in measured.peaks else ""
            yield [measured.name, row, *(_spread([time[side] for time in times]) for side in (0, 1)), peak]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align a Markdown table, so that it reads well in a terminal too.

    >>> markdown(["a", "b"], [["one", "1"]])
    ['| a   | b |', '| --- | - |', '| one | 1 |']
    """
    sizes = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = [header, ["-" * size for size in sizes], *rows]
    return ["| " + " | ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)) + " |" for row in lines]


# -- the command ------------------------------------------------------------------------------------------------------


def make_hta_venv(folder: Path) -> str:
    """Make an environment for HTA and return its interpreter."""
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "traceinsight", "pandas<3"], check=True)
    return python


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure hta-graph beside HTA and json.loads.")
    parser.add_argument("traces", nargs="*", type=Path, help="the second is also repeated (ddp_v100, sam_eager_a100)")
    hta = parser.add_mutually_exclusive_group(required=True)
    hta.add_argument("--hta-python", metavar="PYTHON", help="an interpreter that has traceinsight and pandas<3")
    hta.add_argument("--make-hta-venv", type=Path, metavar="DIR", help="make an environment for HTA there and use it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help=f"also repeat {LARGE_TIMES} times (4 GB on disk)")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where repeated traces go (a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single measurement")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="renew the section about speed (docs/evidence/index.md)"
    )
    options = parser.parse_args(arguments)
    options.traces = options.traces or list(TRACES)
    if missing := [str(trace) for trace in options.traces if not trace.is_file()]:
        parser.error(f"no such trace: {', '.join(missing)}; name traces, or set HTA_GRAPH_SHARED to the shared folder")
    return options


def main() -> None:
    """Measure and print."""
    options = options_of()
    python = options.hta_python or make_hta_venv(options.make_hta_venv)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        beside = [measure(trace, python, options.rounds, scratch) for trace in options.traces]
        counts = (ONCE, SOME_TIMES, *([LARGE_TIMES] if options.large else []))
        repeated = [measure_repeated(options.traces[-1], times, options.rounds, scratch) for times in counts]
    wanted = [target for measured in beside for target in targets(measured)]
    wanted += [target for many in repeated[1:] for target in targets_of_repeated(repeated[0], many)]
    results = [*beside, *repeated]
    if options.json:
        options.json.write_text(json.dumps([asdict(measured) for measured in results], indent=1), encoding="utf-8")
    if options.page:
        # It imports this module for the names of the rows.
        from tests.benchmarks.manual_speed_section import speed_section, write_speed_section

        lines = speed_section(beside, repeated, options.rounds, datetime.now(tz=UTC).date())
        write_speed_section(options.page, lines)
    print("\n".join(report(results, wanted)))  # noqa: T201


if __name__ == "__main__":
    main()
