"""A graph as JSON and columns: how it is taken apart for another process or for a file, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from hta_graph.base.storage.location import Location, RemotePath, name_with_secrets, resolve_location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.timeline import Timeline
from hta_graph.trace.gpu_clock import GpuClock
from hta_graph.trace.table import Trace

Column = np.ndarray[Any, Any]
TakeColumn = Callable[[str, int], Column]
"""Returns the next column, given its type and length."""
TableDescription = dict[str, dict[str, Any]]
AttachedTables = Mapping[str, type[Any]]
"""The tables that go with a graph where it has them, by name."""


def graph_record(graph: DependencyGraph, attached: AttachedTables) -> tuple[dict[str, Any], list[Column]]:
    """Return what a graph is as JSON, and its columns in order; some attached tables go with it."""
    trace = graph.trace
    columns: list[Column] = []
    answers = {name: graph.attached(kind) for name, kind in attached.items()}
    record = {
        "trace": describe_table(trace, columns),
        "edges": describe_table(graph.edge_table, columns),
        "wait_calls": describe_table(graph.wait_calls, columns),
        "notes": {key: count for key, count in graph.diagnostics.items() if key not in trace.diagnostics},
        "answers": {name: describe_table(it, columns) for name, it in answers.items() if it is not None},
    }
    return record, columns


def graph_of_record(record: dict[str, Any], take: TakeColumn, attached: AttachedTables) -> DependencyGraph:
    """Undo :func:`graph_record`; the columns come in its order."""
    trace: Trace = read_table(Trace, record["trace"], take)
    edges: EdgeTable = read_table(EdgeTable, record["edges"], take)
    calls: WaitCalls = read_table(WaitCalls, record["wait_calls"], take)
    tables = [read_table(attached[name], described, take) for name, described in record["answers"].items()]
    return DependencyGraph(trace, Timeline(trace), edges, record["notes"], calls, tables)


def describe_table(table: Any, columns: list[Column]) -> TableDescription:
    """Describe a table as JSON: of a column its type and length, while the column itself is set aside."""
    found: TableDescription = {"columns": {}, "tables": {}, "values": {}}
    for f in fields(table):
        value = getattr(table, f.name)
        if isinstance(value, np.ndarray):
            columns.append(value)
            found["columns"][f.name] = [value.dtype.str, len(value)]
        elif isinstance(value, tuple) and value and isinstance(value[0], GpuClock):
            found["values"][f.name] = [clock.exact_json() for clock in value]
        elif is_dataclass(value):
            found["tables"][f.name] = describe_table(value, columns)
        else:
            found["values"][f.name] = name_with_secrets(value) if isinstance(value, (Path, RemotePath)) else value
    return found


def read_table(kind: Any, described: TableDescription, take: TakeColumn) -> Any:
    """Undo :func:`describe_table`; the columns come in the order of the fields."""
    types = _types_of(kind)
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name in described["columns"]:
            made[f.name] = take(*described["columns"][f.name])
        elif f.name in described["tables"]:
            made[f.name] = read_table(_table_type(types[f.name]), described["tables"][f.name], take)
        else:
            made[f.name] = _restored_value(types[f.name], described["values"][f.name])
    return kind(**made)


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    """Return the types of a table's fields: looking them up takes longer than reading a small graph."""
    return get_type_hints(kind)


def _table_type(kind: Any) -> Any:
    """Return a field's table type, which the field may also lack."""
    return next(of for of in (*get_args(kind), kind) if of is not NoneType)


def _restored_value(kind: Any, value: Any) -> Any:
    """Undo what JSON does to a tuple and a path."""
    if kind == Location:
        return resolve_location(value)
    if kind == tuple[GpuClock, ...]:
        return tuple(map(GpuClock.of_json, value))
    is_tuple = get_origin(kind) is tuple and isinstance(value, list)
    return tuple(value) if is_tuple else value
