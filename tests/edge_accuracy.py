"""What the graph finds beside what happened in simulated programs; ``python -m tests.edge_accuracy`` prints the tables.

An edge is *right* if the execution implies it: its source point reaches its target point by true constraints. A true
constraint is *found* if the graph implies it. Sets of pairs are compared per edge kind, family and dialect.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import rustworkx

import hta_graph as hg
from hta_graph.trace.decompress import read_bytes
from tests.simulator import Dialect, Run, random_program, simulate, to_bytes, write
from tests.simulator.programs import Family
from tests.simulator.writer import Written
from tests.support.shared_traces import shared_traces

Point = tuple[int, str]
Edge = tuple[str, int, str, int, str]

RECORDED_KINDS = (
    "thread_order", "execution", "launch", "stream_order", "event_wait", "stream_sync", "device_sync", "event_sync",
    "forward_backward",
)  # fmt: skip
GPU_TO_CPU = ("stream_sync", "device_sync", "event_sync", "blocking_copy")
DIALECTS = {
    "recorded": Dialect(sync_rows="resolved"),
    "virtual tid": Dialect(sync_rows="virtual_tid", shuffle_seed=3),
    "µs, recorded": Dialect(sync_rows="resolved", time="us_int"),
    "wrong device": Dialect(sync_rows="other_device"),
    "wrong stream": Dialect(sync_rows="other_stream"),
    "half the records": Dialect(sync_rows="half_lost"),
    "no ids": Dialect(sync_rows="unresolved"),
    "no rows": Dialect(sync_rows="none"),
    "no rows, no records": Dialect(sync_rows="none", record_rows=False),
    "µs, no rows": Dialect(sync_rows="none", time="us_int"),
    "ROCm": Dialect(vendor="rocm"),
}


MOST_EXAMPLES = 20
"""Mistakes of a kind that are described for each program: words take longer to find than mistakes."""


@dataclass
class Score:
    """How one kind of edges fared."""

    edges: int = 0
    wrong: int = 0
    truths: int = 0
    missed: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Share of the graph's edges that are right."""
        return 1 - self.wrong / self.edges if self.edges else 1.0

    @property
    def recall(self) -> float:
        """Share of the true constraints that are found."""
        return 1 - self.missed / self.truths if self.truths else 1.0

    def tell(self, graph: hg.DependencyGraph, edge: Edge, verdict: str) -> None:
        """Describe a mistake, unless there are many to read already."""
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(_describe(graph, edge, verdict))


class Closure:
    """Which points follow which, by a set of edges."""

    def __init__(self, edges: Iterable[Edge], chains: Iterable[tuple[Point, Point]] = ()) -> None:
        self._graph: rustworkx.PyDiGraph[Point, None] = rustworkx.PyDiGraph()
        self._node: dict[Point, int] = {}
        for _, source, source_point, target, target_point in edges:
            self._link((source, source_point), (target, target_point))
        for source_end, target_end in chains:
            self._link(source_end, target_end)
        self._before: dict[Point, set[int]] = {}

    def _link(self, source: Point, target: Point) -> None:
        self._graph.add_edge(self._at(source), self._at(target), None)

    def _at(self, point: Point) -> int:
        if point not in self._node:
            self._node[point] = self._graph.add_node(point)
        return self._node[point]

    def implies(self, edge: Edge) -> bool:
        """Tell whether the edge's target follows its source."""
        _, source, source_point, target, target_point = edge
        if (source, source_point) not in self._node or (target, target_point) not in self._node:
            return False
        end = (target, target_point)
        if end not in self._before:
            self._before[end] = rustworkx.ancestors(self._graph, self._node[end])
        return self._node[source, source_point] in self._before[end]


def graph_edges(graph: hg.DependencyGraph, evidence: str | None = None) -> set[Edge]:
    """Return a graph's edges by event index, optionally of one evidence."""
    frame = graph.edges
    if evidence:
        frame = frame[frame.evidence == evidence]
    columns = ("kind", "source_index", "source_point", "target_index", "target_point")
    return {tuple(row) for row in zip(*(frame[name].tolist() for name in columns), strict=True)}


def true_edges(written: Written, *, hidden: bool) -> set[Edge]:
    """Return the true constraints by event index; ``hidden`` ones leave no mark in any trace."""
    at = written.index_of
    return {
        (c.kind, at[c.source], c.source_point, at[c.target], c.target_point)
        for c in written.constraints
        if hidden or not c.hidden
    }


