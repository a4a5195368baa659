"""A thread of an inference engine that is written down row by row, with one stream per GPU (times in µs)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tests.support.trace_builder import TraceBuilder

SCHEDULE = "vllm/v1/core/sched/scheduler.py(212): schedule"


class ServingHost:
    """What threads do one after the other; ``now`` is the host's time, which may be set."""

    def __init__(self) -> None:
        self.trace = TraceBuilder()
        self.now = 0.0
        self._free: dict[int, float] = {}
        self._correlation = 0

    @contextmanager
    def scope(self, name: str, tid: int = 1) -> Iterator[None]:
        """Annotate what is done inside; a Python frame where the name is one."""
        since = self.now
        yield
        (self.trace.frame if "py(" in name else self.trace.annotation)(name, since, self.now, tid=tid)

    def part(self, name: str, us: float, tid: int = 1) -> None:
        """Spend time in a scope."""
        with self.scope(name, tid):
            self.now += us

    def run(
        self, us: float, *, tid: int = 1, device: int = 0, kernels: int = 1,
        form: Literal["kernel", "graph"] = "kernel", has_call: bool = True,
    ) -> None:  # fmt: skip
        """Launch work."""
        self._correlation += 1
        called, self.now = self.now, self.now + 10
        if has_call:
            call = "cudaGraphLaunch" if form == "graph" else "cudaLaunchKernel"
            self.trace.call(call, called, self.now, self._correlation, tid=tid)
        start = max(self._free.get(device, 0.0), called + 5)
        for number in range(kernels):
            end = start + us / kernels
            self.trace.kernel(f"gemm{number}", start, end, self._correlation, device=device)
            start = end
        self._free[device] = start

    def wait(self, tid: int = 1, device: int = 0) -> None:
        """Wait for the GPU."""
        end = max(self._free[device], self.now) + 5
        self.trace.call("cudaStreamSynchronize", self.now, end, tid=tid)
        self.now = end

    def decode(self, us: float = 3_000, batch: int = 8, tid: int = 1, device: int = 0) -> None:
        """Schedule, and run a decode step of vLLM's to its end."""
        self.part(SCHEDULE, 50, tid)
        with self.scope(f"execute_context_0(0)_generation_{batch}({batch})", tid):
            self.now += 20
            self.run(us, tid=tid, device=device, kernels=4, form="graph")
            self.wait(tid, device)
        self.now += 1
