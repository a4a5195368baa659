"""Changes of a window, small values that compose: scale, remove, insert, reroute, weigh.

    hg.replay(graph, [hg.scale("kernel:gemm", 0.5), hg.remove("operator:aten::item")])

A change is any callable that edits a draft of the window; your own functions work, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hta_graph.base.arrays import take_or
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.text.shorten import suggest_known
from hta_graph.graph.dependency_graph import DependencyGraph, EventName
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import LONGEST_NS, BoundBy, EdgeKind, Floats, Ids, Ints
from hta_graph.paths.time_accounting import TimePart
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.selectors import Selector, selected_events, selected_parts

Change = Callable[[ModifiedWindow], None]
"""What edits a draft."""

PointName = Literal["start", "end"]


@dataclass(frozen=True)
class Scaling:
    """A thing's time is multiplied; see :func:`scale`."""

    what: Selector
    factor: float

    def __call__(self, draft: ModifiedWindow) -> None:
        """Change a draft."""
        # What grows beyond all numbers is refused when all changes are made.
        with np.errstate(over="ignore", invalid="ignore"):
            draft.factor[selected_parts(draft.base, self.what)] *= self.factor

    def __str__(self) -> str:
        return f"scale {self.what} = {self.factor:g}"


def scale(what: str, factor: float) -> Change:
    """Multiply the time that something takes in the window by a factor: 0.5 is 2x speed, 0 is no time.

    Args:
        what: ``KIND:PATTERN``, where KIND is kernel, operator, module, frame, annotation (the last four with all that
            they enclose and launch), collective (its transfer), class or rank; a bare pattern means events of any kind.
        factor: finite and not negative.

    Raises:
        UsageError: ``what`` is not valid, or the factor is not finite or is negative.
    """
    number = _as_number_or_nan(factor)
    if not 0 <= number < math.inf:
        raise UsageError(f"the factor of {what!r} is {factor}; give a finite number of at least 0")
    return Scaling(Selector.of(what), number)


def scale_activities(rows: Ids, factor: Floats) -> Change:
    """Multiply the time of single activities in the window, each by its own factor.

    Args:
        rows: canonical rows, each at most once.
        factor: one for each of them.
    """

    def change(draft: ModifiedWindow) -> None:
        parts = draft.base.parts
        factors = np.ones(len(draft.base.graph.event_table))
        factors[rows] = factor
        runs = draft.base.may_change & (parts.part == TimePart.ACTIVITY)
        draft.factor[runs] *= take_or(factors, parts.owner[runs], otherwise=1.0)

    return change


ON_GPU = (EdgeKind.STREAM_ORDER, EdgeKind.EVENT_WAIT, EdgeKind.GRAPH_ORDER)


def overlap_activities(rows: Ids) -> Change:
    """Let some activities run next to the others, as on a stream of their own, in their order.

    They still wait for what they waited for. Of the others only those wait for them that waited for a stream's last one
    in the window.

        one stream     [gemm 1][all-reduce 1][gemm 2][all-reduce 2][gemm 3]
        next to it     [gemm 1][gemm 2]                            [gemm 3]
                               [all-reduce 1][all-reduce 2]

    Args:
        rows: canonical rows.
    """

    def change(draft: ModifiedWindow) -> None:
        graph, edges, inside = draft.base.graph, draft.base.edges, draft.base.is_inside
        moved = np.zeros(len(graph.event_table), np.bool_)
        moved[rows] = True
        own = np.flatnonzero(graph.is_activity & moved)
        own = own[inside[end_point(own)]]
        last = own[len(own) - 1 - np.unique(graph.event_table.lane[own][::-1], return_index=True)[1]]
        at = np.flatnonzero(np.isin(take_or(graph.edge_table.kind, edges.row), ON_GPU))
        source, target = event_of(edges.source[at]), event_of(edges.target[at])
        draft.dropped[at[moved[source] & ~np.isin(source, last) & ~moved[target] & graph.is_activity[target]]] = True
        others = np.flatnonzero(graph.is_activity & ~moved)
        for kind in (own, others[inside[start_point(others)]]):
            draft.added.append(_stream_order(graph, kind))

    return change


