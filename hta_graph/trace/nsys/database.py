"""A database that a profiler exported, opened so that nothing inside it runs and no other file is written.

Only stored columns of ordinary tables are read: a view or a generated column of that name would be a program of the
file's. It is opened as immutable, so that neither locks nor other files are made. What is read is bounded by the
file's size: pages that are their own children hold any number of rows.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.base.errors import Remedy, TraceError
from hta_graph.base.storage.location import Location, is_remote
from hta_graph.base.storage.open_local import open_database
from hta_graph.base.text.sanitize import one_line
from hta_graph.model import Ints

CHUNK = 1 << 14
"""How many rows are fetched at once: what is in memory of a table is one chunk and the columns made of it."""
ASKED_AT_ONCE = 500
LONGEST_TEXT = 1 << 22
STEPS_AT_ONCE = 1 << 12
"""The number of SQLite's steps after which a signal is seen."""
LEAST_STEPS, STEPS_PER_BYTE = 1 << 20, 32
"""How many steps may be taken of a file: all that is read of a sound export takes at most one for each of its bytes."""
TEXT_PER_BYTE = 8
"""How often the texts of a file may be as long as the file: a sound one's are read a few times at most."""
MOST_ROWS = 10_000_000
"""How many rows are taken at once of what is short in every sound file."""
MOST_TABLES = 1_000
READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
REMEDY = Remedy(
    "export it again with nsys export --type sqlite, or recover its rows with salvage=True",
    "export it again with nsys export --type sqlite, or recover its rows with --salvage",
)
ORDINARY_TABLE = re.compile(r"CREATE TABLE [\"'`\[]?(\w+)")
VERSION = re.compile(r"_V(\d{1,4})$")
"""How names of tables end in some exports (``NVTX_EVENTS_V2``); the columns that are read are the same."""
EXPORT_AGAIN = "export it again: nsys export --type sqlite"
CHECKPOINT = "end the program that writes it, then run: sqlite3 FILE 'PRAGMA wal_checkpoint'"


BESIDE = (("-wal", "has rows that are only in the file next to it"), ("-journal", "is being written"))


def _allow_reading(action: int, _: str | None, __: str | None, ___: str | None, view: str | None) -> int:
    """Allow what a query needs: no other file, no other statement, nothing through a view."""
    return sqlite3.SQLITE_OK if action in READING and view is None else sqlite3.SQLITE_DENY


class _Bound:
    """What may be taken of a file by its size, in SQLite's steps and in bytes of text."""

    def __init__(self, size: int) -> None:
        self._steps = LEAST_STEPS + size * STEPS_PER_BYTE
        self._text = LEAST_STEPS + size * TEXT_PER_BYTE
        self.is_reached = False
        self.cause = f"its tables hold more than fits into its {size:,} bytes"

    def step(self) -> bool:
        """Return whether to stop; called after every :data:`STEPS_AT_ONCE` steps."""
        self._steps -= STEPS_AT_ONCE
        self.is_reached |= self._steps < 0
        return self.is_reached

    def text(self, raw: bytes) -> str:
        """Decode a text.

        Raises:
            sqlite3.DataError: there are longer texts than the file can hold.
        """
        self._text -= len(raw)
        if self._text < 0:
            self.is_reached = True
            raise sqlite3.DataError
        return raw.decode("utf-8", "replace")


