"""Break the package on purpose, one place at a time, and see which test notices: ``python -m tests.mutations``.

Each mutation replaces one text in a copy of the package; a text that is not there exactly once is an error, not a
survivor. This module is also a pytest plugin: mutated code needs no shrunk examples, only the first failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import Phase, settings

from tests.support.shared_traces import SHARED

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
TESTS = ("tests/whole/test_adversarial.py", "tests/whole/test_oracles.py", "tests/whole/test_invariants.py")
TIME_LIMIT_S = 400
RULES = (
    "thread_order", "execution", "launch", "stream_order", "graph_order", "event_wait", "stream_sync", "device_sync",
    "event_sync", "blocking_copy", "thread_handoff", "forward_backward", "runtime_lock", "queue_full",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis stop at the first failing example (this module is given to pytest as a plugin)."""
    del config
    settings.register_profile("first_failure", phases=(Phase.explicit, Phase.generate), derandomize=True)
    settings.load_profile("first_failure")


@dataclass(frozen=True)
class Mutation:
    """A mistake: in a file of the package a text becomes another."""

    name: str
    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Change the file.

        Raises:
            LookupError: the text is not there exactly once.
        """
        path = root / "hta_graph" / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.file} holds {self.old!r} {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new))


def removed_rules() -> Iterator[Mutation]:
    """Leave out one rule after the other."""
    for rule in RULES:
        yield Mutation(f"without {rule}", "links/__init__.py", f"\n    {rule},\n", "\n")


def swapped_edges() -> Iterator[Mutation]:
    """Let the edges of one kind lead from target to source."""
    old = "        size = len(source)\n"
    for rule in RULES:
        swap = f"        if kind == EdgeKind.{rule.upper()}:\n            source, target = target, source\n"
        yield Mutation(f"swap {rule}", "graph/edges.py", old, old + swap)


MISTAKES = (
    Mutation(
        "the first instead of the last predecessor",
        "algorithms/time/walk.py",
        "finished[rows] > best[edges.target[rows]]",
        "binding[edges.target[rows]] < 0",
    ),
    Mutation(
        "of one kind the first predecessor",
        "algorithms/time/walk.py",
        "targets[order][1:] != targets[order][:-1], True)",
        "targets[order][1:] != targets[order][:-1], True)\n"
        "    last = np.append(True, targets[order][1:] != targets[order][:-1])",
    ),
    Mutation(
        "a source after its target counts as later",
        "algorithms/time/walk.py",
        "np.minimum(times[edges.source], times[edges.target])",
        "times[edges.source]",
    ),
    Mutation(
        "ties go to the last kind",
        "algorithms/time/walk.py",
        "finished[rows] > best[edges.target[rows]]",
        "finished[rows] >= best[edges.target[rows]]",
    ),
    Mutation("the walk goes on behind the window", "algorithms/time/walk.py", "<= until_ns:", "<= until_ns - 10**6:"),
    Mutation("the walk stops early", "algorithms/time/walk.py", "<= until_ns:", "<= until_ns + 10**3:"),
    Mutation(
        "the walk's times may rise",
        "algorithms/time/walk.py",
        "np.minimum.accumulate(graph.timeline.times[walked])",
        "graph.timeline.times[walked]",
    ),
    Mutation(
        "stream order from the latest start",
        "links/rules/stream_order.py",
        "_row_with_latest_end(context.trace.events.end[rows]",
        "_row_with_latest_end(context.trace.events.start[rows]",
    ),
    Mutation(
        "stream order from the neighbour",
        "links/rules/stream_order.py",
        "before = rows[latest[follows - 1]]",
        "before = rows[follows - 1]",
    ),
    Mutation(
        "of equal ends the last row",
        "links/rules/stream_order.py",
        "(-np.arange(len(end)), end, lane)",
        "(np.arange(len(end)), end, lane)",
    ),
    Mutation(
        "overlap ignored on a stream",
        "links/rules/stream_order.py",
        "np.where(overlaps, start_point",
        "np.where(overlaps & False, start_point",
    ),
    Mutation(
        "touching is overlapping",
        "links/rules/stream_order.py",
        "] > context.trace.events.start[target]",
        "] >= context.trace.events.start[target]",
    ),
    Mutation("streams of all devices are one", "trace/lanes.py", "(_part(key[0]), ", "(0, "),
    Mutation("streams without number", "trace/lanes.py", ", _part(key[2]))", ", 7)"),
    Mutation(
        "no clamping",
        "graph/edges.py",
        "np.maximum(times[self.target] - times[self.source], 0)",
        "times[self.target] - times[self.source]",
    ),
    Mutation(
        "nothing counts as clamped",
        "graph/edges.py",
        "times[self.target] < times[self.source]",
        "times[self.target] > times[self.source] + 2**60",
    ),
    Mutation("no limit for clock faults", "build.py", "back > CLOCK_FAULT_LIMIT_NS", "back > 2**60"),
    Mutation("no clock faults at all", "build.py", "back > CLOCK_FAULT_LIMIT_NS", "back > 0"),
    Mutation(
        "cycles stay",
        "build.py",
        "edges.take(np.setdiff1d(np.arange(len(edges)), closing)) if len(closing)",
        "edges if len(closing)",
    ),
    Mutation("event queries wait", "links/rules/event_sync.py", "resolved = ~is_query & rows", "resolved = rows"),
    Mutation(
        "blocking copies without timing",
        "links/rules/blocking_copy.py",
        "may_block & (trace.events.end[copies] <= trace.events.end[calls])",
        "may_block & (trace.events.end[copies] >= 0)",
    ),
    Mutation("every copy may block", "links/rules/blocking_copy.py", "blocks = may_block &", "blocks ="),
    Mutation(
        "zero-length rows behind the end",
        "graph/points.py",
        "CPU_ZERO_AT_END, CPU_END, CPU_START",
        "CPU_END, CPU_ZERO_AT_END, CPU_START",
    ),
    Mutation(
        "zero-length rows before the start",
        "graph/points.py",
        "CPU_START, CPU_ZERO, GPU_ZERO",
        "CPU_ZERO, CPU_START, GPU_ZERO",
    ),
    Mutation("starts before ends", "graph/points.py", "CPU_END, CPU_START, CPU_ZERO", "CPU_START, CPU_END, CPU_ZERO"),
    Mutation("outer ends before inner", "graph/points.py", "rows[~zero][::-1]", "rows[~zero]"),
    Mutation(
        "GPU starts before the CPU",
        "graph/points.py",
        "GPU_END, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO, GPU_ZERO, GPU_START = range(7)",
        "GPU_END, GPU_ZERO, GPU_START, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO = range(7)",
    ),
    Mutation("overlaps are not repaired", "graph/points.py", "    if broken.any():", "    if False:"),
    Mutation(
        "the first open row owns", "graph/points.py", "owner[at] = open_rows[-1] if", "owner[at] = open_rows[0] if"
    ),
    Mutation(
        "no parents",
        "graph/points.py",
        "parent[points[inner] >> 1] = owner[inner - 1]",
        "parent[points[inner] >> 1] = -1",
    ),
    Mutation(
        "no nesting violations",
        "graph/points.py",
        "events.end[child] > events.end[parent[child]]",
        "events.end[child] > 2**62",
    ),
    Mutation(
        "an empty table of edges", "graph/edges.py", "        parts = [none, *tables]\n", "        parts = [none]\n"
    ),
    Mutation(
        "an empty table of events",
        "trace/assemble.py",
        "order = canonical_order(columns)",
        "order = canonical_order(columns)[:0]",
    ),
    Mutation(
        "ties by place in the file",
        "trace/order.py",
        '("external_id", "name", "lane", "sequence", "index")',
        '("index",)',
    ),
    Mutation(
        "shorter rows first",
        "trace/order.py",
        "np.where(on_gpu, correlation, -length)",
        "np.where(on_gpu, correlation, length)",
    ),
    Mutation(
        "names are numbered as they come",
        "trace/assemble.py",
        "order = sorted(range(len(used)), key=used.__getitem__)",
        "order = list(range(len(used)))",
    ),
    Mutation(
        "lanes are numbered as they come",
        "trace/lanes.py",
        "sorted(dict.fromkeys(thread_labels), key=_by_number) + sorted(parts_of, key=_by_number)",
        "list(dict.fromkeys(thread_labels)) + list(parts_of)",
    ),
    Mutation("times are floats", "trace/collect.py", "if not exact or not loses_nanoseconds(printed):", "if True:"),
    Mutation(
        "the base time is ignored", "trace/assemble.py", "_with_base(columns, base or 0)", "_with_base(columns, 0)"
    ),
    Mutation("arrays can be written", "trace/table.py", "    array.flags.writeable = False\n", ""),
    Mutation(
        "one wait per activity",
        "graph/edges.py",
        "(np.diff(source[order]) != 0) | (np.diff(target[order]) != 0)",
        "np.diff(target[order]) != 0",
    ),
    Mutation(
        "waits capture nothing that is pending",
        "links/streams/stream_waits.py",
        "for pending in range(low[wait], high[wait]):",
        "for pending in range(0):",
    ),
    Mutation(
        "an item before is the one at",
        "links/streams/queues.py",
        'self.key(lane, place), side="left") - 1, lane)',
        'self.key(lane, place), side="right") - 1, lane)',
    ),
    Mutation(
        "the last work is that of any stream",
        "links/streams/queues.py",
        "row] == lane), self.rows",
        "row] >= 0), self.rows",
    ),
    Mutation(
        "of a call the innermost launches",
        "links/context.py",
        "np.unique(events.correlation[calls], return_index=True)",
        "np.unique(events.correlation[calls][::-1], return_index=True)\n        first = len(calls) - 1 - first",
    ),
    Mutation(
        "segments are not merged",
        "algorithms/time/pieces.py",
        "        new = np.ones(len(ordered), np.bool_)\n",
        "        return ordered\n        new = np.ones(len(ordered), np.bool_)\n",
    ),
    Mutation(
        "segments are not clipped", "algorithms/time/pieces.py", "end=self.end.clip(start_ns, end_ns)", "end=self.end"
    ),
    Mutation(
        "cuts are missed",
        "algorithms/time/pieces.py",
        'np.searchsorted(cuts, start, side="right")',
        'np.searchsorted(cuts, start, side="right") + 1',
    ),
    Mutation("no head before the first cause", "algorithms/time/classify.py", ", self._head(chain, window)]", "]"),
    Mutation("no tail behind the sink", "algorithms/time/classify.py", "[self._tail(chain, window), ", "["),
    Mutation(
        "the sink is the first end",
        "algorithms/time/windows.py",
        "events.end[candidates] == events.end[candidates].max()",
        "events.end[candidates] == events.end[candidates].min()",
    ),
    Mutation(
        "descendants are ancestors",
        "graph/dependency_graph.py",
        "start_point(np.array([self._row(event_index)])), backward=False)",
        "start_point(np.array([self._row(event_index)])), backward=True)",
    ),
    Mutation(
        "subgraphs keep edges that leave them",
        "graph/dependency_graph.py",
        "inside = (number[source >> 1] >= 0) & (number[target >> 1] >= 0)",
        "inside = (number[source >> 1] >= 0) | (number[target >> 1] >= 0)",
    ),
    Mutation(
        "neighbours only forward",
        "graph/dependency_graph.py",
        "touched = inside[source] | inside[target]",
        "touched = inside[source]",
    ),
)
MUTATIONS = (*removed_rules(), *swapped_edges(), *MISTAKES)


@dataclass(frozen=True)
class Verdict:
    """Which test noticed a mutation, if any, and after how long."""

    mutation: str
    killer: str | None
    seconds: float
    told: str = ""

    def __str__(self) -> str:
        return f"{self.mutation:<48} {self.killer or 'SURVIVED':<100} {self.seconds:>5.0f} s"


def copy_of_the_tree(folder: Path, origin: Path = ROOT) -> Path:
    """Copy what the tests need, so that the copy's own package is the one that they import."""
    for name in ("hta_graph", "analyses", "tests"):
        shutil.copytree(origin / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(origin / "pyproject.toml", folder)
    return folder


def judge(mutation: Mutation | None, origin: Path, tests: Sequence[str]) -> Verdict:
    """Run the tests against a mutated copy; without a mutation they must pass."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = copy_of_the_tree(Path(folder), origin)
        if mutation is not None:
            mutation.apply(root)
        killer, told = first_failure(root, tests)
    return Verdict(mutation.name if mutation else "(no mutation)", killer, time.perf_counter() - begin, told)


def first_failure(root: Path, tests: Sequence[str]) -> tuple[str | None, str]:
    """Return the first test that fails, and pytest's output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutations", *tests]
    environment = os.environ | {"HTA_GRAPH_SHARED": str(SHARED), "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIME_LIMIT_S} s", ""
    if done.returncode == 0:
        return None, done.stdout
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (found[1] if found else f"pytest status {done.returncode}"), done.stdout + done.stderr


def main() -> int:
    """Judge all mutations, or those whose name holds a word; print the table."""
    parser = argparse.ArgumentParser(description="Break the package on purpose and see which test notices.")
    parser.add_argument("--only", default="", metavar="WORD", help="only the mutations whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation.name]
    with tempfile.TemporaryDirectory() as folder:
        origin = copy_of_the_tree(Path(folder) / "origin")
        check_texts(chosen, origin, Path(folder) / "tried")
        return report(chosen, origin, options.tests, options.jobs)


def check_texts(chosen: Sequence[Mutation], origin: Path, folder: Path) -> None:
    """Apply every mutation once: a text that has gone is an error before anything runs."""
    for mutation in chosen:
        mutation.apply(copy_of_the_tree(folder, origin))
        shutil.rmtree(folder)


def report(chosen: Sequence[Mutation], origin: Path, tests: Sequence[str], jobs: int) -> int:
    """Judge the mutations and print a line for each; return the exit status."""
    whole = judge(None, origin, tests)
    if whole.killer:
        sys.stdout.write(f"{whole}\n{whole.told}\n")
        return 2
    survivors = 0
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(lambda mutation: judge(mutation, origin, tests), chosen):
            survivors += verdict.killer is None
            sys.stdout.write(f"{verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} mutations killed; whole, the tests pass\n")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
