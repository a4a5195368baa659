"""What rows mean where their own words are wrong: by recorded ids and by what a stream can do.

A profiler writes one row for each thing, and others write in its format with faults of their own. Three are repaired
here, for all answers alike, and counted: copies among the kernels, ends that are stamped late, calls that another clock
stamps before their operator.

PyTorch's profiler before Kineto (``torch.autograd.profiler``), and without it still, writes a bare list of rows without
a category: operators in the process ``CPU functions`` by thread, kernels in ``CUDA functions`` by device, and arrows
``cpu_to_cuda`` from operators to the kernels that they launched. There are no calls, streams or copies: an operator
stands for the call, all work of a device for one stream. Source: export_chrome_trace in torch/autograd/profiler.py
(1.4) and profiler_util.py.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import expand_ranges, find_sorted, first_of_runs, freeze, medians_by, take_or, unique_rows
from hta_graph.base.text.formatting import milliseconds
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import shorten_middle
from hta_graph.model import GPU_KINDS, Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.profiler_names import (
    COMMUNICATION_KERNEL,
    COPY_CALL,
    COPY_KERNEL,
    EVENT_MARK_CALL,
    GRAPH_LAUNCH_CALL,
    HOST_COPY,
    MARKER_KERNEL,
    SET_CALL,
    SET_KERNEL,
)
from hta_graph.trace.table import EventTable

Columns = dict[str, Any]

KIND_OF_CALL = ((COPY_CALL, EventKind.MEMCPY), (SET_CALL, EventKind.MEMSET), (EVENT_MARK_CALL, EventKind.OTHER))
"""What a call that launches no kernel leaves on a GPU; an event's mark is no work."""
KIND_OF_NAME = ((COPY_KERNEL, EventKind.MEMCPY), (SET_KERNEL, EventKind.MEMSET), (MARKER_KERNEL, EventKind.OTHER))

LATE_END_NS = 10_000
"""So far an activity outlives one that its stream began later: clocks that tick in microseconds show less."""
FEWEST_ALIKE = 3
"""As many activities of one name show how long it takes."""
MANY_TIMES = 5
"""An end that is late within a graph makes its activity so much longer than others of its name."""
MOST_LATE, FEW_LATE = 0.1, 2
"""Where more of a stream's activities outlive later ones, or others overlap, it stands for several queues that run at
once. On a short stream up to two may be late that take many times as long as others of their name."""
LINES, NAME_LENGTH = 3, 60

BEFORE_OPERATOR_NS = 10_000
"""So far another clock may stamp a call before the operator that made it."""


class CallNames:
    """The launching call of each GPU activity, by correlation, and what it is called."""

    def __init__(self, columns: Columns, names: tuple[str, ...]) -> None:
        correlation, kind, start, end = (columns[key] for key in ("correlation", "kind", "start", "end"))
        self._names = names
        calls = np.flatnonzero((kind == EventKind.RUNTIME) & (correlation > 0))
        order = np.argsort(correlation[calls], kind="stable")
        if not first_of_runs(correlation[calls][order]).all():
            # Of two calls with one correlation the outer one launched: it began first, or ended last.
            order = np.lexsort((start[calls] - end[calls], start[calls], correlation[calls]))
        calls = calls[order]
        calls = calls[first_of_runs(correlation[calls])]
        launched = np.flatnonzero(kind_mask(kind, GPU_KINDS) & (correlation > 0))
        self.call = np.full(len(kind), -1, np.int64)
        self.call[launched] = take_or(calls, find_sorted(correlation[launched], correlation[calls]))
        self._name = columns["name"]

    def named(self, rows: Ints, pattern: re.Pattern[str]) -> Bools:
        """Mark the rows whose launching call a pattern matches."""
        calls = self.call[rows]
        found = self.matches(self._name[calls[calls >= 0]], pattern)
        marked: Bools = found[self._name[calls]] & (calls >= 0)
        return marked

    def matches(self, codes: Ids, pattern: re.Pattern[str]) -> Bools:
        """Mark name codes (of those asked for, any number of times) that a pattern matches from the start."""
        found = np.zeros(len(self._names) + 1, np.bool_)
        found[codes] = True
        asked = np.flatnonzero(found)
        found[asked] = [pattern.match(self._names[code]) is not None for code in asked.tolist()]
        return found


