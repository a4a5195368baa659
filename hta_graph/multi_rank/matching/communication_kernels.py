"""A rank's communication kernels, and what its trace says about each: as much as there is, for analyses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from hta_graph.activities import Activities, WorkType, activities
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind
from hta_graph.multi_rank.matching.communications import group_descriptions
from hta_graph.multi_rank.matching.kernel_arguments import KernelArguments, kernel_arguments
from hta_graph.multi_rank.matching.rank_members import DESCRIPTION, MESSAGES, RECORDED, SIZES, RankMembers
from hta_graph.multi_rank.matching.read_communications import SEND_RECV, groups_of_kernels, kernel_kind, needed_by

__all__ = ["read_communication_kernels"]


def read_communication_kernels(graph: DependencyGraph) -> RankMembers:
    """Return a rank's communication kernels with the arguments recorded on them, else on the launching operator.

    Raises:
        TraceError: the file, which is read once more where there are such arguments, is gone or has changed.
    """
    work = activities(graph)
    work = work.take(work.type == WorkType.COMMUNICATION)
    found = kernel_arguments(graph, work.row, work.call)
    names = [graph.name_of(row) for row in work.row.tolist()]
    annotations = _annotations_of(graph, work, names)
    kinds = _kinds_of(found, annotations, names, work.lane.tolist())
    groups = groups_of_kernels(found, work.lane.tolist())
    needed = [
        needed_by(kind, -1 if graph.rank is None else graph.rank, at, found, group, annotation)
        for at, (kind, group, annotation) in enumerate(zip(kinds, groups, annotations, strict=True))
    ]
    arguments = {key: found.arguments[key] for key in (*RECORDED, *SIZES)}
    arguments[DESCRIPTION] = group_descriptions(found.distributed, arguments["Process Group Name"])
    arguments["Collective name"] = [
        name if name is not None or kind not in MESSAGES else kind
        for name, kind in zip(arguments["Collective name"], kinds, strict=True)
    ]
    return RankMembers(
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


def _annotations_of(graph: DependencyGraph, work: Activities, names: Sequence[str]) -> list[str]:
    """Return the annotation around the launch of each kernel that may be a message; "" where there is none."""
    may_be = np.array([kernel_kind([name]) == SEND_RECV for name in names], np.bool_) & (work.call >= 0)
    found = [""] * len(names)
    if may_be.any():
        around = graph.enclosing(work.call[may_be], EventKind.ANNOTATION)
        for at, row in zip(np.flatnonzero(may_be).tolist(), around.tolist(), strict=True):
            found[at] = graph.name_of(row) if row >= 0 else ""
    return found


def _kinds_of(
    found: KernelArguments, annotations: Sequence[str], names: Sequence[str], lanes: Sequence[int]
) -> list[str]:
    """Say what each kernel does; one that says nothing does what all others of its name on its stream do."""
    kinds = [
        kernel_kind(texts)
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