def _stream_order(graph: DependencyGraph, rows: Ids | Ints) -> tuple[Ids, Ids, Ints]:
    """Return edges from each of some activities to the next of them on its stream, unless they overlap."""
    lane, events = graph.event_table.lane, graph.event_table
    rows = rows[np.argsort(lane[rows], kind="stable")]
    before, after = rows[:-1], rows[1:]
    follows = (lane[before] == lane[after]) & (events.end[before] <= events.start[after])
    none = np.zeros(int(follows.sum()), np.int64)
    return end_point(before[follows]), start_point(after[follows]), none


def _as_number_or_nan(value: Any) -> float:
    """Return a number as a float; what is none, or has no room in one, is not a number."""
    try:
        return math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


@dataclass(frozen=True)
class Removal:
    """Something is removed; see :func:`remove`."""

    what: Selector

    def __call__(self, draft: ModifiedWindow) -> None:
        """Change a draft."""
        base, parts = draft.base, draft.base.parts
        gone = selected_parts(base, self.what)
        if self.what.kind not in ("class", "rank"):
            # Work that is not there is neither launched nor waited with.
            owners = np.zeros(len(base.graph.event_table), np.bool_)
            owners[parts.owner[gone & (parts.owner >= 0)]] = True
            owners |= _calls_without_work(draft, owners)
            gone = gone | (take_or(owners, parts.owner, otherwise=False) & (parts.bound != BoundBy.UNEXPLAINED))
        draft.factor[gone & base.may_change] = 0.0

    def __str__(self) -> str:
        return f"remove {self.what}"


def _calls_without_work(draft: ModifiedWindow, removed: Any) -> Any:
    """Mark the launching calls of which nothing is left: a call goes when all that it launched goes."""
    launches = draft.base.graph.edges_of(EdgeKind.LAUNCH)
    goes = np.zeros(len(removed), np.bool_)
    goes[launches.source[removed[launches.target]]] = True
    goes[launches.source[~removed[launches.target]]] = False
    return goes


def remove(what: str) -> Change:
    """Remove something: its time and, for GPU work, its launch call and the lags before it.

    Raises:
        UsageError: ``what`` is not valid.
    """
    return Removal(Selector.of(what))


@dataclass(frozen=True)
class _Insert:
    what: Selector
    duration_ns: int
    before: bool

    def __call__(self, draft: ModifiedWindow) -> None:
        edges, rows = draft.base.edges, selected_events(draft.base, self.what)
        side, points = (edges.target, start_point(rows)) if self.before else (edges.source, end_point(rows))
        marked = np.zeros(len(draft.base.times), np.bool_)
        marked[points] = True
        draft.extra[marked[side]] += self.duration_ns

    def __str__(self) -> str:
        return f"insert {self.duration_ns:,} ns {'before' if self.before else 'after'} {self.what}"


def insert(what: str, duration_ns: int, *, before: bool = True) -> Change:
    """Insert work of a given duration (ns) before (or after) every matching event that starts in the window.

    Raises:
        UsageError: the duration is not a whole number from 0 to a year, or ``what`` is not valid.
    """
    if not _is_whole_ns(duration_ns) or duration_ns < 0:
        raise UsageError(f"the duration to insert is {duration_ns!r}; give whole nanoseconds from 0 to a year")
    return _Insert(Selector.of(what), int(duration_ns), before)


