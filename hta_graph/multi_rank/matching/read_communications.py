"""A rank's communications, read from its trace: kernels, copies, and with them what ran on the CPU.

Of a kernel it is read which collective or message it is, its process group and for whom it waits: from the arguments
recorded on it, else on the operators around its launch, else from names.

In PyTorch's NCCL back end ``Src Rank`` and ``Dst Rank`` of a message number the whole job; ``Rank`` on the operator of
a rooted collective is its root, numbered within the group; so are the peers in annotations (``nccl:send 0->1``) and in
the inputs of ``c10d::send``. Source: saveNcclMeta in torch/csrc/profiler/util.cpp, RECORD_PARAM_COMMS in
ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import find_sorted, is_among, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.multi_rank.matching.batched_messages import with_batched_messages
from hta_graph.multi_rank.matching.bus_bandwidth import exchanged_elements
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    COLLECTIVE_ARGUMENTS,
    EXCHANGED,
    GROUP_DESCRIPTION,
    MESSAGE_KINDS,
    NO_RANK,
    SIZE_ARGUMENTS,
    SPLITS,
    UNKNOWN_RANK,
    RankCommunications,
    RankRecording,
    group_descriptions,
    integer_argument,
    is_rank,
    listed_ranks,
)
from hta_graph.multi_rank.matching.gloo_events import read_gloo_communications
from hta_graph.paths.gpu_activity import Activities, WorkType, activities
from hta_graph.trace.event_args import EventArgs, Objects, read_event_args
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL

KERNEL_ARGUMENTS = (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS, *SPLITS, "Src Rank", "Dst Rank")
OPERATOR_ARGUMENTS = (*KERNEL_ARGUMENTS, "Rank", "Global rank start", "Global rank stride")
CONCRETE_INPUTS = "Concrete Inputs"
INTEGER_ARGUMENTS = {
    "Seq", "Comms Id", "Group size", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank", "Rank",
    "Global rank start", "Global rank stride",
}  # fmt: skip
DIGITS = re.compile(r"\d{1,20}")


@dataclass(frozen=True)
class KernelArguments:
    """Per kernel: recorded arguments by key, the process group's call that launched it ("": none) and its inputs.

    ``distributed`` is the header's part about the job.
    """

    arguments: dict[str, list[Any]]
    call: list[str]
    inputs: list[Any]
    distributed: Mapping[str, Any]


def read_kernel_arguments(graph: DependencyGraph, kernels: Ids, calls: Ids) -> KernelArguments:
    """Read what is recorded on kernels, else on the operators around the calls that launched them.

    Raises:
        TraceError: the file, which is read once more where something is recorded, is gone or has changed.
    """
    collective = graph.event_table.collective
    itself = np.where(collective[kernels], kernels, -1)
    # The arguments stand on record_param_comms, which may be around the operator that launched the kernel.
    operator = _nearest_enclosing(graph, calls, collective)
    is_copy = graph.event_table.kind[kernels] == EventKind.MEMCPY
    operator[is_copy] = _records_of_copies(graph, kernels[is_copy], calls[is_copy])
    is_call = np.array([name in PROCESS_GROUP_CALL for name in graph.names] or [False])[graph.event_table.name]
    call = _nearest_enclosing(graph, calls, is_call & (graph.event_table.kind == EventKind.CPU_OP))
    names = [graph.name_of(row) if row >= 0 else "" for row in call.tolist()]
    names_other = np.array([bool(name) and PROCESS_GROUP_CALL[name].other is not None for name in names], np.bool_)
    asked = [itself, operator, np.where(names_other, call, -1)]
    if all((rows < 0).all() for rows in asked):
        return KernelArguments(
            {key: [None] * len(kernels) for key in OPERATOR_ARGUMENTS}, names, [None] * len(kernels), {}
        )
    details = _read_event_arguments(graph, asked)
    arguments = {
        key: [
            _valid_argument(key, own if own is not None else around)
            for own, around in zip(*details.columns[key][:2], strict=True)
        ]
        for key in OPERATOR_ARGUMENTS
    }
    return KernelArguments(arguments, names, details.columns[CONCRETE_INPUTS][2], details.distributed)


def _valid_argument(key: str, value: Any) -> Any:
    """Return a recorded argument if it is of its kind, text or a number that fits its column; else None."""
    if key not in INTEGER_ARGUMENTS:
        return value if isinstance(value, (str, list)) else None
    number = int(value) if isinstance(value, str) and DIGITS.fullmatch(value) else value
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return number if is_number and -1 <= number < (1 << 64 if key == "Comms Id" else 1 << 62) else None


def _nearest_enclosing(graph: DependencyGraph, calls: Ids, wanted: Bools) -> Ids:
    """Return the innermost operator around each call (-1: no call) that is wanted; -1 where there is none."""
    around = graph.operator_around
    return nearest_around(around, np.where(calls >= 0, around[calls], -1), wanted)


def _external_ids(graph: DependencyGraph, rows: Ids, calls: Ids) -> Ints:
    """Return the External id of each row, else that of its call."""
    external = graph.event_table.external_id
    return np.where(external[rows] > 0, external[rows], take_or(external, calls))


def _records_of_copies(graph: DependencyGraph, copies: Ids, calls: Ids) -> Ids:
    """Return the record of the collective whose work each copy does: the one with its External id (-1: not here)."""
    events = graph.event_table
    records = np.flatnonzero(events.collective & (events.kind == EventKind.CPU_OP)).astype(np.int32)
    records = records[np.argsort(events.external_id[records], kind="stable")]
    found: Ids = take_or(records, find_sorted(_external_ids(graph, copies, calls), events.external_id[records]))
    return found


def first_parts(graph: DependencyGraph, rows: Ids, calls: Ids) -> Ints:
    """Return for each communication (rows in canonical order) the place of the first that does the same one's work.

    A kernel does all of it. Copies are parts of what their record names, with what else it launched:

        record_param_comms   |--------------|
        copy engine             [copy][copy] [copy]      one collective, from the first one's start to the last end
    """
    external = _external_ids(graph, rows, calls)
    is_part = is_among(external, external[graph.event_table.kind[rows] == EventKind.MEMCPY])
    _, first, place = np.unique(
        np.where(is_part, external, -1 - np.arange(len(rows))), return_index=True, return_inverse=True
    )
    return first[place]


@dataclass(frozen=True)
class _EventArguments:
    """Values by key, one list for each list of rows that was asked for."""

    columns: dict[str, list[list[Any]]]
    distributed: Mapping[str, Any]


def _read_event_arguments(graph: DependencyGraph, asked: list[Ids]) -> _EventArguments:
    """Read all arguments in one pass over the file."""
    every = np.concatenate(asked)
    known = every >= 0
    details: EventArgs = read_event_args(graph.trace, (*OPERATOR_ARGUMENTS, CONCRETE_INPUTS), every[known])

    def split(values: Objects) -> list[list[Any]]:
        column = np.full(len(every), None, object)
        column[known] = values
        return [part.tolist() for part in np.split(column, len(asked))]

    return _EventArguments({key: split(values) for key, values in details.arguments.items()}, details.distributed)


SEND_RECV = "send_recv"
"""A kernel that runs sends, receives and all-to-alls alike."""

COPIES = "copies"
"""What does the work of a collective that copy engines run, whichever way each copy goes."""

KIND_PATTERNS = (
    ("all", re.compile(r"all_?reduce|cross_device_reduce|reduce_?scatter|all_?gather|all_?to_?all|barrier")),
    (SEND_RECV, re.compile(r"send_?recv")),
    ("broadcast", re.compile(r"broadcast")),
    ("send", re.compile(r"(?<![a-z])i?send(?![a-z])")),
    ("recv", re.compile(r"(?<![a-z])i?recv(?![a-z])")),
    ("gather", re.compile(r"(?<![a-z])gather")),
    ("scatter", re.compile(r"(?<![a-z])scatter")),
    ("reduce", re.compile(r"(?<![a-z])reduce")),
)
"""What a name says, the first that is found; "all" for collectives in which all wait for all."""

PEER_PATTERN = re.compile(r"(?<!\d)\d++\s*+(?:->|<-)\s*+(\d{1,9})(?!\d)")
"""``nccl:send 0->1`` and ``nccl:recv 1<-0``: own rank and the other, numbered within their group."""

LARGEST_GROUP = 1 << 20
"""A larger group is taken for a broken number."""


@dataclass(frozen=True)
class KernelGroup:
    """A process group as text, its name and ranks, and the ranks by number ((): not known)."""

    text: str
    ranks: tuple[int, ...]


def communication_kind(names: Sequence[object]) -> str:
    """Return what a kernel does, by the first telling name: "all", a rooted collective, a message; "" if none does.

    >>> names = ([None, "c10d::alltoall_base_"], ["_broadcast_oop"], ["fused"])
    >>> tuple(communication_kind(of) for of in names)
    ('all', 'broadcast', '')
    >>> communication_kind(["", "nccl:send 0->1", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"])
    'send'
    >>> communication_kind(["ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"])
    'send_recv'
    """
    for name in names:
        text = str(name or "").lower()
        for kind, pattern in KIND_PATTERNS:
            if text and pattern.search(text):
                return kind
    return ""


def kernel_groups(found: KernelArguments, lanes: Sequence[int]) -> list[KernelGroup | None]:
    """Name each kernel's group: the recorded one, else the only one on its stream."""
    by_name = _header_groups(found.distributed)
    keys = ("Process Group Name", "Process Group Ranks", "Group size", "Global rank start", "Global rank stride")
    made: dict[tuple[Any, ...], KernelGroup | None] = {}
    own: list[KernelGroup | None] = []
    for key in zip(*(map(_hashable, found.arguments[key]) for key in keys), strict=True):
        if key not in made:
            made[key] = _group_of(key, by_name)
        own.append(made[key])
    # A communicator has a stream of its own, so what all others on a stream are of is the group of the rest too.
    on_lane: dict[int, set[KernelGroup]] = defaultdict(set)
    for group, lane in zip(own, lanes, strict=True):
        if group is not None:
            on_lane[lane].add(group)
    only = {lane: next(iter(groups)) for lane, groups in on_lane.items() if len(groups) == 1}
    return [only.get(lane) if group is None else group for group, lane in zip(own, lanes, strict=True)]


def _hashable(value: Any) -> Any:
    return str(value) if isinstance(value, (list, dict)) else value


def _header_groups(distributed: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Read which ranks the groups of the header have."""
    listed = distributed.get("pg_config")
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    return {str(entry.get("pg_name")): tuple(listed_ranks(entry.get("ranks"))) for entry in entries}


def _group_of(arguments: tuple[Any, ...], by_name: Mapping[str, tuple[int, ...]]) -> KernelGroup | None:
    """Return a group; its printed ranks are cut after 30, so those of the header or of a stride count then."""
    name, printed, size, start, stride = arguments
    if name is None and printed is None:
        return None
    for ranks in (listed_ranks(printed), by_name.get(str(name), ())):
        if ranks and (not isinstance(size, int) or len(ranks) == size):
            return KernelGroup(f"{name or ''} {list(ranks)}".strip(), tuple(ranks))
    if all(isinstance(number, int) for number in (start, stride, size)) and stride > 0 and 0 < size <= LARGEST_GROUP:
        strided = range(start, start + stride * size, stride)
        if is_rank(start) and is_rank(strided[-1]):
            return KernelGroup(f"{name or ''} {list(strided)}".strip(), tuple(strided))
    return KernelGroup(f"{name or ''} {printed or ''}".strip(), ())


def awaited_rank(
    kind: str, rank: int, at: int, found: KernelArguments, group: KernelGroup | None, annotation: str
) -> int:
    """Return which ranks a kernel waits for: all, none, or one by its number."""
    if kind in ("send", "recv"):
        return _peer_of(kind, at, found, group, annotation)
    if kind in ("broadcast", "scatter", "gather", "reduce"):
        root = _global_rank(group, _root_of(at, found))
        if root == UNKNOWN_RANK or kind in ("broadcast", "scatter"):
            return root
        return ALL_RANKS if root == rank else NO_RANK
    return UNKNOWN_RANK if kind == SEND_RECV else ALL_RANKS


def _peer_of(kind: str, at: int, found: KernelArguments, group: KernelGroup | None, annotation: str) -> int:
    recorded = found.arguments["Dst Rank" if kind == "send" else "Src Rank"][at]
    if is_rank(recorded):
        return recorded
    match = PEER_PATTERN.search(annotation)
    return _global_rank(group, int(match[1]) if match else _positional_rank(at, found))


def _root_of(at: int, found: KernelArguments) -> int | None:
    recorded = found.arguments["Rank"][at]
    return recorded if is_rank(recorded) else _positional_rank(at, found)


def _positional_rank(at: int, found: KernelArguments) -> int | None:
    """Read the root or peer from the place that it has among the inputs of the process group's call."""
    return integer_argument(found.inputs[at], PROCESS_GROUP_CALL[found.call[at]].other) if found.call[at] else None


def _global_rank(group: KernelGroup | None, number: int | None) -> int:
    """Return the rank of the job that has a number in a group."""
    known = group is not None and number is not None and number < len(group.ranks)
    return group.ranks[number] if known and group is not None and number is not None else UNKNOWN_RANK


def read_communication_kernels(graph: DependencyGraph) -> RankCommunications:
    """Return a rank's communication kernels and copies with their arguments: recorded on them, else on the operator.

    Raises:
        TraceError: the file, which is read once more where there are such arguments, is gone or has changed.
    """
    work = activities(graph)
    work = work.take(work.type == WorkType.COMMUNICATION)
    found = read_kernel_arguments(graph, work.row, work.call)
    is_copy = graph.event_table.kind[work.row] == EventKind.MEMCPY
    names = [COPIES if copies else graph.name_of(row) for row, copies in zip(work.row, is_copy, strict=True)]
    annotations = _launch_annotations(graph, work, names)
    kinds = _communication_kinds(found, annotations, names, work.lane.tolist())
    groups = kernel_groups(found, work.lane.tolist())
    needed = [
        awaited_rank(kind, -1 if graph.rank is None else graph.rank, at, found, group, annotation)
        for at, (kind, group, annotation) in enumerate(zip(kinds, groups, annotations, strict=True))
    ]
    arguments = RankCommunications.no_arguments(len(names))
    arguments |= {key: found.arguments[key] for key in (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS)}
    arguments[GROUP_DESCRIPTION] = group_descriptions(found.distributed, arguments["Process Group Name"])
    arguments[EXCHANGED] = _exchanged_elements(found, groups, graph.rank)
    arguments["Collective name"] = [
        name if name is not None or kind not in MESSAGE_KINDS else kind
        for name, kind in zip(arguments["Collective name"], kinds, strict=True)
    ]
    return RankCommunications(
        work.row,
        work.call,
        work.start,
        np.zeros_like(work.start),
        work.start,
        work.end,
        np.array(needed, np.int64),
        np.ones(len(names), np.bool_),
        # One kernel runs both sides of a message: its name does not tell which.
        [kind if kind in ("send", "recv") else name for kind, name in zip(kinds, names, strict=True)],
        [None if group is None else group.text for group in groups],
        arguments,
    )


def _exchanged_elements(
    found: KernelArguments, groups: Sequence[KernelGroup | None], rank: int | None
) -> list[int | None]:
    """Return how many elements cross the rank's links in each all-to-all whose parts are recorded."""
    keys = ("Collective name", *SPLITS, "In msg nelems", "Out msg nelems")
    exchanged: list[int | None] = []
    for group, name, *said in zip(groups, *(found.arguments[key] for key in keys), strict=True):
        known = group is not None and rank in group.ranks and "alltoall" in str(name).replace("_", "").lower()
        place = group.ranks.index(rank) if known and group is not None and rank is not None else None
        exchanged.append(exchanged_elements((said[0], said[1]), (said[2], said[3]), place))
    return exchanged


def _launch_annotations(graph: DependencyGraph, work: Activities, names: Sequence[str]) -> list[str]:
    """Return the annotation around the launch of each kernel that may be a message; "" where there is none."""
    may_be = np.array([communication_kind([name]) == SEND_RECV for name in names], np.bool_) & (work.call >= 0)
    found = [""] * len(names)
    if may_be.any():
        around = graph.enclosing(work.call[may_be], EventKind.ANNOTATION)
        for at, row in zip(np.flatnonzero(may_be).tolist(), around.tolist(), strict=True):
            found[at] = graph.name_of(row) if row >= 0 else ""
    return found


def _communication_kinds(
    found: KernelArguments, annotations: Sequence[str], names: Sequence[str], lanes: Sequence[int]
) -> list[str]:
    """Say what each kernel does; one that says nothing does what all others of its name on its stream do."""
    kinds = [
        communication_kind(texts)
        for texts in zip(found.arguments["Collective name"], found.call, annotations, names, strict=True)
    ]
    others: dict[tuple[str, int], set[str]] = defaultdict(set)
    for kind, name, lane in zip(kinds, names, lanes, strict=True):
        if kind != SEND_RECV:
            others[name, lane].add(kind)
    # Sends and receives alternate, with other peers each: what the rest of those did says nothing.
    return [
        "all" if kind == SEND_RECV and others[name, lane] == {"all"} else kind
        for kind, name, lane in zip(kinds, names, lanes, strict=True)
    ]


@memoized
def read_communications(graph: DependencyGraph) -> RankCommunications:
    """Return a rank's communications: its communication kernels, what copies did, and what ran on its CPU.

    Those that go with the graph are believed.

    Raises:
        TraceError: the file, which is read once more for recorded arguments, is gone or has changed.
    """
    known = graph.attached(RankCommunications)
    if known is not None:
        return known
    on_cpu = read_gloo_communications(graph)
    on_gpu = read_communication_kernels(graph)
    first = first_parts(graph, on_gpu.row, on_gpu.call)
    end = on_gpu.end.copy()
    np.maximum.at(end, first, on_gpu.end)
    whole = replace(on_gpu, end=end, arrival=_arrivals(graph, on_gpu)).take(
        np.flatnonzero(first == np.arange(len(first)))
    )
    both = with_batched_messages(graph, whole).merged_with(on_cpu)
    groups, descriptions = on_cpu.recording.groups, on_cpu.recording.group_descriptions
    return replace(both, recording=replace(_recording(graph), groups=groups, group_descriptions=descriptions))


def _arrivals(graph: DependencyGraph, own: RankCommunications) -> Ints:
    """Return when the rank came to each: where copies do the work, when all that their first one waits for had ended.

    Copy engines do not wait inside a copy: the ranks meet before it (NCCL: ``ncclMemOpSync``), which leaves no row.

        rank 0    [gemm]- - wait - -[copy][copy]
        rank 1    [====== gemm ====][copy][copy]        came last
    """
    is_copy = graph.event_table.kind[own.row] == EventKind.MEMCPY
    if not is_copy.any():
        return own.arrival
    edges = graph.edges_of()
    edges = edges.take(is_among(edges.target, own.row[is_copy]) & ~edges.to_end)
    came = np.full(len(graph.event_table), -1, np.int64)
    np.maximum.at(came, edges.target, edges.source_ns)
    found = came[own.row]
    return np.where(found >= 0, np.minimum(found, own.start), own.start)


def _recording(graph: DependencyGraph) -> RankRecording:
    events = graph.event_table
    begin, end = int(events.start.min()) if len(events) else 0, int(events.end.max(initial=0))
    offsets = [clock.offset_at((begin + end) // 2) for clock in graph.trace.gpu_clock]
    # A rank has one GPU; of several the one that is furthest from the host.
    return RankRecording(graph.trace.settings.get("host_name"), begin, end, max(offsets, key=abs, default=0))
