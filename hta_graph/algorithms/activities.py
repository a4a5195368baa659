"""The GPU activities of a graph as columns, and what kind of work each is."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from hta_graph.algorithms.attribution import launching_calls
from hta_graph.algorithms.intervals import Intervals, union
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, Codes, EventKind, Ids, Ints
from hta_graph.trace.table import Trace, freeze
from hta_graph.trace.vocabulary import COMMUNICATION_KERNEL, DEVICE_COPY, DEVICE_WAIT

__all__ = ["Activities", "WorkType", "activities", "communicates", "copies_on_device", "waits_on_device"]


class WorkType(IntEnum):
    """What a GPU activity does: compute, talk to other ranks, or move memory."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


@dataclass(frozen=True)
class Activities:
    """GPU activities in canonical order: canonical row, times (ns), lane, type of work, launching call (-1: none)."""

    row: Ids
    start: Ints
    end: Ints
    lane: Ids
    type: Codes
    call: Ids

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Ids | Ints | Bools) -> Activities:
        """Select activities, keeping their order."""
        return Activities(**{f.name: freeze(getattr(self, f.name)[chosen]) for f in fields(self)})

    def busy(self, *types: WorkType) -> Intervals:
        """Return when activities run, of some types or of all."""
        chosen = np.isin(self.type, types) if types else slice(None)
        return union(self.start[chosen], self.end[chosen])


def activities(graph: DependencyGraph) -> Activities:
    """Return all GPU activities of a graph: kernels, copies and sets by category, whatever their stream.

    MTIA writes the waits of its streams and its copies among the kernels: those are no work, these are memory.
    """
    trace = graph.trace
    rows = np.flatnonzero(trace.is_gpu & ~waits_on_device(trace)).astype(np.int32)
    events = trace.events
    types = np.where(events.kind[rows] == EventKind.KERNEL, WorkType.COMPUTATION, WorkType.MEMORY).astype(np.int8)
    types[copies_on_device(trace)[rows]] = WorkType.MEMORY
    types[communicates(trace)[rows]] = WorkType.COMMUNICATION
    calls = launching_calls(graph)[rows]
    return Activities(rows, events.start[rows], events.end[rows], events.lane[rows], types, calls)


def communicates(trace: Trace) -> Bools:
    """Mark the kernels that talk to other ranks: by their recorded collective, else by name."""
    talks = trace.events.collective | trace.matching_names(COMMUNICATION_KERNEL)[trace.events.name]
    kernels: Bools = talks & (trace.events.kind == EventKind.KERNEL)
    return kernels


def copies_on_device(trace: Trace) -> Bools:
    """Mark the rows of an MTIA device that move memory."""
    return _named_kernels(trace, DEVICE_COPY)


def waits_on_device(trace: Trace) -> Bools:
    """Mark the rows in which a stream of an MTIA device waits for an event or marks one."""
    return _named_kernels(trace, DEVICE_WAIT)


def _named_kernels(trace: Trace, pattern: re.Pattern[str]) -> Bools:
    named = trace.names_starting_with(pattern)[trace.events.name]
    kernels: Bools = named & (trace.events.kind == EventKind.KERNEL)
    return kernels
