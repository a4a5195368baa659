"""What each communication of a rank does, by kernel (NCCL) or on the CPU (Gloo): type, input bytes, group, peer.

Types and groups come from recorded arguments, else from names of the annotation, the operator or the kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hta_graph.chakra.astra_sim_executor import SUPPORTED_COMMUNICATION
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.multi_rank.matching.communications import Label, RankCommunications, is_rank, listed_ranks
from hta_graph.multi_rank.matching.read_communications import PEER_PATTERN, first_parts
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.profiler_names import element_bytes
from hta_graph.trace.table import Trace


@dataclass(frozen=True)
class Group:
    """Ranks that communicate, and the name of their process group ("" where none is recorded)."""

    name: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        ranks = self.ranks
        listed = ", ".join(map(str, ranks)) if len(ranks) <= 8 else f"{ranks[0]}, {ranks[1]}, … {ranks[-1]}"
        # Names can be of any length, and stand before the reason why something is refused.
        return f"group {self.name[:60]} [{listed}]" if self.name else f"the group [{listed}]"


def single_rank_group(rank: int) -> Group:
    """Return the group of one rank, in which no rank waits."""
    return Group("", (rank,))


@dataclass(frozen=True)
class GroupChannel:
    """A group's collectives; or, with ``source`` and ``target``, the messages between two of its ranks."""

    group: Group
    source: int = -1
    target: int = -1

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of the group take part."""
        return self.source < 0

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that take part."""
        return self.group.ranks if self.is_collective else (self.source, self.target)

    def __str__(self) -> str:
        return str(self.group) if self.is_collective else f"messages {self.source} → {self.target} in {self.group}"


Arguments = dict[str, Any]
"""What the profiler recorded of an event, by its own keys."""

MAX_ELEMENTS = 1 << 53
"""A larger tensor is taken for a broken number."""


def input_bytes(kind: str, given: Sequence[Arguments]) -> int | None:
    """Return the bytes of the input: recorded, else by the shapes of the annotation's or the operator's inputs.

    ``given`` are the arguments of the kernel, the operator and the annotation; ``None`` if not recorded.
    An annotation lists all that is sent. An operator may take its output too (``_allgather_base_``): one tensor counts,
    of an all-gather the smallest, else the largest.
    """
    for arguments in given[:2]:
        count, width = arguments.get("In msg nelems"), element_bytes(arguments.get("dtype"))
        if isinstance(count, int) and 0 <= count <= MAX_ELEMENTS and width:
            return count * width
    if annotated := tensor_sizes(given[2]):
        return sum(annotated)
    one = min if kind == "ALL_GATHER" else max
    return one(tensor_sizes(given[1]), default=None)


def tensor_sizes(arguments: Arguments) -> list[int]:
    """List the bytes of the tensors among inputs, without empty ones.

    >>> tensor_sizes({"Input Dims": [[6288, 768], [], [2]], "Input type": ["c10::BFloat16", "Scalar", "float"]})
    [9658368, 8]
    """
    shapes, types = arguments.get("Input Dims", arguments.get("Input dims")), arguments.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return []
    # The shape of a scalar is empty, that of a list of tensors a list of shapes.
    listed = [
        (shape, element_bytes(kind)) for shape, kind in zip(shapes, types, strict=False) if isinstance(shape, list)
    ]
    whole = [(shape, width) for shape, width in listed if shape and all(isinstance(side, int) for side in shape)]
    return [count * width for shape, width in whole if width and 0 < (count := math.prod(shape)) <= MAX_ELEMENTS]


KIND_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"reduce_?scatter", "REDUCE_SCATTER"),
        (r"all_?reduce|cross_device_reduce", "ALL_REDUCE"),
        (r"all_?gather", "ALL_GATHER"),
        (r"all_?to_?all", "ALL_TO_ALL"),
        (r"broadcast", "BROADCAST"),
        (r"barrier", "BARRIER"),
        (r"send_?recv", ""),
        (r"(?<![a-z])i?send(?![a-z])", "SEND"),
        (r"(?<![a-z])i?recv(?![a-z])", "RECV"),
        (r"(?<![a-z])gather", "GATHER"),
        (r"(?<![a-z])scatter", "SCATTER"),
        (r"(?<![a-z])reduce(?![a-z])", "REDUCE"),
    )
)
"""What a name says, the first pattern that is found: of the collective, an annotation, an operator, or a kernel."""

