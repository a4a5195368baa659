"""Inferred waits beside what happened in simulated programs: ``python -m tests.inferred_wait_accuracy``.

Programs are recorded from the middle on, and lose rows; a believed wait is right if the execution implies it.
``--rows-only`` scores another poverty: the rows of stream waits are there, and no call that waits or records.
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
from hta_graph.model import EdgeRule
from tests.edge_accuracy import DIALECTS, Closure, Edge, graph_edges, overlapping_ends
from tests.simulator import Dialect, Run, random_program, simulate, write
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
from tests.simulator.pytorch_idioms import ALL_REDUCE
from tests.unexplained_reason_accuracy import Poorer, Poverty, graph_of, made_poorer

WaitFamily = Family | Literal["overlapping", "independent"]
FAMILIES: tuple[WaitFamily, ...] = ("pytorch", "arbitrary", "overlapping", "independent")
POVERTIES: tuple[Poverty, ...] = ("begun by a call", "lost rows")
EVENT_CALLS = ("cudaStreamWaitEvent", "cudaEventRecord")
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
    for row in np.flatnonzero(edges.rule == EdgeRule.END_OF_OTHER_STREAM).tolist():
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
    asked = ~graph.edge_table.inferred | (graph.edge_table.rule != EdgeRule.END_OF_OTHER_STREAM)
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


def rows_only(run: Run, dialect: Dialect, gone: tuple[str, ...] = EVENT_CALLS) -> Counter[str]:
    """Score the waits of a recording that holds the rows of stream waits and none of the calls behind them."""
    written = write(run, dialect)
    uid_at = {index: uid for uid, index in written.index_of.items()}
    rows = [(uid_at.get(at), row) for at, row in enumerate(written.document["traceEvents"]) if row["name"] not in gone]
    uid_of = {at: uid for at, (uid, _) in enumerate(rows) if uid is not None}
    graph = graph_of({**written.document, "traceEvents": [row for _, row in rows]})
    found = {(kind, uid_of[a], at, uid_of[b], to) for kind, a, at, b, to in graph_edges(graph)}
    waits = {edge for edge in found if edge[0] == "event_wait"}
    hidden = {(c.kind, c.source, c.source_point, c.target, c.target_point) for c in run.constraints if c.hidden}
    kept = set(uid_of.values())
    all_true = {(c.kind, c.source, c.source_point, c.target, c.target_point) for c in run.constraints} - hidden
    true = {edge for edge in all_true if edge[0] == "event_wait" and {edge[1], edge[3]} <= kept}
    truth, ours = closure_of(run), Closure(found)
    wrong = sum(not truth.implies(edge) for edge in waits)
    missed = sum(not ours.implies(edge) for edge in true)
    return Counter(found=len(waits), wrong=wrong, true=len(true), missed=missed)


def print_rows_only(families: Iterable[WaitFamily], dialects: Iterable[str], programs: int, size: int) -> None:
    """Print precision and recall of waits of which only the rows are left."""
    for family in families:
        for name in dialects:
            for gone in (EVENT_CALLS[:1], EVENT_CALLS):
                c: Counter[str] = Counter()
                for seed in range(programs):
                    c += rows_only(simulate(program_of(family, seed, size)), DIALECTS[name], gone)
                said = f"found {c['found']:6} wrong {c['wrong']:4}  true {c['true']:6} missed {c['missed']:5}"
                sys.stdout.write(f"{family:12} {name:16} without {len(gone)} calls  {said}\n")
                sys.stdout.flush()


def main() -> None:
    """Print what is believed, what of it is wrong, and how many of the long holes are found."""
    parser = argparse.ArgumentParser(description="Waits that nothing in a file says, beside what happened.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--dialect", action="append", choices=tuple(DIALECTS))
    parser.add_argument("--rows-only", action="store_true", help="hide the calls that wait and record")
    options = parser.parse_args()
    if options.rows_only:
        chosen = options.dialect or ("recorded", "virtual tid", "µs, recorded", "no ids", "no rows")
        print_rows_only(options.family or FAMILIES[:3], chosen, options.programs, options.size)
        return
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
