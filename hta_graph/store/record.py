"""A graph as an entry, JSON and columns: what the cache keeps, what is saved, and what goes from process to process.

Nothing is believed that cannot be: columns have the types and lengths of their tables, numbers refer to what is there,
nothing ends before it starts or lies around itself. Of what lay in the cache no edges lead back to where they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np

from hta_graph.base.arrays import Columns, column_types, freeze, pair_key
from hta_graph.base.storage.location import Location, RemotePath, name_with_secrets, resolve_location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import FIRST_CUSTOM_RULE, EdgeTable, WaitCalls, custom_rule, labels_of_custom_rules
from hta_graph.graph.points import event_of
from hta_graph.graph.timeline import Nesting, Timeline
from hta_graph.graph.validate import edges_on_a_cycle
from hta_graph.model import CPU_KINDS, EdgeKind, EdgeRule, EventKind, Ids, kind_mask
from hta_graph.store.entry_file import Column, Entry
from hta_graph.trace.table import GpuClock, LaneTable, Trace

TableDescription = dict[str, Any]
AttachedTables = Mapping[str, type[Any]]
"""The tables that go with a graph where it has them, by name."""

NOT_WHAT_WAS_WRITTEN = (
    ValueError, TypeError, LookupError, AttributeError, StopIteration, OverflowError, RecursionError,
    msgspec.ValidationError,
)  # fmt: skip
"""What reading a record raises that is another one than was written."""

MOST_NS = (1 << 62) + (1 << 53)
"""No event of a trace is further from 1970: reading drops those beyond 2^62 ns, and lengths beyond 30 days."""

AT_ONCE = 1 << 16
"""How many points or edges are looked up at once: what is made of them stays in the processor's cache."""

IndexRange = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


def question_values(path: Location, rank: int | None, step_patterns: Sequence[str]) -> dict[str, Any]:
    """Return what of a trace is not the file's own: the same trace may lie elsewhere tomorrow."""
    return {"path": name_with_secrets(path), "rank": rank, "step_patterns": list(step_patterns)}


def encode_graph(
    graph: DependencyGraph, attached: AttachedTables | None = None, *, is_ordered: bool = False, is_named: bool = True
) -> Entry:
    """Return the entry of a graph.

    Args:
        graph: the graph.
        attached: which attached tables go with it.
        is_ordered: whether the order and the nesting of its points do, too.
        is_named: whether it says which file and rank it is of.
    """
    columns: list[Column] = []
    record = graph_record(graph, columns, attached or {}, is_ordered=is_ordered)
    for key in () if is_named else question_values(graph.path, graph.rank, ()):
        del record["trace"]["values"][key]
    return Entry({"graph": record}, tuple(columns))


def decode_graph(
    entry: Entry, attached: AttachedTables | None = None, values: Mapping[str, Any] | None = None
) -> DependencyGraph:
    """Undo :func:`encode_graph`; some values of the trace may be given.

    Raises:
        ValueError: its columns or numbers are none of a graph (:data:`NOT_WHAT_WAS_WRITTEN`).
    """
    record = entry.record["graph"]
    record["trace"]["values"].update(values or {})
    return read_graph(record, iter(entry.columns), attached or {})


def graph_record(
    graph: DependencyGraph, columns: list[Column], attached: AttachedTables, *, is_ordered: bool
) -> dict[str, Any]:
    """Return what a graph is as JSON; its columns are added to others."""
    trace, calls = graph.trace, graph.timeline.calls if is_ordered else None
    tables = {name: graph.attached(kind) for name, kind in attached.items()}
    record: dict[str, Any] = {
        "trace": describe_table(trace, columns),
        "edges": describe_table(graph.edge_table, columns),
        "rules": _custom_rules_in(graph.edge_table),
        "wait_calls": describe_table(graph.wait_calls, columns),
        "notes": {key: count for key, count in graph.diagnostics.items() if key not in trace.diagnostics},
        "attached": {name: describe_table(table, columns) for name, table in tables.items() if table is not None},
    }
    if calls is not None:
        record["violations"] = calls.violations
        columns += [graph.timeline.order, graph.timeline.position, calls.points, calls.owner, calls.parent, calls.first]
    return record


def read_graph(record: dict[str, Any], columns: Iterator[Column], attached: AttachedTables) -> DependencyGraph:
    """Undo :func:`graph_record`; the columns come in its order.

    Raises:
        ValueError: as :func:`decode_graph`.
    """
    trace: Trace = read_table(Trace, record["trace"], columns)
    edges: EdgeTable = read_table(EdgeTable, record["edges"], columns)
    if edges.rule.max(initial=0) >= len(EdgeRule):
        edges = _with_own_rules(edges, msgspec.convert(record["rules"], dict[str, int]))
    calls: WaitCalls = read_table(WaitCalls, record["wait_calls"], columns)
    notes = msgspec.convert(record["notes"], dict[str, int])
    tables = [read_table(attached[name], described, columns) for name, described in record["attached"].items()]
    graph = DependencyGraph(trace, Timeline(trace), edges, notes, calls, tables)
    check_indices(_tables_of(graph), _indices_of(graph))
    if (trace.events.start > trace.events.end).any():
        raise ValueError("an event ends before it starts")
    if "violations" in record:
        _take_order(graph.timeline, columns, msgspec.convert(record["violations"], int))
        check_indices((), _timeline_indices(graph))
        _check_nesting(graph)
    return graph


