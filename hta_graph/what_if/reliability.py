"""Whether the replay of a window can be trusted: how much of its path no change moves, or lies elsewhere in replay.

Of a job also how much of a prediction may be waiting for other ranks.

Whether calls of one thread wait for the driver's lock, which another holds, is a matter of microseconds:

main thread   |launch|                 |launch|          |launch ~~~~~|          it waits
pin_memory           [cudaHostAlloc]                [cudaHostAlloc]              as before: it waits for nothing

So a change of the first thread's times makes calls long that were short, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hta_graph.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import BoundBy, EventKind
from hta_graph.paths.critical_path import critical_path
from hta_graph.paths.windows import resolved_window
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

POSSIBLE_WAITING_SHARE = 0.2
"""Where a fifth of a prediction is waiting that cannot be told from work, it may be too long by a quarter."""

Reason = Literal["fixed", "another_path", "contended", "waiting"]


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
    waiting_share: float = 0.0
    """Which share of a job's prediction may be waiting for other ranks, which it cannot tell from work."""

    @property
    def of_communication(self) -> Reliability:
        """The same where communication is what changes."""
        return replace(self, fixed_share=self.fixed_share - self.alone_share, alone_share=0.0)

    @property
    def reason(self) -> Reason | None:
        """Why predictions cannot be trusted; None: they can."""
        if self.another_path_share >= ANOTHER_PATH_SHARE:
            return "another_path"
        if self.fixed_share >= UNRELIABLE_SHARE:
            return "fixed"
        if self.waiting_share >= POSSIBLE_WAITING_SHARE:
            return "waiting"
        return "contended" if self.contended_share else None

    @property
    def share(self) -> float:
        """The share that the reason is about."""
        shares = {
            "another_path": self.another_path_share,
            "contended": self.contended_share,
            "waiting": self.waiting_share,
        }
        return shares.get(self.reason or "fixed", self.fixed_share)


@memoized
def reliability(base: ReplayGraph) -> Reliability:
    """Return how far predictions about a window can be trusted."""
    fixed = frozen_share(base) + earlier_share(base)
    if fixed < DOUBTFUL_SHARE:
        return Reliability(fixed)
    path = recorded_path_totals(base)[0]
    alone = time_without_partner(path) / max(base.length_ns, 1)
    measured = critical_path(base.graph, resolved_window(base.window)).by_bound_ns
    replayed = path.by_bound_ns
    differs = sum(max(ns - replayed[bound], 0) for bound, ns in measured.items())
    return Reliability(fixed, alone, differs / max(base.length_ns, 1))


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
