"""The files of a saved graph → a header and columns of the types that were saved.

Nothing in a file is believed before it is checked.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from hta_graph.base.arrays import Columns, column_types, freeze
from hta_graph.base.errors import HtaGraphError, MissingExtraError, TraceError
from hta_graph.base.storage.location import Location, is_remote, untrusted_location
from hta_graph.base.storage.remote_errors import RemoteError
from hta_graph.base.text.sanitize import one_line, replace_surrogates
from hta_graph.graph.dependency_graph import BUILD_DIAGNOSTICS
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, LONGEST_NS, Bools
from hta_graph.trace.gpu_clock import CLOCK_MODELS, PARTS_PER_MILLION, GpuClock
from hta_graph.trace.table import READING_DIAGNOSTICS, LaneTable

SAVE_AGAIN = "write it again with hg.save_graph or hta-graph graph --parquet"
OLDEST_ARROW = (14, 0, 1)
"""Earlier versions run code that a file contains (CVE-2023-47248)."""
LARGEST_TABLE = 2**30
"""Rows; a graph counts the two points of each in 31 bits."""
SMALL_BYTES = 256 << 20
LARGEST_EXPANSION = 200
"""Largest unpacking ratio of what unpacks to more than :data:`SMALL_BYTES`; saved graphs reach 30."""

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
            f"pyarrow {pyarrow.__version__} may run code that a Parquet file contains (CVE-2023-47248); install a "
            "newer version with: pip install 'hta-graph[parquet]'"
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
        raise TraceError(path, "its columns are shorter or longer than declared", SAVE_AGAIN)
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
        raise TraceError(path, "there is not enough memory to read it", SAVE_AGAIN) from None
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:
        cause = f"is not a Parquet file, or a damaged one: {error!s:.150}"
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
        raise TraceError(path, f"declares {metadata.num_rows:,} rows, more than a graph can hold", SAVE_AGAIN)
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


SCHEMA = "hta-graph/parquet/1"
HEADER_FILE = "graph.json"
LARGEST_RANK = 2**31
LARGEST_COUNT = 2**62


@dataclass(frozen=True)
class SavedHeader:
    """What ``graph.json`` says; ``ranks`` is None for a graph that is no job's.

    ``clock_fault_ns`` is how far back in time its edges can lead, ``custom_rules`` the labels of rules beyond the
    built-in ones: the n-th has code 127 - n.
    """

    file: Location
    path: Location
    rank: int | None
    world_size: int | None
    gpu_names: tuple[str, ...]
    salvaged: str | None
    settings: dict[str, str]
    names: tuple[str, ...]
    lanes: LaneTable
    reading: dict[str, int]
    building: dict[str, int]
    ranks: tuple[int, ...] | None
    clock_fault_ns: int
    custom_rules: tuple[str, ...] = ()
    gpu_clock: tuple[GpuClock, ...] = ()
    notes: tuple[str, ...] = ()


def read_saved_header(folder: Location) -> SavedHeader:
    """Read the header of a saved graph.

    Raises:
        TraceError: it cannot be read, is of another schema, or a value is not of the type that was saved.
    """
    found = _JsonObject(folder / HEADER_FILE, _read_object(folder))
    return SavedHeader(
        file=found.file,
        path=untrusted_location(replace_surrogates(found.get("path", A_PATH))),
        rank=found.get("rank", A_COUNT_OR_NULL),
        world_size=found.get("world_size", A_COUNT_OR_NULL),
        gpu_names=tuple(map(replace_surrogates, found.get("gpu_names", TEXTS))),
        salvaged=found.get("salvaged", A_TEXT_OR_NULL),
        settings=_settings(found.get("settings", TEXTS_BY_KEY, {})),
        names=_names(found),
        lanes=_lanes(_JsonObject(found.file, found.get("lanes", AN_OBJECT), "lanes: ")),
        reading=_all_counts(found.get("reading", COUNTS), READING_DIAGNOSTICS),
        building=_all_counts(found.get("building", COUNTS), BUILD_DIAGNOSTICS),
        ranks=_checked_ranks(found),
        clock_fault_ns=found.get("clock_fault_ns", A_FAULT, CLOCK_FAULT_LIMIT_NS),
        custom_rules=tuple(map(replace_surrogates, found.get("custom_rules", TEXTS, []))),
        gpu_clock=tuple(map(GpuClock.of_json, found.get("gpu_clock", CLOCKS, []))),
        notes=tuple(map(one_line, found.get("notes", TEXTS, []))),
    )


def saved_ranks(folder: Location) -> tuple[int, ...] | None:
    """Return the ranks of a saved job, none of a saved graph; None if the folder holds neither."""
    try:
        return _checked_ranks(_JsonObject(folder / HEADER_FILE, _read_object(folder))) or ()
    except TraceError:
        return None


def _read_object(folder: Location) -> dict[str, Any]:
    """Return the header of a saved graph as it stands there, of this schema."""
    path = folder / HEADER_FILE
    if not path.is_file():
        raise TraceError(folder, f"is not a saved graph: it has no {HEADER_FILE}", SAVE_AGAIN)
    try:
        found = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"is no JSON: {error!s:.100}", SAVE_AGAIN) from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise TraceError(path, f"holds {_describe_value(schema)}, not {SCHEMA!r}", SAVE_AGAIN)
    return dict(found)


class _JsonObject:
    """A JSON object of a file, whose values are checked when they are asked for."""

    def __init__(self, file: Location, found: dict[str, Any], where: str = "") -> None:
        self.file, self._found, self._where = file, found, where

    def get(self, key: str, wanted: _ExpectedValue, *otherwise: Any) -> Any:
        """Return the value of a key if it is what is wanted; of an absent one what stands for it, if anything does."""
        if key not in self._found and otherwise:
            return otherwise[0]
        if key not in self._found:
            self.refuse(key, "is missing")
        if not wanted.fits(self._found[key]):
            self.refuse(key, f"is {_describe_value(self._found[key])}, not {wanted.what}")
        return self._found[key]

    def refuse(self, key: str, says: str) -> NoReturn:
        """Raise the error of a key.

        Raises:
            TraceError: always.
        """
        raise TraceError(self.file, f"{self._where}{key!r} {says}", SAVE_AGAIN)


def _names(found: _JsonObject) -> tuple[str, ...]:
    listed = found.get("names", TEXTS)
    # Nearly always all are ASCII, and one look at them together is enough.
    names = tuple(listed if "".join(listed).isascii() else map(replace_surrogates, listed))
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        found.refuse("names", f"holds {_describe_value(twice)} twice")
    return names


def _lanes(found: _JsonObject) -> LaneTable:
    labels = tuple(map(replace_surrogates, found.get("labels", TEXTS)))
    numbers = {key: found.get(key, NUMBERS) for key in ("device", "context", "stream")}
    # Graphs saved before there were jobs do not say which lanes are of communication.
    flags = {
        "is_stream": found.get("is_stream", FLAGS),
        "is_communication": found.get("is_communication", FLAGS, [False] * len(labels)),
    }
    for key, values in (*numbers.items(), *flags.items()):
        if len(values) != len(labels):
            found.refuse(key, f"has {len(values):,} entries, but there are {len(labels):,} lanes")
    device, context, stream = (freeze(np.array(values, np.int64)) for values in numbers.values())
    is_stream, is_communication = (freeze(np.array(values, np.bool_)) for values in flags.values())
    return LaneTable(labels, is_stream, device, context, stream, is_communication)


def _checked_ranks(found: _JsonObject) -> tuple[int, ...] | None:
    """Return the ranks, whose folders are named by them: nothing but whole numbers, each once, lowest first."""
    ranks = found.get("ranks", RANKS, None)
    return None if ranks is None else tuple(ranks)


def _all_counts(found: dict[str, int], known: dict[str, str]) -> dict[str, int]:
    """Add the counts that an earlier version did not have."""
    return {**found, **{key: 0 for key in known if key not in found}}


def _settings(found: dict[str, str]) -> dict[str, str]:
    return {replace_surrogates(key): replace_surrogates(value) for key, value in found.items()}


def _describe_value(value: object) -> str:
    if isinstance(value, (str, int, float)) or value is None:
        return repr(value)[:60]
    return "another list" if isinstance(value, list) else "an object"


@dataclass(frozen=True)
class _ExpectedValue:
    """What a value must be, and the words for it."""

    fits: Callable[[Any], bool]
    what: str


# --- what values may be -----------------------------------------------------------------------------------------------


def _is_number(value: object, least: int = -(2**63), limit: int = 2**63) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < limit


def _is_rank_or_none(value: object) -> bool:
    return value is None or _is_number(value, 0, LARGEST_RANK)


def _is_rank_list(value: object) -> bool:
    numbers = isinstance(value, list) and value and all(_is_number(rank, 0, LARGEST_RANK) for rank in value)
    return bool(numbers) and isinstance(value, list) and value == sorted(set(value))


def _is_fault(value: object) -> bool:
    return _is_number(value, CLOCK_FAULT_LIMIT_NS, LONGEST_NS)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_file_name(value: object) -> bool:
    return isinstance(value, str) and "\x00" not in value


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {str}


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and set(map(type, value.values())) <= {str}


def _is_number_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_flag_list(value: object) -> bool:
    return isinstance(value, list) and set(map(type, value)) <= {bool}


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(_is_number(count, 0, LARGEST_COUNT) for count in value.values())


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_small_count(value: object) -> bool:
    return _is_number(value, 0, LARGEST_TABLE)


def _is_drift(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) < PARTS_PER_MILLION


def _is_clock_model(value: object) -> bool:
    return isinstance(value, str) and value in CLOCK_MODELS


def _is_piece_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_has_fields(piece, PIECE_FIELDS) for piece in value)


def _is_clock_list(value: object) -> bool:
    return isinstance(value, list) and all(_has_fields(clock, CLOCK_FIELDS) for clock in value)


def _has_fields(value: object, fields: Mapping[str, Callable[[Any], bool]]) -> bool:
    return isinstance(value, dict) and value.keys() == fields.keys() and all(fields[k](value[k]) for k in fields)


PIECE_FIELDS = {
    "from_ns": _is_number,
    **dict.fromkeys(("offset_ns", "low_ns", "high_ns"), _is_number_or_none),
    "drift_ppm": _is_drift,
    **dict.fromkeys(("launches", "returns"), _is_small_count),
}
CLOCK_FIELDS = {"device": _is_number, "how": _is_clock_model, "noise_ns": _is_number, "pieces": _is_piece_list}


A_PATH = _ExpectedValue(_is_file_name, "a path")
A_TEXT_OR_NULL = _ExpectedValue(lambda value: value is None or isinstance(value, str), "a text or null")
A_COUNT_OR_NULL = _ExpectedValue(_is_rank_or_none, "a whole number from 0 to 2^31 - 1, or null")
A_FAULT = _ExpectedValue(_is_fault, "a length of time up to a year (ns)")
AN_OBJECT = _ExpectedValue(_is_object, "an object")
TEXTS = _ExpectedValue(_is_text_list, "a list of texts")
TEXTS_BY_KEY = _ExpectedValue(_is_text_table, "an object of texts")
NUMBERS = _ExpectedValue(_is_number_list, "a list of whole numbers of 64 bits")
FLAGS = _ExpectedValue(_is_flag_list, "a list of true and false")
CLOCKS = _ExpectedValue(_is_clock_list, "a list of the clocks of GPUs")
COUNTS = _ExpectedValue(_is_counts, "an object of counts")
RANKS = _ExpectedValue(_is_rank_list, "a list of ranks, lowest first")
