"""Rendezvous: who takes part, who waits for whom, when each one's part ends."""

from dataclasses import dataclass, field

from tests.simulator.ranks.communication_statements import MESSAGES, Kind, Meet
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import SimEvent

Key = tuple[object, ...]
"""Which communication of which group: (name, ranks, number), of a message (name, ranks, (from, to), number)."""


def awaited_ranks(meet: Meet, rank: int) -> frozenset[int]:
    """Return whom a rank waits for in a communication.

    All of the group where all give to all; the root where it alone gives; the root waits for all where it alone takes;
    a receiver for its sender, a sender for its receiver unless the message goes into a buffer. Gloo's reduce is a ring,
    which nobody leaves early.
    """
    others = frozenset(meet.group.ranks) - {rank}
    match meet.kind:
        case "broadcast" | "scatter":
            return others & {meet.other}
        case "reduce" if meet.on_cpu:
            return others
        case "reduce" | "gather":
            return others if rank == meet.other else frozenset()
        case "send" if meet.buffered:
            return frozenset()
        case "send" | "recv":
            return frozenset({meet.other} if meet.other is not None else ())
        case _:
            return others


@dataclass
class Member:
    """A rank's part: its row, when the rank came, for whom it waits; `done_ns` (-1: not known yet) ends its transfer.

    A message's row on the CPU lasts until its caller waits for it, so it may end after `done_ns`.
    """

    rank: int
    meet: Meet
    row: SimEvent
    recording: Recording
    arrival_ns: int
    awaited: frozenset[int]
    done_ns: int = -1

    @property
    def lasts_until_waited(self) -> bool:
        """Tell whether the row's end is where its caller goes on."""
        return self.row.kind == "annotation" and self.meet.kind in MESSAGES


@dataclass
class Rendezvous:
    """A communication and its members so far, by rank."""

    key: Key
    kind: Kind
    members: dict[int, Member] = field(default_factory=dict)

    def join(self, member: Member) -> None:
        """Let a rank come; all whose last awaited one it is know their end now."""
        self.members[member.rank] = member
        for other in self.members.values():
            if other.done_ns < 0 and other.awaited <= self.members.keys():
                self._finish(other)

    def last_awaited(self, member: Member) -> Member:
        """Return who let a member's transfer begin: of those that it waits for and itself the last to start.

        rank 0    |wwwwwwwwtttt|      w: waits, t: its own transfer
        rank 1         |wwwttttt|
        rank 2            |tttt|      the last one
        """
        return max((member, *(self.members[rank] for rank in sorted(member.awaited))), key=lambda one: one.row.start_ns)

    def true_wait(self, member: Member) -> int:
        """Return how long a member waited: from its arrival to the last awaited one's, at most to its row's end."""
        until = max((self.members[rank].arrival_ns for rank in member.awaited), default=member.arrival_ns)
        return min(max(0, until - member.arrival_ns), member.row.end_ns - member.arrival_ns)

    def _finish(self, member: Member) -> None:
        begins_ns = self.last_awaited(member).row.start_ns
        member.done_ns = begins_ns + member.meet.ns
        if not member.lasts_until_waited:
            length = member.done_ns - member.row.start_ns
            member.recording.settle(member.row, "end", [Cause("execution", member.row, "start", length)])


def key_of(meet: Meet, rank: int, counted: dict[Key, int]) -> Key:
    """Return which communication a rank comes to, by how many of its kind it came to before."""
    line: Key = meet.group.name, meet.group.ranks
    if meet.kind in MESSAGES:
        line += ((rank, meet.other) if meet.kind == "send" else (meet.other, rank),)
    counted[line] = counted.get(line, 0) + 1
    return (*line, counted[line])
