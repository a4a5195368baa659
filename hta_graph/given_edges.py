"""A DataFrame of edges as a table of points: kinds, rules, and what an edge of each kind may lead between."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import find_sorted, freeze
from hta_graph.dataframe_import import FrameColumns
from hta_graph.errors import QueryError
from hta_graph.graph.conversion import POINT_NAMES
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import event_of, start_point
from hta_graph.graph.validate import from_start_to_end, invalid_edges, repeated_rows, without_points
from hta_graph.model import EDGE_MEANING, Bools, Codes, EdgeKind, Evidence, Ids, Ints, Rule
from hta_graph.trace.table import Trace

__all__ = ["table_of_edges"]

EDGE_KINDS = [kind.label for kind in EdgeKind]
RANK_LOCAL_KINDS = [kind for kind in EdgeKind if not EDGE_MEANING[kind].of_job]
USUAL_KINDS = np.array(
    [[EdgeKind.THREAD_HANDOFF, EdgeKind.LAUNCH], [EdgeKind.STREAM_SYNC, EdgeKind.EVENT_WAIT]], np.int8
)
"""The kind of an edge that says none, by whether its source and its target are GPU activities."""


def table_of_edges(edges: FrameColumns, trace: Trace) -> EdgeTable:
    """Make a table of edges, in the order of the frame.

    Args:
        edges: the columns ``source_index`` and ``target_index``; optional are ``source_point`` (``end``),
            ``target_point`` (``start``), ``kind``, ``evidence`` and ``rule``.
        trace: the events that they join.

    Raises:
        QueryError: a column is missing, or a row contradicts itself, another one or the events.
    """
    _refuse_ranks(edges)
    source = _points_of(edges, "source", trace)
    target = _points_of(edges, "target", trace)
    kind = _edge_kinds(edges, trace, source, target)
    _check_sides(edges, trace, EdgeTable.of(source=source, target=target, kind=kind, rule=0))
    _refuse_repeated(edges, source, target, kind)
    return EdgeTable.of(source=source, target=target, kind=kind, rule=_rules_of(edges))


def _refuse_ranks(edges: FrameColumns) -> None:
    names = [name for name in ("source_rank", "target_rank") if name in edges]
    ranks = np.concatenate([np.empty(0, np.int64), *(edges.whole_numbers(name) for name in names)])
    if len(np.unique(ranks)) > 1:
        raise QueryError("edges: they lead between ranks, but such a graph is of one; take one rank's rows")


def _points_of(edges: FrameColumns, side: str, trace: Trace) -> Ids:
    """Return the points that one side of the edges names."""
    column, index = f"{side}_index", trace.events.index
    order = np.argsort(index, kind="stable")
    found = find_sorted(edges.whole_numbers(column), index[order])
    edges.refuse_any(found < 0, column, "there is no event {}", "name events by their event_index (without: row)")
    rows = order[found] if len(order) else found
    without = without_points(trace, start_point(rows))
    edges.refuse_any(without, column, "event {} is of a kind that has no points", "let it be a cpu_op or a kernel")
    point = edges.codes(f"{side}_point", POINT_NAMES)
    usual = POINT_NAMES.index("end" if side == "source" else "start")
    return freeze((2 * rows + np.where(point >= 0, point, usual)).astype(np.int32))


def _edge_kinds(edges: FrameColumns, trace: Trace, source: Ids, target: Ids) -> Codes:
    """Return the kinds; of rows that say none by what they join."""
    lane, on_gpu = trace.events.lane, trace.is_gpu
    rows = event_of(source), event_of(target)
    kind = edges.codes("kind", EDGE_KINDS)
    edges.refuse_any(
        (kind >= 0) & ~np.isin(kind, RANK_LOCAL_KINDS), "kind", "{} leads between ranks, but such a graph is of one",
        "say event_wait, or thread_handoff",
    )  # fmt: skip
    usual = USUAL_KINDS[on_gpu[rows[0]].astype(np.int8), on_gpu[rows[1]].astype(np.int8)]
    usual[~on_gpu[rows[0]] & (lane[rows[0]] == lane[rows[1]])] = EdgeKind.THREAD_ORDER
    usual[on_gpu[rows[0]] & from_start_to_end(source, target)] = EdgeKind.EXECUTION
    return np.where(kind >= 0, kind, usual).astype(np.int8)


def _check_sides(edges: FrameColumns, trace: Trace, table: EdgeTable) -> None:
    """Check that each edge leads between what an edge of its kind can."""
    for wrong, says in invalid_edges(table, trace):
        _refuse_kind(edges, table, wrong, says)


def _refuse_kind(edges: FrameColumns, table: EdgeTable, bad: Bools, says: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        kind = EdgeKind(int(table.kind[row])).label
        edges.refuse(row, "kind", f"{kind} {says}", "name another kind, or leave it blank")


def _refuse_repeated(edges: FrameColumns, source: Ids, target: Ids, kind: Codes) -> None:
    again = repeated_rows(source, target, kind)
    edges.refuse_any(again, "source_index", "the edge from event {} is there twice", "drop duplicates")


def _rules_of(edges: FrameColumns) -> Ints | Ids:
    """Return the rules; a row that says only that it was inferred has its producer's."""
    rule = edges.codes("rule", [member.label for member in Rule])
    evidence = edges.codes("evidence", [member.label for member in Evidence])
    inferred = rule != Rule.RECORDED
    contrary = (rule >= 0) & (evidence >= 0) & (inferred != (evidence == Evidence.INFERRED))
    edges.refuse_any(contrary, "evidence", "{} contradicts the rule", "an edge with the rule 'recorded' is recorded")
    usual = np.where(evidence == Evidence.INFERRED, Rule.OF_PRODUCER, Rule.RECORDED)
    return np.where(rule >= 0, rule, usual)
