"""What all ranks answered about drafts, joined: how long the window would be, and where its path would go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from hta_graph.graph.job_graph import JobGraph
from hta_graph.multi_rank.what_if.job_longest_paths import JobLongestPaths
from hta_graph.multi_rank.what_if.meeting_points import JobBoundary
from hta_graph.multi_rank.what_if.rank_replay import longest_paths_of_answer
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.paths.windows import Window
from hta_graph.what_if.changes import Change

__all__ = ["JobSolutions", "LegsByRank", "last_rank"]

LegsByRank = dict[int, list[list[int]]]
"""By rank where a path goes there (:data:`Way`), latest first."""


class JobSolutions:
    """Drafts of a window, joined.

    Args:
        job: the job.
        window: the window.
        points: where its ranks meet.
        answers: by rank.
        groups: the places of the drafts that the ranks were asked about together.
        drafts: the changes of each.
    """

    def __init__(
        self,
        job: JobGraph,
        window: Window,
        points: JobBoundary,
        answers: Mapping[int, ReplayAnswer],
        groups: Sequence[Sequence[int]],
        drafts: Sequence[Sequence[Change]],
    ) -> None:
        self.answers = answers
        self.drafts = drafts
        self._window, self._points = window, points
        self._ranks = [part.rank for part in job.parts]
        self._place = {rank: place for place, rank in enumerate(self._ranks)}
        self._usual = last_rank(job, window)
        self._at = {
            draft: (number, column) for number, group in enumerate(groups) for column, draft in enumerate(group)
        }
        every = [answers[rank] for rank in self._ranks]
        self._meant = {(draft, place) for answer in every for draft, place in answer.meant}
        ways = [
            longest_paths_of_answer(answer, len(points.ranks[place].awaited_rows)) for place, answer in enumerate(every)
        ]
        given = [answer.given for answer in every]
        columns = [[np.array(own, np.int32) for own in answer.columns] for answer in every]
        self._groups = [
            JobLongestPaths(points, [own[number] for own in ways], given, [own[number] for own in columns])
            for number in range(len(groups))
        ]
        self._has_end = np.array([answer.has_end for answer in every], np.bool_)

    def applies_to_any_rank(self, draft: int, place: int = 0) -> bool:
        """Tell whether a change of a draft concerns anything on any rank."""
        return (draft, place) in self._meant

    def refusal(self, draft: int, place: int) -> tuple[int, str, str]:
        """Return which rank said first, and how, in Python and on the command line, that a change concerns nothing."""
        return next(
            (rank, text, line)
            for rank, answer in sorted(self.answers.items())
            for at, of, text, line in answer.refused
            if (at, of) == (draft, place)
        )

    def is_unchanged(self, draft: int) -> bool:
        """Tell whether a draft leaves everything as long as it was, on all ranks."""
        return all(draft in answer.unchanged for answer in self.answers.values())

    def added_ns(self, draft: int) -> float:
        """Return how much time a draft adds at most, on all ranks together."""
        return float(sum(added for answer in self.answers.values() for at, added in answer.added_ns if at == draft))

    def end(self, draft: int) -> int:
        """Return how long (ns) the window is under a draft."""
        number, column = self._at[draft]
        if not self._has_end.any():
            return self._window.end_ns - self._window.start_ns
        return int(self._groups[number].ends[self._has_end, column].max())

    def path(self, draft: int) -> LegsByRank:
        """Return where the window's path goes under a draft."""
        found: LegsByRank = defaultdict(list)
        if not self._has_end.any():
            return found
        number, column = self._at[draft]
        ends = np.where(self._has_end, self._groups[number].ends[:, column], np.iinfo(np.int64).min)
        latest = np.flatnonzero(ends == ends.max()).tolist()
        # Of several that end then the one that does as recorded.
        last = self._usual if self._usual in latest else latest[0]
        for place, (asked, given) in self._groups[number].legs_back(last, column):
            found[self._ranks[place]].append([asked, given])
        return found

    def given(self, rank: int, draft: int) -> list[int]:
        """Return when (ns) what comes to a rank from elsewhere is under a draft."""
        number, column = self._at[draft]
        place = self._place[rank]
        recorded = self._points.instants[place].time
        times: list[int] = self._groups[number].incoming_times(place, column, recorded, self._window.start_ns).tolist()
        return times


def last_rank(job: JobGraph, window: Window) -> int:
    """Return the place of the rank with which a window ends as recorded; -1 if it waits for none."""
    return int(job.rank_index_of(np.array([window.sink.point // 2], np.int32))[0]) if window.sink.point >= 0 else -1
