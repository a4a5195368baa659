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
    which nobody leaves early; where a root gives or takes alone there, who sends waits for who takes.
    """
    others = frozenset(meet.group.ranks) - {rank}
    match meet.kind:
        case "broadcast" if meet.on_cpu:
            return _awaited_in_tree(meet.group.ranks, rank, meet.other or 0)
        case "scatter" | "gather" if meet.on_cpu:
            return others if rank == meet.other else others & {meet.other}
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


def _awaited_in_tree(ranks: tuple[int, ...], rank: int, root: int) -> frozenset[int]:
    """Return whom a rank waits for in Gloo's broadcast: who gives to it, and above that; to whom it hands on.

    >>> [sorted(_awaited_in_tree((0, 1, 2, 3), rank, 0)) for rank in range(4)]
    [[1, 2], [0, 3], [0], [0, 1]]
    """
    giver, takers = _tree_neighbors(ranks, rank, root)
    awaited = set(takers)
    while giver is not None:
        awaited.add(giver)
        giver, _ = _tree_neighbors(ranks, giver, root)
    return frozenset(awaited)


def _tree_neighbors(ranks: tuple[int, ...], rank: int, root: int) -> tuple[int | None, list[int]]:
    """Go through the rounds of Gloo's broadcast as gloo/broadcast.cc does: from whom one takes, to whom it hands on."""
    size = len(ranks)
    place = (ranks.index(rank) + size - ranks.index(root)) % size
    rounds = (size - 1).bit_length()
    mask, giver, takers = (1 << rounds) - 1, None, []
    for bit in range(rounds):
        mask ^= 1 << bit
        peer = place ^ (1 << bit)
        if place & mask or peer >= size:
            continue
        other = ranks[(peer + ranks.index(root)) % size]
        if place & (1 << bit):
            giver = other
        else:
            takers.append(other)
    return giver, takers


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
