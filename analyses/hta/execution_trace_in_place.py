"""HTA's functions about host execution traces, with HTA's arguments: they add columns to the frames of a ``Trace``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.hta import execution_trace_columns

if TYPE_CHECKING:
    import pandas as pd

    from analyses.hta.hta_trace import Trace
    from hta_graph.export.chakra.host.host_trace import HostTrace

__all__ = ["add_et_column", "correlate_execution_trace"]


def correlate_execution_trace(trace: Trace, rank: int, et: HostTrace) -> None:
    """Add the column ``et_node`` to a rank's frame of ``TraceAnalysis(...).t``: the id of each operator's host node.

    How nodes are found is told by ``analyses.hta.execution_trace_columns.hta_correlate_execution_trace``.

    Raises:
        QueryError: the rank is not loaded.
        TraceError: the host trace is of another process, or fewer than half of its operators are in the device trace.
    """
    (scope,) = trace.scopes_of([rank])
    frame = trace.get_trace(rank)
    frame["et_node"] = execution_trace_columns.hta_correlate_execution_trace(scope, et, frame)["et_node"]


def add_et_column(trace_df: pd.DataFrame, et: HostTrace, column: str) -> None:
    """Add a column of the nodes in ``et_node`` to a frame.

    Raises:
        QueryError: there is no such column, or no ``et_node``.
    """
    trace_df[column] = execution_trace_columns.with_et_column(trace_df, et, column)[column]
