"""What each two ranks did together tells about their clocks, as columns.

rank 0      |wwwww========|
rank 1           |========|~~         ends: about equal
bounds      rank 0's end − rank 1's arrival, and the other way round, are never negative in one time
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.columns import Columns, first_of_runs, laid_out, pair_key
from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Meeting
from hta_graph.model import Bools, Ints

__all__ = ["Attendance", "MeetingsOfTwo", "attendance_of", "evidence_of", "members_of_meetings"]

ALL_COMPARED = 32
"""In meetings of more ranks each is compared with the lowest one only: all pairs would be thousands per meeting."""


@dataclass(frozen=True, eq=False)
class Attendance(Columns):
    """When a rank came to each of its communications and when it left (ns), for whom it waited there.

    ``buffers``: it need not wait even so, since its part may go into a buffer.
    """

    came: Ints
    left: Ints
    needed: Ints
    buffers: Bools


@dataclass(frozen=True, eq=False)
class MeetingsOfTwo(Columns):
    """What two ranks did together: the number of the meeting, when either came and left, who waited for the other."""

    meeting: Ints
    came: Ints
    left: Ints
    waits: Bools
    other_came: Ints
    other_left: Ints
    other_waits: Bools


def attendance_of(own: RankMembers) -> Attendance:
    """Return what a rank's communications tell about its CPU clock."""
    ahead = np.where(own.on_gpu, own.recording.gpu_ahead, 0)
    buffers = np.array([name.endswith("send") for name in own.name], np.bool_)
    return Attendance(own.arrival - ahead, own.end - ahead, own.needed, buffers)


def members_of_meetings(meetings: Sequence[Meeting]) -> tuple[Ints, Ints, Ints]:
    """Lay meetings out as columns: number, rank and place of each member, by number and rank."""
    listed = [(at, *member) for at, meeting in enumerate(meetings) for member in sorted(meeting.items())]
    number, rank, place = np.array(listed, np.int64).reshape(-1, 3).T
    return number, rank, place


def evidence_of(
    meetings: Sequence[Meeting], attended: Mapping[int, Attendance]
) -> dict[tuple[int, int], MeetingsOfTwo]:
    """Return for each two ranks that met, the lower one first, what they did together."""
    number, rank, place = members_of_meetings(meetings)
    own = _gathered(attended, rank, place)
    one, other = _compared_pairs(number)
    columns = MeetingsOfTwo(
        number[one],
        own.came[one],
        own.left[one],
        _waits_for(own, one, rank[other]),
        own.came[other],
        own.left[other],
        _waits_for(own, other, rank[one]),
    )
    key = pair_key(rank[one], rank[other])
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(first_of_runs(key[order]))
    listed = zip(rank[one][order[starts]].tolist(), rank[other][order[starts]].tolist(), strict=True)
    return dict(zip(listed, map(columns.take, np.split(order, starts[1:])), strict=False))


def _gathered(attended: Mapping[int, Attendance], rank: Ints, place: Ints) -> Attendance:
    """Return the members' attendance, each from its own rank."""
    order = np.argsort(rank, kind="stable")
    if not len(order):
        return Attendance.empty()
    sorted_rank = rank[order]
    runs = np.split(order, np.flatnonzero(first_of_runs(sorted_rank))[1:])
    parts = [attended[int(rank[run[0]])].take(place[run]) for run in runs]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Attendance.join(parts).take(back)


def _compared_pairs(number: Ints) -> tuple[Ints, Ints]:
    """Return pairs of members of one meeting, that of the lower rank first."""
    starts = np.flatnonzero(first_of_runs(number))
    size = np.diff(np.append(starts, len(number)))
    own_start, own_size = np.repeat(starts, size), np.repeat(size, size)
    at = np.arange(len(number))
    # Each with those before it; in a large meeting with the first one.
    before = np.where(own_size <= ALL_COMPARED, at - own_start, np.minimum(at - own_start, 1))
    other, one = laid_out(own_start, before)
    return one, other


def _waits_for(own: Attendance, members: Ints, rank: Ints) -> Bools:
    """Mark the members that cannot leave before some rank came, one for each."""
    needed = own.needed[members]
    waits: Bools = (needed == ALL) | ((needed == rank) & ~own.buffers[members])
    return waits
