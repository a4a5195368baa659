"""What the tables of one saved graph say of each other: numbers point at something, times and edges go forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hta_graph.errors import TraceError
from hta_graph.export.parquet_files import SavedHeader
from hta_graph.export.saved_tables import SAVE_AGAIN, SavedTable
from hta_graph.graph.cycles import all_go_forward, edges_on_a_cycle
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.validate import (
    all_edges_valid,
    far_from_first,
    invalid_edges,
    repeated_rows,
    without_points,
)
from hta_graph.model import (
    CPU_KINDS,
    LONGEST_NS,
    Bools,
    EdgeKind,
    EventKind,
    Ids,
    Ints,
    Rule,
    kind_mask,
)
from hta_graph.trace.table import CopyTable, EventTable, Flows, SyncTable, Trace

__all__ = ["check_calls", "check_copies", "check_edges", "check_events", "check_graph_tables", "check_in_order"]

LATEST_NS = 2**63 - 2**58
"""Times near the ends of 64 bits leave no room for what is added to them."""
WIDEST_NS = 3 * LONGEST_NS
"""Starts lie within a year of their median, and an event is at most a month long."""
COPY_KINDS = (EventKind.MEMCPY, EventKind.MEMSET)
TIMES = ("start", "end")


def check_graph_tables(header: SavedHeader, tables: Mapping[str, SavedTable[Any]]) -> None:
    """Check the tables of one rank, before a graph is made of them.

    Raises:
        TraceError: a value is out of range, or contradicts another one.
    """
    if header.lanes.is_communication.any():
        raise TraceError(header.file, "lanes: 'is_communication' marks one, but this is no job", SAVE_AGAIN)
    events: SavedTable[EventTable] = tables["events"]
    check_events(events, header, EventKind.RENDEZVOUS)
    check_in_order(events)
    rows = events.rows
    check_copies(tables["copies"], rows)
    syncs: SavedTable[SyncTable] = tables["syncs"]
    _check_row_numbers(syncs, "event", kind_mask(rows.kind, (EventKind.SYNC_RECORD,)), "synchronisation record")
    flows: SavedTable[Flows] = tables["flows"]
    for side in ("start", "end"):
        flows.refuse_outside(f"{side}_lane", -1, len(header.lanes.labels), "lane")
        flows.refuse_outside(f"{side}_time", -LATEST_NS, LATEST_NS, "time")


def check_events(events: SavedTable[EventTable], header: SavedHeader, kinds: int) -> None:
    """Check each event by itself: its kind, its codes, its times."""
    rows, lanes = events.rows, len(header.lanes.labels)
    events.refuse_outside("index", 0, 2**31, "event's number")
    events.refuse_outside("kind", 0, kinds, "kind of events")
    events.refuse_outside("name", 0, len(header.names), "name's number")
    events.refuse_outside("lane", 0, lanes, "lane")
    events.refuse_outside("forward_thread", -1, 2**31, "thread")
    for name in TIMES:
        events.refuse_outside(name, -LATEST_NS, LATEST_NS, "time")
    events.refuse_any(rows.end < rows.start, "end", "{} is before the row's start")
    if len(rows) and int(rows.end.max()) - int(rows.start.min()) > WIDEST_NS:
        events.refuse_any(far_from_first(rows.start, rows.end, WIDEST_NS), "end", "{} is years after the first start")
        events.refuse_any(rows.start == rows.start.min(), "start", "{} is years before the last end")


def check_in_order(events: SavedTable[EventTable]) -> None:
    """Check that events stand in order of their starts, and that each has a number of its own."""
    rows = events.rows
    back = np.zeros(len(rows), np.bool_)
    back[1:] = rows.start[1:] < rows.start[:-1]
    events.refuse_any(back, "start", "{} is before the start of the row above")
    if not _all_differ(rows.index):
        events.refuse_any(repeated_rows(rows.index), "index", "{} is there twice")


def _all_differ(numbers: Ids) -> bool:
    """Tell whether no number is there twice; places in files are dense, and marking them is faster than sorting."""
    largest = int(numbers.max(initial=0))
    if largest > 64 * len(numbers):
        return len(np.unique(numbers)) == len(numbers)
    seen = np.zeros(largest + 1, np.bool_)
    seen[numbers] = True
    return int(np.count_nonzero(seen)) == len(numbers)


def check_copies(copies: SavedTable[CopyTable], events: EventTable) -> None:
    """Check what copies and sets moved."""
    _check_row_numbers(copies, "event", kind_mask(events.kind, COPY_KINDS), "copy")
    copies.refuse_outside("bytes", -1, 2**63, "number of bytes")
    rate = copies.rows.bandwidth
    copies.refuse_any(np.isinf(rate) | (rate < 0), "bandwidth", "{} is no rate")


def check_calls(calls: SavedTable[WaitCalls], trace: Trace) -> None:
    """Check which calls let streams wait."""
    size, on_cpu = len(trace.events), kind_mask(trace.events.kind, CPU_KINDS)
    for column, fits, what in (
        ("source", trace.is_activity, "GPU work"),
        ("target", trace.is_activity, "GPU work"),
        ("call", on_cpu, "call"),
    ):
        calls.refuse_outside(column, 0, size, "event's row")
        calls.refuse_any(~fits[getattr(calls.rows, column)], column, f"row {{}} of the events is no {what}")
    calls.refuse_any(
        repeated_rows(calls.rows.source, calls.rows.target), "source", "the wait for row {} is there twice"
    )


def _check_row_numbers(table: SavedTable[Any], column: str, fits: Bools, what: str) -> None:
    """Check that a side table names rows of the events in their order, each once."""
    table.refuse_outside(column, 0, len(fits), "event's row")
    places: Ids = getattr(table.rows, column)
    table.refuse_any(~fits[places], column, f"row {{}} of the events is no {what}")
    again = np.zeros(len(places), np.bool_)
    again[1:] = places[1:] <= places[:-1]
    table.refuse_any(again, column, "row {} of the events stands out of turn, or twice")


def check_edges(
    edges: SavedTable[EdgeTable], header: SavedHeader, trace: Trace, timeline: Timeline, kinds: Sequence[EdgeKind]
) -> EdgeTable:
    """Check what edges join, that each is there once, and that they go forward; return them.

    Args:
        edges: the table; its columns ``source`` and ``target`` are points.
        header: how far back in time an edge may lead, and how many are said to.
        trace: the events that they join.
        timeline: the times of their points.
        kinds: the kinds that there can be.

    Raises:
        TraceError: an edge is not sound, or some are on a cycle.
    """
    rows = edges.rows
    for side in ("source", "target"):
        edges.refuse_outside(side, 0, 2 * len(trace.events), "point")
    edges.refuse_outside("kind", 0, len(EdgeKind), "kind of edges")
    edges.refuse_outside("rule", 0, len(Rule), "rule")
    there = np.flatnonzero(np.bincount(rows.kind)).tolist()
    if not set(there) <= set(kinds):
        edges.refuse_any(~np.isin(rows.kind, kinds), "kind", "{} leads between ranks, but this is one of them")
    edges.refuse_any(rows.source == rows.target, "target", "point {} is the edge's source too")
    if not all_edges_valid(rows, trace):
        _check_edge_points(edges, trace)
    _check_repeated(edges, there)
    if not all_go_forward(rows, trace, timeline.times):
        _check_steps_back(edges, header, timeline.times)
        _check_acyclic(edges, timeline)
    return rows


def _check_edge_points(edges: SavedTable[EdgeTable], trace: Trace) -> None:
    for side in ("source", "target"):
        absent = without_points(trace, getattr(edges.rows, side))
        edges.refuse_any(absent, side, "point {} is of an event that has none")
    for wrong, says in invalid_edges(edges.rows, trace):
        edges.refuse_any(wrong, "kind", f"an edge of kind {{}} {says}")


def _check_steps_back(edges: SavedTable[EdgeTable], header: SavedHeader, times: Ints) -> None:
    """Check that edges go back in time by clock faults only, and that no more do than was counted."""
    back = times[edges.rows.source] - times[edges.rows.target]
    far = back > header.clock_fault_ns
    edges.refuse_any(far, "target", f"point {{}} is more than {header.clock_fault_ns:,} ns before the edge's source")
    clamped, counted = int(np.count_nonzero(back > 0)), header.building["edges_clamped"]
    if clamped > counted:
        cause = f"{clamped:,} edges go back in time, but {header.file.name} says {counted:,} (edges_clamped)"
        raise TraceError(edges.path, cause, SAVE_AGAIN)


def _check_repeated(edges: SavedTable[EdgeTable], kinds: Sequence[int]) -> None:
    rows = edges.rows
    again = np.zeros(len(rows), np.bool_)
    for kind in kinds:
        own = np.flatnonzero(rows.kind == kind)
        # Nearly all edges are the only ones of their kind at their target: only the others are compared.
        shared = own[_occurs_repeatedly(rows.target[own])]
        again[shared] = repeated_rows(rows.source[shared], rows.target[shared])
    edges.refuse_any(again, "source", "the edge from point {} is there twice")


def _occurs_repeatedly(places: Ids) -> Bools:
    """Mark the numbers that are there more than once."""
    seen, turn = np.zeros(int(places.max()) + 1, np.bool_), np.arange(len(places), dtype=np.int32)
    seen[places] = True
    if np.count_nonzero(seen) == len(places):
        return np.zeros(len(places), np.bool_)
    last = np.empty(len(seen), np.int32)
    last[places] = turn
    is_shared = np.zeros(len(seen), np.bool_)
    is_shared[places[last.take(places) != turn]] = True
    return is_shared.take(places)


def _check_acyclic(edges: SavedTable[EdgeTable], timeline: Timeline) -> None:
    cycle = np.sort(edges_on_a_cycle(edges.rows, timeline))
    if len(cycle):
        others = ", ".join(f"{row:,}" for row in cycle[1:6].tolist())
        raise TraceError(edges.path, f"row {cycle[0]:,}: the edge is on a cycle with {others or 'itself'}", SAVE_AGAIN)
