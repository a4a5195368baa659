"""What the whole graph of a rank answers, for the graph of few of its rows that is left."""

from __future__ import annotations

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of, is_end, start_point
from hta_graph.graph.rank_summary import StepColumns, WindowRecord
from hta_graph.model import Ids
from hta_graph.paths.median_step import step_lengths
from hta_graph.paths.window_ends import step_work_ends
from hta_graph.paths.windows import Window

__all__ = ["window_record", "step_columns"]


def step_columns(graph: DependencyGraph) -> StepColumns:
    """Return the steps of a rank's whole graph."""
    lengths = step_lengths(graph)
    names = ("number", "iteration_ns", "latency_ns", "is_candidate", "launches_work")
    columns = zip(("number", "iteration", "latency", "is_candidate", "launches_work"), names, strict=True)
    return StepColumns.of(
        **{column: [getattr(one, name) for one in lengths] for column, name in columns}, end=step_work_ends(graph)
    )


def window_record(asked: str, found: Window | QueryError, rows: Ids) -> WindowRecord:
    """Return a window of the whole graph, or why there is none, as JSON, with points of the rows that are kept."""
    if isinstance(found, QueryError):
        return {"asked": asked, "error": [str(found), found.on_command_line]}
    sink = found.sink
    point = summary_point(rows, sink.point)
    fields = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "rows_after", "after_ns",
              "step", "form", "is_default")  # fmt: skip
    return {
        "asked": asked,
        "sink": [point, sink.time_ns, sink.lane],
        **{name: getattr(found, name) for name in fields},
    }


def summary_point(rows: Ids, point: int) -> int:
    """Return the point among the kept rows that a point of the whole graph is; -1 for point -1."""
    if point < 0:
        return -1
    own = np.array([point], np.int32)
    return int(start_point(np.searchsorted(rows, event_of(own)))[0] + is_end(own)[0])
