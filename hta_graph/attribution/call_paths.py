"""Call paths: the annotations and operators around an event, outermost first, numbered alike for several traces."""

from __future__ import annotations

import re

import numpy as np

from hta_graph.attribution.graph_kernels import graph_kernels
from hta_graph.base.arrays import distinct, expand_ranges, hash_rows, hash_texts, pair_key, take_or, unique_rows
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.model import Bools, EventKind, Ids, Ints, kind_mask

FRAMES = (EventKind.CPU_OP, EventKind.ANNOTATION)
STANDALONE_NUMBER = re.compile(r"(?<!\w)\d+(?!\w)")
TOP = 0
DEEPEST = 1_000
"""The most names of a path: what is deeper has the path of what is around it. Texts of all would not fit."""


class CallPaths:
    """Numbers call paths; path 0 is the top, where nothing is open.

    Profiler steps are left out, and numbers that stand alone are read as ``#``: they count iterations and compiled
    regions, which differ between runs of one program.
    """

    def __init__(self) -> None:
        self._number: dict[tuple[int, str], int] = {}
        self._parent = [TOP]
        self._depth = [0]
        self._name = [""]

    def __len__(self) -> int:
        return len(self._name)

    def names(self, path: int) -> list[str]:
        """Return the names on a path, outermost first."""
        found: list[str] = []
        while path != TOP:
            found.append(self._name[path])
            path = self._parent[path]
        return found[::-1]

    def keys(self) -> Ints:
        """Return for each path a number that is its own in every trace."""
        names, found = hash_texts(self._name), np.zeros(len(self), np.int64)
        # A path comes behind the one around it, so that this one's number is known.
        for path, around in enumerate(self._parent):
            if path != TOP:
                found[path] = hash_rows(found[around : around + 1], names[path : path + 1])[0]
        return found

    def label(self, path: int) -> str:
        """Return a path as text; the top is empty."""
        return " / ".join(self.names(path))

    def around(self, graph: DependencyGraph, calls: Ids) -> Ids:
        """Return the path that is open when each call (canonical row) starts; 0 for call -1."""
        innermost = graph.enclosing(calls, *FRAMES)
        return np.where(innermost >= 0, self.of(graph)[innermost], TOP).astype(np.int32)

    def around_activities(self, graph: DependencyGraph, rows: Ids, calls: Ids) -> Ids:
        """Return the path that is open when each activity is launched.

        That of a graph's replay continues with the operators around the kernel's launch during capture, if it is known.
        """
        found, named = self.around(graph, calls), graph_kernels(graph)
        for part, here, launches in named.parts(named.launch[rows]):
            operator = take_or(named.captures[part].operator_around, launches)
            first, place = unique_rows(found[here], operator)
            pairs = zip(found[here][first].tolist(), operator[first].tolist(), strict=True)
            inside = [self._into_operators(named.captures[part], *pair) for pair in pairs]
            found[here] = np.array(inside, np.int32)[place]
        return found

    def _into_operators(self, graph: DependencyGraph, path: int, operator: int) -> int:
        """Return the path that continues with an operator and all around it."""
        names: list[str] = []
        while operator >= 0:
            names.append(graph.name_of(operator))
            operator = int(graph.operator_around[operator])
        for name in reversed(names):
            path = self._step_into(path, name)
        return path

    def of(self, graph: DependencyGraph, asked: Ids | None = None) -> Ids:
        """Return the path of every annotation and operator, itself included; 0 for other rows.

        Where only some rows (-1: none) are asked for, that is known of them and of what is around them.
        """
        parent = graph.nesting(*FRAMES).parent
        is_frame = kind_mask(graph.event_table.kind, FRAMES)
        rows = np.flatnonzero(is_frame if asked is None else is_frame & _with_parents(parent, asked)).astype(np.int32)
        paths = np.zeros(len(graph.event_table), np.int32)
        order: Ids = rows[np.argsort(parent[rows], kind="stable")]
        sorted_parent = parent[order]
        level: Ids = order[: np.searchsorted(sorted_parent, 0)]  # those without a parent
        # Level by level from the outside: a row's path is known once its parent's is.
        while len(level):
            around = np.where(parent[level] >= 0, paths[parent[level]], TOP)
            paths[level] = self._number_paths(graph, level, around.astype(np.int32))
            level = _children_of(order, sorted_parent, level)
        return paths

    def _number_paths(self, graph: DependencyGraph, rows: Ids, around: Ids) -> Ids:
        """Number the paths of rows whose parents' paths are known: one look-up per distinct pair."""
        key, place = np.unique(pair_key(around, graph.event_table.name[rows]), return_inverse=True)
        found = [self._step_into(of >> 32, graph.names[of & 0xFFFF_FFFF]) for of in key.tolist()]
        return np.array(found, np.int32)[place]

    def _step_into(self, path: int, name: str) -> int:
        if is_step(name) or self._depth[path] == DEEPEST:
            return path
        name = STANDALONE_NUMBER.sub("#", name)
        number = self._number.setdefault((path, name), len(self._name))
        if number == len(self._name):
            self._parent.append(path)
            self._depth.append(self._depth[path] + 1)
            self._name.append(name)
        return number


def _with_parents(parent: Ids, rows: Ids) -> Bools:
    """Mark rows (-1: none) and all that is around them."""
    inside = np.zeros(len(parent), np.bool_)
    fresh = distinct(rows[rows >= 0])
    while len(fresh):
        inside[fresh] = True
        outer = parent[fresh]
        fresh = distinct(outer[(outer >= 0) & ~take_or(inside, outer, otherwise=True)])
    return inside


def _children_of(order: Ids, sorted_parent: Ids, level: Ids) -> Ids:
    """Return the rows whose parents are ``level``, given all rows ordered by their parents."""
    first = np.searchsorted(sorted_parent, level, side="left")
    last = np.searchsorted(sorted_parent, level, side="right")
    return order[expand_ranges(first, last - first)[1]]
