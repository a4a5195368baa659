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

from hta_graph.arrays import column_types
from hta_graph.errors import PatternError, QueryError
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
)
from hta_graph.what_if.opportunities import path_times_by_name, time_without_partner
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
    raise QueryError(f"{change} takes all rows of all ranks", WHOLE_GRAPHS_REMEDY)


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
    """A path of which the rank tells what it passes there.

    ``draft`` is the place of its changes (-1: as recorded) and ``ways`` where it goes (:data:`Way`), latest first, with
    the times (ns) of what comes from elsewhere in ``given`` (None: as recorded). ``without`` are places of drafts: what
    the path consists of is also told without what each changes, and how long that is. ``named``: what may change on it
    is told by kind and name.
    """

    draft: int
    ways: list[list[int]]
    given: list[int] | None = None
    without: tuple[int, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class ReplayRequest:
    """What a rank is asked: its longest ways under drafts, and what paths pass on it.

    ``window`` holds the fields of the job's :class:`Window` and ``asked``, the question that the rank's own
    answers; ``is_last``: it ends on this rank as recorded. ``numbers`` are the collectives of its members, ``times``
    (ns) and ``names`` those of what comes from elsewhere and ``edges`` where that leads. ``awaited_rows`` are rows that
    others wait for, for their end if ``at_end``. ``drafts`` are lists of changes; each of ``groups`` are places of
    drafts of one shape. ``wants_comparison_keys``: the rank is to be like the others, and tells what these are asked,
    who get that as ``beside``.
    """

    window: dict[str, Any]
    is_last: bool
    annotations: tuple[dict[str, Any], ...]
    until: int
    clock: dict[str, Any]
    content: str
    numbers: list[int]
    times: list[int]
    names: list[str]
    edges: ExternalEdges
    awaited_rows: list[int]
    at_end: list[bool]
    drafts: list[list[ChangeRecord]]
    groups: list[list[int]]
    paths: list[RequestedPath]
    wants_comparison_keys: bool = False
    beside: ComparisonKeys | None = None

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("edges", "paths", "beside")}
        edges = {name: getattr(self.edges, name).tolist() for name in column_types(ExternalEdges)}
        beside = self.beside and {"place": self.beside.place.tolist(), "kind": self.beside.kind.tolist()}
        return {**own, "edges": edges, "paths": [asdict(path) for path in self.paths], "beside": beside}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ReplayRequest:
        """Undo :meth:`as_record`."""
        edges = ExternalEdges.of(**record["edges"])
        paths = [RequestedPath(**{**path, "without": tuple(path["without"])}) for path in record["paths"]]
        beside = record["beside"] and keys_from_record(record["beside"])
        annotations = tuple(record["annotations"])
        return cls(**{**record, "edges": edges, "paths": paths, "beside": beside, "annotations": annotations})

    @staticmethod
    def window_record(window: Window, asked: str) -> dict[str, Any]:
        """Return a job's window as JSON."""
        names = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "step", "form")
        return {"asked": asked, **{name: getattr(window, name) for name in names}}


WINDOW_END = -1
"""In place of an asked point: the rank's end of the window."""

ReplayLeg = tuple[int, int]
"""From what is asked (its place, or :data:`WINDOW_END`) back to what others decided (its place; -1: nothing)."""


