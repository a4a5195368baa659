"""Rows → columns → Trace: part by part as arrays, then sound rows only, numbered and ordered by content."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, compress
from operator import attrgetter
from types import NoneType
from typing import Any

import numpy as np
from msgspec.structs import astuple

from hta_graph.arrays import column_types, distinct, freeze
from hta_graph.model import GPU_KINDS, LONGEST_NS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.storage.location import Location
from hta_graph.trace.json_reader import Args, FileFacts, FilePart, Number, Row, header_of_object, number_or_text
from hta_graph.trace.old_functions import OLD_ARROW, OLD_PROCESS, old_kinds, with_old_launches
from hta_graph.trace.profiler_names import CALLS_OF_VENDOR, CATEGORY, STEP_NAME
from hta_graph.trace.rank_files import header_count, header_settings
from hta_graph.trace.recorded import Arrow, Bracket, Collected, FileColumns, Numbering, Recorded
from hta_graph.trace.recordings import divide_recordings
from hta_graph.trace.row_meaning import with_meaning
from hta_graph.trace.table import (
    FASTEST_GBPS,
    NO_STREAM,
    READING_DIAGNOSTICS,
    CopyTable,
    EventTable,
    Flows,
    StreamKey,
    SyncTable,
    Trace,
    build_lanes,
    canonical_order,
)
from hta_graph.trace.timestamps import INVALID, base_time, decimal_timestamps, loses_nanoseconds, nanoseconds

NO_ARGS = Args()
DROPPED = -1
BAD_ID = INVALID
STREAM_KINDS = (*GPU_KINDS, EventKind.SYNC_RECORD, EventKind.GPU_ANNOTATION)
"""Kinds of rows that are on a stream and not on a thread."""
SYNC_ON_THREAD = "xpu_sync"
"""Category of Intel's records of synchronization: they stand on the thread that waited."""


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
    phases, categories = Numbering(), Numbering()
    phase = phases.codes(map(attrgetter("ph"), part.rows))
    # A trace has a dozen categories: each is looked up once and not once per row.
    category = categories.codes(map(attrgetter("cat"), part.rows))
    kind = _kind_of_category(categories, category)
    if None in categories:  # metadata, and what PyTorch wrote before Kineto
        old_kinds(part.rows, np.flatnonzero((category == categories[None]) & (phase == phases.get("X", -2))), kind)
    for name in [name for name in categories if isinstance(name, str) and CALLS_OF_VENDOR.fullmatch(name)]:
        if name.lower() not in CATEGORY:
            _name_calls(part.rows, np.flatnonzero(category == categories[name]), kind)
    _note_arrows(part.rows, np.flatnonzero(category == categories.get("fwdbwd", -1)), times, collected)
    for old in [name for name in categories if isinstance(name, str) and OLD_ARROW.fullmatch(name)]:
        _note_old_launches(part.rows, np.flatnonzero(category == categories[old]), times, collected)
    begins = _note_brackets(part.rows, times, kind, offset, collected) if "B" in phases or "E" in phases else []
    memory = [at for at in np.flatnonzero(phase == phases.get("i", -2)).tolist() if part.rows[at].name == "[memory]"]
    kind[memory] = EventKind.MEMORY
    # Complete rows are events, begin rows once they have found their ends; of instants only what memory reports.
    wanted = (phase == phases.get("X", -2)) & (kind != DROPPED)
    wanted[memory + begins] = True
    rows = list(compress(part.rows, wanted.tolist()))
    index = np.flatnonzero(wanted).astype(np.int32)
    columns = _row_columns(rows, kind[index], category[index] == categories.get(SYNC_ON_THREAD, -1), collected)
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


def _kind_of_category(categories: Numbering, category: Ids) -> Codes:
    kinds = [CATEGORY.get(str(text).lower(), EventKind.OTHER) for text in categories]
    lookup = np.array([DROPPED if kind is None else kind for kind in kinds] or [DROPPED], np.int8)
    return lookup[category]


def _name_calls(rows: list[Row], places: Ints, kind: Codes) -> None:
    """Let rows of an unknown vendor's runtime be calls if they have a correlation, as the profiler gives to each."""
    numbered = [at for at in places.tolist() if integers([(rows[at].args or NO_ARGS).correlation])[0] > 0]
    kind[numbered] = EventKind.RUNTIME


def _note_arrows(rows: list[Row], flows: Ints, times: Ints, collected: Collected) -> None:
    arrows = [at for at in flows.tolist() if rows[at].ph in ("s", "f")]
    collected.arrows += [
        Arrow(rows[at].ph == "s", rows[at].id, (rows[at].pid, rows[at].tid), int(times[at])) for at in arrows
    ]


