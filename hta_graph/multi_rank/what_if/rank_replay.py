"""One rank of a job in replay: what it is asked, and its longest paths from and to other ranks.

The request travels between processes. The rank is a job of its own, in which rendezvous stand for all that other ranks
did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.arrays import column_types
from hta_graph.base.errors import PatternError, QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.timeline import Timeline
from hta_graph.model import LONGEST_NS, ROLE, Bools, EdgeRole, Ids, Ints
from hta_graph.multi_rank.join_ranks import ExternalEdges, single_rank_job
from hta_graph.multi_rank.summary.critical_paths import rank_if_unchanged
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.what_if.boundary_longest_paths import BoundaryLongestPaths, boundary_longest_paths
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.critical_path import WHOLE_GRAPHS_REMEDY
from hta_graph.paths.window_ends import Sink
from hta_graph.paths.windows import Window, step, whole
from hta_graph.trace.table import Flows, SyncTable
from hta_graph.what_if.changes import Change, Removal, Scaling
from hta_graph.what_if.longest_paths import UNREACHED
from hta_graph.what_if.modified_window import (
    ModifiedWindow,
    PathTotals,
    frozen_time,
    inferred_time,
    path_totals_of_edges,
    possible_waiting_time,
    time_without_partner,
)
from hta_graph.what_if.opportunities import path_times_by_name
from hta_graph.what_if.rank_normalization import (
    ComparisonKeys,
    ComparisonTimes,
    RankNormalization,
    comparison_keys,
    comparison_times,
)
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.scenarios import COMPARES_RANKS, NamedScenario
from hta_graph.what_if.selectors import Selector, pattern_reading

ChangeRecord = dict[str, Any]


def change_to_record(change: Change, rank: int) -> ChangeRecord:
    """Return a change as JSON for a rank; empty if it is another one's.

    Raises:
        QueryError: it compares ranks, or is a function of one's own: it needs all rows of all ranks.
    """
    if isinstance(change, Scaling):
        return {"scale": asdict(change.what), "factor": change.factor}
    if isinstance(change, Removal):
        return {"remove": asdict(change.what)}
    if isinstance(change, RankNormalization):
        return _normalization_to_record(change) if change.rank == rank else {}
    if isinstance(change, NamedScenario) and change.name not in COMPARES_RANKS:
        return {"scenario": change.name, "argument": change.argument}
    raise QueryError(f"{change} needs all events of all ranks", WHOLE_GRAPHS_REMEDY)


def _normalization_to_record(change: RankNormalization) -> ChangeRecord:
    columns = {name: getattr(change, name).tolist() for name in ("is_shared", "median", "usual")}
    return {
        "like_others": change.rank,
        "place": change.asked.place.tolist(),
        "kind": change.asked.kind.tolist(),
        **columns,
    }


def keys_from_record(record: Mapping[str, Any]) -> ComparisonKeys:
    """Read what others are asked."""
    return ComparisonKeys(np.array(record["place"], np.int64), np.array(record["kind"], np.int64))


def change_from_record(record: ChangeRecord) -> Change:
    """Undo :func:`change_to_record` for a change that is the rank's."""
    if "like_others" in record:
        median, usual = np.array(record["median"], np.int64), np.array(record["usual"], np.int64)
        is_shared = np.array(record["is_shared"], np.bool_)
        return RankNormalization(record["like_others"], keys_from_record(record), is_shared, median, usual)
    if "scale" in record:
        return Scaling(Selector(**record["scale"]), record["factor"])
    if "remove" in record:
        return Removal(Selector(**record["remove"]))
    return NamedScenario(record["scenario"], record["argument"])


@dataclass(frozen=True)
class RequestedPath:
    """A path of which the rank reports what it passes there.

    ``draft`` is the index of its changes (-1: as recorded) and ``legs`` where it goes (:data:`ReplayLeg`), latest
    first, with the times (ns) of what comes from other ranks in ``incoming_ns`` (None: as recorded). Of each of
    ``without_drafts`` the rank also reports what the path consists of without what that draft changes, how long that
    is. ``wants_times_by_name``: it also reports by kind and name what can change on the path.
    """

    draft: int
    legs: list[list[int]]
    incoming_ns: list[int] | None = None
    without_drafts: tuple[int, ...] = ()
    wants_times_by_name: bool = False


