"""Waiting calls of other vendors, and of vendors that no vocabulary knows (times in µs)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import orjson
import pytest

import hta_graph as hg
from analyses.questions.critical_path import PathText, path_lines
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.simulator.programs import Family
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder, edges

CATEGORY = "privateuse1_runtime"


def waiting_program(
    call: str, lag: float = 8, *, times: int = 1, category: str = "privateuse1_runtime"
) -> TraceBuilder:
    """Launch three kernels and wait, some times."""
    trace = TraceBuilder()
    for step in range(times):
        at, corr = 1000 * step, 10 * step
        trace.op("aten::mm", at, at + 30)
        for number in range(3):
            ids = {"correlation": corr + number + 1}
            trace.row(ph="X", cat=CATEGORY, name="fooEnqueue", pid=100, tid=1, ts=at + 5 + 8 * number, dur=4, args=ids)
            trace.kernel("k", at + 40 + 200 * number, at + 240 + 200 * number, corr + number + 1)
        trace.op("aten::item", at + 50, at + 650 + lag + 5)
        trace.row(ph="X", cat=CATEGORY, name=call, pid=100, tid=1, ts=at + 52, dur=588 + lag,
                  args={"correlation": corr + 9})  # fmt: skip
    return trace


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("zeCommandQueueSynchronize", "stream_sync"),
        ("zeCommandListHostSynchronize", "stream_sync"),
        ("urQueueFinish", "stream_sync"),
        ("urEventWait", "event_sync"),
        ("zeEventHostSynchronize", "event_sync"),
        ("musaStreamSynchronize", "stream_sync"),
        ("musaDeviceSynchronize", "device_sync"),
        ("synStreamSynchronize", "stream_sync"),
        ("AscendCL@aclrtSynchronizeStreamWithTimeout", "stream_sync"),
        ("aclrtSynchronizeDevice", "device_sync"),
        ("cnrtQueueSync", "stream_sync"),
        ("mcStreamSynchronize", "stream_sync"),
    ],
)
def test_a_vendors_call_waits_for_the_gpu(call: str, kind: str, tmp_path: Path) -> None:
    graph = waiting_program(call).graph(tmp_path)
    assert graph.edge_counts()[kind]["inferred"] == 1
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["gpu_compute_bound"] == 600_000
    assert path.by_bound_ns["sync_overhead"] == 8_000


def test_calls_of_an_unknown_name_that_return_with_the_work_wait(tmp_path: Path) -> None:
    graph = waiting_program("fooWaitIdle", times=4).graph(tmp_path)
    assert graph.diagnostics["waits_of_unknown_calls"] == 4
    assert set(graph.edges.query("kind == 'stream_sync'").rule) == {"returned_with_work"}
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["gpu_compute_bound"] == 2_400_000
    said = " ".join(map(str, path_lines(PathText.of(path))))
    assert "fooWaitIdle: 4 calls taken as waits" in said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("call", "lag", "times"),
    [("fooCompile", 28, 1), ("fooCompile", 90, 4), ("cudaMalloc", 8, 4), ("runFunction", 8, 4)],
    ids=["once may be chance", "returns long after", "a known runtime's call", "MTIA's"],
)
def test_what_is_not_shown_to_wait_works(call: str, lag: float, times: int, tmp_path: Path) -> None:
    graph = waiting_program(call, lag, times=times).graph(tmp_path)
    assert graph.diagnostics["waits_of_unknown_calls"] == 0


def test_very_many_calls_of_an_unknown_name_are_no_less_waits(tmp_path: Path) -> None:
    graph = waiting_program("fooWaitIdle", times=500).graph(tmp_path)
    assert graph.diagnostics["waits_of_unknown_calls"] == 500


def test_an_unknown_call_that_the_profiler_records_as_a_wait_is_one(tmp_path: Path) -> None:
    trace = waiting_program("zeNewWait", 25)
    trace.row(ph="X", cat="xpu_sync", name="zeNewWait", pid=-1, tid=1, ts=53, dur=610, args={"correlation": 9})
    graph = trace.graph(tmp_path)
    assert graph.diagnostics["waits_of_unknown_calls"] == 1
    assert not any(label.startswith("stream -1") for label in graph.lanes.labels)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(4), *map(deep, range(4, 40))])
@pytest.mark.parametrize("family", ["pytorch", "experts"])
def test_of_simulated_programs_with_unknown_names_only_waits_are_taken_as_such(
    family: Family, seed: int, tmp_path: Path
) -> None:
    document = orjson.loads(
        to_bytes(write(simulate(random_program(seed, family, 60)), Dialect(sync_rows="none")).document)
    )
    for row in document["traceEvents"]:
        if row.get("cat") in {"cuda_runtime", "cuda_driver"}:
            row |= {"cat": CATEGORY, "name": "foo" + re.sub("^(cuda|cu)", "", row["name"])}
    path = tmp_path / "t.json"
    path.write_bytes(orjson.dumps(document))
    graph = hg.build_graph(hg.read_trace(path))
    waits = graph.edges.query("rule == 'returned_with_work'")["target_index"].unique()
    names = {document["traceEvents"][index]["name"] for index in waits}
    assert all(re.search("Synchronize|Memcpy", name) for name in names), names


TO_HOST = ("CopyDeviceToHost", "MEMORY_COPY_DEVICE_TO_HOST", "Memcpy DtoH", "Memcpy D2H", "Memcpy D2M")
TO_DEVICE = ("CopyHostToDevice", "MEMORY_COPY_HOST_TO_DEVICE", "Memcpy HtoD (Host -> Device)", "Memcpy H2D (Pinned)")


def edges_of_copy(tmp_path: Path, call: str, name: str) -> set[tuple[str, int, str, int, str]]:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 100), 1)
    trace.call(call, 10, 130, 2)
    trace.copy(name, 110, 125, 2)
    return edges(trace.graph(tmp_path))


@pytest.mark.parametrize(("call", "names"), [("hipMemcpyAsync", TO_HOST), ("hipMemcpyWithStream", TO_HOST + TO_DEVICE)])
def test_a_call_waits_for_a_copy_by_the_words_of_its_direction(
    tmp_path: Path, call: str, names: tuple[str, ...]
) -> None:
    found = {name: edges_of_copy(tmp_path, call, name) for name in names}
    assert [name for name in names if found[name] != found["CopyDeviceToHost"]] == []
    assert found["CopyDeviceToHost"] != edges_of_copy(tmp_path, call, "Memcpy DtoD (Device -> Device)")


@pytest.mark.parametrize(
    "name", ["MEMORY_COPY_DEVICE_TO_DEVICE", "Memcpy DtoH (Device -> Pinned)", "CopyHostToHostess"]
)
def test_an_asynchronous_call_waits_for_no_other_copy(tmp_path: Path, name: str) -> None:
    found = edges_of_copy(tmp_path, "hipMemcpyAsync", name)
    assert found == edges_of_copy(tmp_path, "hipMemcpyAsync", "Memcpy DtoD (Device -> Device)")


def test_copies_are_counted_by_their_direction(tmp_path: Path) -> None:
    trace, names = TraceBuilder(), (*TO_HOST, *TO_DEVICE)
    for number, name in enumerate(names):
        trace.copy(name, 10 * number, 10 * number + 5, number + 1)
    graph = trace.graph(tmp_path)
    kinds, kind = graph.event_flags.copy_kinds(np.flatnonzero(graph.is_gpu).astype(np.int32))
    assert [kinds[at] for at in kind.tolist()] == ["Memcpy DtoH"] * len(TO_HOST) + ["Memcpy HtoD"] * len(TO_DEVICE)
