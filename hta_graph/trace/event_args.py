"""Arguments of events that do not decide the graph, read from the file again when someone asks for them.

Also the hardware counters of CUPTI's profiler ranges, which are such arguments. A command that soon asks for the inputs
of operators keeps their texts while it reads the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import compress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hta_graph.base.arrays import distinct, freeze
from hta_graph.base.errors import TraceError
from hta_graph.base.progress import begin_stage, inner_stage
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.decompress import open_text, read_bytes
from hta_graph.trace.json_reader import Header, RowReader, RowShape, has_plain_header, header_of_object, is_array
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.profiler_names import COUNTER_SAMPLES, PROFILER_RANGE
from hta_graph.trace.readers import reader_of
from hta_graph.trace.table import Trace
from hta_graph.trace.timestamps import base_time

if TYPE_CHECKING:
    from hta_graph.base.storage.location import Location
    from hta_graph.trace.json_reader import FilePart

FEW = 4
"""Fewer rows than one in this many are few."""

Objects = np.ndarray[Any, np.dtype[np.object_]]


@dataclass(frozen=True)
class EventArgs:
    """Arguments by key, one entry per event asked for, ``None`` where absent; and what the header says, if it was read.

    ``distributed`` is its ``distributedInfo``, ``base_ns`` the time from which the file's own timestamps count;
    ``fields`` are the rows' own ones.
    """

    arguments: dict[str, Objects]
    distributed: dict[str, Any]
    base_ns: int = 0
    fields: dict[str, Objects] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Objects:
        return self.arguments[key]


def read_event_args(
    trace: Trace,
    keys: Sequence[str],
    events: Ids | Ints | Bools | None = None,
    *,
    fields: Sequence[str] = (),
    has_header: bool = True,
) -> EventArgs:
    """Read arguments of events from the trace's file once more.

    Args:
        trace: the trace; its file must still be there, unchanged.
        keys: names of arguments as in the file, such as ``"Input Dims"``.
        events: canonical rows (or a mask of them); all if not given.
        fields: names of the rows' own fields, such as ``"cat"``.
        has_header: whether the header is read too, for which nothing may be left unread.

    Returns:
        values as JSON has them: numbers, text, lists, objects.

    Raises:
        TraceError: the file is gone or has changed.
    """
    chosen, header = reread_rows(trace, _shape_of(keys, fields), events, has_header=has_header)
    found = [row.args or _NONE for row in chosen]
    columns = {key: _object_column([getattr(args, f"a{at}") for args in found]) for at, key in enumerate(keys)}
    own = {key: _object_column([getattr(row, f"f{at}") for row in chosen]) for at, key in enumerate(fields)}
    distributed = header.distributed if isinstance(header.distributed, dict) else {}
    return EventArgs(columns, distributed, base_time(header.base) or 0, own)


def read_arg_texts(trace: Trace, keys: Sequence[str], events: Ids | Ints) -> list[tuple[bytes, ...]]:
    """Read arguments of events as the JSON texts that stand in the file: equal ones are one before they are decoded.

    Args:
        trace: the trace; its file must still be there, unchanged.
        keys: names of arguments as in the file.
        events: canonical rows.

    Returns:
        for each event the texts in the order of ``keys``; an empty text where there is none.

    Raises:
        TraceError: the file is gone or has changed.
    """
    chosen, _ = reread_rows(trace, _shape_of(keys, (), msgspec.Raw), events)
    nothing = (b"",) * len(keys)
    return [tuple(map(bytes, msgspec.structs.astuple(row.args))) if row.args else nothing for row in chosen]


def _kept_rows(trace: Trace, wanted: Ids, decode: Callable[[Any], Any]) -> dict[int, Any]:
    """Return the rows at some places (ascending) of a file if all of them stand in the texts that were kept."""
    kept = [(first, *np.searchsorted(wanted, (first, past)), text) for first, past, text in inputs_of(trace.path)]
    if sum(end - begin for _, begin, end, _ in kept) < len(wanted):
        return {}
    found: dict[int, Any] = {}
    for first, begin, end, text in kept:
        here, rows = wanted[begin:end].tolist(), msgspec.json.decode(text, type=list[msgspec.Raw])
        found.update(zip(here, map(decode, [rows[at - first] for at in here]), strict=True))
    return found


def reread_rows(
    trace: Trace, shape: RowShape[Any], events: Ids | Ints | Bools | None = None, *, has_header: bool = False
) -> tuple[list[Any], Header]:
    """Read the rows of events (canonical rows or a mask; all if not given) from the trace's file once more.

    The header is read only if it is wanted.

    Raises:
        TraceError: the file is gone or has changed.
    """
    index = trace.events.index if events is None else trace.events.index[events]
    with inner_stage(f"reading details of {trace.path.name}"):
        found, header = _reread(trace, shape, distinct(index), has_header=has_header)
    # Rows are named by their place in the file; a shorter file is another one.
    if found.keys() < set(index.tolist()):
        raise TraceError(trace.path, "has changed since it was read", "read it again")
    return [found[at] for at in index.tolist()], header


def _reread(trace: Trace, shape: RowShape[Any], wanted: Ids, *, has_header: bool) -> tuple[dict[int, Any], Header]:
    if other := reader_of(trace.path):
        rows, own = other.rows(trace.path, wanted, shape.from_object, salvage=trace.salvaged is not None)
        return rows, header_of_object(own)
    if len(wanted) < len(trace.events) // FEW:
        # Only these are decoded: the others are passed, which takes a third of the time.
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decode = msgspec.json.Decoder(shape.type).decode
            if not has_header and (found := _kept_rows(trace, wanted, decode)):
                return found, Header()
            return _take_rows(trace, RowShape(msgspec.Raw, shape.from_object), wanted, decode, has_header=has_header)
    return _take_rows(trace, shape, wanted, None, has_header=has_header)


def _take_rows(
    trace: Trace, shape: RowShape[Any], wanted: Ids, decode: Callable[[Any], Any] | None, *, has_header: bool
) -> tuple[dict[int, Any], Header]:
    """Return the rows at some places (ascending) of the file; each part's others are let go before the next one.

    What comes behind the last of them is read only for the header.
    """
    found: dict[int, Any] = {}
    first, past = 0, int(wanted.max(initial=-1)) + 1
    with paused_gc(), open_text(trace.path, has_plain_header) as content:
        reader = RowReader(trace.path, content, shape, salvage=trace.salvaged is not None)
        for part in reader:
            here = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, first + len(part.rows))].tolist()
            rows = [part.rows[at - first] for at in here]
            # What the tolerant parser reads is decoded already.
            found.update(zip(here, rows if decode is None or part.tolerant else map(decode, rows), strict=True))
            first += len(part.rows)
            del part, rows
            if first >= past and not has_header:
                return found, Header()
        return found, reader.facts.header


def row_offsets(trace: Trace) -> Ints:
    """Return where each row of ``traceEvents`` begins in the file's text (bytes, uncompressed).

    Empty where the text is not strict JSON, or where the file is no JSON at all.

    Raises:
        TraceError: the file is gone or cannot be read.
    """
    nothing: Ints = np.empty(0, np.int64)
    if reader_of(trace.path):
        return nothing
    text = read_bytes(trace.path).data
    shape = RowShape(msgspec.Raw, lambda _: msgspec.Raw())
    begin_stage("locating events")
    try:
        with paused_gc():
            decoded = msgspec.json.decode(text, type=shape.listed if is_array(text) else shape.document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return nothing
    rows = decoded if is_array(text) else decoded.rows
    # A row that is decoded later is a view of the text.
    found: Ints = np.fromiter(map(_address_of, rows), np.int64, len(rows)) - _address_of(text)
    return freeze(found)


def _address_of(text: Any) -> int:
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


class _NoArguments:
    """Stands for the arguments of a row that has none."""

    def __getattr__(self, name: str) -> None:
        return None


_NONE = _NoArguments()


def _shape_of(keys: Sequence[str], fields: Sequence[str], kind: Any = Any) -> RowShape[Any]:
    """Make the decoder's types for rows of which only some arguments, of some kind, and fields are wanted."""
    names = {f"a{at}": key for at, key in enumerate(keys)}
    own = {f"f{at}": key for at, key in enumerate(fields)}
    nothing = None if kind is Any else kind()
    arguments = msgspec.defstruct("Arguments", [(name, kind, nothing) for name in names], rename=names, gc=False)
    columns = [("args", arguments | None, None), *((name, Any, None) for name in own)]
    row = msgspec.defstruct("DetailRow", columns, rename=own, gc=False)

    def from_object(found: dict[str, Any]) -> Any:
        args = found.get("args")
        values = {name: _as_json(found.get(key)) for name, key in own.items()}
        if not isinstance(args, dict):
            return row(**values)
        given = {name: _as_json(args[key]) for name, key in names.items() if key in args}
        if kind is not Any:
            given = {name: kind(msgspec.json.encode(value)) for name, value in given.items()}
        return row(arguments(**given), **values)

    return RowShape(row, from_object)


