"""Ranks executed by the rules of ASTRA-sim: one node a slot at a time, lowest ids first, collectives that meet."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hta_graph.chakra.simulated import NO_SLOT
from hta_graph.model import Ints

__all__ = ["Execution", "Message", "Program", "execute"]

NEVER = -1

Message = tuple[int, int, int]
"""A message's source, destination and tag."""

NodePlace = tuple[int, int]
"""A rank and the place of a node in its program."""


@dataclass(frozen=True)
class Program:
    """One rank's nodes by ascending id; a dependency is a pair of places, the second node waits for the first.

    ``duration`` is in ns. ``collective`` names the group of nodes that meet those of other ranks; of those among
    ``transfers`` it is the time from when all have met.
    """

    slot: list[int]
    duration: list[int]
    source: Ints
    target: Ints
    collective: Mapping[int, str] = field(default_factory=dict)
    sends: Mapping[int, Message] = field(default_factory=dict)
    receives: Mapping[int, Message] = field(default_factory=dict)
    transfers: Container[int] = ()

    def __len__(self) -> int:
        return len(self.slot)


@dataclass(frozen=True)
class Execution:
    """When each node of each rank started and ended (ns from the beginning); -1 where it never did.

    ``pending_collectives`` are those that not all members reached: (group, number) → who waits there;
    ``pending_receives`` the receives whose message never came.
    """

    start: dict[int, list[int]]
    end: dict[int, list[int]]
    pending_collectives: dict[tuple[str, int], list[NodePlace]]
    pending_receives: dict[Message, list[NodePlace]]

    @property
    def stalled(self) -> dict[int, list[int]]:
        """Per rank the places of the nodes that never ended."""
        return {rank: [at for at, time in enumerate(ends) if time == NEVER] for rank, ends in self.end.items()}


def execute(programs: Mapping[int, Program], groups: Mapping[str, Sequence[int]]) -> Execution:
    """Run all ranks to the end, or until nothing moves.

    A rank runs one CPU node, one compute node and one communication at a time, whatever their thread or stream; of the
    nodes whose dependencies have ended the lowest takes a free slot. The n-th collective that a rank starts in a group
    meets the n-th of the other members; it ends for all of them its shortest duration after the last one started, or
    for each its own transfer, where these are known. A message arrives its duration after its send started (the
    receive's transfer, where that is known); a receive ends when it has arrived. Nothing takes less than 1 ns.

        rank 0    |-- node 1 ---|======= all-reduce of 5 =======|
        rank 1    |----------- node 1 -----------|==== of 3 ====|    both end 3 after the later start
    """
    run = _RunningSimulation(programs, groups)
    run.begin()
    return run.result()


class _RankState:
    """One rank's state."""

    __slots__ = ("duration", "end", "first", "followers", "free", "ready", "slot", "start", "waits")

    def __init__(self, program: Program) -> None:
        size = len(program)
        order = np.argsort(program.source, kind="stable")
        self.slot, self.duration = program.slot, program.duration
        self.first: list[int] = np.searchsorted(program.source[order], np.arange(size + 1)).tolist()
        self.followers: list[int] = program.target[order].tolist()
        self.waits: list[int] = np.bincount(program.target, minlength=size).tolist()
        self.ready: list[list[int]] = [[], [], [], []]
        for at, count in enumerate(self.waits):
            if not count:
                self.ready[self.slot[at]].append(at)
        self.free = [True, True, True]
        self.start, self.end = [NEVER] * size, [NEVER] * size

    def finish(self, at: int, now: int) -> None:
        """End a node: free its slot, release what waited for it."""
        self.end[at] = now
        slot = self.slot[at]
        if slot < NO_SLOT:
            self.free[slot] = True
        waits, ready = self.waits, self.ready
        for follower in self.followers[self.first[at] : self.first[at + 1]]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready[self.slot[follower]], follower)

    def issue(self) -> list[int]:
        """Take the nodes that can start now."""
        # Ready nodes are heaps by place: of one slot the lowest goes first, as ASTRA-sim takes the lowest id.
        started = []
        for slot in range(NO_SLOT):
            if self.free[slot] and self.ready[slot]:
                self.free[slot] = False
                started.append(heapq.heappop(self.ready[slot]))
        if self.ready[NO_SLOT]:
            started += self.ready[NO_SLOT]
            self.ready[NO_SLOT] = []
        return started


class _RunningSimulation:
    """All ranks and the events to come, in order of time and then of their making."""

    def __init__(self, programs: Mapping[int, Program], groups: Mapping[str, Sequence[int]]) -> None:
        self._programs, self._groups = programs, groups
        self._ranks = {rank: _RankState(program) for rank, program in programs.items()}
        self._events: list[tuple[int, int, int, int]] = []
        self._count = 0
        self._number: dict[tuple[int, str], int] = defaultdict(int)
        self._arrived: dict[tuple[str, int], list[NodePlace]] = defaultdict(list)
        self._sent: dict[Message, list[tuple[int, int]]] = defaultdict(list)
        self._expected: dict[Message, list[NodePlace]] = defaultdict(list)

    def begin(self) -> None:
        """Start what waits for nothing and go on until nothing is left to happen."""
        for rank in self._ranks:
            self._issue_nodes(rank, 0)
        while self._events:
            now, _, rank, at = heapq.heappop(self._events)
            self._ranks[rank].finish(at, now)
            self._issue_nodes(rank, now)

    def result(self) -> Execution:
        """Return the times, and what is still waited for."""
        return Execution(
            {rank: state.start for rank, state in self._ranks.items()},
            {rank: state.end for rank, state in self._ranks.items()},
            dict(self._arrived),
            {message: places for message, places in self._expected.items() if places},
        )

    def _issue_nodes(self, rank: int, now: int) -> None:
        state, program = self._ranks[rank], self._programs[rank]
        for at in state.issue():
            state.start[at] = now
            if at in program.collective:
                self._join_collective(program.collective[at], (rank, at), now)
            elif at in program.receives:
                self._expected[program.receives[at]].append((rank, at))
                self._deliver(program.receives[at], now)
            else:
                took = max(state.duration[at], 1)
                if at in program.sends:
                    self._sent[program.sends[at]].append((now, took))
                    self._deliver(program.sends[at], now)
                self._schedule_end((rank, at), now + took)

    def _schedule_end(self, place: NodePlace, time: int) -> None:
        # The count keeps events of one instant in the order of their making.
        self._count += 1
        heapq.heappush(self._events, (time, self._count, *place))

    def _join_collective(self, group: str, place: NodePlace, now: int) -> None:
        number = self._number[place[0], group]
        self._number[place[0], group] += 1
        here = self._arrived[group, number]
        here.append(place)
        # The last member has come: until now all held their slots, which is how a wrong order stalls.
        if len(here) == len(self._groups[group]):
            known = all(at in self._programs[rank].transfers for rank, at in here)
            shortest = min(self._ranks[rank].duration[at] for rank, at in here)
            for rank, at in self._arrived.pop((group, number)):
                self._schedule_end((rank, at), now + max(self._ranks[rank].duration[at] if known else shortest, 1))

    def _deliver(self, message: Message, now: int) -> None:
        """Let a receive end when its message has arrived, if both have begun."""
        if not self._sent[message] or not self._expected[message]:
            return
        sent, took = self._sent[message].pop(0)
        rank, at = self._expected[message].pop(0)
        if at in self._programs[rank].transfers:
            took = max(self._ranks[rank].duration[at], 1)
        self._schedule_end((rank, at), max(now, sent + took))
