"""A trace in five lines of a test: times are microseconds, everything is on one thread and stream 7 unless said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph import DependencyGraph

PID = 100


class TraceBuilder:
    """Collects rows in the Kineto format; every method returns the row's ``event_index``."""

    def __init__(self, **header: Any) -> None:
        self.header = header
        self.rows: list[dict[str, Any]] = []

    def row(self, **fields: Any) -> int:
        """Add any row."""
        self.rows.append({key: value for key, value in fields.items() if value is not None})
        return len(self.rows) - 1

    def _cpu(self, cat: str, name: str, start: float, end: float, tid: int, **args: Any) -> int:
        return self.row(ph="X", cat=cat, name=name, pid=PID, tid=tid, ts=start, dur=_length(start, end), args=args)

    def op(self, name: str, start: float, end: float, *, tid: int = 1, **args: Any) -> int:
        """Add a CPU operator."""
        return self._cpu("cpu_op", name, start, end, tid, **args)

    def annotation(self, name: str, start: float, end: float, *, tid: int = 1) -> int:
        """Add a user annotation."""
        return self._cpu("user_annotation", name, start, end, tid)

    def frame(self, name: str, start: float, end: float, *, tid: int = 1) -> int:
        """Add a Python frame."""
        return self._cpu("python_function", name, start, end, tid)

    def call(self, name: str, start: float, end: float, corr: int = 0, *, tid: int = 1) -> int:
        """Add a runtime call."""
        return self._cpu("cuda_runtime", name, start, end, tid, correlation=corr)

    def _gpu(self, cat: str, name: str, start: float, end: float, stream: int, device: int, **args: Any) -> int:
        ids = {"device": device, "context": 1, "stream": stream}
        return self.row(
            ph="X", cat=cat, name=name, pid=device, tid=stream, ts=start, dur=_length(start, end), args=ids | args
        )

    def kernel(
        self, name: str, start: float, end: float, corr: int = 0, *, stream: int = 7, device: int = 0, **args: Any
    ) -> int:
        """Add a kernel."""
        return self._gpu("kernel", name, start, end, stream, device, correlation=corr, **args)

    def copy(
        self, name: str, start: float, end: float, corr: int, *, stream: int = 7, device: int = 0, **args: Any
    ) -> int:
        """Add a GPU copy, by its full name such as ``Memcpy DtoH (Device -> Pageable)``."""
        return self._gpu("gpu_memcpy", name, start, end, stream, device, correlation=corr, **args)

    def launch(
        self, name: str, call: tuple[float, float], run: tuple[float, float], corr: int, *, stream: int = 7,
        device: int = 0, tid: int = 1,
    ) -> tuple[int, int]:  # fmt: skip
        """Add a cudaLaunchKernel call and its kernel."""
        return (
            self.call("cudaLaunchKernel", *call, corr, tid=tid),
            self.kernel(name, *run, corr, stream=stream, device=device),
        )

    def sync_row(
        self, kind: str, start: float, end: float, corr: int, *, stream: int = -1, device: int = 0,
        wait_on_stream: int | None = None, record: int | None = None,
    ) -> int:  # fmt: skip
        """Add a ``cuda_sync`` row."""
        args = {"correlation": corr, "cuda_sync_kind": kind}
        if wait_on_stream is not None:
            args |= {"wait_on_stream": wait_on_stream, "wait_on_cuda_event_record_corr_id": record}
        return self._gpu("cuda_sync", kind, start, end, stream, device, **args)

    def agree(self, at: float) -> None:
        """Add a copy that ends as its call returns: the GPU's clock cannot be behind the host's."""
        self.call("cudaMemcpyAsync", at, at + 20, 999)
        self.copy("Memcpy DtoH (Device -> Pageable)", at + 10, at + 20, 999, stream=99)

    def document(self) -> dict[str, Any]:
        """Return the trace as the profiler would write it."""
        return {"schemaVersion": 1, **self.header, "traceEvents": self.rows}

    def write(self, path: Path) -> Path:
        """Write the trace; gzip if the name ends in ``.gz``."""
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def graph(self, tmp_path: Path) -> DependencyGraph:
        """Write the trace, read it back and build its graph."""
        return hg.build_graph(hg.read_trace(self.write(tmp_path / "trace.json")))


def _length(start: float, end: float) -> float:
    return round(end - start, 3)


def edges(graph: DependencyGraph, *kinds: str) -> set[tuple[str, int, str, int, str]]:
    """Return (kind, source event, source point, target event, target point) of all edges, or of some kinds."""
    frame = graph.edges
    if kinds:
        frame = frame[frame.kind.isin(kinds)]
    columns = ("kind", "source_index", "source_point", "target_index", "target_point")
    return {tuple(row) for row in zip(*(frame[column].tolist() for column in columns), strict=True)}