def _is_whole_ns(value: Any) -> bool:
    """Return whether a value, of Python or NumPy, is a time in whole nanoseconds, of no more than a year."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) <= LONGEST_NS


LinkedPoints = tuple[EventName, PointName, EventName, PointName, int]


@dataclass(frozen=True)
class _Reroute:
    drop: tuple[EdgeKind, ...]
    into: Selector | None
    add: tuple[LinkedPoints, ...]

    def __call__(self, draft: ModifiedWindow) -> None:
        base = draft.base
        rows = base.edges.row
        kind = take_or(base.graph.edge_table.kind, rows)
        gone = np.isin(kind, self.drop)
        if self.into is not None:
            meant = np.zeros(len(base.graph.event_table), np.bool_)
            meant[selected_events(base, self.into)] = True
            gone &= meant[event_of(base.edges.target)]
        if self.drop and not gone.any():
            labels = ", ".join(kind.label for kind in self.drop)
            raise QueryError(f"{base.graph.path}: {base.window.label} has no edge of kind {labels} to drop")
        draft.dropped |= gone
        if self.add:
            source, target, lag = (
                np.array(column, np.int64) for column in zip(*map(self._link(draft), self.add), strict=True)
            )
            draft.added.append((source.astype(np.int32), target.astype(np.int32), lag))

    @staticmethod
    def _link(draft: ModifiedWindow) -> Callable[[LinkedPoints], tuple[int, int, int]]:
        graph = draft.base.graph

        def points(link: LinkedPoints) -> tuple[int, int, int]:
            source, source_point, target, target_point, lag = link
            ends = [
                2 * graph.row_of(name) + (side == "end")
                for name, side in ((source, source_point), (target, target_point))
            ]
            for event, point in ((source, ends[0]), (target, ends[1])):
                if graph.timeline.position[point] < 0:
                    raise QueryError(
                        f"{graph.path}: event {event} is of a kind without edges; use an operator, a call or GPU work"
                    )
            if not draft.base.is_inside[ends[1]]:
                raise QueryError(
                    f"{graph.path}: event {target} is outside {draft.base.window.label} and keeps its time",
                    "choose an event inside",
                )
            return ends[0], ends[1], lag

        return points

    def __str__(self) -> str:
        dropped = f"drop {', '.join(kind.label for kind in self.drop)} edges" if self.drop else ""
        into = f" to {self.into}" if self.into else ""
        added = f"add {len(self.add)} edges" if self.add else ""
        return "reroute: " + ", ".join(filter(None, [dropped + into, added]))


def reroute(*, drop: Sequence[str] = (), into: str | None = None, add: Sequence[LinkedPoints] = ()) -> Change:
    """Change dependencies: drop edges of some kinds, and add others.

    Args:
        drop: edge kinds, as in output.
        into: drop only those that lead to events of this name.
        add: edges as (event, "start" | "end", event, "start" | "end", lag in ns): the second point cannot come earlier
            than the first plus the lag.

    Raises:
        UsageError: there is no such kind or point, or neither drop nor add is given.
    """
    known = {kind.label: kind for kind in EdgeKind}
    wrong = [label for label in drop if label not in known]
    if wrong:
        raise UsageError(f"there is no edge kind {wrong[0]!r}; {suggest_known(str(wrong[0]), known)}")
    if not drop and not add:
        raise UsageError("a reroute drops or adds edges; give drop or add")
    for link in add:
        if len(link) != 5 or {link[1], link[3]} - {"start", "end"} or not _is_whole_ns(link[4]):
            raise UsageError(
                f'{link!r} is not an edge; give (event, "start" or "end", event, "start" or "end", lag in ns)'
            )
    return _Reroute(tuple(known[label] for label in drop), Selector.of(into) if into else None, tuple(add))


@dataclass(frozen=True, eq=False)
class _ReplaceWeights:
    rows: Ints
    weight: Ints

    def __call__(self, draft: ModifiedWindow) -> None:
        graph = draft.base.graph
        number = np.full(len(graph.edge_table), -1, np.int64)
        wrong = self.rows[(self.rows < 0) | (self.rows >= len(number))]
        if len(wrong):
            raise QueryError(
                f"{graph.path}: there is no edge {wrong[0]}; rows of graph.edges are 0 to {len(number) - 1}"
            )
        own = draft.base.edges.row >= 0
        number[draft.base.edges.row[own]] = np.flatnonzero(own)
        at = number[self.rows]
        given = self.weight[at >= 0]
        at = at[at >= 0]
        draft.weighed[at] = given - draft.base.edges.weight[at]

    def __str__(self) -> str:
        return f"weigh {len(self.rows):,} edges"


def weigh(edge_rows: Any, weight_ns: Any) -> Change:
    """Replace the measured weights (ns) of edges by your own; factors of other changes apply to your weights.

    Args:
        edge_rows: rows of ``graph.edges``.
        weight_ns: one per row, or one for all.

    Raises:
        UsageError: they are not whole numbers, or their number does not match.
    """
    rows, weight = np.atleast_1d(np.asarray(edge_rows)), np.asarray(weight_ns)
    if rows.dtype.kind not in "iu" or weight.dtype.kind not in "iu":
        raise UsageError("edge rows and weights are whole numbers; give integers (weights in ns)")
    if weight.shape not in ((), (1,), rows.shape):
        raise UsageError(f"{len(rows)} edges do not fit {weight.size} weights; give one per edge, or one for all")
    if not all(_is_whole_ns(extreme) for extreme in (weight.min(initial=0), weight.max(initial=0))):
        raise UsageError("a weight is more than a year; give nanoseconds")
    return _ReplaceWeights(rows.astype(np.int64), np.broadcast_to(weight, rows.shape).astype(np.int64))
