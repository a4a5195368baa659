"""Made exports, row by row: what the shared one does not hold, and what is wrong with a file."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.model import EdgeKind, EventKind
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.event_args import read_event_args
from tests.support.command_line import command_json, one_error, run_command
from tests.support.compare_traces import same_columns
from tests.support.made_nsys import CONTEXT_SYNC, MARK, START_END, STREAM_SYNC, STREAM_WAIT, NsysBuilder

US = 1_000


def program(schema: str = "3.25") -> NsysBuilder:
    """Two launches and a wait for them."""
    made = NsysBuilder(schema=schema)
    made.op("aten::mm", 0, 40 * US, op_id=7, seq=3, sizes=[[2, 3], [3, 4]])
    made.launch("void gemm<(int)3>(float *)", (10 * US, 15 * US), (20 * US, 90 * US), 1)
    made.launch("copy", (20 * US, 25 * US), (90 * US, 100 * US), 2)
    made.call("cudaStreamSynchronize_v3020", 50 * US, 105 * US, 3)
    made.sync(STREAM_SYNC, 50 * US, 101 * US, 3, stream=7)
    return made


def trace_of(made: NsysBuilder, folder: Path) -> hg.Trace:
    return hg.read_trace(made.write(folder / "a.sqlite"))


def names(trace: hg.Trace, kind: EventKind) -> list[str]:
    return [trace.name_of(at) for at in np.flatnonzero(trace.events.kind == kind).tolist()]


# -- rows -------------------------------------------------------------------------------------------------------------


def test_an_operator_has_its_ids_and_sizes(tmp_path: Path) -> None:
    trace = trace_of(program(), tmp_path)
    (at,) = np.flatnonzero(trace.events.kind == EventKind.CPU_OP).tolist()
    assert (trace.name_of(at), trace.events.external_id[at], trace.events.sequence[at]) == ("aten::mm", 7, 3)
    found = read_event_args(trace, ["Input Dims", "External id"], np.array([at]))
    assert (found["Input Dims"][0], found["External id"][0]) == ([[2, 3], [3, 4]], 7)


def test_ranges_without_what_operators_have_are_annotations(tmp_path: Path) -> None:
    made = program()
    made.range("ProfilerStep#3", 0, 200 * US)
    made.range("registered", 1 * US, 2 * US, registered=True)
    made.op("forward", 2 * US, 3 * US, op_id=9)
    made.op("FSDP::pre_forward (layer)", 3 * US, 4 * US, op_id=10)
    made.range("across threads", 3 * US, 7 * US, kind=START_END)
    made.range("mark", 5 * US, None, kind=MARK)
    made.range("never ended", 150 * US, None)
    trace = trace_of(made, tmp_path)
    expected = {"ProfilerStep#3", "registered", "forward", "FSDP::pre_forward (layer)", "across threads", "mark"}
    assert set(names(trace, EventKind.ANNOTATION)) == expected | {"never ended"}
    assert [step.number for step in trace.steps()] == [3]
    last = int(np.flatnonzero(np.array([trace.name_of(at) == "never ended" for at in range(len(trace.events))]))[0])
    assert trace.events.end[last] - trace.events.start[last] == 50 * US


def test_backward_operators_follow_the_forward_one_of_their_number(tmp_path: Path) -> None:
    made = program()
    made.op("autograd::engine::evaluate_function: MmBackward0", 110 * US, 130 * US, op_id=20, seq=3, tid=900)
    made.op("MmBackward0", 112 * US, 128 * US, op_id=21, seq=3, tid=900)
    graph = hg.build_graph(trace_of(made, tmp_path))
    edges = graph.edges_of(EdgeKind.FORWARD_BACKWARD)
    assert [(graph.name_of(int(edges.source[0])), graph.name_of(int(edges.target[0])))] == [("aten::mm", "MmBackward0")]


def test_a_graph_that_is_one_row_is_a_kernel(tmp_path: Path) -> None:
    made = program()
    made.call("cudaGraphLaunch_v10000", 106 * US, 110 * US, 4)
    made.whole_graph(112 * US, 180 * US, 4, graph=6)
    assert "CUDA graph 6" in names(trace_of(made, tmp_path), EventKind.KERNEL)


def test_nodes_of_graphs_keep_their_numbers(tmp_path: Path) -> None:
    made = program()
    made.call("cudaGraphLaunch_v10000", 106 * US, 110 * US, 4)
    made.kernel("node", 112 * US, 180 * US, 4, graphNodeId=55, graphId=6)
    trace = trace_of(made, tmp_path)
    found = read_event_args(trace, ["graph node id", "graph id"])
    assert [value for value in found["graph node id"].tolist() if value] == [55]


def test_unified_memory_and_overheads_are_kept(tmp_path: Path) -> None:
    made = program()
    made.migration("HtoD", 30 * US, 40 * US)
    made.page_faults(28 * US, 41 * US, count=3)
    made.overhead("Lazy function loading", 41 * US, 44 * US)
    trace = trace_of(made, tmp_path)
    assert names(trace, EventKind.MEMCPY) == ["Memcpy HtoD (Managed -> Managed)"]
    assert sorted(names(trace, EventKind.OVERHEAD)) == ["GPU page faults", "Lazy function loading"]


def test_events_lead_from_their_record_to_the_wait(tmp_path: Path) -> None:
    """The record of an event that is used again is the last one before the wait."""
    made = program()
    made.call("cudaEventRecord_v3020", 26 * US, 27 * US, 4)
    made.cuda_event(4, event=9, event_sync=0, stream=7)
    made.call("cudaStreamWaitEvent_v3020", 28 * US, 29 * US, 5)
    made.sync(STREAM_WAIT, 28 * US, 29 * US, 5, stream=8, event=9)
    made.launch("waits", (30 * US, 32 * US), (101 * US, 120 * US), 6, stream=8)
    made.call("cudaEventRecord_v3020", 33 * US, 34 * US, 8)
    made.cuda_event(8, event=9, event_sync=0, stream=8)
    graph = hg.build_graph(trace_of(made, tmp_path))
    edges = graph.edges_of(EdgeKind.EVENT_WAIT)
    assert [(graph.name_of(int(edges.source[0])), graph.name_of(int(edges.target[0])))] == [("copy", "waits")]
    assert graph.edge_counts()["event_wait"] == {"recorded": 1, "inferred": 0}


def test_records_of_another_device_are_those_of_their_context(tmp_path: Path) -> None:
    """Nsight writes device 0 into the records of every process."""
    made = NsysBuilder()
    made.use(device=1, context=2)
    made.launch("work", (10 * US, 15 * US), (20 * US, 90 * US), 1)
    made.call("cudaDeviceSynchronize_v3020", 50 * US, 95 * US, 3)
    made.use(device=0, context=2)
    made.sync(CONTEXT_SYNC, 50 * US, 92 * US, 3)
    graph = hg.build_graph(trace_of(made, tmp_path))
    assert graph.diagnostics_record["sync_records_moved"] == 0
    assert graph.edge_counts()["device_sync"] == {"recorded": 1, "inferred": 0}


def test_times_since_1970_are_the_same_times(tmp_path: Path) -> None:
    """``nsys export --ts-normalize`` writes them so."""
    utc = 1_779_782_330_176_752_435
    plain = trace_of(program(), tmp_path)
    made = program()
    for rows in made.rows.values():
        for row in rows:
            row.update({side: row[side] + utc for side in ("start", "end") if isinstance(row.get(side), int)})
    shifted = hg.read_trace(made.write(tmp_path / "b.sqlite"))
    assert np.array_equal(plain.events.start, shifted.events.start)


@pytest.mark.parametrize(
    ("variables", "rank", "size"),
    [({"RANK": "3", "WORLD_SIZE": "8"}, 3, 8), ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}, 5, 16), ({}, None, None)],
)
def test_one_process_has_the_rank_of_its_environment(
    tmp_path: Path, variables: dict[str, str], rank: int | None, size: int | None
) -> None:
    made = program()
    made.environment(**variables)
    trace = trace_of(made, tmp_path)
    assert (trace.rank, trace.world_size) == (rank, size)


def test_mpi_says_which_rank_a_process_is(tmp_path: Path) -> None:
    made = two_processes()
    for pid, rank in ((144, 1), (145, 0)):
        made.row("MPI_RANKS", globalTid=1 << 48 | pid << 24 | pid, rank=rank)
    traces = list(hg.read_traces(made.write(tmp_path / "a.sqlite")))
    assert [trace.settings["process"] for trace in traces] == ["145", "144"]


def test_processes_that_see_one_gpu_each_are_ordered_by_it(tmp_path: Path) -> None:
    made = NsysBuilder()
    for at in range(2):
        made.use(pid=144 + at, tid=144 + at, device=0, context=1)
        made.launch("work", (10 * US, 15 * US), (20 * US, 90 * US), 1)
        made.row("TARGET_INFO_CUDA_DEVICE", gpuId=1 - at, cudaId=0, pid=144 + at, numMultiprocessors=132)
    traces = list(hg.read_traces(made.write(tmp_path / "a.sqlite")))
    assert [trace.settings["process"] for trace in traces] == ["145", "144"]


def test_a_process_without_kernels_is_no_rank(tmp_path: Path) -> None:
    made = program()
    made.use(pid=99, tid=99, device=0, context=3)
    made.call("cudaMemsetAsync_v3020", 1 * US, 2 * US, 1)
    made.memset(3 * US, 4 * US, 1)
    assert trace_of(made, tmp_path).events.correlation.max() == 3


def test_rows_that_name_no_process_are_those_of_the_only_one(tmp_path: Path) -> None:
    made = program()
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
        for row in made.rows[table]:
            row["globalPid"] = None
    graph = hg.build_graph(trace_of(made, tmp_path))
    assert sum(graph.edge_counts()["launch"].values()) == 2
    assert graph.edge_counts()["stream_sync"] == {"recorded": 1, "inferred": 0}


def two_processes() -> NsysBuilder:
    made = NsysBuilder()
    for at in range(2):
        made.use(pid=144 + at, tid=144 + at, device=at, context=1)
        made.launch("work", (10 * US, 15 * US), (20 * US, 90 * US), 1)
    return made


def test_a_rank_that_is_read_alone_is_the_same(tmp_path: Path) -> None:
    path = two_processes().write(tmp_path / "a.sqlite")
    together = list(hg.read_traces(path))
    for rank, trace in enumerate(together):
        (alone,) = hg.read_traces(path, rank=rank)
        assert (alone.rank, alone.names, alone.settings) == (rank, trace.names, trace.settings)
        columns = type(trace.events).__dataclass_fields__
        assert all(np.array_equal(getattr(alone.events, name), getattr(trace.events, name)) for name in columns)
    with pytest.raises(TraceError, match="rank 2 not found; available: 0, 1"):
        list(hg.read_traces(path, rank=2))


def test_exports_of_several_nodes_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for node in range(2):
        made = two_processes()
        made.environment(NODE_RANK=str(node))
        made.write(tmp_path / "job" / f"node{node}.sqlite")
    ranks = [(trace.rank, trace.path.name, trace.settings["process"]) for trace in hg.read_traces(tmp_path / "job")]
    assert ranks == [
        (0, "node0.sqlite", "144"),
        (1, "node0.sqlite", "145"),
        (2, "node1.sqlite", "144"),
        (3, "node1.sqlite", "145"),
    ]
    assert len(hg.read_job(tmp_path / "job").rank_graphs) == 4


def test_stripped_ranks_have_the_graphs_of_the_export(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_processes().write(tmp_path / "a.sqlite")
    status, _, _ = run_command(capsys, "strip", path, "-o", tmp_path / "shared")
    assert status == 0
    for rank, one in enumerate(hg.read_graphs(path)):
        other = next(iter(hg.read_graphs(tmp_path / "shared" / f"rank_{rank}.json.gz")))
        assert one.edge_counts() == other.edge_counts()
        assert other.trace.settings["recorder"].startswith("Nsight Systems")
        assert "process" not in other.trace.settings


def test_the_text_of_an_export_is_read_as_its_ranks(tmp_path: Path) -> None:
    """What an overlay is written on: the ranks as tools that merge ranks write them."""
    path = two_processes().write(tmp_path / "a.sqlite")
    text = tmp_path / "text.json"
    text.write_bytes(read_bytes(path).data)
    ranks = [(trace.rank, len(trace.events)) for trace in hg.read_traces(text)]
    assert ranks == [(trace.rank, len(trace.events)) for trace in hg.read_traces(path)] == [(0, 2), (1, 2)]


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_known_by_what_it_holds(tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    other = tmp_path / "trace.json.gz"
    shutil.copy(path, other)
    assert len(hg.read_trace(other).events) == len(hg.read_trace(path).events)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", ["3.25", "3.11", "2.7"])
@pytest.mark.parametrize("reverse", [False, True])
def test_schemas_and_orders_of_rows_say_the_same(tmp_path: Path, schema: str, reverse: bool) -> None:
    trace = hg.read_trace(program(schema).write(tmp_path / "a.sqlite", reverse=reverse))
    newest = hg.read_trace(program().write(tmp_path / "b.sqlite"))
    assert [trace.names[at] for at in trace.events.name] == [newest.names[at] for at in newest.events.name]
    assert trace.events.kind.tolist() == newest.events.kind.tolist()


def test_an_export_without_kernels_answers_and_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite", without=["CUPTI_ACTIVITY_KIND_KERNEL"])
    trace = hg.read_trace(path)
    assert trace.notes == ("the export has no kernels",)
    assert command_json(capsys, "info", path)["ranks"][0]["recorder"].startswith("Nsight Systems")


def test_rows_without_an_end_are_dropped_and_counted(tmp_path: Path) -> None:
    made = program()
    made.kernel("no end", 110 * US, None, 9)
    trace = trace_of(made, tmp_path)
    assert trace.diagnostics["rows_dropped_bad_time"] == 1


def test_views_and_virtual_tables_are_not_read(tmp_path: Path) -> None:
    """They would be programs of the file's."""
    path = program().write(tmp_path / "a.sqlite")
    database = sqlite3.connect(path)
    database.execute("ALTER TABLE NVTX_EVENTS RENAME TO hidden")
    loop = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end FROM n"
    database.execute(f"CREATE VIEW NVTX_EVENTS AS {loop}")
    database.commit()
    database.close()
    assert names(hg.read_trace(path), EventKind.CPU_OP) == []


