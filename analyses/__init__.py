"""What one asks of a dependency graph: one file per analysis, listed in :mod:`analyses.command_line.catalogue`.

The names below have the arguments and shapes of Holistic Trace Analysis; whatever module of ``hta`` they stand in
there, here it is ``from analyses import …``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyses.hta.execution_trace import add_et_column, correlate_execution_trace
    from analyses.hta.execution_traces import load_execution_trace
    from analyses.hta.filters import (
        AfterOperatorFilter,
        BeforeOperatorFilter,
        CombinedOperatorFilter,
        CompositeFilter,
        CPUOperatorFilter,
        FirstIterationFilter,
        GPUKernelFilter,
        IterationFilter,
        IterationIndexFilter,
        MemCopyEventFilter,
        NameFilter,
        QueryFilter,
        RankFilter,
        TimeRangeFilter,
        UnderOperatorFilter,
        ZeroDurationFilter,
    )
    from analyses.hta.hta_trace import Trace
    from analyses.hta.hta_trace_diff import DeviceType, LabeledTrace, TraceDiff
    from analyses.hta.trace_analysis import TraceAnalysis
    from analyses.launches.counter_series import TimeSeriesTypes
    from analyses.memory.raw_memory_timeline import MemoryAnalysis

_NAMES = {
    "hta.trace_analysis": ("TraceAnalysis",),
    "hta.hta_trace_diff": ("DeviceType", "LabeledTrace", "TraceDiff"),
    "hta.hta_trace": ("Trace",),
    "hta.execution_trace": ("add_et_column", "correlate_execution_trace"),
    "hta.execution_traces": ("load_execution_trace",),
    "memory.raw_memory_timeline": ("MemoryAnalysis",),
    "launches.counter_series": ("TimeSeriesTypes",),
    "hta.filters": (
        "AfterOperatorFilter",
        "BeforeOperatorFilter",
        "CPUOperatorFilter",
        "CombinedOperatorFilter",
        "CompositeFilter",
        "FirstIterationFilter",
        "GPUKernelFilter",
        "IterationFilter",
        "IterationIndexFilter",
        "MemCopyEventFilter",
        "NameFilter",
        "QueryFilter",
        "RankFilter",
        "TimeRangeFilter",
        "UnderOperatorFilter",
        "ZeroDurationFilter",
    ),
}
"""Module → what it offers here."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "AfterOperatorFilter",
    "BeforeOperatorFilter",
    "CPUOperatorFilter",
    "CombinedOperatorFilter",
    "CompositeFilter",
    "DeviceType",
    "FirstIterationFilter",
    "GPUKernelFilter",
    "IterationFilter",
    "IterationIndexFilter",
    "LabeledTrace",
    "MemCopyEventFilter",
    "MemoryAnalysis",
    "NameFilter",
    "QueryFilter",
    "RankFilter",
    "TimeRangeFilter",
    "TimeSeriesTypes",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
    "UnderOperatorFilter",
    "ZeroDurationFilter",
    "add_et_column",
    "correlate_execution_trace",
    "load_execution_trace",
]


def __getattr__(name: str) -> Any:
    """Import on first use: the command line answers ``--help`` without pandas."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
