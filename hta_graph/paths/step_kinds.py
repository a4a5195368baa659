"""Kinds of steps: those that do the same, by what they call and enqueue, never by their lengths.

A step with a checkpoint, one that only accumulates gradients and one that updates the weights differ in their rows: the
annotations and outermost operators of the step's thread, and the GPU work that the step enqueues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hta_graph.base.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.memo import memoized
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.paths.windows import step_lengths

Content = Mapping[str, tuple[int, int, bool]]
"""What a step contains: how often each name occurs, its time (ns), and whether it is GPU work."""


class Kind(NamedTuple):
    """A kind of steps of a run: its number, and what it does that the most frequent kind does not."""

    number: int
    name: str


Signature = Callable[[Content], Hashable]

FEWEST_STEPS = 3
"""Of fewer steps none recurs."""


def names_and_counts(content: Content) -> Hashable:
    """Return what steps of a kind have in common: the same names equally often."""
    return frozenset((name, count) for name, (count, _, _) in content.items())


SIGNATURES: Sequence[Signature] = (names_and_counts, frozenset)
"""If numbers vary from step to step (with the length of the input), equal names are enough."""


@memoized
def kinds_in_run(graph: DependencyGraph) -> Mapping[int, Kind]:
    """Return the kind of each step, by the step's number; the most frequent kind is the first.

    All are of one kind if the steps hardly repeat, or if only a summary of a rank is known. Of a job it is the
    first rank with all steps that shows the kinds. Kinds of an engine's steps are their phases.
    """
    lengths = step_lengths(graph)
    numbers = [one.number for one in lengths]
    one_kind = dict.fromkeys(numbers, Kind(0, ""))
    if any(one.phase for one in lengths):
        phases = Counter(one.phase or "" for one in lengths)
        of_phase = {phase: Kind(at, phase) for at, (phase, _) in enumerate(phases.most_common())}
        return {one.number: of_phase[one.phase or ""] for one in lengths}
    known = (part.graph for part in graph.rank_graphs if part.graph.attached(RankSummary) is None)
    rank = next((rank for rank in known if {item.number for item in rank.steps()} >= set(numbers)), None)
    if rank is None or len(numbers) < FEWEST_STEPS:
        return one_kind
    contents = list(_contents(rank))
    for signature in SIGNATURES:
        kind, examples = numbered_kinds(contents, signature)
        if are_recurring(examples, contents):
            order = np.argsort(-np.bincount(kind), kind="stable").tolist()
            names = names_of_kinds([examples[one] for one in order])
            of = {one: Kind(at, names[at]) for at, one in enumerate(order)}
            return one_kind | {item.number: of[one] for item, one in zip(rank.steps(), kind.tolist(), strict=True)}
    return one_kind


def _contents(graph: DependencyGraph) -> Iterator[Content]:
    """Yield what each step of a rank contains."""
    events, gpu = graph.event_table, np.flatnonzero(graph.is_gpu)
    launched = take_or(events.start, graph.launching_call[gpu], otherwise=np.iinfo(np.int64).min)
    order = np.argsort(launched, kind="stable")
    gpu, launched = gpu[order], launched[order]
    for item in graph.steps():
        first, past = np.searchsorted(launched, (item.start_ns, item.until_ns))
        yield content_of_step(graph, item.start_ns, item.end_ns, gpu[first:past])


def content_of_step(
    graph: DependencyGraph, start_ns: int, end_ns: int, work: Ids | Ints, rename: Callable[[str], str] = str
) -> Content:
    """Return what a step calls on its thread, and its GPU work (rows), by name; ``rename`` makes names comparable."""
    events = graph.event_table
    rows = _rows_of_step_threads(graph)
    first, past = np.searchsorted(events.start[rows], (start_ns, end_ns))
    rows = np.concatenate([rows[first : max(first, past)], work])
    codes, place = np.unique(events.name[rows], return_inverse=True)
    place = place.reshape(-1)
    count = np.bincount(place, minlength=len(codes))
    ns = np.bincount(place, weights=events.end[rows] - events.start[rows], minlength=len(codes))
    on_gpu = np.isin(codes, events.name[work])
    found: dict[str, tuple[int, int, bool]] = {}
    for code, *own in zip(codes.tolist(), count.tolist(), ns.round().astype(np.int64).tolist(), on_gpu, strict=True):
        name = rename(graph.names[code])
        known = found.get(name, (0, 0, False))
        found[name] = (known[0] + own[0], known[1] + own[1], bool(own[2]))
    return found


@memoized
def _rows_of_step_threads(graph: DependencyGraph) -> Ids | Ints:
    """Return the annotations and outermost operators on the threads of the steps, by start.

    What other threads do crosses the borders of steps.
    """
    events = graph.event_table
    steps = np.array([is_step(name) for name in graph.names] or [False])[events.name]
    is_annotation = events.kind == EventKind.ANNOTATION
    threads = distinct(events.lane[[item.event for item in graph.steps()]])
    is_outermost = kind_mask(events.kind, (EventKind.CPU_OP,)) & (graph.operator_around < 0)
    own = np.flatnonzero(((is_annotation & ~steps) | is_outermost) & np.isin(events.lane, threads))
    rows: Ids | Ints = own[np.argsort(events.start[own], kind="stable")]
    return rows


def numbered_kinds(contents: Sequence[Content], signature: Signature) -> tuple[Ints, list[Content]]:
    """Number the signatures of steps by first appearance, with the content of the first step of each."""
    known: dict[Hashable, int] = {}
    number = np.array([known.setdefault(signature(content), len(known)) for content in contents], np.int64)
    return number, [contents[int(np.flatnonzero(number == one)[0])] for one in range(len(known))]


def are_recurring(examples: Sequence[Content], contents: Sequence[Content]) -> bool:
    """Return whether steps repeat: kinds of which there are as many as steps are none."""
    return len(examples) <= (len(contents) + 1) // 2


def names_of_kinds(kinds: Sequence[Content]) -> list[str]:
    """Describe each kind by what the first one, the most frequent, lacks, and that one by what it has more of."""
    if len(kinds) < 2:
        return [""]
    return [name_of_kind(kinds[0], kinds[1]), *(name_of_kind(own, kinds[0]) for own in kinds[1:])]


def name_of_kind(own: Content, other: Content) -> str:
    """Name what a kind has and another one lacks, the longest first; else what it lacks, has more or fewer of.

    What the host calls says more than the kernels that this enqueues.

    >>> usual, rare = {"aten::mm": (2, 80, False)}, {"aten::mm": (3, 90, False), "save": (1, 40, False)}
    >>> name_of_kind(rare, usual), name_of_kind(usual, rare), name_of_kind({"aten::mm": (3, 90, False)}, usual)
    ('with save', 'without save', 'with more aten::mm')
    """
    words = (
        ("with", own, other, True),
        ("without", other, own, True),
        ("with more", own, other, False),
        ("with fewer", other, own, False),
    )
    for on_gpu in (False, True):
        for word, has, lacks, entirely in words:
            named = {
                name: (ns, name)
                for name, (count, ns, where) in has.items()
                if where == on_gpu and count > lacks.get(name, (0,))[0] and not (entirely and name in lacks)
            }
            if named:
                return f"{word} {max(named, key=lambda name: named[name])}"
    return ""
