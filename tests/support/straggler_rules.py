"""What waits for what in a pipelined training job, by the rules of ByteDance's straggler analysis.

The rules (OSDI'25, StragglerAnalysis) look at one step of one data-parallel rank, the *template*: every other step and
rank is bound in the same way. Two operations of one stage wait for each other by dependencies; operations of several
stages, or of one stage on all data-parallel ranks, by groups: none ends before all of a group have started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["COMPUTE", "OPTIMIZER", "Group", "Operation", "Rules", "rules_of"]

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, COLLECTION = "optimizer-clip-main-grad", "optimizer", "gc"
PEER = {"forward-send": 1, "forward-recv": -1, "backward-send": -1, "backward-recv": 1}
"""How many stages further down the other side of a message is."""
COMPUTE = (FORWARD, BACKWARD, OPTIMIZER, COLLECTION)
LATE_S = 50e-6
"""A message that lies further outside the work of its direction belongs to no work: it was recorded, never sent."""


@dataclass(frozen=True)
class Operation:
    """An operation of the template; times in seconds, ``chunk`` is the model chunk, ``whole_chunk`` that of the job."""

    number: int
    stage: int
    type: str
    seq: int
    start: float
    end: float
    chunk: int
    whole_chunk: int

    @property
    def order(self) -> tuple[float, int, str]:
        """By what operations of a stage follow each other."""
        return self.start, self.seq, self.type


@dataclass(frozen=True)
class Group:
    """Operations that end only when all have started; ``on_all``: of all data-parallel ranks, else of each alone."""

    members: tuple[int, ...]
    on_all: bool = False


@dataclass(frozen=True)
class Rules:
    """What waits for what: pairs of operations (the second starts when the first has ended), and groups."""

    waits: tuple[tuple[int, int], ...]
    groups: tuple[Group, ...]


@dataclass
class _Stage:
    """The operations of one stage in order, and those of each type."""

    number: int
    pp: int
    operations: list[Operation]
    by_type: dict[str, list[Operation]] = field(init=False)

    def __post_init__(self) -> None:
        self.operations = sorted(self.operations, key=lambda operation: operation.order)
        self.by_type = defaultdict(list)
        for operation in self.operations:
            self.by_type[operation.type].append(operation)

    def of(self, *types: str) -> list[Operation]:
        """Return the operations of some types in order."""
        return [operation for operation in self.operations if operation.type in types]

    def numbered(self, kind: str) -> dict[int, Operation]:
        """Return the operations of one type by what number of it they are."""
        return {operation.seq: operation for operation in self.by_type[kind]}

    def in_sequence(self, kind: str) -> list[Operation]:
        """Return the operations of one type in order of their numbers."""
        return sorted(self.by_type[kind], key=lambda operation: operation.seq)


Wait = tuple[Operation, Operation]


@dataclass(frozen=True)
class _Message:
    """A send or receive and the work that it belongs to (None: to none)."""

    operation: Operation
    work: Operation | None
    has_peer: bool


def rules_of(operations: Iterable[Operation], dp: int, dsp: int) -> Rules:
    """Find what waits for what.

    Args:
        operations: the template.
        dp: how many data-parallel ranks there are.
        dsp: the size of the meta file's ``dsp_size``.
    """
    every = list(operations)
    pp = 1 + max(operation.stage for operation in every)
    chunks = pp * (1 + max(operation.chunk for operation in every))
    stages = [_Stage(at, pp, [one for one in every if one.stage == at]) for at in range(pp)]
    is_shared, is_overlapped = dp * dsp > 1, any(stage.by_type[SEPARATE] for stage in stages)
    messages = {(stage.number, kind): _messages(stage, kind, chunks) for stage in stages for kind in PEER}
    waits: list[Wait] = []
    for stage in stages:
        waits += [*_chains(stage), *_first_backward_messages(stage), *_tail(stage, is_shared, is_overlapped)]
        for kind in PEER:
            waits += _messages_and_work(stage, messages[stage.number, kind])
        if is_shared:
            waits += _shared_parameters(stage, is_overlapped)
    groups = [*_message_groups(pp, messages), *_collective_groups(stages, is_shared)]
    return Rules(tuple(dict.fromkeys((a.number, b.number) for a, b in waits)), tuple(groups))


def _chains(stage: _Stage) -> Iterator[Wait]:
    """Let work follow work, and messages of one kind follow each other."""
    yield from pairwise(stage.of(FORWARD, BACKWARD))
    for kind in PEER:
        yield from pairwise(stage.of(kind))


# -- messages ----------------------------------------------------------------------------------------------------------


def _messages(stage: _Stage, kind: str, chunks: int) -> list[_Message]:
    """Give each send or receive of a stage its work; say which ones have another side."""
    direction, way = kind.split("-")
    work = stage.numbered(f"{direction}-compute")
    sent = [operation for operation in stage.by_type[kind] if not _is_outside(operation, way, work.values())]
    # The first receive of the first stage is not always recorded.
    shift = int(way == "recv" and len(sent) + 1 == len(work))
    number = {operation.number: at for at, operation in enumerate(sent, start=shift)}
    found = []
    for operation in stage.by_type[kind]:
        mine = number.get(operation.number)
        own = None if mine is None else work[mine]
        found.append(_Message(operation, own, own is not None and 0 <= own.whole_chunk + PEER[kind] < chunks))
    return found


def _is_outside(operation: Operation, way: str, work: Iterable[Operation]) -> bool:
    """Tell a receive after the last work has started, or a send before the first has ended: it never took place."""
    if way == "recv":
        return operation.start > max((one.start for one in work), default=operation.start) + LATE_S
    return operation.end < min((one.end for one in work), default=operation.end) - LATE_S


def _messages_and_work(stage: _Stage, messages: Sequence[_Message]) -> Iterator[Wait]:
    """Let work wait for what it receives, receives for the work before, and sends for what they send."""
    for message in messages:
        if message.work is None:
            continue
        if message.operation.type.endswith("send"):
            yield message.work, message.operation
        else:
            yield message.operation, message.work
            before = stage.numbered(message.work.type).get(message.work.seq - 1)
            if before:
                yield before, message.operation


def _first_backward_messages(stage: _Stage) -> Iterator[Wait]:
    """Let the first backward messages wait for the work two places before the first backward work."""
    work = stage.of(FORWARD, BACKWARD)
    first = next((at for at, operation in enumerate(work) if operation.type == BACKWARD), 0)
    if first < 2:
        return
    for kind in ("backward-send", "backward-recv"):
        message = stage.numbered(kind).get(0)
        if message:
            yield work[first - 2], message


def _message_groups(pp: int, messages: dict[tuple[int, str], list[_Message]]) -> Iterator[Group]:
    """Pair the k-th send of a stage with the k-th receive of the next; what has no other side is alone."""
    for (stage, kind), mine in messages.items():
        yield from (Group((message.operation.number,)) for message in mine if not message.has_peer)
        if kind.endswith("send"):
            peer = (stage + PEER[kind]) % pp
            sends = [message.operation.number for message in mine if message.has_peer]
            receives = messages[peer, kind.replace("send", "recv")]
            received = [message.operation.number for message in receives if message.has_peer]
            yield from map(Group, zip(sends, received, strict=True))


# -- collectives and the end of a step ---------------------------------------------------------------------------------


def _shared_parameters(stage: _Stage, is_overlapped: bool) -> Iterator[Wait]:
    """Let a chunk's first forward work wait for its parameters, and its gradients for its last backward work."""
    yield from pairwise(stage.of(GATHER, SCATTER))
    for chunk, gather in {one.chunk: one for one in stage.in_sequence(GATHER)}.items():
        first = [one for one in stage.of(FORWARD) if one.chunk == chunk]
        if first:
            yield gather, min(first, key=lambda one: one.start)
    if is_overlapped:
        for chunk, scatter in {one.chunk: one for one in reversed(stage.in_sequence(SCATTER))}.items():
            last = [one for one in stage.of(BACKWARD) if one.chunk == chunk]
            if last:
                yield max(last, key=lambda one: one.end), scatter


