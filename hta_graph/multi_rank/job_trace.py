"""The trace of a job: columns of all ranks end to end in job time; rows and lanes numbered through, names shared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.base.storage.location import Location, is_remote
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.table import CopyTable, EventTable, Flows, LaneTable, SyncTable, Trace


@dataclass(frozen=True)
class RendezvousPoints:
    """Where ranks meet: each collective's number, what it is called, and when the last needed member began (ns)."""

    number: Ints
    name: Sequence[str]
    time: Ints


@dataclass(frozen=True)
class JoinedColumns:
    """The trace of a job and what its ranks' graphs hold besides, in the job's numbers.

    ``descriptions`` are the codes of what each member is, per rank.
    """

    trace: Trace
    edges: EdgeTable
    wait_calls: WaitCalls
    rank_graphs: tuple[RankGraph, ...]
    first_rendezvous: int
    descriptions: tuple[Ids, ...]


def join_columns(
    ranks: Sequence[int],
    graphs: Sequence[DependencyGraph],
    host_work: Sequence[Ids],
    rendezvous: RendezvousPoints,
    descriptions: Sequence[Sequence[str]],
) -> JoinedColumns:
    """Lay the columns of ranks' graphs, which are in job time, end to end; rendezvous stand last.

    Args:
        ranks: the number of each rank.
        graphs: their graphs.
        host_work: per rank the rows of its own graph that did something with others on the CPU: they get lanes of
            their own, ``communication PID:TID``.
        rendezvous: the points where ranks meet.
        descriptions: per rank what each of its members is; these texts are among the job's names.
    """
    parts: list[RankGraph] = []
    row = lane = 0
    for place, (rank, graph) in enumerate(zip(ranks, graphs, strict=True)):
        parts.append(RankGraph(place, rank, graph, row, lane))
        row, lane = row + len(graph.event_table), lane + len(graph.lanes.labels)
    own_names = [graph.names for graph in graphs]
    names, every = _shared_names([*own_names, tuple(dict.fromkeys(rendezvous.name)), *descriptions])
    codes, description_codes = every[: len(graphs) + 1], every[len(graphs) + 1 :]
    lanes, lane_of = _joined_lanes(parts, host_work, with_meetings=bool(len(rendezvous.number)))
    events = _joined_events(parts, codes, lane_of, len(lanes.labels) - 1, rendezvous)
    trace = _job_header(
        [graph.trace for graph in graphs],
        events=events,
        names=names,
        lanes=lanes,
        copies=CopyTable.join(_copies_in_job(part) for part in parts),
    )
    edges = EdgeTable.join(part.graph.edge_table.shifted(part.first_row) for part in parts)
    calls = WaitCalls.join(part.graph.wait_calls.shifted(part.first_row) for part in parts)
    return JoinedColumns(trace, edges, calls, tuple(parts), row, tuple(description_codes))


def _copies_in_job(part: RankGraph) -> CopyTable:
    copies = part.graph.trace.copies
    return replace(copies, event=freeze(copies.event + part.first_row))


def _job_header(traces: Sequence[Trace], **columns: Any) -> Trace:
    """Make the trace of a job of its columns, and of what its ranks' files say: settings, if all have them alike."""
    shared = traces[0].settings.items()
    return Trace(
        path=_common_folder([own.path for own in traces]),
        syncs=SyncTable.empty(),
        flows=Flows.empty(),
        rank=None,
        world_size=max((own.world_size or 0 for own in traces), default=0) or None,
        gpu_names=tuple(dict.fromkeys(name for own in traces for name in own.gpu_names)),
        diagnostics=_summed_diagnostics([own.diagnostics for own in traces]),
        settings={key: value for key, value in shared if all(own.settings.get(key) == value for own in traces)},
        **columns,
    )


