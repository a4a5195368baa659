"""Rules of the host: the order on a thread, hand-offs between threads, forward and backward, the driver's lock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct, find_sorted, first_of_runs, is_among, last_of_runs, pair_key
from hta_graph.dependencies.context import RuleContext, slow_calls
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.timeline import Nesting
from hta_graph.model import Bools, EdgeKind, EdgeRule, EventKind, Ids, Ints
from hta_graph.trace.profiler_names import AUTOGRAD_OPERATOR, GLOO_COLLECTIVE, LOCK_TAKING_CALL, MESSAGE_ROWS


def thread_order(context: RuleContext) -> EdgeTable:
    """Link each point of a CPU thread to the next one there; the chain of points encodes the nesting."""
    points = context.timeline.calls.points
    # Points stand thread by thread: every one but a thread's first follows the one before it.
    same = np.flatnonzero(~first_of_runs(context.trace.events.lane[event_of(points)])) - 1
    return EdgeTable.of_kind(EdgeKind.THREAD_ORDER, points[same], points[same + 1])


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
    silence. Where rows next to a burst overlap the launching thread's other work, the two overlap and no thread
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
    return EdgeTable.of_kind(EdgeKind.THREAD_HANDOFF, pairs[0], pairs[1], EdgeRule.SILENCE_OF_LAUNCHING_THREAD)


def _autograd_threads(context: RuleContext) -> list[int]:
    events = context.trace.events
    named = context.trace.names_starting_with(AUTOGRAD_OPERATOR, EventKind.CPU_OP)[events.name]
    autograd = named & (events.kind == EventKind.CPU_OP)
    return [int(lane) for lane in distinct(events.lane[autograd])]


def _launching_threads(context: RuleContext) -> list[int]:
    """Return the two threads that ran most operators, the first of equals before others; none of Gloo's workers.

    What these copy for a collective they do for the thread that called, and wait for no autograd.
    """
    events = context.trace.events
    ops = np.bincount(events.lane[events.kind == EventKind.CPU_OP])
    gloo = context.trace.names_starting_with(GLOO_COLLECTIVE).copy()
    gloo[np.isin(context.trace.names, MESSAGE_ROWS)] = False
    workers = events.lane[(events.kind == EventKind.ANNOTATION) & gloo[events.name]]
    ops[workers[workers < len(ops)]] = 0
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
    """Mark the bursts whose neighbors on the thread do not overlap with the launching thread."""
    # A neighbor that reaches over the launching thread's work shows that nobody was waiting here.
    padded = np.concatenate([[True], inside, [True]])
    alone: Bools = padded[begin] & padded[finish + 2]
    return alone


def forward_backward(context: RuleContext) -> EdgeTable:
    """Link the end of a forward operator to the start of its backward operator.

    By the profiler's arrows where the file has them, else by autograd's sequence numbers: of the operators with one
    number the forward one started last, and so did the backward one (they name their forward thread), inside the
    engine's ``evaluate_function``. All 1,782 arrows of 16 public traces say the same. Pairs that do not follow each
    other in time are left out; an arrow that is recorded twice is one edge.
    """
    forward, backward = _by_flows(context) if len(context.trace.flows.start_time) else _by_sequence_number(context)
    events = context.trace.events
    ordered = (forward >= 0) & (backward >= 0)
    ordered &= events.end[forward] <= events.start[backward]
    context.notes["forward_backward_unresolved"] = int(np.count_nonzero(~ordered))
    forward, backward = forward[ordered], backward[ordered]
    once = np.sort(np.unique(pair_key(forward, backward), return_index=True)[1])
    return EdgeTable.of_kind(EdgeKind.FORWARD_BACKWARD, end_point(forward[once]), start_point(backward[once]))


def _by_flows(context: RuleContext) -> tuple[Ids, Ids]:
    flows = context.trace.flows
    return (
        _ops_starting_at(context, flows.start_lane, flows.start_time),
        _ops_starting_at(context, flows.end_lane, flows.end_time),
    )


def _ops_starting_at(context: RuleContext, lane: Ids, time: Ints) -> Ids:
    """Find the operator that starts at an instant on a thread: one with a sequence number first, then the outermost."""
    events = context.trace.events
    ops = np.flatnonzero(events.kind == EventKind.CPU_OP)
    ops = ops[is_among(events.start[ops], time)]
    # Several may start in one nanosecond: the arrow belongs to the one that autograd numbered.
    ranked = ops[np.argsort(events.sequence[ops] < 0, kind="stable")]
    known: dict[tuple[int, int], int] = {}
    for op, key in zip(
        ranked.tolist(), zip(events.lane[ranked].tolist(), events.start[ranked].tolist(), strict=True), strict=True
    ):
        known.setdefault(key, op)
    return np.array([known.get(key, -1) for key in zip(lane.tolist(), time.tolist(), strict=True)], np.int32)


def _by_sequence_number(context: RuleContext) -> tuple[Ids, Ids]:
    events = context.trace.events
    numbered = np.flatnonzero((events.kind == EventKind.CPU_OP) & (events.sequence >= 0))
    is_backward = events.forward_thread[numbered] > 0
    # From the back: unique then finds the operator that started last, the innermost of those with one number.
    backward, forward = numbered[is_backward][::-1], numbered[~is_backward][::-1]
    sequence, innermost = np.unique(events.sequence[backward], return_index=True)
    known, last = np.unique(events.sequence[forward], return_index=True)
    at = find_sorted(sequence, known)
    paired = at >= 0
    return forward[last[at[paired]]].astype(np.int32), backward[innermost[paired]].astype(np.int32)


RETURNED_TOGETHER_NS = 10_000


def runtime_lock(context: RuleContext) -> EdgeTable:
    """Link the return of a lock-taking call to the return of another thread's that waited for it.

    The waiter took at least five times its usual time and returned within 10 µs of the other, during which both were
    open. A laxer rule moved 27% of a real path to a watchdog thread.
    """
    events = context.trace.events
    calls = context.calls_named(LOCK_TAKING_CALL)
    by_end = calls[np.lexsort((calls, events.end[calls]))]
    waiters = slow_calls(context, calls)
    ends = events.end[by_end]
    found = [_lock_holder(context, by_end, ends, int(waiter)) for waiter in waiters.tolist()] if len(waiters) else []
    pairs = [(holder, waiter) for holder, waiter in zip(found, waiters.tolist(), strict=True) if holder >= 0]
    source, target = (np.array([pair[side] for pair in pairs], np.int32) for side in (0, 1))
    return EdgeTable.of_kind(EdgeKind.RUNTIME_LOCK, end_point(source), end_point(target), EdgeRule.RETURNED_TOGETHER)


def _lock_holder(context: RuleContext, by_end: Ids, ends: Ints, waiter: int) -> int:
    """Return the other thread's call that returned last before a waiter did, within 10 µs and inside it; -1: none."""
    events = context.trace.events
    earliest = max(int(events.start[waiter]), int(events.end[waiter]) - RETURNED_TOGETHER_NS)
    at = int(np.searchsorted(ends, events.end[waiter], side="left")) - 1
    # Calls of the waiter's own thread are passed over; within 10 µs there are a handful at most.
    while at >= 0 and ends[at] > earliest:
        if events.lane[by_end[at]] != events.lane[waiter]:
            return int(by_end[at])
        at -= 1
    return -1
