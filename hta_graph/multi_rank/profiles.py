"""What each rank's time between members went to: by call path, name and class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import Columns, expand_ranges, summed_by, take_or, unique_pairs
from hta_graph.attribution.call_paths import FRAMES, STANDALONE_NUMBER, CallPaths
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy, Codes, Ids, Ints, kind_mask
from hta_graph.paths.binding_edges import Stretches
from hta_graph.paths.rank_local_walks import LocalWalks
from hta_graph.paths.segments import owners_and_classes
from hta_graph.paths.time_accounting import TimeAccounting

__all__ = ["ActivityProfile", "ActivityTimes", "WalkProfiles", "walk_profiles"]

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")

NO_ROW_NAME = "(no row)"
"""What a thread's time that no row lies over is called."""

STEP_ROW_NAME = "ProfilerStep"
"""What time in a step that nothing else owns is called: steps differ by their numbers only."""


@dataclass(frozen=True)
class ActivityProfile:
    """What ranks may do more of than others, in order of its texts: where, what, of which class."""

    call_path: Sequence[str]
    name: Sequence[str]
    bound: Sequence[BoundBy]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class ActivityTimes(Columns):
    """How long (ns) what was done; what recurs comes several times."""

    activity: Ints
    time: Ints


@dataclass(frozen=True)
class WalkProfiles:
    """What ranks did on each of their walks, until each member arrived (its lag), and in each member itself.

    Those are parts, numbered through: part ``number`` is ``profile`` from ``first[number]`` to ``first[number + 1]``.
    """

    activities: ActivityProfile
    profile: ActivityTimes
    first: Ints
    walks: int
    members: int

    def lag(self, member: int) -> int:
        """Return which part is what a rank did until its member arrived."""
        return self.walks + member

    def itself(self, member: int) -> int:
        """Return which part is the member's own time that is no wait."""
        return self.walks + self.members + member

    def rows(self, parts: Ints) -> tuple[Ints, ActivityTimes]:
        """Lay parts end to end; return for each row the place of its part besides."""
        at, row = expand_ranges(self.first[parts], self.first[parts + 1] - self.first[parts])
        return at, self.profile.take(row)


def walk_profiles(job: JobGraph, walks: LocalWalks, data_load: Sequence[str] = ()) -> WalkProfiles:
    """Add up the time of walks by call path, name and class.

    Numbers that stand alone in names are read as ``#``: they count steps and iterations.
    """
    graph, count = job.independent_ranks, len(walks.member)
    walk_count = count + len(job.members)
    stretches = Stretches.join([walks.since, replace(walks.lag, walk=walks.lag.walk + count)])
    ever = np.iinfo(np.int64)
    accounts = TimeAccounting(graph, data_load).divide(
        stretches, np.full(walk_count, ever.min), np.full(walk_count, ever.max)
    )
    owner, bound = owners_and_classes(graph, accounts, stretches)
    transfers = np.full(len(job.members), BoundBy.GPU_COMMUNICATION_BOUND, np.int8)
    activities, activity = _numbered_activities(job, np.append(owner, job.members.row), np.append(bound, transfers))
    members: Ints = np.arange(len(job.members))
    walk = np.append(stretches.walk[accounts.stretch], walk_count + members)
    time = np.append(accounts.end - accounts.start, job.members.transfer)
    rows, group = unique_pairs(walk, activity)
    summed = ActivityTimes(activity[rows], summed_by(group, time, len(rows)))
    first = np.searchsorted(walk[rows], np.arange(walk_count + len(members) + 1))
    return WalkProfiles(activities, summed, first, count, len(members))


def _numbered_activities(job: JobGraph, owner: Ids, bound: Codes) -> tuple[ActivityProfile, Ints]:
    """Number what is done by whom (canonical row; -1: nobody), in the order of its texts."""
    paths, classes = CallPaths(), len(BoundBy)
    # One row is behind many parts of time: its place is looked up once.
    rows, of_row = _distinct_below(len(job.event_table) + 1, owner + 1)
    path, name = _call_paths(job, paths, rows - 1), take_or(job.event_table.name, rows - 1)
    first, of_place = unique_pairs(path, name + 1)
    keys, place = _distinct_below(len(first) * classes, of_place[of_row] * classes + bound)
    at = first[keys // classes]
    listed = zip(path[at].tolist(), name[at].tolist(), (keys % classes).tolist(), strict=True)
    texts = [(paths.label(around), _name_of_code(job, code), BoundBy(bound)) for around, code, bound in listed]
    number = {text: at for at, text in enumerate(sorted(set(texts)))}
    activities = ActivityProfile(
        [path for path, _, _ in number], [name for _, name, _ in number], [bound for *_, bound in number]
    )
    return activities, np.array([number[text] for text in texts], np.int64)[place]


def _distinct_below(limit: int, values: Ids | Ints) -> tuple[Ids, Ids]:
    """Return the values that occur, ascending, all of them below a limit, and the place of each among them.

    >>> [found.tolist() for found in _distinct_below(9, np.array([7, 2, 7]))]
    [[2, 7], [1, 0, 1]]
    """
    occurs = np.zeros(limit, np.bool_)
    occurs[values] = True
    found = np.flatnonzero(occurs).astype(np.int32)
    place = np.empty(limit, np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return found, place[values]


def _name_of_code(job: JobGraph, code: int) -> str:
    return NO_ROW_NAME if code < 0 else _generic_name(job.names[code])


def _generic_name(name: str) -> str:
    """Read what differs between steps and processes as ``#``.

    >>> _generic_name("ProfilerStep#3"), _generic_name("forward 2"), _generic_name("<built-in mm at 0x7efd448c>")
    ('ProfilerStep', 'forward #', '<built-in mm at 0x#>')
    """
    return STEP_ROW_NAME if is_step(name) else ADDRESS.sub("0x#", STANDALONE_NUMBER.sub("#", name))


def _call_paths(job: JobGraph, paths: CallPaths, rows: Ids) -> Ids:
    """Return the path around each row: of an activity that around the call that asked for it."""
    nesting = job.nesting(*FRAMES)
    call = job.launching_call.copy()
    call[job.members.row] = np.maximum(call[job.members.row], job.members.call)
    asked = take_or(job.is_activity, rows, otherwise=False)
    on_cpu = np.where(asked, take_or(call, rows), rows)
    is_frame = ~asked & take_or(kind_mask(job.event_table.kind, FRAMES), rows, otherwise=False)
    around = np.where(is_frame, take_or(nesting.parent, rows), job.enclosing(on_cpu, *FRAMES))
    found: Ids = take_or(paths.of(job, around), around, otherwise=0)
    return found
