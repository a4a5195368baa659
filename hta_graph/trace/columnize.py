"""Rows → columns → Trace: part by part as arrays, then sound rows only, numbered and ordered by content."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from hta_graph.base.arrays import column_types, distinct, freeze
from hta_graph.base.storage.location import Location
from hta_graph.model import LONGEST_NS, ON_STREAMS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.json_reader import (
    PHASE_OF_TYPE,
    Args,
    FileFacts,
    FilePart,
    Number,
    header_of_object,
    number_or_text,
)
from hta_graph.trace.profiler_names import (
    CALLS_OF_VENDOR,
    CATEGORY,
    FIRST_NODE_ARROW,
    LAUNCH_ARROWS,
    MOVING_COLLECTIVE,
    STEP_NAME,
)
from hta_graph.trace.rank_files import header_count, header_settings
from hta_graph.trace.recorded import ABSENT, Arrow, Bracket, Collected, FileColumns, Numbering, Recorded, join_column
from hta_graph.trace.recordings import divide_recordings
from hta_graph.trace.row_meaning import OLD_ARROW, OLD_PROCESS, old_kinds, with_meaning, with_old_launches
from hta_graph.trace.table import (
    FASTEST_GBPS,
    NO_STREAM,
    READING_DIAGNOSTICS,
    CopyTable,
    EventTable,
    Flows,
    NodeOrder,
    StreamKey,
    SyncTable,
    Trace,
    build_lanes,
    canonical_order,
)
from hta_graph.trace.timestamps import INVALID, base_time, decimal_timestamps, nanoseconds, plain_numbers

NO_ARGS = Args()
DROPPED = -1
BAD_ID = INVALID
STREAM_KINDS = (*ON_STREAMS, EventKind.SYNC_RECORD, EventKind.GPU_ANNOTATION)
"""Kinds of rows that are on a stream and not on a thread."""
SYNC_ON_THREAD = "xpu_sync"
"""Category of Intel's records of synchronization: they stand on the thread that waited."""


def collect_columns(parts_of_file: Iterable[FilePart]) -> Collected:
    """Collect the columns of a trace's rows; each part is let go before the next is read."""
    collected = Collected({})
    offset, groups = 0, list[FileColumns]()
    for part in parts_of_file:
        groups += _part_columns(part, offset, collected)
        offset += len(part.rows)
        del part  # else two parts' rows would be in memory while the next one is decoded
    collected.columns = _join_groups(groups)
    return collected


def _join_groups(groups: Sequence[FileColumns]) -> FileColumns:
    """Join columns in the order of the file; those of the groups are let go."""
    lengths = [len(columns["index"]) for columns in groups]
    columns = {name: join_column([columns.pop(name, None) for columns in groups], lengths, name) for name in ABSENT}
    if (columns["index"][1:] < columns["index"][:-1]).any():
        # Rows of different phases stand in turn in a file.
        order = np.argsort(columns["index"], kind="stable")
        columns = {name: column[order] if column.strides[0] else column for name, column in columns.items()}
    return columns


PHASES = ("X", "i", "B", "E", "s", "f")
"""What of a file decides the graph: events, instants that report memory, brackets and arrows."""
_CODE_OF_PHASE: dict[Any, int] = {phase: code for code, phase in enumerate(PHASES)}
_OTHER = len(PHASES)
_CODE_OF_TYPE: dict[Any, int] = {kind: _CODE_OF_PHASE.get(phase, _OTHER) for kind, phase in PHASE_OF_TYPE.items()}


class _PartTimes:
    """When the rows of a part begin, in ns without the base time; ``INVALID`` where there is no time."""

    def __init__(self, part: FilePart, *, exact: bool) -> None:
        self._part = part
        self._exact = exact

    def of(self, rows: list[Any], places: Ids | None = None) -> Ints:
        """Return the times of rows that stand at some places; without places of all."""
        # Decoding the timestamps a second time as text is paid only where the floats have lost digits.
        reread = (lambda: self._printed if places is None else self._printed[places]) if self._exact else None
        return nanoseconds([row.ts for row in rows], reread)

    @cached_property
    def _printed(self) -> Ints:
        return nanoseconds(decimal_timestamps(self._part.text))


def start_times(part: FilePart, *, exact: bool) -> Ints:
    """Return the rows' times in ns without the base time, ``INVALID`` where there is none; all exact where asked."""
    return _PartTimes(part, exact=exact).of(part.rows)