ARGUMENT_KEYS = (
    "Collective name", "In msg nelems", "dtype", "Process Group Name", "Process Group Ranks", "Group size",
    "Global rank start", "Global rank stride", "Seq", "Src Rank", "Dst Rank", "Input Dims", "Input dims", "Input type",
)  # fmt: skip

MAX_RANKS = 1 << 20
"""A larger group is taken for a broken number."""

ReadDetails = Callable[[Trace, Sequence[str], Ids | Ints | Bools], EventArgs]
"""Gives arguments of events (canonical rows)."""


@dataclass(frozen=True)
class Communication:
    """What one rank does at once: ``size`` is the bytes of its input, ``peer`` the other rank of a SEND or RECV.

    ``event`` is the kernel (canonical row), ``sequence`` its recorded number within the group; -1 where there is none.
    ``match`` is its number among all that the job's matcher brought together (-1: it is matched by its channel), and
    ``transfer`` how long it then took once those were there for whom it waits (ns). Of what ASTRA-sim cannot run that
    is all that is known (``is_recorded``); ``kind`` says how ranks wait: all in one collective, or with messages to or
    from ``peers``. ``on_cpu``: Gloo did it.
    """

    event: int
    kind: str
    size: int
    group: Group
    peer: int = -1
    sequence: int = -1
    match: int = -1
    transfer: int = 0
    is_recorded: bool = False
    peers: tuple[int, ...] = ()
    on_cpu: bool = False

    def __str__(self) -> str:
        return f"{self.kind} of {self.size:,} bytes"

    def label(self, rank: int) -> Label[GroupChannel]:
        """Return what a rank's communication is matched by; what is as recorded needs no partner besides.

        Ranks give equal bytes into a collective, but for an all-to-all; both ends of a message name its bytes.
        """
        if self.is_recorded:
            return Label(None)
        channel = GroupChannel(self.group, *self.ends(rank))
        if not channel.is_collective:
            return Label(channel, ("message", self.size), text=str(self))
        content = self.kind, 0 if self.kind == "ALL_TO_ALL" else self.size
        return Label(channel, content, self.sequence, str(self))

    @property
    def partners(self) -> set[int]:
        """The ranks that it needs: those of its group, or a message's other end."""
        return {self.peer} if self.peer >= 0 else set(self.group.ranks)

    def ends(self, rank: int) -> tuple[int, int]:
        """Return the source and the target of a rank's message; (-1, -1) of a collective."""
        return {"SEND": (rank, self.peer), "RECV": (self.peer, rank)}.get(self.kind, (-1, -1))


@dataclass(frozen=True)
class WorkloadCommunications:
    """A rank's communications in the order in which they were launched.

    ``before_recording`` are the kernels launched before it, of which nothing is known but their names; ``single_rank``
    those of groups of one rank, without other ranks; ``unknown`` those of which something is missing, and what.
    ``parts`` are further copies that do the work of one of these, and which.
    """

    known: list[Communication]
    before_recording: list[int]
    single_rank: list[int]
    unknown: list[tuple[int, str]]
    parts: Mapping[int, int] = field(default_factory=dict)

    @property
    def broadcasts(self) -> set[int]:
        """The events of known broadcasts."""
        return {item.event for item in self.known if item.kind == "BROADCAST"}

    def merged_with(self, other: WorkloadCommunications) -> WorkloadCommunications:
        """Return these, and then others of the same rank."""
        return WorkloadCommunications(
            self.known + other.known,
            self.before_recording + other.before_recording,
            self.single_rank + other.single_rank,
            self.unknown + other.unknown,
            {**self.parts, **other.parts},
        )


