"""HTA's temporal breakdown, overlap and kernel breakdown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analyses.questions.kernel_breakdown import OVERLAPPING, kernel_statistics, kernel_types
from analyses.questions.overlap import comm_comp_overlap
from analyses.questions.temporal_breakdown import temporal_breakdown
from analyses.scope import Scope

__all__ = ["hta_kernel_breakdown", "hta_overlap", "hta_temporal_breakdown"]


def hta_temporal_breakdown(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_temporal_breakdown``."""
    exact = temporal_breakdown([scope for scope in scopes if not scope.missing()])
    frame = pd.DataFrame({"rank": exact["rank"]})
    times = {
        "idle_time": exact["idle_ns"],
        "compute_time": exact["compute_ns"],
        "non_compute_time": exact["exposed_communication_ns"] + exact["exposed_memory_ns"],
        "kernel_time": exact["window_ns"],
    }
    for name, column in times.items():
        frame[f"{name}(us)"] = column / 1e3
    for name in ("idle_time", "compute_time", "non_compute_time"):
        frame[f"{name}_pctg"] = (100 * times[name] / times["kernel_time"]).round(2)
    return frame


def hta_overlap(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_comm_comp_overlap``."""
    exact = comm_comp_overlap(scopes)
    share = exact["overlapped_communication_ns"] * 100 / exact["communication_ns"].where(exact["communication_ns"] > 0)
    return pd.DataFrame({"rank": exact["rank"], "comp_comm_overlap_pctg": share.astype(float).round(2)})


def hta_kernel_breakdown(
    scopes: Sequence[Scope],
    duration_ratio: float,
    num_kernels: int,
    include_memory_kernels: bool,
    *,
    by_quantile: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_gpu_kernel_breakdown``; ``by_quantile`` chooses names by HTA's rule."""
    exact = kernel_types(scopes, memory_kernels=include_memory_kernels)
    limits = (duration_ratio, num_kernels)
    frame = kernel_statistics(scopes, limits, memory_kernels=include_memory_kernels, by_quantile=by_quantile)
    return _types_of_all_ranks(exact), _kernels_per_rank(frame)


def _types_of_all_ranks(exact: pd.DataFrame) -> pd.DataFrame:
    """Add up types over all ranks (µs, percent)."""
    total = exact.groupby("kernel_type", sort=False)["time_ns"].sum().sort_values(ascending=False, kind="stable")
    names = [OVERLAPPING.join(part.upper() for part in str(name).split(OVERLAPPING)) for name in total.index]
    share = (100 * total / max(total.sum(), 1)).round(1)
    return pd.DataFrame({"kernel_type": names, "sum": total.to_numpy() / 1e3, "percentage": share.to_numpy()})


def _kernels_per_rank(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of kernels under HTA's names (µs)."""
    named = {"sum (us)": "sum", "max (us)": "max", "min (us)": "min", "stddev": "std", "mean (us)": "mean"}
    hta = pd.DataFrame({"name": frame["kernel"]})
    for column, statistic in named.items():
        hta[column] = frame[f"{statistic}_ns"].astype(float) / 1e3
    hta["kernel_type"] = frame["kernel_type"].str.upper()
    hta["rank"] = frame["rank"]
    return hta.sort_values(["kernel_type", "name", "rank"], kind="stable", ignore_index=True)
