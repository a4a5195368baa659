"""Which call launched which GPU activity: their common correlation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import find_sorted, freeze, take_or
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.table import EventTable, Trace


class CallsByCorrelation:
    """Runtime calls by their correlation; of two calls with one correlation the outermost.

    In traces of the profiler before Kineto, which have no calls, operators stand for them.
    """

    def __init__(self, events: EventTable) -> None:
        has_id = events.correlation > 0
        calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & has_id)
        if not len(calls):
            calls = np.flatnonzero((events.kind == EventKind.CPU_OP) & has_id)
        self._correlation, first = np.unique(events.correlation[calls], return_index=True)
        self._call = calls[first].astype(np.int32)

    def of(self, correlations: Ints) -> Ids:
        """Return the call with each correlation; -1 where the file has none."""
        calls: Ids = take_or(self._call, find_sorted(correlations, self._correlation))
        return calls


def launching_calls(trace: Trace) -> Ids:
    """Return for every event (canonical row) the call that launched it; -1 for orphans and for what is not on a GPU."""
    activities = np.flatnonzero(trace.is_gpu)
    calls = np.full(len(trace.events), -1, np.int32)
    calls[activities] = CallsByCorrelation(trace.events).of(trace.events.correlation[activities])
    return freeze(calls)


class Launches:
    """The calls that launched events and the operators around, each found when it is first asked for.

    It knows no graph, which keeps it and what asks it: so each goes when no one needs it any more.
    """

    def __init__(self, events: EventTable, timeline: Timeline, calls: Callable[[], Ids]) -> None:
        self._events, self._timeline, self._calls = events, timeline, calls

    @cached_property
    def call(self) -> Ids:
        """The call that launched each event; -1 for none."""
        return self._calls()

    @cached_property
    def operator_around(self) -> Ids:
        """The innermost operator around each operator and runtime call; -1 for none."""
        around = self._timeline.calls.parent.copy()
        kind = self._events.kind
        while (inside_call := (around >= 0) & (kind[around] == EventKind.RUNTIME)).any():
            around[inside_call] = around[around[inside_call]]
        return freeze(around)

    @cached_property
    def operator(self) -> Ids:
        """The innermost operator around the launch call of each GPU activity; -1 for none."""
        return freeze(take_or(self.operator_around, self.call))


def launched_before_recording(events: EventTable, work: Ids) -> Bools:
    """Mark work with a correlation below that of every call in the file: drivers count up, so its launch is older."""
    calls = (events.kind == EventKind.RUNTIME) & (events.correlation > 0)
    lowest = events.correlation[calls].min(initial=np.iinfo(np.int64).max)
    older: Bools = (events.correlation[work] > 0) & (events.correlation[work] < lowest) & calls.any()
    return older