def test_a_file_with_rows_in_a_log_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("INSERT INTO StringIds VALUES (99999, 'x')")
    database.commit()
    assert "has rows that are only in the file next to it (a.sqlite-wal)" in one_error(capsys, tmp_path, "info", path)
    database.close()
    assert len(hg.read_trace(path).events) > 0


def test_a_locked_file_is_read(tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    database = sqlite3.connect(path)
    database.execute("BEGIN EXCLUSIVE")
    assert len(hg.read_trace(path).events) > 0
    database.close()


def test_a_read_file_stays_as_it_was(tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    before = path.read_bytes()
    path.chmod(0o400)
    hg.build_graph(hg.read_trace(path))
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.sqlite"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_cut_file_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path, share: float) -> None:
    made = program()
    for at in range(3_000):
        made.range(f"range {at}", at * US, at * US + 10)
    content = made.write(tmp_path / "a.sqlite").read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(content[: int(share * len(content))])
    line = one_error(capsys, tmp_path, "info", path)
    assert "SQLite database" in line
    assert line.count("\n") == 1


def test_of_a_damaged_table_the_rows_before_are_recovered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = program()
    for at in range(3_000):
        made.range(f"range {at}", at * US, at * US + 10)
    path = made.write(tmp_path / "a.sqlite")
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    page = content.index(b"range 1500") // size
    content[page * size : (page + 1) * size] = b"\xff" * size
    path.write_bytes(bytes(content))
    line = one_error(capsys, tmp_path, "info", path)
    assert line.endswith("or recover its rows with --salvage\n")
    trace = hg.read_trace(path, salvage=True)
    assert trace.salvaged is not None
    assert "rows recovered" in trace.salvaged
    assert 1_000 < len(trace.events) < 2_000
    assert len(read_event_args(trace, ["External id"])["External id"]) == len(trace.events)


def test_a_packed_export_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite.gz"
    path.write_bytes(gzip.compress(program().write(tmp_path / "a.sqlite").read_bytes()))
    with pytest.raises(TraceError, match="is an SQLite database that is packed; unpack it"):
        hg.read_trace(path)


def test_an_export_in_a_stream_is_named(tmp_path: Path) -> None:
    content = program().write(tmp_path / "a.sqlite").read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=_write_to, args=(pipe, content))
    writer.start()
    with pytest.raises(TraceError, match="is an SQLite database, which needs a local file; copy it to one"):
        hg.read_trace(pipe)
    writer.join()


def test_a_trace_in_a_stream_is_read(tmp_path: Path) -> None:
    """Looking at how a file begins takes nothing from a stream."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}'
    writer = Thread(target=_write_to, args=(pipe, text))
    writer.start()
    assert len(hg.read_trace(pipe).events) == 1
    writer.join()


def _write_to(pipe: Path, content: bytes) -> None:
    with suppress(BrokenPipeError):
        pipe.write_bytes(content)


def test_texts_that_are_no_utf_8_are_read(tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    database = sqlite3.connect(path)
    database.execute("UPDATE StringIds SET value = CAST(x'ff41' AS TEXT) WHERE value = 'copy'")
    database.commit()
    database.close()
    assert "\ufffdA" in names(hg.read_trace(path), EventKind.KERNEL)


# -- tables of another version ----------------------------------------------------------------------------------------


def in_versions(path: Path, *statements: str) -> Path:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()
    return path


def everything(made: NsysBuilder) -> NsysBuilder:
    """Add what a program with NCCL, copies, events and an open range leaves."""
    made.copy("DtoH", 110 * US, 120 * US, 4)
    made.memset(121 * US, 122 * US, 5)
    made.cuda_event(6, 1, 2)
    made.nccl("ncclAllReduce", 8 * US, 9 * US, "plain", 7, 4096)
    made.range("open", 1 * US, None)
    return made


def test_a_table_with_a_version_in_its_name_is_that_table(tmp_path: Path) -> None:
    """Every table alike, whatever asks for it (GindaChen/nsys-ai PR 291)."""
    plain = hg.read_trace(everything(program()).write(tmp_path / "plain.sqlite"))
    path = everything(program()).write(tmp_path / "versions.sqlite")
    with closing(sqlite3.connect(path)) as database:
        listed = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    renames = [f'ALTER TABLE "{table}" RENAME TO "{table}_V{2 + at % 11}"' for at, (table,) in enumerate(listed)]
    versions = hg.read_trace(in_versions(path, *renames))
    assert same_columns(plain, versions)
    assert (plain.names, plain.notes, plain.settings) == (versions.names, versions.notes, versions.settings)
    keys = ["Input Dims", "External id", "bytes", "Collective name"]
    every = [read_event_args(trace, keys).arguments for trace in (plain, versions)]
    assert all((every[0][key] == every[1][key]).all() for key in keys)


@pytest.mark.parametrize(
    ("others", "kept"),
    [(("", "_V2", "_V3"), ""), (("_V3", "_V10", "_V2"), "_V10"), (("_V2",), "_V2")],
)
def test_of_several_versions_the_plain_one_counts_else_the_newest(
    others: tuple[str, ...], kept: str, tmp_path: Path
) -> None:
    path = program().write(tmp_path / "a.sqlite")
    columns = "SELECT start, end, eventType, domainId, globalTid"
    copies = [f"CREATE TABLE NVTX_EVENTS{of} AS {columns}, 'of{of}' AS text FROM hidden" for of in others]
    trace = hg.read_trace(in_versions(path, "ALTER TABLE NVTX_EVENTS RENAME TO hidden", *copies))
    assert names(trace, EventKind.ANNOTATION) == [f"of{kept}"]
    unread = [f"NVTX_EVENTS{suffix}" for suffix in others if suffix != kept]
    assert {note.split()[0] for note in trace.notes} == set(unread)
    assert all("is not read: the export has another version of this table" in note for note in trace.notes)


def test_an_empty_table_gives_way_to_a_version_with_rows(tmp_path: Path) -> None:
    path = program().write(tmp_path / "a.sqlite")
    of = "(start integer, end integer, eventType integer, globalTid integer, text text)"
    made = ("ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V2", f"CREATE TABLE NVTX_EVENTS {of}")
    trace = hg.read_trace(in_versions(path, *made))
    assert (names(trace, EventKind.CPU_OP), trace.notes) == (["aten::mm"], ())
