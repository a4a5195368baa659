"""HTA's time series and summaries of copies' bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.hta.hta_statistics import describe_groups
from analyses.hta.hta_window import earliest_ns
from analyses.scope import Scope
from hta_graph.gpu_activity import Copies, RateSteps, copies_of, rate_steps

__all__ = ["hta_memory_bw_summary", "hta_memory_bw_time_series"]


def hta_memory_bw_time_series(scopes: Sequence[Scope], origin_ns: int | None = None) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_memory_bw_time_series``.

    ``origin_ns`` is what ts counts from; the earliest event of the scopes' traces if not given.
    """
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = {scope.rank: _rate_frame(scope, origin) for scope in scopes}
    return {rank: frame for rank, frame in frames.items() if len(frame)}


def _rate_frame(scope: Scope, origin: int) -> pd.DataFrame:
    """Return the changes of a rank's rates (µs from the origin, GB/s)."""
    copies, steps = _copy_rates(scope)
    device = scope.graph.lanes.device[copies.lane]
    columns = {
        "ts": (steps.time - origin) / 1e3,
        "pid": np.tile(device, 2)[steps.change],
        "name": np.array(copies.kinds, object)[steps.kind],
        "memory_bw_gbps": steps.rate,
    }
    return pd.DataFrame(columns, index=pd.Index(steps.change))


def _copy_rates(scope: Scope) -> tuple[Copies, RateSteps]:
    """Return a rank's copies and how their rates add up; what takes no time counts as 1 µs."""
    copies = copies_of(scope.graph, scope.work)
    return copies, rate_steps(copies, copies.drawn_end, np.nan_to_num(copies.rate))


def hta_memory_bw_summary(scopes: Sequence[Scope]) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_memory_bw_summary``."""
    groups = []
    for scope in scopes:
        copies, steps = _copy_rates(scope)
        bounds = np.searchsorted(steps.kind, np.arange(len(copies.kinds) + 1)).tolist()  # steps are sorted by kind
        for code, name in enumerate(copies.kinds):
            own = steps.rate[bounds[code] : bounds[code + 1]]
            groups.append(((scope.rank, name), own[own > 0]))
    return describe_groups(groups, ("rank", "name"), "memory_bw_gbps")
