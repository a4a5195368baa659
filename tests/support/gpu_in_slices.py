"""A GPU that runs another process in turn: launched work starts when its time slice comes."""

from __future__ import annotations

from tests.support.trace_builder import TraceBuilder


def in_slices(launches: int, slice_us: float) -> TraceBuilder:
    """The host launches ten kernels at a time, each in 10 µs; the GPU starts them when its time slice comes.

    host     [launch × 10].............................[launch × 10]
    stream   ......................[kernel × 10]
    """
    trace = TraceBuilder()
    for number in range(launches):
        begins = slice_us * number
        for at in range(10):
            corr = 10 * number + at + 1
            trace.op("aten::add", begins + 10 * at, begins + 10 * at + 9)
            starts = begins + slice_us - 200 + 5 * at
            trace.launch("add", (begins + 10 * at + 1, begins + 10 * at + 5), (starts, starts + 4), corr)
        trace.call("cudaDeviceSynchronize", begins + 110, begins + slice_us - 140)
    return trace
