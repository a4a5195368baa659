"""Messages that are launched together: ``batch_isend_irecv``, every pipeline of Megatron and torchtitan.

One kernel runs all messages of a batch and has no arguments of its own, nor has the operator around its launch: NCCL
launches it when the group ends. The sends and receives, with their peers, are recorded before, inside the same range:

    annotation  [nccl:coalesced                                                     ]
    operator      [record_param_comms send to 1] [record_param_comms recv from 1]
    call                                                                   [launch]      the kernel of both

What goes to and comes from one peer is one exchange: neither side leaves before the other came. Source:
ProcessGroupNCCL::endCoalescing (pytorch#194693). ``Seq`` counts a rank's own batches, with any peer: it pairs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import find_sorted
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    BATCH,
    GROUP_DESCRIPTION,
    UNKNOWN_RANK,
    RankCommunications,
    group_descriptions,
    is_rank,
)
from hta_graph.trace.event_args import read_event_args

COALESCED = "nccl:coalesced"
PEER = {"send": "Dst Rank", "recv": "Src Rank"}
ARGUMENTS = (
    "Collective name", *PEER.values(), "In msg nelems", "Out msg nelems", "dtype", "Process Group Name",
    "Process Group Ranks",
)  # fmt: skip


@dataclass(frozen=True)
class _Message:
    """One send or receive of a batch: its kind, the other rank, and the arguments of its operator."""

    kind: str
    peer: int
    arguments: Mapping[str, Any]


def with_batched_messages(graph: DependencyGraph, own: RankCommunications) -> RankCommunications:
    """Divide kernels that run a batch of messages into what they do with each peer; others stay as they are.

    Raises:
        TraceError: the file, which is read once more where there are batches, is gone or has changed.
    """
    kernel, messages, distributed = _batches(graph, own)
    if not messages or graph.rank is None:
        return own
    of_kernel: dict[int, list[list[_Message]]] = {}
    for at, listed in zip(kernel.tolist(), messages, strict=True):
        by_peer: dict[int, list[_Message]] = defaultdict(list)
        for message in listed:
            by_peer[message.peer].append(message)
        of_kernel[at] = list(by_peer.values())
    parts = [(place, part) for place in range(len(own)) for part in of_kernel.get(place, [None])]
    found = own.take(np.array([place for place, _ in parts], np.int64))
    needed = found.needed.copy()
    for at, (_, part) in enumerate(parts):
        if part is not None:
            needed[at] = _fill(found, at, part, graph.rank)
    descriptions = group_descriptions(distributed, found.arguments["Process Group Name"])
    return replace(found, needed=needed, arguments={**found.arguments, GROUP_DESCRIPTION: descriptions})


def _fill(found: RankCommunications, at: int, messages: list[_Message], rank: int) -> int:
    """Enter what a kernel does with one peer; return whom it waits for."""
    first, kinds = messages[0].arguments, {message.kind for message in messages}
    peer, arguments = messages[0].peer, found.arguments
    pair = sorted({rank, peer})
    sizes = {kind: [m.arguments["In msg nelems"] for m in messages if m.kind == kind] for kind in PEER}
    for key, kind in (("In msg nelems", "send"), ("Out msg nelems", "recv")):
        known = sizes[kind] or sizes["recv" if kind == "send" else "send"]
        arguments[key][at] = sum(known) if all(isinstance(size, int) for size in known) else None
    arguments["dtype"][at], arguments["Process Group Name"][at] = first["dtype"], first["Process Group Name"]
    if len(kinds) > 1:
        arguments["Collective name"][at] = BATCH
        arguments["Process Group Ranks"][at] = str(pair)
        found.group[at] = f"{first['Process Group Name'] or ''} messages of {pair}".strip()
        return ALL_RANKS
    (kind,) = kinds
    arguments["Collective name"][at] = found.name[at] = kind
    found.group[at] = f"{first['Process Group Name'] or ''} {first['Process Group Ranks'] or ''}".strip()
    return peer


def _batches(graph: DependencyGraph, own: RankCommunications) -> tuple[Ints, list[list[_Message]], Mapping[str, Any]]:
    """Return the places of kernels that run batches, the messages of each, and the header's part about the job."""
    at = np.flatnonzero((own.needed == UNKNOWN_RANK) & (own.call >= 0) & own.on_gpu)
    nothing: tuple[Ints, list[list[_Message]], Mapping[str, Any]] = at[:0], [], {}
    if not len(at):
        return nothing
    events = graph.event_table
    is_range = np.array([name == COALESCED for name in graph.names] or [False])[events.name]

    def ranges_around(rows: Ids | Ints) -> Ids:
        parent = graph.nesting(EventKind.ANNOTATION).parent
        return nearest_around(parent, graph.enclosing(rows, EventKind.ANNOTATION), is_range)

    of_kernel = ranges_around(own.call[at])
    # Of several kernels in one range it is not known which ran which message.
    ranges, first, count = np.unique(of_kernel, return_index=True, return_counts=True)
    ranges, at = ranges[(ranges >= 0) & (count == 1)], at[first][(ranges >= 0) & (count == 1)]
    rows = np.flatnonzero(events.collective & (events.kind == EventKind.CPU_OP))
    place = find_sorted(ranges_around(rows), ranges) if len(ranges) else np.full(len(rows), -1)
    rows, place = rows[place >= 0], place[place >= 0]
    if not len(rows):
        return nothing
    details = read_event_args(graph.trace, ARGUMENTS, rows)
    found: list[list[_Message]] = [[] for _ in ranges]
    for of, message in zip(place.tolist(), _messages(details.arguments, len(rows)), strict=True):
        found[of].append(message)
    sure = [bool(listed) and all(is_rank(message.peer) for message in listed) for listed in found]
    chosen = [listed for listed, is_sure in zip(found, sure, strict=True) if is_sure]
    return at[np.array(sure, np.bool_)], chosen, details.distributed


def _messages(columns: Mapping[str, Any], count: int) -> Iterator[_Message]:
    """Yield what operators record; of one that is no message, or names no peer, the peer is -1."""
    for at in range(count):
        arguments = {key: values[at] for key, values in columns.items()}
        kind = str(arguments["Collective name"])
        peer = arguments.get(PEER.get(kind, ""))
        yield _Message(kind, peer if is_rank(peer) else -1, arguments)
