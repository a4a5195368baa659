"""Collected columns → Trace: sound rows only, names and lanes numbered by content, one canonical order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from hta_graph.arrays import distinct, freeze
from hta_graph.model import LONGEST_NS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.storage.location import Location
from hta_graph.trace.columnize import BAD_ID, Arrow, Bracket, Collected, FileColumns
from hta_graph.trace.lanes import NO_STREAM, build_lanes
from hta_graph.trace.order import canonical_order
from hta_graph.trace.profiler_names import STEP_NAME
from hta_graph.trace.rank_files import header_count, header_settings
from hta_graph.trace.reader import FileFacts
from hta_graph.trace.rows import Number
from hta_graph.trace.table import READING_DIAGNOSTICS, CopyTable, EventTable, Flows, SyncTable, Trace
from hta_graph.trace.timestamps import INVALID, base_time

__all__ = ["assemble_trace"]

LONGEST_EVENT_NS = 30 * 24 * 3600 * 10**9


def assemble_trace(path: Location, collected: Collected, facts: FileFacts) -> Trace:
    """Turn collected columns into a trace; single bad rows are dropped and counted."""
    counts = Counter(dict.fromkeys(READING_DIAGNOSTICS, 0)) + collected.counts
    counts["rows_dropped_not_an_object"] = facts.non_objects
    counts["tolerant_json"] = int(facts.tolerant)
    counts["salvaged"] = int(facts.salvaged is not None)
    base = base_time(facts.header.base)
    counts["bad_header_base_time"] = int(base is None)
    columns = _drop_unplaceable(_pair_begins(collected, counts), collected, counts)
    return _assemble_trace(
        path, facts, collected, _with_base(columns, base or 0), {key: counts[key] for key in READING_DIAGNOSTICS}
    )


def _pair_begins(collected: Collected, counts: Counter[str]) -> FileColumns:
    """Give begin rows their ends, innermost first on each thread; those without one are dropped."""
    columns = collected.columns
    if not collected.brackets:
        return columns
    # Only foreign writers bracket rows; the profiler writes complete ones.
    ends = _ends_of_begins(collected.brackets, counts)
    begins = np.flatnonzero(columns["is_begin"])
    found = np.array([at in ends for at in columns["index"][begins].tolist()], np.bool_)
    columns["end"][begins[found]] = [ends[at] for at in columns["index"][begins[found]].tolist()]
    keep = np.ones(len(columns["index"]), np.bool_)
    keep[begins[~found]] = False
    return _keep_rows(columns, keep)


def _ends_of_begins(brackets: list[Bracket], counts: Counter[str]) -> dict[int, int]:
    open_rows: dict[Any, list[int]] = defaultdict(list)
    ends: dict[int, int] = {}
    for bracket in brackets:
        if bracket.is_begin:
            open_rows[bracket.thread].append(bracket.index)
        elif open_rows[bracket.thread]:
            ends[open_rows[bracket.thread].pop()] = bracket.time
        else:
            counts["rows_dropped_unpaired"] += 1
    counts["rows_dropped_unpaired"] += sum(map(len, open_rows.values()))
    return ends


def _keep_rows(columns: FileColumns, keep: Bools) -> FileColumns:
    return columns if keep.all() else {name: column[keep] for name, column in columns.items()}


def _drop_unplaceable(columns: FileColumns, collected: Collected, counts: Counter[str]) -> FileColumns:
    """Drop the rows that cannot be placed in time, have no name, or an id beyond 64 bits."""
    start, end = columns["start"], columns["end"]
    keep = np.ones(len(start), np.bool_)

    def drop(reason: str, bad: Bools) -> None:
        counts[f"rows_dropped_{reason}"] += int(np.count_nonzero(keep & bad))
        # Each row is counted once, for the first reason that it gives.
        keep[bad] = False

    drop("bad_time", (start == INVALID) | (end == INVALID))
    drop("negative_duration", end < start)
    # Clocks of different recordings are years apart: a row that far from the median is a fault, not a long trace.
    if keep.any():
        sound = start[keep]
        typical = int(np.partition(sound, (len(sound) - 1) // 2)[(len(sound) - 1) // 2])
        drop("absurd_time", (np.abs(start - typical) > LONGEST_NS) | (end - start > LONGEST_EVENT_NS))
    nameless = np.array([not name for name in collected.names] or [True], np.bool_)
    drop("no_name", nameless[columns["name"]])
    ids = ("correlation", "external_id", "sequence")
    drop("bad_id", np.logical_or.reduce([columns[name] == BAD_ID for name in ids]))
    return _keep_rows(columns, keep)


def _with_base(columns: FileColumns, base: int) -> FileColumns:
    return {**columns, "start": columns["start"] + base, "end": columns["end"] + base} if base else columns


def _assemble_trace(
    path: Location, facts: FileFacts, collected: Collected, columns: FileColumns, counts: dict[str, int]
) -> Trace:
    names, name = _sort_names(list(collected.names), columns["name"])
    threads, thread = _keep_used(list(collected.threads), columns["thread"])
    streams, stream = _keep_used(list(collected.streams), columns["stream"])
    lanes, of_thread, of_stream, lane_code = build_lanes(threads, streams)
    lane = np.where(thread >= 0, _picked_or_any(of_thread, thread), _picked_or_any(of_stream, stream)).astype(np.int32)
    columns = {**columns, "name": name, "lane": lane, "kind": _final_kinds(columns, names, name)}
    # Old profilers spelt it "external id"; a file has one spelling or the other.
    if (columns["external_id"] == -1).all():
        columns["external_id"] = np.maximum(columns["old_external_id"], -1)
    order = canonical_order(columns)
    events = EventTable(**{field: freeze(columns[field][order]) for field in EventTable.__dataclass_fields__})
    return Trace(
        path=path,
        events=events,
        names=names,
        lanes=lanes,
        syncs=_sync_table(events, columns, order),
        copies=_copy_table(events, columns, order),
        flows=_pair_arrows(collected.arrows, base_time(facts.header.base) or 0, lane_code),
        rank=header_count(facts.header, "rank"),
        world_size=header_count(facts.header, "world_size"),
        gpu_names=_gpu_names(facts.header.devices),
        diagnostics=counts,
        salvaged=facts.salvaged,
        settings=header_settings(facts.header),
    )


def _keep_used(keys: list[Any], code: Ids) -> tuple[list[Any], Ids]:
    """Keep the keys that sound rows use, and renumber."""
    used = distinct(code[code >= 0])
    number = np.full(len(keys) + 1, -1, np.int32)
    number[used] = np.arange(len(used))
    return [keys[at] for at in used.tolist()], number[code]


def _picked_or_any(values: Ids, at: Ids) -> Ids:
    """Take values; any one where the place is -1."""
    return values[at] if len(values) else at


def _sort_names(names: list[str], code: Ids) -> tuple[tuple[str, ...], Ids]:
    """Number the names in sorted order, so that codes do not depend on the order of rows."""
    # Names of dropped rows go too, else the same events would be numbered differently.
    used, number = _keep_used(names, code)
    order = sorted(range(len(used)), key=used.__getitem__)
    rank = np.zeros(len(used), np.int32)
    rank[order] = np.arange(len(used))
    return tuple(used[at] for at in order), rank[number]


def _final_kinds(columns: FileColumns, names: tuple[str, ...], name: Ids) -> Codes:
    """Let steps be annotations, and rows of unknown categories on a stream with a call's correlation kernels."""
    kind = columns["kind"].copy()
    is_step = np.array([STEP_NAME.fullmatch(text) is not None for text in names] or [False])
    # Before 2022 the profiler wrote its steps as operators.
    kind[is_step[name] & (kind == EventKind.CPU_OP)] = EventKind.ANNOTATION
    unknown = (kind == EventKind.OTHER) & (columns["stream"] >= 0) & (columns["correlation"] > 0)
    if unknown.any():
        # A category that nobody knows yet, on a stream, launched by a known call: new hardware's work, not to be lost.
        unknown[unknown] = np.isin(columns["correlation"][unknown], columns["correlation"][kind == EventKind.RUNTIME])
        kind[unknown] = EventKind.KERNEL
    result: Codes = kind
    return result


