"""Rows → Trace: which rows are events, their exact times, kinds, lanes and ids, all as columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from hta_graph.model import GPU_KINDS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.clock import INVALID, base_time, loses_nanoseconds, nanoseconds
from hta_graph.trace.decode import Args, Decoded, Row, exact_times, paused_gc
from hta_graph.trace.lanes import LaneKeys, build_lanes
from hta_graph.trace.order import canonical_order
from hta_graph.trace.table import READING_DIAGNOSTICS, EventTable, Flows, SyncTable, Trace, freeze
from hta_graph.trace.vocabulary import CATEGORY, STEP_NAME

__all__ = ["assemble", "integers"]

LONGEST_NS = 30 * 24 * 3600 * 10**9
FARTHEST_NS = 366 * 24 * 3600 * 10**9
NO_ARGS = Args()
DROPPED = -1
BAD_ID = INVALID
STREAM_KINDS = (*GPU_KINDS, EventKind.SYNC_RECORD, EventKind.GPU_ANNOTATION)


@dataclass(frozen=True)
class _Candidates:
    """Rows that may be events: the rows, their positions in the file, start and end (ns), kind."""

    rows: list[Row]
    index: Ids
    start: Ints
    end: Ints
    kind: Codes


def assemble(path: Path, decoded: Decoded, rank: int | None, world_size: int | None) -> Trace:
    """Turn decoded rows into a trace; single bad rows are dropped and counted."""
    counts = Counter(dict.fromkeys(READING_DIAGNOSTICS, 0))
    counts["rows_dropped_not_an_object"] = decoded.not_rows
    counts["tolerant_json"] = int(decoded.tolerant)
    counts["salvaged"] = int(decoded.salvaged is not None)
    with paused_gc():
        times = _start_times(decoded, counts)
        found = _sound(_candidates(decoded.rows, times, counts), counts)
        return _columns(path, decoded, found, times, (rank, world_size), counts)


def _start_times(decoded: Decoded, counts: Counter[str]) -> Ints:
    printed: Sequence[object] = list(map(attrgetter("ts"), decoded.rows))
    present = printed if NoneType not in set(map(type, printed)) else [value for value in printed if value is not None]
    if loses_nanoseconds(present) and not decoded.tolerant:
        printed = exact_times(decoded)
        times = nanoseconds(printed)
    elif present is printed:
        times = nanoseconds(printed)
    else:
        times = np.full(len(printed), INVALID)
        times[[value is not None for value in printed]] = nanoseconds(present)
    base = base_time(decoded.base)
    counts["bad_header_base_time"] = int(base is None)
    return np.where(times == INVALID, INVALID, times + base) if base else times


def _candidates(rows: list[Row], times: Ints, counts: Counter[str]) -> _Candidates:
    phase, phases = codes_of(map(attrgetter("ph"), rows))
    kind = _kinds(rows)
    wanted = (phase == phases.get("X", -2)) & (kind != DROPPED)
    memory = [at for at in np.flatnonzero(phase == phases.get("i", -2)).tolist() if rows[at].name == "[memory]"]
    wanted[memory], kind[memory] = True, EventKind.MEMORY
    chosen = list(compress(rows, wanted.tolist()))
    index = np.flatnonzero(wanted).astype(np.int32)
    start = times[index]
    end = _end_times(chosen, start, kind[index], counts)
    found = _Candidates(chosen, index, start, end, kind[index])
    return found if "B" not in phases and "E" not in phases else _with_pairs(found, rows, times, kind, counts)


def _end_times(chosen: list[Row], start: Ints, kind: Codes, counts: Counter[str]) -> Ints:
    printed = list(map(attrgetter("dur"), chosen))
    if None in printed:
        missing = np.array([value is None for value in printed])
        counts["rows_without_duration"] = int(np.count_nonzero(missing & (kind != EventKind.MEMORY)))
        printed = [0 if value is None else value for value in printed]
    length = nanoseconds(printed)
    bad = (start == INVALID) | (length == INVALID)
    return np.where(bad, INVALID, start + np.where(bad, 0, length))


def _with_pairs(found: _Candidates, rows: list[Row], times: Ints, kind: Codes, counts: Counter[str]) -> _Candidates:
    """Add begin/end rows of foreign writers, paired per thread, innermost first."""
    open_rows: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for at, row in enumerate(rows):
        if row.ph == "B" and kind[at] != DROPPED:
            open_rows[row.pid, row.tid].append(at)
        elif row.ph == "E" and kind[at] != DROPPED:
            stack = open_rows[row.pid, row.tid]
            if stack:
                pairs.append((stack.pop(), at))
            else:
                counts["rows_dropped_unpaired"] += 1
    counts["rows_dropped_unpaired"] += sum(map(len, open_rows.values()))
    begin = np.array([b for b, _ in pairs], np.int32)
    finish = np.array([e for _, e in pairs], np.int32)
    return _Candidates(
        found.rows + [rows[b] for b, _ in pairs],
        np.concatenate([found.index, begin]),
        np.concatenate([found.start, times[begin]]),
        np.concatenate([found.end, times[finish]]),
        np.concatenate([found.kind, kind[begin]]),
    )


def _kinds(rows: list[Row]) -> Codes:
    category, table = codes_of(map(attrgetter("cat"), rows))
    kinds = [CATEGORY.get(str(text).lower(), EventKind.OTHER) for text in table]
    lookup = np.array([DROPPED if kind is None else kind for kind in kinds] or [DROPPED], np.int8)
    return lookup[category]


class _Numbering(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def codes_of(values: Iterable[Hashable]) -> tuple[Ids, dict[Any, int]]:
    """Number distinct values in order of appearance.

    >>> codes_of("abca")[0].tolist()
    [0, 1, 2, 0]
    """
    table = _Numbering()
    return np.array(list(map(table.__getitem__, values)), np.int32), table


def _sound(found: _Candidates, counts: Counter[str]) -> _Candidates:
    """Drop the rows that cannot be placed in time or have no name."""
    keep = np.ones(len(found.rows), np.bool_)

    def drop(reason: str, bad: Bools) -> None:
        counts[f"rows_dropped_{reason}"] += int(np.count_nonzero(keep & bad))
        keep[bad] = False

    drop("bad_time", (found.start == INVALID) | (found.end == INVALID))
    drop("negative_duration", found.end < found.start)
    if keep.any():
        typical = int(np.median(found.start[keep]))
        far = (np.abs(found.start - typical) > FARTHEST_NS) | (found.end - found.start > LONGEST_NS)
        drop("absurd_time", far)
    names = list(map(attrgetter("name"), found.rows))
    if None in names or "" in names:
        drop("no_name", np.array([not name for name in names]))
    return found if keep.all() else _filter(found, keep)


def _filter(found: _Candidates, keep: Bools) -> _Candidates:
    rows = list(compress(found.rows, keep.tolist()))
    return _Candidates(rows, found.index[keep], found.start[keep], found.end[keep], found.kind[keep])


def _columns(
    path: Path,
    decoded: Decoded,
    found: _Candidates,
    times: Ints,
    ranks: tuple[int | None, int | None],
    counts: Counter[str],
) -> Trace:
    args = [row.args or NO_ARGS for row in found.rows]
    ids = {name: integers(map(attrgetter(name), args)) for name in ("correlation", "external_id", "sequence")}
    bad = np.logical_or.reduce([column == BAD_ID for column in ids.values()])
    if bad.any():
        counts["rows_dropped_bad_id"] = int(np.count_nonzero(bad))
        return _columns(path, decoded, _filter(found, ~bad), times, ranks, counts)
    if (ids["external_id"] == -1).all():
        ids["external_id"] = np.maximum(integers(map(attrgetter("old_external_id"), args)), -1)
    names, name = _names(found.rows)
    kind = _kinds_by_correlation(_steps_are_annotations(found.kind, names, name), args, ids["correlation"])
    flow_rows = [(at, row) for at, row in enumerate(decoded.rows) if row.cat == "fwdbwd" and row.ph in ("s", "f")]
    keys = LaneKeys.of(found.rows, args, kind_mask(kind, STREAM_KINDS) | _is_other_device(kind, args))
    lanes, lane, lane_code = build_lanes(keys)
    columns: dict[str, Any] = {
        "index": found.index, "kind": kind, "name": name, "lane": lane, "start": found.start, "end": found.end, **ids,
        "forward_thread": integers(map(attrgetter("forward_thread"), args)).clip(-1, 2**31 - 1).astype(np.int32),
        "collective": np.array([value is not None for value in map(attrgetter("collective"), args)], np.bool_),
    }  # fmt: skip
    order = canonical_order(columns)
    events = EventTable(**{key: freeze(column[order]) for key, column in columns.items()})
    return Trace(
        path=path,
        events=events,
        names=names,
        lanes=lanes,
        syncs=_syncs(events, order, args),
        flows=_flows(flow_rows, times, lane_code),
        rank=ranks[0],
        world_size=ranks[1],
        gpu_names=_gpu_names(decoded.devices),
        diagnostics={key: counts[key] for key in READING_DIAGNOSTICS},
        salvaged=decoded.salvaged,
    )


def _names(rows: list[Row]) -> tuple[tuple[str, ...], Ids]:
    """Number the names in sorted order, so that codes do not depend on the order of rows."""
    code, table = codes_of(map(attrgetter("name"), rows))
    names = sorted(table)
    rank = np.zeros(len(names), np.int32)
    rank[[table[name] for name in names]] = np.arange(len(names))
    return tuple(names), rank[code]


def _steps_are_annotations(kind: Codes, names: tuple[str, ...], name: Ids) -> Codes:
    is_step = np.array([STEP_NAME.fullmatch(text) is not None for text in names] or [False])
    return np.where(is_step[name] & (kind == EventKind.CPU_OP), EventKind.ANNOTATION, kind).astype(np.int8)


def _kinds_by_correlation(kind: Codes, args: list[Args], correlation: Ints) -> Codes:
    """Let a row of an unknown category that names a stream and shares a call's correlation be a kernel."""
    unknown = np.flatnonzero((kind == EventKind.OTHER) & (correlation > 0))
    unknown = unknown[[args[at].stream is not None for at in unknown.tolist()]] if len(unknown) else unknown
    launched = np.isin(correlation[unknown], correlation[kind == EventKind.RUNTIME])
    kind[unknown[launched]] = EventKind.KERNEL
    return kind