@dataclass(frozen=True)
class ReplayRequest:
    """What a rank is asked: its longest paths under drafts, and what paths pass on it.

    ``window`` holds the fields of the job's :class:`Window` and ``question``, the one that the rank's own answers;
    ``is_last``: it ends on this rank as recorded. ``collective_numbers`` are the collectives of its members,
    ``incoming_ns`` and ``incoming_names`` the times and names of what comes from other ranks and ``edges`` where that
    leads. ``awaited_rows`` are rows that others await, until their end if ``at_end``. ``drafts`` are lists of changes;
    each of ``groups`` are indices of drafts of one shape. ``wants_comparison_keys``: the rank is to be like the others,
    and returns what these are compared by, who get that as ``comparison_keys``.
    """

    window: dict[str, Any]
    is_last: bool
    annotations: tuple[dict[str, Any], ...]
    until: int
    clock: dict[str, Any]
    content: str
    collective_numbers: list[int]
    incoming_ns: list[int]
    incoming_names: list[str]
    edges: ExternalEdges
    awaited_rows: list[int]
    at_end: list[bool]
    drafts: list[list[ChangeRecord]]
    groups: list[list[int]]
    paths: list[RequestedPath]
    wants_comparison_keys: bool = False
    comparison_keys: ComparisonKeys | None = None

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        own = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("edges", "paths", "comparison_keys")
        }
        edges = {name: getattr(self.edges, name).tolist() for name in column_types(ExternalEdges)}
        keys = self.comparison_keys and {
            "place": self.comparison_keys.place.tolist(),
            "kind": self.comparison_keys.kind.tolist(),
        }
        return {**own, "edges": edges, "paths": [asdict(path) for path in self.paths], "comparison_keys": keys}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ReplayRequest:
        """Undo :meth:`as_record`."""
        edges = ExternalEdges.of(**record["edges"])
        paths = [RequestedPath(**{**path, "without_drafts": tuple(path["without_drafts"])}) for path in record["paths"]]
        keys = record["comparison_keys"] and keys_from_record(record["comparison_keys"])
        annotations = tuple(record["annotations"])
        return cls(**{**record, "edges": edges, "paths": paths, "comparison_keys": keys, "annotations": annotations})

    @staticmethod
    def window_record(window: Window, question: str) -> dict[str, Any]:
        """Return a job's window as JSON."""
        names = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "step", "form")
        return {"question": question, **{name: getattr(window, name) for name in names}}


WINDOW_END = -1
"""In place of an awaited point: the rank's end of the window."""

ReplayLeg = tuple[int, int]
"""From an awaited point (its index, or :data:`WINDOW_END`) back to what others decided (its index; -1: nothing)."""


