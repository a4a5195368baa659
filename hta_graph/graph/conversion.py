"""Events and edges as DataFrames, networkx and rustworkx graphs; these packages are imported only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.graph.edges import EdgeTable, labels_of_rules
from hta_graph.model import Bools, BoundBy, EdgeKind, EventKind, Evidence, Ids, Ints, Reason
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    import rustworkx


POINT_NAMES = ("start", "end")
EDGE_RANKS = ("source_rank", "target_rank", "rendezvous")
"""The columns that a job's edges have besides."""
Kinds = type[EventKind] | type[EdgeKind] | type[Evidence] | type[BoundBy] | type[Reason]
Objects = np.ndarray[Any, np.dtype[np.object_]]


def labels(members: Kinds, codes: Any) -> Objects:
    """Return the names of enum codes as an object array.

    >>> labels(EdgeKind, np.array([2, 0], np.int8)).tolist()
    ['launch', 'thread_order']
    """
    names: Objects = np.array([member.label for member in members], dtype=object)
    chosen: Objects = names[codes]
    return chosen


def texts_of_codes(texts: Sequence[str] | Objects, codes: Any, missing: str | None = None) -> Objects:
    """Return texts by their codes; ``missing`` for code -1.

    >>> texts_of_codes(["a", "b"], np.array([1, -1])).tolist()
    ['b', None]
    """
    named: Objects = np.array([*texts, missing], object)[np.asarray(codes)]  # it stands last, where -1 finds it
    return named


def none_where(values: Any, absent: Bools) -> Any:
    """Return a column of objects with None in some places; a column that holds objects already is changed itself."""
    column = values.astype(object, copy=False)
    column[absent] = None
    return column


def event_columns(trace: Trace, rows: Ids | Ints) -> dict[str, Any]:
    """Return the output columns of events: index, kind, name, lane, start and end (ns, absolute, as in the file)."""
    events, times = trace.events, trace.file_times
    return {
        "event_index": events.index[rows],
        "kind": labels(EventKind, events.kind[rows]),
        "name": np.array(trace.names or ("",), dtype=object)[events.name[rows]],
        "lane": np.array(trace.lanes.labels or ("",), dtype=object)[events.lane[rows]],
        "start_ns": times.start[rows],
        "end_ns": times.end[rows],
    }


HOST_TIMES = ("host_start_ns", "host_end_ns")
"""The columns that events have besides where GPU events were moved into host time, in which edges count their lags."""


def host_time_columns(trace: Trace, rows: Ids | Ints) -> dict[str, Any]:
    """Return when events start and end in host time (ns); nothing where that is what the file says of all."""
    times = (trace.events.start, trace.events.end) if trace.moved_from is not None else ()
    return {name: column[rows] for name, column in zip(HOST_TIMES, times, strict=False)}


def edge_columns(trace: Trace, edges: EdgeTable, times: Ints) -> dict[str, Any]:
    """Return the output columns of edges; events by their ``event_index``."""
    index = trace.events.index
    return {
        "kind": labels(EdgeKind, edges.kind),
        "evidence": labels(Evidence, edges.inferred.astype(np.int8)),
        "clamped": edges.clamped(times),
        "source_index": index[edges.source >> 1],
        "source_point": np.array(POINT_NAMES, dtype=object)[edges.source & 1],
        "target_index": index[edges.target >> 1],
        "target_point": np.array(POINT_NAMES, dtype=object)[edges.target & 1],
        "lag_ns": edges.lags(times),
    }


def events_frame(trace: Trace, rows: Ids | Ints, columns: Mapping[str, Any]) -> pd.DataFrame:
    """Build the events' DataFrame, with ``duration_ns``, ``correlation`` and ``external_id`` (-1 where absent)."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    frame["duration_ns"] = frame["end_ns"] - frame["start_ns"]
    frame["correlation"] = trace.events.correlation[rows]
    frame["external_id"] = trace.events.external_id[rows]
    return frame


def edges_frame(edges: EdgeTable, columns: Mapping[str, Any]) -> pd.DataFrame:
    """Build the edges' DataFrame, with the ``rule`` that produced each; numbers that may be absent are ``Int64``."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    frame.insert(2, "rule", labels_of_rules(edges.rule))
    absent = [name for name in ("source_index", "target_index", *EDGE_RANKS) if name in columns]
    return frame.astype({name: "Int64" for name in absent if columns[name].dtype == object})


def to_rustworkx(points: Ids, edges: EdgeTable) -> rustworkx.PyDiGraph[int, int]:
    """Build a rustworkx graph: a node's payload is its point, an edge's payload its row in the edges."""
    import rustworkx

    node = np.full(int(points.max(initial=-1)) + 1, -1, np.int64)
    node[points] = np.arange(len(points))
    graph: rustworkx.PyDiGraph[int, int] = rustworkx.PyDiGraph(multigraph=True)
    graph.add_nodes_from(points.tolist())
    rows = range(len(edges))
    graph.add_edges_from(list(zip(node[edges.source].tolist(), node[edges.target].tolist(), rows, strict=True)))
    return graph


def to_networkx(
    trace: Trace, points: Ids, edges: EdgeTable, times: Ints, names: Sequence[tuple[Any, ...]]
) -> networkx.MultiDiGraph[Any]:
    """Build a networkx multigraph of named points with the columns as attributes."""
    import networkx

    graph: networkx.MultiDiGraph[Any] = networkx.MultiDiGraph()
    columns = {key: column.tolist() for key, column in event_columns(trace, points >> 1).items()}
    for at, (node, time) in enumerate(zip(names, times[points].tolist(), strict=True)):
        graph.add_node(node, time_ns=time, **{key: values[at] for key, values in columns.items()})
    listed = {key: column.tolist() for key, column in edge_columns(trace, edges, times).items()}
    name_of = dict(zip(points.tolist(), names, strict=True))
    for at, (source, target) in enumerate(zip(edges.source.tolist(), edges.target.tolist(), strict=True)):
        attributes = {key: listed[key][at] for key in ("evidence", "clamped", "lag_ns")}
        kind = listed["kind"][at]
        graph.add_edge(name_of[source], name_of[target], key=kind, kind=kind, **attributes)
    return graph