class _PhaseRows:
    """The rows of one phase in a part, and where they stand in it."""

    def __init__(self, part: FilePart, phase: str, codes: Codes, times: _PartTimes) -> None:
        self.is_begin = phase == "B"
        self.places: Ids = np.flatnonzero(codes == _CODE_OF_PHASE[phase]).astype(np.int32)
        self.rows: list[Any] = [part.rows[at] for at in self.places.tolist()]
        self._times = times

    def keep(self, chosen: Bools) -> None:
        """Leave out the other rows."""
        if not chosen.all():
            self.places = self.places[chosen]
            self.rows = list(compress(self.rows, chosen.tolist()))

    def times(self) -> Ints:
        """Return when they begin (ns)."""
        return self._times.of(self.rows, self.places)


def _part_columns(part: FilePart, offset: int, collected: Collected) -> Iterator[FileColumns]:
    """Yield the columns of the rows that are events: complete ones, begin rows and what memory reports."""
    # What is decoded by phase has a type for each.
    is_typed = bool(part.rows) and type(part.rows[0]) in _CODE_OF_TYPE
    if is_typed:
        listed = [_CODE_OF_TYPE[type(row)] for row in part.rows]
    else:
        listed = [_CODE_OF_PHASE.get(row.ph, _OTHER) for row in part.rows]
    codes = np.frombuffer(bytes(listed), np.int8)  # in less time than an array of a list
    times = _PartTimes(part, exact=not part.tolerant)
    complete, instants, begins, ends, starts, arrow_ends = (_PhaseRows(part, phase, codes, times) for phase in PHASES)
    _note_arrows(starts, collected, is_start=True)
    _note_arrows(arrow_ends, collected, is_start=False)
    _note_brackets(begins, ends, offset, collected)
    yield _event_columns(complete, offset, collected)
    if begins.rows:
        yield _event_columns(begins, offset, collected)
    if instants.rows:
        instants.keep(np.array([row.name == "[memory]" for row in instants.rows], np.bool_))
        yield _row_columns(instants, np.full(len(instants.rows), EventKind.MEMORY, np.int8), None, offset, collected)


def _event_columns(found: _PhaseRows, offset: int, collected: Collected) -> FileColumns:
    # A trace has a dozen categories: each is looked up once and not once per row.
    categories = Numbering()
    category = categories.codes([row.cat for row in found.rows])
    kind = _kind_of_category(categories, category)
    if None in categories and not found.is_begin:  # metadata, and what PyTorch wrote before Kineto
        old_kinds(found.rows, np.flatnonzero(category == categories[None]), kind)
    for name in [name for name in categories if isinstance(name, str) and CALLS_OF_VENDOR.fullmatch(name)]:
        if name.lower() not in CATEGORY:
            _name_calls(found.rows, np.flatnonzero(category == categories[name]), kind)
    on_thread = category == categories[SYNC_ON_THREAD] if SYNC_ON_THREAD in categories else None
    kept = kind != DROPPED
    if not kept.all():
        found.keep(kept)
        kind, on_thread = kind[kept], on_thread if on_thread is None else on_thread[kept]
    return _row_columns(found, kind, on_thread, offset, collected)


def _kind_of_category(categories: Numbering, category: Ids) -> Codes:
    kinds = [CATEGORY.get(str(text).lower(), EventKind.OTHER) for text in categories]
    lookup = np.array([DROPPED if kind is None else kind for kind in kinds] or [DROPPED], np.int8)
    return lookup[category]


def _name_calls(rows: list[Any], places: Ints, kind: Codes) -> None:
    """Let rows of an unknown vendor's runtime be calls if they have a correlation, as the profiler gives to each."""
    numbered = [at for at in places.tolist() if integers([(rows[at].args or NO_ARGS).correlation])[0] > 0]
    kind[numbered] = EventKind.RUNTIME


def _note_arrows(found: _PhaseRows, collected: Collected, *, is_start: bool) -> None:
    """Note the arrows that say more than correlations do: from forward to backward, and those of old profilers."""
    # A file has few categories of arrows, of which most are none of these.
    categories = {row.cat for row in found.rows}
    if LAUNCH_ARROWS[0] in categories:
        _note_node_arrows(found, collected, is_start=is_start)
    wanted = {text for text in categories if text == "fwdbwd" or _is_old_arrow(text)}
    if not wanted:
        return
    for row, time in zip(found.rows, found.times().tolist(), strict=True):
        if row.cat == "fwdbwd":
            collected.arrows.append(Arrow(is_start, row.id, (row.pid, row.tid), time))
        elif row.cat in wanted:
            collected.old_launches.append((row.id, time, str(row.name), is_start))


