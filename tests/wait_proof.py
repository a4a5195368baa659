"""Waits that nothing in a file says, beside what happened in simulated programs: ``python -m tests.wait_proof``.

Programs are recorded from the middle on, and lose rows; a believed wait is right if the execution implies it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

import hta_graph as hg
from hta_graph.graph.points import event_of
from hta_graph.model import Rule
from tests.proof import DIALECTS, Closure, Edge, overlapping_ends
from tests.reason_proof import Poorer, Poverty, made_poorer
from tests.simulator import Dialect, Run, random_program, simulate
from tests.simulator.idioms import ALL_REDUCE
from tests.simulator.program import (
    Copy,
    Gap,
    Latencies,
    Launch,
    Program,
    Record,
    Stream,
    SyncDevice,
    SyncStream,
    ThreadProgram,
    Wait,
)
from tests.simulator.programs import Family

WaitFamily = Family | Literal["overlapping", "independent"]
FAMILIES: tuple[WaitFamily, ...] = ("pytorch", "arbitrary", "overlapping", "independent")
POVERTIES: tuple[Poverty, ...] = ("begun by a call", "lost rows")
LATE = Latencies(wait=15_000)
"""Streams that go on late, as HIP's do (real traces: 14 to 19 µs)."""

LONG_NS = 50_000
"""A shorter hole needs no cause."""


def program_of(family: WaitFamily, seed: int, size: int) -> Program:
    """Make a program; streams of every other one go on late after what they waited for."""
    rng = random.Random(f"{family} {seed}")
    if family == "overlapping":
        program = _queued_far_ahead(rng, size, waits=True)
    elif family == "independent":
        program = _queued_far_ahead(rng, size, waits=False)
    else:
        program = random_program(seed, family, size)
    return replace(program, latencies=LATE) if seed % 2 else program


def _queued_far_ahead(rng: random.Random, size: int, *, waits: bool) -> Program:
    """Make a program whose host runs far ahead of its streams, which wait for each other or are independent."""
    streams = [Stream(number) for number in (7, 20, 24, 28)[: rng.randint(2, 4)]]
    typical_ns = rng.choice((20_000, 100_000, 600_000))

    def work(stream: Stream) -> Launch | Copy:
        ns = max(1, int(rng.lognormvariate(0, 1) * typical_ns))
        return Copy(stream, ns) if rng.random() < 0.2 else Launch(stream, ns, rng.choice(("gemm", ALL_REDUCE)))

    def turn(number: int) -> Iterator[Launch | Copy | Record | Wait]:
        source, target = rng.sample(streams, 2)
        yield work(source)
        if waits and rng.random() < 0.5:
            yield from (Record(number % 50, source), Wait(target, number % 50), work(target))

    if waits:
        turns = (part for number in range(size // 2) for part in (*turn(number), *_catch_up(rng, streams)))
        return Program.of(*turns, SyncDevice())
    threads = [
        ThreadProgram(tuple(part for _ in range(size // len(streams)) for part in (work(own), *_catch_up(rng, [own]))))
        for own in streams
    ]
    return Program(tuple(threads))


def _catch_up(rng: random.Random, streams: list[Stream]) -> tuple[Gap | SyncStream, ...]:
    """Let the host do other things or, now and then, wait for a stream."""
    return (Gap(rng.randrange(4_000)), *([SyncStream(rng.choice(streams))] if rng.random() < 0.1 else []))


def believed(graph: hg.DependencyGraph) -> Iterator[tuple[int, int]]:
    """Yield source and target (event index) of the waits that are believed."""
    edges, index = graph.edge_table, graph.event_table.index
    for row in np.flatnonzero(edges.rule == Rule.END_OF_OTHER_STREAM).tolist():
        yield int(index[event_of(edges.source[row])]), int(index[event_of(edges.target[row])])


def closure_of(run: Run) -> Closure:
    """Return what the execution implies, by uid."""
    truth: set[Edge] = {(c.kind, c.source, c.source_point, c.target, c.target_point) for c in run.constraints}
    return Closure(truth, overlapping_ends(truth))


def score(run: Run, poorer: Poorer) -> Counter[str]:
    """Count the believed waits and the wrong ones; of the long holes that waits left, those that are found."""
    truth, counts = closure_of(run), Counter[str]()
    found = {(poorer.uid_of[source], poorer.uid_of[target]) for source, target in believed(poorer.graph)}
    counts["believed"] = len(found)
    counts["wrong"] = sum(not truth.implies(("", source, "end", target, "start")) for source, target in found)
    held = set(_unexplained_waits(run, poorer))
    counts["held"] = len(held)
    counts["found"] = len(held & {target for _, target in found})
    return counts


def _unexplained_waits(run: Run, poorer: Poorer) -> Iterator[int]:
    """Yield the work that stood still for long for a wait that the file does not show, though it shows its source."""
    kept = {uid: index for index, uid in poorer.uid_of.items()}
    graph = poorer.graph
    edges = graph.edges_of(*hg.model.EdgeKind)
    asked = ~graph.edge_table.inferred | (graph.edge_table.rule != Rule.END_OF_OTHER_STREAM)
    causes: dict[int, int] = {}
    index = graph.event_table.index
    for row in np.flatnonzero(asked & ~edges.to_end & graph.is_gpu[edges.target]).tolist():
        target = int(index[edges.target[row]])
        causes[target] = max(causes.get(target, 0), int(edges.source_ns[row]))
    starts = dict(zip(index.tolist(), graph.event_table.start.tolist(), strict=True))
    for (uid, point), binding in run.binding.items():
        if binding.kind == "event_wait" and point == "start" and uid in kept and binding.source in kept:
            at = kept[uid]
            if at in causes and starts[at] - causes[at] > LONG_NS:
                yield uid


def proved(family: WaitFamily, dialect: Dialect, poverty: Poverty, seeds: Iterable[int], size: int) -> Counter[str]:
    """Score many programs together."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        run = simulate(program_of(family, seed, size))
        if run.events:
            counts += score(run, made_poorer(run, poverty, seed, dialect))
    return counts


def main() -> None:
    """Print what is believed, what of it is wrong, and how many of the long holes are found."""
    parser = argparse.ArgumentParser(description="Waits that nothing in a file says, beside what happened.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--dialect", action="append", choices=tuple(DIALECTS))
    options = parser.parse_args()
    for family in options.family or FAMILIES:
        for poverty in POVERTIES:
            for name in options.dialect or DIALECTS:
                dialect = DIALECTS[name]
                c = proved(family, dialect, poverty, range(options.programs), options.size)
                said = f"believed {c['believed']:5} wrong {c['wrong']:3}  held {c['held']:5} found {c['found']:5}"
                sys.stdout.write(f"{family:12} {poverty:20} {name:20} {said}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