def gpu_communications(
    graph: DependencyGraph, world: Sequence[int], details: ReadDetails = read_event_args
) -> WorkloadCommunications:
    """Describe a rank's communication kernels, and what copies do: several do the work of one collective.

    What the profiler recorded on the kernel or on the operator that launched it counts first; then what the names of
    the annotation (``nccl:all_reduce``), the operator and the kernel say, and the shapes of the annotation's inputs.

    Args:
        graph: the rank's graph.
        world: all ranks of the job, for kernels of which no group is recorded.
        details: where arguments of events come from.
    """
    events = graph.event_table
    kernels = np.flatnonzero(graph.event_flags.communicates).astype(np.int32)
    calls = graph.launching_call[kernels]
    first = first_parts(graph, kernels, calls)
    is_part = first != np.arange(len(first))
    parts = dict(zip(kernels[is_part].tolist(), kernels[first][is_part].tolist(), strict=True))
    kernels, calls = kernels[~is_part], calls[~is_part]
    order = np.lexsort((events.start[kernels], events.start[calls], calls >= 0))
    kernels, calls = kernels[order], calls[order]
    launched = calls >= 0
    found = WorkloadCommunications([], kernels[~launched].tolist(), [], [], parts)
    if launched.any():
        for kernel, described in _described_kernels(graph, kernels[launched], calls[launched], world, details):
            if isinstance(described, str):
                found.unknown.append((kernel, described))
            elif len(described.group.ranks) < 2:
                found.single_rank.append(kernel)
            else:
                found.known.append(described)
    return found


def _described_kernels(
    graph: DependencyGraph, kernels: Ints, calls: Ids, world: Sequence[int], read: ReadDetails
) -> Iterator[tuple[int, Communication | str]]:
    # All arguments in one reading of the file: those of the kernels, then of their operators, then of annotations.
    operators = graph.operator_around[calls]
    annotations = graph.enclosing(calls, EventKind.ANNOTATION)
    rows = np.concatenate([kernels, operators, annotations])
    details = read(graph.trace, ARGUMENT_KEYS, np.where(rows >= 0, rows, kernels[0]))
    groups = _GroupFinder(details, graph.rank, world)
    for at, kernel in enumerate(kernels.tolist()):
        sources = [kernel, int(operators[at]), int(annotations[at])]
        given: list[Arguments] = [{}, {}, {}]
        for side, row in enumerate(sources):
            if row >= 0:
                values = {key: column[at + side * len(kernels)] for key, column in details.arguments.items()}
                given[side] = {key: value for key, value in values.items() if value is not None}
        names = [graph.name_of(row) if row >= 0 else "" for row in sources]
        yield kernel, _describe_kernel(kernel, names, given, groups)


def _describe_kernel(
    event: int, names: Sequence[str], given: Sequence[Arguments], groups: _GroupFinder
) -> Communication | str:
    """Describe a kernel from its own, its operator's and its annotation's arguments, or return what is missing."""
    kernel, operator, annotation = names
    recorded = [str(arguments.get("Collective name", "")) for arguments in given[:2]]
    kind = collective_kind([*recorded, annotation, operator, kernel])
    if not kind:
        return "its arguments and name do not show which collective it is"
    if kind not in SUPPORTED_COMMUNICATION:
        return f"it is a {kind}, which ASTRA-sim does not support"
    size = input_bytes(kind, given)
    if size is None:
        return "its size is not recorded (record with record_shapes=True)"
    arguments = {**given[1], **given[0]}
    group = groups.of(arguments)
    if group is None:
        return "the ranks of its group are not recorded"
    peer = _peer_rank(kind, arguments, annotation, group) if kind in ("SEND", "RECV") else -1
    if peer is None:
        return "its peer rank is not recorded"
    return Communication(event, kind, size, group, peer, _nonnegative_integer(arguments.get("Seq")))


def collective_kind(names: Iterable[str]) -> str:
    """Return the collective named by the first name that has one; "" if none has.

    >>> collective_kind(["", "nccl:_all_gather_base"])
    'ALL_GATHER'
    >>> collective_kind(["ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"])
    ''
    """
    for name in names:
        for pattern, kind in KIND_PATTERNS:
            if pattern.search(name):
                # A SendRecv kernel runs sends, receives and all-to-alls alike: another name has to tell.
                if kind:
                    return kind
                break
    return ""


