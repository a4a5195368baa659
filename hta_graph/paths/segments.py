"""The accounting of a path in the words of its classes: who owns each stretch, of which class it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hta_graph.arrays import take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of
from hta_graph.model import (
    EDGE_MEANING,
    RETURNS,
    ROLE,
    Bools,
    BoundBy,
    Codes,
    EdgeEnd,
    EdgeKind,
    EdgeRole,
    Ids,
    Reason,
)
from hta_graph.paths.binding_edges import Stretches
from hta_graph.paths.path_stretches import path_stretches
from hta_graph.paths.pieces import SegmentTable
from hta_graph.paths.time_accounting import ALWAYS_EXPLAINED_NS, AccountedTime, TimeAccounting, TimePart
from hta_graph.paths.unexplained_reasons import UnexplainedTimes, open_calls, unexplained_reasons
from hta_graph.paths.walk_path import Chain
from hta_graph.paths.windows import Window

__all__ = ["OWNED_BY_SOURCE", "lag_classes", "owners_and_classes", "segments_of_paths"]

CLASS_OF_PART = {
    TimePart.WORK: BoundBy.CPU_BOUND,
    TimePart.IDLE: BoundBy.CPU_GAP,
    TimePart.CALL: BoundBy.CPU_BOUND,
    TimePart.EXCESS: BoundBy.UNEXPLAINED,
    TimePart.START: BoundBy.UNEXPLAINED,
}
"""The classes of parts that have one; that of an activity is its kind's, that of a lag its edge kind's."""

LAG_CLASS = np.array(
    [BoundBy.UNEXPLAINED if (bound := EDGE_MEANING[kind].lag) is None else bound for kind in EdgeKind], np.int8
)
OWNED_BY_SOURCE = np.array([EDGE_MEANING[kind].lag_owner == EdgeEnd.SOURCE for kind in EdgeKind])


def lag_classes(kinds: Codes) -> Codes:
    """Return the class of an explained lag on edges of some kinds."""
    found: Codes = LAG_CLASS[kinds]
    return found


def segments_of_paths(
    graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window], accounting: TimeAccounting
) -> list[SegmentTable]:
    """Return the pieces that tile each window, from the walk back from its sink."""
    stretches = path_stretches(graph, chains, windows)
    bounds = ([window.start_ns for window in windows], [window.end_ns for window in windows])
    accounts = accounting.divide(stretches, *(np.array(times, np.int64) for times in bounds))
    kind = stretches.kind[accounts.stretch]
    owner, bound = owners_and_classes(graph, accounts, stretches)
    # A lag is shown where its owner is; time before the first cause has a lane only where somebody owns it.
    lane = accounting.lanes(accounts, stretches)
    lagging, begins = np.isin(accounts.part, (TimePart.LAG, TimePart.EXCESS)), accounts.part == TimePart.START
    lane[lagging] = graph.event_table.lane[owner[lagging]]
    lane[begins & (owner < 0)] = -1
    kind[begins & (owner >= 0)] = EdgeKind.THREAD_ORDER
    inferred = take_or(graph.edge_table.inferred, stretches.edge[accounts.stretch], otherwise=False)
    reason, open_call = np.full(len(bound), -1, np.int8), np.full(len(bound), -1, np.int32)
    unknown = np.flatnonzero(bound == BoundBy.UNEXPLAINED)
    if len(unknown):
        holes = _unexplained_times(graph, accounts.take(unknown), stretches)
        reason[unknown], open_call[unknown] = _reasons_by_rank(graph, holes)
    part = _rank_of_stretches(graph, stretches, windows)[accounts.stretch]
    every = SegmentTable(accounts.start, accounts.end, kind, inferred, bound, owner, lane, part, reason, open_call)
    return every.merged(stretches.walk[accounts.stretch], len(windows))


def owners_and_classes(graph: DependencyGraph, accounts: AccountedTime, stretches: Stretches) -> tuple[Ids, Codes]:
    """Return whose the time of each part is (canonical row; -1: nobody's), and of what class."""
    kind = stretches.kind[accounts.stretch]
    return _segment_owners(accounts, stretches, kind), _segment_classes(graph, accounts, kind)


def _rank_of_stretches(graph: DependencyGraph, stretches: Stretches, windows: Sequence[Window]) -> Ids:
    """Return the place of the rank that each stretch is on: where it leads, else where it comes from, else the sink."""
    leads, comes = (
        graph.rank_index_of(np.where(points >= 0, event_of(points), -1))
        for points in (stretches.target, stretches.source)
    )
    points = np.array([window.sink.point for window in windows])
    sink = np.where(points >= 0, graph.rank_index_of(event_of(points)), 0)[stretches.walk]
    return np.where(leads >= 0, leads, np.where(comes >= 0, comes, sink)).astype(np.int32)


def _unexplained_times(graph: DependencyGraph, unknown: AccountedTime, stretches: Stretches) -> UnexplainedTimes:
    """Describe unexplained parts in full: what a window cuts off still tells why."""
    of = stretches.take(unknown.stretch)
    inside = unknown.part == TimePart.WORK
    launched = ROLE[of.kind] == EdgeRole.LAUNCH
    returned = np.where(launched, take_or(graph.event_table.end, np.where(launched, event_of(of.source), -1)), of.start)
    return UnexplainedTimes(
        np.where(inside, unknown.start, np.minimum(returned, of.end)), np.where(inside, unknown.end, of.end), of.kind,
        of.source, of.target, np.where(inside, unknown.owner, -1).astype(np.int32), of.lane,
    )  # fmt: skip


def _reasons_by_rank(graph: DependencyGraph, holes: UnexplainedTimes) -> tuple[Codes, Ids]:
    """Ask each rank about its own holes: what was enqueued when, what it stood in, is known of one rank alone."""
    reason, open_call = np.full(len(holes), Reason.UNKNOWN, np.int8), np.full(len(holes), -1, np.int32)
    rank = graph.rank_index_of(np.where(holes.target >= 0, event_of(holes.target), event_of(holes.source)))
    for place, part in enumerate(graph.parts):
        here = np.flatnonzero(rank == place)
        if len(here):
            own = holes.take(here).of_rank(part)
            reason[here] = unexplained_reasons(part.graph, own)
            open_call[here] = part.of_job(open_calls(part.graph, own))
    return reason, open_call


def _segment_owners(accounts: AccountedTime, stretches: Stretches, kind: Codes) -> Ids:
    """Return whose the time is: of a lag the waiting event's, of a launch the call's."""
    owner = accounts.owner.copy()
    lags = np.isin(accounts.part, (TimePart.LAG, TimePart.EXCESS, TimePart.CALL))
    of = stretches.take(accounts.stretch[lags])
    owner[lags] = event_of(np.where(OWNED_BY_SOURCE[kind[lags]], of.source, of.target))
    return owner


def _segment_classes(graph: DependencyGraph, accounts: AccountedTime, kind: Codes) -> Codes:
    part, owner = accounts.part, accounts.owner
    # By what the part is; lags, activities and work, which the part alone does not settle, follow.
    table = np.full(len(TimePart), -1, np.int8)
    table[list(CLASS_OF_PART)] = list(CLASS_OF_PART.values())
    bound = table[part]
    lags, active, works = part == TimePart.LAG, part == TimePart.ACTIVITY, part == TimePart.WORK
    bound[lags] = LAG_CLASS[kind[lags]]
    bound[active] = _activity_classes(graph)[owner[active]]
    bound[(part == TimePart.START) & (owner >= 0)] = BoundBy.CPU_GAP
    bound[works] = np.where(_blocks_without_source(graph)[owner[works]], BoundBy.UNEXPLAINED, BoundBy.CPU_BOUND)
    may_load = (bound == BoundBy.CPU_BOUND) | (bound == BoundBy.CPU_GAP)
    bound[may_load & accounts.is_loading] = BoundBy.DATA_LOADING
    return bound


@memoized
def _activity_classes(graph: DependencyGraph) -> Codes:
    """Return the class of each activity's own time, by event."""
    marks = graph.marks
    classes = np.full(len(graph.event_table), BoundBy.GPU_COMPUTE_BOUND, np.int8)
    classes[marks.communicates | graph.lanes.is_communication[graph.event_table.lane]] = BoundBy.GPU_COMMUNICATION_BOUND
    classes[marks.moves_memory] = BoundBy.GPU_MEMORY_BOUND
    classes[marks.waits_on_device] = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD
    return classes


@memoized
def _blocks_without_source(graph: DependencyGraph) -> Bools:
    """Mark blocking calls of which the graph does not know what they waited for.

    A short one with all its work done before it began had nothing left to wait for.
    """
    events = graph.event_table
    blind = graph.marks.blocking_call.copy()
    returns = graph.edges_of(*RETURNS)
    ended_inside = returns.source_ns >= events.start[returns.target]
    short = events.end[returns.target] - events.start[returns.target] <= ALWAYS_EXPLAINED_NS
    blind[returns.target[ended_inside | short]] = False
    # A synchronous copy needs no edge of its own: its call is known to have waited for what it launched.
    calls = graph.edges_of(EdgeKind.LAUNCH).source
    blind[calls[graph.marks.synchronous_copy_call[calls]]] = False
    return blind
