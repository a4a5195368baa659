"""The CPU as simulators of the GPU need it: how long it took from one launch or wait to the next, and no operators."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from hta_graph.chakra.issue_order import issue_order
from hta_graph.chakra.simulated import CPU
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.model import Bools, Ints

__all__ = ["contract_host_nodes"]


def contract_host_nodes(nodes: Nodes) -> Nodes:
    """Join the CPU nodes of each thread between launches, waits and hand-offs; leave out what no GPU work waits for.

    The nodes that stand for several are no one event's: their ``row`` and ``operator`` are -1.

        operators   |mm    |add        |item            |mm
        launches         |      |         |  (waits)         |
        host lane   |----|------|---------|          |-------|
    """
    on_cpu = nodes.slot == CPU
    previous, following = nodes.lane_successors
    crosses = nodes.lane[nodes.source] != nodes.lane[nodes.target]
    gives, takes = np.zeros((2, len(nodes)), np.bool_)
    gives[nodes.source[crosses]], takes[nodes.target[crosses]] = True, True
    joined = on_cpu[previous] & ~gives[previous] & ~takes[following]
    joined &= nodes.start[following] <= nodes.end[previous]
    begins = np.ones(len(nodes), np.bool_)
    begins[following[joined]] = False
    # Nodes stand in order within their lanes, so those of one group follow each other when sorted by lane.
    order = np.argsort(nodes.lane, kind="stable")
    group = np.empty(len(nodes), np.int64)
    group[order] = np.cumsum(begins[order]) - 1
    contracted = _joined_groups(nodes, order, group, on_cpu)
    return contracted.select((contracted.slot != CPU) | _awaited_by_gpu(contracted))


def _joined_groups(nodes: Nodes, order: Ints, group: Ints, on_cpu: Bools) -> Nodes:
    first = order[np.unique(group[order], return_index=True)[1]]
    last = order[len(order) - 1 - np.unique(group[order][::-1], return_index=True)[1]]
    columns: dict[str, Any] = {f.name: getattr(nodes, f.name)[first] for f in fields(nodes)[:-2]}
    host = on_cpu[first]
    columns["end"] = nodes.end[last]
    for name in ("row", "operator"):
        columns[name] = np.where(host, -1, columns[name]).astype(columns[name].dtype)
    nothing = np.empty(0, np.int64)
    return Nodes(**columns, source=nothing, target=nothing).with_dependencies(
        (group[nodes.source], group[nodes.target])
    )


def _awaited_by_gpu(nodes: Nodes) -> Bools:
    """Mark what GPU work waits for, directly or through others."""
    place = np.empty(len(nodes), np.int64)
    place[issue_order(nodes)] = np.arange(len(nodes))
    awaited = (nodes.slot != CPU).tolist()
    back = np.argsort(-place[nodes.target], kind="stable")
    for source, target in zip(nodes.source[back].tolist(), nodes.target[back].tolist(), strict=True):
        if awaited[target]:
            awaited[source] = True
    return np.array(awaited, np.bool_)
