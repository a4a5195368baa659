r"""How the window's length depends on one thing's time: a convex line with corners where its path changes.

length  |\\                       the steeper, the more of it lies on the path
        | \\______                corner: something else lies on the path from here on
        |        ‾‾‾‾‾‾‾
        1  ◀── factor ── 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.modified_window import ModifiedWindow, PathTotals, modified_path_totals, recorded_path_totals
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import Selector, selected_parts

if TYPE_CHECKING:
    import pandas as pd


Corner = tuple[float, int, int, str | None]

TOLERANCE_NS = 2
"""Sums of a hundred thousand weights that are no whole numbers may be off by a fraction of this."""


@dataclass(frozen=True)
class _Line:
    """The length of one path (ns): ``fixed`` and, for every part of the factor, ``scaled``."""

    fixed: int
    scaled: int
    path: PathTotals

    def at(self, factor: Fraction) -> Fraction:
        return self.fixed + factor * self.scaled

    def meets(self, other: _Line) -> Fraction:
        return Fraction(other.fixed - self.fixed, self.scaled - other.scaled)


@dataclass(frozen=True)
class Curve:
    """A window's predicted length for every factor of one item, from 1 to 0.

    ``corners`` are (factor, predicted_ns, on_path_ns, next), from factor 1 down to 0: between two of them the length is
    a straight line whose slope is on_path_ns; ``next`` is what joins the path at a corner.
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
    none = Fraction(0)
    upper, lower = ((factor, _line_at(base, meant, factor)) for factor in (Fraction(1), none))
    lines = _longest_lines_between(base, meant, upper, lower, within_ns)
    measured = recorded_path_totals(base)[1] - base.window.start_ns
    corners: list[Corner] = [(1.0, measured, lines[0].scaled, None)]
    for steep, flat in pairwise(lines):
        factor = steep.meets(flat)
        corners.append(
            (float(factor), round(steep.at(factor)), flat.scaled, next_on_path(steep.path, flat.path, meant))
        )
    corners.append((0.0, round(lines[-1].at(none)), 0, None))
    return Curve(what, measured, tuple(corners))


def _line_at(base: ReplayGraph, meant: Bools, factor: Fraction) -> _Line:
    draft = ModifiedWindow(base)
    draft.factor[meant] = float(factor)
    # Rounded to whole nanoseconds part by part the length would be no line.
    weight, tails = draft.exact_weights
    values = base.paths.values(weight, base.times - base.window.start_ns)
    path = modified_path_totals(draft, values, weight, tails)
    scaled = int(base.parts.length[path.rows[meant[path.rows]]].sum())
    end = float(base.ends_of(values[base.window.sink.ends][None], tails[None])[0])
    return _Line(round(end - float(factor) * scaled), scaled, path)


def _longest_lines_between(
    base: ReplayGraph, meant: Bools, upper: tuple[Fraction, _Line], lower: tuple[Fraction, _Line], within_ns: int
) -> list[_Line]:
    """Find all lines that are longest somewhere between two factors, from the upper one down.

    Where the lines of both meet either nothing is longer, or another line is: then the same question left and right.
    """
    pending, found = [(upper, lower)], [upper[1]]
    while pending:
        (high, first), (low, last) = pending.pop()
        if first.scaled == last.scaled:
            continue
        at = first.meets(last)
        if not low < at < high:
            found.append(last)
            continue
        between = _line_at(base, meant, at)
        if between.at(at) <= first.at(at) + max(within_ns, TOLERANCE_NS):
            found.append(last)
        else:
            # The upper half is looked at first.
            pending += [((at, between), (low, last)), ((high, first), (at, between))]
    return found


def next_on_path(before: PathTotals, after: PathTotals, meant: Bools) -> str | None:
    """Name what most time is spent with on a path that was not on another one; None where nothing came onto it."""
    several = len(before.base.graph.rank_graphs) > 1
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
