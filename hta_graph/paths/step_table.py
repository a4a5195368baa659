"""All steps side by side: how long each takes, what bounds it, of which kind it is, what the unusual ones contain.

Steps of a kind do the same, by what they call and enqueue, never by their lengths. A step with a checkpoint, one that
only accumulates gradients and one that updates the weights differ in their rows: the annotations and outermost
operators of the step's thread, and the GPU work that the step enqueues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hta_graph.base.arrays import distinct, take_or
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step, is_warm_up
from hta_graph.graph.memo import memoized
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.window_ends import steps_by_number
from hta_graph.paths.windows import StepLength, median_step, step, step_lengths

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
    rows, starts = _rows_of_step_threads(graph)
    first, past = np.searchsorted(starts, (start_ns, end_ns))
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
def _rows_of_step_threads(graph: DependencyGraph) -> tuple[Ints, Ints]:
    """Return the annotations and outermost operators on the threads of the steps, by start, and when they start (ns).

    What other threads do crosses the borders of steps.
    """
    events = graph.event_table
    steps = np.array([is_step(name) for name in graph.names] or [False])[events.name]
    is_annotation = events.kind == EventKind.ANNOTATION
    threads = distinct(events.lane[[item.event for item in graph.steps()]])
    is_outermost = kind_mask(events.kind, (EventKind.CPU_OP,)) & (graph.operator_around < 0)
    own = np.flatnonzero(((is_annotation & ~steps) | is_outermost) & np.isin(events.lane, threads))
    rows = own[np.argsort(events.start[own], kind="stable")]
    return rows, events.start[rows]


def numbered_kinds(contents: Sequence[Content], signature: Signature) -> tuple[Ints, list[Content]]:
    """Number the signatures of steps by first appearance, with the content of the first step of each."""
    known: dict[Hashable, int] = {}
    number = np.array([known.setdefault(signature(content), len(known)) for content in contents], np.int64)
    _, first = np.unique(number, return_index=True)
    return number, [contents[place] for place in first.tolist()]


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


OUTLIER_FACTOR = 1.5
"""A step is an outlier from this multiple of the iteration of its kind's median step on, and below its inverse."""

FEWEST_OF_KIND = 2
"""Steps that do what no other one does are compared with the median step of all."""


@dataclass(frozen=True)
class StepRow:
    """A step: its lengths (ns), the class that most of its critical path belongs to, how much of it has a cause.

    ``outlier`` describes what an unusual step contains; ``None`` for the usual ones. ``path`` is that of its usual
    window. Of an engine's step there are its phase, its batch and its tokens.
    """

    step: int
    iteration_ns: int
    latency_ns: int
    bound_by: str
    coverage: float
    outlier: str | None
    path: CriticalPath = field(repr=False, compare=False)
    phase: str | None = None
    requests: int | None = None
    tokens: int | None = None


def step_rows(
    graph: DependencyGraph,
    data_load: Sequence[str] = (),
    numbers: Collection[int] | None = None,
    known: CriticalPath | None = None,
) -> list[StepRow]:
    """List the steps in order of time; none if there are none. ``data_load`` is that of :func:`critical_path`.

    ``numbers`` are those of the steps to list, all if none are given; ``known`` is the path of the default window,
    if it was found before with the same ``data_load``.
    """
    lengths = step_lengths(graph)
    if not lengths:
        return []
    listed = [one for one in lengths if numbers is None or one.number in numbers]
    found = {known.window.step: known} if known and known.window.is_default and known.window.form == "usual" else {}
    others = [one.number for one in listed if one.number not in found]
    found |= zip(others, critical_paths(graph, [step(number) for number in others], data_load=data_load), strict=True)
    paths = [found[one.number] for one in listed]
    outliers = _outlier_texts(graph, listed, data_load)
    return [_step_row(*of) for of in zip(listed, paths, outliers, strict=True)]


def notable_steps(graph: DependencyGraph, chosen: int | None, most: int) -> set[int]:
    """Choose the steps to list where there are too many: a chosen one, the outliers and the first others."""
    lengths = step_lengths(graph)
    if len(lengths) <= most:
        return {one.number for one in lengths}
    usual = usual_steps(graph)
    told = sorted(lengths, key=lambda one: (one.number != chosen, not _is_outlier(graph, one, usual[one.number])))
    return {one.number for one in told[:most]}


