"""Whether the replay of a window can be trusted: what its rows do not show, and how much of its path no change moves.

Whether calls of one thread wait for the driver's lock, which another holds, is a matter of microseconds:

main thread   |launch|                 |launch|          |launch ~~~~~|          it waits
pin_memory           [cudaHostAlloc]                [cudaHostAlloc]              as before: it waits for nothing

So a change of the first thread's times makes calls long that were short, and the other way round.

A GPU that is idle although the launch of its next work returned long before waits for nothing that its trace shows: a
time slice of another process, or other ranks.

host     [launch][launch][launch]......
stream                    |--- idle, 2.4 ms ---|[ker][ker][ker]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hta_graph.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import CPU_KINDS, BoundBy, EventKind, kind_mask
from hta_graph.paths.critical_path import critical_path
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import Window, resolved_window
from hta_graph.what_if.modified_window import earlier_share, frozen_share, recorded_path_totals, time_without_partner
from hta_graph.what_if.replay import Replayed
from hta_graph.what_if.replay_graph import ReplayGraph

UNRELIABLE_SHARE = 0.5
"""Where most of a path stays as it is whatever changes, a prediction is about the smaller part."""

DOUBTFUL_SHARE = 0.25
"""From this fixed share on, the path of the replay is compared with the critical path, and predictions are hedged."""

ANOTHER_PATH_SHARE = 0.1
"""Of classes that differ by less than this share of a window, replay only prefers other causes of equal times."""

CONTENDED_SHARE = 0.03
"""Where other threads hold the driver's lock for less than this share of the time, they delay a window by no more."""

HOST_BOUND_SHARE = 0.5
"""Where less of the path is on the host after a change, the GPU has work while a launch waits."""

STARTS_WITHIN_NS = 50_000
"""Work starts this soon after its launch and after the work before it."""

MISSING_SHARE = 0.5
"""From this share of the GPU's idle time on launched work is what it mostly waits for."""

Missing = Literal["gpu_not_recorded", "nothing_recorded", "not_started"]
"""What rows do not show: what launched work did, what most of a window was, what launched work waited for."""

Reason = Literal["gpu_not_recorded", "nothing_recorded", "not_started", "fixed", "another_path", "contended"]


@dataclass(frozen=True)
class Reliability:
    """Of a window's path what no change moves, and how much of it is in other classes in replay, as shares (0–1).

    Work without a recorded cause hangs on the thread that does most: then replay follows that thread, and not the work.
    """

    fixed_share: float
    alone_share: float = 0.0
    """Of the fixed share what is communication without a known partner: it is fixed only while other things change."""
    another_path_share: float = 0.0
    contended_share: float = 0.0
    """For which share of the time other threads hold the driver's lock, where that may delay the window anew."""
    missing: Missing | None = None
    missing_share: float = 0.0
    """What the rows do not show, and for which share of the window."""

    @property
    def of_communication(self) -> Reliability:
        """The same where communication is what changes."""
        return replace(self, fixed_share=self.fixed_share - self.alone_share, alone_share=0.0)

    @property
    def reason(self) -> Reason | None:
        """Why predictions cannot be trusted; None: they can."""
        if self.missing:
            return self.missing
        if self.another_path_share >= ANOTHER_PATH_SHARE:
            return "another_path"
        if self.fixed_share >= UNRELIABLE_SHARE:
            return "fixed"
        return "contended" if self.contended_share else None

    @property
    def share(self) -> float:
        """The share that the reason is about."""
        if self.missing:
            return self.missing_share
        shares = {"another_path": self.another_path_share, "contended": self.contended_share}
        return shares.get(self.reason or "fixed", self.fixed_share)


@memoized
def reliability(base: ReplayGraph) -> Reliability:
    """Return how far predictions about a window can be trusted."""
    fixed, missing = frozen_share(base) + earlier_share(base), _missing_rows(base)
    if missing is not None:
        return Reliability(fixed, missing=missing[0], missing_share=missing[1])
    if fixed < DOUBTFUL_SHARE:
        return Reliability(fixed)
    path = recorded_path_totals(base)[0]
    alone = time_without_partner(path) / max(base.length_ns, 1)
    measured = critical_path(base.graph, resolved_window(base.window)).by_bound_ns
    replayed = path.by_bound_ns
    differs = sum(max(ns - replayed[bound], 0) for bound, ns in measured.items())
    return Reliability(fixed, alone, differs / max(base.length_ns, 1))


