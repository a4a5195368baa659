"""Launches that a file records without a correlation: as arrows from calls to activities, or by the kernel's name.

Some profilers leave out the correlation of GPU activities and draw the arrow (``ac2g``, ``async_cpu_to_gpu``) all the
same (pytorch#130560). An arrow starts in the call and ends where the activity starts. Elsewhere correlations say the
same, and arrows are not read: of 65,000 arrows of public traces none says anything else.

AMD's calls name the kernels that they launch. In files without correlations a call launched the kernel that has its
unique External id and that name. Elsewhere roctracer leaves the correlation 0 on some kernels, those of RCCL above all
(ROCm/roctracer#100, ROCm 6.1 and older): the calls are there, in the order in which the stream runs what they launched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from hta_graph.base.arrays import find_sorted, freeze
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.columnize import start_times
from hta_graph.trace.decompress import open_text
from hta_graph.trace.event_args import Objects, read_event_args
from hta_graph.trace.json_reader import RowReader, has_plain_header
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.profiler_names import AMD_CALL, KERNEL_OF_CALL, LAUNCH_ARROWS
from hta_graph.trace.table import Trace, lane_ids
from hta_graph.trace.timestamps import INVALID, base_time

ArrowEnd = tuple[int, Any, Any]
"""Where an arrow starts or ends: a time (ns), and the ids of its process and thread as printed."""


def match_launches_by_arrows(trace: Trace) -> Trace:
    """Give activities without a correlation that of the call from which an arrow leads to them; count them.

    Arrows are read only where the file has launch calls, and activities without a correlation.

    Raises:
        TraceError: the file is gone or has changed.
    """
    events = trace.events
    nameless = np.flatnonzero(trace.is_gpu & (events.correlation <= 0))
    calls = np.flatnonzero(events.kind == EventKind.RUNTIME)
    if not len(nameless) or not len(calls):
        return trace
    pairs = _pairs_of_ends(trace)
    if not pairs:
        return trace
    activity = _rows_at(trace, nameless.astype(np.int32), [end for _, end in pairs])
    call = _rows_at(trace, calls.astype(np.int32), [start for start, _ in pairs])
    found = (activity >= 0) & (call >= 0)
    activity, call = activity[found], call[found]
    correlation = events.correlation.copy()
    # A call that has no number either gets one that no other row has.
    unnumbered = np.unique(call[correlation[call] <= 0])
    correlation[unnumbered] = max(int(correlation.max(initial=0)), 0) + 1 + np.arange(len(unnumbered))
    correlation[activity] = correlation[call]
    return _with_launches(trace, correlation, "launches_by_arrow", len(np.unique(activity)))


def _pairs_of_ends(trace: Trace) -> list[tuple[ArrowEnd, ArrowEnd]]:
    """Read the launch arrows of the file: where each starts and ends; of merged ranks those of this one.

    Ids are unique within a recording only.
    """
    starts: defaultdict[Any, list[ArrowEnd]] = defaultdict(list)
    ends: list[tuple[Any, ArrowEnd]] = []
    own, first = trace.recording, 0
    with paused_gc(), open_text(trace.path, has_plain_header) as content:
        reader = RowReader(trace.path, content, salvage=trace.salvaged is not None)
        for part in reader:
            arrows = [at for at, row in enumerate(part.rows) if row.ph in ("s", "f") and row.cat in LAUNCH_ARROWS]
            times = start_times(part, exact=not part.tolerant) if arrows else np.empty(0, np.int64)
            for at in arrows:
                row, time = part.rows[at], int(times[at])
                if time == INVALID or (own and not own.owns(first + at, row.pid)):
                    continue
                if row.ph == "s":
                    starts[row.id].append((time, row.pid, row.tid))
                else:
                    ends.append((row.id, (time, row.pid, row.tid)))
            first += len(part.rows)
            del part
        base = base_time(reader.facts.header.base) or 0
    for same in starts.values():
        same.sort(key=itemgetter(0))
    return [(_with_base(_start_of(starts[key], end), base), _with_base(end, base)) for key, end in ends if starts[key]]


def _start_of(starts: list[ArrowEnd], end: ArrowEnd) -> ArrowEnd:
    """Return where an arrow starts: of several with its id, in order of time, the latest before its end."""
    time = starts[max(bisect_right(starts, end[0], key=itemgetter(0)) - 1, 0)][0]
    return starts[bisect_left(starts, time, key=itemgetter(0))]


def _with_base(end: ArrowEnd, base: int) -> ArrowEnd:
    return end[0] + base, *end[1:]


def _rows_at(trace: Trace, rows: Ids, ends: list[ArrowEnd]) -> Ids:
    """Find the row that starts where each arrow ends; of several at one time the one on the arrow's lane; -1: none."""
    start, lane = trace.events.start[rows], trace.events.lane[rows]
    order = np.argsort(start, kind="stable")
    times = np.array([time for time, _, _ in ends], np.int64)
    first, past = (np.searchsorted(start[order], times, side=side) for side in ("left", "right"))
    known: dict[tuple[Any, Any], frozenset[int]] = {}
    found = np.full(len(ends), -1, np.int32)
    for at, (_, pid, tid) in enumerate(ends):
        here: Ints = order[first[at] : past[at]]
        if len(here) > 1:
            if (pid, tid) not in known:
                known[pid, tid] = lane_ids(trace.lanes, pid, tid)
                if trace.recording:  # a device stands in the process id, with what the merger added
                    known[pid, tid] |= lane_ids(trace.lanes, trace.recording.unmerged(pid), tid)
            here = here[np.isin(lane[here], list(known[pid, tid]))]
        if len(here) == 1:
            found[at] = rows[here[0]]
    return found


