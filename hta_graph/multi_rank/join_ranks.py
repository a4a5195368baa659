"""The composer of a job: ranks' graphs, matched, in one time, joined; or one rank of a job alone, in the job's time.

A rank alone meets instants whose times are known instead of the other ranks:

    rank     ...──[all-reduce ~~~~~~|====]──...
                                    ↑
    others             elsewhere ───┘   when the last one came, or the other side of a message: an instant without lane
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, pair_key, take_or
from hta_graph.base.errors import DefectError, QueryError
from hta_graph.base.progress import begin_stage
from hta_graph.base.text.formatting import milliseconds
from hta_graph.build.from_trace import drop_impossible_edges
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph, RankSource
from hta_graph.graph.edges import Clocks, EdgeTable, EventEdges, Members
from hta_graph.graph.job_graph import JobGraph, shift_to_job_time
from hta_graph.graph.rank_summary import JobLimits, RankSummary
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Bools, Codes, EdgeKind, Ids, Ints
from hta_graph.multi_rank.communication_edges import (
    HostCommunications,
    collective_edges,
    collective_wait_edges,
    further_edges,
    host_communication_edges,
    host_work_of,
    matched_communications,
    message_edges,
    rendezvous_points,
)
from hta_graph.multi_rank.job_trace import JoinedColumns, RendezvousPoints, join_columns
from hta_graph.multi_rank.matching.collectives import Collectives, match_graphs
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.job_clocks import JobClocks, RankClock
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import with_worker_groups
from hta_graph.paths.host_pauses import RankPauses
from hta_graph.paths.time_accounting import explained_lags
from hta_graph.paths.unrecorded_work import KnownUnrecordedWork


def join_ranks(
    graphs: Iterable[DependencyGraph],
    clocks: JobClocks | None = None,
    matched: Collectives | None = None,
    source: RankSource | None = None,
) -> JobGraph:
    """Join ranks as :func:`build_job` does; ``clocks`` and ``matched`` are used as they are where given.

    Rank summaries (:mod:`hta_graph.multi_rank.summary`) are joined as whole ones are; ``source`` answers what takes
    all of their rows.
    """
    begin_stage("joining ranks")
    by_rank = graphs_by_rank(graphs)
    if matched is None:
        members, found = match_graphs(by_rank)
    else:
        members = with_worker_groups({rank: read_communications(graph) for rank, graph in by_rank.items()})
        found = matched
    if not len(found):
        _refuse_unrelated_ranks(by_rank)
    if clocks is not None:
        found = replace(found, clocks=clocks)
    moved = {rank: _graph_in_job_time(graph, found.clocks.by_rank[rank]) for rank, graph in by_rank.items()}
    host = [_host_communications(own, found.clocks.by_rank[rank]) for rank, own in members.items()]
    met = matched_communications(found, members, list(moved.values()), host)
    meetings = rendezvous_points(met, _collective_names(found, members))
    descriptions = describe_members(members.values())
    joined = join_columns(list(moved), list(moved.values()), [work.row for work in host], meetings, descriptions)
    timeline = Timeline(joined.trace)
    left_out = {"collectives_group_unknown": found.of_open_group, "matches_withdrawn": found.with_implausible_clocks}
    notes = Counter(left_out)
    rendezvous = dict(
        zip(meetings.number.tolist(), range(joined.first_rendezvous, len(joined.trace.events)), strict=True)
    )
    first = np.array([part.first_row for part in joined.rank_graphs], np.int64)
    added = [
        rule(part.graph, work).shifted(part.first_row)
        for part, work in zip(joined.rank_graphs, host, strict=True)
        if part.graph.attached(RankSummary) is None  # what ran on the CPU of others is among their edges already
        for rule in (host_communication_edges, collective_wait_edges)
    ]
    row, came = first[met.part] + met.row, first[met.part] + met.came
    added += [collective_edges(met, row, rendezvous), further_edges(met, found, row), message_edges(met, row, came)]
    edges = drop_impossible_edges(EdgeTable.join(added), timeline, notes, joined.edges)
    table = _clock_table(found)
    return JobGraph(
        joined.trace,
        timeline,
        edges,
        joined.rank_graphs,
        tuple(by_rank.values()),
        _member_table(found, members, joined),
        table,
        doubtful=_doubtful_edges(edges, joined, timeline.times, table),
        notes=_summed_diagnostics(by_rank.values(), notes),
        wait_calls=joined.wait_calls,
        attached=_known_limits(joined.rank_graphs),
        source=source,
    )


def _known_limits(parts: Sequence[RankGraph]) -> list[JobLimits]:
    """Return what counts as explained on each rank, where ranks have few rows; nothing where all are whole."""
    if all(part.graph.attached(RankSummary) is None for part in parts):
        return []
    return [JobLimits(np.stack([explained_lags(part.graph)[0] for part in parts]))]


def graphs_by_rank(graphs: Iterable[DependencyGraph]) -> dict[int, DependencyGraph]:
    """Number graphs by their ranks, lowest first; where a file does not name its rank, by its place.

    Raises:
        QueryError: there is none, or two are of one rank.
    """
    found: dict[int, DependencyGraph] = {}
    for place, graph in enumerate(graphs):
        rank = place if graph.rank is None else graph.rank
        if rank in found:
            raise QueryError(f"{graph.path}: has rank {rank}, like {found[rank].path}; pass each rank once")
        found[rank] = graph
    if not found:
        raise QueryError("there are no ranks; give the graph of at least one")
    _refuse_other_jobs(found)
    return dict(sorted(found.items()))


def _refuse_other_jobs(graphs: Mapping[int, DependencyGraph]) -> None:
    """Refuse ranks whose files say that they are of jobs of different sizes.

    Raises:
        QueryError: two files name different numbers of ranks.
    """
    sizes = {graph.trace.world_size: graph.path for graph in graphs.values() if graph.trace.world_size is not None}
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise QueryError(
            f"{second}: is from a job of {other} ranks, but {first} is from a job of {one}; give the ranks of one job, "
            "or analyze each file on its own"
        )


def _refuse_unrelated_ranks(graphs: Mapping[int, DependencyGraph]) -> None:
    """Refuse ranks that did nothing together, as far as is known, and were not recorded at one time.

    Raises:
        QueryError: a recording ends before another one begins.
    """
    spans = [
        (int(graph.event_table.start.min()), int(graph.event_table.end.max()), graph.path)
        for graph in graphs.values()
        if len(graph.event_table)
    ]
    first, last = min(spans, key=lambda span: span[1], default=None), max(spans, default=None)
    if first and last and first[1] < last[0]:
        raise QueryError(
            f"{last[2]}: nothing matches {first[2]}, which ends {milliseconds(last[0] - first[1])} ms before "
            "it begins, so they come from different jobs or runs; give the ranks of one job, or analyze each with "
            "--rank"
        )


def _graph_in_job_time(graph: DependencyGraph, clock: RankClock) -> DependencyGraph:
    events, answers = graph.event_table, graph.attached(RankSummary)
    start, end = (clock.to_job(times) for times in (events.start, events.end))
    moved = shift_to_job_time(graph, start, end)
    if answers is None or (moved is graph and not answers.is_in_job_time):
        return moved
    if answers.is_in_job_time or clock.is_constant_offset:
        return moved.with_attached(answers.moved(clock.line.ahead), *_tables_in_job_time(graph, clock))
    raise DefectError(f"{graph.path}: its rank summary is of another time than its job")


def _tables_in_job_time(graph: DependencyGraph, clock: RankClock) -> Iterator[object]:
    """Yield what a graph of few rows knows of its rank's times; pauses are in the job's already."""
    if (pauses := graph.attached(RankPauses)) is not None:
        yield pauses
    if (lost := graph.attached(KnownUnrecordedWork)) is not None:
        yield lost.moved(clock.to_job)


def _host_communications(members: RankCommunications, clock: RankClock) -> HostCommunications:
    """Select what ran on the CPU, in the job's time."""
    work = host_work_of(members)
    return replace(work, arrival=clock.to_job(work.arrival))


