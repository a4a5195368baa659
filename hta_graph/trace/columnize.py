"""Rows → columns, part by part: what of each row decides something, as arrays; the rows themselves are let go."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, compress
from operator import attrgetter
from types import NoneType
from typing import Any

import numpy as np
from msgspec.structs import astuple

from hta_graph.model import GPU_KINDS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.json_reader import FilePart
from hta_graph.trace.lanes import StreamKey, ThreadKey
from hta_graph.trace.printed_times import decimal_timestamps
from hta_graph.trace.profiler_names import CATEGORY
from hta_graph.trace.rows import Args, Row, number_or_text
from hta_graph.trace.table import FASTEST_GBPS
from hta_graph.trace.timestamps import INVALID, loses_nanoseconds, nanoseconds

__all__ = ["BAD_ID", "STREAM_KINDS", "Arrow", "Bracket", "Collected", "collect_columns", "integers", "start_times"]

NO_ARGS = Args()
DROPPED = -1
BAD_ID = INVALID
STREAM_KINDS = (*GPU_KINDS, EventKind.SYNC_RECORD, EventKind.GPU_ANNOTATION)
"""Kinds of rows that are on a stream and not on a thread."""

FileColumns = dict[str, Any]


@dataclass(frozen=True)
class Bracket:
    """A begin or end row of a foreign writer."""

    index: int
    is_begin: bool
    thread: ThreadKey
    time: int


@dataclass(frozen=True)
class Arrow:
    """The start or end of a forward-backward flow."""

    is_start: bool
    id: Any
    thread: ThreadKey
    time: int


class _Numbering(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number

    def codes(self, values: Iterable[Any]) -> Ids:
        """Number values.

        >>> _Numbering().codes("abca").tolist()
        [0, 1, 2, 0]
        """
        return np.fromiter(map(self.__getitem__, values), np.int32)


@dataclass
class Collected:
    """Columns of all rows that may be events, in file order; times in ns without the base time, ``INVALID`` where bad.

    ``name``, ``thread`` and ``stream`` are numbers into the numberings; of the last two one is -1.
    """

    columns: FileColumns
    names: _Numbering = field(default_factory=_Numbering)
    threads: _Numbering = field(default_factory=_Numbering)
    streams: _Numbering = field(default_factory=_Numbering)
    brackets: list[Bracket] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def collect_columns(parts_of_file: Iterable[FilePart]) -> Collected:
    """Collect the columns of a trace's rows; each part is let go before the next is read."""
    collected = Collected({})
    offset, parts = 0, []
    for part in parts_of_file:
        parts.append(_part_columns(part, offset, collected, exact=not part.tolerant))
        offset += len(part.rows)
        del part  # else two parts' rows would be in memory while the next one is decoded
    names = parts[0] if parts else {}
    collected.columns = {name: np.concatenate([columns[name] for columns in parts]) for name in names}
    return collected


def _part_columns(part: FilePart, offset: int, collected: Collected, *, exact: bool) -> FileColumns:
    times = start_times(part, exact=exact)
    phases, categories = _Numbering(), _Numbering()
    phase = phases.codes(map(attrgetter("ph"), part.rows))
    # A trace has a dozen categories: each is looked up once and not once per row.
    category = categories.codes(map(attrgetter("cat"), part.rows))
    kind = _kind_of_category(categories, category)
    _note_arrows(part.rows, np.flatnonzero(category == categories.get("fwdbwd", -1)), times, collected)
    begins = _note_brackets(part.rows, times, kind, offset, collected) if "B" in phases or "E" in phases else []
    memory = [at for at in np.flatnonzero(phase == phases.get("i", -2)).tolist() if part.rows[at].name == "[memory]"]
    kind[memory] = EventKind.MEMORY
    # Complete rows are events, begin rows once they have found their ends; of instants only what memory reports.
    wanted = (phase == phases.get("X", -2)) & (kind != DROPPED)
    wanted[memory + begins] = True
    rows = list(compress(part.rows, wanted.tolist()))
    index = np.flatnonzero(wanted).astype(np.int32)
    columns = _row_columns(rows, kind[index], collected)
    start = times[index]
    is_begin = phase[index] == phases.get("B", -2)
    end = _end_times(rows, start, kind[index], is_begin, collected.counts)
    return {"index": index + np.int32(offset), "start": start, "end": end, "is_begin": is_begin, **columns}