def _check_nesting(graph: DependencyGraph) -> None:
    calls, place, events = graph.timeline.calls, graph.timeline.position, graph.event_table
    # What is around a row begins before it, and so stands above it.
    if (events.start[1:] < events.start[:-1]).any():
        raise ValueError("an event starts before an earlier one")
    if (calls.parent >= np.arange(len(calls.parent), dtype=np.int32)).any():
        raise ValueError("a row lies around itself")
    on_cpu = kind_mask(events.kind, CPU_KINDS)
    # Both points of a row are walked, or none: two bytes at once.
    both = (on_cpu | graph.trace.is_activity) * np.uint16(0x0101)
    if not np.array_equal((place >= 0).view(np.uint16), both) or len(calls.points) != 2 * np.count_nonzero(on_cpu):
        raise ValueError("other rows are walked")
    lane = events.lane | (on_cpu.view(np.int8) - np.int8(1))  # -1 of other rows
    for first in range(0, len(calls.points), AT_ONCE):
        points = calls.points[first : first + AT_ONCE + 1]
        key = pair_key(_at(lane, points >> 1), _at(place, points))
        if key[0] < 0 or not (key[1:] > key[:-1]).all():
            raise ValueError("the points of lanes are in no order")
    begins, ends = calls.first[:-1], calls.first[1:]
    if calls.first[0] or calls.first[-1] != len(calls.points) or (begins > ends).any():
        raise ValueError("a point is on no lane")
    has_points = np.flatnonzero(begins < ends)
    outermost = calls.points[[begins[has_points], ends[has_points] - 1]]
    if (lane[event_of(outermost)] != has_points).any():
        raise ValueError("a lane has points of another one")


def check_acyclic(graph: DependencyGraph) -> None:
    """Refuse a graph on which a walk would not end.

    Raises:
        ValueError: its order has a point twice or lacks one of an edge, or edges close a cycle.
    """
    edges, place, order = graph.edge_table, graph.timeline.position, graph.timeline.order
    parts = ((first, order[first : first + AT_ONCE]) for first in range(0, len(order), AT_ONCE))
    turn = np.arange(len(order), dtype=np.int32)
    in_turn = all(np.array_equal(_at(place, part), turn[first : first + len(part)]) for first, part in parts)
    if not in_turn or np.count_nonzero(place >= 0) != len(order):
        raise ValueError("a point comes twice")
    # Nothing leads on from a point without a place, which is the last one without a sign.
    if all(_go_forward(part, place.view(np.uint32)) for _, part in edges.pieces(AT_ONCE)):
        return
    if min(place[edges.source].min(), place[edges.target].min()) < 0 or len(edges_on_a_cycle(edges, graph.timeline)):
        raise ValueError("edges close a cycle")


def _at(column: np.ndarray[Any, Any], rows: Ids) -> np.ndarray[Any, Any]:
    """Look up rows that were checked: without another check it is twice as fast."""
    return column.take(rows, mode="clip")


def _go_forward(edges: EdgeTable, place: np.ndarray[Any, Any]) -> bool:
    return bool((_at(place, edges.source) < _at(place, edges.target)).all())


def _take_order(timeline: Timeline, columns: Iterator[Column], violations: int) -> None:
    order, position, points, owner, parent, first = [next(columns) for _ in range(6)]
    timeline.set_known(order, position, Nesting(points, owner, parent, first, violations, timeline.times))


# -- custom rules, which have other codes in every process -------------------------------------------------------------


def _custom_rules_in(edges: EdgeTable) -> dict[str, int]:
    """Return the labels of the custom rules that gave some edges, and their codes."""
    if edges.rule.max(initial=0) < len(EdgeRule):
        return {}
    there = set(np.unique(edges.rule).tolist())
    return {label: code for label, code in labels_of_custom_rules().items() if code in there}


def _with_own_rules(edges: EdgeTable, rules: Mapping[str, int]) -> EdgeTable:
    """Give the custom rules of edges the codes that they have in this process; unknown codes become -1."""
    codes = np.full(256, -1, np.int8)
    codes[: len(EdgeRule)] = np.arange(len(EdgeRule))
    for label, code in rules.items():
        codes[code] = custom_rule(label)
    return EdgeTable(edges.source, edges.target, edges.kind, freeze(codes[edges.rule.view(np.uint8)]))


# -- tables ------------------------------------------------------------------------------------------------------------