def _as_json(value: Any) -> Any:
    """Undo what the tolerant parser does to keep times exact."""
    return float(value) if isinstance(value, Decimal) else value


def _object_column(values: list[Any]) -> Objects:
    column = np.empty(len(values), object)
    column[:] = values
    return freeze(column)


Values = np.ndarray[Any, Any]
MOST_COUNTED = 10**15
"""What one range may count: a day of cycles of all units."""


@dataclass(frozen=True)
class ProfilerRanges:
    """Ranges in order of time: canonical rows, and the value of each counter by its name (NaN where it is absent)."""

    row: Ids
    counters: dict[str, Values]

    def __len__(self) -> int:
        return len(self.row)


class _RangeRow(msgspec.Struct, gc=False):
    cat: Any = None
    args: msgspec.Raw | Any = None


def _range_of_object(found: dict[str, Any]) -> _RangeRow:
    return _RangeRow(found.get("cat"), found.get("args"))


_RANGE_ROWS = RowShape(_RangeRow, _range_of_object)


def read_profiler_ranges(trace: Trace) -> ProfilerRanges:
    """Read the ranges from the trace's file once more; a trace without rows of unknown categories is not read.

    Raises:
        TraceError: the file is gone or has changed.
    """
    rows = np.flatnonzero(trace.events.kind == EventKind.OTHER).astype(np.int32)
    if not len(rows):
        return ProfilerRanges(rows, {})
    found, _ = reread_rows(trace, _RANGE_ROWS, rows)
    # "Other" holds every category that the graph does not know; the ranges are one of them.
    is_range = [str(row.cat).lower() == PROFILER_RANGE for row in found]
    kept = np.array(is_range, np.bool_)
    return ProfilerRanges(rows[kept], _counter_columns([_decoded_args(row.args) for row in compress(found, is_range)]))


