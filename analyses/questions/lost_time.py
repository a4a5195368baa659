"""Where a window goes that is no matrix work at the GPU's peak: below the limit, other work, communication, idle."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from analyses.questions.scope_limits import ScopeLimits
from hta_graph.activities import WorkType, activities
from hta_graph.arrays import summed_by, take_or
from hta_graph.exposure import exposure
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Codes, Floats, GapCause, Ints
from hta_graph.paths.gap_causes import GapExplainer
from hta_graph.paths.intervals import union
from hta_graph.stream_gaps import device_gaps

__all__ = ["PARTS", "loss_rows", "utilisation"]

PARTS = {
    "matrix_at_peak": "matrix work, as long as it would take at the peak of its type",
    "matrix_bound_by_memory": "matrix work that waits for memory",
    "matrix_below_limit": "matrix work below its limit",
    "matrix_without_limit": "matrix work of which no limit is known",
    "other_at_limit": "other work, as long as it would take at its limit",
    "other_below_limit": "other work below its limit",
    "other_without_limit": "other work of which no limit is known",
    "without_model": "computation of which the demand is not known",
    "exposed_communication": "communication while nothing computes",
    "exposed_copies": "copies from or to outside while nothing else runs",
    "idle": "an idle GPU",
}
"""Part of a window → what it is."""


class ActivityClass(IntEnum):
    """What an activity does; of several that run at once the first one here has the time."""

    MATRIX = 0
    OTHER = 1
    UNKNOWN = 2
    TALK = 3
    COPY = 4


def loss_rows(limits: ScopeLimits) -> list[dict[str, Any]]:
    """Divide a scope's window into :data:`PARTS`; the rows add up to it, to the nanosecond."""
    rows = [{"part": part, "cause": None, "time_ns": ns} for part, ns in _busy_time_parts(limits)]
    rows += [{"part": "idle", "cause": cause, "time_ns": ns} for cause, ns in _idle_causes(limits)]
    return [row for row in rows if row["time_ns"]]


def utilisation(limits: ScopeLimits) -> tuple[float, float]:
    """Return the FLOPs of a scope's matrix work, and the share of its window that they would take at the peak (MFU)."""
    scope, calls = limits.scope, limits.calls
    flops, ideal_ns = (
        float(np.nansum(limits.of_activities(np.where(calls.is_matrix, values, np.nan), scope.running)))
        for values in (calls.flops, calls.compute_ns)
    )
    known = limits.device is not None and scope.window_ns > 0
    return flops, ideal_ns / (scope.window_ns * max(len(scope.gpus), 1)) if known else np.nan


def _busy_time_parts(limits: ScopeLimits) -> Iterator[tuple[str, int]]:
    """Yield the parts in which the GPU works, by :class:`ActivityClass`."""
    # matrix          ####  ####        ####  ####
    # other work        ####  ##            ##
    # communication         ########              ####
    work, does = limits.scope.running, _classify_activities(limits)
    compute, limit = _shares_of_limits(limits)
    for kind in ActivityClass:
        own, before = does == kind, does < kind
        alone = exposure(work.take(own), union(work.start[before], work.end[before])).exposed
        yield from _parts_by_limit(kind, alone, compute[own], limit[own])


def _classify_activities(limits: ScopeLimits) -> Codes:
    """Say of each activity of a scope what it does."""
    work, calls, place = limits.scope.running, limits.calls, limits.found.places(limits.scope.running)
    number = limits.found.number[place]
    known = take_or(~np.isnan(np.fmax(calls.flops, calls.bytes)), number, otherwise=False)
    does = np.where(known, ActivityClass.OTHER, ActivityClass.UNKNOWN)
    does[take_or(calls.is_matrix, number, otherwise=False)] = ActivityClass.MATRIX
    does[work.type == WorkType.COMMUNICATION] = ActivityClass.TALK
    does[limits.found.host_copy[place]] = ActivityClass.COPY
    return does.astype(np.int8)


def _shares_of_limits(limits: ScopeLimits) -> tuple[Floats, Floats]:
    """Return which share of its time each activity would take for its arithmetic at the peak, and at its limit."""
    work, calls, found = limits.scope.running, limits.calls, limits.found
    place = found.places(work)
    total = np.maximum(found.operator_ns[place], 1)
    compute, limit = (
        take_or(values, found.number[place], otherwise=np.nan) / total for values in (calls.compute_ns, calls.limit_ns)
    )
    return np.minimum(compute, 1.0), np.minimum(limit, 1.0)


def _parts_by_limit(kind: ActivityClass, alone: Ints, compute: Floats, limit: Floats) -> Iterator[tuple[str, int]]:
    """Divide the time of one kind of work by its limits."""
    if kind in SINGLE:
        yield SINGLE[kind], int(alone.sum())
        return
    word, has_limit = ("matrix", "other")[kind], ~np.isnan(limit)
    at_limit = round(float((alone * limit)[has_limit].sum()))
    at_peak = round(float(np.nansum((alone * compute)[has_limit]))) if kind == ActivityClass.MATRIX else 0
    if kind == ActivityClass.MATRIX:
        yield "matrix_at_peak", at_peak
        yield "matrix_bound_by_memory", at_limit - at_peak
    else:
        yield "other_at_limit", at_limit
    yield f"{word}_below_limit", int(alone[has_limit].sum()) - at_limit
    yield f"{word}_without_limit", int(alone[~has_limit].sum())


SINGLE = {
    ActivityClass.UNKNOWN: "without_model",
    ActivityClass.TALK: "exposed_communication",
    ActivityClass.COPY: "exposed_copies",
}


def _idle_causes(limits: ScopeLimits) -> Iterator[tuple[str, int]]:
    """Yield why nothing runs, longest first."""
    scope = limits.scope
    gaps = device_gaps(scope.running, activities(scope.graph), scope.start_ns, scope.end_ns)
    pieces = _explainer(scope.graph).explain(gaps)
    sums = summed_by(pieces.cause, pieces.length, len(GapCause))
    for cause in sorted(GapCause, key=lambda one: -sums[one]):
        yield cause.label, int(sums[cause])


@memoized
def _explainer(graph: DependencyGraph) -> GapExplainer:
    return GapExplainer(graph)
