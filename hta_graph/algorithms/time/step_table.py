"""All steps side by side: how long each takes, what bounds it, and what the unusual ones contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hta_graph.algorithms.time.critical_path import CriticalPath, critical_path
from hta_graph.algorithms.time.median_step import StepLength, median_step, step_lengths
from hta_graph.algorithms.time.windows import step
from hta_graph.graph import DependencyGraph
from hta_graph.graph.marks import is_warm_up
from hta_graph.shown import milliseconds

__all__ = ["StepRow", "step_rows"]

LONG = 1.5
"""A step is an outlier from this multiple of the median step's iteration on, and below its inverse."""


@dataclass(frozen=True)
class StepRow:
    """A step: its lengths (ns), the class that most of its critical path belongs to, how much of it has a cause.

    ``outlier`` says in words what an unusual step contains; ``None`` for the usual ones. ``path`` is that of its usual
    window.
    """

    step: int
    iteration_ns: int
    latency_ns: int
    bound_by: str
    coverage: float
    outlier: str | None
    path: CriticalPath = field(repr=False, compare=False)


def step_rows(graph: DependencyGraph, data_load: Sequence[str] = ()) -> list[StepRow]:
    """List the steps in order of time; none if there are none. ``data_load`` is that of :func:`critical_path`."""
    lengths = step_lengths(graph)
    if not lengths:
        return []
    usual = median_step()(graph).step
    median = next(one for one in lengths if one.number == usual)
    rows = []
    for one in lengths:
        path = critical_path(graph, step(one.number), data_load=data_load)
        # Of equal classes the one that comes first in the order of the table.
        bound_by = max(path.by_bound_ns.items(), key=lambda item: item[1])[0]
        outlier = _outlier_text(graph, one, median, data_load)
        rows.append(StepRow(one.number, one.iteration_ns, one.latency_ns, bound_by, path.coverage, outlier, path))
    return rows


def _outlier_text(graph: DependencyGraph, one: StepLength, median: StepLength, data_load: Sequence[str]) -> str | None:
    if median.launches_work and not one.launches_work:
        return "launches no GPU work"
    # No end of earlier work is recorded before the first step: its iteration is a latency, compared with such.
    is_first = one.iteration_ns == one.latency_ns and one.number == graph.steps()[0].number
    usual_ns = max(median.iteration_ns, median.latency_ns) if is_first else median.iteration_ns
    if one.iteration_ns * LONG < usual_ns and not is_first:
        return "shorter than usual"
    if one.iteration_ns <= LONG * usual_ns or not usual_ns:
        return None
    # The path of an iteration is as long as that, so the growth of its parts is all of the step's.
    form = {"cpu_window": not median.launches_work, "gpu_window": median.launches_work and not is_first}
    was, now = (
        _time_by_name(critical_path(graph, step(number, **form), data_load=data_load))
        for number in (median.number, one.number)
    )
    name = max(now, key=lambda name: (now[name] - was.get(name, 0), name))
    if not name:
        return f"{milliseconds(now[name])} ms of nothing recorded"
    return f"{name} {milliseconds(now[name])} ms" + (": warm-up" if is_warm_up(name) else "")


def _time_by_name(path: CriticalPath) -> dict[str, int]:
    """Add up a path by the names on it; what has no owner is called nothing."""
    totals = path.event_totals()
    found: dict[str, int] = {}
    for name, time_ns in zip(totals["name"], totals["time_ns"].tolist(), strict=True):
        found[name or ""] = found.get(name or "", 0) + time_ns
    return found