def _sync_table(events: EventTable, columns: FileColumns, order: Ints) -> SyncTable:
    event = np.flatnonzero(events.kind == EventKind.SYNC_RECORD).astype(np.int32)
    stream, record = (columns[name][order[event]] for name in ("wait_on_stream", "record_correlation"))
    for column in (stream, record):
        column[column == NO_STREAM] = -1
    return SyncTable(freeze(event), freeze(stream), freeze(record))


def _copy_table(events: EventTable, columns: FileColumns, order: Ints) -> CopyTable:
    event = np.flatnonzero(kind_mask(events.kind, (EventKind.MEMCPY, EventKind.MEMSET))).astype(np.int32)
    size, rate = (columns[name][order[event]] for name in ("bytes", "bandwidth"))
    return CopyTable(freeze(event), freeze(size), freeze(rate))


def _pair_arrows(arrows: list[Arrow], base: int, lane_code: Callable[[Number, Number], int]) -> Flows:
    """Pair the arrows' starts and ends by id, in order of time."""
    open_flows: dict[Any, list[Arrow]] = defaultdict(list)
    pairs: list[tuple[Arrow, Arrow]] = []
    for arrow in sorted(arrows, key=lambda arrow: (arrow.time, not arrow.is_start)):
        if arrow.is_start:
            open_flows[arrow.id].append(arrow)
        elif open_flows[arrow.id]:  # of several open ones the latest: ids are used again
            pairs.append((open_flows[arrow.id].pop(), arrow))
    times = [freeze(np.array([pair[side].time for pair in pairs], np.int64) + base) for side in (0, 1)]
    lanes = [freeze(np.array([lane_code(*pair[side].thread) for pair in pairs], np.int32)) for side in (0, 1)]
    return Flows(times[0], lanes[0], times[1], lanes[1])


def _gpu_names(devices: Any) -> tuple[str, ...]:
    if not isinstance(devices, list):
        return ()
    return tuple(str(device.get("name") or "unnamed") for device in devices if isinstance(device, dict))
