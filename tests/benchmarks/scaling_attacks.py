"""What every command costs with ten times as much: ``python -m tests.benchmarks.scaling_attacks [--shape NAME…]``.

Traces that have very much of one thing are written at a tenth and at full size, and every command is asked about both.
The tables show seconds of processors, beside those of reading alone, and the ratio of both sizes: 10 is what grows as
the trace does. Where it is too large, both are asked again, and the best counts. A command starts with everything
imported, in a process of its own. Last comes the worst of each command.
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
LEAST_S = 0.05
"""Less time than this at a tenth says nothing about growth."""
MOST_RATIO = 13.0
"""Ten times as much of anything costs at most so many times as much."""
MOST_TRIES = 3
MOST_BESIDE_READING = 5.0

FURTHER: dict[str, list[list[str]]] = {
    "info": [["info", "T"], ["info", "T", "--json", "OUT/o.json"]],
    "critical-path": [
        ["critical-path", "T"],
        ["critical-path", "T", "--whole", "--near", "1%", "--json", "OUT/o.json"],
        ["critical-path", "T", "--per-step"],
        ["critical-path", "T", "--whole", "--overlay", "OUT/p.json", "--dot", "OUT/p.dot"],
    ],
    "what-if": [["what-if", "T"], ["what-if", "T", "--scale", "kernel:gemm=0.5"], ["what-if", "T", "--whole"]],
    "graph": [
        ["graph", "T", "--json", "OUT/o.json"],
        ["graph", "T", "--parquet", "OUT/parquet"],
        ["graph", "T", "--kineto", "OUT/k.json"],
    ],
    "sync-deps": [["sync-deps", "T"], ["sync-deps", "T", "--json", "OUT/o.json", "--csv", "OUT/o.csv"]],
    "render": [
        ["render", "T", "--around", "0", "--depth", "3", "-o", "OUT/a.dot"],
        ["render", "T", "--path", "--whole", "-o", "OUT/o.dot"],
        ["render", "T", "--lanes", "--whole", "-o", "OUT/l.svg"],
    ],
    "timeline": [["timeline", "T", "-o", "OUT/o.html"], ["timeline", "T", "--whole", "-o", "OUT/w.html"]],
    "kernel-sequences": [
        ["kernel-sequences", "T", "--operator", "aten::"],
        ["kernel-sequences", "T", "--operator", "aten::", "--overlay", "OUT/p.json"],
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
    "attribution": [["attribution", "T", "--by", by] for by in ("operator", "module", "annotation", "frame")],
    "chakra convert": [
        ["chakra", "convert", "T", "--profile", profile, "--unknown-collectives", "as-compute", "--missing-ranks",
         "as-compute", "--force", "-o", f"OUT/{profile}"]
        for profile in ("full", "gpu")
    ],
    "chakra check": [["chakra", "check", "OUT/full"]],
    "chakra simulate": [["chakra", "simulate", "OUT/full"]],
    "chakra scale": [["chakra", "scale", "OUT/full", "--gpu", "0.5", "--force", "-o", "OUT/scaled"]],
    **{name: [] for name in ("cache", "completion", "demo", "mcp", "schema")},
    "chakra link": [],
    "chakra statistics": [],
}  # fmt: skip
"""How commands are asked that take more than a trace, or are asked in several ways; none where they take none."""
IN_ALL_WAYS = ("plain", "ranks")
"""The shapes of which commands are asked in all ways, else in the last."""
ALL_NEEDED = ("gate", "chakra convert")


@dataclass(frozen=True)
class Asked:
    """What a command took: seconds of processors, most memory (bytes), exit status, lines that it printed."""

    seconds: float
    peak_bytes: int
    status: int
    lines: int


WITH_STEPS = ("plain", "asked_steps")
"""The shapes of which every command is asked about each step."""


def questions(shape: str) -> Iterator[list[str]]:
    """List how every command is asked: ``T`` is the trace, ``OUT`` a folder for what is written."""
    for name in sorted(_command_names(), key=lambda name: name.startswith("chakra")):
        # Pages have a size of their own, beside which growth would not show.
        ways = FURTHER.get(name, [[name, "T", "--plot", "OUT/p.html"], [name, "T", "--json", "OUT/o.json"]])
        yield from ways if shape in IN_ALL_WAYS or name in ALL_NEEDED else ways[-1:]
        if shape in WITH_STEPS and name not in FURTHER:
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


@dataclass(frozen=True)
class Compared:
    """A question about one shape at both sizes."""

    shape: str
    size: int
    question: str
    tenth: Asked
    full: Asked

    @property
    def ratio(self) -> float:
        """How many times as long the full size takes."""
        return self.full.seconds / max(self.tenth.seconds, LEAST_S)

    @property
    def command(self) -> str:
        """The command that is asked."""
        words = self.question.split()
        return " ".join(words[: 1 + (words[0] == "chakra")])


def compare(name: str, size: int, asked: Sequence[Sequence[str]], folder: Path) -> Iterator[Compared]:
    """Ask all questions about one shape at both sizes."""
    places = [folder / "tenth", folder / "full"]
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        (place / "out").mkdir(parents=True)
    traces = [write(name, size // 10, places[0]), write(name, size, places[1])]
    for question in [(READING, "T"), *asked]:
        best: list[Asked] = []
        for _ in range(MOST_TRIES):
            now = [ask(question, trace, place / "out") for trace, place in zip(traces, places, strict=True)]
            best = [min(pair, key=lambda run: run.seconds) for pair in zip(now, best or now, strict=True)]
            found = Compared(name, size, " ".join(question), *best)
            if found.ratio <= MOST_RATIO:
                break
        print(f"{name} {found.full.seconds:.2f} s {found.question}", file=sys.stderr, flush=True)  # noqa: T201
        yield found


def table_lines(found: Sequence[Compared]) -> Iterator[str]:
    """Compare two sizes: a line per question, marked where its time grows faster than the trace."""
    reading = found[0]
    ways = reading.full.seconds
    yield f"{reading.shape}: {reading.size:,} and {reading.size // 10:,}; reading takes {ways:.2f} s"
    yield "  seconds  a tenth  ratio  × reading  peak MB  lines  status  command"
    for one in found:
        run, beside = one.full, one.full.seconds / max(ways, LEAST_S)
        mark = "!" if one.ratio > MOST_RATIO else "?" if beside > MOST_BESIDE_READING else " "
        yield (
            f"{mark} {run.seconds:7.2f}  {one.tenth.seconds:7.2f}  {one.ratio:5.1f}  {beside:9.2f}  "
            f"{run.peak_bytes / 1e6:7.0f}  {run.lines:5}  {run.status:6}  {one.question}"
        )


def brief_lines(lines: Sequence[str]) -> Iterator[str]:
    """Tell of a table how many of its lines there are, and those whose time grows faster than the trace."""
    marked = [line for line in lines if line.startswith("!")]
    growing = f"{len(marked)} grow faster than the trace" if marked else "none grows faster than the trace"
    yield f"{lines[0].split(';')[0]}; {len(lines) - 2} questions, {growing}"
    yield from marked


def worst_lines(found: Sequence[Compared]) -> Iterator[str]:
    """Show the largest ratio of each command, as a table in Markdown."""
    yield "| command | most of | sizes | seconds | ratio |"
    yield "|---|---|---|---|---|"
    for command in dict.fromkeys(one.command for one in found):
        one = max((one for one in found if one.command == command), key=lambda one: one.ratio)
        yield (
            f"| `{one.question}` | {one.shape} | {one.size // 10:,}, {one.size:,} "
            f"| {one.tenth.seconds:.2f}, {one.full.seconds:.2f} | {one.ratio:.1f} |"
        )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> int:
    """Print a table per shape and one of all commands; return 1 if a command's time grows faster than the trace."""
    parser = argparse.ArgumentParser(description="What every command costs with ten times as much of one thing.")
    parser.add_argument("--shape", nargs="+", choices=[*SHAPES, *FOLDERS], default=[*SHAPES, *FOLDERS])
    parser.add_argument("--size", type=int, help="how many things; by default each shape's own number")
    parser.add_argument("--command", nargs="+", default=[], help="only what is asked with one of these words")
    parser.add_argument("--folder", type=Path, help="where traces are written (a temporary folder)")
    parser.add_argument("--brief", action="store_true", help="a line per shape, and what grows faster than the trace")
    options = parser.parse_args()
    preload()
    every: list[Compared] = []
    _say(f"{machine()}; {versions()}")
    with tempfile.TemporaryDirectory(prefix="scaling_", dir=options.folder) as folder:
        for name in options.shape:
            size = options.size or (SHAPES[name].size if name in SHAPES else FOLDERS[name][0])
            asked = [of for of in questions(name) if not options.command or set(options.command) & set(of)]
            found = list(compare(name, size, asked, Path(folder)))
            lines = list(table_lines(found))
            for line in brief_lines(lines) if options.brief else lines:
                _say(line)
            every += found
    for line in worst_lines(every):
        _say(line)
    return int(any(one.ratio > MOST_RATIO for one in every))


if __name__ == "__main__":
    sys.exit(main())
