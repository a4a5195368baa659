"""On whose behalf: the operators, Python frames, modules or annotations around a row, across threads too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hta_graph.attribution.graph_kernels import graph_kernels
from hta_graph.base.arrays import distinct, expand_ranges, find_sorted, freeze, summed_by, take_or
from hta_graph.base.errors import UsageError
from hta_graph.base.text.shorten import suggest_known
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.handoffs import autograd_bursts
from hta_graph.graph.timeline import Nesting, nearest_around
from hta_graph.model import CPU_KINDS, EdgeKind, EventKind, Ids, Ints, kind_mask


@dataclass(frozen=True)
class Owners:
    """Rows of one kind that enclose others.

    ``innermost`` finds the innermost one around each CPU row (canonical; -1 for row -1 and where there is none);
    ``above[owner]`` is the next one around an owner (-1: none).
    """

    innermost: Callable[[Ids], Ids]
    above: Ids

    def around(self, owners: Ids) -> tuple[Ints, Ids]:
        """Return owners (-1: none) and all above them, as pairs: the place in ``owners``, and the owner."""
        places, found = [np.arange(len(owners))], [owners]
        while len(found[-1]):
            above = np.where(found[-1] >= 0, self.above[found[-1]], -1)
            kept = above >= 0
            places.append(places[-1][kept])
            found.append(above[kept].astype(np.int32))
        return np.concatenate(places), np.concatenate(found)


@dataclass(frozen=True)
class OwnerTotals:
    """What rows weigh per label: ``own`` where an owner of that label is innermost, ``total`` where one is around.

    Label -1 stands for rows without an owner. The own weights sum to the weight of all rows; in the totals a row counts
    once per label, however often that label recurs around it. ``owners`` counts the owners with rows.
    """

    label: Ints
    owners: Ints
    own: Ints
    total_count: Ints
    total: Ints


def totals_by_label(found: Owners, labels: Ids, rows: Ids, weights: Ints) -> OwnerTotals:
    """Sum the weights of CPU rows (-1: none) per label of their owners; ``labels`` has one code (≥ 0) per event."""
    innermost, place_of = np.unique(found.innermost(rows), return_inverse=True)
    count = np.bincount(place_of, minlength=len(innermost))
    weight = summed_by(place_of, weights, len(innermost))
    place, owner = found.around(innermost)
    label = _labels_of(owner, labels)
    listed, group = np.unique(label, return_inverse=True)
    _, once = np.unique(group * len(innermost) + place, return_index=True)
    own = np.searchsorted(listed, _labels_of(innermost, labels))
    every = np.searchsorted(listed, _labels_of(distinct(owner), labels))
    return OwnerTotals(
        listed,
        np.bincount(every, minlength=len(listed)),
        summed_by(own, weight, len(listed)),
        summed_by(group[once], count[place[once]], len(listed)),
        summed_by(group[once], weight[place[once]], len(listed)),
    )


def rows_by_label(found: Owners, labels: Ids, rows: Ids) -> list[tuple[int, Ints]]:
    """Return for each label of the owners around CPU rows (-1: none) the places of these rows, each once."""
    # Rows under one innermost owner share everything around them: climb once per such owner, not once per row.
    innermost, place_of = np.unique(found.innermost(rows), return_inverse=True)
    place, owner = found.around(innermost)
    label = _labels_of(owner, labels)
    listed, group = np.unique(label, return_inverse=True)
    # An owner's label may recur around it (recursion): each pair of label and innermost owner counts once.
    _, once = np.unique(group * len(innermost) + place, return_index=True)
    # Rows in order of their innermost owner: those of one lie together, and a label's are some of these runs.
    count = np.bincount(place_of, minlength=len(innermost))
    length = count[place[once]]
    begin = (np.cumsum(count) - count)[place[once]]
    found_rows = np.argsort(place_of, kind="stable")[expand_ranges(begin, length)[1]]
    ends = np.cumsum(summed_by(group[once], length, len(listed)))
    parts = np.split(found_rows, ends[:-1]) if len(listed) else []
    return [(code, np.sort(part)) for code, part in zip(listed.tolist(), parts, strict=True)]


def _labels_of(owner: Ids, labels: Ids) -> Ints:
    found: Ints = take_or(labels, owner).astype(np.int64)
    return found


def owners(graph: DependencyGraph, kind: str) -> Owners:
    """Return the owners of one kind: ``operator``, ``frame``, ``module`` or ``annotation``.

    Operators are those of the row's own thread. Python frames and annotations are looked up on the thread that waits
    while the row's thread works for it, where that one has none of its own (autograd: a hand-off edge). Modules are the
    frames of ``torch.nn.Module`` calls; work of the backward pass belongs to the module of its forward operator. Rows
    of captures (:func:`calls_with_owners`) have owners among these.

    Raises:
        UsageError: another kind.
        TraceError: a capture cannot be read.
    """
    if kind not in OWNERS_BY_KIND:
        raise UsageError(f"there is no owner {kind!r}; {suggest_known(kind, OWNERS_BY_KIND)}")
    found, named = OWNERS_BY_KIND[kind](graph), graph_kernels(graph)
    if not named or kind == "annotation":
        return found
    parts = [OWNERS_BY_KIND[kind](capture) for capture in named.captures]
    above = [np.where(part.above >= 0, part.above + first, -1) for part, first in zip(parts, named.first, strict=False)]

    def innermost(rows: Ids) -> Ids:
        own = found.innermost(np.where(named.is_captured(rows), -1, rows).astype(np.int32)).copy()
        for part, here, of_capture in named.parts(rows):
            answered = parts[part].innermost(of_capture)
            own[here] = np.where(answered >= 0, answered + named.first[part], -1)
        return own

    return Owners(innermost, freeze(np.concatenate([found.above, *above]).astype(np.int32)))


def _operator_owners(graph: DependencyGraph) -> Owners:
    kind = graph.event_table.kind
    # What is open on a thread may be a runtime call: from there up to the operator around it.
    look = _EnclosingRows(graph, graph.calls)

    def innermost(rows: Ids) -> Ids:
        looked_up = nearest_around(graph.calls.parent, look.on_own_thread(rows), kind == EventKind.CPU_OP)
        nests = (rows >= 0) & kind_mask(kind[rows], CPU_KINDS)
        # Before Kineto an operator stands for the call, and owns what it launched.
        launches = nests & (kind[rows] == EventKind.CPU_OP) & (graph.event_table.correlation[rows] > 0)
        around = np.where(launches, rows, graph.operator_around[rows])
        return np.where(nests, around, looked_up).astype(np.int32)

    return Owners(innermost, graph.operator_around)


def _annotation_owners(graph: DependencyGraph) -> Owners:
    look = _EnclosingRows(graph, graph.nesting(EventKind.ANNOTATION))
    return Owners(look.on_some_thread, look.parents())


def _frame_owners(graph: DependencyGraph) -> Owners:
    look = _EnclosingRows(graph, graph.nesting(EventKind.PYTHON_FUNCTION))
    return Owners(look.on_some_thread, look.parents())


def _module_owners(graph: DependencyGraph) -> Owners:
    look = _EnclosingRows(graph, graph.nesting(EventKind.PYTHON_FUNCTION))
    is_module = graph.event_flags.module_frame
    above = look.parents()
    modules = np.flatnonzero(is_module).astype(np.int32)
    next_module = np.full(len(is_module), -1, np.int32)
    next_module[modules] = nearest_around(above, above[modules], is_module)
    forward = _ForwardOperators(graph)

    def innermost(rows: Ids) -> Ids:
        # The own thread's module; else that of the forward operator; else that of the thread that waits.
        own = nearest_around(above, look.on_own_thread(rows), is_module)
        missing = own < 0
        own[missing] = nearest_around(above, look.on_own_thread(forward.of(rows[missing])), is_module)
        missing = own < 0
        own[missing] = nearest_around(above, look.on_waiting_thread(rows[missing]), is_module)
        return own

    return Owners(innermost, freeze(next_module))


OWNERS_BY_KIND: dict[str, Callable[[DependencyGraph], Owners]] = {
    "operator": _operator_owners,
    "frame": _frame_owners,
    "module": _module_owners,
    "annotation": _annotation_owners,
}
"""Kinds of owners by name."""


class _EnclosingRows:
    """Looks up the innermost row of a nesting when CPU rows start, on their own thread or on the one that waits."""

    def __init__(self, graph: DependencyGraph, nesting: Nesting) -> None:
        self._graph = graph
        self._nesting = nesting

    def on_own_thread(self, rows: Ids) -> Ids:
        return self._open_at(rows, take_or(self._graph.event_table.lane, rows))

    def on_waiting_thread(self, rows: Ids) -> Ids:
        return self._open_at(rows, autograd_bursts(self._graph).waiting_lane(rows))

    def on_some_thread(self, rows: Ids) -> Ids:
        found = self.on_own_thread(rows)
        missing = found < 0
        found[missing] = self.on_waiting_thread(rows[missing])
        return found

    def parents(self) -> Ids:
        """Return the row around each row of the nesting; around an outermost one that on the waiting thread."""
        parents = self._nesting.parent.copy()
        rows = distinct(self._nesting.event)
        outermost = rows[parents[rows] < 0]
        parents[outermost] = self.on_waiting_thread(outermost)
        return freeze(parents)

    def _open_at(self, rows: Ids, lanes: Ids) -> Ids:
        """Find who is open on lanes (-1: none) when rows (-1: none) start."""
        return self._nesting.open_at(np.where(rows >= 0, lanes, -1), self._graph.event_table.start[rows])


class _ForwardOperators:
    """From work of the backward pass to the forward operator that it belongs to."""

    def __init__(self, graph: DependencyGraph) -> None:
        pairs = graph.edges_of(EdgeKind.FORWARD_BACKWARD)
        self._forward = np.full(len(graph.event_table), -1, np.int32)
        self._forward[pairs.target] = pairs.source
        self._calls = graph.calls
        self._look = _EnclosingRows(graph, self._calls)

    def of(self, rows: Ids) -> Ids:
        """Return the forward operator of the innermost backward operator around each row; -1 where there is none."""
        backward = nearest_around(self._calls.parent, self._look.on_own_thread(rows), self._forward >= 0)
        return np.where(backward >= 0, self._forward[backward], -1).astype(np.int32)


def gpu_annotations_over(graph: DependencyGraph, rows: Ids) -> Ids:
    """Return for each activity (canonical row) the shortest GPU annotation that it overlaps on its stream; -1: none.

    Overlap, not containment: clocks are rounded, and an annotation's copy ends with the last activity launched in it.
    """
    events = graph.event_table
    marks = np.flatnonzero(events.kind == EventKind.GPU_ANNOTATION).astype(np.int32)
    found = np.full(len(rows), -1, np.int32)
    for lane in distinct(events.lane[marks]).tolist():
        here = np.flatnonzero(events.lane[rows] == lane)
        found[here] = _shortest_over(graph, rows[here], marks[events.lane[marks] == lane])
    return found


def _shortest_over(graph: DependencyGraph, rows: Ids, marks: Ids) -> Ids:
    """Mark the rows of one stream, given in order of start, by its annotations."""
    start, end = graph.event_table.start, graph.event_table.end
    mark, place = _candidate_pairs(start[rows], end[rows], start[marks], end[marks])
    # The second half keeps activities of no length that start in the annotation's first nanosecond.
    overlaps = (end[rows[place]] > start[marks[mark]]) | (start[rows[place]] >= start[marks[mark]])
    mark, place = mark[overlaps], place[overlaps]
    length = (end - start)[marks[mark]]
    # Of several over one activity the shortest says most; of equally long ones the last in canonical order.
    order = np.lexsort((-mark, length, place))
    _, first = np.unique(place[order], return_index=True)
    found = np.full(len(rows), -1, np.int32)
    found[place[order][first]] = marks[mark[order][first]]
    return found


def _candidate_pairs(start: Ints, end: Ints, mark_start: Ints, mark_end: Ints) -> tuple[Ints, Ints]:
    """Pair each annotation with the rows from the first that may reach into it to the last that starts in it."""
    # Rows are in order of their starts, not of their ends: the running maximum of the ends can be searched.
    reach = np.maximum.accumulate(end) if len(end) else end
    first = np.searchsorted(reach, mark_start, side="left")
    count = np.maximum(np.searchsorted(start, mark_end, side="left") - first, 0)
    return expand_ranges(first, count)


def annotation_sources(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return the GPU annotations and the CPU annotation that each copies (same name and External id; -1: unknown)."""
    events = graph.event_table
    copies = np.flatnonzero(events.kind == EventKind.GPU_ANNOTATION).astype(np.int32)
    sources = np.flatnonzero(events.kind == EventKind.ANNOTATION).astype(np.int32)
    sources = sources[events.external_id[sources] > 0]
    if not len(sources):
        return copies, np.full(len(copies), -1, np.int32)
    sources = sources[np.argsort(events.external_id[sources], kind="stable")]
    ids = events.external_id[sources]
    at = find_sorted(events.external_id[copies], ids)
    same = (at >= 0) & (events.name[sources[at]] == events.name[copies])
    return copies, np.where(same, sources[at], -1).astype(np.int32)
