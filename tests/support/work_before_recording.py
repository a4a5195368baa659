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