def _common_folder(paths: Sequence[Location]) -> Location:
    if len(set(paths)) == 1:  # one rank, or ranks merged into one file
        return paths[0]
    folders = [path.parent for path in paths]
    if any(map(is_remote, folders)):
        return _common_url(folders)
    # Paths of both kinds have nothing in common as they are written.
    is_mixed = len({folder.is_absolute() for folder in folders}) > 1
    return Path(os.path.commonpath([str(folder.absolute() if is_mixed else folder) for folder in folders]))


def _common_url(folders: Sequence[Location]) -> Location:
    """Return the nearest folder that all lie in; where there is none, the first file's."""
    around = [folder for folder in (folders[0], *folders[0].parents) if is_remote(folders[0])]
    shared = (one for one in around if all(one == folder or one in folder.parents for folder in folders))
    return next(shared, folders[0])


def _summed_diagnostics(notes: Sequence[dict[str, int]]) -> dict[str, int]:
    return {key: sum(own.get(key, 0) for own in notes) for key in dict.fromkeys(key for own in notes for key in own)}


def _shared_names(tables: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[Ids]]:
    """Number the names of all ranks once, in sorted order; return them, and for each table its codes among them."""
    # What equals otherwise stands in the order of names, which must not depend on which rows ranks have.
    number = {name: at for at, name in enumerate(sorted({name for table in tables for name in table}))}
    return tuple(number), [np.array([number[name] for name in table], np.int32) for table in tables]


def _joined_lanes(
    parts: Sequence[RankGraph], host_work: Sequence[Ids], *, with_meetings: bool
) -> tuple[LaneTable, list[Ids]]:
    """Lay lanes end to end and add those of communication on CPUs; return them and the lane of each rank's rows."""
    tables = [part.graph.lanes for part in parts]
    labels = [label for table in tables for label in table.labels]
    own_lanes = len(labels)
    lane_of = []
    for part, work in zip(parts, host_work, strict=True):
        lane = part.graph.event_table.lane + np.int32(part.first_lane)
        threads, place = np.unique(lane[work], return_inverse=True)
        lane[work] = len(labels) + place
        labels += [labels[thread].replace("thread", "communication", 1) for thread in threads.tolist()]
        lane_of.append(lane)
    communication = np.arange(len(labels) + with_meetings) >= own_lanes
    communication[len(labels) :] = False
    labels += ["rendezvous"] * with_meetings
    added = len(labels) - own_lanes
    device, context, stream = (
        freeze(np.concatenate([*(getattr(table, name) for table in tables), np.full(added, -1)]))
        for name in ("device", "context", "stream")
    )
    is_stream = np.concatenate([*(table.is_stream for table in tables), np.zeros(added, np.bool_)])
    return LaneTable(
        tuple(labels), freeze(is_stream), device, context, stream, is_communication=freeze(communication)
    ), lane_of


def _joined_events(
    parts: Sequence[RankGraph],
    codes: Sequence[Ids],
    lane_of: Sequence[Ids],
    meeting_lane: int,
    rendezvous: RendezvousPoints,
) -> EventTable:
    tables = [
        replace(part.graph.event_table, name=names[part.graph.event_table.name], lane=lane)
        for part, names, lane in zip(parts, codes[:-1], lane_of, strict=True)
    ]
    if len(rendezvous.number):
        code_of = dict(zip(dict.fromkeys(rendezvous.name), codes[-1].tolist(), strict=True))
        names = [code_of[name] for name in rendezvous.name]
        tables.append(rendezvous_events(rendezvous.number, names, meeting_lane, rendezvous.time))
    return EventTable.join(tables)


def rendezvous_events(number: Ints, names: Sequence[int], lane: int, time: Ints) -> EventTable:
    """Make the rows of rendezvous: instants with the number of a collective and the code of its name."""
    return EventTable.of(
        index=-1, kind=EventKind.RENDEZVOUS, name=names, lane=lane, start=time, end=time, correlation=number,
        external_id=-1, sequence=-1, forward_thread=-1, collective=False,
    )  # fmt: skip
