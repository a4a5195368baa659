"""HTA's tables of launches, of operators' kernels and of frequent kernel sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analyses.display.charts import show
from analyses.questions import kernel_sequences
from analyses.questions.launch_stats import answer, figure, launched_work
from analyses.questions.operator_kernels import OPERATORS, joined_names, launch_delays, sequences_of_operators
from analyses.scope import Scope
from analyses.tables import event_names
from hta_graph.errors import QueryError
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.storage.output_paths import check_output

__all__ = ["hta_aten_op_kernels_and_delay", "hta_cuda_kernel_launch_stats", "hta_frequent_cuda_kernel_sequences"]

HTA_COLUMNS = (
    *("aten_op_name", "kernel_sequence", "occurrence_count"),
    *("avg_aten_op_launch_delay", "avg_runtime_delay"),
)


def hta_cuda_kernel_launch_stats(
    scopes: Sequence[Scope],
    runtime_cutoff: float,
    launch_delay_cutoff: float,
    *,
    include_memory_events: bool,
    visualize: bool,
) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_cuda_kernel_launch_stats``."""
    if visualize:
        show(figure(answer(scopes, runtime_cutoff, launch_delay_cutoff, no_memory_events=not include_memory_events)))
    return {scope.rank: _launch_frame(scope, include_memory_events=include_memory_events) for scope in scopes}


def _launch_frame(scope: Scope, *, include_memory_events: bool) -> pd.DataFrame:
    """Return a rank's launches (µs)."""
    events, work = scope.graph.event_table, launched_work(scope, include_memory_events=include_memory_events)
    returned = events.end[work.call]
    return pd.DataFrame(
        {
            "correlation": events.correlation[work.row],
            "cpu_duration": (returned - events.start[work.call]) / 1e3,
            "gpu_duration": (work.end - work.start) / 1e3,
            "launch_delay": (work.start - returned).clip(min=0) / 1e3,
        }
    )


def hta_aten_op_kernels_and_delay(scopes: Sequence[Scope], sort_by: Sequence[str] | None) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_aten_op_kernels_and_delay``."""
    wanted = list(sort_by or ["occurrence_count"])  # HTA's own default
    frames = {scope.rank: _operator_frame(scope) for scope in scopes}
    for column in wanted:
        if column not in HTA_COLUMNS:
            raise QueryError(f"there is no column {column!r} to sort by; there are: {', '.join(HTA_COLUMNS)}")
    return {rank: frame.sort_values(wanted, ascending=False, kind="stable") for rank, frame in frames.items()}


def _operator_frame(scope: Scope) -> pd.DataFrame:
    """Return a rank's operators and sequences (µs), by name."""
    found = sequences_of_operators(scope, OPERATORS)
    count = found.counts()
    launch_delay, runtime_delay = (found.per_pattern(delay) / count / 1e3 for delay in launch_delays(scope, found))
    graph = scope.graph
    values = (event_names(graph, found.owner[found.example]), joined_names(graph, found, " -> "), count)
    columns = (*values, launch_delay.round(3), runtime_delay.round(3))
    frame = pd.DataFrame(dict(zip(HTA_COLUMNS, columns, strict=True)))
    return frame.sort_values(list(HTA_COLUMNS[:2]), ignore_index=True)


def hta_frequent_cuda_kernel_sequences(
    scope: Scope,
    operator_name: str,
    output_dir: str | Path | None,
    min_pattern_len: int,
    top_k: int,
    *,
    visualize: bool,
    inputs: Sequence[Location] = (),
) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_frequent_cuda_kernel_sequences``.

    ``inputs`` are files of other ranks, which are not overwritten either.
    """
    graph = scope.graph
    if output_dir is not None:
        target = resolve_location(output_dir) / f"overlaid_{graph.path.name.removesuffix('.zst')}"
        check_output(target, inputs)
        kernel_sequences.write_sequence_overlay(scope, target, operator_name, min_pattern_len, top_k)
    if visualize:
        show(kernel_sequences.figure(kernel_sequences.answer([scope], operator_name, min_pattern_len), top_k))
    found = kernel_sequences.sequences_under(scope, operator_name, min_pattern_len)
    gpu, cpu = kernel_sequences.pattern_times(graph, found)
    columns = {
        "pattern": kernel_sequences.pattern_texts(graph, found),
        "count": found.counts(),
        "GPU kernel duration (us)": gpu / 1e3,
        "CPU op duration (us)": cpu / 1e3,
    }
    return pd.DataFrame(columns).iloc[kernel_sequences.most_frequent(graph, found)].reset_index(drop=True)
