"""A graph as bytes on its way between processes: a line of JSON, then each column as it lies in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, get_args, get_origin, get_type_hints

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.graph.timeline import Timeline
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.rank_activity import RankActivity
from hta_graph.multi_rank.summary.path_legs import LegSegments
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.host_pauses import RankPauses
from hta_graph.storage.location import Location, RemotePath, name_with_secrets, resolve_location
from hta_graph.trace.gpu_clock import GpuClock
from hta_graph.trace.table import Trace

Column = np.ndarray[Any, Any]
TableDescription = dict[str, dict[str, Any]]


ATTACHED_TABLES: dict[str, type[Any]] = {
    "members": RankCommunications,
    "whole": RankSummary,
    "ways": RankActivity,
    "pieces": LegSegments,
    "replay": ReplayAnswer,
    "pauses": RankPauses,
}
"""The tables that go with a graph where it has them."""


class ByteStream(Protocol):
    """A stream of bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer, or its beginning; return how many bytes came."""


def encode_graph(graph: DependencyGraph) -> Iterator[bytes | memoryview]:
    """Yield a graph's bytes, piece by piece; what else is known of it goes with it."""
    trace = graph.trace
    columns: list[Column] = []
    answers = {name: graph.attached(kind) for name, kind in ATTACHED_TABLES.items()}
    head = {
        "trace": _describe_table(trace, columns),
        "edges": _describe_table(graph.edge_table, columns),
        "wait_calls": _describe_table(graph.wait_calls, columns),
        "notes": {key: count for key, count in graph.diagnostics.items() if key not in trace.diagnostics},
        "answers": {name: _describe_table(it, columns) for name, it in answers.items() if it is not None},
    }
    # First what the columns are, then the columns as they lie in memory: nothing is copied, nothing can be executed.
    yield json.dumps(head).encode() + b"\n"
    for column in columns:
        yield _memory_of(column)


def decode_graph(head: dict[str, Any], source: ByteStream) -> DependencyGraph:
    """Make a graph of what :func:`encode_graph` gave: its first line, parsed, and a stream of the rest.

    Raises:
        EOFError: the stream ends early.
    """
    trace: Trace = _read_table(Trace, head["trace"], source)
    edges: EdgeTable = _read_table(EdgeTable, head["edges"], source)
    calls: WaitCalls = _read_table(WaitCalls, head["wait_calls"], source)
    attached = [_read_table(ATTACHED_TABLES[name], described, source) for name, described in head["answers"].items()]
    return DependencyGraph(trace, Timeline(trace), edges, head["notes"], calls, attached)


def _describe_table(table: Any, columns: list[Column]) -> TableDescription:
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
            found["tables"][f.name] = _describe_table(value, columns)
        else:
            found["values"][f.name] = name_with_secrets(value) if isinstance(value, (Path, RemotePath)) else value
    return found


def _read_table(kind: Any, described: TableDescription, source: ByteStream) -> Any:
    """Undo :func:`_describe_table`; the columns come from a stream, in the order of the fields."""
    types = _types_of(kind)
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name in described["columns"]:
            made[f.name] = _read_column(source, *described["columns"][f.name])
        elif f.name in described["tables"]:
            made[f.name] = _read_table(_table_type(types[f.name]), described["tables"][f.name], source)
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


def _read_column(source: ByteStream, dtype: str, size: int) -> Column:
    column = np.empty(size, dtype)
    rest = _memory_of(column)
    while len(rest):
        count = source.readinto(rest)
        if not count:
            raise EOFError("the columns end early")
        rest = rest[count:]
    return freeze(column)


def _memory_of(column: Column) -> memoryview:
    return np.ascontiguousarray(column).data.cast("B") if len(column) else memoryview(b"")
