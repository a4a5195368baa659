"""Replay of a job of summaries: the ranks' files are read again for their longest paths and for what paths pass there.

every rank     recorded causes ─▶ longest paths under drafts ┐
where paths go                  └▶ what is there              ├▶ predictions, opportunities
job                    paths joined, latest of all ───────────┘
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.errors import QueryError, TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import RankSummary, fingerprint
from hta_graph.multi_rank.matching.collectives import Collectives
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.what_if.job_longest_paths import JobSolutions, LegsByRank, job_boundary, last_rank
from hta_graph.multi_rank.what_if.rank_replay import WINDOW_END, ReplayRequest, RequestedPath, change_to_record
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.windows import Window
from hta_graph.what_if.changes import Change, Removal, Scaling
from hta_graph.what_if.modified_window import PathRow, check_added_time, path_columns
from hta_graph.what_if.opportunities import (
    ROWS_WITH_NEXT,
    Opportunity,
    candidate_selectors,
    is_opportunity,
    opportunity_order,
)
from hta_graph.what_if.predict import JobOpportunities, JobPrediction, RankPathTotals
from hta_graph.what_if.rank_normalization import ComparisonKeys, RankNormalization
from hta_graph.what_if.scenarios import RESHAPES, NamedScenario
from hta_graph.what_if.selectors import PATTERN_READINGS, Selector
from hta_graph.what_if.sensitivity import next_in_columns

ReadReplayAnswers = Callable[[str, list[int], ComparisonKeys | None], dict[int, ReplayAnswer]]
"""Asks ranks what they take for what is asked; with nothing asked, what others are to be asked about them."""

MAX_COMPARED_RANKS, MIN_COMPARED_RANKS = 255, 8
MAX_COMPARED_WEIGHTS = 1 << 22
"""A rank is compared with so many others, evenly spread; with fewer where these have so many places to be compared."""


def with_normalized_ranks(job: JobGraph, changes: Sequence[Change], ask: ReadReplayAnswers) -> list[Change]:
    """Return changes with what others take, where a rank is to be like them.

    Raises:
        QueryError: the job has no such rank.
    """
    known: dict[str, Change] = {}
    found = []
    for change in changes:
        if isinstance(change, NamedScenario) and change.name == "rank_like_others":
            if change.argument not in known:
                known[change.argument] = _normalization_of(job, int(change.argument), ask)
            found.append(known[change.argument])
        else:
            found.append(change)
    return found


def _normalization_of(job: JobGraph, rank: int, ask: ReadReplayAnswers) -> RankNormalization:
    place = job.index_of_rank(rank)
    asked = ask("reading the rank that is compared", [rank], None)[rank].asked
    others = [part.rank for part in job.rank_graphs if part.index != place]
    most = max(MIN_COMPARED_RANKS, min(MAX_COMPARED_RANKS, MAX_COMPARED_WEIGHTS // max(len(asked.place), 1)))
    if len(others) > most:
        others = [others[at * len(others) // most] for at in range(most)]
    answers = ask("reading the ranks beside it", others, asked)
    return RankNormalization.of(rank, asked, [answers[of].taken for of in others])


class JobPathTotals:
    """A path of a job.

    ``frozen_ns`` is how much of it no change moves, ``inferred_ns`` how much lies on deduced edges; ``times`` (ns) are
    by kind and name of what may change; ``sums`` tell by draft how long what that changes is on it, and how much of
    that is communication without partners.
    """

    def __init__(self, job: JobGraph) -> None:
        self._job = job
        self._rows: list[PathRow] = []
        self.frozen_ns = self.inferred_ns = 0
        self.times: dict[str, dict[str, int]] = {}
        self.sums: dict[int, dict[str, int]] = {}
        self._without: dict[int, list[PathRow]] = defaultdict(list)

    def add(self, rank: int, told: Mapping[str, Any]) -> None:
        """Add what a rank told."""
        self._rows += _path_rows(told["by_name"], rank)
        self.frozen_ns += told["frozen_ns"]
        self.inferred_ns += told["inferred_ns"]
        for kind, times in told["times"].items():
            own = self.times.setdefault(kind, {})
            for name, time in times.items():
                own[name] = own.get(name, 0) + time
        for at, other in told["without"]:
            self._without[at] += _path_rows(other["by_name"], rank)
            sums = self.sums.setdefault(at, {"on_path_ns": 0, "alone_ns": 0})
            for key in sums:
                sums[key] += other[key]

    @cached_property
    def path(self) -> RankPathTotals:
        """The path."""
        return RankPathTotals(self._job.rank_numbers.tolist(), self._rows)

    def without(self, draft: int) -> dict[str, Any]:
        """Return the path without what a draft changes, as columns."""
        return path_columns(self._without[draft])


def _path_rows(columns: Mapping[str, list[Any]], rank: int) -> list[PathRow]:
    return [
        (name, bound, rank, time)
        for name, bound, time in zip(columns["name"], columns["bound_by"], columns["time_ns"], strict=True)
    ]


ReadReplays = Callable[[str, Iterable[int], Callable[[int], ReplayRequest]], Mapping[int, DependencyGraph]]
"""Asks the whole graphs of some ranks; what for is said to whoever waits."""


@dataclass
class JobReplay:
    """A window of a job in replay.

    Args:
        job: the job, of few rows of each rank.
        window: the window.
        asked: the question that a rank's own window answers.
        annotations: as :class:`SummaryRequest` has them.
        matched: what the ranks did together.
        ask: how the ranks' whole graphs are asked.
    """

    job: JobGraph
    window: Window
    asked: str
    annotations: tuple[dict[str, Any], ...]
    matched: Collectives
    ask: ReadReplays
    _until: int = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.window.end_ns
        self._points = job_boundary(self.job)
        self._rank = [part.rank for part in self.job.rank_graphs]
        self._place = {rank: place for place, rank in enumerate(self._rank)}

    # -- predictions ---------------------------------------------------------------------------------------------------

    def predict(self, changes: Sequence[Change]) -> JobPrediction:
        """Predict the window after changes.

        Raises:
            QueryError: they name nothing in the window, or need all rows of all ranks.
            HtaGraphError: a file cannot be read once more.
        """
        solved = self._solved([[], with_normalized_ranks(self.job, changes, self._beside)])
        self._refuse_nothing(solved, 1)
        check_added_time(solved.added_ns(1), self.job.path, self.window)
        paths = {-1: self._recorded_ways(solved.answers), 1: solved.path(1)}
        told = self._told(solved, paths, dict.fromkeys(paths, (1,)))
        following = next_in_columns(told[-1].without(1), told[1].without(1), several=True) if changes else None
        return self._prediction(changes, solved, told[-1], told[1], following)

    def opportunities(self, scenarios: Mapping[str, Change]) -> JobOpportunities:
        """Tell what lies on the path with what its time would gain, and what named changes would save.

        Raises:
            HtaGraphError: a file cannot be read once more.
        """
        as_recorded = self._solved([[]])
        ways = self._recorded_ways(as_recorded.answers)
        path = self._told(as_recorded, {-1: ways}, {-1: ()}, named=True)[-1]
        things = list(candidate_selectors(path.times))
        halves: list[list[Change]] = [[Scaling(what, 0.5)] for what in things]
        free: list[list[Change]] = [[Scaling(what, 0.0)] for what in things]
        first, named = 1 + len(things), 1 + 2 * len(things)
        drafts: list[list[Change]] = [[], *halves, *free, *([change] for change in scenarios.values())]
        solved = self._solved(drafts, recorded=ways, without=tuple(range(first, named)))
        recorded = JobPathTotals(self.job)
        for rank, answer in solved.answers.items():
            for told in answer.told:
                recorded.add(rank, told)
        rows = {
            first + at: self._opportunity(what, solved, recorded, 1 + at, first + at) for at, what in enumerate(things)
        }
        length = self.window.end_ns - self.window.start_ns
        rows = {draft: row for draft, row in rows.items() if is_opportunity(row.on_path_ns, length)}
        listed = self._with_next(rows, solved, recorded)
        saved = {
            name: solved.end(0) - solved.end(draft)
            for draft, name in enumerate(scenarios, named)
            if solved.applies_to_any_rank(draft)
        }
        return JobOpportunities(self._prediction((), solved, recorded, recorded), listed, saved)

    def _opportunity(
        self, what: Selector, solved: JobSolutions, recorded: JobPathTotals, half: int, free: int
    ) -> Opportunity:
        base, sums = solved.end(0), recorded.sums.get(free, {"on_path_ns": 0, "alone_ns": 0})
        saved = (base - solved.end(half), base - solved.end(free))
        return Opportunity(what.kind, what.pattern, sums["on_path_ns"], *saved, None, sums["alone_ns"])

    def _with_next(
        self, rows: Mapping[int, Opportunity], solved: JobSolutions, recorded: JobPathTotals
    ) -> list[Opportunity]:
        """Order rows, given by the drafts in which they are free, and say of the first ones what would come next."""
        listed = [*rows.items()]
        listed = [listed[at] for at in opportunity_order([row for _, row in listed])]
        paths = {draft: solved.path(draft) for draft, _ in listed[:ROWS_WITH_NEXT]}
        after = self._told(solved, paths, {draft: (draft,) for draft in paths})
        following = {
            draft: next_in_columns(recorded.without(draft), after[draft].without(draft), several=True)
            for draft in paths
        }
        return [replace(row, next=following.get(draft)) for draft, row in listed]

    def _prediction(
        self,
        changes: Sequence[Change],
        solved: JobSolutions,
        before: JobPathTotals,
        after: JobPathTotals,
        following: str | None = None,
    ) -> JobPrediction:
        return JobPrediction(
            graph=self.job,
            window=self.window,
            changes=tuple(changes),
            measured_ns=self.window.end_ns - self.window.start_ns,
            identity_ns=solved.end(0),
            predicted_ns=solved.end(1) if changes else solved.end(0),
            frozen_share=before.frozen_ns / max(solved.end(0), 1),
            inferred_share=before.inferred_ns / max(solved.end(0), 1),
            path_before=before.path,
            path_after=after.path,
            is_unchanged=not changes or solved.is_unchanged(1),
            next=following,
        )

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _solved(
        self,
        drafts: Sequence[Sequence[Change]],
        recorded: LegsByRank | None = None,
        without: tuple[int, ...] = (),
    ) -> JobSolutions:
        """Ask all ranks for their ways under drafts, and those on the recorded path for what that is without some.

        They are asked again where they do not agree on what is meant: on how a pattern is read, as a name or an
        expression, or on how far the window reaches, where clock faults let points behind its end belong to it.
        """
        read = [list(own) for own in drafts]
        groups = _groups_of_one_shape(drafts)

        def paths(rank: int) -> list[RequestedPath]:
            own = (recorded or {}).get(rank)
            return [RequestedPath(-1, own, None, without)] if own else []

        while True:
            question = self._questions(read, groups, paths)
            answers = self._ask("reading how ranks depend on each other", self._rank, question)
            until = max(answer.until for answer in answers.values())
            agreed = _with_agreed_readings(read, answers.values())
            if until <= self._until and agreed is None:
                return JobSolutions(self.job, self.window, self._points, answers, groups, read)
            self._until, read = until, agreed or read

    def _beside(self, doing: str, ranks: list[int], asked: ComparisonKeys | None) -> dict[int, ReplayAnswer]:
        """Ask ranks what they take for what is asked; with nothing asked, what others are to be asked about them."""
        plain = self._questions([], (), lambda _: [])
        return self._ask(
            doing, ranks, lambda rank: replace(plain(rank), wants_comparison_keys=asked is None, beside=asked)
        )

    def _told(
        self,
        solved: JobSolutions,
        ways: Mapping[int, LegsByRank],
        without: Mapping[int, tuple[int, ...]],
        *,
        named: bool = False,
    ) -> dict[int, JobPathTotals]:
        """Ask the ranks on paths, by draft (-1: as recorded), what these consist of there."""
        ranks = sorted({rank for own in ways.values() for rank in own})

        def paths(rank: int) -> list[RequestedPath]:
            return [
                RequestedPath(draft, own[rank], None if draft < 0 else solved.given(rank, draft), without[draft], named)
                for draft, own in ways.items()
                if rank in own
            ]

        answers = self._ask("reading where paths lead", ranks, self._questions(solved.drafts, (), paths))
        found = {draft: JobPathTotals(self.job) for draft in ways}
        for rank in ranks:
            here = (draft for draft, own in ways.items() if rank in own)
            for draft, told in zip(here, answers[rank].told, strict=True):
                found[draft].add(rank, told)
        return found

    def _recorded_ways(self, answers: Mapping[int, ReplayAnswer]) -> LegsByRank:
        """Follow the recorded path from rank to rank; return its ways, latest first, by rank."""
        found: LegsByRank = defaultdict(list)
        place, asked = last_rank(self.job, self.window), WINDOW_END
        if place < 0:
            return found
        first_of = np.searchsorted(self._points.comes.rendezvous, np.arange(len(self._points.rendezvous)))
        while True:
            rank = self._rank[place]
            rests_on = int(answers[rank].roots[asked])  # the end's is the last one
            found[rank].append([asked, rests_on])
            if rests_on < 0:
                return found
            came, at = self._points.instants[place], rests_on
            meeting = int(came.rendezvous[at])
            if meeting < 0:
                place, asked = int(came.part[at]), int(came.asked[at])
            else:
                comes, first = self._points.comes, int(first_of[meeting])
                place, asked = int(comes.part[first]), int(comes.asked[first])

    def _ask(
        self, doing: str, ranks: Sequence[int], question: Callable[[int], ReplayRequest]
    ) -> dict[int, ReplayAnswer]:
        return {rank: _replay_answer_of(graph) for rank, graph in self.ask(doing, ranks, question).items()}

    def _questions(
        self,
        drafts: Sequence[Sequence[Change]],
        groups: Sequence[Sequence[int]],
        paths: Callable[[int], list[RequestedPath]],
    ) -> Callable[[int], ReplayRequest]:
        members, clocks = self.job.members, self.matched.clocks.by_rank
        last = last_rank(self.job, self.window)
        first = np.searchsorted(members.part, np.arange(len(self.job.rank_graphs) + 1)).tolist()

        def question(rank: int) -> ReplayRequest:
            part = self.job.rank_graphs[self._place[rank]]
            answers, told = part.graph.attached(RankSummary), self._points.ranks[part.index]
            content = fingerprint(self.job.graph(rank)) if answers is None else answers.content
            return ReplayRequest(
                window=ReplayRequest.window_record(self.window, self.asked),
                is_last=part.index == last,
                annotations=self.annotations,
                until=self._until,
                clock=SummaryRequest.clock_record(clocks[rank]),
                content=content,
                numbers=members.number[first[part.index] : first[part.index + 1]].tolist(),
                times=self._points.instants[part.index].time.tolist(),
                names=told.names,
                edges=told.edges,
                awaited_rows=told.awaited_rows.tolist(),
                at_end=told.at_end.tolist(),
                drafts=[[change_to_record(change, rank) for change in own] for own in drafts],
                groups=[list(group) for group in groups],
                paths=paths(rank),
            )

        return question

    def _refuse_nothing(self, solved: JobSolutions, draft: int) -> None:
        """Refuse a change that concerns no rank, as the first rank says it.

        Raises:
            QueryError: one is.
        """
        for place, _ in enumerate(solved.drafts[draft]):
            if not solved.applies_to_any_rank(draft, place):
                rank, text, line = solved.refusal(draft, place)
                own, job = str(self.job.graph(rank).path), str(self.job.path)
                error = QueryError(text.replace(own, job, 1))
                error.on_command_line = line.replace(own, job, 1)
                raise error


def _replay_answer_of(graph: DependencyGraph) -> ReplayAnswer:
    """Return what a rank answered about its job's replay.

    Raises:
        TraceError: it was not asked.
    """
    found = graph.attached(ReplayAnswer)
    if found is None:
        raise TraceError(graph.path, "was not asked about replay")
    return found


def _with_agreed_readings(
    drafts: Sequence[Sequence[Change]], answers: Iterable[ReplayAnswer]
) -> list[list[Change]] | None:
    """Return drafts with patterns read on all ranks as the first reading that names anything on any; None: they are."""
    told = defaultdict(set)
    for answer in answers:
        for draft, place, reading in answer.readings:
            told[draft, place].add(reading)
    if all(len(own - {""}) < 2 for own in told.values()):
        return None
    found = [list(own) for own in drafts]
    for (draft, place), own in told.items():
        change, reading = found[draft][place], next((one for one in PATTERN_READINGS if one in own), "")
        if isinstance(change, Scaling | Removal):
            found[draft][place] = replace(change, what=replace(change.what, reading=reading))
    return found


def _groups_of_one_shape(drafts: Sequence[Sequence[Change]]) -> list[list[int]]:
    """Put drafts together that leave the shape of a window as it is; each of the others is alone."""
    reshapes = [any(isinstance(one, NamedScenario) and one.name in RESHAPES for one in own) for own in drafts]
    plain = [at for at, alone in enumerate(reshapes) if not alone]
    return [plain, *([at] for at, alone in enumerate(reshapes) if alone)]
