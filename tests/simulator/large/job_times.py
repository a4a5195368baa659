"""When ranks came to each communication and when their parts ended: roles side by side, a meeting at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tests.simulator.large.mesh import Axis
from tests.simulator.large.random_lengths import Ints, drawn
from tests.simulator.large.scripts import LargeJob
from tests.simulator.large.vector_ranks import Arrival, Running, VectorRanks
from tests.simulator.ranks.communication_statements import MESSAGES, Meet

Key = tuple[object, ...]


@dataclass(frozen=True)
class Met:
    """The k-th communication of all groups of an axis (of messages: between two stages), a member per place."""

    axis: Axis
    kind: str
    number: int
    rank: Ints
    start: Ints
    end: Ints
    last_start: Ints
    """When the last one of each member's group came."""

    @property
    def wait(self) -> Ints:
        """Return how long each member waited."""
        return self.last_start - self.start


@dataclass(frozen=True)
class JobTimes:
    """All communications of a job in the order in which they were complete, and per role the ends of its parts."""

    met: list[Met]
    ends: list[Ints]
    """Per role: communication × rank."""

    def waits(self, ranks: int) -> Ints:
        """Return how long each rank waited in all."""
        total = np.zeros(ranks, np.int64)
        for one in self.met:
            np.add.at(total, one.rank, one.wait)
        return total


def job_times(job: LargeJob) -> JobTimes:
    """Run all roles.

    Raises:
        ValueError: they wait for each other for ever.
    """
    meetings: dict[Key, _Meeting] = {}
    roles = [_Role(job, role, meetings) for role in range(len(job.programs))]
    while any(role.arrival for role in roles):
        if sum(role.go_on() for role in roles) == 0:
            raise ValueError("the ranks wait for each other")
    complete = sorted(meetings.values(), key=lambda one: one.order)
    return JobTimes([one.met() for one in complete], [np.stack(role.ends) for role in roles])


class _Meeting:
    """A communication under way: which roles have come, and when each of their ranks did."""

    def __init__(self, meet: Meet, number: int, expected: int, order: int) -> None:
        self.axis: Axis = meet.group  # type: ignore[assignment]
        self.kind = "send_recv" if meet.kind in MESSAGES else meet.kind
        self.number, self.expected, self.order = number, expected, order
        self.came: dict[int, tuple[Ints, Ints, Ints]] = {}

    @property
    def is_complete(self) -> bool:
        return len(self.came) == self.expected

    def last_start(self) -> Ints:
        """Return when the last one came to each group, by the group's number."""
        found = np.full(len(self.axis.rows), -1, np.int64)
        for ranks, start, _ in self.came.values():
            np.maximum.at(found, self.axis.number[ranks], start)
        return found

    def end(self, role: int) -> Ints:
        ranks, _, ns = self.came[role]
        return self.last_start()[self.axis.number[ranks]] + ns

    def met(self) -> Met:
        ranks, start, ns = (np.concatenate(parts) for parts in zip(*self.came.values(), strict=True))
        last = self.last_start()[self.axis.number[ranks]]
        return Met(self.axis, self.kind, self.number, ranks, start, last + ns, last)


@dataclass
class _Role:
    """A role under way: it goes on until others have to come first."""

    job: LargeJob
    role: int
    meetings: dict[Key, _Meeting]
    counted: Counter[Key] = field(default_factory=Counter)
    ends: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ranks = self.job.mesh.roles[self.role]
        self.running: Running = VectorRanks(self.ranks).run(self.job.programs[self.role])
        self.arrival: Arrival | None = next(self.running, None)
        self.meeting = self._come()

    def go_on(self) -> bool:
        acted = False
        while self.meeting and self.meeting.is_complete:
            self.ends.append(self.meeting.end(self.role))
            try:
                self.arrival = self.running.send(self.ends[-1])
            except StopIteration:
                self.arrival = None
            self.meeting = self._come()
            acted = True
        return acted

    def _come(self) -> _Meeting | None:
        if self.arrival is None:
            return None
        meet = self.arrival.meet
        line, expected = self._line(meet)
        self.counted[line] += 1
        number = self.counted[line]
        new = _Meeting(meet, number, expected, len(self.meetings))
        meeting = self.meetings.setdefault((*line, number), new)
        meeting.came[self.role] = self.ranks, self.arrival.start, np.zeros_like(self.ranks) + drawn(meet.ns, self.ranks)
        return meeting

    def _line(self, meet: Meet) -> tuple[Key, int]:
        """Return what is counted together, and how many roles take part in it."""
        axis: Axis = meet.group  # type: ignore[assignment]
        if meet.kind in MESSAGES:
            other = self.role + (meet.other or 0)
            return (axis.name, *((self.role, other) if meet.kind == "send" else (other, self.role))), 2
        if axis.within_role:
            return (axis.name, self.role), 1
        return (axis.name,), len(self.job.mesh.roles)
