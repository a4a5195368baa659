"""Parquet files → columns of the types that were saved; nothing in a file is believed before it is checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from hta_graph.arrays import Columns, column_types
from hta_graph.errors import HtaGraphError, MissingExtraError, TraceError
from hta_graph.model import Bools
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import is_remote
from hta_graph.storage.remote_errors import RemoteError

__all__ = ["SAVE_AGAIN", "SavedTable", "import_arrow", "read_saved_table"]

SAVE_AGAIN = "write it again with hg.save_graph or hta-graph graph --parquet"
OLDEST_ARROW = (14, 0, 1)
"""Earlier ones run code that a file brings (CVE-2023-47248)."""
LARGEST_TABLE = 2**30
"""Rows; a graph counts the two points of each in 31 bits."""
SMALL_BYTES = 256 << 20
LARGEST_EXPANSION = 200
"""What unpacks to more than :data:`SMALL_BYTES` is so many times its file at most; saved graphs reach 30."""

Rows = TypeVar("Rows", bound=Columns)


@dataclass(frozen=True)
class SavedTable(Generic[Rows]):
    """The columns of a file; what is wrong with one is said of its row, from 0."""

    path: Location
    rows: Rows

    def refuse_any(self, bad: Bools, column: str, says: str) -> None:
        """Raise the error of the first bad row, if there is one; ``{}`` in what it says is that row's value.

        Raises:
            TraceError: a row is bad.
        """
        if bad.any():
            row = int(np.argmax(bad))
            _refuse_cell(self.path, row, column, says.format(getattr(self.rows, column)[row].item()))

    def refuse_outside(self, column: str, least: int, limit: int, what: str) -> None:
        """Raise the error of the first row whose value is below the least or not below the limit, if there is one.

        Raises:
            TraceError: there is one.
        """
        values = getattr(self.rows, column)
        # Two passes without a mask: nearly always all values fit.
        if len(values) and not least <= values.min() <= values.max() < limit:
            self.refuse_any((values < least) | (values >= limit), column, f"{{}} is no {what}")


def import_arrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet part.

    Raises:
        MissingExtraError: it is not installed.
        HtaGraphError: it is so old that reading a file may run code.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Parquet", "parquet") from None
    if tuple(map(int, re.findall(r"\d+", pyarrow.__version__)[:3])) < OLDEST_ARROW:
        raise HtaGraphError(
            f"pyarrow {pyarrow.__version__} may run code that a Parquet file brings (CVE-2023-47248); install a newer "
            "one with: pip install 'hta-graph[parquet]'"
        )
    return pyarrow, parquet


def read_saved_table(path: Location, kind: type[Rows], nullable: Collection[str] = ()) -> SavedTable[Rows]:
    """Read the columns of a table that was saved; of nullable ones an absent value is -1.

    Raises:
        TraceError: the file is none, a column is missing, or has another type, or holes.
    """
    types = column_types(kind)
    with _as_trace_error(path):
        file = _open_parquet(path)
        for name in types:
            _check_type(path, file.schema_arrow, name, types[name], nullable)
        _check_size(path, file.metadata, sum(dtype.itemsize for dtype in types.values()))
        table = file.read(columns=list(types))
        found = {name: _values(path, table.column(name), name, types[name], nullable) for name in types}
    lengths = {len(values) for values in found.values()}
    if lengths != {file.metadata.num_rows}:
        raise TraceError(path, "its columns are not as long as it says", SAVE_AGAIN)
    return SavedTable(path, kind.of(**found))


@contextmanager
def _as_trace_error(path: Location) -> Iterator[None]:
    """Turn whatever Arrow or the system raise into one error; the kinds of their errors are many."""
    pyarrow, _ = import_arrow()
    try:
        yield
    except HtaGraphError:
        raise
    except RemoteError as error:
        raise TraceError(path, f"cannot be read: {error.strerror}") from None
    except MemoryError:
        raise TraceError(path, "there is not enough memory for what it holds", SAVE_AGAIN) from None
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:
        cause = f"is no Parquet file, or a damaged one: {error!s:.150}"
        raise TraceError(path, cause, SAVE_AGAIN) from None


def _open_parquet(path: Location) -> Any:
    # A pipe would keep the reader waiting, a folder would be read as a table of all its files.
    if not path.is_file():
        raise TraceError(path, "is no file" if path.exists() else "is missing", SAVE_AGAIN)
    return import_arrow()[1].ParquetFile(path.open("rb") if is_remote(path) else path)


def _check_type(path: Location, schema: Any, name: str, dtype: np.dtype[Any], nullable: Collection[str]) -> None:
    types = import_arrow()[0].types
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        raise TraceError(path, f"{'has two columns' if places else 'there is no column'} {name!r}", SAVE_AGAIN)
    kind = schema.field(places[0]).type
    fits = {
        "b": types.is_boolean(kind),
        "i": types.is_integer(kind) or (name in nullable and types.is_null(kind)),
        "f": types.is_float32(kind) or types.is_float64(kind),
    }
    if not fits[dtype.kind]:
        raise TraceError(path, f"column {name!r}: is of type {kind!s:.60}, not {dtype.name}", SAVE_AGAIN)


def _check_size(path: Location, metadata: Any, row_bytes: int) -> None:
    """Refuse a small file that would fill the memory: runs of one value take no room in it."""
    if metadata.num_rows >= LARGEST_TABLE:
        raise TraceError(path, f"says that it holds {metadata.num_rows:,} rows, more than a graph can", SAVE_AGAIN)
    packed = path.stat().st_size
    groups = (metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    unpacked = max(metadata.num_rows * row_bytes, sum(groups))
    if unpacked > max(SMALL_BYTES, LARGEST_EXPANSION * packed):
        cause = f"has {packed:,} bytes and would unpack to {unpacked:,}, which no saved graph does"
        raise TraceError(path, cause, SAVE_AGAIN)


def _values(path: Location, column: Any, name: str, dtype: np.dtype[Any], nullable: Collection[str]) -> Any:
    """Return a column as an array of the type that was saved; other whole numbers do if their values fit."""
    if column.null_count and name in nullable:
        column = column.cast("int64").fill_null(-1)
    if column.null_count:
        # A hole would become NaN or 0 and with that some other event.
        _refuse_cell(path, int(np.argmax(column.is_null().to_numpy())), name, "has no value")
    values = column.to_numpy()
    if dtype.kind == "i" and values.dtype != dtype and len(values):
        bounds = np.iinfo(dtype)
        outside = (values < bounds.min) | (values > bounds.max)
        if outside.any():
            row = int(np.argmax(outside))
            _refuse_cell(path, row, name, f"{values[row]} does not fit {dtype.name}")
    return values


def _refuse_cell(path: Location, row: int, column: str, says: str) -> NoReturn:
    raise TraceError(path, f"row {row:,}, column {column!r}: {says}", SAVE_AGAIN)