def _collective_names(found: Collectives, members: Mapping[int, RankCommunications]) -> list[str]:
    """Name each collective as its first member says, else by its row."""
    first = found.first
    pairs = zip(found.rank[first].tolist(), found.place[first].tolist(), strict=True)
    return [members[rank].arguments["Collective name"][place] or members[rank].name[place] for rank, place in pairs]


def describe_members(members: Iterable[RankCommunications]) -> list[list[str]]:
    """Name each member of each rank: what it did, and of which process group."""
    # A group of thousands of ranks has a long name: of equal texts one is kept.
    made: dict[tuple[str, str | None], str] = {}
    descriptions = []
    for own in members:
        kinds = zip(own.arguments["Collective name"], own.name, own.group, strict=True)
        listed = [(str(kind or name), group) for kind, name, group in kinds]
        made |= {(does, group): f"{does} of {group or 'an unknown group'}" for does, group in {*listed} - made.keys()}
        descriptions.append([made[one] for one in listed])
    return descriptions


def _summed_diagnostics(graphs: Iterable[DependencyGraph], joining: Mapping[str, int]) -> dict[str, int]:
    """Add up what building the ranks' graphs counted and what joining them did; of times the longest counts."""
    notes = Counter[str](joining)
    for graph in graphs:
        own = {key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics}
        longest = {key: max(notes[key], ns) - notes[key] for key, ns in own.items() if key.endswith("_ns")}
        notes.update(own | longest)
    return dict(notes)


