"""A rank's communication kernels, and what its trace says about each: as much as there is, for analyses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from hta_graph.algorithms.work.activities import WorkType, activities
from hta_graph.graph import DependencyGraph
from hta_graph.job.matching.rank_members import ALL, MESSAGES, RECORDED, SIZES, UNKNOWN, RankMembers
from hta_graph.model import Ids
from hta_graph.trace.details import read_details

__all__ = ["read_communication_kernels"]


def read_communication_kernels(graph: DependencyGraph) -> RankMembers:
    """Return a rank's communication kernels with the arguments recorded on them, else on the launching operator.

    Raises:
        TraceError: the file, which is read once more where there are such arguments, is gone or has changed.
    """
    work = activities(graph)
    work = work.take(work.type == WorkType.COMMUNICATION)
    said = _recorded_arguments(graph, work.row, work.call)
    names = [graph.name_of(row) for row in work.row.tolist()]
    # Whom a kernel's send or receive concerns is not read yet, so it is compared with nobody.
    needed = [UNKNOWN if name in MESSAGES else ALL for name in said["Collective name"]]
    group = _groups_on_lanes(said, work.lane)
    on_gpu = np.ones(len(work.row), np.bool_)
    return RankMembers(
        work.row, work.call, work.start, work.start, work.end, np.array(needed, np.int64), on_gpu, names, group, said
    )


def _recorded_arguments(graph: DependencyGraph, rows: Ids, calls: Ids) -> dict[str, list[Any]]:
    keys = (*RECORDED, *SIZES)
    collective = graph.event_table.collective
    if not collective.any():
        return RankMembers.nothing_said(len(rows))
    around = graph.operator_around
    source = np.where(collective[rows], rows, -1)
    # The arguments stand on record_param_comms, which may be around the operator that launched the kernel.
    operator = np.where((source < 0) & (calls >= 0), around[calls], -1)
    while (climbs := (operator >= 0) & ~collective[operator]).any():
        operator[climbs] = around[operator[climbs]]
    source = np.where(operator >= 0, operator, source)
    known = source >= 0
    details = read_details(graph.trace, keys, source[known])
    said: dict[str, list[Any]] = {}
    for key in keys:
        column = np.full(len(rows), None, object)
        column[known] = details[key]
        said[key] = column.tolist()
    return said


def _groups_on_lanes(said: Mapping[str, list[Any]], lanes: Ids) -> list[str | None]:
    """Name each kernel's group: the recorded one, else the only one on its stream."""
    own = [
        None if name is None and ranks is None else f"{name or ''} {ranks or ''}".strip()
        for name, ranks in zip(said["Process Group Name"], said["Process Group Ranks"], strict=True)
    ]
    # A communicator has a stream of its own, so what all others on a stream are of is the group of the rest too.
    on_lane: dict[int, set[str]] = defaultdict(set)
    for group, lane in zip(own, lanes.tolist(), strict=True):
        if group is not None:
            on_lane[lane].add(group)
    only = {lane: next(iter(groups)) for lane, groups in on_lane.items() if len(groups) == 1}
    return [only.get(lane) if group is None else group for group, lane in zip(own, lanes.tolist(), strict=True)]
