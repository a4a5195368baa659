"""Facts that rules need about a path: times by class, GPU work, places in the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from analyses.display.sentence_format import time_and_share
from analyses.source.window_facts import WindowFacts
from hta_graph.base.arrays import distinct, first_of_runs, last_of_runs, run_numbers, split_intervals, summed_by
from hta_graph.base.errors import DefectError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.event_names import row_labels, time_by_open_name, wrapped_frames
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.gpu_activity import Activities, activities
from hta_graph.paths.host_pauses import PAUSE_NS, rows_by_pauses, time_in_pauses
from hta_graph.paths.intervals import Intervals, union, union_of
from hta_graph.paths.start_up import time_in_start_up
from hta_graph.paths.unrecorded_work import unrecorded_times
from hta_graph.paths.windows import Window
from hta_graph.what_if.bounds import Bounds, priced_window

NOTABLE_SHARE = 0.05
"""Advice about less than this share of a window is not given: steps of one program differ by as much."""

UNRECORDED_SHARE = 0.1
"""From this share of unexplained time on, answers say first what to record: any cause could be the largest."""

TINY_KERNEL_NS = 10_000
"""A kernel below 10 µs takes little longer than its own start and end (3 to 5 µs on current GPUs)."""

DOMINANT_SHARE = 0.8
"""A rank is named where at least this share of a time is its."""

RAISES = False
"""Whether a sentence that says more than rows allow is an error: tests set this; else it says "at most"."""

NAMES_LISTED = 3
"""How many names evidence lists."""

HOST_CLASSES = (BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.DATA_LOADING)
"""The classes of time in which the path is on a CPU thread, in recorded work or in none."""


class LostTime(NamedTuple):
    """A time (ns) that is lost, and whether it is cut to what rows allow."""

    ns: int
    is_cut: bool


class PathFacts:
    """A path and facts about it, each computed once on first use."""

    def __init__(self, path: CriticalPath, answers: dict[Callable[[Any], Any], Any] | None = None) -> None:
        self.path = path
        self.answers: dict[Callable[[Any], Any], Any] = {} if answers is None else answers
        """Results that several rules share."""

    @staticmethod
    def of(path: CriticalPath) -> PathFacts:
        """Return the facts about a path; those that are known are kept with it."""
        return PathFacts(path, path.answers.setdefault(PathFacts, {}))

    @property
    @memoized
    def of_window(self) -> WindowFacts:
        """What the graph knows of the window."""
        return WindowFacts.of(self.path.window, self.graph)

    @property
    def graph(self) -> DependencyGraph:
        """The graph of the path."""
        return self.path.graph

    @property
    def length_ns(self) -> int:
        """The window's length; 1 for an empty one, so that shares exist."""
        return max(self.path.length_ns, 1)

    def share(self, ns: int) -> float:
        """Return the share of the window."""
        return ns / self.length_ns

    def main_rank(self, chosen: Bools) -> int | None:
        """Return the rank of a job that four fifths of some pieces are on; none without one, or of a single rank."""
        parts = self.graph.rank_graphs
        sums = summed_by(self.path.segment_table.part[chosen], self.lengths[chosen], len(parts))
        most = int(sums.argmax())
        is_one = len(parts) > 1 and sums[most] >= DOMINANT_SHARE * sums.sum() > 0
        return parts[most].rank if is_one else None

    def is_notable(self, ns: int, least: float = NOTABLE_SHARE) -> bool:
        """Return whether a time is a notable share of the window."""
        return ns >= least * self.length_ns and ns > 0

    @property
    def is_largely_unexplained(self) -> bool:
        """Whether the next recording matters more than anything that this one shows."""
        return self.is_notable(self.path.by_bound_ns[BoundBy.UNEXPLAINED.label], UNRECORDED_SHARE)

    # -- what savings are of, and what rows allow ----------------------------------------------------------------------

    @property
    @memoized
    def priced(self) -> Bounds:
        """What changes save at most of what the user pays for: of a step its iteration, else the path's window."""
        return Bounds.of(self.graph, self.priced_window)

    @property
    @memoized
    def priced_window(self) -> Window:
        """The window that savings are of."""
        return priced_window(self.graph, self.path.window)

    @property
    def prices_iteration(self) -> bool:
        """Whether savings are of an iteration while the path is of another window, such as a latency."""
        return self.priced_window != self.path.window

    @property
    @memoized
    def bounds(self) -> Bounds:
        """What the rows of the path's own window allow, whose times sentences report."""
        return Bounds.of(self.graph, self.path.window) if self.prices_iteration else self.priced

    def is_worth(self, ns: int) -> bool:
        """Return whether a saving is a notable share of what savings are of."""
        return ns >= NOTABLE_SHARE * self.priced.length_ns and ns > 0

    def saving(self, ns: int) -> str:
        """Print a saving with its share of what savings are of."""
        return time_and_share(ns, self.priced.length_ns, " of the iteration" * self.prices_iteration)

    def saving_of(self, ns: int) -> str:
        """Print a saving with its bare share of what savings are of, which the sentence names."""
        return time_and_share(ns, self.priced.length_ns)

    @property
    def priced_name(self) -> str:
        """What savings are of."""
        window = self.priced_window
        if window.step is None:
            return "the window"
        return "the iteration" if window.form == "gpu" else "the step"

    def lost(self, ns: int, bound_ns: int) -> LostTime:
        """Return a time that is lost: "at most" its bound, where rows allow no more.

        Raises:
            DefectError: it exceeds its bound, and :data:`RAISES` asks for that.
        """
        if ns > bound_ns and RAISES:
            raise DefectError(f"{self.graph.path}: a sentence says {ns} ns, and rows allow {bound_ns} ns")
        return LostTime(min(ns, bound_ns), ns > bound_ns)

    # -- the path's pieces ---------------------------------------------------------------------------------------------

    def segments_in_classes(self, *classes: BoundBy) -> Bools:
        """Mark the pieces of some classes."""
        bound = self.path.segment_table.bound
        found = np.zeros(len(bound), np.bool_)
        for wanted in classes:
            found |= bound == wanted
        return found

    def owned_by(self, rows: Bools) -> Bools:
        """Mark the pieces that some of all events own."""
        owner = self.path.segment_table.event
        return rows[owner] & (owner >= 0) if len(rows) else np.zeros(len(owner), np.bool_)

    @property
    @memoized
    def lengths(self) -> Ints:
        """How long each piece is (ns)."""
        return self.path.segment_table.length

    @property
    @memoized
    def pause_times(self) -> Ints:
        """How long each piece is work of the host, in operators or in none, in a pause between launching calls (ns)."""
        return self._of_host(time_in_pauses)

    @property
    @memoized
    def start_up_times(self) -> Ints:
        """How long each piece is work of the host that it does once: no later iteration repeats it (ns)."""
        return self._of_host(time_in_start_up)

    def _of_host(self, time_in: Callable[[DependencyGraph, Ids, Ints, Ints], Ints]) -> Ints:
        """Return how much (ns) of each piece that is work of the host lies in some of its thread's time."""
        pieces, found = self.path.segment_table, np.zeros(len(self.lengths), np.int64)
        rows = np.flatnonzero(self.segments_in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP))
        own = pieces.take(rows)
        found[rows] = time_in(self.graph, own.lane, own.start, own.end)
        return found

    @property
    def repeated(self) -> Bools:
        """The pieces that are not mostly start-up."""
        return 2 * self.start_up_times <= self.lengths

    def pauses_of(self, chosen: Bools) -> tuple[Ints, Ints]:
        """Return how long some pieces are in each pause in which they are for more than 1 ms, and when it ends (ns).

        Devices may pause at the same time: a piece is in a pause of the one that its thread launches to.
        """
        places, found = np.flatnonzero(chosen & (self.pause_times > 0)), [np.zeros((2, 0), np.int64)]
        for pauses, rows in rows_by_pauses(self.graph, self.path.segment_table.lane[places]):
            mine = np.zeros(len(chosen), np.bool_)
            mine[places[rows]] = True
            when = self.intervals_of(mine)
            inside = when.covered_until(pauses.end) - when.covered_until(pauses.start)
            found.append(np.array([inside, pauses.end])[:, inside > PAUSE_NS])
        times, ends = np.concatenate(found, axis=1)
        return times, ends

    def time_of(self, chosen: Bools) -> int:
        """Add up some pieces (ns)."""
        return int(self.lengths[chosen].sum())

    def on_path(self, activities: Ids) -> Ints:
        """Return how long the path is on each of some GPU activities while they run (ns)."""
        pieces = self.path.segment_table
        classes = (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_COMMUNICATION_BOUND, BoundBy.GPU_MEMORY_BOUND)
        runs = self.segments_in_classes(*classes) & (pieces.event >= 0)
        return summed_by(pieces.event[runs], self.lengths[runs], len(self.graph.event_table))[activities]

    def intervals_of(self, chosen: Bools) -> Intervals:
        """Return when some pieces are; they tile the window, and so neighbours touch."""
        pieces = self.path.segment_table
        return Intervals(pieces.start[first_of_runs(chosen) & chosen], pieces.end[last_of_runs(chosen) & chosen])

    def class_ns(self, *classes: BoundBy) -> int:
        """Return the time of some classes (ns)."""
        return sum(self.path.by_bound_ns[bound.label] for bound in classes)

    @property
    @memoized
    def host_ns(self) -> int:
        """How long the path is on the host (ns)."""
        return self.class_ns(*HOST_CLASSES)

    def largest_names(self, chosen: Bools) -> list[tuple[str, int, int]]:
        """Return the names that own most of some pieces: name, time (ns), number of events."""
        pieces, (codes, texts) = self.path.segment_table, row_labels(self.graph)
        rows = np.flatnonzero(chosen & (pieces.event >= 0))
        event = wrapped_frames(self.graph)[pieces.event[rows]]
        code = codes[event]
        sums = summed_by(code, self.lengths[rows], len(texts))
        largest = np.argsort(-sums, kind="stable")[:NAMES_LISTED]
        return [(texts[at], int(sums[at]), len(distinct(event[code == at]))) for at in largest.tolist() if sums[at]]

    def name_around(self, chosen: Bools, times: Ints) -> str | None:
        """Name the innermost operator, else frame, else annotation that is open in most of some pieces' times (ns)."""
        for kinds in ((EventKind.CPU_OP,), (EventKind.PYTHON_FUNCTION,), (EventKind.ANNOTATION,)):
            found = self.open_most(chosen, times, kinds)
            if found is not None and not is_step(found[0]):
                return found[0]
        return None

    def open_most(self, chosen: Bools, times: Ints, kinds: tuple[EventKind, ...]) -> tuple[str, int] | None:
        """Return the innermost name of some kinds that is open in most of some pieces' times, and how long (ns).

        Wrappers are open as long as what they wrap.
        """
        rows = np.flatnonzero(chosen & (times > 0))
        nesting, pieces = self.graph.nesting(*kinds), self.path.segment_table
        innermost = nesting.open_at(pieces.lane[rows], pieces.start[rows])
        events, count = self.graph.event_table, len(self.graph.names)
        sums, first_level = time_by_open_name(nesting.parent, events.name, innermost, times[rows], count)
        wraps = np.zeros(count, np.bool_)
        wraps[events.name[self.graph.event_flags.wrapper_frame]] = True
        most = np.flatnonzero((2 * sums > times[rows].sum()) & ~wraps)
        if not len(most):
            return None
        code = int(most[np.lexsort((first_level[most], sums[most]))[0]])
        return self.graph.names[code], int(sums[code])

    def largest_records(self, chosen: Bools) -> list[dict[str, Any]]:
        """Return :meth:`largest_names` as evidence lists them."""
        return [{"name": name, "time_ns": ns, "count": count} for name, ns, count in self.largest_names(chosen)]

    @property
    @memoized
    def other_threads_ns(self) -> int:
        """How much of the path's silence other threads fill with operators or collectives of Gloo (ns)."""
        events, silent = self.graph.event_table, self.segments_in_classes(BoundBy.CPU_GAP)
        busy = self.graph.event_flags.gloo_collective | (events.kind == EventKind.CPU_OP)
        lanes = distinct(self.path.segment_table.lane[silent])
        # A thread that is silent has no operator open: its own ones, mostly nearly all, need not be looked at.
        if len(lanes) == 1:
            busy &= events.lane != lanes[0]
        return self.time_during(silent, busy)

    def time_during(self, chosen: Bools, rows: Bools) -> int:
        """Return how much of some pieces lies inside any of some events of their rank (ns)."""
        return int(self.times_during(chosen, rows).sum())

    def times_during(self, chosen: Bools, rows: Bools) -> Ints:
        """Return of each piece how much of it lies inside any of some events of its rank (ns), if it is chosen."""
        events, pieces, found = self.graph.event_table, self.path.segment_table, np.zeros(len(chosen), np.int64)
        marked = np.flatnonzero(rows)
        part = self.graph.rank_index_of(marked)
        for place in range(len(self.graph.rank_graphs)):
            own, here = marked[part == place], chosen & (pieces.part == place)
            inside = union(events.start[own], events.end[own])
            found[here] = inside.covered_until(pieces.end[here]) - inside.covered_until(pieces.start[here])
        return found

    # -- the GPU's work ------------------------------------------------------------------------------------------------

    @property
    @memoized
    def work(self) -> Activities:
        """The GPU activities that run in the window, cut to it; of a job while the path is on their rank."""
        every, window = activities(self.graph), self.path.window
        inside = every.take((every.end > window.start_ns) & (every.start < window.end_ns))
        if self.graph.is_job:
            return self._on_rank_of_path(inside)
        start, end = (times.clip(window.start_ns, window.end_ns) for times in (inside.start, inside.end))
        return Activities(inside.row, start, end, inside.lane, inside.type, inside.call)

    def _on_rank_of_path(self, every: Activities) -> Activities:
        """Cut activities to the times in which the path is on their rank: other GPUs' work does not matter."""
        part, pieces, found = self.graph.rank_index_of(every.row), self.path.segment_table, []
        for place in range(len(self.graph.rank_graphs)):
            when, own = self.intervals_of(pieces.part == place), every.take(part == place)
            row, start, end = split_intervals(own.start, own.end, np.sort(np.concatenate([when.start, when.end])))
            on_path = when.covered_until(end) > when.covered_until(start)
            found.append(replace(own.take(row), start=start, end=end).take(on_path))
        joined = Activities.join(found)
        return joined.take(np.lexsort((joined.start, joined.row)))

    @property
    @memoized
    def has_gpu_rows(self) -> bool:
        """Whether the trace holds anything that a GPU did."""
        return bool(self.graph.is_gpu.any())

    @property
    @memoized
    def busy(self) -> Intervals:
        """When the GPU works on anything."""
        return self.work.busy()

    def gpu_busy_during(self, chosen: Bools) -> Ints:
        """Return for how long the GPU works during each of some pieces (ns)."""
        pieces = self.path.segment_table
        return self.busy.covered_until(pieces.end[chosen]) - self.busy.covered_until(pieces.start[chosen])

    def largest_work_during(self, chosen: Bools) -> list[tuple[str, int]]:
        """Return the names of what the GPU works on most during some pieces, and for how long (ns)."""
        when, work, (codes, texts) = self.intervals_of(chosen), self.work, row_labels(self.graph)
        inside = when.covered_until(work.end) - when.covered_until(work.start)
        sums = summed_by(codes[work.row], inside, len(texts))
        largest = np.argsort(-sums, kind="stable")[:NAMES_LISTED]
        return [(texts[at], int(sums[at])) for at in largest.tolist() if sums[at]]

    @property
    @memoized
    def gpu_idle_ns(self) -> int:
        """How long the GPU is known to have nothing to do."""
        return self.path.length_ns - self.busy_or_unknown.total

    @property
    @memoized
    def busy_or_unknown(self) -> Intervals:
        """When the GPU works on anything, or may work on what has no row: it is idle at no other time."""
        return union_of([self.busy, self._unrecorded])

    @property
    def not_recorded_ns(self) -> int:
        """For how long work may run that has no row."""
        return self._unrecorded.total

    @property
    @memoized
    def _unrecorded(self) -> Intervals:
        """When work may run that has no row; of a job while the path is on its rank."""
        window, pieces = self.path.window, self.path.segment_table
        every = [unrecorded_times(part.graph).clip(window.start_ns, window.end_ns) for part in self.graph.rank_graphs]
        if self.graph.is_job:
            every = [times.both(self.intervals_of(pieces.part == place)) for place, times in enumerate(every)]
        return union_of(every)

    @property
    @memoized
    def busiest_stream_idle_ns(self) -> int:
        """How long the busiest stream, of a job that of the path's rank, has nothing to do.

        A faster host saves no more, since a stream is serial. What may have run and has no row is none of it.

        Communication counts as work: that it waits for other ranks would not change.
        """
        work = self.work
        totals = np.zeros(len(self.graph.rank_graphs), np.int64)
        for lane in distinct(work.lane).tolist():
            own = work.lane == lane
            place = self.graph.rank_index_of(work.row[own][:1])
            totals[place] = np.maximum(totals[place], union(work.start[own], work.end[own]).total)
        return max(self.path.length_ns - int(totals.sum()) - self._unrecorded.total, 0)

    # -- where in the program ------------------------------------------------------------------------------------------

    @property
    @memoized
    def has_stacks(self) -> bool:
        """Whether the trace holds Python frames."""
        return bool((self.graph.event_table.kind == EventKind.PYTHON_FUNCTION).any())

    def event_mask(self, rows: Ids) -> Bools:
        """Mark some events by their rows (-1: none)."""
        marks = np.zeros(len(self.graph.event_table), np.bool_)
        marks[rows[rows >= 0]] = True
        return marks

    def operators_around(self, calls: Ids) -> list[Ids]:
        """Return the operators around calls, level by level outwards; -1 where none is left."""
        around, levels = self.graph.operator_around, [self.graph.operator_around[calls]]
        while (levels[-1] >= 0).any():
            levels.append(np.where(levels[-1] >= 0, around[levels[-1]], -1).astype(np.int32))
        return levels[:-1]

    def site_of(self, call: int) -> str:
        """Say where in the program a call stands: the user's line of Python if recorded, else the operators."""
        levels = self.operators_around(np.array([call], np.int32))
        operators = [self.graph.name_of(int(level[0])) for level in reversed(levels)]
        # The way down is short enough to be read; a repeated name says nothing new.
        inner = " > ".join(dict.fromkeys(operators)) or self.graph.name_of(call)
        frame = self._user_frame(call)
        return f"{frame}, {inner}" if frame else inner

    def _user_frame(self, call: int) -> str:
        """Return the innermost Python frame around a call that is the program's own, not PyTorch's or built in."""
        if not self.has_stacks:
            return ""
        frames = self.graph.nesting(EventKind.PYTHON_FUNCTION)
        at = int(self.graph.enclosing(np.array([call], np.int32), EventKind.PYTHON_FUNCTION)[0])
        while at >= 0 and not self.graph.event_flags.own_frame[at]:
            at = int(frames.parent[at])
        return self.graph.name_of(at) if at >= 0 else ""

    def sites(self, calls: Ids, times: Ints, count: int = 3) -> list[dict[str, Any]]:
        """Add up times (ns) by the place of their calls: the largest places as evidence lists them."""
        if not len(calls):
            return []
        levels: Sequence[Ids] = [calls, *self.operators_around(calls)]
        if self.has_stacks:
            levels = [*levels, self.graph.enclosing(calls, EventKind.PYTHON_FUNCTION)]
        names = np.append(self.graph.event_table.name, -1)
        columns = [names[level] for level in levels]
        order = np.lexsort(columns)
        run = run_numbers(*(column[order] for column in columns))
        group = np.empty(len(calls), np.int64)
        group[order] = run
        first = order[np.flatnonzero(np.diff(run, prepend=-1))]
        sums, number = summed_by(group, times, len(first)), np.bincount(group)
        found: dict[str, list[int]] = {}
        for at in np.argsort(-sums, kind="stable")[: 4 * count].tolist():
            total = found.setdefault(self.site_of(int(calls[first[at]])), [0, 0])
            total[0] += int(number[at])
            total[1] += int(sums[at])
        ordered = sorted(found.items(), key=lambda item: -item[1][1])[:count]
        return [{"site": site, "calls": calls_there, "time_ns": ns} for site, (calls_there, ns) in ordered]
