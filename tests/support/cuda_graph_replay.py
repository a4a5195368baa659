"""A captured graph that is replayed with a hole: a node of which no row was recorded."""

from __future__ import annotations

from tests.support.trace_builder import TraceBuilder

__all__ = ["replayed_graph"]


def replayed_graph(holes: list[float]) -> TraceBuilder:
    """One graph of two recorded nodes, replayed with a hole of so many µs between them, and then waited for."""
    trace, at = TraceBuilder(), 0.0
    for number, hole in enumerate(holes, 1):
        trace.call("cudaGraphLaunch", at, at + 5, number)
        trace.kernel("first", at + 10, at + 20, number)
        trace.kernel("last", at + 20 + hole, at + 30 + hole, number)
        trace.call("cudaDeviceSynchronize", at + 6, at + 33 + hole, 100 + number)
        at += 40 + hole
    return trace