def _note_node_arrows(found: _PhaseRows, collected: Collected, *, is_start: bool) -> None:
    """Note the arrows between nodes of CUDA graphs; those of launches have correlations, which are smaller."""
    chosen = [
        at for at, row in enumerate(found.rows)
        if type(row.id) is int and row.id >= FIRST_NODE_ARROW and row.cat == LAUNCH_ARROWS[0]
    ]  # fmt: skip
    if chosen:
        times = found.times()[chosen].tolist()
        own = [found.rows[at] for at in chosen]
        collected.node_arrows += [
            Arrow(is_start, row.id, (row.pid, row.tid), time)
            for row, time in zip(own, times, strict=True)
            if time != INVALID
        ]


def _is_old_arrow(category: str | None) -> bool:
    return category is not None and OLD_ARROW.fullmatch(category) is not None


def _note_brackets(begins: _PhaseRows, ends: _PhaseRows, offset: int, collected: Collected) -> None:
    """Note the begin and end rows in the order of the file."""
    found = []
    for rows in (begins, ends):
        if not rows.rows:
            continue
        categories = Numbering()
        kind = _kind_of_category(categories, categories.codes([row.cat for row in rows.rows]))
        for row, place, time, own in zip(rows.rows, rows.places.tolist(), rows.times().tolist(), kind, strict=True):
            if own != DROPPED:
                found.append(Bracket(place + offset, rows.is_begin, (row.pid, row.tid), time))
    collected.brackets += sorted(found, key=attrgetter("index"))


def _row_columns(
    found: _PhaseRows, kind: Codes, on_thread: Bools | None, offset: int, collected: Collected
) -> FileColumns:
    """Return the columns of which the rows have something."""
    rows = found.rows
    args = [row.args or NO_ARGS for row in rows]
    start = found.times()
    columns = {
        "index": found.places + np.int32(offset),
        "start": start,
        "end": _end_times(found, start, kind, collected.counts),
        "is_begin": np.ones(len(rows), np.bool_) if found.is_begin else None,
        "kind": kind,
        "name": collected.names.codes([row.name for row in rows]),
        "correlation": _numbers_of([own.correlation for own in args]),
        "external_id": _numbers_of([own.external_id for own in args]),
        "old_external_id": _numbers_of([own.old_external_id for own in args]),
        "sequence": _numbers_of([own.sequence for own in args]),
        **_collective_columns(args),
        **_lane_columns(rows, args, kind, on_thread, collected),
    }
    forward = _numbers_of([own.forward_thread for own in args])
    columns["forward_thread"] = None if forward is None else forward.clip(-1, 2**31 - 1).astype(np.int32)
    return {name: column for name, column in columns.items() if column is not None}


def _end_times(found: _PhaseRows, start: Ints, kind: Codes, counts: Counter[str]) -> Ints:
    printed = [row.dur for row in found.rows]
    length = nanoseconds(printed)
    # INVALID is the least number of 64 bits: adding to it would make a time of it again.
    bad = np.minimum(start, length) == INVALID
    if not bad.any():
        return start + length
    missing = np.array([value is None for value in printed])
    if not found.is_begin:
        counts["rows_without_duration"] += int(np.count_nonzero(missing & (kind != EventKind.MEMORY)))
    length[missing] = 0
    bad &= ~missing | (start == INVALID)
    return np.where(bad, INVALID, start + np.where(bad, 0, length))


def _numbers_of(values: list[Any]) -> Ints | None:
    """Convert ids; nothing where all are absent, as most are."""
    return None if values.count(-1) == len(values) else integers(values)


def _is_present(values: list[Any]) -> Bools | None:
    """Mark what is there; nothing where all of it is absent."""
    if values.count(None) == len(values):
        return None
    return np.array([value is not None for value in values], np.bool_)


def _collective_columns(args: list[Args]) -> FileColumns:
    """Mark the rows that name a collective, and those of them that say that it moves data between ranks."""
    named = _is_present([own.collective for own in args])
    if named is None:
        return {}
    exchanges = named.copy()
    exchanges[named] = [_moves_between_ranks(own) for own in compress(args, named.tolist())]
    return {"collective": named, "exchanges": exchanges}


