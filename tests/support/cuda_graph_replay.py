"""Captured graphs that are replayed with a hole: a node of which no row was recorded."""

from __future__ import annotations

from tests.support.trace_builder import TraceBuilder

__all__ = ["queued_replays", "replayed_graph"]


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


def queued_replays(replays: list[tuple[str, list[float]]], *, between: str | None = None) -> TraceBuilder:
    """Replays that are launched while a kernel runs: each has a name for its first node, and µs before each node.

    A call may stand between each launch and that of the kernel before it.
    """
    trace, at, runs = TraceBuilder(), 20.0, 50.0 + 50 * len(replays)
    trace.launch("ahead", (0, 5), (10, runs - 2), 99)
    for number, (name, holes) in enumerate(replays, 1):
        trace.launch("fill", (at, at + 5), (runs, runs + 10), number)
        if between:
            trace.call(between, at + 10, at + 15, 200 + number)
        trace.call("cudaGraphLaunch", at + 20, at + 30, 100 + number)
        runs += 10
        for node, hole in zip((name, *["gemm"] * (len(holes) - 1)), holes, strict=True):
            trace.kernel(node, runs + hole, runs + hole + 10, 100 + number)
            runs += hole + 10
        at, runs = at + 50, runs + 2
    trace.call("cudaDeviceSynchronize", at, runs + 2, 999)
    return trace
