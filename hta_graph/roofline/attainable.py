"""Some activities of a graph beside the limits of their device: sums per group, and what each would take near them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.activities import Activities
from hta_graph.arrays import summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BoundBy, Floats, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.roofline.activity_groups import ActivityGroups, activity_groups
from hta_graph.roofline.limits_attainable import Attainable, attainable
from hta_graph.roofline.operator_work import OperatorActivities, operator_activities
from hta_graph.roofline.operators_devices import Device

__all__ = ["ATTAINABLE_SHARE", "AttainableWork", "gpu_name"]

ATTAINABLE_SHARE = 0.8
"""The share of a limit that well written kernels reach."""
SHORTEST_KERNEL_NS = 2_000
"""No kernel takes less, however little it does: starting it, one wave of blocks, its end."""


@dataclass(frozen=True)
class AttainableWork:
    """Activities of a graph, and the device whose limits count; ``None`` where it is not known."""

    graph: DependencyGraph
    every: Activities
    device: Device | None

    @cached_property
    def found(self) -> OperatorActivities:
        """The operators of the whole graph."""
        return operator_activities(self.graph)

    @cached_property
    def groups(self) -> ActivityGroups:
        """The activities that are no communication, in groups."""
        return activity_groups(self.graph, self.every)

    @cached_property
    def calls(self) -> Attainable:
        """What the calls demand, and how long they would take at the limits; one device's are kept with the graph."""
        kept = self.graph.answers.get(attainable)
        if kept is None or kept[0] != self.device:
            # Steps of a trace share its calls: what these demand is looked up once.
            kept = self.graph.answers[attainable] = self.device, attainable(self.found.calls, self.device)
        found: Attainable = kept[1]
        return found

    def of_activities(self, per_call: Floats, work: Activities) -> Floats:
        """Divide something of calls among their activities by time; NaN where an activity has no call."""
        place = self.found.places(work)
        share = (work.end - work.start) / np.maximum(self.found.operator_ns[place], 1)
        values: Floats = take_or(per_call, self.found.number[place], otherwise=np.nan) * share
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
    def limit_share(self) -> Floats:
        """Which share of its time each group would take at its limit; NaN where that is not known."""
        shares: Floats = self.sum_of(self.calls.limit_ns) / np.where(self.gpu_ns > 0, self.gpu_ns, np.nan)
        return shares

    @cached_property
    def bounds(self) -> list[str | None]:
        """Which limit of each group takes longer, ``compute`` or ``memory``; ``None`` where the limit is not known."""
        times = (self.sum_of(values) for values in (self.calls.compute_ns, self.calls.memory_ns))
        return [_binding_limit(*one) for one in zip(*times, self.limit_share, strict=True)]

    def on_path(self, path: CriticalPath) -> Ints:
        """Return how long each activity of the groups is on a path (ns)."""
        pieces = path.pieces
        runs = np.isin(pieces.bound, (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_MEMORY_BOUND)) & (pieces.event >= 0)
        sums = summed_by(pieces.event[runs], pieces.length[runs], len(self.graph.event_table))
        return sums[self.groups.work.row]

    @cached_property
    def counted_calls(self) -> Ints:
        """How many calls each group has: operators, else activities."""
        operator, work = self.found.operator[self.groups.place], self.groups.work
        instance = np.where(operator >= 0, operator, work.row).astype(np.int64)
        pairs = np.unique(np.stack([self.groups.number, instance]), axis=1)
        return np.bincount(pairs[0], minlength=len(self.groups))

    @cached_property
    def near_limit(self) -> Floats:
        """What each activity's time would be multiplied with if its call reached the share that is possible."""
        work = self.groups.work
        length, limit = np.maximum(work.end - work.start, 1), self.of_activities(self.calls.attainable_ns, work)
        wanted = np.maximum(limit / ATTAINABLE_SHARE, SHORTEST_KERNEL_NS)
        return np.where(np.isnan(limit), 1.0, np.minimum(wanted / length, 1.0))


def _binding_limit(compute_ns: float, memory_ns: float, share: float) -> str | None:
    if np.isnan(share):
        return None
    return "compute" if np.isnan(memory_ns) or compute_ns > memory_ns else "memory"


def gpu_name(graph: DependencyGraph, gpus: Collection[int]) -> str:
    """Return the name of the GPUs that work; empty where the header does not tell, or several differ."""
    names = graph.trace.gpu_names
    used = {names[gpu] for gpu in gpus if gpu < len(names)} or set(names)
    return used.pop() if len(used) == 1 else ""