def _is_other_device(kind: Codes, args: list[Args]) -> Bools:
    other: Bools = kind == EventKind.OTHER
    other[other] = [args[at].stream is not None for at in np.flatnonzero(other).tolist()]
    return other


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


def _syncs(events: EventTable, order: Ints, args: list[Args]) -> SyncTable:
    event = np.flatnonzero(events.kind == EventKind.SYNC_RECORD).astype(np.int32)
    source = [args[at] for at in order[event].tolist()]
    pick: Callable[[str], Ints] = lambda field: integers(map(attrgetter(field), source))  # noqa: E731
    stream = pick("wait_on_stream")
    stream[stream == 2**32 - 1] = -1
    record = pick("record_correlation")
    record[record == 2**32 - 1] = -1
    return SyncTable(freeze(event), freeze(stream), freeze(record))


def _flows(flow_rows: list[tuple[int, Row]], times: Ints, lane_code: Callable[[Any, Any], int]) -> Flows:
    """Pair the arrows' starts and ends by id, in order of time."""
    open_flows: dict[Any, list[int]] = defaultdict(list)
    rows = dict(sorted(flow_rows, key=lambda item: (times[item[0]], item[1].ph != "s")))
    pairs: list[tuple[int, int]] = []
    for at, row in rows.items():
        if row.ph == "s":
            open_flows[row.id].append(at)
        elif open_flows[row.id]:
            pairs.append((open_flows[row.id].pop(), at))
    start, end = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    lane = [
        np.array([lane_code(rows[at].pid, rows[at].tid) for at in side.tolist()], np.int32) for side in (start, end)
    ]
    return Flows(freeze(times[start]), freeze(lane[0]), freeze(times[end]), freeze(lane[1]))


def _gpu_names(devices: Any) -> tuple[str, ...]:
    if not isinstance(devices, list):
        return ()
    return tuple(str(device.get("name") or "unnamed") for device in devices if isinstance(device, dict))
