"""A scope's groups beside the limits of its device: sums of time and work, and what being near the limit would save."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analyses.scope import Scope
from hta_graph.algorithms.limits.attainable import Attainable, attainable
from hta_graph.algorithms.limits.groups import Groups, groups_of
from hta_graph.algorithms.limits.operator_work import OperatorWork, operator_work
from hta_graph.algorithms.replay.changes import scale_activities
from hta_graph.algorithms.replay.draft import Draft
from hta_graph.algorithms.replay.opportunities import is_worth_a_row, saved_by
from hta_graph.algorithms.replay.replay import replayable
from hta_graph.algorithms.time.critical_path import CriticalPath, critical_path
from hta_graph.algorithms.work.activities import Activities
from hta_graph.columns import picked, summed_by
from hta_graph.model import BoundBy, Floats, Ints
from hta_graph.operators.devices import Device, device_named

__all__ = ["REACHABLE", "ScopeLimits"]

REACHABLE = 0.8
"""The share of a limit that well written kernels reach."""
SHORTEST_NS = 2_000
"""No kernel takes less, however little it does: starting it, one wave of blocks, its end."""
LISTED = 12
"""For so many groups it is asked what reaching the limit would save, those that could save most."""


@dataclass(frozen=True)
class ScopeLimits:
    """A scope, and the device whose limits count: a given one, else the GPU's own; ``None`` where it is not known."""

    scope: Scope
    device: Device | None

    @classmethod
    def of(cls, scope: Scope, given: Device | None = None) -> ScopeLimits:
        """Look at a scope; without given peaks those of the GPU that its header names."""
        return cls(scope, given or device_named(gpu_name(scope)))

    @cached_property
    def found(self) -> OperatorWork:
        """The operators of the whole graph."""
        return operator_work(self.scope.graph)

    @cached_property
    def groups(self) -> Groups:
        """What runs in the scope, in groups."""
        return groups_of(self.scope.graph, self.scope.work)

    @cached_property
    def calls(self) -> Attainable:
        """What the calls demand, and how long they would take at the limits."""
        return attainable(self.found.calls, self.device)

    def of_activities(self, per_call: Floats, work: Activities) -> Floats:
        """Divide something of calls among their activities by time; NaN where an activity has no call."""
        place = self.found.places(work)
        share = (work.end - work.start) / np.maximum(self.found.operator_ns[place], 1)
        values: Floats = picked(per_call, self.found.number[place], otherwise=np.nan) * share
        return values

    def sum_of(self, per_call: Floats) -> Floats:
        """Add up something of calls per group; NaN where it is not known of one of the group."""
        values = self.of_activities(per_call, self.groups.work)
        return np.bincount(self.groups.number, weights=values, minlength=len(self.groups)).astype(np.float64)

    @cached_property
    def gpu_ns(self) -> Ints:
        """How long the activities of each group take."""
        work = self.groups.work
        return summed_by(self.groups.number, work.end - work.start, len(self.groups))

    @cached_property
    def all_gpu_ns(self) -> int:
        """How long all activities of the scope take, communication included."""
        return int((self.scope.work.end - self.scope.work.start).sum())

    @property
    def talks(self) -> bool:
        """Whether ranks communicate in the scope."""
        return len(self.groups.work) < len(self.scope.work)

    @cached_property
    def counted_calls(self) -> Ints:
        """How many calls each group has: operators, else activities."""
        operator, work = self.found.operator[self.groups.place], self.groups.work
        instance = np.where(operator >= 0, operator, work.row).astype(np.int64)
        pairs = np.unique(np.stack([self.groups.number, instance]), axis=1)
        return np.bincount(pairs[0], minlength=len(self.groups))

    @cached_property
    def path(self) -> CriticalPath:
        """The scope's critical path."""
        return critical_path(self.scope.graph, self.scope.window)

    @cached_property
    def path_ns(self) -> Ints:
        """How long each group is on the critical path."""
        return summed_by(self.groups.number, self._on_path, len(self.groups))

    @cached_property
    def _on_path(self) -> Ints:
        """How long each activity of the groups is on the path."""
        pieces = self.path.pieces
        runs = np.isin(pieces.bound, (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_MEMORY_BOUND)) & (pieces.event >= 0)
        on_path = summed_by(pieces.event[runs], pieces.length[runs], len(self.scope.graph.event_table))
        return on_path[self.groups.work.row]

    # -- what being nearer the limit would save ------------------------------------------------------------------------

    @cached_property
    def _factor(self) -> Floats:
        """What each activity's time would be multiplied with if its call reached the share that is possible."""
        work = self.groups.work
        length = np.maximum(work.end - work.start, 1)
        wanted = np.fmax(self.of_activities(self.calls.limit_ns, work) / REACHABLE, SHORTEST_NS)
        known = ~np.isnan(self.of_activities(self.calls.limit_ns, work))
        return np.where(known, np.minimum(wanted / length, 1.0), 1.0)

    @cached_property
    def saves(self) -> tuple[Floats, int]:
        """By how much (ns) the scope would be shorter if each group reached 80 % of its limit; and if all did.

        NaN where it was not asked: of groups without a limit, and behind those that could save most.
        """
        work, number = self.groups.work, self.groups.number
        at_most = np.bincount(number, weights=self._on_path * (1 - self._factor), minlength=len(self.groups))
        has_limit = ~np.isnan(self.sum_of(self.calls.limit_ns))
        # What is not on the path saves nothing, whatever becomes of it.
        saved = np.where(has_limit & (at_most < 1), 0.0, np.nan)
        worth = np.flatnonzero(
            [has_limit[at] and is_worth_a_row(at_most[at], self.path.length_ns) for at in range(len(saved))]
        )
        asked = worth[np.argsort(-at_most[worth], kind="stable")][:LISTED]
        if not len(asked):
            return saved, 0
        base = replayable(self.scope.graph, self.scope.window)
        drafts = [Draft(base) for _ in range(len(asked) + 1)]
        for draft, at in zip(drafts, asked.tolist(), strict=False):
            scale_activities(work.row[number == at], self._factor[number == at])(draft)
        scale_activities(work.row, self._factor)(drafts[-1])
        *each, together = saved_by(base, drafts).ravel().tolist()
        saved[asked] = each
        return saved, together


def gpu_name(scope: Scope) -> str:
    """Return the name of the GPU that works in a scope; empty where the header does not tell, or several differ."""
    names = scope.graph.trace.gpu_names
    used = {names[gpu] for gpu in scope.gpus if gpu < len(names)} or set(names)
    return used.pop() if len(used) == 1 else ""
