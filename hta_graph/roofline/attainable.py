"""How near to the limits of a device activities run: the least times for their demands, and sums per group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import distinct, summed_by, take_or, unique_rows
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Floats, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.gpu_activity import Activities
from hta_graph.roofline.activity_groups import ActivityGroups, OperatorActivities, activity_groups, operator_activities
from hta_graph.roofline.cost_models.table import is_loose_bound
from hta_graph.roofline.demand import Demand
from hta_graph.roofline.devices import Device, find_device, gpu_name, is_tf32
from hta_graph.roofline.recorded_calls import RecordedCall


@dataclass(frozen=True)
class Attainable:
    """One entry per call: FLOPs, bytes, and how long each takes at the limit (ns); NaN where that is not known."""

    flops: Floats
    bytes: Floats
    compute_ns: Floats
    memory_ns: Floats
    is_matrix: Bools
    is_least: Bools
    is_loose: Bools

    @property
    def limit_ns(self) -> Floats:
        """The least time: that of what binds; NaN where it is not known.

        Of matrix work all of the arithmetic must be known, of other work the traffic: what mostly binds.
        """
        known = ~np.isnan(np.where(self.is_matrix, self.compute_ns, self.memory_ns)) & ~(self.is_matrix & self.is_least)
        return np.where(known, np.fmax(self.compute_ns, self.memory_ns), np.nan)

    @property
    def attainable_ns(self) -> Floats:
        """The least time where it is near what a call really demands; NaN where that may be far more."""
        return np.where(self.is_loose, np.nan, self.limit_ns)


def attainable(calls: Sequence[RecordedCall], device: Device | None = None) -> Attainable:
    """Return how long some calls would take at a device's limits; without a device only what they demand."""
    demands = [one.demand for one in calls]
    flops = _column([np.nan if demand is None else demand.flops for demand in demands])
    moved = _column([np.nan if demand is None or demand.bytes is None else demand.bytes for demand in demands])
    peaks = _column([_peak(one.demand, one.call.kernel, device) for one in calls])
    bandwidth = (device and device.memory_bytes_per_s) or np.nan
    is_matrix = np.array([demand is not None and demand.is_product for demand in demands], np.bool_)
    is_least = np.array([demand is not None and demand.is_least for demand in demands], np.bool_)
    loose = np.array([is_loose_bound(one.call.name) for one in calls], np.bool_)
    return Attainable(flops, moved, 1e9 * flops / peaks, 1e9 * moved / bandwidth, is_matrix, is_least, loose)


def _peak(demand: Demand | None, kernel: str, device: Device | None) -> float:
    """Return the FLOP/s that are possible for a call; NaN where that is not known."""
    found = device.peak_flops(demand.unit, demand.dtype, kernel) if demand and device else None
    return np.nan if found is None else found


def _column(values: Sequence[float]) -> Floats:
    return np.array(values, np.float64)


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
        """Add up something of calls per group; NaN where it is unknown for one of the group."""
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
        pieces = path.segment_table
        runs = np.isin(pieces.bound, (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_MEMORY_BOUND)) & (pieces.event >= 0)
        sums = summed_by(pieces.event[runs], pieces.length[runs], len(self.graph.event_table))
        return sums[self.groups.work.row]

    @cached_property
    def counted_calls(self) -> Ints:
        """How many calls each group has: operators, else activities."""
        operator, work = self.found.instance[self.groups.place].astype(np.int64), self.groups.work
        instance = np.where(operator >= 0, operator, -1 - work.row)
        calls, _ = unique_rows(self.groups.number, instance)
        return np.bincount(self.groups.number[calls], minlength=len(self.groups))

    @cached_property
    def near_limit(self) -> Floats:
        """What each activity's time would be multiplied with if its call reached the share that is possible."""
        work = self.groups.work
        length, limit = np.maximum(work.end - work.start, 1), self.of_activities(self.calls.attainable_ns, work)
        wanted = np.maximum(limit / ATTAINABLE_SHARE, SHORTEST_KERNEL_NS)
        return np.where(np.isnan(limit), 1.0, np.minimum(wanted / length, 1.0))

    @cached_property
    def in_tf32(self) -> Floats:
        """What each activity's time would be multiplied with in TF32, as near to its limit as it is now."""
        rates = self.device.matrix_tflops if self.device else {}
        if "tf32" not in rates or "float" not in rates:
            return np.ones(len(self.groups.work))
        plain = np.array([_is_float32_matmul(one) for one in self.found.calls] or [False])
        calls = self.calls
        limit = np.fmax(calls.compute_ns * (rates["float"] / rates["tf32"]), calls.memory_ns) / calls.limit_ns
        per_call = np.where(plain & (limit < 1), limit, 1.0)
        number = self.found.number[self.groups.place]
        return np.where(number >= 0, per_call[number], 1.0) if len(per_call) else np.ones(len(number))


def attainable_work(graph: DependencyGraph, work: Activities) -> AttainableWork | None:
    """Return activities with the limits of the GPU that they ran on; ``None`` where these are unknown."""
    gpus = [gpu for gpu in distinct(graph.lanes.device[work.lane]).tolist() if gpu >= 0]
    device = find_device(gpu_name(graph, gpus))
    return None if device is None else AttainableWork(graph, work, device)


def _is_float32_matmul(one: RecordedCall) -> bool:
    """Return whether a call multiplies 32-bit floats, and its kernel says that it does not round them."""
    is_float = one.demand is not None and one.demand.is_product and one.demand.dtype == "float"
    return is_float and is_tf32(one.call.kernel) is False


def _binding_limit(compute_ns: float, memory_ns: float, share: float) -> str | None:
    if np.isnan(share):
        return None
    return "compute" if np.isnan(memory_ns) or compute_ns > memory_ns else "memory"
