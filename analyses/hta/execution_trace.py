"""HTA's functions for host execution traces: the operators of a device trace and the nodes recorded with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.scope import Scope
from analyses.hta.frame import hta_trace_frame
from hta_graph.base.errors import QueryError
from hta_graph.chakra.host_matching import match_host_trace
from hta_graph.chakra.host_trace import HostTrace, read_host_trace
from hta_graph.graph.conversion import event_columns

if TYPE_CHECKING:
    from analyses.hta.trace import Trace


ET_COLUMNS: dict[str, Callable[[HostTrace, int], Any]] = {
    "op_schema": lambda host, row: host.attributes(row).get("op_schema", ""),
    "input_shapes": lambda host, row: host.inputs(row).shapes,
    "input_types": lambda host, row: host.inputs(row).types,
    "output_shapes": lambda host, row: host.outputs(row).shapes,
    "output_types": lambda host, row: host.outputs(row).types,
    "et_node_name": lambda host, row: host.name_of(row),
}
"""The columns that :func:`with_et_column` can add, and how each is read from a node."""


def load_execution_trace(et_file: str | Path) -> HostTrace:
    """Read a host execution trace (JSON, gzip or zstd, of any known version).

    Raises:
        TraceError: the file cannot be read or is not a host execution trace.
    """
    return read_host_trace(et_file)


def execution_trace_nodes(scope: Scope, host: HostTrace) -> pd.DataFrame:
    """List the operators and annotations of a window that have a node in the host trace.

    Nodes are matched by ``Record function id``, else by an offset between the ids, else by names in order.

    Returns:
        event_index, kind, name, lane, start_ns, end_ns (absolute), et_node (the node's id), then :data:`ET_COLUMNS`.
        ``attrs`` of the frame hold the ``method`` and the ``share`` of host operators that were matched.

    Raises:
        TraceError: the host trace is of another process, or fewer than half of its operators are in the device trace.
    """
    found = match_host_trace(scope.graph, host)
    rows = np.flatnonzero(found.node >= 0)
    rows = rows[scope.holds(rows)]
    nodes = found.node[rows].tolist()
    frame = pd.DataFrame(event_columns(scope.graph.trace, rows))
    frame["et_node"] = host.id[nodes]
    for column, look in ET_COLUMNS.items():
        frame[column] = pd.Series([look(host, node) for node in nodes], dtype=object, index=frame.index)
    frame.attrs = {"method": found.method, "share": found.share}
    return frame


def hta_correlate_execution_trace(scope: Scope, et: HostTrace, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a rank's trace frame with the column ``et_node``: the id of each operator's host node, else missing.

    HTA writes the column into the loaded trace, matches equal ids only, and otherwise logs an error and adds nothing.
    Here the frame is a new one, traces whose ids differ by an offset or do not agree at all are matched too, and traces
    of different runs are an error.

    Args:
        scope: a rank's window.
        et: the host trace.
        frame: the rank's :func:`hta_trace_frame` if available; it is not changed.

    Raises:
        TraceError: as :func:`execution_trace_nodes`.
    """
    found = match_host_trace(scope.graph, et)
    frame = hta_trace_frame(scope) if frame is None else frame
    rows = np.flatnonzero(found.node >= 0)
    ids = pd.Series(pd.array(et.id[found.node[rows]], "Int64"), index=scope.graph.event_table.index[rows])
    return frame.assign(et_node=ids.reindex(frame.index))


def with_et_column(trace_df: pd.DataFrame, et: HostTrace, column: str) -> pd.DataFrame:
    """Return a frame with one more column of the nodes in its ``et_node``; HTA changes the frame itself.

    Args:
        trace_df: what :func:`hta_correlate_execution_trace` returned.
        et: the host trace.
        column: one of :data:`ET_COLUMNS`.

    Raises:
        QueryError: there is no such column, or no ``et_node``.
    """
    if column not in ET_COLUMNS:
        raise QueryError(f"a host trace has no column {column!r}; choose one of {', '.join(ET_COLUMNS)}")
    if "et_node" not in trace_df:
        raise QueryError("the frame has no column et_node; run correlate_execution_trace first")
    ids = trace_df["et_node"].fillna(-1).to_numpy(np.int64)  # missing: not in the host trace
    look = ET_COLUMNS[column]
    values = [look(et, row) if row >= 0 else None for row in et.row_of(ids).tolist()]
    return trace_df.assign(**{column: pd.Series(values, dtype=object, index=trace_df.index)})


def correlate_execution_trace(trace: Trace, rank: int, et: HostTrace) -> None:
    """Add the column ``et_node`` to a rank's frame of ``TraceAnalysis(...).t``: the id of each operator's host node.

    ``analyses.hta.hta_correlate_execution_trace`` describes how nodes are matched.

    Raises:
        QueryError: the rank is not loaded.
        TraceError: the host trace is of another process, or fewer than half of its operators are in the device trace.
    """
    (scope,) = trace.scopes_of([rank])
    frame = trace.get_trace(rank)
    frame["et_node"] = hta_correlate_execution_trace(scope, et, frame)["et_node"]


def add_et_column(trace_df: pd.DataFrame, et: HostTrace, column: str) -> None:
    """Add a column of the nodes in ``et_node`` to a frame.

    Raises:
        QueryError: there is no such column, or no ``et_node``.
    """
    trace_df[column] = with_et_column(trace_df, et, column)[column]
