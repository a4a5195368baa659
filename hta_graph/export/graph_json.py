"""The graph as JSON: ``hta-graph/graph/1``."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.export.files import printable
from hta_graph.graph import DependencyGraph
from hta_graph.trace.decode import paused_gc
from hta_graph.views import edge_columns, event_columns

__all__ = ["graph_document", "records"]


def graph_document(graph: DependencyGraph) -> dict[str, Any]:
    """Return all events, in order of their place in the file, and all edges, kind by kind."""
    rows = np.argsort(graph.trace.events.index)
    return {
        "schema": "hta-graph/graph/1",
        "file": printable(graph.trace.path),
        "rank": graph.trace.rank,
        "events": records(event_columns(graph.trace, rows)),
        "edges": records(edge_columns(graph.trace, graph.edge_table, graph.timeline.times)),
        "diagnostics": graph.diagnostics,
    }


def records(columns: dict[str, Any]) -> orjson.Fragment:
    """Encode columns as a JSON list of objects, without a dictionary for each.

    >>> orjson.dumps(records({"a": np.array([1, 2]), "b": np.array(["x", None], object)}))
    b'[{"a":1,"b":"x"},{"a":2,"b":null}]'
    """
    record = msgspec.defstruct("Record", list(columns), gc=False)
    rows = map(record, *(column.tolist() for column in columns.values()))
    with paused_gc():
        return orjson.Fragment(msgspec.json.encode(list(rows)))
