"""operator-kernels: which kernels each operator launches, and how long it takes until they are launched and start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import long_bars
from analyses.display.terminal import clipped
from analyses.display.text_tables import ARROW
from analyses.scope import Scope
from hta_graph.algorithms.sequences.same_sequences import Sequences, same_sequences
from hta_graph.algorithms.work.activities import WorkType
from hta_graph.errors import QueryError
from hta_graph.graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "figure", "hta_aten_op_kernels_and_delay", "operator_kernels"]

ATEN = "aten::"
SHOWN = 20
"""How many bars a figure holds."""
HTA_COLUMNS = (
    *("aten_op_name", "kernel_sequence", "occurrence_count"),
    *("avg_aten_op_launch_delay", "avg_runtime_delay"),
)
COLUMNS = (
    *("rank", "scope", "operator", "count", "kernels", "gpu_ns"),
    *("mean_launch_delay_ns", "mean_runtime_delay_ns", "kernel_sequence"),
)
"""``kernels`` counts those of one occurrence; the delays are rounded to a whole nanosecond."""


def operator_kernels(scopes: Sequence[Scope], prefix: str = ATEN) -> pd.DataFrame:
    """List which kernels operators launch, in the order of the launches.

    A kernel belongs to the innermost operator with the prefix that is open on the launching call's thread; HTA takes
    operators of other threads too. Every call that launches kernels counts, of AMD and of graphs too.

    Returns:
        rank, scope, operator, count (occurrences with this sequence), kernels (of one occurrence), gpu_ns (of all),
        mean_launch_delay_ns from the operator's start to its first launch, mean_runtime_delay_ns from that launch's
        start to that of its kernel, kernel_sequence (names joined with arrows); what occurs most comes first.
    """
    parts = [_rows(scope, prefix) for scope in scopes]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def _rows(scope: Scope, prefix: str) -> pd.DataFrame:
    events, found = scope.graph.trace.events, _sequences(scope, prefix)
    count = found.counts()
    launch_delay, runtime_delay = (np.rint(found.per_pattern(delay) / count) for delay in _delays(scope, found))
    frame = pd.DataFrame(
        {
            "rank": scope.rank,
            "scope": scope.label,
            "operator": _names(scope.graph.trace, found.owner[found.example]),
            "count": count,
            "kernels": np.diff(found.first)[found.example],
            "gpu_ns": found.per_pattern(found.per_group(events.end[found.members] - events.start[found.members])),
            "mean_launch_delay_ns": launch_delay.astype(np.int64),
            "mean_runtime_delay_ns": runtime_delay.astype(np.int64),
            "kernel_sequence": _texts(scope.graph.trace, found, ARROW),
        }
    )
    return frame.sort_values(["count", "gpu_ns"], ascending=False, kind="stable", ignore_index=True)


def _sequences(scope: Scope, prefix: str) -> Sequences:
    """Return the kernels of each operator in the order in which they were launched and began."""
    events = scope.graph.trace.events
    work = scope.work.take((scope.work.call >= 0) & (scope.work.type != WorkType.MEMORY))
    owner = _operators(scope.graph, work.call, prefix)
    order = np.lexsort((work.row, work.call, owner))
    order = order[owner[order] >= 0]
    return same_sequences(owner[order], work.row[order], events.name)


def _operators(graph: DependencyGraph, calls: Ids, prefix: str) -> Ids:
    """Return the innermost operator with a prefix around each call; -1 where there is none."""
    wanted = np.array([name.startswith(prefix) for name in graph.trace.names], np.bool_)
    name, around = graph.trace.events.name, graph.operator_around
    found = around[calls]
    while (others := (found >= 0) & ~wanted[name[found]]).any():
        found[others] = around[found[others]]
    return found


def _delays(scope: Scope, found: Sequences) -> tuple[Ints, Ints]:
    """Return for each operator how long it took to the first launch, and from that to the start of its kernel (ns)."""
    start = scope.graph.trace.events.start
    first = found.members[found.first[:-1]]
    called = start[scope.work.call[np.searchsorted(scope.work.row, first)]]
    return called - start[found.owner], start[first] - called


def _names(trace: Trace, rows: Ids) -> list[str]:
    return [trace.names[code] for code in trace.events.name[rows].tolist()]


def _texts(trace: Trace, found: Sequences, joint: str) -> list[str]:
    """Return the kernels' names of each pattern as one text."""
    return [joint.join(_names(trace, found.group(at))) for at in found.example.tolist()]


def answer(scopes: Sequence[Scope], operators: str = ATEN) -> Answer:
    """Answer the command."""
    frame = operator_kernels(scopes, operators)
    answered = set(zip(frame["rank"], frame["scope"], strict=True))
    notes = [_missing(scope, operators) for scope in scopes if (scope.rank, scope.label) not in answered]
    return Answer({"operator_kernels": frame}, notes)


def _missing(scope: Scope, prefix: str) -> str:
    return scope.missing() or (
        f"rank {scope.rank}: no kernel in {scope.label} was launched by an operator that starts with {prefix!r}; "
        "--operators '' takes every operator"
    )


def figure(found: Answer) -> Figure:
    """Draw the GPU time of the operators' kernels, largest first."""
    frame = found.main.nlargest(SHOWN, "gpu_ns") if len(found.main) else found.main
    labels = [f"{clipped(name, 40)} ×{count:,}" for name, count in zip(frame["operator"], frame["count"], strict=True)]
    texts = [clipped(text, 300) for text in frame["kernel_sequence"]]
    return long_bars(labels, frame["gpu_ns"].to_numpy() / 1e6, texts, title="GPU time of operators", x="ms")


def hta_aten_op_kernels_and_delay(
    scopes: Sequence[Scope], sort_by: Sequence[str] | None = None
) -> dict[int, pd.DataFrame]:
    """Return what HTA's ``get_aten_op_kernels_and_delay`` does, in µs: rank → one row per operator and sequence.

    Unlike HTA's an operator owns the launches of its own thread alone, launches of graphs and of AMD count, a call may
    launch no kernel or many, and no rank's rows hold another's.

    Args:
        scopes: one a rank.
        sort_by: columns, largest first; ``occurrence_count`` if not given.

    Raises:
        QueryError: there is no such column.
    """
    wanted = list(sort_by or ["occurrence_count"])
    frames = {scope.rank: _hta_frame(scope) for scope in scopes}
    for column in wanted:
        if column not in HTA_COLUMNS:
            raise QueryError(f"there is no column {column!r} to sort by; there are: {', '.join(HTA_COLUMNS)}")
    return {rank: frame.sort_values(wanted, ascending=False, kind="stable") for rank, frame in frames.items()}


def _hta_frame(scope: Scope) -> pd.DataFrame:
    found = _sequences(scope, ATEN)
    count = found.counts()
    launch_delay, runtime_delay = (found.per_pattern(delay) / count / 1e3 for delay in _delays(scope, found))
    trace = scope.graph.trace
    values = (_names(trace, found.owner[found.example]), _texts(trace, found, " -> "), count)
    columns = (*values, launch_delay.round(3), runtime_delay.round(3))
    frame = pd.DataFrame(dict(zip(HTA_COLUMNS, columns, strict=True)))
    return frame.sort_values(list(HTA_COLUMNS[:2]), ignore_index=True)
