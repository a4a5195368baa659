"""A database that a profiler exported, opened so that nothing inside it runs and no other file is written.

Only stored columns of ordinary tables are read: a view or a generated column of that name would be a program of the
file's. It is opened as immutable, so that neither locks nor other files are made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
LONGEST_TEXT = 1 << 26
MOST_ROWS = 10_000_000
"""How many rows are taken at once of what is short in every sound file."""
MOST_TABLES = 1_000
READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
REMEDY = Remedy(
    "export it again with nsys export --type sqlite, or recover its rows with salvage=True",
    "export it again with nsys export --type sqlite, or recover its rows with --salvage",
)
EXPORT_AGAIN = "export it again: nsys export --type sqlite"
CHECKPOINT = "end the program that writes it, then run: sqlite3 FILE 'PRAGMA wal_checkpoint'"


BESIDE = (("-wal", "has rows that are only in the file next to it"), ("-journal", "is being written"))


def _allow_reading(action: int, *_: str | None) -> int:
    """Allow what a query needs: no other file, no other statement."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


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
        with self._told_errors():
            self._connection = open_database(Path(path))
            try:
                self._open(salvage=salvage)
            except BaseException:
                self._connection.close()
                raise

    def _open(self, *, salvage: bool) -> None:
        self._connection.text_factory = _text
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
        self._connection.execute("PRAGMA trusted_schema = OFF")
        if salvage:  # a file shorter than its header says is opened only so; nothing can be written anyway
            self._connection.execute("PRAGMA writable_schema = ON")
        self._columns = self._stored_columns()
        self._connection.set_authorizer(_allow_reading)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @staticmethod
    def _check_files_beside(path: Path) -> None:
        """Refuse a database of which a part is in another file."""
        for ending, cause in (
            ("-wal", "has rows that are only in the file next to it"),
            ("-journal", "is being written"),
        ):
            beside = path.with_name(path.name + ending)
            if beside.is_file() and beside.stat().st_size:
                raise TraceError(path, f"{cause} ({beside.name})", CHECKPOINT)

    def _stored_columns(self) -> dict[str, frozenset[str]]:
        """Return the stored columns of each ordinary table."""
        listed = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT ?", (MOST_TABLES,)
        )
        found = {}
        for (table,) in listed.fetchall():
            columns = self._connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))
            found[table] = frozenset(name for (name,) in columns.fetchall())
        return found

    @contextmanager
    def _told_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:  # SQLite's words repeat bytes of the file
            raise TraceError(self.path, "is a damaged SQLite database: its schema is no text", EXPORT_AGAIN) from None
        except OSError as error:
            raise TraceError(self.path, f"cannot be read: {error.strerror or error}") from None
        except sqlite3.Error as error:
            raise TraceError(self.path, f"is a damaged SQLite database: {one_line(str(error))}", EXPORT_AGAIN) from None

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The stored columns of each ordinary table."""
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
            found = self._connection.execute(query, parameters)
            # One by one: a chunk in which the damage begins would be lost.
            fetch = (
                partial(_rows_before_damage, found, self._note) if self.salvages else partial(found.fetchmany, CHUNK)
            )
            while rows := fetch():
                yield rows
        except sqlite3.Error as error:
            self._note(error)
            if not self.salvages:
                raise TraceError(self.path, f"is a damaged SQLite database: {error}", REMEDY) from None

    def _note(self, error: sqlite3.Error) -> None:
        self.damage = self.damage or f"is a damaged SQLite database: {error}"

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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
