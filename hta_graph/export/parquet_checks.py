"""What the tables of a saved graph or job say of each other: numbers point at something, times and edges go forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hta_graph.base.arrays import distinct, find_sorted
from hta_graph.base.errors import TraceError
from hta_graph.export.parquet_files import SAVE_AGAIN, SavedHeader, SavedTable
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls, labels_of_custom_rules
from hta_graph.graph.job_graph import Clocks, Members
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import (
    all_edges_valid,
    all_go_forward,
    edges_on_a_cycle,
    far_from_first,
    invalid_edges,
    repeated_rows,
    without_points,
)
from hta_graph.model import CPU_KINDS, LONGEST_NS, WALKABLE, Bools, EdgeKind, EventKind, Ids, Ints, Rule, kind_mask
from hta_graph.trace.gpu_clock import FileTimes
from hta_graph.trace.table import CopyTable, EventTable, Flows, SyncTable, Trace

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
        raise TraceError(header.file, "lanes: 'is_communication' marks one, but this is not a job", SAVE_AGAIN)
    events: SavedTable[EventTable] = tables["events"]
    check_events(events, header, EventKind.RENDEZVOUS)
    check_in_order(events)
    rows = events.rows
    check_copies(tables["copies"], rows)
    syncs: SavedTable[SyncTable] = tables["syncs"]
    _check_row_numbers(syncs, "event", kind_mask(rows.kind, (EventKind.SYNC_RECORD,)), "synchronisation record")
    _check_file_times(tables["file_times"], header, rows)
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


def _check_file_times(times: SavedTable[FileTimes], header: SavedHeader, events: EventTable) -> None:
    """Check what the file says of events, where some were moved: of each, and else than here only of what a GPU stamps.

    Raises:
        TraceError: there are other rows than events, or a time is out of range or of no event that was moved.
    """
    if not len(times.rows):
        return
    if len(times.rows) != len(events):
        raise TraceError(times.path, "its number of rows differs from that of the events", SAVE_AGAIN)
    moves = header.lanes.is_stream[events.lane] & (events.kind != EventKind.SYNC_RECORD)
    for name in TIMES:
        times.refuse_outside(name, -LATEST_NS, LATEST_NS, "time")
        apart = getattr(times.rows, name) - getattr(events, name)
        times.refuse_any((apart != 0) & ~moves, name, "{} is not the time of its event, which is on no GPU")
        times.refuse_any(np.abs(apart) > WIDEST_NS, name, "{} is years from its event")
    times.refuse_any(times.rows.end < times.rows.start, "end", "{} is before the row's start")


def check_in_order(events: SavedTable[EventTable]) -> None:
    """Check that events stand in order of their starts, and that each has a number of its own."""
    rows = events.rows
    back = np.zeros(len(rows), np.bool_)
    back[1:] = rows.start[1:] < rows.start[:-1]
    events.refuse_any(back, "start", "{} is before the start of the row above")
    if not _all_differ(rows.index):
        events.refuse_any(repeated_rows(rows.index), "index", "{} appears twice")


def _all_differ(numbers: Ids) -> bool:
    """Return whether no number appears twice; places in files are dense, and marking them is faster than sorting."""
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
    calls.refuse_any(repeated_rows(calls.rows.source, calls.rows.target), "source", "the wait for row {} appears twice")


def _check_row_numbers(table: SavedTable[Any], column: str, fits: Bools, what: str) -> None:
    """Check that a side table names rows of the events in their order, each once."""
    table.refuse_outside(column, 0, len(fits), "event's row")
    places: Ids = getattr(table.rows, column)
    table.refuse_any(~fits[places], column, f"row {{}} of the events is no {what}")
    again = np.zeros(len(places), np.bool_)
    again[1:] = places[1:] <= places[:-1]
    table.refuse_any(again, column, "row {} of the events is out of order or appears twice")


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
    if header.custom_rules:
        known = [*Rule, *(code for label, code in labels_of_custom_rules().items() if label in header.custom_rules)]
        edges.refuse_any(~np.isin(rows.rule, known), "rule", "{} is no rule")
    else:
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
    edges.refuse_any(again, "source", "the edge from point {} appears twice")


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


LARGEST_NUMBER = 2**31
BETWEEN_RANKS = (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)


def check_rank_header(header: SavedHeader, rank: int) -> None:
    """Check that a rank's own folder holds one graph, of that rank.

    Raises:
        TraceError: it holds a job, or says another rank.
    """
    if header.ranks is not None:
        raise TraceError(header.file, "'ranks' is there, but this is one rank of a job", SAVE_AGAIN)
    if header.rank not in (None, rank):
        raise TraceError(header.file, f"'rank' is {header.rank}, but this is rank {rank} of a job", SAVE_AGAIN)


def check_job_tables(header: SavedHeader, tables: Mapping[str, SavedTable[Any]]) -> None:
    """Check the tables of a job by themselves, before they are joined.

    Raises:
        TraceError: a value is out of range, or contradicts another one.
    """
    events: SavedTable[EventTable] = tables["events"]
    check_events(events, header, EventKind.RENDEZVOUS)
    check_copies(tables["copies"], events.rows)
    _check_rendezvous(tables["rendezvous"], header)
    _check_edge_ends(tables["edges"], len(events.rows), tables["rendezvous"].rows.number)
    _check_clocks(tables["clocks"], header)


def _check_rendezvous(meetings: SavedTable[Any], header: SavedHeader) -> None:
    number = meetings.rows.number
    meetings.refuse_outside("number", 0, LARGEST_NUMBER, "number of a collective")
    again = np.zeros(len(number), np.bool_)
    again[1:] = number[1:] <= number[:-1]
    meetings.refuse_any(again, "number", "{} is out of order or appears twice")
    meetings.refuse_outside("name", 0, len(header.names), "name's number")
    meetings.refuse_outside("lane", 0, len(header.lanes.labels), "lane")
    meetings.refuse_outside("time_ns", -LATEST_NS, LATEST_NS, "time")


def _check_edge_ends(edges: SavedTable[Any], events: int, numbers: Ints) -> None:
    """Check that collectives' edges lead from or to a rendezvous, and no others."""
    rows = edges.rows
    for side in ("source", "target"):
        edges.refuse_outside(side, -1, 2 * events, "point")
    edges.refuse_outside("kind", 0, len(EdgeKind), "kind of edges")
    meets = rows.kind == EdgeKind.COLLECTIVE
    sides = (rows.source < 0).astype(np.int8) + (rows.target < 0)
    edges.refuse_any(sides != meets, "source", "one side of a collective's edges has no point, of others both have one")
    known = find_sorted(rows.rendezvous, numbers) >= 0
    edges.refuse_any(meets & ~known, "rendezvous", "there is no rendezvous {}")
    edges.refuse_any(~meets & (rows.rendezvous != -1), "rendezvous", "{} stands at an edge of another kind")
    between = np.isin(np.arange(len(EdgeKind)), BETWEEN_RANKS)[rows.kind]
    edges.refuse_any(rows.doubtful & ~between, "doubtful", "{} stands at an edge within a rank")


