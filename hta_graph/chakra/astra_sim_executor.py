"""ASTRA-sim's rules: slots of a rank, supported communication, programs of ``.et`` files, and their execution.

A rank runs one node a slot at a time, lowest ids first, and its collectives wait for the other ranks.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.chakra.et_files import EtFile, EtFolder, attributes
from hta_graph.chakra.schema import COLLECTIVES, NODE_TYPES
from hta_graph.model import Bools, Ints

CPU, COMPUTE, COMMUNICATION, NO_SLOT = range(4)
"""The slots: each runs one node at a time, whatever the thread or stream; a receive takes none."""

SUPPORTED_COMMUNICATION = ("ALL_REDUCE", "ALL_GATHER", "ALL_TO_ALL", "REDUCE_SCATTER", "BROADCAST", "SEND", "RECV")
"""What ASTRA-sim runs; REDUCE, GATHER, SCATTER, REDUCE_SCATTER_BLOCK and BARRIER end it."""

DELAY = "delay"
"""The name of a node that is no event: its slot idles for no recorded reason, or the host works unseen."""

COPY_NAME_PREFIXES = ("Memcpy ", "Memset ")
"""How the names of copies and sets begin; a log knows them from kernels by nothing else."""

MIN_ALL_GATHER_BYTES = 4
"""Bytes of the smallest all-gather that ends: ASTRA-sim cuts it in as many parts. Other collectives may be empty."""


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


COMPUTATION = NODE_TYPES["COMP_NODE"]
COLLECTIVE, SEND, RECEIVE = (NODE_TYPES[f"COMM_{kind}_NODE"] for kind in ("COLL", "SEND", "RECV"))
COMMUNICATION_TYPES = (COLLECTIVE, SEND, RECEIVE)

IdColumn = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class EtAttribute:
    """An attribute's value and its type in the file, such as ``int64_val``."""

    kind: str
    value: Any