@dataclass(frozen=True)
class RankReplay:
    """A window of one rank of a job.

    Args:
        job: the rank as a job of its own.
        window: the job's window, with what of this rank it waits for.
        awaited_rows: rows that others wait for; ``at_end``: for their end, not their start.
        until: as for :class:`ReplayGraph`.
    """

    job: JobGraph
    window: Window
    awaited_rows: Ids
    at_end: Bools
    until: int

    @cached_property
    def base(self) -> ReplayGraph:
        """The window, ready for replay."""
        meets = self.job.rendezvous_rows
        decided = np.concatenate([start_point(meets), end_point(meets)])
        return ReplayGraph(self.job, self.window, decided, self.until)

    @cached_property
    def _awaited_points(self) -> Ids:
        points: Ids = np.where(self.at_end, end_point(self.awaited_rows), start_point(self.awaited_rows)).astype(
            np.int32
        )
        return points

    @cached_property
    def incoming_points(self) -> Ids:
        """The points that others decide in the window; the others keep their recorded times."""
        points = start_point(self.job.rendezvous_rows)
        return points[self.base.changes_at(self.base.times[points])].astype(np.int32)

    @cached_property
    def _index_of_incoming(self) -> Ids:
        index = np.full(len(self.base.times), -1, np.int32)
        first = int(self.job.rendezvous_rows[0]) if len(self.job.rendezvous_rows) else 0
        index[self.incoming_points] = event_of(self.incoming_points) - first
        return index

    @property
    def incoming_indices(self) -> Ids:
        """Of all that comes from elsewhere the places of what may change."""
        return self._index_of_incoming[self.incoming_points]

    # -- longest paths ------------------------------------------------------------------------------------------------

    def longest_paths(self, drafts: Sequence[ModifiedWindow]) -> tuple[BoundaryLongestPaths, list[bool]]:
        """Return the longest paths under some drafts, all of one shape, and which of these leave all as it was."""
        paths, sink = drafts[0].paths(), self.window.sink
        chosen = self._deciding_lane_ends()
        chosen = chosen[np.argsort(sink.ends[chosen] != sink.point, kind="stable")]
        unchanged, tails = list[bool](), np.stack([draft.tails for draft in drafts])

        def weights() -> Iterator[Ints]:
            # One after the other: together they may be large.
            for draft, own in zip(drafts, tails, strict=True):
                weight = draft.weight
                unchanged.append(draft.leaves(weight, own))
                yield weight

        found = boundary_longest_paths(
            paths,
            weights(),
            self.base.times - self.window.start_ns,
            incoming=self.incoming_points,
            awaited=self._awaited_points,
            ends=sink.ends[chosen],
            tails=tails[:, chosen],
        )
        return found, unchanged

    def _deciding_lane_ends(self) -> Ints:
        """Leave out ends behind which more of their stream follows that ends in the window too: they decide nothing."""
        base, sink = self.base, self.window.sink
        edges, count = base.edges, len(base.times)
        counts, keeps = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        counts[sink.ends[sink.tails == 0]] = True
        role = ROLE[np.append(self.job.edge_table.kind, np.int8(-1))[edges.row]]
        forward = edges.weight >= 0
        runs = forward & (role == EdgeRole.ACTIVITY) & counts[edges.target]
        begins = np.zeros(count, np.bool_)
        begins[edges.source[runs]] = True
        followed = forward & (role == EdgeRole.STREAM) & begins[edges.target]
        keeps[edges.source[followed]] = True
        return np.flatnonzero(~(keeps & counts)[sink.ends])

    def recorded_roots(self) -> tuple[Ids, int]:
        """Return for each awaited point, and for the end, on what of others its recorded time rests (a place; -1)."""
        base, draft = self.base, ModifiedWindow(self.base)
        weight = base.edges.weight
        values = base.paths.values(weight, base.times)
        roots = base.paths.roots_of(weight, values, self._awaited_points)
        last = base.last_of(values[base.ends], draft.tails)
        end = base.paths.roots_of(weight, values, base.window.sink.ends[[last]])[0] if last >= 0 else -1
        return self._index_of_incoming[roots], int(self._index_of_incoming[end]) if last >= 0 else -1

    # -- what is passed ------------------------------------------------------------------------------------------------

    def path_totals(self, draft: ModifiedWindow, incoming_ns: Ints | None, legs: Sequence[ReplayLeg]) -> PathTotals:
        """Return what a path consists of on this rank, where it has several legs, latest first.

        Args:
            draft: the changes.
            incoming_ns: the times (ns) of all that comes from elsewhere, with them; without, those recorded.
            legs: the legs.
        """
        base, paths = self.base, draft.paths()
        start, weight = base.times.copy(), draft.weight
        if incoming_ns is not None:
            start[start_point(self.job.rendezvous_rows)] = incoming_ns
        values = paths.values(weight, start)
        edges, last = [np.empty(0, np.int32)], -1
        for awaited, incoming in legs:
            if awaited == WINDOW_END:
                last = base.last_of(values[base.ends], draft.tails)
            point = int(self._awaited_points[awaited]) if awaited != WINDOW_END else int(base.window.sink.ends[last])
            edges.append(self._path_back(draft, weight, values, start, point, incoming))
        # All are of one path through the job, which has no cycle: nothing is passed twice.
        return path_totals_of_edges(draft, values, weight, np.concatenate(edges), last)

    def _path_back(
        self, draft: ModifiedWindow, weight: Ints, values: Ints, start: Ints, point: int, incoming: int
    ) -> Ids:
        """Return the edges of a longest path to a point that rests on what is meant, of several equally late ones."""
        paths = draft.paths()
        found = paths.trace_back(weight, values, point)
        root = int(paths.source[found[-1]]) if len(found) else point
        if self._index_of_incoming[root] == incoming:
            return found
        allowed = start.copy()
        rest = self._index_of_incoming >= 0 if incoming < 0 else self._index_of_incoming != incoming
        allowed[rest & paths.is_root] = 2 * UNREACHED
        return paths.trace_back(weight, paths.values(weight, allowed), point)


