"""Recordings of steps of given lengths, each one kernel long."""

from __future__ import annotations

from pathlib import Path

from tests.support.trace_builder import TraceBuilder

__all__ = ["recorded"]


def recorded(path: Path, lengths: list[int], rank: int = 0) -> Path:
    """Record steps of these lengths (µs), each of one kernel that ends with it."""
    trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 2})
    at = 0
    for step, length in enumerate(lengths, 1):
        trace.annotation(f"ProfilerStep#{step}", at, at + length - 5)
        trace.launch("gemm", (at, at + 1), (at + 2, at + length), step)
        at += length
    return trace.write(path)
