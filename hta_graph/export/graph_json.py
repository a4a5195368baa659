"""The graph as JSON: ``hta-graph/graph/1``."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_graph.export.files import printable
from hta_graph.export.json_text import Records
from hta_graph.graph import DependencyGraph
from hta_graph.graph.views import edge_columns, event_columns

__all__ = ["graph_document"]


def graph_document(graph: DependencyGraph) -> dict[str, Any]:
    """Return all events, in order of their place in the file, and all edges, kind by kind."""
    rows = np.argsort(graph.event_table.index)
    return {
        "schema": "hta-graph/graph/1",
        "file": printable(graph.path),
        "rank": graph.rank,
        "events": Records(event_columns(graph.trace, rows)),
        "edges": Records(edge_columns(graph.trace, graph.edge_table, graph.timeline.times)),
        "diagnostics": graph.diagnostics,
    }
