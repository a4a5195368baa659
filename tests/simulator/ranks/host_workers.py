"""Threads that do a group's work on the CPU: each group has two, further work queues behind them.

caller     |c10d::allreduce_|  |c10d::allreduce_| |c10d::barrier|
worker 1       |== gloo:all_reduce ==|  |= gloo:barrier =|
worker 2                          |= gloo:all_reduce =|
"""

from collections.abc import Iterable, Sequence

from tests.simulator.engine import PID
from tests.simulator.ranks.communication_statements import Group
from tests.simulator.ranks.rendezvous import Member
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import SimEvent
from tests.simulator.threads import HostThread

WORKERS = 2
HANDOFF_NS = 40_000
GOING_ON_NS = 25_000
"""How long it takes a caller to go on once its work is done."""


class GroupWorkers:
    """The threads of one group, and what each did last."""

    def __init__(self, tids: Sequence[int]) -> None:
        self.threads = [HostThread(tid, "pt_gloo_runloop") for tid in tids]
        self.last: dict[int, Member] = {}
        self.taken: HostThread | None = None

    def whose_end_is_open(self, now: int) -> Member | None:
        """Return work whose end decides which thread takes the next one, if that end is not known yet."""
        busy = [self.last[thread.tid] for thread in self.threads if thread.tid in self.last]
        is_one_free = len(busy) < WORKERS or any(0 <= member.done_ns <= now for member in busy)
        return None if is_one_free else next((member for member in busy if member.done_ns < 0), None)

    def take(self, caller: HostThread, recording: Recording, name: str) -> SimEvent:
        """Begin a row on the thread that is free first."""
        self.taken = min(self.threads, key=self._free_at)
        row = recording.event("annotation", name, PID, self.taken.tid)
        if last := self.last.get(self.taken.tid):
            self.taken.causes = [Cause("thread_order", last.row, "end", 0)]
        self.taken.worked_ns = self.taken.not_before = 0
        self.taken.follow(caller, HANDOFF_NS)
        recording.settle(row, "start", self.taken.due(), self.taken.not_before)
        return row

    def note(self, member: Member) -> None:
        """Remember what the thread that took work last does."""
        self.last[member.row.tid] = member

    def _free_at(self, thread: HostThread) -> tuple[int, int]:
        member = self.last.get(thread.tid)
        # An end that is not known is later than now: another thread is free.
        return (0 if member is None else member.done_ns if member.done_ns >= 0 else 1 << 62), thread.tid


class HostWorkers:
    """The threads of all groups of a rank; numbered in the order in which the groups were made."""

    def __init__(self, groups: Iterable[Group], rank: int, first: int) -> None:
        own = [group for group in groups if rank in group.ranks]
        # A group's threads follow each other; between groups other threads are made.
        self.groups = {
            group: GroupWorkers(range(first + 4 * at, first + 4 * at + WORKERS)) for at, group in enumerate(own)
        }

    def of(self, group: Group) -> GroupWorkers:
        """Return a group's threads."""
        return self.groups[group]

    @property
    def thread_names(self) -> dict[int, str]:
        """Return what the threads are called, by number."""
        return {thread.tid: thread.name for workers in self.groups.values() for thread in workers.threads}


def going_on(member: Member) -> Cause:
    """Return what lets a caller go on: the end of the work, or of a message, which lies in its row."""
    if member.lasts_until_waited:
        return Cause("collective_wait", member.row, "start", member.done_ns - member.row.start_ns + GOING_ON_NS)
    return Cause("collective_wait", member.row, "end", GOING_ON_NS)