def start_times(part: FilePart, *, exact: bool) -> Ints:
    """Return the rows' times in ns without the base time, ``INVALID`` where there is none; all exact where asked."""
    printed: Sequence[object] = list(map(attrgetter("ts"), part.rows))
    # Their types are asked several times: one pass over all values answers each time.
    kinds = set(map(type, printed))
    if NoneType in kinds:
        present = [value is not None for value in printed]
        times = np.full(len(printed), INVALID)
        known = list(compress(printed, present))
        times[present] = _exact_if_needed(part, known, kinds - {NoneType}, np.array(present), exact=exact)
        return times
    return _exact_if_needed(part, printed, kinds, None, exact=exact)


def _exact_if_needed(
    part: FilePart, printed: Sequence[object], kinds: set[type], present: Bools | None, *, exact: bool
) -> Ints:
    # Decoding the timestamps a second time as text is paid only where the floats have lost digits.
    if not exact or not loses_nanoseconds(printed, kinds):
        return nanoseconds(printed, kinds)
    times = nanoseconds(decimal_timestamps(part.text))
    return times if present is None else times[present]


def _kind_of_category(categories: _Numbering, category: Ids) -> Codes:
    kinds = [CATEGORY.get(str(text).lower(), EventKind.OTHER) for text in categories]
    lookup = np.array([DROPPED if kind is None else kind for kind in kinds] or [DROPPED], np.int8)
    return lookup[category]


def _note_arrows(rows: list[Row], flows: Ints, times: Ints, collected: Collected) -> None:
    arrows = [at for at in flows.tolist() if rows[at].ph in ("s", "f")]
    collected.arrows += [
        Arrow(rows[at].ph == "s", rows[at].id, (rows[at].pid, rows[at].tid), int(times[at])) for at in arrows
    ]


def _note_brackets(rows: list[Row], times: Ints, kind: Codes, offset: int, collected: Collected) -> list[int]:
    """Note the begin and end rows; return where the begin rows are."""
    found = [at for at, row in enumerate(rows) if row.ph in ("B", "E") and kind[at] != DROPPED]
    collected.brackets += [
        Bracket(at + offset, rows[at].ph == "B", (rows[at].pid, rows[at].tid), int(times[at])) for at in found
    ]
    return [at for at in found if rows[at].ph == "B"]


def _end_times(rows: list[Row], start: Ints, kind: Codes, is_begin: Bools, counts: Counter[str]) -> Ints:
    printed = list(map(attrgetter("dur"), rows))
    kinds = set(map(type, printed))
    if NoneType in kinds:
        missing = np.array([value is None for value in printed])
        counts["rows_without_duration"] += int(np.count_nonzero(missing & (kind != EventKind.MEMORY) & ~is_begin))
        printed = [0 if value is None else value for value in printed]
        kinds = kinds - {NoneType} | {int}
    length = nanoseconds(printed, kinds)
    # INVALID is the least number of 64 bits: adding to it would make a time of it again.
    bad = (start == INVALID) | (length == INVALID)
    return np.where(bad, INVALID, start + np.where(bad, 0, length))


def _row_columns(rows: list[Row], kind: Codes, collected: Collected) -> FileColumns:
    args = _by_field([row.args or NO_ARGS for row in rows])
    on_stream = kind_mask(kind, STREAM_KINDS) | ((kind == EventKind.OTHER) & _is_present(args["stream"]))
    ids = ("correlation", "external_id", "old_external_id", "sequence", "wait_on_stream", "record_correlation")
    return {
        "kind": kind,
        "name": collected.names.codes(map(attrgetter("name"), rows)),
        **_lane_keys(rows, args, on_stream, collected),
        **{name: integers(args[name]) for name in ids},
        "forward_thread": integers(args["forward_thread"]).clip(-1, 2**31 - 1).astype(np.int32),
        "collective": _is_present(args["collective"]),
        **_moved_bytes(args, kind),
    }