def answer_replay_request(graph: DependencyGraph, request: ReplayRequest) -> DependencyGraph:
    """Answer the questions of a job's replay, given a rank's whole graph: a graph without rows that has the answer.

    Raises:
        TraceError: the file has changed since.
    """
    rank = rank_if_unchanged(graph, request.content, request.clock)
    times = np.array(request.incoming_ns, np.int64)
    numbers = np.array(request.collective_numbers, np.int64)
    job = single_rank_job(rank.graph, rank.members, numbers, times, request.incoming_names, request.edges)
    replay = RankReplay(
        job,
        _rank_window(job, request),
        np.array(request.awaited_rows, np.int32),
        np.array(request.at_end, np.bool_),
        request.until,
    )
    answer = _ReplayAnswerer(replay, request).answer()
    none = np.empty(0, np.int32)
    trace = replace(graph.trace.select(none), names=(), flows=Flows.empty(), syncs=SyncTable.empty())
    return DependencyGraph(trace, Timeline(trace), EdgeTable.empty(), {}, WaitCalls.empty(), [answer])


def _rank_window(job: JobGraph, request: ReplayRequest) -> Window:
    """Return the job's window with what of this rank it waits for: nothing where the rank has no such window.

    Of several equally late ends the recorded one is preferred; only one rank has that.
    """
    window_fields = dict(request.window)
    question = window_fields.pop("question")
    windows = {window.asked: window for window in SummaryRequest(request.annotations).windows(job.rank_graphs[0].graph)}
    # What nobody named is a step, or all where there are none.
    default = (
        whole()
        if window_fields["step"] is None
        else step(window_fields["step"], cpu_window=window_fields["form"] == "cpu")
    )
    sink = Sink(-1, window_fields["end_ns"])
    with suppress(QueryError):
        sink = windows.get(question, default)(job).sink
    if not request.is_last:
        sink = replace(sink, point=-1)
    return Window(sink=sink, **window_fields)


NO_NUMBERS = np.empty(0, np.int64)
NO_KEYS, NO_TIMES = ComparisonKeys(NO_NUMBERS, NO_NUMBERS), ComparisonTimes(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)