def match_launches_by_kernel_name(trace: Trace) -> Trace:
    """Give calls and the kernels of the name that they record a common correlation, where the file has none.

    The number of launches so found is among the diagnostics, and their edges are inferred.

    Raises:
        TraceError: the file is gone or has changed.
    """
    if not len(trace.events):
        return trace
    return _in_order(trace) if (trace.events.correlation > 0).any() else _by_external_id(trace)


def _with_kernel_names(trace: Trace, calls: Ints) -> tuple[Ints, Objects]:
    """Return those of some calls that name a kernel, and its name."""
    small, capital = read_event_args(trace, KERNEL_OF_CALL, calls, has_header=False).arguments.values()
    named = np.where(small != None, small, capital)  # noqa: E711 - a column
    launches = np.array([name is not None for name in named.tolist()], np.bool_)
    return calls[launches], named[launches]


def _in_order(trace: Trace) -> Trace:
    """Pair the kernels without a correlation of each name with the calls of that name whose kernel is not in the file.

        thread     [call a]   [call b]              [call c]
        stream 2        [kernel a]    [kernel b]         [kernel c]      one stream runs them in order
                   |<-- set 1: b is issued before a starts --->|<--- set 2: when c is issued, all before has started

    Kernels that ran before the first call are those of earlier ones, and calls behind the last kernel are of later
    ones; for the rest both must be equal in number, no kernel may start before its call, and the kernels of a set must
    be those of one stream: of several it is not known whose call came first.
    """
    events = trace.events
    lost = np.flatnonzero((events.kind == EventKind.KERNEL) & (events.correlation <= 0))
    is_amd = trace.names_starting_with(AMD_CALL, EventKind.RUNTIME)[events.name]
    calls = (
        np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.correlation > 0) & is_amd) if len(lost) else lost
    )
    calls = calls[~np.isin(events.correlation[calls], events.correlation[trace.is_gpu])]
    if not len(calls):
        return trace
    calls, named = _with_kernel_names(trace, calls)
    codes = {trace.names[code]: code for code in np.unique(events.name[lost]).tolist()}
    of_call = np.array([codes.get(str(name), -1) for name in named.tolist()], np.int64)
    correlation, numbers = events.correlation.copy(), list[int]()
    for code in np.unique(of_call[of_call >= 0]).tolist():
        call, kernel = _pairs_in_order(trace, calls[of_call == code], lost[events.name[lost] == code])
        correlation[kernel] = correlation[call]
        numbers += correlation[call].tolist()
    return _with_launches(
        trace, correlation, "launches_by_order", len(numbers), launches_by_order=tuple(sorted(numbers))
    )


def _pairs_in_order(trace: Trace, calls: Ints, kernels: Ints) -> tuple[Ints, Ints]:
    """Return which of some calls launched which of some kernels, both in order of time, as far as that is sure."""
    start, lane = trace.events.start, trace.events.lane
    kernels = kernels[start[kernels] >= start[calls[0]]]
    calls = calls[start[calls] <= start[kernels].max(initial=start[calls[0]] - 1)]
    if not len(calls) or len(calls) != len(kernels) or (start[kernels] < start[calls]).any():
        return calls[:0], kernels[:0]
    begins = np.append(0, np.flatnonzero(start[kernels[:-1]] <= start[calls[1:]]) + 1)
    own = lane[kernels]
    is_one_stream = np.minimum.reduceat(own, begins) == np.maximum.reduceat(own, begins)
    sure = np.repeat(is_one_stream, np.diff(np.append(begins, len(own))))
    return calls[sure], kernels[sure]


def _by_external_id(trace: Trace) -> Trace:
    """Pair calls and kernels by an External id.

    External ids are those of operators, which may launch several kernels: an id counts where one kernel and one of the
    calls that name a kernel have it, and it is that kernel's name.
    """
    events = trace.events
    calls: Ints = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.external_id > 0))
    kernels = np.flatnonzero((events.kind == EventKind.KERNEL) & (events.external_id > 0))
    if not len(calls) or not len(kernels):
        return trace
    calls, named = _with_kernel_names(trace, calls)
    first, kernels = _unique_rows(events.external_id[calls]), kernels[_unique_rows(events.external_id[kernels])]
    calls, named = calls[first], named[first]
    place = find_sorted(events.external_id[calls], events.external_id[kernels])
    same = np.array(
        [at >= 0 and name == trace.name_of(kernels[at]) for at, name in zip(place, named, strict=True)], bool
    )
    correlation = events.correlation.copy()
    for rows in (calls[same], kernels[place[same]]):
        correlation[rows] = events.external_id[rows]
    return _with_launches(trace, correlation, "launches_by_external_id", int(np.count_nonzero(same)))


def _with_launches(trace: Trace, correlation: Ints, counted_as: str, count: int, **more: Any) -> Trace:
    counts = {**trace.diagnostics, counted_as: count}
    return replace(trace, events=replace(trace.events, correlation=freeze(correlation)), diagnostics=counts, **more)


def _unique_rows(ids: Ints) -> Ints:
    """Return the rows of the ids that occur once, by id.

    >>> _unique_rows(np.array([7, 5, 7, 3])).tolist()
    [3, 1]
    """
    _, first, count = np.unique(ids, return_index=True, return_counts=True)
    unique: Ints = first[count == 1]
    return unique
