"""Names of events: those that count or measure, each there once, folded for tables; and how long each name is open.

    execute_context_3(512)_generation_40(40)  →  execute_context_#(#)_generation_#(#)

Rows lie in each other; over a time each name counts once, however often it is open:

    row A     |-----------------------|     a time inside the inner A has level 0 there, 1 in B and 2 in the outer A;
    row B       |-----------------|         it counts for A and for B once
    row A          |---------|
    time               ^
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct, expand_ranges, find_sorted, first_of_runs, freeze, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, EventKind, Ids, Ints

NUMBER = re.compile(r"\d+")
MANY_NAMES, VERY_MANY_NAMES = 20, 100
"""How many names are folded if they have several numbers or count what runs; and in any case: one number may be that
of a layer."""
COUNTED = re.compile(
    r"(?:step|iter(?:ation)?|batch|request|req|epoch|token|sample)s?(?:_?(?:id|idx|index|num|number))?[\W_]{0,3}#",
    re.IGNORECASE,
)
"""Words whose number counts runs of one program, not its parts: ``training_step_17``, ``iteration 3``."""
FEW_INSTANCES = 2
"""Names that recur as often are compared with each other, and stay."""


@dataclass(frozen=True)
class Labels:
    """What each event is called in tables, a code into ``texts``; how many names each of the ``folded`` stands for."""

    code: Ids
    texts: tuple[str, ...]
    folded: dict[str, int]


def row_labels(graph: DependencyGraph) -> tuple[Ids, Sequence[str]]:
    """Return of each event what tables of one rank call it, a code into texts; of a job the names as they are."""
    if graph.is_job:
        return graph.event_table.name, graph.names
    labels = annotation_labels(graph)
    return labels.code, labels.texts


@memoized
def annotation_labels(graph: DependencyGraph) -> Labels:
    """Return the events' names, with ``#`` for the numbers of annotations that would each be a row of its own.

    Serving engines write the sizes of each batch into its annotation, so that hardly a name recurs.
    """
    events = graph.event_table
    rows = (events.kind == EventKind.ANNOTATION) | (events.kind == EventKind.GPU_ANNOTATION)
    count = np.bincount(events.name[rows & (events.kind == EventKind.ANNOTATION)], minlength=len(graph.names))
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for code in distinct(events.name[rows]).tolist():
        if NUMBER.search(graph.names[code]) and not is_step(graph.names[code]):
            alike[NUMBER.sub("#", graph.names[code])].append(code)
    texts, spelled = list(graph.names), np.arange(max(len(graph.names), 1), dtype=np.int32)
    folded: Counter[str] = Counter()
    for text, codes in alike.items():
        counts = text.count("#") > 1 or COUNTED.search(text) is not None
        enough = MANY_NAMES if counts else VERY_MANY_NAMES
        if len(codes) >= enough and count[codes].sum() < FEW_INSTANCES * len(codes):
            spelled[codes] = len(texts)
            texts.append(text)
            folded[text] = len(codes)
    code = spelled[events.name]
    own = np.flatnonzero(graph.event_flags.profiler_overhead)
    for name in distinct(events.name[own]).tolist():
        code[own[events.name[own] == name]] = len(texts)
        texts.append(f"profiler overhead: {graph.names[name]}")
    return Labels(freeze(code), tuple(texts), dict(folded))


@memoized
def wrapped_frames(graph: DependencyGraph) -> Ids:
    """Return of each event the one to name for its time: of a frame that is a wrapper the first around it that is none.

    Of other events, and of wrappers that nothing is around, these themselves.
    """
    named, wraps = np.arange(len(graph.event_table), dtype=np.int32), graph.event_flags.wrapper_frame
    rows = np.flatnonzero(wraps)
    around = graph.nesting(EventKind.PYTHON_FUNCTION).parent if len(rows) else named
    outer = around[rows]
    while len(rows := rows[outer >= 0]):
        named[rows] = outer = outer[outer >= 0]
        rows, outer = rows[wraps[outer]], around[outer[wraps[outer]]]
    return freeze(named)


def rows_with_work(graph: DependencyGraph, kind: EventKind) -> Ids:
    """Return the events of a kind that work is launched in, or, where no call launches any, that operators run in."""
    calls, nesting = graph.event_flags.enqueueing_call, graph.nesting(kind)
    rows = np.flatnonzero(calls if calls.any() else graph.event_table.kind == EventKind.CPU_OP)
    innermost = distinct(graph.enclosing(rows, kind))
    return _with_rows_around(nesting.parent, innermost[innermost >= 0])


def time_by_open_name(parent: Ids, name: Ids, innermost: Ids, times: Ints, count: int) -> tuple[Ints, Ints]:
    """Return how long (ns) each name is open, and the lowest level at which it is (``count`` where it is not).

    Args:
        parent: the row around each row; -1 for none.
        name: the name of each row.
        innermost: the innermost row that is open at each time; -1 for none.
        times: how long (ns) each time is.
        count: how many names there are.
    """
    known = innermost >= 0
    rows = _with_rows_around(parent, innermost[known])
    around, names, here = find_sorted(parent[rows], rows), name[rows], np.searchsorted(rows, innermost[known])
    levels = _from_outermost(around)
    inside, level = summed_by(here, times[known], len(rows)), np.full(len(rows), len(rows))
    level[here] = 0
    size = np.ones(len(rows), np.int64)
    for inner in levels[:0:-1]:
        np.add.at(inside, around[inner], inside[inner])
        np.add.at(size, around[inner], size[inner])
        np.minimum.at(level, around[inner], level[inner] + 1)
    first_level = np.full(count, count)
    np.minimum.at(first_level, names, level)
    once = ~_is_inside_own_name(names, _depth_first_places(levels, around, size), size)
    return summed_by(names[once], inside[once], count), first_level


def _with_rows_around(parent: Ids, rows: Ids) -> Ids:
    """Return some rows and all around them, ascending, each once."""
    seen, front = np.zeros(len(parent), np.bool_), distinct(rows)
    while len(front):
        seen[front] = True
        front = distinct(parent[front])
        front = front[(front >= 0) & ~seen[front]]
    return np.flatnonzero(seen).astype(np.int32)


def _from_outermost(around: Ints) -> list[Ints]:
    """Return rows by how many are around them, rows in one row next to each other."""
    order = np.argsort(around, kind="stable")
    begins = np.searchsorted(around[order], np.arange(-1, len(around) + 1))
    levels, front = [], order[: begins[1]]
    while len(front):
        levels.append(front)
        front = order[expand_ranges(begins[front + 1], begins[front + 2] - begins[front + 1])[1]]
    return levels


def _depth_first_places(levels: list[Ints], around: Ints, size: Ints) -> Ints:
    """Number rows depth first: what is inside a row stands right behind it."""
    place = np.zeros(len(around), np.int64)
    for at, level in enumerate(levels):
        before = np.cumsum(size[level]) - size[level]
        if at:
            new = first_of_runs(around[level])
            before += place[around[level]] + 1 - before[new][np.cumsum(new) - 1]
        place[level] = before
    return place


def _is_inside_own_name(name: Ids, place: Ints, size: Ints) -> Bools:
    """Mark the rows that lie, at any depth, in a row of the same name."""
    order = np.lexsort((place, name))
    begin = name[order].astype(np.int64) * (len(name) + 1) + place[order]
    found = np.zeros(len(name), np.bool_)
    found[order[1:]] = begin[1:] < np.maximum.accumulate(begin + size[order])[:-1]
    return found
