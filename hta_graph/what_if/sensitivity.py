r"""How the window's length depends on one thing's time: a convex line with corners where its path changes.

length  |\\                       the steeper, the more of it lies on the path
        | \\______                corner: something else lies on the path from here on
        |        ‾‾‾‾‾‾‾
        1  ◀── factor ── 0

An iteration that is replayed together with those before lasts from the end of these: its line is the difference of two
such lines, and need not be convex. Where calls of other threads hold the driver's lock, the length is that of replay at
some factors, and a straight line between these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, Ints
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.driver_lock import locked_calls
from hta_graph.what_if.longest_paths import DecidedPaths
from hta_graph.what_if.modified_window import (
    ModifiedWindow,
    PathTotals,
    path_totals_of_decided,
    recorded_path_totals,
    saved_by_scaling,
)
from hta_graph.what_if.replay import Replayed, replay_graph
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import Selector, selected_parts

if TYPE_CHECKING:
    import pandas as pd


Corner = tuple[float, int, int, str | None]

TOLERANCE_NS = 2
"""Sums of a hundred thousand weights that are no whole numbers may be off by a fraction of this."""


@dataclass(frozen=True)
class _Line:
    """The length of one path (ns): ``fixed`` and, for every part of the factor, ``scaled``.

    ``find_others`` finds what else the path consists of, by name; most lines are none of those that are asked for it.
    """

    fixed: int
    scaled: int
    find_others: Callable[[], Mapping[str, Any]]

    def at(self, factor: Fraction) -> Fraction:
        return self.fixed + factor * self.scaled

    def meets(self, other: _Line) -> Fraction:
        return Fraction(other.fixed - self.fixed, self.scaled - other.scaled)

    @cached_property
    def others(self) -> Mapping[str, Any]:
        return self.find_others()


@dataclass(frozen=True)
class Curve:
    """A window's predicted length for every factor of one item, from 1 to 0.

    ``corners`` are (factor, predicted_ns, on_path_ns, next), from factor 1 down to 0: between two of them the length is
    a straight line whose slope is on_path_ns (of an iteration what those before have on their path is subtracted);
    ``next`` is what joins the path at a corner.
    """

    what: str
    measured_ns: int
    corners: tuple[Corner, ...]

    def at(self, factor: float) -> float:
        """Return the predicted length (ns) for a factor from 0 to 1.

        Raises:
            ValueError: the factor is not from 0 to 1.
        """
        if not 0 <= factor <= 1:
            raise ValueError(f"the curve covers factors from 0 to 1, not {factor}")
        known = self.corners[::-1]
        return float(np.interp(factor, [corner[0] for corner in known], [corner[1] for corner in known]))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The corners: factor, predicted_ns, saved_ns, on_path_ns (just below that factor), next."""
        import pandas as pd

        frame = pd.DataFrame(list(self.corners), columns=["factor", "predicted_ns", "on_path_ns", "next"])
        frame.insert(2, "saved_ns", self.measured_ns - frame["predicted_ns"])
        return frame

    def __repr__(self) -> str:
        return f"<Curve {self.what}: {len(self.corners) - 2} corners between 1 and 0>"


def sensitivity(
    graph: DependencyGraph, what: str, window: WindowQuery | None = None, *, within_ns: int = TOLERANCE_NS
) -> Curve:
    """Return the window's predicted length as a curve while the time of something falls from all to none.

    Args:
        graph: one rank's or a job's.
        what: as for :func:`scale`.
        window: as for :func:`critical_path`.
        within_ns: corners that bend the curve by less are omitted; some curves have hundreds.

    Raises:
        QueryError: nothing in the window matches ``what``.
    """
    base = replay_graph(graph, window)
    meant = selected_parts(base, Selector.of(what))
    measured = recorded_path_totals(base)[1] - base.window.start_ns
    replays = _Replays(base, Selector.of(what), meant)
    several = graph.is_job
    ends = _corners(_longest_lines(partial(replays.line, of_previous=False), within_ns), several=several)
    if base.previous is not None:
        starts = _corners(_longest_lines(partial(replays.line, of_previous=True), within_ns), several=several)
        ends = _without_slight_bends(_differences(ends, starts), max(within_ns, TOLERANCE_NS))
    if locked_calls(base) is not None:
        ends = _without_slight_bends(_with_lock(base, meant, ends), max(within_ns, TOLERANCE_NS))
    return Curve(what, measured, ((1.0, measured, *ends[0][2:]), *ends[1:]))


