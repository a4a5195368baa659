"""What the tables of a saved job say of each other and of its ranks: who met where, and that both are of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hta_graph.arrays import distinct, find_sorted
from hta_graph.errors import TraceError
from hta_graph.export.parquet_checks import LATEST_NS, check_copies, check_events
from hta_graph.export.parquet_files import SavedHeader
from hta_graph.export.saved_tables import SAVE_AGAIN, SavedTable
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.job_graph import Clocks, Members
from hta_graph.model import CPU_KINDS, WALKABLE, Bools, EdgeKind, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import EventTable, Trace

__all__ = ["check_job_tables", "check_members", "check_rank_events", "check_rank_header"]

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
    meetings.refuse_any(again, "number", "{} stands out of turn, or twice")
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
        raise TraceError(events.path, "its events are not as many as those of its ranks", SAVE_AGAIN)
    lanes = sum(len(graph.lanes.labels) for graph in graphs)
    if lanes > len(trace.lanes.labels):
        raise TraceError(events.path, "its lanes are fewer than those of its ranks", SAVE_AGAIN)
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
        TraceError: a member is nobody, or its times contradict each other.
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
    members.refuse_any(~walkable[rows.row], "row", "row {} of the events did nothing with others")
    calls = (rows.call >= 0) & ~kind_mask(kind, CPU_KINDS)[rows.call]
    members.refuse_any(calls, "call", "row {} of the events is no call")
    members.refuse_outside("arrival", -LATEST_NS, LATEST_NS, "time")
    for column in ("wait", "transfer"):
        members.refuse_outside(column, 0, LATEST_NS, "length of time")
    wrong = rows.arrival + rows.wait + rows.transfer != trace.events.end[rows.row]
    members.refuse_any(wrong, "transfer", "{} does not end with the row that did the work")