def _note_old_launches(rows: list[Row], flows: Ints, times: Ints, collected: Collected) -> None:
    collected.old_launches += [
        (rows[at].id, int(times[at]), str(rows[at].name), rows[at].ph == "s")
        for at in flows.tolist()
        if rows[at].ph in ("s", "f")
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


def _row_columns(rows: list[Row], kind: Codes, on_thread: Bools, collected: Collected) -> FileColumns:
    args = _by_field([row.args or NO_ARGS for row in rows])
    on_stream = kind_mask(kind, STREAM_KINDS) | ((kind == EventKind.OTHER) & _is_present(args["stream"]))
    on_stream &= ~on_thread
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
    """Note what copies and sets moved: bytes, and the recorded GB/s; also of kernels, which may be copies."""
    moves = kind_mask(kind, (EventKind.MEMCPY, EventKind.MEMSET))
    rows = np.flatnonzero(moves | ((kind == EventKind.KERNEL) & _is_present(args["bytes"])))
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
    stream[on_stream] = collected.streams.codes((*_stream_key(*place, *ids), place[0]) for place, ids in on_gpu)
    return {"thread": thread, "stream": stream}


def _stream_key(pid: Any, tid: Any, device: Any, context: Any, stream: Any) -> StreamKey:
    if device is None and isinstance(pid, str) and OLD_PROCESS.fullmatch(pid):
        return tid, context, 0
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


LONGEST_EVENT_NS = 30 * 24 * 3600 * 10**9


def assemble_traces(path: Location, collected: Collected, facts: FileFacts) -> list[Trace]:
    """Turn collected columns into the traces of a file's recordings; single bad rows are dropped and counted.

    A file of several recordings gives its ranks' traces, numbered by what their processes are called or by order.

    Raises:
        TraceError: it holds several recordings that cannot be distinguished.
    """
    counts = Counter(dict.fromkeys(READING_DIAGNOSTICS, 0)) + collected.counts
    counts["rows_dropped_not_an_object"] = facts.non_objects
    counts["tolerant_json"] = int(facts.tolerant)
    counts["salvaged"] = int(facts.salvaged is not None)
    counts["damaged_events_skipped"] = facts.skipped
    base = base_time(facts.header.base)
    counts["bad_header_base_time"] = int(base is None)
    columns = _with_base(_drop_unplaceable(_pair_begins(collected, counts), collected, counts), base or 0)
    recordings = divide_recordings(path, columns, list(collected.threads), list(collected.streams))
    if not recordings:
        return [_assemble_trace(path, facts, collected, columns, counts)]
    found = []
    processes = {arrow.thread[0] for arrow in collected.arrows}
    for place, (recording, rows) in enumerate(recordings):
        streams = {(*recording.stream_key(key), key[3], at): at for at, key in enumerate(collected.streams)}
        own_processes = set(filter(recording.has, processes))
        arrows = [arrow for arrow in collected.arrows if arrow.thread[0] in own_processes]
        own = replace(collected, arrows=arrows, streams=Numbering(streams))
        trace = _assemble_trace(path, facts, own, _keep_rows(columns, rows), Counter(counts))
        rank = place if recording.rank is None else recording.rank
        found.append(replace(trace, rank=rank, recording=recording))
        # What was dropped of the file is said once.
        counts = Counter({key: 0 if key.startswith("rows_") else count for key, count in counts.items()})
    return found


def assemble_recorded(path: Location, recorded: Recorded) -> Trace:
    """Turn what a reader of another format found of one rank into a trace, as :func:`assemble_traces` does."""
    facts = FileFacts(header_of_object(recorded.header), 0, tolerant=False, salvaged=recorded.salvaged)
    counts = Counter(dict.fromkeys(READING_DIAGNOSTICS, 0))
    counts["salvaged"] = int(recorded.salvaged is not None)
    columns = _drop_unplaceable(recorded.collected.columns, recorded.collected, counts)
    recorded.collected.columns = {}  # from here on each column is in memory once
    if (columns["bandwidth"] > FASTEST_GBPS).any():
        columns["bandwidth"] = np.where(columns["bandwidth"] > FASTEST_GBPS, np.nan, columns["bandwidth"])
    columns = _with_base(columns, base_time(facts.header.base) or 0)
    trace = _assemble_trace(path, facts, recorded.collected, columns, counts)
    return replace(trace, rank=recorded.rank, notes=(*trace.notes, *recorded.notes))


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
    if keep.all():
        return columns
    count = int(np.count_nonzero(keep))
    # What has one value in all rows stays so.
    return {name: column[keep] if column.strides[0] else column[:count] for name, column in columns.items()}


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
    path: Location, facts: FileFacts, collected: Collected, columns: FileColumns, counts: Counter[str]
) -> Trace:
    names, name = _sort_names(list(collected.names), columns["name"])
    threads, thread = _keep_used(list(collected.threads), columns["thread"])
    streams, stream = _keep_used(list(collected.streams), columns["stream"])
    lanes, of_thread, of_stream, lane_code = build_lanes(threads, [key[:3] for key in streams])
    lane = np.where(thread >= 0, _take_or_any(of_thread, thread), _take_or_any(of_stream, stream)).astype(np.int32)
    columns = {**columns, "name": name, "lane": lane, "kind": _final_kinds(columns, names, name)}
    # Old profilers spelt it "external id"; a file has one spelling or the other.
    if (columns["external_id"] == -1).all():
        columns["external_id"] = np.maximum(columns["old_external_id"], -1)
    columns, notes = with_meaning(columns, names, counts)
    order = canonical_order(columns)
    types = column_types(EventTable)
    events = EventTable(**{name: freeze(columns[name][order].astype(types[name], copy=False)) for name in types})
    if collected.old_launches:
        base = base_time(facts.header.base) or 0
        arrows = [(key, time + base, text, is_start) for key, time, text, is_start in collected.old_launches]
        events = with_old_launches(events, names, arrows)
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
        diagnostics={key: counts[key] for key in READING_DIAGNOSTICS},
        notes=notes,
        salvaged=facts.salvaged,
        settings=header_settings(facts.header),
    )


def _keep_used(keys: list[Any], code: Ids) -> tuple[list[Any], Ids]:
    """Keep the keys that sound rows use, and renumber."""
    used = distinct(code[code >= 0])
    number = np.full(len(keys) + 1, -1, np.int32)
    number[used] = np.arange(len(used))
    return [keys[at] for at in used.tolist()], number[code]


def _take_or_any(values: Ids, at: Ids) -> Ids:
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