def with_meaning(columns: Columns, names: tuple[str, ...], counts: Counter[str]) -> tuple[Columns, tuple[str, ...]]:
    """Repair what rows say of themselves; return the columns, and one line about each late end."""
    launched = CallNames(columns, names)
    kind = _kinds_by_call(columns, launched)
    counts["copies_among_kernels"] = int(np.count_nonzero(kind != columns["kind"]))
    columns = {**columns, "kind": kind}
    columns = _calls_inside_operators(columns, counts)
    columns, lines = _without_late_ends(columns, names, launched, counts)
    return {**columns, "collective": columns["collective"] | _are_collectives(columns, launched)}, lines


def _are_collectives(columns: Columns, launched: CallNames) -> Bools:
    """Mark the copies between devices that do the work of a collective: its record made them itself.

        record_param_comms   |--[cudaMemcpyAsync]--[cudaMemcpyAsync]--|     _allgather_base, Seq 7, a group of 2
        copy engine                [Memcpy DtoD][Memcpy PtoP]               External id: the record's

    NCCL (2.28 and later) and RCCL let copy engines gather, scatter and exchange, without a kernel (pytorch#170265).
    Copies around a collective have operators of their own (``aten::copy_``). What a library uploads for itself when it
    starts comes from the host, and memory that is set moves nowhere. An External id that is the row's own correlation
    says nothing (kineto, 2022 to 2024), unless its call lies inside the record.
    """
    kind, external, lane, start, end = (columns[key] for key in ("kind", "external_id", "lane", "start", "end"))
    found = np.zeros(len(kind), np.bool_)
    records = np.flatnonzero(columns["exchanges"] & (kind == EventKind.CPU_OP) & (external > 0))
    if not len(records):
        return found
    records = records[np.argsort(external[records], kind="stable")]
    copies = np.flatnonzero(kind == EventKind.MEMCPY)
    call = launched.call[copies]
    own = np.where(external[copies] > 0, external[copies], take_or(external, call))
    at = find_sorted(own, external[records])
    record = records[at]
    inside = (lane[call] == lane[record]) & (start[call] >= start[record]) & (end[call] <= end[record])
    made = (at >= 0) & np.where(call >= 0, inside, own != columns["correlation"][copies])
    copies = copies[made]
    name = columns["name"][copies]
    found[copies] = ~launched.matches(name, HOST_COPY)[name]
    return found


def _kinds_by_call(columns: Columns, launched: CallNames) -> Codes:
    """Let kernels that a copying, setting or recording call launched be what that call makes; its name comes second.

    AMD's profilers write copies, sets and the marks of events as kernels (pytorch#97167, kineto#1295). Of a graph
    launch, or of a call that is not in the file, only the activity's name shows it.
    """
    kind: Codes = columns["kind"].copy()
    kernels = np.flatnonzero(kind == EventKind.KERNEL)
    if not len(kernels):
        return kind
    found = np.full(len(kernels), EventKind.KERNEL, np.int8)
    unsaid = (launched.call[kernels] < 0) | launched.named(kernels, GRAPH_LAUNCH_CALL)
    own = columns["name"][kernels]
    for pattern, of_name in KIND_OF_NAME:
        found[unsaid & launched.matches(own, pattern)[own]] = of_name
    for pattern, of_call in KIND_OF_CALL:
        found[launched.named(kernels, pattern)] = of_call
    kind[kernels] = found
    return kind


