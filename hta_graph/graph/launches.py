"""Which call launched which GPU activity: their common correlation."""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import find_sorted, freeze, take_or
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


def launched_before_recording(events: EventTable, work: Ids) -> Bools:
    """Mark work with a correlation below that of every call in the file: drivers count up, so its launch is older."""
    calls = (events.kind == EventKind.RUNTIME) & (events.correlation > 0)
    lowest = events.correlation[calls].min(initial=np.iinfo(np.int64).max)
    older: Bools = (events.correlation[work] > 0) & (events.correlation[work] < lowest) & calls.any()
    return older