def _tail(stage: _Stage, is_shared: bool, is_overlapped: bool) -> Iterator[Wait]:
    """Let what ends a step follow the last work of a stage."""
    work, scatters = stage.of(FORWARD, BACKWARD), stage.in_sequence(SCATTER)
    is_outer = stage.number in (0, stage.pp - 1)
    gradients = [] if not is_shared else stage.of(SEPARATE) if is_overlapped else scatters
    embedding = stage.of(EMBEDDING) if is_outer else []
    last = [max(work, key=lambda one: one.end)] if work else []
    before, after = (COLLECTION, LAYERNORM), (CLIP, OPTIMIZER)
    first, final = ([one for kind in kinds for one in stage.of(kind)] for kinds in (before, after))
    yield from pairwise([*last, *first, *embedding, *gradients, *final])
    if is_shared and is_overlapped and scatters:
        yield from ((scatters[-1], layernorm) for layernorm in stage.of(LAYERNORM))


def _collective_groups(stages: Sequence[_Stage], is_shared: bool) -> Iterator[Group]:
    """Group what stages do together, and what all data-parallel ranks do."""
    for stage in stages if is_shared else ():
        yield from (Group((operation.number,), on_all=True) for operation in stage.of(GATHER, SCATTER, SEPARATE))
    outer = {0: stages[0], len(stages) - 1: stages[-1]}.values()
    for kind, among, on_all in ((EMBEDDING, outer, False), (CLIP, stages, True)):
        members = tuple(operation.number for stage in among for operation in stage.of(kind))
        if members:
            yield Group(members, on_all)