def _moves_between_ranks(own: Args) -> bool:
    """Return whether a numbered collective moves data between ranks: in a group of one it copies within a device."""
    number, size = integers([own.number_in_group, own.group_size]).tolist()
    return number >= 0 and size != 1 and MOVING_COLLECTIVE.search(str(own.collective)) is not None


def _may_be_on_stream() -> Bools:
    found = np.zeros(max(EventKind) + 1, np.bool_)
    found[[*STREAM_KINDS, EventKind.OTHER]] = True
    return found


MAY_BE_ON_STREAM = _may_be_on_stream()
"""By kind: whether such a row may be on a stream. What only rows on streams have is looked for there."""


def _lane_columns(
    rows: list[Any], args: list[Args], kind: Codes, on_thread: Bools | None, collected: Collected
) -> FileColumns:
    """Number each row's (pid, tid), or its (device, context, stream) where it ran on one; and note what streams do."""
    places = np.flatnonzero(MAY_BE_ON_STREAM[kind])
    if not len(places):
        return {"thread": _thread_codes(rows, collected) if rows else None}
    on_stream = np.ones(len(places), np.bool_)
    listed = places.tolist()
    own = [args[at] for at in listed]
    of_kind = kind[places]
    if (is_other := of_kind == EventKind.OTHER).any():
        on_stream[is_other] = [one.stream is not None for one in compress(own, is_other.tolist())]
    if on_thread is not None:
        on_stream &= ~on_thread[places]
    is_on_stream = np.zeros(len(rows), np.bool_)
    is_on_stream[places] = on_stream
    columns: FileColumns = {"thread": None, "stream": None}
    if not on_stream.all() or len(places) < len(rows):
        columns["thread"] = np.full(len(rows), -1, np.int32)
        columns["thread"][~is_on_stream] = _thread_codes(compress(rows, (~is_on_stream).tolist()), collected)
    if on_stream.any():
        columns["stream"] = np.full(len(rows), -1, np.int32)
        placed = compress(zip([rows[at] for at in listed], own, strict=True), on_stream.tolist())
        columns["stream"][is_on_stream] = _stream_codes(placed, collected)
    moved = {
        "wait_on_stream": _numbers_of([one.wait_on_stream for one in own]),
        "record_correlation": _numbers_of([one.record_correlation for one in own]),
        **_moved_bytes(own, of_kind),
    }
    for name, some in moved.items():
        if some is not None:
            columns[name] = np.full(len(rows), ABSENT[name], some.dtype)
            columns[name][places] = some
    return columns


def _thread_codes(rows: Iterable[Any], collected: Collected) -> Ids:
    own = list(rows)
    pids, tids = [row.pid for row in own], [row.tid for row in own]
    if pids.count(pids[0]) < len(pids):
        return collected.threads.codes(zip(pids, tids, strict=True))
    # Numbers are looked up in half the time of pairs.
    printed = Numbering()
    codes = printed.codes(tids)
    found: Ids = collected.threads.codes((pids[0], tid) for tid in printed)[codes]
    return found


def _stream_codes(rows: Iterable[tuple[Any, Args]], collected: Collected) -> Ids:
    # The ids as printed are few: what they mean is asked once of each.
    printed = Numbering()
    codes = printed.codes(
        (
            row.pid, row.tid, args.device, args.context,
            # Of nodes that a viewer's lane was made up for this is where they ran.
            args.stream if args.original_stream is None else args.original_stream,
        )
        for row, args in rows
    )  # fmt: skip
    found: Ids = collected.streams.codes((*_stream_key(*ids), *ids[:2]) for ids in printed)[codes]
    return found


def _stream_key(pid: Any, tid: Any, device: Any, context: Any, stream: Any) -> StreamKey:
    if device is None and isinstance(pid, str) and OLD_PROCESS.fullmatch(pid):
        return tid, context, 0
    return pid if device is None else device, context, tid if stream is None else stream


def _moved_bytes(args: list[Args], kind: Codes) -> FileColumns:
    """Note what copies and sets moved: bytes, and the recorded GB/s; also of kernels, which may be copies."""
    some = _is_present([own.bytes for own in args])
    moves = kind_mask(kind, (EventKind.MEMCPY, EventKind.MEMSET))
    rows = np.flatnonzero(moves if some is None else moves | ((kind == EventKind.KERNEL) & some)).tolist()
    if not rows:
        return {}
    size, rate = np.full(len(kind), -1), np.full(len(kind), np.nan)
    size[rows] = integers([number_or_text(args[at].bytes) for at in rows]).clip(min=-1)
    rate[rows] = [_rate_of(number_or_text(args[at].bandwidth)) for at in rows]
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