def _member_table(found: Collectives, members: Mapping[int, RankCommunications], joined: JoinedColumns) -> Members:
    """Lay out all members, in order of rank and time, those without a partner too."""
    tables = []
    ranks = np.array([part.rank for part in joined.rank_graphs], np.int64)
    is_last = np.zeros(len(found.number), np.bool_)
    is_last[found.last] = True
    every = zip(joined.rank_graphs, members.values(), joined.descriptions, strict=True)
    for place, (part, own, codes) in enumerate(every):
        mine = found.of_rank(part.rank)
        at = np.full(len(own), -1, np.int64)
        at[found.place[mine]] = mine
        row = part.of_job(own.row)
        arrival, since = (found.clocks.to_job(part.rank, ns) for ns in (own.arrival, own.arrival + own.busy))
        wait = take_or(found.wait, at, otherwise=0)
        tables.append(Members.of(
            number=take_or(found.number, at),
            part=place,
            row=row,
            call=part.of_job(own.call),
            arrival=arrival,
            busy=since - arrival,
            wait=wait,
            transfer=found.clocks.to_job(part.rank, own.end) - since - wait,
            awaited=find_sorted(take_or(found.awaited, at), ranks),
            is_last=take_or(is_last, at, otherwise=False),
            is_needed=take_or(found.is_needed, at, otherwise=False),
            is_message=np.array(own.is_message, np.bool_),
            by=take_or(found.by, take_or(found.number, at)),
            said=codes,
        ))  # fmt: skip
    return Members.join(tables)


def _clock_table(found: Collectives) -> Clocks:
    rows = found.clocks.rows()
    return Clocks.of(
        rank=[row["rank"] for row in rows],
        offset=[row["offset_ns"] for row in rows],
        gpu_offset=[row["gpu_offset_ns"] for row in rows],
        drift_ppm=[row["drift_ppm"] for row in rows],
        error=[-1 if row["error_ns"] is None else row["error_ns"] for row in rows],
        collectives=[row["collectives"] for row in rows],
    )


def _doubtful_edges(edges: EdgeTable, joined: JoinedColumns, times: Ints, clocks: Clocks) -> Ints:
    """Find the edges between ranks whose wait is no longer than the clock error."""
    error = np.zeros(len(joined.trace.events), np.int64)
    for part, own in zip(joined.rank_graphs, clocks.error.clip(min=0).tolist(), strict=True):
        error[part.first_row : part.first_row + len(part.graph.event_table)] = own
    between = EventEdges.of_rows(
        edges, np.flatnonzero(np.isin(edges.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT))), times
    )
    # A rendezvous is as uncertain as the clock of the rank that came last.
    last = (between.target >= joined.first_rendezvous) & (between.lag == 0)
    np.maximum.at(error, between.target[last], error[between.source[last]])
    waited = between.source_ns - joined.trace.events.start[between.target]
    doubtful = between.to_end & (waited <= error[between.source] + error[between.target])
    return between.row[doubtful].astype(np.int64)


NO_RENDEZVOUS = RendezvousPoints(np.empty(0, np.int64), (), np.empty(0, np.int64))
"""One rank alone has no rendezvous."""


def with_host_communications(graph: DependencyGraph, members: RankCommunications) -> DependencyGraph:
    """Return a rank's graph with what ran on its CPU with others on lanes of its own, and what waits for what there.

    ``members`` are the rank's communications; events keep their rows. Without any on the CPU it is the same graph.
    """
    work = host_work_of(members)
    if not len(work):
        return graph
    joined = join_columns([graph.rank or 0], [graph], [work.row], NO_RENDEZVOUS, [[]]).trace
    trace = replace(graph.trace, events=joined.events, lanes=joined.lanes, names=joined.names)
    timeline, notes = Timeline(trace), Counter[str]()
    added = EdgeTable.join([host_communication_edges(graph, work), collective_wait_edges(graph, work)])
    edges = drop_impossible_edges(added, timeline, notes, graph.edge_table)
    notes.update({key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics})
    return DependencyGraph(trace, timeline, edges, dict(notes), graph.wait_calls)