@dataclass(frozen=True)
class RankReplay:
    """A window of one rank of a job.

    Args:
        job: the rank as a job of its own.
        window: the job's window, with what of this rank it waits for.
        awaited_rows: rows that others wait for; ``at_end`` tells for their end, not their start.
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
    def _asked(self) -> Ids:
        points: Ids = np.where(self.at_end, end_point(self.awaited_rows), start_point(self.awaited_rows)).astype(
            np.int32
        )
        return points

    @cached_property
    def given(self) -> Ids:
        """The points that others decide in the window; the others keep their recorded times."""
        points = start_point(self.job.rendezvous_rows)
        return points[self.base.changes_at(self.base.times[points])].astype(np.int32)

    @cached_property
    def _index_of_incoming(self) -> Ids:
        place = np.full(len(self.base.times), -1, np.int32)
        first = int(self.job.rendezvous_rows[0]) if len(self.job.rendezvous_rows) else 0
        place[self.given] = event_of(self.given) - first
        return place

    @property
    def given_places(self) -> Ids:
        """Of all that comes from elsewhere the places of what may change."""
        return self._index_of_incoming[self.given]

    # -- ways ----------------------------------------------------------------------------------------------------------

    def ways(self, drafts: Sequence[ModifiedWindow]) -> tuple[BoundaryLongestPaths, list[bool]]:
        """Return the longest ways under some drafts, all of one shape, and which of these leave all as it was."""
        paths, sink = drafts[0].shape()[1], self.window.sink
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
            given=self.given,
            asked=self._asked,
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
        """Return for each asked point, and for the end, on what of others its recorded time rests (a place; -1)."""
        base, draft = self.base, ModifiedWindow(self.base)
        weight = base.edges.weight
        values = base.paths.values(weight, base.times)
        roots = base.paths.roots_of(weight, values, self._asked)
        last = base.last_of(values, draft.tails)
        end = base.paths.roots_of(weight, values, base.window.sink.ends[[last]])[0] if last >= 0 else -1
        return self._index_of_incoming[roots], int(self._index_of_incoming[end]) if last >= 0 else -1

    # -- what is passed ------------------------------------------------------------------------------------------------

    def passed(self, draft: ModifiedWindow, given: Ints | None, ways: Sequence[ReplayLeg]) -> PathTotals:
        """Return what a path consists of on this rank, where it goes several ways, latest first.

        Args:
            draft: the changes.
            given: the times (ns) of all that comes from elsewhere, with them; without, those recorded.
            ways: the ways.
        """
        base, (_, paths) = self.base, draft.shape()
        start, weight = base.times.copy(), draft.weight
        if given is not None:
            start[start_point(self.job.rendezvous_rows)] = given
        values = paths.values(weight, start)
        passed, last = [np.empty(0, np.int32)], -1
        for asked, place in ways:
            if asked == WINDOW_END:
                last = base.last_of(values, draft.tails)
            point = int(self._asked[asked]) if asked != WINDOW_END else int(base.window.sink.ends[last])
            passed.append(self._path_back(draft, weight, values, start, point, place))
        # All are of one path through the job, which has no cycle: nothing is passed twice.
        return path_totals_of_edges(draft, values, weight, np.concatenate(passed), last)

    def _path_back(self, draft: ModifiedWindow, weight: Ints, values: Ints, start: Ints, point: int, place: int) -> Ids:
        """Return the edges of a longest path to a point that rests on what is meant, of several equally late ones."""
        paths = draft.shape()[1]
        found = paths.trace_back(weight, values, point)
        root = int(paths.source[found[-1]]) if len(found) else point
        if self._index_of_incoming[root] == place:
            return found
        allowed = start.copy()
        rest = self._index_of_incoming >= 0 if place < 0 else self._index_of_incoming != place
        allowed[rest & paths.is_root] = 2 * UNREACHED
        return paths.trace_back(weight, paths.values(weight, allowed), point)


def answer_replay_request(graph: DependencyGraph, asked: ReplayRequest) -> DependencyGraph:
    """Answer what is asked about a job's replay, given a rank's whole graph: a graph without rows that has the answer.

    Raises:
        TraceError: the file has changed since.
    """
    rank = rank_if_unchanged(graph, asked.content, asked.clock)
    times = np.array(asked.times, np.int64)
    numbers = np.array(asked.numbers, np.int64)
    job = single_rank_job(rank.graph, rank.members, numbers, times, asked.names, asked.edges)
    replay = RankReplay(
        job,
        _rank_window(job, asked),
        np.array(asked.awaited_rows, np.int32),
        np.array(asked.at_end, np.bool_),
        asked.until,
    )
    found = _ReplayAnswerer(replay, asked).answer()
    none = np.empty(0, np.int32)
    trace = replace(graph.trace.select(none), names=(), flows=Flows.empty(), syncs=SyncTable.empty())
    return DependencyGraph(trace, Timeline(trace), EdgeTable.empty(), {}, WaitCalls.empty(), [found])


def _rank_window(job: JobGraph, asked: ReplayRequest) -> Window:
    """Return the job's window with what of this rank it waits for: nothing where the rank has no such window.

    Of several equally late ends the recorded one is preferred; only one rank has that.
    """
    given = dict(asked.window)
    question = given.pop("asked")
    known = {window.asked: window for window in SummaryRequest(asked.annotations).windows(job.rank_graphs[0].graph)}
    # What nobody named is a step, or all where there are none.
    default = whole() if given["step"] is None else step(given["step"], cpu_window=given["form"] == "cpu")
    sink = Sink(-1, given["end_ns"])
    with suppress(QueryError):
        sink = known.get(question, default)(job).sink
    if not asked.is_last:
        sink = replace(sink, point=-1)
    return Window(sink=sink, **given)


NO_NUMBERS = np.empty(0, np.int64)
NO_KEYS, NO_TIMES = ComparisonKeys(NO_NUMBERS, NO_NUMBERS), ComparisonTimes(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)


class _ReplayAnswerer:
    """Answers one question."""

    def __init__(self, replay: RankReplay, asked: ReplayRequest) -> None:
        self._replay, self._asked = replay, asked
        self._meant: list[list[int]] = []
        self._readings: list[list[Any]] = []
        self._refused: list[list[Any]] = []
        self._unchanged: list[int] = []
        self._columns: list[list[int]] = []
        self._added: list[list[Any]] = []

    def answer(self) -> ReplayAnswer:
        base, asked = self._replay.base, self._asked
        ways = [self._ways(group) for group in asked.groups]
        roots, end = self._replay.recorded_roots() if asked.groups else (np.empty(0, np.int32), -1)
        told = [self._told(path) for path in asked.paths]
        return ReplayAnswer(
            until=base.until,
            given=self._replay.given_places,
            counts=[[one.drafts, one.nodes, len(one.source)] for one in ways],
            columns=self._columns,
            source=_concatenated([one.source for one in ways], np.int32),
            target=_concatenated([one.target for one in ways], np.int32),
            weight=_concatenated([one.weight for one in ways], np.int64),
            order=_concatenated([one.order for one in ways], np.int32),
            roots=np.append(roots, np.int32(end)),
            has_end=bool(len(base.window.sink.ends)),
            meant=self._meant,
            readings=self._readings,
            refused=self._refused,
            unchanged=self._unchanged,
            added_ns=self._added,
            told=told,
            asked=comparison_keys(base, 0) if asked.wants_comparison_keys else NO_KEYS,
            taken=comparison_times(base.graph, 0, asked.beside) if asked.beside else NO_TIMES,
        )

    def _ways(self, group: Sequence[int]) -> BoundaryLongestPaths:
        """Return the ways under the drafts of a group, once for all that change nothing here."""
        every = {at: self._draft(at, tell=True) for at in group}
        added = {at: draft.added_ns for at, draft in every.items()}
        self._added += [[at, ns] for at, ns in added.items()]
        concerned = {at for at, _ in self._meant}
        # What adds years is refused by who asks: until then nothing has changed.
        kept = {at: draft for at, draft in every.items() if at in concerned and added[at] <= LONGEST_NS}
        drafts = list(kept.values())
        if len(kept) < len(group):
            drafts.insert(0, ModifiedWindow(self._replay.base))
        number = {at: column for column, at in enumerate(kept, len(drafts) - len(kept))}
        self._columns.append([number.get(at, 0) for at in group])
        found, unchanged = self._replay.ways(drafts)
        self._unchanged += [at for at in group if unchanged[number.get(at, 0)]]
        return found

    def _draft(self, at: int, *, tell: bool = False) -> ModifiedWindow:
        """Make the changes of a draft as far as they concern this rank, and keep what is to be told of that."""
        draft = ModifiedWindow(self._replay.base)
        for place, record in enumerate(self._asked.drafts[at] if at >= 0 else ()):
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
                    self._meant.append([at, place])
        return draft

    def _told(self, path: RequestedPath) -> dict[str, Any]:
        given = None if path.given is None else np.array(path.given, np.int64)
        ways = [(asked, place) for asked, place in path.ways]
        passed = self._replay.passed(self._draft(path.draft), given, ways)
        return {
            "by_name": _columns_as_lists(passed.by_name()),
            "frozen_ns": frozen_time(passed),
            "inferred_ns": inferred_time(passed),
            "without": [[at, self._without(passed, at)] for at in path.without],
            "times": path_times_by_name(passed) if path.named else {},
        }

    def _without(self, passed: PathTotals, at: int) -> dict[str, Any]:
        meant = self._draft(at).factor != 1.0
        return {
            "by_name": _columns_as_lists(passed.by_name(~meant)), "on_path_ns": passed.time_of(meant),
            "alone_ns": time_without_partner(passed, meant),
        }  # fmt: skip


def _columns_as_lists(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in columns.items()}


def _concatenated(columns: Sequence[np.ndarray[Any, Any]], dtype: Any) -> Any:
    return np.concatenate([np.empty(0, dtype), *columns])


def longest_paths_of_answer(answer: ReplayAnswer, asked: int) -> list[BoundaryLongestPaths]:
    """Return the contracted ways of each group of drafts; ``asked`` is the number of asked points."""
    found, edge, number = [], 0, 0
    for drafts, nodes, edges in answer.counts:
        own = slice(edge, edge + edges)
        numbers = slice(number, number + edges * drafts)
        found.append(
            BoundaryLongestPaths(
                len(answer.given), asked, drafts, nodes, answer.source[own], answer.target[own],
                answer.weight[numbers], answer.order[numbers],
            )
        )  # fmt: skip
        edge, number = edge + edges, number + edges * drafts
    return found
