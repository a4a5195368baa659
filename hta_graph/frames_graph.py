"""A graph of anybody's own DataFrames: paths, replay and all queries serve other producers than PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.dataframe_import import FrameColumns
from hta_graph.dependencies.execution import execution
from hta_graph.dependencies.rules import DependencyRule, RuleContext
from hta_graph.dependencies.stream_order import stream_order
from hta_graph.dependencies.thread_order import thread_order
from hta_graph.given_edges import table_of_edges
from hta_graph.given_events import trace_of_events
from hta_graph.graph.cycles import edges_on_a_cycle
from hta_graph.graph.dependency_graph import BUILD_DIAGNOSTICS, DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, EdgeKind

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["from_dataframes"]

ORDER_RULES: dict[EdgeKind, DependencyRule] = {
    EdgeKind.THREAD_ORDER: thread_order,
    EdgeKind.EXECUTION: execution,
    EdgeKind.STREAM_ORDER: stream_order,
}
"""What goes without saying, and the rules that find it."""


def from_dataframes(
    events: pd.DataFrame,
    edges: pd.DataFrame,
    *,
    name: str = "frames",
    rank: int | None = None,
    add_order: bool = True,
    clock_fault_ns: int = CLOCK_FAULT_LIMIT_NS,
) -> DependencyGraph:
    """Build a graph from DataFrames with the columns of ``graph.events`` and ``graph.edges``, of one rank.

    Args:
        events: name, lane, start_ns, end_ns (whole ns); optional event_index (else the row's place), kind (else
            ``kernel`` on streams, ``annotation`` for ``ProfilerStep#N``, ``cpu_op`` otherwise), correlation,
            external_id. A lane is a stream if its text begins with ``stream`` or GPU work is on it, else a thread.
        edges: source_index, target_index; optional source_point (else ``end``), target_point (else ``start``), kind
            (else by what it joins: thread_order, thread_handoff, launch, stream_sync, event_wait, execution),
            evidence and rule. The first edges of the graph are these, in this order.
        name: what the graph is called in errors and outputs.
        rank: whose they are, if that is known; else what a column ``rank`` says.
        add_order: add the order of threads, the execution of activities and the order of streams, each unless
            ``edges`` has edges of that kind.
        clock_fault_ns: how far back in time an edge may lead; it has lag 0 then and is ``clamped``.

    Raises:
        QueryError: a frame is not sound; the error names the row, the column and the remedy.
    """
    given = FrameColumns(edges, "edges")
    trace = trace_of_events(FrameColumns(events, "events"), name, rank)
    table, timeline = table_of_edges(given, trace), Timeline(trace)
    back = timeline.times[table.source] - timeline.times[table.target]
    given.refuse_any(
        back > clock_fault_ns, "target_index", f"event {{}} is more than {clock_fault_ns} ns before the edge's source",
        "turn the edge round, or allow it with clock_fault_ns",
    )  # fmt: skip
    notes: Counter[str] = Counter(edges_clamped=int(np.count_nonzero(back > 0)))
    if add_order:
        table = _with_order(table, RuleContext(trace, timeline), notes)
    _refuse_cycles(given, table, timeline)
    notes["nesting_violations"] = timeline.calls.violations
    return DependencyGraph(trace, timeline, table, {key: notes[key] for key in BUILD_DIAGNOSTICS}, WaitCalls.empty())


def _with_order(table: EdgeTable, context: RuleContext, notes: Counter[str]) -> EdgeTable:
    """Add the edges of the kinds that go without saying and that nobody gave."""
    missing = [rule for kind, rule in ORDER_RULES.items() if not (table.kind == kind).any()]
    added = [rule(context) for rule in missing]
    notes += context.notes
    return EdgeTable.join([table, *added])


def _refuse_cycles(given: FrameColumns, table: EdgeTable, timeline: Timeline) -> None:
    """Refuse edges on a cycle; what was added comes after what was given, and alone has none."""
    cycle = np.sort(edges_on_a_cycle(table, timeline))
    if len(cycle):
        others = list(map(str, cycle[1:6][cycle[1:6] < len(given)].tolist()))
        if cycle[-1] >= len(given):
            others.append("what goes without saying (add_order)")
        says = "the edge is on a cycle" + " with " * bool(others) + ", ".join(others)
        given.refuse(int(cycle[0]), "source_index", says, "leave out one of them")
