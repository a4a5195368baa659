"""DependencyGraph: a read-only facade of events, waits, launches and lanes that hides its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

import numpy as np

from hta_graph.base.arrays import freeze, pair_key, take_or
from hta_graph.base.errors import QueryError, Remedy, TraceError
from hta_graph.base.safe_regex import names_matching
from hta_graph.base.storage.location import Location
from hta_graph.base.text.formatting import html_table
from hta_graph.base.text.shorten import suggest_known, suggest_number
from hta_graph.graph.conversion import (
    POINT_NAMES,
    edge_columns,
    edges_frame,
    event_columns,
    events_frame,
    host_time_columns,
    to_networkx,
    to_rustworkx,
)
from hta_graph.graph.edges import (
    Clocks,
    EdgeTable,
    EventEdges,
    Members,
    WaitCalls,
    labels_of_custom_rules,
    reachable,
    shortest_path,
)
from hta_graph.graph.event_flags import EventFlags
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.timeline import Launches, Nesting, Timeline, launching_calls, nearest_around
from hta_graph.model import BUILD_DIAGNOSTICS, EDGE_MEANING, Bools, EdgeKind, EventKind, Evidence, Ids, Ints
from hta_graph.trace.table import READING_DIAGNOSTICS, EventTable, LaneTable, Step, Trace

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    import rustworkx


DIAGNOSTICS: dict[str, str] = {**READING_DIAGNOSTICS, **BUILD_DIAGNOSTICS}
"""All keys of ``graph.diagnostics``."""


EventName = int | tuple[int, int]
"""An event's ``event_index``; of a job its rank and that."""

OneOrMoreKinds = EdgeKind | str | Iterable[EdgeKind | str]
"""Edge kinds, or names of them."""

MOST_LANES = MOST_RANKS = 20
"""How many lanes or ranks an error lists."""

EDGE_LABELS = tuple(kind.label for kind in EdgeKind)
EVENT_LABELS = tuple(kind.label for kind in EventKind if kind != EventKind.RENDEZVOUS)

Table = TypeVar("Table")


@dataclass(frozen=True)
class RankGraph:
    """One rank of a graph: its own graph in the same time, and where its rows and lanes begin among all."""

    index: int
    rank: int
    graph: DependencyGraph
    first_row: int
    first_lane: int

    def of_job(self, rows: Any) -> Any:
        """Turn rows of the rank's graph into the job's; -1 stays -1."""
        return np.where(np.asarray(rows) >= 0, np.asarray(rows) + self.first_row, -1)

    def of_rank(self, rows: Any) -> Any:
        """Turn the job's rows into those of the rank's graph; -1 stays -1."""
        return np.where(np.asarray(rows) >= 0, np.asarray(rows) - self.first_row, -1)


def distinct_hosts(told: Mapping[int, str | None]) -> dict[int, str]:
    """Return each rank's host; empty if a rank does not name its host, or all have the same.

    >>> distinct_hosts({0: "a", 1: "b"}), distinct_hosts({0: "a", 1: None}), distinct_hosts({0: "a", 1: "a"})
    ({0: 'a', 1: 'b'}, {}, {})
    """
    names = {rank: name for rank, name in told.items() if name}
    return names if len(names) == len(told) and len(set(names.values())) > 1 else {}


class RankSource(Protocol):
    """Reads the files of ranks again where a graph of rank summaries cannot answer.

    What else it is asked stands where the answers are known: critical paths, replay.
    """

    def full_rank_graphs(self, ranks: Iterable[int]) -> dict[int, DependencyGraph]:
        """Return the whole graphs of some ranks.

        Raises:
            HtaGraphError: a file cannot be read once more, or has changed.
        """


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """What a rank did with others, as far as its job knows the others' part: rows of the rank's graph."""

    rows: Ids


