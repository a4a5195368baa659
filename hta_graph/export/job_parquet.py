"""What the tables of a saved job hold beside those of one graph, and the job that they make again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

import numpy as np

from hta_graph.arrays import Columns, find_sorted
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.job_graph import Clocks, JobGraph, Members
from hta_graph.model import Bools, Codes, EventKind, Ids, Ints
from hta_graph.multi_rank.job_time import shift_to_job_time
from hta_graph.multi_rank.job_trace import rendezvous_events
from hta_graph.trace.table import CopyTable, EventTable, Trace

__all__ = ["JOB_TABLES", "NULLABLE", "events_from_tables", "job_tables", "job_from_tables"]


@dataclass(frozen=True, eq=False)
class JobEdges(Columns):
    """Edges; where one side is a rendezvous, its point is absent (-1) and ``rendezvous`` is the collective's number."""

    source: Ids
    target: Ids
    kind: Codes
    rule: Codes
    rendezvous: Ints
    doubtful: Bools


@dataclass(frozen=True, eq=False)
class RendezvousTable(Columns):
    """Where ranks meet: the number of the collective, the code of its name, its lane, and when."""

    number: Ints
    name: Ids
    lane: Ids
    time_ns: Ints


JOB_TABLES: dict[str, Any] = {
    "events": EventTable,
    "rendezvous": RendezvousTable,
    "edges": JobEdges,
    "wait_calls": WaitCalls,
    "copies": CopyTable,
    "members": Members,
    "clocks": Clocks,
}
"""The tables of a saved job, in its time; each rank alone is a saved graph in a folder of its own, in its file's."""

NULLABLE = ("source", "target", "rendezvous")
"""What edges of a job may be without."""


def job_tables(job: JobGraph) -> dict[str, dict[str, Any]]:
    """Return the columns of each table; events and edges say their ranks too, None where there is none."""
    events, edges = job.event_table, job.edge_table
    is_event = events.kind != EventKind.RENDEZVOUS
    own, first = np.flatnonzero(is_event), int(np.count_nonzero(is_event))
    shown = job.edge_columns(edges)
    points = {
        name: np.where(getattr(edges, name) < 2 * first, getattr(edges, name), None) for name in ("source", "target")
    }
    meetings = {"name": events.name[job.rendezvous_rows], "lane": events.lane[job.rendezvous_rows]}
    return {
        "events": {"rank": job.rank_of(own), **_columns_of(events.take(own))},
        "rendezvous": {**job.rendezvous_columns(), **meetings},
        "edges": {
            **_columns_of(edges),
            **points,
            **{name: shown[name] for name in ("source_rank", "target_rank", "rendezvous")},
            "doubtful": np.isin(np.arange(len(edges)), job.doubtful_edges),
        },
        "wait_calls": _columns_of(job.wait_calls),
        "copies": _columns_of(job.trace.copies),
        "members": _columns_of(job.members),
        "clocks": _columns_of(job.clock_table),
    }


def _columns_of(table: Columns) -> dict[str, Any]:
    return {field.name: getattr(table, field.name) for field in fields(table)}  # type: ignore[arg-type]


def events_from_tables(tables: Mapping[str, Any]) -> EventTable:
    """Return the rows of a job: all events, and behind them the rendezvous."""
    meetings = tables["rendezvous"]
    added = rendezvous_events(meetings.number, meetings.name, meetings.lane, meetings.time_ns)
    return EventTable.join([tables["events"], added])


def edges_from_tables(tables: Mapping[str, Any]) -> EdgeTable:
    """Return the edges of a job as pairs of points."""
    edges, number = tables["edges"], tables["rendezvous"].number
    row = len(tables["events"]) + find_sorted(edges.rendezvous, number)
    points = [np.where(points < 0, 2 * row, points) for points in (edges.source, edges.target)]
    return EdgeTable.of(source=points[0], target=points[1], kind=edges.kind, rule=edges.rule)


def job_from_tables(
    trace: Trace, ranks: Sequence[int], originals: Sequence[DependencyGraph], tables: Mapping[str, Any],
    notes: dict[str, int],
) -> JobGraph:  # fmt: skip
    """Make a job of its tables, which fit each other, and of the graphs of its ranks alone."""
    members = tables["members"]
    return JobGraph(
        trace,
        Timeline(trace),
        edges_from_tables(tables),
        _ranks_in_job_time(trace, ranks, originals),
        tuple(originals),
        members,
        tables["clocks"],
        doubtful=np.flatnonzero(tables["edges"].doubtful),
        notes=notes,
        wait_calls=tables["wait_calls"],
    )


def _ranks_in_job_time(trace: Trace, ranks: Sequence[int], originals: Sequence[DependencyGraph]) -> list[RankGraph]:
    """Put the ranks' graphs into the job's time."""
    first_row = [*accumulate((len(graph.event_table) for graph in originals), initial=0)]
    first_lane = [*accumulate((len(graph.lanes.labels) for graph in originals), initial=0)]
    parts = []
    for place, (rank, graph) in enumerate(zip(ranks, originals, strict=True)):
        own = trace.events.take(slice(first_row[place], first_row[place + 1]))
        parts.append(
            RankGraph(place, rank, shift_to_job_time(graph, own.start, own.end), first_row[place], first_lane[place])
        )
    return parts