def _nonnegative_integer(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else -1


def _peer_rank(kind: str, arguments: Arguments, annotation: str, group: Group) -> int | None:
    """Return the other rank of a message: recorded as it is, in annotations by its number within the group."""
    recorded = arguments.get("Dst Rank" if kind == "SEND" else "Src Rank")
    if is_rank(recorded):
        return recorded
    match = PEER_PATTERN.search(annotation)
    within = int(match[1]) if match else -1
    return group.ranks[within] if 0 <= within < len(group.ranks) else None


class _GroupFinder:
    """Process groups, by what a kernel's arguments, the file's header and the job say."""

    def __init__(self, details: EventArgs, rank: int | None, world: Sequence[int]) -> None:
        # Not all ranks of the job need be given; but a size that does not hold the given ones is of another job.
        size = _nonnegative_integer(details.distributed.get("world_size"))
        self._world = tuple(range(size)) if max(world, default=-1) < size <= MAX_RANKS else tuple(world)
        configured = details.distributed.get("pg_config")
        self._by_name = {
            str(entry.get("pg_name")): entry.get("ranks")
            for entry in (configured if isinstance(configured, list) else [])
            if isinstance(entry, dict)
        }
        self._rank = rank

    def of(self, arguments: Arguments) -> Group | None:
        """Return the group that arguments name; without any, that of all ranks."""
        name = str(arguments.get("Process Group Name", ""))
        ranks = self._ranks_of_group(name, arguments)
        if ranks is None:
            return None
        return Group(name, tuple(ranks)) if self._rank is None or self._rank in ranks else None

    def _ranks_of_group(self, name: str, arguments: Arguments) -> Sequence[int] | None:
        size = arguments.get("Group size")
        for listed in (listed_ranks(arguments.get("Process Group Ranks")), listed_ranks(self._by_name.get(name))):
            if listed and (not isinstance(size, int) or len(listed) == size):
                return listed
        start, stride = (_nonnegative_integer(arguments.get(f"Global rank {key}")) for key in ("start", "stride"))
        if start >= 0 and stride > 0 and 0 < _nonnegative_integer(size) <= MAX_RANKS:
            strided = range(start, start + stride * _nonnegative_integer(size), stride)
            return strided if is_rank(strided[-1]) else None
        return self._world if size in (None, len(self._world)) else None


def gloo_communications(
    graph: DependencyGraph, members: RankCommunications, details: ReadDetails
) -> WorkloadCommunications:
    """Describe what a rank did with others on its CPU, in order of start.

    Args:
        graph: the rank's graph.
        members: the rank's communications.
        details: where arguments of events come from.
    """
    own = members.take(np.flatnonzero(~members.on_gpu))
    found = WorkloadCommunications([], [], [], [])
    for described in _described_gloo_rows(graph, own, details) if len(own) else ():
        if isinstance(described, tuple):
            found.unknown.append(described)
        elif len(described.group.ranks) < 2:
            found.single_rank.append(described.event)
        else:
            found.known.append(described)
    return found


def _described_gloo_rows(
    graph: DependencyGraph, own: RankCommunications, read: ReadDetails
) -> Iterator[Communication | tuple[int, str]]:
    keys = ("Input Dims", "Input type")
    arguments = read(graph.trace, keys, own.row)
    said = zip(
        own.row.tolist(), own.name, own.arguments["Process Group Name"], own.arguments["Process Group Ranks"],
        own.needed.tolist(), zip(*(arguments[key] for key in keys), strict=True), strict=True,
    )  # fmt: skip
    for row, name, group, ranks, needed, inputs in said:
        kind, sizes = collective_kind([name]), tensor_sizes(dict(zip(keys, inputs, strict=True)))
        listed = Group(str(group or ""), tuple(listed_ranks(ranks)))
        if kind not in SUPPORTED_COMMUNICATION:
            yield row, f"it is a {kind or name}, which ASTRA-sim does not support"
        elif not listed.ranks:
            yield row, "the ranks of its group are not recorded"
        elif not sizes:
            yield row, "its size is not recorded (record with record_shapes=True)"
        elif kind in ("SEND", "RECV") and needed < 0:
            yield row, "its peer rank is not recorded"
        else:
            peer = needed if kind in ("SEND", "RECV") else -1
            yield Communication(row, kind, sum(sizes), listed, peer, on_cpu=True)
