"""Bounds: what a change of each kind saves of a window at most, straight from its rows and never from a path.

A path is one way to explain a window; rows are what was recorded. So no claim about a saving exceeds its bound:

    saves_ns <= saves_at_most_ns <= bound_ns

stream 7    [gemm ====]......[gemm ===========]..........[gemm ===]
stream 20        [all-reduce ======]
no computation          |---|                  |--------|              the host saves no more than this
exposed                 |---|                                          communication saves no more than this

A GPU that works on one thing is taken to have no room for another: what would run on two streams at once, where only
one of them runs now, is not promised. Of a job, where ranks wait in communication they are idle; each rank's own work
stays, so that of all ranks the least idle one bounds what hosts save. What is exposed on any rank is exposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.base.arrays import distinct
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import CPU_KINDS, Bools, EventKind, Floats, Ids, Ints, kind_mask
from hta_graph.paths.gpu_activity import Activities, WorkType, activities, exposure
from hta_graph.paths.host_pauses import device_launches
from hta_graph.paths.intervals import Intervals, union, union_of
from hta_graph.paths.unrecorded_work import unrecorded_times
from hta_graph.paths.windows import Window, WindowQuery, step
from hta_graph.what_if.driver_lock import waits_for_lock

if TYPE_CHECKING:
    from hta_graph.what_if.modified_window import ModifiedWindow
    from hta_graph.what_if.replay_graph import ReplayGraph


def priced_window(graph: DependencyGraph, window: Window) -> Window:
    """Return the window that savings are of: of a step the iteration, which the run consists of; else the window.

    Without rows of a GPU that is the step itself. An iteration is empty where an earlier step's work ends later: then
    savings are of the window, too.
    """
    if window.step is None or window.form == "gpu" or not graph.is_gpu.any():
        return window
    try:
        found = step(window.step, gpu_window=True)(graph)
    except QueryError:
        return window
    is_same = (found.start_ns, found.end_ns) == (window.start_ns, window.end_ns)
    return replace(window, is_iteration=True) if is_same else replace(found, is_default=window.is_default)


def priced_query(window: WindowQuery) -> WindowQuery:
    """Ask for the window that savings are of, unless a step's time on the CPU was asked for."""

    def resolve(graph: DependencyGraph) -> Window:
        found = window(graph)
        return found if found.form == "cpu" else priced_window(graph, found)

    return WindowQuery(window.asked, resolve, by_rows=False)


OVERLAPPING: Mapping[WorkType, Sequence[WorkType]] = {
    WorkType.COMPUTATION: (WorkType.COMPUTATION,),
    WorkType.COMMUNICATION: (WorkType.COMMUNICATION, WorkType.COMPUTATION),
    WorkType.MEMORY: (WorkType.MEMORY, WorkType.COMMUNICATION, WorkType.COMPUTATION),
}
"""What work of a kind is hidden by: what runs at the same time anyway, and would take its place."""


