"""What a GPU clock that is off changes: ``python -m tests.clock_shift_accuracy [FILES…]`` prints the tables.

All GPU rows of a file are moved by some microseconds, in its text, and the answers are compared: the waits that are
found, the shares of the critical path, and what the graph states about the clock. With ``--truth`` the truth is what
a file's synchronization records say, hidden; with ``--simulated`` it is what the simulator did.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

import hta_graph as hg
from hta_graph.export.sync_dependencies import SyncDependencies
from hta_graph.model import EdgeKind, Ids
from tests.edge_accuracy import DIALECTS, GPU_TO_CPU, Score, compare, read
from tests.simulator import Dialect, GpuClock, Program, Run, random_program, simulate, write
from tests.simulator.programs import Family
from tests.simulator.run import ACTIVITIES
from tests.support.raw_trace import RawTrace, plus
from tests.support.shared_traces import SHARED
from tests.sync_dependency_accuracy import TRACES, Link, Recording, links_of, shared_file

SHIFTS_US = (-100, -20, -5, 0, 1, 5, 8, 12, 20, 100)
WAIT_KINDS = (*GPU_TO_CPU, "queue_full", "host_poll", "event_wait")
FAMILIES: tuple[Family, ...] = ("pytorch", "arbitrary", "experts")
LEAST_LAUNCHES, LEAST_BINDING = 20, 3
"""What a clock needs before and after a step (facts of real traces: fewer can be outliers)."""
SEVERAL = 5
MOST_REPEATS = 12
OUTLIERS_NS = 20_000, 800_000
SAME_STEP_NS = 2_000_000
"""Between two bounds a step has no time of its own, so two answers may differ in it by this."""

Side = Literal["launch", "return"]
Piece = dict[str, Any]
Wait = tuple[str, int, int]
"""Kind, row of the source, row of the target."""


# --- what one graph answers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceClock:
    """What a graph states about the clock of a device."""

    device: int
    how: str
    noise_ns: int
    pieces: tuple[Piece, ...]

    @property
    def is_two_sided(self) -> bool:
        """Whether launches and returns bound it, and agree."""
        return self.how in ("constant", "steps")

    @property
    def width_ns(self) -> int:
        """The width of the widest interval that rests on several launches and returns; 0 if none does.

        A single launch or return may have taken long of its own.
        """
        several = (piece for piece in self.pieces if min(piece["launches"], piece["returns"]) >= SEVERAL)
        return max((piece["high_ns"] - piece["low_ns"] for piece in several), default=0)

    def at(self, ns: int) -> Piece:
        """Return the piece in which a host time lies."""
        return next((piece for piece in reversed(self.pieces) if piece["from_ns"] <= ns), self.pieces[0])

    def holds(self, other: DeviceClock, moved_ns: int) -> bool:
        """Say whether another's offsets, moved, lie in the intervals, save around a step."""
        starts = sorted({piece["from_ns"] for clock in (self, other) for piece in clock.pieces})
        inner = [(a + b) // 2 for a, b in pairwise(starts) if b - a > SAME_STEP_NS]
        times = (starts[0] - 1, *inner, starts[-1] + 1)
        return all(self.allows(ns, None if (at := other.offset_at(ns)) is None else at + moved_ns) for ns in times)

    def offset_at(self, ns: int) -> int | None:
        """Return the offset at a time; None where none is stated."""
        piece = self.at(ns)
        return None if piece["offset_ns"] is None else piece["offset_ns"] + _drift(piece, ns)

    def allows(self, ns: int, offset_ns: int | None) -> bool:
        """Say whether an offset lies in the interval at a time; a missing bound bounds nothing."""
        piece = self.at(ns)
        if offset_ns is None:
            return True
        low, high = piece["low_ns"], piece["high_ns"]
        level = offset_ns - _drift(piece, ns)
        return (low is None or low <= level) and (high is None or level <= high)

    def __str__(self) -> str:
        return f"{self.how} " + " ".join(
            f"{_micros(piece['offset_ns'])} [{_micros(piece['low_ns'])}, {_micros(piece['high_ns'])}]"
            + f" {piece['drift_ppm']:+} ppm" * bool(piece["drift_ppm"])
            for piece in self.pieces
        )


def _drift(piece: Piece, ns: int) -> int:
    return round(piece["drift_ppm"] * (ns - piece["from_ns"]) / 1e6)


def _micros(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1_000:.1f}"


def clocks_of(graph: hg.DependencyGraph) -> dict[int, DeviceClock]:
    """Return what a graph states, by device."""
    stated = (DeviceClock(c["device"], c["how"], c["noise_ns"], tuple(c["pieces"])) for c in graph.gpu_clock)
    return {clock.device: clock for clock in stated}


def waits_of(graph: hg.DependencyGraph, kinds: Sequence[str] = WAIT_KINDS) -> frozenset[Wait]:
    """Return the waits of the host for a GPU, and of streams for each other."""
    edges, index = graph.edges_of(*kinds), graph.event_table.index
    label = [kind.label for kind in EdgeKind]
    rows = zip(edges.kind.tolist(), index[edges.source].tolist(), index[edges.target].tolist(), strict=True)
    return frozenset((label[kind], source, target) for kind, source, target in rows)


def shares_of(path: hg.CriticalPath) -> dict[str, float]:
    """Return the share of each class in a window."""
    return {bound: ns / path.length_ns for bound, ns in path.by_bound_ns.items()}


def back_in_time(graph: hg.DependencyGraph) -> int:
    """Count launches and returns of waits whose lag in host time is negative."""
    edges = graph.edges_of("launch", *GPU_TO_CPU, "queue_full")
    binds = (edges.kind == EdgeKind.LAUNCH) | edges.to_end
    return int(np.count_nonzero(binds & (edges.target_ns < edges.source_ns)))


@dataclass(frozen=True)
class Answer:
    """What is compared of two graphs."""

    clocks: dict[int, DeviceClock]
    waits: frozenset[Wait]
    shares: tuple[dict[str, float], ...]
    """Of the default window and of the whole trace."""
    back_in_time: int

    @classmethod
    def of(cls, graph: hg.DependencyGraph) -> Answer:
        """Ask a graph."""
        paths = (hg.critical_path(graph), hg.critical_path(graph, hg.whole()))
        for path in paths:
            path.self_check()
        return cls(clocks_of(graph), waits_of(graph), tuple(map(shares_of, paths)), back_in_time(graph))

    @property
    def is_two_sided(self) -> bool:
        """Whether each clock is bounded on both sides."""
        return bool(self.clocks) and all(clock.is_two_sided for clock in self.clocks.values())

    @property
    def leading(self) -> tuple[str, ...]:
        """The class that takes most, per window."""
        return tuple(max(shares, key=lambda bound: shares[bound]) for shares in self.shares)


@dataclass(frozen=True)
class Change:
    """What a shift changed from the unshifted answer."""

    shift_us: int
    before: Answer
    after: Answer

    @property
    def kept(self) -> float:
        """The share of the edges that both have, of the edges of the one that has more."""
        most = max(len(self.before.waits), len(self.after.waits))
        return len(self.before.waits & self.after.waits) / most if most else 1.0

    @property
    def points(self) -> float:
        """By how many points of a window a class moves at most."""
        return 100 * max(_most_moved(a, b) for a, b in zip(self.before.shares, self.after.shares, strict=True))

    @property
    def keeps_leading(self) -> bool:
        """Whether the same classes lead."""
        return self.before.leading == self.after.leading

    @property
    def states_truth(self) -> bool:
        """Whether each interval holds the shifted offset of before, and each interval before the offset of after."""
        shift_ns = 1_000 * self.shift_us
        return all(
            device in self.after.clocks
            and self.after.clocks[device].holds(clock, shift_ns)
            and clock.holds(self.after.clocks[device], -shift_ns)
            for device, clock in self.before.clocks.items()
        )


def _most_moved(before: dict[str, float], after: dict[str, float]) -> float:
    return max(abs(before.get(bound, 0) - after.get(bound, 0)) for bound in {*before, *after})


def changes(trace: RawTrace, shifts_us: Iterable[int] = SHIFTS_US) -> Iterator[Change]:
    """Yield what each shift of all GPU rows changes."""
    before = Answer.of(trace.graph())
    for shift in shifts_us:
        after = before if shift == 0 else Answer.of(trace.moved(1_000 * shift).graph())
        yield Change(shift, before, after)


def with_outliers(trace: RawTrace, seed: int, returns: float = 0.02, launches: float = 0.002) -> RawTrace:
    """Let some of the calls return too early for what they waited for, and some work begin long before its launch."""
    rng = random.Random(seed)
    graph = trace.graph()
    waits, launched = graph.edges_of(*GPU_TO_CPU), graph.edges_of("launch")
    index, length = graph.event_table.index, graph.event_table.end - graph.event_table.start
    changes: dict[int, Callable[[bytes], bytes]] = {}
    for call in _some(rng, np.unique(waits.target), returns):
        early = min(rng.randint(*OUTLIERS_NS), int(length[call]) - 1_000) // 1_000 * 1_000
        changes[int(index[call])] = partial(plus, field="dur", ns=-max(early, 0))
    for work in _some(rng, np.unique(launched.target), launches):
        early = rng.randint(*OUTLIERS_NS) // 1_000 * 1_000
        changes[int(index[work])] = partial(_begun_earlier, ns=early)
    return trace.changed(changes)


def _begun_earlier(row: bytes, ns: int) -> bytes:
    return plus(plus(row, "ts", -ns), "dur", ns)


def _some(rng: random.Random, rows: Ids, share: float) -> list[int]:
    return rng.sample(rows.tolist(), round(share * len(rows)))


# --- hidden records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """A file, what its records say of blocking calls, and what is found without them."""

    path: Path

    @cached_property
    def links(self) -> set[Link]:
        """What the records say."""
        return {link for link in Recording.of(self.path).links() if link[0] in GPU_TO_CPU}

    @cached_property
    def shares(self) -> dict[str, float]:
        """The shares of the whole trace's path, with the records."""
        return shares_of(hg.critical_path(hg.build_graph(hg.read_trace(self.path)), hg.whole()))

    @cached_property
    def hidden(self) -> tuple[RawTrace, list[int]]:
        """The file without its records, and the positions of its rows in the whole file."""
        return RawTrace.of_file(self.path).without_sync_rows()

    def found(self, shift_us: int) -> Found:
        """Return what is found where the GPU rows are moved."""
        trace, position = self.hidden
        graph = trace.moved(1_000 * shift_us).graph()
        dependencies = SyncDependencies(graph)
        kinds = {kind for kind, *_ in self.links}

        def judged(binding: bool) -> set[Link]:
            links = links_of(dependencies, binding=binding)
            return {(kind, position[a], position[b]) for kind, a, b in links if kind in kinds}

        path = hg.critical_path(graph, hg.whole())
        path.self_check()
        return Found(self, clocks_of(graph), judged(False), judged(True), shares_of(path))


@dataclass(frozen=True)
class Found:
    """What is found without the records."""

    truth: Truth
    clocks: dict[int, DeviceClock]
    links: set[Link]
    binding: set[Link]
    shares: dict[str, float]

    @property
    def recall(self) -> float:
        """The share of the recorded links that is found."""
        return len(self.links & self.truth.links) / len(self.truth.links)

    @property
    def precision(self) -> float:
        """The share of what is found that is recorded."""
        return len(self.links & self.truth.links) / len(self.links) if self.links else 1.0

    @property
    def false_binding(self) -> set[Link]:
        """The links that decide when a wait is over and are not recorded."""
        return self.binding - self.truth.links

    @property
    def points(self) -> float:
        """By how many points of the path a class differs from the answer with the records."""
        return 100 * _most_moved(self.truth.shares, self.shares)


# --- simulated programs -----------------------------------------------------------------------------------------------


def step_ns(run: Run) -> int:
    """Return the middle of the longest time for which the first device is idle, in the middle half of its work.

    The one real step that is known fell into such a time; within a kernel no two readers would agree where it was.
    """
    rows = sorted((event.start_ns, event.end_ns) for event in run.events if event.device == 0)
    if not rows:
        return 0
    starts, ends = np.array(rows).T
    busy_until = np.maximum.accumulate(ends)[:-1]
    idle = np.where(np.abs(np.arange(1, len(rows)) / len(rows) - 0.5) < 0.25, starts[1:] - busy_until, -1)
    longest = int(np.argmax(idle)) if len(idle) else 0
    return int(busy_until[longest] + starts[1:][longest]) // 2 if len(idle) else int(ends[0])


CLOCKS: dict[str, Callable[[Run], tuple[GpuClock, ...]]] = {
    "one clock": lambda _: (),
    "+100 µs": lambda _: (GpuClock(100_000), GpuClock(-60_000)),
    "-100 µs": lambda _: (GpuClock(-100_000), GpuClock(30_000)),
    "a step of -40 µs": lambda run: (GpuClock(8_000, ((step_ns(run), -40_000),)), GpuClock()),
    "a step of +60 µs": lambda run: (GpuClock(0, ((step_ns(run), 60_000),)), GpuClock(5_000)),
    "+100 ppm": lambda _: (GpuClock(0, (), 100.0), GpuClock(20_000, (), 100.0)),
    "-100 ppm": lambda _: (GpuClock(0, (), -100.0), GpuClock(20_000, (), -100.0)),
}
"""The clocks of a run's devices, by name."""


def long_program(seed: int, family: Family, size: int) -> Program:
    """Return a program that does the same again until a clock has enough bounds on either side of a step."""
    program = random_program(seed, family, size)
    for times in range(1, MOST_REPEATS + 1):
        longer = repeated(program, times)
        if _is_bounded(simulate(longer)):
            break
    return longer


def repeated(program: Program, times: int) -> Program:
    """Return a program whose threads repeat all that they do."""
    threads = tuple(replace(thread, body=thread.body * times) for thread in program.threads)
    return replace(program, threads=threads)


def _is_bounded(run: Run) -> bool:
    """Say whether each device has enough launches before and after a step, and a few launches and returns that bind."""
    step = step_ns(run)
    work = Counter((event.device, event.start_ns > step) for event in run.events if event.kind in ACTIVITIES)
    binding: Counter[tuple[Side, int | None, bool]] = Counter()
    for (uid, _), cause in run.binding.items():
        if cause.kind == "launch":
            binding["launch", run.events[uid].device, run.target_ns(cause) > step] += 1
        elif cause.kind in GPU_TO_CPU:
            binding["return", run.events[cause.source].device, run.target_ns(cause) > step] += 1
    halves = [(device, later) for device in {device for device, _ in work} for later in (False, True)]
    return all(
        work[half] >= LEAST_LAUNCHES
        and binding["launch", *half] >= LEAST_BINDING
        and binding["return", *half] >= LEAST_BINDING
        for half in halves
    )


def waits_score(run: Run, dialect: Dialect) -> Score:
    """Score the waits that are found in a simulated run."""
    total = Score()
    for kind, score in compare(run, dialect).items():
        if kind.removesuffix(", inferred") in WAIT_KINDS:
            total.edges += score.edges
            total.wrong += score.wrong
            total.truths += score.truths
            total.missed += score.missed
            total.examples += score.examples
    return total


@dataclass
class ClockScores:
    """The scores of programs with each of the clocks, and how many of them a clock's bounds leave undecided."""

    by_clock: dict[str, Score]
    undecided: int = 0


def scores(family: Family, dialect: Dialect, seeds: Iterable[int], size: int) -> ClockScores:
    """Score long programs together; those that no record and no other bound of each clock decides only count."""
    total = ClockScores({name: Score() for name in CLOCKS})
    for seed in seeds:
        run = simulate(long_program(seed, family, size))
        is_recorded = dialect.vendor == "cuda" and dialect.sync_rows == "resolved"
        clocks = () if is_recorded else clocks_of(read(write(run, dialect))).values()
        if not all(clock.is_two_sided for clock in clocks):
            total.undecided += 1
            continue
        for name, gpu_clocks in CLOCKS.items():
            score, sums = waits_score(run, replace(dialect, gpu_clocks=gpu_clocks(run))), total.by_clock[name]
            sums.edges += score.edges
            sums.wrong += score.wrong
            sums.truths += score.truths
            sums.missed += score.missed
            sums.examples += [f"seed {seed}: {line}" for line in score.examples]
    return total


# --- tables -----------------------------------------------------------------------------------------------------------


def shift_table(traces: Iterable[Path], shifts_us: Sequence[int], *, each: bool) -> Iterator[str]:
    """Print per trace what is stated unshifted and the worst that a shift changes; with ``each`` every shift."""
    head = ("edges", "kept", "leading", "points", "interval")
    yield "{:<46}{:>7}{:>9}{:>9}{:>8}{:>10}  clock".format("trace", *head)
    for path in traces:
        try:
            found = list(changes(RawTrace.of_file(path), shifts_us))
        except (hg.HtaGraphError, ValueError) as error:
            yield f"{_name(path):<46} left out: {str(error)[:80]}"
            continue
        before = found[0].before
        kept, points = min(one.kept for one in found), max(one.points for one in found)
        same = "same" if all(one.keeps_leading for one in found) else "changes"
        holds = "holds" if all(one.states_truth for one in found) else "fails"
        clock = "; ".join(map(str, before.clocks.values()))
        yield f"{_name(path):<46}{len(before.waits):>7,}{kept:>9.4f}{same:>9}{points:>8.2f}{holds:>10}  {clock}"
        for one in found if each else ():
            holds = "holds" if one.states_truth else "fails"
            same = "same" if one.keeps_leading else "changes"
            said = "; ".join(map(str, one.after.clocks.values()))
            figures = f"{len(one.after.waits):>8,}{one.kept:>9.4f}{same:>9}{one.points:>8.2f}{holds:>10}"
            yield f"  {one.shift_us:>+42} µs{figures}  {said}; {one.after.back_in_time} back in time"


def truth_table(traces: Iterable[Path], shifts_us: Sequence[int]) -> Iterator[str]:
    """Print per trace and shift what is found with the records hidden."""
    head = ("shift", "true", "recall", "precision", "false binding", "points", "unexplained")
    yield "{:<46}{:>6}{:>6}{:>8}{:>11}{:>15}{:>8}{:>13}  clock".format("trace", *head)
    for path in traces:
        truth = Truth(path)
        if not truth.links:
            continue
        for shift in shifts_us:
            found = truth.found(shift)
            unexplained = 100 * found.shares["unexplained"]
            figures = f"{shift:>+6}{len(truth.links):>6}{found.recall:>8.3f}{found.precision:>11.3f}"
            figures += f"{len(found.false_binding):>15}{found.points:>8.2f}{unexplained:>12.1f}%"
            yield f"{_name(path):<46}{figures}  " + "; ".join(map(str, found.clocks.values()))


def simulated_table(programs: int, size: int, families: Iterable[Family], dialects: Iterable[str]) -> Iterator[str]:
    """Print what is found of what was simulated, with each of the clocks."""
    yield "{:<12}{:<22}{:<20}{:>7}{:>7}{:>11}{:>8}{:>8}{:>9}".format(
        "family", "dialect", "clock", "edges", "wrong", "precision", "true", "missed", "recall"
    )
    for family in families:
        for name in dialects:
            found = scores(family, DIALECTS[name], range(programs), size)
            for clock, s in found.by_clock.items():
                figures = f"{s.edges:>7,}{s.wrong:>7,}{s.precision:>11.4f}{s.truths:>8,}{s.missed:>8,}{s.recall:>9.4f}"
                yield f"{family:<12}{name:<22}{clock:<20}{figures}"
            yield f"  {found.undecided} of {programs} programs leave a clock undecided"


def traces_with_gpu() -> list[Path]:
    """Return all shared traces, large ones last."""
    folders = ("traces", "traces_more", "nsys/kineto_nosync", "serving")
    files = {path for folder in folders for path in (SHARED / folder).rglob("*.json.gz")}
    kept = (path for path in files if not path.name.startswith("host_et") and "memory_timeline" not in path.parts)
    return sorted(kept, key=lambda path: (path.stat().st_size, path))


def traces_with_records() -> list[Path]:
    """Return the shared traces whose records say who waited for what."""
    return [*sorted((SHARED / "nsys" / "kineto").glob("*.json.gz")), *map(shared_file, TRACES)]


def _name(path: Path) -> str:
    return str(path.relative_to(SHARED) if path.is_relative_to(SHARED) else path)[-45:]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What a GPU clock that is off changes.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--shifts", nargs="+", type=int, default=SHIFTS_US, metavar="MICROSECONDS")
    parser.add_argument("--each", action="store_true", help="print every shift")
    parser.add_argument("--truth", action="store_true", help="hide the synchronization records and look for them")
    parser.add_argument("--simulated", type=int, default=0, metavar="PROGRAMS", help="simulate programs instead")
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--dialect", action="append", choices=tuple(DIALECTS))
    options = parser.parse_args()
    if options.simulated:
        lines = simulated_table(
            options.simulated, options.size, options.family or FAMILIES, options.dialect or DIALECTS
        )
    elif options.truth:
        lines = truth_table(options.files or traces_with_records(), options.shifts)
    else:
        lines = shift_table(options.files or traces_with_gpu(), options.shifts, each=options.each)
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
