"""What every command costs with ten times as much: ``python -m tests.benchmarks.scaling_attacks [--shape NAME…]``.

Traces that have very much of one thing are written at a tenth and at full size, and every command is asked about both.
The table shows seconds of processors, beside those of reading alone, and how the seconds per thing compare with those
at a tenth: 1.0 is what grows as the trace does. A command starts with everything imported, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyses.cli.command import Command, CommandGroup, every_command
from analyses.cli.main import main as run_command
from tests.benchmarks.machine_description import machine, versions
from tests.benchmarks.scaling_traces import FOLDERS, SHAPES, write_folder, write_shape
from tests.same_outputs import preload

READING = "(reading)"
LIMIT_S = int(os.environ.get("SCALING_LIMIT_S", "120"))
LIMIT_BYTES = int(os.environ.get("SCALING_LIMIT_GB", "6")) << 30
LEAST_S = 0.1
"""Less time than this at a tenth says nothing about growth."""
MOST_GROWTH = 1.3
"""Ten times as much of anything costs at most 13 times as much."""
MOST_BESIDE_READING = 5.0

FURTHER: dict[str, list[list[str]]] = {
    "info": [["info", "T"], ["info", "T", "--json", "OUT/o.json"]],
    "critical-path": [
        ["critical-path", "T"],
        ["critical-path", "T", "--whole", "--near", "1%", "--json", "OUT/o.json"],
        ["critical-path", "T", "--per-step"],
        ["critical-path", "T", "--whole", "--overlay", "OUT/o.json", "--dot", "OUT/o.dot"],
    ],
    "what-if": [["what-if", "T"], ["what-if", "T", "--whole"], ["what-if", "T", "--scale", "kernel:gemm=0.5"]],
    "graph": [
        ["graph", "T", "--json", "OUT/o.json"],
        ["graph", "T", "--parquet", "OUT/parquet"],
        ["graph", "T", "--kineto", "OUT/k.json"],
    ],
    "sync-deps": [["sync-deps", "T"], ["sync-deps", "T", "--json", "OUT/o.json", "--csv", "OUT/o.csv"]],
    "render": [
        ["render", "T", "--path", "--whole", "-o", "OUT/o.dot"],
        ["render", "T", "--lanes", "--whole", "-o", "OUT/l.svg"],
        ["render", "T", "--around", "0", "--depth", "3", "-o", "OUT/a.dot"],
    ],
    "timeline": [["timeline", "T", "-o", "OUT/o.html"], ["timeline", "T", "--whole", "-o", "OUT/w.html"]],
    "kernel-sequences": [
        ["kernel-sequences", "T", "--operator", "aten::"],
        ["kernel-sequences", "T", "--operator", "aten::", "--overlay", "OUT/k.json"],
    ],
    "counters": [["counters", "T", "-o", "OUT"]],
    "diff": [["diff", "T", "T"], ["diff", "T", "T", "--json", "OUT/o.json"]],
    "gate": [
        ["gate", "--update", "OUT/b.json", "T"],
        ["gate", "T", "T", "--json", "OUT/o.json"],
        ["gate", "OUT/b.json", "T"],
    ],
    "strip": [["strip", "T", "-o", "OUT/s.json"]],
    "report": [["report", "T", "-o", "OUT/o.html"], ["report", "T", "--whole", "-o", "OUT/w.html"]],
    "attribution": [["attribution", "T", "--by", by] for by in ("operator", "frame", "module", "annotation")],
    "chakra convert": [
        ["chakra", "convert", "T", "--profile", profile, "--unknown-collectives", "as-compute", "--missing-ranks",
         "as-compute", "-o", f"OUT/{profile}"]
        for profile in ("full", "gpu")
    ],
    "chakra check": [["chakra", "check", "OUT/full"]],
    "chakra simulate": [["chakra", "simulate", "OUT/full"]],
    "chakra scale": [["chakra", "scale", "OUT/full", "--gpu", "0.5", "-o", "OUT/scaled"]],
    **{name: [] for name in ("cache", "completion", "demo", "mcp", "schema")},
    "chakra link": [],
    "chakra statistics": [],
}  # fmt: skip
"""How commands are asked that take more than a trace, or are asked in several ways; none where they take none."""


@dataclass(frozen=True)
class Asked:
    """What a command took: seconds of processors, most memory (bytes), exit status, lines that it printed."""

    seconds: float
    peak_bytes: int
    status: int
    lines: int


WITH_STEPS = ("plain", "asked_steps", "ranks")
"""The shapes of which every command is asked about each step."""


def questions(shape: str) -> Iterator[list[str]]:
    """List how every command is asked: ``T`` is the trace, ``OUT`` a folder for what is written."""
    for name in sorted(_command_names(), key=lambda name: name.startswith("chakra")):
        if name in FURTHER:
            yield from FURTHER[name]
        else:
            yield from ([name, "T"], [name, "T", "--json", "OUT/o.json", "--plot", "OUT/p.html"])
            if shape in WITH_STEPS:
                yield [name, "T", "--per-step"]


def _command_names() -> Iterator[str]:
    for command in every_command():
        if isinstance(command, CommandGroup):
            yield from (f"{command.name} {inner.name}" for inner in command.commands)
        elif isinstance(command, Command):
            yield command.name


def ask(question: Sequence[str], trace: Path, out: Path) -> Asked:
    """Ask in a process of its own, as long and with as much memory as is allowed."""
    argv = [
        part.replace("OUT", str(out)) if "OUT" in part else str(trace) if part == "T" else part for part in question
    ]
    printed = out / "printed"
    child = os.fork()
    if child == 0:
        os._exit(_in_child(argv, printed))
    _, status, usage = os.wait4(child, 0)
    # Not by the clock: what else the machine does would look like growth.
    took = usage.ru_utime + usage.ru_stime
    lines = printed.read_bytes().count(b"\n")
    return Asked(took, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status), lines)


def _in_child(argv: Sequence[str], printed: Path) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    for number in (1, 2):
        os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if number == 1 else 0)), number)
    os.environ["COLUMNS"] = "100"
    try:
        status = _read_all(argv[1]) if argv[0] == READING else run_command(argv)
        sys.stdout.flush()
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:  # noqa: BLE001 - a crash is a result too
        os.write(2, f"{type(error).__name__}: {error}".encode())
        status = 99
    return status


def _read_all(trace: str) -> int:
    """Read as every command has to: each rank's trace becomes its graph."""
    from hta_graph.multi_rank.job_source import read_graphs

    for _ in read_graphs(trace, report=lambda _: None):
        pass
    return 0


