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

from hta_graph.base.errors import QueryError
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
"""Asks ranks how long they take for things; with nothing named, what others have to answer about them."""

MAX_COMPARED_RANKS, MIN_COMPARED_RANKS = 255, 8
MAX_COMPARED_WEIGHTS = 1 << 22
"""A rank is compared with this many others, evenly spread; with fewer where these have enough places to compare."""


def with_normalized_ranks(job: JobGraph, changes: Sequence[Change], read_answers: ReadReplayAnswers) -> list[Change]:
    """Return changes with what others take, where a rank is to be like them.

    Raises:
        QueryError: the job has no such rank.
    """
    normalized: dict[str, Change] = {}
    found = []
    for change in changes:
        if isinstance(change, NamedScenario) and change.name == "rank_like_others":
            if change.argument not in normalized:
                normalized[change.argument] = _normalization_of(job, int(change.argument), read_answers)
            found.append(normalized[change.argument])
        else:
            found.append(change)
    return found


def _normalization_of(job: JobGraph, rank: int, read_answers: ReadReplayAnswers) -> RankNormalization:
    rank_index = job.index_of_rank(rank)
    keys = read_answers("reading the rank to compare", [rank], None)[rank].comparison_keys
    others = [part.rank for part in job.rank_graphs if part.index != rank_index]
    most = max(MIN_COMPARED_RANKS, min(MAX_COMPARED_RANKS, MAX_COMPARED_WEIGHTS // max(len(keys.place), 1)))
    if len(others) > most:
        others = [others[at * len(others) // most] for at in range(most)]
    answers = read_answers("reading the ranks to compare with", others, keys)
    return RankNormalization.of(rank, keys, [answers[of].comparison_times for of in others])


class JobPathTotals:
    """A path of a job.

    ``frozen_ns`` is how much of it no change moves, ``inferred_ns`` how much lies on deduced edges, ``waiting_ns``
    how much may be waiting for other ranks; ``times`` (ns) are by kind and name of what may change; ``sums`` are by
    draft how long what that changes is on it, and how much of that is communication without partners.
    """

    def __init__(self, job: JobGraph) -> None:
        self._job = job
        self._rows: list[PathRow] = []
        self.frozen_ns = self.inferred_ns = self.waiting_ns = 0
        self.times: dict[str, dict[str, int]] = {}
        self.sums: dict[int, dict[str, int]] = {}
        self._without: dict[int, list[PathRow]] = defaultdict(list)

    def add(self, rank: int, record: Mapping[str, Any]) -> None:
        """Add a rank's answer."""
        self._rows += _path_rows(record["by_name"], rank)
        self.frozen_ns += record["frozen_ns"]
        self.inferred_ns += record["inferred_ns"]
        self.waiting_ns += record["waiting_ns"]
        for kind, times in record["times"].items():
            own = self.times.setdefault(kind, {})
            for name, time in times.items():
                own[name] = own.get(name, 0) + time
        for at, remaining in record["without"]:
            self._without[at] += _path_rows(remaining["by_name"], rank)
            sums = self.sums.setdefault(at, {"on_path_ns": 0, "alone_ns": 0})
            for key in sums:
                sums[key] += remaining[key]

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
"""Asks the whole graphs of some ranks; what for is reported to the caller."""


@dataclass
class JobReplay:
    """A window of a job in replay.

    Args:
        job: the job, of few rows of each rank.
        window: the window.
        question: the question that a rank's own window answers.
        annotations: as :class:`SummaryRequest` has them.
        matched: what the ranks did together.
        read_replays: how the ranks' whole graphs are asked.
    """

    job: JobGraph
    window: Window
    question: str
    annotations: tuple[dict[str, Any], ...]
    matched: Collectives
    read_replays: ReadReplays
    _until: int = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.window.end_ns
        self._boundary = job_boundary(self.job)
        self._ranks = [part.rank for part in self.job.rank_graphs]
        self._rank_index = {rank: index for index, rank in enumerate(self._ranks)}

    # -- predictions ---------------------------------------------------------------------------------------------------

    def predict(self, changes: Sequence[Change]) -> JobPrediction:
        """Predict the window after changes.

        Raises:
            QueryError: they name nothing in the window, or need all rows of all ranks.
            HtaGraphError: a file cannot be read once more.
        """
        solved = self._solve([[], with_normalized_ranks(self.job, changes, self._comparison_answers)])
        self._require_effect(solved, 1)
        check_added_time(solved.added_ns(1), self.job.path, self.window)
        paths = {-1: self._recorded_legs(solved.answers), 1: solved.path(1)}
        totals = self._path_totals(solved, paths, dict.fromkeys(paths, (1,)))
        following = next_in_columns(totals[-1].without(1), totals[1].without(1), several=True) if changes else None
        return self._prediction(changes, solved, totals[-1], totals[1], following)

    def opportunities(self, scenarios: Mapping[str, Change]) -> JobOpportunities:
        """Return what is on the path, what it would save, and what named changes would save.

        Raises:
            HtaGraphError: a file cannot be read once more.
        """
        as_recorded = self._solve([[]])
        legs = self._recorded_legs(as_recorded.answers)
        path = self._path_totals(as_recorded, {-1: legs}, {-1: ()}, wants_times_by_name=True)[-1]
        selectors = list(candidate_selectors(path.times))
        halves: list[list[Change]] = [[Scaling(selector, 0.5)] for selector in selectors]
        free: list[list[Change]] = [[Scaling(selector, 0.0)] for selector in selectors]
        first, named = 1 + len(selectors), 1 + 2 * len(selectors)
        drafts: list[list[Change]] = [[], *halves, *free, *([change] for change in scenarios.values())]
        solved = self._solve(drafts, recorded=legs, without=tuple(range(first, named)))
        recorded = JobPathTotals(self.job)
        for rank, answer in solved.answers.items():
            for record in answer.path_records:
                recorded.add(rank, record)
        rows = {
            first + at: self._opportunity(selector, solved, recorded, 1 + at, first + at)
            for at, selector in enumerate(selectors)
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
        self, selector: Selector, solved: JobSolutions, recorded: JobPathTotals, half: int, free: int
    ) -> Opportunity:
        base, sums = solved.end(0), recorded.sums.get(free, {"on_path_ns": 0, "alone_ns": 0})
        saved = (base - solved.end(half), base - solved.end(free))
        return Opportunity(selector.kind, selector.pattern, sums["on_path_ns"], *saved, None, sums["alone_ns"])

    def _with_next(
        self, rows: Mapping[int, Opportunity], solved: JobSolutions, recorded: JobPathTotals
    ) -> list[Opportunity]:
        """Order rows, given by the drafts in which they are free, and say of the first ones what would come next."""
        listed = [*rows.items()]
        listed = [listed[at] for at in opportunity_order([row for _, row in listed])]
        paths = {draft: solved.path(draft) for draft, _ in listed[:ROWS_WITH_NEXT]}
        after = self._path_totals(solved, paths, {draft: (draft,) for draft in paths})
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
            waiting_share=after.waiting_ns / max(solved.end(1) if changes else solved.end(0), 1),
            path_before=before.path,
            path_after=after.path,
            is_unchanged=not changes or solved.is_unchanged(1),
            next=following,
        )

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _solve(
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
            request_of = self._requests(read, groups, paths)
            answers = self._answers("reading dependencies between ranks", self._ranks, request_of)
            until = max(answer.until for answer in answers.values())
            agreed = _with_agreed_readings(read, answers.values())
            if until <= self._until and agreed is None:
                return JobSolutions(self.job, self.window, self._boundary, answers, groups, read)
            self._until, read = until, agreed or read

    def _comparison_answers(self, doing: str, ranks: list[int], keys: ComparisonKeys | None) -> dict[int, ReplayAnswer]:
        """Ask ranks how long they take for things; with nothing named, what others have to answer about them."""
        plain_request = self._requests([], (), lambda _: [])
        return self._answers(
            doing,
            ranks,
            lambda rank: replace(plain_request(rank), wants_comparison_keys=keys is None, comparison_keys=keys),
        )

    def _path_totals(
        self,
        solved: JobSolutions,
        legs: Mapping[int, LegsByRank],
        without_drafts: Mapping[int, tuple[int, ...]],
        *,
        wants_times_by_name: bool = False,
    ) -> dict[int, JobPathTotals]:
        """Ask the ranks on paths, by draft (-1: as recorded), what these consist of there."""
        ranks = sorted({rank for own in legs.values() for rank in own})

        def paths(rank: int) -> list[RequestedPath]:
            return [
                RequestedPath(
                    draft,
                    own[rank],
                    None if draft < 0 else solved.incoming_ns(rank, draft),
                    without_drafts[draft],
                    wants_times_by_name,
                )
                for draft, own in legs.items()
                if rank in own
            ]

        answers = self._answers("reading ranks on the paths", ranks, self._requests(solved.drafts, (), paths))
        totals = {draft: JobPathTotals(self.job) for draft in legs}
        for rank in ranks:
            here = (draft for draft, own in legs.items() if rank in own)
            for draft, record in zip(here, answers[rank].path_records, strict=True):
                totals[draft].add(rank, record)
        return totals

    def _recorded_legs(self, answers: Mapping[int, ReplayAnswer]) -> LegsByRank:
        """Follow the recorded path from rank to rank; return its ways, latest first, by rank."""
        found: LegsByRank = defaultdict(list)
        rank_index, awaited = last_rank(self.job, self.window), WINDOW_END
        if rank_index < 0:
            return found
        first_of = np.searchsorted(self._boundary.arrivals.rendezvous, np.arange(len(self._boundary.rendezvous)))
        while True:
            rank = self._ranks[rank_index]
            root = int(answers[rank].roots[awaited])  # the end's is the last one
            found[rank].append([awaited, root])
            if root < 0:
                return found
            incoming, at = self._boundary.incoming[rank_index], root
            rendezvous = int(incoming.rendezvous[at])
            if rendezvous < 0:
                rank_index, awaited = int(incoming.rank_index[at]), int(incoming.awaited[at])
            else:
                arrivals, first = self._boundary.arrivals, int(first_of[rendezvous])
                rank_index, awaited = int(arrivals.rank_index[first]), int(arrivals.awaited[first])

    def _answers(
        self, doing: str, ranks: Sequence[int], request_of: Callable[[int], ReplayRequest]
    ) -> dict[int, ReplayAnswer]:
        read = self.read_replays(doing, ranks, request_of)
        return {rank: graph.needed(ReplayAnswer, "was not read for replay") for rank, graph in read.items()}

    def _requests(
        self,
        drafts: Sequence[Sequence[Change]],
        groups: Sequence[Sequence[int]],
        paths: Callable[[int], list[RequestedPath]],
    ) -> Callable[[int], ReplayRequest]:
        members, clocks = self.job.members, self.matched.clocks.by_rank
        last = last_rank(self.job, self.window)
        first = np.searchsorted(members.part, np.arange(len(self.job.rank_graphs) + 1)).tolist()

        def request_of(rank: int) -> ReplayRequest:
            part = self.job.rank_graphs[self._rank_index[rank]]
            summary, boundary = part.graph.attached(RankSummary), self._boundary.ranks[part.index]
            content = fingerprint(self.job.graph(rank)) if summary is None else summary.content
            return ReplayRequest(
                window=ReplayRequest.window_record(self.window, self.question),
                is_last=part.index == last,
                annotations=self.annotations,
                until=self._until,
                clock=SummaryRequest.clock_record(clocks[rank]),
                content=content,
                collective_numbers=members.number[first[part.index] : first[part.index + 1]].tolist(),
                incoming_ns=self._boundary.incoming[part.index].time.tolist(),
                incoming_names=boundary.names,
                edges=boundary.edges,
                awaited_rows=boundary.awaited_rows.tolist(),
                at_end=boundary.at_end.tolist(),
                drafts=[[change_to_record(change, rank) for change in own] for own in drafts],
                groups=[list(group) for group in groups],
                paths=paths(rank),
            )

        return request_of

    def _require_effect(self, solved: JobSolutions, draft: int) -> None:
        """Refuse a change that concerns no rank, as the first rank says it.

        Raises:
            QueryError: one is.
        """
        for position, _ in enumerate(solved.drafts[draft]):
            if not solved.applies_to_any_rank(draft, position):
                rank, text, line = solved.refusal(draft, position)
                own, job = str(self.job.graph(rank).path), str(self.job.path)
                error = QueryError(text.replace(own, job, 1))
                error.on_command_line = line.replace(own, job, 1)
                raise error


def _with_agreed_readings(
    drafts: Sequence[Sequence[Change]], answers: Iterable[ReplayAnswer]
) -> list[list[Change]] | None:
    """Return drafts with patterns read on all ranks as the first reading that names anything on any; None: they are."""
    readings = defaultdict(set)
    for answer in answers:
        for draft, position, reading in answer.readings:
            readings[draft, position].add(reading)
    if all(len(own - {""}) < 2 for own in readings.values()):
        return None
    found = [list(own) for own in drafts]
    for (draft, position), own in readings.items():
        change, reading = found[draft][position], next((one for one in PATTERN_READINGS if one in own), "")
        if isinstance(change, Scaling | Removal):
            found[draft][position] = replace(change, what=replace(change.what, reading=reading))
    return found


def _groups_of_one_shape(drafts: Sequence[Sequence[Change]]) -> list[list[int]]:
    """Put drafts together that leave the shape of a window as it is; each of the others is alone."""
    reshapes = [any(isinstance(one, NamedScenario) and one.name in RESHAPES for one in own) for own in drafts]
    plain = [at for at, alone in enumerate(reshapes) if not alone]
    return [plain, *([at] for at, alone in enumerate(reshapes) if alone)]
