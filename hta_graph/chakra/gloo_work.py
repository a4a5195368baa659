"""What each collective and message that ran on the CPU (Gloo) does: its type, the bytes of its input, its ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.chakra.channels import Group
from hta_graph.chakra.communications import (
    Communication,
    ReadDetails,
    WorkloadCommunications,
    collective_kind,
)
from hta_graph.chakra.input_bytes import tensor_sizes
from hta_graph.chakra.simulated import SUPPORTED_COMMUNICATION
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.matching.rank_members import RankCommunications
from hta_graph.multi_rank.matching.rank_record import listed_ranks

__all__ = ["gloo_communications"]


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
            yield row, f"it is a {kind or name}, which ASTRA-sim does not run"
        elif not listed.ranks:
            yield row, "the ranks of its group are not recorded"
        elif not sizes:
            yield row, "no shapes say how much it sends (record_shapes=True records them)"
        elif kind in ("SEND", "RECV") and needed < 0:
            yield row, "its other rank is not recorded"
        else:
            peer = needed if kind in ("SEND", "RECV") else -1
            yield Communication(row, kind, sum(sizes), listed, peer, on_cpu=True)
