"""Inferred forks and joins inside CUDA graphs beside simulated truth: ``python -m tests.graph_forks_accuracy``.

Graphs of 2 to 61 streams, series-parallel or not, are replayed with jitter. Scored are the waits across streams that
bind a node: recall of those that happened, precision of the inferred edges over which paths walk.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.graph.points import event_of
from hta_graph.model import EdgeRule
from hta_graph.paths.binding_edges import binding_edges
from tests.support.trace_builder import TraceBuilder

GAP_US = 1.2
"""From the end of what a node waits for to its start; half as much again across streams."""

STREAMS, JITTERS, REPLAYS = (2, 4, 16, 61), (0.01, 0.05, 0.2), (1, 3, 5, 20, 50)


@dataclass(frozen=True)
class Node:
    """A node: its stream, its usual length (µs) and the nodes of other streams that it waits for."""

    stream: int
    length: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a node did in a replay (µs), and the node that it waited for last (-1: none)."""

    start: float
    end: float
    cause: int


def series_parallel(rng: random.Random, streams: int) -> list[Node]:
    """Make a graph of blocks: streams fork from the first one, run some nodes each, and join it again."""
    nodes = [Node(0, _length(rng))]
    for _ in range(max(2, 160 // streams)):
        fork, ends = len(nodes) - 1, list[int]()
        for stream in range(rng.randint(2, streams)):
            count = rng.randint(1, 3)
            nodes += [Node(stream, _length(rng), (fork,) if stream and not place else ()) for place in range(count)]
            ends.append(len(nodes) - 1)
        nodes.append(Node(0, _length(rng), tuple(ends[1:])))
    return nodes


def arbitrary(rng: random.Random, streams: int) -> list[Node]:
    """Make a graph whose nodes wait for any earlier ones of other streams; each stream begins with such a wait."""
    nodes, last = [Node(0, _length(rng))], {0: 0}
    for number in range(1, 8 * streams + 40):
        stream = rng.randrange(streams)
        others = [node for lane, node in last.items() if lane != stream]
        count = rng.choice((0, 0, 1, 1, 2)) if stream in last else 1
        nodes.append(Node(stream, _length(rng), tuple(rng.sample(others, min(count, len(others))))))
        last[stream] = number
    return nodes


def _length(rng: random.Random) -> float:
    return min(max(2.0, rng.lognormvariate(2.7, 1)), 400.0)


def replay(nodes: list[Node], rng: random.Random, at: float, jitter: float) -> list[Run]:
    """Run a graph from a time (µs) on: every length and gap is off by up to the jitter."""
    runs, last = list[Run](), dict[int, int]()
    for number, node in enumerate(nodes):
        waits = [(before, GAP_US * 1.5) for before in node.after]
        if node.stream in last:
            waits.append((last[node.stream], GAP_US))
        ready = [(runs[before].end + gap * (1 + jitter * rng.uniform(-1, 1)), before) for before, gap in waits]
        start, cause = max(ready, default=(at, -1))
        runs.append(Run(start, start + node.length * (1 + jitter * rng.uniform(-1, 1)), cause))
        last[node.stream] = number
    return runs


@dataclass(frozen=True)
class Case:
    """One graph to replay."""

    seed: int
    streams: int
    is_series_parallel: bool
    jitter: float
    replays: int

    def score(self, folder: Path) -> Counter[str]:
        """Simulate, and count the waits that happened and those found, the inferred edges that bind and the right."""
        rng, trace, at = random.Random(self.seed), TraceBuilder(), 20.0
        nodes = (series_parallel if self.is_series_parallel else arbitrary)(rng, self.streams)
        happened, allowed = set[tuple[int, int]](), set[tuple[int, int]]()
        for number in range(1, self.replays + 1):
            trace.call("cudaGraphLaunch", 10.0 * number, 10.0 * number + 8, number)
            runs = replay(nodes, rng, at, self.jitter)
            rows = [
                trace.kernel(f"k{at % 17}", round(run.start, 3), round(run.end, 3), number, stream=7 + node.stream)
                for at, (node, run) in enumerate(zip(nodes, runs, strict=True))
            ]
            waits = [(rows[before], row) for row, node in zip(rows, nodes, strict=True) for before in node.after]
            allowed.update(waits)
            happened |= {(rows[run.cause], row) for row, run in zip(rows, runs, strict=True)} & set(waits)
            at = max(run.end for run in runs) + 3
        trace.call("cudaDeviceSynchronize", 10.0 * self.replays + 10, at + 5, 9_999)
        graph = trace.graph(folder)
        found, walked = _inferred(graph, binding=False), _inferred(graph, binding=True)
        return Counter(
            waits=len(happened), found=len(happened & found), inferred=len(walked), right=len(walked & allowed)
        )


def _inferred(graph: hg.DependencyGraph, *, binding: bool) -> set[tuple[int, int]]:
    """Return source and target (event index) of the inferred edges inside graphs, of all or of those that bind."""
    edges, index = graph.edge_table, graph.event_table.index
    rows = np.flatnonzero(edges.rule == EdgeRule.SAME_IN_ALL_REPLAYS)
    if binding:
        rows = rows[binding_edges(graph)[edges.target[rows]] == rows]
    sides = (index[event_of(side[rows])].tolist() for side in (edges.source, edges.target))
    return set(zip(*sides, strict=True))


def table(seeds: int) -> Iterator[str]:
    """Yield a row per number of replays, shape and number of streams: recall and precision by jitter."""
    yield f"{'replays':>7}  {'shape':15}  {'streams':>7}  " + "  ".join(f"{f'jitter {one:.0%}':>14}" for one in JITTERS)
    for replays in REPLAYS:
        for is_series_parallel in (True, False):
            for streams in STREAMS:
                cells = [_cell(seeds, streams, is_series_parallel, jitter, replays) for jitter in JITTERS]
                shape = "series-parallel" if is_series_parallel else "arbitrary"
                yield f"{replays:>7}  {shape:15}  {streams:>7}  " + "  ".join(cells)


def _cell(seeds: int, *case: float) -> str:
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            counts += Case(seed, *case).score(Path(folder))  # type: ignore[arg-type]
    recall, precision = counts["found"] / max(counts["waits"], 1), counts["right"] / max(counts["inferred"], 1)
    return f"{recall:>6.1%} {precision:>7.1%}"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3, help="graphs per cell")
    for line in table(options.parse_args().seeds):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