def _missing_rows(base: ReplayGraph) -> tuple[Missing, float] | None:
    """Return what the rows of a single rank's window do not show, and for which share of it; None if they show all."""
    graph, window, length_ns = base.graph, base.window, base.length_ns
    if len(graph.rank_graphs) > 1 or not length_ns:
        return None
    if graph.is_gpu.any():
        late_ns = idle_with_launched_work(graph, window)[1]
        # What has no cause on the path is called unexplained, with its reason.
        known_ns = late_ns - recorded_path_totals(base)[0].by_bound_ns[BoundBy.UNEXPLAINED.label]
        is_most = work_waits_most_of_idle(graph, window) and known_ns >= DOUBTFUL_SHARE * length_ns
        return ("not_started", late_ns / length_ns) if is_most else None
    if graph.event_flags.enqueueing_call.any():
        return "gpu_not_recorded", 1.0
    silent_ns = _silent_ns(graph, window)
    return ("nothing_recorded", silent_ns / length_ns) if silent_ns else None


def _silent_ns(graph: DependencyGraph, window: Window) -> int:
    """Return for how much of a window (ns) no thread has anything but annotations open; 0 if other parts are larger.

    These are operators, calls, frames and loading; and collectives of Gloo while none of them is open.
    """
    events, flags = graph.event_table, graph.event_flags
    does = kind_mask(events.kind, (*CPU_KINDS, EventKind.PYTHON_FUNCTION)) | flags.loads_data()
    works_ns, open_ns = (
        union(events.start[rows], events.end[rows]).clip(window.start_ns, window.end_ns).total
        for rows in (does, does | flags.gloo_collective)
    )
    silent_ns = window.end_ns - window.start_ns - open_ns
    return silent_ns if silent_ns > max(works_ns, open_ns - works_ns) else 0


def work_waits_most_of_idle(graph: DependencyGraph, window: Window) -> bool:
    """Return whether launched work does not start for most of the time in which the GPU of a rank is idle."""
    idle_ns, late_ns = idle_with_launched_work(graph, window)
    return late_ns > MISSING_SHARE * idle_ns


def idle_with_launched_work(graph: DependencyGraph, window: Window) -> tuple[int, int]:
    """Return how long (ns) the GPU of a rank is idle, and for how much of that launched work does not start.

    The call that launched what runs next returned more than 50 µs before, and the work before ended as long ago.
    """
    start_ns, end_ns, events = window.start_ns, window.end_ns, graph.event_table
    rows = np.flatnonzero(graph.is_gpu & ~graph.event_flags.waits_on_device)
    rows = rows[(events.end[rows] > start_ns) & (events.start[rows] < end_ns)]
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    start, end = events.start[rows].clip(min=start_ns), events.end[rows].clip(max=end_ns)
    call = graph.launching_call[rows]
    ended = np.maximum.accumulate(np.append(start_ns, end))
    returned = np.where(call >= 0, events.end[call], start)
    idle = np.maximum(start - ended[:-1], 0)
    late = (start - np.maximum(ended[:-1], returned) - STARTS_WITHIN_NS).clip(min=0)
    return int(idle.sum() + end_ns - ended[-1]), int(late.sum())


def reliability_after(replayed: Replayed) -> Reliability:
    """Return how far the prediction about a window after some changes can be trusted."""
    share, path = locked_share(replayed.graph), replayed.path_after
    host_ns = sum(path.by_bound_ns[bound.label] for bound in (BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.DATA_LOADING))
    is_contended = share >= CONTENDED_SHARE and host_ns >= HOST_BOUND_SHARE * replayed.predicted_ns
    return replace(reliability(replayed.draft.base), contended_share=share * is_contended)


@memoized
def locked_share(graph: DependencyGraph) -> float:
    """Return for which share of a recording's calls threads that launch nothing hold the driver's lock."""
    events, flags = graph.event_table, graph.event_flags
    launching = distinct(events.lane[flags.enqueueing_call])
    holds = flags.lock_taking_call & ~np.isin(events.lane, launching)
    if not holds.any():
        return 0.0
    calls = events.kind == EventKind.RUNTIME
    whole_ns = int(events.end[calls].max() - events.start[calls].min()) * len(graph.rank_graphs)
    return int((events.end - events.start)[holds].sum()) / max(whole_ns, 1)
