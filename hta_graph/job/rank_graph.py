"""One rank's file → its graph, with what it did together with other ranks where somebody wants that too."""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.build import build_graph
from hta_graph.graph import DependencyGraph
from hta_graph.job.matching.read_members import read_members
from hta_graph.trace.source import kept_text
from hta_graph.trace.table import Trace

__all__ = ["rank_graph"]


def rank_graph(read: Callable[[], Trace], *, members: bool) -> DependencyGraph:
    """Build the graph of what is read; with its communications, while the text that they are read from is at hand.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if not members:
        return build_graph(read())
    with kept_text():
        graph = build_graph(read())
        read_members(graph)
        return graph