def _check_clocks(clocks: SavedTable[Clocks], header: SavedHeader) -> None:
    if clocks.rows.rank.tolist() != list(header.ranks or ()):
        raise TraceError(clocks.path, f"its ranks are not those of {header.file.name}", SAVE_AGAIN)
    for column in ("offset", "gpu_offset"):
        clocks.refuse_outside(column, -LATEST_NS, LATEST_NS, "offset of clocks")
    clocks.refuse_outside("error", -1, LATEST_NS, "error of clocks")
    clocks.refuse_outside("collectives", 0, LARGEST_NUMBER, "number of collectives")
    clocks.refuse_any(~np.isfinite(clocks.rows.drift_ppm), "drift_ppm", "{} is no drift")


def check_rank_events(
    events: SavedTable[EventTable], trace: Trace, ranks: Sequence[int], graphs: Sequence[DependencyGraph]
) -> None:
    """Check that a job's events are those of its ranks, one rank behind the other.

    Raises:
        TraceError: there are fewer or more, or one is another.
    """
    if sum(len(graph.event_table) for graph in graphs) != len(events.rows):
        raise TraceError(events.path, "its number of events differs from that of its ranks", SAVE_AGAIN)
    lanes = sum(len(graph.lanes.labels) for graph in graphs)
    if lanes > len(trace.lanes.labels):
        raise TraceError(events.path, "it has fewer lanes than its ranks", SAVE_AGAIN)
    first = lane = 0
    for rank, graph in zip(ranks, graphs, strict=True):
        own = graph.event_table
        here = events.rows.take(slice(first, first + len(own)))
        other = (
            (here.index != own.index)
            | (here.kind != own.kind)
            | _names_differ(trace.names, here.name, graph.names, own.name)
        )
        moved = (here.lane != own.lane + lane) & (here.lane < lanes)
        for bad, column in ((other, "index"), (moved, "lane")):
            whole = np.zeros(len(events.rows), np.bool_)
            whole[first : first + len(own)] = bad
            events.refuse_any(whole, column, f"{{}} is not what rank {rank} has there")
        first, lane = first + len(own), lane + len(graph.lanes.labels)