class EtProgram:
    """The nodes of one rank in the order of their ids; a *place* is a node's position in that order.

    ``order`` are the nodes' positions in the file; ``micros`` their durations; ``cpu_kinds`` the types of the values
    that say whether they are CPU work ("bool_val" where nothing is said); ``is_delay`` marks idle time, which no event
    of a trace is.
    """

    def __init__(self, rank: int, file: EtFile) -> None:
        self.rank, self.file = rank, file
        scan = _NodeScan(file)
        ids = np.array(scan.ids, np.uint64)
        self.order: Ints = np.argsort(ids, kind="stable")
        self.ids: IdColumn = ids[self.order]
        order = self.order.tolist()
        self.names, self.types, self.micros, self.on_cpu, self.cpu_kinds, self.is_delay = (
            [column[at] for at in order]
            for column in (scan.names, scan.types, scan.micros, scan.on_cpu, scan.cpu_kinds, scan.is_delay)
        )
        place = np.empty(len(ids), np.int64)
        place[self.order] = np.arange(len(ids))
        self.dependency_ids: IdColumn = np.array(scan.dependency_ids, np.uint64)
        self.dependents: Ints = np.repeat(place, np.array(scan.dependency_count, np.int64))
        self.communication: dict[int, Mapping[str, EtAttribute]] = dict(
            sorted((int(place[at]), known) for at, known in scan.communication.items())
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def is_known(self) -> Bools:
        """Mark the dependencies (``dependency_ids`` ids, ``dependents`` places) on ids that exist."""
        known: Bools = np.isin(self.dependency_ids, self.ids)
        return known

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The dependencies on ids that exist, as places, each pair once."""
        source = np.searchsorted(self.ids, self.dependency_ids[self.is_known])
        size = max(len(self), 1)
        # Pairs as one number: unique and in order of targets and sources in one sort.
        key = np.unique(self.dependents[self.is_known] * size + source)
        return key % size, key // size

    def program(self) -> Program:
        """Return what the executor runs; every communication must have its attributes."""
        source, target = self.pairs
        of_type = {kind: [at for at in self.communication if self.types[at] == kind] for kind in COMMUNICATION_TYPES}
        transfers = self.transfers()
        duration = [1000 * micros for micros in self.micros]
        meets = [at for at in of_type[COLLECTIVE] if not self._is_broadcast(at)]
        for at, transfer in transfers.items():
            duration[at] = transfer
        return Program(
            slot=[self._slot_of(kind, on_cpu=on_cpu) for kind, on_cpu in zip(self.types, self.on_cpu, strict=True)],
            duration=duration,
            source=source,
            target=target,
            collective={at: str(self.communication[at]["pg_name"].value) for at in meets},
            sends={at: self.message(at) for at in of_type[SEND]},
            receives={at: self.message(at) for at in of_type[RECEIVE]},
            transfers=transfers.keys(),
        )

    def transfers(self) -> dict[int, int]:
        """Return how long communication in which ranks wait took without that (ns), if the file records it."""
        said = {
            at: known.get("transfer_nanos") for at, known in self.communication.items() if not self._is_broadcast(at)
        }
        return {
            at: found.value
            for at, found in said.items()
            if found is not None and isinstance(found.value, int) and found.value >= 0
        }

    def _is_broadcast(self, at: int) -> bool:
        """Return whether a node is one in which no rank waits in ASTRA-sim: each rank replays its own duration."""
        kind = self.communication[at].get("comm_type")
        return self.types[at] == COLLECTIVE and kind is not None and kind.value == COLLECTIVES["BROADCAST"]

    def message(self, at: int) -> Message:
        """Return the source, destination and tag of a SEND or RECV."""
        known = self.communication[at]
        return known["comm_src"].value, known["comm_dst"].value, known["comm_tag"].value

    @staticmethod
    def _slot_of(kind: int, *, on_cpu: bool) -> int:
        if kind in COMMUNICATION_TYPES:
            return NO_SLOT if kind == RECEIVE else COMMUNICATION
        return CPU if on_cpu else COMPUTE


def rank_programs(folder: EtFolder) -> dict[int, EtProgram]:
    """Return what each rank of a workload runs."""
    return {rank: EtProgram(rank, file) for rank, file in folder.files.items()}


class _NodeScan:
    """One pass over a file's nodes, which keeps what simulators look at."""

    def __init__(self, file: EtFile) -> None:
        self.ids: list[int] = []
        self.names: list[str] = []
        self.types: list[int] = []
        self.micros: list[int] = []
        self.on_cpu: list[bool] = []
        self.cpu_kinds: list[str] = []
        self.is_delay: list[bool] = []
        self.dependency_ids: list[int] = []
        self.dependency_count: list[int] = []
        self.communication: dict[int, dict[str, EtAttribute]] = {}
        # Lists grow column by column, and equal names are one object: a file holds hundreds of thousands of nodes.
        known: dict[str, str] = {}
        for at, node in enumerate(file.nodes()):
            self.ids.append(node.id)
            self.names.append(known.setdefault(node.name, node.name))
            self.types.append(node.type)
            self.micros.append(node.duration_micros)
            on_cpu, kind = _cpu_flag(node)
            self.on_cpu.append(on_cpu)
            self.cpu_kinds.append(kind)
            before = len(self.dependency_ids)
            self.dependency_ids += node.data_deps
            self.dependency_ids += node.ctrl_deps
            self.dependency_count.append(len(self.dependency_ids) - before)
            self.is_delay.append(is_delay(node))
            if node.type in COMMUNICATION_TYPES:
                self.communication[at] = {name: EtAttribute(kind, value) for name, kind, value in attributes(node)}


def is_delay(node: Any) -> bool:
    """Return whether a node is a delay of ours, not an event of a trace: a kernel may well be called ``delay``."""
    return node.name == DELAY and not any(attribute.name == "event_index" for attribute in node.attr)


def _cpu_flag(node: Any) -> tuple[bool, str]:
    """Return whether a node is CPU work, GPU work by default; and the type of that attribute."""
    for attribute in node.attr:
        if attribute.name == "is_cpu_op":
            kind = attribute.WhichOneof("value") or ""
            return bool(kind and getattr(attribute, kind)), kind
    return False, "bool_val"