def _by_field(args: list[Args]) -> FileColumns:
    """Turn arguments into one list per field, while each object is still in the processor's cache."""
    names = Args.__struct_fields__
    values = list(chain.from_iterable(map(astuple, args)))
    return {name: values[at :: len(names)] for at, name in enumerate(names)}


def _is_present(values: list[Any]) -> Bools:
    if values.count(None) == len(values):
        return np.zeros(len(values), np.bool_)
    return np.array([value is not None for value in values], np.bool_)


def _moved_bytes(args: FileColumns, kind: Codes) -> FileColumns:
    """Note what copies and sets moved: bytes, and the recorded GB/s."""
    rows = np.flatnonzero(kind_mask(kind, (EventKind.MEMCPY, EventKind.MEMSET)))
    size, rate = np.full(len(kind), -1), np.full(len(kind), np.nan)
    size[rows] = integers([number_or_text(args["bytes"][at]) for at in rows.tolist()]).clip(min=-1)
    rate[rows] = [_rate_of(number_or_text(args["bandwidth"][at])) for at in rows.tolist()]
    return {"bytes": size, "bandwidth": rate}


def _rate_of(value: Any) -> float:
    """Convert a rate; NaN where it is absent or none.

    >>> _rate_of("814.5"), _rate_of(None), _rate_of(float("inf")), _rate_of(1e308)
    (814.5, nan, nan, nan)
    """
    try:
        rate = float(math.nan if value is None else value)
    except (ValueError, OverflowError):
        return math.nan
    return rate if 0 <= rate <= FASTEST_GBPS else math.nan


def _lane_keys(rows: list[Row], args: FileColumns, on_stream: Bools, collected: Collected) -> FileColumns:
    """Number each row's (pid, tid), or its (device, context, stream) where it ran on one."""
    thread, stream = np.full(len(rows), -1, np.int32), np.full(len(rows), -1, np.int32)
    printed = list(map(attrgetter("pid", "tid"), rows))
    thread[~on_stream] = collected.threads.codes(compress(printed, (~on_stream).tolist()))
    own = zip(args["device"], args["context"], args["stream"], strict=True)
    on_gpu = compress(zip(printed, own, strict=True), on_stream.tolist())
    stream[on_stream] = collected.streams.codes(_stream_key(*place, *ids) for place, ids in on_gpu)
    return {"thread": thread, "stream": stream}


def _stream_key(pid: Any, tid: Any, device: Any, context: Any, stream: Any) -> StreamKey:
    return pid if device is None else device, context, tid if stream is None else stream


def integers(values: Iterable[Any]) -> Ints:
    """Convert ids to int64: -1 where absent or not a number, ``BAD_ID`` where they do not fit 64 bits.

    Unsigned 64-bit values wrap, as the profiler's own -1 does.

    >>> integers([3, None, "4", 2**64 - 1, "x"]).tolist()
    [3, -1, 4, -1, -1]
    """
    listed = list(values)
    # Most columns are all absent, or all integers: two passes in C spare a Python call per row.
    if listed.count(-1) == len(listed):
        return np.full(len(listed), -1, np.int64)
    if set(map(type, listed)) == {int}:
        try:
            return np.array(listed, np.int64)
        except OverflowError:
            pass
    return np.array([-1 if value is None else _integer_or_bad(value) for value in listed], np.int64)


def _integer_or_bad(value: Any) -> int:
    try:
        exact = Decimal(value)
        if not exact.is_finite() or (abs(exact) < 2**64 and exact != int(exact)):
            return -1
    except (ValueError, ArithmeticError):
        return -1
    if exact >= 2**64 or exact <= -(2**63):
        return BAD_ID
    # Profilers print -1 as the largest unsigned number.
    return int(exact) if exact < 2**63 else int(exact) - 2**64
