"""Rows → columns, part by part: what of each row decides something, as arrays; the rows themselves are let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import compress
from operator import attrgetter
from types import NoneType
from typing import Any

import numpy as np

from hta_graph.model import GPU_KINDS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.clock import INVALID, loses_nanoseconds, nanoseconds
from hta_graph.trace.decode import Decoded, exact_times
from hta_graph.trace.lanes import StreamKey, ThreadKey
from hta_graph.trace.parts import Part
from hta_graph.trace.rows import Args, Row
from hta_graph.trace.vocabulary import CATEGORY

__all__ = ["BAD_ID", "Arrow", "Bracket", "Collected", "collect", "integers"]

NO_ARGS = Args()
DROPPED = -1
BAD_ID = INVALID
STREAM_KINDS = (*GPU_KINDS, EventKind.SYNC_RECORD, EventKind.GPU_ANNOTATION)

Columns = dict[str, Any]


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
        return np.array(list(map(self.__getitem__, values)), np.int32)


@dataclass
class Collected:
    """Columns of all rows that may be events, in file order; times in ns without the base time, ``INVALID`` where bad.

    ``name``, ``thread`` and ``stream`` are numbers into the numberings; of the last two one is -1.
    """

    columns: Columns
    names: _Numbering = field(default_factory=_Numbering)
    threads: _Numbering = field(default_factory=_Numbering)
    streams: _Numbering = field(default_factory=_Numbering)
    brackets: list[Bracket] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def collect(decoded: Decoded) -> Collected:
    """Collect the columns of a decoded trace.

    Raises:
        msgspec.DecodeError: a part is not strict JSON.
    """
    collected = Collected({})
    offset, parts = 0, []
    for part in decoded.parts:
        parts.append(_part_columns(part, offset, collected, exact=not decoded.tolerant))
        offset += len(part.rows)
        del part
    names = parts[0] if parts else {}
    collected.columns = {name: np.concatenate([columns[name] for columns in parts]) for name in names}
    return collected


def _part_columns(part: Part, offset: int, collected: Collected, *, exact: bool) -> Columns:
    times = _start_times(part, exact=exact)
    kind = _kinds(part.rows)
    phases = _Numbering()
    phase = phases.codes(map(attrgetter("ph"), part.rows))
    _note_arrows(part.rows, times, collected)
    begins = _note_brackets(part.rows, times, kind, offset, collected) if "B" in phases or "E" in phases else []
    memory = [at for at in np.flatnonzero(phase == phases.get("i", -2)).tolist() if part.rows[at].name == "[memory]"]
    kind[memory] = EventKind.MEMORY
    wanted = (phase == phases.get("X", -2)) & (kind != DROPPED)
    wanted[memory + begins] = True
    rows = list(compress(part.rows, wanted.tolist()))
    index = np.flatnonzero(wanted).astype(np.int32)
    columns = _row_columns(rows, kind[index], collected)
    start = times[index]
    is_begin = phase[index] == phases.get("B", -2)
    end = _end_times(rows, start, kind[index], is_begin, collected.counts)
    return {"index": index + np.int32(offset), "start": start, "end": end, "is_begin": is_begin, **columns}


def _start_times(part: Part, *, exact: bool) -> Ints:
    printed: Sequence[object] = list(map(attrgetter("ts"), part.rows))
    if NoneType in set(map(type, printed)):
        present = [value is not None for value in printed]
        times = np.full(len(printed), INVALID)
        times[present] = _exact_if_needed(part, list(compress(printed, present)), np.array(present), exact=exact)
        return times
    return _exact_if_needed(part, printed, None, exact=exact)


def _exact_if_needed(part: Part, printed: Sequence[object], present: Bools | None, *, exact: bool) -> Ints:
    if not exact or not loses_nanoseconds(printed):
        return nanoseconds(printed)
    times = nanoseconds(exact_times(part))
    return times if present is None else times[present]


def _kinds(rows: list[Row]) -> Codes:
    numbering = _Numbering()
    category = numbering.codes(map(attrgetter("cat"), rows))
    kinds = [CATEGORY.get(str(text).lower(), EventKind.OTHER) for text in numbering]
    lookup = np.array([DROPPED if kind is None else kind for kind in kinds] or [DROPPED], np.int8)
    return lookup[category]


def _note_arrows(rows: list[Row], times: Ints, collected: Collected) -> None:
    arrows = [at for at, row in enumerate(rows) if row.cat == "fwdbwd" and row.ph in ("s", "f")]
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
    if NoneType in set(map(type, printed)):
        missing = np.array([value is None for value in printed])
        counts["rows_without_duration"] += int(np.count_nonzero(missing & (kind != EventKind.MEMORY) & ~is_begin))
        printed = [0 if value is None else value for value in printed]
    length = nanoseconds(printed)
    bad = (start == INVALID) | (length == INVALID)
    return np.where(bad, INVALID, start + np.where(bad, 0, length))


def _row_columns(rows: list[Row], kind: Codes, collected: Collected) -> Columns:
    args = [row.args or NO_ARGS for row in rows]
    names_stream = np.array([value is not None for value in map(attrgetter("stream"), args)], np.bool_)
    on_stream = kind_mask(kind, STREAM_KINDS) | ((kind == EventKind.OTHER) & names_stream)
    ids = ("correlation", "external_id", "old_external_id", "sequence", "wait_on_stream", "record_correlation")
    forward_thread = integers(map(attrgetter("forward_thread"), args))
    return {
        "kind": kind,
        "name": collected.names.codes(map(attrgetter("name"), rows)),
        **_lane_keys(rows, args, on_stream, collected),
        **{name: integers(map(attrgetter(name), args)) for name in ids},
        "forward_thread": forward_thread.clip(-1, 2**31 - 1).astype(np.int32),
        "collective": np.array([value is not None for value in map(attrgetter("collective"), args)], np.bool_),
    }


def _lane_keys(rows: list[Row], args: list[Args], on_stream: Bools, collected: Collected) -> Columns:
    """Number each row's (pid, tid), or its (device, context, stream) where it ran on one."""
    on_cpu = list(compress(rows, (~on_stream).tolist()))
    chosen = on_stream.tolist()
    thread, stream = np.full(len(rows), -1, np.int32), np.full(len(rows), -1, np.int32)
    keys = zip(map(attrgetter("pid"), on_cpu), map(attrgetter("tid"), on_cpu), strict=True)
    thread[~on_stream] = collected.threads.codes(keys)
    on_gpu = zip(compress(rows, chosen), compress(args, chosen), strict=True)
    stream[on_stream] = collected.streams.codes(_stream_key(row, own) for row, own in on_gpu)
    return {"thread": thread, "stream": stream}


def _stream_key(row: Row, args: Args) -> StreamKey:
    device = row.pid if args.device is None else args.device
    return device, args.context, row.tid if args.stream is None else args.stream


def integers(values: Iterable[Any]) -> Ints:
    """Convert ids to int64: -1 where absent or not a number, ``BAD_ID`` where they do not fit 64 bits.

    Unsigned 64-bit values wrap, as the profiler's own -1 does.

    >>> integers([3, None, "4", 2**64 - 1, "x"]).tolist()
    [3, -1, 4, -1, -1]
    """
    listed = list(values)
    if set(map(type, listed)) <= {int}:
        try:
            return np.array(listed, np.int64)
        except OverflowError:
            pass
    return np.array([-1 if value is None else _integer(value) for value in listed], np.int64)


def _integer(value: Any) -> int:
    try:
        exact = Decimal(value)
        if not exact.is_finite() or (abs(exact) < 2**64 and exact != int(exact)):
            return -1
    except (ValueError, ArithmeticError):
        return -1
    if exact >= 2**64 or exact <= -(2**63):
        return BAD_ID
    return int(exact) if exact < 2**63 else int(exact) - 2**64
