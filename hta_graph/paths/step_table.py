"""All steps side by side: how long each takes, what bounds it, and what the unusual ones contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_warm_up
from hta_graph.graph.memo import memoized
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.step_kinds import kinds_in_run
from hta_graph.paths.window_ends import steps_by_number
from hta_graph.paths.windows import StepLength, median_step, step, step_lengths

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
