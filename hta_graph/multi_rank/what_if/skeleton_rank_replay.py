"""One rank of a job in replay: its longest ways between what others decide and what they ask for, and what it passes.

The rank is a job of its own (:func:`hta_graph.multi_rank.single_rank_job.single_rank_job`), in which rendezvous stand for all
that other ranks did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import ROLE, Bools, EdgeRole, Ids, Ints
from hta_graph.multi_rank.what_if.boundary_longest_paths import BoundaryLongestPaths, boundary_longest_paths
from hta_graph.paths.windows import Window
from hta_graph.what_if.draft import ModifiedWindow
from hta_graph.what_if.longest_paths import UNREACHED
from hta_graph.what_if.modified_window import PathTotals, path_totals_of_edges
from hta_graph.what_if.replay_graph import ReplayGraph

__all__ = ["WINDOW_END", "RankReplay", "ReplayLeg"]

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
