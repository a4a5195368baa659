"""A rank's whole graph → what its job's replay asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.errors import PatternError, QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import LONGEST_NS
from hta_graph.multi_rank.rank_of_job import single_rank_job
from hta_graph.multi_rank.summary.rank_excerpt import rank_if_unchanged
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.what_if.boundary_longest_paths import BoundaryLongestPaths
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.multi_rank.what_if.replay_question import ReplayRequest, RequestedPath, change_from_record
from hta_graph.multi_rank.what_if.skeleton_rank_replay import RankReplay
from hta_graph.paths.window_ends import Sink
from hta_graph.paths.windows import Window, step, whole
from hta_graph.trace.table import Flows, SyncTable
from hta_graph.what_if.changes import Removal, Scaling
from hta_graph.what_if.draft import ModifiedWindow
from hta_graph.what_if.like_others import ComparisonKeys, ComparisonTimes, comparison_keys, comparison_times
from hta_graph.what_if.modified_window import PathTotals, frozen_time, inferred_time
from hta_graph.what_if.opportunities import path_times_by_name, time_without_partner
from hta_graph.what_if.selectors import pattern_reading

__all__ = ["answer_replay_request", "longest_paths_of_answer"]


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
    known = {window.asked: window for window in SummaryRequest(asked.annotations).windows(job.parts[0].graph)}
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
