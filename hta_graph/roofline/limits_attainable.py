"""How long calls would take at a device's limits: for their arithmetic, and for their least traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.model import Bools, Floats
from hta_graph.roofline.cost_models.table import is_loose_bound
from hta_graph.roofline.operators_demand import Demand, Unit
from hta_graph.roofline.operators_devices import Device
from hta_graph.roofline.recorded_calls import RecordedCall

__all__ = ["Attainable", "attainable"]


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
    is_matrix = np.array([demand is not None and demand.unit == Unit.MATRIX for demand in demands], np.bool_)
    is_least = np.array([demand is not None and demand.is_least for demand in demands], np.bool_)
    loose = np.array([is_loose_bound(one.call.name) for one in calls], np.bool_)
    return Attainable(flops, moved, 1e9 * flops / peaks, 1e9 * moved / bandwidth, is_matrix, is_least, loose)


def _peak(demand: Demand | None, kernel: str, device: Device | None) -> float:
    """Return the FLOP/s that are possible for a call; NaN where that is not known."""
    found = device.peak_flops(demand.unit, demand.dtype, kernel) if demand and device else None
    return np.nan if found is None else found


def _column(values: Sequence[float]) -> Floats:
    return np.array(values, np.float64)
