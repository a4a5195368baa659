"""A real export of two ranks: its answers are those of its own tables, and those of the same job as Kineto traces."""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.model import BoundBy, EdgeKind, EventKind
from hta_graph.trace.profiler_names import NON_BLOCKING_QUERY
from tests.support.command_line import run_command
from tests.support.shared_traces import SHARED

EXPORT = SHARED / "nsys" / "mfu_2gpu_before.sqlite"
SMALL = SHARED / "nsys" / "mock.sqlite"
KINETO = SHARED / "nsys" / "kineto"
MOST_UNEXPLAINED = 0.035
LEAST_WITH_EDGE = 0.98

pytestmark = pytest.mark.shared


@cache
def ranks(place: Path = EXPORT) -> dict[int, hg.DependencyGraph]:
    return {graph.rank or 0: graph for graph in hg.read_graphs(place)}


def rows(query: str, path: Path = EXPORT) -> list[tuple[int, ...]]:
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def sums(graph: hg.DependencyGraph, kind: EventKind, pattern: str = "") -> tuple[int, int]:
    """Return the number of a rank's rows of a kind, and their time (ns)."""
    events = graph.trace.events
    chosen = events.kind == kind
    if pattern:
        chosen &= np.array([pattern in name for name in graph.trace.names])[events.name]
    return int(chosen.sum()), int((events.end - events.start)[chosen].sum())


def test_the_processes_are_ranks_by_their_devices() -> None:
    assert list(ranks()) == [0, 1]
    assert [graph.trace.world_size for graph in ranks().values()] == [2, 2]
    assert ranks()[0].trace.settings["recorder"] == "Nsight Systems 2026.2.1.210 (schema 3.25.0)"


def test_every_rank_tiles_and_little_is_unexplained() -> None:
    for graph in ranks().values():
        path = hg.critical_path(graph)
        segments = path.segments
        assert (segments.start_ns.to_numpy()[1:] == segments.end_ns.to_numpy()[:-1]).all()
        window = int(segments.end_ns.iloc[-1] - segments.start_ns.iloc[0])
        assert _of(path, "unexplained") <= MOST_UNEXPLAINED * window


@pytest.mark.parametrize(
    ("table", "kind"),
    [("KERNEL", EventKind.KERNEL), ("MEMCPY", EventKind.MEMCPY), ("MEMSET", EventKind.MEMSET)],
)
def test_sums_of_gpu_work_are_those_of_the_tables(table: str, kind: EventKind) -> None:
    of = f"CUPTI_ACTIVITY_KIND_{table}"
    query = f"SELECT COUNT(*), SUM(end - start) FROM {of} GROUP BY globalPid ORDER BY deviceId"  # noqa: S608
    assert [sums(graph, kind) for graph in ranks().values()] == rows(query)


def test_bytes_of_copies_are_those_of_the_table() -> None:
    query = "SELECT SUM(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY globalPid ORDER BY deviceId"
    found = [
        int(graph.trace.copies.bytes[graph.trace.events.kind[graph.trace.copies.event] == EventKind.MEMCPY].sum())
        for graph in ranks().values()
    ]
    assert found == [size for (size,) in rows(query)]


def test_nccl_time_and_calls_are_those_of_the_tables() -> None:
    named = "FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName WHERE value LIKE 'nccl%'"
    query = f"SELECT COUNT(*), SUM(end - start) {named} GROUP BY globalPid ORDER BY deviceId"
    assert [sums(graph, EventKind.KERNEL, "nccl") for graph in ranks().values()] == rows(query)
    calls = "SELECT COUNT(*), SUM(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY globalTid >> 24 ORDER BY 1"
    assert [sums(graph, EventKind.RUNTIME) for graph in ranks().values()] == rows(calls)