def _corners(lines: Sequence[_Line], *, several: bool) -> list[Corner]:
    """Return where lines that follow each other meet, with the first and the last factor."""
    corners: list[Corner] = [(1.0, round(lines[0].at(Fraction(1))), lines[0].scaled, None)]
    for steep, flat in pairwise(lines):
        factor = steep.meets(flat)
        follows = next_in_columns(steep.others, flat.others, several=several)
        corners.append((float(factor), round(steep.at(factor)), flat.scaled, follows))
    return [*corners, (0.0, round(lines[-1].at(Fraction(0))), 0, None)]


def _differences(ends: Sequence[Corner], starts: Sequence[Corner]) -> list[Corner]:
    """Return the corners of a window's length, given those of when it ends and of when it starts."""
    follows = {factor: following for factor, _, _, following in ends}
    factors = np.unique([corner[0] for corner in (*ends, *starts)])[::-1]
    end, start = (
        np.interp(factors, [one[0] for one in line[::-1]], [one[1] for one in line[::-1]]) for line in (ends, starts)
    )
    lengths = np.rint(np.maximum(end - start, 0)).astype(np.int64).tolist()
    return [(at, length, 0, follows.get(at)) for at, length in zip(factors.tolist(), lengths, strict=True)]


LOCK_FACTORS = 21
"""Waits for the driver's lock jump where calls change their order: the curve is replayed at as many factors."""


def _with_lock(base: ReplayGraph, meant: Bools, corners: Sequence[Corner]) -> list[Corner]:
    """Return the corners of a curve with what calls then wait for the driver's lock."""
    follows = {factor: following for factor, _, _, following in corners}
    factors = np.unique(np.append([corner[0] for corner in corners], np.linspace(0, 1, LOCK_FACTORS)))[::-1]
    found = []
    for factor in factors.tolist():
        draft = ModifiedWindow(base)
        draft.factor[meant] = factor
        found.append((factor, Replayed(draft, ()).predicted_ns, 0, follows.get(factor)))
    return found


def _without_slight_bends(corners: Sequence[Corner], within_ns: int) -> list[Corner]:
    """Leave out corners that bend a line by no more than some time (ns), and give the others the slopes behind them."""
    kept = [corners[0]]
    for corner, following in pairwise(corners[1:]):
        share = (kept[-1][0] - corner[0]) / (kept[-1][0] - following[0])
        if abs(kept[-1][1] + share * (following[1] - kept[-1][1]) - corner[1]) > within_ns:
            kept.append(corner)
    kept.append(corners[-1])
    slopes = [round((high[1] - low[1]) / (high[0] - low[0])) for high, low in pairwise(kept)]
    return [(at, length, slope, follows) for (at, length, _, follows), slope in zip(kept, [*slopes, 0], strict=True)]


@memoized
def _known_without(base: ReplayGraph) -> dict[Selector, DecidedPaths]:
    """Return what is known to be decided in a window without things: a table and curves need the same."""
    return {}


def decided_without(base: ReplayGraph, what: Selector, meant: Bools) -> DecidedPaths:
    """Return what is decided in a window where a thing, which some parts of time are, takes none."""
    known, asked = _known_without(base), what.read_in(base)
    if asked not in known:
        edges, less, _ = next(saved_by_scaling(base, meant, (0.0,)))
        known[asked] = base.contracted.with_savings(*base.contracted.savings(edges, less), base.times)
    return known[asked]


def keep_without(base: ReplayGraph, what: Selector, meant: Bools, entries: Ints, nodes: Ints) -> None:
    """Keep what is then decided, where it was found among many: entries and nodes as in :class:`DecidedPaths`."""
    edges, less, _ = next(saved_by_scaling(base, meant, (0.0,)))
    of_points = base.contracted.savings(edges, less)[1]
    found = base.contracted.with_decided(entries.copy(), nodes.copy(), of_points, base.times)
    _known_without(base)[what.read_in(base)] = found


@memoized
def _decided_as_recorded(base: ReplayGraph) -> DecidedPaths:
    nothing = np.zeros(0, np.int64)
    return base.contracted.with_savings(*base.contracted.savings(nothing, nothing), base.times)


