"""Files without correlations: a call launched the kernel that has its unique External id and the name it tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hta_graph.arrays import find_sorted, freeze
from hta_graph.model import EventKind, Ints
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.table import Trace

KERNEL_OF_CALL = "kernel"
"""The argument in which calls name the kernel that they launch (AMD: 2,238 of 2,238 in a public trace are right)."""


def match_launches_by_external_id(trace: Trace) -> Trace:
    """Give calls and the kernels that they launched a common correlation, where no row of the file has one.

    External ids are those of operators, which may launch several kernels: an id counts where one kernel and one of the
    calls that name a kernel have it, and it is that kernel's name. Their number is among the diagnostics, and their
    edges are inferred.

    Raises:
        TraceError: the file is gone or has changed.
    """
    events = trace.events
    if not len(events) or (events.correlation > 0).any():
        return trace
    calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.external_id > 0))
    kernels = np.flatnonzero((events.kind == EventKind.KERNEL) & (events.external_id > 0))
    if not len(calls) or not len(kernels):
        return trace
    named = read_event_args(trace, [KERNEL_OF_CALL], calls)[KERNEL_OF_CALL]
    launches = np.array([name is not None for name in named.tolist()])
    calls, named = calls[launches], named[launches]
    first, kernels = _unique_rows(events.external_id[calls]), kernels[_unique_rows(events.external_id[kernels])]
    calls, named = calls[first], named[first]
    place = find_sorted(events.external_id[calls], events.external_id[kernels])
    same = np.array(
        [at >= 0 and name == trace.name_of(kernels[at]) for at, name in zip(place, named, strict=True)], bool
    )
    correlation = events.correlation.copy()
    for rows in (calls[same], kernels[place[same]]):
        correlation[rows] = events.external_id[rows]
    counts = {**trace.diagnostics, "launches_by_external_id": int(np.count_nonzero(same))}
    return replace(trace, events=replace(events, correlation=freeze(correlation)), diagnostics=counts)


def _unique_rows(ids: Ints) -> Ints:
    """Return the rows of the ids that occur once, by id.

    >>> _unique_rows(np.array([7, 5, 7, 3])).tolist()
    [3, 1]
    """
    _, first, count = np.unique(ids, return_index=True, return_counts=True)
    unique: Ints = first[count == 1]
    return unique