def _calls_inside_operators(columns: Columns, counts: Counter[str]) -> Columns:
    """Move calls that begin just before the operator whose External id they have to its start.

        operator       |----------|
        call         |-----|            recorded by another clock: some hundred ns too early (pytorch#188956)

    An id that is the call's own correlation says nothing (kineto, 2022 to 2024). Another one counts where that operator
    begins on the call's thread within 10 µs after the call, and ends after it.
    """
    kind, external, lane, start, end = (columns[key] for key in ("kind", "external_id", "lane", "start", "end"))
    calls = np.flatnonzero((kind == EventKind.RUNTIME) & (external > 0) & (external != columns["correlation"]))
    operators = np.flatnonzero((kind == EventKind.CPU_OP) & (external > 0))
    if not len(calls) or not len(operators):
        return columns
    of_id = operators[np.argsort(external[operators], kind="stable")]
    first = np.searchsorted(external[of_id], external[calls], side="left")
    count = np.searchsorted(external[of_id], external[calls], side="right") - first
    place, at = expand_ranges(first, count)
    call, operator = calls[place], of_id[at]
    early = start[operator] - start[call]
    moved = (lane[operator] == lane[call]) & (early > 0) & (early <= BEFORE_OPERATOR_NS)
    # A call is as long as before where it ended before its operator began; else it ends when it did.
    moved &= np.maximum(end[call], start[operator]) <= end[operator]
    # An operator with the id that is open already is its own, whatever begins later.
    has_own = (lane[operator] == lane[call]) & (start[operator] <= start[call]) & (end[operator] >= start[call])
    moved &= ~np.isin(call, call[has_own])
    # Of several operators with the id the first one begins the others.
    order = np.lexsort((early[moved], call[moved]))
    moved = np.flatnonzero(moved)[order[first_of_runs(call[moved][order])]]
    call, operator, early = call[moved], operator[moved], early[moved]
    counts["calls_moved_into_operators"] = len(call)
    if not len(call):
        return columns
    start, end = start.copy(), end.copy()
    outside = end[call] <= start[operator]
    end[call] = np.where(outside, np.minimum(end[call] + early, columns["end"][operator]), end[call])
    start[call] += early
    return {**columns, "start": start, "end": end}


def _without_late_ends(
    columns: Columns, names: tuple[str, ...], launched: CallNames, counts: Counter[str]
) -> tuple[Columns, tuple[str, ...]]:
    """End activities that outlive later ones of their stream when the next one begins, or as its name usually does.

        stream   [gemm~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~      its end was stamped late (TraceLens#669)
                       [add][gemm][add]                    began later and are done: a stream works in order
                 [gemm]                                    as long as gemm takes elsewhere, until add at the latest

    With programmatic launch the next one may begin earlier, never end earlier. Rows of one graph launch may be branches
    that are shown on one stream: there an activity must also take many times as long as others of its name. A
    communication kernel waits while others run, and stays; so do all ends on a stream whose others overlap: it
    stands for several queues. In 47 public traces no activity outlives a later one; of 336 ends put off there 96% are
    found, no other end changes, and the sums of GPU time are right to 1%.
    """
    kind, lane, start, end = (columns[key] for key in ("kind", "lane", "start", "end"))
    work = np.flatnonzero(kind_mask(kind, GPU_KINDS))
    work = work[np.lexsort((end[work], start[work], lane[work]))]
    late = _outlive_later_ones(columns, names, launched, work)
    counts["late_ends"] = int(np.count_nonzero(late))
    if not late.any():
        return columns, _long_tail_line(columns, names, work)
    fixed = _plausible_ends(columns["name"][work], start[work], end[work], late)
    lines = [_late_end_line(columns, names, work, at, int(fixed[at])) for at in np.flatnonzero(late)[:LINES].tolist()]
    more = counts["late_ends"] - len(lines)
    lines += [f"… and {more:,} more late ends"] if more else []
    end, rate = end.copy(), columns["bandwidth"].copy()
    end[work] = fixed
    # What it moved is known, and the recorded rate is of the wrong time.
    moved = work[late & (columns["bytes"][work] > 0) & (fixed > start[work])]
    rate[moved] = columns["bytes"][moved] / (end[moved] - start[moved])
    return {**columns, "end": end, "bandwidth": rate}, tuple(lines)