def describe_table(table: Any, columns: list[Column]) -> TableDescription:
    """Describe a table as JSON: of a column its name, while the column itself is set aside."""
    found: TableDescription = {"columns": [], "tables": {}, "values": {}}
    for f in fields(table):
        value = getattr(table, f.name)
        if isinstance(value, np.ndarray):
            columns.append(value)
            found["columns"].append(f.name)
        elif isinstance(value, tuple) and value and isinstance(value[0], GpuClock):
            found["values"][f.name] = msgspec.to_builtins(value)
        elif is_dataclass(value):
            found["tables"][f.name] = describe_table(value, columns)
        else:
            found["values"][f.name] = name_with_secrets(value) if isinstance(value, (Path, RemotePath)) else value
    return found


def read_table(kind: Any, described: TableDescription, columns: Iterator[Column]) -> Any:
    """Undo :func:`describe_table`; the columns come in the order of the fields.

    A field that the table did not have when it was written has its default.
    """
    types = _types_of(kind)
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name in described["columns"]:
            made[f.name] = next(columns)
        elif f.name in described["tables"]:
            made[f.name] = read_table(_table_type(types[f.name]), described["tables"][f.name], columns)
        elif f.name in described["values"]:
            made[f.name] = _restored_value(types[f.name], described["values"][f.name])
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ValueError("a field is missing")
    return kind(**made)


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    """Return the types of a table's fields: looking them up takes longer than reading a small graph."""
    return get_type_hints(kind)


def _table_type(kind: Any) -> Any:
    """Return a field's table type, which the field may also lack."""
    return next(of for of in (*get_args(kind), kind) if of is not NoneType)


def _restored_value(kind: Any, value: Any) -> Any:
    """Undo what JSON does to a tuple, a clock and a path.

    Raises:
        msgspec.ValidationError: it is of another type.
    """
    if kind == Location:
        return value if isinstance(value, (Path, RemotePath)) else resolve_location(msgspec.convert(value, str))
    if value is None and NoneType in get_args(kind):
        return None
    return msgspec.convert(value, kind, str_keys=True)


# -- what numbers may be -----------------------------------------------------------------------------------------------


def check_indices(tables: Iterable[Columns | LaneTable], indices: Iterable[IndexRange]) -> None:
    """Refuse columns that are none of their table, and numbers that refer to nothing.

    Raises:
        ValueError: there are some.
    """
    for table in tables:
        columns = [(getattr(table, name), dtype) for name, dtype in column_types(type(table)).items()]
        if len({len(column) for column, _ in columns}) > 1:
            raise ValueError("the columns of a table differ in length")
        if any(column.dtype.newbyteorder("=") != dtype for column, dtype in columns):
            raise ValueError("a column is of another type")
    for column, least, past in indices:
        if column.dtype.kind != "i" or not _is_within(column, least, past):
            raise ValueError("a number refers to nothing")


def _is_within(column: np.ndarray[Any, Any], least: int, past: int) -> bool:
    if least == 0 and column.dtype.isnative:  # what is below 0 is large without a sign: one pass instead of two
        past = min(past, np.iinfo(column.dtype).max + 1)
        column = column.view(f"u{column.itemsize}")
    return not len(column) or bool((column.dtype.kind == "u" or least <= column.min()) and column.max() < past)


def _tables_of(graph: DependencyGraph) -> Iterator[Columns | LaneTable]:
    trace = graph.trace
    yield from (trace.events, trace.lanes, trace.syncs, trace.copies, trace.flows, trace.node_order)
    yield from (graph.edge_table, graph.wait_calls)
    if trace.moved_from is not None:
        yield trace.moved_from


def _indices_of(graph: DependencyGraph) -> Iterator[IndexRange]:
    """Yield every column of a graph that refers to other rows, with what it may hold."""
    events, edges, size, lanes = graph.event_table, graph.edge_table, len(graph.event_table), graph.lanes
    count = len(lanes.labels)
    if len(lanes.is_stream) != count:
        raise ValueError("there are labels of other lanes")
    if len(graph.trace.file_times) != size:
        raise ValueError("there are times of other events")
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, count
    for times in (events.start, events.end):
        yield times, -MOST_NS, MOST_NS
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, FIRST_CUSTOM_RULE + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size
    for table in (graph.trace.syncs, graph.trace.copies):
        yield table.event, 0, size
    for column in (graph.trace.node_order.source, graph.trace.node_order.target):
        yield column, 0, size
    for column in (graph.trace.flows.start_lane, graph.trace.flows.end_lane):
        yield column, -1, count
    for column in (graph.wait_calls.source, graph.wait_calls.target, graph.wait_calls.call):
        yield column, -1, size


def _timeline_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    timeline, size = graph.timeline, len(graph.event_table)
    calls = timeline.calls
    lengths = (len(timeline.position), len(calls.owner), len(calls.parent), len(calls.first))
    if lengths != (2 * size, len(calls.points), size, len(graph.lanes.labels) + 1):
        raise ValueError("a nesting has other lengths than its trace")
    for column in (timeline.order, calls.points):
        yield column, 0, 2 * size
    yield timeline.position, -1, len(timeline.order)
    for column in (calls.owner, calls.parent):
        yield column, -1, size
    yield calls.first, 0, len(calls.points) + 1
