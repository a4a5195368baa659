"""A job's path beside the true one, in simulated jobs; ``python -m tests.job_path_accuracy --programs N``.

The true path is the chain of last-finishing constraints over all ranks, which the simulator knows. Two questions:

- with clocks that are known to be exact: how much of the true path lies on ours, on its rank at its time;
- with clocks as the product knows them: which of the delays that lie on the true path lie on ours too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.job_clocks import JobClocks, RankClock
from tests.matching_accuracy import SCENARIOS, random_shape
from tests.simulator.dialect import EPOCH_NS
from tests.simulator.ranks import RecordedJob, Recording, record_job, simulate_job, true_path

Interval = tuple[int, int, int]
"""Rank, start and end (ns) of a stretch of a path."""

BACKENDS = ("nccl", "gloo")
ON_PATH = 0.95


@dataclass
class PathFigures:
    """What was found in some jobs: the share of each one's true path, and delays that lie on both paths or on one."""

    shares: list[float] = field(default_factory=list)
    delays: int = 0
    found: int = 0


def proven(scenario: str, backend: str, seeds: range) -> PathFigures:
    """Compare the paths of some jobs of a scenario."""
    figures = PathFigures()
    for seed in seeds:
        job = simulate_job(SCENARIOS[scenario](random_shape(scenario, backend, seed)))
        with tempfile.TemporaryDirectory() as folder:
            recorded = record_job(job, Recording(ids=True), Path(folder))
            graphs = list(hg.read_graphs(recorded.paths, communications=True))
        truth = [(piece.rank, piece.start_ns + EPOCH_NS, piece.end_ns + EPOCH_NS) for piece in true_path(recorded)]
        exact = hg.critical_path(_with_exact_clocks(graphs), hg.whole())
        figures.shares.append(_common(truth, _intervals(exact)) / max(sum(end - start for _, start, end in truth), 1))
        ours = _intervals(hg.critical_path(hg.build_job(graphs), hg.whole()))
        for delay in _delays(recorded):
            if _common([delay], truth) >= ON_PATH * (delay[2] - delay[1]):
                figures.delays += 1
                figures.found += _common([delay], ours) >= ON_PATH * (delay[2] - delay[1])
    return figures


def _with_exact_clocks(graphs: list[hg.DependencyGraph]) -> hg.JobGraph:
    """Join ranks whose clocks are known to be one."""
    return join_ranks(graphs, JobClocks({graph.rank or 0: RankClock() for graph in graphs}))


def _intervals(path: hg.CriticalPath) -> list[Interval]:
    ranks = [part.rank for part in path.graph.rank_graphs]
    pieces = path.segment_table
    return [
        (ranks[part], start, end)
        for part, start, end in zip(pieces.part.tolist(), pieces.start.tolist(), pieces.end.tolist(), strict=True)
    ]


def _delays(recorded: RecordedJob) -> list[Interval]:
    return [(delay.rank, delay.start_ns + EPOCH_NS, delay.end_ns + EPOCH_NS) for delay in recorded.delays()]


def _common(some: list[Interval], tiles: list[Interval]) -> int:
    """Return how much of some stretches lies in stretches that follow each other, on the same rank (ns)."""
    rank, start, end = np.array(tiles, np.int64).reshape(-1, 3).T
    total = 0
    for own, begin, stop in some:
        inside = np.minimum(end, stop) - np.maximum(start, begin)
        total += int(inside[(rank == own) & (inside > 0)].sum())
    return total


def table(programs: int) -> Iterator[str]:
    """Print a line per scenario and backend."""
    yield f"{'scenario':<12}{'ranks talk by':<15}{'jobs':>5}{'same path':>11}{'least':>8}{'delays':>8}{'found':>7}"
    for backend in BACKENDS:
        for scenario in SCENARIOS:
            if scenario == "wide" and backend == "gloo":
                continue
            found = proven(scenario, backend, range(programs))
            same = sum(share >= 0.9999 for share in found.shares)
            yield (
                f"{scenario:<12}{backend:<15}{len(found.shares):>5}{same:>11}{min(found.shares):>8.3f}"
                f"{found.delays:>8}{found.found:>7}"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="A job's path beside the true one.")
    parser.add_argument("--programs", type=int, default=20)
    for line in table(parser.parse_args().programs):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
