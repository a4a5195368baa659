"""A rank's communication kernels, and what its trace says about each: as much as there is, for analyses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from hta_graph.activities import Activities, WorkType, activities
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind
from hta_graph.multi_rank.matching.communications import group_descriptions
from hta_graph.multi_rank.matching.kernel_arguments import KernelArguments, read_kernel_arguments
from hta_graph.multi_rank.matching.rank_members import (
    COLLECTIVE_ARGUMENTS,
    GROUP_DESCRIPTION,
    MESSAGE_KINDS,
    SIZE_ARGUMENTS,
    RankCommunications,
)
from hta_graph.multi_rank.matching.read_communications import SEND_RECV, awaited_rank, communication_kind, kernel_groups

__all__ = ["read_communication_kernels"]


def read_communication_kernels(graph: DependencyGraph) -> RankCommunications:
    """Return a rank's communication kernels with the arguments recorded on them, else on the launching operator.

    Raises:
        TraceError: the file, which is read once more where there are such arguments, is gone or has changed.
    """
    work = activities(graph)
    work = work.take(work.type == WorkType.COMMUNICATION)
    found = read_kernel_arguments(graph, work.row, work.call)
    names = [graph.name_of(row) for row in work.row.tolist()]
    annotations = _launch_annotations(graph, work, names)
    kinds = _communication_kinds(found, annotations, names, work.lane.tolist())
    groups = kernel_groups(found, work.lane.tolist())
    needed = [
        awaited_rank(kind, -1 if graph.rank is None else graph.rank, at, found, group, annotation)
        for at, (kind, group, annotation) in enumerate(zip(kinds, groups, annotations, strict=True))
    ]
    arguments = {key: found.arguments[key] for key in (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS)}
    arguments[GROUP_DESCRIPTION] = group_descriptions(found.distributed, arguments["Process Group Name"])
    arguments["Collective name"] = [
        name if name is not None or kind not in MESSAGE_KINDS else kind
        for name, kind in zip(arguments["Collective name"], kinds, strict=True)
    ]
    return RankCommunications(
        work.row,
        work.call,
        work.start,
        work.start,
        work.end,
        np.array(needed, np.int64),
        np.ones(len(names), np.bool_),
        # One kernel runs both sides of a message: its name does not tell which.
        [kind if kind in ("send", "recv") else name for kind, name in zip(kinds, names, strict=True)],
        [None if group is None else group.text for group in groups],
        arguments,
    )


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
