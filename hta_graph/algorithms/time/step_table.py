"""All steps side by side: how long each takes, what bounds it, and what the unusual ones contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hta_graph.algorithms.time.critical_path import CriticalPath, critical_path
from hta_graph.algorithms.time.median_step import StepLength, median_step, step_lengths
from hta_graph.algorithms.time.path_meetings import holding_part
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
    window. Of a job ``held_up_by`` is the rank that holds up the step, if one does.
    """

    step: int
    iteration_ns: int
    latency_ns: int
    bound_by: str
    coverage: float
    outlier: str | None
    held_up_by: int | None
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
        lengths_of = (one.iteration_ns, one.latency_ns)
        rows.append(StepRow(one.number, *lengths_of, bound_by, path.coverage, outlier, _holding_rank(path), path))
    return rows


def _holding_rank(path: CriticalPath) -> int | None:
    part = holding_part(path)
    return path.graph.parts[part].rank if part >= 0 else None


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
    # The path of an iteration is as long as that, so the growth of its parts is all of the step's. A job has no other.
    on_gpu = median.launches_work or len(graph.parts) > 1
    form = {"cpu_window": not on_gpu, "gpu_window": on_gpu and not is_first}
    was, now = (
        _time_by_name(critical_path(graph, step(number, **form), data_load=data_load))
        for number in (median.number, one.number)
    )
    most = max(now, key=lambda who: (now[who] - was.get(who, 0), who))
    rank, name = most
    where = f" on rank {rank}" if len(graph.parts) > 1 else ""
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