def integers(values: Iterable[Any]) -> Ints:
    """Convert ids to int64: -1 where absent or not a number, ``BAD_ID`` where they do not fit 64 bits.

    Unsigned 64-bit values wrap, as the profiler's own -1 does.

    >>> integers([3, None, "4", 2**64 - 1, "x"]).tolist()
    [3, -1, 4, -1, -1]
    """
    listed = values if isinstance(values, list) else list(values)
    array = plain_numbers(listed)
    if array is not None and array.dtype == np.int64:
        return array
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
UNSTAMPED_BEFORE_NS = 10 * 10**9
"""Rows at ts 0 have no time stamp where all others follow at least so much later."""


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
    is_damaged = facts.salvaged is not None
    lanes = list(collected.threads), list(collected.streams)
    recordings = divide_recordings(path, columns, *lanes, is_damaged=is_damaged)
    if not recordings:
        return [_assemble_trace(path, facts, collected, columns, counts)]
    if is_damaged:
        facts = replace(facts, salvaged=f"{facts.salvaged}; pieces of {len(recordings)} ranks' files are mixed in it")
    found = []
    processes = {arrow.thread[0] for arrow in (*collected.arrows, *collected.node_arrows)}
    for place, (recording, rows) in enumerate(recordings):
        streams = {(*recording.stream_key(key), *key[3:], at): at for at, key in enumerate(collected.streams)}
        own_processes = set(filter(recording.has, processes))
        arrows, nodes = (
            [arrow for arrow in listed if arrow.thread[0] in own_processes]
            for listed in (collected.arrows, collected.node_arrows)
        )
        own = replace(collected, arrows=arrows, node_arrows=nodes, streams=Numbering(streams))
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
    drop("no_stamp", _is_unstamped(start, end, keep))
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


def _is_unstamped(start: Ints, end: Ints, keep: Bools) -> Bools:
    """Mark rows to which the recorder gave no time (pytorch#188481): at 0, further from all others than these span."""
    zero: Bools = keep & (start == 0) & (end == 0)
    others = keep & ~zero
    if not zero.any() or not others.any():
        return zero & False
    first = int(start[others].min())
    return zero & (first > max(UNSTAMPED_BEFORE_NS, int(end[others].max()) - first))


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
    nodes = _node_order(collected, columns, base_time(facts.header.base) or 0, counts)
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
        node_order=nodes.renumbered(_inverse(order)),
        rank=header_count(facts.header, "rank"),
        world_size=header_count(facts.header, "world_size"),
        gpu_names=_gpu_names(facts.header.devices),
        diagnostics={key: counts[key] for key in READING_DIAGNOSTICS},
        notes=notes,
        salvaged=facts.salvaged,
        settings=header_settings(facts.header),
    )


def _node_order(collected: Collected, columns: FileColumns, base: int, counts: Counter[str]) -> NodeOrder:
    """Find the nodes of CUDA graphs between which arrows lead; the others are counted."""
    if not collected.node_arrows:
        return NodeOrder.empty()
    from hta_graph.trace.graph_arrows import node_rows  # late: few traces have such arrows

    source, target = node_rows(collected.node_arrows, base, columns, list(collected.streams))
    found = NodeOrder.of(source=source, target=target).take(source >= 0)
    counts["graph_arrows"], counts["graph_arrows_unresolved"] = len(source), len(source) - len(found)
    return found


def _inverse(order: Ints) -> Ids:
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


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
    names = ("wait_on_stream", "record_correlation")
    stream, record = (columns[name][order[event]].astype(np.int64, copy=False) for name in names)
    for column in (stream, record):
        column[column == NO_STREAM] = -1
    return SyncTable(freeze(event), freeze(stream), freeze(record))


def _copy_table(events: EventTable, columns: FileColumns, order: Ints) -> CopyTable:
    event = np.flatnonzero(kind_mask(events.kind, (EventKind.MEMCPY, EventKind.MEMSET))).astype(np.int32)
    size, rate = (columns[name][order[event]] for name in ("bytes", "bandwidth"))
    return CopyTable(freeze(event), freeze(size.astype(np.int64, copy=False)), freeze(rate))


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
