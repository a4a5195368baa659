"""The dependency graph: events, points and edges as columns, and the facade that speaks of them."""

from hta_graph.graph.dependency_graph import BUILD_DIAGNOSTICS, DIAGNOSTICS, DependencyGraph, RankPart

__all__ = ["BUILD_DIAGNOSTICS", "DIAGNOSTICS", "DependencyGraph", "RankPart"]