class Database:
    """A database's tables and rows. Close it after use.

    Args:
        path: the file.
        salvage: of a damaged table, give the rows before the damage; ``damage`` says what it was.

    Raises:
        TraceError: it is no database, or cannot be opened.
    """

    def __init__(self, path: Location, *, salvage: bool = False) -> None:
        if is_remote(path):
            raise TraceError(path, "is an SQLite database, which needs a local file", "copy it here")
        self.path = path
        self.damage = ""
        self.salvages = salvage
        self._check_files_beside(Path(path))
        self._bound = _Bound(Path(path).stat().st_size)
        with self._told_errors():
            self._connection = open_database(Path(path))
            try:
                self._open(salvage=salvage)
            except BaseException:
                self._connection.close()
                raise

    def _open(self, *, salvage: bool) -> None:
        self._connection.set_progress_handler(self._bound.step, STEPS_AT_ONCE)
        self._connection.text_factory = self._bound.text
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        self._connection.execute("PRAGMA trusted_schema = OFF")
        if salvage:  # a file shorter than its header says is opened only so; nothing can be written anyway
            self._connection.execute("PRAGMA writable_schema = ON")
        stored = self._stored_columns()
        self._stored_as, self.unread = self._by_unversioned_name(stored)
        self._columns = {name: stored[table] for name, table in self._stored_as.items()}
        renamed = [name for name, table in self._stored_as.items() if name != table]
        self._renamed = re.compile(rf"\b({'|'.join(map(re.escape, renamed))})\b") if renamed else None
        self._connection.set_authorizer(_allow_reading)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @staticmethod
    def _check_files_beside(path: Path) -> None:
        """Refuse a database of which a part is in another file."""
        for ending, cause in BESIDE:
            beside = path.with_name(path.name + ending)
            if beside.is_file() and beside.stat().st_size:
                raise TraceError(path, f"{cause} ({beside.name})", CHECKPOINT)

    def _stored_columns(self) -> dict[str, frozenset[str]]:
        """Return the stored columns of each ordinary table."""
        listed = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT ?", (MOST_TABLES,)
        )
        found = {}
        for table, made_by in listed.fetchall():
            # What is listed under this name may make something else: a view, or a virtual table.
            if (match := ORDINARY_TABLE.match(str(made_by))) is None or match[1] != table:
                continue
            columns = self._connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))
            found[table] = frozenset(name for (name,) in columns.fetchall())
        return found

    def _by_unversioned_name(self, stored: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the table to read under each name without a version, and tables with rows that are not read.

        Of several the one without a version is the export's own answer, unless it is empty; else the newest.
        """
        versions: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for table in stored:
            version = VERSION.search(table)
            versions[VERSION.sub("", table)].append((int(version[1]) if version else math.inf, table))
        found, unread = {}, list[str]()
        for name, tables in versions.items():
            ordered = [table for _, table in sorted(tables, reverse=True)]
            filled = [table for table in ordered if len(ordered) == 1 or self._count_about(table)]
            found[name] = (filled or ordered)[0]
            unread += filled[1:]
        return found, tuple(unread)

    def _as_stored(self, query: str) -> str:
        """Return a query with the names that tables have in the file."""
        return self._renamed.sub(lambda name: self._stored_as[name[1]], query) if self._renamed else query

    @contextmanager
    def _told_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:  # SQLite's words repeat bytes of the file
            raise TraceError(self.path, "is a damaged SQLite database: its schema is no text", EXPORT_AGAIN) from None
        except OSError as error:
            raise TraceError(self.path, f"cannot be read: {error.strerror or error}") from None
        except sqlite3.Error as error:
            raise TraceError(self.path, self._words_of(error), EXPORT_AGAIN) from None

    def _words_of(self, error: sqlite3.Error) -> str:
        """Say what is wrong with the file.

        Raises:
            KeyboardInterrupt: it is the user who stopped SQLite.
        """
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT and not self._bound.is_reached:
            raise KeyboardInterrupt
        return f"is a damaged SQLite database: {self._bound.cause if self._bound.is_reached else one_line(str(error))}"

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The stored columns of each ordinary table, by its name without a version."""
        return self._columns

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a table with some columns."""
        return self._columns.get(table, frozenset()).issuperset(columns) and table in self._columns

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query: for what is short.

        Raises:
            TraceError: the file is damaged.
        """
        return [row for chunk in self.chunks(query, parameters) for row in chunk]

    def chunks(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in chunks.

        Raises:
            TraceError: the file is damaged.
        """
        try:
            found = self._connection.execute(self._as_stored(query), parameters)
            # One by one: a chunk in which the damage begins would be lost.
            fetch = (
                partial(_rows_before_damage, found, self._note) if self.salvages else partial(found.fetchmany, CHUNK)
            )
            while rows := fetch():
                yield rows
        except sqlite3.Error as error:
            self._note(error)
            if not self.salvages:
                raise TraceError(self.path, self.damage, REMEDY) from None

    def _note(self, error: sqlite3.Error) -> None:
        self.damage = self.damage or self._words_of(error)

    def integers(self, table: str, *names: str, where: str = "") -> list[tuple[int, ...]]:
        """Return columns of a short table as integers, -1 where they are absent; nothing where one is missing.

        Raises:
            TraceError: the file is damaged.
        """
        if not self.has(table, *names):
            return []
        listed = ", ".join(self.column(table, name, -1) for name in names)
        condition = where and f"WHERE {where}"
        return self.rows(f'SELECT {listed} FROM "{table}" {condition} LIMIT {MOST_ROWS}')  # noqa: S608

    def columns(self, table: str, *names: str, where: str = "") -> Ints:
        """Return columns of a long table as integers, one row for each, -1 where they are absent.

        Raises:
            TraceError: the file is damaged.
        """
        listed = ", ".join(self.column(table, name, -1) for name in names)
        condition = where and f"WHERE {where}"
        chunks = self.chunks(f'SELECT {listed} FROM "{table}" {condition}') if self.has(table) else ()  # noqa: S608
        parts = [np.array(chunk, np.int64).T for chunk in chunks]
        return np.concatenate([np.empty((len(names), 0), np.int64), *parts], axis=1)

    def distinct(self, table: str, *names: str) -> list[tuple[int, ...]]:
        """Return the different values of columns of a table of events as integers, -1 where they are absent.

        Raises:
            TraceError: the file is damaged.
        """
        if not self.has(table, "start"):
            return []
        listed = ", ".join(self.column(table, name, -1) for name in names)
        return self.rows(f'SELECT DISTINCT {listed} FROM "{table}" LIMIT {MOST_ROWS}')  # noqa: S608

    def about(self, table: str) -> int:
        """Return about how many rows a table has, found at once: the largest number of one, 0 where it has none."""
        return self._count_about(self._stored_as.get(table, table))

    def _count_about(self, table: str) -> int:
        with suppress(sqlite3.Error):
            ((last,),) = self._connection.execute(f'SELECT MAX(rowid) FROM "{table}"')  # noqa: S608
            return last if isinstance(last, int) else 0
        return 0

    def column(self, table: str, names: str, default: int) -> str:
        """Return the expression of a table's column as an integer."""
        return integer_column(self._columns.get(table, frozenset()), names, default)

    @cached_property
    def _known_texts(self) -> dict[int, str]:
        return {}

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of ids in the table of texts; of one that it has not, nothing."""
        known = self._known_texts
        missing = [at for at in set(ids) if at not in known and at >= 0]
        if missing and self.has("StringIds", "id", "value"):
            for at in range(0, len(missing), ASKED_AT_ONCE):
                asked = missing[at : at + ASKED_AT_ONCE]
                query = "SELECT id, CAST(value AS TEXT) FROM StringIds WHERE value IS NOT NULL AND id IN (?"
                known.update(self.rows(f"{query}{', ?' * (len(asked) - 1)})", asked))
        return known

    def pairs(self, table: str, key: str = "name", value: str = "value") -> list[tuple[str, str]]:
        """Return a table of names and values as texts; a name may occur several times."""
        if not self.has(table, key, value):
            return []
        found = self.rows(f'SELECT "{key}", "{value}" FROM "{table}" LIMIT {MOST_ROWS}')  # noqa: S608
        return [(str(name), "" if text is None else str(text)) for name, text in found]


def integer_column(known: Collection[str], names: str, default: int) -> str:
    """Return an expression that is an integer: the first of some columns (``a|b``) that is known and not null.

    >>> integer_column({"b"}, "a|b", -1), integer_column({"b"}, "a", 0)
    ('COALESCE(CAST("b" AS INTEGER), -1)', '0')
    """
    columns = [f'CAST("{name}" AS INTEGER)' for name in names.split("|") if name in known]
    return f"COALESCE({', '.join(columns)}, {default})" if columns else str(default)


def _rows_before_damage(found: sqlite3.Cursor, note: Callable[[sqlite3.Error], None]) -> list[tuple[Any, ...]]:
    """Return the next rows of a query, as far as they can be read."""
    rows: list[tuple[Any, ...]] = []
    try:
        while len(rows) < CHUNK and (row := found.fetchone()) is not None:
            rows.append(row)
    except sqlite3.Error as error:
        note(error)
    return rows
