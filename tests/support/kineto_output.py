"""A graph that is written as Kineto JSON and read again."""

from __future__ import annotations

from pathlib import Path

import hta_graph as hg
from hta_graph.export.kineto import write_kineto


def rewritten(graph: hg.DependencyGraph, folder: Path) -> hg.DependencyGraph:
    """Write a graph as Kineto JSON and build it from that."""
    write_kineto(graph, folder / "out.json")
    return hg.build_graph(hg.read_trace(folder / "out.json"))
