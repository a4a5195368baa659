"""Gloo's process groups: who is in them, which threads work for them, what their calls record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids

__all__ = [
    "ProcessGroup",
    "count_elements",
    "gloo_process_groups",
    "group_descriptions",
    "groups_by_worker_lane",
    "integer_argument",
]

THREADS_PER_GROUP = 2
"""How many threads Gloo gives each group."""
UNSET_DESCRIPTIONS = ("", "undefined")
"""What PyTorch writes where nobody said what a group is for."""


@dataclass(frozen=True)
class ProcessGroup:
    """A process group: its name and its ranks."""

    name: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {list(self.ranks)}"


def gloo_process_groups(distributed: Mapping[str, Any]) -> list[ProcessGroup]:
    """Read the groups that Gloo serves from the header, in the order in which they were made."""
    listed = distributed.get("pg_config")
    groups = []
    for own in listed if isinstance(listed, list) else []:
        if (
            isinstance(own, dict)
            and "gloo" in str(own.get("backend_config", "gloo"))
            and isinstance(own.get("ranks"), list)
        ):
            ranks = [rank for rank in own["ranks"] if isinstance(rank, int)]
            groups.append(ProcessGroup(str(own.get("pg_name", "")), tuple(ranks)))
    if groups:
        return groups
    world = distributed.get("world_size")
    return [ProcessGroup("0", tuple(range(world)))] if isinstance(world, int) and 0 < world < 1 << 20 else []


def group_descriptions(distributed: Mapping[str, Any], names: Sequence[Any]) -> list[str | None]:
    """Return what the header says that each group is for, by the groups' names; None where it says nothing.

    >>> group_descriptions({"pg_config": [{"pg_name": "3", "pg_desc": "tp"}]}, ["3", 3, "4", None])
    ['tp', 'tp', None, None]
    """
    listed = distributed.get("pg_config")
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    told = {str(entry.get("pg_name")): entry.get("pg_desc") for entry in entries}
    known = {name: text for name, text in told.items() if isinstance(text, str) and text not in UNSET_DESCRIPTIONS}
    return [None if name is None else known.get(str(name)) for name in names]


def groups_by_worker_lane(graph: DependencyGraph, rows: Ids, groups: Sequence[ProcessGroup]) -> dict[int, ProcessGroup]:
    """Return the group that each worker's lane serves: workers are made in pairs, in the order of the groups."""
    lanes = np.unique(graph.event_table.lane[rows]).tolist()
    if len(groups) == 1:
        return dict.fromkeys(lanes, groups[0])
    threads = sorted((_thread_number(graph.lanes.labels[lane]), lane) for lane in lanes)
    pairs = [threads[at : at + THREADS_PER_GROUP] for at in range(0, len(threads), THREADS_PER_GROUP)]
    if len(threads) != THREADS_PER_GROUP * len(groups):
        # Not every worker left a row; those of one group follow each other without a gap.
        pairs = _split_at_gaps(threads)
    if len(pairs) != len(groups):
        return {}
    return {lane: group for pair, group in zip(pairs, groups, strict=True) for _, lane in pair}


def _split_at_gaps(threads: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Divide threads where their numbers have a gap, or a group has its workers."""
    pairs = [[threads[0]]]
    for before, thread in pairwise(threads):
        if thread[0] == before[0] + 1 and len(pairs[-1]) < THREADS_PER_GROUP:
            pairs[-1].append(thread)
        else:
            pairs.append([thread])
    return pairs


def _thread_number(label: str) -> int:
    found = re.search(r"\d{1,18}$", label)
    return int(found[0]) if found else -1


def count_elements(dims: Any) -> int:
    """Add up the elements of the tensors of one row, or of a call's first list of tensors (-1: not recorded).

    >>> count_elements([[128, 384]]), count_elements([[[4, 2], [3]], [], []]), count_elements(None), count_elements([])
    (49152, 11, -1, -1)
    """
    shapes = dims if isinstance(dims, list) else []
    if shapes and isinstance(shapes[0], list) and shapes[0] and isinstance(shapes[0][0], list):
        shapes = shapes[0]
    sizes = [prod(shape) for shape in shapes if _is_shape(shape)]
    total = sum(sizes)
    return total if sizes and total < 1 << 62 else -1


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list) and bool(shape) and all(isinstance(size, int) and 0 <= size < 1 << 40 for size in shape)
    )


def integer_argument(inputs: Any, place: int | None) -> int | None:
    """Read a number from a call's recorded arguments."""
    if place is None or not isinstance(inputs, list) or place >= len(inputs):
        return None
    text = str(inputs[place])
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None