def _outlive_later_ones(columns: Columns, names: tuple[str, ...], launched: CallNames, work: Ints) -> Bools:
    """Mark the activities, ordered by stream and start, that end after one that began later has ended."""
    lane, end = columns["lane"][work], columns["end"][work]
    if len(work) < 2:
        return np.zeros(len(work), np.bool_)
    # Read from the back, the running minimum of the ends of each stream is that of what comes later.
    earliest = end.copy()
    begins = np.append(np.flatnonzero(first_of_runs(lane)), len(lane)).tolist()
    for first, past in pairwise(begins):
        earliest[first:past] = np.minimum.accumulate(end[first:past][::-1])[::-1]
    after = np.arange(1, len(work) + 1)
    outlives = _ends_before(lane, end, earliest, after)
    graph = np.flatnonzero(launched.named(work, GRAPH_LAUNCH_CALL))
    past = after.copy()
    if len(graph):
        # Branches of a graph may be shown on one stream: they are compared with what comes behind the graph.
        first, group = unique_rows(lane[graph], launched.call[work[graph]])
        last = np.zeros(len(first), np.int64)
        np.maximum.at(last, group, graph + 1)
        past[graph] = last[group]
    late = _ends_before(lane, end, earliest, past) | (outlives & _is_unusual(columns, work, outlives))
    if not late.any():
        return late
    name = columns["name"][work]
    late &= ~(columns["collective"][work] | launched.matches(name[late], COMMUNICATION_KERNEL)[name])
    count = np.bincount(lane, late)
    share = count / np.maximum(np.bincount(lane), 1)
    length = columns["end"][work] - columns["start"][work]
    overlaps = _overlaps_of_others(columns, work, late)
    has_branches = np.zeros(len(count), np.bool_)
    has_branches[lane[graph]] = True
    in_order = has_branches | (overlaps <= MOST_LATE * np.bincount(lane))
    few = (in_order & (share <= MOST_LATE))[lane]
    few |= ((overlaps == 0) & (count <= FEW_LATE))[lane] & _takes_many_times(name, length, late)
    found: Bools = late & few
    return found


def _overlaps_of_others(columns: Columns, work: Ints, late: Bools) -> Ints:
    """Count by stream how often an activity begins before the one before it ends, late ones left out."""
    others = work[~late]
    lane, start, end = (columns[key][others] for key in ("lane", "start", "end"))
    overlap = (lane[1:] == lane[:-1]) & (start[1:] < end[:-1] - LATE_END_NS)
    found: Ints = np.bincount(lane[1:][overlap], minlength=int(columns["lane"][work].max()) + 1)
    return found


def _takes_many_times(name: Ids, length: Ints, late: Bools) -> Bools:
    """Mark the activities that take many times as long as some others of their name whose ends are not late."""
    names = int(name.max()) + 1
    usual, alike = medians_by(name[~late], length[~late], names), np.bincount(name[~late], minlength=names)
    found: Bools = (alike >= FEWEST_ALIKE)[name] & (length >= MANY_TIMES * usual[name])
    return found


def _ends_before(lane: Ids, end: Ints, earliest: Ints, after: Ints) -> Bools:
    """Mark the activities that end after one that is at a later place of their stream."""
    later = np.minimum(after, len(lane) - 1)
    found: Bools = (after < len(lane)) & (lane[later] == lane) & (end - earliest[later] > LATE_END_NS)
    return found


def _is_unusual(columns: Columns, work: Ints, outlives: Bools) -> Bools:
    """Mark the activities that take many times as long as those of their name, of which hardly one outlives others."""
    name = columns["name"][work]
    found = np.zeros(len(work), np.bool_)
    if not outlives.any():
        return found
    length, names = columns["end"][work] - columns["start"][work], int(name.max()) + 1
    usual = medians_by(name[~outlives], length[~outlives], names)
    alike, odd = (np.bincount(name[chosen], minlength=names) for chosen in (~outlives, outlives))
    is_odd = (alike >= FEWEST_ALIKE) & (odd <= MOST_LATE * alike)
    found[outlives] = is_odd[name[outlives]] & (length[outlives] >= MANY_TIMES * usual[name[outlives]])
    return found


def _plausible_ends(name: Ids, start: Ints, end: Ints, late: Bools) -> Ints:
    """Return the ends: late ones where the stream's next activity begins, or after the usual time of their name."""
    found = end.copy()
    length = np.where(late, 0, end - start)
    usual = medians_by(name[~late], length[~late], int(name.max()) + 1).astype(np.int64)
    alike = np.bincount(name[~late], minlength=len(usual))
    # What begins at the same instant is no bound: it may be the same work, stamped twice.
    begins = np.append(np.flatnonzero(first_of_runs(start)), len(start))
    following = begins[np.searchsorted(begins, np.flatnonzero(late), side="right")]
    # One that a late end outlives began later on its stream, so that something follows.
    bound, own = start[following], name[late]
    found[late] = np.where(alike[own] >= FEWEST_ALIKE, np.minimum(bound, start[late] + usual[own]), bound)
    return found


