"""How often a reason for the unexplained is wrong: simulated programs, poorer than they ran, beside what happened.

``python -m tests.unexplained_reason_accuracy`` prints the table.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import hta_graph as hg
from tests.simulator import Dialect, Run, random_program, simulate, to_bytes, write
from tests.simulator.program import (
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Launch,
    Program,
    Record,
    Stream,
    SyncDevice,
    SyncStream,
    Wait,
)
from tests.simulator.programs import Family

Poverty = Literal[
    "truncated", "truncated, GPU kept", "no waits", "no GPU rows before", "no graph node", "no first graph node",
    "no copies", "begun by a call", "lost rows",
]  # fmt: skip
POVERTIES: tuple[Poverty, ...] = (
    "truncated", "truncated, GPU kept", "no waits", "no GPU rows before", "no graph node", "no first graph node",
    "no copies",
)  # fmt: skip
LOST = 0.3
"""The share of GPU rows that a recording loses whose buffers overflow; it is one from the middle on, too."""
WAITS = {"event_wait", "stream_sync", "device_sync", "event_sync", "blocking_copy"}


class Poorer(NamedTuple):
    """A simulated recording that lacks rows, and the uid of each row that is left."""

    graph: hg.DependencyGraph
    uid_of: dict[int, int]
    begins_ns: int


def made_poorer(run: Run, poverty: Poverty, seed: int, dialect: Dialect | None = None) -> Poorer:
    """Write a run without the rows that a recording of this poverty lacks."""
    rng = random.Random(f"{poverty} {seed}")
    begins = _begin_of(run, poverty, rng)
    gone = {event.uid for event in run.events if _is_missing(run, event, poverty, begins)}
    if poverty == "lost rows":
        gone |= {event.uid for event in run.events if event.context is not None and rng.random() < LOST}
    sync_rows = [row for row in run.sync_rows if row.call not in gone]
    written = write(replace(run, sync_rows=sync_rows), dialect or Dialect(sync_rows="none"))
    uid_at = {index: uid for uid, index in written.index_of.items()}
    rows, uid_of = [], {}
    for index, row in enumerate(written.document["traceEvents"]):
        uid = uid_at.get(index)
        if uid in gone or (uid is None and row.get("ph") != "M" and row.get("cat") != "cuda_sync"):
            continue
        if uid is not None:
            uid_of[len(rows)] = uid
        rows.append(row)
    return Poorer(graph_of({**written.document, "traceEvents": rows}), uid_of, begins)


def _begin_of(run: Run, poverty: Poverty, rng: random.Random) -> int:
    """Choose when a recording begins: at any time, or as a profiler does that the program itself starts."""
    if poverty in ("begun by a call", "lost rows"):
        calls = sorted(event.start_ns for event in run.events if event.kind == "runtime")
        return calls[rng.randrange(len(calls) // 10, len(calls) // 2 + 1)] if calls else 0
    length = max(event.end_ns for event in run.events)
    return rng.randrange(length // 10, length // 2) if poverty.startswith(("truncated", "no GPU")) else 0


def graph_of(document: dict[str, Any]) -> hg.DependencyGraph:
    """Read a document as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(to_bytes(document))
        return hg.build_graph(hg.read_trace(path))


def _is_missing(run: Run, event: Any, poverty: Poverty, begins: int) -> bool:
    on_gpu = event.context is not None
    if poverty == "truncated":
        return bool(event.start_ns < begins)
    if poverty in ("truncated, GPU kept", "begun by a call", "lost rows"):
        return bool(event.start_ns < begins and (not on_gpu or event.end_ns < begins))
    if poverty == "no GPU rows before":
        return on_gpu and event.start_ns < begins
    if poverty == "no waits":
        return event.name == "cudaStreamWaitEvent"
    if poverty == "no copies":
        return event.kind == "memcpy"
    return _is_chosen_node(run, event, first=poverty == "no first graph node")


def _is_chosen_node(run: Run, event: Any, *, first: bool) -> bool:
    """Tell whether an activity is the longest of the nodes that its graph launch replays, or the first one."""
    if event.context is None or event.correlation is None:
        return False
    call = _calls(run).get(event.correlation)
    if call is None or "GraphLaunch" not in call.name:
        return False
    nodes = [other for other in run.events if other.context is not None and other.correlation == event.correlation]
    chosen = max(nodes, key=lambda node: (-node.start_ns if first else node.end_ns - node.start_ns, -node.uid))
    return bool(chosen.uid == event.uid)


def _calls(run: Run) -> dict[int | None, Any]:
    return {event.correlation: event for event in run.events if event.kind == "runtime"}


