"""Soups: rows that overlap as they please, as no profiler would write them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import hta_graph as hg
from hta_graph import DependencyGraph
from tests.simulator.dialect import Exact
from tests.trace_fuzz import NAMES, as_bytes

Row = dict[str, Any]


def graph_of(raw: bytes) -> DependencyGraph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(raw)
        return hg.build_graph(hg.read_trace(path))


@dataclass(frozen=True)
class RandomRows:
    """Rows with times in nanoseconds, to be written in a dialect and shifted."""

    rows: tuple[Row, ...]

    def document(self, *, shift_ns: int = 0, base_ns: int | None = None) -> dict[str, Any]:
        """Write the rows, all times shifted; ``base_ns`` is taken off the rows and put into the header."""
        offset = shift_ns - (base_ns or 0)
        moved = ({"ts": row["ts"] + offset, "dur": row["dur"]} for row in self.rows)
        times = ({key: decimal_microseconds(ns) for key, ns in each.items()} for each in moved)
        rows = [row | printed for row, printed in zip(self.rows, times, strict=True)]
        return ({} if base_ns is None else {"baseTimeNanoseconds": base_ns}) | {"traceEvents": rows}

    def graph(self, *, shift_ns: int = 0, base_ns: int | None = None) -> DependencyGraph:
        return graph_of(as_bytes(self.document(shift_ns=shift_ns, base_ns=base_ns)))


def decimal_microseconds(ns: int) -> str:
    """Return microseconds with three decimals, exactly."""
    return Exact(f"{Exact.MARK}{'-' if ns < 0 else ''}{abs(ns) // 1_000}.{abs(ns) % 1_000:03d}")


TIMES = st.integers(0, 12).map(lambda n: n * 1_000) | st.sampled_from((1, 10_500, 60_000, 1_004_000, 2_100_000))
LENGTHS = st.integers(0, 6).map(lambda n: n * 1_000) | st.sampled_from((1, 40_000, 1_000_000))
CORRELATIONS = st.integers(0, 5)
STREAMS = st.sampled_from((7, 20))
DEVICES = st.sampled_from((0, 0, 1))


def span_rows(cat: str, **fields: SearchStrategy[Any]) -> SearchStrategy[Row]:
    return st.fixed_dictionaries({"ph": st.just("X"), "cat": st.just(cat), "ts": TIMES, "dur": LENGTHS, **fields})


def on_thread(cat: str, names: Sequence[str], **args: SearchStrategy[Any]) -> SearchStrategy[Row]:
    fields = {key: args.pop(key) for key in ("ts", "dur", "tid") if key in args}
    place = {"name": st.sampled_from(names), "pid": st.just(9), "tid": st.sampled_from((1, 1, 2))}
    return span_rows(cat, **place | fields, args=st.fixed_dictionaries(args))


def on_gpu(cat: str, names: Sequence[str], **args: SearchStrategy[Any]) -> SearchStrategy[Row]:
    ids = {"device": DEVICES, "context": st.just(1), "stream": STREAMS, "correlation": CORRELATIONS}
    place = {"name": st.sampled_from(names), "pid": st.just(0), "tid": st.just(0)}
    return span_rows(cat, **place, args=st.fixed_dictionaries(ids | args))


CALLS = tuple(name for name in NAMES if name.startswith("cuda"))
OPS = on_thread("cpu_op", ("aten::add", "aten::mm", "enumerate(DataLoader)#x"), **{"Sequence number": st.integers(0, 2),
                "Fwd thread id": st.integers(0, 1)})  # fmt: skip
SYNCS = on_gpu("cuda_sync", ("Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"),
               wait_on_stream=st.sampled_from((7, 20, -1)), wait_on_cuda_event_record_corr_id=CORRELATIONS)  # fmt: skip
ROWS = st.one_of(
    OPS,
    on_thread("cuda_runtime", CALLS, correlation=CORRELATIONS),
    on_gpu("kernel", ("gemm", "ncclDevKernel_AllReduce")),
    on_gpu("gpu_memcpy", ("Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pinned -> Device)")),
    on_thread("user_annotation", ("ProfilerStep#1", "ProfilerStep#2", "range")),
    on_thread("python_function", ("train.py(1): f", "train.py(9): g")),
    SYNCS,
)
NEAR = {"ts": st.integers(0, 6).map(lambda n: n * 1_000), "dur": st.integers(0, 4).map(lambda n: n * 1_000)}
CROWDED = st.one_of(
    *(on_thread(cat, (name,), tid=st.just(1), **NEAR) for cat, name in (
        ("cpu_op", "aten::add"), ("cpu_op", "aten::mm"), ("cuda_runtime", "cudaMalloc"), ("user_annotation", "range"),
        ("python_function", "train.py(1): f"))),
)  # fmt: skip
"""Rows of one thread at few instants: most boundaries coincide, zero-length rows lie on them."""
RANDOM_ROWS = st.one_of(
    st.lists(ROWS, min_size=1, max_size=14), st.lists(ROWS, min_size=8, max_size=20), st.lists(CROWDED, min_size=4)
).map(lambda rows: RandomRows(tuple(rows)))