def write(name: str, size: int, folder: Path) -> Path:
    """Write a trace or a folder of traces, of so many things."""
    if name in SHAPES:
        return write_shape(SHAPES[name], size, folder / f"{name}_{size}.json")
    return write_folder(name, size, folder / f"{name}_{size}")


def measure(name: str, size: int, asked: Sequence[Sequence[str]], folder: Path) -> dict[str, Asked]:
    """Ask all questions about one shape at one size."""
    trace = write(name, size, folder)
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    found = {}
    for question in [(READING, "T"), *asked]:
        words = " ".join(question)
        found[words] = ask(question, trace, out)
        print(f"{name} {size} {found[words].seconds:.2f} s {words}", file=sys.stderr, flush=True)  # noqa: T201
    shutil.rmtree(trace) if trace.is_dir() else trace.unlink()
    return found


def table_lines(name: str, size: int, large: dict[str, Asked], small: dict[str, Asked]) -> Iterator[str]:
    """Compare two sizes: a line per question, marked where its time grows faster than the trace."""
    ways = large[f"{READING} T"].seconds
    yield f"{name}: {size:,} and {size // 10:,}; reading takes {ways:.2f} s"
    yield "  seconds  a tenth  growth  × reading  peak MB  lines  status  command"
    for question, run in large.items():
        tenth = small[question]
        growth = run.seconds / max(tenth.seconds, LEAST_S) / 10
        beside = run.seconds / max(ways, LEAST_S)
        mark = "!" if growth > MOST_GROWTH else "?" if beside > MOST_BESIDE_READING else " "
        yield (
            f"{mark} {run.seconds:7.2f}  {tenth.seconds:7.2f}  {growth:6.2f}  {beside:9.2f}  "
            f"{run.peak_bytes / 1e6:7.0f}  {run.lines:5}  {run.status:6}  {question}"
        )


def brief_lines(name: str, size: int, lines: list[str]) -> Iterator[str]:
    """Tell of a table how many of its lines there are, and those whose time grows faster than the trace."""
    marked = [line for line in lines if line.startswith("!")]
    growing = f"{len(marked)} grow faster than the trace" if marked else "none grows faster than the trace"
    yield f"{name}: {size:,} and {size // 10:,}; {len(lines) - 2} questions, {growing}"
    yield from marked


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> int:
    """Print a table per shape, and return 1 if a command's time grows faster than the trace."""
    parser = argparse.ArgumentParser(description="What every command costs with ten times as much of one thing.")
    parser.add_argument("--shape", nargs="+", choices=[*SHAPES, *FOLDERS], default=[*SHAPES, *FOLDERS])
    parser.add_argument("--size", type=int, help="how many things; by default each shape's own number")
    parser.add_argument("--command", nargs="+", default=[], help="only what is asked with one of these words")
    parser.add_argument("--folder", type=Path, help="where traces are written (a temporary folder)")
    parser.add_argument("--brief", action="store_true", help="a line per shape, and what grows faster than the trace")
    options = parser.parse_args()
    preload()
    grows = False
    _say(f"{machine()}; {versions()}")
    with tempfile.TemporaryDirectory(prefix="scaling_", dir=options.folder) as folder:
        for name in options.shape:
            size = options.size or (SHAPES[name].size if name in SHAPES else FOLDERS[name][0])
            asked = [of for of in questions(name) if not options.command or set(options.command) & set(of)]
            small = measure(name, size // 10, asked, Path(folder))
            large = measure(name, size, asked, Path(folder))
            lines = list(table_lines(name, size, large, small))
            grows |= any(line.startswith("!") for line in lines)
            for line in brief_lines(name, size, lines) if options.brief else lines:
                _say(line)
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