def _names_differ(names: Sequence[str], codes: Ids, own_names: Sequence[str], own_codes: Ids) -> Bools:
    """Mark rows whose names differ; each pair of names is compared once."""
    pairs = codes.astype(np.int64) << 32 | own_codes
    every = distinct(pairs)
    differ = [names[pair >> 32] != own_names[pair & 0xFFFFFFFF] for pair in every.tolist()]
    found: Bools = np.array([*differ, False])[find_sorted(pairs, every)]
    return found


def check_members(members: SavedTable[Members], trace: Trace, parts: Sequence[RankGraph]) -> None:
    """Check what ranks did with each other.

    Raises:
        TraceError: a member does not exist, or its times contradict each other.
    """
    rows, kind = members.rows, trace.events.kind
    members.refuse_outside("number", -1, LARGEST_NUMBER, "number of a collective")
    members.refuse_outside("part", 0, len(parts), "rank's place")
    members.refuse_outside("row", 0, len(kind), "event's row")
    members.refuse_outside("call", -1, len(kind), "event's row")
    members.refuse_outside("said", 0, len(trace.names), "name's number")
    members.refuse_outside("by", -1, 2**7, "way of matching")
    first = np.array([part.first_row for part in parts])[rows.part]
    end = first + np.array([len(part.graph.event_table) for part in parts])[rows.part]
    for column, absent in (("row", False), ("call", True)):
        place = getattr(rows, column)
        elsewhere = (place < first) | (place >= end)
        members.refuse_any(elsewhere & ~(absent & (place < 0)), column, "row {} of the events is of another rank")
    walkable = kind_mask(kind, WALKABLE) | trace.is_activity
    members.refuse_any(~walkable[rows.row], "row", "row {} of the events takes part in no communication")
    calls = (rows.call >= 0) & ~kind_mask(kind, CPU_KINDS)[rows.call]
    members.refuse_any(calls, "call", "row {} of the events is not a call")
    members.refuse_outside("arrival", -LATEST_NS, LATEST_NS, "time")
    for column in ("wait", "transfer"):
        members.refuse_outside(column, 0, LATEST_NS, "length of time")
    wrong = rows.arrival + rows.wait + rows.transfer != trace.events.end[rows.row]
    members.refuse_any(wrong, "transfer", "{} does not end with the row that did the work")
