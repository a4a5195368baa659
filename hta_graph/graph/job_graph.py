"""JobGraph: the graphs of all ranks of a job as one, on one clock, with the points where ranks meet.

rank 0   ...──[all-reduce ~~~~~~~~~~~|====]──...      ~ waiting, = transferring
              └─────────────▶ │      └◀ │
                              rendezvous              n edges in, n out; never one from each rank to each
                          ┌─▶ │      ┌◀ │
rank 1   ...──────────────[all-reduce|====]──...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.base.arrays import freeze, take_or
from hta_graph.base.errors import QueryError, Remedy
from hta_graph.graph.conversion import none_where, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph, EventName, RankGraph, RankSource
from hta_graph.graph.edges import Clocks, EdgeTable, Members, WaitCalls
from hta_graph.graph.points import event_of, is_end
from hta_graph.graph.timeline import Launches, Timeline
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints
from hta_graph.trace.table import Step, Trace

if TYPE_CHECKING:
    import networkx
    import pandas as pd


class JobGraph(DependencyGraph):
    """The events of all ranks on one clock, and the reasons why each could not have happened earlier.

    Events are named by (rank, event_index). ``rank_graphs`` are the graphs of the single ranks.
    """

    is_job = True

    def __init__(
        self,
        trace: Trace,
        timeline: Timeline,
        edges: EdgeTable,
        parts: Sequence[RankGraph],
        originals: Sequence[DependencyGraph],
        members: Members,
        clocks: Clocks,
        *,
        doubtful: Ints,
        notes: dict[str, int],
        wait_calls: WaitCalls,
        attached: Iterable[object] = (),
        source: RankSource | None = None,
    ) -> None:
        super().__init__(trace, timeline, edges, notes, wait_calls, attached)
        self.source = source
        self._rank_graphs = tuple(parts)
        self._originals = tuple(originals)
        self.members, self.clock_table = members, clocks
        self._doubtful = freeze(doubtful)

    def __repr__(self) -> str:
        meetings = len(self.rendezvous_rows)
        events, edges = len(self.event_table) - meetings, len(self.edge_table)
        said = f"{events:,} events, {edges:,} edges, {meetings:,} rendezvous"
        return f"<JobGraph {self._trace.path}: {len(self._rank_graphs)} ranks, {said}>"

    @cached_property
    def without_partner(self) -> Bools:
        """Mark the activities that communicate and are unmatched."""
        alone = self.event_flags.communicates | self.lanes.is_communication[self.event_table.lane]
        alone[self.members.row[self.members.number >= 0]] = False
        alone &= ~self.event_flags.moves_memory  # of the copies of a collective one is matched for all
        return freeze(alone)

    # -- its ranks -----------------------------------------------------------------------------------------------------

    @property
    def rank_graphs(self) -> tuple[RankGraph, ...]:
        """The ranks' graphs in job time, in order of rank."""
        return self._rank_graphs

    @property
    def ranks(self) -> pd.DataFrame:
        """The ranks as a DataFrame: rank, file, events, steps, start_ns and end_ns (job time)."""
        import pandas as pd

        rows = [
            {
                "rank": part.rank,
                "file": str(part.graph.path),
                "events": len(part.graph.event_table),
                "steps": len(part.graph.steps()),
                "start_ns": int(part.graph.event_table.start.min(initial=np.iinfo(np.int64).max)),
                "end_ns": int(part.graph.event_table.end.max(initial=np.iinfo(np.int64).min)),
            }
            for part in self._rank_graphs
        ]
        return pd.DataFrame(rows)

    def graph(self, rank: int) -> DependencyGraph:
        """Return the graph of one rank alone, with the times of its file.

        Raises:
            QueryError: the job has no such rank.
        """
        return self._originals[self.index_of_rank(rank)]

    def rank_index_of(self, rows: Ids | Ints) -> Ids:
        """Return the index in ``rank_graphs`` of the rank of each row; -1 for rendezvous and for row -1."""
        found: Ids = take_or(self._part_of_row, rows)
        return found

    @cached_property
    def _part_of_row(self) -> Ids:
        part = np.full(len(self.event_table), -1, np.int32)
        for place, own in enumerate(self._rank_graphs):
            part[own.first_row : own.first_row + len(own.graph.event_table)] = place
        return freeze(part)

    @property
    def doubtful_edges(self) -> Ints:
        """Edges between ranks whose wait is below the clock error: they bind nothing."""
        return self._doubtful

    @cached_property
    def independent_ranks(self) -> JobGraph:
        """The same without waits between ranks and without queues of collectives."""
        between = np.isin(self._edges.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT))
        return JobGraph(
            self._trace, self._timeline, self._edges, self._rank_graphs, self._originals, self.members,
            self.clock_table, doubtful=np.flatnonzero(between | is_queue(self)),
            notes=self._notes, wait_calls=self._wait_calls,
        )  # fmt: skip

    @property
    def clocks(self) -> pd.DataFrame:
        """The clock offset of each rank: job time is own time − offset − drift · (own − middle).

        Columns: rank, host, offset_ns, gpu_offset_ns (of its GPU rows, relative to that), drift_ppm, error_ns
        (shorter waits are attributed to no rank), collectives (the number used to estimate it).
        """
        import pandas as pd

        table = self.clock_table
        return pd.DataFrame({
            "rank": table.rank,
            "host": [part.graph.trace.settings.get("host_name") for part in self._rank_graphs],
            "offset_ns": table.offset,
            "gpu_offset_ns": table.gpu_offset,
            "drift_ppm": table.drift_ppm,
            "error_ns": none_where(table.error.astype(object), table.error < 0),
            "collectives": table.collectives,
        })  # fmt: skip

    @property
    def collectives(self) -> pd.DataFrame:
        """Collectives and messages, a row per member (a rank's part in one).

        Columns: number, rank, event_index, name, start_ns and end_ns of the row, arrival_ns, wait_ns, transfer_ns,
        is_last, is_message; times are the job's; ``number`` is None where a member is unmatched.
        """
        import pandas as pd

        members, events = self.members, self.event_table
        return pd.DataFrame({
            "number": none_where(members.number.astype(object), members.number < 0),
            "rank": self.rank_numbers[members.part],
            "event_index": events.index[members.row],
            "name": [self.name_of(row) for row in members.row.tolist()],
            "start_ns": events.start[members.row],
            "end_ns": events.end[members.row],
            "arrival_ns": members.arrival,
            "wait_ns": members.wait,
            "transfer_ns": members.transfer,
            "is_last": members.is_last,
            "is_message": members.is_message,
        })  # fmt: skip

    # -- what each rank's graph knows ----------------------------------------------------------------------------------

    @cached_property
    def _launches(self) -> Launches:
        """The launches of all ranks; correlation ids are compared within a rank."""
        parts, rows = self._rank_graphs, len(self.event_table)

        def calls() -> Ids:
            found = [part.of_job(part.graph.launching_call) for part in parts]
            missing = rows - sum(map(len, found))
            return freeze(np.concatenate([*found, np.full(missing, -1)]).astype(np.int32))

        return Launches(self.event_table, self._timeline, calls)

    def steps(self) -> list[Step]:
        """List the steps of the job: each from its start on the first rank to its end on the last."""
        found: dict[int, Step] = {}
        for part in self._rank_graphs:
            for own in part.graph.steps():
                row = int(part.of_job(own.event))
                known = found.get(own.number, replace(own, event=row))
                span = min(known.start_ns, own.start_ns), max(known.end_ns, own.end_ns)
                until = max(known.until_ns, own.until_ns)
                found[own.number] = replace(known, start_ns=span[0], end_ns=span[1], until_ns=until)
        return sorted(found.values(), key=lambda step: (step.start_ns, step.number))

    # -- for people ----------------------------------------------------------------------------------------------------

    def _events_frame(self, rows: Ids | Ints) -> pd.DataFrame:
        """Return the DataFrame of canonical rows, with their ``rank``; rendezvous are no events."""
        return super()._events_frame(rows[self.event_table.kind[rows] != EventKind.RENDEZVOUS])

    def event_columns(self, rows: Ids | Ints) -> dict[str, Any]:
        """Return the output columns of canonical rows, with their ``rank``."""
        return {"rank": self.rank_of(rows), **super().event_columns(rows)}

    @property
    def rendezvous(self) -> pd.DataFrame:
        """The points where ranks meet: number (of the collective), kind (its name), time_ns."""
        import pandas as pd

        return pd.DataFrame(self.rendezvous_columns())

    def rendezvous_columns(self) -> dict[str, Any]:
        """Return the columns of :attr:`rendezvous` as arrays."""
        rows = self.rendezvous_rows
        return {
            "number": self.number_of_rendezvous(rows),
            "kind": texts_of_codes(self.names, self.event_table.name[rows]),
            "time_ns": self.event_table.start[rows],
        }

    @cached_property
    def rendezvous_rows(self) -> Ids:
        """The rows of rendezvous."""
        return freeze(np.flatnonzero(self.event_table.kind == EventKind.RENDEZVOUS).astype(np.int32))

    def number_of_rendezvous(self, rows: Ids | Ints) -> Ints:
        """Return the collective's number for each rendezvous row; -1 for other rows."""
        is_meeting = take_or(self.event_table.kind == EventKind.RENDEZVOUS, rows, otherwise=False)
        return np.where(is_meeting, take_or(self.event_table.correlation, rows), -1)

    def edge_columns(self, edges: EdgeTable) -> dict[str, Any]:
        """Return the output columns of edges, with source_rank, target_rank and rendezvous; None where none is.

        A rendezvous is no event: on its side there is neither an index nor a point, but the number of its collective.
        """
        columns, meeting = super().edge_columns(edges), np.full(len(edges), -1)
        for side, points in (("source", edges.source), ("target", edges.target)):
            rows = event_of(points)
            number, rank = self.number_of_rendezvous(rows), self.rank_of(rows)
            for name in (f"{side}_index", f"{side}_point"):
                columns[name] = none_where(columns[name].astype(object), number >= 0)
            columns[f"{side}_rank"] = none_where(rank.astype(object), rank < 0)
            meeting = np.maximum(meeting, number)
        return {**columns, "rendezvous": none_where(meeting.astype(object), meeting < 0)}

    def to_networkx(self) -> networkx.MultiDiGraph[Any]:
        """Return a networkx multigraph whose nodes are (rank, event_index, "start" | "end") and ("rendezvous", number).

        Edge keys are edge kinds.
        """
        return super().to_networkx()

    def _node_names(self, points: Ids) -> list[tuple[Any, ...]]:
        meeting, ranks = self.number_of_rendezvous(event_of(points)), self.rank_of(event_of(points))
        names = super()._node_names(points)
        return [
            (rank, *name) if number < 0 else ("rendezvous", number)
            for rank, number, name in zip(ranks.tolist(), meeting.tolist(), names, strict=True)
        ]

    def _walkable_points(self) -> Ids:
        points = super()._walkable_points()
        # A rendezvous is one instant: edges lead to and from its first point.
        return points[(self.number_of_rendezvous(event_of(points)) < 0) | ~is_end(points)]

    def row_of(self, event: EventName) -> int:
        """Return the canonical row of an event, named by its rank and number.

        Raises:
            QueryError: there is no such event.
        """
        if not isinstance(event, tuple):
            raise QueryError(
                f"{self.path}: events of a job are identified by rank and number",
                Remedy(
                    f"pass (RANK, {event}), such as (0, {event})",
                    f"give RANK:{event}, such as 0:{event}, or choose a rank with --rank N",
                ),
            )
        rank, index = event
        part = self._rank_graphs[self.index_of_rank(rank)]
        return int(part.of_job(part.graph.row_of(index)))

    def _induced_subgraph(self, rows: Ints) -> DependencyGraph:
        """Keep these rows, the rendezvous that they take part in, and the edges between all of them."""
        inside = np.zeros(len(self.event_table), np.bool_)
        inside[rows] = True
        source, target = event_of(self._edges.source), event_of(self._edges.target)
        meets = self.event_table.kind == EventKind.RENDEZVOUS
        inside[meets] = False
        inside[np.concatenate([target[inside[source] & meets[target]], source[inside[target] & meets[source]]])] = True
        kept = self.rows_and_edges(np.flatnonzero(inside))
        parts, originals, first_row = [], [], 0
        for part, original in zip(self._rank_graphs, self._originals, strict=True):
            mine = np.flatnonzero(inside[part.first_row : part.first_row + len(part.graph.event_table)])
            own = part.graph._induced_subgraph(mine)  # noqa: SLF001 - the same question to one rank
            originals.append(own if original is part.graph else original._induced_subgraph(mine))  # noqa: SLF001
            parts.append(replace(part, graph=own, first_row=first_row))
            first_row += len(own.event_table)
        renumbered = replace(
            self.members, row=take_or(kept.number, self.members.row), call=take_or(kept.number, self.members.call)
        )
        return JobGraph(
            kept.trace,
            Timeline(kept.trace),
            kept.edges,
            parts,
            originals,
            renumbered.take(renumbered.row >= 0),
            self.clock_table,
            doubtful=np.flatnonzero(np.isin(kept.edge_rows, self._doubtful)),
            notes=self._notes,
            wait_calls=kept.wait_calls,
        )