def claims(run: Run, poorer: Poorer, calls: dict[int | None, Any]) -> Iterator[tuple[str, bool, int]]:
    """Yield each unexplained segment's reason, whether it is true, and its length (ns)."""
    graph = poorer.graph
    path = hg.critical_path(graph, hg.whole())
    columns = {name: list(column) for name, column in path.segment_columns().items()}
    for at, reason in enumerate(columns["reason"]):
        if reason is None:
            continue
        index = columns["event_index"][at]
        if columns["edge"][at] == "launch":  # owned by the call: what it launched comes next on the path
            index = next((i for i in columns["event_index"][at:] if i != index), None)
        if index is None:
            index = columns["event_index"][at + 1] if at + 1 < len(columns["reason"]) else None
        yield reason, _is_true(run, poorer, calls, reason, index), columns["end_ns"][at] - columns["start_ns"][at]


def _is_true(run: Run, poorer: Poorer, calls: dict[int | None, Any], reason: str, index: int | None) -> bool:
    if reason == "unknown" or index is None:
        return reason == "unknown"
    event = run.events[poorer.uid_of[index]]
    binding = run.binding.get((event.uid, "end" if event.kind == "runtime" else "start"))
    if binding is None:
        return False
    source = run.events[binding.source]
    recorded = source.uid in set(poorer.uid_of.values())
    if reason == "before_recording":
        issued = calls[source.correlation].start_ns if source.context is not None else source.start_ns
        return issued < poorer.begins_ns
    if reason == "not_recorded":
        return not recorded and source.context is not None
    if reason == "missing_graph_node":
        # Of the launch before, where its last node is missing: no row tells it from the first one of this.
        return not recorded and "GraphLaunch" in calls[source.correlation].name
    return binding.kind in WAITS


def replays(seed: int) -> Program:
    """Make a program that replays one graph several times, other work between."""
    rng = random.Random(f"replays {seed}")
    nodes = tuple(
        GraphNode(rng.randint(1_000, 400_000), branch=rng.choice((0, 0, 1)), name=f"node_{at}")
        for at in range(rng.randint(2, 8))
    )
    stream = Stream(7)
    other = (Gap(rng.randint(1_000, 50_000)), Launch(stream, rng.randint(2_000, 90_000)))
    once = (*other[: rng.randint(0, 2)], GraphLaunch(0, stream))
    ends = (SyncStream(stream),) if rng.random() < 0.5 else ()
    return Program.of(*(*once, *ends) * rng.randint(2, 6), SyncDevice(), graphs=(Graph(nodes),))


def two_graphs(seed: int) -> Program:
    """Make a program that queues replays of two graphs with equally many nodes, and work that they may wait for."""
    rng = random.Random(f"two graphs {seed}")
    count = rng.randint(2, 5)
    graphs = tuple(
        Graph(tuple(GraphNode(rng.randint(1_000, 400_000), name=f"{letter}_{at}") for at in range(count)))
        for letter in "ab"
    )
    stream, side = Stream(7), Stream(20)
    waits = (Record(0, side), Wait(stream, 0)) if rng.random() < 0.5 else ()
    beside = (Launch(side, rng.randint(2_000, 300_000), name="beside"), *waits) if rng.random() < 0.6 else ()
    between = (Launch(stream, rng.randint(2_000, 90_000)),) if rng.random() < 0.5 else ()
    once = [(*between, *(beside if rng.random() < 0.5 else ()), GraphLaunch(graph, stream)) for graph in (0, 1)]
    ahead = (Launch(stream, rng.choice((2_000, 900_000))), *((SyncStream(side),) if rng.random() < 0.3 else ()))
    return Program.of(*ahead, *(*once[0], *once[1]) * rng.randint(2, 6), SyncDevice(), graphs=graphs)


FAMILY_OF_REPLAYS: Mapping[str, Callable[[int], Program]] = {"replays": replays, "two graphs": two_graphs}
ProgramFamily = Family | Literal["replays", "two graphs"]


def rates(family: ProgramFamily, poverty: Poverty, seeds: Iterable[int], size: int) -> Counter[tuple[str, bool]]:
    """Count the unexplained segments above 50 µs of many programs by reason and truth."""
    counts: Counter[tuple[str, bool]] = Counter()
    for seed in seeds:
        make = FAMILY_OF_REPLAYS.get(family)
        run = simulate(make(seed) if make else random_program(seed, cast("Family", family), size))
        if not run.events:
            continue
        poorer = made_poorer(run, poverty, seed)
        for reason, right, _ in claims(run, poorer, _calls(run)):
            counts[reason, right] += 1
    return counts


def main() -> None:
    """Print how often each reason was given, and how often wrongly."""
    parser = argparse.ArgumentParser(description="How often a reason for the unexplained is wrong.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--size", type=int, default=300)
    options = parser.parse_args()
    families: tuple[ProgramFamily, ...] = ("pytorch", "arbitrary", "experts", "replays", "two graphs")
    for family in families:
        for poverty in POVERTIES:
            counts = rates(family, poverty, range(options.programs), options.size)
            for reason in sorted({reason for reason, _ in counts}):
                given, wrong = counts[reason, True] + counts[reason, False], counts[reason, False]
                sys.stdout.write(f"{family:10} {poverty:20} {reason:22} given {given:5} wrong {wrong:4}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
