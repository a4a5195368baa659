"""Which work each GPU activity does: the operator that launched it, what that was given, and what it demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.activities import Activities, WorkType, activities
from hta_graph.arrays import summed_by, take_or
from hta_graph.errors import TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Ids, Ints
from hta_graph.roofline.recorded_calls import RecordedCall, RecordedCalls, recorded_calls

__all__ = ["OperatorActivities", "operator_activities"]


@dataclass(frozen=True)
class OperatorActivities:
    """The activities of a graph, in the order of :func:`activities`, with the calls of operators that launched them.

    ``operator`` is the canonical row of the operator (-1: none, or it says nothing of this activity), ``number`` which
    of ``calls`` it is, ``operator_ns`` how long all activities of the operator take together: an activity does that
    share of the operator's work. ``host_copy`` marks copies from and to the host. ``unread`` tells why the file could
    not be read again.
    """

    every: Activities
    operator: Ids
    number: Ints
    operator_ns: Ints
    host_copy: Bools
    calls: Sequence[RecordedCall]
    unread: str = ""

    @property
    def have_shapes(self) -> bool:
        """Whether shapes were recorded at all."""
        return any(one.call.inputs for one in self.calls)

    def places(self, work: Activities) -> Ints:
        """Return where some of the activities stand among all."""
        return np.searchsorted(self.every.row, work.row)


@memoized
def operator_activities(graph: DependencyGraph) -> OperatorActivities:
    """Find the operator of each activity, and read what these were given."""
    every = activities(graph)
    host_copy = _host_copies(graph, every)
    operator = _operators_with_inputs(graph, every, host_copy)
    try:
        calls, unread = _calls_of(graph, every, operator), ""
    except TraceError as error:  # a graph that was saved lives on without its trace's file
        calls, unread = RecordedCalls((), np.zeros(0, np.int64)), str(error)
        operator = np.full(len(every), -1, np.int32)
    known, length = operator >= 0, every.end - every.start
    rows, place = np.unique(operator[known], return_inverse=True)
    number, operator_ns = np.full(len(every), -1, np.int64), length.copy()
    number[known] = calls.number[place]
    operator_ns[known] = summed_by(place, length[known], len(rows))[place]
    return OperatorActivities(every, operator, number, operator_ns, host_copy, calls.calls, unread)


def _calls_of(graph: DependencyGraph, every: Activities, operator: Ids) -> RecordedCalls:
    """Read what each operator (ascending) was given, beside the name of the activity that took most of its time."""
    known = np.flatnonzero(operator >= 0)
    rows, place = np.unique(operator[known], return_inverse=True)
    order = np.lexsort((known, every.end[known] - every.start[known], place))
    longest = np.zeros(len(rows), np.int64)
    longest[place[order]] = known[order]  # the last one written is the longest
    return recorded_calls(graph, rows, graph.event_table.name[every.row[longest]])


def _host_copies(graph: DependencyGraph, every: Activities) -> Bools:
    """Mark the copies that leave the GPU's memory or come from outside; the others are work as any."""
    found = np.zeros(len(every), np.bool_)
    moves = np.flatnonzero(every.type == WorkType.MEMORY)
    kinds, kind = graph.marks.copy_kinds(every.row[moves])
    inside = np.array([name.endswith("DtoD") or "Memset" in name for name in kinds] or [False])
    found[moves] = ~inside[kind]
    return found


def _operators_with_inputs(graph: DependencyGraph, every: Activities, host_copy: Bools) -> Ids:
    """Return the operator whose inputs tell an activity's work; -1 where none does.

    The operator around the launch of a captured graph was given the inputs of the whole graph, not of one kernel.
    """
    found = graph.launching_operator[every.row]
    silent = (every.type == WorkType.COMMUNICATION) | host_copy
    silent |= take_or(graph.marks.graph_launch_call, every.call, otherwise=False)
    return np.where(silent, -1, found).astype(np.int32)
