"""What one asks of a dependency graph: one file per question, listed in :mod:`analyses.questions.catalogue`.

Three groups of names: windows (``whole``, ``per_step``, ``in_window`` make the :class:`Scope` that a question
looks at), the questions (modules with ``answer``, ``figure`` and their tables as functions), and the names of Holistic
Trace Analysis with its arguments and shapes: whatever module of ``hta`` they stand in there, here it is
``from analyses import …``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyses.compare.diff import run_diff
    from analyses.declare.scope import Scope, in_window, per_step, whole
    from analyses.hta.critical_path import CPEdgeType
    from analyses.hta.execution_trace import add_et_column, correlate_execution_trace, load_execution_trace
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
    from analyses.hta.memory_analysis import MemoryAnalysis
    from analyses.hta.queues_and_launches import TimeSeriesTypes
    from analyses.hta.trace import Trace
    from analyses.hta.trace_analysis import TraceAnalysis
    from analyses.hta.trace_diff import DeviceType, LabeledTrace, TraceDiff
    from analyses.questions import (
        annotation_times,
        attribution,
        collectives,
        hardware_counters,
        idle_time,
        kernel_breakdown,
        kernel_sequences,
        launch_stats,
        memory_bandwidth,
        memory_timeline,
        operator_kernels,
        overlap,
        queue_length,
        roofline,
        serving,
        stragglers,
        temporal_breakdown,
    )
    from analyses.report.gain_curves import gain_curves
    from analyses.report.timeline import timeline_page


# For type checkers and editors, which do not run __getattr__.

_QUESTIONS = {
    "analyses.compare.diff": ("run_diff",),
    "analyses.questions": (
        "annotation_times",
        "attribution",
        "collectives",
        "hardware_counters",
        "idle_time",
        "kernel_breakdown",
        "kernel_sequences",
        "launch_stats",
        "memory_bandwidth",
        "memory_timeline",
        "operator_kernels",
        "overlap",
        "queue_length",
        "roofline",
        "serving",
        "stragglers",
        "temporal_breakdown",
    ),
}
"""Room → the questions in it."""

_HOME = {
    "AfterOperatorFilter": "analyses.hta.filters",
    "BeforeOperatorFilter": "analyses.hta.filters",
    "CPEdgeType": "analyses.hta.critical_path",
    "CPUOperatorFilter": "analyses.hta.filters",
    "CombinedOperatorFilter": "analyses.hta.filters",
    "CompositeFilter": "analyses.hta.filters",
    "DeviceType": "analyses.hta.trace_diff",
    "FirstIterationFilter": "analyses.hta.filters",
    "GPUKernelFilter": "analyses.hta.filters",
    "IterationFilter": "analyses.hta.filters",
    "IterationIndexFilter": "analyses.hta.filters",
    "LabeledTrace": "analyses.hta.trace_diff",
    "MemCopyEventFilter": "analyses.hta.filters",
    "MemoryAnalysis": "analyses.hta.memory_analysis",
    "NameFilter": "analyses.hta.filters",
    "QueryFilter": "analyses.hta.filters",
    "RankFilter": "analyses.hta.filters",
    "Scope": "analyses.declare.scope",
    "TimeRangeFilter": "analyses.hta.filters",
    "TimeSeriesTypes": "analyses.hta.queues_and_launches",
    "Trace": "analyses.hta.trace",
    "TraceAnalysis": "analyses.hta.trace_analysis",
    "TraceDiff": "analyses.hta.trace_diff",
    "UnderOperatorFilter": "analyses.hta.filters",
    "ZeroDurationFilter": "analyses.hta.filters",
    "add_et_column": "analyses.hta.execution_trace",
    "correlate_execution_trace": "analyses.hta.execution_trace",
    "gain_curves": "analyses.report.gain_curves",
    "in_window": "analyses.declare.scope",
    "load_execution_trace": "analyses.hta.execution_trace",
    "per_step": "analyses.declare.scope",
    "timeline_page": "analyses.report.timeline",
    "whole": "analyses.declare.scope",
}
"""What else is offered here → the module where it stands."""
_ROOM = {name: room for room, names in _QUESTIONS.items() for name in names}

__all__ = [
    "AfterOperatorFilter",
    "BeforeOperatorFilter",
    "CPEdgeType",
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
    "Scope",
    "TimeRangeFilter",
    "TimeSeriesTypes",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
    "UnderOperatorFilter",
    "ZeroDurationFilter",
    "add_et_column",
    "annotation_times",
    "attribution",
    "collectives",
    "correlate_execution_trace",
    "gain_curves",
    "hardware_counters",
    "idle_time",
    "in_window",
    "kernel_breakdown",
    "kernel_sequences",
    "launch_stats",
    "load_execution_trace",
    "memory_bandwidth",
    "memory_timeline",
    "operator_kernels",
    "overlap",
    "per_step",
    "queue_length",
    "roofline",
    "run_diff",
    "serving",
    "stragglers",
    "temporal_breakdown",
    "timeline_page",
    "whole",
]


if not TYPE_CHECKING:  # which would believe that any name is there

    def __getattr__(name: str) -> Any:
        """Import on first use: the command line answers ``--help`` without pandas."""
        if name in _ROOM:
            return import_module(f"{_ROOM[name]}.{name}")
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        if name == "torch":  # not in __all__: `from analyses import *` must not hide PyTorch
            return import_module(f"{__name__}.torch")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