class _CounterRow(msgspec.Struct, gc=False):
    ph: Any = None
    cat: Any = None
    name: Any = None


_COUNTER_ROWS = RowShape(_CounterRow, lambda row: _CounterRow(*(row.get(key) for key in ("ph", "cat", "name"))))


def count_counter_samples(trace: Trace) -> dict[str, int]:
    """Return how many samples of each hardware counter the trace's file holds: rows that count, not events.

    Raises:
        TraceError: the file is gone or cannot be read.
    """
    if reader_of(trace.path):
        return {}
    found: Counter[str] = Counter()
    with paused_gc(), open_text(trace.path, has_plain_header) as content:
        for part in RowReader(trace.path, content, _COUNTER_ROWS, salvage=trace.salvaged is not None):
            # Nearly all parts hold none, which their text shows at once.
            rows = part.rows if COUNTER_SAMPLES.encode() in part.text or part.tolerant else []
            found.update(str(row.name) for row in rows if row.ph == "C" and row.cat == COUNTER_SAMPLES)
    return dict(found)


def _decoded_args(args: Any) -> dict[str, Any]:
    decoded = msgspec.json.decode(args) if isinstance(args, msgspec.Raw) else args
    return decoded if isinstance(decoded, dict) else {}


def _counter_columns(ranges: list[dict[str, Any]]) -> dict[str, Values]:
    """Return a column per counter: every argument that is a number in some range."""
    names = dict.fromkeys(name for values in ranges for name, value in values.items() if _is_number(value))
    return {name: _number_column([values.get(name) for values in ranges]) for name in names}


def _number_column(values: list[Any]) -> Values:
    if all(type(value) is int and _is_number(value) for value in values):
        return np.array(values, np.int64)
    return np.array([float(value) if _is_number(value) else np.nan for value in values], np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED


INPUTS_KEY = b'"Input Dims"'
SAMPLE, SAMPLED_EVERY = 1 << 14, 1 << 18
"""Inputs are looked for in the first number of bytes of each second number: operators stand together in a file."""
MOST_KEPT = 64 << 20
"""Bytes of text; more is read from the file again."""

_KEPT: ContextVar[dict[Location, list[tuple[int, int, bytes]]] | None] = ContextVar("kept_inputs", default=None)
"""Of a file the parts of its text that hold inputs, each with the place of its first row and that past its last;
``None``: none are kept."""


def keep_inputs() -> None:
    """Keep the inputs of the file that is read next, until they are forgotten."""
    _KEPT.set({})


def forget_inputs() -> None:
    """Let go of what was kept: no one will ask for it."""
    _KEPT.set(None)


def inputs_of(path: Location) -> list[tuple[int, int, bytes]]:
    """Return what is kept of a file."""
    return (_KEPT.get() or {}).get(path, [])


def keeping_inputs(path: Location, parts: Iterable[FilePart]) -> Iterator[FilePart]:
    """Pass on the parts of a file, and keep the texts of those with inputs where that is wanted."""
    every, kept, first = _KEPT.get(), list[tuple[int, int, bytes]](), 0
    if every is not None:
        every.clear()
        every[path] = kept
    for part in parts:
        if every and part.text.startswith(b"[") and _may_hold_inputs(part.text):
            kept.append((first, first + len(part.rows), part.text))
            if sum(len(text) for _, _, text in kept) > MOST_KEPT:
                every.clear()
        first += len(part.rows)
        yield part
        del part


def _may_hold_inputs(text: bytes) -> bool:
    """Return whether inputs stand in samples of a text: where others are needed, too, the file is read again."""
    return any(INPUTS_KEY in text[at : at + SAMPLE] for at in range(0, len(text), SAMPLED_EVERY))