def read(written: Written) -> hg.DependencyGraph:
    """Read a simulated trace as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(to_bytes(written.document))
        return hg.build_graph(hg.read_trace(path))


def compare(run: Run, dialect: Dialect) -> dict[str, Score]:
    """Score every kind of one run."""
    written = write(run, dialect)
    return scores_of(read(written), written)


def scores_of(graph: hg.DependencyGraph, written: Written) -> dict[str, Score]:
    """Score every kind of edges that were found in a simulated trace."""
    found, truth = graph_edges(graph), true_edges(written, hidden=False)
    everything = true_edges(written, hidden=True)
    allowed, ours = Closure(everything, overlapping_ends(everything)), Closure(found)
    scores: dict[str, Score] = defaultdict(Score)
    inferred = set(graph_edges(graph, "inferred"))
    for edge in found:
        score = scores[edge[0] + ", inferred" * (edge in inferred)]
        score.edges += 1
        if edge not in truth and not allowed.implies(edge):
            score.wrong += 1
            score.tell(graph, edge, "wrong")
    for edge in truth:
        score = scores[edge[0]]
        score.truths += 1
        if edge not in found and not ours.implies(edge):
            score.missed += 1
            score.tell(graph, edge, "missed")
    return scores


def overlapping_ends(edges: Iterable[Edge]) -> Iterator[tuple[Point, Point]]:
    """Yield end → end of activities that overlap on a stream: the later one ends last, though no edge says so."""
    for kind, source, source_point, target, _ in edges:
        if kind == "stream_order" and source_point == "start":
            yield (source, "end"), (target, "end")


def _describe(graph: hg.DependencyGraph, edge: Edge, verdict: str) -> str:
    kind, source, source_point, target, target_point = edge
    first, last = graph.event(source), graph.event(target)
    left = f"{source} {first['name'][:24]} on {first['lane']} {source_point}"
    return f"{verdict} {kind}: {left} → {target} {last['name'][:24]} on {last['lane']} {target_point}"


def prove(
    family: Family, dialect: Dialect, seeds: Iterable[int], size: int, *, plain: bool = False
) -> dict[str, Score]:
    """Score many random programs together."""
    total: dict[str, Score] = defaultdict(Score)
    for seed in seeds:
        for kind, score in compare(simulate(random_program(seed, family, size, plain=plain)), dialect).items():
            sums = total[kind]
            sums.edges += score.edges
            sums.wrong += score.wrong
            sums.truths += score.truths
            sums.missed += score.missed
            sums.examples += [f"seed {seed}: {line}" for line in score.examples]
    return total


def table(total: dict[str, Score]) -> Iterator[str]:
    """Print the scores of each kind."""
    yield f"  {'kind':<26}{'edges':>9}{'wrong':>7}{'precision':>11}{'true':>9}{'missed':>8}{'recall':>9}"
    for kind, s in sorted(total.items()):
        yield f"  {kind:<26}{s.edges:>9,}{s.wrong:>7,}{s.precision:>11.4f}{s.truths:>9,}{s.missed:>8,}{s.recall:>9.4f}"


SYNC_KINDS = ("event_wait", "stream_sync", "device_sync", "event_sync")


def recorded_and_inferred(source: Path) -> tuple[set[Edge], set[Edge]]:
    """Return the synchronising edges that a trace's own rows record, and those found with these rows hidden."""
    document = orjson.loads(read_bytes(source).data)
    kept = [at for at, row in enumerate(document["traceEvents"]) if row.get("cat") != "cuda_sync"]
    document["traceEvents"] = [document["traceEvents"][at] for at in kept]
    with tempfile.TemporaryDirectory() as folder:
        hidden = Path(folder) / "hidden.json"
        hidden.write_bytes(orjson.dumps(document))
        found = graph_edges(hg.build_graph(hg.read_trace(hidden)))
    recorded = graph_edges(hg.build_graph(hg.read_trace(source)), "recorded")
    moved = {(kind, kept[a], a_point, kept[b], b_point) for kind, a, a_point, b, b_point in found}
    return {edge for edge in recorded if edge[0] in SYNC_KINDS}, {edge for edge in moved if edge[0] in SYNC_KINDS}


def hidden_table(traces: Iterable[Path]) -> Iterator[str]:
    """Print per trace and kind how many recorded edges are found again without their records."""
    yield f"  {'trace':<26}{'kind':<14}{'recorded':>9}{'inferred':>9}{'both':>6}"
    for path in traces:
        recorded, inferred = recorded_and_inferred(path)
        for kind in SYNC_KINDS:
            a, b = ({edge for edge in edges if edge[0] == kind} for edges in (recorded, inferred))
            if a or b:
                yield f"  {path.parent.name:<26}{kind:<14}{len(a):>9}{len(b):>9}{len(a & b):>6}"


def main() -> None:
    """Print the tables of both families in all dialects, and those of real traces with their records hidden."""
    parser = argparse.ArgumentParser(description="What the graph finds, beside what really happened.")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--family", action="append", choices=("pytorch", "arbitrary", "experts"))
    parser.add_argument("--dialect", action="append", choices=tuple(DIALECTS))
    parser.add_argument("--plain", action="store_true", help="arbitrary programs that a trace can tell in full")
    parser.add_argument("--examples", type=int, default=0, metavar="N", help="show N mistakes of each kind")
    options = parser.parse_args()
    for family in options.family or ("pytorch", "arbitrary"):
        for name in options.dialect or DIALECTS:
            total = prove(family, DIALECTS[name], range(options.programs), options.size, plain=options.plain)
            lines = [f"{family}, {name}: {options.programs} programs", *table(total)]
            shown: Counter[str] = Counter()
            for kind, score in sorted(total.items()):
                lines += [f"    {line}" for line in score.examples[: options.examples]]
                shown[kind] += 1
            sys.stdout.write("\n".join(lines) + "\n\n")
            sys.stdout.flush()
    real = [path for path in shared_traces() if path.parent.name.startswith("sync_")]
    if real and not options.dialect:
        sys.stdout.write("\n".join(["real traces with their records hidden", *hidden_table(real)]) + "\n")


if __name__ == "__main__":
    main()
