"""Exports of Nsight Systems that are partial, damaged, locked, foreign or hostile: an answer or one clear line."""

from __future__ import annotations

import gzip
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, NotATraceError, TooLargeError, TraceError
from hta_graph.model import EventKind
from hta_graph.trace.memory_limit import ColumnsLimit, limit_memory
from tests.support.command_line import folder_contents, one_error
from tests.support.full_export import full_export as program
from tests.support.made_nsys import ENUMS, NsysBuilder, columns_of

KERNELS, CALLS, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"


TABLES = [*sorted(table for table, rows in program().rows.items() if rows), "StringIds", *ENUMS]


def answer(path: Path) -> hg.CriticalPath:
    path_found = hg.critical_path(hg.build_graph(hg.read_trace(path)))
    segments = path_found.segments
    window = path_found.window
    assert int((segments.end_ns - segments.start_ns).sum()) == window.end_ns - window.start_ns
    return path_found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("table", TABLES)
def test_an_export_without_one_table_is_read(tmp_path: Path, table: str) -> None:
    answer(program().write(tmp_path / "part.sqlite", without=[table]))


def test_kernels_and_calls_without_names_keep_their_times_and_are_counted(tmp_path: Path) -> None:
    """If they were left out, the answer would be about what else is there, such as copies."""
    named = hg.read_trace(program().write(tmp_path / "all.sqlite"))
    path = program().write(tmp_path / "part.sqlite", without=["StringIds"])
    trace = hg.read_trace(path)
    (note,) = trace.notes
    counts = [int((named.events.kind == kind).sum()) for kind in (EventKind.KERNEL, EventKind.RUNTIME)]
    assert [int((trace.events.kind == kind).sum()) for kind in (EventKind.KERNEL, EventKind.RUNTIME)] == counts
    graphs = row_count(path, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    assert note.startswith(f"{counts[0] - graphs} kernels and {counts[1]} CUDA calls have no name in the export")
    assert {"unnamed kernel", "unnamed CUDA call"} <= set(trace.names)


def row_count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        (count,) = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608
        return int(count)


@pytest.mark.parametrize(
    ("table", "column", "effect"),
    [
        (KERNELS, "correlationId", "the call that launched a kernel is unknown"),
        (CALLS, "correlationId", "the kernels that a call launched are unknown"),
        (RANGES, "globalTid", "its rows belong to no process and are left out"),
        (CALLS, "globalTid", "its rows belong to no process and are left out"),
    ],
)
def test_a_missing_column_that_links_rows_is_named(tmp_path: Path, table: str, column: str, effect: str) -> None:
    made = program()
    made.pid = 146
    made.launch("other", (10, 20), (30, 40), 1)
    path = database_of(made.write(tmp_path / "part.sqlite"), f'ALTER TABLE {table} DROP COLUMN "{column}"')
    ranks = list(hg.read_traces(path))
    expected = f"{table} has no {column}: {effect}"
    assert len(ranks) == 2
    assert all(expected in rank.notes for rank in ranks)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", ["3.25", "3.11", "2.7"])
def test_older_schemas_are_read_from_the_tables_and_columns_that_are_there(tmp_path: Path, schema: str) -> None:
    assert answer(program(schema=schema).write(tmp_path / "old.sqlite")).graph.trace.rank == 1


OPTIONAL = [
    (table, name)
    for table in (KERNELS, CALLS, RANGES, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_MEMCPY")
    for name, _, _ in columns_of(table)
]


@pytest.mark.sampled(18)
@pytest.mark.parametrize(("table", "column"), OPTIONAL)
def test_a_table_without_one_column_is_read_or_refused_in_one_line(tmp_path: Path, table: str, column: str) -> None:
    path = program(3).write(tmp_path / "part.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
    reads_or_says_why(path)


def reads_or_says_why(path: Path) -> None:
    try:
        for graph in hg.read_graphs([path]):
            hg.critical_path(graph)
    except HtaGraphError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said


ODD_VALUES = (None, -1, 2**63 - 1, -(2**63), 2**62, 1.5, "x", "12", b"\xff\x00", 2**32, 10**18, "")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(200))
def test_odd_values_in_any_column_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = program(5).write(tmp_path / "odd.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        for _ in range(4):
            table = rng.choice([table for table in TABLES if not table.startswith("ENUM")])
            name, _, required = rng.choice(columns_of(table))
            value = rng.choice(ODD_VALUES[1 if required and name != "end" else 0 :])
            if name != "id":
                database.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid % ?', (value, rng.choice((2, 3, 7))))  # noqa: S608
    reads_or_says_why(path)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(200))
def test_damaged_bytes_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(program(5).write(tmp_path / "whole.sqlite").read_bytes())
    for _ in range(rng.randrange(1, 40)):
        data[rng.randrange(16, len(data))] = rng.randrange(256)
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(data[: rng.randrange(16, len(data))] if seed % 3 == 0 else data)
    reads_or_says_why(path)


def test_a_range_that_never_ended_lasts_until_the_end_of_the_recording(tmp_path: Path) -> None:
    made = program()
    made.range("train", 500, None)
    graph = hg.build_graph(hg.read_trace(made.write(tmp_path / "open.sqlite")))
    (row,) = graph.events[graph.events.name == "train"].itertuples()
    last = graph.events[graph.events.name != "train"]
    assert row.end_ns == last[last.kind.isin(["kernel", "memcpy", "runtime", "cpu_op", "annotation"])].end_ns.max()


def test_rows_without_an_end_or_a_start_are_dropped_and_counted(tmp_path: Path) -> None:
    made = program()
    made.kernel("never done", 2_100_000, None, 910)
    made.call("cudaLaunchKernel_v7000", 2_100_000, None, 910)
    trace = hg.read_trace(made.write(tmp_path / "open.sqlite"))
    assert "never done" not in trace.names
    assert trace.diagnostics["rows_dropped_bad_time"] == 2


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    sorted_rows = answer(program().write(tmp_path / "a.sqlite"))
    reversed_rows = answer(program().write(tmp_path / "b.sqlite", reverse=True))
    columns = [name for name in sorted_rows.segments if name != "event_index"]
    assert sorted_rows.segments[columns].equals(reversed_rows.segments[columns])


def test_an_index_of_another_tool_changes_nothing(tmp_path: Path) -> None:
    one = answer(program().write(tmp_path / "a.sqlite"))
    path = program().write(tmp_path / "b.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE INDEX _other_tool ON {KERNELS}(streamId, start)")
    assert one.segments.equals(answer(path).segments)


# -- foreign, empty, damaged ------------------------------------------------------------------------------------------


def database_of(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


def refusal(path: Path, kind: type[TraceError] = TraceError) -> str:
    with pytest.raises(kind) as caught:
        hg.read_trace(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_another_database_is_named(tmp_path: Path) -> None:
    foreign = database_of(tmp_path / "a.sqlite", "CREATE TABLE history (url TEXT)")
    assert "no export of Nsight Systems" in refusal(foreign, NotATraceError)
    nvprof = database_of(
        tmp_path / "p.nvvp", "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER)", "CREATE TABLE StringTable (a)"
    )
    assert "is a database of nvprof" in refusal(nvprof, NotATraceError)
    amd = database_of(tmp_path / "b.db", "CREATE TABLE rocpd_kernel_dispatch (id INTEGER)")
    assert "rocprofiler" in refusal(amd, NotATraceError)


def test_an_export_without_rows_is_named(tmp_path: Path) -> None:
    path = NsysBuilder().write(tmp_path / "none.sqlite", empty=[KERNELS, CALLS, RANGES])
    assert "without rows" in refusal(path, NotATraceError)


def test_an_export_without_cuda_says_what_it_has_and_how_to_record(tmp_path: Path) -> None:
    made = NsysBuilder()
    made.os_call("poll", 10, 20)
    without = [*(table for table in program().rows if table.startswith("CUPTI")), RANGES, KERNELS, CALLS]
    path = made.write(tmp_path / "host.sqlite", without=without)
    assert refusal(path, NotATraceError) == (
        "is an Nsight Systems export without rows of CUDA or NVTX, only with OS runtime calls; "
        "record with nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"
    )


def test_a_truncated_export_is_named(tmp_path: Path) -> None:
    data = program(200).write(tmp_path / "whole.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(data[: len(data) // 2])
    assert "damaged SQLite database" in refusal(tmp_path / "cut.sqlite")


def test_an_export_in_another_file_is_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite.gz"
    path.write_bytes(gzip.compress(program().write(tmp_path / "a.sqlite").read_bytes()))
    assert "unpack it" in refusal(path)


def test_the_command_says_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = database_of(tmp_path / "a.sqlite", "CREATE TABLE history (url TEXT)")
    assert "no export of Nsight Systems" in one_error(capsys, tmp_path, "critical-path", path)


# -- files that are open elsewhere ------------------------------------------------------------------------------------


def test_rows_that_stand_only_in_a_write_ahead_log_are_not_left_out_in_silence(tmp_path: Path) -> None:
    path = program().write(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        writer.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 9")
        writer.commit()
        assert "trace.sqlite-wal" in refusal(path)


def test_a_file_that_is_being_written_is_refused(tmp_path: Path) -> None:
    path = program().write(tmp_path / "trace.sqlite")
    shutil.copy(path, tmp_path / "trace.sqlite-journal")
    assert "trace.sqlite-journal" in refusal(path)


def test_a_locked_file_is_read_and_nothing_beside_it_is_made(tmp_path: Path) -> None:
    path = program().write(tmp_path / "trace.sqlite")
    before = folder_contents(tmp_path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA locking_mode = exclusive")
        other.execute("BEGIN EXCLUSIVE")
        answer(path)
        other.rollback()
    assert folder_contents(tmp_path) == before
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        answer(path)
    finally:
        tmp_path.chmod(0o755)


# -- files that would run something -----------------------------------------------------------------------------------

HOSTILE = {
    "view": (
        "ALTER TABLE NVTX_EVENTS RENAME TO hidden",
        (
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i AS start FROM n"
        ),
    ),
    "trigger": ("CREATE TRIGGER runs AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",),
    "generated column": (
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN graphId",
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL"
            " ADD COLUMN graphId GENERATED ALWAYS AS (length(zeroblob(1000000000))) VIRTUAL"
        ),
    ),
    "virtual table": ("CREATE VIRTUAL TABLE found USING fts5(text)",),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_in_the_file_is_executed(tmp_path: Path, kind: str) -> None:
    path = database_of(program().write(tmp_path / "trace.sqlite"), *HOSTILE[kind])
    before = path.read_bytes()
    trace = hg.read_trace(path)
    assert int((trace.events.kind == EventKind.KERNEL).sum()) >= 12
    assert path.read_bytes() == before


def test_texts_with_control_characters_and_broken_encodings_are_printable(tmp_path: Path) -> None:
    made = program()
    made.range("bad \x1b[2J\x00 name", 3_000_000, 3_001_000)
    path = made.write(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE StringIds SET value = CAST(x'66ff6f' AS TEXT) WHERE value LIKE '%gemm%'")
    assert any(name.startswith("f\ufffdo") for name in answer(path).graph.trace.names)


# -- huge files -------------------------------------------------------------------------------------------------------

REPEATED = (KERNELS, CALLS, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", RANGES)


def repeated(path: Path, doublings: int) -> Path:
    """Write a program again and again, each time later and with other correlations."""
    program(64).write(path)
    span, numbers = 10_000_000, 1_000
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = off")
        for _ in range(doublings):
            for table in REPEATED:
                database.execute(f"INSERT INTO {table} SELECT {_later(table, span, numbers)} FROM {table}")  # noqa: S608
            database.commit()
            span, numbers = 2 * span, 2 * numbers
    return path


def _later(table: str, span: int, numbers: int) -> str:
    moved = {"start": span, "end": span, "correlationId": numbers}
    return ", ".join(f'"{name}" + {moved[name]}' if name in moved else f'"{name}"' for name, _, _ in columns_of(table))


@pytest.mark.slow
def test_an_export_with_more_events_than_memory_is_refused(tmp_path: Path) -> None:
    path = repeated(tmp_path / "trace.sqlite", 10)
    with limit_memory(70 << 20), pytest.raises(TooLargeError, match="holds too many events"):
        hg.read_trace(path)


def test_memory_is_counted_and_not_measured(tmp_path: Path) -> None:
    """Whatever the process holds or has given back, the same export is read or refused: by the bytes of its columns."""
    with limit_memory(200 << 20):
        limit = ColumnsLimit(tmp_path / "a.sqlite", has_other_ranks=True)
        limit.check(13 << 20)
        with pytest.raises(TooLargeError, match=r"too many events \(more than 14 MiB of columns\).*read one rank with"):
            limit.check(14 << 20)


PEAK = """
import resource, sys
import hta_graph as hg
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
events = len(hg.read_trace(sys.argv[1]).events)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 // events, events)
"""


@pytest.mark.slow
def test_reading_takes_memory_for_columns_and_not_for_rows(tmp_path: Path) -> None:
    """A row of Python objects would take more than a thousand bytes."""
    path = repeated(tmp_path / "trace.sqlite", 13)
    ended = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    per_event, events = map(int, ended.stdout.split())
    assert events > 2_000_000
    assert per_event < 200
