"""Whom communication kernels concern: what they do, their group, whom they wait for.

In PyTorch's NCCL back end ``Src Rank`` and ``Dst Rank`` of a message number the whole job; ``Rank`` on the operator of
a rooted collective is its root, numbered within the group; so are the peers in annotations (``nccl:send 0->1``) and in
the inputs of ``c10d::send``. Source: saveNcclMeta in torch/csrc/profiler/util.cpp, RECORD_PARAM_COMMS in
ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hta_graph.multi_rank.matching.communications import integer_argument
from hta_graph.multi_rank.matching.kernel_arguments import KernelArguments
from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, NO_RANK, UNKNOWN_RANK
from hta_graph.multi_rank.matching.rank_record import listed_ranks
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL

__all__ = ["PEER_PATTERN", "SEND_RECV", "KernelGroup", "kernel_groups", "communication_kind", "awaited_rank"]

SEND_RECV = "send_recv"
"""A kernel that runs sends, receives and all-to-alls alike."""

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
    """Return what a kernel does, by the first name that tells: "all", a rooted collective, a message; "" if none does.

    >>> communication_kind([None, "c10d::alltoall_base_"]), communication_kind(["_broadcast_oop"]), communication_kind(["fused"])
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
        return KernelGroup(f"{name or ''} {list(strided)}".strip(), tuple(strided))
    return KernelGroup(f"{name or ''} {printed or ''}".strip(), ())


def awaited_rank(
    kind: str, rank: int, at: int, found: KernelArguments, group: KernelGroup | None, annotation: str
) -> int:
    """Say whom a kernel waits for: all, nobody, or one rank by its number."""
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
    if isinstance(recorded, int) and recorded >= 0:
        return recorded
    match = PEER_PATTERN.search(annotation)
    return _global_rank(group, int(match[1]) if match else _positional_rank(at, found))


def _root_of(at: int, found: KernelArguments) -> int | None:
    recorded = found.arguments["Rank"][at]
    return recorded if isinstance(recorded, int) and recorded >= 0 else _positional_rank(at, found)


def _positional_rank(at: int, found: KernelArguments) -> int | None:
    """Read the root or peer from the place that it has among the inputs of the process group's call."""
    return integer_argument(found.inputs[at], PROCESS_GROUP_CALL[found.call[at]].other) if found.call[at] else None


def _global_rank(group: KernelGroup | None, number: int | None) -> int:
    """Return the rank of the job that has a number in a group."""
    known = group is not None and number is not None and number < len(group.ranks)
    return group.ranks[number] if known and group is not None and number is not None else UNKNOWN_RANK
