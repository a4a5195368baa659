"""Exports that hold more than their file can, or that run something under the name of a table: one line, at once."""

from __future__ import annotations

import re
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.base.progress import listen_to_stages
from hta_graph.model import EventKind
from hta_graph.trace.nsys.columns import read_columns
from hta_graph.trace.nsys.database import Database
from tests.support.full_export import full_export

KERNELS, CALLS, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
HOLDS_MORE = r"is a damaged SQLite database: its tables hold more than fits into its [\d,]+ bytes"
PAGE, CHILDREN = 4_096, 680
INTERIOR, LEAF = 5, 13


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return full_export().write(tmp_path / "trace.sqlite")


def root_page(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        ((page,),) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        return int(page)


def interior_page(child: int) -> bytes:
    """Return a page all of whose children are one page."""
    cell = PAGE - 5
    header = struct.pack(">BHHHBI", INTERIOR, 0, CHILDREN, cell, 0, child)
    page = header + struct.pack(">H", cell) * CHILDREN
    return page + bytes(cell - len(page)) + struct.pack(">IB", child, 1)


def multiply_rows(path: Path, table: str, levels: int = 4) -> Path:
    """Let a table have its page of rows again and again: 681 times for each level, in one page more."""
    root, data = root_page(path, table), bytearray(path.read_bytes())
    own = data[(root - 1) * PAGE : root * PAGE]
    assert own[0] == LEAF
    data += own
    for _ in range(levels - 1):
        data += interior_page(len(data) // PAGE)
    data[(root - 1) * PAGE : root * PAGE] = interior_page(len(data) // PAGE)
    data[28:32] = struct.pack(">I", len(data) // PAGE)
    path.write_bytes(data)
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("table", [KERNELS, CALLS, RANGES, "StringIds"])
def test_pages_that_are_their_own_children_are_told_at_once(export: Path, table: str) -> None:
    """Each has more than 10^12 rows in 200 KB."""
    bomb = multiply_rows(export, table)
    before = time.process_time()
    with pytest.raises(TraceError, match=HOLDS_MORE):
        hg.read_trace(bomb)
    assert time.process_time() - before < 20


def test_salvage_takes_as_many_rows_as_the_file_can_hold(export: Path) -> None:
    (rank,) = read_columns(multiply_rows(export, RANGES), salvage=True)
    assert re.search(HOLDS_MORE, str(rank.salvaged))
    assert len(rank.collected.columns["start"]) < export.stat().st_size


UNBOUNDED = """
import sys
from pathlib import Path
import hta_graph.trace.nsys.database as database
database.LEAST_STEPS = 1 << 60
print("reads", flush=True)
try:
    database.Database(Path(sys.argv[1])).distinct("NVTX_EVENTS", "start")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_a_long_query_is_interrupted(export: Path) -> None:
    command = [sys.executable, "-c", UNBOUNDED, str(multiply_rows(export, RANGES))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reads\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=20)[0] == "stopped\n"
        finally:
            process.kill()


def test_texts_that_share_their_bytes_are_no_longer_than_the_file(export: Path) -> None:
    """One text of 3 MB in many rows would fill the memory: each row is read anew."""
    long = "x" * (3 << 20)
    with closing(sqlite3.connect(export)) as database, database:
        database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('long', ?)", (long,))
    again = " UNION ALL ".join(["SELECT name, value FROM META_DATA_CAPTURE"] * 40)
    with Database(export) as read, pytest.raises(TraceError, match=HOLDS_MORE):
        read.rows(again)


RENAMED = {
    "view": 'CREATE VIEW hidden AS SELECT start, "end" FROM OSRT_API',
    "virtual table": "CREATE VIRTUAL TABLE hidden USING fts5(start, text)",
}


@pytest.mark.parametrize("kind", RENAMED)
def test_what_a_schema_lists_as_a_table_and_makes_otherwise_is_not_read(tmp_path: Path, kind: str) -> None:
    path = full_export().write(tmp_path / "trace.sqlite", without=[RANGES])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(RENAMED[kind])
        database.execute("PRAGMA writable_schema = ON")
        made = RENAMED[kind].replace("hidden", RANGES)
        database.execute(
            "UPDATE sqlite_master SET sql = ?, name = 'other', tbl_name = 'other' WHERE name = 'hidden'", (made,)
        )
        root = "(SELECT rootpage FROM sqlite_master WHERE name = 'OSRT_API')"
        listed = f"VALUES ('table', '{RANGES}', '{RANGES}', {root}, 'CREATE TABLE another (start)')"
        database.execute(f"INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) {listed}")
    with Database(path, salvage=True) as read:
        assert not read.has(RANGES)


def test_nothing_is_read_through_a_view(export: Path) -> None:
    with closing(sqlite3.connect(export)) as database, database:
        database.execute("CREATE VIEW seen AS SELECT start FROM OSRT_API")
    with Database(export) as read, pytest.raises(TraceError, match="prohibited"):
        read.rows("SELECT start FROM seen")


class Heard:
    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def begin(self, stage: str, *, is_inner: bool) -> None:
        del stage, is_inner

    def advance(self, done: int, total: int) -> None:
        self.parts.append((done, total))

    def clear(self) -> None:
        pass


def test_reading_tells_how_much_is_done(export: Path) -> None:
    heard = Heard()
    with listen_to_stages(heard):
        trace = hg.read_trace(export)
    done = [part for part, _ in heard.parts]
    assert (trace.events.kind == EventKind.KERNEL).any()
    assert done == sorted(done)
    ((total),) = {total for _, total in heard.parts}
    assert total * 0.9 < done[-1] <= total
