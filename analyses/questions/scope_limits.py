"""A scope beside the limits of its device: its path, and what being near the limits would save."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analyses.scope import Scope
from hta_graph.arrays import summed_by
from hta_graph.model import Floats, Ints
from hta_graph.paths.critical_path import CriticalPath, critical_path
from hta_graph.roofline.attainable import AttainableWork, gpu_name
from hta_graph.roofline.operators_devices import Device, find_device
from hta_graph.what_if.changes import scale_activities
from hta_graph.what_if.draft import ModifiedWindow
from hta_graph.what_if.opportunities import is_opportunity, savings_of
from hta_graph.what_if.replay import replay_graph

__all__ = ["ScopeLimits"]

FEWEST_REPLAYS, MOST_REPLAYS, REPLAYED_EDGES = 4, 24, 1_500_000
"""For so many groups it is asked what reaching the limit would save, those that could save most: as many as keeps the
replays of all their edges below the last number."""


@dataclass(frozen=True)
class ScopeLimits(AttainableWork):
    """What the activities of a scope demand, beside the limits of a device."""

    scope: Scope

    @classmethod
    def of(cls, scope: Scope, given: Device | None = None) -> ScopeLimits:
        """Look at a scope; without given peaks those of the GPU that its header names."""
        return cls(scope.graph, scope.work, given or find_device(gpu_name(scope.graph, scope.gpus)), scope)

    @cached_property
    def all_gpu_ns(self) -> int:
        """How long all activities of the scope take, communication included."""
        return int((self.every.end - self.every.start).sum())

    @property
    def talks(self) -> bool:
        """Whether ranks communicate in the scope."""
        return len(self.groups.work) < len(self.every)

    @cached_property
    def path(self) -> CriticalPath:
        """The scope's critical path."""
        return critical_path(self.graph, self.scope.window)

    @cached_property
    def path_ns(self) -> Ints:
        """How long each group is on the critical path."""
        return summed_by(self.groups.number, self._on_path, len(self.groups))

    @cached_property
    def _on_path(self) -> Ints:
        """How long each activity of the groups is on the path."""
        return self.on_path(self.path)

    @cached_property
    def saves(self) -> tuple[Floats, int]:
        """By how much (ns) the scope would be shorter if each group reached 80 % of its limit; and if all did.

        NaN where it was not asked: of groups without a limit, and behind those that could save most.
        """
        work, number = self.groups.work, self.groups.number
        at_most = np.bincount(number, weights=self._on_path * (1 - self.near_limit), minlength=len(self.groups))
        has_limit = ~np.isnan(self.sum_of(self.calls.attainable_ns))
        # What is not on the path saves nothing, whatever becomes of it.
        saved = np.where(has_limit & (at_most < 1), 0.0, np.nan)
        worth = [at for at in np.flatnonzero(has_limit).tolist() if is_opportunity(at_most[at], self.path.length_ns)]
        asked = sorted(worth, key=lambda at: -at_most[at])[
            : min(max(REPLAYED_EDGES // max(len(self.graph.edge_table), 1), FEWEST_REPLAYS), MOST_REPLAYS)
        ]
        if not asked:
            return saved, 0
        base = replay_graph(self.graph, self.scope.window)
        drafts = [ModifiedWindow(base) for _ in range(len(asked) + 1)]
        for draft, at in zip(drafts, asked, strict=False):
            scale_activities(work.row[number == at], self.near_limit[number == at])(draft)
        scale_activities(work.row, self.near_limit)(drafts[-1])
        *each, together = savings_of(base, drafts).ravel().tolist()
        saved[asked] = each
        return saved, together
