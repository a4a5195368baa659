"""thread_handoff: the launching thread hands work to the autograd thread and waits for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import distinct, first_of_runs, last_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import event_of
from hta_graph.graph.timeline import Nesting
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints, Rule
from hta_graph.trace.profiler_names import AUTOGRAD_OPERATOR

__all__ = ["thread_handoff"]


@dataclass(frozen=True)
class _Silences:
    """The points of a launching thread, by their places; silence ``k`` lies before ``points[k]``."""

    points: Ids
    place: Ids

    def of(self, place: Ids) -> Ints:
        """Return in which silence each place lies."""
        return np.searchsorted(self.place, place)


def thread_handoff(context: RuleContext) -> EdgeTable:
    r"""Link the last point before a burst of autograd operators to its first one, and its last one to the next point.

    A burst is a run of outermost rows of one thread inside one silence of the launching thread, with an autograd
    operator among them. What the engine runs on the launching thread itself (gradients on the CPU) does not break the
    silence. Where rows next to a burst overlap the launching thread's other work, the two run side by side and nobody
    waits. Most traces have neither a marker on the main thread nor arrows.

        launching thread   [op]__________silence__________[op]
                              \                          /
        autograd thread        [backward op][backward op]       a burst
    """
    calls, threads = context.timeline.calls, _autograd_threads(context)
    # Where a gradient is computed on the CPU the engine borrows the launching thread, which waits all the same.
    launchers = {
        lane: _points_outside_autograd(context, calls, lane) for lane in _launching_threads(context) if threads
    }
    parts = [
        _handoffs_between(context, calls, lane, main)
        for lane in threads
        # The engine's own operators do not make it the thread that waits for it.
        for main in [points for launcher, points in launchers.items() if launcher != lane][:1]
    ]
    pairs = np.concatenate(parts, axis=1) if parts else np.empty((2, 0), np.int32)
    return EdgeTable.of_kind(EdgeKind.THREAD_HANDOFF, pairs[0], pairs[1], Rule.SILENCE_OF_LAUNCHING_THREAD)


def _autograd_threads(context: RuleContext) -> list[int]:
    events = context.trace.events
    autograd = context.trace.names_starting_with(AUTOGRAD_OPERATOR)[events.name] & (events.kind == EventKind.CPU_OP)
    return [int(lane) for lane in distinct(events.lane[autograd])]


def _launching_threads(context: RuleContext) -> list[int]:
    """Return the two threads that ran most operators, the first of equals before others."""
    events = context.trace.events
    ops = np.bincount(events.lane[events.kind == EventKind.CPU_OP])
    return [int(lane) for lane in np.argsort(-ops, kind="stable")[:2] if ops[lane]]


def _handoffs_between(context: RuleContext, calls: Nesting, lane: int, main: Ids) -> Ids:
    """Return the (source, target) points between a thread and the launching one's points, as two rows."""
    position = context.timeline.position
    silences = _Silences(main, position[main])
    start, end = _outermost_points(calls, lane)
    first, last = silences.of(position[start]), silences.of(position[end])
    # A row that reaches over a point of the launching thread ran beside its work; it is no part of any burst.
    inside = first == last
    # Rows inside one silence are one burst; each of the others stands for itself.
    own = np.where(inside, -1, np.arange(len(first)))
    begin, finish = np.flatnonzero(first_of_runs(first, own)), np.flatnonzero(last_of_runs(first, own))
    is_burst = inside[begin] & _has_autograd(context, start, begin, finish) & _launcher_waits(inside, begin, finish)
    begin, finish = begin[is_burst], finish[is_burst]
    silence = first[begin]
    # Before its first point the launching thread handed nothing over; after its last one nobody waits for the burst.
    there, back = silence > 0, silence < len(main)
    source = np.concatenate([main[silence[there] - 1], end[finish[back]]])
    target = np.concatenate([start[begin[there]], main[silence[back]]])
    return np.stack([source, target])


def _points_outside_autograd(context: RuleContext, calls: Nesting, lane: int) -> Ids:
    """Return a thread's points but those of, and inside, outermost rows of the autograd engine."""
    part = calls.lane_slice(lane)
    points, owner = calls.points[part], calls.owner[part]
    # A point opens an outermost row where nothing is open before it; all until the next such point lies inside.
    outermost = np.append(True, owner[:-1] < 0)[: len(points)]
    is_autograd = context.trace.names_starting_with(AUTOGRAD_OPERATOR)[context.trace.events.name[event_of(points)]]
    row = np.cumsum(outermost) - 1
    kept: Ids = points[~is_autograd[outermost][row]]
    return kept


def _outermost_points(calls: Nesting, lane: int) -> tuple[Ids, Ids]:
    """Return the start and end points of a thread's outermost rows."""
    part = calls.lane_slice(lane)
    points, owner = calls.points[part], calls.owner[part]
    outside_before = np.append(True, owner[:-1] < 0)
    return points[outside_before], points[owner < 0]


def _has_autograd(context: RuleContext, start: Ids, begin: Ints, finish: Ints) -> Bools:
    named = context.trace.names_starting_with(AUTOGRAD_OPERATOR)[context.trace.events.name[event_of(start)]]
    count = np.append(0, np.cumsum(named))
    found: Bools = count[finish + 1] > count[begin]
    return found


def _launcher_waits(inside: Bools, begin: Ints, finish: Ints) -> Bools:
    """Mark the bursts whose neighbours on the thread do not run beside the launching thread."""
    # A neighbour that reaches over the launching thread's work shows that nobody was waiting here.
    padded = np.concatenate([[True], inside, [True]])
    alone: Bools = padded[begin] & padded[finish + 2]
    return alone
