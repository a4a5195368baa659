"""What a replay costs: ``python -m tests.benchmarks.replay_cost FILE_OR_FOLDER…``: the first, another, many at once."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.what_if.replay import replay_graph
from tests.benchmarks.machine_description import machine

MANY = 50


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def report(given: Path, rounds: int) -> str:
    """Measure one trace, or the job in a folder."""
    graph = hg.read_job(given) if given.is_dir() else hg.build_graph(hg.read_trace(given))
    first = seconds(lambda: hg.replay(graph, window=hg.whole()).predicted_ns)

    def another(factor: float) -> float:
        change = hg.scale("class:cpu_bound", factor)
        return seconds(lambda: hg.replay(graph, change, hg.whole()).predicted_ns)

    one = statistics.median(another(at / rounds) for at in range(rounds))
    base = replay_graph(graph, hg.whole())
    every = np.arange(len(base.edges.row)), np.ones(len(base.edges.row), np.int64), base.tails
    many = seconds(lambda: base.contracted.latest([every] * MANY, base.times, base.first_ends))
    table = seconds(lambda: hg.opportunities(graph, hg.whole()))
    curve = seconds(lambda: hg.sensitivity(graph, "class:cpu_bound", hg.whole()))
    slack = seconds(lambda: hg.slack(graph, hg.whole()))
    return (
        f"{given.parent.name}/{given.name}: {len(graph.edge_table):,} edges: the first {first:.3f} s, "
        f"another {one:.3f} s, {MANY} at once {many / MANY:.4f} s each; "
        f"opportunities {table:.2f} s, a curve {curve:.2f} s, slack {slack:.2f} s"
    )


def main() -> None:
    """Print a line per trace."""
    parser = argparse.ArgumentParser(description="What a replay costs.")
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sys.stdout.write(machine() + "\n")
    for given in options.traces:
        sys.stdout.write(report(given, options.rounds) + "\n")


if __name__ == "__main__":
    main()