class _ReplayAnswerer:
    """Answers one question."""

    def __init__(self, replay: RankReplay, request: ReplayRequest) -> None:
        self._replay, self._request = replay, request
        self._applicable: list[list[int]] = []
        self._readings: list[list[Any]] = []
        self._refused: list[list[Any]] = []
        self._unchanged: list[int] = []
        self._columns: list[list[int]] = []
        self._added_ns: list[list[Any]] = []

    def answer(self) -> ReplayAnswer:
        base, request = self._replay.base, self._request
        paths = [self._longest_paths(group) for group in request.groups]
        roots, end = self._replay.recorded_roots() if request.groups else (np.empty(0, np.int32), -1)
        records = [self._path_record(requested) for requested in request.paths]
        return ReplayAnswer(
            until=base.until,
            incoming=self._replay.incoming_indices,
            counts=[[one.draft_count, one.node_count, len(one.source)] for one in paths],
            columns=self._columns,
            source=_concatenated([one.source for one in paths], np.int32),
            target=_concatenated([one.target for one in paths], np.int32),
            weight=_concatenated([one.weight for one in paths], np.int64),
            order=_concatenated([one.order for one in paths], np.int32),
            roots=np.append(roots, np.int32(end)),
            has_end=bool(len(base.window.sink.ends)),
            applicable=self._applicable,
            readings=self._readings,
            refused=self._refused,
            unchanged=self._unchanged,
            added_ns=self._added_ns,
            path_records=records,
            comparison_keys=comparison_keys(base, 0) if request.wants_comparison_keys else NO_KEYS,
            comparison_times=comparison_times(base.graph, 0, request.comparison_keys)
            if request.comparison_keys
            else NO_TIMES,
        )

    def _longest_paths(self, group: Sequence[int]) -> BoundaryLongestPaths:
        """Return the longest paths under the drafts of a group, once for all that change nothing here."""
        by_draft = {at: self._draft(at, tell=True) for at in group}
        added = {at: draft.added_ns for at, draft in by_draft.items()}
        self._added_ns += [[at, ns] for at, ns in added.items()]
        applicable = {at for at, _ in self._applicable}
        # What adds years is refused by who asks: until then nothing has changed.
        changed = {at: draft for at, draft in by_draft.items() if at in applicable and added[at] <= LONGEST_NS}
        drafts = list(changed.values())
        if len(changed) < len(group):
            drafts.insert(0, ModifiedWindow(self._replay.base))
        number = {at: column for column, at in enumerate(changed, len(drafts) - len(changed))}
        self._columns.append([number.get(at, 0) for at in group])
        found, unchanged = self._replay.longest_paths(drafts)
        self._unchanged += [at for at in group if unchanged[number.get(at, 0)]]
        return found

    def _draft(self, at: int, *, tell: bool = False) -> ModifiedWindow:
        """Make the changes of a draft as far as they concern this rank, and keep what is to be reported."""
        draft = ModifiedWindow(self._replay.base)
        for place, record in enumerate(self._request.drafts[at] if at >= 0 else ()):
            if not record:
                continue  # another rank's
            change = change_from_record(record)
            if tell and isinstance(change, Scaling | Removal) and not change.what.reading:
                self._readings.append([at, place, pattern_reading(self._replay.base, change.what)])
            try:
                change(draft)
            except PatternError:
                raise
            except QueryError as error:
                if tell:
                    self._refused.append([at, place, str(error), error.on_command_line])
            else:
                if tell:
                    self._applicable.append([at, place])
        return draft

    def _path_record(self, path: RequestedPath) -> dict[str, Any]:
        incoming_ns = None if path.incoming_ns is None else np.array(path.incoming_ns, np.int64)
        legs = [(awaited, incoming) for awaited, incoming in path.legs]
        totals = self._replay.path_totals(self._draft(path.draft), incoming_ns, legs)
        return {
            "by_name": _columns_as_lists(totals.by_name(of_job=True)),
            "frozen_ns": frozen_time(totals),
            "inferred_ns": inferred_time(totals),
            "waiting_ns": possible_waiting_time(totals),
            "without": [[at, self._record_without(totals, at)] for at in path.without_drafts],
            "times": path_times_by_name(totals) if path.wants_times_by_name else {},
        }

    def _record_without(self, totals: PathTotals, at: int) -> dict[str, Any]:
        is_changed = self._draft(at).factor != 1.0
        return {
            "by_name": _columns_as_lists(totals.by_name(~is_changed, of_job=True)),
            "on_path_ns": totals.time_of(is_changed),
            "alone_ns": time_without_partner(totals, is_changed),
        }  # fmt: skip


def _columns_as_lists(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in columns.items()}


def _concatenated(columns: Sequence[np.ndarray[Any, Any]], dtype: Any) -> Any:
    return np.concatenate([np.empty(0, dtype), *columns])


def longest_paths_of_answer(answer: ReplayAnswer, awaited_count: int) -> list[BoundaryLongestPaths]:
    """Return the contracted paths of each group of drafts; ``awaited_count`` is the number of awaited points."""
    found, edge, number = [], 0, 0
    for drafts, nodes, edges in answer.counts:
        own = slice(edge, edge + edges)
        numbers = slice(number, number + edges * drafts)
        found.append(
            BoundaryLongestPaths(
                len(answer.incoming), awaited_count, drafts, nodes, answer.source[own], answer.target[own],
                answer.weight[numbers], answer.order[numbers],
            )
        )  # fmt: skip
        edge, number = edge + edges, number + edges * drafts
    return found
