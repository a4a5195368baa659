"""On whose behalf the kernels of a CUDA graph's replay run: what was open around their launches during capture.

A replay has one call for all of its kernels. The recording of the capture has the others: rows beyond those of a graph
are rows of the captures, one after another, so that what looks up a row's owner finds it there as it does here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import freeze, take_or
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Ids, Ints

POSITION, UNCHECKED, COUNTS, QUEUES, EDITS = "position", "unchecked", "counts", "queues", "edits"
"""How a replay was aligned: all names equal; no names, but as many; as many of each name; by stream; fewest edits."""


@dataclass(frozen=True)
class Replay:
    """How one replay of a graph was named.

    ``call`` is its launch (canonical row), ``kernels`` how many rows it has and ``named`` how many of them have a name;
    ``rule`` says how they were aligned (empty: not at all) and ``edits`` how many rows differ; ``capture`` is the place
    of the capture. Where ``is_one_of_several``, other captured graphs have the same kernels and other shapes.
    """

    call: int
    kernels: int
    named: int = 0
    rule: str = ""
    edits: int = 0
    capture: int = -1
    is_one_of_several: bool = False


@dataclass(frozen=True)
class GraphKernels:
    """The launch during capture of each kernel of a replay.

    ``launch`` has one entry per event: a row of ``captures``, counted on from the graph's own rows; -1 where there is
    none.
    """

    own_rows: int
    launch: Ids
    captures: tuple[DependencyGraph, ...] = ()
    replays: tuple[Replay, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.captures)

    @cached_property
    def first(self) -> Ints:
        """Where the rows of each capture begin, and where the last one's end."""
        return self.own_rows + np.cumsum([0, *(len(graph.event_table) for graph in self.captures)])

    def is_captured(self, rows: Ids | Ints) -> Bools:
        """Mark the rows that are a capture's."""
        found: Bools = rows >= self.own_rows
        return found

    def calls(self, rows: Ids, calls: Ids) -> Ids:
        """Return for activities and their calls the launch during capture, else that call."""
        launch = self.launch[rows]
        return np.where(launch >= 0, launch, calls).astype(np.int32)

    def parts(self, rows: Ids | Ints) -> list[tuple[int, Ints, Ids]]:
        """Return for each capture that some rows are of its place, where these rows stand, and its own row numbers."""
        of = np.searchsorted(self.first, rows, side="right") - 1
        return [
            (part, here, (rows[here] - self.first[part]).astype(np.int32))
            for part in range(len(self.captures))
            if len(here := np.flatnonzero(of == part))
        ]


@dataclass(frozen=True, eq=False)
class CaptureSource:
    """Reads the captures of a rank when names are needed; attached to the rank's graph."""

    names_of: Callable[[DependencyGraph], GraphKernels]
    paths: tuple[Location, ...] = ()


@memoized
def graph_kernels(graph: DependencyGraph) -> GraphKernels:
    """Return the launches during capture of a graph's kernels; none without a capture.

    Raises:
        TraceError: a capture cannot be read, or is none.
    """
    source = graph.attached(CaptureSource)
    return source.names_of(graph) if source else GraphKernels(len(graph.event_table), freeze(_nothing(graph)))


def _nothing(graph: DependencyGraph) -> Ids:
    return np.full(len(graph.event_table), -1, np.int32)


def calls_with_owners(graph: DependencyGraph, kind: str, rows: Ids, calls: Ids) -> Ids:
    """Return the calls around which owners of a kind stand, for activities and their launching calls.

    That is the launch during capture where it is known. Annotations are those of the step that replays: a capture has
    none of it.
    """
    return calls if kind == "annotation" else graph_kernels(graph).calls(rows, calls)


def joined_codes(
    graph: DependencyGraph, codes_of: Callable[[DependencyGraph], tuple[Ids, Sequence[str]]]
) -> tuple[Ids, list[str]]:
    """Return the codes (-1: none) of a graph's rows and of its captures' rows, and the texts; equal texts have one."""
    codes, texts = codes_of(graph)
    captures = graph_kernels(graph).captures
    if not captures:
        return codes, list(texts)
    number = {text: code for code, text in reversed(list(enumerate(texts)))}
    every, listed = [codes], list(texts)
    for capture in captures:
        own, more = codes_of(capture)
        for text in more:
            if number.setdefault(text, len(listed)) == len(listed):
                listed.append(text)
        every.append(np.array([*(number[text] for text in more), -1], np.int32)[own])
    return np.concatenate(every), listed


def row_names(graph: DependencyGraph) -> tuple[Ids, list[str]]:
    """Return the name codes of a graph's rows and of its captures', and the names."""
    return joined_codes(graph, lambda one: (one.event_table.name, one.names))


def in_own_rows(graph: DependencyGraph, rows: Ids, answer: Callable[[DependencyGraph, Ids], Ids]) -> Ids:
    """Answer a question about rows (-1: none), those of captures by their graphs, with rows counted as these."""
    named = graph_kernels(graph)
    own = np.where(named.is_captured(rows), -1, rows).astype(np.int32)
    found = answer(graph, own)
    for part, here, of_capture in named.parts(rows):
        answered = answer(named.captures[part], of_capture)
        found[here] = np.where(answered >= 0, answered + named.first[part], -1)
    return found


def rows_by_graph(graph: DependencyGraph, rows: Ids | Ints) -> list[tuple[DependencyGraph, Ints, Ids]]:
    """Divide rows of a graph and its captures: for each graph with some, where they stand and its own row numbers."""
    named = graph_kernels(graph)
    own = np.flatnonzero((rows >= 0) & ~named.is_captured(rows))
    captured = [(named.captures[part], here, of_part) for part, here, of_part in named.parts(rows)]
    return [(graph, own, rows[own].astype(np.int32)), *captured]


def operator_of_activities(graph: DependencyGraph, rows: Ids) -> Ids:
    """Return the innermost operator around the launch of activities, during capture where it is known; -1: none."""
    launch = graph_kernels(graph).launch[rows]
    found = in_own_rows(graph, launch, lambda one, calls: take_or(one.operator_around, calls).astype(np.int32))
    return np.where(launch >= 0, found, graph.launching_operator[rows]).astype(np.int32)