@dataclass(frozen=True, eq=False)
class ExternalEdges(Columns):
    """Edges from other ranks: from which instant (a place among given times) to which row's end, and how it is known.

    ``is_message``: it is of a message, else of a collective. ``is_doubtful``: its wait is below the clocks'
    error.
    """

    instant: Ids
    row: Ids
    is_message: Bools
    rule: Codes
    is_doubtful: Bools


def single_rank_job(
    graph: DependencyGraph,
    members: RankCommunications,
    number: Ints,
    times: Ints,
    names: Sequence[str],
    edges: ExternalEdges,
) -> JobGraph:
    """Return a rank as a job of its own; instants of other ranks stand behind its rows, in their order.

    Args:
        graph: the rank's, in the job's time.
        members: what it did with others, in the same time.
        number: with which collective of the job each member was matched (-1: none).
        times: when (ns) what comes from elsewhere was.
        names: what it is called.
        edges: what it led to.
    """
    work = host_work_of(members)
    (descriptions,) = describe_members([members])
    instants = RendezvousPoints(np.arange(len(times)), names, times)
    joined = join_columns([graph.rank or 0], [graph], [work.row], instants, [descriptions])
    timeline, notes = Timeline(joined.trace), Counter[str]()
    given = _edges_from_instants(edges, joined.first_rendezvous)
    added = EdgeTable.join([host_communication_edges(graph, work), collective_wait_edges(graph, work), *given])
    table = drop_impossible_edges(added, timeline, notes, joined.edges)
    between = np.flatnonzero(np.isin(table.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)))
    known = EventEdges.of_rows(table, between, timeline.times)
    doubtful = edges.take(edges.is_doubtful)
    is_doubtful = np.isin(
        pair_key(known.source, known.target), pair_key(doubtful.instant + joined.first_rendezvous, doubtful.row)
    )
    notes.update({key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics})
    return JobGraph(
        joined.trace,
        timeline,
        table,
        joined.rank_graphs,
        (graph,),
        _members_of_rank(members, number, joined.descriptions[0]),
        _exact_clock(graph.rank or 0),
        doubtful=between[is_doubtful],
        notes=dict(notes),
        wait_calls=joined.wait_calls,
    )


def _edges_from_instants(edges: ExternalEdges, first: int) -> Iterator[EdgeTable]:
    for kind, own in (
        (EdgeKind.COLLECTIVE, edges.take(~edges.is_message)),
        (EdgeKind.POINT_TO_POINT, edges.take(edges.is_message)),
    ):
        yield EdgeTable.between(kind, own.instant + first, own.row, from_end=False, to_end=True, rule=own.rule)


def isolated_rank_job(graph: DependencyGraph, local: DependencyGraph, members: RankCommunications) -> JobGraph:
    """Return a rank as a job of its own without rendezvous, with the columns that it has already.

    Args:
        graph: the rank's, in the job's time.
        local: the same with its communication on the CPU (:func:`with_host_communications`).
        members: what it did with others, in the same time.
    """
    rank = graph.rank or 0
    return JobGraph(
        local.trace, local.timeline, local.edge_table, [RankGraph(0, rank, graph, 0, 0)], [graph],
        _members_of_rank(members, -1, -1), _exact_clock(rank), doubtful=np.empty(0, np.int64), notes={},
        wait_calls=local.wait_calls,
    )  # fmt: skip


def _exact_clock(rank: int) -> Clocks:
    return Clocks.of(rank=[rank], offset=0, gpu_offset=0, drift_ppm=0.0, error=0, collectives=0)


def _members_of_rank(members: RankCommunications, number: Ints | int, description: Ids | int) -> Members:
    """Lay out what a rank did with others; how long it waited is known in the job."""
    return Members.of(
        number=number, part=0, row=members.row, call=members.call, arrival=members.arrival, busy=members.busy,
        wait=0, transfer=members.end - members.arrival - members.busy, awaited=-1, is_last=False, is_needed=False,
        is_message=np.array(members.is_message, np.bool_), by=-1, said=description,
    )  # fmt: skip