def shift_to_job_time(graph: DependencyGraph, start: Ints, end: Ints) -> DependencyGraph:
    """Return a graph with other starts and ends (ns) of its events; the graph itself where they are its own.

    Of a job all times are the job's: what the file says of an event is asked of the rank alone.
    """
    events = graph.event_table
    if (start == events.start).all() and (end == events.end).all():
        return graph
    trace = replace(graph.trace, events=replace(events, start=freeze(start), end=freeze(end)), moved_from=None)
    notes = {key: count for key, count in graph.diagnostics.items() if key not in trace.diagnostics}
    return DependencyGraph(trace, Timeline(trace), graph.edge_table, notes, graph.wait_calls)


def is_queue(job: DependencyGraph) -> Bools:
    """Mark the edges by which one collective of a stream follows another; messages are not queued."""
    takes_part, edges = np.zeros(len(job.event_table), np.bool_), job.edge_table
    takes_part[job.members.row[~job.members.is_message]] = True
    source, target = event_of(edges.source), event_of(edges.target)
    found: Bools = (edges.kind == EdgeKind.STREAM_ORDER) & takes_part[source] & takes_part[target]
    return found


def full_rank_graphs(job: DependencyGraph, ranks: Iterable[int]) -> dict[int, DependencyGraph]:
    """Return the whole graphs of some ranks of a job; where it holds summaries, their files are read again.

    Raises:
        HtaGraphError: a file cannot be read again, or has changed.
    """
    return {rank: job.graph(rank) for rank in ranks} if job.source is None else job.source.full_rank_graphs(ranks)
