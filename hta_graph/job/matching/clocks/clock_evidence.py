"""What each two ranks did together tells about their clocks, as columns.

rank 0      |wwwww========|
rank 1           |========|~~         ends: about equal
bounds      rank 0's end − rank 1's arrival, and the other way round, are never negative in one time
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from hta_graph.columns import Columns, first_of_runs, laid_out
from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Meeting
from hta_graph.model import Bools, Ints

__all__ = ["Attendance", "ClockEvidence", "MeetingsOfTwo", "attendance_of", "evidence_of", "members_of_meetings"]

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


@dataclass(frozen=True, eq=False)
class ClockEvidence:
    """What each two ranks that met did together: the lower and the higher rank of each pair, and the pair of each row.

    Rows stand by pair, those of one pair by the number of their meeting.
    """

    one: Ints
    other: Ints
    pair: Ints
    met: MeetingsOfTwo

    def __len__(self) -> int:
        return len(self.one)

    @property
    def ranks(self) -> Iterator[tuple[int, int]]:
        """The two ranks of each pair."""
        return zip(self.one.tolist(), self.other.tolist(), strict=True)

    def only(self, kept: Bools) -> ClockEvidence:
        """Let the other rows tell nothing."""
        return replace(
            self, met=replace(self.met, waits=self.met.waits & kept, other_waits=self.met.other_waits & kept)
        )


def attendance_of(own: RankMembers) -> Attendance:
    """Return what a rank's communications tell about its CPU clock."""
    ahead = np.where(own.on_gpu, own.recording.gpu_ahead, 0)
    buffers = np.array([name.endswith("send") for name in own.name], np.bool_)
    return Attendance(own.arrival - ahead, own.end - ahead, own.needed, buffers)


def members_of_meetings(meetings: Sequence[Meeting]) -> tuple[Ints, Ints, Ints]:
    """Lay meetings out as columns: number, rank and place of each member, by number and rank."""
    number = np.repeat(np.arange(len(meetings)), np.fromiter(map(len, meetings), np.int64, len(meetings)))
    rank = np.fromiter(chain.from_iterable(meetings), np.int64, len(number))
    place = np.fromiter(chain.from_iterable(meeting.values() for meeting in meetings), np.int64, len(number))
    order = np.lexsort((rank, number))
    return number, rank[order], place[order]


def evidence_of(meetings: Sequence[Meeting], attended: Mapping[int, Attendance]) -> ClockEvidence:
    """Return for each two ranks that met, the lower one first, what they did together."""
    number, rank, place = members_of_meetings(meetings)
    own = _gathered(attended, rank, place)
    one, other = _compared_pairs(number)
    order = np.lexsort((rank[other], rank[one]))
    one, other = one[order], other[order]
    is_first = first_of_runs(rank[one], rank[other])
    columns = MeetingsOfTwo(
        number[one],
        own.came[one],
        own.left[one],
        _waits_for(own, one, rank[other]),
        own.came[other],
        own.left[other],
        _waits_for(own, other, rank[one]),
    )
    return ClockEvidence(rank[one[is_first]], rank[other[is_first]], np.cumsum(is_first) - 1, columns)


def _gathered(attended: Mapping[int, Attendance], rank: Ints, place: Ints) -> Attendance:
    """Return the members' attendance, each from its own rank."""
    ranks = list(attended)
    first = np.cumsum([0, *(len(own) for own in attended.values())])
    order = np.argsort(ranks)
    at = order[np.searchsorted(np.array(ranks, np.int64), rank, sorter=order)] if len(rank) else rank
    return Attendance.join(attended.values()).take(first[at] + place)


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