def test_the_gpu_is_busy_as_long_as_the_union_of_its_rows() -> None:
    processes = rows("SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 ORDER BY deviceId")
    for graph, (process,) in zip(ranks().values(), processes, strict=True):
        tables = " UNION ALL ".join(
            f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{table} WHERE globalPid = {process}"  # noqa: S608
            for table in ("KERNEL", "MEMCPY", "MEMSET")
        )
        busy, until = 0, 0
        for start, end in rows(f"SELECT * FROM ({tables}) ORDER BY start"):  # noqa: S608
            busy, until = busy + max(end - max(start, until), 0), max(until, end)
        events = graph.trace.file_times
        on_gpu = np.flatnonzero(graph.trace.is_gpu)
        order = on_gpu[np.argsort(events.start[on_gpu], kind="stable")]
        ends = np.maximum.accumulate(events.end[order])
        before = np.concatenate([[0], ends[:-1]])
        assert busy == int((ends - np.maximum(events.start[order], before)).clip(min=0).sum())


def test_recorded_synchronization_is_used_in_full() -> None:
    """Of calls that block each has its edge from the GPU; a query waits for nothing."""
    for graph in ranks().values():
        events, syncs = graph.trace.events, graph.trace.syncs
        calls = graph.edges_of(EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC).target
        names = np.array(graph.trace.names)[events.name]
        of_call = {int(events.correlation[at]): at for at in np.flatnonzero(events.kind == EventKind.RUNTIME).tolist()}
        rows_of_calls = [of_call[int(number)] for number in events.correlation[syncs.event].tolist()]
        queries = [at for at in rows_of_calls if NON_BLOCKING_QUERY.match(names[at])]
        blocking = [at for at in rows_of_calls if "Synchronize" in names[at]]
        assert graph.diagnostics_record["event_queries"] == len(queries) > 0
        assert not set(queries) & set(calls.tolist())
        assert len(set(blocking) & set(calls.tolist())) >= LEAST_WITH_EDGE * len(blocking) > 0


def _of(path: hg.CriticalPath, bound_by: str) -> int:
    return int(path.summary()[bound_by].iloc[0])


@pytest.mark.slow
def test_paths_are_those_of_the_same_job_as_kineto_traces() -> None:
    """Nsight's table of overheads, and which ranges are annotations, is all that differs."""
    for rank, graph in ranks(KINETO).items():
        one, other = hg.critical_path(graph), hg.critical_path(ranks()[rank])
        assert graph.edge_counts()["stream_sync"] == ranks()[rank].edge_counts()["stream_sync"]
        for bound in BoundBy:
            if bound not in (BoundBy.CPU_BOUND, BoundBy.CPU_GAP):
                assert _of(one, bound.label) == _of(other, bound.label), bound
        on_host = [_of(found, "cpu_bound") + _of(found, "cpu_gap") for found in (one, other)]
        assert on_host[0] == on_host[1]


@pytest.mark.slow
def test_collectives_of_both_ranks_are_matched() -> None:
    matched = hg.read_job(EXPORT).collectives
    assert matched["number"].nunique() == 33
    assert (matched.groupby("number")["rank"].nunique() == 2).all()


def test_the_small_export_names_its_wait_by_the_call() -> None:
    """Its record has the number of a stream's wait, and stands in ``cudaStreamSynchronize``."""
    trace = hg.read_trace(SMALL)
    assert [trace.name_of(int(at)) for at in trace.syncs.event] == ["Stream Sync"]
    assert sum(hg.build_graph(trace).edge_counts()["stream_sync"].values()) == 1
    assert trace.gpu_names == ("NVIDIA GeForce RTX 3080",)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["critical-path", "stragglers", "report", "sync-deps", "chakra convert", "diff"])
def test_commands_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    inputs = [EXPORT, EXPORT, "--rank", "0", "--test-rank", "1"] if command == "diff" else [EXPORT]
    output = ["-o", tmp_path / "page.html"] if command == "report" else []
    output = ["-o", tmp_path / "workload"] if "chakra" in command else output
    status, _, _ = run_command(capsys, *command.split(), *map(str, [*inputs, *output]))
    assert status == 0