@dataclass(frozen=True)
class Bounds:
    """What changes save at most of the time [start, end) (ns) of one rank's graph or of a job's.

    Times of the window: ``gpu_idle_ns``, ``not_recorded_ns``, ``not_computing_ns``, ``between_launches_ns``,
    ``pauses_ns``, ``launching_ns``. Bounds of claims, by what changes: ``host_ns`` (anything the host does),
    ``running_ahead_ns`` (no waits), ``faster_launches_ns``, ``shorter_pauses_ns``, ``communication_ns``,
    ``no_communication_ns``, ``overlap_ns``, ``copies_ns``,
    :meth:`data_loading_ns`, :meth:`of_host_rows`, :meth:`of_work`, :meth:`of_rank`, :meth:`of_draft`. Every bound is at
    most ``length_ns``.
    """

    graph: DependencyGraph
    start_ns: int
    end_ns: int
    host_start_ns: int
    """From when on what the host does is the window's: of an iteration since its step begins, as the host is ahead."""
    is_iteration: bool = False

    @classmethod
    def of(cls, graph: DependencyGraph, window: Window) -> Bounds:
        """Return the bounds of a window."""
        begins, is_iteration = min(window.start_ns, window.cpu_span[0]), window.form == "gpu" or window.is_iteration
        return cls(graph, window.start_ns, window.end_ns, begins, is_iteration)

    @property
    def length_ns(self) -> int:
        """The length of the window."""
        return self.end_ns - self.start_ns

    # -- what the rows show --------------------------------------------------------------------------------------------

    @cached_property
    def _work(self) -> list[Activities]:
        """The GPU activities of each rank, cut to the window; of communication only what follows its waiting."""
        every, graph = activities(self.graph), self.graph
        start = np.maximum(every.start, graph.waited_until(every.row)).clip(self.start_ns, self.end_ns)
        end = every.end.clip(self.start_ns, self.end_ns)
        part, kept = graph.rank_index_of(every.row), end > start
        cut = Activities(every.row, start, end, every.lane, every.type, every.call)
        return [cut.take(kept & (part == one.index)) for one in graph.rank_graphs]

    @cached_property
    def _unrecorded(self) -> list[Intervals]:
        """When work of each rank may have run that has no row: that was not idle, and nothing is gained from it."""
        every = (unrecorded_times(part.graph) for part in self.graph.rank_graphs)
        return [times.clip(self.start_ns, self.end_ns) for times in every]

    @cached_property
    def not_recorded_ns(self) -> int:
        """For how long work may have run that has no row, on the rank where that is longest."""
        return max((times.total for times in self._unrecorded), default=0)

    @property
    def has_gpu_rows(self) -> bool:
        """Whether anything that a GPU did was recorded, in the window or not."""
        return bool(self.graph.is_gpu.any())

    @cached_property
    def gpu_idle_ns(self) -> int:
        """How long no stream runs anything that is known, waiting for other ranks aside.

        Without rows of a GPU that is all of the window; what may have run and was not recorded is none of it.
        """
        return self._time_without()

    @cached_property
    def not_computing_ns(self) -> int:
        """How long the GPU computes nothing: it is idle, or only communicates or copies."""
        return self._time_without(WorkType.COMPUTATION)

    def _time_without(self, *kinds: WorkType) -> int:
        """Return how long (ns) no work of some kinds runs, or of any, on the rank where that is shortest."""
        return min(
            (
                self.length_ns - union_of([work.busy(*kinds), unknown]).total
                for work, unknown in zip(self._work, self._unrecorded, strict=True)
                if len(work) or len(unknown.start)
            ),
            default=self.length_ns,
        )

    @cached_property
    def computing_ns(self) -> int:
        """How long any stream computes, of a job on the rank that computes longest."""
        return max((work.busy(WorkType.COMPUTATION).total for work in self._work if len(work)), default=0)

    @cached_property
    def between_launches_ns(self) -> int:
        """How long the host is in no launching call; without rows of a GPU how long anything runs on threads, or loads.

        PyTorch records loading as an annotation, which has rows inside only if they are recorded, too.
        """
        if not self.has_gpu_rows:
            runs = kind_mask(self.graph.event_table.kind, (*CPU_KINDS, EventKind.PYTHON_FUNCTION))
            return self._time_of_rows(runs | self.graph.event_flags.loads_data())
        calls = (of.calls.clip(self.host_start_ns, self.end_ns).total for of in device_launches(self.graph))
        return self.end_ns - self.host_start_ns - min(calls, default=0)

    @cached_property
    def pauses_ns(self) -> int:
        """How long the host pauses: more than 1 ms between two launching calls, other than by waiting for the GPU."""
        return self._union_ns([of.pauses for of in device_launches(self.graph)], self.host_start_ns)

    @property
    def launching_ns(self) -> int:
        """How long the host launches: in launching calls and between them, but for pauses."""
        pauses = (of.pauses.clip(self.host_start_ns, self.end_ns).total for of in device_launches(self.graph))
        return self.end_ns - self.host_start_ns - min(pauses, default=0)

    def _union_ns(self, every: Sequence[Intervals], since_ns: int | None = None) -> int:
        """Return how long (ns) in the window, or since earlier, any of several sets lasts."""
        begin = self.start_ns if since_ns is None else since_ns
        return union_of(every).clip(begin, self.end_ns).total if every else 0

    def _time_of_rows(self, rows: Bools) -> int:
        events = self.graph.event_table
        return union(events.start[rows], events.end[rows]).clip(self.host_start_ns, self.end_ns).total

    @cached_property
    def lock_waits_ns(self) -> int:
        """How long driver calls wait for one of another thread, where such threads hold the driver's lock for long."""
        return waits_for_lock(self.graph, self.host_start_ns, self.end_ns).total

    # -- what claims may not exceed ------------------------------------------------------------------------------------

    @property
    def host_ns(self) -> int:
        """What a faster host saves at most: the GPU computes through the rest, or the host launches.

        Idle time would be too little: what the GPU communicates or copies meanwhile, a host that launches sooner lets
        it do next to computation.

        host     [load ~~~~~~~~~][launch]      without loading:   [launch]
        stream 7                     [gemm ]                          [gemm ]
        stream 20  [all-reduce =====]                               [all-reduce =====]
        """
        return min(self.not_computing_ns, self.between_launches_ns + self.lock_waits_ns)

    @property
    def running_ahead_ns(self) -> int:
        """What the host saves at most by not waiting: its own work, and the copies that it waited for."""
        return min(self.not_computing_ns, self.between_launches_ns + self.copies_ns + self.lock_waits_ns)

    @property
    def no_communication_ns(self) -> int:
        """What communication saves at most that takes no time: calls then come at other times, too."""
        return min(self.communication_ns + self.lock_waits_ns * (self.communication_ns > 0), self.length_ns)

    @property
    def faster_launches_ns(self) -> int:
        """What cheaper launches save at most, as CUDA graphs make them: no work of the host in pauses."""
        return min(self.not_computing_ns, self.launching_ns)

    @property
    def shorter_pauses_ns(self) -> int:
        """What shorter pauses save at most."""
        return min(self.not_computing_ns, self.pauses_ns)

    @cached_property
    def communication_ns(self) -> int:
        """Exposed communication: it runs and nothing computes; without rows of a GPU all of it that was recorded."""
        found = [self._exposed(work, WorkType.COMMUNICATION, WorkType.COMPUTATION) for work in self._work]
        flags, events = self.graph.event_flags, self.graph.event_table
        rows = flags.gloo_collective.copy()
        rows[self.graph.members.row] = True
        rows &= ~self.graph.is_gpu
        return self._union_ns([*found, union(events.start[rows], events.end[rows])])

    @cached_property
    def overlap_ns(self) -> int:
        """What communication next to computation saves at most: the less of both alone, and idle time next to it."""
        alone = [self._exposed(work, WorkType.COMPUTATION, WorkType.COMMUNICATION) for work in self._work]
        idle = self._union_ns([self._idle_next_to(work, WorkType.COMMUNICATION) for work in self._work])
        return min(min(self.communication_ns, self._union_ns(alone)) + idle, self.length_ns)

    def _idle_next_to(self, work: Activities, kind: WorkType) -> Intervals:
        """Return when no stream runs anything right before or behind work of a kind."""
        idle, own = work.busy().gaps(self.start_ns, self.end_ns), work.busy(kind)
        touches = np.isin(idle.start, own.end) | np.isin(idle.end, own.start)
        return Intervals(idle.start[touches], idle.end[touches])

    @cached_property
    def copies_ns(self) -> int:
        """Exposed copies and sets: they run, and neither computation nor communication does."""
        others = (WorkType.COMPUTATION, WorkType.COMMUNICATION)
        return self._union_ns([self._exposed(work, WorkType.MEMORY, *others) for work in self._work])

    @staticmethod
    def _exposed(work: Activities, kind: WorkType, *hiding: WorkType) -> Intervals:
        return work.busy(kind).subtract(work.busy(*hiding))

    def data_loading_ns(self, expressions: Sequence[str] = ()) -> int:
        """Return what data loading that takes no time saves at most: rows that load, by PyTorch's names or others."""
        return self.of_host_rows(self.graph.event_flags.loads_data(expressions))

    def of_host_rows(self, rows: Bools, share: float = 1.0) -> int:
        """Return what some rows of threads save at most if they take less time, by this share of it.

        Driver calls then come at other times, and none may wait for another thread's. Of earlier iterations what the
        GPU's work hid counts, too: it made the host of this one late, and did not move where this one begins.
        """
        shorter_ns = ceil((self._time_of_rows(rows) + self._hidden_before(rows)) * share)
        return min(self.not_computing_ns, shorter_ns + self.lock_waits_ns * (shorter_ns > 0))

    def _hidden_before(self, rows: Bools) -> int:
        """Return how long (ns) some rows of threads ran before an iteration's step while the GPU worked."""
        events = self.graph.event_table
        earlier = rows & (events.start < self.host_start_ns)
        if not self.is_iteration or not earlier.any():
            return 0
        own = union(events.start[earlier], events.end[earlier].clip(max=self.host_start_ns))
        busy = activities(self.graph).busy()
        return int((busy.covered_until(own.end) - busy.covered_until(own.start)).sum())

    def of_work(self, rows: Ids | Ints, share: Floats | float = 1.0) -> int:
        """Return what faster GPU activities save at most: their time that other work of their kind does not overlap.

        Communication is also overlapped by computation, and copies by both: those can run next to something else. What
        is shorter by no more than its overlapped part saves no less for that: of each activity its time alone counts,
        at most what it is shorter by.

        Args:
            rows: the activities.
            share: by how much of its time each is shorter: 1 − 1/speedup, of each or of all.
        """
        shares = np.zeros(len(self.graph.event_table))
        shares[rows] = share
        return self._of_shorter_work((alone, length * shares[row]) for row, alone, length in self._alone(shares > 0))

    def _of_shorter_work(self, work: Iterable[tuple[Ints, Any]]) -> int:
        """Return the same, given how long (ns) activities run alone, and how much shorter they are."""
        return min(ceil(sum(float(np.minimum(alone, shorter).sum()) for alone, shorter in work)), self.length_ns)

    def _alone(self, chosen: Bools) -> Iterator[tuple[Ids, Ints, Ints]]:
        """Yield some events that are activities, by rank and kind, how long (ns) each runs alone, and in all."""
        for work in self._work:
            faster = chosen[work.row]
            for kind in distinct(work.type[faster]).tolist():
                own = faster & (work.type == kind)
                others = work.take(~own & np.isin(work.type, OVERLAPPING[WorkType(kind)]))
                yield work.row[own], exposure(work.take(own), others.busy()).exposed, (work.end - work.start)[own]

    def of_rank(self, part: int) -> int:
        """Return what one rank of a job (its place) saves at most if others stay: what each of them waits, or is over.

        Each other rank's own time stays, so that the one that waits least bounds it.
        """
        members, found = self.graph.members, self.length_ns
        for one in self.graph.rank_graphs:
            own = members.take((members.part == one.index) & (members.wait > 0))
            last = self._last_work_ns(one.index)
            if one.index != part and last >= 0:
                start, end = np.append(own.waits_since, last), np.append(own.waits_since + own.wait, self.end_ns)
                found = min(found, union(start, end).clip(self.start_ns, self.end_ns).total)
        return found

    def _last_work_ns(self, part: int) -> int:
        """Return when a rank's last row in the window ends; -1 if it has none there."""
        events = self.graph.event_table
        inside = (events.start < self.end_ns) & (events.end > self.start_ns)
        inside &= self.graph.rank_index_of(np.arange(len(events))) == part
        inside &= kind_mask(events.kind, CPU_KINDS) | self.graph.is_activity
        return int(events.end[inside].max(initial=-1).clip(max=self.end_ns))

    def of_draft(self, draft: ModifiedWindow) -> int:
        """Return what the changes of a draft save at most: its activities' own time, else time without computation.

        Waits that are left out let the host go on: no more than the GPU computes nothing. Of edges that get other
        weights nothing is known.
        """
        faster = np.flatnonzero(draft.factor < 1.0)
        runs = draft.base.is_gpu_work[faster]
        only_work = bool(runs.all()) and not draft.is_reshaped
        shares = np.zeros(len(self.graph.event_table))
        np.maximum.at(shares, draft.base.parts.owner[faster[runs]], 1.0 - draft.factor[faster[runs]])
        rows = np.flatnonzero(shares)
        found = self.of_work(rows, shares[rows])
        return self.length_ns if draft.is_reweighed else self._with_host(found, only_work=only_work)

    def of_scaling(self, base: ReplayGraph, meant: Bools, factors: Sequence[float]) -> list[int]:
        """Return the same where some parts of time take a factor of it, for each of several factors."""
        parts, chosen = np.flatnonzero(meant), np.zeros(len(self.graph.event_table), np.bool_)
        runs = base.is_gpu_work[parts]
        chosen[base.parts.owner[parts[runs]]] = True
        alone = list(self._alone(chosen))
        found = (
            self._of_shorter_work((own, length * (1.0 - factor)) for _, own, length in alone) for factor in factors
        )
        return [self._with_host(one, only_work=bool(runs.all())) for one in found]

    @property
    def of_anything_halved(self) -> int:
        """What anything at twice its speed saves at most: half of all activities, and what no activity fills."""
        work_ns = sum(int((work.end - work.start).sum()) for work in self._work)
        return self._with_host((work_ns + 1) // 2, only_work=False)

    def _with_host(self, found: int, *, only_work: bool) -> int:
        """Add what changes save of the host's time to what their activities save at most."""
        # Without other changes nothing moves, and what moves may wait no more for the driver's lock.
        found += self.lock_waits_ns if found else 0
        if not only_work:
            # Without rows of a GPU there is no idle time to measure by, but what runs on threads and communicates.
            found += self.not_computing_ns if self.has_gpu_rows else self.host_ns + self.communication_ns
        return min(found, self.length_ns)