@memoized
def usual_steps(graph: DependencyGraph) -> Mapping[int, StepLength]:
    """Return for each step, by its number, the one that it is compared with: the median of its kind, else of all."""
    lengths, chosen, kinds = step_lengths(graph), median_step()(graph).step, kinds_in_run(graph)
    median = next(one for one in lengths if one.number == chosen)
    of_kind: dict[int, list[StepLength]] = {}
    for one in lengths:
        # Of an engine's steps the candidates are of one phase, and each phase has a median of its own.
        if one.is_candidate or (one.phase and one.launches_work):
            of_kind.setdefault(kinds[one.number].number, []).append(one)
    usual = {
        kind: sorted(steps, key=lambda one: one.iteration_ns)[(len(steps) - 1) // 2]
        for kind, steps in of_kind.items()
        if len(of_kind) > 1 and (len(steps) >= FEWEST_OF_KIND or steps[0].phase)
    }
    return {one.number: usual.get(kinds[one.number].number, median) for one in lengths}


def kinds_of_unlike_length(graph: DependencyGraph) -> list[tuple[str, int, int]]:
    """Return the name, number and median iteration (ns) of the steps of each kind that recurs.

    There are none where kinds are so alike in length that no step of one would be an outlier among those of another.
    """
    usual, kinds = usual_steps(graph), kinds_in_run(graph)
    lengths = step_lengths(graph)
    counts = Counter(kinds[one.number] for one in lengths if one.is_candidate or (one.phase and one.launches_work))
    median = {
        kinds[one.number]: one.iteration_ns for one in usual.values() if counts[kinds[one.number]] >= FEWEST_OF_KIND
    }
    if max(median.values(), default=0) <= OUTLIER_FACTOR * min(median.values(), default=0):
        return []
    return [(kind.name, counts[kind], median[kind]) for kind in sorted(median)]


def neighbouring_steps(graph: DependencyGraph, chosen: int | None, most: int) -> set[int]:
    """Return a chosen step and its neighbors, the given number on each side."""
    numbers = [one.number for one in step_lengths(graph)]
    if chosen not in numbers:
        return set()
    place = numbers.index(chosen)
    return set(numbers[max(place - most, 0) : place + most + 1])


def _step_row(one: StepLength, path: CriticalPath, outlier: str | None) -> StepRow:
    # Of equal classes the one that comes first in the order of the table.
    bound_by = max(path.by_bound_ns.items(), key=lambda item: item[1])[0]
    lengths = (one.iteration_ns, one.latency_ns)
    _, item = steps_by_number(path.graph).get(one.number, (0, None))
    said = None if item is None else item.engine
    sizes = (None, None) if said is None else (said.requests, said.tokens)
    return StepRow(one.number, *lengths, bound_by, path.coverage, outlier, path, one.phase, *sizes)


def _outlier_texts(graph: DependencyGraph, steps: Sequence[StepLength], data_load: Sequence[str]) -> list[str | None]:
    """Say what each unusual step contains; nothing of the usual ones."""
    usual = usual_steps(graph)
    found = [_unusual_without_path(graph, one, usual[one.number]) for one in steps]
    longer = [at for at, one in enumerate(steps) if found[at] is None and _is_longer(graph, one, usual[one.number])]
    # The path of an iteration is as long as that, so the growth of its parts is all of the step's. A job has no other.
    windows = []
    for at in longer:
        median = usual[steps[at].number]
        on_gpu = median.launches_work or graph.is_job
        form = {"cpu_window": not on_gpu, "gpu_window": on_gpu and not _is_first(graph, steps[at])}
        windows += [step(number, **form) for number in (median.number, steps[at].number)]
    times = [_time_by_name(path) for path in critical_paths(graph, windows, data_load=data_load)]
    for at, was, now in zip(longer, times[::2], times[1::2], strict=True):
        found[at] = _growth_text(graph, was, now)
    return found


def _is_outlier(graph: DependencyGraph, one: StepLength, median: StepLength) -> bool:
    return _unusual_without_path(graph, one, median) is not None or _is_longer(graph, one, median)


def _unusual_without_path(graph: DependencyGraph, one: StepLength, median: StepLength) -> str | None:
    if median.launches_work and not one.launches_work:
        return "launches no GPU work"
    is_shorter = one.iteration_ns * OUTLIER_FACTOR < median.iteration_ns and not _is_first(graph, one)
    return "shorter than usual" if is_shorter else None


def _is_longer(graph: DependencyGraph, one: StepLength, median: StepLength) -> bool:
    usual_ns = max(median.iteration_ns, median.latency_ns) if _is_first(graph, one) else median.iteration_ns
    return one.iteration_ns > OUTLIER_FACTOR * usual_ns > 0


def _is_first(graph: DependencyGraph, one: StepLength) -> bool:
    """Return whether no earlier work ends before a step: its iteration is then compared with latencies."""
    return one.iteration_ns == one.latency_ns and steps_by_number(graph)[one.number][0] == 0


def _growth_text(graph: DependencyGraph, was: Mapping[tuple[int, str], int], now: Mapping[tuple[int, str], int]) -> str:
    """Say which name on which rank a step has more of than the median one."""
    most = max(now, key=lambda who: (now[who] - was.get(who, 0), who))
    rank, name = most
    where = f" on rank {rank}" if graph.is_job else ""
    if not name:
        return f"{milliseconds(now[most])} ms of nothing recorded{where}"
    return f"{name} {milliseconds(now[most])} ms{where}" + (": warm-up" if is_warm_up(name) else "")


def _time_by_name(path: CriticalPath) -> dict[tuple[int, str], int]:
    """Add up a path by the ranks and names on it; what has no owner is called nothing, the rank of one alone 0."""
    totals = path.event_totals()
    found: dict[tuple[int, str], int] = {}
    ranks = totals.get("rank", [0] * len(totals["name"]))
    for rank, name, time_ns in zip(ranks, totals["name"], totals["time_ns"].tolist(), strict=True):
        found[rank, name or ""] = found.get((rank, name or ""), 0) + time_ns
    return found
