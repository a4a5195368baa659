"""Graphs of trace files as cache entries: found by what the file holds, checked before they are believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, column_types
from hta_graph.base.storage.location import Location, name_with_secrets
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.graph_record import AttachedTables, Column, graph_of_record, graph_record
from hta_graph.graph.timeline import Nesting
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.model import EdgeKind, EventKind, Rule

NOT_WHAT_WAS_WRITTEN = (ValueError, TypeError, KeyError, AttributeError, StopIteration, OverflowError)
"""What reading a record raises that is another one than was written."""

MOST_NS = (1 << 62) + (1 << 53)
"""No event of a trace is further from 1970: reading drops those beyond 2^62 ns, and lengths beyond 30 days."""

IndexRange = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


def encode_cached_graph(graph: DependencyGraph) -> Entry:
    """Return the entry of a graph, and of the order and the nesting of its points."""
    record, columns = content_record(graph, {})
    timeline, calls = graph.timeline, graph.timeline.calls
    columns += [timeline.order, calls.points, calls.owner, calls.parent, calls.first]
    return Entry({"graph": record, "violations": calls.violations}, tuple(columns))


def content_record(graph: DependencyGraph, attached: AttachedTables) -> tuple[dict[str, Any], list[Column]]:
    """Return what a graph is as JSON, and its columns, without what :func:`question_values` adds again.

    What is kept names neither file nor rank: the same trace may lie elsewhere tomorrow.
    """
    record, columns = graph_record(graph, attached)
    for key in question_values(graph.path, graph.rank, ()):
        del record["trace"]["values"][key]
    return record, columns


def question_values(path: Location, rank: int | None, step_patterns: Sequence[str]) -> dict[str, Any]:
    """Return what of a trace is not the file's own."""
    return {"path": name_with_secrets(path), "rank": rank, "step_patterns": list(step_patterns)}


def graph_of_content(
    record: dict[str, Any], columns: Iterator[Column], values: Mapping[str, Any], attached: AttachedTables
) -> DependencyGraph:
    """Undo :func:`content_record`: put a graph together that is not checked yet."""
    record["trace"]["values"].update(values)
    return graph_of_record(record, lambda *_: next(columns), attached)


def decode_cached_graph(entry: Entry, values: Mapping[str, Any]) -> DependencyGraph:
    """Return the graph of an entry, with :func:`question_values`.

    Raises:
        ValueError: its numbers refer to what is not there.
        KeyError, TypeError, StopIteration: it is another record.
    """
    columns = iter(entry.columns)
    graph = graph_of_content(entry.record["graph"], columns, values, {})
    timeline = graph.timeline
    order, points, owner, parent, first = columns
    timeline.set_known(order, Nesting(points, owner, parent, first, entry.record["violations"], timeline.times))
    check_indices(graph_tables(graph), (*graph_indices(graph), *_timeline_indices(graph)))
    return graph


def check_indices(tables: Iterable[Columns], indices: Iterable[IndexRange]) -> None:
    """Refuse columns of a table that differ in length, and numbers that refer to nothing.

    Raises:
        ValueError: there are some.
    """
    for table in tables:
        if len({len(getattr(table, name)) for name in column_types(type(table))}) > 1:
            raise ValueError("the columns of a table differ in length")
    for column, least, past in indices:
        if len(column) and not least <= column.min() <= column.max() < past:
            raise ValueError("a number refers to nothing")


def graph_tables(graph: DependencyGraph) -> tuple[Columns, ...]:
    """Return the tables of a graph."""
    trace = graph.trace
    return (trace.events, trace.syncs, trace.copies, trace.flows, graph.edge_table, graph.wait_calls)


def graph_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    """Yield every column of a graph that refers to other rows, with what it may hold."""
    events, edges, size, lanes = graph.event_table, graph.edge_table, len(graph.event_table), len(graph.lanes.labels)
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, lanes
    for times in (events.start, events.end):
        yield times, -MOST_NS, MOST_NS
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, max(Rule) + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size
    for table in (graph.trace.syncs, graph.trace.copies):
        yield table.event, 0, size
    for column in (graph.trace.flows.start_lane, graph.trace.flows.end_lane):
        yield column, -1, lanes
    for column in (graph.wait_calls.source, graph.wait_calls.target, graph.wait_calls.call):
        yield column, -1, size


def _timeline_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    timeline, size = graph.timeline, len(graph.event_table)
    calls = timeline.calls
    lengths = (len(calls.owner), len(calls.parent), len(calls.first))
    if lengths != (len(calls.points), size, len(graph.lanes.labels) + 1):
        raise ValueError("a nesting has other lengths than its trace")
    for column in (timeline.order, calls.points):
        yield column, 0, 2 * size
    for column in (calls.owner, calls.parent):
        yield column, -1, size
    yield calls.first, 0, len(calls.points) + 1
