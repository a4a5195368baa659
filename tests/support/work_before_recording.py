"""A recording that begins while its GPU is busy with what was enqueued before."""

from __future__ import annotations

from tests.support.trace_builder import TraceBuilder


def long_queued(begins: float) -> TraceBuilder:
    """The recording's first kernel starts 900 µs after its launch, which is so many µs after the recording's begin."""
    trace = TraceBuilder()
    trace.op("aten::zeros", 0, 2)
    trace.launch("gemm", (begins, begins + 5), (begins + 905, begins + 950), 1)
    trace.call("cudaStreamSynchronize", begins + 6, begins + 953, 2)
    return trace


def held_stream(beside: list[tuple[float, float]]) -> TraceBuilder:
    """A stream's first kernel starts 5 ms after its launch; another stream runs at these times (µs)."""
    trace = TraceBuilder()
    for number, (start, end) in enumerate(beside, 1):
        trace.launch("beside", (number, number + 0.5), (start, end), number, stream=2)
    trace.launch("gemm", (100, 105), (5_100, 5_150), 900, stream=3)
    trace.call("cudaStreamSynchronize", 106, 5_153, 901)
    return trace
