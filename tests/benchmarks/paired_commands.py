"""Commands of the product and another program in turn, from the start of a process to its exit, as ratios with spread.

A pair is the other program, the first question with an empty cache, and the question after another one about the same
files, directly after each other: a machine that slows down for a while slows down all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tests.benchmarks.cold_process import Run, run_cold
from tests.benchmarks.machine_description import machine, versions
from tests.support.generated_section import GeneratedSection
from tests.support.shared_traces import SHARED

SHARED_INPUTS = (
    "ddp_v100/rank1.json.gz",
    "sam_eager_a100/rank0.json.gz",
    "owlv2_pystack_h100/rank0.json.gz",
    "nanogpt_ddp_8xh100",
)
SAMPLE = Path(__file__).parents[1] / "multi_rank" / "recorded" / "stages_every"
QUESTIONS = ("critical-path", "report", "attribution", "roofline", "diff", "what-if", "stragglers")
FIRST, AFTER_ANOTHER = "first", "after `info`"
"""With an empty cache; with the graphs in it."""
PAGE = "../tests/benchmarks/speed.md"


@dataclass(frozen=True)
class Other:
    """The program that ours is compared with: name, command for an input, whether its time is divided by ours."""

    name: str
    command: Callable[[Path], list[str]]
    is_divided_by_ours: bool


@dataclass
class Measured:
    """One command on one input: its runs and those of the other program, pair by pair."""

    trace: str
    question: str
    asked: str
    pairs: list[tuple[Run, Run]] = field(default_factory=list)

    def cells(self, *, is_divided_by_ours: bool) -> list[str]:
        """Return a row of the table."""
        sides = [(other, own) if is_divided_by_ours else (own, other) for own, other in self.pairs]
        by_cpu = spread([above.cpu_s / below.cpu_s for above, below in sides])
        by_clock = spread([above.wall_s / below.wall_s for above, below in sides])
        seconds = min(own.cpu_s for own, _ in self.pairs)
        peak, beside = (max(run[side].peak_bytes for run in self.pairs) for side in (0, 1))
        return [
            self.trace,
            self.question,
            self.asked,
            by_cpu,
            by_clock,
            f"{seconds:.2f}",
            f"{peak / 1e6:,.0f}",
            f"{peak / beside:.2f}",
        ]


def spread(ratios: Sequence[float]) -> str:
    """Write the median and, in parentheses, the least and the greatest.

    >>> spread([1.5, 1, 4]), spread([120])
    ('1.50 (1.00–4.00)', '120')
    """
    found = [f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" for ratio in (statistics.median(ratios), *_ends(ratios))]
    return found[0] if len(ratios) == 1 else f"{found[0]} ({found[1]}–{found[2]})"


def _ends(ratios: Sequence[float]) -> tuple[float, float]:
    return min(ratios), max(ratios)


# -- commands ---------------------------------------------------------------------------------------------------------


def rank_files(trace: Path) -> list[Path]:
    """Return the files of an input."""
    return sorted(trace.glob("*.json.gz")) if trace.is_dir() else [trace]


def own_command(question: str, trace: Path, scratch: Path) -> list[str]:
    """Return the command that is measured; `diff` compares the input with a copy that is compressed anew."""
    inputs = inputs_of_question(question, trace, scratch)
    written = ["--output", str(scratch / "page.html")] if question == "report" else ["--json", str(scratch / "a.json")]
    return [sys.executable, "-m", "hta_graph", question, *map(str, inputs), *written]


def inputs_of_question(question: str, trace: Path, scratch: Path) -> list[Path]:
    """Return the inputs of a command."""
    return [trace, recompressed(trace, scratch)] if question == "diff" else [trace]


def recompressed(trace: Path, scratch: Path) -> Path:
    """Write the same texts in other bytes, which no cache takes for the same files."""
    copy = scratch / f"again_{trace.parent.name}_{trace.name}"
    if copy.exists():
        return copy
    if trace.is_dir():
        copy.mkdir()
    for file in rank_files(trace):
        target = copy / file.name if trace.is_dir() else copy
        # Piece by piece: a child's peak memory counts that of the process that forked it.
        if file.suffix == ".gz":
            with gzip.open(file) as text, gzip.open(target, "wb", 5) as packed:
                shutil.copyfileobj(text, packed, 1 << 16)
        else:
            shutil.copyfile(file, target)
            with target.open("ab") as end:
                end.write(b"\n")
    return copy


@cache
def has_graph_cache() -> bool:
    """Return whether this version caches graphs: only then a second question differs from the first."""
    words = [sys.executable, "-m", "hta_graph", "critical-path", "--help"]
    return "--no-cache" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def name_of(trace: Path) -> str:
    """Name an input in the table: folder and file, or the folder and its number of ranks.

    >>> name_of(Path("ddp_v100/rank1.json.gz"))
    'ddp_v100/rank1'
    """
    if trace.is_dir():
        return f"{trace.name} ({len(rank_files(trace))} ranks)"
    return f"{trace.parent.name}/{trace.name.removesuffix('.gz').removesuffix('.json')}"


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(trace: Path, questions: Sequence[str], other: Other, pairs: int, scratch: Path) -> Iterator[Measured]:
    """Yield each question's runs on an input; one run of the other program and of ours is not counted."""
    folder = scratch / "cache"
    cached = ["--cache", str(folder)] if has_graph_cache() else []
    beside = other.command(trace)
    run_cold(beside)
    run_cold(own_command("critical-path", trace, scratch))
    for question in questions:
        command = own_command(question, trace, scratch)
        every = [FIRST, AFTER_ANOTHER] if cached else [FIRST]
        found = [Measured(name_of(trace), question, asked) for asked in every]
        for number in range(pairs):
            say(f"{name_of(trace)}: {question}, pair {number + 1} of {pairs}")
            base = run_cold(beside)
            for measured in found:
                shutil.rmtree(folder, ignore_errors=True)
                if measured.asked == AFTER_ANOTHER:
                    for input_ in inputs_of_question(question, trace, scratch):
                        run_cold([*own_command("info", input_, scratch), *cached])
                measured.pairs.append((run_cold([*command, *cached]), base))
        yield from found