class _Replays:
    """A window in which the time of something is multiplied by factors, replayed once with each."""

    def __init__(self, base: ReplayGraph, what: Selector, meant: Bools) -> None:
        self._base, self._what, self._meant = base, what, meant
        edges, less, tails = next(saved_by_scaling(base, meant, (0.0,)))
        self._of_entries, self._of_points = base.contracted.savings(edges, less)
        self._of_tails = base.tails - tails
        self._known: dict[Fraction, tuple[DecidedPaths, Any, int]] = {}

    def line(self, factor: Fraction, *, of_previous: bool) -> _Line:
        """Return the line of the longest path to the end of the window, or of the one before."""
        base = self._base
        if factor not in self._known:
            self._known[factor] = self._replay(factor)
        found, tails, begins_ns = self._known[factor]
        last = base.last_of(found.values, tails, of_previous=of_previous)
        if last < 0:
            return _Line(base.length_ns, 0, dict)
        passed = found.entries_to(int(base.ends[last]))
        scaled = int(self._of_entries[passed].sum() + self._of_points[last] + self._of_tails[last])
        fixed = round(float(found.values[last] + tails[last] - begins_ns) - float(factor) * scaled)
        return _Line(fixed, scaled, partial(self._others, factor, last))

    def _replay(self, factor: Fraction) -> tuple[DecidedPaths, Any, int]:
        """Return what is decided, the tails of the ends, and when (ns) the window begins."""
        base = self._base
        if factor == 1:
            return _decided_as_recorded(base), base.tails, base.window.start_ns
        if factor == 0:
            return decided_without(base, self._what, self._meant), base.tails - self._of_tails, base.window.start_ns
        # Rounded to whole nanoseconds part by part the length would be no line, and dates are too long for fractions.
        saved, start = 1.0 - float(factor), base.times - base.window.start_ns
        found = base.contracted.with_savings(saved * self._of_entries, saved * self._of_points, start)
        return found, base.tails - saved * self._of_tails, 0

    def _others(self, factor: Fraction, last: int) -> Mapping[str, Any]:
        """Return what the path to an end (its place) consists of, by name, but for what is scaled."""
        draft = ModifiedWindow(self._base)
        draft.factor[self._meant] = float(factor)
        return path_totals_of_decided(draft, self._known[factor][0], last).by_name(~self._meant)


def _longest_lines(line: Callable[[Fraction], _Line], within_ns: int) -> list[_Line]:
    """Find all lines that are longest somewhere, from factor 1 down.

    Where the lines of two factors meet either nothing is longer, or another line is: then the same question left and
    right.
    """
    upper, lower = ((factor, line(factor)) for factor in (Fraction(1), Fraction(0)))
    pending, found = [(upper, lower)], [upper[1]]
    while pending:
        (high, first), (low, last) = pending.pop()
        if first.scaled == last.scaled:
            continue
        at = first.meets(last)
        if not low < at < high:
            found.append(last)
            continue
        between = line(at)
        if between.at(at) <= first.at(at) + max(within_ns, TOLERANCE_NS):
            found.append(last)
        else:
            # The upper half is looked at first.
            pending += [((at, between), (low, last)), ((high, first), (at, between))]
    return found


def next_on_path(before: PathTotals, after: PathTotals, meant: Bools) -> str | None:
    """Name what most time is spent with on a path that was not on another one; None where nothing came onto it."""
    several = before.base.graph.is_job
    return next_in_columns(before.by_name(~meant), after.by_name(~meant), several=several)


def next_in_columns(before: Mapping[str, Any], after: Mapping[str, Any], *, several: bool) -> str | None:
    """Name the same, given the columns of :meth:`PathTotals.by_name` without what was changed; of a job?"""
    gained: dict[tuple[str, int | None], int] = {}
    for sign, of in ((-1, before), (1, after)):
        for name, bound, rank, time in zip(of["name"], of["bound_by"], of["rank"], of["time_ns"], strict=True):
            key = (_description_of(name, bound), rank)
            gained[key] = gained.get(key, 0) + sign * int(time)
    best = max(gained, key=lambda key: gained[key], default=None)
    if best is None or gained[best] <= 0:
        return None
    return f"rank {best[1]}: {best[0]}" if several else best[0]


def _description_of(name: str | None, bound: str) -> str:
    """Name time on a path; between operators it has no owner, whatever frame or annotation lies over it.

    >>> _description_of("ProfilerStep#2", "cpu_gap"), _description_of("aten::mm", "cpu_bound")
    ('time without an operator in ProfilerStep#2', 'aten::mm')
    """
    if bound != BoundBy.CPU_GAP.label and name:
        return name
    return f"time without an operator in {name}" if name else "time without an operator"
