"""Launches that a file records only as arrows from calls to GPU activities: ``ac2g``, ``async_cpu_to_gpu``.

Some profilers leave out the correlation of GPU activities and draw the arrow all the same (pytorch#130560). An arrow
starts in the call and ends where the activity starts. Elsewhere correlations say the same, and arrows are not read: of
65,000 arrows of public traces none says anything else.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.columnize import start_times
from hta_graph.trace.decompress import open_text
from hta_graph.trace.json_reader import RowReader, has_plain_header
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.profiler_names import LAUNCH_ARROWS
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
    counts = {**trace.diagnostics, "launches_by_arrow": len(np.unique(activity))}
    return replace(trace, events=replace(events, correlation=freeze(correlation)), diagnostics=counts)


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
