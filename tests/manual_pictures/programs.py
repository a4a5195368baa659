"""What the programs of pictures share: traces as graphs, and stretches of them in µs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import hta_graph as hg
from tests.edge_accuracy import read
from tests.simulator import Dialect, Program, simulate, write
from tests.support.trace_builder import TraceBuilder

__all__ = ["FORWARD", "GEMM", "Drawing", "end_of", "job_path", "path_of", "simulated"]

Drawing = Callable[[Path], hg.CriticalPath]
"""Makes what a picture shows, in a folder for its files."""

GEMM, FORWARD = "ampere_sgemm_128x64_nn", "aten::linear"
"""Names as recordings have them."""


def path_of(trace: TraceBuilder, folder: Path, window: tuple[float, float] | None = None) -> hg.CriticalPath:
    """Return the path of a trace, or of a stretch of it (µs)."""
    stretch = hg.whole() if window is None else hg.between(*(round(1_000 * time) for time in window))
    return hg.critical_path(trace.graph(folder), stretch)


def job_path(ranks: Sequence[TraceBuilder], folder: Path) -> hg.CriticalPath:
    """Return the path of a job of some ranks."""
    return hg.critical_path(
        hg.read_job([rank.write(folder / f"rank{at}.json") for at, rank in enumerate(ranks)]), hg.whole()
    )


def simulated(program: Program) -> hg.DependencyGraph:
    """Run a program, and read its trace."""
    return read(write(simulate(program), Dialect()))


def end_of(graph: hg.DependencyGraph, name: str, which: int = -1) -> int:
    """Return when an event of a name ends (ns), the last one if none is named."""
    events = graph.events
    return int(events[events.name == name].end_ns.iloc[which])