def say(line: str) -> None:
    """Print the progress."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


# -- the report -------------------------------------------------------------------------------------------------------


def table(results: Sequence[Measured], other: Other) -> Iterator[str]:
    """Yield the table as Markdown."""
    sides = f"{other.name} / ours" if other.is_divided_by_ours else f"ours / {other.name}"
    header = ["input", "command", "question", f"processor time, {sides}", f"clock, {sides}", "ours, CPU s", "peak MB"]
    rows = [measured.cells(is_divided_by_ours=other.is_divided_by_ours) for measured in results]
    yield from markdown([*header, f"peak / {other.name}"], rows)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align a Markdown table, so that it reads well in a terminal too.

    >>> markdown(["a", "b"], [["one", "1"]])
    ['| a   | b |', '| --- | - |', '| one | 1 |']
    """
    sizes = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = [header, ["-" * size for size in sizes], *rows]
    return ["| " + " | ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)) + " |" for row in lines]


def add_options(parser: argparse.ArgumentParser, questions: Sequence[str]) -> None:
    """Add what both benchmarks take."""
    parser.add_argument("traces", nargs="*", type=Path, metavar="INPUT", help="trace files and folders of rank files")
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=questions, metavar="COMMAND")
    parser.add_argument("--pairs", type=int, default=5, help="pairs that count (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each run")
    parser.add_argument("--markdown", action="store_true", help="replace the table in tests/benchmarks/speed.md")


def inputs_of(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Path]:
    """Return the named inputs, else the shared traces, else the recorded sample."""
    shared = [SHARED / "traces" / name for name in SHARED_INPUTS]
    found: list[Path] = options.traces or [trace for trace in shared if trace.exists()] or [SAMPLE]
    if missing := [str(trace) for trace in found if not rank_files(trace) or not trace.exists()]:
        parser.error(f"no such trace: {', '.join(missing)}")
    return found


def run(options: argparse.Namespace, traces: Sequence[Path], other: Other, command: str) -> None:
    """Measure and print; `command` is the benchmark's module, which names its section of the page."""
    before = os.getloadavg()[0]
    results: list[Measured] = []
    for trace in traces:
        with tempfile.TemporaryDirectory() as folder:
            # Ranks wait for each other only where there are several.
            asked = [name for name in options.questions if name != "stragglers" or trace.is_dir()]
            results += measure(trace, asked, other, options.pairs, Path(folder))
    load = f"load average {before:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    words = re.sub(r"(?<=--hta-python )\S+", "PYTHON", " ".join(sys.argv[1:]))
    where = f"{datetime.now(tz=UTC):%Y-%m-%d}, {machine()}; {load}; {versions()}."
    lines = [f"`python -m tests.benchmarks.{command} {_without_folders(words)}`,", where, "", *table(results, other)]
    print("\n".join(lines))  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps([asdict(measured) for measured in results], indent=1), encoding="utf-8")
    if options.markdown:
        text = "".join(f"{line}\n" for line in lines)
        GeneratedSection(PAGE, command, lambda: text).write()


def _without_folders(words: str) -> str:
    return words.replace(f"{SHARED}/traces/", "")
