"""Which formula recomputes which call, and which of HTA's faults may show in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.golden_table import (
    annotations,
    counters_and_host_traces,
    diff,
    gpu_time,
    launches,
    loading,
    sequences,
    steps,
)
from tests.golden_table.golden_files import Golden
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.our_answers import TRACES, filters_asked
from tests.golden_table.raw_trace import COPY_OF_ANNOTATION, OPERATOR, SYNC, Run, read_run

__all__ = ["Case", "case_of"]

F = Fault
Formula = Callable[[Any, Mapping[str, Any], Faults], Any]
TIMES = (F.ROUNDED, F.FLOATS)
WINDOW = (*TIMES, F.LATE_CUT, F.COPIES_APART)
ROWS = (*WINDOW, F.OPERATORS, F.SYNC_RECORDS, F.NAMES_ALONE)
QUEUE = (*WINDOW, F.FEW_CALLS)
LOADING = (*WINDOW, F.WRONG_STEP, F.OPERATORS, F.UNRESOLVED, F.FEW_CALLS)
DIFF = (*TIMES, F.WRONG_STEP, F.COPIES_APART, F.OPERATORS, F.COPIES_COUNT, F.NEW_NAMES_LAST)

FORMULAS: dict[str, tuple[Formula, tuple[Fault, ...]]] = {
    "get_temporal_breakdown": (gpu_time.temporal, (*ROWS, F.ANY_ORDER)),
    "get_comm_comp_overlap": (gpu_time.overlap, ROWS),
    "get_gpu_kernel_breakdown": (gpu_time.kernels, (*ROWS, F.TWICE, F.QUANTILE, F.TRUNCATED, F.EMPTY_STRETCHES)),
    "get_idle_time_breakdown": (gpu_time.idle_time, (*WINDOW, F.ABSENT_IS_FIRST, F.NEGATIVE_GAPS)),
    "get_queue_length_time_series": (launches.queue_series, (*QUEUE, F.ANY_ORDER)),
    "get_queue_length_summary": (launches.queue_summary, (*QUEUE, F.ANY_ORDER)),
    "get_queue_length_summary_from_time_series": (launches.queue_summary, (*QUEUE, F.ANY_ORDER)),
    "get_time_spent_blocked_on_full_queue": (launches.blocked, (*QUEUE, F.LAST_STREAM)),
    "get_memory_bw_time_series": (launches.rate_series, (*WINDOW, F.ANY_ORDER)),
    "get_memory_bw_summary": (launches.rate_summary, (*WINDOW, F.RESIDUES)),
    "generate_trace_with_counters": (counters_and_host_traces.counters, (*QUEUE, F.ANY_ORDER, F.NO_EMPTY_FILE)),
    "get_cuda_kernel_launch_stats": (launches.launch_stats, QUEUE),
    "get_aten_op_kernels_and_delay": (launches.operators, (*QUEUE, F.OTHER_THREADS, F.EQUAL_STARTS, F.ANY_ORDER)),
    "get_frequent_cuda_kernel_sequences": (sequences.sequences, (*WINDOW, F.LEAST_DEPTH, F.SYNC_RECORDS)),
    "get_gpu_user_annotation_breakdown": (annotations.breakdown, (*WINDOW, F.TWICE, F.QUANTILE)),
    "get_gpu_kernels_with_user_annotations": (annotations.kernels_under, (*WINDOW, F.WRONG_STEP, F.BY_TIMES)),
    "get_cupti_counter_data_with_operators": (counters_and_host_traces.counted, WINDOW),
    "get_profiler_steps": (steps.profiler_steps, WINDOW),
    "get_potential_stragglers": (steps.stragglers, (*WINDOW, F.WRONG_STEP, F.LATE_STARTS)),
    "__init__": (loading.loaded, LOADING),
    "trace_filter/*": (loading.filtered, LOADING),
    "correlate_execution_trace": (counters_and_host_traces.host_nodes, ()),
    "compare_traces": (diff.compared, DIFF),
    "ops_diff": (diff.sorted_names, DIFF),
}
FIRST_RANK = ("get_idle_time_breakdown", "correlate_execution_trace")
"""Calls whose golden files may name no rank: rank 0, or else the first."""


@dataclass(frozen=True)
class Case:
    """How one call is recomputed: ``possible`` are the faults that this run leaves room for."""

    formula: Formula
    subject: Any
    arguments: Mapping[str, Any]
    possible: Faults

    def answer(self, faults: Faults) -> Any:
        """Compute the call's answer with some faults."""
        return self.formula(self.subject, self.arguments, faults)


def case_of(golden: Golden) -> Case | None:
    """Return how a call is recomputed; None where no formula is written down here."""
    if golden.method not in FORMULAS:
        return None
    formula, faults = FORMULAS[golden.method]
    if golden.trace.startswith("diff"):
        pair = (read_run(TRACES / "nanogpt_ab_current"), read_run(TRACES / "nanogpt_ab_hook"))
        return Case(formula, pair, golden.arguments, frozenset(faults) - {F.FLOATS})
    run = _asked(golden, read_run(TRACES / golden.recording))
    arguments = dict(golden.arguments)
    if golden.method == "trace_filter/*":
        arguments["filters"] = filters_asked(golden)
    return Case(formula, run, arguments, _possible(faults, run, golden))


def _asked(golden: Golden, run: Run) -> Run:
    ranks = golden.arguments.get("ranks")
    if "rank" in golden.arguments:
        return run.only([min(run.ranks) if golden.method == "trace_filter/*" else golden.arguments["rank"]])
    if ranks:
        return run.only(ranks)
    return run.only([min(run.ranks)]) if golden.method in FIRST_RANK else replace(run, asked=None)


def _possible(faults: tuple[Fault, ...], run: Run, golden: Golden) -> Faults:
    """Leave out the faults that need rows which this run does not have."""
    out = {F.ROUNDED if golden.is_rounding_off else F.FLOATS}
    if not run.is_fractional:
        out |= {F.ROUNDED, F.FLOATS}
    if not run.has(OPERATOR, stream=True):
        out |= {F.OPERATORS}
    if not run.has(SYNC, stream=True):
        out |= {F.SYNC_RECORDS}
    if not run.has(COPY_OF_ANNOTATION):
        out |= {F.LATE_CUT, F.COPIES_APART, F.COPIES_COUNT, F.WRONG_STEP, F.BY_TIMES}
    if run.steps < 2:
        out |= {F.LATE_CUT}
    return frozenset(faults) - out