def _long_tail_line(columns: Columns, names: tuple[str, ...], work: Ints) -> tuple[str, ...]:
    """Name an activity that ends after all else by more than all else takes, as none of its name does.

    Nothing follows it on its stream, so that nothing shows that its end is late: its length is kept.
    """
    start, end = columns["start"], columns["end"]
    if not len(work):
        return ()
    last = int(work[np.argmax(end[work])])
    if end[last] - start.max() <= start.max() - start.min():
        return ()  # as nearly always: what else there is takes longer
    others = np.arange(len(end)) != last
    first, past_others = int(start.min()), int(end.max(where=others, initial=start.min()))
    tail, same = int(end[last]) - past_others, work[(columns["name"][work] == columns["name"][last]) & others[work]]
    text = names[columns["name"][last]]
    waits = columns["collective"][last] or COMMUNICATION_KERNEL.match(text) is not None
    if tail <= past_others - first or waits or len(same) < FEWEST_ALIKE - 1:
        return ()
    name = shorten_middle(one_line(text), NAME_LENGTH)
    recorded, usual, past = (
        milliseconds(int(time)) for time in (end[last] - start[last], (end[same] - start[same]).max(), tail)
    )
    line = (
        f"{name} (event {columns['index'][last]}) is recorded with {recorded} ms, until {past} ms after everything "
        f"else; others of its name take up to {usual} ms, so its end may be stamped late"
    )
    return (line,)


def _late_end_line(columns: Columns, names: tuple[str, ...], work: Ints, at: int, fixed: int) -> str:
    """Name an activity whose end is late, what it seems to cover, and how long it is taken to last."""
    row, lane, start, end = int(work[at]), columns["lane"], columns["start"], columns["end"]
    later = work[at + 1 :]
    covered = int(np.count_nonzero((lane[later] == lane[row]) & (end[later] < end[row])))
    name = shorten_middle(one_line(names[columns["name"][row]]), NAME_LENGTH)
    recorded, taken = (milliseconds(int(until - start[row])) for until in (end[row], fixed))
    which = "1 later activity" if covered == 1 else f"{covered:,} later activities"
    return (
        f"{name} (event {columns['index'][row]}) is recorded with {recorded} ms, over {which} of its stream; "
        f"its end is stamped late, {taken} ms are used"
    )


OLD_PROCESS = re.compile(r"(?P<kind>[A-Z]\w{1,20}) functions")
"""The process of such rows: of the CPU or, for example, CUDA."""
OLD_ARROW = re.compile(r"cpu_to_\w{1,20}")
"""The category of arrows from operators to what they launched on a device."""

LaunchArrow = tuple[Any, int, str, bool]
"""An arrow's id, time (ns), name, and whether it starts there."""


def old_kinds(rows: Sequence[Any], places: Ints, kind: Codes) -> None:
    """Set the kinds of the rows at some places, which have no category, where their process says what they are."""
    for at in places.tolist():
        pid = rows[at].pid
        match = OLD_PROCESS.fullmatch(pid) if isinstance(pid, str) else None
        if match:
            kind[at] = EventKind.CPU_OP if match["kind"] == "CPU" else EventKind.KERNEL


def with_old_launches(events: EventTable, names: Sequence[str], arrows: Sequence[LaunchArrow]) -> EventTable:
    """Give operators and the kernels that they launched a common correlation, as the arrows say."""
    ends: dict[Any, list[LaunchArrow | None]] = defaultdict(lambda: [None, None])
    for arrow in arrows:
        ends[arrow[0]][0 if arrow[3] else 1] = arrow
    operators = _rows_by_place(events, names, EventKind.CPU_OP)
    kernels = _rows_by_place(events, names, EventKind.KERNEL)
    correlation = events.correlation.copy()
    for start, end in ends.values():
        operator = operators.get(start[1:3], -1) if start else -1
        kernel = kernels.get(end[1:3], -1) if end else -1
        if operator >= 0 and kernel >= 0:
            # One operator may launch several kernels.
            correlation[operator] = correlation[kernel] = operator + 1
    return replace(events, correlation=freeze(correlation))


def _rows_by_place(events: EventTable, names: Sequence[str], kind: EventKind) -> dict[tuple[int, str], int]:
    """Return the row that starts at each time (ns) under each name."""
    rows: Ids = np.flatnonzero(events.kind == kind).astype(np.int32)
    starts, own = events.start[rows].tolist(), events.name[rows].tolist()
    return {(start, names[name]): row for start, name, row in zip(starts, own, rows.tolist(), strict=True)}