class DependencyGraph:
    """The events of one rank, and edges: why each could not have happened earlier.

    Every event is named by its ``event_index``, its position in ``traceEvents``. Algorithms see columns instead, one
    entry per event in canonical order (:attr:`event_table`); there an event is its row.
    """

    source: RankSource | None = None
    """Who answers what takes all rows, where the graph holds few of each rank; None where it has them."""
    is_job = False
    """Whether it holds what ranks did with each other; also of a rank that is replayed alone for its job."""
    members = Members.empty()
    """What ranks did with each other, as columns; of one rank nothing."""
    clock_table = Clocks.empty()
    """The clocks of ranks on which theirs were brought into line, as columns; of one rank none."""

    def __init__(
        self,
        trace: Trace,
        timeline: Timeline,
        edges: EdgeTable,
        notes: dict[str, int],
        wait_calls: WaitCalls,
        attached: Iterable[object] = (),
    ) -> None:
        self._trace = trace
        self._timeline = timeline
        self._edges = edges
        self._notes = notes
        self._wait_calls = wait_calls
        self._attached = {type(table): table for table in attached}
        self.answers: dict[Callable[..., Any], Any] = {}
        """Answers that algorithms gave and that are kept with the graph."""

    def __repr__(self) -> str:
        return (
            f"<DependencyGraph {self._trace.path.name}: {len(self._trace.events):,} events, {len(self._edges):,} edges>"
        )

    def _repr_html_(self) -> str:
        """Show in a notebook how many edges of each kind there are, recorded and inferred."""
        rows = [
            (kind, *counts.values(), EDGE_MEANING[EdgeKind[kind.upper()]].says)
            for kind, counts in self.edge_counts().items()
        ]
        return html_table(repr(self), ["edge", *(evidence.label for evidence in Evidence), "meaning"], rows)

    # -- what was found elsewhere --------------------------------------------------------------------------------------

    def attached(self, kind: type[Table]) -> Table | None:
        """Return the attached table of a kind: what the job or another process found for the rank."""
        found: Table | None = self._attached.get(kind)  # type: ignore[assignment]
        return found

    def needed(self, kind: type[Table], otherwise: str) -> Table:
        """Return the attached table of a kind.

        Raises:
            TraceError: there is none; ``otherwise`` says what the graph is then.
        """
        if (found := self.attached(kind)) is None:
            raise TraceError(self.path, otherwise)
        return found

    def with_attached(self, *tables: object) -> Self:
        """Return the same graph with further tables attached; one replaces another of its kind."""
        found = copy(self)
        found._attached = self._attached | {type(table): table for table in tables}  # noqa: SLF001 - its own copy
        found.answers = {}
        return found

    @property
    def attached_tables(self) -> tuple[object, ...]:
        """All attached tables."""
        return tuple(self._attached.values())

    # -- the trace, and its events as columns --------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace that this graph was built from."""
        return self._trace

    @property
    def path(self) -> Location:
        """The file that the trace was read from."""
        return self._trace.path

    @property
    def rank(self) -> int | None:
        """The rank of the trace, if that is known."""
        return self._trace.rank

    @property
    def rank_graphs(self) -> tuple[RankGraph, ...]:
        """The ranks of the graph, on one clock: itself, unless it is a job."""
        return (RankGraph(0, self.rank or 0, self, 0, 0),)

    def graph(self, rank: int) -> DependencyGraph:
        """Return the graph of one rank alone, with the times of its file.

        Raises:
            QueryError: there is no such rank.
        """
        return self.rank_graphs[self.index_of_rank(rank)].graph

    def rank_index_of(self, rows: Ids | Ints) -> Ids:
        """Return the index in ``rank_graphs`` of the rank of each row; -1 for row -1."""
        return np.where(rows >= 0, 0, -1).astype(np.int32)

    @property
    def independent_ranks(self) -> DependencyGraph:
        """The same without waits between ranks and without queues of collectives."""
        return self

    @cached_property
    def rank_index_of_lane(self) -> Ids:
        """The index in ``rank_graphs`` of each lane's rank; -1 for an empty lane."""
        parts = np.full(len(self.lanes.labels), -1, np.int32)
        parts[self.event_table.lane] = self.rank_index_of(np.arange(len(self.event_table)))
        return freeze(parts)

    @cached_property
    def hosts(self) -> dict[int, str]:
        """Each rank's host; empty if a rank's trace does not name it, or all have the same."""
        return distinct_hosts({part.rank: part.graph.trace.settings.get("host_name") for part in self.rank_graphs})

    @cached_property
    def rank_numbers(self) -> Ints:
        """The number of each rank."""
        return freeze(np.array([part.rank for part in self.rank_graphs], np.int64))

    def rank_of(self, rows: Ids | Ints) -> Ints:
        """Return the rank of each row; -1 for rendezvous and for row -1."""
        ranks: Ints = take_or(self.rank_numbers, self.rank_index_of(rows))
        return ranks

    def waited(self, rows: Ids | Ints) -> Ints:
        """Return for each row how long (ns) it waited for other ranks; 0 for an event that waited for none."""
        waits = np.zeros(len(self.event_table), np.int64)
        waits[self.members.row] = self.members.wait
        found: Ints = take_or(waits, rows, otherwise=0)
        return found

    def waited_until(self, rows: Ids | Ints) -> Ints:
        """Return for each row until when (job time, ns) it waited for other ranks; its start if it did not."""
        until = self.event_table.start.copy()
        waits = self.members.take(self.members.wait > 0)
        until[waits.row] = waits.waits_since + waits.wait
        return until[rows]

    @property
    def without_partner(self) -> Bools:
        """Mark the activities that communicate with ranks whose part is not known: of one rank alone all of them."""
        alone = self.event_flags.communicates | self.lanes.is_communication[self.event_table.lane]
        if (known := self.attached(MatchedRows)) is not None:
            alone[known.rows] = False
            alone &= ~self.event_flags.moves_memory  # of the copies of a collective one is matched for all
        return alone

    @cached_property
    def calling_lane(self) -> Ids:
        """The thread whose communication each lane holds; other lanes are their own."""
        lanes, part = self.lanes, self.rank_index_of_lane.tolist()
        of_thread = {(rank, label): lane for lane, (rank, label) in enumerate(zip(part, lanes.labels, strict=True))}
        found = np.arange(len(lanes.labels), dtype=np.int32)
        for lane in np.flatnonzero(lanes.is_communication).tolist():
            label = lanes.labels[lane].replace("communication", "thread", 1)
            found[lane] = of_thread.get((part[lane], label), lane)
        return freeze(found)

    def index_of_rank(self, rank: int) -> int:
        """Return the index of a rank in ``rank_graphs``.

        Raises:
            QueryError: there is no such rank.
        """
        places = {part.rank: part.index for part in self.rank_graphs}
        if rank not in places:
            raise QueryError(f"{self.path}: there is no rank {rank}; {suggest_number(rank, [*places], MOST_RANKS)}")
        return places[rank]

    @property
    def doubtful_edges(self) -> Ints:
        """The rows of edges that bind nothing, because the clock error is larger than the waits they show."""
        return np.empty(0, np.int64)

    @property
    def event_table(self) -> EventTable:
        """The events as columns, for algorithms."""
        return self._trace.events

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the codes in ``event_table.name`` refer to."""
        return self._trace.names

    @property
    def lanes(self) -> LaneTable:
        """The threads and streams that the codes in ``event_table.lane`` refer to."""
        return self._trace.lanes

    @property
    def is_gpu(self) -> Bools:
        """Mark the GPU activities."""
        return self._trace.is_gpu

    @property
    def is_activity(self) -> Bools:
        """Mark what runs outside threads: GPU activities, and in a job the work with other ranks."""
        return self._trace.is_activity

    @property
    def gpu_clock(self) -> list[dict[str, Any]]:
        """How far each device's clock is ahead of the host's, as ``diagnostics.gpu_clock`` in JSON has it.

        Keys: device, how (``constant``, ``steps``, ``noisy``, ``one_sided`` or ``unknown``), noise_ns, pieces
        (from_ns, offset_ns, low_ns, high_ns, drift_ppm, launches, returns); of a job also rank.
        """
        ranks = [(part.rank, part.graph.trace) for part in self.rank_graphs]
        of_rank: list[dict[str, Any]] = [{"rank": rank} if len(ranks) > 1 else {} for rank, _ in ranks]
        return [
            own | clock.as_json() for own, (_, trace) in zip(of_rank, ranks, strict=True) for clock in trace.gpu_clock
        ]

    def name_of(self, row: int) -> str:
        """Return the name of an event."""
        return self._trace.name_of(row)

    @cached_property
    def event_flags(self) -> EventFlags:
        """Properties of events that follow from names and categories."""
        return EventFlags(self._trace, self._launches)

    def steps(self) -> list[Step]:
        """List the profiler steps on the CPU in time order."""
        return self._trace.steps()

    # -- who lies in whom, who launched what ---------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """The order of points and the nesting of events, for algorithms that walk the graph."""
        return self._timeline

    @property
    def calls(self) -> Nesting:
        """The nesting of operators and runtime calls on each thread."""
        return self._timeline.calls

    def nesting(self, *kinds: EventKind) -> Nesting:
        """Return the nesting of events of some kinds (annotations, Python frames) on each lane."""
        return self._timeline.lookups(*kinds)

    def enclosing(self, rows: Ids | Ints, *kinds: EventKind) -> Ids:
        """Return the innermost event of some kinds around the start of each CPU event, on its thread; -1: none."""
        events = self._trace.events
        return self.nesting(*kinds).open_at(take_or(events.lane, rows), events.start[rows])

    def position(self, rows: Ids | Ints, at_end: Bools | bool = False) -> Ints:  # noqa: FBT001, FBT002 - a column
        """Return the positions of event starts (or ends) in the global order of points; -1 for row -1."""
        point = np.where(rows >= 0, np.where(at_end, end_point(rows), start_point(rows)), -1)
        places: Ints = take_or(self._timeline.position, point).astype(np.int64)
        return places

    def lane_key(self, rows: Ids | Ints, at_end: Bools | bool = False) -> Ints:  # noqa: FBT001, FBT002 - a column
        """Return each event's lane and :meth:`position` as one number that sorts by lane, then by time."""
        return pair_key(take_or(self._trace.events.lane, rows), self.position(rows, at_end))

    def position_before(self, times: Ints) -> Ints:
        """Return the position in the global order of the last start or end before each time (ns); -1 if none is."""
        return np.searchsorted(self._timeline.times[self._timeline.order], times, side="left") - 1

    @cached_property
    def _launches(self) -> Launches:
        trace = self._trace
        return Launches(trace.events, self._timeline, lambda: launching_calls(trace))

    @property
    def launching_call(self) -> Ids:
        """The call that launched each event; -1 without a recorded call, and for events that are not GPU activities."""
        return self._launches.call

    @property
    def operator_around(self) -> Ids:
        """The innermost operator around each operator and runtime call; -1 for none."""
        return self._launches.operator_around

    @property
    def launching_operator(self) -> Ids:
        """The innermost operator around the launch call of each GPU activity; -1 for none.

        The activity's own ``External id`` is not asked: it names another operator in many traces.
        """
        return self._launches.operator

    @cached_property
    def outermost_operator(self) -> Ids:
        """The outermost operator around each event, or the event itself if it is that; -1 for none.

        A GPU activity's is that of its launching call.
        """
        every = np.arange(len(self._trace.events), dtype=np.int32)
        on_cpu = np.where(self.is_gpu, self.launching_call, every)
        is_operator = take_or(self._trace.events.kind == EventKind.CPU_OP, on_cpu, otherwise=False)
        found = np.where(is_operator | (on_cpu < 0), on_cpu, self.operator_around[on_cpu]).astype(np.int32)
        return freeze(nearest_around(self.operator_around, found, self.operator_around < 0))

    # -- edges ---------------------------------------------------------------------------------------------------------

    @property
    def edge_table(self) -> EdgeTable:
        """The edges as columns of points, for algorithms and files."""
        return self._edges

    def edges_of(self, *kinds: EdgeKind | str) -> EventEdges:
        """Return the edges of some kinds (of all, if none is named) as pairs of events, by columns.

        A kind is an :class:`EdgeKind`, its name such as ``"event_wait"``, or the label of a custom rule.
        :attr:`edges` has the same as a DataFrame.

        Raises:
            QueryError: there is no such kind.
        """
        rows = np.flatnonzero(self._are_of(self._edges, kinds)) if kinds else np.arange(len(self._edges))
        return EventEdges.of_rows(self._edges, rows, self._timeline.times)

    def _are_of(self, edges: EdgeTable, kinds: Iterable[EdgeKind | str]) -> Bools:
        """Mark the edges of some kinds or custom rules."""
        own = labels_of_custom_rules()
        codes, rules = [], []
        for kind in kinds:
            if isinstance(kind, str) and kind in own:
                rules.append(own[kind])
            else:
                codes.append(_code_of(kind, EdgeKind, "edge kind", [*EDGE_LABELS, *own]))
        found: Bools = np.isin(edges.kind, codes)
        return found | np.isin(edges.rule, rules) if rules else found

    def edges_at(self, rows: Ids | Ints) -> EventEdges:
        """Return some edges, by their rows in :attr:`edge_table`, as pairs of events."""
        return EventEdges.of_rows(self._edges, rows, self._timeline.times)

    @property
    def wait_calls(self) -> WaitCalls:
        """The CPU calls that made streams wait for events."""
        return self._wait_calls

    # -- for people ----------------------------------------------------------------------------------------------------

    @property
    def diagnostics(self) -> dict[str, int]:
        """Counts of what was dropped, repaired or left unresolved; :data:`DIAGNOSTICS` explains the keys."""
        return {**self._trace.diagnostics, **self._notes}

    @property
    def diagnostics_record(self) -> dict[str, Any]:
        """The diagnostics as JSON has them: the counts, and the clock of each device."""
        return {**self.diagnostics, "gpu_clock": self.gpu_clock}

    @property
    def events(self) -> pd.DataFrame:
        """All events as a DataFrame (a copy).

        Columns: event_index, kind, name, lane, start_ns, end_ns, duration_ns, correlation, external_id. Times are the
        file's; where GPU events were moved into host time also host_start_ns, host_end_ns (a job's are in job time).
        """
        return self._all_events.copy()

    @cached_property
    def _all_events(self) -> pd.DataFrame:
        return self.events_of(np.arange(len(self._trace.events)))

    @property
    def edges(self) -> pd.DataFrame:
        """All edges as a DataFrame (a copy).

        Columns: kind, evidence, rule, clamped, source_index, source_point, target_index, target_point, lag_ns.
        """
        return self._all_edges.copy()

    @cached_property
    def _all_edges(self) -> pd.DataFrame:
        return self._edge_frame(self._edges)

    def edge_counts(self) -> dict[str, dict[str, int]]:
        """Count the edges per kind and evidence."""
        counts = np.zeros((len(EdgeKind), 2), np.int64)
        np.add.at(counts, (self._edges.kind, self._edges.inferred.astype(np.int8)), 1)
        return {
            kind.label: {evidence.label: int(counts[kind, evidence]) for evidence in Evidence}
            for kind in EdgeKind
            if counts[kind].any()
        }

    def event(self, event_index: EventName) -> pd.Series[Any]:
        """Return one event as a Series, named after the event.

        Raises:
            QueryError: there is no such event.
        """
        found = self.events_of(np.array([self.row_of(event_index)])).iloc[0]
        return found.rename(found["name"])  # else ``.name`` would be pandas' label of the row

    def predecessors(self, event_index: EventName, kinds: OneOrMoreKinds | None = None) -> pd.DataFrame:
        """Return the edges from other events into an event's start and end, optionally of some kinds only.

        Args:
            event_index: the event.
            kinds: a kind of edge or several, as :class:`EdgeKind` or by name, such as ``"launch"``.

        Raises:
            QueryError: there is no such event or kind.
        """
        return self._edges_touching(event_index, self._edges.target, kinds)

    def successors(self, event_index: EventName, kinds: OneOrMoreKinds | None = None) -> pd.DataFrame:
        """Return the edges from an event's start and end to other events, optionally of some kinds only.

        Args:
            event_index: the event.
            kinds: a kind of edge or several, as :class:`EdgeKind` or by name, such as ``"launch"``.

        Raises:
            QueryError: there is no such event or kind.
        """
        return self._edges_touching(event_index, self._edges.source, kinds)

    def ancestors(self, event_index: EventName) -> pd.DataFrame:
        """Return the events that this event's end depends on, directly or indirectly."""
        return self._reachable_events(end_point(np.array([self.row_of(event_index)])), backward=True)

    def descendants(self, event_index: EventName) -> pd.DataFrame:
        """Return the events that depend on this event's start, directly or indirectly."""
        return self._reachable_events(start_point(np.array([self.row_of(event_index)])), backward=False)

    def path_between(self, source_index: EventName, target_index: EventName) -> pd.DataFrame:
        """Return the edges of a shortest path (fewest edges) from one event's start to another's end.

        Raises:
            QueryError: there is no such event, or no path; the error says why.
        """
        way = self.path_edges_between(source_index, target_index)
        if not len(way):
            raise self._no_path_error(source_index, target_index)
        return self._edge_frame(self._edges.take(way.row))

    def _no_path_error(self, source_index: EventName, target_index: EventName) -> QueryError:
        """Return why no path leads from one event to another."""
        kinds = self._trace.events.kind
        for index in (source_index, target_index):
            row = self.row_of(index)
            if not self._walkable_rows[row]:
                kind = EventKind(int(kinds[row])).label
                return QueryError(
                    f"{self.path}: no path touches event {index}: its kind is {kind}, which has no edges; "
                    "choose an operator, a runtime call or GPU work"
                )
        said = f"{self.path}: no path leads from event {source_index} to event {target_index}"
        if len(self.path_edges_between(target_index, source_index)):
            return QueryError(f"{said}: event {source_index} depends on event {target_index}; swap them")
        return QueryError(f"{said}: neither depends on the other; ancestors(event) lists what an event depends on")

    @cached_property
    def _walkable_rows(self) -> Bools:
        """Mark the events that edges join."""
        marked = np.zeros(len(self._trace.events), np.bool_)
        for points in (self._timeline.order, self._edges.source, self._edges.target):
            marked[event_of(points)] = True
        return marked

    def path_edges_between(self, source_index: EventName, target_index: EventName) -> EventEdges:
        """Return the edges of :meth:`path_between` as pairs of events; none if there is no path."""
        ends = np.array([self.row_of(source_index), self.row_of(target_index)])
        found = shortest_path(self._edges, self._point_count, int(start_point(ends)[0]), int(end_point(ends)[1]))
        return self.edges_at(found)

    def neighbourhood(self, event_index: EventName, depth: int = 1) -> DependencyGraph:
        """Return the subgraph of the events at most ``depth`` edges away, in either direction."""
        near = np.array([self.row_of(event_index)])
        source, target = event_of(self._edges.source), event_of(self._edges.target)
        for _ in range(depth):
            inside = np.zeros(len(self._trace.events), np.bool_)
            inside[near] = True
            touched = inside[source] | inside[target]
            near = np.unique(np.concatenate([near, source[touched], target[touched]]))
        return self._induced_subgraph(near)

    def filter(
        self,
        *,
        kind: EventKind | str | Sequence[EventKind | str] | None = None,
        name: str | None = None,
        lane: str | Sequence[str] | None = None,
        rank: int | Sequence[int] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> DependencyGraph:
        """Return the subgraph of the events that match all conditions.

        Args:
            kind: one or more event kinds, as members of :class:`EventKind` or by name.
            name: a regular expression found in the name.
            lane: one or more lanes, as in output; in a job those of that name on every rank.
            rank: one or more ranks.
            start_ns: keep events that end at or after this time (host time).
            end_ns: keep events that start at or before this time (host time).

        Raises:
            QueryError: an unknown kind, lane or rank, or an invalid regular expression.
        """
        events = self._trace.events
        keep = np.ones(len(events), np.bool_)
        if rank is not None:
            places = [self.index_of_rank(number) for number in np.atleast_1d(rank).tolist()]
            keep &= np.isin(self.rank_index_of(np.arange(len(events))), places)
        if kind is not None:
            keep &= np.isin(events.kind, _codes_of_events([kind] if isinstance(kind, (str, EventKind)) else kind))
        if name is not None:
            keep &= names_matching([name], self._trace.names)[events.name]
        if lane is not None:
            keep &= np.isin(events.lane, _codes_of_lanes(lane, self._trace.lanes.labels))
        if start_ns is not None:
            keep &= events.end >= start_ns
        if end_ns is not None:
            keep &= events.start <= end_ns
        return self._induced_subgraph(np.flatnonzero(keep))

    def subgraph(self, event_indices: Iterable[EventName]) -> DependencyGraph:
        """Return the subgraph of these events and the edges between them.

        Raises:
            QueryError: an event does not exist.
        """
        return self._induced_subgraph(np.unique(np.array([self.row_of(index) for index in event_indices], np.int64)))

    def to_networkx(self) -> networkx.MultiDiGraph[Any]:
        """Return a networkx multigraph whose nodes are (event_index, "start" | "end"); edge keys are edge kinds.

        A node's start_ns and end_ns are the file's, its ``time_ns`` is in host time, as edges count their lags.
        """
        points = self._walkable_points()
        return to_networkx(self._trace, points, self._edges, self._timeline.times, self._node_names(points))

    def to_rustworkx(self) -> rustworkx.PyDiGraph[int, int]:
        """Return a rustworkx graph; a node's payload is its point (2 × row of ``events``, + 1 for the end).

        An edge's payload is its row in ``edges``.
        """
        return to_rustworkx(self._walkable_points(), self._edges)

    @overload
    def events_of(self, rows: Ids | Ints, /) -> pd.DataFrame: ...
    @overload
    def events_of(self, kind: EventKind | str, /, *kinds: EventKind | str) -> pd.DataFrame: ...
    def events_of(self, first: Ids | Ints | EventKind | str, /, *kinds: EventKind | str) -> pd.DataFrame:
        """Return the events of some kinds, such as ``"kernel"``, or of canonical rows, as a DataFrame.

        Raises:
            QueryError: there is no such kind.
        """
        rows = first if isinstance(first, np.ndarray) else self._rows_of_kinds([first, *kinds])
        return self._events_frame(rows)

    def _rows_of_kinds(self, kinds: Sequence[EventKind | str]) -> Ints:
        """Return the canonical rows of events of some kinds."""
        return np.flatnonzero(np.isin(self._trace.events.kind, _codes_of_events(kinds)))

    def _events_frame(self, rows: Ids | Ints) -> pd.DataFrame:
        return events_frame(self._trace, rows, self.event_columns(rows))

    def _edge_frame(self, edges: EdgeTable) -> pd.DataFrame:
        return edges_frame(edges, self.edge_columns(edges))

    def event_columns(self, rows: Ids | Ints) -> dict[str, Any]:
        """Return the output columns of canonical rows, for files; in a job with ``rank``."""
        return {**event_columns(self._trace, rows), **host_time_columns(self._trace, rows)}

    def edge_columns(self, edges: EdgeTable) -> dict[str, Any]:
        """Return the output columns of edges, for files; in a job with source_rank, target_rank and rendezvous."""
        return edge_columns(self._trace, edges, self._timeline.times)

    def _node_names(self, points: Ids) -> list[tuple[Any, ...]]:
        """Name points for people: (event_index, "start" | "end")."""
        index = self._trace.events.index[event_of(points)].tolist()
        return [(of, POINT_NAMES[point & 1]) for of, point in zip(index, points.tolist(), strict=True)]

    def _walkable_points(self) -> Ids:
        rows = np.flatnonzero(self._walkable_rows).astype(np.int32)
        return np.sort(np.concatenate([start_point(rows), end_point(rows)]))

    @cached_property
    def _rows_by_index(self) -> tuple[Ids, Ints]:
        """Return the numbers of events in order, and the row of each."""
        rows = np.argsort(self._trace.events.index, kind="stable")
        return self._trace.events.index[rows], rows

    def row_of(self, event_index: EventName) -> int:
        """Return an event's canonical row.

        Raises:
            QueryError: there is no such event.
        """
        if isinstance(event_index, tuple):
            rank, number = event_index
            raise QueryError(
                f"{self.path}: this trace has one rank; its events are identified by number alone",
                Remedy(f"pass {number}, not {event_index}", f"give {number}, not {rank}:{number}"),
            )
        # By search: numbers that others gave need not be near each other.
        indices, rows = self._rows_by_index
        place = int(np.searchsorted(indices, event_index))
        if place == len(indices) or indices[place] != event_index:
            raise QueryError(
                f"{self._trace.path}: there is no event {event_index}; "
                "give an event_index (the position in traceEvents)"
            )
        return int(rows[place])

    def _edges_touching(self, event_index: EventName, side: Ids, kinds: OneOrMoreKinds | None) -> pd.DataFrame:
        row = self.row_of(event_index)
        # Without the edges from an event's own start to its own end: nobody means those by neighbors.
        chosen = (event_of(side) == row) & (event_of(self._edges.source) != event_of(self._edges.target))
        if kinds is not None:
            chosen &= self._are_of(self._edges, [kinds] if isinstance(kinds, (str, EdgeKind)) else kinds)
        return self._edge_frame(self._edges.take(chosen))

    def _reachable_events(self, points: Ids, *, backward: bool) -> pd.DataFrame:
        seen = reachable(self._edges, self._point_count, points, backward=backward)
        rows = np.unique(event_of(np.flatnonzero(seen).astype(np.int32)))
        return self.events_of(rows[rows != event_of(points)[0]])

    @property
    def _point_count(self) -> int:
        return len(self._timeline.times)

    def _induced_subgraph(self, rows: Ints) -> DependencyGraph:
        """Keep these canonical rows and the edges between them; their order, and so all results, stay as they are."""
        kept = self.rows_and_edges(rows)
        return DependencyGraph(kept.trace, Timeline(kept.trace), kept.edges, self._notes, kept.wait_calls)

    def rows_and_edges(self, rows: Ids | Ints) -> SubgraphColumns:
        """Return the columns of some canonical rows, in their order, and those of the edges between them."""
        trace = self._trace.select(rows)
        number = np.full(len(self._trace.events), -1, np.int32)
        number[rows] = np.arange(len(rows), dtype=np.int32)
        point = np.stack([start_point(number), end_point(number)], axis=1).ravel()
        point[np.repeat(number < 0, 2)] = -1
        source, target = point[self._edges.source], point[self._edges.target]
        inside = np.flatnonzero((source >= 0) & (target >= 0))
        edges = replace(self._edges.take(inside), source=freeze(source[inside]), target=freeze(target[inside]))
        calls = self._wait_calls
        waits = WaitCalls(take_or(number, calls.source), take_or(number, calls.target), take_or(number, calls.call))
        waits = waits.take((waits.source >= 0) & (waits.target >= 0) & (waits.call >= 0))
        return SubgraphColumns(trace, edges, waits, number, inside)


@dataclass(frozen=True)
class SubgraphColumns:
    """A part of a graph's columns; each old row's new one (-1: left out), and the old rows of the edges that stay."""

    trace: Trace
    edges: EdgeTable
    wait_calls: WaitCalls
    number: Ids
    edge_rows: Ints


def require_graph(graph: object) -> None:
    """Refuse what is not a graph.

    Raises:
        TypeError: it is a trace, a file name or anything else.
    """
    if not isinstance(graph, DependencyGraph):
        raise TypeError(f"a dependency graph is needed, not {type(graph).__name__}; make one with build_graph")


def _codes_of_lanes(wanted: str | Iterable[str], known: Sequence[str]) -> list[int]:
    chosen = {wanted} if isinstance(wanted, str) else set(wanted)
    for name in sorted(chosen - set(known)):
        raise QueryError(f"there is no lane {name!r}; {suggest_known(name, [*dict.fromkeys(known)][:MOST_LANES])}")
    # Ranks of a job have threads and streams of equal names: all of them are meant.
    return [code for code, name in enumerate(known) if name in chosen]


def _codes_of_events(kinds: Iterable[EventKind | str]) -> list[int]:
    return [_code_of(kind, EventKind, "event kind", EVENT_LABELS) for kind in kinds]


def _code_of(kind: object, members: type[EdgeKind] | type[EventKind], what: str, known: Sequence[str]) -> int:
    """Return the code of a kind that is given as a member or by name."""
    if isinstance(kind, members):
        return int(kind)
    if isinstance(kind, str) and kind in known:
        return int(members[kind.upper()])
    raise QueryError(f"there is no {what} {kind!r}; {suggest_known(str(kind), known)}")
