"""The graph as JSON: ``hta-graph/graph/1``."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_graph.base.text.json_text import Records
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, labels_of_rules
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import EdgeRule, EventKind


def graph_document(graph: DependencyGraph) -> dict[str, Any]:
    """Return all events, in order of their place in the file, and all edges, kind by kind; of a job rank by rank."""
    events = graph.event_table
    rows = np.flatnonzero(events.kind != EventKind.RENDEZVOUS)
    rows = rows[np.lexsort((events.index[rows], graph.rank_index_of(rows)))]
    return {
        "schema": "hta-graph/graph/1",
        "file": encodable_path(graph.path),
        "rank": graph.rank,
        **_job_keys(graph),
        "events": Records(graph.event_columns(rows)),
        "edges": Records({**graph.edge_columns(graph.edge_table), **_custom_rules(graph.edge_table)}),
        "diagnostics": graph.diagnostics_record,
    }


def _custom_rules(edges: EdgeTable) -> dict[str, Any]:
    """Return the rule of each edge where custom rules gave some."""
    return {"rule": labels_of_rules(edges.rule)} if (edges.rule >= len(EdgeRule)).any() else {}


def _job_keys(graph: DependencyGraph) -> dict[str, Any]:
    """Return what a job has besides: its ranks, and where they meet."""
    if not isinstance(graph, JobGraph):
        return {}
    return {"ranks": graph.rank_numbers.tolist(), "rendezvous": Records(graph.rendezvous_columns())}
