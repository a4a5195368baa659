"""What the fuzz programs share: cases by their numbers, the loop over them, and what came of each kind."""

from __future__ import annotations

import argparse
import re
import secrets
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FAILURES = "failures"
MOST_SHOWN = 20


@dataclass
class Case:
    """A case, found again by its number and the run's seed; who examines it says of which kind it is."""

    number: int
    folder: Path
    kind: str = "any"
    origin: str = ""

    def __str__(self) -> str:
        return f"case {self.number}, {self.kind}" + f" of {self.origin}" * bool(self.origin)


Examine = Callable[[Case], str | tuple[str, ...]]
"""Makes a case in its folder and questions it; returns what came of it, in one word or several that are counted."""


@dataclass
class Tally:
    """What came of the cases of each kind, the report of each that failed, and the slowest."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: dict[int, str] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def total(self, word: str) -> int:
        """Return how many cases came to this."""
        return sum(counts[word] for counts in self.counts.values())

    def table(self, columns: Sequence[str] = ()) -> Iterator[str]:
        """Print the counts per kind, and their sums."""
        summed = sum(self.counts.values(), Counter[str]())
        shown = ["cases", *(columns or sorted(set(summed) - {"cases", FAILURES})), FAILURES]
        widths = [max(len(column), 8) for column in shown]
        for kind, counts in [("", Counter[str]()), *sorted(self.counts.items()), ("all", summed)]:
            cells = [f"{counts[column]:,}" if kind else column for column in shown]
            yield "  ".join([*(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)), kind]).rstrip()


def fuzz(examine: Examine, numbers: Iterable[int], keep: Path | None = None) -> Tally:
    """Examine the cases of these numbers, with warnings as errors; keep the files of those that fail, if asked."""
    tally = Tally()
    for number in numbers:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            case = Case(number, Path(folder))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    found = examine(case)
            except (Exception, SystemExit):  # noqa: BLE001 - a fuzzer reports whatever is raised
                found = FAILURES
                tally.failures[number] = f"{case}\n{traceback.format_exc()}"
                if keep is not None:
                    _keep(case, tally.failures[number], keep)
        tally.counts[case.kind].update(("cases", *([found] if isinstance(found, str) else found)))
        tally.slowest = sorted([*tally.slowest, (time.perf_counter() - began, str(case))])[-5:]
    return tally


def _keep(case: Case, report: str, keep: Path) -> None:
    folder = keep / f"{re.sub(r'[^a-z_]+', '_', case.kind)[:40]}_{case.number}"
    shutil.copytree(case.folder, folder, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)
    folder.with_suffix(".txt").write_text(report)


def _copy_file(source: str, target: str) -> str:
    """Copy what is a file; a named pipe would never end."""
    return shutil.copy(source, target) if Path(source).is_file() else target


def new_seed() -> int:
    """Return a seed that no earlier run had; a run prints its seed, so that it can be repeated."""
    return secrets.randbelow(10**8)


def fuzz_parser(description: str | None, cases: int) -> argparse.ArgumentParser:
    """Return the parser of what each fuzz program is asked."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=new_seed(), help="of the run; a new one by default")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "hta_graph_fuzz")
    return parser


def run_fuzz(examine: Examine, options: argparse.Namespace, columns: Sequence[str] = ()) -> int:
    """Fuzz as long as asked, print what became of it, and return 1 if something broke."""
    found = fuzz(examine, range(options.first, options.first + options.cases), options.keep)
    sys.stdout.write("\n".join([f"seed {options.seed}", *found.table(columns)]) + "\n")
    sys.stdout.writelines(f"{seconds:6.2f} s {what}\n" for seconds, what in found.slowest)
    sys.stdout.writelines(f"{report}\n" for report in list(found.failures.values())[:MOST_SHOWN])
    if found.failures:
        sys.stdout.write(f"{len(found.failures)} failing inputs are in {options.keep}\n")
    return int(bool(found.failures))
